"""From raw log bytes to queue entries and index units: the hot path of a replica.

Pure.  It makes of a log that came from elsewhere what ``append.py`` makes while it writes one, by the rules of
``dispatch.py``, so that the queues and the index of a replica equal its master's byte for byte.  Java:
``DefaultMessageStore.ReputMessageService``, which believes every record; here each is checked first, and the first
bad one ends it: bytes that do not match their CRC are never queued, and the promotion cuts them off.

Theory of operation: read a stretch of the log, walk its records by the fixed part of their heads, and put what they
ask for into queues and index.  The common record (IPv4 hosts, a short topic, plain text properties) takes a short way
through this file; any other goes through :func:`rocketha.wire.record.decode_any` and :func:`dispatch.of_record`, and
both ways say the same.

What a queue offset in the log can be, and what is made of it: the next one (put), a later one (the queue is padded:
the log lacks what is between), 0 again (the topic was deleted and made again: the queue begins anew), another one
before the next (a record that got its entry already, or a second one for an offset: no entry).
"""

from __future__ import annotations

from typing import NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.store.commitlog import CommitLog
from rocketha.store.config import StoreConfig
from rocketha.store.consume_queue import UNIT, ConsumeQueue, pack_unit
from rocketha.store.deleted_topics import DeletedTopics
from rocketha.store.dispatch import SCHEDULE_TOPIC, index_keys, of_record, tags_code, topic_problem
from rocketha.store.index import Keyed, KeyIndex
from rocketha.store.log_walk import record_at
from rocketha.store.queue_table import QUEUE_BYTES_LIMIT, QueueTable
from rocketha.wire import properties as properties_wire
from rocketha.wire.crc import crc32
from rocketha.wire.dledger import ENTRY_LOOK
from rocketha.wire.record import (
    DISPATCH_LAYOUT,
    HOST_BITS,
    RECORD_BYTES_MIN,
    TOPIC_BYTES_V1_MAX,
    TRANSACTION_BITS,
    Record,
)
from rocketha.wire.spec.commitlog import MAGIC_V1
from rocketha.wire.spec.consume_queue import PADDING_SIZE
from rocketha.wire.spec.dledger import MAGIC

CHUNK = 1 << 20
"""Bytes of the log read at a time, at most."""
GAP_MAX = 300_000
"""Entries a queue is padded with; behind a larger gap it begins anew at the offset of the record."""
QUEUE_OFFSET_MAX = (1 << 63) // UNIT - 1
NOTES_MAX = 50
_REMEMBERED_MAX = 10_000
_HEAD = DISPATCH_LAYOUT.size
_UNUSUAL_FLAGS = HOST_BITS | TRANSACTION_BITS
_UNIQUE = f"{properties_wire.UNIQUE_KEY}{properties_wire.NAME_VALUE}".encode()
_UNIQUE_BYTES = len(_UNIQUE)
_Rest = tuple[int, tuple[str, ...]]
"""What properties say without their unique key: tags code, index keys."""


class Damage(NamedTuple):
    """Where the log is not what a master wrote.

    :ivar offset: log offset of the record.
    :ivar reason: what is wrong with it.
    """

    offset: int
    reason: str


class _Waiting(Exception):
    """The next record is not to be dispatched yet."""


