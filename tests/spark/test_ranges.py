"""Where reading begins and ends, by each kind of offset and by time: the rows of a loop over all of them, no others."""

from __future__ import annotations

import datetime
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame

from rocketha.errors import ConfigError, CorruptStore
from rocketha.export.manifest import BLOCK_BYTES
from rocketha_spark.counts import count
from rocketha_spark.options import parse
from rocketha_spark.source import Reader, StreamReader, Task, load
from rocketha_spark.stream import POSITION
from tests.export.stores import LedgerStore
from tests.spark.session import session
from tests.spark.test_columns import Case, table

NAMES = ("phys_offset", "topic", "queue_id", "queue_offset", "store_ts", "ledger_index")
Row = dict[str, Any]


class RangeTests(Case):
    """A log of three files."""

    def setUp(self) -> None:
        super().setUp()
        self.store, self.manifest = self.exported(21)
        self.rows = table(self.out, NAMES)
        self.assertGreater(len(self.manifest.segments), 2)

    def assert_kept(self, which: Callable[[Row], bool], **options: str) -> None:
        kept = [row for row in self.rows if which(row)]
        self.assertEqual(table(self.out, NAMES, **options), kept, options)
        self.assertEqual(count(str(self.out), **options), len(kept), options)

    def two(self, name: str) -> tuple[Any, Any]:
        low, high = sorted(self.chance.sample([row[name] for row in self.rows], 2))
        return low, high

    def test_places_in_the_log(self) -> None:
        """Also between records."""
        for _ in range(10):
            low, high = self.two("phys_offset")
            low -= self.chance.choice((0, 1))
            low = max(low, 0)
            self.assert_kept(
                lambda row, low=low, high=high: low <= row["phys_offset"] < high,
                startingOffsets=str(low),
                endingOffsets=json.dumps({"r": high}),
            )
            self.assert_kept(lambda row, high=high: row["phys_offset"] < high, ENDINGOFFSETS=str(high))

    def test_queues(self) -> None:
        """Those that are named from and to where is said, the others whole; a topic that is no ASCII too."""
        queues = sorted({(row["topic"], row["queue_id"]) for row in self.rows if row["queue_id"] >= 0})
        for _ in range(10):
            named = self.chance.sample(queues, 3)
            low: dict[str, dict[str, int]] = {}
            high: dict[str, dict[str, int]] = {}
            for topic, queue in named:
                offsets = [r["queue_offset"] for r in self.rows if (r["topic"], r["queue_id"]) == (topic, queue)]
                first = self.chance.choice(offsets)
                low.setdefault(topic, {})[str(queue)] = first
                high.setdefault(topic, {})[str(queue)] = self.chance.randrange(first, max(offsets) + 2)

            def kept(row: Row, low: Any = low, high: Any = high) -> bool:
                queue, offset = str(row["queue_id"]), row["queue_offset"]
                begin = low.get(row["topic"], {}).get(queue, offset)
                return bool(begin <= offset < high.get(row["topic"], {}).get(queue, offset + 1))

            options = {"startingOffsets": json.dumps(low), "endingOffsets": json.dumps(high)}
            self.assert_kept(kept, offsetKind="queue", **options)

    def test_times(self) -> None:
        for _ in range(5):
            low, high = self.two("store_ts")

            def kept(row: Row, low: Any = low, high: Any = high) -> bool:
                return bool(low <= row["store_ts"] < high)

            self.assert_kept(kept, startingTimestamp=low.isoformat(), endingTimestamp=high.isoformat())
            begin = int(low.timestamp() * 1000)
            self.assert_kept(kept, startingTimestamp=str(begin), endingTimestamp=high.isoformat().replace("+00:00", ""))
            later = low + datetime.timedelta(microseconds=1)
            self.assert_kept(lambda row, low=low: row["store_ts"] > low, startingTimestamp=later.isoformat())

    def test_what_is_not_there(self) -> None:
        """It ends the query, unless failOnDataLoss is false; names that nobody has end it always."""
        topic = self.manifest.segments[0].queues[0].topic
        for options, says in (
            ({"endingOffsets": str(self.manifest.end + 1)}, "r is read up to"),
            (
                {"offsetKind": "queue", "startingOffsets": '{"nowhere": {"0": 1}}'},
                "there is no queue 0 of nowhere in r",
            ),
            ({"offsetKind": "queue", "endingOffsets": json.dumps({topic: {"1": 10**9}})}, "in r ends with"),
        ):
            with self.assertRaisesRegex(ConfigError, says):
                table(self.out, NAMES, **options)
            self.assertEqual(table(self.out, NAMES, failOnDataLoss="false", **options), self.rows)

    def test_what_was_deleted(self) -> None:
        """The export begins behind what is asked for."""
        store = self.KIND(self.root / "late", begin=1 << 20)
        store.append(list(self.store.records.values())[:20])
        store.confirm(store.end)
        out = self.root / "late-out"
        store.export(out)
        with self.assertRaisesRegex(ConfigError, "r begins at 1048576"):
            table(out, NAMES, startingOffsets="7")
        self.assertEqual(len(table(out, NAMES, startingOffsets="7", failOnDataLoss="false")), 20)
        self.assertEqual(len(table(out, NAMES, startingOffsets="1048576")), 20)


