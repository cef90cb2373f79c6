"""The table as Spark gives it: in queries, with their filters, of several replicas, with wrong options."""

from __future__ import annotations

import datetime
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from rocketha.export.manifest import Manifest
from rocketha_spark.read import read
from rocketha_spark.schema import ARROW_TYPES
from rocketha_spark.source import HANDS_FILTERS
from tests.spark import logs
from tests.spark.session import session


class SourceTests(unittest.TestCase):
    """One log, exported as two replicas, of which one is behind."""

    maxDiff = None
    root: Path
    manifest: Manifest
    wanted: list[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.spark = session()
        folder = tempfile.TemporaryDirectory(prefix="rocketha-spark-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        cls.store = logs.filled(cls.root / "store", 1, 600)
        cls.behind = cls.store.export(cls.root / "b", "b", 2)
        chance = random.Random(2)
        cls.store.append([logs.any_record(chance) for _ in range(30)])
        cls.store.confirm(cls.store.end)
        cls.manifest = cls.store.export(cls.root / "a", "a")
        cls.wanted = list(logs.rows(cls.store.records, cls.manifest, cls.root / "a"))

    def load(self, path: str = "a", **options: str) -> DataFrame:
        return self.spark.read.format("rocketha").options(**options).load(str(self.root / path))

    def assert_rows(self, table: DataFrame, wanted: list[dict[str, Any]]) -> None:
        found = sorted((row.asDict() for row in table.collect()), key=lambda row: (row["replica"], row["phys_offset"]))
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted, strict=True):
            if one.get("properties") is not None:
                one["properties"] = sorted(one["properties"].items())
            for name in ("born_ts", "store_ts"):
                one[name] = one[name].astimezone(datetime.UTC)
            self.assertEqual(one, other)

    def test_whole_table(self) -> None:
        self.assertEqual(self.load().columns, list(ARROW_TYPES))
        self.assert_rows(self.load(), self.wanted)

    def test_replicas(self) -> None:
        """A glob of two; of the one that is behind only what is confirmed."""
        behind = [row for row in logs.rows(self.store.records, self.behind, self.root / "b") if row["confirmed"]]
        self.assertTrue(0 < len(behind) < self.behind.messages)
        self.assert_rows(self.load("[ab]"), [*self.wanted, *behind])

    @unittest.skipUnless(HANDS_FILTERS, "Spark hands down no filters before 4.1")
    def test_filters(self) -> None:
        """With and without telling the reader, a query has the same rows."""
        middle = self.wanted[300]
        conditions = [
            sql.col("topic") == "A",
            sql.col("topic").isin("B", "Thema-ä") & (sql.col("queue_id") == 1),
            (sql.col("store_ts") >= middle["store_ts"]) & (sql.col("store_ts") < self.wanted[330]["store_ts"]),
            sql.col("store_ts") == middle["store_ts"],
            sql.col("phys_offset").between(middle["phys_offset"] + 1, self.wanted[310]["phys_offset"]),
            sql.col("phys_offset") == middle["phys_offset"],
            (sql.col("topic") != "A") | sql.col("tags").isNull(),
            ~sql.col("queue_id").isin(0, 1),
            sql.col("queue_offset") < 3,
        ]
        for condition in conditions:
            plain = self.load().where(condition).select("phys_offset", "chain_digest").collect()
            pushed = self.load(pushFilters="true").where(condition).select("phys_offset", "chain_digest").collect()
            self.assertEqual(sorted(plain), sorted(pushed), condition)
            self.assertTrue(0 < len(plain) < len(self.wanted), condition)

    def test_given_schema(self) -> None:
        """Columns that are not asked for are not made; what is not there is refused."""
        table = read(self.spark, str(self.root / "a"), ("body_length", "topic"))
        self.assertEqual(table.columns, ["body_length", "topic"])
        sums = {
            row["topic"]: row["sum"]
            for row in table.groupBy("topic").agg(sql.sum("body_length").alias("sum")).collect()
        }
        wanted: dict[str, int] = {}
        for row in self.wanted:
            wanted[row["topic"]] = wanted.get(row["topic"], 0) + row["body_length"]
        self.assertEqual(sums, wanted)
        for schema, says in (
            ("nonsense int", "no column 'nonsense'"),
            ("queue_id bigint", "queue_id is int, not bigint"),
        ):
            with self.assertRaisesRegex(PySparkException, says):
                self.spark.read.format("rocketha").schema(schema).load(str(self.root / "a")).collect()

    def test_wrong_options(self) -> None:
        for option, value, says in (
            ("topic", "A", "no option 'topic'; there are path, replica, cuts, topics"),
            ("onCorrupt", "ignore", "onCorrupt is one of fail, row, skip"),
            ("onlyConfirmed", "1", "onlyConfirmed is true or false"),
            ("partitionBytes", "-1", "partitionBytes is a number of bytes"),
            ("topics", "re:(", "is no regular expression"),
            ("topics", " ,", "topics names none"),
        ):
            with self.assertRaisesRegex((AnalysisException, PySparkException), says):
                self.load(**{option: value}).collect()
        with self.assertRaisesRegex(PySparkException, "no export at .*nowhere"):
            self.load("nowhere").collect()
        with self.assertRaisesRegex(PySparkException, "is no export: it has no manifest.json"):
            self.load("store").collect()

    @unittest.skipIf(HANDS_FILTERS, "Spark hands down filters from 4.1 on")
    def test_filters_of_an_earlier_spark(self) -> None:
        with self.assertRaisesRegex(PySparkException, "pushFilters needs Spark 4.1"):
            self.load(pushFilters="true").count()

    def test_damage_ends_the_query(self) -> None:
        """With the file and the offset in what the user sees."""
        copy = self.root / "damaged"
        shutil.copytree(self.root / "a", copy)
        at = sorted(self.store.records)[200]
        path = copy / "commitlog" / f"{at - at % self.manifest.file_size:020d}"
        data = bytearray(path.read_bytes())
        data[at % self.manifest.file_size] ^= 1
        path.write_bytes(data)
        with self.assertRaisesRegex(PySparkException, f"{path.name}.*log offset {at}"):
            self.load("damaged").collect()
        self.assertEqual(self.load("damaged", onCorrupt="skip").count(), len(self.wanted) - 1)
        bad = self.load("damaged", onCorrupt="row").where("not crc_ok").select("phys_offset", "topic").collect()
        self.assertEqual([tuple(row) for row in bad], [(at, None)])
        before = sql.col("phys_offset") < at
        with self.assertRaisesRegex(PySparkException, f"log offset {at}"):
            self.load("damaged").where(before).collect()
        if not HANDS_FILTERS:
            return
        segment = next(each for each in self.manifest.segments if each.base <= at < each.end)
        before = sql.col("phys_offset") < segment.base
        rows = self.load("damaged", pushFilters="true").where(before).count()  # the damaged file is not even read
        self.assertEqual(rows, sum(each["phys_offset"] < segment.base for each in self.wanted))

    def test_found_without_registering(self) -> None:
        """In a session that was told nothing, by its name alone."""
        program = (
            "from pyspark.sql import SparkSession\n"
            "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
            f"table = spark.read.format('rocketha').schema('phys_offset bigint').load({str(self.root / 'a')!r})\n"
            "print('rows', table.count())\n"
        )
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, cwd=self.root, capture_output=True, text=True, timeout=120)
        self.assertIn(f"rows {len(self.wanted)}\n", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
