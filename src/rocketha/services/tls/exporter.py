"""Who is told metrics besides those that ask the status port.

The port that RocketMQ's keys ask for (``metricsExporterType=PROM``) has pages as those of the status port. It is opened
as every other port: what must hold for others to reach it, and its TLS, is the network's affair.  OpenTelemetry is sent
what the status port shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rocketha.observe.http import Check, StatusFactory
from rocketha.observe.metrics import Registry
from rocketha.observe.refusals import Refusals
from rocketha.protocols.network import Network
from rocketha.services.config.metrics import MetricsConfig, prom_endpoint
from rocketha.services.process.otlp import HttpSender, OtlpService


@attrs.frozen(kw_only=True)
class Told:
    """What a server has to tell besides by its status port, and who asks for it.

    :ivar keys: of its configuration.
    :ivar metrics: its own, for OpenTelemetry.
    :ivar exported: the same under Java's names; None where nobody wants them.
    :ivar target: what the process is (:func:`rocketha.services.process.status.target_of`).
    :ivar checks: whether the server is healthy, and ready.
    :ivar refusals: told of the connections that the port ends.
    :ivar wall: the time of day, seconds since 1970.
    """

    keys: MetricsConfig
    metrics: Registry
    exported: Registry | None
    target: Mapping[str, str]
    checks: tuple[Check, Check]
    refusals: Refusals
    wall: Callable[[], float]

    def begin(self, network: Network, parent: Any, reactor: Any = None) -> None:
        """Make the services that tell it, under a parent."""
        keys = self.keys
        if self.exported is not None:
            factory = StatusFactory(self.exported, *self.checks, clock=reactor, refusals=self.refusals)
            port = network.port(reactor, prom_endpoint(keys), factory, self.refusals)
            port.setName("metrics exporter")
            port.setServiceParent(parent)
        if keys.metrics_otlp_endpoint:
            resource = {name.replace("service_", "service."): value for name, value in self.target.items()}
            sender = HttpSender(keys.metrics_otlp_endpoint)
            otlp = OtlpService(self.metrics, resource, keys.metrics_otlp_interval, sender, self.wall, reactor)
            otlp.setServiceParent(parent)
