"""The tests of the Raft log, tested: with any one rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``raft_mutants.py``; a plain run tries two, and that each fits the source.
"""

from __future__ import annotations

import pytest
from twisted.trial import unittest

from tests.mutation import SOAK, outcome
from tests.store.raft_mutants import MUTANTS

FAULTS = "tests/store/test_raft_log_faults.py"
# The quick ones first: most mutants go no further.
TESTS = [
    *(f"{FAULTS}::{name}Tests" for name in ("Vote", "Cut", "TornTail", "FailedSync")),
    "tests/store/test_raft_log.py",
    "tests/wire/test_raft_records.py",
    *(f"{FAULTS}::{name}Tests" for name in ("Rot", "RandomRun")),
]


class MutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        for mutant in MUTANTS:
            self.assertEqual(mutant.problem(), "")
        self.assertGreaterEqual(len(MUTANTS), 10)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass."""
        if SOAK:
            passes, text = outcome(TESTS, None, 1200)
            self.assertTrue(passes, text)
        chosen = MUTANTS if SOAK else MUTANTS[:2]
        survivors = [mutant.name for mutant in chosen if outcome(TESTS, mutant, 1200)[0]]
        self.assertEqual(survivors, [])
