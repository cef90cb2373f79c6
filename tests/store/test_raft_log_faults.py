"""The disk fails, tears, forgets and rots at every step; the Raft log keeps its promises.

Source: regressions.md A15 (vote), C1 (truncation), C5 (torn writes), C13 (snapshots), faults-and-invariants.md.
"""

from __future__ import annotations

import errno
import random
import unittest
from collections import Counter

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.raft_log import RaftLog
from rocketha.wire.raft_entries import HardState, SnapshotMeta
from tests.store.raft_support import (
    GROWN,
    MEMBERS,
    ROOT,
    HookedDisk,
    Run,
    entries,
    entry,
    held,
    image,
    open_log,
    restored,
    save_snapshot,
    snapshot_data,
)

SEEDS = 250


def hooked(seed: int) -> HookedDisk:
    """A disk that tears at sectors or at bytes."""
    chance = random.Random(seed)
    return HookedDisk(chance, chance.choice((1, 512)))


class RandomRunTests(unittest.TestCase):
    """A node in an order that a seed decides, against the model of what it was promised."""

    def go(self, run: Run, steps: int) -> bool:
        """Some steps; False when the log became unusable on the way."""
        try:
            for _ in range(steps):
                self.assertEqual(run.step(), [])
        except DiskFailure:
            return False
        return True

    def restart(self, run: Run, how: str) -> None:
        """Stop as told, start again, and compare."""
        if how == "close" and run.log is not None and run.log.failed is None:
            run.log.close()
            run.model.floor = run.model.chain.last
        if how == "crash":
            run.disk.crash()
        else:
            run.disk.kill()
        self.assertEqual(run.start(), [])

    def test_power_cuts(self) -> None:
        """Many seeds, four stops each: what was synced is there, votes never go back, what was cut never returns."""
        counts: Counter[str] = Counter()
        for seed in range(SEEDS):
            run = Run(hooked(seed), seed)
            with self.subTest(seed=seed):
                self.assertEqual(run.start(), [])
                for _ in range(4):
                    self.go(run, run.random.randrange(40))
                    self.restart(run, run.random.choice(("crash", "crash", "crash", "kill", "close")))
                counts.update(run.counts)
        for name in ("append", "replace", "vote", "sync", "sync_beside", "take", "receive", "look"):
            self.assertGreater(counts[name], 100, name)

    def test_power_cuts_while_recovering(self) -> None:
        """The power fails again at a random step of the recovery, three times."""
        for seed in range(SEEDS):
            run = Run(hooked(seed), seed)
            with self.subTest(seed=seed):
                self.assertEqual(run.start(), [])
                self.go(run, 40)
                for _ in range(3):
                    run.disk.crash()
                    run.disk.fail_at(run.random.randrange(1, 40), times=1 << 30)
                    try:
                        open_log(run.disk)
                    except DiskFailure:
                        pass
                    run.disk.heal()
                self.restart(run, "crash")
                self.go(run, 10)
                self.restart(run, "crash")

    def test_every_operation_fails(self) -> None:
        """The 1st, 2nd, ... operation fails until none is left to fail, over opening, appending, rolling, cutting,
        voting, snapshots and compaction; the node goes on if it may, and then dies or loses power."""
        for ending, error in (("kill", errno.ENOSPC), ("crash", errno.EIO)):
            number, failed = 0, True
            while failed:
                number += 1
                run = Run(hooked(number), seed=11)
                with self.subTest(number=number, ending=ending):
                    self.assertEqual(run.start(), [])
                    self.go(run, 30)
                    self.restart(run, ending)
                    run.disk.fail_at(number, error)
                    run.random = random.Random(11)
                    self.go(run, 60)
                    failed = run.disk.operations >= number
                    run.disk.heal()
                    self.restart(run, ending)
                    self.go(run, 15)
                    self.restart(run, "crash")
            self.assertGreater(number, 150)

    def test_every_operation_of_recovery_fails(self) -> None:
        """A start that fails changes nothing that the next one needs."""
        for seed in range(5):
            number, failed = 0, True
            while failed:
                number += 1
                run = Run(hooked(seed), seed)
                self.assertEqual(run.start(), [])
                self.go(run, 50)
                run.disk.crash()
                run.disk.fail_at(number)
                with self.subTest(seed=seed, number=number):
                    try:
                        open_log(run.disk)
                    except DiskFailure:
                        pass
                    failed = run.disk.operations >= number
                    run.disk.heal()
                    self.restart(run, "crash" if number % 2 else "kill")
            self.assertGreater(number, 15)


