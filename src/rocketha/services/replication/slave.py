"""A broker that follows its master: the link, what it brings, and the queues made of it.

Theory of operation.  While it has a master to follow there is a connection, an attempt at one, or a pause before the
next attempt.  Pauses grow from :data:`PAUSE_FIRST_S` to :data:`PAUSE_MOST_S` and begin anew when bytes came.  Bytes are
appended as they come; then the end of the log is reported (under SYNC_FLUSH when it is on the disk), and last queues
and index are made of it, in slices, so that neither the acknowledgement nor other work waits for them.

Nothing on a classic link says whose log the master's is.  There the end of this log is sent again first, and has to be
the same (:mod:`rocketha.store.log_overlap`); of another log nothing is taken, and a person is told.

A log that has bytes that are no record is cut there and sent again, once for each place: a master that sends the same
bytes again has no better ones.  Where links begin with a handshake, those bytes are confirmed ones, and this may be the
last replica that has what lies behind them: there it is cut only while it is linked to a master that was found equal to
it.

A log that ends before its master's begins can not go on.  Where a handshake found both equal up to there, it starts
over; a classic link can not tell whose log it is connected to, so a person has to empty the directory.

Java: ``DefaultHAClient``, ``AutoSwitchHAClient``, ``ReputMessageService``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import ConfigError, CorruptStore, DiskFailure
from rocketha.observe.events import LogTruncated
from rocketha.observe.logging import emit, emit_disk_failure, lasting, make_logger
from rocketha.protocols.ha_slave import SlaveHaFactory, SlaveHaProtocol
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.epochs import NO_EPOCH, EpochEntry
from rocketha.replication.link import PASSING, Cause, LinkRefused, LinkTiming
from rocketha.services.replication.context import ReplicaContext
from rocketha.services.replication.dispatching import Dispatching
from rocketha.store.log_overlap import first_difference
from rocketha.store.replica_dispatch import Damage

CONNECT_S = 3.0
PAUSE_FIRST_S, PAUSE_MOST_S = 0.05, 1.0
OTHER_LOG_PAUSE_S = 30.0
"""A master that has another log will have it for a while: until a person has put things right."""


class Dialect(Protocol):
    """What a replication mode says to a master, and what it does with what it hears.

    :ivar handshake: links begin with one: it tells the master who this is, and finds whether both logs are one.
    """

    handshake: bool

    def open(self, epoch: int, now_ms: int, timing: LinkTiming) -> ClassicSlave | AutoswitchSlave:
        """The machine of a new link.

        :param epoch: of the role that this broker was told: no older master is followed.
        """

    def confirm(self, offset: int) -> None:
        """The master says up to where its consumers see the log."""

    def log_cut(self) -> None:
        """The log ends earlier than it did."""


class Following:
    """The slave's side of one broker; a :class:`rocketha.protocols.ha_slave.Follower`.

    :param grown: queues were made longer, or the confirm offset rose.
    :param trouble: told when a link ended that can not go on.
    :param counts: the master may count on this copy: it is told how far it is.
    :ivar problem: why there is no link, in words; empty: there is one, or nobody is followed.
    """

    def __init__(
        self,
        context: ReplicaContext,
        dialect: Dialect,
        grown: Callable[[], None],
        trouble: Callable[[Cause, str], None],
        counts: bool = True,
    ) -> None:
        self._log = context.log
        self._changes = context.changes
        self._flush = context.flusher.kick
        self._timing = context.timing
        self._reactor = context.platform.reactor
        self._dialer = context.platform.dialer
        self._askers = context.platform.askers
        self._chance = context.platform.chance
        self._dialect = dialect
        self._dispatching = Dispatching(
            context.log, context.changes, self._reactor, grown, self._complain, self._repair
        )
        self._trouble = trouble
        self._counts = counts
        self._factory = SlaveHaFactory(self, self._reactor, context.refusals)
        self._attempt: Any = None
        self._pause: Any = None
        self._reach = lasting(lambda: self._try(), "an attempt to reach the master")
        self._pause_s = PAUSE_FIRST_S
        self._cut_at: set[int] = set()  # places that were cut for damage
        self._known_at: set[int] = set()  # places that are bad while nobody sends them again
        self._complaint = ""
        self._outdated = False  # the last link ended because the master did not show the epoch
        self._equal = False  # the log is known to be the master's, as far as it is
        self.address = ""
        self.epoch = NO_EPOCH
        self.connection: SlaveHaProtocol | None = None
        self.problem = ""
        self.active = False
        self.read_s = self.written_s = 0.0
        """When something was last read and reported, in the reactor's seconds."""
        self._logger = make_logger()

    # -- whom

    def start(self, address: str, epoch: int = NO_EPOCH) -> None:
        """Follow the master whose HA port is there; empty: it is not known yet.  The log follows already.

        :param epoch: of the role that this broker was told: no older master is followed.
        """
        told_again = (address, epoch) == (self.address, self.epoch)
        self.active = True
        self.epoch = epoch
        if address == self.address and (self.connection is not None or self._attempt is not None):
            return
        if told_again and self._outdated and self._pause is not None:
            return  # each refusal has the controllers asked, whose answer comes here: the pauses grow all the same
        self._drop("another master is to be followed")
        self.address = address
        self._pause_s = PAUSE_FIRST_S
        self.problem = (
            f"not yet connected to the master at {address}" if address else "the master's address is not known"
        )
        self._connect()

    def stop(self, why: str) -> None:
        """Follow nobody."""
        self.active = False
        self.address = self.problem = ""
        self._drop(why)
        self._dispatching.stop()

    def _drop(self, why: str) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abort(why)

    # -- the connection

    def _connect(self) -> None:
        self._pause = None
        if not self._reach() and self._attempt is None:
            self._later()

    def _try(self) -> None:
        if not self.active or not self.address or self._attempt is not None or self.connection is not None:
            return
        if self._changes.busy:
            self._later()
            return
        broken = self._log.store.log.broken
        if broken is not None:
            self._complain(f"this replica copies nothing before it is started again: {broken}")
            return
        if not self._log.ready:  # the first report says where the transfer begins, and has to be on the disk
            self._flush()
            if not self._log.ready:
                self._later()
                return
        try:
            endpoint = self._dialer.endpoint(self.address, CONNECT_S)
        except ConfigError as error:
            self.problem = str(error)
            return
        attempt = self._attempt = endpoint.connect(self._factory)
        attempt.addCallbacks(self._connected, self._not_connected, callbackArgs=(attempt,), errbackArgs=(attempt,))

    def _connected(self, connection: SlaveHaProtocol, attempt: object) -> None:
        if self._attempt is not attempt:
            return
        self._attempt = None
        if self.connection is None:  # it was over at once
            self._later()

    def _not_connected(self, failure: Failure, attempt: object) -> None:
        if self._attempt is not attempt:
            return
        self._attempt = None
        self._complain(f"the master at {self.address} can not be reached: {failure.getErrorMessage()}")
        self._later()

    def _later(self) -> None:
        if self.active and self._pause is None:
            pause_s = self._pause_s * (0.5 + 0.5 * self._chance.random())
            self._pause_s = min(PAUSE_MOST_S, 2 * self._pause_s)
            self._pause = self._reactor.callLater(pause_s, self._connect)

    def _complain(self, problem: str) -> None:
        """Say it once."""
        self.problem = problem
        if problem != self._complaint:
            self._complaint = problem
            self._logger.warn("{problem}", problem=problem)

    @property
    def transfers(self) -> bool:
        """Whether the log is being copied: there is a link, and both logs have been found equal, in controller mode
        after going back to the place up to which they are."""
        connection = self.connection
        return connection is not None and self._equal and not self._changes.busy and connection.machine.transfers

    # -- the follower

    def open_link(self, connection: SlaveHaProtocol, now_ms: int) -> ClassicSlave | AutoswitchSlave | str:
        if not self.active or self._changes.busy or self.connection is not None or not self._log.ready:
            return "this broker follows another master now, or none"
        if not self._askers.is_replica(connection.transport, connection.peer_host):
            return "its certificate is not that of a replica of this broker"
        self.connection, self._equal = connection, False
        machine = self._dialect.open(self.epoch, now_ms, self._timing)
        if machine.transfers:  # there is nothing to compare
            self._reached()
        return machine

    def _reached(self) -> None:
        """The master serves us, and its log is ours."""
        self.problem, self._equal = "", True
        if self._complaint:
            self._complaint = ""
            self._logger.info("the master at {address} is followed", address=self.address)

    def compare(self, offset: int, data: bytes | memoryview) -> defer.Deferred[None]:
        log, connection = self._log, self.connection

        def difference() -> int | None:
            return first_difference(log, offset, data) if connection is self.connection else None

        return self._changes.beside(difference).addCallback(self._found_different)

    def _found_different(self, place: int | None) -> None:
        if place is not None:
            raise LinkRefused(
                Cause.OTHER_LOG,
                f"the master's log is another log: it has other bytes at {place}, and this one ends at {self._log.end}."
                " Nothing of it is copied. Either it lost what this broker has, or this disk has it wrong: keep the log"
                " that is to stay, and empty the other broker's directory",
            )

    def compared(self) -> None:
        self._reached()

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        self._log.append_raw(offset, data)
        self._pause_s = PAUSE_FIRST_S

    def save_epochs(self, epochs: Sequence[EpochEntry]) -> defer.Deferred[None]:
        log, connection = self._log, self.connection

        def save() -> None:
            if connection is self.connection:  # else they would be of a master that is not followed any more
                log.save_epochs(epochs)

        return self._changes.beside(save)

    def align(self, offset: int, epochs: Sequence[EpochEntry]) -> defer.Deferred[tuple[int, Sequence[EpochEntry]]]:
        log, connection = self._log, self.connection

        def cut() -> tuple[int, Sequence[EpochEntry]]:
            if connection is not self.connection:  # nobody is followed any more, or somebody else
                return log.end, log.epochs
            log.settle()
            end = log.truncate(offset, epochs) if log.begin <= offset <= log.end else log.end
            log.save_epochs(tuple(entry for entry in epochs if entry.start_offset <= max(end, offset)))
            return end, log.epochs

        return self._changes.run(cut).addCallback(self._aligned, log.end)

    def _aligned(self, result: tuple[int, Sequence[EpochEntry]], before: int) -> tuple[int, Sequence[EpochEntry]]:
        if result[0] < before:
            why = f"the master at {self.address} does not have them"
            emit(self._logger, LogTruncated(result[0], before - result[0], why))
        self._dialect.log_cut()
        self._reached()
        return result

    def confirm(self, offset: int) -> None:
        self._dialect.confirm(offset)

    def turn_ended(self, connection: SlaveHaProtocol) -> None:
        self.read_s = self._reactor.seconds()
        if self._log.ready:
            self._report(connection)
        else:
            self._flush()
        self.dispatch()

    def synced(self) -> None:
        """More of the log is on the disk."""
        if self.connection is None or self._changes.busy:
            return
        self._report(self.connection)
        if not self._log.ready:
            self._flush()

    def sync_failed(self) -> None:
        """Of what is not on the disk nobody knows whether this replica has it: it acknowledges no more."""
        if self.active:
            self._drop("a sync failed")
            self._later()

    def _report(self, connection: SlaveHaProtocol) -> None:
        machine = connection.machine
        if not self._counts:
            return
        if machine.transfers and self._log.ack_offset > machine.reported:
            self.written_s = self._reactor.seconds()
            connection.appended(self._log.ack_offset)

    def disk_failed(self, connection: SlaveHaProtocol, error: DiskFailure | CorruptStore) -> None:
        self._pause_s = PAUSE_MOST_S
        emit_disk_failure(self._logger, error)
        self._complain(f"this replica's disk failed: {error}")

    def closed(self, connection: SlaveHaProtocol, reason: str, cause: Cause | None) -> None:
        if self.connection is not connection:
            return
        self.connection = None
        self._outdated = cause is Cause.OLD_EPOCH
        self._complain(f"the link to the master at {self.address} ended: {reason}")
        if cause is Cause.OTHER_LOG:
            self._pause_s = OTHER_LOG_PAUSE_S
        if cause is not None and cause not in PASSING:
            self._trouble(cause, reason)
        if not self.active:
            return
        if cause is Cause.MASTER_BEGINS_LATER and self._dialect.handshake:
            self._start_over(reason)
        self.dispatch()
        self._later()

    def _start_over(self, reason: str) -> None:
        self._logger.warn(
            "the log is copied anew, up to {end} the master no longer has it: {reason}",
            end=self._log.end,
            reason=reason,
        )

        def begin_anew() -> None:
            if not self._log.store.leads:
                self._log.start_over()

        def begun(result: Any) -> None:
            if isinstance(result, Failure):
                self._complain(f"the log can not be copied anew: {result.getErrorMessage()}")
            else:
                self._dialect.log_cut()

        self._changes.run(begin_anew).addBoth(begun)

    # -- queues

    def dispatch(self) -> None:
        """Make queues of what may be dispatched: a slice now, the rest soon."""
        self._dispatching.begin()

    def _repair(self, damage: Damage) -> None:
        if damage.offset in self._cut_at:
            return
        if self._dialect.handshake and not self.transfers:
            self._remember(damage)
            return
        self._cut_at.add(damage.offset)
        self._complain(f"the log is bad at {damage.offset} and is copied anew from there: {damage.reason}")
        self._drop("the log is cut")

        def cut() -> None:
            if self._log.damage == damage and not self._log.store.leads:
                self._log.cut_damage(damage)

        def done(result: Any) -> None:
            if isinstance(result, Failure):
                self._complain(f"the log can not be cut at {damage.offset}: {result.getErrorMessage()}")
            else:
                self._dialect.log_cut()
            self._later()

        self._changes.run(cut).addBoth(done)

    def _remember(self, damage: Damage) -> None:
        """Nobody is there to send it again: if this process ends now, recovery may cut it off."""
        if damage.offset in self._known_at:
            return
        self._known_at.add(damage.offset)
        self._complain(f"the log is bad at {damage.offset}, and no master sends it again yet: {damage.reason}")

        def failed(failure: Failure) -> None:
            self._complain(f"what is bad in the log can not be written down: {failure.getErrorMessage()}")

        self._changes.run(self._log.owe).addErrback(failed)
