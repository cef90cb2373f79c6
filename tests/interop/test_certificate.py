"""One row of docs/interop.md, with ROCKETHA_INTEROP_FULL=1; ``make certificate`` runs all of them."""

from __future__ import annotations

import unittest

from .certificate import PASSED, SERVER_ROWS
from .harness import FULL, InteropCase


@unittest.skipUnless(FULL, "a minute: ROCKETHA_INTEROP_FULL=1")
class SampleTests(InteropCase):
    def test_an_old_slave(self) -> None:
        """The oldest of Java's servers, as slave of our master and then as its master."""
        row = next(row for row in SERVER_ROWS if row.role == "slave of our master")
        outcome = row.run()
        self.assertEqual(outcome.state, PASSED, outcome.text)
