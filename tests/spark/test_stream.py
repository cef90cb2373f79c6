"""Streams of a growing export: each record once, whatever is restarted, rolled over or cut."""

from __future__ import annotations

import random
import tempfile
import unittest
from pathlib import Path

from pyspark.errors import StreamingQueryException

from rocketha.errors import ConfigError
from rocketha_spark.options import parse
from rocketha_spark.source import StreamReader, Task
from rocketha_spark.stream import CUTS, POSITION
from tests.export.stores import Store, made
from tests.spark.session import session

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

    from rocketha_spark.limits import LimitedStreamReader
except ImportError:
    LIMITS = False
else:
    LIMITS = True


class Case(unittest.TestCase):
    """A store that grows, its export, and what a query wrote."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-stream-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.chance = random.Random(1)
        self.store = Store(self.root / "store")
        self.store.new_master(1)

    def grow(self, count: int, confirmed: bool = True) -> None:
        self.store.append([made(self.chance) for _ in range(count)])
        if confirmed:
            self.store.confirm(self.store.end)
        self.store.export(self.root / "out")


class QueryTests(Case):
    """Through Spark, with its checkpoint; every run is a restart."""

    def run_once(self, **options: str) -> None:
        source = session().readStream.format("rocketha").schema("phys_offset bigint, topic string, body binary")
        query = (
            source.options(**options)
            .load(str(self.root / "out"))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.root / "checkpoint"))
            .option("path", str(self.root / "table"))
            .trigger(availableNow=True)
            .start()
        )
        self.addCleanup(query.stop)
        self.assertTrue(query.awaitTermination(120))

    def assert_delivered(self, wanted: dict[int, bytes]) -> None:
        rows = session().read.parquet(str(self.root / "table")).select("phys_offset", "body").collect()
        self.assertEqual(len(rows), len(wanted))
        self.assertEqual({row["phys_offset"]: bytes(row["body"]) for row in rows}, wanted)

    def bodies(self) -> dict[int, bytes]:
        return {at: record.body for at, record in self.store.records.items()}

    def test_each_once(self) -> None:
        """Restarts, roll-overs, a torn tail, a new master; micro-batches end within files."""
        self.grow(120)
        self.run_once(**({"maxBytesPerTrigger": "20k"} if LIMITS else {}))
        self.assert_delivered(self.bodies())
        self.run_once()
        self.grow(200)
        self.assertGreater(self.store.end, 2 * self.store.file_size)
        self.run_once(**({"maxBytesPerTrigger": "50000"} if LIMITS else {}))
        self.assert_delivered(self.bodies())
        confirmed = self.bodies()
        self.grow(40, confirmed=False)  # what follows is taken back when the master is replaced
        self.run_once()
        self.assert_delivered(confirmed)
        self.store.cut(max(confirmed) + len_of(self.store, max(confirmed)))
        self.store.new_master(2)
        self.grow(60)
        self.run_once()
        self.assert_delivered(self.bodies())

    def test_another_begin_under_a_checkpoint(self) -> None:
        """The checkpoint says where it goes on."""
        self.grow(60)
        places = sorted(self.store.records)
        self.run_once(startingOffsets=str(places[10]))
        self.grow(60)
        self.run_once(startingOffsets=str(sorted(self.store.records)[90]))
        wanted = {at: body for at, body in self.bodies().items() if at >= places[10]}
        self.assert_delivered(wanted)

    def test_a_batch_again(self) -> None:
        """What a run that died had begun is read anew, the same records and no others."""
        self.grow(100)
        self.run_once()
        wanted = self.bodies()
        commits = sorted((self.root / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        commits[-1].unlink()
        for path in (self.root / "checkpoint" / "commits").glob(".*"):
            path.unlink()
        self.grow(30)
        self.run_once()
        if not LIMITS:  # a run of theirs that has done a batch again ends with it
            self.run_once()
        self.assert_delivered({**wanted, **self.bodies()})

    def test_delivered_and_taken_back(self) -> None:
        """Unconfirmed records that were delivered and cut: the query ends, or goes on with what stands there now."""
        self.grow(50)
        first = self.bodies()
        self.grow(30, confirmed=False)
        self.run_once(onlyConfirmed="false")
        lost = self.bodies()
        self.store.cut(max(first) + len_of(self.store, max(first)))
        self.store.new_master(2)
        self.grow(90)
        with self.assertRaisesRegex(StreamingQueryException, "the log was cut at"):
            self.run_once(onlyConfirmed="false")
        self.run_once(onlyConfirmed="false", failOnDataLoss="false")
        rows = session().read.parquet(str(self.root / "table")).select("phys_offset", "body").collect()
        wanted = [*lost.items(), *((at, body) for at, body in self.bodies().items() if at not in first)]
        self.assertEqual(sorted((row["phys_offset"], bytes(row["body"])) for row in rows), sorted(wanted))


def len_of(store: Store, at: int) -> int:
    """Bytes of a record."""
    return store.records[at].total


class UnlimitedTests(Case):
    """The reader alone, as Spark up to 4.1 asks it: it says where a micro-batch began only when that is read."""

    def reader(self, **options: str) -> StreamReader:
        return StreamReader(parse({"path": str(self.root / "o*"), **options}), ("phys_offset",))

    def test_goes_on(self) -> None:
        self.grow(20)
        reader = self.reader()
        start, end = reader.initialOffset(), reader.latestOffset()
        found = read(reader, start, end)
        self.assertEqual(reader.latestOffset(), end)
        self.grow(20)
        again = self.reader()  # after a restart
        found += read(again, end, again.latestOffset())
        self.assertEqual(found, sorted(self.store.records))

    def test_a_replica_that_is_gone(self) -> None:
        """It is missed, also after a restart, and with failOnDataLoss off: it might come again, and be read again."""
        self.grow(20)
        self.store.export(self.root / "other", "s", 2)
        reader = self.reader()
        start, end = reader.initialOffset(), reader.latestOffset()
        self.assertEqual(len(read(reader, start, end)), 40)
        (self.root / "other").rename(self.root / "gone")
        with self.assertRaisesRegex(ConfigError, "no export any more of replica s"):
            reader.latestOffset()
        for options in ({}, {"failOnDataLoss": "false"}):
            again = self.reader(**options)
            with self.assertRaisesRegex(ConfigError, "no export any more of replica s"):
                again.partitions(end, again.latestOffset())

    def test_less_than_was_reached(self) -> None:
        """A restart whose options leave less than was delivered would deliver it again."""
        self.grow(20)
        self.grow(20, confirmed=False)
        reader = self.reader(onlyConfirmed="false")
        start, end = reader.initialOffset(), reader.latestOffset()
        self.assertEqual(len(read(reader, start, end)), 40)
        again = self.reader()
        with self.assertRaisesRegex(ConfigError, "was reached"):
            again.partitions(end, again.latestOffset())

    def test_latest_of_an_export_that_grows(self) -> None:
        """They ask where to end first, and then where to begin: nothing is between."""
        self.grow(20)
        reader = self.reader(startingOffsets="latest")
        end = reader.latestOffset()
        before = len(self.store.records)
        self.grow(20)
        self.assertEqual(read(reader, reader.initialOffset(), end), [])
        self.assertEqual(read(reader, end, reader.latestOffset()), sorted(self.store.records)[before:])

    def test_cut(self) -> None:
        self.grow(40)
        keep = sorted(self.store.records)[30]
        reader = self.reader()
        start, end = reader.initialOffset(), reader.latestOffset()
        read(reader, start, end)
        self.store.cut(keep)
        self.store.new_master(2)
        self.grow(40)
        again = self.reader()
        with self.assertRaisesRegex(ConfigError, f"was cut at {keep}"):
            again.partitions(end, again.latestOffset())
        forgiving = self.reader(failOnDataLoss="false")
        self.assertEqual(
            read(forgiving, end, forgiving.latestOffset()), [at for at in sorted(self.store.records) if at >= keep]
        )


def read(reader: StreamReader, start: dict[str, object], end: dict[str, object]) -> list[int]:
    """The places of the records between two offsets."""
    found = []
    for task in reader.partitions(start, end):
        assert isinstance(task, Task)
        found += [value for batch in reader.read(task) for value in batch.column(0).to_pylist()]
    return found


@unittest.skipUnless(LIMITS, "Spark tells no start and no limit before 4.2")
class OffsetTests(Case):
    """The reader alone."""

    def reader(self, path: str = "out", **options: str) -> LimitedStreamReader:
        return LimitedStreamReader(parse({"path": str(self.root / path), **options}), ("phys_offset",))

    def test_limits(self) -> None:
        """A limit in bytes, down to one: every record comes once, in order."""
        self.grow(60)
        for size in (1 << 20, 5000, 64):
            reader = self.reader(maxBytesPerTrigger=str(size))
            self.assertEqual(reader.getDefaultReadLimit(), ReadMaxBytes(size))
            at, found = reader.initialOffset(), []
            while True:
                end = reader.latestOffset(at, ReadMaxBytes(size))
                self.assertLessEqual(end["r"][POSITION] - at["r"][POSITION], size)
                if end == at:
                    break
                found += read(reader, at, end)
                at = end
            self.assertEqual(found, sorted(self.store.records))

    def test_starting_latest(self) -> None:
        self.grow(20)
        before = set(self.store.records)
        reader = self.reader(startingOffsets="latest")
        start = reader.initialOffset()
        self.assertEqual(reader.latestOffset(start, ReadAllAvailable()), start)
        self.grow(20)
        end = reader.latestOffset(start, ReadAllAvailable())
        self.assertEqual(read(reader, start, end), sorted(set(self.store.records) - before))

    def test_available_now_ends(self) -> None:
        """What comes while it runs is for the next."""
        self.grow(20)
        before = sorted(self.store.records)
        reader = self.reader()
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        self.grow(20)
        end = reader.latestOffset(start, ReadAllAvailable())
        self.assertEqual(read(reader, start, end), before)
        self.assertEqual(reader.latestOffset(end, ReadAllAvailable()), end)

    def test_another_replica(self) -> None:
        """One that is exported later is read from its begin; one that is gone is missed."""
        self.grow(20)
        reader = self.reader("o*")
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.store.export(self.root / "other", "s", 2)
        more = reader.latestOffset(end, ReadAllAvailable())
        self.assertEqual(read(reader, end, more), sorted(self.store.records))
        (self.root / "other").rename(self.root / "gone")
        with self.assertRaisesRegex(ConfigError, "no export any more of replica s"):
            reader.latestOffset(more, ReadAllAvailable())
        forgiving = self.reader("o*", failOnDataLoss="false")
        self.assertEqual(forgiving.latestOffset(more, ReadAllAvailable()), more)

    def test_cuts(self) -> None:
        """A cut below what was delivered counts once, one above never."""
        self.grow(40)
        keep = sorted(self.store.records)[30]
        reader = self.reader(failOnDataLoss="false")
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.store.cut(keep)
        self.store.new_master(2)
        self.grow(40)
        more = reader.latestOffset(end, ReadAllAvailable())
        self.assertEqual((more["r"][CUTS], end["r"][CUTS]), (1, 0))
        self.assertEqual(read(reader, end, more), [at for at in sorted(self.store.records) if at >= keep])
        with self.assertRaisesRegex(ConfigError, f"was cut at {keep}"):
            self.reader().latestOffset(end, ReadAllAvailable())
        self.assertEqual(self.reader().latestOffset(more, ReadAllAvailable()), more)

    def test_chains_refused(self) -> None:
        with self.assertRaisesRegex(ConfigError, "chain_digest"):
            StreamReader(parse({"path": str(self.root)}), ("chain_digest",))


if __name__ == "__main__":
    unittest.main()
