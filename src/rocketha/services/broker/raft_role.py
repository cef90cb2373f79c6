"""A broker whose role follows from its Raft group: who leads is the master.

Theory of operation.  Each news of the member (:class:`~rocketha.services.raft.service.RaftService`) is compared with
the role that the broker was last ordered to take; where that is another one, it is ordered now.  A leader is the master
once it has everything that was committed before its term, and the newest tables that a majority has.

Where the other brokers' clients send is not in dLegerPeers: a leader says it in the first entry of its term, and so
every follower knows it as soon as it has that; of a Java leader the nameservers say it.

Java: ``DLedgerRoleChangeHandler``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.broker.role import Role
from rocketha.errors import CorruptStore, DiskFailure
from rocketha.observe import events
from rocketha.observe.logging import emit, make_logger
from rocketha.services.broker.role import RoleContext, RoleSource
from rocketha.services.replication.dledger import DLedgerReplication

SUCCESSOR_S = 1.0
"""How long a broker that stops waits to hear where its successor takes requests, to pass them on."""


class RaftRole(RoleSource):
    """See the module."""

    hands_over = True

    def __init__(self, context: RoleContext) -> None:
        replication = context.replication
        assert isinstance(replication, DLedgerReplication)
        self._context = context
        self._replication = replication
        self._raft = replication.raft
        self._watch = context.watch
        self._ordered: tuple[bool, str, int] | None = None  # leads, leader, term
        self._learned = self._reluctant = ""
        self._leaving = False
        self._taking: defer.Deferred[None] = defer.succeed(None)  # the newest tables, before this broker is the master
        self._successor: defer.Deferred[None] | None = None
        self._log = make_logger()
        replication.on_move(self._moved)

    # --- what the broker calls

    def start(self) -> None:
        self._raft.on_role(self._changed)
        self._raft.started.addCallbacks(lambda _: self._changed(), lambda _: None)
        self._raft.startService()

    def learned(self, address: str, ha_address: str) -> None:
        if address and address != self._context.identity.address:
            self._learned = address
            self._find_master()

    def second(self) -> None:
        if self._watch.leads:
            self._watch.members_are(frozenset(self._replication.members))
        self._be_reluctant(self._context.unfit() or self._replication.unwritable())

    def _be_reluctant(self, why: str) -> None:
        """Have another member lead, where one is well and has room; where none is, this one goes on."""
        if why and not self._reluctant:
            emit(self._log, events.MemberReluctant(why))
        self._reluctant = why
        self._raft.reluctant(why)

    def unready(self) -> str | None:
        if self._raft.is_leader and self._replication.role is not Role.MASTER:
            return "this member leads, and is not the master yet: a majority has to say what topics and groups it has"
        return "no leader is known" if self._replication.role is Role.FENCED else None

    @defer.inlineCallbacks
    def leave(self) -> Generator[Any, Any, None]:
        """Hand the leadership over while the broker still serves."""
        raft = self._raft
        if raft.is_leader:
            why = "this broker stops"
            emit(self._log, events.MasterRetires(why))
            self._replication.retire(why)
            self._watch.unknown()
            self._leaving = True
            yield raft.admin.hand_over(why)
            if raft.leader_id and raft.leader_id != raft.id and self._watch.address is None:
                self._successor = defer.Deferred()
                self._successor.addTimeout(SUCCESSOR_S, self._context.platform.reactor)
                yield self._successor.addErrback(lambda _: None)
        self._leaving = True
        self._taking.cancel()
        yield raft.stopService()

    # --- news

    def _changed(self) -> None:
        raft = self._raft
        if not raft.ready:
            return
        leads, term = raft.is_leader, raft.node.term
        now = (leads, raft.leader_id, term)
        if now == self._ordered:
            return
        self._ordered = now
        self._taking.cancel()
        if leads:
            self._lead(term)
        else:
            self._follow(raft.leader_id)

    def _lead(self, term: int) -> None:
        self._watch.unknown()

        def leads(_: None) -> None:
            emit(self._log, events.MasterLeads(self._replication.own_id, term))
            if not self._leaving:
                self._watch.own(term, frozenset(self._replication.members))

        replication, raft = self._replication, self._raft
        newest: defer.Deferred[None] = defer.succeed(None)
        if replication.stamps_tables:  # where Java's members say no terms nobody knows which are the newest
            newest = self._taking = self._context.take_newest(raft.id, lambda: raft.node.members)

        def taken(_: None) -> defer.Deferred[None]:
            self._taking = defer.succeed(None)  # what follows is not to be cancelled: a thread works on the log
            return replication.lead()

        newest.addCallback(taken).addCallback(leads).addErrback(self._not_ordered)

    def _follow(self, leader: str) -> None:
        self._learned = ""
        self._watch.unknown()
        following = self._replication.follow(leader)
        following.addCallback(lambda _: self._find_master()).addErrback(self._not_ordered)

    def _not_ordered(self, failure: Failure) -> None:
        if failure.check(defer.CancelledError):
            return
        if failure.check(CorruptStore, DiskFailure):
            self._raft.unhealthy(failure.getErrorMessage())
            return
        self._log.error("{trace}", trace=failure.getTraceback())
        self._context.platform.end(f"the broker's role: {failure.getErrorMessage()}")

    def _moved(self) -> None:
        if self._replication.role is Role.SLAVE and not self._replication.master_address:
            self._find_master()

    def _find_master(self) -> None:
        """Where a follower's leader takes requests, once that is known."""
        replication = self._replication
        if replication.role is not Role.SLAVE or not replication.leader or replication.master_address:
            return
        address = replication.leader_address() or self._learned
        if not address:
            return
        replication.found(address)
        keys = self._context.keys
        number = keys.dledger_id(replication.leader)
        emit(self._log, events.MasterFollowed(number, address, replication.epoch))
        self._watch.other(address, replication.epoch, number)
        if self._successor is not None and not self._successor.called:
            self._successor.callback(None)
