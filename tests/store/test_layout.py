"""DLedger's layout: the store's own tests on it, what its entries are, and what is no entry.  Source: facts/dledger.md
3."""

from __future__ import annotations

import contextlib
import random
import unittest
from collections.abc import Callable

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError
from rocketha.store.commitlog import CommitLog, Run
from rocketha.store.entries import Entries
from rocketha.store.jobs import run_here
from rocketha.store.layout import COMMITLOG, DLEDGER, Unit
from rocketha.store.log_walk import LogWalk
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import BatchKeys, PlacedBatch, PutBatch
from rocketha.store.replica_dispatch import Damage, Dispatcher
from rocketha.store.verify import verify
from rocketha.wire import dledger
from rocketha.wire.batch import BatchMessage, Columns, join, members
from rocketha.wire.record import decode
from tests.store import test_recovery
from tests.store.support import HOST, NOW_MS, ROOT, SMALL, flush, memory_disk, message, open_store, read_all, upkeep

ENTRIES = attrs.evolve(SMALL, layout=DLEDGER, entry_index_file_size=32 * 10)
SAME = attrs.evolve(ENTRIES, segment_size=4096 + 11 * 48)
"""As many messages a file as in the other layout."""


class CleanStartTests(test_recovery.CleanStartTests):
    config = SAME


class CrashedStartTests(test_recovery.CrashedStartTests):
    config = SAME


class RandomHistoryTests(test_recovery.HistoryCase):
    @given(test_recovery.HISTORIES, st.integers(0, 1 << 16))
    @settings(max_examples=60, deadline=None)
    def test_the_store_is_its_model(self, history: test_recovery.History, seed: int) -> None:
        self.follow(ENTRIES, history, seed)


def units(store: MessageStore) -> list[Unit]:
    """All of its log."""
    log, found, at = store.log, [], store.log.begin
    last: Unit | None = None
    while at < log.end:
        room = log.segments.file_size - at % log.segments.file_size
        unit = store.config.layout.unit(log.read(at, room), 0, at, room, last)
        if unit is None:
            at += room
        else:
            found.append(unit)
            at, last = at + unit.size, unit
    return found


