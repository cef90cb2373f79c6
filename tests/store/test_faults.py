"""The disk fails, tears and forgets at every step; the store keeps its promises (faults-and-invariants.md, DESIGN.md
7)."""

from __future__ import annotations

import errno
import random
import unittest
from collections.abc import Callable

import attrs

from rocketha.errors import CorruptStore, DiskFailure, WriteInDoubt
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.verify import verify
from tests.store.support import NOW_MS, ROOT, SMALL, flush, message, open_store, read_all, try_upkeep


@attrs.define
class Promises:
    """What the producers of a run were told.

    :ivar synced: bodies acknowledged after a sync, by queue: must be there after any crash.
    :ivar stored: bodies acknowledged at all: must be there as long as the machine lives.
    :ivar refused: bodies whose append failed: must never be seen by the store that refused them.
    :ivar doubtful: those of them that its successor may find, because their write had begun.
    """

    synced: set[bytes] = attrs.Factory(set)
    stored: set[bytes] = attrs.Factory(set)
    refused: set[bytes] = attrs.Factory(set)
    doubtful: set[bytes] = attrs.Factory(set)

    @property
    def never(self) -> set[bytes]:
        """What nobody may see, ever."""
        return self.refused - self.doubtful


class Run:
    """A producer on a store that may fail: appends, flushes, upkeep, in an order that a seed decides."""

    def __init__(self, disk: MemoryDisk, seed: int) -> None:
        self.disk = disk
        self.random = random.Random(seed)
        self.promises = Promises()
        self.number = 0
        self.now_ms = NOW_MS

    def step(self, store: MessageStore) -> None:
        """One turn of a broker."""
        self.now_ms += self.random.choice((1, 10, 1000, 30_000))
        choice = self.random.random()
        if choice < 0.7:
            self.append(store)
        elif choice < 0.85:
            self.flush(store)
        else:
            try_upkeep(store, self.now_ms)

    def append(self, store: MessageStore) -> None:
        """A turn of up to three groups."""
        groups = []
        for _ in range(self.random.randrange(1, 4)):
            group = []
            queue_id = self.random.randrange(2)
            for _ in range(self.random.choice((1, 1, 3))):
                self.number += 1
                body = b"%d:" % self.number + bytes(self.random.randrange(300))
                group.append(message(self.number, queue_id=queue_id, body=body))
            groups.append(group)
        bodies = {item.body for group in groups for item in group}
        try:
            store.append(groups, self.now_ms)
        except DiskFailure as failure:
            self.promises.refused |= bodies
            if isinstance(failure, WriteInDoubt):
                self.promises.doubtful |= bodies
        else:
            self.promises.stored |= bodies

    def flush(self, store: MessageStore) -> None:
        """A group commit."""
        job = store.flush_job()
        if job is None:
            return
        stored = set(self.promises.stored)
        target = store.max_physical_offset
        try:
            job.run()
        except DiskFailure as error:
            store.finished(job, error)
            return
        store.finished(job, None)
        if store.flushed_offset >= target:
            self.promises.synced |= stored


