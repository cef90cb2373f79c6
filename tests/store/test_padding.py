"""Queues that begin with padding, since the log begins later than they do, and what power cuts make of it."""

from __future__ import annotations

import random
import unittest
from collections.abc import Sequence

import attrs

from rocketha.errors import DiskFailure
from rocketha.store import checkpoint
from rocketha.store.config import StoreConfig
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.replica_log import ReplicaLog
from rocketha.store.verify import verify
from rocketha.wire.spec.consume_queue import PADDING_SIZE
from rocketha.wire.store_files import QUEUE_UNIT
from tests.store.replica_support import EPOCHS, catch_up, ends, memory, open_master, open_replica, raw
from tests.store.support import HOST, NOW_MS, ROOT, SMALL, flush, message, read_queue, upkeep

BEGIN = 2 * SMALL.segment_size
UNIT = QUEUE_UNIT.size
PER_FILE = SMALL.queue_file_size // UNIT


NO_INDEX = attrs.evolve(SMALL, index_enable=False)
"""Nothing but the queues decides where a recovery begins."""


def slave(disk: MemoryDisk, config: StoreConfig = SMALL) -> ReplicaLog:
    """Of a classic pair."""
    store = MessageStore(disk, ROOT, config, HOST)
    store.load(NOW_MS, replica=True)
    log = ReplicaLog(store, disk, EPOCHS, bounded=False)
    log.follow()
    return log


def one_queue(count: int, body: int = 100) -> bytes:
    """A master's log."""
    master = open_master(memory())
    for number in range(count):
        master.store.append([[message(number, body=bytes(body))]], NOW_MS + number)
    return raw(master)


def write_queues(log: ReplicaLog) -> None:
    """Without a sync."""
    job = log.store.queues.write_job(thorough=False)
    if job is not None:
        job.run()
        job.apply()


