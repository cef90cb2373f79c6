"""docs/requirements.rst and docs/regressions.rst: no row is missing, and each test that they name exists.

Test files are parsed, not imported: a name that was changed is found on any machine.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import unittest
from collections import Counter

import attrs
import docutils.core
from docutils import nodes

from tests.tidy.source import ROOT

REQUIREMENTS, REGRESSIONS = "requirements.rst", "regressions.rst"

ROWS_OF_SOURCES = {"S0": 61, "S1": 39, "S2": 18, "S3": 21, "S4": 34}
REQUIRED = [f"{source}.{number}" for source, last in ROWS_OF_SOURCES.items() for number in range(1, last + 1)]
ROWS_OF_LETTERS = {
    "A": range(1, 25),
    "B": (1, 2, 6, 8),
    "C": range(1, 14),
    "D": range(6, 11),
    "E": (1, 2),
    "F": range(1, 8),
    "G": range(1, 8),
    "H": range(1, 5),
    "I": (6, 7),
    "X": range(1, 23),
}
REGRESSED = [f"{letter}{number}" for letter, numbers in ROWS_OF_LETTERS.items() for number in numbers]

A_TEST = re.compile(r"(tests/[a-z0-9_/]+\.py)::(\w+)::(test_\w+)")
NO_TEST = "No test yet:"


@attrs.frozen
class Row:
    """One row of a table: its name, what stands in its third column, and the tests named there."""

    name: str
    shown: str
    tests: tuple[str, ...]


def rows_of(text: str) -> list[Row]:
    """The rows of all tables of a page but their heads."""
    settings = {"warning_stream": io.StringIO(), "report_level": 2, "halt_level": 5}
    document = docutils.core.publish_doctree(text, settings_overrides=settings)
    found = []
    for body in document.findall(nodes.tbody):
        for row in body.findall(nodes.row):
            cells = [*row.findall(nodes.entry)]
            tests = tuple(literal.astext() for literal in cells[2].findall(nodes.literal) if "::" in literal.astext())
            found.append(Row(cells[0].astext(), cells[2].astext(), tests))
    return found


@functools.cache
def classes_of(path: str) -> dict[str, ast.ClassDef]:
    """The classes of a test file by name; none if there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return {}
    tree = ast.parse(file.read_text(encoding="utf-8"), path)
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def missing(test: str) -> str | None:
    """What is wrong with a name ``path::Class::test``: that which does not exist, or None."""
    match = A_TEST.fullmatch(test)
    if match is None:
        return f"{test} is no path::Class::test"
    path, owner, name = match.groups()
    found = classes_of(path).get(owner)
    if found is None:
        return f"{path} has no class {owner}" if classes_of(path) else f"there is no file {path}"
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    if not any(isinstance(node, functions) and node.name == name for node in found.body):
        return f"{path}::{owner} has no {name}"
    return None


class RequirementsTests(unittest.TestCase):
    """Both pages."""

    def rows(self, page: str) -> list[Row]:
        return rows_of((ROOT / "docs" / page).read_text(encoding="utf-8"))

    def test_no_row_is_missing(self) -> None:
        """Each requirement and each regression, once, in order."""
        self.assertEqual([row.name for row in self.rows(REQUIREMENTS)], REQUIRED)
        self.assertEqual([row.name for row in self.rows(REGRESSIONS)], REGRESSED)

    def test_each_row_names_a_test_or_says_what_lacks_one(self) -> None:
        """And names none twice."""
        for page in (REQUIREMENTS, REGRESSIONS):
            for row in self.rows(page):
                self.assertTrue(row.tests or NO_TEST in row.shown, f"{page}: {row.name}")
                self.assertEqual([each for each, times in Counter(row.tests).items() if times > 1], [], row.name)

    def test_each_test_that_is_named_exists(self) -> None:
        """In the class that is named, not in one that inherits it."""
        for page in (REQUIREMENTS, REGRESSIONS):
            wrong = [f"{row.name}: {what}" for row in self.rows(page) for test in row.tests if (what := missing(test))]
            self.assertEqual(wrong, [], page)


class TheseTests(unittest.TestCase):
    """What is looked for would be found."""

    def test_wrong_names(self) -> None:
        """A file, a class, a method, and no name at all."""
        here = "tests/tidy/test_requirements.py"
        self.assertIsNone(missing(f"{here}::TheseTests::test_wrong_names"))
        for test, words in (
            ("tests/tidy/test_nothing.py::A::test_b", "there is no file"),
            (f"{here}::NoTests::test_wrong_names", "has no class NoTests"),
            (f"{here}::RequirementsTests::test_wrong_names", "has no test_wrong_names"),
            (f"{here}::test_wrong_names", "is no path::Class::test"),
        ):
            self.assertIn(words, missing(test) or "", test)

    def test_rows(self) -> None:
        """As they stand in the pages."""
        page = (
            ".. list-table::\n   :header-rows: 1\n\n   * - row\n     - asks\n     - shown by\n     - Java\n"
            "   * - S9.1\n     - ``key`` works\n     - ``tests/a.py::B::test_c``. **No test yet:** ``d``\n     -\n"
        )
        (row,) = rows_of(page)
        self.assertEqual((row.name, row.tests), ("S9.1", ("tests/a.py::B::test_c",)))
        self.assertIn(NO_TEST, row.shown)