class Dispatcher:
    """Dispatches one log.

    :ivar position: everything before it is dispatched; always the beginning of a record, or of a file.
    :ivar damage: what ended it for good, until the log is cut.
    :ivar last_record: log offset and store time in ms of the newest record dispatched; None before the first.
    :ivar notes: what an operator should know, in sentences; the first :data:`NOTES_MAX`.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: QueueTable,
        index: KeyIndex | None,
        deleted: DeletedTopics,
        config: StoreConfig,
    ) -> None:
        self.position = 0
        self.damage: Damage | None = None
        self.last_record: tuple[int, int] | None = None
        self.notes: list[str] = []
        self._log = log
        self._queues = queues
        self._index = index
        self._deleted = deleted
        self._config = config
        self._topics: dict[bytes, str] = {}
        self._rests: dict[bytes, _Rest] = {}
        self._pending: list[Keyed] = []  # records of one store time, to be indexed
        self._pending_ms = 0

    def begin(self, position: int) -> None:
        """Go on from here: after a start or a cut."""
        self.position = position
        self.damage = None

    def run(self, limit: int, bytes_max: int) -> None:
        """Dispatch the records that end at or before ``limit``, about ``bytes_max`` bytes of them.

        Where it stops before that, the rest is an incomplete record, :attr:`damage`, or the queues wait for a job.

        :raises DiskFailure: the log cannot be read; nothing is done twice by calling again.
        """
        stop = min(limit, self.position + bytes_max)
        want = chunk = min(CHUNK, bytes_max)
        pending_max = QUEUE_BYTES_LIMIT * self._config.pending_queue_bytes_max
        while self.position < stop and self.damage is None and self._queues.pending_bytes <= pending_max:
            position = self.position
            segment_end = position - position % self._config.segment_size + self._config.segment_size
            data = self._log.read(position, min(want, limit - position, segment_end - position))
            try:
                self._chunk(data, position, segment_end, limit)
            except _Waiting:
                return
            except RemoteProtocolError as error:
                self.damage = Damage(self.position, str(error))
            finally:
                self._flush_keys()
            want = chunk
            if self.position == position and self.damage is None:
                layout = self._log.layouts.at(position)
                try:
                    extent = layout.extent(data, 0, segment_end - position)
                except RemoteProtocolError as error:
                    self.damage = Damage(position, str(error))
                    return
                want = layout.head_bytes + 8 if extent is None else extent.size
                if want <= len(data) or position + want > limit:
                    return

    def _chunk(self, data: bytes, base: int, segment_end: int, limit: int) -> None:
        """Dispatch the whole records of a stretch, and move :attr:`position` behind them.

        :raises RemoteProtocolError: there is no record at :attr:`position`, and there never will be.
        """
        at = put = last_ms = 0
        last = -1
        end, look, topics = len(data), DISPATCH_LAYOUT.unpack_from, self._topics
        queues, pack, meaning, pending = self._queues.queues, pack_unit, self._meaning, self._pending
        indexed = -1 if self._index is None else self._index.end_offset
        lead, look_at_head = self._log.layouts.at(base).head_bytes, ENTRY_LOOK.unpack_from
        try:
            while at + 8 <= end:
                total, begin = 0, at + lead
                if begin + _HEAD < end:
                    total, magic, crc, queue_id, queue_offset, physical, flags, store_ms, length = look(data, begin)
                    body_at, after, stop = begin + _HEAD, begin + _HEAD + length, begin + total
                if (
                    total == 0
                    or (lead and look_at_head(data, at) != (MAGIC, total + lead, base + at, total))
                    or magic != MAGIC_V1
                    or flags & _UNUSUAL_FLAGS
                    or physical != base + begin
                    or not 0 <= length <= total - RECORD_BYTES_MIN
                    or stop > end
                    or (length and crc32(data[body_at:after]) & 0x7FFFFFFF != crc)
                ):
                    taken = self._one(data, at, base, segment_end, limit)
                    if not taken:
                        break
                    at += taken
                    continue
                properties_at = after + data[after] + 3
                size = stop - properties_at
                try:
                    topic = topics[data[after + 1 : properties_at - 2]]
                    queue = queues[topic][queue_id]  # a topic that is void here has none
                except KeyError:
                    at += self._one(data, at, base, segment_end, limit)
                    continue
                if (
                    not 0 <= size <= properties_wire.LENGTH_MAX
                    or data[properties_at - 2] << 8 | data[properties_at - 1] != size
                    or queue_offset != queue.next_offset
                ):
                    at += self._one(data, at, base, segment_end, limit)
                    continue
                code, keys = meaning(data[properties_at:stop])
                queue.tail += pack(physical, total, code)
                queue.next_offset = queue_offset + 1
                put += 1
                if not queue.dirty:
                    self._queues.mark(queue)
                if keys and physical > indexed:
                    if store_ms != self._pending_ms:
                        self._flush_keys(store_ms)
                    pending.append((topic, keys, physical))
                last, last_ms = physical, store_ms
                at = stop
        finally:
            self.position = base + at
            self._queues.pending_bytes += UNIT * put
            if last >= 0 and (self.last_record is None or last > self.last_record[0]):
                self.last_record = (last, last_ms)

    def _meaning(self, properties: bytes) -> tuple[int, tuple[str, ...]]:
        """Tags code and index keys: what :func:`of_record` says.

        The properties of a producer's messages differ in the unique key; what the rest says is remembered.
        """
        at = properties.find(_UNIQUE)
        stop = properties.find(2, at + _UNIQUE_BYTES)
        if at < 0 or stop <= at + _UNIQUE_BYTES or (at and properties[at - 1] != 2):  # none, or an empty one
            return self._whole_meaning(properties)
        known = self._rests.get(properties[:at] + properties[stop:])
        if known is None:
            known = self._remember_rest(properties, at, stop)
            if known is None:
                return self._whole_meaning(properties)
        try:
            return known[0], (properties[at + _UNIQUE_BYTES : stop].decode(), *known[1])
        except UnicodeDecodeError:
            return 0, ()

    def _remember_rest(self, properties: bytes, at: int, stop: int) -> _Rest | None:
        """See that nothing but the one unique key, which is not the last piece, is needed besides the rest."""
        rest = properties[:at] + properties[stop:]
        if properties_wire.KEYS.encode() in rest or _UNIQUE in rest:
            return None
        if len(self._rests) >= _REMEMBERED_MAX:
            self._rests.clear()
        try:
            rest.decode()
        except UnicodeDecodeError:
            return None
        known = self._rests[rest] = self._whole_meaning(rest)
        return known

    def _whole_meaning(self, properties: bytes) -> tuple[int, tuple[str, ...]]:
        try:
            pairs = properties_wire.parse(properties)
        except RemoteProtocolError:  # the message itself is whole
            return 0, ()
        return tags_code(pairs), index_keys(pairs, self._config.index_tags)

    # One record, the long way

    def _one(self, data: bytes, at: int, base: int, segment_end: int, limit: int) -> int:
        """Dispatch any record, or pass over what ends a file; returns its bytes, 0 if it is not all there.

        :raises RemoteProtocolError: no record.
        """
        position, room = base + at, segment_end - base - at
        layout = self._log.layouts.at(position)
        extent = layout.extent(data, at, room)
        if extent is None:
            return 0
        if extent.ends_file:
            return extent.size if position + extent.size <= limit else 0
        if at + extent.size > len(data):
            return 0
        unit = layout.unit(data, at, position, room, None)
        if unit is not None and unit.record is not None:
            self._dispatch(unit.record)
        return extent.size

    def _dispatch(self, record: Record) -> None:
        dispatch = of_record(record, self._config.delay_levels_ms, self._config.index_tags)
        if dispatch.queued and not self._deleted.is_void(record.topic, record.physical_offset):
            problem = topic_problem(record.topic)
            if problem is None and not 0 <= record.queue_id < 1 << 31:
                problem = f"queue {record.queue_id}"
            if problem is None and not 0 <= record.queue_offset <= QUEUE_OFFSET_MAX:
                problem = f"queue offset {record.queue_offset}"
            if problem is not None:
                self._note(f"the record at {record.physical_offset} gets no queue entry: {problem}")
            else:
                queue = self._queues.get_or_make(record.topic, record.queue_id)
                if self._make_room(queue, record):
                    queue.put(record.physical_offset, record.total, dispatch.tags_code)
                    self._queues.mark(queue)
                    self._queues.pending_bytes += UNIT
                self._remember_topic(record.topic)
        if self._index is not None and dispatch.keys and record.physical_offset > self._index.end_offset:
            if record.store_timestamp_ms != self._pending_ms:
                self._flush_keys(record.store_timestamp_ms)
            self._pending.append((record.topic, dispatch.keys, record.physical_offset))
        self.last_record = (record.physical_offset, record.store_timestamp_ms)

    def _remember_topic(self, topic: str) -> None:
        data = topic.encode("utf-8", "surrogatepass")
        if topic != SCHEDULE_TOPIC and len(data) <= TOPIC_BYTES_V1_MAX:
            if len(self._topics) >= _REMEMBERED_MAX:
                self._topics.clear()
            self._topics[data] = topic

    def _make_room(self, queue: ConsumeQueue, record: Record) -> bool:
        """Let the queue's next offset be the record's; False if the record gets no entry."""
        wanted = record.queue_offset
        if wanted == queue.next_offset or queue.last().physical_offset >= record.physical_offset:
            return wanted == queue.next_offset
        name = f"queue {queue.topic}/{queue.queue_id}"
        if queue.next_offset == queue.first_held():
            self._begin_anew(queue, wanted)
        elif wanted == 0:
            self._note(f"topic {queue.topic} was deleted and made again before {record.physical_offset}")
            self._begin_anew(queue, 0)
        elif wanted < queue.next_offset and not self._has_entry(queue, wanted):
            if self._queues.busy:
                raise _Waiting  # a job that is out writes what is cut here
            queue.cut(wanted)  # torn in a crash so that it seems to point at a file that is gone
        elif wanted < queue.next_offset:
            self._note(f"the record at {record.physical_offset} repeats offset {wanted} of {name} and gets no entry")
            return False
        elif wanted - queue.next_offset > GAP_MAX:
            self._note(f"{name} has {queue.next_offset} entries and goes on at {wanted}: it begins anew there")
            self._begin_anew(queue, wanted)
        else:
            self._note(f"the log lacks the offsets {queue.next_offset} to {wanted} of {name}")
            if queue.min_offset == queue.next_offset:  # nothing before it is live
                queue.min_offset = wanted
            while queue.next_offset < wanted:
                queue.put(record.physical_offset, PADDING_SIZE, 0)
                self._queues.pending_bytes += UNIT
        return True

    def _has_entry(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether the entry at an offset is that of a record in the log."""
        unit = queue.unit(offset)
        record = record_at(self._log.segments, unit.physical_offset)
        return record is not None and (record.topic, record.queue_id, record.queue_offset, record.total) == (
            queue.topic,
            queue.queue_id,
            offset,
            unit.size,
        )

    def _begin_anew(self, queue: ConsumeQueue, offset: int) -> None:
        if queue.files.bases and self._queues.busy:
            raise _Waiting  # a job that is out would make the old files again
        queue.reset()
        if offset:
            queue.start_at(offset)

    def _flush_keys(self, next_ms: int = 0) -> None:
        """Index what was collected; what comes now has another store time."""
        if self._pending and self._index is not None:
            self._index.put_all(self._pending, self._pending_ms)
        self._pending.clear()
        self._pending_ms = next_ms

    def _note(self, text: str) -> None:
        if len(self.notes) < NOTES_MAX:
            self.notes.append(text)
