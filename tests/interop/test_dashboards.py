"""What dashboards made for Java's brokers show of ours: rocketmq-exporter, and Prometheus over brokers' own metrics.

Java's 5.5.0 and ours each are a nameserver, a master and a slave, one after the other, with the same traffic. What has
a value with Java has one with ours; of brokers' own metrics docs/divergence.md may say why not. Own dashboards are
tried on a group of ours.
``ROCKETHA_DASHBOARDS`` is a folder of others' dashboards in Grafana's JSON, ``ROCKETHA_EXPORTER`` a built exporter;
docs/metrics.rst has the whole command.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import sys
import time
import unittest
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from rocketha.admin.metrics import text_of

from .harness import FULL, InteropCase, JavaClient, ports, remoting
from .harness.controllers import TOPIC, ReplicaGroup
from .harness.monitoring import Exporter, Prometheus, described, exporter_jar, expressions, fetch
from .harness.pairs import ClassicPair

TRAFFIC_S = 100  # the exporter shows rates of the last minute, dashboards likewise
OWN_TRAFFIC_S = 90  # at most
BATCHES = 50
NO_SUCH_REQUEST = 31999
EXPORTED = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1"}
BROKERS = "rocketmq-brokers"
SUFFIX = re.compile(r"_(bucket|count|sum)$")
MOMENTARY = ("rocketmq_group_retrydiff", "rocketmq_storage_flush_behind_bytes")
"""What waits at that moment, which may be nothing: in a retry topic, for the disk."""


class Shown(IntEnum):
    """What an expression or a metric has; more is better."""

    NOTHING = 0
    ZERO = 1
    VALUE = 2


def shown(values: list[float]) -> Shown:
    """NaN is what a quantile of nothing is."""
    real = [value for value in values if value == value]
    return Shown.VALUE if any(real) else Shown.ZERO if real else Shown.NOTHING


class Watched(NamedTuple):
    """What was seen of one cluster: metrics of the exporter and of the brokers, expressions of each dashboard."""

    exporter: dict[str, Shown]
    brokers: dict[str, Shown]
    dashboards: dict[str, dict[str, Shown]]


def page(text: str) -> dict[str, Shown]:
    """The metrics of a page; the exporter's begins some of them more than once."""
    values: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(text):
        values.setdefault(family.name, []).extend(sample.value for sample in family.samples)
    return {name: shown(each) for name, each in values.items()}


def dashboards() -> dict[str, list[str]]:
    """Others', by file name."""
    folder = os.environ.get("ROCKETHA_DASHBOARDS")
    if not folder:
        raise unittest.SkipTest("ROCKETHA_DASHBOARDS: a folder of dashboards in Grafana's JSON")
    return {path.name: expressions(path) for path in sorted(Path(folder).resolve(strict=True).glob("*.json"))}


@unittest.skipUnless(FULL, "ROCKETHA_INTEROP_FULL=1")
class PublishedDashboardTests(InteropCase):
    """Others' dashboards and exporter, over Java's and ours."""

    def traffic(self, namesrv: str, folder: Path) -> None:
        """What metrics are about: lag, retries, dead letters, delays, groups that are slow or gone."""
        client = self.use(JavaClient(namesrv, "client", folder=folder))
        client.producer(group="P")
        for topic in ("T", "F"):
            client.send(topic, "sync", 4, prefix=f"first-{topic}")
        client.consume("c", "T", group="G", consume_ms=5, persist_ms=500)
        client.consume("late", "T", group="Late", persist_ms=500)
        client.consume("failing", "F", group="Failing", persist_ms=500, fail_prefix="bad", retry_level=1)
        client.await_received("late", 4)
        client.await_received("failing", 4)
        client.stop_consumer("late")
        client.consume("slow", "T", group="Slow", consume_ms=400, threads=1, persist_ms=500)
        offset_id = client.sent("first-F")[0]["offset_id"]
        client.send_back("F", offset_id, "Failing", delay_level=-1)
        end, turn = time.monotonic() + TRAFFIC_S, 0
        while time.monotonic() < end:
            client.send("T", "sync", 10, prefix=f"t{turn}", min_size=500, max_size=1500)
            client.send("F", "sync", 1, prefix="bad" if turn % 5 == 0 else "good")
            client.send("T", "sync", 1, prefix="d", delay_level=2)
            turn += 1
            time.sleep(0.5)  # a load of some twenty messages a second

    def watched(self, kind: str) -> Watched:
        folder = self.subfolder(kind)
        pair = ClassicPair((kind, kind), folder, namesrv=kind)
        pages = []
        for broker in pair.brokers:
            port = ports.free_ports(1)[0]
            broker.extra |= {**EXPORTED, "metricsPromExporterPort": port}
            pages.append(f"127.0.0.1:{port}")
        for role in pair.processes:
            self.use(role, start=False)
        pair.start()
        exporter = self.use(Exporter("exporter", folder / "exporter", pair.namesrv.address))
        targets = {BROKERS: pages, "rocketmq-exporter": [exporter.address]}
        prometheus = self.use(Prometheus("prometheus", folder / "prometheus", targets))
        self.traffic(pair.namesrv.address, folder / "client")
        self.assertEqual(prometheus.down(), [])
        found = Watched(
            page(fetch(exporter.address, "/metrics")),
            {name: shown(prometheus.values(f'{name}{{job="{BROKERS}"}}')) for name in prometheus.names(BROKERS)},
            {name: {each: shown(prometheus.values(each)) for each in asked} for name, asked in dashboards().items()},
        )
        for process in (prometheus, exporter, *reversed(pair.processes)):
            process.kill()
        return found

    def test_as_java(self) -> None:
        """The exporter's metrics and all expressions."""
        exporter_jar()
        dashboards()
        java, ours = self.watched("java"), self.watched("ours")
        lacking = []
        rows = {"exporter": (java.exporter, ours.exporter), "brokers": (java.brokers, ours.brokers)}
        rows |= {name: (java.dashboards[name], ours.dashboards[name]) for name in java.dashboards}
        for name, (theirs, own) in rows.items():
            say(f"{name}: {len(theirs)}; Java {counted(theirs)}; ours {counted(own)}")
            for each, value in theirs.items():
                got = own.get(each, Shown.NOTHING)
                if got != value:
                    say(f"    {each}: Java {value.name}, ours {got.name}")
                momentary = got is Shown.ZERO and any(other in each for other in MOMENTARY)
                if got < value and not momentary and not described(SUFFIX.sub("", each)):
                    lacking.append(f"{name}: {each}")
        self.assertEqual(lacking, [])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def counted(found: dict[str, Shown]) -> str:
    """``3 NOTHING, 5 ZERO, 80 VALUE``"""
    counts = Counter(found.values())
    return ", ".join(f"{counts[each]} {each.name}" for each in Shown)


