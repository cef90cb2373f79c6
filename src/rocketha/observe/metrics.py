"""Counters, gauges and histograms, and their text for Prometheus. No dependency, no thread, no clock.

What it must not know: who counts what. Each service makes one :class:`Registry` and hands it down; there is no global
one, so two brokers in one process (``rocketha-cluster``, tests, the simulator) do not add up by accident.

Theory of operation.  Counting is on the hot path, reading is not. A counter is an object with a plain attribute, so
that ``counter.value += 1`` is all it costs; labels are resolved once, with :meth:`Family.labelled`, when the owner
starts. A value that somebody already keeps (the length of a table, an offset) is not counted twice: register a
function, which is asked when the metrics are read. Label values that peers choose (topics, groups) are bounded: past
``SERIES_MAX`` all others share one series named ``(other)``.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4).
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from rocketha.errors import InvariantBroken

SERIES_MAX = 1000
"""Series of one family; what comes after shares the series ``(other)``."""

OTHER = "(other)"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Seconds, from an eager answer (50 us) to a stuck disk (10 s), about three to a decade.
LATENCY_BOUNDS_S = (
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

_METRIC_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_LABEL_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class Counter:
    """Only grows. Add with ``counter.value += n``."""

    __slots__ = ("value",)
    kind = "counter"

    def __init__(self) -> None:
        self.value: int | float = 0

    def samples(self) -> Iterator[tuple[str, str, int | float]]:
        """(suffix, extra label, value) of each line."""
        yield "", "", self.value


class Gauge(Counter):
    """Goes up and down. Set with ``gauge.value = n``."""

    __slots__ = ()
    kind = "gauge"


class Histogram:
    """Counts observations by size in fixed buckets.

    :param bounds: the inclusive upper ends of the buckets, rising; one more bucket takes the rest.
    """

    __slots__ = ("_bounds", "_counts", "sum")
    kind = "histogram"

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_S) -> None:
        if list(bounds) != sorted(set(bounds)) or not bounds:
            raise InvariantBroken(f"histogram bounds do not rise: {bounds}")
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count an observation, ``times`` over (a batch that shared one latency)."""
        self._counts[bisect.bisect_left(self._bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self._counts)

    def samples(self) -> Iterator[tuple[str, str, int | float]]:
        """(suffix, extra label, value) of each line: cumulative buckets, sum, count."""
        cumulative = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            cumulative += count
            yield "_bucket", f'le="{number(bound)}"', cumulative
        yield "_bucket", 'le="+Inf"', cumulative + self._counts[-1]
        yield "_sum", "", self.sum
        yield "_count", "", cumulative + self._counts[-1]


Series = TypeVar("Series", bound=Counter | Histogram)


class Family(Generic[Series]):
    """All series of one metric: one for each combination of label values."""

    def __init__(self, name: str, help_text: str, labels: Sequence[str], make: Callable[[], Series]) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = tuple(labels)
        self.kind = make().kind
        self._make = make
        # Invariant: at most SERIES_MAX entries and the one for OTHER.
        self._series: dict[tuple[str, ...], Series] = {}

    def labelled(self, *values: str) -> Series:
        """The series of these label values, made when first asked for. Keep it: a look-up costs more than counting."""
        if len(values) != len(self.labels):
            raise InvariantBroken(f"{self.name} has labels {self.labels}, not {values}")
        series = self._series.get(values)
        if series is None:
            if len(self._series) >= SERIES_MAX:
                values = (OTHER,) * len(self.labels)
                series = self._series.get(values)
            if series is None:
                series = self._series[values] = self._make()
        return series

    def lines(self) -> Iterator[str]:
        """The text of all series."""
        for values, series in sorted(self._series.items()):
            named = [f'{name}="{escape(value)}"' for name, value in zip(self.labels, values, strict=True)]
            for suffix, extra, value in series.samples():
                yield _line(self.name + suffix, [*named, extra] if extra else named, value)


class Asked:
    """A metric somebody else keeps: a function gives its series when the metrics are read.

    :param ask: returns (label values, value) of each series; at most ``SERIES_MAX`` are shown.
    """

    def __init__(
        self,
        name: str,
        help_text: str,
        kind: str,
        labels: Sequence[str],
        ask: Callable[[], Iterable[tuple[Sequence[str], int | float]]],
    ) -> None:
        self.name = name
        self.help_text = help_text
        self.kind = kind
        self.labels = tuple(labels)
        self._ask = ask

    def lines(self) -> Iterator[str]:
        """The text of all series, asked now."""
        for shown, (values, value) in enumerate(self._ask()):
            if shown >= SERIES_MAX:
                return
            named = [f'{name}="{escape(each)}"' for name, each in zip(self.labels, values, strict=True)]
            yield _line(self.name, named, value)


Registered = Family[Counter] | Family[Gauge] | Family[Histogram] | Asked


class Registry:
    """The metrics of one service."""

    def __init__(self) -> None:
        self._families: dict[str, Registered] = {}

    def counter(self, name: str, help_text: str) -> Counter:
        """A counter without labels; its name should end in ``_total``."""
        return self.counters(name, help_text, ()).labelled()

    def counters(self, name: str, help_text: str, labels: Sequence[str]) -> Family[Counter]:
        """Counters that share a name."""
        family = Family(name, help_text, labels, Counter)
        self._add(family)
        return family

    def gauge(self, name: str, help_text: str) -> Gauge:
        """A gauge without labels."""
        return self.gauges(name, help_text, ()).labelled()

    def gauges(self, name: str, help_text: str, labels: Sequence[str]) -> Family[Gauge]:
        """Gauges that share a name."""
        family = Family(name, help_text, labels, Gauge)
        self._add(family)
        return family

    def histogram(self, name: str, help_text: str, bounds: Sequence[float] = LATENCY_BOUNDS_S) -> Histogram:
        """A histogram without labels; its name should end in its unit."""
        return self.histograms(name, help_text, (), bounds).labelled()

    def histograms(
        self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float] = LATENCY_BOUNDS_S
    ) -> Family[Histogram]:
        """Histograms that share a name."""
        family = Family(name, help_text, labels, lambda: Histogram(bounds))
        self._add(family)
        return family

    def ask(self, name: str, help_text: str, value: Callable[[], int | float], kind: str = "gauge") -> None:
        """One value that somebody already keeps."""
        self._add(Asked(name, help_text, kind, (), lambda: [((), value())]))

    def ask_series(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str],
        series: Callable[[], Iterable[tuple[Sequence[str], int | float]]],
        kind: str = "gauge",
    ) -> None:
        """Labelled values that somebody already keeps."""
        self._add(Asked(name, help_text, kind, labels, series))

    def _add(self, family: Registered) -> None:
        if not _METRIC_NAME.fullmatch(family.name) or not all(map(_LABEL_NAME.fullmatch, family.labels)):
            raise InvariantBroken(f"not a metric name: {family.name} {family.labels}")
        if family.name in self._families:
            raise InvariantBroken(f"the metric {family.name} is registered twice")
        self._families[family.name] = family

    def exposition(self) -> str:
        """All metrics as text, by name."""
        lines = []
        for _name, family in sorted(self._families.items()):
            help_text = family.help_text.replace("\\", r"\\").replace("\n", r"\n")
            lines += [f"# HELP {family.name} {help_text}", f"# TYPE {family.name} {family.kind}", *family.lines()]
        return "\n".join(lines) + "\n"


def _line(name: str, labels: Sequence[str], value: int | float) -> str:
    braced = "{" + ",".join(labels) + "}" if labels else ""
    return f"{name}{braced} {number(value)}"


def escape(value: str) -> str:
    """A label value as it stands between its quotes."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def number(value: int | float) -> str:
    """A value as Prometheus writes it."""
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "+Inf" if value > 0 else "-Inf"
        if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
    return repr(value)
