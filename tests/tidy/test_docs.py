"""The documents: each page parses, each link leads somewhere, each command and key that is named exists."""

from __future__ import annotations

import ast
import io
import re
import unittest
from collections.abc import Iterator

import attrs
import docutils.core

from rocketha.admin import keys
from rocketha.admin.cli import SUBCOMMANDS
from rocketha.services.config.keys import StoreSettings
from rocketha.services.config.loading import (
    AccessConfig,
    BrokerConfig,
    ControllerConfig,
    NamesrvConfig,
    ProxiesConfig,
    RemotingConfig,
    ReplicationConfig,
    TlsConfig,
)
from rocketha.services.config.metrics import MetricsConfig
from rocketha.services.config.unsupported import IGNORED, REFUSED
from tests.observe.kinds import event_kinds
from tests.tidy.source import ROOT, Module, modules

PAGES = sorted(
    [
        *ROOT.glob("*.rst"),
        *(ROOT / "benchmarks").glob("*.rst"),
        *(ROOT / "docs").rglob("*.rst"),
        *(ROOT / "docs").rglob("*.md"),
    ]
)


def names_in(source: Module) -> Iterator[str]:
    """Classes, their methods, functions."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef))
        elif isinstance(node, ast.FunctionDef):
            yield node.name


class DocsTests(unittest.TestCase):
    """Every page of the tree."""

    def test_events(self) -> None:
        """docs/events.rst lists each event that an alert may be written on, once, with its level and its fields."""
        text = (ROOT / "docs" / "events.rst").read_text(encoding="utf-8")
        rows = re.findall(r"^   \* - ``([a-z_.]+)``\n     - (\w+)\n     - .+\n     -(.*)\n     -(?: yes)?$", text, re.M)
        listed = [(name, level, re.findall(r"``(\w+)``", fields)) for name, level, fields in rows]
        kinds = [(each.name, each.level, [field.name for field in attrs.fields(each)]) for each in event_kinds()]
        self.assertEqual(sorted(listed), sorted(kinds))
        names = [name for name, _, _ in kinds]
        self.assertEqual(len(set(names)), len(names))
        counted = set(re.findall(r"- ``([a-z_.]+)``\n     - \w+\n     - .* Counted\.$", text, re.M))
        self.assertEqual(counted, {each.name for each in event_kinds() if not each.shown})

    def test_pages_parse(self) -> None:
        """docutils has nothing to say about any of them; PyPI shows README.rst only if it parses."""
        for path in PAGES:
            if path.suffix != ".rst":
                continue
            with self.subTest(path.name):
                warnings = io.StringIO()
                settings = {"warning_stream": warnings, "report_level": 2, "halt_level": 5}
                text = path.read_text(encoding="utf-8").replace(".. code-block:: ini", ".. code-block:: text")
                docutils.core.publish_doctree(text, source_path=path.name, settings_overrides=settings)
                self.assertEqual(warnings.getvalue(), "")

    def test_walks_lead_somewhere(self) -> None:
        """Each function that docs/architecture.rst walks through is in the module that it names."""
        text = (ROOT / "docs" / "architecture.rst").read_text(encoding="utf-8")
        named = {source.path: set(names_in(source)) for source in modules()}
        steps = re.findall(r"``([\w/]+\.py)``\s+``(\w[\w.]*)``", text)
        self.assertGreater(len(steps), 40)
        for path, name in steps:
            self.assertIn(name, named.get(path, set()), path)

    def test_links_lead_somewhere(self) -> None:
        """Relative links, in both markups."""
        checked = 0
        for path in PAGES:
            text = path.read_text(encoding="utf-8")
            for target in re.findall(r"`[^`<]+<([^>]+)>`_|\]\(([^)]+)\)", text):
                link = (target[0] or target[1]).split("#")[0]
                if re.match("[a-z]+:", link):
                    continue
                checked += 1
                self.assertTrue((path.parent / link).exists(), f"{path.relative_to(ROOT)} links to {link}")
        self.assertGreater(checked, 10)

    def test_make_targets_exist(self) -> None:
        """Every `make x` in the documents is a target of the Makefile."""
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        targets = {name for line in re.findall(r"^([\w/ .-]+):(?!=)", makefile, re.MULTILINE) for name in line.split()}
        for path in PAGES:
            text = path.read_text(encoding="utf-8")
            for inline, shown in re.findall(r"\bmake ([a-z][\w-]+)``|\$ make ([a-z][\w-]+)", text):
                self.assertIn(inline or shown, targets, path.name)

    def test_subcommands_exist(self) -> None:
        """Every `rocketha x` shown as a command is a subcommand."""
        seen = set()
        for path in PAGES:
            shown = re.findall(r"\$ (?:\.venv/bin/)?rocketha (\w+)", path.read_text(encoding="utf-8"))
            for name in shown:
                self.assertIn(name, SUBCOMMANDS, path.name)
                seen.add(name)
        self.assertIn("send", seen)

    def test_the_configuration_page_is_up_to_date(self) -> None:
        """docs/configuration.rst is what the declarations say now: `rocketha keys --rst docs/configuration.rst`."""
        found = (ROOT / "docs" / "configuration.rst").read_text(encoding="utf-8")
        self.assertEqual(found, keys.page())

    def test_configuration_keys_exist(self) -> None:
        """Every ``camelCase = value`` or ``camelCase`` key in the operator's pages is one we know."""
        known: set[str] = set(IGNORED) | set(REFUSED)
        sections = (
            AccessConfig,
            BrokerConfig,
            ControllerConfig,
            MetricsConfig,
            NamesrvConfig,
            ProxiesConfig,
            RemotingConfig,
            ReplicationConfig,
            StoreSettings,
            TlsConfig,
        )
        for section in sections:
            known |= set(section.declared())
        for name in ("operations.rst", "divergence.md", "durability.rst"):
            text = (ROOT / "docs" / name).read_text(encoding="utf-8")
            for key in re.findall(r"`([a-z]+[A-Z]\w+)(?: ?=[^`]*)?`", text):
                command = re.match("(get|update)(Broker|Namesrv|Controller)", key) is not None
                self.assertTrue(key in known or command, f"{name}: {key}")
