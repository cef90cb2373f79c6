"""Reads that wait for no disk: the same messages as any read, after what they lack was fetched (H3)."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
from typing import TypeVar

from rocketha.errors import DiskFailure
from rocketha.store import commitlog, in_memory
from rocketha.store.in_memory import IN_VAIN_MAX, TRIES_MAX, NotInMemory, Part, RecordPart, Tries, Wait, fetch
from rocketha.store.index_file import Chain
from rocketha.store.memory_disk import MemoryDisk, MemoryFile
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetResult
from rocketha.wire.record import decode
from tests.store.support import HOST, NOW_MS, ROOT, SMALL, message

T = TypeVar("T")


def wanted() -> bool:
    return True


class ColdStoreCase(unittest.TestCase):
    """A store that was closed and opened again."""

    def setUp(self) -> None:
        self.recent, commitlog.RECENT_BYTES = commitlog.RECENT_BYTES, 0
        self.addCleanup(setattr, commitlog, "RECENT_BYTES", self.recent)
        self.chance = random.Random(3)
        self.disk = MemoryDisk(random.Random(0))
        store = MessageStore(self.disk, ROOT, SMALL, HOST)
        store.load(NOW_MS)
        for number in range(400):
            body = self.chance.randbytes(self.chance.choice((10, 100, 1500)))
            store.append([[message(number, queue_id=self.chance.randrange(3), body=body)]], NOW_MS + number)
        store.settle()
        store.close(NOW_MS)
        self.store = MessageStore(self.disk, ROOT, SMALL, HOST)
        self.store.load(NOW_MS)
        self.disk.cached = False

    def open_again(self, confirm: int | None = None) -> None:
        """No file is open; what was read before is in memory."""
        self.store.close(NOW_MS)
        self.store = MessageStore(self.disk, ROOT, SMALL, HOST)
        self.disk.cached = True
        self.store.load(NOW_MS)
        self.disk.cached = False
        self.store.confirm_offset = confirm

    def get(self, offset: int, wait: Wait, **more: int) -> GetResult:
        return self.store.get("T", more.get("queue_id", 0), offset, more.get("count", 40), 1 << 20, None, wait)

    def until_read(self, read: Callable[[Wait], T]) -> tuple[T, list[NotInMemory]]:
        """What is read, and what was lacked on the way there; nothing is waited for."""
        tries, refused = Tries(), []
        while True:
            try:
                self.assertIsNot(tries.wait, Wait.ANYTHING)
                return read(tries.wait), refused
            except NotInMemory as lacks:
                refused.append(lacks)
                tries.lacked(lacks.parts)
                tries.fetched(fetch(self.disk, lacks.parts, wanted))


class NotInMemoryTests(ColdStoreCase):
    """Messages of a queue, and of a key."""

    def test_the_same_messages(self) -> None:
        """From many places at once, over the ends of files, whatever is in memory of it."""
        self.assertGreater(len(self.store.log.segments.bases), 10)
        several = refused = 0
        for _ in range(200):
            queue_id, offset, count = self.chance.randrange(3), self.chance.randrange(120), self.chance.randrange(1, 41)
            asked = {"queue_id": queue_id, "count": count}
            found, lacked = self.until_read(lambda wait: self.get(offset, wait, **asked))  # noqa: B023
            self.assertLess(len(lacked), 3)
            refused += len(lacked)
            self.assertEqual(found, self.get(offset, Wait.ANYTHING, **asked))
            self.assertTrue(all(type(buffer) is bytes for buffer in found.buffers), "a view is overwritten")
            several += len(found.buffers) > 1
        self.assertGreater(several, 20)
        self.assertGreater(refused, 10)

    def test_all_that_it_lacks_is_named(self) -> None:
        """At once: entries, then every stretch of the log."""
        with self.assertRaises(NotInMemory) as entries:
            self.get(5, Wait.NOTHING)
        parts = [part for part in entries.exception.parts if isinstance(part, Part)]
        self.assertEqual([(part.offset, part.size) for part in parts], [(100, 300), (0, 400), (0, 100)])
        self.assertTrue(all("/consumequeue/T/0/" in part.path for part in parts))
        self.assertEqual(fetch(self.disk, entries.exception.parts, wanted), {})
        with self.assertRaises(NotInMemory) as records:
            self.get(5, Wait.OPEN)
        parts = records.exception.parts
        self.assertGreater(len(parts), 1)
        self.assertTrue(all("/commitlog/" in part.path for part in parts))

    def test_queries(self) -> None:
        """By each key, over the index's files: two fetches, of its units and of all messages that they name."""
        index = self.store.index
        assert index is not None
        self.assertGreater(len(index.files), 3)
        refused: list[NotInMemory] = []
        for number in range(0, 400, 7):
            key = f"7F0000010A2B18B4AAC2{number:012X}"
            found, lacked = self.until_read(lambda wait: self.store.query("T", key, 10, 0, 1 << 50, wait))  # noqa: B023
            self.assertLess(len(lacked), 3)
            refused += lacked
            self.assertEqual(found, self.store.query("T", key, 10, 0, 1 << 50))
            self.assertEqual(len(found), 1)
        self.assertGreater(len(refused), 20)
        self.assertEqual({type(part) for lacks in refused for part in lacks.parts}, {Chain, RecordPart})

    def test_a_query_for_a_few_of_many(self) -> None:
        """No more of them is fetched than may be needed."""
        found, lacked = self.until_read(lambda wait: self.store.query("T", "T#tag1", 5, 0, 1 << 50, wait))
        self.assertEqual(found, self.store.query("T", "T#tag1", 5, 0, 1 << 50))
        self.assertEqual((len(found), [len(lacks.parts) for lacks in lacked][-1]), (5, 5))

    def test_places_in_time(self) -> None:
        """Each step of the search is a look at an entry, and at its message."""
        steps = 0
        for number in range(-5, 410, 13):
            for upper in (False, True):
                at_ms = NOW_MS + number
                self.open_again()
                found, lacked = self.until_read(
                    lambda wait: self.store.offset_by_time("T", 1, at_ms, upper, wait)  # noqa: B023
                )
                steps = max(steps, len(lacked))
                self.assertEqual(found, self.store.offset_by_time("T", 1, at_ms, upper), (number, upper))
        self.assertGreater(steps, 4)
        found, _ = self.until_read(lambda wait: self.store.earliest_time("T", 2, wait))
        self.assertEqual(found, self.store.earliest_time("T", 2))

    def test_where_a_queue_ends(self) -> None:
        """While its newest messages are not confirmed: each step of that search is a look at an entry."""
        steps = 0
        for number in (200, 0, 1, 380, 399):
            self.store.confirm_offset = None
            (first_hidden,) = self.store.query("T", f"7F0000010A2B18B4AAC2{number:012X}", 1, 0, 1 << 50)
            confirm, ends = decode(first_hidden).physical_offset, []
            for queue_id in range(3):
                self.open_again(confirm)
                end, lacked = self.until_read(lambda wait: self.store.max_offset("T", queue_id, wait))  # noqa: B023
                steps = max(steps, len(lacked))
                self.assertTrue(all("/consumequeue/" in part.path for lacks in lacked for part in lacks.parts))
                self.open_again(confirm)
                found, _ = self.until_read(lambda wait: self.get(end, wait, queue_id=queue_id))  # noqa: B023
                self.assertEqual(found.max_offset, end)
                ends.append(end)
            self.assertEqual(sum(ends), number)
        self.assertGreater(steps, 3)
        self.open_again()
        self.assertEqual(sum(self.store.max_offset("T", queue_id, Wait.NOTHING) for queue_id in range(3)), 400)

    def test_a_file_that_is_not_there(self) -> None:
        """Or that cannot be read: whoever asked for it is told, and the others are fetched."""
        good, gone = Part(f"{ROOT}/commitlog/{0:020d}", 0, 10), Part(f"{ROOT}/commitlog/none", 0, 10)
        self.disk.trace = []
        self.assertEqual(list(fetch(self.disk, [gone, good], wanted)), [gone])
        self.assertIn(("read", good.path), self.disk.trace)
        self.disk.fail_at(1, times=100)
        with self.assertRaises(NotInMemory) as lacks:
            self.get(5, Wait.NOTHING)
        self.assertEqual(fetch(self.disk, lacks.exception.parts, wanted).keys(), {*lacks.exception.parts})

    def test_a_file_that_expires_meanwhile(self) -> None:
        """Its messages are gone: that is the answer, and no failure of the disk."""

        def expire() -> None:
            for path in [self.store.log.segments.detach_first() for _ in range(3)]:
                self.disk.remove(path)
            self.store.queues.correct_min(self.store.log.begin)

        tries = Tries()
        for _ in range(2):
            with self.assertRaises(NotInMemory) as lacks:
                self.get(0, tries.wait)
            tries.lacked(lacks.exception.parts)
            if any("/commitlog/" in part.path for part in lacks.exception.parts):
                expire()
            tries.fetched(fetch(self.disk, lacks.exception.parts, wanted))
        self.assertEqual(self.get(0, tries.wait).status.name, "OFFSET_TOO_SMALL")

    def test_nobody_wants_it_any_more(self) -> None:
        """Then nothing more is read, wherever that is found out: between parts, pieces of a part, units of a chain."""
        self.addCleanup(setattr, in_memory, "FETCH_BYTES", in_memory.FETCH_BYTES)
        in_memory.FETCH_BYTES = 100
        index = self.store.index
        assert index is not None
        with self.assertRaises(NotInMemory) as lacks:
            self.store.query("T", "T#tag1", 1000, 0, 1 << 50, Wait.NOTHING)
        chains = lacks.exception.parts
        part = Part(f"{ROOT}/commitlog/{0:020d}", 0, 1000)
        for parts, all_of_it in (((part,), 10), ((part, part), 20), (chains[:1], 4)):
            self.disk.trace = []
            self.assertEqual(fetch(self.disk, parts, wanted), {})
            reads = [operation for operation, _ in self.disk.trace].count("read")
            self.assertGreaterEqual(reads, all_of_it)
            for left in range(reads):
                answers = iter([True] * left)
                self.disk.trace = []
                fetch(self.disk, parts, lambda: next(answers, False))  # noqa: B023
                self.assertLessEqual([operation for operation, _ in self.disk.trace].count("read"), left)

    def test_entries_that_point_nowhere(self) -> None:
        """Are counted as damaged, as ever."""
        queue = self.store.queues.get("T", 0)
        assert queue is not None
        end = queue.next_offset
        queue.put(1 << 40, 200, 0)
        queue.put(-5, 200, 0)
        for wait in (Wait.OPEN, Wait.ANYTHING):
            self.disk.cached = True
            self.assertEqual(self.get(end, wait).damaged, 2, wait)


