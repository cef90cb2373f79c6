"""Reads that wait for what they are told, one by one and side by side (H3)."""

from __future__ import annotations

from rocketha.errors import RequestRefused
from rocketha.store.in_memory import NotInMemory, Wait, fetch
from rocketha.store.patient_reads import PatientReads
from tests.store.support import NOW_MS
from tests.store.test_in_memory import ColdStoreCase, wanted


class PatientReadsTests(ColdStoreCase):
    """Over a store that is not in memory."""

    def setUp(self) -> None:
        super().setUp()
        self.reads = PatientReads(self.store)

    def lacked(self, together: bool, wait: Wait = Wait.NOTHING) -> NotInMemory:
        """Times of the first message of each queue are read."""
        with self.assertRaises(NotInMemory) as lacks, self.reads.waiting(wait):
            if together:
                with self.reads.together():
                    self.assertEqual([self.reads.store_time_at("T", number, 0) for number in range(3)], [-1] * 3)
            else:
                self.reads.store_time_at("T", 0, 0)
        return lacks.exception

    def test_one_by_one(self) -> None:
        """The first that lacks something ends it."""
        self.assertEqual(len(self.lacked(False).parts), 1)

    def test_side_by_side(self) -> None:
        """What all of them lack is named when the last one is done, and each once."""
        self.assertEqual(len(self.lacked(True).parts), 3)
        with self.assertRaises(NotInMemory) as lacks, self.reads.waiting(Wait.NOTHING), self.reads.together():
            for _ in range(3):
                self.reads.store_time_at("T", 1, 0)
        self.assertEqual(len(lacks.exception.parts), 1)
        self.assertEqual(len(self.lacked(False).parts), 1, "others are on their own again")

    def test_until_nothing_is_lacked(self) -> None:
        """Then they are what they are."""
        for wait in (Wait.NOTHING, Wait.OPEN):
            fetch(self.disk, self.lacked(True, wait).parts, wanted)
        with self.reads.waiting(Wait.OPEN), self.reads.together():
            found = [self.reads.store_time_at("T", number, 0) for number in range(3)]
        self.assertEqual(found, [self.store.store_time_at("T", number, 0) for number in range(3)])
        self.assertEqual(min(found), NOW_MS)

    def test_what_follows_from_a_stand_in(self) -> None:
        """Is no refusal, as long as something is lacked."""

        def read() -> None:
            with self.reads.together():
                if self.reads.max_offset("T", 0) == 0:
                    raise RequestRefused(1, "the queue is empty")

        self.store.confirm_offset = self.store.log.end - 1
        with self.assertRaises(NotInMemory), self.reads.waiting(Wait.NOTHING):
            read()
        read()
        self.store.confirm_offset = 0
        with self.assertRaises(RequestRefused):
            read()

    def test_nobody_says_anything(self) -> None:
        """Then it waits, also after a request that did not."""
        self.lacked(False)
        self.assertGreaterEqual(self.reads.store_time_at("T", 2, 0), NOW_MS)
        with self.reads.waiting(Wait.OPEN):
            self.lacked(False, Wait.NOTHING)
            self.assertIs(self.reads._wait, Wait.OPEN)

    def test_each_read(self) -> None:
        """Waits for no more than it may, and else has what the store has."""
        reads, store, key = self.reads, self.store, f"7F0000010A2B18B4AAC2{7:012X}"
        store.confirm_offset = store.log.end - 1
        for name, given in (
            ("max_offset", ("T", 0)),
            ("offset_by_time", ("T", 0, NOW_MS + 200)),
            ("offset_by_time", ("T", 0, NOW_MS + 200, True)),
            ("earliest_time", ("T", 1)),
            ("store_time_at", ("T", 2, 3)),
            ("physical_offset", ("T", 2, 3)),
            ("earliest_message_time", ()),
            ("message_at", (store.physical_offset("T", 0, 9),)),
            ("query", ("T", key, 3, 0, 1 << 50)),
        ):
            self.open_again(store.confirm_offset)
            for inode in self.disk._names.values():
                if inode is not None:
                    inode.cached.clear()
            reads._store = self.store
            with self.subTest(name), reads.waiting(Wait.NOTHING), self.assertRaises(NotInMemory):
                getattr(reads, name)(*given)
            self.assertEqual(getattr(reads, name)(*given), getattr(self.store, name)(*given))
        for name in ("max_physical_offset", "min_physical_offset", "flushed_offset", "index_last_offset"):
            self.assertEqual(getattr(reads, name), getattr(self.store, name))
