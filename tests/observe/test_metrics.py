"""Metrics: what Prometheus reads, after https://prometheus.io/docs/instrumenting/exposition_formats/."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import InvariantBroken
from rocketha.observe.metrics import OTHER, PIECE_SAMPLES, SERIES_MAX, Histogram, Registry

# One sample line of the format; label values hold no raw quote, backslash or newline.
LABEL = r'[a-z_]+="([^"\\\n]|\\["\\n])*"'
TEXT = st.characters(codec="utf-8")
SAMPLE = re.compile(rf"^[a-z_][a-z0-9_]*(\{{{LABEL}(,{LABEL})*\}})? (-?[0-9.e+-]+|\+Inf|-Inf|NaN)$")


class MetricsTests(SynchronousTestCase):
    """A registry's text."""

    def test_the_text_of_each_kind(self) -> None:
        """The whole exposition of a small registry, written out by hand."""
        registry = Registry()
        sent = registry.counters("sent_total", "Messages stored.", ["topic"])
        sent.labelled("B").value += 2
        sent.labelled("A").value += 1
        registry.gauge("connections", "Open\nnow.").value = 7
        latency = registry.histogram("send_seconds", "Time.", bounds=(0.5, 1.0))
        latency.observe(0.5)
        latency.observe(0.75, times=2)
        latency.observe(3)
        registry.ask("log_bytes", "Asked.", lambda: 5)
        registry.ask_series("queue_total", "Asked.", ["topic"], lambda: [(["T"], 9)], kind="counter")
        self.assertEqual(
            registry.exposition(),
            "# HELP connections Open\\nnow.\n# TYPE connections gauge\nconnections 7.0\n"
            "# HELP log_bytes Asked.\n# TYPE log_bytes gauge\nlog_bytes 5.0\n"
            '# HELP queue_total Asked.\n# TYPE queue_total counter\nqueue_total{topic="T"} 9.0\n'
            "# HELP send_seconds Time.\n# TYPE send_seconds histogram\n"
            'send_seconds_bucket{le="0.5"} 1.0\nsend_seconds_bucket{le="1.0"} 3.0\nsend_seconds_bucket{le="+Inf"} 4.0\n'
            "send_seconds_count 4.0\nsend_seconds_sum 5.0\n"
            "# HELP sent_total Messages stored.\n# TYPE sent_total counter\n"
            'sent_total{topic="A"} 1.0\nsent_total{topic="B"} 2.0\n',
        )

    @given(st.text(TEXT), st.one_of(st.integers(), st.floats()))
    def test_parsers_read_what_was_written(self, label: str, value: float) -> None:
        """prometheus_client's own parsers, of both formats, give back each name, label and value."""
        registry = Registry({"cluster": "c"})
        registry.gauges("level", "h", ["topic"]).labelled(label).value = value
        registry.counters("sent_total", "h", ["topic"]).labelled(label).value = 3
        registry.histogram("wait_seconds", "h", (0.5, 1.0)).observe(0.7)
        text = b"".join(registry.page("")[0])
        pieces, content_type = registry.page("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        open_metrics = b"".join(pieces)
        self.assertTrue(content_type.startswith("application/openmetrics-text; version=1.0.0"))
        for families in (
            text_string_to_metric_families(text.decode()),
            openmetrics.text_string_to_metric_families(open_metrics.decode()),
        ):
            found = {(each.name, *each.labels.items()): each.value for family in families for each in family.samples}
            self.assertEqual(repr(found["level", ("cluster", "c"), ("topic", label)]), repr(float(value)))
            self.assertEqual(found["sent_total", ("cluster", "c"), ("topic", label)], 3)
            self.assertEqual(found["wait_seconds_bucket", ("cluster", "c"), ("le", "1.0")], 1)
            self.assertEqual(found["wait_seconds_count", ("cluster", "c")], 1)

    def test_which_format(self) -> None:
        """What the header asks for; Prometheus's text for who asks for nothing, or for nothing that there is."""
        registry = Registry()
        for accept, begin in (
            ("", "text/plain; version=0.0.4"),
            ("*/*", "text/plain; version=0.0.4"),
            ("text/html", "text/plain; version=0.0.4"),
            ("application/openmetrics-text; version=x", "text/plain; version=0.0.4"),
            ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0"),
            ("text/plain;version=1.0.0;q=0.2", "text/plain; version=1.0.0"),
        ):
            self.assertTrue(registry.page(accept)[1].startswith(begin), (accept, registry.page(accept)[1]))

    def test_a_constant_label_with_the_name_of_an_own_one(self) -> None:
        """The own one wins: else all series would be one."""
        registry = Registry({"topic": "constant", "zone": "z"})
        registry.ask_series("level", "h", ["topic"], lambda: [(["A"], 1), (["B"], 2)])
        self.assertEqual(registry.get_sample_value("level", {"topic": "A", "zone": "z"}), 1)
        self.assertEqual(registry.get_sample_value("level", {"topic": "B", "zone": "z"}), 2)

    def test_pieces(self) -> None:
        """Together they are what prometheus_client writes in one go; none is much longer than it may be."""
        registry = Registry()
        registry.set_target_info({"service_name": "s"})
        for name, count in (("a_total", 3), ("b_total", 2 * PIECE_SAMPLES), ("c_total", PIECE_SAMPLES - 3)):
            registry.ask_series(
                name, "# h", ["n"], lambda count=count: [((str(n),), n) for n in range(count)], "counter"
            )
        registry.histogram("wait_seconds", "h").observe(0.7)
        registry.gauge("b", "The same name in OpenMetrics.")
        pieces = list(registry.page("")[0])
        self.assertEqual(b"".join(pieces), generate_latest(registry))
        self.assertGreater(len(pieces), 2)
        self.assertLess(max(piece.count(b"\n") for piece in pieces), 2 * PIECE_SAMPLES)
        text = b"".join(registry.page("application/openmetrics-text;version=1.0.0")[0]).decode()
        found = {each.name: len(each.samples) for each in openmetrics.text_string_to_metric_families(text)}
        self.assertEqual(found["b_total"], 2 * PIECE_SAMPLES)
        self.assertEqual(found["c"], PIECE_SAMPLES - 3)

    @given(st.text(), st.one_of(st.integers(), st.floats()))
    def test_every_line_is_well_formed(self, label: str, value: float) -> None:
        """Whatever a topic is called and whatever the number, each line is one sample of the format."""
        registry = Registry()
        registry.gauges("g", "h", ["topic"]).labelled(label).value = value
        lines = registry.exposition().split("\n")
        self.assertEqual(lines[-1], "")
        for line in lines[2:-1]:
            self.assertRegex(line, SAMPLE)

    @given(st.lists(st.floats(min_value=0, max_value=100, allow_nan=False), max_size=50))
    def test_buckets_are_cumulative(self, values: list[float]) -> None:
        """Each bucket counts what is at most its bound; the last is all of them (checked against a plain count)."""
        histogram = Histogram((0.1, 1.0, 10.0))
        for value in values:
            histogram.observe(value)
        registry = Registry()
        registry.ask("h", "h", lambda: histogram, "histogram")
        for bound in (0.1, 1.0, 10.0):
            found = registry.get_sample_value("h_bucket", {"le": str(bound)})
            self.assertEqual(found, sum(value <= bound for value in values))
        self.assertEqual(registry.get_sample_value("h_bucket", {"le": "+Inf"}), len(values))
        self.assertEqual(histogram.count, len(values))

    def test_series_are_bounded(self) -> None:
        """A peer that makes up topics cannot make the metrics grow: the rest share one series, and nothing is lost."""
        registry = Registry()
        family = registry.counters("sent_total", "h", ["topic"])
        for number in range(SERIES_MAX + 500):
            family.labelled(f"T{number}").value += 1
        lines = registry.exposition().splitlines()[2:]
        self.assertEqual(len(lines), SERIES_MAX + 1)
        self.assertIn(f'sent_total{{topic="{OTHER}"}} 500.0', lines)
        self.assertIs(family.labelled("T3"), family.labelled("T3"))

    def test_asked_series_are_bounded(self) -> None:
        """The same where somebody else keeps the values."""
        registry = Registry()
        registry.ask_series("g", "h", ["n"], lambda: (([str(number)], number) for number in range(SERIES_MAX * 2)))
        self.assertEqual(registry.exposition().count("\n"), SERIES_MAX + 2)

    def test_mistakes_are_ours(self) -> None:
        """A name used twice, a name Prometheus refuses, wrong labels, falling bounds: our bug, said at once."""
        registry = Registry()
        registry.counter("a_total", "h")
        self.assertRaises(InvariantBroken, registry.counter, "a_total", "h")
        self.assertRaises(InvariantBroken, registry.gauge, "b_total", "h")
        self.assertRaises(InvariantBroken, registry.counter, "b", "h")
        self.assertRaises(InvariantBroken, registry.gauge, "a-b", "h")
        self.assertRaises(InvariantBroken, registry.gauges, "b", "h", ["le le"])
        self.assertRaises(InvariantBroken, registry.gauges("c", "h", ["topic"]).labelled)
        self.assertRaises(InvariantBroken, Histogram, (1.0, 0.5))
        self.assertRaises(InvariantBroken, Histogram, ())
