"""An ordinary broker's log that goes on as DLedger's: nothing of it is lost, moved or read otherwise."""

from __future__ import annotations

import random

import attrs

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store import missing_file
from rocketha.store.adoption import adopt
from rocketha.store.disk import Disk
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.verify import verify
from rocketha.wire.dledger_terms import TermStart, build_term_start
from rocketha.wire.raft_entries import Entry, EntryKind, HardState, SnapshotMeta
from tests.store.entry_log_case import CONFIG, DIRECTORY, MEMBERS, EntryLogCase
from tests.store.support import (
    HOST,
    NOW_MS,
    ROOT,
    SMALL,
    bodies,
    flush,
    message,
    open_store,
    read_all,
    read_queue,
    upkeep,
)

OLDER = f"{ROOT}/commitlog"
EPOCHS = f"{ROOT}/epochs"


def ordinary(disk: Disk, count: int = 40, *, stop: bool = True) -> MessageStore:
    """The store of a broker that took so many messages, of two topics."""
    store = open_store(disk)
    for number in range(count):
        topic, queue = ("T", 0) if number % 3 else ("U", 1)
        store.append([[message(number, topic, queue, bytes([number]) * 200)]], NOW_MS + number)
    if stop:
        store.close(NOW_MS)
    return store


class AdoptionTests(EntryLogCase):
    """One member."""

    config = attrs.evolve(CONFIG, commitlog_directory=f"{DIRECTORY}/data", older_log_directory=OLDER)

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        self.disk.make_dirs(DIRECTORY)

    def open(self) -> None:
        store = MessageStore(self.disk, ROOT, self.config, HOST)
        adopt(self.disk, store, NOW_MS, 1, EPOCHS)
        super().open()

    def began(self, count: int = 40) -> MessageStore:
        """A member on such a store; that store, as its broker left it."""
        store = ordinary(self.disk, count)
        self.before = {name: self.disk.read_all(f"{OLDER}/{name}", 4096) for name in self.disk.list(OLDER)}
        self.open()
        return store

    def all(self) -> dict[tuple[str, int], list[bytes]]:
        """Bodies, as consumers see them."""
        return {queue: bodies(records) for queue, records in read_all(self.store).items()}

    def again(self, clean: bool = True) -> None:
        if clean:
            self.store.close(NOW_MS)
        else:
            self.disk.crash()
        self.open()

    # --- what it becomes

    def test_what_was_there_is_there(self) -> None:
        """Messages, offsets, times, keys; the old files have what they had, and what ends the last of them."""
        store = ordinary(self.disk)
        old = open_store(self.disk)
        seen, table, first = read_all(old), old.queue_table(), old.earliest_message_time()
        found = old.query("T", "7F0000010A2B18B4AAC2000000000001", 9, 0, 1 << 62)
        end = old.log.end
        old.close(NOW_MS)
        files = {name: self.disk.read_all(f"{OLDER}/{name}", 4096) for name in self.disk.list(OLDER)}
        self.open()
        self.assertEqual((read_all(self.store), self.store.queue_table()), (seen, table))
        self.assertEqual(self.store.earliest_message_time(), first)
        self.assertEqual(self.store.query("T", "7F0000010A2B18B4AAC2000000000001", 9, 0, 1 << 62), found)
        self.assertEqual(len(found), 1)
        divide = self.store.log.segments.divide
        self.assertEqual(divide, -(-end // 4096) * 4096)
        for name, data in files.items():
            now = self.disk.read_all(f"{OLDER}/{name}", 4096)
            if int(name) + 4096 < divide:
                self.assertEqual(now, data)
            else:
                at = end % 4096
                self.assertEqual(now[:at], data[:at])
                self.assertEqual(now[at : at + 8], (4096 - at).to_bytes(4, "big") + b"\xcb\xd4\x31\x94")
        self.assertEqual(store.log.end, end)

    def test_it_goes_on(self) -> None:
        """A leader's messages come behind; the queues go on; reads go across; the same after any start."""
        self.began()
        before = self.all()
        self.begin_term(2)
        self.lead(30)
        self.replica.confirm(self.replica.end)
        expected = self.all()
        self.assertEqual(expected["T", 0][: len(before["T", 0])], before["T", 0])
        self.assertEqual(len(expected["T", 0]), len(before["T", 0]) + 30)
        self.assertEqual(self.log.first_index(), 1)
        self.assertEqual(len(self.read(1)), self.log.last_index() - sum(each.count - 1 for each in self.read(1)))
        self.assertEqual(verify(self.store), [])
        for clean in (True, False):
            if not clean:
                flush(self.store)
            self.again(clean)
            self.replica.confirm(self.replica.end)
            while self.replica.dispatch():
                pass
            self.assertEqual(self.all(), expected, clean)
            self.assertEqual(verify(self.store), [])

    def test_queues_that_are_gone(self) -> None:
        """They are made anew, from both parts."""
        self.began()
        self.begin_term(2)
        self.lead(30)
        self.replica.confirm(self.replica.end)
        expected = self.all()
        self.store.close(NOW_MS)
        self.disk.remove_tree(f"{ROOT}/consumequeue")
        self.disk.remove_tree(f"{ROOT}/index")
        self.open()
        self.replica.confirm(self.replica.end)
        self.replica.dispatch_all()
        self.assertEqual(self.all(), expected)

    def test_a_cut(self) -> None:
        """Every entry may go, and nothing of what was before."""
        self.began()
        before = self.all()
        self.begin_term(2)
        self.lead(30)
        self.log.cut(1)
        self.assertEqual((self.log.first_index(), self.log.last_index()), (1, 0))
        self.assertEqual(self.replica.end, self.store.log.segments.divide)
        self.assertEqual(self.all(), before)
        self.begin_term(3)
        self.assertEqual(self.log.last_index(), 1)
        self.again()
        self.assertEqual(self.all(), before)

    def test_a_cut_and_a_start(self) -> None:
        """Without an entry, but with a vote: the member does not write the first one again."""
        self.began()
        self.begin_term(2)
        self.log.cut(1)
        self.again()
        self.assertEqual((self.log.last_index(), self.log.voted), (0, (2, "n0")))

    def test_the_old_files_expire_first(self) -> None:
        """All of them, and then entries."""
        self.config = attrs.evolve(
            self.config, delete_hours=frozenset(range(24)), expire_interval_ms=1, delete_files_max=1
        )
        self.began()
        self.begin_term(2)
        self.lead(60)
        self.replica.confirm(self.replica.end)
        flush(self.store)
        divide, later = self.store.log.segments.divide, NOW_MS + self.config.file_reserved_ms + 100_000
        begins = set()
        for number in range(20):
            upkeep(self.store, later + number * 20_000)
            begins.add(self.store.log.begin)
        self.assertLess(min(begins), divide)
        self.assertGreater(max(begins), divide)
        self.assertFalse([name for name in self.disk.list(OLDER) if name.isdigit()])
        self.assertGreater(self.log.first_index(), 1)
        left = self.all()
        self.again()
        self.assertEqual(self.all(), left)
        self.assertIsNone(self.log.origin)

    def test_a_crash_at_any_moment(self) -> None:
        """And the next start goes on from there."""
        number, failed = 0, True
        while failed:
            number += 1
            self.disk = MemoryDisk(random.Random(number))
            self.disk.make_dirs(DIRECTORY)
            ordinary(self.disk, 12)
            self.disk.fail_at(number, times=1 << 30)
            try:
                self.open()
                failed = False
            except (DiskFailure, CorruptStore):
                failed = True
            self.disk.heal()
            self.disk.crash()
            self.open()
            self.assertEqual(sum(map(len, self.all().values())), 12, number)
            self.assertEqual(self.log.last_index(), 1, number)
        self.assertGreater(number, 100)

    # --- who may

    def test_nothing_to_adopt(self) -> None:
        """No files, and files without a message: the log begins at 0."""
        self.open()
        self.assertEqual((self.log.last_index(), self.replica.end, self.log.origin), (0, 0, None))
        self.disk = MemoryDisk(random.Random(1))
        self.disk.make_dirs(DIRECTORY)
        self.disk.make_dirs(OLDER)
        self.disk.create(f"{OLDER}/{0:020d}", 4096).close()
        self.open()
        self.assertEqual((self.log.last_index(), self.replica.end), (0, 0))
        self.begin_term(1)
        self.assertEqual(self.disk.list(f"{DIRECTORY}/data"), [f"{0:020d}"])

    def test_a_crashed_master(self) -> None:
        """It is recovered first."""
        flush(ordinary(self.disk, stop=False))
        self.disk.crash()
        self.open()
        self.assertEqual(sum(map(len, self.all().values())), 40)

    def test_a_crashed_replica(self) -> None:
        """Only its own broker knows what its log is worth."""
        store = MessageStore(self.disk, ROOT, SMALL, HOST)
        store.load(NOW_MS, 1, replica=True)
        store.log.write_raw(bytes(100))
        self.disk.kill()
        with self.assertRaisesRegex(CorruptStore, "start it as it was, and stop it"):
            self.open()

    def test_a_replica_that_lacks_something(self) -> None:
        """What was confirmed and is missing is copied first."""
        ordinary(self.disk)
        missing_file.save(self.disk, EPOCHS, 99_999)
        with self.assertRaisesRegex(CorruptStore, "lacks some of what was confirmed"):
            self.open()
        self.assertEqual(missing_file.load(self.disk, EPOCHS), 99_999)

    def test_the_ordinary_broker_is_refused(self) -> None:
        """It would cut off the queues what it does not see."""
        self.began()
        self.begin_term(2)
        self.store.close(NOW_MS)
        with self.assertRaisesRegex(CorruptStore, "start it with enableDLegerCommitLog"):
            open_store(self.disk)

    def test_old_files_that_do_not_reach(self) -> None:
        """They are left alone, and said so."""
        self.began()
        self.begin_term(2)
        self.store.close(NOW_MS)
        names = sorted(self.disk.list(OLDER))
        self.disk.remove(f"{OLDER}/{names[-1]}")
        store = MessageStore(self.disk, ROOT, self.config, HOST)
        report = store.load(NOW_MS, 1, EPOCHS, committed=-1)
        self.assertIn("is not read", " ".join(report.notes))
        self.assertEqual(store.log.begin, self.store.log.segments.divide)

    def test_damage_before_the_divide(self) -> None:
        """It does not cost the entries."""
        self.began()
        self.begin_term(2)
        self.lead(3)
        flush(self.store)
        self.disk.crash()
        self.disk.remove_tree(f"{ROOT}/consumequeue")
        self.disk.remove(f"{ROOT}/checkpoint")
        self.disk.flip_bit(f"{OLDER}/{0:020d}", 200)
        size = self.disk.read_all(f"{DIRECTORY}/data/{self.store.log.segments.divide:020d}", 4096)
        with self.assertRaisesRegex(CorruptStore, "where an ordinary broker wrote it"):
            self.open()
        self.assertEqual(self.disk.read_all(f"{DIRECTORY}/data/{self.store.log.segments.divide:020d}", 4096), size)

    # --- the others

    def test_equal_logs_begin_equally(self) -> None:
        """And others do not: the first entry tells them apart."""
        found = []
        for count in (40, 40, 39):
            self.disk = MemoryDisk(random.Random(count))
            self.disk.make_dirs(DIRECTORY)
            self.began(count)
            self.assertEqual(self.log.initial()[0], HardState(0, "", 0))
            found.append((self.log.origin, [entry.data for entry in self.read(1)]))
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0][0], found[2][0])
        self.again()
        self.assertEqual(self.log.origin, found[2][0])

    def test_an_empty_member_begins_where_the_leader_does(self) -> None:
        """At the divide."""
        self.began()
        self.begin_term(2)
        self.lead(20)
        sent, divide = self.read(1), self.store.log.segments.divide
        self.disk = MemoryDisk(random.Random(2))
        self.disk.make_dirs(DIRECTORY)
        self.open()
        for entry in sent:
            self.log.save(None, [entry])
        self.assertEqual((self.log.first_index(), self.replica.begin), (1, divide))
        self.assertEqual(self.read(1), sent)
        self.again()
        self.assertEqual(self.read(1), sent)

    def test_one_that_led_with_nothing(self) -> None:
        """It gives that up for the leader's."""
        self.began()
        self.begin_term(2)
        sent, divide = self.read(1), self.store.log.segments.divide
        self.disk = MemoryDisk(random.Random(2))
        self.disk.make_dirs(DIRECTORY)
        self.open()
        self.begin_term(1)
        self.log.cut(1)
        for entry in sent:
            self.log.save(None, [entry])
        self.assertEqual((self.replica.begin, self.read(1)), (divide, sent))

    def test_a_leader_that_begins_elsewhere(self) -> None:
        """What this member had is not thrown away for it."""
        self.began()
        before = self.all()
        self.log.cut(1)
        data = build_term_start(TermStart(NOW_MS, "x:1"))
        other = EntryLogCase()
        other.disk = MemoryDisk(random.Random(3))
        other.disk.make_dirs(DIRECTORY)
        other.open()
        other.log.save(HardState(2, "n1", 0), [])
        other.log.save(None, [Entry(1, 2, EntryKind.NO_OP, data)])
        with self.assertRaisesRegex(CorruptStore, "messages of the time before DLedger mode"):
            self.log.save(None, other.log.entries(1, 2, 4096))
        with self.assertRaisesRegex(CorruptStore, "messages of the time before DLedger mode"):
            self.log.begin_at(SnapshotMeta(5, 1, MEMBERS), b"\1" + bytes(8))
        self.assertEqual(self.all(), before)
        self.assertEqual(len(read_queue(self.store, "U", 1)), 14)
