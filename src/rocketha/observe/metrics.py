"""Counters, gauges and histograms, shown by prometheus_client.

What it must not know: who counts what. Each service makes one :class:`Registry` and hands it down; there is no global
one, so two brokers in one process (``rocketha-cluster``, tests, the simulator) do not add up by accident.

Theory of operation.  Counting is on the hot path, reading is not. A counter is an object with a plain attribute, so
that ``counter.value += 1`` is all it costs; labels are resolved once, with :meth:`Family.labelled`, when the owner
starts. A value that somebody already keeps (the length of a table, an offset) is not counted twice: register a
function, which is asked when the metrics are read. Families are collectors in prometheus_client's sense: they make its
samples when somebody scrapes, and its encoders write them, as Prometheus's text or as OpenMetrics. Label values that
peers choose (topics, groups) are bounded: past ``SERIES_MAX`` all others share one series named ``(other)``.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.utils import floatToGoString

from rocketha.errors import InvariantBroken
from rocketha.latencies import BOUNDS_S, Histogram

__all__ = ["OTHER", "SERIES_MAX", "Asked", "Counter", "Family", "Gauge", "Histogram", "Registry"]

SERIES_MAX = 1000
"""Series of one family; what comes after shares the series ``(other)``."""

PIECE_SAMPLES = 500
"""What is read in one turn, about: lines of a page cost some 15 us each, samples without their text half of that."""

OTHER = "(other)"
COUNTED = "_total"
"""How the name of a counter ends."""

_EOF = b"# EOF\n"
_METRIC_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Counter:
    """Only grows. Add with ``counter.value += n``."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: int | float = 0


class Gauge(Counter):
    """Goes up and down. Set with ``gauge.value = n``."""

    __slots__ = ()


Series = TypeVar("Series", bound=Counter | Histogram)
Value = int | float | Histogram


class Shape:
    """What the series of one metric have in common.

    :ivar kind: counter, gauge or histogram.
    :ivar constant: labels that every series has, with their values; its own of the same name wins, as in Java.
    :ivar help_text: what it is, for people.
    """

    def __init__(
        self, kind: str, name: str, help_text: str, labels: Sequence[str], constant: Mapping[str, str]
    ) -> None:
        if not _METRIC_NAME.fullmatch(name) or not all(map(_LABEL_NAME.fullmatch, labels)):
            raise InvariantBroken(f"not a metric name: {name} {labels}")
        if (kind == "counter") != name.endswith(COUNTED):
            raise InvariantBroken(f"{name} is a {kind}: the names of counters, and no others, end in {COUNTED}")
        self.kind = kind
        self.name = name
        self.labels = tuple(labels)
        self.constant = {name: value for name, value in constant.items() if name not in self.labels}
        self.help_text = help_text

    def metric(self, series: Iterable[tuple[Sequence[str], Value]]) -> Metric:
        """All series for prometheus_client.

        :param series: label values and value of each.
        """
        names = (*self.labels, *self.constant)
        last = tuple(self.constant.values())
        if self.kind == "histogram":
            made = HistogramMetricFamily(self.name, self.help_text, labels=names)
            for values, value in series:
                assert isinstance(value, Histogram)
                made.add_metric((*values, *last), list(_buckets(value)), value.sum)
            return made
        family = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        plain = family(self.name, self.help_text, labels=names)
        for values, value in series:
            assert not isinstance(value, Histogram)
            plain.add_metric((*values, *last), value)
        return plain

    def describe(self) -> Iterable[Metric]:
        """prometheus_client: which name is taken, as it is in Prometheus's text."""
        return [Metric(self.name, self.help_text, "histogram" if self.kind == "histogram" else "unknown")]


def _buckets(histogram: Histogram) -> Iterator[tuple[str, float]]:
    cumulative = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        cumulative += count
        yield floatToGoString(bound), cumulative


class Family(Generic[Series]):
    """All series of one metric: one for each combination of label values."""

    def __init__(self, shape: Shape, make: Callable[[], Series]) -> None:
        self.describe = shape.describe
        self._shape = shape
        self._make = make
        # Invariant: at most SERIES_MAX entries and the one for OTHER.
        self._series: dict[tuple[str, ...], Series] = {}

    def labelled(self, *values: str) -> Series:
        """The series of these label values, made when first asked for. Keep it: a look-up costs more than counting."""
        labels = self._shape.labels
        if len(values) != len(labels):
            raise InvariantBroken(f"{self._shape.name} has labels {labels}, not {values}")
        series = self._series.get(values)
        if series is None:
            if len(self._series) >= SERIES_MAX:
                values = (OTHER,) * len(labels)
                series = self._series.get(values)
            if series is None:
                series = self._series[values] = self._make()
        return series

    def collect(self) -> Iterable[Metric]:
        """prometheus_client: all series as they are now."""
        return [self._shape.metric((values, _value(each)) for values, each in sorted(self._series.items(), key=_key))]


def _key(item: tuple[tuple[str, ...], object]) -> tuple[str, ...]:
    return item[0]


def _value(series: Counter | Histogram) -> Value:
    return series if isinstance(series, Histogram) else series.value


class Asked:
    """A metric somebody else keeps: a function gives its series when the metrics are read.

    :param ask: returns (label values, value) of each series; at most ``SERIES_MAX`` are shown.
    """

    def __init__(self, shape: Shape, ask: Callable[[], Iterable[tuple[Sequence[str], Value]]]) -> None:
        self.describe = shape.describe
        self._shape = shape
        self._ask = ask

    def collect(self) -> Iterable[Metric]:
        """prometheus_client: all series, asked now."""
        return [self._shape.metric(each for _, each in zip(range(SERIES_MAX), self._ask(), strict=False))]


