"""The link of controller mode, at the slave.

Must not know who is master: it is told the epoch that the controller named, and refuses a master that has not heard of
it (regression A22).

Theory of operation (S0.26 to S0.34, S0.39).  It greets; the answer brings all epochs of the master.  From them follows
up to where both logs are equal.  :class:`Align` has the log cut there and the master's epochs taken over; when that is
done and durable (:meth:`AutoswitchSlave.aligned`) it reports, at once, and the master sends from there.

*What was confirmed* is not cut for a master that lacks it: one that was elected with an empty or an older disk.  The
link closes with :data:`Cause.BELOW_CONFIRM`, unless a person allowed that cut.  Of a record that was confirmed in part
only nobody was told: replicas that had no more of it when its master was replaced may cut it off, and so do others.

*Epochs.*  The link keeps the master's list and a copy of the own one.  Each stamp goes to the master's list, which
refuses what contradicts it; the own list is what the master's says of the bytes that are there: an epoch is written
before its first byte, and after the last byte before it.  Java's stamp of a block that it had to cut names the next
epoch, which begins at the block's end: it is known from then on and holds from there on.

*A master that can not serve* (C11): one whose greeting said that its log goes on, and which sends two heartbeats in a
row at the end of ours, has lost that part of its log (Java does this for ever).  Frames without bytes that follow
another one sooner than half a heartbeat's time are no heartbeats: they tell of a confirm offset.

Java: ``AutoSwitchHAClient``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal

from rocketha.errors import RemoteProtocolError, ensure
from rocketha.replication.epochs import NO_EPOCH, OPEN_END, EpochCache, EpochEntry, consistent_point
from rocketha.replication.link import Align, Cause, Confirm, Effect, LinkRefused, LinkTiming, SaveEpochs
from rocketha.replication.log_view import LogView
from rocketha.replication.slave_link import HEARTBEATS_IN_VAIN, SlaveLink
from rocketha.wire.ha_frames import LogPiece, MasterFrames, MasterHello, SlaveHello, encode_report, encode_slave_hello


class SlaveState(Enum):
    """How far the connection is."""

    HANDSHAKE = "the master's answer is due"
    ALIGNING = "the own log is being cut"
    TRANSFER = "the log is due"


ALIGNED: Literal["aligned"] = "aligned"

NEXT: dict[tuple[SlaveState, type[MasterHello] | type[LogPiece] | Literal["aligned"]], SlaveState] = {
    (SlaveState.HANDSHAKE, MasterHello): SlaveState.ALIGNING,
    (SlaveState.ALIGNING, ALIGNED): SlaveState.TRANSFER,
    (SlaveState.TRANSFER, LogPiece): SlaveState.TRANSFER,
}
"""All transitions; a frame that has none closes the link."""


class AutoswitchSlave(SlaveLink):
    """See the module, and :class:`SlaveLink`.

    :param hello: who this slave is, in which dialect.
    :param log: its ends are those of now, and not asked later.
    :param entries: the own epochs.
    :param min_epoch: the epoch of the role that this broker was told; NO_EPOCH has any master followed.
    :param confirmed: the own confirm offset.
    :param unclean_cut: a person said that the master is right even about what was confirmed.
    """

    __slots__ = (
        "_epoch_due",
        "_frames",
        "_hello",
        "_in_vain",
        "_log",
        "_log_begin",
        "_master_end",
        "_masters",
        "_min_epoch",
        "_own",
        "_told",
        "_untouchable",
        "_vain_ms",
        "state",
    )

    def __init__(
        self,
        hello: SlaveHello,
        log: LogView,
        entries: Sequence[EpochEntry],
        min_epoch: int,
        confirmed: int,
        now_ms: int,
        timing: LinkTiming | None = None,
        unclean_cut: bool = False,
    ) -> None:
        super().__init__(log.end, log.file_size, now_ms, timing or LinkTiming())
        self._hello = hello
        self._log = log
        self._log_begin = log.begin
        self._own = EpochCache(entries)
        self._min_epoch = min_epoch
        self._untouchable = 0 if unclean_cut else confirmed  # nothing before it is cut
        self._frames = MasterFrames(hello.dialect)
        # Invariant: _own is what _masters says of all bytes before end, up to _epoch_due: there it may say more.
        self._masters = EpochCache()
        self._epoch_due = OPEN_END
        self._master_end = 0  # of its greeting
        self._in_vain = 0
        self._vain_ms = now_ms  # the last one, or the last bytes
        self._told = 0  # the last Confirm
        self._met_by_ms = now_ms + self._timing.handshake_ms
        self.state = SlaveState.HANDSHAKE

    @property
    def transfers(self) -> bool:
        return self.state is SlaveState.TRANSFER

    def begin(self, now_ms: int) -> list[Effect]:
        """The connection is there."""
        self._send(encode_slave_hello(self._hello), now_ms)
        return self._taken()

    def aligned(self, end: int, entries: Sequence[EpochEntry], now_ms: int) -> list[Effect]:
        """What :class:`Align` asked for is done, and no crash undoes it.

        :param end: where the log ends now: there, or before it, where a record begins.
        :param entries: its epochs.
        """
        ensure(end <= self.end, f"aligned at {end}, to be cut at {self.end}")
        ensure((self.state, ALIGNED) in NEXT, f"aligned, where {self.state.value}")
        if self.closed:
            return []
        self.state = NEXT[self.state, ALIGNED]
        self.end = self._stored = end
        self._own = EpochCache(entries)
        self._epoch_due = 0
        self._read_ms = now_ms  # the master had nothing to say meanwhile
        self._report(now_ms)
        return self._taken()

    def _hear(self, data: bytes, now_ms: int) -> None:
        frames = self._frames.feed(data)
        last = frames[-1] if frames else None
        for frame in frames:
            following = NEXT.get((self.state, type(frame)))
            if following is None:
                name = "an answer to a greeting" if isinstance(frame, MasterHello) else "the log"
                raise RemoteProtocolError(f"{name} from the master, where {self.state.value}")
            self.state = following
            if isinstance(frame, MasterHello):
                self._align(frame)
            else:
                self._follow(frame, self._frames.left_of_piece if frame is last else 0, now_ms)
        self._flush()
        if isinstance(last, LogPiece) and min(last.confirm_offset, self.end) > self._told:
            self._told = min(last.confirm_offset, self.end)
            self._effects.append(Confirm(self._told))

    def _align(self, hello: MasterHello) -> None:
        self._met_by_ms = None
        masters = EpochCache.received(hello.entries)
        if masters.last_epoch < self._min_epoch:
            raise LinkRefused(
                Cause.OLD_EPOCH,
                f"the master's newest epoch is {masters.last_epoch}, and the controller named epoch {self._min_epoch}",
            )
        if masters.last_epoch == NO_EPOCH:
            raise LinkRefused(Cause.OLD_EPOCH, "the master has no epoch")
        if self._log_begin >= self.end > hello.max_offset:
            raise LinkRefused(
                Cause.MASTER_ENDS_BEFORE,
                f"this log is empty and goes on at {self.end}, and the master's ends at {hello.max_offset}",
            )
        point = consistent_point(
            self._own, self._log_begin, self.end, masters.entries, hello.max_offset, self._whole(self._log_begin)
        )
        logs = (
            f"this log, of epochs {self._own} from {self._log_begin} to {self.end}, and the master's, of epochs"
            f" {masters} up to {hello.max_offset}, are equal"
        )
        if point is None:
            raise LinkRefused(Cause.NOTHING_IN_COMMON, f"nothing says where {logs}")
        if point < min(self._whole(point), self.end):
            reason = f"{logs} up to {point} only, and all before {self._untouchable} was confirmed: it is not cut"
            raise LinkRefused(Cause.BELOW_CONFIRM, reason)
        if point < self.end:
            self._own.truncate_suffix(point)
        self._own.adopt(masters, point)
        self._masters = masters
        self._master_end = hello.max_offset
        self.end = point
        known = tuple(entry for entry in self._own.entries if entry.start_offset <= point)
        self._effects.append(Align(point, known))

    def _whole(self, offset: int) -> int:
        """Nothing before the result is cut; where nothing but a part of a record lies between, ``offset``."""
        return offset if self._log.part_of_record(offset, self._untouchable) else self._untouchable

    def _follow(self, piece: LogPiece, left: int, now_ms: int) -> None:
        offset, data = piece.offset, piece.data
        if data:
            self._in_vain, self._vain_ms = 0, now_ms
        else:
            self._heartbeat(offset)
            if 0 <= offset < self._master_end and now_ms - self._vain_ms >= self._timing.heartbeat_ms // 2:
                self._in_vain, self._vain_ms = self._in_vain + 1, now_ms
            if self._in_vain >= HEARTBEATS_IN_VAIN:
                raise LinkRefused(
                    Cause.PART_IS_GONE,
                    f"the master's log went up to {self._master_end}, but it sends nothing from {offset} on: it no"
                    " longer has that part",
                )
        if piece.epoch >= 0 and self._masters.get(piece.epoch) != (piece.epoch, piece.epoch_start):
            self._masters.announce(piece.epoch, piece.epoch_start, offset, len(data) + left)
            self._epoch_due = 0
        left += len(data)
        while data:
            self._reach(offset)
            part = data[: self._epoch_due - offset]
            left -= len(part)
            self._receive(offset, part, left)
            offset, data = offset + len(part), data[len(part) :]
        if not piece.data:
            self._reach(self.end)

    def _reach(self, end: int) -> None:
        """The log ends there: are there epochs of the master that begin there, or before?"""
        if end < self._epoch_due:
            return
        if self._own.adopt(self._masters, end):
            self._flush()
            self._effects.append(SaveEpochs(self._own.entries))
        span = self._masters.at(end)
        self._epoch_due = OPEN_END if span is None else span.end_offset

    def _report_frame(self, offset: int) -> bytes:
        return encode_report(offset)

    def _reports(self) -> bool:
        return self.transfers

    def _listens(self) -> bool:
        return self.state is not SlaveState.ALIGNING
