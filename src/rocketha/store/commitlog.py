"""The message log: where records are written, read, synced and cut.

Pure.  Java: ``CommitLog``.  It knows offsets and files; the records themselves are made in ``append.py`` and judged in
``wire/record.py``.

Durability, in this order: the records of a turn are written (``write``); a flush job syncs every file that was written
since the last one, then the directory if a file was made; only then ``flushed`` moves and a synchronous send is
acknowledged.  A failed sync is final: the kernel may have dropped the bytes and would call the next sync a success, so
the log takes nothing more until the process has started again and looked at what is there.  Until then no replica is
sent what lies behind ``flushed``: a page that was dropped is read as it was before, and raw bytes are checked by
nobody.  Consumers are shown it, record by record with its CRC, because they may have read it before.  A directory that
cannot be opened now (:class:`NotOpened`) is no failed sync: the next flush syncs it.

A failed write leaves unknown bytes behind ``end``, perhaps all of them.  They are zeroed at once, or, where the disk
does not take that either, before anything else is appended; until then every append is refused before it begins.  While
the process lives nothing reads them.  A process that dies before they are zeroed, or a machine whose power fails before
the zeros are synced, may leave a whole record, and recovery takes it for one: it cannot know what was answered.  So the
outcome of a write that failed half way is unknown (:class:`WriteInDoubt`), and whoever is told of it must be told so.
Everything else that is refused has left no byte.
"""

from __future__ import annotations

import contextlib
import errno
from typing import NamedTuple

from rocketha.errors import DiskFailure, NotOpened, WriteInDoubt, ensure
from rocketha.store.disk import Buffer, Disk, File
from rocketha.store.jobs import Job
from rocketha.store.layout import COMMITLOG, Divided, Layout, Layouts
from rocketha.store.segment import OpenFiles, SegmentedFile, zero_tail

RECENT_BYTES = 8 << 20
"""Before the end of the log: what this process wrote there is taken to be in the page cache."""
RECORD_HEAD = 8
"""Bytes of a record's size and magic."""
PAGE = 4096
"""What a page cache allocates at a time, at least."""
PREFAULT_BYTES = 64 * PAGE
_ZEROS = memoryview(bytes(PREFAULT_BYTES))


class Run(NamedTuple):
    """Bytes for one file: a log offset and the parts that go there, one after the other."""

    position: int
    parts: list[bytes]


