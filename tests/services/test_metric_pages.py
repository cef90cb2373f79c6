"""Every metric is in docs/metrics.rst, and what rules and dashboards name is a metric; promtool has the last word.

``METRICS_PAGE=1`` in the environment writes the tables of the page anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from twisted.trial.unittest import SkipTest

from rocketha.admin import metrics as command
from rocketha.observe.metrics import COUNTED, Shape
from tests.services.metrics_case import MetricsCase
from tests.tidy.source import ROOT

PAGE = ROOT / "docs" / "metrics.rst"
RULES = ROOT / "src" / "rocketha" / "observe" / "prometheus" / "alerts.yml"
RULES_TEST = ROOT / "tests" / "observe" / "data" / "alerts_test.yml"
TITLES = {
    "broker": "Brokers",
    "all": "Every process",
    "controller": "Controllers",
    "nameserver": "Nameservers",
    "learner": "Learners",
    "witness": "Witnesses",
    "broker, Java's names": "Brokers, under Java's names",
    "controller, Java's names": "Controllers, under Java's names",
}
PROMETHEUS_OWN = {"up", "ALERTS"}
NAME = re.compile(r"\b(?:rocketha|process|target)_[a-z_]+\b")


def table(shapes: Mapping[str, Shape]) -> str:
    """The rows of one kind of server."""
    rows = [
        (f"``{name}``", shape.kind, ", ".join(shape.labels), " ".join(shape.help_text.split()))
        for name, shape in sorted(shapes.items())
    ]
    head = ("metric", "type", "labels", "what it is")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(4)]
    bar = "  ".join("=" * width for width in widths)

    def line(row: tuple[str, ...]) -> str:
        return "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()

    # a cell of the first columns may not be empty where the line goes on
    filled = [tuple(cell or "\\-" for cell in row) for row in rows]
    return "\n".join([bar, line(head), bar, *map(line, filled), bar])


def sections(text: str) -> dict[str, str]:
    """Title to text, of a page."""
    parts = re.split(r"^(.+)\n-+\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


class PageTests(MetricsCase):
    """The tables of docs/metrics.rst."""

    def test_each_metric_is_there(self) -> None:
        """With its type, its labels and what it is, as the code has them; and nothing else."""
        wanted = {TITLES[kind]: table(shapes) for kind, shapes in self.shapes().items()}
        text = PAGE.read_text(encoding="utf-8")
        if os.environ.get("METRICS_PAGE"):
            for title, rows in wanted.items():
                begin = text.index(f"\n{title}\n--")
                first = text.index("\n==", begin) + 1
                _, gap, rest = text[first:].partition("\n\n")
                text = text[:first] + rows + (gap + rest if gap else "\n")
            PAGE.write_text(text, encoding="utf-8")
        found = sections(text)
        for title, rows in wanted.items():
            self.assertIn(rows, found[title], f"{title}: METRICS_PAGE=1 writes the tables anew")

    def test_alerts_are_there(self) -> None:
        """Each with what to do."""
        text = PAGE.read_text(encoding="utf-8")
        listed = re.findall(r"^``(Rocketha\w+)``  ", text, re.M)
        self.assertEqual(sorted(listed), sorted(rule["alert"] for rule in rules()))


def rules() -> list[Any]:
    """The alerts."""
    return [rule for group in yaml.safe_load(command.text_of("alerts"))["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Where it is, and what rules and dashboards ask."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    dashboard = json.loads(command.text_of("dashboard"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        yield variable["name"], variable.get("definition", "")


class FilesTests(MetricsCase):
    """What ``rocketha metrics`` prints."""

    def names(self) -> dict[str, set[str]]:
        """Every name that a scrape may have, with the labels of its metric."""
        found = {"target_info": {"service_name", "service_version", "cluster", "node_type", "node_id"}}
        for shapes in self.shapes().values():
            for name, shape in shapes.items():
                suffixes = ("_bucket", "_sum", "_count") if shape.kind == "histogram" else ("",)
                found.update({name + suffix: {*shape.labels, "le"} for suffix in suffixes})
        return found

    def test_each_metric_exists(self) -> None:
        """No rule waits for a name that nobody has."""
        names, seen = self.names(), 0
        for where, text in expressions():
            for name in NAME.findall(text):
                self.assertIn(name, names, where)
                seen += 1
        self.assertGreater(seen, 70)

    def test_labels_exist(self) -> None:
        """Nor for a label; job and instance are Prometheus's."""
        names = self.names()
        for where, text in expressions():
            for name, matchers in re.findall(r"\b(rocketha_[a-z_]+)\{([^}]*)\}", text):
                for label in re.findall(r"(\w+)\s*(?:=~|!=|=)", matchers):
                    self.assertIn(label, {*names[name], "job", "instance"}, where)

    def test_counters_are_rated(self) -> None:
        """A counter is never shown as it is."""
        for where, text in expressions():
            for name in re.findall(rf"\b\w+{COUNTED}\b", text):
                self.assertRegex(text, rf"(rate|increase)\({name}", where)

    def test_the_dashboard(self) -> None:
        """Ids are single, panels lie side by side, and each shows something."""
        dashboard = json.loads(command.text_of("dashboard"))
        panels = dashboard["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        places = {
            (x, y)
            for panel in panels
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        }
        area = sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in panels)
        self.assertEqual(len(places), area)
        self.assertLess(max(x for x, _ in places), 24)
        for panel in panels:
            self.assertTrue(panel["type"] == "row" or panel["targets"], panel["title"])

    def test_each_alert_is_tried(self) -> None:
        """In the file for ``promtool test rules``."""
        tried = RULES_TEST.read_text(encoding="utf-8")
        for rule in rules():
            self.assertIn(f'alertname="{rule["alert"]}"', tried)
            self.assertEqual({*rule["annotations"]}, {"summary", "description"})
            self.assertIn(rule["labels"]["severity"], ("warning", "critical"))

    def promtool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = shutil.which("promtool")
        if path is None:
            raise SkipTest("promtool is not installed (Debian: package prometheus)")
        return subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60, check=False)

    def test_promtool_takes_the_rules(self) -> None:
        done = self.promtool("check", "rules", str(RULES))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_promtool_sees_them_fire(self) -> None:
        """Each on what it is about; and the file of tests can fail."""
        done = self.promtool("test", "rules", str(RULES_TEST))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        broken = Path(self.mktemp())
        text = RULES_TEST.read_text(encoding="utf-8").replace("../../../src", str(ROOT / "src"))
        broken.write_text(text.replace("'1000000000x60'", "'1x60'"), encoding="utf-8")
        self.assertNotEqual(self.promtool("test", "rules", str(broken)).returncode, 0)
