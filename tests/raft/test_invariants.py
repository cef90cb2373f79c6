"""Random networks of nodes under every fault: the invariants hold, and the group comes together afterwards."""

from __future__ import annotations

import os

from twisted.trial import unittest

from tests.raft.chaos import Chaos

SEEDS = int(os.environ.get("ROCKETHA_RAFT_SEEDS", "200"))
FIRST = int(os.environ.get("ROCKETHA_RAFT_FIRST_SEED", "0"))
STEPS = 1200


class InvariantTests(unittest.SynchronousTestCase):
    """faults-and-invariants 1 to 6, linearizable reads, and convergence."""

    def test_random_networks(self) -> None:
        """One run a seed; a failure names the seed (ROCKETHA_RAFT_FIRST_SEED=n ROCKETHA_RAFT_SEEDS=1 repeats it)."""
        reads = commits = elections = 0
        for seed in range(FIRST, FIRST + SEEDS):
            chaos = Chaos(seed)
            try:
                chaos.run(STEPS)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            reads += chaos.witness.reads
            commits += len(chaos.witness.committed)
            elections += len(chaos.witness.leaders)
        if SEEDS >= 50:  # the network is not so bad that nothing happens
            self.assertGreater(commits, 10 * SEEDS)
            self.assertGreater(elections, 2 * SEEDS)
            self.assertGreater(reads, SEEDS)
