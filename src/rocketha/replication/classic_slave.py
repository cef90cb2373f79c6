"""The classic link, at the slave.

Must not know where its master is; a link begins when its connection is there.

Theory of operation.  It has one state, TRANSFER: it says at once where its log ends (Java up to 5 s later), appends
what comes, and reports.  Nothing tells it where the master's log ends: one that is ahead of a Java master hears
heartbeats at its own end and can not know (our master closes such a link).

Java: ``DefaultHAClient``.
"""

from __future__ import annotations

from rocketha.replication.link import Effect, LinkTiming
from rocketha.replication.slave_link import SlaveLink
from rocketha.wire.ha_frames import ClassicPieces, encode_classic_report


class ClassicSlave(SlaveLink):
    """See the module, and :class:`SlaveLink` for the parameters."""

    __slots__ = ("_pieces_of",)

    def __init__(self, end: int, file_size: int, now_ms: int, timing: LinkTiming | None = None) -> None:
        super().__init__(end, file_size, now_ms, timing or LinkTiming())
        self._pieces_of = ClassicPieces()

    def begin(self, now_ms: int) -> list[Effect]:
        """The connection is there."""
        self._report(now_ms)
        return self._taken()

    def _hear(self, data: bytes, now_ms: int) -> None:
        pieces = self._pieces_of.feed(data)
        last = pieces[-1] if pieces else None
        for piece in pieces:
            if not piece.data:
                self._heartbeat(piece.offset)
            else:
                self._receive(piece.offset, piece.data, self._pieces_of.left_of_piece if piece is last else 0)
        self._flush()

    def _report_frame(self, offset: int) -> bytes:
        return encode_classic_report(offset)