class _Sole:
    """A registry of one metric, for an encoder."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        """prometheus_client: this one."""
        return (self._metric,)


class Registry(CollectorRegistry):
    """The metrics of one service.  Other collectors of prometheus_client may be registered, too.

    :param constant: labels that every metric has, with their values.
    :ivar shapes: of what was registered by these methods, by name.
    """

    def __init__(self, constant: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._constant = dict(constant or {})
        self._collectors: list[tuple[str, Any]] = []  # with what is described first, in that order
        self.shapes: dict[str, Shape] = {}

    def counter(self, name: str, help_text: str) -> Counter:
        """A counter without labels; its name ends in ``_total``."""
        return self.counters(name, help_text, ()).labelled()

    def counters(self, name: str, help_text: str, labels: Sequence[str]) -> Family[Counter]:
        """Counters that share a name."""
        return self._add(Family(self._shape("counter", name, help_text, labels), Counter))

    def gauge(self, name: str, help_text: str) -> Gauge:
        """A gauge without labels."""
        return self.gauges(name, help_text, ()).labelled()

    def gauges(self, name: str, help_text: str, labels: Sequence[str]) -> Family[Gauge]:
        """Gauges that share a name."""
        return self._add(Family(self._shape("gauge", name, help_text, labels), Gauge))

    def histogram(self, name: str, help_text: str, bounds: Sequence[float] = BOUNDS_S) -> Histogram:
        """A histogram without labels; its name should end in its unit."""
        return self.histograms(name, help_text, (), bounds).labelled()

    def histograms(
        self, name: str, help_text: str, labels: Sequence[str], bounds: Sequence[float] = BOUNDS_S
    ) -> Family[Histogram]:
        """Histograms that share a name."""
        return self._add(Family(self._shape("histogram", name, help_text, labels), lambda: Histogram(bounds)))

    def ask(self, name: str, help_text: str, value: Callable[[], Value], kind: str = "gauge") -> None:
        """One value that somebody already keeps."""
        self._add(Asked(self._shape(kind, name, help_text, ()), lambda: [((), value())]))

    def ask_series(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str],
        series: Callable[[], Iterable[tuple[Sequence[str], Value]]],
        kind: str = "gauge",
    ) -> None:
        """Labelled values that somebody already keeps."""
        self._add(Asked(self._shape(kind, name, help_text, labels), series))

    def add_bare_target(self) -> None:
        """``target_info`` without labels, as OpenTelemetry for Java has it where nothing is said of the process."""
        self._add(Asked(Shape("gauge", "target_info", "Target metadata", (), {}), lambda: [((), 1)]))

    def _shape(self, kind: str, name: str, help_text: str, labels: Sequence[str]) -> Shape:
        shape = Shape(kind, name, help_text, labels, self._constant)
        self.shapes[name] = shape
        return shape

    def _add(self, collector: _C) -> _C:
        try:
            self.register(collector)
        except ValueError as problem:
            raise InvariantBroken(f"a metric is registered twice: {problem}") from None
        return collector

    def register(self, collector: Any) -> None:
        """prometheus_client: ask it, too, whenever the metrics are read."""
        super().register(collector)
        described = next(iter(collector.describe()), None) if hasattr(collector, "describe") else None
        bisect.insort(self._collectors, ("" if described is None else described.name, collector), key=itemgetter(0))

    def unregister(self, collector: Any) -> None:
        """prometheus_client: ask it no more."""
        super().unregister(collector)
        self._collectors = [each for each in self._collectors if each[1] is not collector]

    def collect(self) -> Iterator[Metric]:
        """prometheus_client: all metrics by name, each as it is when it is its turn."""
        target = self.get_target_info()
        if target:
            yield InfoMetricFamily("target", "Target metadata", target)
        for _, collector in list(self._collectors):
            yield from collector.collect()

    def exposition(self) -> str:
        """All metrics as Prometheus's text."""
        return generate_latest(self).decode("utf-8")

    def page(self, accept: str) -> tuple[Iterator[bytes], str]:
        """All metrics in the format that a scraper wants, and its content type.

        The page comes in pieces, of which each is soon made: the metrics of tens of thousands of topics and groups are
        too many to be written down while everybody waits.

        :param accept: the header of that name; Prometheus's text where it names nothing better.
        """
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # of a header that makes no sense
            encode, content_type = choose_encoder("")
        if content_type.startswith("text/plain"):
            return _pieces(self.collect(), encode, b""), content_type
        return _pieces(self._apart(), encode, _EOF), content_type

    def _apart(self) -> Iterator[Metric]:
        """For OpenMetrics, where a gauge and a counter may not differ by ``_total`` only: such a counter is of type
        unknown there.
        """
        for each in self.collect():
            same = self.shapes.get(each.name)
            if each.type == "counter" and same is not None and same.kind == "gauge":
                each.type, each.name = "unknown", each.name + COUNTED
            yield each


def _pieces(metrics: Iterable[Metric], encode: Callable[[Any], bytes], end: bytes) -> Iterator[bytes]:
    made: list[bytes] = []
    count = 0
    for metric in metrics:
        samples = metric.samples
        for first in range(0, max(len(samples), 1), PIECE_SAMPLES):
            metric.samples = samples[first : first + PIECE_SAMPLES]
            text = encode(_Sole(metric)).removesuffix(end)
            made.append(_without_comments(text) if first else text)
            count += len(metric.samples)
            if count >= PIECE_SAMPLES:
                yield b"".join(made)
                made, count = [], 0
    yield b"".join(made) + end


def _without_comments(text: bytes) -> bytes:
    """What a metric is has been said before its first samples."""
    while text.startswith(b"#"):
        text = text[text.index(b"\n") + 1 :]
    return text


_C = TypeVar("_C", bound=Family[Counter] | Family[Gauge] | Family[Histogram] | Asked)
