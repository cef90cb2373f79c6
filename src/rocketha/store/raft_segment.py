"""One file of a Raft log: a header, then the records of adjacent entries.

Pure.  It must not know the other files.  Every byte of a segment is written at most once: whatever would have to be
overwritten (a conflicting suffix, the rest of a failed write, a torn tail) is replaced by a newer segment that begins
there, see :mod:`rocketha.store.raft_log`.  So behind the last record of the newest segment there are zeros, or what a
failed write or a power cut left; an older segment, all of it synced before its successor was made, is shrunk to its
records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rocketha.errors import CorruptStore, ensure
from rocketha.store.disk import Disk, File
from rocketha.wire import raft_records
from rocketha.wire.raft_entries import Entry
from rocketha.wire.raft_records import HEAD_BYTES, PREFIX_BYTES, Batch, SegmentHeader
from rocketha.wire.spec.raft_log import SEGMENT_HEADER_BYTES_MAX

CHUNK_BYTES = 256 * 1024
"""Read at a time."""

SAMPLE_BYTES = 64 * 1024
"""A record's position is remembered about this often."""

SUFFIX = ".log"


def file_name(header: SegmentHeader) -> str:
    """A segment's name, in the order of first indexes."""
    return f"{header.first_index:020d}-{header.sequence:010d}{SUFFIX}"


class Place(NamedTuple):
    """Behind an entry: its index, the offset behind its record, the record's checksum, its term."""

    index: int  # type: ignore[assignment]
    end: int
    crc: int
    term: int


