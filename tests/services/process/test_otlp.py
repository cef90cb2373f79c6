"""OTLP over HTTP: what a small receiver in this process is sent, and what a dead one costs."""

from __future__ import annotations

import gzip
import sys
import time
from typing import Any
from unittest import mock

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from twisted.internet import defer, reactor
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from rocketha.errors import ConfigError
from rocketha.observe.metrics import PIECE_SAMPLES, Registry
from rocketha.services.config import metrics as keys
from rocketha.services.process.otlp import HttpSender, OtlpService
from tests.services.broker_case import HeldWork

RESOURCE = {"service.name": "rocketha-broker", "node_id": "broker-a"}


def registry() -> Registry:
    """One metric of each kind, and what the process is."""
    made = Registry()
    made.set_target_info({"service_name": "rocketha-broker"})
    made.counters("sent_total", "Messages.", ["topic"]).labelled("T").value = 3
    made.gauge("connections", "Now.").value = 2
    histogram = made.histogram("wait_seconds", "Time.", (0.5, 1.0))
    for value in (0.4, 0.6, 0.7, 5):
        histogram.observe(value)
    return made


class Receiver(Resource):
    """Takes what is sent, as an OpenTelemetry collector does."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.taken: defer.DeferredQueue[ExportMetricsServiceRequest] = defer.DeferredQueue()
        self.code = 200

    def render_POST(self, request: Request) -> bytes:
        body = request.content.read()
        if request.getHeader("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.taken.put(ExportMetricsServiceRequest.FromString(body))
        request.setResponseCode(self.code)
        return b""


class SentTests(TestCase):
    """Over a socket on loopback, with OpenTelemetry's own exporter."""

    @defer.inlineCallbacks
    def test_sent(self) -> Any:
        """At each interval and once more at the end: sums, gauges, histograms, and who tells them."""
        receiver = Receiver()
        port = reactor.listenTCP(0, Site(receiver), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        sender = HttpSender(f"http://127.0.0.1:{port.getHost().port}/v1/metrics")
        service = OtlpService(registry(), RESOURCE, 50, sender, time.time)
        service.startService()
        request = yield receiver.taken.get()
        (resource,) = request.resource_metrics
        told = {each.key: each.value.string_value for each in resource.resource.attributes}
        self.assertEqual(told, RESOURCE)
        (scope,) = resource.scope_metrics
        found = {each.name: each for each in scope.metrics}
        self.assertEqual(sorted(found), ["connections", "sent_total", "wait_seconds"])
        sent = found["sent_total"].sum
        self.assertTrue(sent.is_monotonic)
        self.assertEqual(sent.aggregation_temporality, 2)  # cumulative
        (point,) = sent.data_points
        self.assertEqual((point.as_double, point.attributes[0].value.string_value), (3.0, "T"))
        self.assertLess(0, point.start_time_unix_nano)
        self.assertLessEqual(point.start_time_unix_nano, point.time_unix_nano)
        self.assertEqual(found["connections"].gauge.data_points[0].as_double, 2.0)
        (wait,) = found["wait_seconds"].histogram.data_points
        self.assertEqual((list(wait.explicit_bounds), list(wait.bucket_counts)), ([0.5, 1.0], [1, 2, 1]))
        self.assertEqual((wait.count, round(wait.sum, 9)), (4, 6.7))
        yield service.stopService()
        self.assertGreaterEqual(len(receiver.taken.pending), 1)


class WaitingTests(SynchronousTestCase):
    """With a clock and a thread that the test lets go on."""

    def setUp(self) -> None:
        self.clock, self.sent = Clock(), 0
        self.result: Any = True
        self.works: list[HeldWork] = []
        self.service = OtlpService(registry(), RESOURCE, 1000, self, lambda: 1.0, self.clock, self.work)

    def send(self, data: Any) -> Any:
        self.sent += 1
        self.data = data
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def close(self) -> None:
        self.sent += 100

    def work(self, reactor: Any, name: str) -> HeldWork:
        self.works.append(HeldWork(reactor, name))
        return self.works[-1]

    def test_one_at_a_time(self) -> None:
        """A collector that does not answer is not sent more meanwhile; the end waits for it."""
        self.service.startService()
        (work,) = self.works
        work.held = True
        self.clock.pump([1.0] * 5)
        self.assertEqual(len(work.waiting), 1)
        ended = self.service.stopService()
        self.assertNoResult(ended)
        work.held = False
        work.let_go()
        self.successResultOf(ended)
        self.assertEqual(self.sent, 102)  # what was under way, the last one, and the end

    def test_a_piece_at_a_time(self) -> None:
        """Of many series some are read in a turn, each metric whole and with its moment; others may count meanwhile."""
        made, many = Registry(), 2 * PIECE_SAMPLES
        first = made.counters("a_total", "First.", ["topic"])
        waits = made.histograms("b_seconds", "Next.", ["topic"], (0.5,))
        for number in range(many):
            first.labelled(str(number)).value = 1
            waits.labelled(str(number)).observe(0.1)
        last = made.gauge("c", "Last.")
        self.clock.advance(1)
        service = OtlpService(made, RESOURCE, 60_000, self, self.clock.seconds, self.clock, self.work)
        service.startService()
        self.clock.advance(1)
        service.send()
        for _ in range(2):
            self.assertEqual(self.sent, 0)
            for number in range(many):
                first.labelled(str(number)).value += 1
                waits.labelled(str(number)).observe(0.9)
            last.value += 1
            self.clock.rightNow += 0.1
            soon = self.clock.calls.pop(0)  # one turn; Clock.advance makes all that are due
            soon.called = 1
            soon.func(*soon.args, **soon.kw)
        self.assertEqual(self.sent, 1)
        (resource,) = self.data.resource_metrics
        a, b, c = resource.scope_metrics[0].metrics
        self.assertEqual({each.value for each in a.data.data_points}, {1.0})
        self.assertEqual(
            {(each.count, round(each.sum, 3), tuple(each.bucket_counts)) for each in b.data.data_points},
            {(2, 1.0, (1, 1))},
        )
        self.assertEqual([each.value for each in c.data.data_points], [2.0])
        moments = [{each.time_unix_nano for each in metric.data.data_points} for metric in (a, b, c)]
        self.assertEqual(moments, [{2_000_000_000}, {2_100_000_000}, {2_200_000_000}])
        ended = service.stopService()
        self.clock.advance(0)
        self.successResultOf(ended)

    def test_failures_are_told_once(self) -> None:
        """And again after it has worked."""
        self.service.startService()
        with capturedLogs() as events:
            for self.result in (False, OSError("no route"), True, OSError("no route"), False):
                self.clock.advance(1)
        told = [formatEvent(event) for event in events]
        self.assertEqual(len(told), 2)
        self.assertIn("the collector did not take them", told[0])
        self.assertIn("no route", told[1])
        self.assertEqual(self.service.failed, 2)


class MissingTests(SynchronousTestCase):
    """Without the extra."""

    def test_it_is_said(self) -> None:
        """At the start, with what to install."""
        missing = dict.fromkeys(name for name in sys.modules if name.startswith("opentelemetry.exporter"))
        missing["opentelemetry.exporter"] = None  # whether somebody has imported it or not
        config = keys.MetricsConfig(metrics_otlp_endpoint="http://127.0.0.1:4318/v1/metrics")
        with mock.patch.dict(sys.modules, missing):
            error = self.assertRaises(ConfigError, keys.check_otlp, config)
        self.assertIn("rocketha[otel]", str(error))
        keys.check_otlp(keys.MetricsConfig())
