"""How long things took, in fixed buckets: arrays of plain numbers, which :mod:`rocketha.observe.metrics` shows.

Theory of operation.  What ends in a turn of a broker ends together, and most of it began in one turn, too.  So who
answers only notes when what it answers began (:meth:`Ending.note`), which costs a comparison; the clock is asked once,
when the answers have left, and a run of the same beginning takes one look for its bucket (:meth:`Latencies.settle`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, Protocol

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

_NEVER = float("nan")  # equal to nothing

REQUEST_BOUNDS_MS = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
"""Those of Java's histogram of requests."""

KEYS_MAX = 2000
"""Codes of requests and answers whose times are counted; there are a few hundred."""

NAMELESS = -1
"""Stands for every code that has no name: peers may send any."""

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
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self.counts)


class Ending:
    """What ends in the present turn, and what has ended before.

    :param key: what counts as, where the times of requests are counted.
    :param noted: gets this when something ends in a turn.
    :ivar ended: seconds that each took.
    """

    __slots__ = ("_began_s", "_count", "_key", "_noted", "_runs", "ended")

    def __init__(self, key: RequestKey, noted: list[Ending]) -> None:
        self.ended = Histogram()
        self._key = key
        self._noted = noted
        self._began_s = _NEVER
        self._count = 0  # of the last run; 0: nothing ends in this turn
        self._runs: list[tuple[float, int]] = []

    def note(self, began_s: float) -> None:
        """Something ends in this turn that began then; hot path."""
        if began_s == self._began_s:
            self._count += 1
            return
        if began_s == NO_TIME:
            return
        if self._count:
            self._runs.append((self._began_s, self._count))
        else:
            self._noted.append(self)
        self._began_s, self._count = began_s, 1

    def settle(self, now_s: float, requests: RequestTimes | None) -> None:
        """What was noted has ended; hot path."""
        ended, took_s, count = self.ended, now_s - self._began_s, self._count
        ended.counts[bisect_left(BOUNDS_S, took_s)] += count
        ended.sum += took_s * count
        if requests is not None:
            requests.observe(self._key, took_s, count)
        self._began_s, self._count = _NEVER, 0
        if self._runs:
            runs, self._runs = self._runs, []
            for self._began_s, self._count in runs:
                self.settle(now_s, requests)


class RequestKey(NamedTuple):
    """What requests have in common whose times are counted together: codes, and how they were answered."""

    request: int
    answer: int
    held: bool = False
    oneway: bool = False


class Asked(Protocol):
    """What is known of a request (:class:`rocketha.wire.remoting.Command`)."""

    @property
    def code(self) -> int:
        """What is asked for."""

    @property
    def flag(self) -> int:
        """Bit 1: no answer is wanted."""

    @property
    def arrived_s(self) -> float:
        """When it came."""


class RequestTimes:
    """How long requests took; for who wants it as Java tells it.

    :param bounds: of the buckets.
    :param second: what a second is in their unit, of which only whole ones count.
    :param named: codes of requests, and of answers, that have names; None: all have.
    :ivar table: by what they have in common.
    """

    def __init__(
        self,
        bounds: Sequence[float] = REQUEST_BOUNDS_MS,
        second: int = 1000,
        named: tuple[Container[int], Container[int]] | None = None,
    ) -> None:
        self._bounds, self._second, self._named = bounds, second, named
        self.table: dict[RequestKey, Histogram] = {}

    def observe(self, key: RequestKey, took_s: float, times: int = 1) -> None:
        """So many took so long."""
        histogram = self.table.get(key) or self._first(key)
        if histogram is not None:
            histogram.observe(int(took_s * self._second), times)

    def _first(self, key: RequestKey) -> Histogram | None:
        if self._named is not None:
            requests, answers = self._named
            key = key._replace(
                request=key.request if key.request in requests else NAMELESS,
                answer=key.answer if key.answer in answers else NAMELESS,
            )
        if key not in self.table:
            if len(self.table) >= KEYS_MAX:
                return None
            self.table[key] = Histogram(self._bounds)
        return self.table[key]


SEND_KEY = RequestKey(310, 0)
PULL_KEY = RequestKey(11, 0)
HELD_PULL_KEY = RequestKey(11, 0, True)


class Latencies:
    """Those of one broker, in seconds.

    :param seconds: the clock by which beginnings are given.
    :ivar sends: from a request to its answer, whichever it is, of sends that were stored.
    :ivar pulls: likewise of pulls that were answered without waiting for a message.
    :ivar held_pulls: and of those that waited for one.
    :ivar replicas: from a write of the log until as many replicas have it as count.
    :ivar syncs: of the log.
    :ivar requests: all requests; None: nobody asks for them.
    """

    def __init__(self, seconds: Callable[[], float] = lambda: 0.0) -> None:
        self._noted: list[Ending] = []
        self.sends = Ending(SEND_KEY, self._noted)
        self.pulls = Ending(PULL_KEY, self._noted)
        self.held_pulls = Ending(HELD_PULL_KEY, self._noted)
        self.replicas, self.syncs = Histogram(), Histogram()
        self.requests: RequestTimes | None = None
        self._seconds = seconds
        self._writes: deque[tuple[int, float]] = deque(maxlen=WRITES_MAX)

    def settle(self) -> None:
        """A turn has ended, and its answers have left."""
        noted = self._noted
        if noted:
            now_s = self._seconds()
            for each in noted:
                each.settle(now_s, self.requests)
            noted.clear()

    def told(self, key: RequestKey, began_s: float, ended: Histogram | None = None) -> None:
        """A request was answered, out of the ordinary: in a turn whose end need not be awaited.

        :param ended: counts it, too.
        """
        if began_s == NO_TIME or (ended is None and self.requests is None):
            return
        took_s = self._seconds() - began_s
        if ended is not None:
            ended.observe(took_s)
        if self.requests is not None:
            self.requests.observe(key, took_s)

    @property
    def answered(self) -> Callable[[Asked, int], None] | None:
        """What a port tells of each request that is answered there, with the code; None: it need not."""
        return None if self.requests is None else self._answered

    def _answered(self, asked: Asked, code: int) -> None:
        self.told(RequestKey(asked.code, int(code), oneway=bool(asked.flag & 2)), asked.arrived_s)

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
