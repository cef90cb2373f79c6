"""Each column of each record, made for many at once, against the record read alone."""

from __future__ import annotations

import random
import tempfile
import unittest
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from rocketha.errors import CorruptStore
from rocketha.export.manifest import Manifest, QueuePart
from rocketha_spark import batches as batching
from rocketha_spark import bodies
from rocketha_spark.batches import batches
from rocketha_spark.bodies import unpacked
from rocketha_spark.bounds import EVERYTHING, Bounds
from rocketha_spark.counts import count, queues
from rocketha_spark.exports import opened
from rocketha_spark.options import parse
from rocketha_spark.plan import bounds_of, chosen, limit, pieces
from rocketha_spark.schema import ARROW_TYPES
from tests.export.stores import FILE_BYTES, AdoptedStore, LedgerStore, Store
from tests.seeds import SeededCase
from tests.spark import logs


def table(
    directory: Path, names: Sequence[str] = tuple(ARROW_TYPES), bounds: Bounds = EVERYTHING, **given: str
) -> list[dict[str, Any]]:
    """All rows of an export, without Spark, in the order of the log."""
    options = parse({"path": str(directory), **given})
    found: list[dict[str, Any]] = []
    for number, export in enumerate(chosen(options)):
        end, inside = limit(export, options), bounds_of(export, options).within(bounds)
        for piece in pieces(export, number, export.manifest.begin, end, options, inside):
            for batch in batches(export, piece, names, options, inside):
                batch.validate(full=True)
                found += batch.to_pylist()
    for row in found:
        if row.get("properties") is not None:
            row["properties"] = sorted(row["properties"])
    return found