class EntriesTests(unittest.TestCase):
    """What a leader appends."""

    def test_numbers_terms_and_places(self) -> None:
        """Each message is an entry with the next number; numbers and terms go on after a start."""
        disk = memory_disk()
        store = open_store(disk, ENTRIES)
        heads = store.ledger
        assert heads is not None
        placed = []
        for number in range(30):
            heads.term = number // 10
            (group,) = store.append([[message(2 * number), message(2 * number + 1)]], NOW_MS)
            assert not isinstance(group, PlacedBatch)
            placed += [result.physical_offset for result in group]
        found = units(store)
        self.assertEqual([unit.entry.entry_index for unit in found if unit.entry], list(range(60)))
        self.assertEqual([unit.entry.term for unit in found if unit.entry], [number // 20 for number in range(60)])
        self.assertEqual([unit.record.physical_offset for unit in found if unit.record], placed)
        self.assertEqual(
            [unit.entry.position for unit in found if unit.entry], [offset - dledger.HEAD_BYTES for offset in placed]
        )
        self.assertGreater(len(store.log.segments.bases), 2)
        disk.kill()
        store = open_store(disk, ENTRIES)
        assert store.ledger is not None
        self.assertEqual((store.ledger.next_index, store.ledger.term), (60, 2))
        self.assertEqual(units(store), found)

    def test_what_failed_takes_no_number(self) -> None:
        disk = memory_disk()
        store = open_store(disk, ENTRIES)
        store.append([[message(1)]], NOW_MS)
        disk.fail_at(1, only=("write",))
        with self.assertRaises(DiskFailure):
            store.append([[message(2), message(3)]], NOW_MS)
        store.append([[message(4)]], NOW_MS)
        self.assertEqual([unit.entry.entry_index for unit in units(store) if unit.entry], [0, 1])
        self.assertEqual(verify(store), [])

    def test_every_length_at_the_end_of_a_file(self) -> None:
        """An entry leaves eight bytes for the filler."""
        for spare in range(130):
            store = open_store(memory_disk(), ENTRIES)
            store.append([[message(0, body=b"")]], NOW_MS)
            fixed = store.log.end
            store.append([[message(1, body=bytes(1500))]], NOW_MS)
            store.append([[message(2, body=bytes(SMALL.segment_size - 3 * fixed - 1500 - spare))]], NOW_MS)
            begin = 2 * fixed + 1500 if spare >= 8 else SMALL.segment_size
            self.assertEqual(store.log.end, begin + SMALL.segment_size - 2 * fixed - 1500 - spare)
            store.append([[message(3, body=b"")]], NOW_MS)
            self.assertEqual(len(units(store)), 4, spare)
            self.assertEqual(verify(store), [], spare)
            self.assertEqual(sum(map(len, read_all(store).values())), 4, spare)

    def test_batches(self) -> None:
        """A client's batch is an entry for each of its messages, with the compiled part and without."""
        found = members(join([BatchMessage(number, b"body %d" % number, b"") for number in range(20)]))
        for each in (found, Columns(found.flags, found.bodies, found.properties)):
            store = open_store(memory_disk(), attrs.evolve(ENTRIES, segment_size=1 << 14))
            assert store.ledger is not None
            store.ledger.term = 4
            for _ in range(5):
                store.append(
                    [PutBatch("T", 0, 0, NOW_MS, HOST, 0, each, [0] * 20, lambda: BatchKeys((), ())), [message(1)]],
                    NOW_MS,
                )
            entries = [unit.entry for unit in units(store) if unit.entry is not None]
            self.assertEqual([(entry.entry_index, entry.term) for entry in entries], [(n, 4) for n in range(105)])
            self.assertEqual(verify(store), [])

    def test_a_cut(self) -> None:
        """Numbers go on behind what is left."""
        store = open_store(memory_disk(), ENTRIES)
        ends = []
        for number in range(40):
            store.append([[message(number)]], NOW_MS)
            ends.append(store.log.end)
        for left in (33, 32, 7):
            flush(store)
            upkeep(store, NOW_MS + 100_000 + left)
            store.truncate(ends[left - 1])
            store.append([[message(99)], [message(100)]], NOW_MS)
            self.assertEqual(len(units(store)), left + 2)
            self.assertEqual(verify(store), [])
            store.truncate(ends[left - 1])

    def test_its_index_is_lost(self) -> None:
        """It is made anew from the log, whatever is missing of it."""
        for clean in (True, False):
            for lost in ("all", "first", "last", "torn"):
                disk, _ = self.filled(clean)
                directory = f"{ROOT}/entries"
                names = disk.list(directory)
                if lost == "torn":
                    disk.open(f"{directory}/{names[-1]}").write(32 * 8, [b"\x55" * 64])
                for name in names if lost == "all" else names[:-1] if lost == "first" else names[-1:]:
                    if lost != "torn":
                        disk.remove(f"{directory}/{name}")
                with self.subTest(clean=clean, lost=lost):
                    store = open_store(disk, ENTRIES)
                    store.append([[message(99)]], NOW_MS)
                    self.assertEqual(verify(store), [])
                    self.assertEqual(len(units(store)), 41)

    def filled(self, clean: bool) -> tuple[MemoryDisk, int]:
        """The disk of a store that was stopped or killed, with forty entries in queues and index, and its log's end."""
        disk = memory_disk()
        store = open_store(disk, ENTRIES)
        for number in range(40):
            store.append([[message(number)]], NOW_MS)
        flush(store)
        upkeep(store, NOW_MS + 100_000)
        end = store.log.end
        if clean:
            store.close(NOW_MS)
        else:
            disk.kill()
        return disk, end

    def damaged(self, at: int, clean: bool = True) -> MemoryDisk:
        """The same, one bit of whose log is another."""
        disk, end = self.filled(clean)
        position = end + at if at < 0 else at
        size = ENTRIES.segment_size
        disk.flip_bit(f"{ROOT}/commitlog/{position - position % size:020d}", position % size)
        return disk

    def test_the_last_head_is_damaged(self) -> None:
        """The log ends before it, and numbers go on behind what is left."""
        for clean in (True, False):
            for field in (3, 15, 31, 47):  # of the last entry nobody can say which term it had
                disk = self.damaged(-self.unit_bytes() + field, clean=clean)
                with self.subTest(clean=clean, field=field):
                    store = open_store(disk, ENTRIES)
                    self.assertEqual(len(units(store)), 39)
                    store.append([[message(99)]], NOW_MS)
                    self.assertEqual(verify(store), [])
                    self.assertEqual(store.ledger and store.ledger.next_index, 40)

    def unit_bytes(self) -> int:
        """Of an entry with such a message."""
        store = open_store(memory_disk(), ENTRIES)
        store.append([[message(39)]], NOW_MS)
        return store.log.end

    def test_damage_where_the_index_is_made_anew(self) -> None:
        """A body does not matter to it; behind a damaged head there is no way on."""
        for field, lost in ((48 + 100, 0), (3, 10)):
            disk = self.damaged(10 * self.unit_bytes() + field)
            disk.remove_tree(f"{ROOT}/entries")
            with self.subTest(field=field):
                store = open_store(disk, ENTRIES)
                assert store.ledger is not None
                index = store.ledger.index
                self.assertEqual(index.next_offset, 40)
                self.assertEqual(index.unit(39) is not None, True)
                self.assertEqual(index.unit(5) is None, lost > 0)
                store.append([[message(99)]], NOW_MS)
                unit = index.unit(40)
                self.assertIsNotNone(unit)
                store.close(NOW_MS)
                store = open_store(disk, ENTRIES)
                self.assertEqual(store.ledger and store.ledger.index.unit(40), unit)

    def test_expiry_at_a_damaged_head(self) -> None:
        """Files go all the same, and the queues are written on."""
        disk = self.damaged(2 * ENTRIES.segment_size + 3)
        store = open_store(disk, ENTRIES)
        late_ms = NOW_MS + SMALL.file_reserved_ms + 1
        for step in range(3):
            store.upkeep.expire_soon(log=True)
            run_here(store.maintenance(NOW_MS + 200_000 * (step + 1), late_ms), store.finished)
        store.append([[message(99)]], NOW_MS)
        upkeep(store, NOW_MS + 10_000_000)
        self.assertFalse(store.queues.busy)
        self.assertEqual(store.queues.queues["T"][0].tail, b"")
        self.assertEqual([int(name) for name in disk.list(f"{ROOT}/commitlog")], store.log.segments.bases)

    def test_the_other_layout(self) -> None:
        """A log is not opened as what it is not; nothing is changed."""
        for made, opened in ((SMALL, ENTRIES), (ENTRIES, SMALL)):
            disk = memory_disk()
            store = open_store(disk, made)
            for number in range(40):
                store.append([[message(number)]], NOW_MS)
            store.close(NOW_MS)
            self.assertRaises(CorruptStore, open_store, disk, opened)
            store = open_store(disk, made)
            self.assertEqual(len(read_all(store)["T", 0]), 40)
            self.assertEqual(verify(store), [])

    def test_expiry(self) -> None:
        """The index keeps what it has of the log."""
        disk = memory_disk()
        store = open_store(disk, ENTRIES)
        for number in range(60):
            store.append([[message(number)]], NOW_MS)
        flush(store)
        upkeep(store, NOW_MS + 100_000)
        before = disk.list(f"{ROOT}/entries")
        late_ms = NOW_MS + SMALL.file_reserved_ms + 1
        store.upkeep.expire_soon(log=True)
        run_here(store.maintenance(NOW_MS + 200_000, late_ms), store.finished)
        first = units(store)[0].entry
        assert first is not None and store.ledger is not None
        self.assertGreater(first.entry_index, 10)
        self.assertEqual(verify(store), [])
        self.assertEqual(disk.list(f"{ROOT}/entries"), before[first.entry_index // 10 :])
        for clean in (True, False):
            if clean:
                store.close(NOW_MS)
            else:
                disk.kill()
            store = open_store(disk, ENTRIES)
            self.assertEqual(verify(store), [])
            self.assertEqual(store.ledger and store.ledger.next_index, 60)


class LayoutTests(unittest.TestCase):
    """What a reader takes for a unit."""

    def entry(self, index: int = 5, term: int = 3, position: int = 0) -> bytes:
        store = open_store(memory_disk(), ENTRIES)
        assert store.ledger is not None
        store.ledger.next_index, store.ledger.term = index, term
        store.append([[message(7)]], NOW_MS)
        return store.log.read(0, store.log.end)

    def test_it_is_read(self) -> None:
        data = self.entry()
        unit = DLEDGER.unit(data, 0, 0, 4096, None)
        assert unit is not None and unit.record is not None and unit.entry is not None
        self.assertEqual((unit.size, unit.entry.entry_index, unit.entry.term), (len(data), 5, 3))
        self.assertEqual(unit.record, decode(data, 48))
        self.assertEqual(unit.record.physical_offset, 48)

    def test_what_does_not_follow(self) -> None:
        """A number that is not the next one, or a term that falls: what DLedger cut and left in place."""
        last = DLEDGER.unit(self.entry(), 0, 0, 4096, None)
        for index, term, good in ((6, 3, True), (6, 4, True), (6, 2, False), (5, 3, False), (7, 3, False)):
            data = self.entry(index, term)
            with self.subTest(index=index, term=term):
                if good:
                    self.assertIsNotNone(DLEDGER.unit(data, 0, 0, 4096, last))
                else:
                    self.assertRaises(RemoteProtocolError, DLEDGER.unit, data, 0, 0, 4096, last)

    def test_no_byte_of_a_head_or_a_body_may_differ(self) -> None:
        """Of an entry that follows another: the rest of a record's head has no checksum, as in RocketMQ."""
        last = DLEDGER.unit(self.entry(4), 0, 0, 4096, None)
        data = self.entry(5)
        body = decode(data, 48).body
        begin = data.index(body)
        checked = [*range(16), *range(24, 32), *range(44, 52), *range(begin, begin + len(body))]
        for at in checked:
            for bit in (1, 0x80):
                bad = bytearray(data)
                bad[at] ^= bit
                with self.subTest(at=at, bit=bit), self.assertRaises(RemoteProtocolError):
                    DLEDGER.unit(bytes(bad), 0, 0, 4096, last)

    def test_an_entry_without_a_record(self) -> None:
        data = dledger.build_head(6, 3, 100, 0)
        self.assertEqual(DLEDGER.unit(data, 0, 100, 3996, None), Unit(48, None, dledger.parse_head(data)))

    @given(st.binary(max_size=120), st.integers(0, 4096))
    def test_any_bytes(self, data: bytes, room: int) -> None:
        for layout in (COMMITLOG, DLEDGER):
            with contextlib.suppress(RemoteProtocolError):
                layout.extent(data, 0, room)
            with contextlib.suppress(RemoteProtocolError):
                layout.unit(data, 0, 0, room, None)


class DispatchTests(unittest.TestCase):
    """What a dispatcher makes of entries that are there already."""

    def dispatched(self, change: Callable[[CommitLog], None]) -> tuple[int, Damage | None]:
        """The next offset of the queue of two messages, and the damage found."""
        store = open_store(memory_disk(), ENTRIES)
        for number in range(2):
            store.append([[message(number)]], NOW_MS)
        change(store.log)
        store.queues.delete_topic("T")
        dispatcher = Dispatcher(store.log, store.queues, store.index, store.deleted_topics, ENTRIES)
        dispatcher.run(store.log.end, 1 << 20)
        queue = store.queues.get("T", 0)
        return 0 if queue is None else queue.next_offset, dispatcher.damage

    def test_all(self) -> None:
        self.assertEqual(self.dispatched(lambda log: None), (2, None))

    def test_a_head_that_does_not_fit(self) -> None:
        """The record behind it is whole, and still counts for nothing."""

        def spoil(log: CommitLog, at: int) -> None:
            byte = log.segments.read(log.end // 2 + at, 1)[0]
            log.segments.write(log.end // 2 + at, bytes([byte ^ 1]))

        for at in (3, 7, 31, 47):
            count, damage = self.dispatched(lambda log, at=at: spoil(log, at))  # type: ignore[misc]
            self.assertEqual((count, damage is not None), (1, True), at)

    def test_a_file_that_is_not_ended(self) -> None:
        """Too few bytes for an entry, and no filler."""

        def fill(log: CommitLog) -> None:
            log.end = log.segments.file_size + 100

        count, damage = self.dispatched(fill)
        self.assertEqual(count, 2)
        self.assertIsNotNone(damage)


class WalkTests(unittest.TestCase):
    """Entries without a record, and fillers, between the others."""

    def test_it_passes_over_them(self) -> None:
        chance = random.Random(3)
        store = open_store(memory_disk(), ENTRIES)
        heads = store.ledger
        assert isinstance(heads, Entries)
        sent = 0
        for number in range(60):
            if chance.random() < 0.3:
                position = store.log.end
                if store.log.segments.file_size - position % store.log.segments.file_size > 60:
                    data = heads.head(position, 0)
                    store.log.write([Run(position, [data])])
                    heads.written(data)
                    continue
            store.append([[message(number)]], NOW_MS)
            sent += 1
        walk = LogWalk(store.log.segments, 0, layouts=DLEDGER)
        self.assertEqual(len(list(walk)), sent)
        self.assertEqual(walk.position, store.log.end)
        assert walk.last is not None and walk.last.entry is not None
        self.assertEqual(walk.last.entry.entry_index, heads.next_index - 1)


if __name__ == "__main__":
    unittest.main()
