"""``rocketha simulate dledger``, a little of it."""

from __future__ import annotations

import secrets
import unittest

from rocketha.simulation.cluster_scenario import ClusterScenario
from rocketha.simulation.cluster_setup import DLEDGER, expand_cluster
from rocketha.simulation.run import run

SECONDS = 40.0
SEEDS = (3, 11, 12)
"""With members that speak DLedger's protocol: none, all, one."""


class DLedgerTests(unittest.TestCase):
    """Brokers that elect their master, under all faults."""

    def test_seeds(self) -> None:
        """Some that stay, and one that nobody has seen."""
        for seed in (*SEEDS, secrets.randbelow(1 << 32)):
            with self.subTest(again=f"rocketha simulate dledger --seed {seed} --seconds {SECONDS}"):
                came = run(ClusterScenario, expand_cluster(seed, SECONDS, mode=DLEDGER))
                self.assertEqual(came.violations, (), "\n".join(came.lines()))
                self.assertGreater(came.counts["messages acknowledged"], 0)
                self.assertGreater(came.counts["masters"], seed in SEEDS)  # there, one after another
