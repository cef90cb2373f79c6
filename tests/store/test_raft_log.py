"""The Raft log as its users see it: what is saved can be read, now and after a restart, and what makes no sense is
refused."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import unittest
from collections.abc import Callable
from typing import Any

from rocketha.errors import ConfigError, CorruptStore, DiskFailure, InvariantBroken
from rocketha.raft.storage import LogStorage
from rocketha.store.disk import Disk
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.posix_disk import PosixDisk
from rocketha.store.raft_log import RaftLog
from rocketha.store.raft_snapshot import WRITE_BLOCKS
from rocketha.store.raft_tail import EntryTail
from rocketha.wire.raft_entries import Compacted, Entry, HardState, Members, SnapshotMeta, Unavailable
from rocketha.wire.spec.raft_log import SNAPSHOT_BLOCK_BYTES
from tests.store.raft_support import (
    GROWN,
    MEMBERS,
    NODE,
    ROOT,
    SEGMENT_BYTES,
    entries,
    entry,
    held,
    image,
    open_log,
    restored,
    save_snapshot,
    snapshot_data,
)


def term(number: int, vote: str = "", commit: int = 0) -> HardState:
    """A hard state."""
    return HardState(number, vote, commit)


class LogContract:
    """The main path, on every disk; mixed into a class that makes one."""

    disk: Disk
    root: str
    assertEqual: Callable[..., None]
    assertRaises: Callable[..., Any]
    assertLess: Callable[..., None]
    assertGreater: Callable[..., None]

    def open(self) -> RaftLog:
        """The log, of small segments."""
        return open_log(self.disk, self.root)

    def reopened(self, log: RaftLog) -> RaftLog:
        """After a clean stop."""
        log.close()
        return self.open()

    def segments(self) -> list[str]:
        """Names of the segments."""
        return [name for name in self.disk.list(self.root) if name.endswith(".log")]

    def test_an_empty_log(self) -> None:
        """Index 0, term 0, nobody voted for, the members given; the same after a restart with other ones given."""
        log: LogStorage = self.open()
        self.assertEqual((log.first_index(), log.last_index(), log.term(0)), (1, 0, 0))
        self.assertEqual((log.initial(), log.snapshot().index), ((HardState(0, "", 0), MEMBERS), 0))
        self.assertEqual(log.entries(1, 1, 100), [])
        assert isinstance(log, RaftLog)
        log.close()
        log = RaftLog.open(self.disk, self.root, "group-a", NODE, Members({"other"}))
        self.assertEqual(log.initial()[1], MEMBERS)
        log.close()

    def test_entries_come_back(self) -> None:
        """All of many, of every size and kind, over several segments; each range, bounded by bytes; after a restart
        the same, and appending goes on."""
        log = self.open()
        chance = random.Random(5)
        saved: list[Entry] = []
        for number in range(1, 31):
            log.save(term(number), [])
            count = chance.choice((1, 2, 7))
            start = len(saved) + 1
            new = [
                Entry(index, number, chance.choice((1, 2, 3)), chance.randbytes(chance.choice((0, 1, 30, 300, 2500))))
                for index in range(start, start + count)
            ]
            log.save(None, new)
            saved += new
            self.assertEqual(held(log), saved)
        self.assertGreater(len(self.segments()), 3)
        for _ in range(2):
            for _ in range(300):
                low = chance.randrange(1, len(saved) + 1)
                high = chance.randrange(low, len(saved) + 2)
                most = chance.choice((0, 1, 100, 3000, 1 << 40))
                found = log.entries(low, high, most)
                self.assertEqual(found, saved[low - 1 : low - 1 + len(found)])
                size = sum(len(each.data) for each in found)
                if high > low:
                    self.assertGreater(len(found), 0)
                    self.assertEqual(size <= most or len(found) == 1, True)
                    if len(found) < high - low:
                        self.assertGreater(size + len(saved[low - 1 + len(found)].data), most)
                self.assertEqual(log.term(low), saved[low - 1].term)
            log = self.reopened(log)
        log.save(term(31, "n2", 3), entries(len(saved) + 1, len(saved) + 2, 31))
        log = self.reopened(log)
        self.assertEqual(held(log), saved + entries(len(saved) + 1, len(saved) + 2, 31))
        self.assertEqual((log.initial()[0], log.notes), (HardState(31, "n2", 3), []))
        log.close()

    def test_a_suffix_is_replaced(self) -> None:
        """At every index; what is read and found after a restart is the new log; equal beginnings are kept."""
        for first in range(1, 13):
            log = self.open()
            log.save(term(first * 2), [])
            last = log.last_index()
            old = held(log)
            if last < 12:
                log.save(None, entries(last + 1, 12, first * 2, 130))
                old = held(log)
            log.save(term(first * 2 + 1), [])
            new = old[: first - 1] + entries(first, 11, first * 2 + 1, 130)
            log.save(None, new[max(0, first - 3) :])
            self.assertEqual(held(log), new)
            self.assertEqual([log.term(index) for index in range(1, 12)], [each.term for each in new])
            log = self.reopened(log)
            self.assertEqual(held(log), new)
            log.close()

    def test_equal_entries_change_nothing(self) -> None:
        """The same save again, whole or in part, writes nothing; a shorter one than the log cuts what is behind."""
        log = self.open()
        log.save(term(2), [*entries(1, 3, 1), *entries(4, 6, 2)])
        before = self.segments()
        log.save(None, [*entries(2, 3, 1), *entries(4, 6, 2)])
        self.assertEqual((held(log), self.segments()), ([*entries(1, 3, 1), *entries(4, 6, 2)], before))
        log.save(None, [*entries(2, 3, 1), *entries(4, 4, 2)])
        self.assertEqual(held(log), [*entries(1, 3, 1), *entries(4, 4, 2)])
        log = self.reopened(log)
        self.assertEqual(held(log), [*entries(1, 3, 1), *entries(4, 4, 2)])
        log.close()

    def test_large_entries(self) -> None:
        """Longer than a segment and than what is read at once; between small ones."""
        log = self.open()
        saved = [entry(1, 1), entry(2, 1, 700_000), entry(3, 1), entry(4, 1, 300_000), entry(5, 1, 5)]
        log.save(term(1), saved)
        for _ in range(2):
            self.assertEqual(held(log), saved)
            self.assertEqual([len(log.entries(low, 6, 1)) for low in range(1, 6)], [1, 1, 1, 1, 1])
            log = self.reopened(log)
        log.close()

    def test_snapshot_and_compaction(self) -> None:
        """The newest snapshot counts, the one before can still be read, older ones go; compacted entries are refused;
        their files go; the log begins at most one behind the snapshot."""
        log = self.open()
        log.save(term(1), entries(1, 40, 1, 100))
        files = len(self.segments())
        for index in (10, 20, 30):
            meta = SnapshotMeta(index, 1, GROWN)
            save_snapshot(log, meta, snapshot_data(meta, 150_000))
            self.assertEqual((log.snapshot(), log.first_index()), (meta, 1))
        log.compact(25)
        self.assertLess(len(self.segments()), files - 2)
        for _ in range(2):
            self.assertEqual((log.snapshot(), log.initial()[1]), (SnapshotMeta(30, 1, GROWN), GROWN))
            self.assertEqual(log.read_snapshot(149_900, 500), snapshot_data(SnapshotMeta(30), 150_000)[149_900:])
            self.assertEqual(
                log.read_snapshot(65_000, 1000, 20), snapshot_data(SnapshotMeta(20), 150_000)[65_000:66_000]
            )
            self.assertEqual((log.read_snapshot(150_000, 10), log.read_snapshot(150_000, 10, 20)), (b"", b""))
            with self.assertRaises(Compacted):
                log.read_snapshot(0, 10, 10)
            first = log.first_index()
            self.assertEqual(held(log), entries(first, 40, 1, 100))
            self.assertEqual(log.term(first - 1), 1)
            with self.assertRaises(Compacted):
                log.term(first - 2)
            with self.assertRaises(Compacted):
                log.entries(first - 1, first + 1, 10)
            log = self.reopened(log)
        log.compact(30)
        self.assertEqual(log.first_index(), 31)
        log.close()

    def test_a_received_snapshot_replaces_the_log(self) -> None:
        """Ahead of the log, or inside it with another term: the log is empty behind it; with the same term it stays."""
        for index, of_term, kept in ((12, 1, True), (12, 2, False), (30, 2, False), (20, 1, True), (21, 2, False)):
            shutil_root = f"{self.root}-{index}-{of_term}"
            log = open_log(self.disk, shutil_root)
            log.save(term(3), entries(1, 20, 1, 60))
            meta = SnapshotMeta(index, of_term, GROWN)
            save_snapshot(log, meta, snapshot_data(meta))
            after = entries(1, 20, 1, 60) if kept else []
            for _ in range(2):
                self.assertEqual((held(log), log.last_index()), (after, 20 if kept else index))
                self.assertEqual((log.term(index), log.initial()), (of_term, (HardState(3, "", index), GROWN)))
                log.close()
                log = open_log(self.disk, shutil_root)
            last = log.last_index()
            log.save(None, entries(last + 1, last + 3, 3))
            log.close()
            log = open_log(self.disk, shutil_root)
            self.assertEqual(held(log), after + entries(last + 1, last + 3, 3))
            log.close()

    def test_a_worker_may_be_ahead(self) -> None:
        """Two snapshots are written before the first one is installed: both can be, in order."""
        log = self.open()
        log.save(term(1), entries(1, 9, 1))
        metas = [SnapshotMeta(4, 1, MEMBERS), SnapshotMeta(7, 1, MEMBERS)]
        for meta in metas:
            log.write_snapshot(meta, snapshot_data(meta))
        for meta in metas:
            log.install_snapshot(meta)
            self.assertEqual((log.snapshot(), log.read_snapshot(0, 1 << 20)), (meta, snapshot_data(meta)))
        log.close()

    def test_snapshots_of_any_length(self) -> None:
        """None, a part of a block, whole blocks, several writes: the same bytes come back, after a restart too."""
        log = self.open()
        log.save(term(4), [])
        block = SNAPSHOT_BLOCK_BYTES
        for index, size in enumerate((0, 1, block, block + 1, 3 * block, (WRITE_BLOCKS + 1) * block + 5), 9):
            meta, data = SnapshotMeta(index, 4, GROWN), random.Random(size).randbytes(size)
            for _ in range(2):  # again, over what is there
                log.write_snapshot(meta, data)
            self.assertNotEqual(log.snapshot(), meta)
            log.install_snapshot(meta)
            for _ in range(2):
                self.assertEqual((log.snapshot(), log.read_snapshot(0, 1 << 24)), (meta, data))
                self.assertEqual(log.read_snapshot(size // 2, 9), data[size // 2 : size // 2 + 9])
                log = self.reopened(log)
        log.close()

    def test_a_directory_is_used_once(self) -> None:
        """Two nodes on one directory: the second is refused while the first runs."""
        log = self.open()
        with self.assertRaises(DiskFailure):
            self.open()
        self.reopened(log).close()


class MemoryLogTests(LogContract, unittest.TestCase):
    """In memory."""

    def setUp(self) -> None:
        """A disk."""
        self.disk, self.root = MemoryDisk(random.Random(1)), ROOT


class PosixLogTests(LogContract, unittest.TestCase):
    """On the real one."""

    def setUp(self) -> None:
        """A directory."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        self.disk, self.root = PosixDisk(), f"{directory}/a/b"

    def test_a_sync_runs_beside_saves(self) -> None:
        """A thread syncs all the time while entries are appended, segments rolled and suffixes cut; what a sync covered
        is what the log says, and nothing is lost or mixed up."""
        log = self.open()
        log.save(term(1), entries(1, 5, 1))
        stop, problems, syncs = threading.Event(), [], []

        def sync_all_the_time() -> None:
            try:
                while not stop.is_set():
                    log.sync()
                    syncs.append(log.last_index())
            except Exception as problem:
                problems.append(problem)

        worker = threading.Thread(target=sync_all_the_time)
        worker.start()
        model = entries(1, 5, 1)
        chance = random.Random(2)
        try:
            for number in range(2, 70):
                log.save(term(number), [])
                first = chance.randrange(max(1, len(model) - 5), len(model) + 2)
                new = entries(first, first + chance.randrange(12), number, chance.choice((10, 200)))
                log.save(None, new)
                model = model[: first - 1] + new
                self.assertEqual(log.entries(1, len(model) + 1, 1 << 30), model)
        finally:
            stop.set()
            worker.join()
        self.assertEqual(problems, [])
        self.assertGreater(len(syncs), 10)
        log.sync()
        self.assertEqual(log.synced_index(), len(model))
        log = self.reopened(log)
        self.assertEqual(held(log), model)
        log.close()


