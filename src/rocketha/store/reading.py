"""Reading messages: by queue, by place in the log, by key, by time.

Pure.  Java: ``DefaultMessageStore.getMessage``, ``queryMessage``, ``getOffsetInQueueByTime``.  Records that lie close
together are read with one call and cut apart in memory; only what goes out is kept.  Every body is checked against
its CRC first.  A reader may say that it waits for no disk (:mod:`rocketha.store.in_memory`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter

from rocketha.errors import RemoteProtocolError
from rocketha.store.commitlog import CommitLog
from rocketha.store.config import StoreConfig
from rocketha.store.consume_queue import UNIT, ConsumeQueue
from rocketha.store.deleted_topics import DeletedTopics
from rocketha.store.dispatch import index_keys
from rocketha.store.in_memory import RECORD_FETCH_BYTES, Lack, NotInMemory, RecordPart, Wait
from rocketha.store.index import KeyIndex
from rocketha.store.messages import GetResult, GetStatus
from rocketha.wire import properties as properties_wire
from rocketha.wire.record import RECORD_BYTES_MAX, SYS_FLAG_AT, Buffer, Record, decode, take_intact
from rocketha.wire.spec.commitlog import BORN_HOST_V6
from rocketha.wire.store_files import QUEUE_UNIT, QueueUnit

SPAN_FACTOR = 4
"""Read records together while that reads at most this many times their bytes."""
SMALL_SPAN_BYTES = 1 << 16
"""... or while all of them lie that close together ..."""
GAP_BYTES_MAX = 4096
"""... or while the next record lies within a page: reading that much costs less than another call."""
SPAN_BYTES_MAX = 1 << 20
_NEAR_END = 16
_BORN_HOST_AT = 48
_unit = QUEUE_UNIT.layout.unpack_from
_units = QUEUE_UNIT.layout.iter_unpack
_size_of = itemgetter(1)


class Reader:
    """Reads one store; changes nothing.

    :ivar confirm_offset: log offset up to which messages may be seen; None for all that is stored.
    """

    def __init__(self, log: CommitLog, index: KeyIndex | None, deleted: DeletedTopics, config: StoreConfig) -> None:
        self.confirm_offset: int | None = None
        self._log = log
        self._index = index
        self._deleted = deleted
        self._config = config
        self._buffer = memoryview(bytearray(SPAN_BYTES_MAX))  # of what is read without waiting

    def visible_end(self, queue: ConsumeQueue, wait: Wait = Wait.ANYTHING) -> int:
        """The queue's max offset as consumers see it.

        :raises NotInMemory: it would take more than ``wait``.
        """
        confirm, end = self.confirm_offset, queue.next_offset
        if confirm is None or confirm >= self._log.end:
            return end

        def is_hidden(offset: int) -> bool:
            data = queue.read(offset, 1) if offset >= queue.tail_from else self._entries(queue, offset, 1, wait)
            return len(data) == UNIT and sum(_unit(data)[:2]) > confirm

        held = queue.first_held()
        if end <= held or not is_hidden(end - 1):
            return end
        low = min(max(queue.min_offset, held), end)
        # What is not confirmed is the newest: look near the end first.
        high, step = end, _NEAR_END
        while high - step > low:
            if not is_hidden(high - step):
                low = high - step
                break
            high, step = high - step, step * _NEAR_END
        return low + bisect_left(range(low, high), True, key=is_hidden)

    def physical_offset(self, queue: ConsumeQueue, offset: int, wait: Wait = Wait.ANYTHING) -> int:
        """Log offset of the message at an index of a queue; -1 where there is none.

        :raises NotInMemory: it would take more than ``wait``.
        """
        data = self._entries(queue, offset, 1, wait)
        return _physical_offset(data, 0) if data else -1

    def entries(self, queue: ConsumeQueue, offset: int, count: int, wait: Wait = Wait.ANYTHING) -> list[QueueUnit]:
        """Entries of a queue from an index on.

        :raises NotInMemory: it would take more than ``wait``.
        """
        data = bytes(self._entries(queue, offset, count, wait))
        return [QueueUnit(*found) for found in QUEUE_UNIT.layout.iter_unpack(data[: len(data) // UNIT * UNIT])]

    def get(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_messages: int,
        max_bytes: int,
        accepts: Callable[[int], bool] | None,
        wait: Wait = Wait.ANYTHING,
    ) -> GetResult:
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, self.visible_end(queue, wait)
        if high == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        entries = max_messages if accepts is None else max(max_messages, self._config.filter_entries_max)
        data = self._entries(queue, offset, min(entries, high - offset), wait)
        if not data:
            per_file = queue.files.file_size // UNIT
            next_file = min(high, offset - offset % per_file + per_file)
            return GetResult(GetStatus.OFFSET_FOUND_NULL, next_file, low, high)
        limit = min(max(max_bytes, 100), self._config.get_bytes_max)
        next_offset, wanted = _choose(data, offset, max_messages, limit, accepts)
        behind = self._log.end - _physical_offset(data, next_offset - offset - 1)  # before the buffer has other bytes
        pieces, count = self._read(wanted, wait)
        damaged = len(wanted) - count
        if count:
            size = sum(map(len, pieces))
            return GetResult(GetStatus.FOUND, next_offset, low, high, tuple(pieces), count, size, damaged, behind)
        status = GetStatus.MESSAGE_WAS_REMOVING if wanted else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, next_offset, low, high, damaged=damaged, behind=behind)

    def _entries(self, queue: ConsumeQueue, offset: int, count: int, wait: Wait) -> Buffer:
        """Packed entries, as :meth:`ConsumeQueue.read`."""
        in_files = min(count, queue.tail_from - offset)
        if wait is Wait.ANYTHING or in_files <= 0:
            return queue.read(offset, count)
        view = self._view(in_files * UNIT)
        found = queue.files.read_cached(offset * UNIT, view, wait)
        if found is False:
            raise NotInMemory(queue.files.parts(offset * UNIT, len(view)))
        if found and in_files == count:
            return view
        return queue.read(offset, count)

    def _span(self, first: int, size: int, wait: Wait, lacks: list[Lack]) -> bytes:
        """Bytes of the log; none, and their place in ``lacks``, if they would have to be waited for."""
        log = self._log
        if wait is Wait.ANYTHING or log.is_recent(first):
            return log.read(first, size)
        view = self._view(min(size, log.end - first))
        found = log.segments.read_cached(first, view, wait)
        if found is False:
            lacks += log.segments.parts(first, len(view))
            return b""
        return bytes(view) if found else log.read(first, size)  # records are cut out of bytes much faster

    def _view(self, size: int) -> memoryview:
        return self._buffer[:size] if size <= len(self._buffer) else memoryview(bytearray(size))

    def _read(self, wanted: Sequence[tuple[int, int, int]], wait: Wait) -> tuple[list[bytes], int]:
        """The good ones of some records, given as queue entries: their bytes, and how many they are."""
        pieces: list[bytes] = []
        lacks: list[Lack] = []
        start = count = 0
        while start < len(wanted):
            first, size, _ = wanted[start]
            if not 0 < size <= RECORD_BYTES_MAX:
                start += 1  # an entry that points nowhere
                continue
            end, useful, stop = first + size, size, start + 1
            last, last_size, _ = wanted[-1]
            if first < last < first + SMALL_SPAN_BYTES and 0 < last_size <= RECORD_BYTES_MAX:
                end, stop = last + last_size, len(wanted)
            while stop < len(wanted):
                offset, size, _ = wanted[stop]
                useful += size
                span = offset + size - first
                if (
                    span > SPAN_BYTES_MAX
                    or offset < end
                    or (offset - end > GAP_BYTES_MAX and span > SPAN_FACTOR * useful)
                ):
                    break
                end = offset + size
                stop += 1
            data = self._span(first, end - first, wait, lacks)
            part = wanted[start:stop]
            if self._config.verify_on_read:
                found, good = take_intact(data, first, part)
            else:
                found = [data[at - first : at - first + size] for at, size, _ in part if at - first + size <= len(data)]
                good = len(found)
            pieces += found
            count += good
            start = stop
        if lacks:
            raise NotInMemory(lacks)
        return pieces, count

    def message_at(self, physical_offset: int, wait: Wait = Wait.ANYTHING) -> bytes | None:
        """The whole record at a log offset; None if there is no good one below ``confirm_offset``.

        :raises NotInMemory: it would take more than ``wait``.
        """
        lacks: list[Lack] = []
        found = self._message_at(physical_offset, wait, lacks)
        if lacks:
            raise NotInMemory(lacks)
        return None if found is None else found[0]

    def _message_at(self, physical_offset: int, wait: Wait, lacks: list[Lack]) -> tuple[bytes, Record] | None:
        """The same, and what it holds; None, and the record in ``lacks``, if it would have to be waited for."""
        log = self._log
        if not log.begin <= physical_offset < log.end:
            return None
        cold: list[Lack] = []
        base = log.segments.base_of(physical_offset)
        itself = RecordPart(log.segments.path(base), physical_offset - base)
        room = log.segments.file_size - itself.offset  # a record lies in one file
        data = self._span(physical_offset, min(RECORD_FETCH_BYTES, room), wait, cold)
        if cold:
            lacks.append(itself)
            return None
        total = int.from_bytes(data[:4], "big")
        if not 0 < total <= RECORD_BYTES_MAX or physical_offset + total > log.end:
            return None
        if self.confirm_offset is not None and physical_offset + total > self.confirm_offset:
            return None
        if total > len(data):
            data = self._span(physical_offset, total, wait, cold)
        if cold:
            lacks.append(itself)
            return None
        try:
            record = decode(data)
        except RemoteProtocolError:
            return None
        return (data[: record.total], record) if record.physical_offset == physical_offset else None

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, wait: Wait = Wait.ANYTHING
    ) -> list[bytes]:
        if self._index is None or max_count <= 0:
            return []
        offsets = self._index.find(topic, key, 4 * max_count, begin_ms, end_ms, wait)
        return self._with_key(
            topic, key, offsets, max_count, lambda record: begin_ms <= record.store_timestamp_ms <= end_ms, wait
        )

    def query_placed(self, topic: str, key: str, max_count: int, first: int, end: int, wait: Wait) -> list[bytes]:
        if self._index is None:
            return []
        offsets = self._index.find_placed(topic, key, 4 * max_count, first, end, wait)
        return self._with_key(topic, key, offsets, max_count, lambda record: True, wait)

    def _with_key(
        self, topic: str, key: str, offsets: Sequence[int], max_count: int, wanted: Callable[[Record], bool], wait: Wait
    ) -> list[bytes]:
        """The records at offsets that do have the key: equal hashes are not equal keys."""
        found: list[bytes] = []
        lacks: list[Lack] = []
        for offset in dict.fromkeys(offsets):
            if len(found) + len(lacks) >= max_count:  # no more than may be needed
                break
            if self._deleted.is_void(topic, offset):
                continue
            message = self._message_at(offset, wait, lacks)
            if message is None:
                continue
            data, record = message
            if record.topic != topic or not wanted(record):
                continue
            try:
                keys = index_keys(properties_wire.parse(record.properties))
            except RemoteProtocolError:
                continue
            if key in keys:
                found.append(data)
        if lacks:
            raise NotInMemory(lacks)
        return found

    # Time

    def store_time(self, physical_offset: int, wait: Wait = Wait.ANYTHING) -> int:
        """Store time of the record at a log offset in ms; -1 where there is none.

        :raises NotInMemory: it would take more than ``wait``.
        """
        if not self._log.begin <= physical_offset < self._log.end:
            return -1
        lacks: list[Lack] = []
        data = self._span(physical_offset, _BORN_HOST_AT + 20 + 8, wait, lacks)
        if lacks:
            raise NotInMemory(lacks)
        if len(data) < _BORN_HOST_AT + 8 + 8:
            return -1
        at = _BORN_HOST_AT + (20 if data[SYS_FLAG_AT + 3] & BORN_HOST_V6 else 8)
        return int.from_bytes(data[at : at + 8], "big", signed=True)

    def store_time_at(self, queue: ConsumeQueue, offset: int, wait: Wait = Wait.ANYTHING) -> int:
        """The same of the message at an index of a queue."""
        data = self._entries(queue, offset, 1, wait)
        return self.store_time(_physical_offset(data, 0), wait) if data else -1

    def offset_by_time(self, queue: ConsumeQueue, timestamp_ms: int, upper: bool, wait: Wait = Wait.ANYTHING) -> int:
        low, high = queue.min_offset, queue.next_offset

        def is_behind(offset: int) -> bool:
            stored_ms = self.store_time_at(queue, offset, wait)
            return stored_ms > timestamp_ms or (stored_ms == timestamp_ms and not upper)

        first = low + bisect_left(range(low, high), True, key=is_behind)
        return max(low, first - 1) if upper else first


def _physical_offset(data: Buffer, index: int) -> int:
    """Of one of some packed entries."""
    return int.from_bytes(data[index * UNIT : index * UNIT + 8], "big", signed=True)


def _choose(
    data: Buffer, offset: int, max_messages: int, limit: int, accepts: Callable[[int], bool] | None
) -> tuple[int, Sequence[tuple[int, int, int]]]:
    """``(next offset, records to read)``: the first record always fits, as in Java.

    Entries that point nowhere are among the records; reading leaves them out and counts them.
    """
    units = list(_units(data))
    if accepts is None and sum(map(_size_of, units)) <= limit:
        return offset + len(units), units
    wanted: list[tuple[int, int, int]] = []
    total = 0
    for physical_offset, size, code in units:
        if wanted and (total + size > limit or len(wanted) >= max_messages):
            break
        offset += 1
        if accepts is None or accepts(code):
            wanted.append((physical_offset, size, code))
            total += size
    return offset, wanted
