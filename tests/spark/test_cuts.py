"""What a log had and has no more: as a table, and what of it nobody has now."""

from __future__ import annotations

import json
import random
from unittest import mock

from pyspark.errors import PySparkException

from rocketha.errors import ConfigError, CorruptStore
from rocketha.export.exporter import Exporter
from rocketha.export.manifest import NAME
from rocketha.export.source import Identity, found
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from rocketha.wire import properties
from rocketha.wire.record import Record
from rocketha_spark.audits import audit
from rocketha_spark.counts import count
from rocketha_spark.read import read
from rocketha_spark.source import load
from tests.export.stores import FILE_BYTES, LedgerStore, made
from tests.spark import logs
from tests.spark.session import session
from tests.spark.test_columns import Case, table

WITHOUT = ("source_file", "chain_digest", "confirmed")


class CutTests(Case):
    """A replica whose log was cut, more than once."""

    def setUp(self) -> None:
        super().setUp()
        self.chance = random.Random(3)
        self.store = self.KIND(self.root / "store")
        self.store.new_master(1)
        self.out = self.root / "out"
        self.grow(60)
        self.sure = self.store.end
        self.store.confirm(self.sure)

    def grow(self, count: int) -> list[Record]:
        return self.store.append([made(self.chance) for _ in range(count)])

    def unconfirmed(self, master: int, count: int) -> list[dict[str, object]]:
        """Rows of messages of a new master, exported and then taken back by the next one, which wrote one message."""
        self.store.new_master(master)
        lost = {record.physical_offset: record for record in self.grow(count)}
        manifest = self.store.export(self.out)
        entries = getattr(self.store, "entries", None)
        wanted = list(logs.rows(lost, manifest, self.out, entries=entries))
        self.store.cut(self.sure)
        self.store.new_master(master + 1)
        self.grow(1)
        self.sure = self.store.end
        self.store.confirm(self.sure)
        return [{name: value for name, value in row.items() if name not in WITHOUT} for row in wanted]

    def test_table(self) -> None:
        """Each column of each record, over the ends of files; the newest cut last."""
        first = self.unconfirmed(2, 400)
        self.assertGreater(first[-1]["phys_offset"] - first[0]["phys_offset"], 2 * FILE_BYTES)  # type: ignore[operator]
        self.store.export(self.out)
        second = self.unconfirmed(4, 30)
        manifest = self.store.export(self.out)
        self.assertEqual(len(manifest.cuts), 2)
        rows = table(self.out, cuts="true", failOnDataLoss="false")
        self.assertEqual({row["confirmed"] for row in rows}, {False})
        self.assertEqual(
            [row["source_file"] for row in rows],
            [f"{self.out}/{cut.path}" for cut, some in zip(manifest.cuts, (first, second), strict=True) for _ in some],
        )
        plain = [{name: value for name, value in row.items() if name not in WITHOUT} for row in rows]
        self.assert_rows(plain, [*first, *second])  # type: ignore[arg-type]
        some = table(self.out, ("topic",), cuts="true", topics="A")
        self.assertEqual(len(some), sum(row["topic"] == "A" for row in (*first, *second)))
        self.assertTrue(some)
        self.assertEqual(count(str(self.out), cuts="true"), len(rows))
        loaded = load(session(), str(self.out), ("phys_offset",), {"cuts": "true", "partitionBytes": "1"}).collect()
        self.assertEqual(sorted(row[0] for row in loaded), sorted(row["phys_offset"] for row in rows))

    def test_none(self) -> None:
        self.store.export(self.out)
        self.assertEqual(table(self.out, cuts="true"), [])
        self.assertEqual(load(session(), str(self.out), ("topic",), {"cuts": "true"}).count(), 0)
        self.assertEqual(audit(session(), "unclean", str(self.out)).count(), 0)

    def test_damage(self) -> None:
        """A bit of what is kept, and files that end too early: found at their places."""
        lost = self.unconfirmed(2, 50)
        (cut,) = self.store.export(self.out).cuts
        place = int(next(row for row in lost if len(row["body"]) > 90)["phys_offset"])  # type: ignore[arg-type, call-overload]
        path = self.out / cut.path
        data = bytearray(path.read_bytes())
        data[place - cut.begin + 100] ^= 1
        path.write_bytes(data)
        rows = table(self.out, ("phys_offset", "crc_ok"), cuts="true", onCorrupt="row")
        self.assertEqual([row["phys_offset"] for row in rows if not row["crc_ok"]], [place])
        with self.assertRaisesRegex(Exception, f"log offset {place}"):
            table(self.out, ("crc_ok",), cuts="true")
        path.write_bytes(data[:-1])
        with self.assertRaisesRegex(Exception, "ends before what the manifest says"):
            table(self.out, ("topic",), cuts="true")

    def test_rot_in_what_goes(self) -> None:
        """A byte rotted among what is taken back: the export is said to be damaged, and nothing of it is moved."""
        for record, field in ((45, 4), (45, 35), (59, 2), (59, -4)):
            with self.subTest(record=record, field=field):
                store = self.KIND(self.root / f"store-{record}{field}")
                out = self.root / f"out-{record}{field}"
                store.new_master(1)
                store.append([made(self.chance) for _ in range(60)])
                store.export(out)
                places = sorted(store.records)
                path = out / store.LAYOUT / f"{places[record] - places[record] % FILE_BYTES:020d}"
                data = bytearray(path.read_bytes())
                data[places[record] % FILE_BYTES + field] ^= 1
                path.write_bytes(data)
                store.cut(places[30] - store.RECORD_AT)
                store.new_master(2)
                store.append([made(self.chance)])
                with self.assertRaisesRegex(CorruptStore, f"^{path} at byte .*the export is damaged"):
                    store.export(out)
                self.assertEqual(table(out, ("topic",), cuts="true"), [])
                rows = table(out, ("phys_offset", "crc_ok"), onCorrupt="row", onlyConfirmed="false")
                self.assertEqual([row["phys_offset"] for row in rows], places)

    def test_epochs_of_a_run_that_ended_early(self) -> None:
        """What was copied has the epoch of its master, though the run's last step was never done; so has its cut."""
        self.store.export(self.out)
        first = self.store.end
        self.store.new_master(2)
        self.grow(150)
        source = found(ReadingDisk(), str(self.store.root))
        exporter = Exporter(source, PosixDisk(), str(self.out), lambda: self.store.now_ms)
        with (
            mock.patch.object(exporter, "_finish", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            for _ in exporter.run(Identity("c", "b", 1), "r"):
                pass
        rows = table(self.out, ("phys_offset", "epoch"), onlyConfirmed="false")
        self.assertEqual({row["epoch"] for row in rows if row["phys_offset"] >= first}, {2})
        at = sorted(self.store.records)[40]
        wanted = {place: 1 if place < first else 2 for place in self.store.records if place >= at}
        self.store.cut(at - self.store.RECORD_AT)
        self.store.epochs = [each for each in self.store.epochs if each.start_offset < at]
        self.store.new_master(3)
        self.grow(5)
        self.store.export(self.out)
        rows = table(self.out, ("phys_offset", "epoch"), cuts="true")
        self.assertEqual({row["phys_offset"]: row["epoch"] for row in rows}, wanted)

    def test_streams_have_none(self) -> None:
        self.store.export(self.out)
        stream = session().readStream.format("rocketha").schema("topic string").option("cuts", "true")
        with self.assertRaisesRegex(PySparkException, "cuts are for batches"):
            stream.load(str(self.out)).writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()

    def test_of_an_earlier_exporter(self) -> None:
        self.unconfirmed(2, 50)
        self.store.export(self.out)
        said = json.loads((self.out / NAME).read_text())
        del said["cuts"][0]["segments"], said["cuts"][0]["epochs"], said["sha256"]
        (self.out / NAME).write_text(json.dumps(said))
        self.assertTrue(table(self.out, ("topic",)))
        with self.assertRaisesRegex(ConfigError, "has no index: an earlier version of the exporter kept it"):
            table(self.out, ("topic",), cuts="true")

    def test_what_nobody_has(self) -> None:
        """Of three replicas one was ahead; its producers sent some again, which the new master has."""
        lost = self.unconfirmed(2, 40)
        again = [row for row in lost if self.chance.random() < 0.5]
        self.assertTrue(0 < len(again) < len(lost))
        for row in again:
            named = properties.build({"UNIQ_KEY": str(row["uniq_key"]), "RETRIED": "1"})
            self.store.append([made(self.chance, str(row["topic"]))._replace(properties=named)])
        self.store.confirm(self.store.end)
        self.store.export(self.out)
        self.store.export(self.root / "out-b", "b", 2)
        gone = [row for row in lost if row not in again]
        rows = audit(session(), "unclean", f"{self.root}/out*").collect()
        self.assertEqual(
            sorted((row["phys_offset"], row["topic"], row["uniq_key"], row["epoch"], row["replica"]) for row in rows),
            sorted((row["phys_offset"], row["topic"], row["uniq_key"], row["epoch"], "r") for row in gone),  # type: ignore[type-var]
        )
        self.assertEqual(read(session(), str(self.root / "out-b"), ("topic",), cuts="true").count(), 0)


class LedgerCutTests(CutTests):
    """The same in DLedger's entries."""

    KIND = LedgerStore


del Case