class RefusalTests(unittest.TestCase):
    """What the core must not ask for, and what is not ours to open."""

    def setUp(self) -> None:
        """A log of ten entries, five of them committed."""
        self.disk = MemoryDisk(random.Random(1))
        self.log = open_log(self.disk)
        self.log.save(term(3, "n1", 5), [*entries(1, 8, 1), *entries(9, 10, 3)])

    def test_promises_are_not_broken(self) -> None:
        """A vote changed, a term that falls, a cut of committed entries, gaps, entries of a term not saved: each is our
        own mistake and raises; the log is as before."""
        for hard_state, new in (
            (term(2), []),
            (term(3, "n2"), []),
            (term(3), []),
            (None, entries(5, 6, 3)),
            (None, entries(12, 12, 3)),
            (None, entries(11, 11, 4)),
            (None, [entry(11, 3), entry(13, 3)]),
            (None, [entry(11, 3), entry(12, 2)]),
            (None, entries(0, 3, 1)),
        ):
            with self.subTest(hard_state=hard_state, new=new), self.assertRaises(InvariantBroken):
                self.log.save(hard_state, new)
        with self.assertRaises(InvariantBroken):
            self.log.compact(1)
        with self.assertRaises(InvariantBroken):
            self.log.install_snapshot(SnapshotMeta(3, 1, MEMBERS))
        self.assertEqual(held(self.log), [*entries(1, 8, 1), *entries(9, 10, 3)])
        self.assertEqual(self.log.initial()[0], HardState(3, "n1", 5))

    def test_reads_outside(self) -> None:
        """Unavailable behind the end."""
        for read in (lambda: self.log.term(11), lambda: self.log.entries(5, 12, 10)):
            with self.assertRaises(Unavailable):
                read()

    def test_the_commit_hint(self) -> None:
        """Regression C12: it never falls, comes back after a stop, and is never behind the end of the log."""
        self.log.save(term(3, "n1", 9), [])
        self.assertEqual(self.log.initial()[0].commit, 9)
        self.log.save(term(3, "n1", 7), [])
        self.log.close()
        log = open_log(self.disk)
        self.assertEqual(log.initial()[0].commit, 9)
        log.save(term(3, "n1", 10), [])
        log.save(None, entries(11, 14, 3))
        log.save(term(3, "n1", 14), [])
        self.disk.kill()
        files = image(self.disk)
        log = open_log(self.disk)
        self.assertEqual(log.initial()[0].commit, 14)
        path = log._segments[-1].path
        at = files[path].index(b"13 of term 3") - 36
        torn = restored({**files, path: files[path][:at] + bytes(len(files[path]) - at)})
        log = open_log(torn)  # 11 to 14 were committed by others and never synced here
        self.assertEqual((log.last_index(), log.initial()[0].commit), (12, 12))

    def test_another_nodes_directory(self) -> None:
        """A copied directory is refused by its first file with both names; so is a single copied file."""
        save_snapshot(self.log, SnapshotMeta(5, 1, MEMBERS), b"x")
        self.log.close()
        files = image(self.disk)
        for id, group in (("n1", "group-a"), ("n0", "group-b")):
            with self.assertRaisesRegex(ConfigError, f"belongs to node 'n0' of group 'group-a', this is node '{id}'"):
                RaftLog.open(restored(files), ROOT, group, id, MEMBERS)
        other = MemoryDisk(random.Random(1))
        open_log(other, id="n1").close()
        state = image(other)[f"{ROOT}/state"]
        with self.assertRaisesRegex(ConfigError, "state belongs to node 'n1'"):
            open_log(restored({**files, f"{ROOT}/state": state}))
        mine = image(other) | {f"{ROOT}/state": files[f"{ROOT}/state"]}
        with self.assertRaisesRegex(ConfigError, r"log belongs to node 'n1'"):
            open_log(restored(mine))

    def test_missing_files(self) -> None:
        """The vote, any segment that is needed, the newest one: the start is refused and says what is missing."""
        self.log.save(None, entries(11, 60, 3, 60))
        self.log.close()
        files = image(self.disk)
        segments = sorted(name for name in files if name.endswith(".log"))
        self.assertGreater(len(segments), 3)
        cases = [(f"{ROOT}/state", "the file is missing"), (segments[-1], "segment number .* of the log is missing")]
        cases += [(segments[0], "the log begins with entry")]
        cases += [(name, "the file ends before entry") for name in segments[1:-1]]
        for name, text in cases:
            left = {path: data for path, data in files.items() if path != name}
            with self.subTest(name), self.assertRaisesRegex(CorruptStore, text):
                open_log(restored(left))
        with self.assertRaisesRegex(CorruptStore, "is missing"):
            open_log(restored({path: data for path, data in files.items() if path not in segments}))

    def test_an_old_copy_of_the_vote(self) -> None:
        """A restored state file of an earlier term than the log's: the vote since then is lost, so the start is
        refused."""
        early = image(self.disk)[f"{ROOT}/state"]
        self.log.save(term(7), entries(11, 11, 7))
        self.log.close()
        with self.assertRaisesRegex(CorruptStore, "the term is 3, the log has entries of term 7"):
            open_log(restored({**image(self.disk), f"{ROOT}/state": early}))

    def test_a_damaged_snapshot(self) -> None:
        """The one before is used where the log reaches it, with a note; else the start is refused."""
        for index in (4, 8):
            meta = SnapshotMeta(index, 1, MEMBERS)
            save_snapshot(self.log, meta, snapshot_data(meta))
        names = [name for name in self.disk.list(ROOT) if name.startswith("snapshot")]
        path = f"{ROOT}/{names[-1]}"
        self.log.close()
        files = image(self.disk)
        files[path] = files[path][:-1]
        log = open_log(restored(files))
        self.assertEqual((log.snapshot().index, held(log)), (4, [*entries(1, 8, 1), *entries(9, 10, 3)]))
        self.assertIn("a damaged snapshot is not used", log.notes[0])
        self.assertIn(path, log.notes[0])
        log = open_log(self.disk, segment_bytes=200)
        log.save(None, entries(11, 40, 3, 100))
        meta = SnapshotMeta(30, 3, MEMBERS)
        save_snapshot(log, meta, snapshot_data(meta))
        log.compact(30)
        log.close()
        files = image(self.disk)
        path = next(name for name in sorted(files, reverse=True) if "snapshot" in name)
        files[path] = files[path][:-1]
        with self.assertRaises(CorruptStore) as caught:
            open_log(restored(files))
        self.assertEqual(caught.exception.path, path)


