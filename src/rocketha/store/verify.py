"""Whether a store's queues and indexes are what its log says: for tests and tools.

Pure, reads only.  It walks the whole log with CRC, computes every queue entry and key hash anew, and compares.  No
counterpart in Java.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketha.store.consume_queue import ConsumeQueue
from rocketha.store.dispatch import of_record, topic_problem
from rocketha.store.index import unit_hash
from rocketha.store.log_walk import LogWalk
from rocketha.store.message_store import MessageStore
from rocketha.wire import dledger
from rocketha.wire.spec.consume_queue import PADDING_SIZE
from rocketha.wire.store_files import QUEUE_UNIT, QueueUnit

PROBLEMS_MAX = 100


def verify(store: MessageStore) -> list[str]:
    """Every way in which queues and index differ from a rebuild from the log, in sentences; empty when they do not.

    A topic that was deleted has records and no queues; that is no difference.
    """
    return [problem for _, problem in zip(range(PROBLEMS_MAX), _problems(store), strict=False)]


def _problems(store: MessageStore) -> Iterator[str]:
    expected: dict[tuple[str, int], dict[int, QueueUnit]] = {}
    keys: list[tuple[int, int]] = []
    walk = LogWalk(store.log.segments, store.log.begin, store.log.end, store.log.layouts)
    ledger = store.ledger
    for record, entry in ((unit.record, unit.entry) for unit in walk.units()):
        if ledger is not None and entry is not None and ledger.index.unit(entry.entry_index) != dledger.unit_of(entry):
            yield f"the index of entries has {ledger.index.unit(entry.entry_index)}, the log {entry}"
        if record is None:
            continue
        dispatch = of_record(record, store.config.delay_levels_ms, store.config.index_tags)
        void = store.deleted_topics.is_void(record.topic, record.physical_offset)
        if dispatch.queued and not void and topic_problem(record.topic) is None:
            entries = expected.setdefault((record.topic, record.queue_id), {})
            if record.queue_offset in entries and record.queue_offset:
                yield f"offset {record.queue_offset} of {record.topic}/{record.queue_id} is in the log twice"
            entries[record.queue_offset] = QueueUnit(record.physical_offset, record.total, dispatch.tags_code)
        keys += [(unit_hash(record.topic, key), record.physical_offset) for key in dispatch.keys]
    if walk.position < store.log.end:
        yield f"the log is damaged at {walk.position}: {walk.reason}"
    behind = walk.last.entry.entry_index + 1 if walk.last is not None and walk.last.entry is not None else 0
    if ledger is not None and (ledger.index.next_offset, ledger.next_index) != (behind, behind):
        yield f"the index of entries goes on with {ledger.index.next_offset}, the log with {behind}"
    for queue in store.queues.all():
        yield from _queue_problems(queue, expected.pop((queue.topic, queue.queue_id), {}), store.log.begin)
    for topic, queue_id in sorted(expected):
        if topic in store.queues.queues:
            yield f"queue {topic}/{queue_id} is missing"
    yield from _index_problems(store, keys)


def _queue_problems(queue: ConsumeQueue, expected: dict[int, QueueUnit], log_begin: int) -> Iterator[str]:
    name = f"queue {queue.topic}/{queue.queue_id}"
    end = max(expected, default=-1) + 1
    if expected and queue.next_offset != end:
        yield f"{name} ends at {queue.next_offset}, the log says {end}"
    if expected and queue.min_offset != min(expected):
        yield f"{name} begins at {queue.min_offset}, the log says {min(expected)}"
    offset = queue.min_offset
    while offset < queue.next_offset:
        data = queue.read(offset, min(4096, queue.next_offset - offset))
        if not data:
            yield f"{name} has no entry {offset}"
            return
        for unit in map(QueueUnit._make, QUEUE_UNIT.layout.iter_unpack(data)):
            wanted = expected.get(offset)
            if wanted is None and unit.size != PADDING_SIZE and unit.physical_offset >= log_begin:
                yield f"{name} entry {offset} is {tuple(unit)}, the log has none"
            elif wanted is not None and unit != wanted:
                yield f"{name} entry {offset} is {tuple(unit)}, the log says {tuple(wanted)}"
            offset += 1


def _index_problems(store: MessageStore, keys: list[tuple[int, int]]) -> Iterator[str]:
    index = store.index
    if index is None:
        return
    units = [unit for unit in index.units() if unit[1] >= store.log.begin]
    # An index may begin later than the log (it was removed, or switched on later), never have a hole.
    first = units[0][1] if units else store.log.end
    wanted = [key for key in keys if key[1] >= first]
    if units != wanted:
        for number, (unit, key) in enumerate(zip(units, wanted, strict=False)):
            if unit != key:
                yield f"index unit {number} is {unit}, the log says {key}"
                return
        yield f"the index has {len(units)} units, the log says {len(wanted)}"
    for file in index.files:
        yield from file.chain_problems()
