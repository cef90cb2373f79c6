"""What is not proven is not believed: records that are not all written, differences that damage made.

``make soak`` runs 1,000 exports beside a writer and 10,000 faults; ``make test`` some of them.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from rocketha.errors import ConfigError, CorruptStore, RockethaError
from rocketha.export.exporter import Exporter
from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Manifest, decode
from rocketha.export.source import Identity, Source, found
from rocketha.store.posix_disk import PosixDisk, PosixFile, ReadingDisk
from rocketha.wire import properties
from rocketha.wire.record import decode as record_at
from rocketha.wire.record import encode
from tests.export.stores import LedgerStore, Store, made
from tests.export.test_foreign import tree
from tests.interop.harness.processes import wait_until

SOAK = bool(os.environ.get("ROCKETHA_SOAK"))
EXPORTS = 1000 if SOAK else 12
FAULTS = 10_000 if SOAK else 60


def say(text: str) -> None:
    """For whoever runs the long ones."""
    sys.stderr.write(f"\n{text}\n")


class Case(unittest.TestCase):
    """A store and its export."""

    KIND: type[Store] = Store

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-export-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"
        self.chance = random.Random(11)
        self.store = self.KIND(self.folder / "store")

    def send(self, count: int) -> None:
        self.store.append([made(self.chance) for _ in range(count)])


class TornTests(Case):
    """The last record, as far as it is written."""

    def write(self, offset: int, data: bytes) -> None:
        self.store._write(offset, data)

    def test_every_part_of_it(self) -> None:
        """It counts when all of it is there, not before; and nothing was ever taken back."""
        for named in ({"KEYS": "k", "UNIQ_KEY": "u"}, {}):
            self.send(5)
            self.store.append([made(self.chance)._replace(properties=properties.build(named))])
            (*_, place) = sorted(self.store.records)
            begin, end = place - self.store.RECORD_AT, self.store.end
            base = begin - begin % self.store.file_size
            data = (self.store.root / self.store.FOLDER / f"{base:020d}").read_bytes()[begin - base : end - base]
            for written in range(len(data) + 1):
                self.write(begin, data[:written] + bytes(len(data) - written))
                manifest = self.store.export(self.out)
                # a length of 0 looks like one that is not there yet, and then nothing is missing but zeros
                whole = written == len(data) or (not named and written >= len(data) - 2)
                self.assertEqual(manifest.end, end if whole else begin, f"{written} of {len(data)}")
                self.assertEqual(manifest.cuts, ())

    def test_a_value_that_ends_with_a_zero(self) -> None:
        """A client may send that: it waits for the next record."""
        self.send(3)
        end = self.store.end
        self.store.append([made(self.chance)._replace(properties=b"KEYS\x01k\0")])
        self.assertEqual(self.store.export(self.out).end, end)
        self.send(1)
        manifest = self.store.export(self.out)
        self.assertEqual((manifest.end, manifest.messages), (self.store.end, 5))

    def test_overtaken(self) -> None:
        """The broker writes faster than it is read: a hole of zeros before what is new, in one look only."""
        self.send(5)
        self.store.append([made(self.chance)._replace(properties=properties.build({"KEYS": "key" * 30}))])
        (*_, place) = sorted(self.store.records)
        self.send(3)
        base = place - place % self.store.file_size
        hole = range(*(place - base + len(encode(self.store.records[place])) - each for each in (60, 20)))
        read, looks = PosixFile.read, [0]

        def racing(file: PosixFile, offset: int, size: int) -> bytes:
            data = bytearray(read(file, offset, size))
            if file.path == f"{self.store.root}/{self.store.FOLDER}/{base:020d}" and len(data) > hole.stop - offset:
                looks[0] += 1
                if looks[0] == 1:
                    data[hole.start - offset : hole.stop - offset] = bytes(len(hole))
            return bytes(data)

        with mock.patch.object(PosixFile, "read", racing):
            manifest = self.store.export(self.out)
        self.assertGreater(looks[0], 1)
        self.assertEqual((manifest.end, manifest.messages, manifest.cuts), (self.store.end, 9, ()))
        log = (self.out / self.store.LAYOUT / f"{base:020d}").read_bytes()
        self.assertEqual(record_at(log, place - base), self.store.records[place])


class LedgerTornTests(TornTests):
    """The same in DLedger's entries."""

    KIND = LedgerStore


