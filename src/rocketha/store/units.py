"""Equally long pieces, numbered, in files and a tail in memory: what a consume queue and the index of entries are.

Pure.  Theory of operation: new pieces go to ``tail``; a job writes it to the files now and then
(:mod:`rocketha.store.queue_table`), and reads are served from files and tail together.  Nothing is lost by that: both
follow from the log, and recovery writes them anew from the point that the checkpoint proves.

Invariant, in pieces: files hold ``[.., tail_from)``, the tail holds ``[tail_from, next_offset)``.
"""

from __future__ import annotations

from rocketha.errors import ensure
from rocketha.store.disk import Disk
from rocketha.store.foreign_names import ForeignNames
from rocketha.store.segment import OpenFiles, SegmentedFile, zero_tail


class UnitFiles:
    """One run of pieces.

    :cvar unit_bytes: of a piece.
    :ivar next_offset: number that the next one gets.
    :ivar tail: pieces not known to be in the files.
    :ivar dirty: the tail waits for a write; kept by :class:`~rocketha.store.queue_table.QueueTable`.
    """

    __slots__ = ("dirty", "files", "next_offset", "tail", "tail_from")
    unit_bytes: int

    def __init__(self, disk: Disk, files: OpenFiles, directory: str, file_size: int) -> None:
        self.files = SegmentedFile(disk, files, directory, file_size)
        self.next_offset = 0
        self.tail = bytearray()
        self.tail_from = 0
        self.dirty = False

    # Reading

    def read(self, offset: int, count: int) -> bytes:
        """Pieces from ``offset``, at most ``count``; fewer at the end or where a file is gone."""
        size = self.unit_bytes
        in_files = self.tail_from - offset
        if in_files <= 0:
            start = -in_files * size
            return bytes(self.tail[start : start + count * size])
        if count <= in_files:
            return self.files.read(offset * size, count * size)
        data = self.files.read(offset * size, in_files * size)
        if len(data) < in_files * size:
            return data
        return data + bytes(self.tail[: (count - in_files) * size])

    def first_held(self) -> int:
        """The oldest number for which there is a file or a piece in the tail."""
        return self.files.begin // self.unit_bytes if self.files.bases else self.tail_from

    # Starting

    def load(self, foreign: ForeignNames, begin: int = 0) -> None:
        """Find the files and the end of the written pieces.

        :param begin: what stands before that piece has no meaning, and may be missing.
        :raises CorruptStore: see :meth:`SegmentedFile.load`.
        """
        self.files.load(foreign)
        self.tail = bytearray()
        if not self.files.bases:
            self.next_offset = self.tail_from = 0
            return
        per_file = self.files.file_size // self.unit_bytes
        first = end = self.files.begin // self.unit_bytes
        # A file is made when its first piece is written, so only the newest can be partly filled; after a crash
        # several of the newest may be empty, hence the walk back.
        for base in reversed(self.files.bases):
            low = base // self.unit_bytes
            self.tail_from = low + per_file
            end = self._first_vacant(min(max(low, begin), low + per_file), low + per_file)
            if end > low or low == first:
                break
        self.tail_from = self.next_offset = end

    def _first_vacant(self, low: int, high: int) -> int:
        while low < high:
            middle = (low + high) // 2
            if self.is_vacant(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def is_vacant(self, offset: int) -> bool:
        """Whether no piece was written there."""
        raise NotImplementedError

    # Writing

    def written(self, upto: int) -> None:
        """The pieces below ``upto`` are in the files now."""
        if upto > self.tail_from:
            del self.tail[: (upto - self.tail_from) * self.unit_bytes]
            self.tail_from = upto

    def take_back(self, offset: int) -> int:
        """The pieces from ``offset`` on may not be in the files after all: they go to the tail again.

        :return: bytes that the tail grew by.
        :raises DiskFailure: they cannot be read; nothing is changed.
        """
        size = self.unit_bytes
        offset = max(offset, self.first_held())
        wanted = max(0, self.tail_from - offset) * size
        data = self.files.read(offset * size, wanted)
        if len(data) < wanted:
            return 0
        self.tail[:0] = data
        self.tail_from -= len(data) // size
        return len(data)

    def cut(self, end: int) -> int:
        """Drop the pieces from ``end`` on, in memory; :meth:`clean_behind` does it on disk.  Returns how many."""
        ensure(end <= self.next_offset, "a cut leaves no hole")
        dropped = self.next_offset - end
        del self.tail[max(0, (end - self.tail_from)) * self.unit_bytes :]
        self.tail_from = min(self.tail_from, end)
        self.next_offset = end
        return dropped

    def clean_behind(self) -> int:
        """Zero what the files hold behind the last piece, so that a crash cannot bring it back; returns the bytes
        changed."""
        end = self.tail_from * self.unit_bytes
        removed = self.files.remove_after(end)
        changed = 0
        if self.files.has(end):
            base = self.files.base_of(end)
            changed = zero_tail(self.files.file(base), end - base, self.files.file_size)
        if removed:
            self.files.sync_names()
        return changed
