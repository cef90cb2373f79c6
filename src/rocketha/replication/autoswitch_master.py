"""The link of controller mode, at the master.

Must not know the SyncStateSet; :class:`Introduced` and :class:`Ack` are for who keeps it.

Theory of operation (S0.44 to S0.50).  The slave greets; it is answered with all epochs and the end of the log, cuts its
own log where the two part, and reports what is left: there the transfer begins.  A Java slave repeats its greeting
until the answer is there; it is answered once, since it takes a second answer for a breach.

*Stamps* (S0.35 to S0.38).  A block lies in one epoch and carries that epoch's number and start.  Java stamps a block
that it had to cut at an epoch's end with the *next* epoch (docs/divergence.md).  A frame without bytes carries the
epoch of the byte before it, and of an empty log none (-1, -1): of an epoch without bytes a slave learns nothing here,
so that a Java slave does not record one that the next epoch will take the place of (regression C2).  The list is asked
for each block, so a master that is elected again goes on (C3).

*Confirm offset.*  Each frame carries it.  When it rises and no frame leaves within ``confirm_ms``, one without bytes
does: a slave's readers need not wait for the next message or heartbeat.  Where the throttle holds the log back they
wait for the next block.

Java: ``AutoSwitchHAConnection``.
"""

from __future__ import annotations

from enum import Enum

from rocketha.errors import InvariantBroken, RemoteProtocolError
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import NO_EPOCH, EpochCache
from rocketha.replication.link import BATCH_BYTES, Effect, Introduced, LinkTiming
from rocketha.replication.log_view import LogView, last_file_start
from rocketha.replication.master_link import NOWHERE, MasterLink
from rocketha.replication.throttle import Throttle
from rocketha.wire import ha_frames
from rocketha.wire.ha_frames import MasterHello, Report, SlaveFrames, SlaveHello, encode_log_head, encode_master_hello


class MasterState(Enum):
    """How far a slave's connection is."""

    GREETING = "nothing was said"
    ANSWERED = "the slave aligns its log"
    TRANSFER = "the slave is sent the log"


NEXT: dict[tuple[MasterState, type[SlaveHello] | type[Report]], MasterState] = {
    (MasterState.GREETING, SlaveHello): MasterState.ANSWERED,
    (MasterState.ANSWERED, SlaveHello): MasterState.ANSWERED,
    (MasterState.ANSWERED, Report): MasterState.TRANSFER,
    (MasterState.TRANSFER, Report): MasterState.TRANSFER,
}
"""All transitions; a frame that has none closes the link."""


class AutoswitchMaster(MasterLink):
    """See the module, and :class:`MasterLink` for the other parameters.

    :param epochs: of the log, asked whenever they are needed.
    :param confirm: of the log, likewise.
    :param address_dialect: what a greeting with an address is taken for, see :class:`SlaveFrames`.
    """

    __slots__ = ("_confirm", "_confirm_ms", "_epochs", "_frames", "_shown", "_told", "hello", "state")

    def __init__(
        self,
        log: LogView,
        epochs: EpochCache,
        confirm: ConfirmOffset,
        now_ms: int,
        timing: LinkTiming | None = None,
        batch_bytes: int = BATCH_BYTES,
        throttle: Throttle | None = None,
        address_dialect: ha_frames.Dialect = ha_frames.Dialect.V5_1_0,
    ) -> None:
        super().__init__(log, now_ms, timing or LinkTiming(), batch_bytes, throttle)
        self._epochs = epochs
        self._confirm = confirm
        self._confirm_ms: int | None = None  # when the slave is told of it without a reason of its own
        self._shown = NO_EPOCH  # the newest epoch in the answer
        self._told = NOWHERE  # the confirm offset of the last frame
        self._frames = SlaveFrames(address_dialect)
        self.state = MasterState.GREETING
        self.hello: SlaveHello | None = None
        """Who the slave says it is."""

    def confirm_moved(self, now_ms: int) -> list[Effect]:
        """The confirm offset rose."""
        if self._confirm_ms is None and self._confirm.offset != self._told and not self.closed:
            self._confirm_ms = now_ms + self._timing.confirm_ms
        return []

    def _hear(self, data: bytes, now_ms: int) -> None:
        for frame in self._frames.feed(data):
            following = NEXT.get((self.state, type(frame)))
            if following is None:
                raise RemoteProtocolError(f"{_NAMES[type(frame)]} from the slave, where {self.state.value}")
            before, self.state = self.state, following
            if isinstance(frame, SlaveHello):
                self._answer(frame, now_ms)
            elif before is MasterState.TRANSFER:
                self._acknowledge(frame.offset)
            else:
                self._begin(frame.offset, self._first(), now_ms)

    def _answer(self, hello: SlaveHello, now_ms: int) -> None:
        if self.hello is not None:
            if self.hello._replace(dialect=hello.dialect) != hello:
                raise RemoteProtocolError(f"a greeting as {hello}, after one as {self.hello}")
            return
        entries = self._epochs.entries
        if not entries:
            raise RemoteProtocolError("a slave greets, but this broker was never master")
        self.hello = hello
        self._shown = entries[-1].epoch
        answer = MasterHello(self._log.end, entries[-1].epoch, entries)
        self._send(encode_master_hello(answer, hello.dialect), now_ms)

    def _first(self) -> int:
        """Where a slave begins that has nothing."""
        last_file = self.hello is not None and self.hello.sync_from_last_file
        return last_file_start(self._log) if last_file else self._log.begin

    def _introduce(self) -> None:
        if self.hello is not None:
            self._effects.append(Introduced(self.hello, self._shown))

    def _room(self) -> int:
        span = self._epochs.at(self.position)
        return self._batch_bytes if span is None else span.end_offset - self.position

    def _head(self, size: int) -> bytes:
        span = self._epochs.at(self.position if size else max(0, self.position - 1))
        if span is None:
            raise InvariantBroken("a log that is sent to slaves has no epochs any more")
        self._confirm_ms = None
        self._told = self._confirm.offset
        epoch, start = span.epoch, span.start_offset
        if start >= self._log.end and self._log.begin == self._log.end:
            epoch = start = NO_EPOCH  # no byte is of it, nor of one before
        return encode_log_head(self.position, size, epoch, start, self._told)

    def _speak_ms(self) -> int:
        heartbeat_ms = super()._speak_ms()
        if self._confirm_ms is None or self._resume_ms is not None:
            return heartbeat_ms
        return min(heartbeat_ms, self._confirm_ms)


_NAMES = {SlaveHello: "a greeting", Report: "a report"}
