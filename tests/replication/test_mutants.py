"""The tests of replication's rules, tested: with any one rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``mutants.py``; a plain run tries two, and that each fits the source.
"""

from __future__ import annotations

import pytest
from twisted.trial import unittest

from tests.mutation import SOAK, outcome
from tests.replication.mutants import MUTANTS, Rule


def caught(rule: Rule) -> bool:
    """Whether its test fails without it."""
    return not outcome([f"tests/replication/test_{rule.test}.py"], rule.change())[0]


class MutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        for rule in MUTANTS:
            self.assertEqual(rule.change().problem(), "")
        self.assertGreaterEqual(len(MUTANTS), 50)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass."""
        if SOAK:
            tests = sorted({f"tests/replication/test_{rule.test}.py" for rule in MUTANTS})
            passes, text = outcome(tests, None)
            self.assertTrue(passes, text)
        chosen = MUTANTS if SOAK else MUTANTS[:2]
        self.assertEqual([rule.name for rule in chosen if not caught(rule)], [])
