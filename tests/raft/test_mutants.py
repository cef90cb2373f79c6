"""The tests of the core, tested: with any one safety rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``mutants.py``; a plain run tries one, and that each fits the source.
"""

from __future__ import annotations

import pytest
from twisted.trial import unittest

from tests import mutation
from tests.raft.mutants import MUTANTS, Mutant

THIS = "tests/raft/test_mutants.py"


def outcome(mutant: Mutant | None) -> tuple[bool, str]:
    """Whether a mutant passes its tests (or the source as it is all but this one), and the last lines."""
    tests = [f"tests/raft/test_{mutant.test}.py"] if mutant is not None else ["tests/raft", "--ignore", THIS]
    change = mutant.change() if mutant is not None else None
    return mutation.outcome(tests, change)


class MutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        for mutant in MUTANTS:
            with self.subTest(mutant.name):
                self.assertEqual(mutant.change().problem(), "")
        self.assertGreaterEqual(len(MUTANTS), 15)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass."""
        chosen = MUTANTS if mutation.SOAK else MUTANTS[1:2]
        if mutation.SOAK:
            passes, text = outcome(None)
            self.assertTrue(passes, text)
        survivors = [mutant.name for mutant in chosen if outcome(mutant)[0]]
        self.assertEqual(survivors, [])
