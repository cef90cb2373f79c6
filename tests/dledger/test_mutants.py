"""The tests of DLedger mode, tested: with any one rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``mutants.py``; a plain run tries one, and that each fits the source.
"""

from __future__ import annotations

import unittest

import pytest

from tests import mutation
from tests.dledger.mutants import MUTANTS

THIS = "tests/dledger/test_mutants.py"


class MutantTests(unittest.TestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        for mutant, _ in MUTANTS:
            with self.subTest(mutant.name):
                self.assertEqual(mutant.problem(), "")
        self.assertGreaterEqual(len(MUTANTS), 20)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """The tests pass without one (they are part of the suite)."""
        chosen = MUTANTS if mutation.SOAK else MUTANTS[:1]
        survivors = [mutant.name for mutant, tests in chosen if mutation.outcome([*tests, "--ignore", THIS], mutant)[0]]
        self.assertEqual(survivors, [])
