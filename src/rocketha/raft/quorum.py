"""Majorities, plain and joint: what they agree on.

Pure.  A joint configuration needs a majority of the incoming voters and one of the outgoing (Ongaro's thesis, 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum

from rocketha.raft.messages import Members


class VoteResult(Enum):
    """How an election stands."""

    PENDING = 0
    WON = 1
    LOST = 2


def votes(members: Members, member: str) -> bool:
    """Whether a member has a vote in either configuration."""
    return member in members.voters or member in members.outgoing


def agreed(members: Members, reached: Callable[[str], int]) -> int:
    """The largest number that a majority (both, if joint) has reached.

    :param reached: how far a voter is: its match index, or the last round that it answered.
    :returns: 0 if there are no voters.
    """
    if members.outgoing:
        return min(_agreed(members.voters, reached), _agreed(members.outgoing, reached))
    return _agreed(members.voters, reached)


def _agreed(voters: Collection[str], reached: Callable[[str], int]) -> int:
    values = sorted(map(reached, voters))
    return values[(len(values) - 1) // 2] if values else 0


def election(members: Members, cast: Mapping[str, bool], unsure: Collection[str] = ()) -> VoteResult:
    """How an election stands after the votes that came (id -> granted); those of others than voters do not count.

    :param unsure: voters that may have lost what they acknowledged.  Of n voters, m a majority, whatever was committed
        with their help is held by m less their number of the others; n - m + 1 votes of others have one of these among
        them, and the candidate's log is not behind that one's.  All n votes do too: then no better log is left.
    """
    result = _election(members.voters, cast, unsure)
    if members.outgoing:
        other = _election(members.outgoing, cast, unsure)
        if VoteResult.LOST in (result, other):
            return VoteResult.LOST
        return result if result is other else VoteResult.PENDING
    return result


def _election(voters: Collection[str], cast: Mapping[str, bool], unsure: Collection[str]) -> VoteResult:
    majority = len(voters) // 2 + 1
    others = len(voters) - majority
    granted = sum(1 for voter in voters if cast.get(voter) is True)
    refused = sum(1 for voter in voters if cast.get(voter) is False)
    doubtful = sum(1 for voter in voters if voter in unsure and cast.get(voter) is True)
    if granted >= majority and (granted - doubtful > others or granted == len(voters)):
        return VoteResult.WON
    hopeless = refused > others or (refused and refused + doubtful >= majority)
    return VoteResult.LOST if hopeless else VoteResult.PENDING


def present(members: Members, here: Callable[[str], bool]) -> bool:
    """Whether a majority (both, if joint) is there."""
    return election(members, {voter: here(voter) for voter in members.ids()}) is VoteResult.WON
