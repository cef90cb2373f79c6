"""Reading a log record by record for an export: where each begins, what there is of each queue, when.

Pure.  Where the log ends is nowhere written: it is where the first bytes are that are no record.  In the newest file
that is the end; in an older one it is damage.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Iterator

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.export.manifest import QueuePart, Segment
from rocketha.wire.record import PHYSICAL_OFFSET_AT, RECORD_BYTES_MAX, Blank, Record, decode_any
from rocketha.wire.spec import commitlog as spec

BLANK_HEAD_BYTES = 8
HEAD_BYTES = PHYSICAL_OFFSET_AT + 8
"""Of a record, up to where it says at which place it stands."""
_MAGICS = [magic.to_bytes(4, "big", signed=True) for magic in (spec.MAGIC_V1, spec.MAGIC_V2)]


@attrs.define
class _Queue:
    messages: int
    first: int
    last: int


class Tally:
    """What a segment has so far; adds records to what a manifest says of it.

    :ivar at: offsets of the added records within their file.
    """

    def __init__(self, before: Segment) -> None:
        self._before = before
        self.at: list[int] = []
        self.end = before.records_end
        self.blank = False
        self._messages, self._corrupt = before.messages, before.corrupt
        self._stored = [before.first_stored_ms, before.last_stored_ms]
        self._born = [before.first_born_ms, before.last_born_ms]
        self._queues = {(q.topic, q.queue_id): _Queue(q.messages, q.first, q.last) for q in before.queues}

    def add(self, record: Record, good: bool) -> None:
        """The next record, which begins where the one before ended."""
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
        self.at.append(self.end - self._before.base)
        self.end += record.total

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
        )

    def offsets(self) -> bytes:
        """``at`` as the index of an export holds it: four bytes each, big-endian."""
        words = array.array("I", self.at)
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()


def records(data: bytes, tally: Tally, room: int, corrupt_too: bool) -> Iterator[tuple[Record, bool]]:
    """The records of a piece of a segment that begins where ``tally`` ends, each with whether it matches its CRC.

    Stops where the piece has no whole record any more, without a word; or at a blank, which ``tally`` is told of.

    :param room: bytes from there to the end of the segment's file.
    :param corrupt_too: a record whose lengths are right counts though its CRC is not.
    :raises RemoteProtocolError: what comes next is no record at all, or one of another place.
    """
    base, at = tally.end, 0
    while len(data) - at >= 8:
        total = int.from_bytes(data[at : at + 4], "big")
        if len(data) - at < total <= min(room - at, RECORD_BYTES_MAX) and len(data) < room:
            return
        good = True
        try:
            found = decode_any(data, at)
        except RemoteProtocolError:
            if not corrupt_too:
                raise
            found = decode_any(data, at, check_crc=False)
            good = False
        if isinstance(found, Blank):
            if found.total != room - at:
                raise RemoteProtocolError(f"blank of {found.total} bytes, {room - at} are left")
            tally.blank = True
            return
        if found.physical_offset != base + at:
            raise RemoteProtocolError(f"the record says that it stands at {found.physical_offset}")
        yield found, good
        at += found.total


def follows(data: bytes, offset: int) -> bool:
    """Whether anything in a piece of a log says that it is a record, and stands where it says.

    :param offset: log offset of the piece's first byte.
    """
    for mark in _MAGICS:
        at = data.find(mark, 4)
        while at >= 0:
            begin = at - 4
            said = data[begin + PHYSICAL_OFFSET_AT : begin + HEAD_BYTES]
            if said == (offset + begin).to_bytes(8, "big"):
                return True
            at = data.find(mark, at + 1)
    return False
