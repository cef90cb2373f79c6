"""When messages were stored by a clock that does not step."""

from __future__ import annotations

import unittest

from rocketha.broker.delay_levels import CLOCK_AHEAD_MS, LINES_MAX, StoreTimes
from tests.broker.support import NOW_MS, WALL_MS

HOUR_MS = 3_600_000
DELAY_MS = 5000


class OwnTests(unittest.TestCase):
    """Messages that this broker stored."""

    def setUp(self) -> None:
        self.times = StoreTimes()
        self.times.begin(100, NOW_MS, WALL_MS)

    def test_steps_both_ways(self) -> None:
        """Each message's time is by the clock as it was when it was stored."""
        self.times.stores_at(100, NOW_MS, WALL_MS)
        self.times.stores_at(200, NOW_MS + 1000, WALL_MS + 1000 - HOUR_MS)
        self.times.stores_at(300, NOW_MS + 2000, WALL_MS + 2000 + HOUR_MS)
        stamps = {100: WALL_MS, 199: WALL_MS, 200: WALL_MS + 1000 - HOUR_MS, 300: WALL_MS + 2000 + HOUR_MS}
        dues = [self.times.due_ms(place, stamp, DELAY_MS) - NOW_MS - DELAY_MS for place, stamp in stamps.items()]
        self.assertEqual(dues, [0, 0, 1000, 2000])

    def test_two_clocks_read_one_after_the_other(self) -> None:
        """Are no step; a clock that creeps away is one in the end."""
        for number in range(200):
            self.times.stores_at(100 + number, NOW_MS + number, WALL_MS + 2 * number)
            due_ms = self.times.due_ms(100 + number, WALL_MS + 2 * number, DELAY_MS)
            self.assertLess(abs(due_ms - DELAY_MS - NOW_MS - number), 50)

    def test_bounded(self) -> None:
        """A clock that steps all the time takes no more memory; the newest messages' times are right."""
        for number in range(3 * LINES_MAX):
            self.times.stores_at(100 + number, NOW_MS, WALL_MS + number * HOUR_MS)
        self.assertEqual(len(self.times._places), LINES_MAX)
        newest = 3 * LINES_MAX - 1
        self.assertEqual(self.times.due_ms(100 + newest, WALL_MS + newest * HOUR_MS, 0), NOW_MS)


class OthersTests(unittest.TestCase):
    """Messages that were in the log before: only their stamps are known."""

    def setUp(self) -> None:
        self.times = StoreTimes()
        self.times.begin(100, NOW_MS, WALL_MS)
        self.times.stores_at(100, NOW_MS, WALL_MS + HOUR_MS)  # a step later on does not matter to them

    def due_ms(self, stamp_ms: int) -> int:
        return self.times.due_ms(99, stamp_ms, DELAY_MS) - NOW_MS

    def test_by_their_stamps(self) -> None:
        """What is left of the delay; nothing is left of one that is over."""
        self.assertEqual(self.due_ms(WALL_MS - 2000), 3000)
        self.assertEqual(self.due_ms(WALL_MS - HOUR_MS), DELAY_MS - HOUR_MS)

    def test_the_other_broker_was_ahead(self) -> None:
        """They were stored before this one began, and wait no longer than their delay."""
        self.assertEqual(self.due_ms(WALL_MS + CLOCK_AHEAD_MS), DELAY_MS)

    def test_the_clock_was_set_back(self) -> None:
        """Nobody knows by how much: they are due at once, as Java's."""
        self.assertEqual(self.due_ms(WALL_MS + HOUR_MS), 0)
