"""Reads that wait for no disk: the same messages as any read, after what they lack was fetched (H3)."""

from __future__ import annotations

import random
import unittest

from rocketha.store import commitlog
from rocketha.store.in_memory import NotInMemory, Part, Wait, fetch
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetResult
from tests.store.support import HOST, NOW_MS, ROOT, SMALL, message


class NotInMemoryTests(unittest.TestCase):
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

    def get(self, offset: int, wait: Wait, **more: int) -> GetResult:
        return self.store.get("T", more.get("queue_id", 0), offset, more.get("count", 40), 1 << 20, None, wait)

    def test_the_same_messages(self) -> None:
        """From many places at once, over the ends of files, whatever is in memory of it."""
        self.assertGreater(len(self.store.log.segments.bases), 10)
        several = refused = 0
        for _ in range(200):
            queue_id, offset, count = self.chance.randrange(3), self.chance.randrange(120), self.chance.randrange(1, 41)
            asked = {"queue_id": queue_id, "count": count}
            wait, tries = Wait.NOTHING, 0
            while True:
                try:
                    found = self.get(offset, wait, **asked)
                    break
                except NotInMemory as lacks:
                    refused += 1
                    fetch(self.disk, lacks.parts)
                wait, tries = Wait.OPEN, tries + 1
                self.assertLess(tries, 3)
            self.assertEqual(found, self.get(offset, Wait.ANYTHING, **asked))
            self.assertTrue(all(type(buffer) is bytes for buffer in found.buffers), "a view is overwritten")
            several += len(found.buffers) > 1
        self.assertGreater(several, 20)
        self.assertGreater(refused, 10)

    def test_all_that_it_lacks_is_named(self) -> None:
        """At once: entries, then every stretch of the log."""
        with self.assertRaises(NotInMemory) as entries:
            self.get(5, Wait.NOTHING)
        parts = entries.exception.parts
        self.assertEqual([(part.offset, part.size) for part in parts], [(100, 300), (0, 400), (0, 100)])
        self.assertTrue(all("/consumequeue/T/0/" in part.path for part in parts))
        fetch(self.disk, entries.exception.parts)
        with self.assertRaises(NotInMemory) as records:
            self.get(5, Wait.OPEN)
        parts = records.exception.parts
        self.assertGreater(len(parts), 1)
        self.assertTrue(all("/commitlog/" in part.path for part in parts))

    def test_a_file_that_is_not_there(self) -> None:
        """Or that cannot be read: whoever asked finds out."""
        fetch(self.disk, [Part(f"{ROOT}/commitlog/none", 0, 10)])
        self.disk.fail_at(1, times=100)
        with self.assertRaises(NotInMemory) as lacks:
            self.get(5, Wait.NOTHING)
        fetch(self.disk, lacks.exception.parts)

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
