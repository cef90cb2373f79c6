"""The tests of a role's life and of its id, tested: with any one rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``role_mutants.py``; a plain run tries one, and that each fits the source.
"""

from __future__ import annotations

import pytest
from twisted.trial import unittest

from tests.broker.role_mutants import MUTANTS
from tests.mutation import SOAK, Mutant, outcome

TESTS = [f"tests/broker/test_{each}.py" for each in ("role_life", "role_lives", "controller_identity")]


def caught(mutant: Mutant) -> bool:
    """Whether a test fails with it."""
    return not outcome(TESTS, mutant)[0]


class RoleMutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        for mutant in MUTANTS:
            self.assertEqual(mutant.problem(), "")

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass."""
        if SOAK:
            passes, text = outcome(TESTS, None)
            self.assertTrue(passes, text)
        chosen = MUTANTS if SOAK else MUTANTS[:1]
        self.assertEqual([mutant.name for mutant in chosen if not caught(mutant)], [])
