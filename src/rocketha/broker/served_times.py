"""How long sends and pulls took, as GET_BROKER_RUNTIME_INFO tells it: of sends the minute before, of both the longest.

Pure.  Times are those of :class:`rocketha.latencies.Latencies`, whose buckets are not Java's: one of ours counts where
most of it lies.  Quantiles are interpolated within ours, and the longest is the end of the bucket that it is in.

Java: ``StoreStatsService``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rocketha.latencies import BOUNDS_S, Histogram, Latencies

MINUTE_MS = 60_000
_ROWS = (
    ("[<=0ms]", 0.001),  # whole milliseconds
    ("[0~10ms]", 0.01),
    ("[10~50ms]", 0.05),
    ("[50~100ms]", 0.1),
    ("[100~200ms]", 0.25),
    ("[200~500ms]", 0.5),
    ("[500ms~1s]", 1.0),
    ("[1~2s]", 2.5),
    ("[2~3s]", 2.5),
    ("[3~4s]", 5.0),
    ("[4~5s]", 5.0),
    ("[5~10s]", 10.0),
    ("[10s~]", float("inf")),
)
"""Java's buckets, and up to which of our bounds each counts, in seconds; none where the one before ends there, too."""


class ServedTimes:
    """Those of one broker.

    :param now_ms: when it begins.
    """

    def __init__(self, latencies: Latencies, now_ms: int) -> None:
        self._sends, self._pulls = latencies.sends.ended, latencies.pulls.ended
        self._since_ms = now_ms
        self._before = list(self._sends.counts)
        self._minute: list[int] | None = None  # None: no minute is over

    def sample(self, now_ms: int) -> None:
        """About once a second."""
        if now_ms - self._since_ms >= MINUTE_MS:
            counts = list(self._sends.counts)
            self._minute = [now - before for now, before in zip(counts, self._before, strict=True)]
            self._since_ms, self._before = now_ms, counts

    def facts(self) -> dict[str, str]:
        """Keys and texts as Java has them; before a minute is over it writes a null, and zeros."""
        minute = self._minute
        return {
            "putMessageDistributeTime": "null" if minute is None else _distribution(minute),
            "putLatency99": f"{_quantile_ms(minute or (), 0.99):.2f}",
            "putLatency999": f"{_quantile_ms(minute or (), 0.999):.2f}",
            "putMessageEntireTimeMax": str(_longest_ms(self._sends)),
            "getMessageEntireTimeMax": str(_longest_ms(self._pulls)),
        }


def _distribution(counts: Sequence[int]) -> str:
    rows, begin = [], 0
    for name, bound in _ROWS:
        end = len(counts) if bound == float("inf") else BOUNDS_S.index(bound) + 1
        rows.append(f"{name}:{sum(counts[begin:end])} ")
        begin = end
    return "".join(rows)


def _quantile_ms(counts: Sequence[int], part: float) -> float:
    """0 of none; what is beyond the last bound counts as that."""
    wanted, passed, low = sum(counts) * part, 0, 0.0
    for count, bound in zip(counts, (*BOUNDS_S, BOUNDS_S[-1]), strict=False):
        if count and passed + count >= wanted:
            return 1000 * (low + (bound - low) * (wanted - passed) / count)
        passed, low = passed + count, bound
    return 0.0


def _longest_ms(times: Histogram) -> int:
    for count, bound in zip(reversed(times.counts), (BOUNDS_S[-1], *reversed(BOUNDS_S)), strict=True):
        if count:
            return math.ceil(1000 * bound)
    return 0
