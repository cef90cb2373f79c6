"""What the store's tests share: small files, messages, a store on a disk, and what a reader of it sees."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs

from rocketha.errors import DiskFailure
from rocketha.store.config import StoreConfig
from rocketha.store.disk import Disk
from rocketha.store.dispatch import delay_level, index_keys, tags_code
from rocketha.store.jobs import run_here
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetStatus, PutMessage
from rocketha.wire import properties as properties_wire
from rocketha.wire.record import Record, scan

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
HOST_V6 = bytes(range(16)) + (10911).to_bytes(4, "big")
NOW_MS = 1_700_000_000_000
ROOT = "/data/store"
SMALL = StoreConfig(
    segment_size=4096,
    queue_file_size=20 * 20,
    index_slots=40,
    index_units=60,
    message_bytes_max=2048,
    record_overhead_max=1024,
    open_files_max=4,
)
"""Files so small that a few messages roll every one of them."""
ON_REAL_DISK = attrs.evolve(SMALL, disk_force_enable=False, disk_full_ratio=1.0)
"""The same for a real disk, whatever else is on it."""


def message(
    number: int, topic: str = "T", queue_id: int = 0, body: bytes | None = None, born_host: bytes = HOST, **more: str
) -> PutMessage:
    """A message as the broker makes it of a producer's."""
    fields = {"UNIQ_KEY": f"7F0000010A2B18B4AAC2{number:012X}", "TAGS": f"tag{number % 3}", **more}
    return PutMessage(
        topic,
        queue_id,
        number & 0xFF,
        0,
        NOW_MS + number,
        born_host,
        0,
        0,
        b"body %d" % number if body is None else body,
        properties_wire.build(fields),
        tags_code(fields),
        index_keys(fields),
        delay_level(fields),
    )


def open_store(disk: Disk, config: StoreConfig = SMALL, root: str = ROOT, now_ms: int = NOW_MS) -> MessageStore:
    """A loaded store."""
    store = MessageStore(disk, root, config, HOST)
    store.load(now_ms, pid=4711)
    return store


def memory_disk(seed: int = 1, tear_bytes: int = 512) -> MemoryDisk:
    """An empty disk."""
    return MemoryDisk(random.Random(seed), tear_bytes)


def flush(store: MessageStore) -> None:
    """Sync the log."""
    job = store.flush_job()
    if job is not None:
        run_here([job], store.finished)


def upkeep(store: MessageStore, now_ms: int) -> None:
    """Run what is due."""
    run_here(store.maintenance(now_ms, now_ms), store.finished)


def try_upkeep(store: MessageStore, now_ms: int) -> None:
    """Run what is due, as a broker does: a failing job is told to the store and tried again later."""
    for job in store.maintenance(now_ms, now_ms):
        try:
            job.run()
        except DiskFailure as error:
            store.finished(job, error)
        else:
            store.finished(job, None)


def read_queue(store: MessageStore, topic: str = "T", queue_id: int = 0, step: int = 7) -> list[Record]:
    """Every message of a queue as a consumer gets them."""
    found: list[Record] = []
    offset = store.min_offset(topic, queue_id)
    while True:
        result = store.get(topic, queue_id, offset, step, 1 << 20)
        if result.status not in (GetStatus.FOUND, GetStatus.MESSAGE_WAS_REMOVING, GetStatus.NO_MATCHED_MESSAGE):
            return found
        for data in result.buffers:
            found.extend(record for _, record in scan(data))
        if result.next_offset <= offset:
            raise AssertionError(f"stuck at {offset}: {result}")
        offset = result.next_offset


def read_all(store: MessageStore) -> dict[tuple[str, int], list[Record]]:
    """Every message of every queue."""
    return {
        (topic, queue_id): read_queue(store, topic, queue_id)
        for topic, queues in sorted(store.queue_table().items())
        for queue_id in sorted(queues)
    }


def bodies(records: Sequence[Record]) -> list[bytes]:
    """Their bodies."""
    return [record.body for record in records]
