"""A master's end of a link, classic or autoswitch: what is sent next, and which acknowledgements can be true.

Must not know the frames; the machine of each protocol writes the heads.

Theory of operation.  One block of the log is under way at a time: :class:`SendLog` goes out, and when the transport has
taken it (:meth:`MasterLink.drained`) the next one does.  So a slow slave costs one block of memory, and the kernel's
buffers are the pipeline.  A block never crosses a file, nor what :meth:`MasterLink._room` says (an epoch's end).  With
nothing to send, news of the log (:meth:`MasterLink.log_grew`) makes the next block leave at once.

A frame without bytes says that the slave has all: a slave takes two of them before the end of the log for a master that
lost that part.  So while the throttle holds a block back none is sent; when it is time for a sign of life, a few bytes
of the log go out as one, at the throttle's expense.

A slave that ends outside of this log is told the nearer end of it, by a frame without bytes there, before the link
closes: it then knows what it needs to know to begin anew, or to refuse that.

An acknowledgement is true if it is not below the one before and not above what was sent on this connection: bytes that
were never sent acknowledge nothing (regressions A11, A12).

Java: ``HAConnection``'s write and read services, ``WaitNotifyObject``.
"""

from __future__ import annotations

from rocketha.errors import RemoteProtocolError, ensure
from rocketha.replication.link import Ack, Cause, Effect, Link, LinkRefused, LinkTiming, SendLog
from rocketha.replication.log_view import LogView
from rocketha.replication.throttle import Throttle

NOWHERE = -1

_SIGN_OF_LIFE_BYTES = 64
"""Of the log, once a heartbeat's time, where the throttle allows less."""


class MasterLink(Link):
    """One slave's connection, at the master.

    Invariant: ``_acked <= position`` once there is a position, and ``position <= log.end`` as long as the log is only
    appended to; who cuts it closes its links.

    :param batch_bytes: largest body (``haTransferBatchSize``).
    :param throttle: this link's limit; None: no limit.
    """

    __slots__ = ("_batch_bytes", "_log", "_resume_ms", "_start", "_throttle", "_under_way", "acked", "position")

    def __init__(
        self, log: LogView, now_ms: int, timing: LinkTiming, batch_bytes: int, throttle: Throttle | None
    ) -> None:
        super().__init__(timing, now_ms)
        ensure(batch_bytes > 0, f"blocks of {batch_bytes} bytes")
        self._log = log
        self._met_by_ms = now_ms + timing.handshake_ms
        self._batch_bytes = batch_bytes
        self._throttle = throttle or Throttle(0, 0)
        self._under_way = False  # a block left and the transport has not taken all of it
        self._resume_ms: int | None = None  # when the throttle lets the next block go
        self._start = NOWHERE
        self.position = NOWHERE
        """Offset of the next byte to send; NOWHERE before the slave said where to begin."""
        self.acked = NOWHERE
        """What the slave last acknowledged; NOWHERE: nothing."""

    def log_grew(self, now_ms: int) -> list[Effect]:
        """There is more log than before."""
        if not self.closed:
            self._transfer(now_ms)
        return self._taken()

    def drained(self, now_ms: int) -> list[Effect]:
        """The transport took all that it was given."""
        if not self.closed and self._under_way:
            self._under_way = False
            self._written_ms = now_ms
            self._transfer(now_ms)
        return self._taken()

    # -- of each protocol ---------------------------------------------------------------------------------------------

    def _head(self, size: int) -> bytes:
        """What stands before ``size`` bytes from ``position``; 0 is a heartbeat."""
        raise NotImplementedError

    def _introduce(self) -> None:
        """The slave will be served: say whose link it is, if that is known."""

    def _room(self) -> int:
        """Bytes from ``position`` on that one head can stand for."""
        return self._batch_bytes

    # -- within -------------------------------------------------------------------------------------------------------

    def _begin(self, reported: int, first: int, now_ms: int) -> None:
        """The slave's first report.

        :param first: where a slave begins that has nothing.
        """
        log = self._log
        self._met_by_ms = None
        if reported and not log.begin <= reported <= log.end:
            reason = (
                f"the slave's log ends at {reported}, outside of this log, which goes from {log.begin} to {log.end}"
            )
            self._show(log.begin if reported < log.begin else log.end, now_ms)
            raise LinkRefused(Cause.SLAVE_IS_ELSEWHERE, reason)
        self._start = self.position = reported or first
        self._introduce()
        self._acknowledge(reported)
        self._transfer(now_ms)

    def _show(self, offset: int, now_ms: int) -> None:
        """Say where this log begins, or ends: the last that the slave hears."""
        self.position = offset
        self._send(self._head(0), now_ms)

    def _acknowledge(self, offset: int) -> None:
        if offset < self.acked:
            raise RemoteProtocolError(f"the slave acknowledges {offset}, after {self.acked}")
        if offset != self.acked and offset and not self._start <= offset <= self.position:
            raise RemoteProtocolError(
                f"the slave acknowledges {offset}, but was sent the log from {self._start} to {self.position}"
            )
        self.acked = offset
        if self._effects and isinstance(self._effects[-1], Ack):
            self._effects.pop()  # of several in one read the last one says it all
        self._effects.append(Ack(offset))

    def _transfer(self, now_ms: int, least: int = 0) -> None:
        """Let the next block go, if there is one and it may.

        :param least: so many bytes may in any case.
        """
        if self._under_way or self.position == NOWHERE:
            return
        if self.position < self._log.begin:
            reason = f"the log begins at {self._log.begin} now, and the slave is at {self.position}"
            self._show(self._log.begin, now_ms)
            self._close(reason, Cause.SLAVE_IS_ELSEWHERE)
            return
        available = self._log.readable(self.position)
        if not available:
            return
        size = min(available, self._batch_bytes, self._room())
        wait_ms = self._throttle.wait_ms(now_ms)
        if wait_ms:
            if not least:
                self._resume_ms = now_ms + wait_ms
                return
            size = min(size, least)
        self._resume_ms = None
        ensure(size > 0, f"a block of {size} bytes at {self.position}")
        head = self._head(size)
        self._effects.append(SendLog(self.position, size, head))
        self._throttle.took(len(head) + size, now_ms)
        self.position += size
        self._under_way = True
        self._written_ms = now_ms

    def _due(self, now_ms: int) -> None:
        if self._resume_ms is not None and now_ms >= self._resume_ms:
            self._transfer(now_ms)
        if self._under_way or self.position == NOWHERE or self.closed or now_ms < self._speak_ms():
            return
        if self._resume_ms is not None:
            self._transfer(now_ms, _SIGN_OF_LIFE_BYTES)
        else:
            self._send(self._head(0), now_ms)

    def _dues(self) -> list[int]:
        if self._under_way or self.position == NOWHERE:
            return []  # what is under way tells the slave more than a heartbeat behind it
        dues = [self._speak_ms()]
        if self._resume_ms is not None:
            dues.append(self._resume_ms)
        return dues

    def _speak_ms(self) -> int:
        """When a frame without bytes is due, if no other leaves before."""
        return self._written_ms + self._timing.heartbeat_ms