class LedgerRangeTests(RangeTests):
    """The same of DLedger's entries, which have numbers besides."""

    KIND = LedgerStore

    def test_entries(self) -> None:
        for _ in range(10):
            low, high = self.two("ledger_index")
            self.assert_kept(
                lambda row, low=low, high=high: low <= row["ledger_index"] < high,
                offsetKind="ledger",
                startingOffsets=str(low),
                endingOffsets=str(high),
            )
        with self.assertRaisesRegex(ConfigError, "r ends with entry"):
            table(self.out, NAMES, offsetKind="ledger", endingOffsets="1000000")


class OptionTests(Case):
    """What makes no sense is refused; replicas, columns and tasks are as said."""

    def setUp(self) -> None:
        super().setUp()
        self.store, self.manifest = self.exported(21, 60)
        self.rows = table(self.out, NAMES)

    def load(self, path: str = "", **options: str) -> DataFrame:
        return load(session(), path or str(self.out), (), options)

    def test_wrong_values(self) -> None:
        for name, value, says in (
            ("startingOffsets", "-1", "startingOffsets is earliest or latest, or of offsetKind phys a number"),
            ("startingOffsets", "true", "startingOffsets is earliest"),
            ("startingOffsets", "[1]", "startingOffsets is earliest"),
            ("startingOffsets", '{"a": {"0": 1}}', "startingOffsets is earliest"),
            ("startingOffsets", '{"a": 1, "a": 2}', "startingOffsets is earliest"),
            ("startingOffsets", "{}", "startingOffsets is earliest"),
            ("startingOffsets", "[" * 100_000, "startingOffsets is earliest"),
            ("endingOffsets", "earliest", "endingOffsets is latest, or"),
            ("endingOffsets", str(1 << 63), "endingOffsets is latest, or"),
            ("offsetKind", "byte", "offsetKind is one of phys, queue, ledger, not 'byte'"),
            ("startingTimestamp", "yesterday", "startingTimestamp is ms since 1970, or like"),
            ("endingTimestamp", "-5", "endingTimestamp is ms since 1970, or like"),
            ("replica", "x", r"not 'x'"),
            ("minPartitions", "many", "minPartitions is a number"),
            ("rawBody", "0", "rawBody is true or false"),
        ):
            with self.subTest(name, value=value[:20]), self.assertRaisesRegex((ConfigError, PySparkException), says):
                table(self.out, NAMES, **{name: value})
                self.load(**{name: value}).collect()
        for value in ("5", '{"a": 1}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}'):
            with self.subTest(value), self.assertRaisesRegex(ConfigError, "of offsetKind queue"):
                table(self.out, NAMES, offsetKind="queue", startingOffsets=value)
        with self.assertRaisesRegex(PySparkException, "offsets of replica x, of which there is no export"):
            self.load(startingOffsets='{"x": 5}', failOnDataLoss="false").collect()
        with self.assertRaisesRegex(PySparkException, "latest is for streams"):
            self.load(startingOffsets="latest").collect()
        with self.assertRaisesRegex(ConfigError, "contradict each other"):
            table(self.out, NAMES, decompress="true", rawBody="true")
        self.assertTrue(parse({"path": "x", "rawBody": "false"}).decompress)
        self.assertFalse(parse({"path": "x", "rawBody": "true", "decompress": "false"}).decompress)

    def test_which_replica(self) -> None:
        """By a word, an id or a name; a name goes before an id."""
        self.store.export(self.root / "m", "2", 0)
        self.store.export(self.root / "n", "b", 2)
        path = f"{self.root}/[mn]"
        for given, wanted in (("all", {"2", "b"}), ("master", {"2"}), ("0", {"2"}), ("2", {"2"}), ("b", {"b"})):
            found = self.load(path, replica=given).select("replica").distinct().collect()
            self.assertEqual({row["replica"] for row in found}, wanted, given)
            self.assertEqual(count(path, replica=given), len(self.rows) * len(wanted))
        with self.assertRaisesRegex(PySparkException, r"2 \(broker id 0\), b \(broker id 2\); not '1'"):
            self.load(path, replica="1").collect()

    def test_columns_and_tasks(self) -> None:
        self.assertNotIn("properties", self.load(includeProperties="false").columns)
        self.assertIn("properties", self.load().columns)
        _store, manifest = self.exported(22, 300, 8 << 20, 60_000)
        self.assertGreater(manifest.end, 4 * BLOCK_BYTES)

        def tasks(**options: str) -> list[Task]:
            return Reader(parse({"path": str(self.out), **options}), NAMES).partitions()  # type: ignore[return-value]

        self.assertEqual(len(tasks()), 1)
        split = tasks(minPartitions="4")
        self.assertGreaterEqual(len(split), 4)
        pieces = [piece for task in split for piece in task.pieces]
        self.assertEqual(sum(piece.count for piece in pieces), sum(piece.count for piece in tasks()[0].pieces))
        self.assertTrue(all(one.end <= other.begin for one, other in itertools.pairwise(pieces)))


