"""Exports that were damaged: what is wrong is named, by file and place, and mended from whoever still has it.

``make soak`` makes 12,000 faults; ``make test`` some of them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from rocketha.errors import ConfigError, CorruptStore, DiskFailure
from rocketha.export.exporter import Exporter
from rocketha.export.manifest import COPY, NAME, Cut, Manifest, SmallFile, encode
from rocketha.export.repairing import ExportOrigin, Origin, Repairer, StoreOrigin
from rocketha.export.source import Identity, found
from rocketha.export.verifying import Fault, Verifier
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from tests.export.stores import AdoptedStore, LedgerStore, Store, made
from tests.seeds import SeededCase

SOAK = bool(os.environ.get("ROCKETHA_SOAK"))
FAULTS = 1_000 if SOAK else 30
MISSING_IN = 100
"""One of so many faults is a file that is gone."""


class Case(SeededCase):
    """An export with cuts of a log of several files, and what else has its bytes."""

    KIND: type[Store] = Store

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-export-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out, self.good = self.folder / "out", self.folder / "good"
        self.store = self.KIND(self.folder / "store")
        (self.folder / "store/config").mkdir()
        (self.folder / "store/config/topics.json").write_text('{"topicConfigTable":{}}')
        self.store.new_master(1)
        self.send(150)
        self.store.export(self.out)
        self.store.cut(sorted(self.store.records)[-10] - self.store.RECORD_AT)
        self.store.new_master(2)
        self.send(150)
        self.store.confirm(self.store.end)
        self.manifest = self.store.export(self.out)
        self.assertEqual(len(self.manifest.cuts), 1)
        shutil.copytree(self.out, self.good)

    def send(self, count: int) -> None:
        self.store.append([made(self.chance) for _ in range(count)])

    def rewritten(self, **members: object) -> None:
        """The manifest says something else."""
        for name in (NAME, COPY):
            (self.out / name).write_bytes(encode(attrs.evolve(self.manifest, **members)))

    def without(self, *names: str) -> None:
        for name in names:
            (self.out / name).unlink()

    def verified(self) -> list[Fault]:
        verifier = Verifier(ReadingDisk(), str(self.out))
        for _ in verifier.run():
            pass
        return verifier.faults

    def repaired(self, *origins: Origin) -> list[Fault]:
        """What is left."""
        repairer = Repairer(PosixDisk(), str(self.out), origins)
        for _ in repairer.run():
            pass
        self.assertTrue(repairer.found)
        return repairer.left

    @property
    def from_store(self) -> Origin:
        return StoreOrigin(found(ReadingDisk(), str(self.store.root)))

    @property
    def from_export(self) -> Origin:
        return ExportOrigin(ReadingDisk(), str(self.good))

    def named(self) -> dict[str, range]:
        """The files of the export, and which of their bytes count."""
        manifest, files = self.manifest, {}
        for segment in manifest.segments:
            files[manifest.log_name(segment.base)] = range(segment.begin - segment.base, segment.end - segment.base)
        for path in self.good.rglob("*"):
            name = str(path.relative_to(self.good))
            if path.is_file() and name != "lock" and name not in files:
                files[name] = range(path.stat().st_size)
        return {name: places for name, places in files.items() if places}

    def assertMended(self) -> None:
        for name, places in self.named().items():
            ours, theirs = (each / name for each in (self.out, self.good))
            here = slice(places.start, places.stop)
            self.assertEqual(ours.read_bytes()[here], theirs.read_bytes()[here], name)

    def assertNames(self, faults: list[Fault], name: str, at: int) -> None:
        """A fault says where it is; of small files of a log, a block of which is in several, in which block."""
        self.assertEqual(len(faults), 1, faults)
        (fault,) = faults
        place = int(Path(name).name) + at if Path(name).parent.name in ("commitlog", "dledger") else None
        if place is not None and isinstance(fault.lost, tuple):
            self.assertTrue(any(block.begin <= place < block.end for block in fault.lost), fault)
        else:
            self.assertEqual(fault.path, name)
            self.assertLessEqual(fault.offset, at)


class Pieces:
    """Somebody who has nothing but a cut, and something behind it."""

    def __init__(self, data: bytes, more: bytes) -> None:
        self.data, self.more, self.asked = data, more, 0

    def log(self, wanted: Manifest, begin: int, end: int) -> bytes:
        return b""

    def cut(self, wanted: Manifest, cut: Cut) -> Iterator[bytes]:
        self.asked += 1
        for at in range(0, len(self.data), 100):
            yield self.data[at : at + 100]
        yield self.more

    def small_file(self, path: str) -> bytes:
        return b""


class Looking(PosixDisk):
    """Somebody looks at an export each time that its manifest or the copy is there anew."""

    def __init__(self, out: Path, verified: Callable[[], list[Fault]]) -> None:
        self.out, self.verified = str(out), verified
        self.looks, self.faults = 0, list[Fault]()

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        if new in (f"{self.out}/{NAME}", f"{self.out}/{COPY}"):
            self.looks += 1
            self.faults += self.verified()


class Unreadable:
    """Somebody whose disk is dying."""

    def log(self, wanted: Manifest, begin: int, end: int) -> bytes:
        raise DiskFailure("disk", "read", errno.EIO, "a bad sector")

    def cut(self, wanted: Manifest, cut: Cut) -> Iterator[bytes]:
        yield b"some"
        self.log(wanted, cut.begin, cut.end)

    def small_file(self, path: str) -> bytes:
        raise DiskFailure("disk", "read", errno.EIO, "a bad sector")


class SoundTests(Case):
    """Nothing is wrong."""

    def test_nothing_is_found(self) -> None:
        self.assertEqual(self.verified(), [])
        self.send(20)
        self.store.export(self.out)
        self.assertEqual(self.verified(), [])

    def test_what_a_run_left_that_broke_off(self) -> None:
        """Bytes behind those that the manifest names do not count."""
        segment = self.manifest.segments[-1]
        for name in (self.manifest.log_name(segment.base), f"offsets/{segment.base:020d}"):
            with open(self.out / name, "ab") as file:
                file.write(b"more")
        self.assertEqual(self.verified(), [])

    def test_no_export(self) -> None:
        (self.folder / "empty").mkdir()
        for path in ("empty", "store", "nothing"):
            for run in (
                Verifier(ReadingDisk(), f"{self.folder}/{path}"),
                Repairer(PosixDisk(), f"{self.folder}/{path}", ()),
            ):
                with self.assertRaisesRegex(ConfigError, "no export"):
                    list(run.run())

    def test_while_the_first_manifest_is_saved(self) -> None:
        """A run may end there: what was not made yet is not missed."""
        self.out = self.folder / "another"
        looking = Looking(self.out, lambda: self.verified() if (self.out / NAME).exists() else [])
        exporter = Exporter(found(ReadingDisk(), str(self.store.root)), looking, str(self.out), lambda: 0)
        for _ in exporter.run(Identity("c", "b", 1)):
            pass
        self.assertGreater(looking.looks, 4)
        self.assertEqual(looking.faults, [])
        self.without(COPY)
        self.assertEqual([each.path for each in self.verified()], [COPY])

    def test_a_lock_that_is_a_link(self) -> None:
        """It would be made, or written to, wherever that leads."""
        (self.out / "lock").unlink()
        (self.out / "lock").symlink_to(self.folder / "elsewhere")
        with self.assertRaisesRegex(ConfigError, "lock is a symbolic link"):
            list(Repairer(PosixDisk(), str(self.out), [self.from_export]).run())
        self.assertFalse((self.folder / "elsewhere").exists())

    def test_a_link_that_a_manifest_leads_to(self) -> None:
        """No small file is written through it."""
        (self.folder / "elsewhere").mkdir()
        (self.out / "more").symlink_to(self.folder / "elsewhere")
        (self.good / "more").mkdir()
        (self.good / "more/file").write_bytes(b"data")
        file = SmallFile("more/file", 4, hashlib.sha256(b"data").hexdigest())
        self.rewritten(files=(*self.manifest.files, file))
        with self.assertRaisesRegex(ConfigError, "more is a symbolic link"):
            list(Repairer(PosixDisk(), str(self.out), [self.from_export]).run())
        self.assertEqual(list((self.folder / "elsewhere").iterdir()), [])

    def test_a_link(self) -> None:
        """It may lead anywhere."""
        (self.out / "offsets").rename(self.folder / "offsets")
        (self.out / "offsets").symlink_to(self.folder / "offsets")
        with self.assertRaisesRegex(ConfigError, "symbolic link"):
            self.verified()


@pytest.mark.soak
class FaultTests(Case):
    """A byte is another one, or a file is gone."""

    TIMES = 10

    def damage(self, chance: random.Random, name: str, places: range) -> int:
        """Where."""
        path = self.out / name
        if chance.randrange(MISSING_IN if SOAK else 6) == 0:
            path.unlink()
            return 0
        at = chance.choice(places)
        data = bytearray(path.read_bytes())
        data[at] ^= chance.randrange(1, 256)
        path.write_bytes(data)
        return at

    def origin(self, chance: random.Random, name: str) -> Origin:
        """Whoever has it: a cut is nowhere but in exports."""
        return self.from_export if name.startswith("cuts/") or chance.random() < 0.5 else self.from_store

    def test_each_is_named_and_mended(self) -> None:
        files = sorted(self.named().items())
        for _ in range(FAULTS * self.TIMES if SOAK else FAULTS):
            name, places = self.chance.choice(files)
            at = self.damage(self.chance, name, places)
            self.assertNames(self.verified(), name, at)
            self.assertEqual(self.repaired(self.origin(self.chance, name)), [], f"{name} at {at}")
            self.assertMended()
            self.assertEqual(self.verified(), [])


class LedgerFaultTests(FaultTests):
    """The same in DLedger's entries."""

    KIND, TIMES = LedgerStore, 1


