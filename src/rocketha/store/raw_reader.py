"""Raw bytes of the log, for one link to a replica.

Pure.  It knows offsets and files, not what the bytes mean.  Java: ``CommitLog.getData``.
"""

from __future__ import annotations

from rocketha.errors import CorruptStore
from rocketha.store.commitlog import CommitLog
from rocketha.store.disk import Disk, File


class RawReader:
    """Log bytes for one link: it keeps the descriptor of the file it sends from, whatever else is opened or expires.

    Close it when the link is gone, and before the log is cut.
    """

    def __init__(self, log: CommitLog, disk: Disk) -> None:
        self._log = log
        self._disk = disk
        self._file: File | None = None
        self._base = -1

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes, which lie in one file.

        :raises CorruptStore: they are not there; ask :meth:`CommitLog.readable` first.
        """
        file, start = self._locate(offset, size)
        data = file.read(start, size)
        if len(data) != size:
            raise CorruptStore(file.path, start, f"{len(data)} of {size} bytes are there")
        return data

    def read_cached(self, offset: int, view: memoryview) -> bool:
        """Fill ``view`` with the log from ``offset`` on, of one file, if no disk has to be waited for.

        The end of the log was written a moment ago: its file is opened here, and where nobody knows what is in memory
        it is read here.  So no replica that keeps up waits behind the reads for one that is far behind.

        :returns: False: then :meth:`read`, which may be called in a thread if nothing else of this object is meanwhile.
        :raises CorruptStore: see :meth:`read`.
        :raises DiskFailure: it cannot be opened, or read.
        """
        base = self._check(offset, len(view))
        recent = self._log.is_recent(offset)
        if not recent and (self._file is None or base != self._base):
            return False
        file, start = self._locate(offset, len(view))
        cached = file.read_cached(start, view)
        if cached is None and recent:
            view[:] = self.read(offset, len(view))
            return True
        return bool(cached)

    def _check(self, offset: int, size: int) -> int:
        segments = self._log.segments
        base = segments.base_of(offset)
        if not 0 < size <= self._log.readable(offset):
            raise CorruptStore(segments.path(base), offset - base, f"{size} bytes are not in the log")
        return base

    def _locate(self, offset: int, size: int) -> tuple[File, int]:
        base = self._check(offset, size)
        if self._file is None or base != self._base:
            self.close()
            self._file = self._disk.open(self._log.segments.path(base))
            self._base = base
        return self._file, offset - base

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None