class DamageTests(Case):
    """A damaged record ends a query that asks for it, and no other, though digests are made from further before."""

    def test_outside(self) -> None:
        store, _manifest = self.exported(25, 60)
        places = sorted(store.records)
        path = self.out / "commitlog" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[places[10] + 4] ^= 1
        path.write_bytes(data)
        for options in ({"startingOffsets": str(places[11])}, {"endingOffsets": str(places[10])}):
            self.assertTrue(table(self.out, NAMES, **options))
        for options in ({"startingOffsets": str(places[10])}, {"endingOffsets": str(places[11])}):
            with self.assertRaisesRegex(CorruptStore, f"log offset {places[10]}"):
                table(self.out, NAMES, **options)


class StreamTests(Case):
    """New queries that begin somewhere."""

    def delivered(self, **options: str) -> list[int]:
        """By a query without a past."""
        spark = session()
        name = f"t{random.randrange(1 << 60)}"
        source = spark.readStream.format("rocketha").schema("phys_offset bigint").options(**options)
        query = source.load(str(self.out)).writeStream.format("memory").queryName(name).trigger(availableNow=True)
        running = query.start()
        self.addCleanup(running.stop)
        running.awaitTermination()
        return sorted(row[0] for row in spark.table(name).collect())

    def test_begins(self) -> None:
        self.exported(23)
        rows = table(self.out, NAMES)
        middle = rows[len(rows) // 2]
        place = middle["phys_offset"]
        behind = [row["phys_offset"] for row in rows if row["phys_offset"] >= place]
        self.assertEqual(self.delivered(startingOffsets=str(place)), behind)
        self.assertEqual(self.delivered(startingOffsets=json.dumps({"r": place - 1})), behind)
        self.assertEqual(self.delivered(startingTimestamp=middle["store_ts"].isoformat()), behind)
        named = {middle["topic"]: {str(middle["queue_id"]): middle["queue_offset"]}}
        without = [
            row["phys_offset"]
            for row in rows
            if (row["topic"], row["queue_id"]) == (middle["topic"], middle["queue_id"])
            and row["queue_offset"] < middle["queue_offset"]
        ]
        found = self.delivered(offsetKind="queue", startingOffsets=json.dumps(named))
        self.assertEqual(found, sorted({row["phys_offset"] for row in rows} - set(without)))
        self.assertTrue(without)
        self.assertEqual(self.delivered(startingOffsets="latest"), [])
        with self.assertRaisesRegex((StreamingQueryException, PySparkException), "for batches: a stream goes on"):
            self.delivered(endingOffsets=str(place))

    def test_first_position(self) -> None:
        """Of DLedger's entries the one in which the record is."""
        self.KIND = LedgerStore
        self.exported(24)
        place = table(self.out, NAMES)[40]["phys_offset"]
        reader = StreamReader(parse({"path": str(self.out), "startingOffsets": str(place)}), NAMES)
        self.assertEqual(reader.initialOffset()["r"][POSITION], place - 48)


del Case
