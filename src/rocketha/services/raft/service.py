"""A member of a Raft group as a Twisted service: the driver of :class:`~rocketha.raft.node.RaftNode`.

Decides nothing about Raft.  Nothing is opened before ``startService``.

Theory of operation.  Whatever happens (a message, a proposal, a tick, a sync that is done) is told to the core or
queued, and one *turn* follows in the reactor's next round: all proposals become one call of the core; each Ready is
carried out in the order that its fields ask for (save, then sync in a thread, then send what promises something,
then apply); each peer gets one write.  While a sync runs proposals gather, so that the number of syncs follows the
disk and not the clients.  Entries are applied for some milliseconds a turn at most.

Time is ticks: one for each call of the clock however late it comes, so a process that stood still does not believe
that its leader was silent meanwhile.

Disk.  A write that fails is tried again and makes the node step down until the disk has worked for a while; a sync
that fails ends the process (:mod:`rocketha.services.process.fatal`): what reached the disk is unknown then.  So does
any breach of the core's rules and any exception of the state machine, for replicas that go on would differ.

Java: DLedger's ``DLedgerServer``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from twisted.application import service
from twisted.internet import defer, task
from twisted.python.failure import Failure

from rocketha.errors import ConfigError, CorruptStore, DiskFailure
from rocketha.observe import events
from rocketha.observe.logging import emit, emit_disk_failure, make_logger
from rocketha.observe.refusals import Refusals
from rocketha.protocols.raft import Identity, RaftLimits
from rocketha.protocols.raft_peers import RaftPeers
from rocketha.protocols.raft_port import RaftPort
from rocketha.protocols.turn import Turn
from rocketha.raft.config import RaftConfig, Role
from rocketha.raft.errors import Busy, MembersRefused, NotLeader
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Entry, Members, Message
from rocketha.raft.node import RaftNode
from rocketha.services.process.platform import Platform
from rocketha.services.process.ticker import Ticker
from rocketha.services.raft.addresses import AddressBook
from rocketha.services.raft.driver import RaftDriver
from rocketha.services.raft.group_admin import GroupAdmin
from rocketha.services.raft.java_members import Dialect, JavaMembers
from rocketha.services.raft.newcomer import Newcomer
from rocketha.services.raft.options import RaftMember, RaftOptions, RaftView
from rocketha.services.raft.requests import Changes
from rocketha.services.raft.store import Member, RaftStore
from rocketha.services.raft.waiting import Barriers, NoMajority, Proposals, Waiter, Waiters

SECOND_TICKS = 20


class RaftService(service.Service):
    """One member.

    :param member: who this is.
    :param store: its log, and what becomes of committed entries.
    :param platform: its chance is that of election timeouts and jitter.
    :param turn: of the remoting ports whose requests are answered by outcomes: those of one commit leave together.
    :param refusals: of the server that this is a part of: told of connections that are given up.
    :param dialect: makes who speaks for members that are Java's; None where there can be none.
    :ivar others: those; None where there can be none, and before the log is recovered.
    :ivar port: makes the protocols of incoming connections: for ``SharedPort``, or a port of its own.
    :ivar started: fires when the log is recovered and the member takes part.
    """

    def __init__(
        self,
        member: RaftMember,
        store: RaftStore,
        platform: Platform,
        options: RaftOptions | None = None,
        config: RaftConfig | None = None,
        limits: RaftLimits | None = None,
        turn: Turn | None = None,
        refusals: Refusals | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        if member.id not in member.peers:
            raise ConfigError(f"{member.id!r} is not among the peers {', '.join(member.peers)}")
        self.setName("raft")
        self.id = member.id
        self.config, self.options = config or RaftConfig(id=member.id), options or RaftOptions()
        self.log = make_logger()
        self.started: defer.Deferred[None] = defer.Deferred()
        self.others: JavaMembers | None = None
        self._dialect = dialect
        self._member = member
        self._store = store
        self._platform = platform
        self._reactor, self._disk, self._chance = platform.reactor, platform.disk, platform.chance
        self._turn_of_answers = turn or Turn()
        chance, address = platform.chance, member.peers[member.id]
        self.identity = Identity(
            member.group, member.id, address, chance.getrandbits(63), member.secret, member.vouches
        )
        self.port = RaftPort(self.identity, self, limits, self.options.check_addresses, refusals)
        opt = self.options
        self._waiters = Waiters(
            Proposals(opt.queued_proposals_max, opt.queued_bytes_max, opt.proposal_bytes_max, opt.propose_ticks),
            Barriers(chance.getrandbits(61), opt.read_ticks, opt.heartbeats_ticks),
            Changes(),
        )
        self._node: RaftNode | None = None
        self._addresses = AddressBook(member.peers, self.options.linger_ticks)
        self._roles: list[Callable[[], None]] = []
        self._told: list[Callable[[Members], None]] = []
        self._scheduled = self._campaigning = cast(Any, None)
        self._ticker: Ticker | None = None
        self._lookout = platform.stalls.lookout(self.options.tick_s, self.options.pause_s)
        self._dead = False
        self._leader_told, self._members_told = ("", 0), ""
        self._stopping: defer.Deferred[Any] | None = None
        self.turns = 0

    # --- life

    def startService(self) -> None:
        """Twisted: recover the log in a thread, then take part; ``started`` fires then."""
        super().startService()
        self._opening: defer.Deferred[None] = self._store.open().addCallback(self._recovered)
        self._opening.addErrback(self._not_started)

    def _recovered(self, _: None) -> None:
        if not self.running or self._dead:
            return
        log = self._store.log
        for note in log.notes:
            self.log.warn("raft log: {note}", note=note)
        self._build()
        node = self.node
        self._lookout.begin()
        self._ticker = Ticker(self._reactor, functools.partial(self.guarded, self._tick), self.options.tick_s)
        self._ticker.start()
        emit(
            self.log,
            events.RaftStarted(self.id, self.identity.group, node.term, log.last_index(), _members_text(node.members)),
        )
        self.wake()
        self.started.callback(None)

    def _build(self) -> None:
        store, log = self._store, self._store.log
        node = RaftNode(self.config, log, self._chance)
        applier = store.applying(
            Member(node, self._waiters, self._turn_of_answers, lambda: self._driver.compacted(), self.broken)
        )
        if self._dialect is not None:
            self.others = self._dialect(node, self)
        self._peers = RaftPeers(
            self._platform.dialer, self.identity, self, self._chance, self.port.limits, self.port.refusals, self.others
        )
        newcomer = Newcomer(self._disk, self._member.directory, log, self.config.cautious)
        self._driver = RaftDriver(
            self,
            node,
            store,
            applier,
            self._peers,
            self._waiters,
            newcomer,
            self.options,
            self._reactor.seconds if self.config.lease_reads or self.config.sticky_lease else None,
        )
        self._node = node  # last: who sees a node finds all that belongs to it
        self.members_changed()

    def _not_started(self, failure: Failure) -> None:
        text = failure.getErrorMessage()
        emit_disk_failure(self.log, failure.value)
        if not failure.check(ConfigError, DiskFailure, CorruptStore):
            self.log.error("{trace}", trace=failure.getTraceback())
        self._fatal(f"the raft log of {self.id} in {self._member.directory} can not be used: {text}")
        if not self.started.called:
            self.started.addErrback(lambda _: None).errback(failure)

    def stopService(self) -> defer.Deferred[Any]:
        """Twisted: hand leadership over (for a second at most), then leave in order."""
        if self._stopping is None:
            self._stopping = self._stop()
        return self._stopping

    @defer.inlineCallbacks
    def _stop(self) -> Any:
        yield self._opening
        if self._node is not None and not self._dead:
            yield self.admin.hand_over("this member stops")
            # What says that another one leads comes from inside a turn: let that end first.
            yield task.deferLater(self._reactor, 0, int)
        yield defer.maybeDeferred(super().stopService)
        self._leave("this node stops")
        if self._node is not None:
            yield self._driver.journal.underway.idle()
        yield self._store.close().addErrback(self._not_closed)

    def _not_closed(self, failure: Failure) -> None:
        self._fatal(f"the raft log of {self.id} could not be closed: {failure.getErrorMessage()}", leaving=True)

    # --- what the controller asks

    @property
    def node(self) -> RaftNode:
        """The core; there once ``started`` fired."""
        if self._node is None:
            raise RuntimeError("the raft service is not started")
        return self._node

    @property
    def is_leader(self) -> bool:
        """Whether this member leads and its state machine holds everything from before its term."""
        return self._node is not None and not self._dead and self._driver.leads

    @property
    def lease_holds(self) -> bool:
        """Whether this member leads, and by the clock of this moment no other one can."""
        return self.is_leader and self._driver.lease_holds

    @property
    def leader_id(self) -> str:
        """Who leads, as far as this member knows; "" for nobody."""
        return self._node.leader_id if self._node is not None else ""

    @property
    def leader_address(self) -> str:
        """``host:port`` of who leads; "" for nobody."""
        return self.address_of(self.leader_id) or "" if self.leader_id else ""

    def on_role(self, changed: Callable[[], None]) -> None:
        """Call this whenever ``is_leader`` or ``leader_id`` changed."""
        self._roles.append(changed)

    def propose(self, data: bytes) -> defer.Deferred[Any]:
        """The outcome of applying an entry with this data.

        Fails with :class:`NotLeader`, :class:`Busy` (nothing happened), :class:`NotApplied` (nothing happened), or
        :class:`ResultUnknown`.
        """
        outcome: defer.Deferred[Any] = defer.Deferred()
        self.propose_for(outcome, data)
        return outcome

    def propose_for(self, waiter: Waiter, data: bytes) -> None:
        """The same for who has no need of a Deferred: a fifth of a leader's Python for one of thousands a second."""
        node = self._node
        if node is None or self._dead or node.role is not Role.LEADER or self._driver.held is not None:
            waiter.errback(NotLeader("" if self.leader_id == self.id else self.leader_id))
            return
        try:
            self._waiters.proposals.add(data, self._driver.tick, waiter)
        except Busy as refusal:
            waiter.errback(refusal)
            return
        self.wake()

    @property
    def has_unsaved(self) -> bool:
        """Whether entries that the core has are not in the store yet: whatever is stored now would take their place."""
        return self._driver.held is not None or self.node.has_unsaved

    def check_room(self, count: int) -> None:
        """See that so many more entries may be put into the store and then told to :meth:`stored`, in the same turn.

        :raises NotLeader: on others.
        :raises Busy: too much is uncommitted, or see :attr:`has_unsaved`.
        :raises Transferring: leadership is being handed on.
        """
        if self.has_unsaved:
            raise Busy("entries wait to be saved")
        self.node.check_room(count, 0)

    def stored(self, entries: Sequence[Entry]) -> None:
        """Replicate entries that the store has already, behind all others; :meth:`check_room` was asked before."""

        def tell() -> None:
            self.node.stored(entries)
            self._driver.journal.written()

        self.guarded(tell)
        self.wake()

    def unhealthy(self, reason: str) -> None:
        """Do not lead for a while: what this member keeps does not work."""
        if self.ready:
            self.guarded(lambda: self._driver.unhealthy(reason))

    def reluctant(self, reason: str) -> None:
        """Have another member lead where one can that has no reason not to; "": that is over."""
        if self.ready:
            self.node.reluctant(reason)
            if reason and self.is_leader:
                self.admin.hand_over(reason)

    def barrier(self) -> defer.Deferred[None]:
        """Fires when the state machine holds everything that was acknowledged before this call.

        Fails with :class:`NoMajority` when that cannot be found out in time.
        """
        if self._node is None or self._dead:
            return defer.fail(NoMajority("this node does not run"))
        waiter = self._waiters.barriers.add(self._driver.tick)
        self.wake()
        return waiter

    @property
    def admin(self) -> GroupAdmin:
        """Who leads and who belongs to the group, and changes of both; there once ``started`` fired."""
        changes, last = self._waiters.changes, self._is_java
        return GroupAdmin(self.id, self.node, self._driver, changes, self.options, self.wake, last)

    def _is_java(self, member: str) -> bool:
        return self.others is not None and self.others.speaks(member)

    def transfer(self, to: str, ticks: int | None = None) -> defer.Deferred[None]:
        return self.admin.transfer(to, ticks)

    def change_members(self, change: MembersChange) -> defer.Deferred[Members]:
        """See :meth:`GroupAdmin.change_members`.

        :raises MembersRefused: a member that stays is Java's, too.
        """
        staying = (name for name in self.node.members.ids() if name not in change.remove)
        java = [name for name in staying if self.others is not None and self.others.spoke(name)]
        if java:
            raise MembersRefused(f"{', '.join(java)} can not be told of a change: Java's members know of none")
        return self.admin.change_members(change)

    def status(self) -> RaftView:
        """For metrics and people."""
        driver, waiters = self._driver, self._waiters
        return RaftView(
            node=self.node.status(),
            is_leader=self.is_leader,
            peers=self._peers.views(),
            hears=tuple(self.port.connected),
            proposals_waiting=waiters.proposals.queued + waiters.proposals.waiting,
            reads_waiting=waiters.barriers.waiting,
            syncs=driver.journal.syncs,
            entries_applied=driver.applier.count,
            first_index=driver.raft_log.first_index(),
            snapshot_index=driver.raft_log.snapshot().index,
            snapshots_made=driver.applier.made,
            snapshots_received=driver.applier.received,
            connections_refused=self.port.refused_count,
        )

    # --- what connections say

    def received(self, messages: list[Message]) -> None:
        """Messages of one read of a peer."""
        node = self._node
        if node is None or self._dead:
            return
        try:
            self._driver.step(messages)
        except Exception:
            self.broken(Failure())
            return
        self.wake()

    def address_of(self, member: str) -> str | None:
        """Where a member lives; None for who is no member as far as we know."""
        return self._addresses.get(member)

    def encoded_members(self) -> bytes:
        """The members as we know them."""
        return self._addresses.members.encode()

    def peer_up(self, member: str, last_index: int) -> None:
        """A member connected to us: it lives, so reach it now."""
        self.peer_history(last_index)
        if self.others is not None:
            self.others.is_ours(member)
        if self._addresses.spoke(member, last_index, self._driver.tick):
            self._dial()
        self._peers.hurry(member)

    def java_spoke(self, member: str) -> None:
        """A member spoke to us in Java's words: it lives, so reach it now."""
        self._peers.java_spoke(member)

    def peer_history(self, last_index: int) -> None:
        """A member has a log up to there: if we have none, ours was lost."""
        self.guarded(lambda: self._driver.newcomer.history(last_index))

    def peer_reached(self, member: str, last_index: int) -> None:
        """A member took our connection: it lives, and has a log up to there."""
        self.peer_history(last_index)
        if self._node is not None and not self._dead:
            self._node.peer_reached(member)
            self.wake()

    def last_index(self) -> int:
        """The newest entry of our log."""
        return self._driver.raft_log.last_index()

    @property
    def ready(self) -> bool:
        """Whether the log is recovered and we take part."""
        return self._node is not None and not self._dead

    def peer_refused(self, member: str) -> None:
        """Its port refused a connection."""
        if self._node is None or self._dead:
            return
        delay_ms = self._node.peer_refused(member)
        if delay_ms and self._campaigning is None:
            self._campaigning = self._reactor.callLater(delay_ms / 1000, self.guarded, self._campaign)
        self.wake()

    def _campaign(self) -> None:
        self._campaigning = None
        self._driver.campaign()

    def peer_lost(self, member: str) -> None:
        """Messages to it were lost."""
        if self._node is not None and not self._dead:
            self._node.unreachable(member)
            self.wake()

    def on_told(self, told: Callable[[Members], None]) -> None:
        """Call this with the members whenever another one says who they are."""
        self._told.append(told)

    def learned(self, members: Members, last_index: int) -> None:
        """A member told us who belongs to the group: we may have been away when that changed."""
        for told in self._told:
            told(members)
        if self._addresses.told(members, last_index, self.last_index(), self._driver.tick):
            self._dial()

    # --- time

    def _tick(self) -> None:
        driver = self._driver
        if self._lookout.look():
            self.node.stood_still()
        driver.tick_passed()
        tick = driver.tick
        if tick % SECOND_TICKS == 0:
            self.port.sweep()
            self._peers.sweep()
            if self._addresses.expire(tick, self.last_index()):
                self._dial()
            driver.retry()
        self._waiters.expire(tick)
        driver.advance()

    # --- turns

    def wake(self) -> None:
        """A turn is wanted in the reactor's next round."""
        if self._scheduled is None and not self._dead:
            self._scheduled = self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._scheduled = None
        self.turns += 1
        self.guarded(self._driver.advance)

    def guarded(self, call: Callable[[], None]) -> None:
        """Run a call unless all is over; what it raises ends the process."""
        try:
            if not self._dead:
                call()
        except Exception:
            self.broken(Failure())

    # --- the end of it

    def broken(self, failure: Failure) -> None:
        """This node cannot go on: a sync failed, a rule is broken, or the state machine failed."""
        text = failure.getErrorMessage()
        if emit_disk_failure(self.log, failure.value):
            return self._fatal(f"the raft log of {self.id} can not be synced: {text}")
        self.log.error("{trace}", trace=failure.getTraceback())
        self._fatal(f"raft member {self.id} can not go on: {type(failure.value).__name__}: {text}")

    def _fatal(self, reason: str, leaving: bool = False) -> None:
        if not self._dead:
            self._leave("this node ends")
        elif not leaving:
            return
        self._platform.end(reason)

    def _leave(self, why: str) -> None:
        """Say and hear nothing more; nobody waits for us any longer."""
        self._dead = True
        if self._ticker is not None:
            self._ticker.stop()
        for call in (self._scheduled, self._campaigning):
            if call is not None:
                call.cancel()
        self._scheduled = self._campaigning = None
        self.port.close_all()
        if self._node is not None:
            self._driver.journal.over = True
            self._peers.stop()
        self._waiters.end(why)
        self._tell()

    # --- roles and members

    def office_changed(self) -> None:
        """Role, term or leader changed, or the leader became able to serve."""
        node = self.node
        if (node.leader_id, node.term) != self._leader_told:
            self._leader_told = node.leader_id, node.term
            emit(
                self.log,
                events.RaftLeaderChanged(self.id, self.identity.group, node.leader_id or "nobody", node.term),
            )
        self._waiters.changes.leader(node.leader_id)
        self._tell()

    def _tell(self) -> None:
        for changed in self._roles:
            try:
                changed()
            except Exception:
                self.log.failure("what a change of roles led to failed; this member goes on")

    def members_changed(self) -> None:
        """The core knows other members than before."""
        members = _members_text(self.node.members)
        if self._members_told not in ("", members):
            emit(self.log, events.RaftMembersChanged(self.id, self.identity.group, members))
        self._members_told = members
        self._addresses.changed(self.node.members, self._driver.tick)
        self._dial()

    def _dial(self) -> None:
        self._peers.set_addresses(self._addresses.wanted())


def _members_text(members: Members) -> str:
    """For a person."""
    return ", ".join(f"{name} at {at}" for name, at in members.addresses.items())
