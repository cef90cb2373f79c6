"""What the benchmark of replicas starts, counts and reports."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import attrs

from benchmarks import machine, replicas, rows
from tests.interop.harness.controllers import ReplicaGroup
from tests.interop.harness.processes import NotReady
from tests.interop.harness.roles import Role

OWN = ("listenPort", "haListenPort", "namesrvAddr", "controllerAddr", "storePathRootDir", "storePathCommitLog")


def found(rate: float, **more: float) -> replicas.Found:
    """A row's figures."""
    return replicas.Found(rate, 2.0, 8.0, 9.0, 40.0, 30.0, 20.0, 1.0, 0.5, 0.25)._replace(**more)


class BrokersTests(unittest.TestCase):
    """What is measured; nothing is started here."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def group(self, side: str, kind: str) -> tuple[ReplicaGroup, replicas.Brokers]:
        """A kind of brokers under controllers; its second replica is the master."""
        groups: list[ReplicaGroup] = []

        def start(group: ReplicaGroup, timeout_s: float) -> None:
            groups.append(group)

        with (
            mock.patch.object(ReplicaGroup, "start", start),
            mock.patch.object(ReplicaGroup, "master", lambda group: group.brokers[1]),
        ):
            brokers = replicas.KINDS[kind](side, self.folder / side / kind)
        return groups[0], brokers

    def test_all_replicas_acknowledge(self) -> None:
        """On both sides in the same way, and nothing is taken by fewer."""
        for kind, count in (("set2", 2), ("set3", 3)):
            settings = []
            for side in ("ours", "java"):
                group, brokers = self.group(side, kind)
                self.assertIs(brokers.master, group.brokers[1])
                self.assertEqual([len(brokers.slaves), len(brokers.controllers)], [count - 1, 3])
                self.assertEqual({group.controllers.kind, *(b.implementation for b in group.brokers)}, {side})
                for broker in group.brokers:
                    given = {**broker.configuration(), **broker.extra}
                    self.assertIs(given["allAckInSyncStateSet"], True)
                    copies = [given[key] for key in ("minInSyncReplicas", "inSyncReplicas", "totalReplicas")]
                    self.assertEqual(copies, [count] * 3)
                    settings.append({key: value for key, value in given.items() if key not in OWN})
            self.assertEqual(settings, settings[:1] * 2 * count)

    def test_how_java_runs(self) -> None:
        """As in the comparison of single brokers, not as in tests."""
        group, _ = self.group("java", "set2")
        for broker in group.brokers:
            with mock.patch("tests.interop.harness.jars.java_command", return_value=["java"]) as command:
                broker.command()
            self.assertEqual(
                (command.call_args.kwargs["quick"], command.call_args.kwargs["heap_mb"]), (False, replicas.JAVA_HEAP_MB)
            )


class CountingTests(unittest.TestCase):
    """Whose CPU time is whose."""

    def test_one_row(self) -> None:
        """Slaves and controllers are apart; a send that was refused is no row."""
        roles: list[Role] = [mock.Mock(spec=Role) for _ in range(6)]
        brokers = replicas.Brokers(roles[0], roles[1:3], roles[3:], "n:1")
        given = argparse.Namespace(size=1024, seconds=1, warmup=0)
        got = rows.Result(
            "x", "sync64", 1024, 10, 5.0, 2.0, 8.0, 9.0, 0, 30.0, 0.3, 0.5, 0.25, 1, (20.0, 21.0, 1.0, 2.0, 3.0), 40.0
        )
        with mock.patch.object(rows, "produce", return_value=got) as produce:
            self.assertEqual(
                replicas.one("ours set3", "sync64", brokers, Path(), given),
                replicas.Found(5.0, 2.0, 8.0, 9.0, 40.0, 30.0, 41.0, 6.0, 0.5, 0.25),
            )
        self.assertEqual(produce.call_args.args[-1], roles[1:])
        refused = attrs.evolve(got, errors=1)
        with mock.patch.object(rows, "produce", return_value=refused), self.assertRaises(rows.LoadFailed):
            replicas.one("ours set3", "sync64", brokers, Path(), given)

    def test_cost_of_those_beside(self) -> None:
        """Each by itself, and none of them among the others."""
        sampler = machine.Sampler(0, 0)
        sampler.stop()
        sampler._samples = [
            machine.Sample(1.0, 10.0, 20.0, (1.0, 2.0), 50.0, 7),
            machine.Sample(3.0, 11.0, 20.5, (1.25, 2.5), 53.0, 9),
        ]
        self.assertEqual(sampler.cost(0, 4), machine.Cost(2.0, 1.0, 0.5, (0.25, 0.5), 0.75, 9))


class ReportTests(unittest.TestCase):
    """The table, and runs of which not all succeed."""

    def test_table(self) -> None:
        """Medians, ratios of kinds that were measured, ours beside Java's where both were."""
        measured = {
            ("ours", "set2", "sync64"): [found(1000.0), found(3000.0), found(2000.0)],
            ("ours", "set3", "sync64"): [found(1500.0, p99_ms=4.0, slaves_cpu=70.0)],
            ("java", "set3", "sync64"): [found(3000.0)],
        }
        shown = replicas.table(measured, argparse.Namespace(sides=["ours", "java"], rows=["sync64"])).splitlines()
        self.assertEqual(
            [" ".join(line.split()) for line in shown[1:]],
            [
                "ours sync64 set2 2,000 2.000 8.000 9.000 40.0 30.0 20.0 1.0 50% 25%",
                "ours sync64 set3 1,500 2.000 4.000 9.000 40.0 30.0 70.0 1.0 50% 25%",
                "ours sync64 set3 / set2 0.75",
                "java sync64 set3 3,000 2.000 8.000 9.000 40.0 30.0 20.0 1.0 50% 25%",
                "sync64 set3 ours/java: messages/s 0.50, p50 1.00, p99 0.50, p99.9 1.00, CPU of all a message 2.00",
            ],
        )

    def test_both_kinds_of_javas(self) -> None:
        """Ours in DLedger mode stands beside each, and beside our own ASYNC_MASTER."""
        measured = {
            ("ours", "async", "sync64"): [found(3000.0)],
            ("ours", "ledger3", "sync64"): [found(1500.0)],
            ("java", "ledger3", "sync64"): [found(500.0)],
            ("java", "ledger3b", "sync64"): [found(750.0, p999_ms=18.0)],
        }
        shown = replicas.table(measured, argparse.Namespace(sides=["ours"], rows=["sync64"])).splitlines()
        self.assertEqual(
            [" ".join(line.split()) for line in shown[3:]],
            [
                "ours sync64 ledger3 / async 0.50",
                *(
                    f"sync64 {other} ours/java: messages/s {rate}, p50 1.00, p99 1.00, p99.9 {late}, CPU of all "
                    "a message 1.00"
                    for other, rate, late in (("ledger3", "3.00", "1.00"), ("ledger3b", "2.00", "0.50"))
                ),
            ],
        )

    def test_warm_up(self) -> None:
        """Of both sides the same; Java's compilers need longer than we do."""
        for words, seconds in (("", 5), ("--sides ours,java", 30), ("--sides java --warmup 2.5", 2.5)):
            with mock.patch.object(sys, "argv", ["replicas", *words.split()]):
                self.assertEqual(replicas.options().warmup, seconds, words)

    def test_a_group_that_fails(self) -> None:
        """The others are measured and reported; the status says it, and the file why."""

        def measure(side: str, kind: str, folder: Path, given: argparse.Namespace) -> dict[str, replicas.Found]:
            if (side, kind) == ("java", "set2"):
                raise NotReady("not within 240 s")
            return {row: found(1000.0) for row in given.rows}

        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            command = f"replicas --rounds 1 --kinds set2,set3 --rows sync64 --sides ours,java --out {out}".split()
            with (
                mock.patch.object(sys, "argv", command),
                mock.patch.object(replicas, "measure", measure),
                mock.patch.object(replicas, "jars"),
                contextlib.redirect_stdout(io.StringIO()) as said,
            ):
                self.assertEqual(replicas.main(), 1)
            kept = json.loads(out.read_text())
        self.assertEqual(kept["failures"], ["java set2: not within 240 s"])
        self.assertEqual(sorted(kept["runs"]), ["java set3 sync64", "ours set2 sync64", "ours set3 sync64"])
        self.assertIn("failed: java set2: not within 240 s\n", said.getvalue())
        self.assertIn("ours/java: messages/s 1.00", said.getvalue())
