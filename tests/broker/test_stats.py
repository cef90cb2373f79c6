"""Counters and rates (Java: StoreStatsService, StatsItem, BrokerStats)."""

from __future__ import annotations

import unittest
from unittest import mock

from rocketha.broker import stats
from rocketha.broker.stats import DAY_MS, OTHERS, BrokerStats
from tests.broker.support import NOW_MS, WALL_MS


class RateTests(unittest.TestCase):
    """Messages a second."""

    def setUp(self) -> None:
        self.wall_ms = WALL_MS
        self.stats = BrokerStats(NOW_MS, lambda: self.wall_ms)

    def run_seconds(self, first: int, last: int, each: int) -> None:
        for second in range(first, last):
            self.stats.put_messages += each
            self.stats.sample(NOW_MS + (second + 1) * 1000)

    def test_windows_fill_one_after_the_other(self) -> None:
        """Java leaves a window blank until it is full: nothing, then ten seconds, then a minute."""
        info = self.stats.runtime_info(NOW_MS)
        self.assertEqual(info["putTps"], "  ")
        self.run_seconds(0, 10, 7)
        self.assertEqual(self.stats.runtime_info(NOW_MS)["putTps"], "7.0  ")
        self.run_seconds(10, 60, 7)
        self.assertEqual(self.stats.runtime_info(NOW_MS)["putTps"], "7.0 7.0 ")
        self.run_seconds(60, 600, 1)
        self.assertEqual(self.stats.runtime_info(NOW_MS)["putTps"].split()[:2], ["1.0", "1.0"])
        self.assertAlmostEqual(float(self.stats.runtime_info(NOW_MS)["putTps"].split()[2]), 1.6)

    def test_total_is_never_blank(self) -> None:
        """Java: getTotalTps is a sum of doubles."""
        self.assertEqual(self.stats.runtime_info(NOW_MS)["getTotalTps"], "0.0 0.0 0.0")

    def test_samples_closer_than_a_second_do_not_count(self) -> None:
        """Whoever calls more often changes no window."""
        for tenth in range(100):
            self.stats.sample(NOW_MS + tenth * 100)
        self.assertEqual(self.stats.runtime_info(NOW_MS)["putTps"], "  ")

    def test_rates_for_people(self) -> None:
        """In and out over ten seconds; 0 before."""
        self.assertEqual(self.stats.rates_now(), {"put": 0.0, "get": 0.0})
        self.run_seconds(0, 10, 3)
        self.assertEqual(self.stats.rates_now(), {"put": 3.0, "get": 0.0})

    def test_runtime_text(self) -> None:
        """The form that brokerStatus prints."""
        later = NOW_MS + DAY_MS + 2 * 3_600_000 + 3 * 60_000 + 4_999
        self.assertEqual(self.stats.runtime_info(later)["runtime"], "[ 1 days, 2 hours, 3 minutes, 4 seconds ]")

    def test_a_clock_that_is_set(self) -> None:
        """Begun in the year 2050, then set right: rates and runtime are those of before."""
        self.wall_ms += 25 * 365 * DAY_MS
        self.run_seconds(0, 5, 7)
        self.wall_ms = WALL_MS
        self.run_seconds(5, 10, 7)
        info = self.stats.runtime_info(NOW_MS + 10_000)
        self.assertEqual((info["putTps"], info["runtime"]), ("7.0  ", "[ 0 days, 0 hours, 0 minutes, 10 seconds ]"))

    def test_midnight(self) -> None:
        """What was counted before midnight is `this morning`, a day later `yesterday morning`; local time decides."""
        offset_ms = 3_600_000
        local_midnight = (WALL_MS // DAY_MS + 1) * DAY_MS - offset_ms
        counted = BrokerStats(NOW_MS, lambda: self.wall_ms, offset_ms)
        counted.put_messages, counted.get_messages = 5, 3
        self.wall_ms = local_midnight - 1
        counted.sample(NOW_MS)
        self.assertEqual(counted.runtime_info(NOW_MS)["msgPutTotalTodayMorning"], "0")
        self.wall_ms = local_midnight
        counted.sample(NOW_MS)
        self.assertEqual(counted.runtime_info(NOW_MS)["msgPutTotalTodayMorning"], "5")
        counted.put_messages = 9
        self.wall_ms = local_midnight + DAY_MS
        counted.sample(NOW_MS)
        info = counted.runtime_info(NOW_MS)
        self.assertEqual((info["msgPutTotalYesterdayMorning"], info["msgPutTotalTodayMorning"]), ("5", "9"))
        self.assertEqual((info["msgGetTotalYesterdayMorning"], info["msgGetTotalTodayNow"]), ("3", "3"))


class CounterTests(unittest.TestCase):
    """Counts by topic and by group."""

    def setUp(self) -> None:
        self.stats = BrokerStats(NOW_MS, lambda: WALL_MS)

    def test_a_minute_an_hour_a_day(self) -> None:
        """The minute forgets, hour and day do not; all are up to date between samples."""
        counters = self.stats.topic("T")
        counters.put_messages, counters.put_times = 60, 6
        for second in range(10, 301, 10):
            self.stats.sample(NOW_MS + second * 1000)
        windows = self.stats.snapshots(stats.TOPIC_PUT_NUMS, "T", NOW_MS + 300_000)
        assert windows is not None
        self.assertEqual([window.sum for window in windows], [0, 60, 60])
        self.assertEqual(windows[1].avgpt, 10.0)
        counters.put_messages += 1
        windows = self.stats.snapshots(stats.TOPIC_PUT_NUMS, "T", NOW_MS + 301_000)
        assert windows is not None
        self.assertEqual([window.sum for window in windows], [1, 61, 61])

    def test_rate_of_the_last_minute(self) -> None:
        """What topicStatus and consumerProgress show."""
        for second in range(1, 121):
            self.stats.topic("T").put_messages += 2
            self.stats.group("G", "T").get_messages += 3
            self.stats.sample(NOW_MS + second * 1000)
        self.assertAlmostEqual(self.stats.topic_put_tps("T"), 2.0)
        self.assertAlmostEqual(self.stats.group_get_tps("G", "T"), 3.0)
        self.assertEqual(self.stats.topic_put_tps("other"), 0.0)

    def test_the_whole_broker(self) -> None:
        """Asked for with the cluster's name as in Java; a minute, not everything since the start."""
        self.stats.put_messages = 60
        for second in range(10, 301, 10):
            self.stats.sample(NOW_MS + second * 1000)
        windows = self.stats.snapshots(stats.BROKER_PUT_NUMS, "DefaultCluster", NOW_MS + 300_000)
        assert windows is not None
        self.assertEqual([window.sum for window in windows], [0, 60, 60])

    def test_unknown_counters(self) -> None:
        """A name or key that never counted has no data, which mqadmin takes for none."""
        self.stats.topic("T")
        self.assertIsNone(self.stats.snapshots("NO_SUCH_STATS", "T", NOW_MS))
        self.assertIsNone(self.stats.snapshots(stats.TOPIC_PUT_NUMS, "U", NOW_MS))
        self.assertIsNone(self.stats.snapshots(stats.GROUP_GET_NUMS, "T", NOW_MS))
        self.assertIsNotNone(self.stats.snapshots(stats.TOPIC_PUT_SIZE, "T", NOW_MS))

    def test_forgetting(self) -> None:
        """A deleted topic or group leaves nothing behind."""
        self.stats.topic("T")
        self.stats.group("G", "T")
        self.stats.group("H", "U")
        self.stats.sample(NOW_MS + 10_000)
        self.stats.forget_topic("T")
        self.stats.forget_group("H")
        self.assertEqual((self.stats.topics, self.stats.groups), ({}, {}))
        self.assertEqual({key for _, key in self.stats._series}, {""})

    def test_keys_are_bounded(self) -> None:
        """Past the limit counts go into one counter."""
        with mock.patch.object(stats, "KEYS_MAX", 1):
            self.stats.topic("T").put_messages += 1
            self.stats.topic("U").put_messages += 1
            self.stats.topic("V").put_messages += 1
            self.stats.group("G", "T").get_messages += 1
        self.assertEqual(self.stats.topics[OTHERS].put_messages, 2)
        self.assertEqual(set(self.stats.groups), {OTHERS})