class VoteTests(unittest.TestCase):
    """Regression A15."""

    def test_a_vote_survives_a_crash_at_every_step(self) -> None:
        """Power fails at the 1st, 2nd, ... operation of saving a vote: when save returned, the vote is there; when it
        did not, the old one or the new one is; so no two votes of a term are ever given."""
        for seed in range(40):
            for number in range(1, 12):
                disk = hooked(seed)
                log = open_log(disk)
                log.save(HardState(4, "n1", 0), [])
                disk.fail_at(number, times=1 << 30)
                granted = True
                try:
                    log.save(HardState(5, "n2", 0), [])
                except DiskFailure:
                    granted = False
                disk.heal()
                disk.crash()
                found = open_log(disk).initial()[0]
                allowed = {(5, "n2")} if granted else {(4, "n1"), (5, "n2")}
                self.assertIn((found.term, found.vote), allowed, f"seed {seed}, operation {number}")
            self.assertTrue(granted)

    def test_an_uncertain_vote_stops_the_node(self) -> None:
        """The directory's sync failed: the vote may be there or not, and nothing is saved until a new start looked."""
        disk = hooked(1)
        log = open_log(disk)
        log.save(HardState(4, "n1", 0), [])
        disk.fail_at(2, only=["sync"])
        with self.assertRaises(DiskFailure):
            log.save(HardState(5, "n2", 0), [])
        self.assertIsNotNone(log.failed)
        with self.assertRaisesRegex(DiskFailure, "nothing is written any more after sync failed"):
            log.save(HardState(6, "", 0), [])

    def test_a_vote_that_was_not_saved_can_be_saved_again(self) -> None:
        """A full disk: the former vote counts, and the same save succeeds later."""
        disk = hooked(1)
        log = open_log(disk)
        log.save(HardState(4, "n1", 0), [])
        for number in (1, 2):
            disk.fail_at(number, errno.ENOSPC, only=["create", "write"])
            with self.assertRaises(DiskFailure):
                log.save(HardState(5, "n2", 0), entries(1, 2, 5))
            self.assertEqual((log.initial()[0].term, log.last_index(), log.failed), (4, 0, None))
        log.save(HardState(5, "n2", 0), entries(1, 2, 5))
        disk.crash()
        self.assertEqual(open_log(disk).initial()[0][:2], (5, "n2"))


