"""Who leads a Raft group and who belongs to it, and the changes of both that a person or the controller asks for.

What it must not know: connections, the disk.  The core decides what may be tried; here is who waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet import defer

from rocketha.observe.events import RaftHandedOver
from rocketha.observe.logging import emit, make_logger
from rocketha.raft.config import Role
from rocketha.raft.errors import Busy, NotLeader, RaftRefused
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Members
from rocketha.raft.node import RaftNode
from rocketha.services.raft.driver import RaftDriver
from rocketha.services.raft.options import RaftOptions
from rocketha.services.raft.requests import Changes


@attrs.frozen
class GroupAdmin:
    """Of one member.

    :ivar wake: a turn is wanted soon.
    :ivar last: whether a member is to lead only where no other can.
    """

    id: str
    node: RaftNode
    driver: RaftDriver
    changes: Changes
    options: RaftOptions
    wake: Callable[[], None]
    last: Callable[[str], bool]
    log: Any = attrs.field(factory=make_logger)

    def transfer(
        self, to: str, ticks: int | None = None, why: str = "an operator asked for it"
    ) -> defer.Deferred[None]:
        """Hand leadership to a voter; fires when it leads.

        :param why: for who reads of it.
        :raises RaftRefused: why it cannot be tried.
        """
        self.node.transfer(to)
        if to == self.id:
            return defer.succeed(None)
        waiter = self.changes.leads(to, self.driver.tick + (ticks or self.options.transfer_ticks))
        self.wake()

        def told(_: Any) -> None:
            emit(self.log, RaftHandedOver(self.id, to, self.node.term, why))

        return waiter.addCallback(told)

    def hand_over(self, why: str, leaving: frozenset[str] = frozenset()) -> defer.Deferred[Any]:
        """To whoever may lead and has most of the log, so that nobody waits for a timeout; fires when that is over."""
        node = self.node
        if node.role is not Role.LEADER or self.driver.held is not None:
            return defer.succeed(None)
        peers = node.status().peers.items()
        able = [(not self.last(name), peer.match, name) for name, peer in peers if peer.active and peer.healthy]
        for *_, name in sorted((each for each in able if each[2] in node.members.leaders - leaving), reverse=True):
            try:
                waiting = self.transfer(name, self.options.hand_over_ticks, why)
            except RaftRefused:
                continue
            return waiting.addErrback(lambda _: None)
        return defer.succeed(None)

    def change_members(self, change: MembersChange) -> defer.Deferred[Members]:
        """Change who belongs to the group; fires with the members when the change is complete.

        A leader that is to leave hands over first and fails with :class:`NotLeader`: the next one is to be asked.

        :raises RaftRefused: why it cannot be tried.
        """
        node, leaving = self.node, change.remove | frozenset(change.add_learners)
        if self.id in leaving and node.role is Role.LEADER and node.members.leaders - leaving:
            return self.hand_over("this member is to leave the group", leaving).addCallback(
                lambda _: defer.fail(self._elsewhere())
            )
        index = node.propose_members(change)
        waiter = self.changes.members(index, self.driver.tick + self.options.members_ticks)
        self.wake()
        return waiter

    def _elsewhere(self) -> RaftRefused:
        if self.node.role is Role.LEADER:
            return Busy("it is to leave, and nobody else can lead now: try again")
        return NotLeader(self.node.leader_id)