class Case(SeededCase):
    """An export."""

    KIND: type[Store] = Store
    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-spark-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def exported(self, seed: int, count: int = 600, *big: int) -> tuple[logs.Store, Any]:
        store = logs.filled(self.root / f"store{seed}", seed, count, *big, kind=self.KIND)
        self.out = self.root / f"out{seed}"
        return store, store.export(self.out)

    def wanted(self, store: logs.Store, manifest: Manifest) -> list[dict[str, Any]]:
        """All rows of a store's table."""
        return list(logs.rows(store.records, manifest, self.out, entries=getattr(store, "entries", None)))

    def assert_rows(self, found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
        self.assertEqual([each["phys_offset"] for each in found], [each["phys_offset"] for each in wanted])
        for one, other in zip(found, wanted, strict=True):
            self.assertEqual(one, other)


class ColumnTests(Case):
    """Logs with every kind of record."""

    def test_every_column(self) -> None:
        for each in (1, 2, self.seed):
            with self.subTest(seed=each):
                store, manifest = self.exported(each)
                wanted = self.wanted(store, manifest)
                self.assert_rows(table(self.out, onlyConfirmed="false"), wanted)
                confirmed = [row for row in wanted if row["confirmed"]]
                self.assertTrue(0 < len(confirmed) < len(wanted))
                self.assert_rows(table(self.out), confirmed)

    def test_small_batches_and_pieces(self) -> None:
        """Where batches and tasks end does not show, also not in the chains of digests."""
        store, manifest = self.exported(3)
        wanted = self.wanted(store, manifest)
        for rows, size in ((1, 1 << 30), (7, 3000), (1000, 100)):
            self.addCleanup(setattr, batching, "BATCH_ROWS", batching.BATCH_ROWS)
            self.addCleanup(setattr, batching, "BATCH_BYTES", batching.BATCH_BYTES)
            batching.BATCH_ROWS, batching.BATCH_BYTES = rows, size
            self.assert_rows(table(self.out, onlyConfirmed="false", partitionBytes="1"), wanted)

    def test_blocks_and_epochs(self) -> None:
        """Files of several blocks: tasks of one block each, chains that begin anew in each block and epoch."""
        store, manifest = self.exported(10, 900, 8 << 20, 20_000)
        options = parse({"path": str(self.out), "partitionBytes": "4m", "onlyConfirmed": "false"})
        (export,) = opened(options.path)
        cut = list(pieces(export, 0, 0, manifest.end, options))
        self.assertGreaterEqual(len(cut), manifest.end // (4 << 20) + 2)
        self.assertEqual(sum(each.count for each in cut), len(store.records))
        wanted = self.wanted(store, manifest)
        names = ("phys_offset", "epoch", "record_digest", "chain_digest")
        kept = [{name: row[name] for name in names} for row in wanted]
        for size in ("4m", "1g"):
            self.assert_rows(table(self.out, names, partitionBytes=size, onlyConfirmed="false"), kept)

    def test_topics(self) -> None:
        store, manifest = self.exported(4)
        wanted = self.wanted(store, manifest)
        for option, kept in (("A, Thema-ä", {"A", "Thema-ä"}), ("re:(long)+|B", {"B", "long" * 40}), ("none", set())):
            found = table(self.out, onlyConfirmed="false", topics=option)
            self.assert_rows(found, [row for row in wanted if row["topic"] in kept])

    def test_bounds_keep_what_matches(self) -> None:
        store, manifest = self.exported(5)
        wanted = self.wanted(store, manifest)
        chance = random.Random(5)
        names = tuple(name for name in ARROW_TYPES if name != "chain_digest")
        for _ in range(20):
            low, high = sorted(chance.sample(sorted(store.records), 2))
            first = store.records[low].store_timestamp_ms
            bounds = chance.choice(
                (
                    Bounds(phys_low=low, phys_high=high),
                    Bounds(stored_low=first, stored_high=first + 40),
                    Bounds(topics=frozenset(("A", "B")), queue_ids=frozenset((1,))),
                )
            )
            kept = [
                {name: value for name, value in row.items() if name != "chain_digest"}
                for row in wanted
                for offset in (row["queue_offset"],)
                if bounds.phys_low <= row["phys_offset"] < bounds.phys_high
                and bounds.stored_low <= row["store_ts"].timestamp() * 1000 <= bounds.stored_high
                and bounds.may_have(QueuePart(row["topic"], row["queue_id"], 1, offset, offset))
            ]
            self.assertTrue(kept)
            self.assert_rows(table(self.out, names, bounds, onlyConfirmed="false"), kept)

    def test_counts(self) -> None:
        """What manifests say is what the table has, also in the file in which what is confirmed ends."""
        _store, manifest = self.exported(11)
        for given in ({}, {"onlyConfirmed": "false"}, {"topics": "re:[AB]"}):
            rows = table(self.out, ("replica", "topic", "queue_id"), **given)
            wanted = Counter((row["replica"], row["topic"], row["queue_id"]) for row in rows)
            self.assertEqual(queues(str(self.out), **given), dict(wanted))
            self.assertEqual(count(str(self.out), **given), len(rows))
            self.assertTrue(0 < len(rows) <= manifest.messages)

    def test_unpacked(self) -> None:
        """Bodies of each codec; one of a codec that there is not ends the query, and says where."""
        store, _manifest = self.exported(6)
        for row in table(self.out, ("phys_offset", "body", "body_codec", "sys_flag"), topics="B"):
            if row["body_codec"]:
                self.assertEqual(row["body"], store.records[row["phys_offset"]].body)
        broken = [at for at, each in store.records.items() if each.sys_flag & 0x701 == 0x701]
        with self.assertRaisesRegex(CorruptStore, "cannot be unpacked: no such codec"):
            table(self.out, ("body",), onlyConfirmed="false", decompress="true")
        self.assertTrue(broken)
        chance = random.Random(1)
        for _ in range(50):
            body = chance.randbytes(chance.randrange(400)) * chance.randrange(1, 9)
            flags, data = logs.packed(chance, body)
            codec = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}.get(flags >> 8 & 7)
            if codec is not None:
                self.assertEqual(b"".join(unpacked(memoryview(data), codec)), body)
                with self.assertRaises(ValueError):
                    list(unpacked(memoryview(data[:-5]), codec))

    def test_unpacked_in_pieces(self) -> None:
        """Also where a body ends with a piece, or what zlib is fed ends within one."""
        chance = random.Random(2)
        with mock.patch.object(bodies, "PIECE_BYTES", 7), mock.patch.object(bodies, "_FED_BYTES", 3):
            for size in (0, 1, 6, 7, 8, 14, 100, 1400):
                for body in (bytes(size), chance.randbytes(size)):
                    for codec in ("zlib", "lz4", "zstd"):
                        packed = zlib.compress(body) if codec == "zlib" else pa.compress(body, codec, asbytes=True)
                        found = list(unpacked(memoryview(packed), codec))
                        self.assertEqual(b"".join(found), body)
                        self.assertLessEqual(max(map(len, found), default=0), 7)
                        with self.assertRaises(ValueError):
                            list(unpacked(memoryview(packed[:-1]), codec))


class LedgerColumnTests(ColumnTests):
    """The same in DLedger's entries."""

    KIND = LedgerStore


class AdoptedColumnTests(ColumnTests):
    """The same where DLedger went on with an ordinary broker's log."""

    KIND = AdoptedStore


class DamageTests(Case):
    """Exports whose bytes changed behind the exporter's back."""

    def change(self, at: int, bits: int = 1) -> None:
        path = self.out / self.KIND.LAYOUT / f"{at - at % FILE_BYTES:020d}"
        with open(path, "r+b") as file:
            file.seek(at % FILE_BYTES)
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes((byte ^ bits,)))

    def test_body(self) -> None:
        """One bit of a body: found where the CRC is looked at, at its place."""
        store, _manifest = self.exported(7, 90)
        at, record = next((at, each) for at, each in sorted(store.records.items()) if len(each.body) > 40)
        size = len(logs.encode(record))
        self.change(at + size - len(record.properties) - 2 - len(record.topic.encode()) - 1 - 20)
        found = {
            row["phys_offset"]: row["crc_ok"]
            for row in table(self.out, ("phys_offset", "crc_ok"), onCorrupt="row", onlyConfirmed="false")
        }
        self.assertEqual([offset for offset, right in found.items() if not right], [at])
        self.assertEqual(set(found), set(store.records))
        skipped = [
            row["phys_offset"] for row in table(self.out, ("phys_offset",), onCorrupt="skip", onlyConfirmed="false")
        ]
        self.assertEqual(skipped, sorted(set(store.records) - {at}))
        with self.assertRaisesRegex(CorruptStore, f"does not match its CRC.*log offset {at}"):
            table(self.out, ("crc_ok",), onlyConfirmed="false")

    def test_lengths(self) -> None:
        """A record that is none any more: its place is known, nothing else."""
        store, manifest = self.exported(8, 90)
        ends = sorted(store.records)
        for at in (ends[0], ends[40], ends[-1]):
            size = len(logs.encode(store.records[at]))
            tail = (
                size - len(store.records[at].properties) - 1
            )  # the lengths of properties and topic, and what is said of the place
            for field in (0, 4, 28 + 7, tail, tail - 2 - len(store.records[at].topic.encode())):
                self.change(at + field)
                found = table(self.out, onCorrupt="row", onlyConfirmed="false")
                self.assertEqual([row["phys_offset"] for row in found], ends)
                row = found[ends.index(at)]
                self.assertEqual(
                    (row["crc_ok"], row["topic"], row["body"], row["properties"]), (False, None, None, None)
                )
                self.assertEqual(row["epoch"], max(each.epoch for each in manifest.epochs if each.start <= at))
                wanted = [row for row in self.wanted(store, manifest) if row["phys_offset"] != at]
                for one, other in zip((row for row in found if row["phys_offset"] != at), wanted, strict=True):
                    self.assertEqual({**one, "chain_digest": None}, {**other, "chain_digest": None})
                with self.assertRaisesRegex(CorruptStore, f"log offset {at}"):
                    table(self.out, ("phys_offset",), onlyConfirmed="false")
                self.change(at + field)

    def test_files_too_short(self) -> None:
        _store, manifest = self.exported(9, 90)
        for folder in ("offsets", self.KIND.LAYOUT):
            path = self.out / folder / f"{manifest.segments[0].base:020d}"
            data = path.read_bytes()
            path.write_bytes(data[:-5])
            with self.assertRaisesRegex(CorruptStore, "ends before what the manifest says"):
                table(self.out, onlyConfirmed="false")
            path.write_bytes(data)


class LedgerDamageTests(DamageTests):
    """The same in DLedger's entries."""

    KIND = LedgerStore

    def test_heads(self) -> None:
        """What stands before a record contradicts it, or its place."""
        store, _manifest = self.exported(12, 90)
        at = sorted(store.records)[7]
        for field in (0, 4, 5, 24, 31, 44, 47):
            self.change(at - 48 + field)
            found = table(self.out, ("phys_offset", "crc_ok", "ledger_index"), onCorrupt="row", onlyConfirmed="false")
            self.assertEqual([row["phys_offset"] for row in found], sorted(store.records))
            wrong = [(row["phys_offset"], row["ledger_index"]) for row in found if not row["crc_ok"]]
            self.assertEqual(wrong, [(at, None)])
            self.change(at - 48 + field)


if __name__ == "__main__":
    unittest.main()
