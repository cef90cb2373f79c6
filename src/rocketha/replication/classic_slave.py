"""The classic link, at the slave.

Must not know where its master is; a link begins when its connection is there.

Theory of operation.  Nothing on the wire says whose log the master's is, nor where it ends; it sends from whatever
place the first report names.  So that is not the end of the own log but a place before it, and what comes from there
is compared with what is there already: the same bytes, or the link closes (:data:`Cause.OTHER_LOG`).  A master that
lost its disk, or the end of its log with its power, is found out when it has passed this place, before a byte of it is
appended; and until its log was compared the slave acknowledges nothing that lies behind.

::

    COMPARING -- all of the own log that was asked for came again, the same --> TRANSFER

Whoever is sent nothing from a place that is not his end has a master without it (a Java master; ours closes such a link
and says why): after two heartbeats in a row there the link closes.

Java: ``DefaultHAClient``, which reports its end, up to 5 s later, and appends whatever comes.
"""

from __future__ import annotations

from enum import Enum

from rocketha.errors import RemoteProtocolError, ensure
from rocketha.replication.link import Cause, Compare, Compared, Effect, LinkRefused, LinkTiming
from rocketha.replication.slave_link import HEARTBEATS_IN_VAIN, SlaveLink
from rocketha.wire.ha_frames import ClassicPieces, encode_classic_report


class ClassicSlaveState(Enum):
    """What the master's bytes are for."""

    COMPARING = "the own log has them"
    TRANSFER = "they are appended"


class ClassicSlave(SlaveLink):
    """See the module, and :class:`SlaveLink` for the parameters.

    :param compare_from: log offset from which the master's bytes are compared, at most the own end, which leaves
        nothing to compare.  0 is never asked for, because it means the last file: the first byte is not compared.
    """

    __slots__ = ("_in_vain", "_own_end", "_pieces_of", "_vain_ms", "state")

    def __init__(
        self, end: int, file_size: int, now_ms: int, timing: LinkTiming | None = None, compare_from: int | None = None
    ) -> None:
        begin = end if compare_from is None else min(max(1, compare_from), end)
        ensure(begin >= 0, f"a log is compared from {begin} on")
        super().__init__(begin, file_size, now_ms, timing or LinkTiming())
        self._own_end = end
        self._pieces_of = ClassicPieces()
        self._in_vain = 0  # heartbeats in a row where bytes should be
        self._vain_ms = now_ms
        self.state = ClassicSlaveState.TRANSFER if begin == end else ClassicSlaveState.COMPARING

    @property
    def transfers(self) -> bool:
        return self.state is ClassicSlaveState.TRANSFER

    def begin(self, now_ms: int) -> list[Effect]:
        """The connection is there."""
        self._report(now_ms)
        return self._taken()

    def _hear(self, data: bytes, now_ms: int) -> None:
        pieces = self._pieces_of.feed(data)
        last = pieces[-1] if pieces else None
        for piece in pieces:
            left = self._pieces_of.left_of_piece if piece is last else 0
            if not piece.data:
                self._heartbeat(piece.offset)
                self._heartbeat_in_vain(now_ms)
            elif self.transfers:
                self._receive(piece.offset, piece.data, left)
            else:
                self._in_vain, self._vain_ms = 0, now_ms
                self._compare(piece.offset, piece.data, left)
        self._flush()

    def _compare(self, offset: int, data: memoryview, left: int) -> None:
        if offset != self.end:
            raise RemoteProtocolError(f"the master sends the log from {offset}, and was asked for it from {self.end}")
        same = data[: self._own_end - offset]
        self._effects.append(Compare(offset, same))
        self.end += len(same)
        if self.end < self._own_end:
            return
        self._stored = self.end
        self.state = ClassicSlaveState.TRANSFER
        self._effects.append(Compared())
        if len(same) < len(data):
            self._receive(self.end, data[len(same) :], left)

    def _heartbeat_in_vain(self, now_ms: int) -> None:
        if self.transfers or now_ms - self._vain_ms < self._timing.heartbeat_ms // 2:
            return
        self._in_vain, self._vain_ms = self._in_vain + 1, now_ms
        if self._in_vain >= HEARTBEATS_IN_VAIN:
            raise LinkRefused(
                Cause.MASTER_ENDS_BEFORE,
                f"the master sends nothing from {self.end} on, and this log ends at {self._own_end}: the master's ends"
                " before that, or no longer has that part",
            )

    def _own_log_end(self) -> int:
        return max(self.end, self._own_end)

    def _report_frame(self, offset: int) -> bytes:
        return encode_classic_report(offset)