class Segment:
    """An open segment.

    :ivar size: bytes of the file.
    :ivar end: where the next record goes.
    :ivar last: the last entry; ``first_index - 1`` when there is none.
    :ivar last_crc: of its record; ``previous_crc`` of the header when there is none.
    :ivar last_term: of it; ``previous_term`` of the header when there is none.
    """

    __slots__ = (
        "_cursor",
        "_sampled_at",
        "_samples",
        "end",
        "file",
        "header",
        "last",
        "last_crc",
        "last_term",
        "path",
        "size",
    )

    def __init__(self, path: str, header: SegmentHeader, file: File, size: int) -> None:
        self.path = path
        self.header = header
        self.file = file
        self.size = size
        self.end = header.header_bytes
        self.last = header.first_index - 1
        self.last_crc = header.previous_crc
        self.last_term = header.previous_term
        self._samples = [header.first_index]
        self._sampled_at = [header.header_bytes]
        self._cursor = (header.first_index, header.header_bytes)

    @property
    def first(self) -> int:
        """The first entry, there or to come."""
        return self.header.first_index

    # ---- writing

    def fitting(self, entries: Sequence[Entry]) -> int:
        """How many of these entries the file has room for."""
        room = self.size - self.end
        if sum([len(entry.data) for entry in entries]) + HEAD_BYTES * len(entries) <= room:
            return len(entries)
        for count, entry in enumerate(entries):
            room -= HEAD_BYTES + len(entry.data)
            if room < 0:
                return count
        return len(entries)

    def write(self, entries: Sequence[Entry], synced: int, commit: int) -> None:
        """Append records, in one write.

        :raises DiskFailure: any part may be in the file behind :attr:`end`, which has not moved.
        """
        data, crc = raft_records.encode(entries, self.header.crc, synced, commit)
        ensure(len(data) <= self.size - self.end, "records fit their segment")
        self.file.write(self.end, [data])
        self.took(entries, self.end, self.end + len(data), crc)

    def took(self, entries: Sequence[Entry], at: int, stop: int, crc: int) -> None:
        """Note records that stand at ``at``."""
        ensure(entries[0].index == self.last + 1, "a segment's entries are adjacent")
        for entry in entries if stop - at > 2 * SAMPLE_BYTES else entries[:1]:
            if at - self._sampled_at[-1] >= SAMPLE_BYTES:
                self._samples.append(entry.index)
                self._sampled_at.append(at)
            at += HEAD_BYTES + len(entry.data)
        self.end, self.last, self.last_crc, self.last_term = stop, entries[-1].index, crc, entries[-1].term

    def rewrite(self, index: int) -> None:
        """Write the records from ``index`` on once more, as they are."""
        at = self.header.header_bytes if index <= self.first else self.place(min(index - 1, self.last)).end
        while at < self.end:
            data = self.file.read(at, min(CHUNK_BYTES, self.end - at))
            ensure(bool(data), "a segment is as long as its records")
            self.file.write(at, [data])
            at += len(data)

    def place(self, index: int) -> Place:
        """Where the record of an entry ends, and what its successor must know of it.

        :raises CorruptStore: the records up to it are damaged.
        """
        if index == self.last:
            return Place(index, self.end, self.last_crc, self.last_term)
        position, batch = next(self._walk_to(index))
        for entry in batch.entries:
            stop = position + HEAD_BYTES + len(entry.data)
            if entry.index == index:
                crc = int.from_bytes(self.file.read(position, 4), "big")
                return Place(index, stop, crc, entry.term)
            position = stop
        raise CorruptStore(self.path, position, f"entry {index} is not where it was")

    def cut(self, place: Place) -> None:
        """Forget the records behind a place; the file is left as it is (:meth:`shrink`).  Asks nothing of the disk."""
        ensure(self.first <= place.index <= self.last, "a segment is cut behind one of its entries")
        self.last, self.end, self.last_crc, self.last_term = place
        keep = bisect_right(self._samples, place.index)
        del self._samples[keep:], self._sampled_at[keep:]
        self._cursor = (self._samples[-1], self._sampled_at[-1])

    def shrink(self) -> None:
        """Give back the space behind the last record, and with it whatever stands there."""
        self.file.truncate(self.end)
        self.size = self.end

    # ---- reading

    def read(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries from ``low`` to before ``high``: at least one, then at most ``bytes_max`` of data.

        :raises CorruptStore: a record is damaged; it is not served.
        """
        high = min(high, self.last + 1)
        found: list[Entry] = []
        size = 0
        for at, batch in self._walk_to(low):
            for entry in batch.entries:
                stop = at + HEAD_BYTES + len(entry.data)
                if entry.index >= low:
                    size += len(entry.data)
                    if entry.index >= high or (found and size > bytes_max):
                        return found
                    found.append(entry)
                    self._cursor = (entry.index + 1, stop)
                at = stop
            if found and found[-1].index == high - 1:
                break
        return found

    def _walk_to(self, index: int) -> Iterator[tuple[int, Batch]]:
        """Batches from the one that holds ``index`` on; never an empty one.

        :raises CorruptStore: before a batch would have a damaged record.
        """
        place = bisect_right(self._samples, index) - 1
        start, at = self._samples[place], self._sampled_at[place]
        if start <= self._cursor[0] <= index:
            start, at = self._cursor
        for position, batch in walk(self.file, at, self.end, self.header.crc, start, 0):
            if batch.problem is not None and (not batch.entries or batch.entries[-1].index < index):
                raise CorruptStore(self.path, position + batch.stop, batch.problem)
            if batch.entries[-1].index >= index:
                yield position, batch
            if batch.problem is not None:
                raise CorruptStore(self.path, position + batch.stop, batch.problem)
        raise CorruptStore(self.path, self.end, f"the file ends before entry {index}")


def walk(file: File, at: int, end: int, seed: int, index: int, term: int) -> Iterator[tuple[int, Batch]]:
    """(offset, batch) of all records from ``at`` to ``end``, a chunk each.

    The last batch has a ``problem``, unless the records end exactly at ``end``.
    """
    while at < end:
        data = file.read(at, min(CHUNK_BYTES, end - at))
        batch = raft_records.decode(data, 0, seed, index, term)
        if not batch.entries and batch.problem is None:  # the first record is longer than the chunk
            wanted = raft_records.record_length(data, 0) if len(data) >= HEAD_BYTES else HEAD_BYTES
            if wanted <= end - at:
                data = file.read(at, wanted)
                batch = raft_records.decode(data, 0, seed, index, term)
            if not batch.entries and batch.problem is None:
                batch = batch._replace(problem=f"the file ends within entry {index}")
        yield at, batch
        if batch.problem is not None:
            return
        at += batch.stop
        index, term = batch.entries[-1].index + 1, batch.entries[-1].term


def open_segment(disk: Disk, path: str) -> Segment:
    """An existing segment, its records not looked at yet.

    :raises CorruptStore: the header is damaged.
    """

    def refuse(reason: str) -> CorruptStore:
        return CorruptStore(path, 0, reason)

    file = disk.open(path)
    try:
        prefix = file.read(0, PREFIX_BYTES)
        data = file.read(0, raft_records.header_bytes(prefix, SEGMENT_HEADER_BYTES_MAX, refuse))
        return Segment(path, raft_records.parse_segment_header(data, refuse), file, file.size())
    except BaseException:
        file.close()
        raise


def create_segment(disk: Disk, directory: str, header: SegmentHeader, size: int, bytes_min: int) -> Segment:
    """A new segment; its name and header are on the disk when this returns.

    :param size: bytes of the file, more where ``bytes_min`` of records would not fit.
    :raises DiskFailure: there is none, unless the failure is of the directory's sync: then it may be there.
    """
    head = raft_records.build_segment_header(header)
    path = f"{directory}/{file_name(header)}"
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    size = max(size, len(head) + bytes_min)
    file = disk.create(temporary, size, preallocate=True)
    try:
        file.write(0, [head])
        file.sync()
        disk.rename(temporary, path)
        disk.sync_dir(directory)
    except BaseException:
        file.close()
        raise
    return Segment(path, raft_records.parse_segment_header(head), file, size)