class SnapshotEverywhereTests(unittest.TestCase):
    """Regression C13."""

    def test_snapshot_at_every_index(self) -> None:
        """Own or received, at every index of a small log, with every compaction: restart, and compare log, terms,
        members and data; then the log goes on and is the same after another restart."""
        whole = [*entries(1, 5, 1, 90), *entries(6, 9, 2, 90), *entries(10, 14, 4, 90)]
        for index in range(1, 18):
            for compacted in sorted({0, index // 2, index}):
                disk = MemoryDisk(random.Random(index))
                log = open_log(disk, segment_bytes=SEGMENT_BYTES // 2)
                log.save(term(4), whole)
                own = index <= len(whole)
                meta = SnapshotMeta(index, whole[index - 1].term if own else 4, GROWN)
                save_snapshot(log, meta, snapshot_data(meta))
                log.compact(compacted)
                kept = whole[log.first_index() - 1 :] if own else []
                self.assertEqual(log.first_index(), (compacted if own else index) + 1)
                for _ in range(2):
                    log.close()
                    disk.crash()
                    log = open_log(disk, segment_bytes=SEGMENT_BYTES // 2)
                    first = log.first_index()
                    self.assertEqual(held(log), whole[first - 1 :] if own else [])
                    self.assertLessEqual(first, (kept[0].index if kept else index + 1))
                    self.assertEqual((log.snapshot(), log.initial()), (meta, (HardState(4, "", index), GROWN)))
                    self.assertEqual(log.read_snapshot(0, 1 << 20), snapshot_data(meta))
                    self.assertEqual(log.term(index), meta.term)
                last = log.last_index()
                log.save(None, entries(last + 1, last + 4, 4, 90))
                log.sync()
                disk.crash()
                log = open_log(disk, segment_bytes=SEGMENT_BYTES // 2)
                self.assertEqual(log.entries(last + 1, last + 5, 1 << 20), entries(last + 1, last + 4, 4, 90))


class TailTests(unittest.TestCase):
    """The part of the log in memory."""

    def test_memory_is_bounded(self) -> None:
        """Of ten thousand entries, what fits is in memory, and all are read."""
        disk = MemoryDisk(random.Random(1))
        log = RaftLog.open(disk, ROOT, "g", "n", MEMBERS, 1 << 20, memory_bytes=100_000)
        log.save(term(1), [])
        for start in range(1, 10_000, 50):
            log.save(None, entries(start, start + 49, 1))
        self.assertLess(len(log._tail._entries), 500)
        self.assertEqual(held(log), entries(1, 10_000, 1))
        log.close()
        log = RaftLog.open(disk, ROOT, "g", "n", MEMBERS, 1 << 20, memory_bytes=100_000)
        self.assertLess(len(log._tail._entries), 500)
        self.assertEqual(log.entries(1, 5001, 1 << 30), entries(1, 5000, 1))

    def test_terms(self) -> None:
        """Against a list, over appends, cuts and compactions in any order."""
        chance = random.Random(4)
        for _ in range(60):
            tail, model, first = EntryTail(1, 0, 2000), [0], 1
            now = 1
            for _ in range(40):
                choice = chance.random()
                last = first + len(model) - 2
                if choice < 0.5:
                    new = []
                    for index in range(last + 1, last + 1 + chance.randrange(1, 6)):
                        now += chance.random() < 0.4
                        new.append(entry(index, now))
                    tail.append(new)
                    model += [each.term for each in new]
                elif choice < 0.75 and last >= first:
                    index = chance.randrange(first, last + 2)
                    tail.cut(index)
                    del model[index - first + 1 :]
                elif last >= first:
                    index = chance.randrange(first - 1, last + 1)
                    tail.compact(index)
                    del model[: index - first + 1]
                    first = index + 1
                last = first + len(model) - 2
                self.assertEqual((tail.first, tail.last, tail.last_term), (first, last, model[-1]))
                self.assertEqual([tail.term(index) for index in range(first - 1, last + 1)], model)
                for index in (first - 2, last + 1):
                    with self.assertRaises((Compacted, Unavailable)):
                        tail.term(index)
                self.assertEqual(
                    [each.index for each in tail.slice(tail.low, last + 1, 1 << 30)], list(range(tail.low, last + 1))
                )
