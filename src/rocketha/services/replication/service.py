"""The log of a broker in whatever role: what all replication modes have in common.

Theory of operation.  One log, and ways for it to other brokers and from one; which of them is in use follows from the
role.  What gives the role and when it changes differs from mode to mode (:mod:`rocketha.services.replication.mode`), so
each mode has a class of its own: :class:`~rocketha.services.replication.classic.ClassicReplication`,
:class:`~rocketha.services.replication.autoswitch.AutoSwitchReplication` and
:class:`~rocketha.services.replication.dledger.DLedgerReplication`.  The broker only ever asks this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from twisted.internet import defer

from rocketha.broker.role import Role
from rocketha.observe.events import RoleChanged
from rocketha.observe.logging import emit, make_logger
from rocketha.replication.epochs import NO_EPOCH, EpochEntry
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.metadata_context import Replicas
from rocketha.store.messages import PutBatch, PutMessage
from rocketha.wire.remoting import Answer

Arrived = Sequence[PutMessage | PutBatch]


class Port(NamedTuple):
    """A port for other replicas."""

    name: str
    number: int
    factory: Any


class ReplicaView(NamedTuple):
    """A replica of this master, as its connection shows it.

    :ivar acknowledged: up to where it has the log, -1 if it did not say.
    :ivar in_sync: whether it is counted on.
    :ivar position: up to where it was sent.
    :ivar broker_id: None where links do not say (classic).
    """

    peer: str
    acknowledged: int
    in_sync: bool
    bytes_sent: int
    position: int
    broker_id: int | None = None


class SourceView(NamedTuple):
    """Where this replica's log comes from.

    :ivar address: of the master's port, empty if not known.
    :ivar read_s: when something was last read, in the reactor's seconds; 0 for never.
    :ivar written_s: when something was last reported.
    """

    address: str = ""
    connected: bool = False
    bytes_received: int = 0
    read_s: float = 0.0
    written_s: float = 0.0


class Replication:
    """See the module.

    :ivar leased: a master is one only while its lease holds; who is none any more changes no table.
    :ivar shows_confirmed: consumers see only what enough replicas have, this broker's disk among them.
    :ivar confirms_reads: a slave can find out what is acknowledged (:meth:`fresh`) before it shows anything.
    :ivar compares_logs: its links find out whether both logs are one before they copy.
    :ivar role: what this broker is now.
    :ivar role_changed: called with the new role after each change, in order.
    :ivar epoch: of the role that this broker was told; NO_EPOCH before, and where there are none.
    :ivar own_id: among the replicas, set before the first order; 0 where they have no numbers.
    :ivar master_address: a slave's master's main port, empty if not known.
    :ivar retiring: why no new messages are taken by a master that is about to be replaced; empty: they are.
    :ivar replicas: those that a master's tables wait for.
    """

    leased = False
    shows_confirmed = False
    compares_logs = False
    confirms_reads = False

    def __init__(self, context: ReplicationContext, replicas: Replicas) -> None:
        self.log = context.log
        self.keys = context.keys
        self.role = Role.FENCED
        self.role_changed: list[Callable[[Role], None]] = []
        self.epoch = NO_EPOCH
        self.own_id = 0
        self.master_address = ""
        self.retiring = ""
        self.replicas = replicas
        self._context = context
        self._jobs = context.changes
        self._order = 0
        self._logger = make_logger()

    # --- the role

    def _become(self, role: Role) -> None:
        if role is self.role:
            return
        before, self.role = self.role, role
        emit(self._logger, RoleChanged(role.name, before.name))
        for changed in tuple(self.role_changed):
            changed(role)

    def _end_role(self, why: str) -> None:
        """What the present role allowed ends now, and what an order was about to make of it."""
        self._order += 1
        if self.role is Role.MASTER:
            self._mastership_ends(why)
            self._context.as_turn(self._abandon)
        self._following_ends(why)
        self._become(Role.FENCED)

    def _still(self, order: int) -> None:
        """See that no other order has come since.

        :raises CancelledError: one has.
        """
        if order != self._order:
            self._lead_no_more()
            raise defer.CancelledError()

    def _lead_no_more(self) -> None:
        """A promotion came through that nobody wants any more; if the next change has begun, that sees to it."""
        if self.role is not Role.MASTER and self.log.store.leads and not self._jobs.busy:
            self.log.follow()

    def _abandon(self) -> None:
        self._context.waiting.abandon()

    def _mastership_ends(self, why: str) -> None:
        """Nothing is appended, nor copied, any more."""

    def _following_ends(self, why: str) -> None:
        """No master is followed any more."""

    def stop(self) -> None:
        """The broker ends: no links any more, and no message is taken that nobody would wait for."""
        self._end_role("the broker stops")

    # --- news

    @property
    def appends_wait(self) -> bool:
        """Whether what a master is to write waits for a moment; then there is another turn."""
        return False

    def may_append(self, count: int) -> Answer | None:
        """Asked by a master right before it writes so many sends of a turn; an answer refuses them."""
        return None

    def stored(self, arrived: Arrived) -> None:
        """This broker stored messages, at the end of a turn."""
        raise NotImplementedError

    def not_stored(self, why: str) -> None:
        """The disk did not let in what a master wrote at the end of a turn, or perhaps half."""

    def _grown(self) -> None:
        """Of a slave: its queues."""
        context = self._context
        if self.keys.slave_read_enable:
            context.as_turn(lambda: context.wakeups.dispatched(self.log.store.max_offset, context.platform.now_ms()))

    def fresh(self) -> defer.Deferred[None]:
        """Fires when this slave's queues have everything that was acknowledged before the call.

        Fails with a :class:`~rocketha.errors.RockethaError` where that cannot be found out in time.
        """
        raise NotImplementedError

    def second(self) -> None:
        """A second has passed: what the disk refused is tried again."""

    # --- what is

    def ports(self) -> Sequence[Port]:
        """Those that other replicas connect to."""
        return ()

    def replica_views(self) -> Mapping[int, ReplicaView]:
        """A master's replicas that are connected, by the number of the connection."""
        return {}

    def source_view(self) -> SourceView:
        """Where a slave's log comes from."""
        return SourceView()

    @property
    def refusal(self) -> Answer | None:
        """Why a master stores and shows nothing at this moment; None: it does."""
        return None

    @property
    def undecided(self) -> bool:
        """Whether :attr:`refusal` is over before long, one way or the other: a request may wait for that."""
        return False

    @property
    def send_refusal(self) -> Answer | None:
        """Why a master stores nothing."""
        return None

    def broker_id(self, before: int) -> int:
        """Under which id this broker is registered in its present role; ``before`` where the role gives none."""
        if self.role is Role.FENCED or not self.own_id:
            return before
        return 0 if self.role is Role.MASTER else self.own_id

    @property
    def epochs(self) -> Sequence[EpochEntry] | None:
        """Of the log; None: this mode has none."""
        return None

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
        return ()

    @property
    def set_epoch(self) -> int | None:
        """How often a master's SyncStateSet changed; None where there is none."""
        return None

    @property
    def lease_holds(self) -> bool:
        """Whether a master may act as one."""
        return True

    def follows(self, address: str) -> bool:
        """Whether this slave's log is being copied from the broker whose main port is there."""
        return False

    def ready(self) -> str | None:
        """None, or why this broker is not of full use in its role."""
        if self.role is Role.FENCED:
            return "the role is not known"
        return None
