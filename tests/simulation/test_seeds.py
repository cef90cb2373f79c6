"""Whole clusters from seeds, with every kind of fault: some seeds for ever, one fresh one each time."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from typing import Any

import pytest
from twisted.trial.unittest import SynchronousTestCase

from rocketha.simulation.faults import ALL_KINDS
from rocketha.simulation.run import Outcome
from rocketha.simulation.scenarios import outcome
from rocketha.simulation.scheduler import ProcessDied
from rocketha.store.raft_log import RaftLog

SECONDS = 36.0
BUDGET_S = 25.0
"""Of processor time, for each scenario: on a slow machine fewer seeds are tried, at least one."""

# A seed that once found something stays here, with what it found.
SEEDS = {
    "raft": {
        1: "the first",
        6: "a reset during the handshake left the simulator's client waiting for ever",
        29: "after a failed sync the restarted node took its page cache for the disk; a power cut took it away",
        85: "death inside a looping call: its Deferred failed, and nobody was left to hear",
        272: "death inside a snapshot's installation",
        2775151849: "a disk got well, and its process was busy for twelve more seconds with what it had asked of it",
    },
    "controller": {
        1: "the first",
        20: "two clusters with one broker name: a set change right after a controller's restart names no cluster",
        20029: "cleaned out while it was cut off: nothing told the broker, which stayed outside every set",
        37078: "after a refused connection candidates left each term before slow votes came: six terms in 0.8 s",
        50202: "a new leader told a master without power of the set at its election, which had grown: it acked alone",
        1001634: "death inside the removal of an old snapshot: the errback that logged it was taken for a failure",
        3000060: "a broker that came back at another port was kept out by its own heartbeats from there",
        1008585: "a simulated broker whose id was taken, but not answered, obeyed a notice and read as broker None",
    },
}

LONGER = {37078: 60.0, 50202: 60.0, 1001634: 60.0, 1008585: 60.0, 3000060: 60.0}
"""Seconds of those that found it later."""


class Simulated(SynchronousTestCase):
    """Tests that play seeds."""

    def setUp(self) -> None:
        """The simulator does not count what an errback logs that is told of its process's death; nor must trial."""
        self.addCleanup(self.flushLoggedErrors, ProcessDied)

    def played(self, scenario: str, seed: int, seconds: float, trace_lines: int = 0) -> Outcome:
        """A seed with every kind of fault."""
        return outcome(scenario, seed, seconds, ALL_KINDS, trace_lines)


class SeedTests(Simulated):
    """``rocketha simulate``, a little of it."""

    def check(self, scenario: str) -> None:
        """Play the known seeds and a fresh one."""
        began = time.process_time()
        fresh = secrets.randbelow(1 << 32)
        for seed in [fresh, *SEEDS[scenario]]:
            came = self.played(scenario, seed, LONGER.get(seed, SECONDS))
            self.assertEqual(came.violations, (), self.told(scenario, came))
            if time.process_time() - began > BUDGET_S:
                break

    def told(self, scenario: str, came: Outcome) -> str:
        """How to see it again."""
        again = f"rocketha simulate {scenario} --seed {came.setup.seed} --seconds {came.setup.seconds:g} --trace"
        return "\n".join([f"again: {again}", *came.setup.lines(), *came.lines()])

    def test_raft(self) -> None:
        """Raft nodes with a register machine."""
        self.check("raft")

    def test_controller(self) -> None:
        """Controllers with brokers."""
        self.check("controller")


class ReplayTests(Simulated):
    """One seed is one run."""

    def test_same_run_under_any_hash_seed(self) -> None:
        """To the byte: the digest is over everything delivered and noted."""
        program = (
            "from rocketha.simulation.scenarios import outcome\n"
            "from rocketha.simulation.faults import ALL_KINDS\n"
            "for name in ('raft', 'controller'):\n"
            "    came = outcome(name, 5, 15.0, ALL_KINDS)\n"
            "    print(name, came.digest, came.events, sorted(came.counts.items()))\n"
        )
        said = set()
        for hash_seed in ("0", "1", "77"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            ran = subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
            )
            said.add(ran.stdout)
        self.assertEqual(len(said), 1, said)
        self.assertIn("controller", next(iter(said)))

    def test_logs_go_on_to_other_segments(self) -> None:
        """In every run without slow disks, many times; so a seed of any length sees cuts and recoveries across them."""
        write = RaftLog._write
        for scenario in SEEDS:
            for seed in (2, 3):
                rolled: list[str] = []

                def written(log: RaftLog, entries: Any, rolled: list[str] = rolled) -> None:
                    before = log._segments[-1].path
                    write(log, entries)
                    if log._segments[-1].path != before:
                        rolled.append(before)

                self.patch(RaftLog, "_write", written)
                kinds = tuple(kind for kind in ALL_KINDS if kind not in ("slow-disk", "stuck-disk"))
                self.assertEqual(outcome(scenario, seed, SECONDS, kinds).violations, ())
                self.assertGreater(len(rolled), 0, (scenario, seed))

    def test_a_death_within_a_callback_is_not_logged(self) -> None:
        """Whoever observes Twisted's log is told of the program's failures, not that it was killed."""
        came = outcome("cluster", 453, 60.0, ("die-at-write", "power"))
        self.assertEqual(came.violations, ())
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_trace_changes_nothing(self) -> None:
        """What is looked at runs as what is not."""
        plain, traced = (self.played("controller", 3, 10.0, lines) for lines in (0, 100_000))
        self.assertEqual((plain.digest, plain.events), (traced.digest, traced.events))
        self.assertTrue(any("starts (incarnation 1)" in line for line in traced.trace))


@pytest.mark.soak
class SoakTests(Simulated):
    """With ROCKETHA_SOAK=1: as many seeds as ``make simulate`` has, in less words."""

    def test_many_seeds(self) -> None:
        """Seeds from a fresh beginning; SEEDS=N says how many of each scenario."""
        count = int(os.environ.get("SEEDS", "200")) if os.environ.get("ROCKETHA_SOAK") else 1
        first = secrets.randbelow(1 << 32)
        for scenario in SEEDS:
            for seed in range(first, first + count):
                came = self.played(scenario, seed, 60.0)
                self.assertEqual(came.violations, (), f"rocketha simulate {scenario} --seed {seed}")
