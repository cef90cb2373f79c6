"""What is done with the core's Readys: the order of saving, syncing, sending, applying, and what a disk may do to it.

Decides nothing about Raft.

Theory of operation: one call of :meth:`RaftDriver.advance` is one turn, see :mod:`rocketha.services.raft.service`.  A
Ready that cannot be saved is held, and so is one whose snapshot is being installed, or for which the store has to make
way: meanwhile no other is taken, so that nothing is ever promised or applied that the disk lacks.  What promises
nothing is said all the same, if term and vote are saved: that this member lives, and that its disk does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs
from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import DiskFailure
from rocketha.observe.events import DiskRestored
from rocketha.observe.logging import emit, emit_disk_failure, make_logger
from rocketha.protocols.raft_peers import RaftPeers
from rocketha.raft.config import Role
from rocketha.raft.errors import NotLeader, RaftRefused, Transferring
from rocketha.raft.messages import COMMIT_ONLY, Kind, Message, Ready
from rocketha.raft.node import RaftNode
from rocketha.services.raft.journal import RaftJournal
from rocketha.services.raft.newcomer import Newcomer
from rocketha.services.raft.options import RaftOptions
from rocketha.services.raft.store import Applying, RaftStore
from rocketha.services.raft.waiting import Waiters

GATHER_TICKS = 2
"""Proposals wait for the present sync, but not for one that takes longer than this."""


class Host(Protocol):
    """What the driver tells its service."""

    def wake(self) -> None:
        """A turn is wanted soon."""

    def guarded(self, call: Callable[[], None]) -> None:
        """Run a call unless all is over; what it raises ends the process."""

    def broken(self, failure: Failure) -> None:
        """This node cannot go on."""

    def office_changed(self) -> None:
        """Role, term or leader changed, or the leader became able to serve."""

    def members_changed(self) -> None:
        """``node.members`` changed."""


class RaftDriver:
    """Carries out what the core wants.

    :param store: of the log.
    :param applier: of what is committed.
    :param seconds: a clock that never goes back, for leases; None where there are none.
    :ivar tick: ticks since the start.
    :ivar held: a Ready that is not saved yet.
    :ivar leads: whether this node leads and has applied everything before its term.
    """

    def __init__(
        self,
        host: Host,
        node: RaftNode,
        store: RaftStore,
        applier: Applying,
        peers: RaftPeers,
        waiters: Waiters,
        newcomer: Newcomer,
        options: RaftOptions,
        seconds: Callable[[], float] | None,
    ) -> None:
        self.node = node
        self.raft_log = store.log
        self.applier = applier
        self.newcomer = newcomer
        self.tick = 0
        self.held: Ready | None = None
        self.leads = False
        self.journal = RaftJournal(store, self._synced, host.broken)
        self._host = host
        self._store = store
        self._peers = peers
        self._proposals, self._barriers = waiters.proposals, waiters.barriers
        self._options = options
        self._members = node.members
        self._seconds = seconds
        self._began_s = seconds() if seconds is not None else 0.0
        self._busy = False  # what is held is being worked on
        self._unhealthy_until: int | None = None
        self._disk_failed = False  # and that was told
        self._commits: dict[str, Message] = {}  # word of commits that waits for the next tick, by peer
        self._commits_tick = 0
        self._log = make_logger()

    # --- a turn

    def advance(self) -> None:
        """One turn."""
        node = self.node
        if self._proposals.queued:
            self._propose()
        if self.held is None:
            self._read()
            self._carry_out()
        else:
            for message in self.node.messages_meanwhile(*self.raft_log.voted):
                self._peers.send(message)
        if self._commits and self.tick > self._commits_tick:
            self._say_commits()
        self._peers.flush()  # first: the way to the others and back is longer than the own sync
        if not self._busy:
            self.journal.kick(self.tick)
        if self.applier.pending():
            self.applier.run()
            if not self.leads and node.role is Role.LEADER and self.applier.last_term == node.term:
                self.leads = True
                self._host.office_changed()
            if self.applier.pending() or (self.held is None and node.has_ready()):
                self._host.wake()

    def _propose(self) -> None:
        node = self.node
        if node.role is not Role.LEADER:
            self._proposals.refuse(NotLeader(node.leader_id))
            return
        since = self.journal.syncing_since
        if since is not None and self.tick - since < GATHER_TICKS:
            return  # they go with the next sync, and in one message to each follower
        try:
            self._proposals.proposed(node.propose(self._proposals.queue()), node.term)
        except Transferring:
            return  # soon the other leads and they are refused with its name; or it fails and they are proposed
        except RaftRefused as refusal:
            self._proposals.refuse(refusal)

    def _read(self) -> None:
        context = self._barriers.begin(self.tick)
        for over in self._barriers.over():
            self.node.forget_read(over)
        if context is not None:
            self._tell_time()
            try:
                self.node.read_index(context)
            except RaftRefused:
                self._barriers.retry()

    def _carry_out(self) -> None:
        node = self.node
        while self.held is None and (ready := node.take_ready()) is not None:
            for message in ready.messages_now:
                self._say(message)
            if ready.leader_changed:
                self._office_changed()
            if ready.lost_reads:
                self._barriers.lost(ready.lost_reads)
            self._save(ready)

    def _say(self, message: Message) -> None:
        """Queue a message, but let word of a commit alone wait until the next tick for one that says the same.

        While proposals come, the next APPEND does; else every commit would wake each follower once more.
        """
        kind, to = message.kind, message.to
        if kind == Kind.APPEND and message.context == COMMIT_ONLY and to in self.node.members.addresses:
            if not self._commits:
                self._commits_tick = self.tick
            self._commits[to] = message
            return
        if self._commits and kind in (Kind.APPEND, Kind.HEART_BEAT):
            self._commits.pop(to, None)
        self._peers.send(message)

    def _say_commits(self) -> None:
        commits, self._commits = self._commits, {}
        for message in commits.values():
            self._peers.send(message)

    # --- saving

    def _save(self, ready: Ready) -> None:
        """Save a Ready and go on with it, or hold it."""
        if ready.snapshot is not None:
            self._install(ready)
            return
        way = self._store.way(ready.entries[0].index) if ready.entries else None
        if way is not None:
            self._work_on(ready, way, self._go_on)
            return
        if ready.hard_state is not None or ready.entries:
            after = ready.messages_after_sync if ready.entries else ()
            try:
                self.journal.save(ready.hard_state, ready.entries, after)
            except DiskFailure as failure:
                self._not_saved(ready, failure)
                return
        if not ready.entries:
            # Term and vote are on the disk already.
            for message in ready.messages_after_sync:
                self._peers.send(message)
        if self.node.members is not self._members:
            self._members = self.node.members
            self._host.members_changed()
        self.applier.committed(ready.committed)
        if ready.reads:
            self._barriers.confirmed(ready.reads)
            self._barriers.applied(self.node.applied)

    def _synced(self, index: int, term: int, after: list[Message]) -> None:
        def go_on() -> None:
            self.node.persisted(index, term)
            for message in after:
                self._peers.send(message)
            self.advance()

        self._host.guarded(go_on)

    # --- a snapshot that was received

    def _install(self, ready: Ready) -> None:
        assert ready.snapshot is not None
        self.held = ready
        # It holds what they led to; a snapshot of our own could not be made of a state in between either.
        self.applier.give_up()
        try:
            if ready.hard_state is not None:
                self.journal.save(ready.hard_state, (), ())
        except DiskFailure as failure:
            self._not_saved(ready, failure)
            return
        meta, data = ready.snapshot
        self._log.info(
            "raft: installing a snapshot of {size} bytes up to entry {index}", size=len(data), index=meta.index
        )
        self._work_on(ready, self.applier.install(meta, data), self._installed)

    def _installed(self) -> None:
        ready, self.held, self._busy = self.held, None, False
        assert ready is not None and ready.snapshot is not None
        meta = ready.snapshot[0]
        self._proposals.skipped_to(meta.index)
        self.node.persisted_snapshot(meta)
        self.applier.skipped_to(meta)
        self._save(attrs.evolve(ready, snapshot=None, hard_state=None))
        self.advance()

    def _work_on(self, ready: Ready, done: defer.Deferred[None], then: Callable[[], None]) -> None:
        """Hold a Ready until something is done for it."""
        self.held, self._busy = ready, True
        done.addCallbacks(
            lambda _: self._host.guarded(then), lambda failure: self._host.guarded(lambda: self._not_done(failure))
        )

    def _go_on(self) -> None:
        ready, self.held, self._busy = self.held, None, False
        assert ready is not None
        self._save(ready)
        self.advance()

    def _not_done(self, failure: Failure) -> None:
        self._busy = False
        if isinstance(failure.value, DiskFailure) and self.held is not None:
            self._not_saved(self.held, failure.value)
        else:
            self._host.broken(failure)

    # --- a failing disk

    def _not_saved(self, ready: Ready, failure: DiskFailure) -> None:
        self.held = ready
        if self.raft_log.failed is not None:
            self._host.broken(Failure(failure))
            return
        if not self._disk_failed:
            self._disk_failed = True
            emit_disk_failure(self._log, failure)
        self.unhealthy(str(failure))

    def unhealthy(self, reason: str) -> None:
        """The disk fails or crawls: do not lead with it."""
        if self._unhealthy_until is None:
            self._log.error(
                "the disk of {id} fails, it will not lead: {reason}", id=self.node.status().id, reason=reason
            )
            for message in self.node.unhealthy(reason):
                self._peers.send(message)
            self._peers.flush()
            if self.held is not None:  # no Ready will say so
                self._office_changed()
        self._unhealthy_until = self.tick + self._options.healthy_again_ticks

    def step(self, messages: list[Message]) -> None:
        """Messages of a peer."""
        node, newcomer = self.node, self.newcomer
        self._tell_time()
        for message in messages:
            if newcomer.behind:
                node.unsure = True  # whatever it concluded from the message before
                newcomer.heard(message)
            node.step(message)

    def campaign(self) -> None:
        """The leader's port refused a connection some milliseconds ago: stand for election unless it is heard again."""
        if self.newcomer.behind:
            self.node.unsure = True
        self.node.campaign_if_leader_gone()
        self.advance()

    def _tell_time(self) -> None:
        """Before a lease may be used: a process that is late with its ticks must not take it for longer."""
        if self._seconds is not None:
            self.node.time_is(int((self._seconds() - self._began_s) / self._options.tick_s))

    @property
    def lease_holds(self) -> bool:
        """Whether nobody else can lead, at this moment."""
        self._tell_time()
        return self.node.lease_holds

    def tick_passed(self) -> None:
        """One tick."""
        self.tick += 1
        self._tell_time()
        if self.newcomer.behind:
            self.node.unsure = not self.newcomer.look(self.node)
        self.node.tick()
        self._watch()

    def _watch(self) -> None:
        """Each tick: is the disk well?"""
        since, tick = self.journal.syncing_since, self.tick
        if since is not None and tick - since >= self._options.slow_sync_ticks:
            self.unhealthy(f"a sync has been running for {round((tick - since) * self._options.tick_s, 1)} s")
        elif self._unhealthy_until is not None and tick >= self._unhealthy_until and self.held is None:
            self._unhealthy_until, self._disk_failed = None, False
            emit(self._log, DiskRestored())
            self.node.healthy()

    def retry(self) -> None:
        """Now and then: save what could not be saved."""
        if self.held is not None and not self._busy:
            ready, self.held = self.held, None
            self._save(ready)

    # --- office

    def _office_changed(self) -> None:
        if self.node.role is not Role.LEADER:
            self._proposals.office_lost(self.node.leader_id, self.tick + self._options.settle_ticks)
        self.leads = False
        self._host.office_changed()

    def compacted(self, _: Any = None) -> None:
        """The log's snapshot moved."""
        self._host.guarded(self.node.compacted)
