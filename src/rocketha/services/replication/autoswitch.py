"""AutoSwitch mode: controllers give the role, and take it.

Theory of operation.  The role changes by *orders*: :meth:`~AutoSwitchReplication.fence`,
:meth:`~AutoSwitchReplication.lead`, :meth:`~AutoSwitchReplication.follow`.  An order takes effect in two parts.  At
once: what the former role allowed ends, so nothing is stored, shown or acknowledged by it any more.  Then, with nobody
else at the store: the log is made fit for the new role (:mod:`rocketha.services.core.log_changes`).  A newer order
takes the place of one that is not through yet.

::

    FENCED --- lead: promoted, epoch saved ----> MASTER --- fence, follow ---> FENCED
       |                                            ^
       +---- follow ----> SLAVE ------ lead --------+

A master serves while its lease holds (:attr:`AutoSwitchReplication.refusal`): a process that stood still looks at the
clock before it answers anything that it may not know any more (regressions A9, A21).

Java: ``AutoSwitchHAService.changeToMaster`` / ``changeToSlave``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Protocol

from twisted.internet import defer

from rocketha.broker.role import NOT_AVAILABLE, NOT_ENOUGH, Role
from rocketha.errors import RemoteProtocolError, ensure
from rocketha.observe.events import LogTruncated, SetChanged
from rocketha.observe.logging import emit
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import NO_EPOCH, ElectionNeeded, EpochCache, EpochEntry
from rocketha.replication.link import Cause, LinkTiming
from rocketha.replication.sync_state import SetChange
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.linked import LinkedReplication
from rocketha.services.replication.service import Arrived
from rocketha.services.replication.set_links import SetLinks
from rocketha.store.disk import Disk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import RecoveryReport
from rocketha.store.replica_log import Promotion, ReplicaLog
from rocketha.wire.ha_frames import SlaveHello
from rocketha.wire.remoting import Answer


class EpochDialect:
    """A :class:`~rocketha.services.replication.slave.Dialect`: both say which epochs their logs have.

    :param confirm: of the log.
    :param own_id: said to the master.
    """

    handshake = True

    def __init__(
        self, log: ReplicaLog, confirm: ConfirmOffset, keys: ReplicationConfig, own_id: Callable[[], int]
    ) -> None:
        self._own_id = own_id
        self._log = log
        self._confirm = confirm
        self._keys = keys

    def open(self, epoch: int, now_ms: int, timing: LinkTiming) -> AutoswitchSlave:
        log, keys = self._log, self._keys
        hello = SlaveHello(self._own_id(), keys.sync_from_last_file, keys.async_learner)
        return AutoswitchSlave(hello, log, log.epochs, epoch, self._confirm.offset, now_ms, timing)

    def confirm(self, offset: int) -> None:
        if self._confirm.advance(offset, self._log.end):
            self._log.confirm(self._confirm.offset)

    def log_cut(self) -> None:
        self._confirm.truncated(self._log.end)


class RoleListener(Protocol):
    """Who gives the orders, and hears what a master needs to know for its next steps."""

    def wants_set(self, change: SetChange) -> None:
        """What to ask the controller (1001): answer with :meth:`AutoSwitchReplication.set_known`, ``refused`` or
        ``unanswered``."""

    def stranger(self, replica: int) -> None:
        """A replica connected that is not among the registered ones."""

    def link_trouble(self, cause: Cause, reason: str) -> None:
        """The link to the master can not go on."""


class AutoSwitchReplication(LinkedReplication):
    """See the module.

    :ivar master_id: whom a slave follows, None if nobody.
    """

    leased = shows_confirmed = compares_logs = True

    def __init__(self, context: ReplicationContext) -> None:
        log = context.log
        self.confirm = ConfirmOffset(log.store.confirm_offset, log.end)
        self.master_id: int | None = None
        self._set = SetLinks(context, self.confirm, self)
        self._listener: RoleListener | None = None
        self._replaced = False
        self._led = NO_EPOCH  # master of it in this process, and the log was never cut since
        self._silent = ""  # the HA address of a master that need not show its epoch
        self._retired: list[defer.Deferred[None]] = []
        dialect = EpochDialect(log, self.confirm, context.keys, lambda: self.own_id)
        super().__init__(context, self._set, dialect, self._set)

    def report_to(self, listener: RoleListener) -> None:
        """Before the first order."""
        self._listener = listener

    # --- orders

    def fence(self, why: str) -> defer.Deferred[None]:
        """At once: nothing is stored, shown, acknowledged or copied any more; puts that wait are told so.

        :returns: fires when nothing of the store's is under way in a thread.
        """
        self._end_role(why)
        return self._jobs.idle().addCallback(lambda _: self._lead_no_more())

    @defer.inlineCallbacks
    def lead(
        self, epoch: int, members: Iterable[int], set_epoch: int, registered: Iterable[int], asked_ms: int | None
    ) -> Generator[Any, Any, None]:
        """Be the master of an epoch, with the controller's SyncStateSet.

        The epoch that this log knows as its newest is resumed, a later one begins.

        :param asked_ms: when the controller was asked that said so, steady; None: the lease holds only after
            :meth:`lease_confirmed`.
        :raises ElectionNeeded: this log may lack bytes of that epoch, or it is not the newest.
        :raises RemoteProtocolError: the log knows a newer epoch.
        :raises CorruptStore: a confirmed record is bad, or was cut off for that and is not there again.
        :raises DiskFailure: as it says; the role is FENCED in all these cases.
        """
        members, registered = tuple(members), tuple(registered)
        if self.role is Role.MASTER and self.epoch == epoch:
            if asked_ms is not None:
                self.lease_confirmed(epoch, asked_ms)
            self.set_known(members, set_epoch)
            self.registered(registered)
            return
        order = self._begin_order(f"to be master of epoch {epoch}")
        self.epoch = epoch

        def promoted(result: tuple[Promotion, EpochCache]) -> None:
            self._still(order)
            promotion, epochs = result
            self._promoted(promotion)
            self._set.start(self.own_id, epochs, members, set_epoch, registered, asked_ms)
            self._context.wakeups.anything_until(self.log.end)
            self._become(Role.MASTER)
            self._set.progress(self._set.now_ms())

        yield self._jobs.run(lambda: self._promote(epoch), promoted)

    def _promoted(self, promotion: Promotion) -> None:
        """The log is a master's."""
        if promotion.cut_bytes:
            emit(self._logger, LogTruncated(self.log.end, promotion.cut_bytes, promotion.reason))
        self.confirm.truncated(self.log.end)
        self._context.waiting.log_cut(self.log.end)
        self._led = self.epoch

    def _promote(self, epoch: int) -> tuple[Promotion, EpochCache]:
        """In the log's thread."""
        log = self.log
        if log.store.leads:  # by an order that this one took the place of
            log.follow()
        epochs = EpochCache(log.epochs)
        intact = self._context.intact or self._led == epoch
        if epoch == epochs.last_epoch:
            epochs.resume(epoch, log.end, intact)
        elif epoch < epochs.last_epoch:
            raise RemoteProtocolError(f"master of epoch {epoch}, but this log knows epoch {epochs.last_epoch}")
        promotion = log.promote()
        try:
            epochs = EpochCache(log.epochs)
            if epoch > epochs.last_epoch:
                epochs.truncate_prefix(log.begin)
                epochs.begin(epoch, log.begin, log.end)
                log.save_epochs(epochs.entries)
            elif promotion.cut_bytes:
                raise ElectionNeeded(f"master of epoch {epoch} again, but {promotion.cut_bytes} bytes of it are lost")
        except BaseException:
            log.follow()
            raise
        return promotion, epochs

    @defer.inlineCallbacks
    def reelected(
        self, epoch: int, members: Iterable[int], set_epoch: int, asked_ms: int | None
    ) -> Generator[Any, Any, None]:
        """A master is the next one too: its connections go on; between the two nothing is stored.

        :raises RemoteProtocolError: it is not the next epoch, or the set's does not rise: order :meth:`lead`.
        """
        members = tuple(members)
        ensure(self.role is Role.MASTER, "only a master is elected again")
        if epoch == self.epoch:
            if asked_ms is not None:
                self.lease_confirmed(epoch, asked_ms)
            self.set_known(members, set_epoch)
            return
        order = self._order

        def begun(_: None) -> None:
            self._still(order)
            self._set.epochs.begin(epoch, self.log.begin, self.log.end)
            self.epoch = self._led = epoch
            self._set.reelected(epoch, members, set_epoch, asked_ms)

        yield self._jobs.run(lambda: self._next_epoch(epoch), begun)

    def _next_epoch(self, epoch: int) -> None:
        """In the log's thread: in the file before its first byte."""
        epochs = EpochCache(self.log.epochs)
        epochs.begin(epoch, self.log.begin, self.log.end)
        self.log.save_epochs(epochs.entries)

    @defer.inlineCallbacks
    def follow(self, master_id: int, ha_address: str, epoch: int, address: str = "") -> Generator[Any, Any, None]:
        """Be a replica of the master of an epoch.

        :param ha_address: its HA port; empty: not known yet, see :meth:`ha_address_known`.
        :param address: its main port.
        :returns: fires when the role is SLAVE, not when it is connected.
        """
        if self.role is Role.SLAVE and self.master_id == master_id:
            self.epoch, self.master_address = epoch, address or self.master_address
            if ha_address:
                self.following.start(ha_address, epoch)
            return
        order = self._begin_order(f"broker {master_id} is master of epoch {epoch}")
        yield self._jobs.idle()
        self._still(order)
        self._lead_no_more()
        self.epoch, self.master_id, self.master_address = epoch, master_id, address
        self._led = NO_EPOCH
        self._become(Role.SLAVE)
        self.following.start(ha_address, epoch)
        self.following.dispatch()

    def ha_address_known(self, ha_address: str, shows_epoch: bool = True) -> None:
        """Where the master's HA port is; no change: nothing.

        :param shows_epoch: False: the master itself said so, and a link to it may show an older epoch than its own.
        """
        if not shows_epoch:
            self._silent = ha_address
        if self.role is Role.SLAVE and ha_address:
            self.following.start(ha_address, NO_EPOCH if ha_address == self._silent else self.epoch)

    def _begin_order(self, why: str) -> int:
        self._end_role(why)
        return self._order

    def _end_role(self, why: str) -> None:
        self.master_id, self.master_address, self.retiring, self._replaced = None, "", "", False
        self._silent = ""
        super()._end_role(why)

    def _mastership_ends(self, why: str) -> None:
        super()._mastership_ends(why)
        self.log.follow()

    def _become(self, role: Role) -> None:
        super()._become(role)
        self.moved()

    # --- a master's news; nothing in any other role

    def lease_confirmed(self, epoch: int, asked_ms: int) -> None:
        """The controller said that this broker is master of ``epoch``, to a question of then."""
        self._set.lease_confirmed(epoch, asked_ms)

    def set_known(self, members: Iterable[int], set_epoch: int) -> None:
        """The controller's SyncStateSet."""
        before = self.set_epoch
        self._set.take_set(members, set_epoch)
        if self.set_epoch != before:
            emit(self._logger, SetChanged(list(self.members), self.set_epoch, self.epoch))

    def refused(self, number: int, code: int, in_order: bool = False) -> None:
        """A change was refused, see :meth:`SyncState.refused`."""
        self._set.refused(number, code, in_order)

    def unanswered(self, number: int) -> None:
        """Whether a change was made is not known."""
        self._set.unanswered(number)

    def registered(self, ids: Iterable[int]) -> None:
        """All replicas that the controller knows."""
        self._set.registered(ids)

    def suspend(self, from_ms: int) -> None:
        """There may be another master: from then on, steady, this one neither acknowledges nor shows anything until it
        knows.
        """
        self._set.suspend(from_ms)

    def resume(self) -> None:
        """There is none."""
        self._set.resume()

    def retire(self, why: str, replaced: bool = False) -> defer.Deferred[None]:
        """A master that will be replaced takes no new messages; all else goes on.

        :param replaced: it is replaced already, so it shows nothing either.
        :returns: fires when every replica that counts has all of the log, or the role ends.
        """
        done: defer.Deferred[None] = defer.Deferred()
        self._retired.append(done)
        if self.role is Role.MASTER:
            self.retiring, self._replaced = why, replaced
            if replaced:
                self._set.resume()  # what its replicas have, the new master has
        self.moved()
        return done

    def moved(self) -> None:
        if self._retired and (self.role is not Role.MASTER or self.confirm_offset >= self.log_end):
            retired, self._retired = self._retired, []
            for done in retired:
                done.callback(None)

    def stored(self, arrived: Arrived) -> None:
        self._context.wakeups.stored(arrived, self.log.store.max_physical_offset)
        self.links.log_grew(self._context.platform.now_ms())

    def _synced(self) -> None:
        context = self._context
        super()._synced()
        if self.role is Role.MASTER and context.waiting.sync_flush:
            self._set.synced()
            if not self.log.ready:
                context.flusher.kick()

    def confirmed(self, offset: int) -> None:
        self._context.wakeups.confirmed(offset, self._context.platform.now_ms())

    def wants_set(self, change: SetChange) -> None:
        if self._listener is not None:
            self._listener.wants_set(change)

    def stranger(self, replica: int) -> None:
        if self._listener is not None:
            self._listener.stranger(replica)

    def _link_trouble(self, cause: Cause, reason: str) -> None:
        if self._listener is not None:
            self._listener.link_trouble(cause, reason)

    # --- what is

    @property
    def refusal(self) -> Answer | None:
        return None if self.lease_holds and not self._replaced else NOT_AVAILABLE

    @property
    def undecided(self) -> bool:
        return self._replaced or self._set.lease.undecided(self._set.now_ms())

    @property
    def send_refusal(self) -> Answer | None:
        sync = self._set.sync
        if self.retiring or sync is None:
            return NOT_AVAILABLE
        if len(sync.members) < self.keys.min_in_sync_replicas:
            return NOT_ENOUGH
        return self.refusal

    @property
    def epochs(self) -> Sequence[EpochEntry]:
        return self.log.epochs

    @property
    def members(self) -> tuple[int, ...]:
        sync = self._set.sync
        return () if sync is None else tuple(sorted(sync.members))

    @property
    def set_epoch(self) -> int:
        """Of :attr:`members`; 0 without."""
        sync = self._set.sync
        return 0 if sync is None else sync.set_epoch

    @property
    def lease_holds(self) -> bool:
        return self._set.lease.holds(self._set.now_ms())

    def ready(self) -> str | None:
        if self.role is Role.MASTER and not self.lease_holds:
            return "the controllers have not said for a while that this broker is the master"
        return super().ready()


class AutoSwitchMode:
    """A :class:`~rocketha.services.replication.mode.ReplicationMode`."""

    def open_log(
        self, store: MessageStore, disk: Disk, keys: ReplicationConfig, sync_flush: bool, now_ms: int, pid: int
    ) -> tuple[RecoveryReport, ReplicaLog]:
        """It follows, whatever its role will be."""
        report = store.load(now_ms, pid, keys.store_path_epoch_file, replica=False)
        log = ReplicaLog(store, disk, keys.store_path_epoch_file, synced_acks=sync_flush)
        log.load()
        return report, log

    def end_log(self, log: ReplicaLog) -> None:
        """Its queues are made; what lies behind the last whole record is compared with the next master's."""
        if not log.store.leads:
            log.dispatch_all()

    def dialect(self, log: ReplicaLog, keys: ReplicationConfig, own_id: int) -> EpochDialect:
        return EpochDialect(log, ConfirmOffset(log.store.confirm_offset, log.end), keys, lambda: own_id)

    def replication(self, context: ReplicationContext) -> AutoSwitchReplication:
        return AutoSwitchReplication(context)