class CutTests(unittest.TestCase):
    """Regression C1."""

    def test_a_cut_tail_never_returns(self) -> None:
        """Power fails at each step after and within the replacement of a suffix that was synced: once save returned,
        none of the old entries is ever seen; before, the log is the old one or the cut one."""
        old = entries(1, 12, 1, 150)
        new = old[:4] + entries(5, 6, 2, 150)
        for seed in range(30):
            number, done = 0, False
            while not done:
                number += 1
                disk = hooked(seed)
                log = open_log(disk)
                log.save(HardState(1, "n1", 4), old)
                log.sync()
                log.save(HardState(2, "n2", 4), [])
                disk.fail_at(number, times=1 << 30)
                steps = []
                try:
                    log.save(None, new[4:])
                    steps.append("cut")
                    log.sync()
                    steps.append("synced")
                except DiskFailure:
                    pass
                done = disk.operations < number
                disk.heal()
                disk.crash()
                found = held(open_log(disk))
                where = f"seed {seed}, operation {number}, {steps}"
                if "synced" in steps:
                    self.assertEqual(found, new, where)
                elif "cut" in steps:
                    self.assertIn(found, [new[:size] for size in (4, 5, 6)], where)
                else:
                    self.assertIn(found, [old, *(new[:size] for size in (4, 5, 6))], where)
            self.assertGreater(number, 8)

    def test_a_cut_across_segments_removes_them(self) -> None:
        """The files behind the cut go, the one it falls into shrinks, and again and again does not fill the disk."""
        disk = hooked(3)
        log = open_log(disk)
        for term in range(1, 60):
            first = 3 if term > 1 else 1
            log.save(HardState(term, "", 0), entries(first, 30, term, 100))
            log.sync()
            self.assertEqual([each.term for each in held(log)], [1] * min(2, 30) + [term] * 28)
        names = [name for name in disk.list(ROOT) if name.endswith(".log")]
        self.assertLess(len(names), 8)
        log.close()
        self.assertEqual([each.term for each in held(open_log(disk))], [1, 1] + [59] * 28)


class TornTailTests(unittest.TestCase):
    """What a power cut may leave of the last write, and what it cannot have done."""

    def two_writes(self) -> tuple[dict[str, bytes], str, int, int]:
        """Files with three synced entries and two that were written, as a killed process leaves them; the segment's
        path, where the unsynced bytes begin and where they end."""
        disk = MemoryDisk(random.Random(1))
        log = open_log(disk)
        log.save(HardState(1, "n0", 0), entries(1, 3, 1))
        log.sync()
        segment = log._segments[-1]
        start = segment.end
        log.save(None, entries(4, 5, 1))
        return image(disk), segment.path, start, segment.end

    def test_every_cut_of_the_unsynced_write_is_dropped(self) -> None:
        """Whatever byte the unsynced write ends at, and whether zeros or dirt follow: the synced entries are there, the
        others are whole or gone, and what is appended next stays."""
        files, path, start, end = self.two_writes()
        for cut in range(start, end + 1):
            for fill in (b"\0", b"\xa5"):
                data = files[path][:cut] + fill * (end - cut) + files[path][end:]
                log = open_log(disk := restored({**files, path: data}))
                last = log.last_index()
                self.assertEqual(held(log), entries(1, last, 1), cut)
                self.assertIn(last, (3, 4, 5))
                log.save(HardState(2, "n0", 0), [entry(last + 1, 2)])
                log.close()
                self.assertEqual(held(open_log(disk)), [*entries(1, last, 1), entry(last + 1, 2)])

    def test_a_later_write_may_survive_an_earlier_one(self) -> None:
        """Nothing says in which order the unsynced bytes reach the platter: a good record behind a hole is no damage
        as long as it does not know of a sync that covers the hole."""
        files, path, start, _end = self.two_writes()
        data = files[path][:start] + bytes(40) + files[path][start + 40 :]
        log = open_log(restored({**files, path: data}))
        self.assertEqual((held(log), len(log.notes)), (entries(1, 3, 1), 1))
        self.assertIn("never synced", log.notes[0])

    def test_damage_below_a_sync_is_no_torn_tail(self) -> None:
        """The same hole, one sync later: with the hint of ``progress`` and, without it, with what the later record says
        of the sync, the start is refused; nothing on the disk is changed by that."""
        disk = MemoryDisk(random.Random(1))
        log = open_log(disk)
        log.save(HardState(1, "n0", 0), entries(1, 5, 1))
        log.sync()
        log.save(None, entries(6, 6, 1))
        files, path = image(disk), log._segments[-1].path
        at = files[path].index(b"5 of term 1")
        for hints in (files[f"{ROOT}/progress"], bytes(8192)):
            for damage in (b"9", b"\0" * 11):
                data = files[path][:at] + damage + files[path][at + len(damage) :]
                damaged = {**files, path: data, f"{ROOT}/progress": hints}
                disk = restored(damaged)
                with self.assertRaises(CorruptStore) as caught:
                    open_log(disk)
                self.assertEqual((caught.exception.path, image(disk)), (path, damaged))
                self.assertIn("entry 5 is damaged or gone, and entries up to 5 had been synced", str(caught.exception))
                self.assertIn("add it again", str(caught.exception))

    def test_a_lost_end_is_noticed(self) -> None:
        """The last synced record is zeroed or its file cut: only the hint knows, and it is enough."""
        disk = MemoryDisk(random.Random(1))
        log = open_log(disk)
        log.save(HardState(1, "n0", 0), entries(1, 5, 1))
        log.close()
        files, path = image(disk), f"{ROOT}/{next(name for name in disk.list(ROOT) if name.endswith('.log'))}"
        at = files[path].index(b"5 of term 1") - 36
        for data in (files[path][:at] + bytes(len(files[path]) - at), files[path][:at], files[path][: at + 7]):
            with self.assertRaisesRegex(CorruptStore, "entries up to 5 had been synced"):
                open_log(restored({**files, path: data}))


