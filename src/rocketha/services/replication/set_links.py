"""The slaves of a master that controllers elected, its SyncStateSet among them.

Carries a :class:`rocketha.replication.sync_state.SyncState` from the day of an election to the end of the role.

Java: ``AutoSwitchHAService``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from rocketha.broker.acknowledgements import Replicas
from rocketha.observe.logging import lasting
from rocketha.protocols.ha_master import MasterHaProtocol
from rocketha.replication.acks import ALL, NO_ACK
from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import EpochCache
from rocketha.replication.lease import Lease
from rocketha.replication.link import Cause, LinkRefused
from rocketha.replication.sync_state import SetChange, SyncState, SyncTiming
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.links import SlaveLinks
from rocketha.wire.ha_frames import SlaveHello

AGAIN_MS = 500
"""After a look at the SyncStateSet that failed, as none should."""


class SetOwner(Protocol):
    """Who is told what a SyncStateSet comes to."""

    def confirmed(self, offset: int) -> None:
        """The confirm offset rose; as part of a turn."""

    def moved(self) -> None:
        """Something about the set may be another."""

    def wants_set(self, change: SetChange) -> None:
        """What to ask the controller (1001)."""

    def stranger(self, replica: int) -> None:
        """A replica connected that the controller has not named yet."""


class SetLinks(SlaveLinks):
    """See the module.

    :param confirm: of the log; lives longer than a role.
    :ivar sync: of the present role, None without one.
    :ivar epochs: of the log, while this broker is master.
    """

    stamps_tables = True

    def __init__(self, context: ReplicationContext, confirm: ConfirmOffset, owner: SetOwner) -> None:
        super().__init__(context)
        self._confirm = confirm
        self._owner = owner
        self._broker = context.owner
        self._need = ALL if context.keys.all_ack_in_sync_state_set else context.keys.in_sync_replicas
        self._timer: Any = None
        self._look = lasting(lambda: self.progress(self.now_ms()), "a look at the SyncStateSet")
        self._timer_ms = 0
        self._known: frozenset[int] = frozenset()
        self.lease = Lease(context.keys.master_lease)
        self.sync: SyncState | None = None
        self.epochs = EpochCache()

    # -- the role

    def start(
        self,
        own_id: int,
        epochs: EpochCache,
        members: Iterable[int],
        set_epoch: int,
        registered: Iterable[int],
        asked_ms: int | None,
    ) -> None:
        """This broker is the master of the newest of these epochs, and its log ends where it may begin."""
        newest = epochs.last
        assert newest is not None
        now_ms, timing = (
            self.now_ms(),
            SyncTiming(
                behind_ms_max=self._keys.ha_max_time_slave_not_catchup, min_in_sync=self._keys.min_in_sync_replicas
            ),
        )
        self.epochs = epochs
        self.sync = SyncState(
            own_id,
            newest.epoch,
            newest.start_offset,
            members,
            set_epoch,
            self._log.end,
            self._confirm,
            self.lease,
            now_ms,
            timing,
        )
        self.sync.kept(self._log.ack_offset)
        self._known = frozenset(registered) | self.sync.members
        self._let_join(self.sync, now_ms)
        self._begin_lease(newest.epoch, asked_ms)
        self._waiting.replicas = Replicas.AWAITED
        self.serving = True
        self.progress(now_ms)

    def reelected(self, epoch: int, members: Iterable[int], set_epoch: int, asked_ms: int | None) -> None:
        """This broker is the next master too; the epoch is in :attr:`epochs`."""
        newest, sync = self.epochs.last, self.sync
        assert newest is not None and sync is not None and newest.epoch == epoch
        now_ms = self.now_ms()
        sync.reelected(epoch, newest.start_offset, members, set_epoch, now_ms)
        self._begin_lease(epoch, asked_ms)
        self.progress(now_ms)

    def _begin_lease(self, epoch: int, asked_ms: int | None) -> None:
        self.lease.begin(epoch)
        if asked_ms is not None:
            self.lease.confirmed(epoch, asked_ms)

    def stop(self, why: str) -> None:
        self.serving = False
        self.sync = None
        self.lease.end()
        self._stop_timer()
        self._waiting.replicas = Replicas.MISSING
        self.factory.abort_all(why)

    # -- the controller's answers

    def lease_confirmed(self, epoch: int, asked_ms: int) -> None:
        """It said that this broker is master of ``epoch``, to a question of then."""
        now_ms = self.now_ms()
        held = self.lease.holds(now_ms)
        if self.lease.confirmed(epoch, asked_ms):
            self.progress(now_ms)
            if not held and self.lease.holds(now_ms):
                self._broker.resumed()

    def suspend(self, from_ms: int) -> None:
        """There may be another master: from then on, steady, nothing moves before :meth:`resume`, or another role."""
        self.lease.suspended_ms = from_ms

    def resume(self) -> None:
        """There is none, or what was sent here holds all the same."""
        now_ms = self.now_ms()
        held, self.lease.suspended_ms = self.lease.holds(now_ms), None
        if not held and self.lease.holds(now_ms):
            self.progress(now_ms)
            self._broker.resumed()

    def take_set(self, members: Iterable[int], set_epoch: int) -> None:
        """Its set, however it came to be known."""
        sync, now_ms = self.sync, self.now_ms()
        if sync is not None and sync.take_set(members, set_epoch, now_ms):
            self._known |= sync.members
            self.progress(now_ms)

    def refused(self, number: int, code: int, in_order: bool) -> None:
        """It refused a change."""
        if self.sync is not None:
            now_ms = self.now_ms()
            self.sync.refused(number, code, now_ms, in_order)
            self.progress(now_ms)

    def unanswered(self, number: int) -> None:
        """It did not answer."""
        if self.sync is not None:
            now_ms = self.now_ms()
            self.sync.unanswered(number, now_ms)
            self.progress(now_ms)

    def registered(self, replicas: Iterable[int]) -> None:
        """All replicas that it knows."""
        if self.sync is not None:
            now_ms = self.now_ms()
            self._known = frozenset(replicas) | self.sync.members
            self._let_join(self.sync, now_ms)
            self.progress(now_ms)

    @property
    def needed(self) -> frozenset[int]:
        """Replicas that may be elected, or may be before long: the set and who joins it, without this master."""
        return frozenset() if self.sync is None else self.sync.needed

    def knows(self, replica: int) -> bool:
        """Whether the controller has named it, as a member or as registered."""
        return self.sync is not None and replica in self._known

    def is_present(self, replica: int) -> bool:
        """Whether a replica's log follows this master's at the moment."""
        return self.sync is not None and self.sync.acks.present(replica)

    def fitness_changed(self) -> None:
        """Whether a replica is fit may be another now."""
        if self.sync is not None:
            now_ms = self.now_ms()
            self._let_join(self.sync, now_ms)
            self.progress(now_ms)

    def _let_join(self, sync: SyncState, now_ms: int) -> None:
        """Those that are registered and fit, and those that join already."""
        sync.registered({each for each in self._known if each in sync.needed or self._broker.fit(each)}, now_ms)

    # -- the owner

    def _machine(self, now_ms: int) -> AutoswitchMaster:
        return AutoswitchMaster(
            self._log,
            self.epochs,
            self._confirm,
            now_ms,
            self._timing,
            self._keys.ha_transfer_batch_size,
            self._throttle(),
        )

    def introduced(self, connection: MasterHaProtocol, hello: SlaveHello, epoch: int) -> None:
        sync = self.sync
        if sync is None:
            return
        if not self._askers.is_replica(connection.transport, connection.peer_host, hello.broker_id):
            raise LinkRefused(Cause.OTHER_IDENTITY, f"it is not replica {hello.broker_id}, as it says")
        displaced = sync.connected(
            connection.id, hello.broker_id, self.now_ms(), learner=hello.async_learner, epoch=epoch
        )
        older = None if displaced is None else self.factory.connections.get(displaced)
        if older is not None:
            older.close(f"replica {hello.broker_id} connected again")
        self._logger.info(
            "replica {replica} at {peer} follows from {offset}",
            replica=hello.broker_id,
            peer=connection.peer,
            offset=connection.machine.position,
        )
        if hello.broker_id not in self._known:
            self._owner.stranger(hello.broker_id)

    def acked(self, connection: MasterHaProtocol, offset: int) -> None:
        sync = self.sync
        if sync is not None:
            now_ms = self.now_ms()
            sync.acked(connection.id, offset, now_ms)
            self.progress(now_ms)

    def closed(self, connection: MasterHaProtocol, reason: str, cause: Cause | None) -> None:
        sync = self.sync
        if sync is None:
            return
        now_ms = self.now_ms()
        replica = sync.acks.replica(connection.id)
        sync.disconnected(connection.id, now_ms)
        if replica is not None:
            self._logger.info("replica {replica} is gone: {reason}", replica=replica, reason=reason)
        self.progress(now_ms)

    def is_replica(self, connection: MasterHaProtocol) -> bool:
        return self.sync is not None and self.sync.acks.replica(connection.id) in self._known

    def acknowledged(self, replica: MasterHaProtocol) -> int:
        sync = self.sync
        known = None if sync is None else sync.acks.replica(replica.id)
        return NO_ACK if sync is None or known is None else sync.acks.offset(known, sync.epoch)

    def is_in_sync(self, replica: MasterHaProtocol) -> bool:
        return self.sync is not None and self.sync.acks.replica(replica.id) in self.sync.members

    def broker_id(self, replica: MasterHaProtocol) -> int | None:
        known = None if self.sync is None else self.sync.acks.replica(replica.id)
        return known if isinstance(known, int) else None

    # -- what follows

    def log_grew(self, now_ms: int) -> None:
        sync = self.sync
        if sync is None:
            return
        sync.log_grew(self._log.end, now_ms)
        sync.kept(self._log.ack_offset)
        self.factory.log_grew()
        self._advance(sync, now_ms)
        if self._timer is None:
            self._arm(sync, now_ms)

    def synced(self) -> None:
        """More of this broker's log is on its disk."""
        if self.sync is not None:
            self.sync.kept(self._log.ack_offset)
            self.progress(self.now_ms())

    def progress(self, now_ms: int) -> None:
        """Something happened: acknowledge, confirm and ask what follows from it."""
        sync = self.sync
        if sync is None or not self.serving:
            return
        self._advance(sync, now_ms)
        change = sync.request(now_ms)
        if change is not None:
            self._owner.wants_set(change)
        if self.sync is sync:
            self._arm(sync, now_ms)
        self._owner.moved()

    def _advance(self, sync: SyncState, now_ms: int) -> None:
        rose = sync.advance(now_ms)
        if rose:
            self._log.store.confirm_offset = sync.confirm_offset
            self.factory.confirm_moved()
        reached = sync.reached(self._need, now_ms) if len(self._waiting) else NO_ACK
        if rose or reached != NO_ACK:
            self._as_turn(lambda: self._tell(sync, rose, reached))

    def _tell(self, sync: SyncState, rose: bool, reached: int) -> None:
        if reached != NO_ACK:
            self._waiting.replicated(reached)
        if rose:
            self._owner.confirmed(sync.confirm_offset)

    def _arm(self, sync: SyncState, now_ms: int) -> None:
        due_ms = sync.next_due_ms(now_ms)
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        self._stop_timer()
        self._timer_ms = due_ms
        self._timer = self._reactor.callLater(max(1, due_ms - now_ms) / 1000, self._due)

    def _due(self) -> None:
        self._timer = None
        if not self._look() and self._timer is None:
            self._timer_ms = self.now_ms() + AGAIN_MS
            self._timer = self._reactor.callLater(AGAIN_MS / 1000, self._due)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
