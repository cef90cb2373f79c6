"""A sync that failed is not made good by the next one: the kernel has dropped the pages and says nothing again."""

from __future__ import annotations

import errno
import unittest

from rocketha.errors import DiskFailure
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.verify import verify
from tests.store.support import NOW_MS, flush, memory_disk, message, open_store, read_all, try_upkeep

SEEDS = 25


class FailedSyncTests(unittest.TestCase):
    """Power cuts some time after it."""

    def whole(self, disk: MemoryDisk, count: int, where: str) -> None:
        """After a power cut everything that was synced is there, and queues and index agree with the log."""
        disk.crash()
        store = open_store(disk)
        seen = [record.body for records in read_all(store).values() for record in records]
        self.assertEqual(seen, [b"body %d" % number for number in range(count)], where)
        self.assertEqual(verify(store), [], where)

    def append(self, store: MessageStore, first: int, count: int) -> None:
        """Some messages."""
        for number in range(first, first + count):
            store.append([[message(number)]], NOW_MS + number)

    def test_of_the_log(self) -> None:
        """The broker takes nothing more and is started again; it finds its bytes in the page cache, takes messages
        behind them and acknowledges those: a power cut must not take them with the hole before them."""
        for seed in range(SEEDS):
            disk = memory_disk(seed, tear_bytes=(1, 512)[seed % 2])
            store = open_store(disk)
            self.append(store, 0, 5)
            flush(store)
            self.append(store, 5, 10)
            job = store.flush_job()
            assert job is not None
            disk.fail_at(1, only=("sync",))
            with self.assertRaises(DiskFailure) as caught:
                job.run()
            store.finished(job, caught.exception)
            disk.heal()
            disk.kill()
            store = open_store(disk)
            self.append(store, 15, 5)
            flush(store)
            self.whole(disk, 20, f"seed {seed}")

    def test_a_directory_that_cannot_be_opened(self) -> None:
        """For want of descriptors: no sync failed, so messages are taken, and the next flush makes the new names safe.
        Any other failure of it is final."""
        for seed in range(SEEDS):
            for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO):
                disk = memory_disk(seed)
                store = open_store(disk)
                self.append(store, 0, 5)
                job = store.flush_job()
                assert job is not None
                disk.fail_at(2, number, only=("sync",))  # behind the new file itself
                with self.assertRaises(DiskFailure) as caught:
                    job.run()
                store.finished(job, caught.exception)
                disk.heal()
                if number == errno.EIO:
                    self.assertIsNotNone(store.log.broken)
                    continue
                self.assertEqual(store.flushed_offset, 0)
                self.append(store, 5, 5)
                flush(store)
                self.whole(disk, 10, f"seed {seed}")

    def test_a_file_that_cannot_be_opened(self) -> None:
        """Each opening of upkeep in turn, and of an append that needs a new file: refused or put off, and all is well
        when there are descriptors again."""
        refused = 0
        for number in range(1, 40):
            disk = memory_disk(number)
            store = open_store(disk)
            disk.fail_at(number, errno.EMFILE, only=("open", "create"))
            count = 0
            while count < 60:
                try:
                    self.append(store, count, 1)
                except DiskFailure:
                    refused += 1
                else:
                    count += 1
                if count % 7 == 0:
                    try_upkeep(store, NOW_MS + 100_000 * count)
            disk.heal()
            flush(store)
            self.whole(disk, 60, f"opening {number}")
        self.assertGreater(refused, 0)

    def test_of_queues(self) -> None:
        """Each sync of a thorough flush in turn: the entries that earlier flushes wrote are written again before the
        checkpoint says that they are safe."""
        failed = 0
        for number in range(1, 12):
            for seed in range(SEEDS):
                disk = memory_disk(seed)
                store = open_store(disk)
                for turn in range(4):
                    self.append(store, 10 * turn, 10)
                    flush(store)
                    try_upkeep(store, NOW_MS + 2000 * (turn + 1))  # writes the queues, syncs nothing
                disk.fail_at(number, only=("sync",))
                try_upkeep(store, NOW_MS + 100_000)
                failed += disk.operations >= number
                disk.heal()
                for turn in range(3):
                    try_upkeep(store, NOW_MS + 200_000 + 100_000 * turn)
                self.whole(disk, 40, f"sync {number}, seed {seed}")
        self.assertGreater(failed, SEEDS)

    def test_of_any_step_of_queues(self) -> None:
        """Each step of a round of upkeep in turn, while queues get their first files.  A file that was made, and could
        not be written then, is found by the next round: its name has to be on the disk when that has synced, since
        after a clean stop nobody doubts it."""
        failed = 0
        for number in range(1, 40):
            disk = memory_disk(number)
            store = open_store(disk)
            for each in range(12):
                store.append([[message(each, queue_id=each % 4)]], NOW_MS + each)
            flush(store)
            disk.fail_at(number, errno.ENOSPC)
            try_upkeep(store, NOW_MS + 100_000)
            failed += disk.operations >= number
            disk.heal()
            for turn in range(2):
                try_upkeep(store, NOW_MS + 200_000 + 100_000 * turn)
            queues = {path for path in disk._names if "/consumequeue" in path}
            self.assertEqual(len([path for path in queues if path.endswith("/" + "0" * 20)]), 4)
            self.assertEqual(queues - disk._durable_names.keys(), set(), f"step {number}")
            self.assertEqual(verify(store), [])
        self.assertGreater(failed, 20)

    def test_what_cannot_be_read_back_holds_the_queues_up(self) -> None:
        """A failed sync, and then the entries cannot be read to be written again: no flush before they can."""
        disk = memory_disk()
        store = open_store(disk)
        self.append(store, 0, 10)
        flush(store)
        try_upkeep(store, NOW_MS + 2000)
        self.append(store, 10, 1)
        job = store.queues.write_job(thorough=True)
        assert job is not None
        disk.fail_at(1, only=("sync",))
        with self.assertRaises(DiskFailure) as caught:
            job.run()
        disk.fail_at(1, times=1000, only=("read",))
        job.fail(caught.exception)
        self.assertIsNone(store.queues.write_job(thorough=True))
        disk.heal()
        for turn in range(2):
            try_upkeep(store, NOW_MS + 100_000 * (turn + 1))
        flush(store)
        self.whole(disk, 11, "read back later")