class AdoptedFaultTests(FaultTests):
    """A log that DLedger went on with has files of both layouts."""

    KIND, TIMES = AdoptedStore, 1


class LostTests(Case):
    """More than one thing is gone, or nobody has it."""

    def test_everything_but_a_manifest(self) -> None:
        """The directories, too."""
        for name in ("commitlog", "offsets", "cuts", "config"):
            shutil.rmtree(self.out / name)
        self.without(NAME)
        self.assertGreater(len(self.verified()), 3)
        self.assertEqual(self.repaired(self.from_export), [])
        self.assertMended()

    def test_nobody_has_it(self) -> None:
        """It stays named, and the rest is mended."""
        (cut,) = self.manifest.cuts
        self.without(cut.path, "offsets/" + "0" * 20)
        left = self.repaired(self.from_store)
        self.assertEqual([(each.path, each.what) for each in left], [(cut.path, "it is missing")])
        self.assertEqual(self.repaired(self.from_export), [])
        self.assertMended()

    def test_a_cut_without_a_digest(self) -> None:
        """Earlier versions took none: what shows that it is damaged is named, and the rest is mended."""
        (cut,) = self.manifest.cuts
        self.rewritten(cuts=(attrs.evolve(cut, sha256=""),))
        self.assertEqual(self.verified(), [])
        with open(self.out / cut.path, "r+b") as file:
            file.write(bytes(4))
        self.without("offsets/" + "0" * 20)
        self.assertEqual([each.path for each in self.repaired(self.from_export)], [cut.path])
        self.assertEqual([each.path for each in self.verified()], [cut.path])

    def test_a_long_cut_is_never_in_memory(self) -> None:
        """Nor is what an origin has of it, if that is something else."""
        (cut,) = self.manifest.cuts
        wanted = (self.good / cut.path).read_bytes()
        self.without(cut.path)
        origins = [Pieces(wanted, b"other"), Pieces(wanted, b"")]
        self.assertEqual(self.repaired(*origins), [])
        self.assertEqual([each.asked for each in origins], [1, 2])
        self.assertEqual((self.out / cut.path).read_bytes(), wanted)
        self.assertEqual([each.name for each in (self.out / "cuts").glob("*.tmp")], [])

    def test_a_manifest_of_a_later_version(self) -> None:
        """Its copy has what is not known yet."""
        data = (self.out / NAME).read_bytes().rpartition(b',\n"sha256": "')[0] + b',\n"later": 1'
        data += b',\n"sha256": "' + hashlib.sha256(data).hexdigest().encode() + b'"\n}\n'
        (self.out / COPY).write_bytes(data)
        self.without(NAME)
        self.assertEqual(self.repaired(self.from_export), [])
        self.assertEqual((self.out / NAME).read_bytes(), data)

    def test_an_origin_that_cannot_be_read(self) -> None:
        """The next one is asked, and the rest is mended."""
        (cut,) = self.manifest.cuts
        self.without(self.manifest.log_name(0), cut.path, "config/topics.json")
        repairer = Repairer(PosixDisk(), str(self.out), [Unreadable(), self.from_export])
        for _ in repairer.run():
            pass
        self.assertEqual(repairer.left, [])
        self.assertEqual(len(repairer.unreadable), 1)
        self.assertIn("a bad sector", repairer.unreadable[0])
        self.assertMended()

    def test_of_several(self) -> None:
        """Each block from whoever has it right: one lacks the begin, the other the end."""
        other = self.folder / "other"
        shutil.copytree(self.good, other)
        (self.store.root / "commitlog" / f"{self.manifest.segments[-1].base:020d}").write_bytes(b"damaged")
        self.without(*(self.manifest.log_name(each.base) for each in self.manifest.segments))
        self.assertTrue(self.repaired(self.from_store))
        self.assertEqual(self.repaired(self.from_store, ExportOrigin(ReadingDisk(), str(other))), [])
        self.assertMended()

    def test_both_manifests(self) -> None:
        for name in (NAME, COPY):
            (self.out / name).write_bytes(b"{}")
        self.assertEqual({each.path for each in self.verified()}, {NAME, COPY})
        self.assertEqual({each.path for each in self.repaired(self.from_store)}, {NAME, COPY})
        with self.assertRaisesRegex(CorruptStore, "no manifest to believe"):
            ExportOrigin(ReadingDisk(), str(self.out))

    def test_an_export_without_a_manifest_is_not_gone_on_with(self) -> None:
        self.without(NAME)
        with self.assertRaisesRegex(ConfigError, "rocketha export repair"):
            self.store.export(self.out)
        self.assertEqual(self.repaired(self.from_store), [])
        self.send(3)
        self.store.export(self.out)
        self.assertEqual(self.verified(), [])

    def test_a_wrong_offer(self) -> None:
        """Another log's bytes are not taken."""
        another = Store(self.folder / "another")
        another.append([made(random.Random(77)) for _ in range(300)])
        self.without(self.manifest.log_name(0))
        offer = StoreOrigin(found(ReadingDisk(), str(another.root)))
        self.assertEqual([each.path for each in self.repaired(offer)], [self.manifest.log_name(0)])
        self.assertEqual(self.repaired(self.from_store), [])
        self.assertMended()
