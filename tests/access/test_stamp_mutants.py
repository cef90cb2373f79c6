"""The tests of stamped requests, tested: with any one rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``stamp_mutants.py``; a plain run tries one, and that each fits the source.
"""

from __future__ import annotations

import unittest

import pytest

from tests.access.stamp_mutants import MUTANTS, TESTS
from tests.mutation import SOAK, outcome


class MutantTests(unittest.TestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        self.assertEqual([problem for mutant in MUTANTS if (problem := mutant.problem())], [])
        self.assertGreaterEqual(len(MUTANTS), 35)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass."""
        if SOAK:
            passes, text = outcome(TESTS, None)
            self.assertTrue(passes, text)
        chosen = MUTANTS if SOAK else MUTANTS[:1]
        self.assertEqual([mutant.name for mutant in chosen if outcome(TESTS, mutant)[0]], [])
