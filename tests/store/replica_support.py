"""What the tests of replicas share: a master's log of every kind of record, and replicas that are fed its bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence

from rocketha.store.config import StoreConfig
from rocketha.store.disk import Disk
from rocketha.store.dispatch import SCHEDULE_TOPIC
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import PutMessage
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.ha_values import EpochEntry
from rocketha.wire.record import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from tests.store.support import HOST, HOST_V6, NOW_MS, ROOT, SMALL, message

EPOCHS = f"{ROOT}/epochFileCheckpoint"


def open_replica(
    disk: Disk, config: StoreConfig = SMALL, synced_acks: bool = False, bounded: bool = True, root: str = ROOT
) -> ReplicaLog:
    """A loaded replica."""
    store = MessageStore(disk, root, config, HOST)
    path = f"{root}/epochFileCheckpoint"
    store.load(NOW_MS, epoch_path=path if bounded else None)
    log = ReplicaLog(store, disk, path, synced_acks, bounded)
    log.load()
    return log


def open_master(disk: Disk, config: StoreConfig = SMALL, epoch: int = 1) -> ReplicaLog:
    """A replica that was elected."""
    log = open_replica(disk, config)
    elect(log, epoch)
    return log


def elect(log: ReplicaLog, epoch: int) -> None:
    """Promote, and begin an epoch as a master does."""
    log.promote()
    log.save_epochs([*(entry for entry in log.epochs if entry.start_offset < log.end), EpochEntry(epoch, log.end)])


def varied(number: int) -> PutMessage:
    """A message; every kind of record that a log can hold comes in a row of twelve."""
    kind = number % 12
    if kind == 1:
        return message(number, queue_id=1, KEYS=f"k1 k2  k{number}")
    if kind == 2:
        return message(number, topic=SCHEDULE_TOPIC, queue_id=2, DELAY="3", REAL_TOPIC="T")
    if kind == 3:
        return message(number, born_host=HOST_V6, body=b"\0" * 40)
    if kind == 4:
        made = message(number)
        made.sys_flag = TRANSACTION_PREPARED
        return made
    if kind == 5:
        made = message(number)
        made.sys_flag = TRANSACTION_ROLLBACK
        return made
    if kind == 6:
        return message(number, topic="long" * 50, queue_id=1)
    if kind == 7:
        return message(number, topic="Ünï", TAGS="Bé")
    if kind == 8:
        return PutMessage("T", 0, 0, 0, NOW_MS, HOST, 0, 0, b"", b"")  # nothing in it
    if kind == 9:
        return message(number, body=bytes(range(256)) * (number % 5))
    return message(number, queue_id=number % 2)


def fill(log: ReplicaLog, first: int, count: int, now_ms: int = NOW_MS) -> None:
    """Append that many messages as a master, a few a turn, some ms apart."""
    number = first
    while number < first + count:
        step = min(1 + number % 3, first + count - number)
        log.store.append([[varied(at)] for at in range(number, number + step)], now_ms + 7 * number)
        number += step
    log.store.settle()


def raw(log: ReplicaLog, start: int = 0, end: int | None = None) -> bytes:
    """Bytes of its log."""
    reader, parts, offset = log.reader(), [], start
    stop = log.end if end is None else end
    while offset < stop:
        size = min(log.readable(offset), stop - offset)
        parts.append(reader.read(offset, size))
        offset += size
    reader.close()
    return b"".join(parts)


def feed(log: ReplicaLog, data: bytes, chance: random.Random, largest: int = 700) -> None:
    """Append the rest of a log, cut at random places, dispatching now and then as its bytes are confirmed."""
    while log.end < len(data):
        step = chance.randrange(1, largest)
        log.append_raw(log.end, data[log.end : log.end + step])
        if chance.random() < 0.5:
            log.confirm(log.end - chance.randrange(0, 300))
            log.dispatch(chance.choice((1, 500, 1 << 20)))


def catch_up(log: ReplicaLog) -> None:
    """Confirm and dispatch all."""
    log.confirm(log.end)
    while log.dispatch():
        pass


def files(disk: MemoryDisk, folder: str, root: str = ROOT) -> dict[str, bytes]:
    """The files under a folder, by path below it."""
    found: dict[str, bytes] = {}
    paths = [f"{root}/{folder}"]
    while paths:
        path = paths.pop()
        if disk.is_dir(path):
            paths += [f"{path}/{name}" for name in disk.list(path)]
        elif disk.exists(path):
            found[path.removeprefix(f"{root}/{folder}/")] = disk.read_all(path, 1 << 26)
    return found


def ends(data: bytes) -> list[int]:
    """Where records and blanks end, in a log that begins at 0 and may end in zeros."""
    found, position = [], 0
    while total := int.from_bytes(data[position : position + 4], "big"):
        position += total
        found.append(position)
    return found


def queue_offsets(log: ReplicaLog) -> dict[tuple[str, int], int]:
    """Next offset of each queue."""
    return {(queue.topic, queue.queue_id): queue.next_offset for queue in log.store.queues.all()}


def memory(seed: int = 1, tear_bytes: int = 512) -> MemoryDisk:
    """An empty disk."""
    return MemoryDisk(random.Random(seed), tear_bytes)


def entries(*pairs: Sequence[int]) -> tuple[EpochEntry, ...]:
    """Epochs from (epoch, start) pairs."""
    return tuple(EpochEntry(*pair) for pair in pairs)
