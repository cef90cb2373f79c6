"""The log of a broker in whatever role: alone, master or slave of a pair, or what controllers say at the moment.

Theory of operation.  One log, one port for slaves, one link to a master; which of them is in use follows from the role.
In classic mode the role is given once (:meth:`Replication.lead_alone`, :meth:`Replication.follow_alone`).  In
controller mode it changes by *orders*: :meth:`fence`, :meth:`lead`, :meth:`follow`.  An order takes effect in two
parts.  At once: what the former role allowed ends, so nothing is stored, shown or acknowledged by it any more.  Then,
with nobody else at the store: the log is made fit for the new role (:mod:`rocketha.services.replication.jobs`).  A
newer order takes the place of one that is not through yet.

::

    FENCED --- lead: promoted, epoch saved ----> MASTER --- fence, follow ---> FENCED
       |                                            ^
       +---- follow ----> SLAVE ------ lead --------+

A master serves while its lease holds (:attr:`Replication.refusal`): a process that stood still looks at the clock
before it answers anything that it may not know any more (regressions A9, A21).

Java: ``AutoSwitchHAService.changeToMaster`` / ``changeToSlave``, ``DefaultHAService``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable
from typing import Any

from twisted.internet import defer

from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.broker.role import NOT_AVAILABLE, NOT_ENOUGH, Role
from rocketha.errors import RemoteProtocolError, ensure
from rocketha.observe.logging import make_logger
from rocketha.observe.refusals import Refusals
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import NO_EPOCH, ElectionNeeded, EpochCache
from rocketha.replication.link import Cause, LinkTiming
from rocketha.replication.sync_state import SetChange
from rocketha.services.config.replication import SLAVE, ReplicationConfig
from rocketha.services.replication.jobs import LogChanges
from rocketha.services.replication.links import AsTurn, ClassicLinks, SetLinks, SlaveLinks
from rocketha.services.replication.slave import Following
from rocketha.services.waiting.flusher import Flusher
from rocketha.services.waiting.log_reads import LogReads
from rocketha.services.waiting.wakeups import Wakeups
from rocketha.store.replica_log import Promotion, ReplicaLog
from rocketha.wire.remoting import Answer


class Replication:
    """See the module.

    :param refusals: told of connections to and from other replicas that are given up.
    :param intact: nothing that was ever in the log can be missing at its end: the last stop was clean.
    :ivar role: what this broker is now.
    :ivar role_changed: called with the new role after each change, in order.
    :ivar own_id: given by the controllers; set before the first order.
    :ivar epoch: of the role that this broker was told; NO_EPOCH before.
    :ivar master_id: whom a slave follows, None if nobody.
    :ivar master_address: its main port, empty if not known.
    :ivar retiring: why no new messages are taken by a master that is about to be replaced; empty: they are.
    """

    def __init__(
        self, log: ReplicaLog, keys: ReplicationConfig, reactor: Any, chance: random.Random, changes: LogChanges,
        flusher: Flusher, waiting: Acknowledgements, wakeups: Wakeups, as_turn: AsTurn, now_ms: Callable[[], int],
        reads: LogReads, refusals: Refusals, intact: bool = True,
    ) -> None:  # fmt: skip
        self.log = log
        self.keys = keys
        self.role = Role.FENCED
        self.role_changed: list[Callable[[Role], None]] = []
        self.epoch = NO_EPOCH
        self.master_id: int | None = None
        self.master_address = ""
        self.retiring = ""
        self._replaced = False
        self.controlled = keys.enable_controller_mode
        self._reactor = reactor
        self._jobs = changes
        self._flusher = flusher
        self._waiting = waiting
        self._wakeups = wakeups
        self._as_turn = as_turn
        self._now_ms = now_ms
        self._intact = intact
        self._led = NO_EPOCH  # master of it in this process, and the log was never cut since
        self._order = 0
        self._retired: list[defer.Deferred[None]] = []
        self._logger = make_logger()
        timing = LinkTiming(keys.ha_send_heartbeat_interval, keys.ha_housekeeping_interval)
        store = log.store
        self.confirm = ConfirmOffset(store.confirm_offset, log.end) if self.controlled else None
        self.classic = self.elected = None
        if self.confirm is None:
            self.classic = ClassicLinks(log, keys, timing, waiting, as_turn, reactor, reads, refusals)
        else:
            self.elected = SetLinks(
                log, keys, timing, waiting, as_turn, reactor, reads, refusals, self.confirm, self._confirmed
            )  # fmt: skip
            self.elected.moved = self._moved
        self.following = Following(
            log, changes, flusher.kick, keys, timing, reactor, chance, self.confirm, self._grown, refusals
        )  # fmt: skip
        flusher.synced, flusher.failed = self._synced, self.following.sync_failed

    # --- given by who decides about roles

    @property
    def own_id(self) -> int:
        """See the class."""
        return self.following.own_id

    @own_id.setter
    def own_id(self, own_id: int) -> None:
        self.following.own_id = own_id

    @property
    def changes(self) -> Callable[[SetChange], None]:
        """Is given what to ask the controller (1001): answer with :meth:`set_known`, :meth:`refused`,
        :meth:`unanswered`."""
        return self._set.changes

    @changes.setter
    def changes(self, changes: Callable[[SetChange], None]) -> None:
        self._set.changes = changes

    @property
    def stranger(self) -> Callable[[int], None]:
        """Is told the id of a replica that connected and is not among the registered ones."""
        return self._set.stranger

    @stranger.setter
    def stranger(self, stranger: Callable[[int], None]) -> None:
        self._set.stranger = stranger

    @property
    def trouble(self) -> Callable[[Cause, str], None]:
        """Is told when the link to the master can not go on, and why."""
        return self.following.trouble

    @trouble.setter
    def trouble(self, trouble: Callable[[Cause, str], None]) -> None:
        self.following.trouble = trouble

    # --- classic roles

    def lead_alone(self) -> None:
        """Be the master for good; the log is a master's already."""
        ensure(self.classic is not None and self.log.store.leads, "a master of classic mode has a log to append to")
        assert self.classic is not None
        self.classic.start()
        self._become(Role.MASTER)

    def follow_alone(self) -> None:
        """Be a slave for good; of whom is said by :meth:`ha_address_known`."""
        ensure(self.classic is not None and self.keys.broker_role == SLAVE, "a slave of classic mode")
        self.following.start("")
        self._become(Role.SLAVE)
        self.following.dispatch()

    # --- orders

    def fence(self, why: str) -> defer.Deferred[None]:
        """At once: nothing is stored, shown, acknowledged or copied any more; puts that wait are told so.

        :returns: fires when nothing of the store's is under way in a thread.
        """
        self._order += 1
        self._stop_role(why)
        self.following.stop(why)
        self._become(Role.FENCED)
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
            self._wakeups.anything_until(self.log.end)
            self._become(Role.MASTER)
            self._set.progress(self._set.now_ms())

        yield self._jobs.run(lambda: self._promote(epoch), promoted)

    def _promoted(self, promotion: Promotion) -> None:
        """The log is a master's."""
        if promotion.cut_bytes:
            self._logger.warn(
                "{bytes} bytes behind the last whole record were cut off: {why}", bytes=promotion.cut_bytes,
                why=promotion.reason,
            )  # fmt: skip
        assert self.confirm is not None
        self.confirm.truncated(self.log.end)
        self._waiting.log_cut(self.log.end)
        self._led = self.epoch

    def _promote(self, epoch: int) -> tuple[Promotion, EpochCache]:
        """In the log's thread."""
        log = self.log
        if log.store.leads:  # by an order that this one took the place of
            log.follow()
        epochs = EpochCache(log.epochs)
        intact = self._intact or self._led == epoch
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

    def ha_address_known(self, ha_address: str) -> None:
        """Where the HA port of a slave's master is; no change: nothing."""
        if self.role is Role.SLAVE and ha_address:
            self.following.start(ha_address, self.epoch)

    def _begin_order(self, why: str) -> int:
        self._order += 1
        self._stop_role(why)
        self.following.stop(why)
        self._become(Role.FENCED)
        return self._order

    def _still(self, order: int) -> None:
        if order != self._order:
            self._lead_no_more()
            raise defer.CancelledError()

    def _lead_no_more(self) -> None:
        """A promotion came through that nobody wants any more; if the next change has begun, that sees to it."""
        if self.role is not Role.MASTER and self.log.store.leads and not self._jobs.busy:
            self.log.follow()

    def _stop_role(self, why: str) -> None:
        """What the present role allowed ends now."""
        self.master_id, self.master_address, self.retiring, self._replaced = None, "", "", False
        if self.role is not Role.MASTER:
            return
        self.links.stop(why)
        if self.elected is not None:
            self.log.follow()
        self._as_turn(self._abandon)

    def _abandon(self) -> None:
        self._waiting.abandon()

    def _become(self, role: Role) -> None:
        if role is self.role:
            return
        before, self.role = self.role, role
        self._logger.info("the role is {role}, it was {before}", role=role.name, before=before.name)
        for changed in tuple(self.role_changed):
            changed(role)
        self._moved()

    # --- a master's news; nothing in any other role

    @property
    def _set(self) -> SetLinks:
        ensure(self.elected is not None, "orders are of controller mode")
        assert self.elected is not None
        return self.elected

    @property
    def links(self) -> SlaveLinks:
        """The slaves."""
        found = self.classic or self.elected
        assert found is not None
        return found

    def lease_confirmed(self, epoch: int, asked_ms: int) -> None:
        """The controller said that this broker is master of ``epoch``, to a question of then."""
        self._set.lease_confirmed(epoch, asked_ms)

    def set_known(self, members: Iterable[int], set_epoch: int) -> None:
        """The controller's SyncStateSet."""
        self._set.take_set(members, set_epoch)

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
        self._moved()
        return done

    def _moved(self) -> None:
        if self._retired and (self.role is not Role.MASTER or self.confirm_offset >= self.log_end):
            retired, self._retired = self._retired, []
            for done in retired:
                done.callback(None)

    def log_grew(self) -> None:
        """This broker stored messages, at the end of a turn."""
        self.links.log_grew(self._now_ms())

    def _synced(self) -> None:
        """More of the log is on this broker's disk."""
        if self.role is not Role.MASTER:
            self.following.synced()
        elif self.elected is not None and self._waiting.sync_flush:
            self.elected.synced()
            if not self.log.ready:
                self._flusher.kick()

    def _confirmed(self, offset: int) -> None:
        self._wakeups.confirmed(offset, self._now_ms())

    def _grown(self) -> None:
        """Of a slave: its queues."""
        if self.keys.slave_read_enable:
            self._as_turn(lambda: self._wakeups.dispatched(self.log.store.max_offset, self._now_ms()))

    # --- what is

    @property
    def refusal(self) -> Answer | None:
        """Why a master stores and shows nothing at this moment; None: it does."""
        elected = self.elected
        if elected is None or (elected.lease.holds(elected.now_ms()) and not self._replaced):
            return None
        return NOT_AVAILABLE

    @property
    def undecided(self) -> bool:
        """Whether :attr:`refusal` is over before long, one way or the other: a request may wait for that."""
        elected = self.elected
        return elected is not None and (self._replaced or elected.lease.undecided(elected.now_ms()))

    @property
    def send_refusal(self) -> Answer | None:
        """Why it stores nothing."""
        elected = self.elected
        if elected is None:
            return None
        if self.retiring or elected.sync is None:
            return NOT_AVAILABLE
        if len(elected.sync.members) < self.keys.min_in_sync_replicas:
            return NOT_ENOUGH
        return self.refusal

    @property
    def last_epoch(self) -> int:
        """The newest epoch of the log."""
        return self.log.epochs[-1].epoch if self.log.epochs else NO_EPOCH

    @property
    def log_end(self) -> int:
        """Behind the last byte."""
        return self.log.end

    @property
    def confirm_offset(self) -> int:
        """Consumers see everything before it, and no more."""
        return self.log.store.confirm_offset

    @property
    def members(self) -> tuple[int, ...]:
        """A master's SyncStateSet; else empty."""
        sync = None if self.elected is None else self.elected.sync
        return () if sync is None else tuple(sorted(sync.members))

    @property
    def set_epoch(self) -> int:
        """Of :attr:`members`; 0 without."""
        sync = None if self.elected is None else self.elected.sync
        return 0 if sync is None else sync.set_epoch

    @property
    def lease_holds(self) -> bool:
        """Whether a master of controller mode may act as one."""
        return self.elected is not None and self.elected.lease.holds(self.elected.now_ms())

    @property
    def lease_ask_at_ms(self) -> int | None:
        """When to ask the controller next, steady; None: this broker is no master."""
        return None if self.elected is None else self.elected.lease.ask_at_ms(self.elected.now_ms())

    @property
    def master_ha_address(self) -> str:
        """Where a slave's master is; empty: not known, or no slave."""
        return self.following.address

    def follows(self, address: str) -> bool:
        """Whether this slave's log is being copied from the broker whose main port is there."""
        return self.role is Role.SLAVE and address == self.master_address and self.following.transfers

    def second(self) -> None:
        """A second has passed: what the disk refused is tried again."""
        if self.role is Role.SLAVE:
            self.following.dispatch()

    def ready(self) -> str | None:
        """None, or why this broker is not of full use in its role."""
        if self.role is Role.FENCED:
            return "the role is not known"
        if self.role is Role.SLAVE:
            return self.log.lack or self.following.problem or None
        if self.elected is not None and not self.lease_holds:
            return "the controllers have not said for a while that this broker is the master"
        return None

    def stop(self) -> None:
        """The broker ends: no links any more, and no message is taken that nobody would wait for."""
        self._begin_order("the broker stops")
