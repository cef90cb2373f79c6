"""A registry as OpenTelemetry's data, for exporters of ``opentelemetry-sdk``.

What it must not know: where the data goes, and when.  Counters are sums since the registry was made, histograms
likewise; nothing is a delta.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric
from prometheus_client.samples import Sample

from rocketha.observe.metrics import COUNTED

_SCOPE = InstrumentationScope("rocketha")
_SINCE_START = AggregationTemporality.CUMULATIVE


def metrics_data(told: Iterable[tuple[Metric, int]], resource: Mapping[str, str], since_ns: int) -> MetricsData:
    """All metrics of a registry; may be called in any thread.

    :param told: what it collected, each with the moment at which that was so, ns since 1970.
    :param resource: who tells them.
    :param since_ns: when it began to count.
    """
    made = [_metric(each, since_ns, now_ns) for each, now_ns in told if each.samples and each.type != "info"]
    scope = ScopeMetrics(_SCOPE, made, "")
    return MetricsData([ResourceMetrics(Resource(dict(resource)), [scope], "")])


def _metric(metric: Metric, since_ns: int, now_ns: int) -> OtlpMetric:
    name = metric.name
    data: Sum | Gauge | Histogram
    if metric.type == "histogram":
        data = Histogram(list(_histograms(metric.samples, since_ns, now_ns)), _SINCE_START)
    elif metric.type == "counter":
        name += COUNTED
        data = Sum([_number(each, since_ns, now_ns) for each in metric.samples], _SINCE_START, is_monotonic=True)
    else:
        data = Gauge([_number(each, 0, now_ns) for each in metric.samples])
    return OtlpMetric(name, metric.documentation, "", data)


def _number(sample: Sample, since_ns: int, now_ns: int) -> NumberDataPoint:
    return NumberDataPoint(dict(sample.labels), since_ns, now_ns, float(sample.value))


def _histograms(samples: Iterable[Sample], since_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    """One of each series: its buckets stand together, in order, before its count and sum."""
    bounds: list[float] = []
    cumulative: list[float] = []
    for sample in samples:
        if sample.name.endswith("_bucket"):
            bounds.append(float(sample.labels["le"]))
            cumulative.append(sample.value)
        elif sample.name.endswith("_sum"):
            counts = [int(count - before) for count, before in zip(cumulative, [0.0, *cumulative], strict=False)]
            yield HistogramDataPoint(
                dict(sample.labels),
                since_ns,
                now_ns,
                sum(counts),
                float(sample.value),
                counts,
                bounds[:-1],
                0.0,
                0.0,
            )
            bounds, cumulative = [], []
