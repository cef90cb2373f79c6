"""What watches brokers: the community's exporter, a Prometheus, and the expressions of dashboards and rules.

The exporter (github.com/apache/rocketmq-exporter) is in no package registry: ``ROCKETHA_EXPORTER`` is the path of its
jar, built from source by ``mvn package`` (``target/rocketmq-exporter-*-exec.jar``). Prometheus is Debian's package.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import unittest
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from . import jars, ports
from .processes import Process, wait_until
from .roles import READY_S, ROOT

COLLECTIONS = ("TopicOffset", "Producer", "ConsumerOffset", "BrokerStatsTopic", "BrokerStats", "BrokerRuntimeStats")
SCRAPE_S = 5
# the names of Grafana's own variables
_RANGES = re.compile(r"\$\{?__(rate_interval|interval|range)\}?")
_LISTED = re.compile(r"`(rocketmq_\w+|\w+)`")
_CHOSEN = re.compile(r"(\w+)\s*=~?\s*(['\"])\$\{?\w+(?::\w+)?\}?\2")


def fetch(address: str, path: str) -> str:
    """A page of a server on this machine."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as page:
        text: str = page.read().decode()
        return text


class _Served(Process):
    """A process that has something to say over HTTP, at `address`."""

    page = "/"

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.address = f"127.0.0.1:{ports.free_ports(1)[0]}"

    def _answers(self) -> bool:
        try:
            fetch(self.address, self.page)
        except OSError:
            return False
        return True

    def start(self) -> Self:
        self.spawn()
        wait_until(f"{self.name} to answer", self._answers, READY_S, self.running)
        return self


class Exporter(_Served):
    """rocketmq-exporter, which asks a cluster as mqadmin does, here every five seconds instead of every minute."""

    page = "/metrics"

    def __init__(self, name: str, folder: Path, namesrv: str) -> None:
        super().__init__(name, folder)
        self.namesrv = namesrv

    def command(self) -> list[str]:
        return [
            jars.java(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            f"-Duser.home={self.folder}",
            "-jar",
            str(exporter_jar()),
            f"--server.port={self.address.rpartition(':')[2]}",
            f"--grpc.server.port={ports.free_ports(1)[0]}",
            f"--rocketmq.config.namesrvAddr={self.namesrv}",
            *(f"--task.collect{each}.cron=*/5 * * * * ?" for each in COLLECTIONS),
        ]


def exporter_jar() -> Path:
    """The built exporter; skips the test where nobody said where it is."""
    given = os.environ.get("ROCKETHA_EXPORTER")
    if not given:
        raise unittest.SkipTest(
            "ROCKETHA_EXPORTER: the path of a built rocketmq-exporter-*-exec.jar; no registry has it"
        )
    return Path(given).resolve(strict=True)


class Prometheus(_Served):
    """Scrapes `targets`, jobs with their addresses; `rules` are evaluated every few seconds."""

    page = "/-/ready"

    def __init__(
        self, name: str, folder: Path, targets: Mapping[str, Sequence[str]], rules: Sequence[Path] = ()
    ) -> None:
        super().__init__(name, folder)
        self.targets, self.rules = targets, rules

    def command(self) -> list[str]:
        path = shutil.which("prometheus")
        if path is None:
            raise unittest.SkipTest("prometheus is not installed (Debian: package prometheus)")
        jobs = [
            {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
            for job, addresses in self.targets.items()
        ]
        configuration = {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
            "scrape_configs": jobs,
            "rule_files": [str(each) for each in self.rules],
        }
        file = self.folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
        return [
            path,
            f"--config.file={file}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--log.level=warn",
        ]

    def ask(self, what: str, **parameters: str) -> Any:
        """What its HTTP API answers; AssertionError with its own words where it refuses."""
        try:
            answer = json.loads(fetch(self.address, f"/api/v1/{what}?{urllib.parse.urlencode(parameters)}"))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        return answer["data"]

    def values(self, expression: str) -> list[float]:
        """Of an expression, now; empty: nothing has a value."""
        data = self.ask("query", query=expression)
        rows = [data["result"]] if data["resultType"] == "scalar" else [each["value"] for each in data["result"]]
        return [float(value) for _, value in rows]

    def names(self, job: str) -> list[str]:
        """The metrics that a job has shown."""
        found: list[str] = self.ask("label/__name__/values", **{"match[]": f'{{job="{job}",__name__=~"rocketmq_.*"}}'})
        return found

    def down(self) -> list[str]:
        """Targets whose last scrape failed, and why."""
        active = self.ask("targets")["activeTargets"]
        return [f"{each['scrapeUrl']}: {each['lastError']}" for each in active if each["health"] != "up"]


def described(name: str) -> bool:
    """Whether docs/divergence.md names a metric; counters have ``_total`` there."""
    text = (ROOT / "docs" / "divergence.md").read_text(encoding="utf-8")
    section = text[text.index("\n### Metrics\n") :]
    section = section[: section.index("\n### ", 5)] if "\n### " in section[5:] else section
    return name in _LISTED.findall(section) or f"{name}_total" in _LISTED.findall(section)


def concrete(expression: str, interval: str = "1m") -> str:
    """An expression of a dashboard as Prometheus takes it: every variable is All."""
    return _CHOSEN.sub(r'\1=~".*"', _RANGES.sub(interval, expression)).strip()


def expressions(dashboard: Path) -> list[str]:
    """Those of a dashboard's panels, each once, in their order."""

    def walk(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if isinstance(part.get("expr"), str) and part["expr"].strip():
                yield part["expr"]
            for each in part.values():
                yield from walk(each)
        elif isinstance(part, list):
            for each in part:
                yield from walk(each)

    return list(dict.fromkeys(map(concrete, walk(json.loads(dashboard.read_text(encoding="utf-8"))))))
