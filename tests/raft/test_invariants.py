"""Random networks of nodes under every fault: the invariants hold, and the group comes together afterwards."""

from __future__ import annotations

import os

from twisted.trial import unittest

from tests.raft.chaos import Chaos, LeaseChaos
from tests.raft.runs import RunChaos

SEEDS = int(os.environ.get("ROCKETHA_RAFT_SEEDS", "200"))
FIRST = int(os.environ.get("ROCKETHA_RAFT_FIRST_SEED", "0"))
STEPS = 1200


class InvariantTests(unittest.SynchronousTestCase):
    """faults-and-invariants 1 to 6, linearizable reads, and convergence."""

    def test_random_networks(self) -> None:
        """One run a seed; a failure names the seed (ROCKETHA_RAFT_FIRST_SEED=n ROCKETHA_RAFT_SEEDS=1 repeats it)."""
        self.run_seeds(Chaos, SEEDS)

    def test_random_networks_with_leases(self) -> None:
        """With clocks of like speed a lease never makes a read stale."""
        self.run_seeds(LeaseChaos, (SEEDS + 3) // 4)

    def test_random_networks_with_runs(self) -> None:
        """Entries that are stored and sent several at a time, and split anywhere."""
        self.run_seeds(RunChaos, (SEEDS + 1) // 2)

    def run_seeds(self, kind: type[Chaos] | type[LeaseChaos], seeds: int) -> None:
        """One run a seed."""
        reads = commits = elections = 0
        for seed in range(FIRST, FIRST + seeds):
            chaos = kind(seed)
            try:
                chaos.run(STEPS)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            reads += chaos.witness.reads
            commits += len(chaos.witness.committed)
            elections += len(chaos.witness.leaders)
        if seeds >= 50:  # the network is not so bad that nothing happens
            self.assertGreater(commits, 10 * seeds)
            self.assertGreater(elections, 2 * seeds)
            self.assertGreater(reads, seeds)