NOT_HERE = ("rocketha_tls_", "rocketha_acl_files_broken", "rocketha_requests_failed_total")
"""Metrics of our rules and dashboard that need TLS, accounts or a bug, which this group has not."""


@unittest.skipUnless(FULL, "ROCKETHA_INTEROP_FULL=1")
class OwnDashboardTests(InteropCase):
    """``rocketha metrics dashboard`` and ``alerts``, over three brokers, three controllers and a nameserver of ours."""

    def test_everything_shown(self) -> None:
        """Each panel's expressions have values, each rule is evaluated and finds its metrics, and none fires."""
        folder = self.subfolder("own")
        group = ReplicaGroup("ours", folder, kinds=("ours",) * 3, namesrv="ours")
        pages = [f"127.0.0.1:{port}" for port in ports.free_ports(len(group.processes))]
        for role, page in zip(group.processes, pages, strict=True):
            role.more = ("--http", page)
            self.use(role, start=False)
        group.start()
        rules, panels = folder / "rules.yml", folder / "dashboard.json"
        rules.write_text(text_of("alerts"), encoding="utf-8")
        panels.write_text(text_of("dashboard"), encoding="utf-8")
        prometheus = self.use(Prometheus("prometheus", folder / "prometheus", {"rocketmq": pages}, [rules]))
        client = self.use(JavaClient(group.namesrv_addresses, "client", folder=folder / "client"))
        client.producer()
        client.consume("c", TOPIC, group="G", persist_ms=500)
        self.assertEqual(remoting.call(group.master().address, NO_SUCH_REQUEST).code, 3)
        with socket.create_connection(("127.0.0.1", group.master().port), timeout=20) as stranger:
            stranger.sendall(b"\xff" * 8)  # no frame
            self.assertEqual(stranger.recv(1), b"")
        asked, end = expressions(panels), time.monotonic() + OWN_TRAFFIC_S
        shows: dict[str, Shown] = {}
        for turn in itertools.count():
            for part in range(BATCHES):
                client.send(TOPIC, "sync", 10, prefix=f"t{turn}-{part}")
                time.sleep(0.2)  # a load of some fifty messages a second
            # a group that is behind, whose pulls need not wait
            client.consume(f"behind-{turn}", TOPIC, group=f"Behind{turn}", pull_batch=1, persist_ms=500)
            shows = {each: shown(prometheus.values(each)) for each in asked}
            lacking = self.of_here(each for each, value in shows.items() if value is Shown.NOTHING)
            if not lacking or time.monotonic() > end:
                break
        self.assertEqual(prometheus.down(), [])
        say(f"own dashboard: {len(shows)}; {counted(shows)}")
        self.assertEqual(lacking, [])
        found = [rule for each in prometheus.ask("rules")["groups"] for rule in each["rules"]]
        say(f"own rules: {len(found)}")
        self.assertEqual({rule["name"]: rule["health"] for rule in found if rule["health"] != "ok"}, {})
        self.assertEqual({rule["name"]: rule["state"] for rule in found if rule["state"] != "inactive"}, {})
        named = sorted({name for rule in found for name in re.findall(r"\brocketha_\w+", rule["query"])})
        self.assertEqual(self.of_here(name for name in named if not prometheus.values(f"count({name})")), [])

    def of_here(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if not any(other in name for other in NOT_HERE)]
