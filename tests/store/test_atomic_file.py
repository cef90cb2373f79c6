"""Small files are replaced whole: regressions C5, E2 and A15 are about files that were not."""

from __future__ import annotations

import errno
import random
import unittest
from collections.abc import Callable
from unittest import mock

from rocketha.errors import DiskFailure
from rocketha.store import atomic_file
from rocketha.store.memory_disk import MemoryDisk

PATH = "/config/topics.json"


class AtomicFileTests(unittest.TestCase):
    """Save, load, fail and crash at every step."""

    def disk(self, seed: int = 1, tear_bytes: int = 512) -> MemoryDisk:
        """A disk with a durable directory."""
        disk = MemoryDisk(random.Random(seed), tear_bytes)
        atomic_file.make_dirs(disk, "/config")
        return disk

    def test_save_and_load(self) -> None:
        """The former contents are kept as .bak, as Java keeps them; the same contents again do not push them out."""
        disk = self.disk()
        self.assertIsNone(atomic_file.load(disk, PATH))
        atomic_file.save(disk, PATH, b"one")
        atomic_file.save(disk, PATH, b"two")
        atomic_file.save(disk, PATH, b"two")
        self.assertEqual((atomic_file.load(disk, PATH), disk.read_all(PATH + ".bak", 9)), (b"two", b"one"))
        self.assertEqual(disk.list("/config"), ["topics.json", "topics.json.bak"])
        disk.crash()
        self.assertEqual(atomic_file.load(disk, PATH), b"two")

    def test_the_backup_serves_where_the_file_does_not(self) -> None:
        """Missing, or emptied by a Java that died while it wrote in place."""
        disk = self.disk()
        atomic_file.save(disk, PATH, b"one")
        atomic_file.save(disk, PATH, b"two")
        disk.open(PATH).truncate(0)
        self.assertEqual(atomic_file.load(disk, PATH), b"one")
        self.assertEqual(atomic_file.candidates(disk, PATH), [b"one"])
        disk.remove(PATH)
        self.assertEqual(atomic_file.load(disk, PATH), b"one")

    def test_without_backup(self) -> None:
        """The checkpoint keeps none."""
        disk = self.disk()
        atomic_file.save(disk, PATH, b"one", backup=False)
        atomic_file.save(disk, PATH, b"two", backup=False)
        self.assertEqual(disk.list("/config"), ["topics.json"])

    def test_every_failing_operation(self) -> None:
        """Old or new, never a mixture and never nothing; and the next save works."""
        number = 0
        while True:
            number += 1
            disk = self.disk(number)
            atomic_file.save(disk, PATH, b"old" * 500)
            atomic_file.save(disk, PATH, b"older" * 500)
            disk.fail_at(number)
            try:
                atomic_file.save(disk, PATH, b"new" * 700)
                failed = False
            except DiskFailure:
                failed = True
            disk.heal()
            with self.subTest(number=number):
                seen = atomic_file.load(disk, PATH)
                self.assertIn(seen, (b"older" * 500, b"new" * 700) if failed else (b"new" * 700,))
                disk.kill()
                self.assertEqual(atomic_file.load(disk, PATH), seen)
                atomic_file.save(disk, PATH, b"newest")
                self.assertEqual(atomic_file.load(disk, PATH), b"newest")
            if not failed:
                break
        self.assertGreater(number, 10)

    def test_a_power_cut_at_every_step(self) -> None:
        """Torn writes, lost names: old or new; once save has returned, new."""
        for seed in range(150):
            for step in range(1, 22):
                disk = self.disk(seed, tear_bytes=1 + 511 * (seed % 2))
                atomic_file.save(disk, PATH, b"old" * 500)
                disk.fail_at(step, times=1 << 30)
                try:
                    atomic_file.save(disk, PATH, b"new" * 700)
                    expected: tuple[bytes, ...] = (b"new" * 700,)
                except DiskFailure:
                    expected = (b"old" * 500, b"new" * 700)
                disk.heal()
                disk.crash()
                self.assertIn(atomic_file.load(disk, PATH), expected, f"seed {seed}, step {step}")

    def test_directories_survive(self) -> None:
        """Parents are made, and are there after a power cut."""
        for seed in range(20):
            disk = MemoryDisk(random.Random(seed))
            atomic_file.make_dirs(disk, "/a/b/c")
            disk.crash()
            self.assertTrue(disk.is_dir("/a/b/c"))

    def test_directories_of_a_process_that_died_survive(self) -> None:
        """It made them and was killed before it synced them: whoever finds them there does."""
        left = 0
        for seed in range(60):
            disk = MemoryDisk(random.Random(seed))
            disk.fail_at(1 + seed % 5, times=1 << 30)
            with self.assertRaises(DiskFailure):
                atomic_file.make_dirs(disk, "/a/b/c")
            disk.heal()
            disk.kill()
            left += disk.is_dir("/a/b/c")
            atomic_file.make_dirs(disk, "/a/b/c")
            disk.crash()
            self.assertTrue(disk.is_dir("/a/b/c"), seed)
        self.assertGreater(left, 10)

    def test_a_parent_that_may_not_be_opened(self) -> None:
        """The directory of another user above ours is none of our business; a failing one is."""
        for number, stops in ((errno.EACCES, False), (errno.EIO, True)):
            disk = MemoryDisk(random.Random(1))
            atomic_file.make_dirs(disk, "/a/b")
            refused = DiskFailure("/", "sync", number, "no")
            synced = disk.sync_dir

            def sync_dir(path: str, synced: Callable[[str], None] = synced, refused: DiskFailure = refused) -> None:
                if path == "/":
                    raise refused
                synced(path)

            with mock.patch.object(disk, "sync_dir", sync_dir):
                if stops:
                    with self.assertRaises(DiskFailure):
                        atomic_file.make_dirs(disk, "/a/b")
                else:
                    atomic_file.make_dirs(disk, "/a/b")
