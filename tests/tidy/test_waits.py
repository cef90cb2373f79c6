"""What a test waits for, and why it is not run: said where it stands."""

from __future__ import annotations

import ast
import re
import unittest
from collections.abc import Iterator

from tests.tidy.source import ROOT

TESTS = ROOT / "tests"
SLEEP = re.compile(r"\b(time\.sleep|time\.Sleep|Thread\.sleep|thread::sleep)\(")
REASON = re.compile(r"(#|//) \S+ \S+")
PROGRAMS = (".py", ".java", ".go", ".js", ".rs")
SKIPS = frozenset({"SkipTest", "skipTest", "skip", "skipIf", "skipUnless"})


def silent_sleeps(path: str, text: str) -> Iterator[str]:
    """Sleeps without a comment behind them, as "path:line"."""
    for number, line in enumerate(text.splitlines(), 1):
        found = SLEEP.search(line)
        if found and not REASON.search(line[found.end() :]):
            yield f"{path}:{number} sleeps: await an event, or say behind it why there is none"


def silent_skips(path: str, text: str) -> Iterator[str]:
    """Skips without a reason, as "path:line"."""
    for node in ast.walk(ast.parse(text, path)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        given = [each for each in node.args if not (isinstance(each, ast.Constant) and not each.value)]
        if name in SKIPS and len(given) + len(node.keywords) < (2 if name in ("skipIf", "skipUnless") else 1):
            yield f"{path}:{node.lineno} skips without a reason"


class WaitsTests(unittest.TestCase):
    """Each test walks every file of tests/."""

    def test_sleeps(self) -> None:
        """A reader sees why no event is awaited."""
        found = [
            each
            for path in sorted(TESTS.rglob("*.*"))
            if path.suffix in PROGRAMS and path.parent != TESTS / "tidy"
            for each in silent_sleeps(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        ]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_skips(self) -> None:
        """Whoever reads what was skipped sees what it lacks."""
        found = [
            each
            for path in sorted(TESTS.rglob("*.py"))
            for each in silent_skips(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        ]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_the_rules_themselves(self) -> None:
        """They find what they are for."""
        silent = "time.sleep(1)\n  Thread.sleep(x);  //\ntime.sleep(1)  # nosec\n"
        self.assertEqual([each.split()[0] for each in silent_sleeps("a", silent)], ["a:1", "a:2", "a:3"])
        self.assertEqual(list(silent_sleeps("a", "time.Sleep(2) // the fault itself\ntime.sleeping()\n")), [])
        skips = "raise SkipTest()\nself.skipTest('')\n@unittest.skipUnless(x)\ndef f(): pass\n"
        self.assertEqual([each.split()[0] for each in silent_skips("a", skips)], ["a:1", "a:2", "a:3"])
        self.assertEqual(list(silent_skips("a", "raise SkipTest(why())\nunittest.skipIf(x, 'no root')\n")), [])
