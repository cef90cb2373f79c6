"""The tests of the controller's rules, tested: with any one rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``mutants.py``; a plain run tries two, and that each fits the source.
"""

from __future__ import annotations

import pytest
from twisted.trial import unittest

from tests.controller.mutants import MUTANTS
from tests.mutation import SOAK, outcome

ABOUT = (
    "sync_state",
    "elections",
    "registration",
    "requests",
    "golden",
    "java_rules",
    "events",
    "state",
    "failure_detector",
)
TESTS = [f"tests/controller/test_{name}.py" for name in ABOUT]


class MutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        for mutant in MUTANTS:
            self.assertEqual(mutant.problem(), "")
        self.assertGreaterEqual(len(MUTANTS), 15)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass."""
        if SOAK:
            passes, text = outcome(TESTS, None)
            self.assertTrue(passes, text)
        chosen = MUTANTS if SOAK else MUTANTS[:2]
        survivors = [mutant.name for mutant in chosen if outcome(TESTS, mutant)[0]]
        self.assertEqual(survivors, [])
