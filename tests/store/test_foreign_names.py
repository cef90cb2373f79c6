"""What others put into our directories is left alone, in every directory of a store and of a Raft log.

The names: the root of an ext4 disk has ``lost+found``, network storage ``.snapshot`` and ``.nfs...``, desktops
``.DS_Store`` and ``._`` files (rocketmq#3257).
"""

from __future__ import annotations

import errno
import random
import unittest

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.export.source import found
from rocketha.store.foreign_names import SHOWN_MAX, ForeignNames
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.wire.raft_entries import HardState, SnapshotMeta
from tests.store import raft_support
from tests.store.support import (
    HOST,
    NOW_MS,
    ROOT,
    SMALL,
    bodies,
    flush,
    memory_disk,
    message,
    open_store,
    read_queue,
    upkeep,
)

FOLDERS = ("lost+found", ".snapshot", "old")
FILES = (
    ".DS_Store",
    ".nfs000000000001",
    "notes.log",
    "._00000000000000000001-0000000001.log",
    "00000000000000000000.bak",
)
COUNT = 30


class _RootsDisk(MemoryDisk):
    """Of which ``lost+found`` lets nobody but root look into it."""

    def list(self, path: str) -> list[str]:
        if path.endswith("/lost+found"):
            raise DiskFailure(path, "list", errno.EACCES, "permission denied")
        return super().list(path)


def directories(disk: MemoryDisk, root: str) -> list[str]:
    """The directory and those in it."""
    inner = [f"{root}/{name}" for name in disk.list(root) if disk.is_dir(f"{root}/{name}")]
    return [root, *(each for path in inner for each in directories(disk, path))]


def plant(disk: MemoryDisk, root: str) -> dict[str, bytes | None]:
    """Put one of each name into every directory: what must be there afterwards."""
    planted: dict[str, bytes | None] = {}
    for directory in directories(disk, root):
        for name in FOLDERS:
            disk.make_dirs(f"{directory}/{name}")
            planted[f"{directory}/{name}"] = None
        for name in FILES:
            file = disk.create(f"{directory}/{name}", 0)
            data = name.encode() * (name != ".DS_Store")
            file.write(0, [data])
            file.close()
            planted[f"{directory}/{name}"] = data
    return planted


