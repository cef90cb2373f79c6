"""A queue that the broker reads itself: what is not in memory is fetched, and the work is done again."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from rocketha.broker.queue_reader import QueueReader
from rocketha.store.in_memory import NotInMemory, Part, Tries, Wait, Wanted

PART = Part("/store/x", 0, 10)


class Store:
    """What a reader asks of one: a queue with five messages, of which it is told how long it may wait."""

    class queues:  # noqa: N801
        @staticmethod
        def get(topic: str, queue_id: int) -> Any:
            return None

    def __init__(self) -> None:
        self.waits: list[Wait] = []

    def min_offset(self, topic: str, queue_id: int) -> int:
        return 3

    def get(self, topic: str, queue_id: int, offset: int, count: int, size: int, accepts: Any, wait: Wait) -> Any:
        self.waits.append(wait)
        if wait is Wait.NOTHING:
            raise NotInMemory([PART])
        return f"{topic} {queue_id} {offset}"


class QueueReaderTests(unittest.TestCase):
    """One reader."""

    def setUp(self) -> None:
        self.fetches: list[tuple[Tries, Callable[[int], None], Wanted]] = []
        self.store: Any = Store()
        self.reader = QueueReader(self.store, "SYS", 7, lambda *asked: self.fetches.append(asked))
        self.read: list[Any] = []

    def work(self) -> None:
        self.read.append(self.reader.get(4, 1))

    def test_bounds(self) -> None:
        """A queue that is not there yet is empty."""
        self.assertEqual((self.reader.begin, self.reader.end), (3, 0))

    def test_what_is_lacked_is_fetched(self) -> None:
        self.assertFalse(self.reader.attempt(self.work))
        times: list[int] = []
        self.reader.fetch(times.append, lambda: True)
        self.assertTrue(self.reader.fetching)
        ((tries, go_on, wanted),) = self.fetches
        self.assertEqual((tuple(tries.parts), wanted()), ((PART,), True))
        tries.fetched({})
        go_on(17)
        self.assertEqual((times, self.reader.fetching), ([17], False))
        self.assertTrue(self.reader.attempt(self.work))
        self.assertEqual(self.read, ["SYS 7 4"])
        self.assertEqual(self.store.waits, [Wait.NOTHING, Wait.OPEN])

    def test_the_next_piece_of_work_waits_for_nothing_again(self) -> None:
        self.reader.attempt(self.work)
        self.assertIs(self.reader.wait, Wait.OPEN)
        self.reader.came_further()
        self.assertIs(self.reader.wait, Wait.NOTHING)

    def test_what_could_not_be_fetched(self) -> None:
        """Is raised where it is lacked again."""
        self.reader.attempt(self.work)
        self.reader.fetch(lambda now_ms: None, lambda: True)
        ((tries, _, _),) = self.fetches
        tries.fetched({PART: OSError("bad sector")})

        def lacking() -> None:
            raise NotInMemory([PART])

        with self.assertRaisesRegex(OSError, "bad sector"):
            self.reader.attempt(lacking)


if __name__ == "__main__":
    unittest.main()
