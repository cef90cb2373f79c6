"""How long things took: what is noted in a turn is counted at its end, each with its own beginning."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import InvariantBroken
from rocketha.latencies import KEYS_MAX, NO_TIME, SEND_KEY, Histogram, Latencies, RequestKey, RequestTimes


class EndingTests(SynchronousTestCase):
    """Sends, of which many end in one turn."""

    def setUp(self) -> None:
        self.now_s = 100.0
        self.latencies = Latencies(lambda: self.now_s)

    @given(st.lists(st.lists(st.sampled_from([NO_TIME, 1.0, 2.5, 7.0, 99.5]), max_size=8), max_size=6))
    def test_as_one_by_one(self, turns: list[list[float]]) -> None:
        """Runs or not, what came by no port among them: the buckets are those of a plain count."""
        latencies, plain = Latencies(lambda: 100.0), Histogram()
        for turn in turns:
            for began_s in turn:
                latencies.sends.note(began_s)
                if began_s != NO_TIME:
                    plain.observe(100.0 - began_s)
            latencies.settle()
        self.assertEqual(latencies.sends.ended.counts, plain.counts)
        self.assertAlmostEqual(latencies.sends.ended.sum, plain.sum)

    def test_the_end_counts(self) -> None:
        """The clock is asked when the answers have left, once for all that ended, and not without any."""
        asked: list[float] = []

        def seconds() -> float:
            asked.append(self.now_s)
            return self.now_s

        latencies = Latencies(seconds)
        latencies.settle()
        self.assertEqual(asked, [])
        latencies.sends.note(99.0)
        latencies.pulls.note(98.0)
        self.now_s = 101.0
        latencies.settle()
        self.assertEqual(len(asked), 1)
        self.assertEqual((latencies.sends.ended.sum, latencies.pulls.ended.sum), (2.0, 3.0))
        self.assertEqual(latencies.held_pulls.ended.count, 0)

    def test_requests(self) -> None:
        """The same by request for who wants it, in whole ms."""
        latencies = self.latencies
        self.assertIsNone(latencies.answered)
        latencies.requests = times = RequestTimes()
        latencies.sends.note(99.9985)
        latencies.sends.note(99.9985)
        latencies.settle()
        self.assertEqual((times.table[SEND_KEY].count, times.table[SEND_KEY].sum), (2, 2))
        late = SEND_KEY._replace(answer=12)
        latencies.told(late, 97.0, latencies.sends.ended)
        latencies.told(late, NO_TIME, latencies.sends.ended)
        self.assertEqual((times.table[late].sum, latencies.sends.ended.count), (3000, 3))

    def test_requests_are_bounded(self) -> None:
        """Peers choose codes."""
        times = RequestTimes()
        for code in range(KEYS_MAX + 5):
            times.observe(RequestKey(code, 0), 1.0)
        self.assertEqual(len(times.table), KEYS_MAX)


class ReplicaTests(SynchronousTestCase):
    """From a write of the log until enough replicas have it."""

    def test_writes(self) -> None:
        """Each is counted once, when its last byte is there; what nobody will say is forgotten."""
        clock = {"s": 0.0}
        latencies = Latencies(lambda: clock["s"])
        for end, at_s in ((100, 1.0), (200, 2.0), (300, 3.0)):
            clock["s"] = at_s
            latencies.written(end)
        clock["s"] = 4.0
        latencies.replicated(99)
        self.assertEqual(latencies.replicas.count, 0)
        latencies.replicated(250)
        self.assertEqual((latencies.replicas.count, latencies.replicas.sum), (2, 5.0))
        latencies.forget_writes()
        latencies.replicated(300)
        self.assertEqual(latencies.replicas.count, 2)


class HistogramTests(SynchronousTestCase):
    """The buckets."""

    @given(st.lists(st.tuples(st.floats(min_value=0, max_value=20), st.integers(1, 5)), max_size=20))
    def test_each_in_its_own(self, values: list[tuple[float, int]]) -> None:
        """A value on a bound is in the bucket below it."""
        histogram, expected = Histogram((1, 5, 10)), Counter[Any]()
        for value, times in values:
            histogram.observe(value, times)
            expected[next((bound for bound in (1, 5, 10) if value <= bound), None)] += times
        self.assertEqual(histogram.counts, [expected[bound] for bound in (1, 5, 10, None)])

    def test_bounds_rise(self) -> None:
        self.assertRaises(InvariantBroken, Histogram, (2, 1))