class RotTests(unittest.TestCase):
    """Bits change on the platter."""

    def closed(self) -> dict[str, bytes]:
        """The files of a node that was stopped: three segments, two snapshots, a vote."""
        disk = MemoryDisk(random.Random(1))
        log = open_log(disk, segment_bytes=300)
        log.save(HardState(3, "n2", 0), [*entries(1, 4, 1), *entries(5, 12, 3)])
        for index in (3, 5):
            meta = SnapshotMeta(index, log.term(index), GROWN if index == 5 else MEMBERS)
            save_snapshot(log, meta, snapshot_data(meta, 120))
        log.compact(2)
        log.close()
        return image(disk)

    def test_every_flipped_bit_is_noticed(self) -> None:
        """Of every byte of every file, one bit is flipped: the start is refused, or what is served is what was saved.
        Damage of a synced record, a header or the vote is always refused where no snapshot has its effects."""
        files = self.closed()
        wanted = [*entries(1, 4, 1), *entries(5, 12, 3)]
        refused: Counter[str] = Counter()
        for path, data in files.items():
            if path.endswith("/lock"):
                continue
            for at in range(0, len(data), 1 if not path.endswith("progress") else 97):
                flipped = bytearray(data)
                flipped[at] ^= 1 << at % 8
                try:
                    log = open_log(restored({**files, path: bytes(flipped)}), segment_bytes=300)
                except CorruptStore as problem:
                    self.assertEqual(problem.path, path, problem)
                    refused[path.rpartition("/")[2].partition("-")[0]] += 1
                    continue
                where = f"{path} at {at}"
                found = held(log)
                self.assertEqual(found, wanted[log.first_index() - 1 :], where)
                self.assertEqual(log.initial()[0], HardState(3, "n2", 5), where)
                meta = log.snapshot()
                self.assertIn(meta.index, (3, 5), where)
                self.assertEqual(meta.members, GROWN if meta.index == 5 else MEMBERS, where)
                self.assertEqual(log.read_snapshot(0, 1 << 20), snapshot_data(meta, 120), where)
                self.assertTrue(meta.index == 5 or log.notes, where)
                self.assertFalse(path.endswith("state"), where)
        self.assertEqual(refused["state"], len(files[f"{ROOT}/state"]))
        segments = {path: data for path, data in files.items() if path.endswith(".log")}
        newest = sorted(segments)[-1]
        self.assertGreaterEqual(refused[newest.rpartition("/")[2].partition("-")[0]], 150)

    def test_rot_while_running_is_not_served(self) -> None:
        """A record that changed after it was written is refused when it is read from the disk, with its place."""
        for target in (1, 2, 5):
            disk = MemoryDisk(random.Random(1))
            log = RaftLog.open(disk, ROOT, "g", "n0", MEMBERS, 1 << 20, memory_bytes=300)
            log.save(HardState(1, "n0", 0), entries(1, 9, 1))
            path = log._segments[-1].path
            data = disk.read_all(path, 1 << 30)
            at = data.index(b"%d of term 1" % target)
            disk.flip_bit(path, at + 2, 3)
            with self.assertRaises(CorruptStore) as caught:
                log.entries(1, 7, 1 << 20)
            self.assertEqual((caught.exception.path, caught.exception.offset), (path, at - 36))
            self.assertIn(f"checksum of entry {target}", str(caught.exception))

    def test_a_rotten_snapshot_is_not_served(self) -> None:
        """A flipped bit of a block that was good at the start is noticed when it is read, and its neighbours are not
        affected."""
        disk = MemoryDisk(random.Random(1))
        log = open_log(disk)
        log.save(HardState(1, "n0", 0), entries(1, 3, 1))
        meta = SnapshotMeta(3, 1, MEMBERS)
        save_snapshot(log, meta, snapshot_data(meta, 200_000))
        (path,) = [f"{ROOT}/{name}" for name in disk.list(ROOT) if name.startswith("snapshot")]
        disk.flip_bit(path, 100_000, 1)
        self.assertEqual(log.read_snapshot(0, 60_000), snapshot_data(meta, 200_000)[:60_000])
        with self.assertRaisesRegex(CorruptStore, "checksum"):
            log.read_snapshot(60_000, 60_000)


