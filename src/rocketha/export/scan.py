"""Reading a log for an export, one unit after the other: where each begins, what there is of each queue, when.

A unit is what a log is made of: a record of a message log, an entry of DLedger's.  Pure.  Where the log ends is
nowhere written: it is where the first bytes are that are none.  In the newest file that is the end; in an older one it
is damage.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Iterator
from typing import NamedTuple

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.export.manifest import QueuePart, Segment
from rocketha.wire.record import PHYSICAL_OFFSET_AT, RECORD_BYTES_MAX, Blank, Record, decode_any
from rocketha.wire.spec import commitlog as spec

END_OF_FILE_BYTES = 8
"""What is said at the end of a file, in either layout; what stands behind it has no meaning."""
HEAD_BYTES = PHYSICAL_OFFSET_AT + 8
"""Of a record, up to where it says at which place it stands."""
_MAGICS = [magic.to_bytes(4, "big", signed=True) for magic in (spec.MAGIC_V1, spec.MAGIC_V2)]


class Unit(NamedTuple):
    """What stands at one place of a log.

    :ivar size: bytes of it all.
    :ivar record: None of an entry that has none.
    :ivar good: whether the record matches its CRC.
    :ivar entry_index: number of the entry; -1 in a log without entries.
    :ivar term: of the entry.
    """

    size: int
    record: Record | None
    good: bool
    entry_index: int = -1
    term: int = -1


@attrs.define
class _Queue:
    messages: int
    first: int
    last: int


class Tally:
    """What a segment has so far; adds units to what a manifest says of it.

    :ivar at: offsets within their file of the added units that have a record.
    :ivar end: log offset behind the last unit.
    :ivar blank: the file ends here.
    :ivar stale: what stands here is an entry of an earlier term: it was cut, and DLedger leaves such bytes.
    :ivar last_index: number of the last entry; -1 where none is known.
    :ivar terms: those that begin here, each with the log offset of its first entry.
    """

    def __init__(self, before: Segment, last_index: int = -1, term: int = -1) -> None:
        """
        :param before: what is there already.
        :param last_index: of the last entry before this, where the segment has none yet.
        :param term: of that entry, or the segment's last.
        """
        self._before = before
        self.at: list[int] = []
        self.end = before.records_end
        self.blank = self.stale = False
        self.last_index = last_index if before.last_index < 0 else before.last_index
        self.term = term
        self.terms: list[tuple[int, int]] = []
        self._messages, self._corrupt = before.messages, before.corrupt
        self._stored = [before.first_stored_ms, before.last_stored_ms]
        self._born = [before.first_born_ms, before.last_born_ms]
        self._queues = {(q.topic, q.queue_id): _Queue(q.messages, q.first, q.last) for q in before.queues}

    def add(self, unit: Unit) -> None:
        """The next unit, which begins where the one before ended."""
        if unit.entry_index >= 0:
            self.last_index = unit.entry_index
            if unit.term != self.term:
                self.term = unit.term
                self.terms.append((unit.term, self.end))
        if unit.record is not None:
            self._count(unit.record, unit.good)
            self.at.append(self.end - self._before.base)
        self.end += unit.size

    def _count(self, record: Record, good: bool) -> None:
        stored, born, offset = record.store_timestamp_ms, record.born_timestamp_ms, record.queue_offset
        if not self._messages:
            self._stored, self._born = [stored, stored], [born, born]
        self._messages += 1
        self._corrupt += not good
        if stored < self._stored[0]:
            self._stored[0] = stored
        elif stored > self._stored[1]:
            self._stored[1] = stored
        if born < self._born[0]:
            self._born[0] = born
        elif born > self._born[1]:
            self._born[1] = born
        queue = self._queues.get((record.topic, record.queue_id))
        if queue is None:
            self._queues[record.topic, record.queue_id] = _Queue(1, offset, offset)
        else:
            queue.messages += 1
            if offset > queue.last:
                queue.last = offset
            elif offset < queue.first:
                queue.first = offset

    def segment(self, file_size: int) -> Segment:
        """All of it."""
        queues = (QueuePart(*key, queue.messages, queue.first, queue.last) for key, queue in self._queues.items())
        end = self._before.base + file_size if self.blank else self.end
        return attrs.evolve(
            self._before,
            end=end,
            records_end=self.end,
            full=end == self._before.base + file_size,
            messages=self._messages,
            corrupt=self._corrupt,
            first_stored_ms=self._stored[0],
            last_stored_ms=self._stored[1],
            first_born_ms=self._born[0],
            last_born_ms=self._born[1],
            queues=tuple(sorted(queues, key=lambda each: (each.topic, each.queue_id))),
            last_index=self.last_index,
        )

    def offsets(self) -> bytes:
        """``at`` as the index of an export holds it: four bytes each, big-endian."""
        words = array.array("I", self.at)
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()


def records(data: bytes, tally: Tally, room: int, corrupt_too: bool) -> Iterator[Unit]:
    """The records of a piece of a segment that begins where ``tally`` ends.

    Stops where the piece has no whole record any more, without a word; or at a blank, which ``tally`` is told of.

    :param room: bytes from there to the end of the segment's file.
    :param corrupt_too: a record whose lengths are right counts though its CRC is not.
    :raises RemoteProtocolError: what comes next is no record at all, one of another place, or the last one while its
        topic or properties may be missing.
    """
    base, at = tally.end, 0
    while len(data) - at >= 8:
        total = int.from_bytes(data[at : at + 4], "big")
        if len(data) - at < total <= min(room - at, RECORD_BYTES_MAX) and len(data) < room:
            return
        found, good = decoded(data, at, corrupt_too)
        if isinstance(found, Blank):
            if found.total != room - at:
                raise RemoteProtocolError(f"blank of {found.total} bytes, {room - at} are left")
            tally.blank = True
            return
        if found.physical_offset != base + at:
            raise RemoteProtocolError(f"the record says that it stands at {found.physical_offset}")
        if is_torn(found, data, at + found.total):
            raise RemoteProtocolError("what stands behind the body is not all written")
        yield Unit(found.total, found, good)
        at += found.total


def is_torn(record: Record, data: bytes, end: int) -> bool:
    """Whether a record may have been read before all of it was written: topic and properties are in no CRC.

    Logs are written in ascending order into zeros.  So all of a record is there if its last byte is, or anything behind
    it.  A value that itself ends with a zero byte waits for the next record.

    :param end: where in ``data`` the record ends.
    """
    if data[end - 1] or any(data[end : end + END_OF_FILE_BYTES]):
        return False
    return record.properties.endswith(b"\0") if record.properties else record.topic.endswith("\0")


def decoded(data: bytes, at: int, corrupt_too: bool) -> tuple[Record | Blank, bool]:
    """What stands at a place, and whether it matches its CRC.

    :raises RemoteProtocolError: it is no record, or does not match, and that is not allowed.
    """
    try:
        return decode_any(data, at), True
    except RemoteProtocolError:
        if not corrupt_too:
            raise
        return decode_any(data, at, check_crc=False), False


def records_follow(data: bytes, offset: int, tally: Tally) -> bool:
    """Whether anything in a piece of a log says that it is a record, and stands where it says.

    :param offset: log offset of the piece's first byte.
    """
    return next(marked(data, offset), None) is not None


def marked(data: bytes, offset: int) -> Iterator[int]:
    """Where in a piece of a log something says that it is a record, and stands where it says.

    :param offset: log offset of the piece's first byte.
    """
    for mark in _MAGICS:
        at = data.find(mark, 4)
        while at >= 0:
            begin = at - 4
            said = data[begin + PHYSICAL_OFFSET_AT : begin + HEAD_BYTES]
            if said == (offset + begin).to_bytes(8, "big"):
                yield begin
            at = data.find(mark, at + 1)
