"""Exports become stores: the same messages under the same offsets, and nothing of what is damaged."""

from __future__ import annotations

import random

import attrs

from rocketha.errors import ConfigError, CorruptStore, DiskFailure
from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Manifest, decode, encode
from rocketha.export.restoring import UNFINISHED, Restorer
from rocketha.store.memory_disk import MemoryDisk
from tests.export.test_exporter import OUT, Case
from tests.store.support import ROOT, memory_disk, open_store


class RestoringTests(Case):
    """To a third disk."""

    def setUp(self) -> None:
        super().setUp()
        self.new = memory_disk(3)
        self.disk.make_dirs(f"{ROOT}/config")
        file = self.disk.create(f"{ROOT}/config/topics.json", 2)
        file.write(0, [b"{}"])
        file.close()

    def write(self, manifest: Manifest) -> None:
        """In place of the export's."""
        self.target.remove(f"{OUT}/{NAME}")
        file = self.target.create(f"{OUT}/{NAME}", 0)
        file.write(0, [encode(manifest)])
        file.close()

    def restore(self, disk: MemoryDisk | None = None) -> list[int]:
        return list(Restorer(self.target, OUT, disk or self.new, "/store").run())

    def test_a_store_of_the_same_messages(self) -> None:
        """Log and queues are equal, and what comes next goes where it would have gone."""
        self.send(400)
        manifest = self.export()
        self.assertGreater(len(manifest.segments), 2)
        done = self.restore()
        self.assertEqual(done[-1], 2 * (manifest.end - manifest.begin))
        self.assertEqual(self.log_of(self.new, "/store/commitlog"), self.log_of(self.disk, f"{ROOT}/commitlog"))
        self.assertEqual(self.new.read_all("/store/config/topics.json", 9), b"{}")
        restored = open_store(self.new, root="/store")
        self.assertEqual(restored.log.end, self.store.log.end)
        self.assertEqual(restored.queue_table(), self.store.queue_table())
        for name in self.disk.list(f"{ROOT}/commitlog"):
            path = f"commitlog/{name}"
            self.assertEqual(
                self.new.read_all(f"/store/{path}", 1 << 30), self.disk.read_all(f"{ROOT}/{path}", 1 << 30)
            )
        self.store, self.disk, before = restored, self.new, self.store
        self.send(3)
        self.assertGreater(self.store.log.end, before.log.end)

    def test_a_power_cut_behind_it(self) -> None:
        """Everything is on the disk; before the end there is no log."""
        self.send(200)
        self.export()
        self.restore()
        for seed in range(10):
            disk = memory_disk(seed)
            self.restore(disk)
            disk.crash()
            restored = open_store(disk, root="/store")
            self.assertEqual(restored.queue_table(), self.store.queue_table())
            disk = memory_disk(seed)
            run = Restorer(self.target, OUT, disk, "/store").run()
            for _ in range(seed + 1):
                next(run)
            disk.crash()
            self.assertFalse(disk.exists("/store/commitlog"))
            self.restore(disk)

    def test_what_it_was_in_a_group_is_not_restored(self) -> None:
        self.send(3)
        for name in ("epochFileCheckpoint", "brokerIdentity"):
            file = self.disk.create(f"{ROOT}/{name}", 0)
            file.write(0, [b"1\n0\n1-0\n" if name.startswith("epoch") else b"c#b#1"])
            file.close()
        self.assertIn("epochFileCheckpoint", [each.path for each in self.export().files])
        self.restore()
        self.assertEqual(sorted(self.new.list("/store")), ["commitlog", "config", "lock"])

    def test_any_changed_byte_is_found(self) -> None:
        """Of log and tables; the store gets no log then, and the next run of a sound export does it all."""
        self.send(60)
        manifest = self.export()
        chance = random.Random(self.id())
        paths = [f"{OUT}/commitlog/{each.base:020d}" for each in manifest.segments] + [f"{OUT}/config/topics.json"]
        for path in paths:
            size = self.target.size(path)
            for at in [0, size - 1, *(chance.randrange(size) for _ in range(10))]:
                file = self.target.open(path)
                before = file.read(at, 1)
                file.write(at, [bytes([before[0] ^ 1 << chance.randrange(8)])])
                with self.assertRaises(CorruptStore, msg=f"{path} {at}"):
                    self.restore()
                self.assertNotIn("commitlog", self.new.list("/store"))
                file.write(at, [before])
                file.close()
        self.restore()
        self.assertEqual(open_store(self.new, root="/store").queue_table(), self.store.queue_table())

    def test_a_disk_that_keeps_something_else(self) -> None:
        """What is read again differs: found before the log gets its name."""
        self.send(10)
        self.export()
        run = Restorer(self.target, OUT, self.new, "/store").run()
        next(run)
        (name,) = self.new.list(f"/store/{UNFINISHED}")
        file = self.new.open(f"/store/{UNFINISHED}/{name}")
        file.write(5, [b"?"])
        with self.assertRaisesRegex(CorruptStore, "not what is read"):
            list(run)
        self.assertNotIn("commitlog", self.new.list("/store"))

    def test_no_broker_starts_meanwhile(self) -> None:
        self.send(10)
        self.export()
        run = Restorer(self.target, OUT, self.new, "/store").run()
        next(run)
        with self.assertRaises(DiskFailure):
            open_store(self.new, root="/store")
        run.close()
        self.restore()  # what a run that broke off left is no obstacle

    def test_what_is_refused(self) -> None:
        with self.assertRaisesRegex(ConfigError, "is no export"):
            self.restore()
        self.send(10)
        manifest = self.export()
        self.new.make_dirs("/store/consumequeue")
        with self.assertRaisesRegex(ConfigError, "is not empty"):
            self.restore()
        first = attrs.evolve(manifest.segments[0], corrupt=1)
        damaged = attrs.evolve(manifest, segments=(first, *manifest.segments[1:]))
        self.write(damaged)
        self.assertEqual(decode(self.target.read_all(f"{OUT}/{NAME}", FILE_BYTES_MAX), NAME), damaged)
        with self.assertRaisesRegex(ConfigError, "cut its log"):
            self.restore(memory_disk(4))

    def test_it_writes_nowhere_else(self) -> None:
        """Whoever made an export names its files: none may lie outside of the new store."""
        self.send(10)
        manifest = self.export()
        self.target.make_dirs("/elsewhere")
        for path in ("config/../../elsewhere/x", "/elsewhere/x", "config//x", "config/./x", "config/", ""):
            named = attrs.evolve(manifest.files[0], path=path)
            self.write(attrs.evolve(manifest, files=(named,)))
            with self.assertRaisesRegex(CorruptStore, "path is none of an export", msg=path):
                self.restore()
        self.assertFalse(self.new.exists("/store"))