@pytest.mark.soak
class WriterTests(Case):
    """Exports while another process writes."""

    def test_beside_a_writer(self) -> None:
        """No cut, and each record has its properties."""
        root = self.folder / "written"
        command = [sys.executable, "-m", "tests.export.appending", str(root), "3"]
        here = str(Path(__file__).parents[2])
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=here)
        self.addCleanup(writer.wait)
        self.addCleanup(writer.terminate)
        assert writer.stdin is not None
        self.addCleanup(writer.stdin.close)
        source = Source(ReadingDisk(), str(root), (f"{root}/commitlog",))
        wait_until("a record", source.has_log, 30, lambda: writer.poll() is None)
        seen = grew = exports = number = 0
        late_s = time.monotonic() + 60 + EXPORTS
        while grew < EXPORTS:  # a busy machine may not let the writer write for a while
            self.assertLess(time.monotonic(), late_s)
            self.assertIsNone(writer.poll())
            manifest = self.export(root)
            self.assertEqual(manifest.cuts, ())
            exports += 1
            grew += manifest.end > seen
            for record in self.records(manifest, seen):
                self.assertEqual(dict(properties.parse(record.properties))["LAST"], str(number))
                number += 1
            seen = manifest.end
        if SOAK:
            say(f"{exports} exports beside a writer: {grew} grew, {number} records in {seen} bytes, 0 cuts")
        self.assertGreaterEqual(number, EXPORTS)

    def export(self, root: Path) -> Manifest:
        exporter = Exporter(found(ReadingDisk(), str(root)), PosixDisk(), str(self.out), lambda: 1)
        for progress in exporter.run(Identity("c", "b", 1), "r"):
            if progress.pause_ms:
                time.sleep(progress.pause_ms / 1000)  # as the command does: until the writer is further
        return decode((self.out / NAME).read_bytes()[:FILE_BYTES_MAX], NAME)

    def records(self, manifest: Manifest, begin: int) -> Iterator[Any]:
        for segment in manifest.segments:
            if segment.end > begin:
                log = (self.out / "commitlog" / f"{segment.base:020d}").read_bytes()
                for (at,) in struct.iter_unpack(">I", (self.out / "offsets" / f"{segment.base:020d}").read_bytes()):
                    if segment.base + at >= begin:
                        yield record_at(log, at)


