"""The hot path: from messages to records, queue entries and index units, one write for a whole turn.

Pure.  Java: ``CommitLog.asyncPutMessage`` with ``DefaultAppendMessageCallback``, and the dispatch that Java does in
another thread. Order: encode all, write all, only then entries and units.  Queue offsets are taken while encoding and
given back if anything fails, so a failed turn leaves no trace (the store runs in one thread; nobody looks in
between).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import sub
from typing import cast

from rocketha.compiled import compiled
from rocketha.errors import InvariantBroken, ensure
from rocketha.store.commitlog import CommitLog, Run
from rocketha.store.config import StoreConfig
from rocketha.store.consume_queue import UNIT, ConsumeQueue, pack_unit
from rocketha.store.dispatch import SCHEDULE_TOPIC, deliver_time_ms
from rocketha.store.entries import Entries
from rocketha.store.index import Keyed, KeyedBatch, KeyedRecords, KeyIndex
from rocketha.store.messages import PlacedBatch, PutBatch, PutMessage, PutResult
from rocketha.store.queue_table import QueueTable
from rocketha.wire.crc import crc32
from rocketha.wire.dledger import HEAD_BYTES as ENTRY_HEAD_BYTES
from rocketha.wire.dledger import build_head
from rocketha.wire.properties import LENGTH_MAX as PROPERTIES_BYTES_MAX
from rocketha.wire.record import (
    HEAD_LAYOUTS,
    SHARED_LAYOUTS,
    SYS_FLAG_AT,
    TRANSACTION_BITS,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    topic_block,
)
from rocketha.wire.spec.commitlog import BORN_HOST_V6, STORE_HOST_V6

BLANK_BYTES = 8
"""What every record must leave free in its file (``CommitLog.END_FILE_MIN_BLANK_LENGTH``)."""
_KEEP_FLAGS = ~(BORN_HOST_V6 | STORE_HOST_V6)
_TOPICS_MAX = 10_000
_FIRST = struct.Struct(">iiii")
"""The first four fields of a head."""

_Entry = tuple[PutMessage, ConsumeQueue, bool, PutResult, int] | tuple[PutBatch, ConsumeQueue, bool, PlacedBatch, int]
"""message or batch, its queue, whether it gets an entry there, its place, its tags code (0 for a batch)"""

Group = Sequence[PutMessage] | PutBatch
"""What lies in one file."""


class Appender:
    """Appends turns to one store.

    :param entries: of the log; None where it has none.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: QueueTable,
        index: KeyIndex | None,
        config: StoreConfig,
        store_host: bytes,
        entries: Entries | None,
    ) -> None:
        ensure(len(store_host) in (8, 20), "a store host is IP and port, 8 or 20 bytes")
        self._log = log
        self._queues = queues
        self._index = index
        self._config = config
        self._store_host = store_host
        self._store_bit = STORE_HOST_V6 if len(store_host) == 20 else 0
        self._numbers = entries
        self._lead = config.layout.head_bytes
        ensure((entries is not None) == bool(self._lead), "a layout with entries has somebody who numbers them")
        self._record_max = min(
            config.message_bytes_max + config.record_overhead_max, config.segment_size - BLANK_BYTES - self._lead
        )
        self._topics: dict[str, tuple[int, bytes]] = {}

    def append(self, groups: Sequence[Group], wall_ms: int) -> list[list[PutResult] | PlacedBatch]:
        """Store a turn; each group lies in one file.

        :raises WriteInDoubt: nothing is stored, but the next start may find it.
        :raises DiskFailure: nothing was stored.
        :raises InvariantBroken: a message that no caller should have let through.
        """
        log = self._log
        log.check_writable()
        segment_size = self._config.segment_size
        position = log.end
        segment_end = position - position % segment_size + segment_size
        runs: list[Run] = []
        start, parts = position, []  # type: int, list[bytes]
        entries: list[_Entry] = []
        results: list[list[PutResult] | PlacedBatch] = []
        numbers = self._numbers
        first_index = 0 if numbers is None else numbers.next_index
        try:
            for group in groups:
                parts_mark, entries_mark = len(parts), len(entries)
                index_mark = 0 if numbers is None else numbers.next_index
                after = self._encode(group, position, wall_ms, parts, entries)
                if after + BLANK_BYTES > segment_end:
                    _give_back(entries, entries_mark)
                    if numbers is not None:
                        numbers.next_index = index_mark
                    del parts[parts_mark:]
                    parts.append(self._config.layout.blank(segment_end - position))
                    runs.append(Run(start, parts))
                    start = position = segment_end
                    segment_end += segment_size
                    parts = []
                    after = self._encode(group, position, wall_ms, parts, entries)
                    if after + BLANK_BYTES > segment_end:
                        raise InvariantBroken(
                            f"a batch of {after - position} bytes does not fit a file of {segment_size}"
                        )
                position = after
                if type(group) is PutBatch:
                    results.append(cast(PlacedBatch, entries[-1][3]))
                else:
                    results.append([cast(PutResult, entry[3]) for entry in entries[entries_mark:]])
            runs.append(Run(start, parts))
            if numbers is not None:
                runs = [Run(position, [b"".join(pieces)]) for position, pieces in runs]
            log.write(runs)
        except BaseException:
            _give_back(entries, 0)
            if numbers is not None:
                numbers.next_index = first_index
            raise
        if numbers is not None:
            for _, (data,) in runs:
                self.entered(data)
                numbers.fresh.append(data)
        self._dispatch(entries, wall_ms)
        return results

    def entered(self, data: bytes) -> None:
        """Whole entries are in the log, behind the last one.

        :raises RemoteProtocolError: they do not follow one another.
        """
        numbers = self._numbers
        assert numbers is not None
        self._queues.pending_bytes += numbers.written(data)
        self._queues.mark(numbers.index)

    def _encode(self, group: Group, position: int, wall_ms: int, parts: list[bytes], entries: list[_Entry]) -> int:
        if isinstance(group, PutBatch):
            return self._encode_batch(group, position, wall_ms, parts, entries)
        store_host, store_bit = self._store_host, self._store_bit
        queues, topics = self._queues.queues, self._topics
        layouts, add_part, add_entry = HEAD_LAYOUTS, parts.extend, entries.append
        numbers, lead = self._numbers, self._lead
        new = tuple.__new__  # of a NamedTuple: half the time of its own constructor
        for message in group:
            topic, queue_id, body, properties = message.topic, message.queue_id, message.body, message.properties
            try:
                queue = queues[topic][queue_id]
            except KeyError:
                queue = self._queues.get_or_make(topic, queue_id)
            known = topics.get(topic)
            if known is None:
                known = self._remember_topic(topic)
            magic, topic_bytes = known
            born_host = message.born_host
            sys_flag = message.sys_flag & _KEEP_FLAGS | store_bit
            if len(born_host) != 8:
                ensure(len(born_host) == 20, "a born host is IP and port, 8 or 20 bytes")
                sys_flag |= BORN_HOST_V6
            layout = layouts[sys_flag & 0x30]
            body_bytes, properties_bytes = len(body), len(properties)
            size = layout.size + body_bytes + len(topic_bytes) + 2 + properties_bytes
            if size > self._record_max or properties_bytes > PROPERTIES_BYTES_MAX:
                raise InvariantBroken(f"a record of {size} bytes with {properties_bytes} of properties")
            transaction = sys_flag & TRANSACTION_BITS
            queued = transaction != TRANSACTION_PREPARED and transaction != TRANSACTION_ROLLBACK
            queue_offset = 0
            if queued:
                queue_offset = queue.next_offset
                queue.next_offset = queue_offset + 1
            code = message.tags_code if message.delay_level <= 0 else self._code(message, wall_ms)
            if numbers is not None:
                parts.append(numbers.head(position, size))
                position += lead
            add_entry((message, queue, queued, new(PutResult, (queue_offset, position, size)), code))
            add_part(
                (
                    layout.pack(
                        size,
                        magic,
                        crc32(body) & 0x7FFFFFFF,
                        queue_id,
                        message.flag,
                        queue_offset,
                        position,
                        sys_flag,
                        message.born_timestamp_ms,
                        born_host,
                        wall_ms,
                        store_host,
                        message.reconsume_times,
                        message.prepared_offset,
                        body_bytes,
                    ),
                    body,
                    topic_bytes,
                    properties_bytes.to_bytes(2, "big"),
                    properties,
                )
            )
            position += size
        return position

    def _encode_batch(
        self, batch: PutBatch, position: int, wall_ms: int, parts: list[bytes], entries: list[_Entry]
    ) -> int:
        """The same for a batch: what its messages share is looked up once."""
        topic, queue_id, born_host = batch.topic, batch.queue_id, batch.born_host
        by_id = self._queues.queues.get(topic)
        queue = by_id.get(queue_id) if by_id is not None else None
        if queue is None:
            queue = self._queues.get_or_make(topic, queue_id)
        magic, topic_bytes = self._topics.get(topic) or self._remember_topic(topic)
        sys_flag = batch.sys_flag & _KEEP_FLAGS | self._store_bit
        ensure(not sys_flag & TRANSACTION_BITS, "a batch takes no part in transactions")
        if len(born_host) != 8:
            ensure(len(born_host) == 20, "a born host is IP and port, 8 or 20 bytes")
            sys_flag |= BORN_HOST_V6
        head = HEAD_LAYOUTS[sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)].pack(
            0,
            magic,
            0,
            queue_id,
            0,
            0,
            0,
            sys_flag,
            batch.born_timestamp_ms,
            born_host,
            wall_ms,
            self._store_host,
            batch.reconsume_times,
            0,
            0,
        )
        first, numbers = queue.next_offset, self._numbers
        if numbers is None:
            records, offsets, end = lay_out(batch, head, topic_bytes, first, position, self._record_max)
        else:
            index, term = numbers.next_index, numbers.term
            records, offsets, end = lay_out(batch, head, topic_bytes, first, position, self._record_max, index, term)
            numbers.next_index = index + len(offsets)
        parts += records
        queue.next_offset = first + len(offsets)
        entries.append((batch, queue, True, PlacedBatch(first, offsets, end), 0))
        return end

    def _code(self, message: PutMessage, wall_ms: int) -> int:
        if message.topic == SCHEDULE_TOPIC:
            return deliver_time_ms(message.delay_level, wall_ms, self._config.delay_levels_ms)
        return message.tags_code

    def _remember_topic(self, topic: str) -> tuple[int, bytes]:
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        known = self._topics[topic] = topic_block(topic)
        return known

    def _dispatch(self, entries: list[_Entry], wall_ms: int) -> None:
        queues, pack = self._queues, pack_unit
        keyed: list[Keyed] = []
        for message, queue, queued, place, code in entries:
            if isinstance(place, PlacedBatch):
                self._index_later(keyed, wall_ms)
                keyed = []
                self._dispatch_batch(cast(PutBatch, message), queue, place, wall_ms)
            else:
                _, physical_offset, size = place
                if queued:
                    queue.tail += pack(physical_offset, size, code)
                    queues.pending_bytes += UNIT
                if message.keys and message.sys_flag & TRANSACTION_BITS != TRANSACTION_ROLLBACK:
                    keyed.append((message.topic, cast(PutMessage, message).keys, physical_offset))
            if queued and not queue.dirty:
                queues.mark(queue)
        self._index_later(keyed, wall_ms)

    def _dispatch_batch(self, batch: PutBatch, queue: ConsumeQueue, place: PlacedBatch, wall_ms: int) -> None:
        offsets = place.physical_offsets
        queue.tail += queue_units(offsets, place.end, batch.tags_codes, self._lead)
        self._queues.pending_bytes += UNIT * len(offsets)
        if self._index is not None:
            records = KeyedBatch(batch.topic, batch.members, offsets, batch.keys)
            self._index.defer(records, wall_ms, place.end - offsets[0])

    def _index_later(self, keyed: list[Keyed], wall_ms: int) -> None:
        if keyed and self._index is not None:
            self._index.defer(KeyedRecords(keyed), wall_ms)


