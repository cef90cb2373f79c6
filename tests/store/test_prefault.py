"""Pages behind the end of the log that are made before a turn needs them: no record is ever under their zeros."""

from __future__ import annotations

import errno
import random
import unittest

from rocketha.errors import DiskFailure
from rocketha.store.commitlog import PREFAULT_BYTES, CommitLog, Run
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.memory_image import PAGE
from rocketha.store.segment import OpenFiles

SEGMENT = 40_000  # no whole number of pages
SEEDS = 200


class PrefaultTests(unittest.TestCase):
    """A log on a disk in memory."""

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        self.disk.make_dirs("/log")
        self.log = self.new_log(SEGMENT)

    def new_log(self, segment_size: int) -> CommitLog:
        return CommitLog(self.disk, OpenFiles(self.disk, 10), "/log", segment_size)

    def append(self, data: bytes) -> None:
        self.log.write([Run(self.log.end, [data])])

    def pages(self, number: int = 0) -> set[int]:
        """Pages of a file that are there."""
        name = self.disk.list("/log")[number]
        return {
            page
            for page in range(-(-SEGMENT // PAGE))
            if self.disk.open(f"/log/{name}").next_data(page * PAGE) == page * PAGE
        }

    def test_the_next_turn_finds_its_pages(self) -> None:
        """Many are made together, and the next ones when a turn would lack some."""
        self.log = self.new_log(1 << 24)
        self.append(b"x" * 5000)
        self.log.prefault(8000)
        made = 2 * PAGE + PREFAULT_BYTES
        self.assertEqual(self.disk.used_bytes(), made)
        before = self.disk.operations
        self.append(b"y" * 200_000)
        for size in (8000, made - 205_000):
            self.log.prefault(size)
        self.assertEqual(self.disk.operations, before + 1)  # the append: they are there
        self.log.prefault(made - 205_000 + 1)
        self.assertEqual(self.disk.used_bytes(), 51 * PAGE + PREFAULT_BYTES)
        self.assertEqual(self.log.read(0, 205_000), b"x" * 5000 + b"y" * 200_000)

    def test_not_behind_the_file(self) -> None:
        """Its size stays, and the next file is not touched."""
        self.append(b"x" * (SEGMENT - 100))
        self.log.prefault(8000)
        self.append(b"y" * 100)
        self.log.prefault(8000)
        self.append(b"z")
        self.assertEqual([self.disk.size(f"/log/{name}") for name in self.disk.list("/log")], [SEGMENT] * 2)
        self.assertEqual(self.pages(1), {0})

    def test_no_more_than_the_limit(self) -> None:
        """However large a turn was."""
        self.log = self.new_log(1 << 24)
        self.append(b"x" * PAGE)
        for _ in range(2):
            self.log.prefault(1 << 23)
            self.assertEqual(self.disk.used_bytes(), PAGE + PREFAULT_BYTES)

    def test_records_stay(self) -> None:
        """Turns of all sizes, cuts, and as many pages as chance asks for, at any moment."""
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                chance = random.Random(seed)
                self.setUp()
                expected = b""
                for _ in range(60):
                    if chance.random() < 0.1:
                        expected = expected[: chance.randrange(len(expected) + 1)]
                        if expected:  # a log without records is emptied in another way
                            self.log.truncate(len(expected))
                        else:
                            self.setUp()
                    data = chance.randbytes(chance.choice((1, 300, PAGE, chance.randrange(1, 20_000))))
                    self.log.write_raw(data)
                    expected += data
                    self.log.prefault(chance.choice((1, len(data), chance.randrange(1 << 19))))
                got = b"".join(self.log.read(at, SEGMENT) for at in range(0, len(expected), SEGMENT))
                self.assertEqual(got, expected)

    def test_a_disk_that_takes_none(self) -> None:
        """It is for the next append to say so, and nothing waits to be zeroed."""
        self.append(b"x" * 100)
        self.disk.fail_at(1, errno.ENOSPC, only=("write",))
        self.log.prefault(8000)
        self.assertEqual((self.log.spoiled, self.log.broken), (False, None))
        self.append(b"y" * 100)
        self.disk.fail_at(1, errno.ENOSPC, times=9, only=("write",))
        with self.assertRaises(DiskFailure):
            self.append(b"z" * 100)
        before = self.disk.operations
        self.log.prefault(8000)
        self.assertEqual(self.disk.operations, before)  # what failed is zeroed first
        self.disk.heal()
        self.log.check_writable()
        self.append(b"z" * 100)
        self.assertEqual(self.log.read(0, 300), b"x" * 100 + b"y" * 100 + b"z" * 100)
