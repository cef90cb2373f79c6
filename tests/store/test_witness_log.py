"""The log of a witness, against the log that it speaks of."""

from __future__ import annotations

import contextlib
import random
from unittest import mock

from twisted.trial import unittest

from rocketha.errors import ConfigError, CorruptStore, DiskFailure, InvariantBroken, RemoteProtocolError
from rocketha.raft.memory_storage import MemoryStorage
from rocketha.store import witness_log
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.witness_log import WitnessLog
from rocketha.wire.raft_entries import Compacted, Entry, EntryKind, HardState, Members, SnapshotMeta, Unavailable
from rocketha.wire.raft_records import WitnessState, build_witness
from rocketha.wire.spec.raft_log import WITNESS_SLOT_BYTES

PEERS = {"n0": "a:1", "n1": "b:1", "n2": "c:1"}
MEMBERS = Members(frozenset(PEERS), addresses=PEERS, witnesses={"n2"})
FOLDER = "/store/dledger-n2"


def grown(number: int) -> Members:
    return Members(frozenset(PEERS), learners=[f"l{each}" for each in range(number)], since_ms=7, witnesses={"n2"})


class WitnessLogCase(unittest.SynchronousTestCase):
    """On a disk in memory."""

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        self.open()

    def open(self, owner: tuple[str, str] = ("g", "n2")) -> WitnessLog:
        self.log = WitnessLog(self.disk, FOLDER, owner, MEMBERS)
        self.log.load()
        return self.log

    def reopen(self) -> WitnessLog:
        self.log.close()
        return self.open()

    def save(self, *entries: Entry, vote: HardState | None = None) -> None:
        """And have them on the disk."""
        self.log.save(vote, entries)
        self.log.write(*self.log.image())


