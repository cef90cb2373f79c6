"""Operators who wait for the group to change: its leader, or its members.

What it must not know: the core, connections, the disk.
"""

from __future__ import annotations

from twisted.internet import defer

from rocketha.errors import RockethaError
from rocketha.raft.messages import Members


class NotDone(RockethaError):
    """What was asked for was begun and did not come about in time; it still may."""


class Changes:
    """Who waits for which change; deadlines are ticks."""

    def __init__(self) -> None:
        self._leads: list[tuple[str, int, defer.Deferred[None]]] = []
        self._members: list[tuple[int, int, defer.Deferred[Members]]] = []

    def leads(self, member: str, until_tick: int) -> defer.Deferred[None]:
        """Fires when this member leads."""
        waiter: defer.Deferred[None] = defer.Deferred()
        self._leads.append((member, until_tick, waiter))
        return waiter

    def members(self, index: int, until_tick: int) -> defer.Deferred[Members]:
        """Fires when the change that began with entry ``index`` is complete."""
        waiter: defer.Deferred[Members] = defer.Deferred()
        self._members.append((index, until_tick, waiter))
        return waiter

    def leader(self, member: str) -> None:
        """This member leads now."""
        done = [each for each in self._leads if each[0] == member]
        self._leads = [each for each in self._leads if each[0] != member]
        for _, _, waiter in done:
            waiter.callback(None)

    def applied(self, index: int, members: Members) -> None:
        """A membership entry was applied."""
        if members.outgoing:
            return
        done = [each for each in self._members if each[0] <= index]
        self._members = [each for each in self._members if each[0] > index]
        for _, _, waiter in done:
            waiter.callback(members)

    def expire(self, tick: int) -> None:
        """It is this tick: give up what takes too long."""
        if self._leads:
            late = [each for each in self._leads if each[1] <= tick]
            self._leads = [each for each in self._leads if each[1] > tick]
            for member, _, waiter in late:
                waiter.errback(NotDone(f"{member} does not lead yet"))
        if self._members:
            stale = [each for each in self._members if each[1] <= tick]
            self._members = [each for each in self._members if each[1] > tick]
            for index, _, change in stale:
                change.errback(NotDone(f"the membership change of entry {index} is not complete yet"))

    def end(self) -> None:
        """The service stops."""
        self.expire(1 << 62)
