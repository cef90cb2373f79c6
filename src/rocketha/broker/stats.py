"""How much goes in and out: totals, rates, and counts by topic and by group.

Pure.  Theory of operation: the hot path only adds to plain integers (``stats.put_messages += 1``,
``stats.topic(name).put_messages += 1``).  A clock calls :meth:`BrokerStats.sample` about once a second; samples are
kept for ten minutes, rates are differences of two samples.  Counters by key are sampled as Java's ``StatsItem``:
every 10 s for the last minute, every 10 minutes for the last hour, every hour for the last day.  Days begin at
midnight of ``utc_offset_ms``, by the time of day, which nothing else here is measured in.

Java: ``StoreStatsService``, ``BrokerStats``, ``BrokerStatsManager``, ``StatsItem``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import attrs

from rocketha.broker.served_times import ServedTimes
from rocketha.broker.traffic import Traffic
from rocketha.latencies import Latencies

SAMPLE_MS = 1000
RATE_WINDOWS_S = (10, 60, 600)
DAY_MS = 86_400_000
KEYS_MAX = 50_000
"""Counters by topic and by group together; beyond it a new key is counted under OTHERS."""

OTHERS = "..."

TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"


class _Sample(NamedTuple):
    time_ms: int
    put: int
    found: int
    missed: int
    transferred: int


class Snapshot(NamedTuple):
    """A counter over one window, as ``BrokerStatsItem``."""

    sum: int
    tps: float
    avgpt: float

    def as_json(self) -> dict[str, Any]:
        """In fastjson's order."""
        return {"avgpt": self.avgpt, "sum": self.sum, "tps": self.tps}


@attrs.define(slots=True)
class TopicCounters:
    """What was stored in one topic; plain integers to add to."""

    put_messages: int = 0
    put_bytes: int = 0
    put_times: int = 0  # requests


@attrs.define(slots=True)
class GroupCounters:
    """What one group got from one topic, or sent back, and what became a dead letter; plain integers to add to."""

    get_messages: int = 0
    get_bytes: int = 0
    get_times: int = 0  # pulls that found something
    sent_back: int = 0
    dead_letters: int = 0


# period of sampling in ms and samples kept, as in StatsItem: a minute, an hour, a day
_WINDOWS = ((10_000, 7), (600_000, 7), (3_600_000, 25))


class _Series:
    """Samples of one counter in three windows."""

    __slots__ = ("_windows",)

    def __init__(self, now_ms: int) -> None:
        # a counter that starts counted nothing one period ago
        self._windows = [deque([(now_ms - period, 0, 0)], maxlen=kept) for period, kept in _WINDOWS]

    def sample(self, window: int, now_ms: int, value: int, times: int) -> None:
        self._windows[window].append((now_ms, value, times))

    def snapshot(self, window: int, live: tuple[int, int, int] | None = None) -> Snapshot:
        """From the oldest sample to the newest, or to ``live``: now, value, times."""
        samples = self._windows[window]
        (first_ms, first, first_times), (last_ms, last, last_times) = samples[0], live or samples[-1]
        total, times = last - first, last_times - first_times
        tps = total * 1000.0 / (last_ms - first_ms) if last_ms > first_ms else 0.0
        return Snapshot(total, tps, total / times if times > 0 else 0.0)


