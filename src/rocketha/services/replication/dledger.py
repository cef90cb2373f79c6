"""DLedger mode: the message log is a Raft log, and who leads its group is the master.

Theory of operation.  A member of the Raft group (:class:`~rocketha.services.raft.service.RaftService`) runs on the
broker's own log (:mod:`rocketha.services.replication.entry_store`).  A master appends as in the other modes, one write
for a turn, and tells the core of the bytes; they go to the followers as they are.  A sender is answered, and consumers
see a message, when it is committed: a majority has it.

What may be appended is asked of the core before each write (:meth:`DLedgerReplication.may_append`): from one turn to
the next it may have heard of another leader.  A write that fails ends the leadership: of bytes that may be there or not
nobody must be told under a number that others get again.

The role follows from the core's; the orders come from :class:`rocketha.services.broker.raft_role.RaftRole`.  As in
AutoSwitch mode what the former role allowed ends at once, and the log is made fit for the new one with nobody else at
the store.

Java: ``DLedgerCommitLog``, ``DLedgerRoleChangeHandler``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.broker.acknowledgements import Replicas as Waited
from rocketha.broker.role import BUSY, NOT_AVAILABLE, Role
from rocketha.errors import ConfigError, DiskFailure, RequestRefused
from rocketha.observe.events import LogTruncated
from rocketha.observe.logging import emit
from rocketha.protocols.raft import RaftLimits
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol, ServerParts
from rocketha.protocols.shared_port import SharedPort
from rocketha.raft.config import RaftConfig
from rocketha.raft.errors import Busy, RaftRefused
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Entry, EntryKind, Members
from rocketha.raft.node import RaftNode
from rocketha.raft.quorum import present
from rocketha.services.access.guard import guarded
from rocketha.services.config.peers import check_members
from rocketha.services.config.replication import WIRE_JAVA, ReplicationConfig
from rocketha.services.raft.java_members import Group, JavaMembers
from rocketha.services.raft.java_port import ROUTES, JavaPort, Operator
from rocketha.services.raft.operators import Operators, group_status
from rocketha.services.raft.options import RaftMember, RaftOptions, vouching
from rocketha.services.raft.service import SECOND_TICKS, RaftService
from rocketha.services.raft.waiting import NoMajority
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.dispatching import DISPATCH_BYTES, Dispatching
from rocketha.services.replication.entry_store import EntryStore
from rocketha.services.replication.service import Arrived, Port, Replication, ReplicaView, SourceView
from rocketha.services.replication.slave import Dialect
from rocketha.store import adoption
from rocketha.store.disk import Disk
from rocketha.store.entry_log import FIRST_TERM, RUN_BYTES, EntryLog, load_committed
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import RecoveryReport
from rocketha.store.replica_dispatch import Damage
from rocketha.store.replica_log import Promotion, ReplicaLog
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.dledger_terms import TermStart, build_term_start
from rocketha.wire.remoting import Answer, Command

UNCOMMITTED_BYTES_MAX = 64 << 20
"""Of messages that wait for a majority; beyond, senders are told to wait."""
CACHED_BYTES = 16 << 20
"""Of the newest entries, kept in memory for followers that lag a little."""
SAVED_LOOK_S = 0.001
"""Between two looks whether entries of the core's are saved, while messages wait for that."""
GATHER_S, GATHER_BYTES = 0.005, DISPATCH_BYTES // 2
"""For which, and which, the queues of a follower that nobody reads may lack of what is committed."""
LEASE_LOOK_S = 0.02
"""Between two looks whether the lease holds again, while requests wait for that."""

_NORMAL = int(EntryKind.NORMAL)


def members_of(keys: ReplicationConfig) -> Members:
    """Who the group is made of at its first start, as far as this member knows."""
    if keys.raft_join_existing:
        return Members()
    peers = keys.dledger_peers
    return Members(frozenset(peers), addresses=peers, witnesses=peers.keys() & {keys.d_leger_witness})


