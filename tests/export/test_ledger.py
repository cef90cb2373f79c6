"""Exports of DLedger's data: entries, terms, what is committed, and what DLedger leaves behind its end."""

from __future__ import annotations

import shutil
import tempfile
import unittest
from pathlib import Path

from rocketha.errors import ConfigError, CorruptStore
from rocketha.export.exporter import Exporter
from rocketha.export.manifest import Manifest
from rocketha.export.source import Identity, LedgerSource, found
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from rocketha.wire.record import Record, decode
from tests.export.stores import AdoptedStore, LedgerStore, Store, made
from tests.seeds import SeededCase


class ExportCase(SeededCase):
    """A folder for the store and one for the export."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-export-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.out = self.root / "out"


class LedgerTests(ExportCase):
    """One member."""

    def setUp(self) -> None:
        super().setUp()
        self.store = LedgerStore(self.root / "store")
        self.store.new_master(1)
        self.store.append_empty()

    def send(self, count: int) -> list[Record]:
        return self.store.append([made(self.chance) for _ in range(count)])

    def export(self, corrupt_too: bool = False) -> Manifest:
        manifest = self.store.export(self.out, corrupt_too=corrupt_too)
        self.assert_exported(manifest)
        return manifest

    def assert_exported(self, manifest: Manifest) -> None:
        """The export has what the log has, byte for byte, and finds every record by its index."""
        records: dict[int, Record] = {}
        self.assertEqual(manifest.layout, "dledger")
        for segment in manifest.segments:
            data = (self.out / "dledger" / f"{segment.base:020d}").read_bytes()
            theirs = (self.store.root / self.store.FOLDER / f"{segment.base:020d}").read_bytes()
            used = segment.records_end - segment.base + (8 if segment.full else 0)
            self.assertEqual(data[:used], theirs[:used])
            index = (self.out / "offsets" / f"{segment.base:020d}").read_bytes()
            self.assertEqual(len(index), 4 * segment.messages)
            for at in range(0, len(index), 4):
                place = int.from_bytes(index[at : at + 4], "big")
                records[segment.base + place + 48] = decode(data, place + 48)
        self.assertEqual(records, self.store.records)
        self.assertEqual(manifest.end, self.store.end)
        self.assertEqual(manifest.segments[-1].last_index, self.store.next - 1)
        starts: dict[int, int] = {}
        for at, (_index, term) in sorted(self.store.entries.items()):
            starts.setdefault(term, at - 48)
        self.assertEqual([each.epoch for each in manifest.epochs], list(starts))
        for each in manifest.epochs:  # an entry without a record may begin a term
            self.assertLessEqual(each.start, starts[each.epoch])
        self.assertEqual(manifest.epochs[-1].end, manifest.end)

    def test_growing(self) -> None:
        """Over files and terms, a run at a time."""
        for term in (1, 2, 5):
            self.store.new_master(term)
            if term == 5:
                self.store.append_empty()
            for count in (1, 60, 200):
                self.send(count)
                self.export()
        self.assertGreater(len(self.export().segments), 3)

    def test_confirmed(self) -> None:
        """Behind the entry that the checkpoint names; a damaged one, or none, promises nothing more."""
        self.send(100)
        self.assertEqual(self.export().confirmed, 0)
        places = sorted(self.store.records)
        self.store.confirm(places[40])
        self.assertEqual(self.export().confirmed, places[39] + len_of(self.store, places[39]))
        self.store.confirm(places[20])
        self.assertEqual(self.export().confirmed, places[39] + len_of(self.store, places[39]))
        (self.store.root / "dledger-n0/checkpoint").write_text("committedIndex=x\n")
        shutil.rmtree(self.out)
        self.assertEqual(self.export().confirmed, 0)
        (self.store.root / "dledger-n0/checkpoint").write_text("committedIndex=99999999\n")
        self.assertEqual(self.export().confirmed, 0)
        self.store.confirm(self.store.end)
        shutil.rmtree(self.store.root / "dledger-n0/index")
        self.assertEqual(self.export().confirmed, 0)

    def test_cut_and_written_over(self) -> None:
        """DLedger does not clear what it cuts: old entries stand behind the end, whole ones and torn ones."""
        for _ in range(12):
            shutil.rmtree(self.store.root)
            shutil.rmtree(self.out, ignore_errors=True)
            self.store = LedgerStore(self.root / "store")
            self.store.new_master(3)
            self.send(60)
            self.export()
            at = sorted(self.store.records)[self.chance.randrange(1, 55)] - 48
            lost = self.store.end
            self.store.cut(at)
            self.store.new_master(4)
            self.send(self.chance.choice((1, 2, 5)))
            manifest = self.export()
            (cut,) = manifest.cuts
            self.assertEqual((cut.begin, cut.end), (at, lost))
            self.send(50)
            self.export()

    def test_cut_behind_an_entry_without_a_record(self) -> None:
        """Which is all that is kept of a file; the run ends there, and the next one goes on."""
        store = self.store
        store.new_master(1)
        while store.end < store.file_size:
            self.send(1)
        store.cut(store.file_size)
        store.new_master(2)
        store.append_empty()
        keep = store.end
        self.send(3)
        self.export()
        store.cut(keep)
        store.new_master(3)
        self.send(1)
        exporter = Exporter(found(ReadingDisk(), str(store.root)), PosixDisk(), str(self.out), lambda: 1)
        run = exporter.run(Identity("c", "b", 1), "r")
        next(run)
        run.close()
        manifest = store.export(self.out)
        self.assertEqual([each.epoch for each in manifest.epochs], [1, 2, 3])
        self.assertEqual(manifest.messages, len(store.records))

    def test_damage(self) -> None:
        """A bit of a head that says where, how long or which: the run ends there, and what is before it is exported."""
        self.send(40)
        places = sorted(self.store.records)
        path = self.store.root / self.store.FOLDER / f"{0:020d}"
        good = path.read_bytes()
        for field in (0, 3, 4, 7, 8, 15, 16, 23, 24, 31, 44, 47, 48, 48 + 5, 48 + 30):
            with self.subTest(field=field):
                at = places[20] - 48
                data = bytearray(good)
                # a term that rises cannot be told
                data[at + field] ^= 1 if field == 23 else 1 << self.chance.randrange(8)
                path.write_bytes(data)
                with self.assertRaisesRegex(CorruptStore, f"^{path} at byte {at}: "):
                    self.store.export(self.out)
                path.write_bytes(good)
        self.export()

    def test_a_body(self) -> None:
        """A record that does not match its CRC, as damage or counted."""
        self.send(40)
        at = next(at for at, each in sorted(self.store.records.items()) if len(each.body) > 50)
        path = self.store.root / self.store.FOLDER / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[at + 88 + 30] ^= 4
        path.write_bytes(data)
        with self.assertRaisesRegex(CorruptStore, f"at byte {at - 48}: .*CRC"):
            self.store.export(self.out)
        manifest = self.store.export(self.out, corrupt_too=True)
        self.assertEqual((sum(each.corrupt for each in manifest.segments), manifest.messages), (1, 40))

    def test_which(self) -> None:
        """A store's data is found; several members must be told apart, and layouts are not mixed."""
        disk, root = ReadingDisk(), str(self.store.root)
        source = found(disk, root)
        self.assertIsInstance(source, LedgerSource)
        self.assertEqual(found(disk, root, self_id="n0"), source)
        self.assertEqual(found(disk, root, (f"{root}/commitlog",)).layout, "commitlog")
        with self.assertRaisesRegex(ConfigError, "no data of DLedger in .*dledger-n1"):
            found(disk, root, self_id="n1")
        named = found(disk, root, (f"{root}/older",), "n0")
        assert isinstance(named, LedgerSource)
        self.assertEqual((named.ledger, named.older), (f"{root}/dledger-n0", (f"{root}/older",)))
        (self.store.root / "dledger-n1/data").mkdir(parents=True)
        with self.assertRaisesRegex(ConfigError, "several members of DLedger: dledger-n0, dledger-n1"):
            found(disk, root)
        (self.store.root / "dledger-n1/data").rmdir()
        self.send(3)
        self.export()
        other = Store(self.root / "other")
        other.append([made(self.chance)])
        with self.assertRaisesRegex(ConfigError, "holds an export of layout dledger; this is commitlog"):
            other.export(self.out)


