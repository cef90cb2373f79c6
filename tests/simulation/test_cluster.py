"""Clusters of real brokers from seeds: a few for ever, a fresh one each time, and what the scenario itself must do."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest
from twisted.trial.unittest import SynchronousTestCase

from rocketha.simulation.cluster_scenario import ClusterScenario
from rocketha.simulation.cluster_setup import ALONE, CLASSIC, CONTROLLER, MODES, expand_cluster
from rocketha.simulation.faults import ALL_KINDS
from rocketha.simulation.findings import Findings
from rocketha.simulation.message_oracle import MessageOracle, QueueName
from rocketha.simulation.run import run
from rocketha.simulation.world import World
from rocketha.wire.record import Record, encode, sealed
from tests.simulation import cluster_mutations
from tests.simulation.test_seeds import Simulated

SECONDS = 60.0
QUICK = ("log-not-synced", "queues-not-rebuilt", "stored-twice", "progress-believed", "clock-steps-forgotten")
"""Mutations that are caught by the first seeds."""
BUDGET_S = 25.0
"""Of processor time: on a slow machine fewer seeds are tried, at least one."""

DISKS = (
    "power",
    "power-all",
    "sync-error",
    "die-at-write",
    "kill",
    "kill-majority",
    "freeze",
    "slow-disk",
    "disk-error",
)

FAILING = ("sync-error", "disk-error", "kill", "slow-disk")

# A seed that once found something stays here, with what it found.
SEEDS: tuple[tuple[str, int, Sequence[str], str], ...] = (
    (ALONE, 34, ALL_KINDS, "after a failed sync and a restart the page cache was taken for the disk"),
    (ALONE, 8, ALL_KINDS, "a disk that stands still during a recovery held it up for minutes after it was well again"),
    (ALONE, 5001161, ALL_KINDS, "an answer with what was not synced was under way when the power went"),
    (ALONE, 170, ALL_KINDS, "two torn queue entries seemed to have expired, and what was before them became padding"),
    (CLASSIC, 3, ALL_KINDS, "a slave whose flush failed asked for the next one for ever"),
    (CLASSIC, 14, ALL_KINDS, "a queue that began with padding seemed to begin within it once a power cut had torn it"),
    (CLASSIC, 15, ALL_KINDS, "a slave that had registered 18 ms before its master followed nobody for a whole period"),
    (CLASSIC, 45, ALL_KINDS, "registrations went on over a connection to the nameserver that had been cut for long"),
    (CLASSIC, 7404, FAILING, "an append that was refused was whole on the disk when the process was killed"),
    (CONTROLLER, 8, ALL_KINDS, "a send that was passed on and stored was refused by a broker that stopped"),
    (CONTROLLER, 19, ALL_KINDS, "a connection to a controller that was given up at a stop failed unseen"),
    (CONTROLLER, 42, ALL_KINDS, "a broker that did not lead any more said that it had made a topic"),
    (CONTROLLER, 71, ALL_KINDS, "a topic that one replica lacked was acknowledged"),
    (CONTROLLER, 1102, DISKS, "consumers read what its master had not synced, and a power cut took it"),
)
SHORTER = {(CLASSIC, 15): 36.0, (CLASSIC, 45): 36.0}
"""Seconds of those that found it because less time was left to recover."""
QUEUE = QueueName("g0", "t0", 0)


class ClusterSeedTests(Simulated):
    """``rocketha simulate cluster``, a little of it."""

    def test_seeds(self) -> None:
        """A fresh one, and the known ones as far as the time goes, from a place that differs each time."""
        began, first = time.process_time(), secrets.randbelow(len(SEEDS))
        fresh = expand_cluster(secrets.randbelow(1 << 32), SECONDS)
        known = [
            expand_cluster(seed, SHORTER.get((mode, seed), SECONDS), kinds, mode) for mode, seed, kinds, _ in SEEDS
        ]
        for setup in [fresh, *known[first:], *known[:first]]:
            came = run(ClusterScenario, setup)
            told = "\n".join([f"again: rocketha simulate cluster --seed {setup.seed}", *setup.lines(), *came.lines()])
            self.assertEqual(came.violations, (), told)
            self.assertGreater(came.counts["messages acknowledged"], 0, told)
            self.assertGreater(came.counts["records compared at the end"], 0, told)
            if time.process_time() - began > BUDGET_S:
                break

    def test_every_mode_without_faults(self) -> None:
        """Nearly everything that is sent is acknowledged, once, and read; a slave may come a moment late."""
        for mode in MODES:
            with self.subTest(mode):
                came = run(ClusterScenario, expand_cluster(1, 30.0, (), mode))
                self.assertEqual(came.violations, ())
                self.assertGreater(came.counts["messages"], 20)
                self.assertGreaterEqual(came.counts["messages acknowledged"], 0.9 * came.counts["messages"])

    def test_same_run_under_any_hash_seed(self) -> None:
        """To the byte, in every mode."""
        program = (
            "from rocketha.simulation.cluster_scenario import ClusterScenario\n"
            "from rocketha.simulation.cluster_setup import MODES, expand_cluster\n"
            "from rocketha.simulation.run import run\n"
            "for mode in MODES:\n"
            "    for seed in (3, 4):\n"
            "        came = run(ClusterScenario, expand_cluster(seed, 25.0, mode=mode))\n"
            "        print(mode, came.digest, came.events, sorted(came.counts.items()))\n"
        )
        said = set()
        for hash_seed in ("0", "1", "77"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            ran = subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
            )
            said.add(ran.stdout)
        self.assertEqual(len(said), 1, said)
        self.assertIn(MODES[0], next(iter(said)))

    def test_a_trace_changes_nothing(self) -> None:
        """What is looked at runs as what is not."""
        plain, traced = (self.played("cluster", 3, 10.0, lines) for lines in (0, 100_000))
        self.assertEqual((plain.digest, plain.events), (traced.digest, traced.events))


class OracleTests(SynchronousTestCase):
    """Each rule of the oracle, broken once."""

    def setUp(self) -> None:
        self.world = World(1)
        self.findings = Findings(self.world)
        self.oracle = MessageOracle(self.findings)
        for name in ("a", "b", "c"):
            self.oracle.made(name, name.encode() + b"|body")

    def acknowledge(self, name: str, offset: int) -> None:
        """A producer sent it and was told its offset."""
        self.oracle.acknowledged(self.oracle.sending(QUEUE, [name]), offset)

    @staticmethod
    def record(name: str, offset: int, body: bytes | None = None, topic: str = "t0") -> Record:
        """As a broker stores it."""
        data = name.encode() + b"|body" if body is None else body
        return sealed(Record(0, 0, 0, 0, 0, offset, 100 * offset, 0, 0, bytes(8), 0, bytes(8), 0, 0, data, topic, b""))

    def read(self, *records: Record, who: str = "r") -> None:
        """A consumer gets them."""
        for record in records:
            self.oracle.read(QUEUE, encode(record), record, who)

    def whole(self, *records: Record, first: int = 0) -> None:
        """A broker has these at the end."""
        self.oracle.whole_queue(QUEUE, first, records, "b0")

    def rules(self) -> list[str]:
        """What was violated."""
        return [violation.rule for violation in self.findings.violations]

    def test_all_well(self) -> None:
        """Nothing is found where nothing is wrong."""
        self.acknowledge("a", 0)
        self.read(self.record("a", 0), self.record("a", 0))
        self.acknowledge("b", 1)
        self.whole(self.record("a", 0), self.record("b", 1))
        self.assertEqual(self.rules(), [])
        self.assertEqual(self.oracle.end(QUEUE), 2)
        self.assertEqual(self.oracle.queues("g0"), [QUEUE])

    def test_lost(self) -> None:
        """An acknowledged message is not there."""
        self.acknowledge("a", 0)
        self.acknowledge("b", 1)
        self.whole(self.record("a", 0))
        self.assertEqual(self.rules(), ["acknowledged messages are there (7)"])

    def test_replaced(self) -> None:
        """Another stands in its place."""
        self.acknowledge("a", 0)
        self.oracle.sending(QUEUE, ["b"])
        self.whole(self.record("b", 0))
        self.assertEqual(self.rules(), ["acknowledged messages are there (7)"])

    def test_one_offset_for_two(self) -> None:
        """A1."""
        attempts = [self.oracle.sending(QUEUE, [name]) for name in ("a", "b")]
        for attempt in attempts:
            self.oracle.acknowledged(attempt, 0)
        self.assertEqual(self.rules(), ["queue offsets unique (12)"])

    def test_reordered(self) -> None:
        """What was sent later got an offset below one acknowledged before."""
        self.acknowledge("a", 5)
        self.acknowledge("b", 4)
        self.assertEqual(self.rules(), ["sends are ordered as they were acknowledged"])

    def test_bytes_change(self) -> None:
        """Read twice, and other bytes the second time."""
        self.oracle.sending(QUEUE, ["a"])
        self.read(self.record("a", 0))
        self.read(self.record("a", 0)._replace(physical_offset=7))
        self.assertEqual(self.rules(), ["read bytes never change (18)"])

    def test_delivered_and_gone(self) -> None:
        """Read, never acknowledged, and gone: only a power cut of the only disk may do that."""
        self.oracle.sending(QUEUE, ["a"])
        self.read(self.record("a", 0))
        self.oracle.beyond(QUEUE, 1, 0, "r")
        self.whole()
        self.assertEqual(self.rules(), ["what was delivered stays (7)"] * 2)
        self.oracle.power_lost("g0")
        self.whole()
        self.assertEqual(len(self.rules()), 2)

    def test_an_answer_under_way_when_the_power_goes(self) -> None:
        """What it brings may be gone too, unless it was acknowledged; who asks later sees what stays."""
        self.oracle.sending(QUEUE, ["a"])
        self.oracle.power_lost("g0")
        self.read(self.record("a", 0))
        self.whole()
        self.assertEqual(self.rules(), [])
        self.acknowledge("b", 0)
        self.read(self.record("b", 0))
        self.whole()
        self.assertIn("what was delivered stays (7)", self.rules())
        self.oracle.read(QUEUE, b"", self.record("c", 1), "r", self.oracle.power_losses("g0"))
        self.oracle.beyond(QUEUE, 1, 1, "r")
        self.assertEqual(self.rules().count("what was delivered stays (7)"), 2)

    def test_stored_twice(self) -> None:
        """Sent once, stored twice."""
        self.oracle.sending(QUEUE, ["a"])
        self.whole(self.record("a", 0), self.record("a", 1))
        self.assertEqual(self.rules(), ["no message is stored more often than it was sent"])

    def test_delayed_and_delivered_twice(self) -> None:
        """No crash and no new master is an excuse: the copies in the log say what was delivered."""
        self.oracle.acknowledged_delayed(self.oracle.sending(QUEUE, ["a"]), 1, 0, 0.0, 1.0)
        self.oracle.power_lost("g0")
        self.whole(self.record("a", 0))
        self.assertEqual(self.rules(), [])
        self.whole(self.record("a", 0), self.record("a", 1))
        self.assertEqual(self.rules(), ["no message is stored more often than it was sent"])

    def test_delayed_and_early(self) -> None:
        """A clock may be 5 % fast, and the time of day is set by less than 50 ms unnoticed."""
        for name, sent_s in (("a", 0.0), ("b", 0.02)):
            self.oracle.acknowledged_delayed(self.oracle.sending(QUEUE, [name]), 1, 0, sent_s, 1.0)
        self.world.run(0.91)
        self.read(self.record("a", 0), self.record("b", 1))
        self.oracle.delays(0.0, frozenset())
        self.assertEqual(self.rules(), ["delay levels deliver at their time"])
        self.assertIn("'b'", self.findings.violations[0].what)

    def test_refused_and_seen(self) -> None:
        """A refusal says that it was not stored."""
        self.oracle.refused(self.oracle.sending(QUEUE, ["a"]), 14)
        self.read(self.record("a", 0))
        self.assertEqual(self.rules(), ["what was refused is never seen"])

    def test_other_bodies_and_topics(self) -> None:
        """Never sent, damaged, or of another topic."""
        self.oracle.sending(QUEUE, ["a"])
        self.read(self.record("z", 0))
        self.read(self.record("a", 1, b"a|bodx"))
        self.read(self.record("a", 2, topic="t1"))
        self.assertEqual(
            self.rules(), ["bodies are as they were sent (22)"] * 2 + ["a queue has its own messages only"]
        )

    def test_holes(self) -> None:
        """Offsets without a message, in a queue and in a pull."""
        self.oracle.sending(QUEUE, ["a", "b"])
        self.whole(self.record("a", 0), self.record("b", 2))
        self.oracle.skipped(QUEUE, 1, 2, "r")
        self.assertEqual(self.rules(), ["queue offsets dense (12)", "no pull skips messages"])


class SetupTests(SynchronousTestCase):
    """What a seed expands to."""

    def test_expansion(self) -> None:
        """Every mode comes up; faults fit the settings; the same seed is the same setup."""
        made = [expand_cluster(seed, SECONDS) for seed in range(60)]
        self.assertEqual({each.mode for each in made}, set(MODES))
        self.assertEqual({each.sync_flush for each in made}, {True, False})
        for setup in made:
            kinds = {fault.kind for fault in setup.faults}
            if not setup.sync_flush:
                self.assertEqual(kinds & {"power", "power-all"}, set())
            for fault in setup.faults:
                self.assertLessEqual(set(fault.targets), {*setup.nodes, *setup.clients})
            self.assertEqual(setup, expand_cluster(setup.seed, SECONDS))
            self.assertEqual(len(setup.rates), len(setup.nodes) + len(setup.clients))

    def test_addresses(self) -> None:
        """Hosts have the addresses that the setup says."""
        setup = expand_cluster(1, SECONDS, ())
        world = World(1)
        ClusterScenario(setup, world)
        for name, host in world.hosts.items():
            self.assertEqual(setup.address(name, 7), f"{host.address}:7")


class MutationTests(SynchronousTestCase):
    """Broken brokers are noticed; all of them: ``python -m tests.simulation.cluster_mutations``."""

    def test_a_few_are_caught(self) -> None:
        """Within seconds, each in a process of its own."""
        for name in QUICK:
            with self.subTest(name):
                caught, said = cluster_mutations.in_a_process(name)
                self.assertTrue(caught, said)

    @pytest.mark.soak
    def test_all_are_caught(self) -> None:
        """With ROCKETHA_SOAK=1 every one; else another of the quick ones."""
        names = list(cluster_mutations.MUTATIONS) if os.environ.get("ROCKETHA_SOAK") else ["refused-and-stored"]
        escaped = {n: said for n in names for caught, said in [cluster_mutations.in_a_process(n)] if not caught}
        self.assertEqual(escaped, {})