class DLedgerReplication(Replication):
    """See the module; what the tables of a master ask of its replicas as well.

    :ivar raft: this member.
    :ivar leader: who leads, as far as is known; "" for nobody.
    """

    leased = shows_confirmed = compares_logs = confirms_reads = True

    def __init__(self, context: ReplicationContext) -> None:
        super().__init__(context, self)
        keys, platform = context.keys, context.platform
        self.leader = ""
        self.own_id = keys.dledger_id(keys.d_leger_self_id)
        self._moves: list[Callable[[], None]] = []
        self._entries = EntryLog(
            context.log,
            platform.disk,
            keys.dledger_directory,
            members_of(keys),
        )
        self._dispatching = Dispatching(
            context.log, context.changes, platform.reactor, self._grown, self._unreadable, self._damaged
        )
        self._damage = ""
        self._foreign = ""  # the log of before is not the leader's
        self._reads: list[tuple[int, defer.Deferred[None]]] = []  # that wait for queues up to a log offset
        self._looking: Any = None  # for the lease, while requests wait for it
        self._waiting: Any = None  # for entries of the core's, while messages wait for them
        context.waiting.replicas = Waited.MAJORITY
        context.flusher.watch(lambda: None, self._sync_failed)
        self.raft = self._make_raft(context)

    def _make_raft(self, context: ReplicationContext) -> RaftService:
        keys, platform = context.keys, context.platform
        name, peers = keys.d_leger_self_id, keys.dledger_peers
        member = RaftMember(name, keys.d_leger_group, peers, keys.dledger_directory, vouches=vouching(platform.askers))
        store = EntryStore(
            self._entries,
            lambda: self.log.end,
            context.changes,
            context.flusher,
            context.waiting.sync_flush,
            self._committed,
        )
        config = RaftConfig(
            name,
            max_uncommitted_bytes=UNCOMMITTED_BYTES_MAX,
            sticky_lease=True,
            first_term=FIRST_TERM,
            preferred=keys.preferred_leaders,
            push_quota=-(-keys.peer_push_quota // SECOND_TICKS),
            far_behind=lambda index: self.log.end - self._entries.end_of(index - 1) >= keys.peer_push_throttle_point,
            hands_out=False,
            wall_ms=platform.wall_ms,
            learners_first=True,
            cached_bytes=CACHED_BYTES,
            first_entry=lambda: build_term_start(TermStart(platform.wall_ms(), context.address, self._entries.origin)),
        )
        return RaftService(
            member,
            store,
            platform,
            RaftOptions(),
            config,
            RaftLimits(runs=True),
            refusals=context.refusals,
            dialect=self._java_members,
        )

    def _java_members(self, node: RaftNode, group: Group) -> JavaMembers:
        reactor, wire = self._context.platform.reactor, self.keys.d_leger_wire
        return JavaMembers(
            self.raft.identity,
            node,
            self._entries,
            reactor,
            group,
            wire == WIRE_JAVA,
            lambda: not (node.members.witnesses or self._entries.members_changed(node.commit)),
        )

    def on_move(self, moved: Callable[[], None]) -> None:
        """Call this whenever more is committed."""
        self._moves.append(moved)

    # --- orders

    @defer.inlineCallbacks
    def lead(self) -> Generator[Any, Any, None]:
        """Be the master: this member leads, and has everything that was committed before.

        :raises CorruptStore: a committed record is bad: another member has to lead.
        :raises DiskFailure: as it says; the role is FENCED in these cases.
        """
        self._end_role("this member leads")
        order, self.leader = self._order, self.keys.d_leger_self_id

        def promoted(promotion: Promotion) -> None:
            self._still(order)
            if promotion.cut_bytes:
                emit(self._logger, LogTruncated(self.log.end, promotion.cut_bytes, promotion.reason))
            waiting, end = self._context.waiting, self.log.end
            waiting.log_cut(end)
            self.epoch = self.raft.node.term
            self._context.wakeups.anything_until(end)
            self._become(Role.MASTER)

        yield self._jobs.run(self._promote, promoted)

    def _promote(self) -> Promotion:
        """In the log's thread."""
        if self.log.store.leads:  # by an order that this one took the place of
            self.log.follow()
        return self.log.promote()

    @defer.inlineCallbacks
    def follow(self, leader: str) -> Generator[Any, Any, None]:
        """Be a follower.

        :param leader: "" where nobody is known.
        """
        if self.role is not Role.SLAVE:
            self._end_role(f"{leader or 'nobody'} leads")
            order = self._order
            yield self._jobs.idle()
            self._still(order)
            self._lead_no_more()
            self.leader = leader
            self._become(Role.SLAVE)
        else:
            self.leader, self.master_address = leader, ""  # in another term, maybe at another address
        self.epoch = self.raft.node.term
        self._dispatching.begin()

    def retire(self, why: str) -> None:
        """Take no messages any more: another member is about to lead."""
        self.retiring = why

    def found(self, address: str) -> None:
        """The leader that is followed takes requests there."""
        self.master_address = address

    def stop(self) -> None:
        super().stop()
        for call in (self._looking, self._waiting):
            if call is not None:
                call.cancel()
        self._looking = self._waiting = None

    def _end_role(self, why: str) -> None:
        self.leader = self.master_address = self.retiring = ""
        super()._end_role(why)

    def _mastership_ends(self, why: str) -> None:
        self.log.follow()

    def _following_ends(self, why: str) -> None:
        self._dispatching.stop()
        self._refuse_reads(why)

    def _refuse_reads(self, why: str) -> None:
        reads, self._reads = self._reads, []
        for _, read in reads:
            read.errback(NoMajority(why))

    def leader_address(self) -> str:
        """Where the leader of this term has its main port, "" while its first entry is not here."""
        if self._jobs.busy:
            return ""
        start = self._entries.term_start(self.raft.node.term)
        if start is None:
            return ""
        own = self._entries.origin
        self._foreign = ""
        if None not in (own, start.origin) and own != start.origin:
            self._foreign = (
                f"the messages of the time before DLedger mode are not those of the leader {start.address}:"
                " one of the two logs lacks some. Empty the store of the one that does"
            )
            self._unfit(self._foreign)
        return start.address

    # --- news

    @property
    def appends_wait(self) -> bool:
        """For an entry of the core's own, which has its place already: a change of the members."""
        waits = self.raft.is_leader and self.raft.has_unsaved
        if waits and self._waiting is None:
            self._waiting = self._context.platform.reactor.callLater(SAVED_LOOK_S, self._append_again)
        return waits

    def _append_again(self) -> None:
        self._waiting = None
        self._context.as_turn(lambda: None)

    def may_append(self, count: int) -> Answer | None:
        try:
            self.raft.check_room(count)
        except Busy:
            return BUSY
        except RaftRefused:
            return NOT_AVAILABLE
        return None

    def stored(self, arrived: Arrived) -> None:
        ledger, store = self.log.store.ledger, self.log.store
        assert ledger is not None
        term = ledger.term + 1
        self.raft.stored(
            [Entry(first + 1, term, _NORMAL, data, count) for first, count, data in ledger.take_fresh(RUN_BYTES)]
        )
        self._context.wakeups.stored(arrived, store.max_physical_offset)

    def not_stored(self, why: str) -> None:
        self.raft.unhealthy(why)

    def _sync_failed(self) -> None:
        """Of the page cache nobody knows what it is worth: another member leads, and a new start looks at the disk."""
        log = self.log.store.log
        failure = DiskFailure(log.segments.directory, "sync", errno.EIO, log.broken or "a sync failed")
        self.raft.broken(Failure(failure))

    def _committed(self, index: int) -> None:
        """Of the core: everything up to an entry is committed, and safe here."""
        end, context = self._entries.end_of(index), self._context
        self.log.confirm(end)
        if self.role is Role.MASTER:
            context.as_turn(lambda: self._release(end))
        elif self._reads or self.keys.slave_read_enable or end - self.log.dispatched_offset >= GATHER_BYTES:
            self._dispatching.begin()
        else:
            self._dispatching.gather(GATHER_S)
        for moved in self._moves:
            moved()

    def _release(self, end: int) -> None:
        context = self._context
        context.waiting.replicated(end)
        context.wakeups.confirmed(end, context.platform.now_ms())

    def fresh(self) -> defer.Deferred[None]:
        if self._is_mixed:  # Java's leaders do not say it
            return defer.fail(NoMajority("with Java's members a follower does not know what is acknowledged"))
        if self._problem:
            return defer.fail(NoMajority(self._problem))
        return self.raft.barrier().addCallback(self._await_queues)

    @property
    def _is_mixed(self) -> bool:
        return self.raft.others is not None and self.raft.others.any_spoke

    def _await_queues(self, _: object) -> defer.Deferred[None] | None:
        """Of everything that is committed, by what the leader said."""
        end = self._entries.end_of(self.raft.node.applied)
        if self.log.dispatched_offset >= end:
            return None
        if self.role is not Role.SLAVE or self._problem:
            raise NoMajority(self._problem or "this member does not follow any more")
        read: defer.Deferred[None] = defer.Deferred()
        self._reads.append((end, read))
        self._dispatching.begin()
        return read

    def _grown(self) -> None:
        super()._grown()
        made = self.log.dispatched_offset
        fresh = [read for end, read in self._reads if end <= made]
        self._reads = [(end, read) for end, read in self._reads if end > made]
        for read in fresh:
            read.callback(None)

    def second(self) -> None:
        if self._problem:
            self.raft.unhealthy(self._problem)  # it lasts for a while only
        elif self.role is Role.SLAVE:
            self._dispatching.begin()

    def unwritable(self) -> str:
        """Why this member's store would take no message; "" while it would."""
        return self.log.store.unwritable_reason(self._context.platform.now_ms()) or ""

    def _unreadable(self, why: str) -> None:
        self._logger.warn("{why}", why=why)

    def _damaged(self, damage: Damage) -> None:
        """Committed bytes are bad here.  The others have them, but Raft can not take back that this member had them."""
        problem = f"the log is bad at {damage.offset}: {damage.reason}. Empty this broker's store, it is copied anew"
        if problem != self._damage:
            self._damage = problem
            self._unfit(problem)

    @property
    def _problem(self) -> str:
        """Why this member must not lead, nor show anything, until somebody has mended it; "" where nothing is wrong."""
        return self._damage or self._foreign

    def _unfit(self, problem: str) -> None:
        self._logger.error("{problem}", problem=problem)
        self.raft.unhealthy(problem)
        self._refuse_reads(problem)

    # --- what is

    def ports(self) -> Sequence[Port]:
        address = self.keys.dledger_peers[self.keys.d_leger_self_id]
        context = self._context
        operators = Operators(
            self.raft,
            "broker",
            lambda: self.keys.remote_admin_enable or context.platform.askers.known,
            self._check_change,
            Answer(ResponseCode.CONTROLLER_NOT_LEADER, "this member does not lead"),
        )
        answers: dict[int, Operator] = {PrivateCode.STATUS: self._status, PrivateCode.MEMBERS: operators.members}
        java = JavaPort(self.raft, context.refusals, answers)
        requests, parts = guarded(java, context.platform.askers, ROUTES), ServerParts(refusals=context.refusals)
        reactor = context.platform.reactor
        port = (
            RemotingFactory(requests, reactor, parts=parts)
            if self.keys.d_leger_wire == WIRE_JAVA
            else SharedPort(requests, reactor, self.raft.port, parts=parts)
        )
        return (Port("raft", int(address.rpartition(":")[2]), port),)

    def _check_change(self, change: MembersChange, ids: Sequence[str]) -> None:
        if (refusal := check_members(ids)) is not None:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, refusal)
        if self.raft.is_leader and self.role is not Role.MASTER:
            raise Busy("the leader is not the master yet")
        members = self.raft.node.members
        for name in (members.learners - members.witnesses) & set(change.add_voters):
            if not self._has_tables(name):
                raise Busy(f"{name} has not taken the topics and groups yet")
        voters = (members.voters | set(change.add_voters)) - set(change.add_learners) - change.remove
        if not present(Members(voters), lambda name: name in members.witnesses or self._has_tables(name)):
            raise Busy("a majority of the voters that it leaves has not taken the topics and groups yet")

    def _has_tables(self, name: str) -> bool:
        return name == self.keys.d_leger_self_id or self._context.owner.fit(self.keys.dledger_id(name))

    def _status(self, connection: RemotingProtocol, command: Command) -> Answer:
        return group_status(self.raft.node, address=self._context.address, **self._context.owner.versions)

    @property
    def _addresses(self) -> Mapping[str, str]:
        """Of the brokers, by id: as the log says, or, before it is read, the configuration."""
        members = self.raft.node.members if self.raft.ready else members_of(self.keys)
        return {name: address for name, address in members.addresses.items() if name not in members.witnesses}

    @property
    def refusal(self) -> Answer | None:
        return None if self.raft.lease_holds else NOT_AVAILABLE

    @property
    def undecided(self) -> bool:
        """A master whose process stood still: the others may have elected another one meanwhile."""
        undecided = self.raft.is_leader and not self.raft.lease_holds
        if undecided and self._looking is None:
            self._looking = self._context.platform.reactor.callLater(LEASE_LOOK_S, self._look)
        return undecided

    def _look(self) -> None:
        self._looking = None
        if not self.undecided and self.role is Role.MASTER:
            self._context.owner.resumed()

    @property
    def send_refusal(self) -> Answer | None:
        return NOT_AVAILABLE if self.retiring or not self.raft.is_leader else None

    @property
    def lease_holds(self) -> bool:
        return self.raft.lease_holds

    @property
    def members(self) -> tuple[int, ...]:
        if self.role is not Role.MASTER:
            return ()
        return tuple(sorted({self.own_id, *self.needed}))

    def replica_views(self) -> Mapping[int, ReplicaView]:
        if self.role is not Role.MASTER:
            return {}
        addresses, first = self._addresses, self._entries.first_index() - 1
        return {
            self.keys.dledger_id(name): ReplicaView(
                addresses.get(name, name),
                self._entries.end_of(peer.match) if peer.match >= first else -1,
                peer.active and peer.state == "APPEND",
                0,
                self._entries.end_of(min(peer.next - 1, self._entries.last_index())),
                self.keys.dledger_id(name),
            )
            for name, peer in self.raft.node.status().peers.items()
            if peer.active and name in addresses
        }

    def source_view(self) -> SourceView:
        address = self._addresses.get(self.leader, "")
        return SourceView(address, bool(address) and self.role is Role.SLAVE)

    def follows(self, address: str) -> bool:
        return self.role is Role.SLAVE and bool(self.leader) and address == self.master_address

    def ready(self) -> str | None:
        if self._problem:
            return self._problem
        if self.role is Role.SLAVE:
            return self.log.lack or (None if self.leader else "no leader is known")
        return super().ready()

    # --- what a master's tables ask (metadata_context.Replicas)

    @property
    def stamps_tables(self) -> bool:
        return not self._is_mixed

    @property
    def needed(self) -> frozenset[int]:
        """Those that answer: a majority of all is among them, or this member leads no longer."""
        if not self.raft.is_leader:
            return frozenset()
        node = self.raft.node
        members, peers = node.members, node.status().peers
        voters = (members.voters | members.outgoing) - members.witnesses
        return frozenset(self.keys.dledger_id(name) for name in voters if name in peers and peers[name].active)

    def knows(self, replica: int) -> bool:
        """Whether it is of the group."""
        return replica in map(self.keys.dledger_id, self._addresses)

    def is_present(self, replica: int) -> bool:
        """Whether it answers at the moment."""
        peers = self.raft.node.status().peers.items() if self.raft.is_leader else ()
        return any(peer.active and self.keys.dledger_id(name) == replica for name, peer in peers)

    def fitness_changed(self) -> None:
        """Whoever has the log may be elected."""


class DLedgerMode:
    """A :class:`~rocketha.services.replication.mode.ReplicationMode`."""

    def open_log(
        self, store: MessageStore, disk: Disk, keys: ReplicationConfig, sync_flush: bool, now_ms: int, pid: int
    ) -> tuple[RecoveryReport, ReplicaLog]:
        """It follows, whatever its role will be."""
        adoption.adopt(disk, store, now_ms, pid, keys.store_path_epoch_file)
        committed = load_committed(disk, keys.dledger_directory).committed
        report = store.load(now_ms, pid, keys.store_path_epoch_file, committed=committed)
        log = ReplicaLog(store, disk, keys.store_path_epoch_file, synced_acks=sync_flush)
        log.load()
        return report, log

    def end_log(self, log: ReplicaLog) -> None:
        if not log.store.leads:
            log.dispatch_all()

    def dialect(self, log: ReplicaLog, keys: ReplicationConfig, own_id: int) -> Dialect:
        raise ConfigError("a learner can not follow a group of enableDLegerCommitLog yet")

    def replication(self, context: ReplicationContext) -> DLedgerReplication:
        return DLedgerReplication(context)
