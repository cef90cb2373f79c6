"""The classic link, at the master.

Must not know which replicas have to acknowledge, nor whose connection this is: nothing on the wire says it.

Theory of operation.  The slave speaks first: the end of its log.  A slave that has nothing begins where the last file
does, as with Java (its older files come from nowhere; S1.39); any other goes on where it ends, if this log has that
place.  Java sends heartbeats for ever to one that is ahead or behind (regressions A12, C11); here the link closes and
says why.  From then on each report is an acknowledgement.

Java: ``DefaultHAConnection``.
"""

from __future__ import annotations

from enum import Enum

from rocketha.replication.link import BATCH_BYTES, LinkTiming
from rocketha.replication.log_view import LogView, last_file_start
from rocketha.replication.master_link import MasterLink
from rocketha.replication.throttle import Throttle
from rocketha.wire.ha_frames import ClassicReports, encode_classic_head


class ClassicMasterState(Enum):
    """What the slave's next report means."""

    WAITING = "where to begin"
    TRANSFER = "an acknowledgement"


class ClassicMaster(MasterLink):
    """See the module, and :class:`MasterLink` for the parameters."""

    __slots__ = ("_reports", "state")

    def __init__(
        self,
        log: LogView,
        now_ms: int,
        timing: LinkTiming | None = None,
        batch_bytes: int = BATCH_BYTES,
        throttle: Throttle | None = None,
    ) -> None:
        super().__init__(log, now_ms, timing or LinkTiming(), batch_bytes, throttle)
        self._reports = ClassicReports()
        self.state = ClassicMasterState.WAITING

    def _hear(self, data: bytes, now_ms: int) -> None:
        for offset in self._reports.feed(data):
            if self.state is ClassicMasterState.WAITING:
                self.state = ClassicMasterState.TRANSFER
                self._begin(offset, last_file_start(self._log), now_ms)
            else:
                self._acknowledge(offset)

    def _head(self, size: int) -> bytes:
        return encode_classic_head(self.position, size)
