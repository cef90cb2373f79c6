"""A slave's end of a link, classic or autoswitch: what is appended, and what is reported.

Must not know the frames; nor the log, of which it is told the end.

Theory of operation.  The bytes of the log are appended as they come, before their frame is whole; neighbours of one
read in one piece.  They must continue the log exactly.  Only an empty log begins wherever its master's does, at the
beginning of a file.  A frame that would cross the end of a file comes from a master with files of another size: Java
drops its tail and reconnects for ever; this link closes and says so.

What is reported is what the store says is there (:meth:`SlaveLink.appended`), not what was received: once a turn, and
each ``heartbeat_ms`` when nothing else is said.

Java: ``HAClient``.
"""

from __future__ import annotations

from rocketha.errors import RemoteProtocolError, ensure
from rocketha.replication.link import Append, Cause, Effect, Link, LinkRefused, LinkTiming

HEARTBEATS_IN_VAIN = 2
"""After so many in a row where bytes should be, the master has none."""

_JOIN_MAX = 64 * 1024
"""Pieces of one read are joined up to so many bytes; larger ones are not worth the copy."""


class SlaveLink(Link):
    """A slave's connection to its master.

    Invariant: ``reported <= _stored <= end``.

    :param end: where the own log ends.
    :param file_size: of the own log's files.
    """

    __slots__ = ("_file_size", "_pieces", "_pieces_at", "_pieces_bytes", "_stored", "end", "reported")

    def __init__(self, end: int, file_size: int, now_ms: int, timing: LinkTiming) -> None:
        super().__init__(timing, now_ms)
        self._file_size = file_size
        self._stored = end
        self.end = end
        """Where the own log will end when all that was received is appended."""
        self.reported = -1
        """What the master was last told; -1: nothing."""
        self._pieces: list[memoryview] = []  # neighbours that wait to be one Append, from _pieces_at
        self._pieces_at = 0
        self._pieces_bytes = 0

    @property
    def transfers(self) -> bool:
        """Whether both logs are known to be equal so far, and what comes is appended."""
        raise NotImplementedError

    def appended(self, end: int, now_ms: int) -> list[Effect]:
        """All before ``end`` is in the log, as durable as an acknowledgement of this broker promises.

        Told while the link :attr:`transfers`.
        """
        ensure(end <= self.end, f"appended up to {end}, received up to {self.end}")
        if self.closed:
            return []
        self._stored = max(self._stored, end)
        if self._reports() and self._stored > self.reported:
            self._report(now_ms)
        return self._taken()

    # -- of each protocol ---------------------------------------------------------------------------------------------

    def _report_frame(self, offset: int) -> bytes:
        """What tells the master of the log's end."""
        raise NotImplementedError

    def _reports(self) -> bool:
        """Whether the master is to be told."""
        return True

    def _own_log_end(self) -> int:
        """Where the own log ends, or will."""
        return self.end

    # -- within -------------------------------------------------------------------------------------------------------

    def _heartbeat(self, offset: int) -> None:
        """A frame without bytes, of a master whose next byte is that of ``offset``."""
        if self.end and offset != self.end:
            cause = Cause.MASTER_BEGINS_LATER if offset > self.end else Cause.MASTER_ENDS_BEFORE
            raise LinkRefused(cause, f"the master is at {offset}, and this log ends at {self._own_log_end()}")

    def _receive(self, offset: int, data: memoryview, left: int) -> None:
        """Bytes of the log.

        :param left: how many of the same frame follow.
        """
        size = len(data)
        if offset != self.end:
            if self.end:
                raise RemoteProtocolError(f"the master sends the log from {offset}, and this log ends at {self.end}")
            if offset % self._file_size:
                raise RemoteProtocolError(f"the master begins at {offset}, within a file of {self._file_size} bytes")
        into_file = offset % self._file_size
        if into_file + size + left > self._file_size:
            raise RemoteProtocolError(
                f"the master sends {size + left} bytes from {offset}, beyond the end of a file of {self._file_size}"
                " bytes: its mappedFileSizeCommitLog is another"
            )
        if not into_file or self._pieces_bytes + size > _JOIN_MAX:
            self._flush()
        if not self._pieces:
            self._pieces_at = offset
        self._pieces.append(data)
        self._pieces_bytes += size
        self.end = offset + size

    def _flush(self) -> None:
        """Have appended what waits."""
        if self._pieces:
            data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._effects.append(Append(self._pieces_at, data))
            self._pieces, self._pieces_bytes = [], 0

    def _report(self, now_ms: int) -> None:
        self.reported = self._stored
        self._send(self._report_frame(self._stored), now_ms)

    def _due(self, now_ms: int) -> None:
        if self._reports() and now_ms >= self._written_ms + self._timing.heartbeat_ms:
            self._report(now_ms)

    def _dues(self) -> list[int]:
        return [self._written_ms + self._timing.heartbeat_ms] if self._reports() else []