@compiled
def lay_out(
    batch: PutBatch,
    head: bytes,
    topic: bytes,
    queue_offset: int,
    position: int,
    size_max: int,
    entry_index: int = -1,
    term: int = 0,
) -> tuple[Sequence[bytes], list[int], int]:
    """The records of a batch that begin at ``position`` in the log, in pieces; their places; the end of the last.

    :param head: of any of them: what differs from record to record counts for nothing.
    :param topic: with its length, as in records.
    :param queue_offset: of the first.
    :param entry_index: of the first, where each record stands in an entry of DLedger's, of that term; else -1.
    :raises InvariantBroken: one has more than ``size_max`` bytes.
    """
    pack, (_, magic, _, queue_id), shared = (
        SHARED_LAYOUTS[len(head)].pack,
        _FIRST.unpack_from(head),
        head[SYS_FLAG_AT:-4],
    )
    parts: list[bytes] = []
    offsets: list[int] = []
    fixed, add_part = len(head) + len(topic) + 2, parts.extend
    members = batch.members
    for flag, body, properties in zip(members.flags, members.bodies, members.properties, strict=True):
        body_bytes, properties_bytes = len(body), len(properties)
        size = fixed + body_bytes + properties_bytes
        if size > size_max or properties_bytes > PROPERTIES_BYTES_MAX:
            raise InvariantBroken(f"a record of {size} bytes with {properties_bytes} of properties")
        crc = crc32(body) & 0x7FFFFFFF
        if entry_index >= 0:
            parts.append(build_head(entry_index, term, position, size))
            entry_index += 1
            position += ENTRY_HEAD_BYTES
        own = pack(size, magic, crc, queue_id, flag, queue_offset, position, shared, body_bytes)
        add_part((own, body, topic, properties_bytes.to_bytes(2, "big"), properties))
        offsets.append(position)
        queue_offset += 1
        position += size
    return parts, offsets, position


@compiled
def queue_units(offsets: list[int], end: int, tags_codes: Sequence[int], lead: int = 0) -> bytes:
    """Queue entries of records with ``lead`` bytes between two of them, the last up to ``end``."""
    stops = [offset - lead for offset in offsets[1:]]
    return b"".join(map(pack_unit, offsets, map(sub, [*stops, end], offsets), tags_codes))


def _give_back(entries: list[_Entry], mark: int) -> None:
    """Return the queue offsets of entries from ``mark`` on, and forget them."""
    for _, queue, queued, place, _ in reversed(entries[mark:]):
        if queued:
            queue.next_offset = place.queue_offset
    del entries[mark:]