class CommitLog:
    """The log.

    :ivar end: offset behind the last record: where the next one goes (Java's max physical offset).
    :ivar flushed: everything below is on the disk.
    :ivar sync_failed: of what lies behind ``flushed`` nobody knows whether it will be read as it was written.
    :ivar written_from: what lies behind was written by this process.
    :ivar broken: why the log takes no more writes, for good; None while it does.
    """

    def __init__(
        self,
        disk: Disk,
        files: OpenFiles,
        directory: str,
        segment_size: int,
        layout: Layout = COMMITLOG,
        older: str | None = None,
    ) -> None:
        """Opens nothing.

        :param older: where an ordinary broker has begun the log that is DLedger's now.
        """
        self.segments = SegmentedFile(disk, files, directory, segment_size, older)
        self._layout = layout
        self.end = 0
        self.flushed = 0
        self.sync_failed = False
        self.written_from = 0
        self.broken: str | None = None
        self._disk = disk
        self._segment_size = segment_size
        self._writers: dict[int, File] = {}  # files that may hold unsynced bytes, and the current one, by base
        self._flushing = False
        self._preparing = False
        self._spoiled: list[tuple[int, int]] = []  # (offset, bytes) of failed writes, not yet zeroed
        self._prefaulted = 0  # up to here there are pages behind the end

    @property
    def sound_end(self) -> int:
        """Up to here the log reads as it was written."""
        return self.flushed if self.sync_failed else self.end

    @property
    def begin(self) -> int:
        """Offset of the first byte that is kept."""
        return self.segments.begin

    @property
    def layouts(self) -> Layouts:
        """How its files lie."""
        return Divided(self.segments.divide) if self.segments.divide else self._layout

    @property
    def spoiled(self) -> bool:
        """Whether a failed write waits to be zeroed."""
        return bool(self._spoiled)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the log below ``end``; short or empty where they are not there."""
        return self.segments.read(offset, min(size, self.end - offset)) if offset >= 0 else b""

    def is_recent(self, offset: int) -> bool:
        """Whether this process wrote what stands there a moment ago: then it is in memory."""
        return offset >= self.end - RECENT_BYTES and offset >= self.written_from

    def readable(self, offset: int) -> int:
        """Bytes from ``offset`` to the end of its file or of the log, as far as it reads as written; 0 outside."""
        if not self.begin <= offset < self.sound_end or not self.segments.bases:
            return 0
        return min(self.sound_end - offset, self._segment_size - offset % self._segment_size)

    # Writing

    def check_writable(self) -> None:
        """Make sure that the next write may happen.

        :raises DiskFailure: the log is broken, or a failed write could not be undone yet.
        """
        if self.broken is not None:
            raise DiskFailure(self.segments.directory, "write", errno.EIO, self.broken)
        self._take_back()

    def _take_back(self) -> None:
        while self._spoiled:
            offset, size = self._spoiled[-1]
            base = self.segments.base_of(offset)
            self._writer(base).write(offset - base, [bytes(size)])
            self._spoiled.pop()

    def write(self, runs: list[Run]) -> None:
        """Write a turn; ``end`` moves only when all of it is written.

        :raises WriteInDoubt: nothing of it counts, but the next start may find it.
        :raises DiskFailure: nothing of it was written.
        """
        begun: list[tuple[int, int]] = []
        end = self.end
        if len(runs) > 1:  # nothing is written before the next file is there, or the outcome would be in doubt
            for position, _ in runs:
                self._writer(position - position % self._segment_size)
        try:
            for position, parts in runs:
                data = b"".join(parts)
                base = position - position % self._segment_size
                file = self._writers.get(base)
                if file is None:
                    file = self._writer(base)
                begun.append((position, len(data)))
                file.write(position - base, (data,))
                end = position + len(data)
        except DiskFailure as failure:
            self._undo(begun, failure)
            raise
        self.end = end

    def write_raw(self, data: Buffer) -> None:
        """Write a replica's bytes at ``end``, wherever they are cut; ``end`` moves only when all are written.

        Nothing is copied.  An empty log takes its first file from ``end``.

        :raises WriteInDoubt: nothing of it counts, but the next start may find it.
        :raises DiskFailure: nothing of it was written.
        """
        view = memoryview(data)
        begun: list[tuple[int, int]] = []
        position = self.end
        try:
            while view:
                start = position % self._segment_size
                base = position - start
                file = self._writers.get(base)
                if file is None:
                    file = self._writer(base)
                part = view[: self._segment_size - start]
                begun.append((position, len(part)))
                file.write(start, (part,))
                position += len(part)
                view = view[len(part) :]
        except DiskFailure as failure:
            self._undo(begun, failure)
            raise
        self.end = position

    def prefault(self, size: int) -> None:
        """Have the pages of the next ``size`` bytes in the page cache, as far as they lie in this file.

        A new page costs about 1 us, on a virtual machine 10: a broker that pays for it between two requests answers
        sooner.  Made together they cost half; so where some are missing, all of the next PREFAULT_BYTES are made.
        Zeros are written, only to whole pages behind the end, where nothing but zeros is.  That the disk takes none is
        left to the next write.
        """
        at = self.end % self._segment_size
        base = self.end - at
        start = _whole_pages(max(at, self._prefaulted - base))
        if start >= min(at + min(size, PREFAULT_BYTES), self._segment_size):
            return
        file = self._writers.get(base)
        if file is None or self._spoiled or self.broken is not None:
            return
        stop = min(_whole_pages(at + PREFAULT_BYTES), self._segment_size)
        with contextlib.suppress(DiskFailure):
            file.write(start, (_ZEROS[: stop - start],))
            self._prefaulted = base + stop

    def _undo(self, begun: list[tuple[int, int]], failure: DiskFailure) -> None:
        """Take back what a failed write may have written; :class:`WriteInDoubt` where there may be something."""
        if not begun:
            return
        self._spoiled.extend(begun)
        with contextlib.suppress(DiskFailure):
            self._take_back()
        raise WriteInDoubt(failure.path, failure.operation, failure.errno, failure.message) from failure

    def _writer(self, base: int) -> File:
        file = self._writers.get(base)
        if file is None:
            if self.segments.has(base):
                file = self._disk.open(self.segments.path(base))
            else:
                file = self.segments.create(base)
            self._writers[base] = file
        return file

    # Syncing

    def flush_job(self) -> Job | None:
        """Sync what was written so far.

        None when everything is on the disk, when nothing may be claimed any more, and while another such job is out:
        the writes that come meanwhile share the next one, which is what makes a group commit.
        """
        if self._flushing or self.flushed == self.end or self.broken is not None:
            return None
        self._flushing = True
        target = self.end
        files = [self._writers[base] for base in sorted(self._writers)]
        names = self.segments.names_changed
        self.segments.names_changed = False

        def run() -> None:
            for file in files:
                file.sync()
            if names:
                self._disk.sync_dir(self.segments.directory)

        return Job("flush", run, lambda: self._flushed(target), lambda error: self._flush_failed(error, names))

    def _flushed(self, target: int) -> None:
        self._flushing = False
        if self.broken is not None:
            return
        self.flushed = max(self.flushed, target)
        current = self.segments.base_of(self.end)
        for base in [base for base in self._writers if base < min(current, self.segments.base_of(self.flushed))]:
            self._writers.pop(base).close()

    def _flush_failed(self, error: Exception, names: bool) -> None:
        self._flushing = False
        if isinstance(error, NotOpened):  # the directory: all files were synced, and so they are by the next flush
            self.segments.names_changed |= names
            return
        self.sync_failed = True
        if self.broken is None:
            self.broken = f"a sync failed, what is on the disk is unknown: {error}"

    # The next file

    def segment_job(self, preallocate: bool, warm: bool) -> Job | None:
        """Make the file after the current one ahead of its time; None when it is there."""
        base = self.segments.base_of(self.end) + self._segment_size
        if self._preparing or not self.segments.bases or self.segments.end != base:
            return None
        # Made under another name and renamed when done: an append that cannot wait makes the file itself meanwhile,
        # and the zeros of the warming must never fall on its records.
        temporary = self.segments.directory + ".next"

        def run() -> None:
            if self._disk.exists(temporary):
                self._disk.remove(temporary)
            file = self._disk.create(temporary, self._segment_size, preallocate)
            try:
                if warm:
                    _warm(file, self._segment_size)
                file.sync()
            finally:
                file.close()
            # The files before it first, or a power cut could leave a gap.
            self._disk.sync_dir(self.segments.directory)

        def apply() -> None:
            self._preparing = False
            if self.segments.end == base:
                self._disk.rename(temporary, self.segments.path(base))
                self.segments.bases.append(base)
                self.segments.names_changed = True

        def fail(_: Exception) -> None:
            self._preparing = False

        self._preparing = True
        return Job("segment", run, apply, fail)

    # Starting, cutting, stopping

    def truncate(self, end: int) -> int:
        """Cut the log at ``end`` and make sure that the cut part cannot come back; blocking.  Returns the bytes erased.

        Files behind are removed newest first, so that the rest is adjacent at any moment.  In the file of ``end`` the
        size and magic of what stood there are zeroed and synced before the others: a crash then leaves the old record
        whole or no record, never one whose CRC matches and whose properties are zeros.
        """
        ensure(not self._flushing, "no flush is out while the log is cut")
        self.close()
        self.segments.remove_after(end)
        self.segments.sync_names()
        base = self.segments.base_of(end)
        erased = 0
        if self.segments.has(base):
            file = self.segments.file(base)
            head = file.read(end - base, RECORD_HEAD)
            if head.count(0) != len(head):
                file.write(end - base, [bytes(len(head))])
                file.sync()
                erased = len(head) - head.count(0)
            erased += zero_tail(file, end - base, self._segment_size)
            file.sync()
        self._spoiled.clear()  # it is behind the end, so it is zeros now, or its file is gone
        self.end = self.flushed = self.written_from = end
        return erased

    def close(self) -> None:
        """Give the descriptors for writing back; syncs nothing."""
        for file in self._writers.values():
            file.close()
        self._writers.clear()
        self._prefaulted = 0


def _whole_pages(size: int) -> int:
    """Bytes of the pages that hold so many."""
    return -(-size // PAGE) * PAGE


def _warm(file: File, size: int) -> None:
    """Write zeros, so that later writes change data only and a sync needs no journal commit."""
    chunk = bytes(1 << 20)
    for start in range(0, size, len(chunk)):
        file.write(start, [chunk[: size - start]])
        if start % (1 << 26) == 0:
            file.sync()
