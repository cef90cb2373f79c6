"""Sends a process's metrics to OpenTelemetry, as OTLP over HTTP (``metricsOtlpEndpoint``).

The values are read in the reactor, some metrics at a time; a thread makes OpenTelemetry's data of them and sends it.
So neither thousands of topics nor a collector that does not answer hold anybody up.  All series of a metric are of one
moment, and so are the buckets, count and sum of each; two metrics may be some turns apart.  One sending at a time; one
that is due while another is under way is left out.  Needs the extra ``otel``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from prometheus_client import Metric
from twisted.application import service
from twisted.internet import defer
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from rocketha.observe.logging import lasting, make_logger
from rocketha.observe.metrics import PIECE_SAMPLES, Registry
from rocketha.services.process.ticker import Ticker
from rocketha.services.waiting.blocking import BlockingWork, Worker

PIECE_S = 0.005
"""A turn reads no further metric after so long."""
TIMEOUT_S = 3
"""How long one sending may take, with all attempts; the end of a process waits for it."""


class Sender(Protocol):
    """Sends ``MetricsData``; its methods may block."""

    def send(self, data: Any) -> bool:
        """Whether it was taken."""

    def close(self) -> None:
        """Nothing more is sent."""


class HttpSender:
    """By OpenTelemetry's exporter.

    Headers, certificates and compression are OpenTelemetry's, of the environment (``OTEL_EXPORTER_OTLP_...``).
    """

    def __init__(self, url: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        # It tells of each attempt; what came of them is told here.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        self._exporter = OTLPMetricExporter(endpoint=url, timeout=TIMEOUT_S)

    def send(self, data: Any) -> bool:
        return self._exporter.export(data).name == "SUCCESS"

    def close(self) -> None:
        self._exporter.shutdown()


class OtlpService(service.Service):
    """Of one process.

    :param resource: who tells them: OpenTelemetry's attributes.
    :param every_ms: how often they are sent; and once more at the end.
    :param sender: such as :class:`HttpSender`.
    :param wall: the time of day, seconds since 1970.
    :ivar failed: how many sendings failed.
    """

    def __init__(
        self,
        registry: Registry,
        resource: Mapping[str, str],
        every_ms: int,
        sender: Sender,
        wall: Callable[[], float],
        reactor: Any = None,
        make_work: Callable[[Any, str], BlockingWork] = Worker,
    ) -> None:
        self.setName("otlp")
        self.failed = 0
        self._registry = registry
        self._resource = dict(resource)
        self._every_s = every_ms / 1000
        self._sender = sender
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

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: send once more, if that may succeed; fires when it is over."""
        super().stopService()
        if self._ticker is None:
            return
        self._ticker.stop()
        yield self._idle()
        if not self.failed:
            self.send()
            yield self._idle()
        yield self._work.run(self._sender.close)
        self._work.stop()

    def _idle(self) -> defer.Deferred[None]:
        waiter: defer.Deferred[None] = defer.Deferred()
        if self._sending is None:
            waiter.callback(None)
        else:
            self._sending.addBoth(lambda _: waiter.callback(None))
        return waiter

    def send(self) -> None:
        """Send the metrics as they are now, unless a sending is under way."""
        if self._sending is None:
            sending = self._sending = defer.Deferred.fromCoroutine(self._send())
            sending.addBoth(self._sent)

    async def _send(self) -> bool:
        from rocketha.observe.otlp import metrics_data

        told: list[tuple[Metric, int]] = []
        samples, began_s = 0, self._reactor.seconds()
        for metric in self._registry.collect():
            told.append((metric, int(self._wall() * 1e9)))
            samples += len(metric.samples)
            if samples >= PIECE_SAMPLES or self._reactor.seconds() - began_s >= PIECE_S:
                await deferLater(self._reactor, 0.0)
                samples, began_s = 0, self._reactor.seconds()
        return await self._work.run(lambda: self._sender.send(metrics_data(told, self._resource, self._since_ns)))

    def _sent(self, result: Any) -> None:
        self._sending = None
        if result is True:
            self.failed = 0
            return
        self.failed += 1
        if self.failed == 1:  # once, until it works again
            why = result.getErrorMessage() if isinstance(result, Failure) else "the collector did not take them"
            self._log.warn("metrics can not be sent by OTLP, it is tried again: {why}", why=why)
