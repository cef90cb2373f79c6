"""Java's metrics beside Java's: its 5.5.0 exports them, ours does by the same keys, and both have had the same traffic.

Names, types, labels and buckets are compared as Prometheus reads them; what ours has not, or has otherwise, is in
docs/divergence.md.
"""

from __future__ import annotations

import unittest
import urllib.request
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from . import harness
from .harness import FULL, InteropCase, JavaClient, ports, wait_until
from .harness.monitoring import described
from .harness.roles import BROKERS, CONTROLLERS, JavaNamesrv, Role, _Broker, _Controller

EXPORTER = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1", "metricsLabel": "zone:z1"}


class Shape(NamedTuple):
    """One metric as Prometheus sees it."""

    kind: str
    labels: frozenset[frozenset[str]]
    bounds: tuple[float, ...]


def scrape(port: int) -> dict[str, Shape]:
    """What a server exports, by name; one without a series has no labels to compare."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    return {
        family.name: Shape(
            family.type,
            frozenset(frozenset(sample.labels) - {"le"} for sample in family.samples),
            tuple(sorted({float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels})),
        )
        for family in families
    }


@unittest.skipUnless(FULL, "ROCKETHA_INTEROP_FULL=1")
class MetricsTests(InteropCase):
    """A broker of each, under one nameserver; a controller of each, alone."""

    ports: dict[str, int]

    def exported(self, server: Role) -> dict[str, object]:
        self.ports[server.name] = ports.block()
        return {**EXPORTER, "metricsPromExporterPort": self.ports[server.name]}

    def broker(self, kind: str, namesrv: Role) -> _Broker:
        made = BROKERS[kind](self.subfolder(kind), namesrv, name=f"{kind}-a")
        made.extra.update(self.exported(made))
        return self.use(made)

    def traffic(self, namesrv: Role, broker: str) -> None:
        """Each kind of message that both have, consumed, and one that becomes a dead letter."""
        client = self.use(JavaClient(namesrv.address, f"client-{broker}", folder=self.subfolder(f"client-{broker}")))
        client.producer()
        topic = f"T-{broker}"
        client.send(topic, "sync", 5, prefix="a", broker=broker, queue=0)
        client.send(topic, "sync", 2, prefix="d", delay_level=1, broker=broker, queue=1)
        client.consume("c", topic, group=f"G-{broker}", persist_ms=200)
        client.await_received("c", 7)
        offset_id = client.sent("a")[0]["offset_id"]
        client.send_back(topic, offset_id, f"G-{broker}", broker=broker, delay_level=-1)
        lag = "rocketmq_consumer_lag_messages"
        wait_until("lags", lambda: scrape(self.ports[broker]).get(lag, Shape("", frozenset(), ())).labels, 30)

    def compare(self, java: dict[str, Shape], ours: dict[str, Shape]) -> None:
        missing = [name for name in java if name not in ours and not described(name)]
        self.assertEqual(missing, [], "neither exported nor in docs/divergence.md")
        for name, shape in java.items():
            if name in ours and not described(name):
                with self.subTest(name):
                    self.assertEqual(ours[name], shape)
        more = [name for name, shape in ours.items() if name not in java and shape.labels and not described(name)]
        self.assertEqual(more, [], "ours alone")

    def test_brokers(self) -> None:
        """Whatever Java's has, ours has, or divergence.md says why not."""
        self.ports = {}
        namesrv = self.use(JavaNamesrv("namesrv", self.subfolder("namesrv")))
        for kind in ("java", "ours"):
            self.broker(kind, namesrv)
        for kind in ("java", "ours"):
            self.traffic(namesrv, f"{kind}-a")
        java, ours = (scrape(self.ports[f"{kind}-a"]) for kind in ("java", "ours"))
        self.assertGreater(len(java), 20)
        self.compare(java, ours)

    def test_controllers(self) -> None:
        """Likewise of one that was asked for its metadata."""
        self.ports = {}
        found = []
        for kind in ("java", "ours"):
            node: _Controller = CONTROLLERS[kind]("n0", self.subfolder(kind))
            node.peers = [node]
            node.extra.update(self.exported(node))
            self.use(node)
            found.append(scrape(self.ports["n0"]))
            node.kill()
        self.compare(*found)


__all__ = ["MetricsTests", "harness"]
