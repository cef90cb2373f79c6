"""Two clocks that never meet: what waits goes by the steady one, the time of day is written down (rocketmq#9455)."""

from __future__ import annotations

import ast
import re
import unittest
from collections.abc import Iterator

from tests.tidy.source import Module, module, modules

WALL = re.compile("wall")
STEADY = re.compile("^_?now(_m?s)?$|due_m?s$|deadline_m?s$|^seconds$")
OFFSETS = re.compile("utc_offset|ahead")
MEET = frozenset({"rocketha.broker.delay_levels", "rocketha.services.replication.status"})
"""Where it is worked out by how much the time of day is ahead."""
ASKED = frozenset(
    "admin.export services.cluster.group services.process.platform services.process.status services.tls.network".split()
)
"""Modules that take the time of day from the operating system; everybody else is given it."""


def names(node: ast.AST) -> set[str]:
    """What an expression mentions."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def has(pattern: re.Pattern[str], node: ast.AST) -> bool:
    return any(pattern.search(name) for name in names(node))


def mixtures(source: Module) -> Iterator[str]:
    """Sums, differences and comparisons of both clocks, and deadlines by the time of day, as "path:line what"."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.BinOp | ast.Compare):
            continue
        if has(WALL, node) and has(STEADY, node) and source.name not in MEET:
            yield f"{source.path}:{node.lineno} mixes the time of day and the steady clock"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            if has(WALL, node) and not has(OFFSETS, node):
                yield f"{source.path}:{node.lineno} is a deadline by the time of day"


def asks(source: Module) -> bool:
    """Whether it reads the time of day itself."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "time" and getattr(node.value, "id", "") == "time"
        for node in ast.walk(source.tree)
    )


class ClockTests(unittest.TestCase):
    """Of the whole package but the simulator, which makes clocks."""

    def sources(self) -> list[Module]:
        return [each for each in modules() if not each.name.startswith("rocketha.simulation")]

    def test_they_never_meet(self) -> None:
        """A level's deadline that was kept as a time of day stopped it for as long as the clock was set back."""
        self.assertEqual([found for source in self.sources() for found in mixtures(source)], [])

    def test_few_ask(self) -> None:
        """So that a simulated host's clock is everybody's."""
        asking = {source.name.removeprefix("rocketha.") for source in self.sources() if asks(source)}
        self.assertEqual(asking, set(ASKED))

    def test_mixtures_are_found(self) -> None:
        """The rule itself."""
        for text, count in (
            ("now_ms - wall_ms", 1),
            ("self._wall_ms() > due_ms", 1),
            ("self.wall_ms() + delay_ms", 1),
            ("wall_ms + self._utc_offset_ms", 0),
            ("stamp_ms + kept_ms > wall_ms", 0),
            ("now_ms + delay_ms", 0),
        ):
            with self.subTest(text):
                self.assertEqual(len(list(mixtures(module("broker/x.py", text)))), count)