@pytest.mark.soak
class FaultTests(Case):
    """One byte of an export is another one."""

    def setUp(self) -> None:
        super().setUp()
        self.store.new_master(1)
        self.send(150)
        self.store.confirm(self.store.end)
        self.store.export(self.out)

    def test_any_byte(self) -> None:
        """Nothing is taken for a cut, and what is refused is not changed."""
        self.send(20)
        self.store.export(self.out)
        self.send(1)
        good = self.folder / "good"
        self.out.rename(good)
        files = sorted(each for each in good.rglob("*") if each.is_file() and each.stat().st_size)
        outcomes: collections.Counter[str] = collections.Counter()
        for _ in range(FAULTS):
            shutil.rmtree(self.out, ignore_errors=True)
            shutil.copytree(good, self.out)
            path = self.out / self.chance.choice(files).relative_to(good)
            data = bytearray(path.read_bytes())
            at = self.chance.randrange(len(data))
            data[at] ^= self.chance.randrange(1, 256)
            path.write_bytes(data)
            before, what = tree(self.out), f"byte {at} of {path}"
            try:
                manifest = self.store.export(self.out)
            except RockethaError as error:
                self.assertIsInstance(error, CorruptStore, what)
                self.assertEqual(tree(self.out), before, what)
                outcomes["refused as damaged"] += 1
            else:
                self.assertEqual((manifest.cuts, manifest.end), ((), self.store.end), what)
                self.assertFalse((self.out / "cuts").exists(), what)
                outcomes["not looked at, or written anew"] += 1
        if SOAK:
            say(f"{FAULTS} one-byte faults, 0 cuts: {dict(outcomes)}")
        self.assertGreater(outcomes["refused as damaged"], FAULTS // 4)


class DamageTests(Case):
    """Which side is damaged."""

    def setUp(self) -> None:
        super().setUp()
        self.store.new_master(1)
        self.send(250)
        self.store.export(self.out)

    def flip(self, folder: Path, place: int) -> Path:
        path = folder / f"{place - place % self.store.file_size:020d}"
        data = bytearray(path.read_bytes())
        data[place % self.store.file_size] ^= 1
        path.write_bytes(data)
        return path

    def refused(self, path: Path, says: str) -> None:
        """With the file's name, and the export is as it was."""
        before = tree(self.out)
        for _ in range(2):
            with self.assertRaisesRegex(CorruptStore, f"^{path} at byte .*{says}"):
                self.store.export(self.out)
            self.assertEqual(tree(self.out), before)

    def test_the_export(self) -> None:
        """A byte in its last block, of properties too, which no CRC covers; with a real cut beside it."""
        (*_, last) = sorted(self.store.records)
        path = self.flip(self.out / self.store.LAYOUT, self.store.end - 2)
        self.refused(path.with_name(f"{0:020d}"), "the export is damaged")
        self.store.cut(last - self.store.RECORD_AT)
        self.store.new_master(2)
        self.send(1)
        self.refused(path.with_name(f"{0:020d}"), "the export is damaged")

    def test_where_the_broker_has_nothing_any_more(self) -> None:
        """The begin of the last block has expired there: it is not taken into a digest of its own."""
        for path in sorted((self.store.root / self.store.FOLDER).iterdir())[:-1]:
            path.unlink()
        first = min(self.store.records)
        self.flip(self.out / self.store.LAYOUT, first + 90)
        self.send(1)
        self.refused(self.out / self.store.LAYOUT / f"{0:020d}", "the export is damaged")

    def test_the_broker(self) -> None:
        """Its own record does not match its CRC: nothing was taken back."""
        places = [at for at, each in sorted(self.store.records.items()) if len(each.body) > 50]
        path = self.flip(self.store.root / self.store.FOLDER, places[-2] + 100)
        self.refused(path, "CRC")

    def test_a_cut_is_one(self) -> None:
        """What the broker cut is kept, and what it wrote instead is exported."""
        places = sorted(self.store.records)
        self.store.cut(places[-10] - self.store.RECORD_AT)
        self.store.new_master(2)
        self.send(1)
        manifest = self.store.export(self.out)
        self.assertEqual((len(manifest.cuts), manifest.messages), (1, 241))
        self.send(30)
        manifest = self.store.export(self.out)
        self.assertEqual((len(manifest.cuts), manifest.messages), (1, 271))

    def test_all_of_it(self) -> None:
        """A log that has nothing of it is another log, whatever it is called."""
        self.store.cut(min(self.store.records) - self.store.RECORD_AT)
        self.store.new_master(2)
        self.send(3)
        before = tree(self.out)
        with self.assertRaisesRegex(ConfigError, "holds the export of another log"):
            self.store.export(self.out)
        self.assertEqual(tree(self.out), before)

    def test_what_a_run_left_of_a_cut(self) -> None:
        """It ended before its manifest: a name is used once, and those bytes stay."""
        self.store.cut(sorted(self.store.records)[-10] - self.store.RECORD_AT)
        self.store.new_master(2)
        self.send(1)
        source = found(ReadingDisk(), str(self.store.root))
        exporter = Exporter(source, PosixDisk(), str(self.out), lambda: 1)
        with mock.patch.object(exporter, "_save", side_effect=InterruptedError), contextlib.suppress(InterruptedError):
            list(exporter.run(Identity("c", "b", 1), "r"))
        left = tree(self.out / "cuts")
        self.assertEqual(len(left), 3)
        (cut,) = self.store.export(self.out).cuts
        after = tree(self.out / "cuts")
        self.assertEqual({**after, **left}, after)
        self.assertEqual(len(after), 5)
        self.assertTrue(cut.path.endswith("-1"))


class LedgerDamageTests(DamageTests):
    """The same in DLedger's entries."""

    KIND = LedgerStore


if __name__ == "__main__":
    unittest.main()
