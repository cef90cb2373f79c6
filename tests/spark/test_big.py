"""Audits of a log of many messages, against the same found record by record; and what a worker's memory is.

24 MiB in a test run; 1 GiB, and 10 GiB for memory, with ``ROCKETHA_SOAK=1``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from rocketha_spark import audits, figures
from rocketha_spark.engines import made, plans
from rocketha_spark.read import read
from tests.seeds import SeededCase
from tests.spark.big import audited, cut, decoded, figured, key_of, written
from tests.spark.engines import OnDuck, OnSpark
from tests.spark.session import session

SOAK = os.environ.get("ROCKETHA_SOAK") == "1"
FILE_BYTES = 64 << 20 if SOAK else 4 << 20
WORKER_BYTES_MAX = 512 << 20


def worker_peaks() -> dict[int, int]:
    """Of each Python worker of this process's Spark the most memory that it ever had, in bytes."""
    parents, peaks = {}, {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            status = dict(line.split(":\t", 1) for line in (path / "status").read_text().splitlines() if ":\t" in line)
            command = (path / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(path.name)] = int(status["PPid"])
        if b"pyspark" in command and b"daemon" in command and "VmHWM" in status:
            peaks[int(path.name)] = int(status["VmHWM"].split()[0]) << 10
    ours = {}
    for number, peak in peaks.items():
        above = number
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            ours[number] = peak
    return ours


def _root(case: unittest.TestCase) -> Path:
    folder = tempfile.TemporaryDirectory(prefix="rocketha-big-")
    case.addCleanup(folder.cleanup)
    return Path(folder.name)


@pytest.mark.soak
class BigTests(OnSpark, SeededCase):
    """Two replicas of a log with faults of every kind."""

    maxDiff = 4000

    def setUp(self) -> None:
        self.root = _root(self)
        self.session = self.started()

    def test_against_brute_force(self) -> None:
        """Holes, doubles and clocks set back, in one log; then a bit, a record and an epoch of its replica."""
        log = written(self.root / "store", 1024 if SOAK else 24, self.seed, FILE_BYTES)
        count = len(log.starts)
        second = log.starts[count // 3]
        log.epochs({1: 0, 2: second, 5: log.starts[2 * count // 3]})
        log.export(self.root / "a", 1)
        wanted = audited(self.root / "a")
        self.assertTrue(all(len(each) > 3 for each in wanted.values()))
        rows = {
            name: audits.audit(self.session, name, str(self.root / "a"), partitionBytes="64m").collect()
            for name in ("loss", "duplicates", "order", "corrupt", "divergence", "epochs")
        }
        found = {
            "loss": [(r["topic"], r["queue_id"], r["first"], r["last"], r["phys_offset"]) for r in rows["loss"]],
            "duplicates": [r["phys_offsets"] for r in rows["duplicates"]],
            "order": [(r["kind"], r["phys_offset"]) for r in rows["order"]],
        }
        for name, each in found.items():
            self.assertEqual(sorted(each), sorted(wanted[name]), name)  # type: ignore[type-var]
        self.assertEqual([rows[name] for name in ("corrupt", "divergence", "epochs")], [[], [], []])

        # a record of another content, whose CRC is right, in epoch 2; epoch 5 begins a record later
        other = self.chance.randrange(count // 3 + 5, 2 * count // 3 - 5)
        log.change(log.starts[other] + 19, 1)  # its flag
        log.epochs({1: 0, 2: second, 5: log.starts[2 * count // 3 + 1]})
        log.export(self.root / "b", 2)
        # a bit of a body in epoch 1, after it was exported
        bit = self.chance.randrange(5, count // 3 - 5)
        at = log.starts[bit] + 300
        with open(self.root / "b" / "commitlog" / f"{at - at % FILE_BYTES:020d}", "r+b") as file:
            file.seek(at % FILE_BYTES)
            (byte,) = file.read(1)
            file.seek(at % FILE_BYTES)
            file.write(bytes((byte ^ 0x10,)))
        shutil.rmtree(self.root / "store")
        parted = {}
        for (where, _, ours, _), (_, _, theirs, _) in zip(
            decoded(self.root / "a"), decoded(self.root / "b"), strict=True
        ):
            if ours != theirs:
                parted[where] = where
        self.assertEqual(sorted(parted), sorted((log.starts[bit], log.starts[other])))
        both = str(self.root / "[ab]")
        damaged = audits.audit(self.session, "corrupt", both).collect()
        self.assertEqual([(r["replica"], r["phys_offset"]) for r in damaged], [("b", log.starts[bit])])
        differ = audits.audit(self.session, "divergence", both).collect()
        self.assertEqual(
            {r["epoch"]: (r["phys_offset"], r["replicas"], r["contents"]) for r in differ},
            {1: (log.starts[bit], 2, 2), 2: (log.starts[other], 2, 2)},
        )
        starts = audits.audit(self.session, "epochs", both).collect()
        self.assertEqual(
            [(r["kind"], r["replica"], r["epoch"], r["phys_offset"]) for r in starts],
            [("start", "b", 5, log.starts[2 * count // 3 + 1])],
        )
        sys.stderr.write(f"{count} messages, seed {self.seed}: {[len(each) for each in wanted.values()]} findings\n")

    def test_figures_against_brute_force(self) -> None:
        """Delays, skew, cost and what a group has ahead; then a tail that was taken back, part of it sent again."""
        log = written(self.root / "store", 1024 if SOAK else 24, self.seed, FILE_BYTES)
        log.epochs({1: 0})
        consumed = {(f"Topic{queue // 4}", queue % 4): 100 * queue for queue in range(8)}
        (self.root / "store" / "config").mkdir()
        text: dict[str, dict[str, int]] = {}
        for (topic, queue), offset in consumed.items():
            text.setdefault(f"{topic}@g", {})[str(queue)] = offset
        (self.root / "store/config/consumerOffset.json").write_text(json.dumps({"offsetTable": text}))
        path = self.root / "a"
        log.export(path, 1)
        wanted = figured(path, consumed)
        rows = {name: figures.figure(self.session, name, str(path)) for name in wanted}
        rows["lag"] = rows["lag"].withColumn("begin", plans(rows["lag"]).sql.unix_seconds("begin"))
        found = {
            "lag": {r[1]: (r[2], *(round(each, 6) for each in r[3:7]), r[7]) for r in rows["lag"].collect()},
            "skew": {(r[1], r[2]): (r[3], r[4], round(r[5], 6)) for r in rows["skew"].collect()},
            "cost": {
                (r["dt"], r["topic"]): (r["messages"], r["bytes"], r["body_bytes"]) for r in rows["cost"].collect()
            },
            "consumer_lag": {
                (r["topic"], r["queue_id"]): (r["consumer_offset"], r["end"], r["messages"], r["behind_ms"])
                for r in rows["consumer_lag"].collect()
            },
        }
        for name, each in wanted.items():
            self.assertEqual(found[name], each, name)
            self.assertTrue(each)

        # the newest tenth is taken back; a producer's ledger still has it
        before = [(at, record.topic, key_of(record)) for at, _, _, record in decoded(path)]
        place = log.starts[len(log.starts) * 9 // 10]
        cut(log, place)
        log.export(path, 1)
        kept = {each[1:] for each in before if each[0] < place}
        gone = [each for each in before if each[0] >= place and each[1:] not in kept]
        taken = audits.audit(self.session, "unclean", str(path), onlyConfirmed="false").collect()
        self.assertEqual(sorted((r["phys_offset"], r["topic"], r["uniq_key"]) for r in taken), gone)
        keys = pa.schema([("topic", pa.string()), ("uniq_key", pa.string())])
        ledger = made(self.session, [each[1:] for each in before], keys)
        table = read(self.session, str(path), audits.COLUMNS["unkept"], onlyConfirmed="false")
        missing = audits.unkept(table, ledger).collect()
        self.assertEqual(sorted((r["topic"], r["uniq_key"]) for r in missing), sorted(each[1:] for each in gone))
        sys.stderr.write(f"{len(before)} messages, seed {self.seed}: {len(gone)} taken back\n")


class DuckBigTests(OnDuck, BigTests):
    """Without Spark."""


@pytest.mark.soak
class MemoryTests(SeededCase):
    """What a worker of Spark's takes."""

    def test_memory(self) -> None:
        """Of workers that read everything, with digests, maps and bodies."""
        root = _root(self)
        log = written(root / "store", 10 << 10 if SOAK else 64, self.seed, FILE_BYTES)
        log.epochs({1: 0})
        log.export(root / "a", 1)
        shutil.rmtree(root / "store")
        table = read(session(), str(root / "a"))
        found = table.agg(sql.count("*"), *(sql.max(sql.hash(each)) for each in table.columns if each != "properties"))
        self.assertEqual(found.collect()[0][0], len(log.starts))
        self.assertEqual(
            read(session(), str(root / "a"), ["properties"]).where("size(properties) = 2").count(), len(log.starts)
        )
        peaks = worker_peaks()
        self.assertGreater(len(peaks), 1)
        self.assertLess(max(peaks.values()), WORKER_BYTES_MAX)
        sys.stderr.write(f"{log.end >> 20} MiB: workers had at most {[each >> 20 for each in peaks.values()]} MiB\n")


if __name__ == "__main__":
    unittest.main()
