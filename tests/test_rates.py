"""How often one host may ask for what stays."""

from __future__ import annotations

import unittest

from rocketha import rates
from rocketha.rates import EACH_MS, IDS_AT_ONCE, NEWCOMERS_AT_ONCE, REMEMBERED_MAX, Rates


class RatesTests(unittest.TestCase):
    """Several at once, then one now and then."""

    def test_one_host_fills_no_set(self) -> None:
        """Ten a second for a minute: 16 and 5; another host is not kept out."""
        limit = Rates(IDS_AT_ONCE)
        taken = sum(limit.take("a", now_ms) for now_ms in range(0, 60_000, 100))
        self.assertEqual(taken, IDS_AT_ONCE + 59_900 // EACH_MS)
        self.assertTrue(limit.take("b", 60_000))
        self.assertTrue(limit.take("a", 60_000 + EACH_MS))

    def test_asking_does_not_count(self) -> None:
        """Whether one may is what it is told when it takes."""
        limit = Rates(2, 1000)
        self.assertTrue(all(limit.may("a", 0) for _ in range(9)))
        for now_ms in range(0, 5000, 100):
            self.assertEqual(limit.may("a", now_ms), limit.take("a", now_ms), now_ms)

    def test_bounded(self) -> None:
        """So many are remembered."""
        limit = Rates(NEWCOMERS_AT_ONCE)
        for number in range(REMEMBERED_MAX + 10):
            limit.take(number, 0)
        self.assertEqual(len(limit._free_ms), rates.REMEMBERED_MAX)