class FaultTests(unittest.TestCase):
    """Loops over every operation that can fail, and many seeds of power cuts."""

    def check(self, store: MessageStore, must: set[bytes], must_not: set[bytes], where: str) -> None:
        """Everything promised is there, once, whole, and queues and index equal a rebuild from the log."""
        seen = [record.body for records in read_all(store).values() for record in records]
        self.assertEqual(len(seen), len(set(seen)), f"{where}: served twice")
        self.assertEqual(must - set(seen), set(), f"{where}: lost")
        self.assertEqual(must_not & set(seen), set(), f"{where}: refused and served")
        self.assertEqual(verify(store), [], where)

    def fail_each(self, work: Callable[[MemoryDisk, Run], None], where: str, error: int = errno.EIO) -> int:
        """Do the work with the 1st, 2nd, ... operation failing until none is left to fail; after each, kill and
        recover."""
        number = 0
        while True:
            number += 1
            disk = MemoryDisk(random.Random(number), random.Random(number).choice((1, 512)))
            run = Run(disk, seed=7)
            store = open_store(disk)
            for _ in range(12):
                run.step(store)
            run.flush(store)
            disk.kill()
            disk.fail_at(number, error)
            work(disk, run)
            failed = disk.operations >= number
            disk.heal()
            disk.kill()
            with self.subTest(number=number):
                store = open_store(disk, now_ms=run.now_ms)
                self.check(store, run.promises.stored, run.promises.never, f"{where}, operation {number}")
                store.close(run.now_ms)
            if not failed:
                return number

    def test_every_operation_of_appending_and_upkeep_fails(self) -> None:
        """While the process lives, a refused message is never seen and a stored one always is; and after a restart."""

        def work(disk: MemoryDisk, run: Run) -> None:
            try:
                store = open_store(disk, now_ms=run.now_ms)
            except DiskFailure:
                return
            for _ in range(25):
                run.step(store)
            disk.heal()
            seen = {record.body for records in read_all(store).values() for record in records}
            self.assertEqual(seen & run.promises.refused, set())
            self.assertEqual(run.promises.stored - seen, set())

        self.assertGreater(self.fail_each(work, "append"), 100)

    def test_every_operation_of_a_full_disk_fails(self) -> None:
        """ENOSPC on one write: the store goes on afterwards, and nothing half written comes back."""

        def work(disk: MemoryDisk, run: Run) -> None:
            try:
                store = open_store(disk, now_ms=run.now_ms)
            except DiskFailure:
                return
            for _ in range(20):
                run.append(store)

        self.fail_each(work, "full", errno.ENOSPC)

    def test_every_operation_of_a_clean_stop_fails(self) -> None:
        """A stop that fails leaves the abort file; the next start finds everything."""

        def work(disk: MemoryDisk, run: Run) -> None:
            try:
                store = open_store(disk, now_ms=run.now_ms)
                for _ in range(3):
                    run.append(store)
                store.close(run.now_ms)
            except DiskFailure as error:
                # Only the very last step, making the removal durable, may fail with the file gone.
                self.assertTrue(disk.exists(f"{ROOT}/abort") or (error.operation, error.path) == ("sync", ROOT))

        self.fail_each(work, "close")

    def test_every_operation_of_recovery_fails(self) -> None:
        """A start that fails changes nothing that the next start needs."""

        def work(disk: MemoryDisk, run: Run) -> None:
            for _ in range(3):
                try:
                    open_store(disk, now_ms=run.now_ms).close(run.now_ms)
                except DiskFailure:
                    disk.kill()
                    continue
                return

        self.fail_each(work, "recovery")

    def test_power_cuts(self) -> None:
        """200 seeds: after a power cut at any moment every synced message is there, none twice, none damaged; three
        cuts each."""
        for seed in range(200):
            chance = random.Random(seed)
            disk = MemoryDisk(chance, chance.choice((1, 512)))
            run = Run(disk, seed)
            with self.subTest(seed=seed):
                for cut in range(3):
                    store = open_store(disk, now_ms=run.now_ms)
                    self.check(store, run.promises.synced, set(), f"seed {seed}, start {cut}")
                    run.promises.stored = set(run.promises.synced)
                    for _ in range(chance.randrange(40)):
                        run.step(store)
                    if chance.random() < 0.3:  # the process dies first, and its successor has synced what it found
                        disk.kill()
                        store = open_store(disk, now_ms=run.now_ms)
                        self.assertEqual(store.flushed_offset, store.max_physical_offset)
                        run.promises.synced |= run.promises.stored
                    disk.crash()
                store = open_store(disk, now_ms=run.now_ms)
                self.check(store, run.promises.synced, set(), f"seed {seed}, end")
                store.close(run.now_ms)

    def test_power_cuts_while_recovering(self) -> None:
        """100 seeds: the power fails again at a random step of the recovery; nothing synced is lost by that."""
        for seed in range(100):
            chance = random.Random(seed)
            disk = MemoryDisk(chance, chance.choice((1, 512)))
            run = Run(disk, seed)
            with self.subTest(seed=seed):
                store = open_store(disk, now_ms=run.now_ms)
                for _ in range(40):
                    run.step(store)
                for _ in range(3):
                    disk.crash()
                    disk.fail_at(chance.randrange(1, 120), times=1 << 30)
                    try:
                        open_store(disk, now_ms=run.now_ms)
                    except DiskFailure:
                        pass
                    disk.heal()
                disk.crash()
                store = open_store(disk, now_ms=run.now_ms)
                self.check(store, run.promises.synced, set(), f"seed {seed}")

    def test_a_failed_sync_is_final(self) -> None:
        """After a failed fdatasync nothing is acknowledged and nothing is taken, however often the next sync would
        succeed."""
        disk = MemoryDisk(random.Random(3))
        store = open_store(disk)
        store.append([[message(1)]], NOW_MS)
        flush(store)
        safe = store.flushed_offset
        store.append([[message(2)]], NOW_MS)
        disk.fail_at(1, errno.EIO, only=["sync"])
        job = store.flush_job()
        assert job is not None
        with self.assertRaises(DiskFailure) as caught:
            job.run()
        store.finished(job, caught.exception)
        disk.heal()
        self.assertEqual(store.flushed_offset, safe)
        self.assertIsNone(store.flush_job())
        self.assertFalse(store.writable(NOW_MS))
        self.assertIn("sync failed", store.unwritable_reason(NOW_MS) or "")
        with self.assertRaises(DiskFailure):
            store.append([[message(3)]], NOW_MS)
        with self.assertRaises(DiskFailure):
            store.close(NOW_MS)
        self.assertTrue(disk.exists(f"{ROOT}/abort"))
        disk.crash()
        store = open_store(disk)
        self.check(store, {message(1).body}, {message(3).body}, "after the crash")

    def test_a_full_disk_refuses_and_recovers(self) -> None:
        """ENOSPC by capacity: appends are refused, readers go on, and with space again the store goes on without a
        trace."""
        disk = MemoryDisk(random.Random(5))
        store = open_store(disk)
        run = Run(disk, 5)
        for _ in range(4):
            run.append(store)
        run.flush(store)
        disk.capacity_bytes = disk.used_bytes() + 4096
        for _ in range(30):
            run.append(store)
        self.assertTrue(run.promises.refused)
        seen = {record.body for records in read_all(store).values() for record in records}
        self.assertEqual(seen, run.promises.stored)
        disk.capacity_bytes = None
        before = len(run.promises.stored)
        run.append(store)
        self.assertGreater(len(run.promises.stored), before)
        run.flush(store)
        disk.crash()
        self.check(open_store(disk), run.promises.stored, run.promises.refused, "after the crash")

    def test_a_refused_turn_never_comes_back(self) -> None:
        """Its records reached the disk before the error; the next record has the size of its first one, so what is
        left of it would continue the log at a crash.  Each is zeroed before anything else is written.
        """
        for seed in range(60):
            disk = MemoryDisk(random.Random(seed))
            store = open_store(disk)
            disk.fail_at(1, errno.EIO, only=["write"])
            with self.assertRaises(DiskFailure):
                store.append([[message(number, body=b"refused%d" % number) for number in range(3)]], NOW_MS)
            disk.heal()
            store.append([[message(9, body=b"granted9")]], NOW_MS)
            disk.kill()
            with self.subTest(seed=seed):
                seen = [record.body for record in read_all(open_store(disk))["T", 0]]
                self.assertEqual(seen, [b"granted9"])

    def test_a_write_that_failed_is_taken_back_at_once(self) -> None:
        """Where the disk takes that: a process that dies before the next append leaves nothing of it."""
        for seed in range(60):
            disk = MemoryDisk(random.Random(seed))
            store = open_store(disk)
            disk.fail_at(1, errno.ENOSPC, only=["write"])
            with self.assertRaises(WriteInDoubt):
                store.append([[message(1)]], NOW_MS)
            disk.kill()
            with self.subTest(seed=seed):
                self.assertEqual(read_all(open_store(disk)), {})

    def test_what_is_refused_for_good_leaves_no_byte(self) -> None:
        """Disks that fail writes for a while, or only making files, and processes and machines that die meanwhile:
        what a restart finds of a failed append was in doubt, never refused; both kinds occur."""
        found, never = 0, 0
        for seed in range(150):
            chance = random.Random(seed)
            disk = MemoryDisk(chance, chance.choice((1, 512)))
            run = Run(disk, seed)
            store = open_store(disk)
            for _ in range(chance.randrange(10)):
                run.append(store)
            run.flush(store)
            synced = set(run.promises.synced)
            times, only = chance.choice((1, 2, 1 << 30)), chance.choice((["write"], ["create"]))
            disk.fail_at(1, errno.EIO, times, only)
            for _ in range(chance.choice((1, 12))):
                run.append(store)
            disk.heal()
            (disk.crash if seed % 2 else disk.kill)()
            with self.subTest(seed=seed):
                store = open_store(disk, now_ms=run.now_ms)
                self.check(store, synced, run.promises.never, f"seed {seed}")
                seen = {record.body for records in read_all(store).values() for record in records}
                found += bool(seen & run.promises.doubtful)
                never += len(run.promises.never)
        self.assertGreater(found, 0)
        self.assertGreater(never, 100)

    def test_bit_rot_is_never_served(self) -> None:
        """Any flipped bit of a body is noticed when it is read; the other messages are served."""
        disk = MemoryDisk(random.Random(9))
        store = open_store(disk)
        places = store.append([[message(number) for number in range(5)]], NOW_MS)[0]
        victim = places[2]
        disk.flip_bit(store.log.segments.path(0), victim.physical_offset + 88 + 3, 4)
        result = store.get("T", 0, 0, 32, 1 << 20)
        self.assertEqual((result.count, result.damaged, result.next_offset), (4, 1, 5))
        self.assertIsNone(store.message_at(victim.physical_offset))
        self.assertTrue(any("damaged" in problem for problem in verify(store)))

    def test_wrong_sizes_are_refused_with_their_path(self) -> None:
        """A file of another size (or a changed setting) stops the start before anything is touched, as in Java."""
        for directory, base in (("commitlog", 0), ("consumequeue/T/0", 0)):
            disk = MemoryDisk(random.Random(2))
            store = open_store(disk)
            store.append([[message(1)]], NOW_MS)
            store.close(NOW_MS)
            path = f"{ROOT}/{directory}/{base:020d}"
            with self.subTest(path=path):
                file = disk.open(path)
                file.truncate(100)
                with self.assertRaises(CorruptStore) as caught:
                    open_store(disk)
                self.assertIn(path, str(caught.exception))
                self.assertIn("100 bytes", str(caught.exception))
                self.assertFalse(disk.exists(f"{ROOT}/abort"))

    def test_settings_are_small(self) -> None:
        """The loops above roll every kind of file, or they would prove little."""
        disk = MemoryDisk(random.Random(7))
        store = open_store(disk)
        run = Run(disk, 7)
        for _ in range(60):
            run.step(store)
        self.assertGreater(len(store.log.segments.bases), 3)
        self.assertGreater(max(len(queue.files.bases) for queue in store.queues.all()), 1)
        assert store.index is not None
        self.assertGreater(len(store.index.files), 2)
        self.assertEqual(SMALL.segment_size, 4096)
