"""What the core refuses its own side.  A peer's message is never answered with an exception."""

from __future__ import annotations

from rocketha.errors import RockethaError


class RaftRefused(RockethaError):
    """The root of these: the call had no effect."""


class NotLeader(RaftRefused):
    """Only the leader can do that.

    :param leader_id: who leads, as far as known; "" if nobody.
    """

    def __init__(self, leader_id: str) -> None:
        super().__init__(f"not the leader; the leader is {leader_id or 'unknown'}")
        self.leader_id = leader_id


class Busy(RaftRefused):
    """Too much is waiting to be committed, or another membership change is: try again."""


class Transferring(RaftRefused):
    """Leadership is being handed to ``to``: try again there."""

    def __init__(self, to: str) -> None:
        super().__init__(f"leadership is being transferred to {to}")
        self.to = to


class UnknownMember(RaftRefused):
    """The id is not a voter of the group."""


class LagsTooMuch(RaftRefused):
    """The node may not lead now, nor begin to vote: it lags, was not heard of, or its disk is failing."""


class MembersRefused(RaftRefused):
    """The membership change makes no sense; the text says why."""