def standing(disk: MemoryDisk, planted: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """What is left of it."""
    return {path: None if disk.is_dir(path) else disk.read_all(path, 1 << 20) for path in planted if disk.exists(path)}


class StoreTests(unittest.TestCase):
    """A broker's or a learner's store."""

    def made(self, disk: MemoryDisk, clean: bool) -> dict[str, bytes | None]:
        store = open_store(disk)
        for number in range(COUNT):
            store.append([[message(number, "T" if number % 2 else "%RETRY%g")]], NOW_MS + number)
        flush(store)
        upkeep(store, NOW_MS + 2000)
        if clean:
            store.close(NOW_MS)
        else:
            disk.kill()
        disk.make_dirs(f"{ROOT}/batchconsumequeue")
        self.assertGreaterEqual(len(directories(disk, ROOT)), 8)
        return plant(disk, ROOT)

    def test_every_directory(self) -> None:
        """Clean stop and crash: the store starts, has its messages, says so in one line, and touches nothing."""
        for clean in (True, False):
            disk = memory_disk()
            planted = self.made(disk, clean)
            with self.subTest(clean=clean):
                store = open_store(disk)
                self.assertEqual(len(read_queue(store, "T")), COUNT // 2)
                self.assertEqual(sorted(store.queue_table()), ["%RETRY%g", "T"])
                self.assertEqual(len(store.query("T", message(7).keys[0], 9, 0, 1 << 62)), 1)
                store.close(NOW_MS)
                self.assertEqual(standing(disk, planted), planted)

    def test_one_line(self) -> None:
        """The names are listed, and only so many."""
        disk = memory_disk()
        store = open_store(disk)
        store.close(NOW_MS)
        disk.make_dirs(f"{ROOT}/commitlog/lost+found")
        self.assertEqual(
            self.notes(disk), [f"left alone, since the names are not those of our files: {ROOT}/commitlog/lost+found"]
        )
        for number in range(100):
            disk.create(f"{ROOT}/index/.nfs{number:03d}", 0).close()
        (note,) = self.notes(disk)
        self.assertEqual(note.count(ROOT), SHOWN_MAX)
        self.assertIn("and 91 more", note)

    def notes(self, disk: MemoryDisk) -> list[str]:
        store = MessageStore(disk, ROOT, SMALL, HOST)
        notes = store.load(NOW_MS).notes
        store.close(NOW_MS)
        return list(notes)

    def test_what_only_root_may_see(self) -> None:
        """``consumequeue`` on a disk of its own: its ``lost+found`` cannot be read; a topic that cannot is refused."""
        disk = memory_disk()
        self.made(disk, clean=True)
        disk.__class__ = _RootsDisk
        store = open_store(disk)
        self.assertEqual(len(read_queue(store, "T")), COUNT // 2)
        store.close(NOW_MS)

    def test_work_goes_around_them(self) -> None:
        """Topics deleted, files expired, the log cut: nobody else's file goes with ours."""
        disk = memory_disk()
        planted = self.made(disk, clean=True)
        store = open_store(disk)
        for number in range(COUNT, 2 * COUNT):
            store.append([[message(number)]], NOW_MS + number)
        flush(store)
        upkeep(store, NOW_MS + 4000)
        store.delete_topic("T")
        self.assertFalse(any(name.isdigit() for name in disk.list(f"{ROOT}/consumequeue/T/0")))
        store.delete_topic("%RETRY%g")
        store.append([[message(1, body=b"new")]], NOW_MS + 100)
        store.close(NOW_MS)
        store = open_store(disk)
        self.assertEqual(bodies(read_queue(store, "T")), [b"new"])
        store.follow()
        store.truncate(store.log.begin)
        store.close(NOW_MS)
        self.assertEqual(standing(disk, planted), planted)

    def test_a_deleted_topic_leaves_no_directory(self) -> None:
        """Where nobody else's file is in it."""
        disk = memory_disk()
        store = open_store(disk)
        store.append([[message(1)]], NOW_MS)
        upkeep(store, NOW_MS + 2000)
        self.assertTrue(disk.is_dir(f"{ROOT}/consumequeue/T/0"))
        store.delete_topic("T")
        self.assertFalse(disk.exists(f"{ROOT}/consumequeue/T"))

    def test_an_export_reads_past_them(self) -> None:
        """A stopped broker's store, as an export sees it."""
        disk = memory_disk()
        self.made(disk, clean=True)
        source = found(disk, ROOT)
        self.assertEqual(source.file_size(), 4096)
        self.assertEqual([path for path in source.segments().values() if not path[-20:].isdigit()], [])
        disk.create(f"{ROOT}/commitlog/77", 4096).close()
        with self.assertRaises(CorruptStore):
            source.segments()


class RaftTests(unittest.TestCase):
    """A controller's directory."""

    def test_a_raft_log(self) -> None:
        """Segments, snapshots, what a crash left half made: only ours are opened, and removed."""
        disk = MemoryDisk(random.Random(1))
        log = raft_support.open_log(disk)
        log.save(HardState(1, "", 0), raft_support.entries(1, 60, 1, 60))
        raft_support.save_snapshot(log, SnapshotMeta(20, 1, raft_support.MEMBERS), b"x")
        log.compact(10)
        log.close()
        planted = plant(disk, raft_support.ROOT)
        for name in ("backup.log.tmp", "snapshot-of-tuesday.tmp", "snapshot-notes"):
            disk.create(f"{raft_support.ROOT}/{name}", 0).close()
            planted[f"{raft_support.ROOT}/{name}"] = b""
        half = f"{raft_support.ROOT}/snapshot-{21:020d}-{1:020d}.tmp"
        disk.create(half, 0).close()
        log = raft_support.open_log(disk)
        self.assertEqual(log.last_index(), 60)
        (note,) = [note for note in log.notes if "left alone" in note]
        self.assertIn("lost+found", note)
        self.assertFalse(disk.exists(half))
        raft_support.save_snapshot(log, SnapshotMeta(40, 1, raft_support.MEMBERS), b"x")
        raft_support.save_snapshot(log, SnapshotMeta(50, 1, raft_support.MEMBERS), b"x")
        log.compact(45)
        log.close()
        self.assertEqual(standing(disk, planted), planted)

    def test_a_first_start(self) -> None:
        """An empty disk has ``lost+found``: that is no lost vote."""
        disk = MemoryDisk(random.Random(1))
        disk.make_dirs(raft_support.ROOT)
        planted = plant(disk, raft_support.ROOT)
        raft_support.open_log(disk).close()
        self.assertEqual(standing(disk, planted), planted)


class NameTests(unittest.TestCase):
    """The collection itself."""

    def test_joined(self) -> None:
        """Counts add up, however few are shown."""
        inner, outer = ForeignNames(), ForeignNames()
        for number in range(SHOWN_MAX + 2):
            inner.skip(f"/a/{number}")
        outer.skip("/b")
        outer.join(inner)
        self.assertIn("and 3 more", outer.notes[0])
        self.assertEqual(ForeignNames().notes, [])
