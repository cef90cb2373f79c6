"""How long things took, in fixed buckets: arrays of plain numbers, which :mod:`rocketha.observe.metrics` shows.

Theory of operation.  What ends in a turn of a broker ends together, and most of it began in one turn, too.  So who
answers only notes when what it answers began (:meth:`Ending.note`), which costs a comparison; the clock is asked once,
when the answers have left, and a run of the same beginning takes one look for its bucket (:meth:`Latencies.settle`).
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Sequence

from rocketha.errors import InvariantBroken

BOUNDS_S = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Seconds, from an eager answer (50 us) to a stuck disk (10 s), about three to a decade."""

NO_TIME = -1.0
"""When something began that did not come by a port."""

WRITES_MAX = 65_536
"""Writes of which it is remembered when they were made, until replicas have them; of more the oldest are forgotten."""


class Histogram:
    """Counts observations by size in fixed buckets.

    :param bounds: the inclusive upper ends of the buckets, rising; one more bucket takes the rest.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = BOUNDS_S) -> None:
        if list(bounds) != sorted(set(bounds)) or not bounds:
            raise InvariantBroken(f"histogram bounds do not rise: {bounds}")
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum: int | float = 0

    def observe(self, value: float, times: int = 1) -> None:
        """Count an observation, ``times`` over (a batch that shared one latency)."""
        self.counts[bisect.bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self.counts)


class Ending:
    """What ends in the present turn, and what has ended before.

    :ivar ended: seconds that each took.
    :ivar any: whether something ends in this turn.
    """

    __slots__ = ("_began_s", "_count", "_runs", "any", "ended")

    def __init__(self) -> None:
        self.ended = Histogram()
        self.any = False
        self._began_s = NO_TIME
        self._count = 0
        self._runs: list[tuple[float, int]] = []

    def note(self, began_s: float) -> None:
        """Something ends in this turn that began then; hot path."""
        if began_s == self._began_s:
            self._count += 1
            return
        if self._count:
            self._runs.append((self._began_s, self._count))
        self._began_s, self._count, self.any = began_s, 1, True

    def settle(self, now_s: float) -> None:
        """What was noted has ended."""
        self._runs.append((self._began_s, self._count))
        for began_s, count in self._runs:
            if began_s != NO_TIME:
                self.ended.observe(max(0.0, now_s - began_s), count)
        self._runs.clear()
        self._began_s, self._count, self.any = NO_TIME, 0, False


class Latencies:
    """Those of one broker, in seconds.

    :param seconds: the clock by which beginnings are given.
    :ivar sends: from a request to its answer, whichever it is, of sends that were stored.
    :ivar pulls: likewise of pulls that were answered without waiting for a message.
    :ivar held_pulls: and of those that waited for one.
    :ivar replicas: from a write of the log until as many replicas have it as count.
    :ivar syncs: of the log.
    """

    def __init__(self, seconds: Callable[[], float] = lambda: 0.0) -> None:
        self.sends, self.pulls, self.held_pulls = Ending(), Ending(), Ending()
        self.replicas, self.syncs = Histogram(), Histogram()
        self._seconds = seconds
        self._writes: deque[tuple[int, float]] = deque(maxlen=WRITES_MAX)

    def settle(self) -> None:
        """A turn has ended, and its answers have left."""
        sends, pulls, held_pulls = self.sends, self.pulls, self.held_pulls
        if sends.any or pulls.any or held_pulls.any:
            now_s = self._seconds()
            for each in (sends, pulls, held_pulls):
                if each.any:
                    each.settle(now_s)

    def written(self, end: int) -> None:
        """The log was written up to there, and replicas are to have it."""
        self._writes.append((end, self._seconds()))

    def replicated(self, offset: int) -> None:
        """Enough replicas have everything below ``offset``."""
        writes = self._writes
        if not writes or writes[0][0] > offset:
            return
        now_s = self._seconds()
        while writes and writes[0][0] <= offset:
            self.replicas.observe(now_s - writes.popleft()[1])

    def forget_writes(self) -> None:
        """Nobody will say that replicas have them."""
        self._writes.clear()
