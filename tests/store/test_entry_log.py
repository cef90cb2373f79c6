"""A message log as a Raft log: what it says is what an entry of its own would say; runs, cuts, a start, a new begin."""

from __future__ import annotations

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.store.commitlog import Run
from rocketha.store.entry_log import EntryLog, load_committed
from rocketha.wire import dledger
from rocketha.wire.dledger_terms import Committed
from rocketha.wire.raft_entries import Compacted, HardState, SnapshotMeta, Unavailable
from tests.store.entry_log_case import CONFIG, DIRECTORY, MEMBERS, EntryLogCase
from tests.store.support import NOW_MS


class EntryLogTests(EntryLogCase):
    """Of one member."""

    def test_what_a_master_appended(self) -> None:
        """It is read as it was told, over the borders of files; the terms are those of their leaders."""
        self.begin_term(1)
        self.lead(20)
        self.begin_term(3)
        self.assertEqual((self.log.first_index(), self.log.last_index()), (1, 22))
        self.assertEqual([self.log.term(index) for index in (0, 1, 21, 22)], [0, 1, 1, 3])
        starts = [self.log.term_start(term) for term in (1, 2, 3)]
        self.assertEqual([start and start.address for start in starts], ["leader-of-1:1", None, "leader-of-3:1"])
        read = self.read(1)
        self.assertGreater(len(self.store.log.segments.bases), 1)
        self.assertEqual(sum(entry.count for entry in read), 22)
        for entry in read:
            units = dledger.units_of(entry.data)
            terms = {dledger.parse_unit(units[at : at + 32]).term + 1 for at in range(0, len(units), 32)}
            self.assertEqual(terms, {entry.term})
        told = b"".join(data for _, _, data in self.runs)
        self.assertIn(told, b"".join(entry.data for entry in read))
        with self.assertRaises(Unavailable):
            self.log.term(23)

    def test_another_member_makes_the_same_bytes(self) -> None:
        """Whatever runs it is sent, in both files."""
        self.begin_term(1)
        self.lead(20)
        sent, disk = self.read(1), self.disk
        self.setUp()
        for entry in sent:
            parts = self.log.split(entry, entry.index + entry.count // 2) if entry.count > 1 else (entry,)
            for part in parts:
                self.log.save(None, [part])
        for name in disk.list(self.store.log.segments.directory):
            path = f"{self.store.log.segments.directory}/{name}"
            self.assertEqual(disk.read_all(path, 1 << 20), self.disk.read_all(path, 1 << 20), name)

    def test_a_term_begins_at_the_end_of_a_file(self) -> None:
        """Its first entry leaves room for what ends a file, or goes to the next one."""
        files = set()
        for length in range(0, 400, 4):
            self.setUp()
            self.begin_term(1)
            self.lead(8, length)
            self.begin_term(2)
            end, size = self.replica.end, CONFIG.segment_size
            begin = self.log.end_of(self.log.last_index() - 1)
            self.assertLessEqual(end % size, size - dledger.FILLER_BYTES)
            files.add(begin // size == end // size)
            self.assertEqual(sum(entry.count for entry in self.read(1)), 10)
        self.assertEqual(files, {True, False})

    def test_a_file_was_filled_up_and_no_more(self) -> None:
        """As after a crash: the log ends behind its last entry all the same, as everybody's does."""
        self.begin_term(1)
        self.lead(3)
        end, last = self.replica.end, self.log.last_index()
        self.store.log.write([Run(end, [dledger.build_filler(-end % CONFIG.segment_size)])])
        self.store._release()  # the process is killed
        self.open()
        self.assertEqual((self.replica.end, self.log.last_index()), (end, last))

    def test_a_cut(self) -> None:
        """What is cut is gone; the first entry of the next term stands where it does at everybody."""
        self.begin_term(1)
        self.lead(20)
        end = self.log.end_of(9)
        self.assertGreater(self.log.cut(10), 0)
        self.assertEqual((self.log.last_index(), self.replica.end), (9, end))
        self.assertEqual(self.log.index_at(end), 9)
        self.assertEqual(self.log.index_at(end - 1), 8)
        self.assertFalse(self.log.needs_cut(10))
        self.begin_term(2)
        self.assertEqual(self.log.term(10), 2)

    def test_a_start(self) -> None:
        """Term, vote, entries and what is committed are there again; the log ends behind its last entry."""
        self.begin_term(4)
        self.lead(20)
        self.replica.confirm(self.log.end_of(15))
        self.log.save_committed(15)
        last, end = self.log.last_index(), self.replica.end
        self.store.close(NOW_MS)
        self.assertEqual(load_committed(self.disk, DIRECTORY), Committed(14, last - 1))
        self.open()
        self.assertEqual((self.log.last_index(), self.replica.end), (last, end))
        self.assertEqual(self.log.initial(), (HardState(4, "n0", 15), MEMBERS))

    def test_a_damaged_vote(self) -> None:
        """An older one would be a wrong one: the member does not start."""
        self.begin_term(4)
        self.disk.open(f"{DIRECTORY}/currterm").write(0, [b"#"])
        self.disk.open(f"{DIRECTORY}/currterm").write(14, [b"x"])
        with self.assertRaisesRegex(CorruptStore, "currterm"):
            EntryLog(self.replica, self.disk, DIRECTORY, MEMBERS).load()

    def test_it_begins_anew_at_any_file(self) -> None:
        """Whichever of the leader's files is its first one by then, the copy has the same bytes, also after a start."""
        self.begin_term(1)
        self.lead(20)
        self.begin_term(3)
        self.lead(20)
        leader, disk = self.log, self.disk
        segments, numbers = self.store.log.segments, {}
        for base in segments.bases[1:]:
            head = dledger.parse_head(self.store.log.read(base, dledger.HEAD_BYTES))
            numbers[base] = head.entry_index
        for base, number in numbers.items():
            sent = self.entries_of(leader, number + 1)
            meta = SnapshotMeta(number, leader.term(number), MEMBERS)
            self.setUp()
            self.begin_term(1)  # it had something else
            self.log.begin_at(meta, b"\1" + base.to_bytes(8, "big"))
            for entry in sent:
                self.log.save(None, [entry])
            self.store.close(NOW_MS)
            self.open()
            self.assertEqual((self.log.first_index(), self.log.last_index()), (number + 1, leader.last_index()))
            self.assertEqual(self.read(number + 1), sent)
            for name in self.disk.list(self.store.log.segments.directory):
                path = f"{self.store.log.segments.directory}/{name}"
                self.assertEqual(disk.read_all(path, 1 << 20), self.disk.read_all(path, 1 << 20), name)

    def test_it_begins_anew(self) -> None:
        """Behind what the leader has no more, at the begin of one of its files."""
        self.begin_term(1)
        self.lead(20)
        begin = self.store.log.segments.bases[1]
        number = dledger.parse_head(self.store.log.read(begin, dledger.HEAD_BYTES)).entry_index
        sent = self.read(number + 1)
        meta = SnapshotMeta(number, 1, MEMBERS)
        self.setUp()
        with self.assertRaises(RemoteProtocolError):
            self.log.begin_at(meta, b"\1" + (begin + 8).to_bytes(8, "big"))
        self.log.begin_at(meta, b"\1" + begin.to_bytes(8, "big"))
        self.assertEqual((self.log.first_index(), self.log.last_index()), (number + 1, number))
        self.assertEqual(self.log.term(number), 1)
        for entry in sent:
            self.log.save(None, [entry])
        self.assertEqual((self.log.snapshot().index, self.log.snapshot().term), (number, 1))
        self.assertEqual(self.log.read_snapshot(0, 99), b"\1" + begin.to_bytes(8, "big"))
        self.assertEqual(self.read(number + 1), sent)
        with self.assertRaises(Compacted):
            self.log.entries(number, number + 2, 99)
