"""The slots of the index: pages that changed are written, neighbours together, and again where a write failed."""

from __future__ import annotations

import random
from array import array

from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import DiskFailure
from rocketha.store.config import StoreConfig
from rocketha.store.index import DEFERRED_BYTES_MAX, KeyedRecords, KeyIndex
from rocketha.store.index_file import HEADER, PAGE_SLOTS, PAGES_MAX, SLOT
from rocketha.store.index_tail import UnitTail
from rocketha.store.jobs import run_here
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.segment import OpenFiles

NOW = 1_795_256_860_000
PAGES = 3 * PAGES_MAX + 5


class IndexPagesTests(SynchronousTestCase):
    """A file of more pages than are written together, the last of them short."""

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(0))
        self.config = StoreConfig(index_slots=PAGES * PAGE_SLOTS - 7, index_units=50_000)
        self.disk.make_dirs("/index")
        self.index = KeyIndex(self.disk, OpenFiles(self.disk, 8), "/index", self.config)
        self.count = 0

    def put(self, keys: int) -> None:
        records = [("T", (f"key{self.count + number}",), 100 * (self.count + number)) for number in range(keys)]
        self.count += keys
        self.index.put_all(records, NOW)

    def write(self) -> None:
        job = self.index.write_job()
        assert job is not None

        run_here([job], lambda job, error: job.fail(error) if error is not None else job.apply())

    def check(self) -> None:
        """The slots on disk are those in memory."""
        (file,) = self.index.files
        on_disk = array("i", self.disk.open(file.path).read(HEADER, SLOT * self.config.index_slots))
        on_disk.byteswap()
        self.assertEqual(on_disk.tolist(), file.take_slots().tolist())

    def test_few_many_and_all_pages(self) -> None:
        """Runs of one page and of more than are written together, to the end of the slots."""
        for keys in (3, 150, 10_000, 20_000, 3):
            self.put(keys)
            self.write()
            self.check()

    def test_a_failed_write(self) -> None:
        """Every page of it is written by the next job."""
        for keys in (150, 10_000):
            self.put(keys)
            self.disk.fail_at(1, only=["write"])
            self.assertRaises(DiskFailure, self.write)
            self.disk.heal()
            self.put(1)
            self.write()
            self.check()

    def test_a_cut_costs_what_it_takes_back(self) -> None:
        """Units of one large batch lie in one piece: it is cut once, not for each of them."""
        self.put(3)
        self.write()
        self.put(20_000)
        cuts: list[int] = []
        drop_from = UnitTail.drop_from

        def noted(tail: UnitTail, number: int) -> None:
            cuts.append(number)
            drop_from(tail, number)

        self.patch(UnitTail, "drop_from", noted)
        self.index.truncate(200)
        self.assertEqual((cuts, self.index.files[0].unit_count), ([3], 3))
        self.put(150)
        self.write()
        self.check()

    def test_large_batches_are_not_kept(self) -> None:
        """What waits to be indexed keeps the bodies of its batch in memory."""
        records = KeyedRecords([("T", ("key",), 100)])
        self.index.defer(records, NOW, DEFERRED_BYTES_MAX)
        self.assertEqual(self.index.pending_units, 0)
        self.index.defer(records, NOW, 1)
        self.assertEqual(self.index.pending_units, 2)