class WitnessLogTests(WitnessLogCase):
    def test_as_any_other_log(self) -> None:
        """Of entries and runs that come, are cut and replaced it says what one with data says."""
        for seed in range(20):
            chance = random.Random(seed)
            self.disk = MemoryDisk(chance)
            self.open()
            model = MemoryStorage(MEMBERS)
            term, committed = 1, 0
            for _ in range(60):
                last = self.log.last_index()
                if chance.random() < 0.2:
                    term += 1
                    first = chance.randint(committed + 1, last + 1)
                else:
                    first = last + 1
                count = chance.choice((1, 1, 2, 50))
                kind = EntryKind.MEMBERSHIP if count == 1 and chance.random() < 0.3 else EntryKind.NORMAL
                data = grown(chance.randrange(5)).encode() if kind == EntryKind.MEMBERSHIP else b"x" * count
                vote = HardState(term, chance.choice(("", "n1")), 0)
                self.save(Entry(first, term, kind, data, count), vote=vote)
                ones = [Entry(first + each, term, kind, data) for each in range(count)]
                model.save(vote, ones)
                if chance.random() < 0.3:
                    committed = chance.randint(committed, self.log.last_index())
                if chance.random() < 0.2:
                    with mock.patch.object(witness_log, "KEPT_ENTRIES", 1):
                        self.log.forget(committed)
                if chance.random() < 0.2:
                    self.reopen()
                self.assertEqual(self.log.last_index(), model.last_index(), seed)
                for index in range(self.log.first_index() - 1, self.log.last_index() + 1):
                    self.assertEqual(self.log.term(index), model.term(index), (seed, index))
                first = self.log.first_index()
                known = [(entry.index, entry.term, entry.data) for entry in self.log.memberships()]
                wanted = [entry for entry in model.memberships() if entry.index >= first]
                self.assertEqual(known, [(entry.index, entry.term, entry.data) for entry in wanted], seed)
                before = [entry for entry in model.memberships() if entry.index < first]
                members = Members.decode(before[-1].data) if before else MEMBERS
                self.assertEqual(self.log.initial(), (HardState(*self.log.voted, first - 1), members), seed)
                self.assertEqual(self.log.voted, (vote.term, vote.vote))

    def test_what_it_does_not_have(self) -> None:
        self.save(Entry(1, 1, 2, b""), Entry(2, 1, 1, b"xy", 2), vote=HardState(1, "n0", 0))
        self.assertRaises(Unavailable, self.log.term, 4)
        self.assertRaises(Compacted, self.log.entries, 1, 2, 100)
        with self.assertRaisesRegex(InvariantBroken, "entry 5 behind 3"):
            self.log.save(None, [Entry(5, 1, 1, b"x")])
        self.log.begin_at(SnapshotMeta(90, 7, grown(1)))
        self.assertRaises(Compacted, self.log.term, 89)
        self.assertEqual((self.log.term(90), self.log.first_index(), self.log.last_index()), (7, 91, 90))
        self.assertEqual(self.log.snapshot(), SnapshotMeta(90, 7, grown(1)))
        with self.assertRaisesRegex(InvariantBroken, "entry 90 is committed"):
            self.log.save(None, [Entry(90, 8, 1, b"x")])

    def test_a_run_in_two(self) -> None:
        one, other = self.log.split(Entry(5, 2, 1, b"abc", 3), 7)
        self.assertEqual(((one.index, one.count), (other.index, other.count)), ((5, 2), (7, 1)))

    def test_a_crash_at_any_moment(self) -> None:
        """What was on the disk stays known, and nothing but what was written is."""
        number, failed = 0, True
        while failed:
            number += 1
            chance = random.Random(number)
            self.disk = MemoryDisk(chance)
            synced, written = (0, 0), [(0, 0)]
            self.disk.fail_at(number, times=1 << 30)
            failed = False
            try:
                self.open()
                for last in range(1, 8):
                    vote = HardState(last, "n1", 0)
                    written.append((last, last))
                    self.save(Entry(last, last, 1, b"x"), vote=vote)
                    synced = (last, last)
            except DiskFailure:
                failed = True
            self.disk.heal()
            self.disk.crash()
            log = self.open()
            now = (log.last_index(), log.voted[0])
            self.assertGreaterEqual(now[0], synced[0], number)
            self.assertGreaterEqual(now[1], synced[1], number)
            self.assertLessEqual(now, written[-1], number)
        self.assertGreater(number, 30)

    def long(self) -> int:
        """Have an image that takes several sectors; the last entry that is on the disk."""
        self.save(*(Entry(index, index, 2, b"") for index in range(1, 61)), vote=HardState(60, "", 0))
        self.save(Entry(61, 61, 2, b""))
        return self.log.last_index()

    def test_a_kill_and_then_a_power_cut(self) -> None:
        """The start after a kill finds what was not synced, and makes it so before it writes over what was."""
        for seed in range(400):
            self.disk = MemoryDisk(random.Random(seed))
            self.open()
            synced = self.long()
            self.log.save(None, [Entry(62, 62, 2, b"")])
            number, image = self.log.image()
            file = self.disk.open(f"{FOLDER}/witness")
            file.write(number % 2 * WITNESS_SLOT_BYTES, [image])
            self.disk.kill()
            self.disk.fail_at(1 + seed % 12, times=1 << 30)
            with contextlib.suppress(DiskFailure):
                self.open()
            self.disk.heal()
            self.disk.crash()
            self.assertGreaterEqual(self.open().last_index(), synced, seed)

    def test_after_a_failure_it_writes_no_more(self) -> None:
        """Another try would hit the slot that is known to be right."""
        for seed in range(50):
            self.disk = MemoryDisk(random.Random(seed))
            self.open()
            synced = self.long()
            self.disk.fail_at(1 + seed % 2, times=1 << 30)
            for _ in range(3):
                with self.assertRaises(DiskFailure):
                    self.log.write(*self.log.image())
            self.assertIsNotNone(self.log.failed)
            self.disk.heal()
            with self.assertRaises(DiskFailure):
                self.log.write(*self.log.image())
            self.disk.crash()
            self.assertEqual(self.open().last_index(), synced, seed)

    def test_a_list_that_was_edited(self) -> None:
        """Counts while no entry has changed the members."""
        self.save(Entry(1, 1, 2, b""), vote=HardState(1, "n0", 0))
        self.log.close()
        moved = Members(frozenset(PEERS), addresses={**PEERS, "n0": "moved:1"}, witnesses={"n2"})
        self.log = WitnessLog(self.disk, FOLDER, ("g", "n2"), moved)
        self.log.load()
        self.assertEqual(self.log.initial()[1], moved)
        self.log.begin_at(SnapshotMeta(9, 1, grown(2)))
        self.log.write(*self.log.image())
        self.log.close()
        self.log = WitnessLog(self.disk, FOLDER, ("g", "n2"), moved)
        self.log.load()
        self.assertEqual(self.log.initial()[1], grown(2))

    def test_a_torn_slot(self) -> None:
        """The other one is what was acknowledged; with none of both it does not start."""
        self.save(Entry(1, 1, 2, b""), vote=HardState(1, "n0", 0))
        self.save(Entry(2, 1, 1, b"x"))
        for slot in range(2):
            disk = MemoryDisk(random.Random(1))
            for name in ("state", "witness"):
                path = f"{FOLDER}/{name}"
                data = self.disk.read_all(path, 1 << 22)
                disk.make_dirs(FOLDER)
                disk.create(path, 0).write(0, [data])
            disk.flip_bit(f"{FOLDER}/witness", slot * WITNESS_SLOT_BYTES + 40)
            log = WitnessLog(disk, FOLDER, ("g", "n2"), MEMBERS)
            log.load()
            self.assertEqual(log.last_index(), 2 - slot)  # slot 1 has the newer one
            self.assertRegex(log.notes[0], f"slot {slot} is damaged, as by a power cut: .*checksum")
            log.close()
            for each in range(2):
                disk.flip_bit(f"{FOLDER}/witness", each * WITNESS_SLOT_BYTES + 41)
            with self.assertRaisesRegex(CorruptStore, "/witness .*Empty the directory"):
                WitnessLog(disk, FOLDER, ("g", "n2"), MEMBERS).load()

    def test_a_missing_file(self) -> None:
        self.save(Entry(1, 1, 2, b""), vote=HardState(1, "n0", 0))
        self.log.close()
        self.disk.rename(f"{FOLDER}/state", "/store/state")
        with self.assertRaisesRegex(CorruptStore, "/state .*Empty the directory"):
            self.open()
        self.disk.rename("/store/state", f"{FOLDER}/state")
        self.log.close()
        self.disk.remove(f"{FOLDER}/witness")
        with self.assertRaisesRegex(CorruptStore, "/witness .*Empty the directory"):
            self.open()

    def test_anothers_directory(self) -> None:
        self.save(vote=HardState(1, "n0", 0))
        self.log.close()
        with self.assertRaisesRegex(ConfigError, "belongs to node 'n2' of group 'g'"):
            self.open(("g", "n1"))
        self.log.close()
        self.open()
        with self.assertRaises(DiskFailure):  # another process has it
            self.open()

    def test_what_fits(self) -> None:
        """The terms of committed entries are forgotten when they are many; others are, a slot full."""
        entries = [Entry(index, index, 2, b"") for index in range(1, 200)]
        self.save(*entries, vote=HardState(200, "", 0))
        self.assertTrue(self.log.forget(198))
        self.assertEqual(self.log.first_index(), 199)
        self.assertFalse(self.log.forget(199))
        with self.assertRaisesRegex(RemoteProtocolError, "70000 terms, 0 changes are not committed"):
            build_witness(WitnessState(1, 70_000, b"", [(each, each) for each in range(70_000)], []))