class PaddingTests(unittest.TestCase):
    """A slave that began at its master's third file."""

    def setUp(self) -> None:
        """Sixty messages; where each file begins, the queue's offset is no multiple of a queue file's."""
        self.data = one_queue(60)

    def started(self, disk: MemoryDisk, data: bytes, config: StoreConfig = SMALL) -> tuple[ReplicaLog, int]:
        """It and the queue's first offset."""
        log = slave(disk, config)
        log.append_raw(BEGIN, data[BEGIN:])
        catch_up(log)
        first = log.store.min_offset("T", 0)
        self.assertGreater(first % PER_FILE, PER_FILE // 2)
        self.assertEqual(verify(log.store), [])
        return log, first

    def torn(self, disk: MemoryDisk, first: int, at: int, units: Sequence[tuple[int, int, int]]) -> None:
        """The queue's file of its first entry as a power cut left it; the others never came to the disk."""
        base = first - first % PER_FILE
        for path in [f"{ROOT}/consumequeue/T/0/{name}" for name in disk.list(f"{ROOT}/consumequeue/T/0")]:
            if int(path[-20:]) != base * UNIT:
                disk.remove(path)
        file = disk.open(f"{ROOT}/consumequeue/T/0/{base * UNIT:020d}")
        content = b"".join(QUEUE_UNIT.layout.pack(*unit) for unit in units)
        file.write(at * UNIT, [content + bytes(SMALL.queue_file_size - at * UNIT - len(content))])
        file.sync()
        file.close()

    def sound(self, disk: MemoryDisk, first: int) -> None:
        """At once, and as later starts find the files."""
        log = slave(disk)
        catch_up(log)
        self.assertEqual(log.store.min_offset("T", 0), first)
        self.assertEqual(verify(log.store), [])
        upkeep(log.store, NOW_MS + 100_000)
        log.store.close(NOW_MS)
        log = slave(disk)
        self.assertEqual(log.store.min_offset("T", 0), first)
        self.assertEqual([record.queue_offset for record in read_queue(log.store)], list(range(first, 60)))

    def test_torn_padding_is_no_entry(self) -> None:
        """It seems to point at the log's first byte, whose file has expired; the queue began there."""
        for count in (1, 3):
            disk = memory()
            log, first = self.started(disk, self.data)
            flush(log.store)
            write_queues(log)
            disk.kill()
            self.torn(disk, first, 0, [(0, 0xFF00, 0)] * count)
            with self.subTest(count=count):
                self.sound(disk, first)

    def test_whole_padding_and_nothing_else(self) -> None:
        """Some of it came to the disk."""
        disk = memory()
        log, first = self.started(disk, self.data)
        flush(log.store)
        write_queues(log)
        disk.kill()
        self.torn(disk, first, 0, [(0, PADDING_SIZE, 0)] * 3)
        self.sound(disk, first)

    def test_torn_ones_between_are_never_live(self) -> None:
        """Two that seem to have expired, in order, and before them one that seems to be live."""
        live = (BEGIN + 17, 200, 0)
        for units in ([live, live, (100, 50, 0), (170, 60, 0)], [(0, 0xFF, 0), live, live, live, (3, 9, 0), (4, 9, 0)]):
            disk = memory()
            log, first = self.started(disk, self.data)
            flush(log.store)
            write_queues(log)
            disk.kill()
            self.torn(disk, first, 0, units)
            with self.subTest(units=units):
                self.sound(disk, first)

    def test_power_cuts(self) -> None:
        """Byte by byte, four in a row."""
        for seed in range(150):
            chance = random.Random(seed)
            disk = memory(seed, 1)
            for _ in range(4):
                log = slave(disk)
                if log.begin == log.end:
                    log.append_raw(BEGIN, self.data[BEGIN : BEGIN + 10])
                    flush(log.store)
                log.append_raw(log.end, self.data[log.end : log.end + chance.randrange(2500)])
                catch_up(log)
                if chance.random() < 0.5:
                    flush(log.store)
                write_queues(log)
                disk.crash()
            with self.subTest(seed=seed):
                log = slave(disk)
                log.append_raw(max(log.end, BEGIN), self.data[max(log.end, BEGIN) :])
                catch_up(log)
                self.assertEqual(verify(log.store), [])

    def test_padding_whose_sync_failed(self) -> None:
        """It is in the page cache of the next process, and on no disk: it is written again."""
        disk = memory()
        log, first = self.started(disk, one_queue(2 * PER_FILE - 2), NO_INDEX)
        flush(log.store)
        write_queues(log)
        job = log.store.queues.write_job(thorough=True)
        assert job is not None
        disk.fail_at(1, only=("sync",))
        with self.assertRaises(DiskFailure):
            job.run()
        disk.kill()
        log = slave(disk, NO_INDEX)
        catch_up(log)
        upkeep(log.store, NOW_MS + 200_000)
        upkeep(log.store, NOW_MS + 300_000)
        disk.crash()
        self.assertGreater(checkpoint.load(disk, f"{ROOT}/checkpoint").logics_offset, BEGIN)
        log = slave(disk, NO_INDEX)
        self.assertEqual(log.store.min_offset("T", 0), first)
        catch_up(log)
        self.assertEqual(verify(log.store), [])


class RebuildTests(unittest.TestCase):
    """A queue that is written anew."""

    def test_nothing_above_the_confirm_offset(self) -> None:
        """A replica's queue ends where consumers may read, also when a hole made it be written anew."""
        data = one_queue(60)
        confirmed = ends(data)[44]
        disk = memory()
        replica = open_replica(disk, NO_INDEX)
        replica.append_raw(0, data)
        replica.confirm(confirmed)
        replica.dispatch()
        flush(replica.store)
        upkeep(replica.store, NOW_MS + 100_000)
        upkeep(replica.store, NOW_MS + 200_000)
        wanted = replica.store.max_offset("T", 0)
        self.assertGreater(wanted, 2 * PER_FILE + 1)
        disk.kill()
        disk.remove(f"{ROOT}/consumequeue/T/0/{2 * SMALL.queue_file_size:020d}")
        store = MessageStore(disk, ROOT, NO_INDEX, HOST)
        report = store.load(NOW_MS, epoch_path=EPOCHS)
        self.assertIn("rebuilt", "".join(report.notes))
        self.assertEqual(store.confirm_offset, confirmed)
        self.assertEqual(store.max_offset("T", 0), wanted)
        self.assertLess(store.queues.max_physical_offset(), confirmed)