class BrokerStats:
    """All counters of a broker.

    ``put_messages`` and its neighbours are public plain integers: the send and pull paths add to them.

    :param now_ms: when it begins.
    :param wall_ms: the time of day.
    :param latencies: how long sends and pulls take.
    :ivar boot_ms: time of day at which it began.
    :ivar traffic: what is stored by topic and kind; None: nobody asks for it.
    """

    def __init__(
        self,
        now_ms: int,
        wall_ms: Callable[[], int],
        utc_offset_ms: int = 0,
        latencies: Latencies | None = None,
    ) -> None:
        self.boot_ms = wall_ms()
        self._wall_ms, self._began_ms = wall_ms, now_ms
        self.put_messages = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.get_found = 0  # pulls that found something
        self.get_missed = 0
        self.get_messages = 0
        self.traffic: Traffic | None = None
        self.topics: dict[str, TopicCounters] = {}
        self.groups: dict[str, GroupCounters] = {}  # by topic@group
        self._series: dict[tuple[str, str], _Series] = {}
        self._samples: deque[_Sample] = deque([_Sample(now_ms, 0, 0, 0, 0)], maxlen=RATE_WINDOWS_S[-1] + 1)
        self._window_due_ms = [now_ms + period for period, _ in _WINDOWS]
        self._utc_offset_ms = utc_offset_ms
        self._times = ServedTimes(latencies or Latencies(), now_ms)
        self._day = (self.boot_ms + utc_offset_ms) // DAY_MS
        self._yesterday_morning = (0, 0)
        self._today_morning = (0, 0)

    def topic(self, topic: str) -> TopicCounters:
        """The counters of a topic."""
        counters = self.topics.get(topic)
        if counters is None:
            key = topic if len(self.topics) + len(self.groups) < KEYS_MAX else OTHERS
            counters = self.topics.setdefault(key, TopicCounters())
        return counters

    def group(self, group: str, topic: str) -> GroupCounters:
        """The counters of a group in a topic."""
        key = topic + "@" + group
        counters = self.groups.get(key)
        if counters is None:
            if len(self.topics) + len(self.groups) >= KEYS_MAX:
                key = OTHERS
            counters = self.groups.setdefault(key, GroupCounters())
        return counters

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        self.topics.pop(topic, None)
        for key in [key for key in self.groups if key.partition("@")[0] == topic]:
            del self.groups[key]
        self._forget_series()

    def forget_group(self, group: str) -> None:
        """The group was deleted."""
        for key in [key for key in self.groups if key.partition("@")[2] == group]:
            del self.groups[key]
        self._forget_series()

    def _forget_series(self) -> None:
        for name, key in list(self._series):
            if self._counter(name, key) is None:
                del self._series[name, key]

    def sample(self, now_ms: int) -> None:
        """About once a second; less often only makes rates coarser."""
        if now_ms - self._samples[-1].time_ms >= SAMPLE_MS:
            self._samples.append(_Sample(now_ms, self.put_messages, self.get_found, self.get_missed, self.get_messages))
        self._times.sample(now_ms)
        day = (self._wall_ms() + self._utc_offset_ms) // DAY_MS
        if day != self._day:
            self._day = day
            self._yesterday_morning = self._today_morning
            self._today_morning = (self.put_messages, self.get_messages)
        for window, (period, _) in enumerate(_WINDOWS):
            if now_ms >= self._window_due_ms[window]:
                self._window_due_ms[window] = now_ms + period
                self._sample_window(window, now_ms)

    def _sample_window(self, window: int, now_ms: int) -> None:
        for name, key in self._counter_names():
            counter = self._counter(name, key)
            if counter is None:
                continue
            series = self._series.get((name, key))
            if series is None:
                series = self._series[name, key] = _Series(now_ms)
            series.sample(window, now_ms, *counter)

    def _counter_names(self) -> list[tuple[str, str]]:
        names = [(BROKER_PUT_NUMS, ""), (BROKER_GET_NUMS, "")]
        for topic in self.topics:
            names += [(TOPIC_PUT_NUMS, topic), (TOPIC_PUT_SIZE, topic)]
        for key in self.groups:
            names += [(GROUP_GET_NUMS, key), (GROUP_GET_SIZE, key), (SNDBCK_PUT_NUMS, key)]
        return names

    def _counter(self, name: str, key: str) -> tuple[int, int] | None:
        """Value and times of a named counter."""
        if name == BROKER_PUT_NUMS:
            return self.put_messages, self.put_messages
        if name == BROKER_GET_NUMS:
            return self.get_messages, self.get_found
        topic = self.topics.get(key)
        if topic is not None and name in (TOPIC_PUT_NUMS, TOPIC_PUT_SIZE):
            return (topic.put_messages if name == TOPIC_PUT_NUMS else topic.put_bytes), topic.put_times
        group = self.groups.get(key)
        if group is None:
            return None
        if name == GROUP_GET_NUMS:
            return group.get_messages, group.get_times
        if name == GROUP_GET_SIZE:
            return group.get_bytes, group.get_times
        return (group.sent_back, group.sent_back) if name == SNDBCK_PUT_NUMS else None

    def snapshots(self, name: str, key: str, now_ms: int) -> tuple[Snapshot, Snapshot, Snapshot] | None:
        """A named counter in the last minute, hour and day; ``None`` when it never counted."""
        counter = self._counter(name, key)
        if counter is None:
            return None
        # Java's key of these two is the cluster's name
        kept = "" if name in (BROKER_PUT_NUMS, BROKER_GET_NUMS) else key
        series = self._series.get((name, kept)) or _Series(now_ms)
        minute, hour, day = (series.snapshot(window, (now_ms, *counter)) for window in range(len(_WINDOWS)))
        return minute, hour, day

    def topic_put_tps(self, topic: str) -> float:
        """Messages a second stored in a topic during the last minute."""
        return self._tps(TOPIC_PUT_NUMS, topic)

    def group_get_tps(self, group: str, topic: str) -> float:
        """Messages a second a group got from a topic during the last minute."""
        return self._tps(GROUP_GET_NUMS, topic + "@" + group)

    def _tps(self, name: str, key: str) -> float:
        series = self._series.get((name, key))
        return series.snapshot(0).tps if series is not None else 0.0

    def _rate(self, seconds: int, field: str) -> float | None:
        if len(self._samples) <= seconds:
            return None
        last, before = self._samples[-1], self._samples[-(seconds + 1)]
        count: int = getattr(last, field) - getattr(before, field)
        return count * 1000 / (last.time_ms - before.time_ms)

    def _rates(self, field: str) -> str:
        """The three windows as Java writes them: a window that is not full yet is left blank."""
        rates = [self._rate(seconds, field) for seconds in RATE_WINDOWS_S]
        return " ".join("" if rate is None else repr(rate) for rate in rates)

    def rates_now(self) -> Mapping[str, float]:
        """Messages a second over the last ten seconds, in and out, for people and metrics."""
        return {"put": self._rate(10, "put") or 0.0, "get": self._rate(10, "transferred") or 0.0}

    def runtime_info(self, now_ms: int) -> dict[str, str]:
        """The keys of GET_BROKER_RUNTIME_INFO that are about counting."""
        elapsed_s = (now_ms - self._began_ms) // 1000
        total = [sum(self._rate(seconds, field) or 0.0 for field in ("found", "missed")) for seconds in RATE_WINDOWS_S]
        return {
            "bootTimestamp": str(self.boot_ms),
            "runtime": (
                f"[ {elapsed_s // 86400} days, {elapsed_s // 3600 % 24} hours, "
                f"{elapsed_s // 60 % 60} minutes, {elapsed_s % 60} seconds ]"
            ),
            **self._times.facts(),
            "putMessageTimesTotal": str(max(1, self.put_messages)),  # Java divides by it and so shows 1 for 0
            "putMessageFailedTimes": str(self.put_failed),
            "putMessageSizeTotal": str(self.put_bytes),
            "putMessageAverageSize": repr(self.put_bytes / max(1, self.put_messages)),
            "putTps": self._rates("put"),
            "getFoundTps": self._rates("found"),
            "getMissTps": self._rates("missed"),
            "getTotalTps": " ".join(map(repr, total)),
            "getTransferredTps": self._rates("transferred"),
            "msgPutTotalYesterdayMorning": str(self._yesterday_morning[0]),
            "msgPutTotalTodayMorning": str(self._today_morning[0]),
            "msgPutTotalTodayNow": str(self.put_messages),
            "msgGetTotalYesterdayMorning": str(self._yesterday_morning[1]),
            "msgGetTotalTodayMorning": str(self._today_morning[1]),
            "msgGetTotalTodayNow": str(self.get_messages),
        }
