"""How long sends and pulls took, as runtime information has it (Java: StoreStatsService)."""

from __future__ import annotations

import unittest

from rocketha.broker.served_times import MINUTE_MS, ServedTimes
from rocketha.latencies import BOUNDS_S, Latencies
from tests.broker.support import NOW_MS


class ServedTimesTests(unittest.TestCase):
    """A histogram that goes on, told by the minute."""

    def setUp(self) -> None:
        self.latencies = Latencies()
        self.sends = self.latencies.sends.ended
        self.sends.observe(0.003, 1000)  # before it begins
        self.times = ServedTimes(self.latencies, NOW_MS)

    def after(self, minutes: int) -> dict[str, str]:
        self.times.sample(NOW_MS + minutes * MINUTE_MS)
        return self.times.facts()

    def distribution(self, facts: dict[str, str]) -> dict[str, int]:
        rows = (row.split(":") for row in facts["putMessageDistributeTime"].split(" ") if row)
        return {name: int(count) for name, count in rows}

    def test_before_a_minute_is_over(self) -> None:
        """As Java has it; who parses these knows that null."""
        self.sends.observe(0.003)
        self.times.sample(NOW_MS + MINUTE_MS - 1)
        expected = {"putMessageDistributeTime": "null", "putLatency99": "0.00", "putLatency999": "0.00"}
        facts = self.times.facts()
        self.assertEqual({key: facts[key] for key in expected}, expected)

    def test_java_s_buckets(self) -> None:
        """All of them in Java's order, each observation once."""
        for number, bound in enumerate((*BOUNDS_S, 11.0)):
            self.sends.observe(bound, 1 << number)
        found = self.distribution(self.after(1))
        names = "<=0ms 0~10ms 10~50ms 50~100ms 100~200ms 200~500ms 500ms~1s 1~2s 2~3s 3~4s 4~5s 5~10s 10s~"
        self.assertEqual(list(found), [f"[{name}]" for name in names.split()])
        self.assertEqual(sum(found.values()), (1 << len(BOUNDS_S) + 1) - 1)
        self.assertEqual(found["[<=0ms]"], 0b11111)
        self.assertEqual(found["[100~200ms]"], 1 << BOUNDS_S.index(0.25))
        self.assertEqual((found["[1~2s]"], found["[2~3s]"]), (1 << BOUNDS_S.index(2.5), 0))
        self.assertEqual(found["[10s~]"], 1 << len(BOUNDS_S))

    def test_the_minute_before(self) -> None:
        """Each minute is told during the next one, and then forgotten."""
        self.sends.observe(0.02, 5)
        self.assertEqual(sum(self.distribution(self.after(1)).values()), 5)
        self.sends.observe(0.02, 7)
        self.assertEqual(sum(self.distribution(self.times.facts()).values()), 5)
        self.assertEqual(sum(self.distribution(self.after(2)).values()), 7)
        self.assertEqual(sum(self.distribution(self.after(3)).values()), 0)

    def test_quantiles(self) -> None:
        """Milliseconds, of that minute only, interpolated in a bucket; the last has no end."""
        self.sends.observe(0.004, 990)
        self.sends.observe(0.04, 9)
        self.sends.observe(99.0, 1)
        facts = self.after(1)
        self.assertEqual((facts["putLatency99"], facts["putLatency999"]), ("5.00", "50.00"))
        self.sends.observe(99.0)
        facts = self.after(2)
        self.assertEqual((facts["putLatency99"], facts["putLatency999"]), ("10000.00", "10000.00"))
        self.assertEqual(self.after(3)["putLatency99"], "0.00")

    def test_the_longest(self) -> None:
        """Since the start, whole milliseconds rounded up; 0 where there was none."""
        self.assertEqual(self.times.facts()["putMessageEntireTimeMax"], "5")
        self.assertEqual(self.times.facts()["getMessageEntireTimeMax"], "0")
        self.latencies.pulls.ended.observe(0.00001)
        self.sends.observe(99.0)
        facts = self.after(5)
        self.assertEqual((facts["putMessageEntireTimeMax"], facts["getMessageEntireTimeMax"]), ("10000", "1"))
