"""docs/mqadmin.rst is what its script finds; with ROCKETHA_INTEROP_FULL=1 each command runs against both sides."""

from __future__ import annotations

import unittest

from rocketha.broker.unserved import UNSERVED

from . import mqadmin_table
from .harness import FULL, Admin, InteropCase

NO_SERVER = "127.0.0.1:1"


class TableTests(InteropCase):
    def test_the_jars_commands(self) -> None:
        """Each has a row, once."""
        admin = self.use(Admin(NO_SERVER, self.subfolder("admin")))
        self.assertEqual(mqadmin_table.NAMES, admin.names())

    @unittest.skipUnless(FULL, "some minutes: ROCKETHA_INTEROP_FULL=1")
    def test_what_they_do(self) -> None:
        """Who works where is what the page says.  What works on both sides prints the same, or its row says in what it
        differs; what works on Java's alone is told why, or its row says it."""
        java, ours = (mqadmin_table.run_on(kind) for kind in ("java", "ours"))
        self.assertEqual(mqadmin_table.page(mqadmin_table.rows(java, ours)), mqadmin_table.PAGE.read_text())
        for command in mqadmin_table.COMMANDS:
            one, other = java[command.name], ours[command.name]
            with self.subTest(command.name):
                if not one.failed and not other.failed and not command.differs:
                    self.assertEqual(one.shape, other.shape)
                elif other.failed and not one.failed:
                    self.assertTrue(command.remark)
                    if "CODE: 3 " in other.text:
                        self.assertTrue(any(why in other.text for why in UNSERVED.values()), other.text)
