"""Sends a process's metrics to OpenTelemetry, as OTLP over HTTP (``metricsOtlpEndpoint``).

The values are read in the reactor, and sent in a thread: a collector that does not answer holds nobody up.  One sending
at a time; one that is due while another is under way is left out.  Needs the extra ``otel``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twisted.application import service
from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.observe.logging import lasting, make_logger
from rocketha.observe.metrics import Registry
from rocketha.services.process.ticker import Ticker
from rocketha.services.waiting.blocking import BlockingWork, Worker

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
        if self._sending is not None:
            return
        from rocketha.observe.otlp import metrics_data

        data = metrics_data(self._registry, self._resource, self._since_ns, int(self._wall() * 1e9))
        sending = self._sending = self._work.run(lambda: self._sender.send(data))
        sending.addBoth(self._sent)

    def _sent(self, result: Any) -> None:
        self._sending = None
        if result is True:
            self.failed = 0
            return
        self.failed += 1
        if self.failed == 1:  # once, until it works again
            why = result.getErrorMessage() if isinstance(result, Failure) else "the collector did not take them"
            self._log.warn("metrics can not be sent by OTLP, it is tried again: {why}", why=why)
