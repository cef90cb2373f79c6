"""The purity contract: what holds the same code together in production, under task.Clock and in the simulator."""

from __future__ import annotations

import ast
import unittest
from collections.abc import Iterator

from tests.tidy.source import Module, imports, module, modules

BANNED_MODULES = frozenset(
    "twisted time os socket threading asyncio logging pathlib io mmap shutil subprocess uuid secrets "
    "select signal tempfile multiprocessing concurrent ctypes sched glob txaio".split()
)
BANNED_CALLS = frozenset({"open", "print", "input", "exec", "eval", "id"})
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})


def breaches(source: Module) -> Iterator[str]:
    """What in a module breaks the contract, as "path:line what"."""
    for line, name in imports(source):
        root = name.split(".")[0]
        if root in BANNED_MODULES:
            yield f"{source.path}:{line} imports {name}"
        if root == "random" and name not in ("random", "random.Random"):
            yield f"{source.path}:{line} imports {name}: only an injected random.Random is pure"
    for node in ast.walk(source.tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "random" and node.attr != "Random":
                yield f"{source.path}:{line} uses the global random.{node.attr}"
        if isinstance(node, ast.Call):
            yield from (f"{source.path}:{line} {what}" for what in call_breaches(node))
        if isinstance(node, ast.For | ast.comprehension) and iterates_a_set(node.iter):
            place = node.iter.lineno
            yield f"{source.path}:{place} iterates a set: its order depends on PYTHONHASHSEED, use sorted()"


def call_breaches(node: ast.Call) -> Iterator[str]:
    """What is wrong with one call."""
    function = node.func
    if isinstance(function, ast.Name) and function.id in BANNED_CALLS:
        yield f"calls {function.id}()"
    if isinstance(function, ast.Attribute) and function.attr in CLOCK_METHODS:
        yield f"reads the clock with .{function.attr}()"
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "Random" and not node.args and not node.keywords:
        yield "makes a Random() that nobody seeded"
    if isinstance(function, ast.Attribute) and function.attr == "compile":
        if not (isinstance(function.value, ast.Name) and function.value.id == "re"):
            yield "compiles a construct spec: compiled specs accept negative and short lengths"


def iterates_a_set(iterated: ast.expr) -> bool:
    """Whether the expression after `in` is visibly a set: a literal, a comprehension or set(...)."""
    if isinstance(iterated, ast.Set | ast.SetComp):
        return True
    return (
        isinstance(iterated, ast.Call)
        and isinstance(iterated.func, ast.Name)
        and iterated.func.id in ("set", "frozenset")
    )


class PurityTests(unittest.TestCase):
    """docs/architecture.rst, "Pure packages"."""

    def test_pure_packages_stay_pure(self) -> None:
        """No pure module imports or calls anything that knows the time, the disk, the network or chance."""
        pure = [each for each in modules() if each.pure]
        self.assertTrue(pure, "no pure modules found: the test looks in the wrong place")
        self.assertEqual([breach for each in pure for breach in breaches(each)], [])

    def test_catches_each_kind_of_breach(self) -> None:
        """Each line here breaks the contract in one way, and is caught: the test above can fail."""
        for text in (
            "import time",
            "import os.path",
            "from twisted.internet import reactor",
            "def f():\n    import socket",
            "from random import choice",
            "import random\nrandom.random()",
            "import random\nr = random.Random()",
            "f = open('x')",
            "import datetime\nx = datetime.datetime.now()",
            "for x in {1, 2}: pass",
            "y = [x for x in set('ab')]",
            "spec = None\nspec.compile()",
        ):
            with self.subTest(text):
                self.assertEqual(len(list(breaches(module("wire/x.py", text)))), 1)

    def test_leaves_pure_code_alone(self) -> None:
        """An injected or seeded Random, a compiled pattern and a sorted set are fine."""
        text = (
            "import random, re, struct\nfrom random import Random\np = re.compile('a')\n"
            "def f(r: random.Random, s: set[int]) -> list[int]:\n    q = random.Random(5)\n    return sorted(s)\n"
        )
        self.assertEqual(list(breaches(module("wire/x.py", text))), [])

    def test_knows_which_modules_are_pure(self) -> None:
        """posix_disk.py is the one module of the store that may open files; protocols and services are not pure."""
        self.assertTrue(module("store/segment.py", "").pure)
        self.assertTrue(module("wire/spec/remoting.py", "").pure)
        self.assertTrue(module("rates.py", "").pure)
        self.assertFalse(module("store/posix_disk.py", "").pure)
        self.assertFalse(module("protocols/remoting.py", "").pure)