class FailedSyncTests(unittest.TestCase):
    """A sync is never tried twice."""

    def test_a_failed_sync_is_final(self) -> None:
        """Everything is refused afterwards, and a new start has what was synced before."""
        disk = hooked(3)
        log = open_log(disk)
        log.save(HardState(1, "n0", 0), entries(1, 2, 1))
        log.sync()
        log.save(None, entries(3, 4, 1))
        disk.fail_at(1, only=["sync"])
        with self.assertRaises(DiskFailure):
            log.sync()
        disk.heal()
        for call in (
            log.sync,
            lambda: log.save(None, entries(5, 5, 1)),
            lambda: log.save(HardState(2, "", 0), []),
            lambda: save_snapshot(log, SnapshotMeta(1, 1, MEMBERS), b""),
            lambda: log.compact(0),
        ):
            with self.assertRaisesRegex(DiskFailure, "nothing is written any more"):
                call()
        self.assertEqual(log.synced_index(), 2)
        log.close()
        disk.crash()
        self.assertEqual(held(open_log(disk)), entries(1, 2, 1))

    def test_what_a_failed_sync_left_readable_is_made_safe(self) -> None:
        """The process dies after a failed sync; its writes can still be read, but no sync would write them any more.
        What the next process takes over is on the disk all the same."""
        for seed in range(30):
            disk = hooked(seed)
            log = open_log(disk)
            log.save(HardState(1, "n0", 0), entries(1, 2, 1))
            log.sync()
            log.save(None, entries(3, 6, 1, 40))
            disk.fail_at(1, only=["sync"])
            with self.assertRaises(DiskFailure):
                log.sync()
            disk.heal()
            disk.kill()
            log = open_log(disk)
            found = held(log)
            self.assertEqual((len(found), log.synced_index()), (6, 6))
            disk.crash()
            self.assertEqual(held(open_log(disk)), found)

    def test_a_failed_write_is_tried_again_elsewhere(self) -> None:
        """What a failed write left is replaced by a new segment, so it is not seen even if it was whole."""
        for seed in range(60):
            disk = hooked(seed)
            log = open_log(disk)
            log.save(HardState(1, "n0", 0), entries(1, 2, 1))
            disk.fail_at(1, only=["write"])
            with self.assertRaises(DiskFailure):
                log.save(None, entries(3, 5, 1))
            self.assertEqual((log.last_index(), log.failed), (2, None))
            log.save(HardState(2, "", 0), entries(3, 3, 2))
            log.sync()
            disk.crash()
            self.assertEqual(held(open_log(disk)), [*entries(1, 2, 1), entry(3, 2)])
