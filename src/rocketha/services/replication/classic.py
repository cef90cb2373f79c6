"""Classic mode: a master for good, and slaves for good.

Java: ``DefaultHAService``, ``GroupTransferService``.
"""

from __future__ import annotations

from rocketha.broker.acknowledgements import Replicas as Waited
from rocketha.broker.role import Role
from rocketha.errors import ensure
from rocketha.protocols.ha_master import MasterHaProtocol
from rocketha.replication.acks import NO_ACK, ReplicaAcks
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.link import Cause, LinkTiming
from rocketha.services.config.replication import SLAVE, SYNC_MASTER, ReplicationConfig
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.linked import LinkedReplication
from rocketha.services.replication.links import SlaveLinks
from rocketha.services.replication.service import Arrived
from rocketha.store.disk import Disk
from rocketha.store.log_overlap import overlap_begin
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import RecoveryReport
from rocketha.store.replica_log import ReplicaLog


class NoReplicas:
    """Nobody is elected, so nobody is waited for."""

    needed: frozenset[int] = frozenset()
    stamps_tables = True

    def knows(self, replica: int) -> bool:
        """There is none."""
        return False

    def is_present(self, replica: int) -> bool:
        """There is none."""
        return False

    def fitness_changed(self) -> None:
        """Nobody asks."""


class ClassicLinks(SlaveLinks):
    """The slaves of a master for good: each connection that acknowledged something is one.

    Nothing on a classic link says whose it is.
    """

    def __init__(self, context: ReplicationContext) -> None:
        super().__init__(context)
        keys = context.keys
        self._acks = ReplicaAcks()
        self._need = keys.in_sync_replicas if keys.broker_role == SYNC_MASTER else 1

    def start(self) -> None:
        """This broker is the master."""
        self.serving = True
        self._weigh()

    def stop(self, why: str) -> None:
        self.serving = False
        self.factory.close_all(why)

    def log_grew(self, now_ms: int) -> None:
        if self.factory.connections:
            self.factory.log_grew()
        if self._need > 1:
            self._weigh()

    def acked(self, connection: MasterHaProtocol, offset: int) -> None:
        if self._acks.replica(connection.id) is None:
            self._acks.connected(connection.id, connection.peer)
        self._acks.acked(connection.id, offset, self._log.end)
        self._count()

    def closed(self, connection: MasterHaProtocol, reason: str, cause: Cause | None) -> None:
        self._acks.disconnected(connection.id)
        self._logger.info("the slave {peer} is gone: {reason}", peer=connection.peer, reason=reason)
        self._weigh()

    def _machine(self, now_ms: int) -> ClassicMaster:
        return ClassicMaster(self._log, now_ms, self._timing, self._keys.ha_transfer_batch_size, self._throttle())

    def acknowledged(self, replica: MasterHaProtocol) -> int:
        return self._acks.offset(replica.peer)

    def is_in_sync(self, replica: MasterHaProtocol) -> bool:
        acked = self.acknowledged(replica)
        return acked != NO_ACK and self._log.end - acked < self._keys.ha_max_gap_not_in_sync

    def _count(self) -> None:
        if self._need <= 1:
            return
        reached = self._acks.reached(self._need, self._log.end)
        if reached != NO_ACK and len(self._waiting):
            self._as_turn(lambda: self._release(reached))
        self._weigh()

    def _release(self, reached: int) -> None:
        self._waiting.replicated(reached)

    def _weigh(self) -> None:
        """Whether the next messages have somebody to wait for."""
        if self._need <= 1:
            self._waiting.replicas = Waited.NOT_ASKED
            return
        there = sum(map(self.is_in_sync, self.factory.connections.values()))
        self._waiting.replicas = Waited.AWAITED if there >= self._need - 1 else Waited.MISSING


class ClassicDialect:
    """A :class:`~rocketha.services.replication.slave.Dialect`: the log's end goes up, bytes come down."""

    handshake = False

    def __init__(self, log: ReplicaLog) -> None:
        self._log = log

    def open(self, epoch: int, now_ms: int, timing: LinkTiming) -> ClassicSlave:
        log = self._log
        return ClassicSlave(log.end, log.file_size, now_ms, timing, overlap_begin(log))

    def confirm(self, offset: int) -> None:
        """A classic master says nothing of the kind."""

    def log_cut(self) -> None:
        """Nothing was confirmed."""


class ClassicReplication(LinkedReplication):
    """Of a broker whose role the configuration gives, once."""

    def __init__(self, context: ReplicationContext) -> None:
        self._slaves = ClassicLinks(context)
        super().__init__(context, self._slaves, ClassicDialect(context.log), NoReplicas())

    def lead(self) -> None:
        """Be the master; the log is a master's already."""
        ensure(self.log.store.leads, "a master of classic mode has a log to append to")
        self._slaves.start()
        self._become(Role.MASTER)

    def follow(self) -> None:
        """Be a slave; of whom is said by :meth:`master_known` and :meth:`ha_address_known`."""
        ensure(self.keys.broker_role == SLAVE, "a slave of classic mode")
        self.following.start("")
        self._become(Role.SLAVE)
        self.following.dispatch()

    def master_known(self, address: str) -> None:
        """Where a slave's master has its main port."""
        self.master_address = address

    def stored(self, arrived: Arrived) -> None:
        now_ms = self._context.platform.now_ms()
        self._context.wakeups.readable(arrived, now_ms)
        self.links.log_grew(now_ms)


class ClassicMode:
    """A :class:`~rocketha.services.replication.mode.ReplicationMode`."""

    def open_log(
        self, store: MessageStore, disk: Disk, keys: ReplicationConfig, sync_flush: bool, now_ms: int, pid: int
    ) -> tuple[RecoveryReport, ReplicaLog]:
        """A master may have been a slave before: its log then ends behind the last whole record."""
        slave = keys.broker_role == SLAVE
        report = store.load(now_ms, pid, None, replica=slave)
        log = ReplicaLog(store, disk, keys.store_path_epoch_file, synced_acks=sync_flush, bounded=False)
        if slave:
            log.follow()
        elif not store.leads:
            log.follow()
            log.promote()
        return report, log

    def end_log(self, log: ReplicaLog) -> None:
        """A slave's ends with a whole record: it may be a master's at the next start."""
        if not log.store.leads:
            log.end_whole()

    def dialect(self, log: ReplicaLog, keys: ReplicationConfig, own_id: int) -> ClassicDialect:
        return ClassicDialect(log)

    def replication(self, context: ReplicationContext) -> ClassicReplication:
        return ClassicReplication(context)
