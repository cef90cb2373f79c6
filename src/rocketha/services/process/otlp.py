"""Sends a process's metrics to OpenTelemetry, as OTLP over HTTP (``metricsOtlpEndpoint``).

The values are read in the reactor, and sent in a thread: a collector that does not answer holds nobody up.  One sending
at a time; one that is due while another is under way is left out.  Needs the extra ``otel``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from twisted.application import service
from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.observe.logging import lasting, make_logger
from rocketha.observe.metrics import Registry
from rocketha.services.process.ticker import Ticker
from rocketha.services.waiting.blocking import BlockingWork, Worker

TIMEOUT_S = 10
"""How long one sending may take, with all attempts."""

Send = Callable[[Any], Any]


def http_sender(url: str) -> Send:
    """Sends one ``MetricsData``; blocking, True where it was taken.

    Headers, certificates and compression are OpenTelemetry's, of the environment (``OTEL_EXPORTER_OTLP_...``).
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult

    exporter = OTLPMetricExporter(endpoint=url, timeout=TIMEOUT_S)
    return lambda data: exporter.export(data) is MetricExportResult.SUCCESS


class OtlpService(service.Service):
    """Of one process.

    :param resource: who tells them: OpenTelemetry's attributes.
    :param every_ms: how often they are sent; and once more at the end.
    :param send: made by :func:`http_sender`.
    :ivar failed: how many sendings failed.
    """

    def __init__(
        self,
        registry: Registry,
        resource: Mapping[str, str],
        every_ms: int,
        send: Send,
        reactor: Any = None,
        wall: Callable[[], float] = time.time,
        make_work: Callable[[Any, str], BlockingWork] = Worker,
    ) -> None:
        self.setName("otlp")
        self.failed = 0
        self._registry = registry
        self._resource = dict(resource)
        self._every_s = every_ms / 1000
        self._send = send
        self._reactor = reactor
        self._wall = wall
        self._make_work = make_work
        self._since_ns = 0
        self._sending: defer.Deferred[Any] | None = None
        self._ticker: Ticker | None = None
        self._work: BlockingWork
        self._log = make_logger()

    def startService(self) -> None:
        """Twisted: begin to send."""
        super().startService()
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor
        self._since_ns = int(self._wall() * 1e9)
        self._work = self._make_work(self._reactor, "rocketha-otlp")
        self._work.start()
        self._ticker = Ticker(self._reactor, lasting(self.send, "a sending of metrics"), self._every_s)
        self._ticker.start()

    def stopService(self) -> Any:
        """Twisted: send once more; fires when that is over."""
        super().stopService()
        if self._ticker is not None:
            self._ticker.stop()
        self.send()
        return defer.succeed(None) if self._sending is None else self._sending.addBoth(lambda _: self._work.stop())

    def send(self) -> None:
        """Send the metrics as they are now, unless a sending is under way."""
        if self._sending is not None:
            return
        from rocketha.observe.otlp import metrics_data

        data = metrics_data(self._registry, self._resource, self._since_ns, int(self._wall() * 1e9))
        self._sending = self._work.run(lambda: self._send(data)).addBoth(self._sent)

    def _sent(self, result: Any) -> None:
        self._sending = None
        if result is True:
            self.failed = 0
            return
        self.failed += 1
        if self.failed == 1:  # once, until it works again
            why = result.getErrorMessage() if isinstance(result, Failure) else "the collector did not take them"
            self._log.warn("metrics can not be sent by OTLP, it is tried again: {why}", why=why)
