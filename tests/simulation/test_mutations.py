"""The simulator sees what it is for: rules taken out of Raft and the controller are noticed.

All of them: ``python -m tests.simulation.mutations``, or with ROCKETHA_SOAK=1; a few here.
"""

from __future__ import annotations

import os

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.simulation import mutations

QUICK = ("vote-not-saved", "commits-what-arrives", "epoch-not-raised", "set-loses-its-master")
"""Caught by the first seeds."""


class MutationTests(SynchronousTestCase):
    """Each in a process of its own."""

    def test_enough(self) -> None:
        """At least 15, of both."""
        proven = {name: each for name, each in mutations.MUTATIONS.items() if name not in mutations.UNPROVEN}
        scenarios = [each.scenario for each in proven.values()]
        self.assertGreaterEqual(len(scenarios), 15)
        self.assertEqual(set(scenarios), {"raft", "controller"})

    def test_a_few_are_caught(self) -> None:
        """Within seconds."""
        for name in QUICK:
            with self.subTest(name):
                caught, said = mutations.in_a_process(name)
                self.assertTrue(caught, said)

    @pytest.mark.soak
    def test_all_are_caught(self) -> None:
        """With ROCKETHA_SOAK=1 every one; else another of the quick ones."""
        proven = [name for name in mutations.MUTATIONS if name not in mutations.UNPROVEN]
        names = proven if os.environ.get("ROCKETHA_SOAK") else ["votes-for-the-empty-log"]
        escaped = {name: said for name in names for caught, said in [mutations.in_a_process(name)] if not caught}
        self.assertEqual(escaped, {})
