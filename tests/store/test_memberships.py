"""Entries of a message log that change who the group is made of."""

from __future__ import annotations

import random
from unittest import mock

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store import memberships
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.raft_entries import Entry, EntryKind, Members, SnapshotMeta
from rocketha.wire.record import TRANSACTION_ROLLBACK, decode
from tests.store.entry_log_case import CONFIG, DIRECTORY, MEMBERS, EntryLogCase
from tests.store.support import NOW_MS, flush

PATH = f"{DIRECTORY}/members"


def grown(number: int, since_ms: int = NOW_MS) -> Members:
    """The members, and as many learners."""
    learners = [f"l{each}" for each in range(number)]
    return Members(MEMBERS.voters, learners=learners, addresses={"n0": "a:1"}, since_ms=since_ms)


class MembershipTests(EntryLogCase):
    """One member's log."""

    def change(self, members: Members, term: int = 1) -> int:
        """Write an entry that makes them the members; its index."""
        index = self.log.last_index() + 1
        self.log.save(None, [Entry(index, term, EntryKind.MEMBERSHIP, members.encode())])
        return index

    def known(self) -> list[tuple[int, Members]]:
        """As the core reads them at its start."""
        return [(entry.index, Members.decode(entry.data)) for entry in self.log.memberships()]

    def test_one_among_messages(self) -> None:
        """It is read alone, is no message for anybody, and is there after a start."""
        self.begin_term(1)
        self.lead(5)
        index = self.change(grown(1))
        self.lead(5)  # a file ends in them
        for _ in range(2):
            found = self.read(1)
            places = [(entry.index, entry.count, entry.kind) for entry in found]
            self.assertEqual(places, [(1, 6, 1), (7, 1, 3), (8, 2, 1), (10, 3, 1)])
            self.assertEqual((self.known(), index), ([(7, grown(1))], 7))
            self.assertEqual(self.known()[0][1].since_ms, NOW_MS)
            self.assertEqual(self.log.initial()[1], MEMBERS)
            record = decode(self.log.raw(found[1])[48:])
            self.assertEqual((record.sys_flag, record.store_timestamp_ms), (TRANSACTION_ROLLBACK, NOW_MS))
            self.store.close(NOW_MS)
            self.open()

    def test_a_copy_is_equal(self) -> None:
        """To the byte, wherever the entry stands, at the begin of a file too."""
        begins = set()
        for body in range(0, 2500, 24):
            self.setUp()
            self.begin_term(1)
            self.lead(7, last=body)
            index = self.change(grown(3))
            sent, disk, files = self.read(1), self.disk, self.store.log.segments.directory
            begins.add((self.log.end_of(index) - len(self.log.raw(sent[-1]))) % CONFIG.segment_size == 0)
            self.setUp()
            self.log.save(None, sent)
            self.assertEqual(self.known(), [(index, grown(3))])
            for name in disk.list(files):
                path = f"{files}/{name}"
                self.assertEqual(disk.read_all(path, 1 << 20), self.disk.read_all(path, 1 << 20), body)
        self.assertEqual(begins, {True, False})

    def test_a_cut(self) -> None:
        """Takes it back, on the disk too; another entry of that number is none."""
        self.begin_term(1)
        self.lead(3)
        kept = self.change(grown(1))
        self.change(grown(2))
        self.assertTrue(self.log.members_changed(kept))
        self.assertFalse(self.log.members_changed(kept - 1))
        self.log.cut(kept + 1)
        self.assertEqual(self.known(), [(kept, grown(1))])
        self.lead(3)
        self.store.close(NOW_MS)
        self.open()
        self.assertEqual(self.known(), [(kept, grown(1))])
        self.log.cut(kept)
        self.assertEqual((self.known(), self.log.members_changed(99)), ([], False))

    def test_a_crash_at_any_moment(self) -> None:
        """Whoever has the entry knows that it is one, and who has it not takes another one in its place."""
        number, failed = 0, True
        while failed:
            number += 1
            self.disk = MemoryDisk(random.Random(number))
            self.open()
            self.begin_term(1)
            self.lead(3)
            flush(self.store)
            self.disk.fail_at(number, times=1 << 30)
            failed = False
            try:
                index = self.change(grown(1))
                flush(self.store)
            except DiskFailure:
                failed, index = True, 5
            self.disk.heal()
            self.disk.crash()
            self.open()
            there = self.log.last_index() >= index
            self.assertEqual(self.known(), [(index, grown(1))] if there else [], number)
            self.assertTrue(there or failed, number)
            if not there:
                self.begin_term(2)
                self.lead(1)
                self.store.close(NOW_MS)
                self.open()
                self.assertEqual((self.known(), self.log.last_index()), ([], 6))
        self.assertGreater(number, 5)

    def test_another_entry_after_a_write_that_failed(self) -> None:
        """What was noted of the one that is not there is gone."""
        self.begin_term(1)
        self.lead(3)
        self.disk.fail_at(2, only=("write",))  # the file's is done
        with self.assertRaises(DiskFailure):
            self.change(grown(1))
        self.disk.heal()
        self.log.cut(self.log.last_index() + 1)
        self.begin_term(2)
        self.lead(2)
        self.assertEqual(self.known(), [])
        self.assertEqual([entry.kind for entry in self.read(1)], [1, 1])

    def test_a_damaged_file(self) -> None:
        """The member does not start: it could count votes of a majority that is none."""
        self.begin_term(1)
        self.change(grown(1))
        self.store.close(NOW_MS)
        for bit in (3, 100, 400):
            self.disk.flip_bit(PATH, bit // 8, bit % 8)
            with self.assertRaisesRegex(CorruptStore, "members"):
                self.open()
            self.store._release()
            self.disk.flip_bit(PATH, bit // 8, bit % 8)
        self.open()
        self.assertEqual(self.known(), [(2, grown(1))])

    def test_a_crash_while_a_log_begins_anew(self) -> None:
        """Whenever: the members are those that the old log says, or those that the leader said; never others."""
        number, failed = 0, True
        while failed:
            number += 1
            self.disk = MemoryDisk(random.Random(number))
            self.open()
            self.begin_term(1)
            kept = self.change(grown(1))
            self.lead(3)
            flush(self.store)
            self.disk.fail_at(number, times=1 << 30)
            failed = False
            try:
                self.log.begin_at(SnapshotMeta(90, 1, grown(2)), b"\1" + (4 * CONFIG.segment_size).to_bytes(8, "big"))
            except DiskFailure:
                failed = True
            self.disk.heal()
            self.disk.crash()
            self.open()
            now = self.known()[-1][1] if self.known() else self.log.initial()[1]
            self.assertIn(now, [grown(1), grown(2)], number)
            self.assertTrue(self.log.members_changed(1 << 40), number)
            if self.log.last_index() >= kept:
                self.assertEqual(self.known(), [(kept, grown(1))], number)
            else:
                self.assertEqual(self.known(), [], number)
        self.assertEqual(now, grown(2))
        self.assertGreater(number, 20)

    def test_a_log_that_begins_anew_is_no_change(self) -> None:
        """Where nobody ever changed them, the members are those of the configuration."""
        self.begin_term(1)
        self.log.begin_at(SnapshotMeta(90, 1, MEMBERS), b"\1" + (4 * CONFIG.segment_size).to_bytes(8, "big"))
        self.assertFalse(self.log.members_changed(1 << 40))
        self.assertEqual(self.log.initial()[1], MEMBERS)

    def test_many_changes(self) -> None:
        """The file stays one that is read."""
        self.begin_term(1)
        self.patch_rows_max(3)
        places = [self.change(grown(number)) for number in range(1, 6)]
        self.store.close(NOW_MS)
        self.open()
        self.assertEqual([index for index, _ in self.known()], places[-3:])
        self.assertEqual(self.known()[-1][1], grown(5))

    def patch_rows_max(self, count: int) -> None:
        patch = mock.patch.object(memberships, "ROWS_MAX", count)
        patch.start()
        self.addCleanup(patch.stop)

    def test_what_was_before_the_log(self) -> None:
        """Of the members before the first entry the last ones are known; a log that begins anew takes the leader's."""
        self.begin_term(1)
        self.change(grown(1))
        self.change(grown(2))
        self.lead(20)
        begin = self.store.log.segments.bases[1]
        number = next(each for each in range(1, 99) if self.log.end_of(each) >= begin) - 1
        later = self.change(grown(3))
        sent = self.read(number + 1)
        meta = SnapshotMeta(number, 1, grown(2))
        self.setUp()
        self.begin_term(1)
        self.change(grown(7))
        self.log.begin_at(meta, b"\1" + begin.to_bytes(8, "big"))
        self.log.save(None, sent)
        for _ in range(2):
            self.assertEqual(self.log.initial()[1], grown(2))
            self.assertEqual(self.log.snapshot(), meta)
            self.assertEqual(self.known(), [(later, grown(3))])
            self.store.close(NOW_MS)
            self.open()
        self.change(grown(4))
        self.assertEqual(self.log.initial()[1], grown(2))
