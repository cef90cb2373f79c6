"""Projections: the same rows as from the logs, with every option, and never those of a log that is no more."""

from __future__ import annotations

import random
import shutil
import tempfile
import unittest
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from rocketha.errors import ConfigError
from rocketha.export.manifest import BLOCK_BYTES
from rocketha.wire.record import Record
from rocketha_spark import projection
from rocketha_spark.audits import audit
from rocketha_spark.counts import count
from rocketha_spark.exports import opened
from rocketha_spark.figures import figure
from rocketha_spark.read import read
from rocketha_spark.source import load
from tests.export.stores import FILE_BYTES, LedgerStore
from tests.spark import logs
from tests.spark.session import session

ALL = projection.WITHIN


def is_plain(record: Record) -> bool:
    """Whether its body begins at byte 88, and byte 90 is one of it."""
    return len(record.body) > 100 and not record.sys_flag & 0x30


class ProjectionTests(unittest.TestCase):
    """A log that goes on, is cut and is damaged, and its export."""

    maxDiff = None

    def setUp(self) -> None:
        self.spark = session()
        folder = tempfile.TemporaryDirectory(prefix="rocketha-spark-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.out = self.root / "[a] b"  # no pattern, though it looks like one
        self.chance = random.Random(5)

    def fill(self, seed: int = 1, records: int = 300, *big: int) -> None:
        self.store = logs.filled(self.root / "store", seed, records, *big)
        self.export()

    def append(self, records: int, more: int = 0) -> None:
        some = (logs.any_record(self.chance) for _ in range(records))
        self.store.append([each._replace(body=each.body + self.chance.randbytes(more)) for each in some])

    def export(self, replica: str = "a") -> None:
        self.manifest = self.store.export(self.out, replica)

    def project(self) -> int:
        return projection.project(self.spark, str(self.out))

    def table(self, *columns: str, **options: str) -> DataFrame:
        return read(self.spark, str(self.out), columns or ALL, **options)

    def files(self, table: DataFrame) -> set[str]:
        """The segments that it reads from projections."""
        return {Path(each).parent.name[:20] for each in table.inputFiles()}

    def assert_same(self, **options: str) -> DataFrame:
        """As read from the log; the table."""
        table = self.table(**options)
        from_log = load(self.spark, str(self.out), ALL, options)
        self.assertEqual(table.schema.simpleString(), from_log.schema.simpleString())
        found, wanted = (sorted(each.collect(), key=lambda row: row.phys_offset) for each in (table, from_log))
        self.assertEqual(found, wanted)
        self.assertTrue(found)
        return table

    def segments(self) -> set[str]:
        return {f"{each.base:020d}" for each in self.manifest.segments if each.messages}

    def test_every_column_and_option(self) -> None:
        self.fill()
        self.append(40)
        self.export()  # the tail is not confirmed
        self.assertGreater(self.manifest.end, self.manifest.confirmed)
        self.assertEqual(self.files(self.table()), set())
        self.assertEqual(self.project(), len(self.segments()))
        self.assertEqual(self.files(self.assert_same(onlyConfirmed="false")), self.segments())
        self.assert_same()
        topics = sorted({queue.topic for segment in self.manifest.segments for queue in segment.queues})
        self.assert_same(topics=f"{topics[0]},nothing")
        self.assert_same(topics=f"re:{topics[1][:-1]}.+", onlyConfirmed="false")
        self.assert_same(onCorrupt="skip", partitionBytes="4m", pushFilters="true")
        places = sorted(self.store.records)
        low, high = places[len(places) // 3], places[len(places) // 2] + 1
        self.assert_same(startingOffsets=str(low), endingOffsets=str(high))
        some = self.files(self.assert_same(STARTINGOFFSETS=str(low), endingoffsets=str(high)))
        self.assertLess(len(some), len(self.segments()))
        inside = self.table("phys_offset", startingOffsets=str(low), endingOffsets=str(high))
        self.assertEqual(inside.count(), sum(low <= each < high for each in places))
        self.assertEqual(count(str(self.out), startingOffsets=str(low), endingOffsets=str(high)), inside.count())

    def test_what_is_not_in_it_is_read_from_the_log(self) -> None:
        self.fill()
        self.project()
        for name in ("body", "properties", "epoch", "record_digest", "crc_ok", "source_file"):
            with self.subTest(name):
                self.assertEqual(self.files(self.table("topic", name)), set())
        self.assertEqual(self.files(read(self.spark, str(self.out))), set())

    def test_a_log_that_goes_on(self) -> None:
        """What is new is read from the log, until it is projected; what was there is not written again."""
        self.fill(1, 150, BLOCK_BYTES, 80_000)
        self.project()
        before = self.files(self.table())
        self.append(100, 80_000)
        self.store.confirm(self.store.end)
        self.export()
        new = self.segments() - before
        self.assertGreaterEqual(len(new), 2)
        kept = self.files(self.assert_same())
        self.assertLess(len(kept), len(self.segments()))
        self.assertGreaterEqual(len(kept), len(before) - 1)
        self.assertEqual(self.project(), len(self.segments()) - len(kept))
        self.assertEqual(self.files(self.assert_same()), self.segments())
        self.assertEqual(self.project(), 0)
        self.assertEqual(len(list((self.out / "projection").glob("[0-9]*"))), len(self.segments()))

    def test_a_log_that_was_cut(self) -> None:
        """The records that stand there now are found, not those that stood there."""
        self.fill()
        self.append(30)
        self.export()
        self.project()
        self.store.cut(self.manifest.confirmed)
        self.append(30)
        self.export()
        self.assertTrue(self.manifest.cuts)
        self.assert_same(onlyConfirmed="false")
        self.project()
        self.assertEqual(self.files(self.assert_same(onlyConfirmed="false")), self.segments())

    def test_one_that_broke_off(self) -> None:
        self.fill()
        self.project()
        broken = sorted((self.out / "projection").iterdir())[1]
        (broken / "_SUCCESS").unlink()
        self.assertEqual(len(self.files(self.assert_same())), len(self.segments()) - 1)
        self.assertEqual(self.project(), 1)
        self.assertEqual(self.files(self.assert_same()), self.segments())

    def test_damaged_records_are_not_projected(self) -> None:
        self.store = logs.filled(self.root / "store", 1, 300)
        place = next(at for at, each in sorted(self.store.records.items())[100:] if is_plain(each))
        path = self.root / "store/commitlog" / f"{place - place % FILE_BYTES:020d}"
        data = bytearray(path.read_bytes())
        data[place % FILE_BYTES + 90] ^= 4  # of its body
        path.write_bytes(data)
        self.manifest = self.store.export(self.out, "a", corrupt_too=True)
        damaged = [f"{each.base:020d}" for each in self.manifest.segments if each.corrupt]
        self.assertEqual(len(damaged), 1)
        self.project()
        self.assertEqual(self.files(self.assert_same(onCorrupt="row")), self.segments() - set(damaged))
        self.assert_same(onCorrupt="skip")
        with self.assertRaisesRegex(PySparkException, f"log offset {place}"):
            self.table("topic").collect()

    def test_several_replicas(self) -> None:
        """Of which one has a projection."""
        self.fill()
        self.project()
        shutil.copytree(self.out, self.root / "x", ignore=shutil.ignore_patterns("projection"))
        self.store.export(self.root / "other", "b")
        path = str(self.root / "[[]*b")
        self.assertEqual(read(self.spark, path, ALL, onlyConfirmed="false").count(), len(self.store.records))
        shutil.move(self.root / "other", self.root / "[b]")
        both = read(
            self.spark, str(self.root / "[[]*"), ("replica", "phys_offset", "broker_id", "confirmed"), replica="all"
        )
        from_logs = load(self.spark, str(self.root / "[[]*"), both.columns, {})
        self.assertEqual(self.files(both), self.segments())
        self.assertEqual(sorted(both.collect()), sorted(from_logs.collect()))
        self.assertEqual({row.replica for row in both.collect()}, {"a", "b"})

    def test_questions_are_answered_alike(self) -> None:
        self.fill()
        ask = {
            "duplicates": lambda: audit(self.spark, "duplicates", str(self.out)),
            "cost": lambda: figure(self.spark, "cost", str(self.out)),
            "lag": lambda: figure(self.spark, "lag", str(self.out)),
            "skew": lambda: figure(self.spark, "skew", str(self.out)),
        }
        before = {name: sorted(map(str, way().collect())) for name, way in ask.items()}
        self.project()
        for name, way in ask.items():
            self.assertEqual(self.files(way()), self.segments(), name)
            self.assertEqual(sorted(map(str, way().collect())), before[name], name)

    def test_entries_of_dledger(self) -> None:
        self.store = LedgerStore(self.root / "store", 64 << 10)
        self.store.append([logs.any_record(self.chance) for _ in range(120)])
        self.store.confirm(self.store.end)
        self.export()
        self.project()
        self.assertEqual(self.files(self.assert_same()), self.segments())
        place = sorted(self.store.records)[50]
        table = self.assert_same(startingOffsets=str(place))
        self.assertEqual(table.count(), len(self.store.records) - 50)

    def test_one_run_at_a_time(self) -> None:
        self.fill(records=20)
        with projection._locked(opened(str(self.out))[0]), self.assertRaisesRegex(ConfigError, "another run writes"):
            self.project()
        self.assertEqual(self.project(), len(self.segments()))

    def test_kinds_of_offsets(self) -> None:
        """A kind without offsets says nothing, also where a part is read from the log."""
        self.store = LedgerStore(self.root / "store", 64 << 10)
        self.store.append([logs.any_record(self.chance) for _ in range(200)])
        self.store.confirm(self.store.end)
        self.export()
        self.project()
        shutil.rmtree(sorted((self.out / "projection").iterdir())[-1])
        for kind in ("ledger", "queue"):
            table = self.assert_same(offsetKind=kind)
            self.assertTrue(0 < len(self.files(table)) < len(self.segments()))

    def test_no_export(self) -> None:
        with self.assertRaises(ConfigError):
            projection.project(self.spark, str(self.root / "none"))
