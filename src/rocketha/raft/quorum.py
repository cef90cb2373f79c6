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


def election(members: Members, cast: Mapping[str, bool]) -> VoteResult:
    """How an election stands after the votes that came (id -> granted); those of others than voters do not count."""
    result = _election(members.voters, cast)
    if members.outgoing:
        other = _election(members.outgoing, cast)
        if VoteResult.LOST in (result, other):
            return VoteResult.LOST
        return result if result is other else VoteResult.PENDING
    return result


def _election(voters: Collection[str], cast: Mapping[str, bool]) -> VoteResult:
    majority = len(voters) // 2 + 1
    granted = sum(1 for voter in voters if cast.get(voter) is True)
    refused = sum(1 for voter in voters if cast.get(voter) is False)
    if granted >= majority:
        return VoteResult.WON
    return VoteResult.LOST if refused > len(voters) - majority else VoteResult.PENDING


def present(members: Members, here: Callable[[str], bool]) -> bool:
    """Whether a majority (both, if joint) is there."""
    return election(members, {voter: here(voter) for voter in members.ids()}) is VoteResult.WON
