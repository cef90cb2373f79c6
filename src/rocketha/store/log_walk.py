"""Walking the log record by record, believing nothing: what recovery, rebuilding and verification read with.

Pure.  Java: the loops of ``CommitLog.recoverNormally`` / ``recoverAbnormally``.  A walk ends at the first bytes that
are not a whole, consistent record of this very offset whose body matches its CRC; a blank record leads to the next
file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rocketha.errors import RemoteProtocolError
from rocketha.store.layout import COMMITLOG, DLEDGER, Layouts, Unit
from rocketha.store.segment import SegmentedFile
from rocketha.wire.dledger import HEAD_BYTES, EntryHead, parse_head
from rocketha.wire.record import PHYSICAL_OFFSET_AT, RECORD_BYTES_MAX, RECORD_BYTES_MIN, Record, decode
from rocketha.wire.spec.commitlog import MAGIC_BLANK, MAGIC_V1, MAGIC_V2

CHUNK = 1 << 20
"""Bytes a walk reads at a time."""
FIRST_READ = 4096
"""Bytes read of a single record before its size is known."""
_HEAD_READ = PHYSICAL_OFFSET_AT + 8
"""Bytes that say how long a record is, and where it stands."""


class LogWalk:
    """One walk; iterate it once.

    :ivar position: offset behind the last good record (or blank): where the log ends, once the iteration is over.
    :ivar reason: why the walk ended there.
    :ivar last: what stands before the position; None where the walk began there.
    """

    def __init__(
        self, segments: SegmentedFile, start: int, stop: int | None = None, layouts: Layouts = COMMITLOG
    ) -> None:
        self.position = start
        self.reason = "the last file ends"
        self.last: Unit | None = None
        self._layouts = layouts
        self._segments = segments
        self._stop = segments.end if stop is None else stop
        self._data = b""
        self._data_from = start

    def __iter__(self) -> Iterator[Record]:
        for unit in self.units():
            if unit.record is not None:
                yield unit.record

    def units(self) -> Iterator[Unit]:
        """The same with entries that have no record."""
        segments, size = self._segments, self._segments.file_size
        while self.position < self._stop and segments.has(self.position):
            segment_end = self.position - self.position % size + size
            try:
                found = self._next(segment_end)
            except RemoteProtocolError as error:
                self.reason = str(error)
                return
            if found is None:
                self.position = segment_end
                continue
            yield found
            self.position += found.size
            self.last = found

    def _next(self, segment_end: int) -> Unit | None:
        position, layout = self.position, self._layouts.at(self.position)
        at = position - self._data_from
        if at + layout.head_bytes + 8 > len(self._data):
            at = self._fill(CHUNK, segment_end)
        size_at = at + layout.size_at
        size = int.from_bytes(self._data[size_at : size_at + 4], "big")
        believed = size <= layout.head_bytes + RECORD_BYTES_MAX and position + size <= segment_end
        if believed and size > len(self._data) - at:
            at = self._fill(max(size, CHUNK), segment_end)
        return layout.unit(self._data, at, position, segment_end - position, self.last)

    def _fill(self, size: int, segment_end: int) -> int:
        self._data_from = self.position
        self._data = self._segments.read(self.position, min(size, segment_end - self.position))
        return 0


class HeadWalk:
    """A walk over a log of entries by their heads alone; iterate it once.

    :ivar position: offset behind the last good one.
    :ivar reason: why the walk ended there; empty where it came to the end.
    """

    def __init__(self, segments: SegmentedFile, start: int, stop: int) -> None:
        self.position = start
        self.reason = ""
        self._segments = segments
        self._stop = stop

    def __iter__(self) -> Iterator[EntryHead]:
        segments, size, last = self._segments, self._segments.file_size, None
        while self.position < self._stop:
            position = self.position
            room = size - position % size
            data = segments.read(position, min(HEAD_BYTES, room))
            try:
                extent = DLEDGER.extent(data, 0, room)
                head = None if extent is None or extent.ends_file else parse_head(data)
            except RemoteProtocolError as error:
                self.reason = str(error)
                return
            if head is not None:
                if head.position != position or (last is not None and not head.follows(last)):
                    self.reason = f"{head} stands at {position}"
                    return
                yield head
            if extent is None:
                self.reason = f"nothing stands at {position}"
                return
            last, self.position = head or last, position + extent.size


_SECTOR = 512


def torn(record: Record, segments: SegmentedFile, power_cut: bool) -> str | None:
    """Why a record whose lengths and CRC are right was still not written whole; None if nothing speaks for that.

    The CRC covers the body only.  Where the topic or the properties were not written, they read as zeros: the rest of a
    raw append that ended within the record, or after a power cut a sector that was lost.  It is a guess: a producer may
    send zeros in a property, so only bytes that somebody else has may be judged by it.

    :param power_cut: look for lost sectors too.
    """
    topic = record.topic.encode("utf-8", "surrogatepass")
    if b"\0" not in record.properties and b"\0" not in topic:
        return None
    end = record.physical_offset + record.total
    room = min(8, -end % segments.file_size)
    if (record.properties or topic).endswith(b"\0") and not any(segments.read(end, room)):
        return f"the record at {record.physical_offset} ends in zeros, and so does the log"
    if not power_cut:
        return None
    properties_at = end - len(record.properties)
    for at, data in ((properties_at - 2 - len(topic), topic), (properties_at, record.properties)):
        edges = [at, *range(at - at % _SECTOR + _SECTOR, at + len(data), _SECTOR), at + len(data)]
        for low, high in itertools.pairwise(edges):
            if high > low and not any(data[low - at : high - at]):
                return f"the record at {record.physical_offset} has zeros in place of a sector"
    return None


def ended_by(segments: SegmentedFile, offset: int, limit: int, layouts: Layouts = COMMITLOG) -> bool:
    """Whether what begins at ``offset``, where a walk ended, was a whole unit at or before ``limit``, a log offset up
    to which the log was there; True too where its size can not be read any more.

    False: the bytes before ``limit`` were a part of a record.
    """
    layout = layouts.at(offset)
    if limit - offset < layout.head_bytes + RECORD_BYTES_MIN:
        return False
    total = int.from_bytes(segments.read(offset + layout.size_at, 4), "big")
    room = segments.file_size - offset % segments.file_size
    return not RECORD_BYTES_MIN <= total <= min(room, RECORD_BYTES_MAX) or offset + total <= limit


def part_of_record(segments: SegmentedFile, offset: int, limit: int) -> bool:
    """Whether the bytes before ``limit``, up to which the log is there, are a part of a record or blank that begins at
    ``offset`` and ends behind it; True of no bytes, and of too few to show that they are not.
    """
    head = segments.read(offset, min(_HEAD_READ, limit - offset))
    if len(head) < 8:
        return True
    total, room = int.from_bytes(head[:4], "big"), segments.file_size - offset % segments.file_size
    magic = int.from_bytes(head[4:8], "big", signed=True)
    if magic == MAGIC_BLANK:
        return total == room and offset + total > limit
    if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_BYTES_MIN <= total <= min(room, RECORD_BYTES_MAX):
        return False
    here = len(head) < _HEAD_READ or int.from_bytes(head[PHYSICAL_OFFSET_AT:], "big") == offset
    return here and offset + total > limit


def record_at(segments: SegmentedFile, offset: int) -> Record | None:
    """The record at an offset, None if there is no good one; reads little more than the record."""
    if offset < 0 or not segments.has(offset):
        return None
    room = segments.file_size - offset % segments.file_size
    data = segments.read(offset, min(FIRST_READ, room))
    total = int.from_bytes(data[:4], "big")
    if len(data) < total <= min(room, RECORD_BYTES_MAX):
        data = segments.read(offset, total)
    try:
        record = decode(data)
    except RemoteProtocolError:
        return None
    return record if record.physical_offset == offset else None
