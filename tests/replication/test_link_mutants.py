"""The tests of the links, tested: with any one rule taken out, the file that is named for it fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``link_mutants.py``; a plain run tries one, and that each fits the source.
"""

from __future__ import annotations

import pytest
from twisted.trial import unittest

from tests.mutation import SOAK
from tests.replication.link_mutants import LINK_MUTANTS
from tests.replication.test_mutants import caught


class LinkMutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        self.assertEqual([problem for rule in LINK_MUTANTS if (problem := rule.change().problem())], [])
        self.assertGreaterEqual(len(LINK_MUTANTS), 45)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """That the tests run against the copy is shown by ``test_mutants.py``."""
        chosen = LINK_MUTANTS if SOAK else LINK_MUTANTS[4:5]
        self.assertEqual([rule.name for rule in chosen if not caught(rule)], [])