class AdoptedTests(ExportCase):
    """A member whose log an ordinary broker began."""

    def setUp(self) -> None:
        super().setUp()
        self.store = AdoptedStore(self.root / "store")

    def send(self, count: int) -> None:
        self.store.append([made(self.chance) for _ in range(count)])

    def export(self) -> Manifest:
        """All of it, each file as it is there; every record is found by its index."""
        manifest = self.store.export(self.out)
        found: dict[int, Record] = {}
        for segment in manifest.segments:
            old = segment.base < self.store.begin
            data = (self.out / ("commitlog" if old else "dledger") / f"{segment.base:020d}").read_bytes()
            folder = self.store.older.FOLDER if old else self.store.FOLDER
            used = segment.records_end - segment.base + (8 if segment.full else 0)
            theirs = self.store.root / folder / f"{segment.base:020d}"
            if theirs.exists():
                self.assertEqual(data[:used], theirs.read_bytes()[:used])
            index = (self.out / "offsets" / f"{segment.base:020d}").read_bytes()
            for at in range(0, len(index), 4):
                place = int.from_bytes(index[at : at + 4], "big") + (0 if old else 48)
                found[segment.base + place] = decode(data, place)
        self.assertEqual(found, self.store.records)
        self.assertEqual(manifest.end, self.store.end)
        return manifest

    def test_growing(self) -> None:
        """Both parts, a run at a time."""
        for term in (1, 2):
            self.store.new_master(term)
            for count in (1, 60, 200):
                self.send(count)
                manifest = self.export()
        self.assertEqual((manifest.layout, manifest.divided), ("dledger", self.store.begin))
        self.assertEqual([each.epoch for each in manifest.epochs], [1, 2])
        self.assertEqual(manifest.epochs[0].start, self.store.begin)

    def test_an_export_of_the_ordinary_broker(self) -> None:
        """It goes on."""
        other = Store(self.root / "other")
        for epoch in (3, 7):  # of controller mode: greater than DLedger's first terms
            other.new_master(epoch)
            other.append([made(self.chance) for _ in range(20)])
        first = other.export(self.out)
        self.assertEqual((first.layout, first.divided), ("commitlog", 0))
        other._write(other.end, other.blank(-other.end % other.file_size))
        begin = other.end + -other.end % other.file_size
        goes_on = LedgerStore(other.root, other.file_size, begin)
        for term in (0, 1):
            goes_on.new_master(term)
            goes_on.append([made(self.chance) for _ in range(200)])
            manifest = goes_on.export(self.out)
        self.assertEqual((manifest.layout, manifest.divided, manifest.messages), ("dledger", begin, 440))
        self.assertEqual([each.epoch for each in manifest.epochs], [3, 7, 0, 1])

    def test_old_files_expire(self) -> None:
        """The export keeps them."""
        self.send(100)
        before = self.export()
        for path in (self.store.root / "commitlog").iterdir():
            path.unlink()
        self.send(100)
        manifest = self.export()
        self.assertEqual((manifest.divided, manifest.begin), (before.divided, before.begin))

    def test_damage(self) -> None:
        """In the older part."""
        at, record = min((at, each) for at, each in self.store.records.items() if len(each.body) > 40)
        path = self.store.root / "commitlog" / f"{0:020d}"
        data = bytearray(path.read_bytes())
        data[data.index(record.body, at) + 5] ^= 1
        path.write_bytes(data)
        self.send(10)
        with self.assertRaises(CorruptStore):
            self.store.export(self.out)


def len_of(store: LedgerStore, at: int) -> int:
    """Bytes of a record."""
    above = [place for place in store.records if place > at]
    return min(above) - 48 - at if above else store.end - at


if __name__ == "__main__":
    unittest.main()