class TriesTests(ColdStoreCase):
    """What a read may wait for, and when that is enough."""

    def test_what_does_not_stay_in_memory(self) -> None:
        """Is waited for where it is needed, after a while."""
        tries, part = Tries(), Part("/a", 0, 10)
        waits = []
        for _ in range(2 + IN_VAIN_MAX):
            waits.append(tries.wait)
            tries.lacked([part])
            tries.fetched({})
        self.assertEqual(waits, [Wait.NOTHING, *[Wait.OPEN] * IN_VAIN_MAX, Wait.ANYTHING])

    def test_one_part_after_the_other(self) -> None:
        """Each is new: so it goes on; but not for ever."""
        tries = Tries()
        for number in range(TRIES_MAX):
            self.assertIsNot(tries.wait, Wait.ANYTHING, number)
            tries.lacked([Part("/a", number, 10)])
            tries.fetched({})
        self.assertIs(tries.wait, Wait.ANYTHING)

    def test_what_could_not_be_read(self) -> None:
        """Is not waited for where it is needed: a disk that fails may take long to say so."""
        tries, bad, good = Tries(), Part("/a", 0, 10), Part("/a", 10, 10)
        tries.lacked([bad, good])
        tries.fetched({bad: DiskFailure("/a", "read", 5, "Input/output error")})
        tries.lacked([good])
        tries.fetched({good: DiskFailure("/a", "read", 5, "Input/output error")})
        with self.assertRaises(DiskFailure):
            tries.lacked([bad, good])

    def test_a_chain_is_told_by_its_place(self) -> None:
        """Whatever is looked for in it, and however the file has grown."""
        with self.assertRaises(NotInMemory) as lacks:
            self.store.query("T", "T#tag1", 10, 0, 1 << 50, Wait.NOTHING)
        with self.assertRaises(NotInMemory) as later:
            self.store.query("T", "T#tag1", 20, 0, 1 << 51, Wait.NOTHING)
        self.assertEqual(lacks.exception.parts, later.exception.parts)

    def test_no_page_stays(self) -> None:
        """The read ends all the same, and has what it should."""
        self.addCleanup(setattr, MemoryFile, "_in_memory", MemoryFile._in_memory)
        MemoryFile._in_memory = lambda *_: False  # type: ignore[method-assign]
        tries, refused = Tries(), 0
        while tries.wait is not Wait.ANYTHING:
            with self.assertRaises(NotInMemory) as lacks:
                self.get(5, tries.wait)
            tries.lacked(lacks.exception.parts)
            tries.fetched(fetch(self.disk, lacks.exception.parts, wanted))
            refused += 1
        self.assertEqual(refused, 1 + IN_VAIN_MAX)
        self.assertEqual(len(self.get(5, tries.wait, count=3).buffers) > 0, True)
