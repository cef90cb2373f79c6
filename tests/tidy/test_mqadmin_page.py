"""docs/mqadmin.rst has all commands; tests/interop compares them with those of Java's jar, and with what they do."""

from __future__ import annotations

import re
import unittest

from tests.interop.mqadmin_table import COMMANDS, NAMES, PAGE


class PageTests(unittest.TestCase):
    def setUp(self) -> None:
        lines = PAGE.read_text().splitlines()
        rule = next(line for line in lines if line.startswith("==") and "  =" in line)
        ends = [match.span() for match in re.finditer("=+", rule)]
        self.rows = {
            cells[0].strip("`"): cells
            for line in lines
            if line.startswith("``") and (cells := [line[first:last].strip() for first, last in ends])
        }

    def test_each_has_a_row(self) -> None:
        self.assertEqual(sorted(self.rows), NAMES)
        self.assertEqual(len(NAMES), len(set(NAMES)))

    def test_cells(self) -> None:
        """What a command needs and the remark are those of the script; what does not work here has a remark."""
        for command in COMMANDS:
            _, needs, java, ours, remark = self.rows[command.name]
            self.assertEqual((needs, remark), (command.needs, command.remark or command.differs))
            self.assertLessEqual({java, ours}, {"works", "fails"})
            if (java, ours) == ("works", "fails"):
                self.assertNotEqual(remark, "", command.name)
