"""The tests of HA links on transports, tested: with any one rule taken out, the file that is named for it fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``ha_mutants.py``; a plain run tries one, and that each fits the source.
"""

from __future__ import annotations

import pytest
from twisted.trial import unittest

from tests.mutation import SOAK, outcome
from tests.protocols.ha_mutants import HA_MUTANTS, Rule


def caught(rule: Rule) -> bool:
    """Whether its test fails without it."""
    return not outcome([f"tests/protocols/test_ha_{rule.test}.py"], rule.change())[0]


class MutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once, and what comes of it compiles."""
        self.assertEqual([problem for rule in HA_MUTANTS if (problem := rule.change().problem())], [])
        self.assertGreaterEqual(len(HA_MUTANTS), 45)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass."""
        if SOAK:
            passes, text = outcome(["tests/protocols/test_ha_links.py", "tests/protocols/test_ha_limits.py"], None)
            self.assertTrue(passes, text)
        chosen = HA_MUTANTS if SOAK else HA_MUTANTS[:1]
        self.assertEqual([rule.name for rule in chosen if not caught(rule)], [])
