"""The store as the broker sees it: append, get, query, offsets by time, upkeep, expiry, the disk guard."""

from __future__ import annotations

import errno
import random
import unittest

import attrs

from rocketha.errors import ConfigError, CorruptStore, DiskFailure, InvariantBroken
from rocketha.store import checkpoint
from rocketha.store.config import DELAY_LEVELS_MS, HOUR, MINUTE, StoreConfig
from rocketha.store.disk import DiskSpace
from rocketha.store.dispatch import SCHEDULE_TOPIC, index_keys, tags_code, topic_problem
from rocketha.store.expiry import ExpiredEarly, Filling
from rocketha.store.jobs import run_here
from rocketha.store.layout import COMMITLOG, DLEDGER
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetStatus
from rocketha.store.upkeep import ASKED_ROUNDS
from rocketha.store.verify import verify
from rocketha.wire.record import decode
from tests.store.support import (
    HOST,
    HOST_V6,
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

WIDE = attrs.evolve(SMALL, segment_size=1 << 16, index_slots=1000, index_units=5000)


class AppendTests(unittest.TestCase):
    """What goes in."""

    def setUp(self) -> None:
        """An empty store."""
        self.disk = memory_disk()
        self.store = open_store(self.disk)

    def test_places_and_fields(self) -> None:
        """Offsets follow on; the record says what was put, plus place, host and time."""
        first, second = self.store.append([[message(1), message(2)]], NOW_MS)[0]
        third = self.store.append([[message(3, queue_id=5)]], NOW_MS + 1)[0][0]
        self.assertEqual((first.queue_offset, second.queue_offset, third.queue_offset), (0, 1, 0))
        self.assertEqual(first.physical_offset, 0)
        self.assertEqual(second.physical_offset, first.size)
        self.assertEqual(third.physical_offset, first.size + second.size)
        data = self.store.message_at(second.physical_offset)
        assert data is not None
        record = decode(data)
        put = message(2)
        self.assertEqual(record.total, second.size)
        self.assertEqual(
            (record.topic, record.queue_id, record.queue_offset, record.physical_offset),
            ("T", 0, 1, second.physical_offset),
        )
        self.assertEqual((record.body, record.properties, record.flag), (put.body, put.properties, put.flag))
        self.assertEqual((record.born_host, record.store_host), (HOST, HOST))
        self.assertEqual((record.born_timestamp_ms, record.store_timestamp_ms), (NOW_MS + 2, NOW_MS))

    def test_ipv6_hosts(self) -> None:
        """A born host of 20 bytes sets its bit and widens the record; so does the store's own."""
        store = MessageStore(memory_disk(), ROOT, SMALL, HOST_V6)
        store.load(NOW_MS)
        place = store.append([[message(1, born_host=HOST_V6), message(2)]], NOW_MS)[0]
        both, one = (decode(store.message_at(item.physical_offset) or b"") for item in place)
        self.assertEqual((both.sys_flag & 0x30, both.born_host, both.store_host), (0x30, HOST_V6, HOST_V6))
        self.assertEqual((one.sys_flag & 0x30, one.born_host), (0x20, HOST))
        self.assertEqual(len(read_queue(store)), 2)
        self.assertEqual(store.store_time_at("T", 0, 0), NOW_MS)

    def test_a_group_stays_in_one_file(self) -> None:
        """A batch that does not fit the file goes to the next one whole, behind a blank record (facts 2.2)."""
        self.store.append([[message(1, body=bytes(2500))]], NOW_MS)
        places = self.store.append([[message(number, body=bytes(300)) for number in range(2, 6)]], NOW_MS)[0]
        self.assertEqual({place.physical_offset // 4096 for place in places}, {1})
        self.assertEqual(places[0].physical_offset, 4096)
        blank = self.store.log.segments.read(self.store.message_at(0).__len__(), 8)  # type: ignore[union-attr]
        self.assertEqual(blank[4:].hex(), "cbd43194")
        self.assertEqual(len(read_queue(self.store)), 5)

    def test_a_record_leaves_eight_bytes(self) -> None:
        """The largest record of a file leaves room for a blank one; a byte more goes to the next file (facts 2.1)."""
        sample = self.store.append([[message(1, body=bytes(1500))]], NOW_MS)[0][0]
        room = 4096 - sample.size - 8
        overhead = sample.size - 1500
        exact = self.store.append([[message(2, body=bytes(room - overhead))]], NOW_MS)[0][0]
        self.assertEqual(exact.physical_offset + exact.size, 4096 - 8)
        self.assertEqual(self.store.append([[message(3)]], NOW_MS)[0][0].physical_offset, 4096)
        store = open_store(memory_disk())
        store.append([[message(1, body=bytes(1500))]], NOW_MS)
        over = store.append([[message(2, body=bytes(room - overhead + 1))]], NOW_MS)[0][0]
        self.assertEqual(over.physical_offset, 4096)

    def test_a_turn_is_one_write_a_file(self) -> None:
        """The point of appending turns: system calls do not grow with messages."""
        self.disk.trace = []
        self.store.append([[message(number)] for number in range(10)], NOW_MS)
        self.assertEqual([operation for operation, _ in self.disk.trace], ["create", "write"])
        self.disk.trace = []
        self.store.append([[message(number, body=bytes(300))] for number in range(10)], NOW_MS)
        self.assertEqual([operation for operation, _ in self.disk.trace], ["create", "write", "write"])

    def test_schedule_topic_gets_the_time_of_delivery(self) -> None:
        """tagsCode is the deliver time: store time plus the level's delay, the highest level for a higher one."""
        for level, delay in ((1, DELAY_LEVELS_MS[0]), (18, DELAY_LEVELS_MS[-1]), (99, DELAY_LEVELS_MS[-1])):
            put = message(level, topic=SCHEDULE_TOPIC, queue_id=level - 1, DELAY=str(level))
            self.store.append([[put]], NOW_MS)
            queue = self.store.queues.get(SCHEDULE_TOPIC, level - 1)
            assert queue is not None
            self.assertEqual(queue.unit(0).tags_code, NOW_MS + delay)
        self.assertEqual(verify(self.store), [])

    def test_transactions_get_no_queue_entry(self) -> None:
        """Prepared and rolled back records are in the log with queue offset 0; a rolled back one is not indexed
        either."""
        for number, flag in enumerate((0x4, 0x8, 0xC)):
            put = message(number)
            put.sys_flag = flag
            self.store.append([[put]], NOW_MS)
        self.assertEqual([record.sys_flag for record in read_queue(self.store)], [0x8])
        self.assertEqual(self.store.max_offset("T", 0), 1)
        found = [len(self.store.query("T", message(number).keys[0], 9, 0, 1 << 62)) for number in range(3)]
        self.assertEqual(found, [1, 1, 0])
        self.assertEqual(verify(self.store), [])

    def test_what_no_caller_may_put(self) -> None:
        """Too large, properties too long, a topic or queue that is no directory: loud, and without a trace."""
        wrong = [
            message(1, body=bytes(5000)),
            message(1, topic="../../etc/passwd"),
            message(1, topic=".."),
            message(1, topic=""),
            message(1, topic="a/b"),
            message(1, topic="a\0b"),
            message(1, topic="t" * 256),
            message(1, queue_id=-1),
            attrs.evolve(message(1), properties=bytes(32768)),
            attrs.evolve(message(1), born_host=b"abc"),
        ]
        for put in wrong:
            with self.subTest(topic=put.topic, queue_id=put.queue_id), self.assertRaises(InvariantBroken):
                self.store.append([[message(7), put]], NOW_MS)
        self.assertEqual(self.store.max_physical_offset, 0)
        self.assertEqual(self.store.max_offset("T", 0), 0)
        self.assertEqual(self.store.append([[message(8)]], NOW_MS)[0][0].queue_offset, 0)

    def test_a_failed_write_gives_offsets_back(self) -> None:
        """Queue offsets, the log's end and the index are as before, in a turn over two files as well."""
        self.store.append([[message(1, body=bytes(2500))]], NOW_MS)
        for failing in (1, 2, 2):  # the new file; the first write; the second, as the file is there then
            self.disk.fail_at(failing, errno.ENOSPC, only=["write", "create"])
            with self.assertRaises(DiskFailure):
                self.store.append([[message(2)], [message(3, queue_id=1, body=bytes(2300))]], NOW_MS)
            self.disk.heal()
            self.assertEqual(self.store.max_offset("T", 0), 1)
            self.assertEqual(self.store.max_offset("T", 1), 0)
            self.assertEqual(self.store.query("T", message(2).keys[0], 5, 0, 1 << 62), [])
        place = self.store.append([[message(4)]], NOW_MS)[0][0]
        self.assertEqual(place.queue_offset, 1)
        self.assertEqual(verify(self.store), [])
        flush(self.store)
        self.disk.crash()
        store = open_store(self.disk)
        self.assertEqual(bodies(read_queue(store))[1:], [message(4).body])

    def test_append_needs_a_loaded_store(self) -> None:
        """Before load, and after close."""
        with self.assertRaises(InvariantBroken):
            MessageStore(memory_disk(), ROOT, SMALL, HOST).append([[message(1)]], NOW_MS)
        self.store.close(NOW_MS)
        with self.assertRaises(InvariantBroken):
            self.store.append([[message(1)]], NOW_MS)


class GetTests(unittest.TestCase):
    """What comes out."""

    def setUp(self) -> None:
        """Two interleaved queues of forty messages."""
        self.disk = memory_disk()
        self.store = open_store(self.disk)
        for number in range(80):
            self.store.append([[message(number, queue_id=number % 2)]], NOW_MS + number * 1000)

    def test_statuses(self) -> None:
        """Java's status and next offset for every kind of offset (DefaultMessageStore.getMessage)."""
        cases = [
            (("T", 0, 0), GetStatus.FOUND, 32),
            (("T", 0, 39), GetStatus.FOUND, 40),
            (("T", 0, 40), GetStatus.OFFSET_OVERFLOW_ONE, 40),
            (("T", 0, 99), GetStatus.OFFSET_OVERFLOW_BADLY, 40),
            (("T", 0, -1), GetStatus.OFFSET_TOO_SMALL, 0),
            (("T", 7, 5), GetStatus.NO_MATCHED_LOGIC_QUEUE, 0),
            (("X", 0, 5), GetStatus.NO_MATCHED_LOGIC_QUEUE, 0),
        ]
        for (topic, queue_id, offset), status, next_offset in cases:
            with self.subTest(topic=topic, queue_id=queue_id, offset=offset):
                result = self.store.get(topic, queue_id, offset, 32, 1 << 20)
                self.assertEqual((result.status, result.next_offset), (status, next_offset))
        self.store.queues.get_or_make("T", 9)
        result = self.store.get("T", 9, 3, 32, 1 << 20)
        self.assertEqual((result.status, result.next_offset), (GetStatus.NO_MESSAGE_IN_QUEUE, 0))

    def test_from_tail_and_files(self) -> None:
        """The same answer whether entries are in memory, half written, or in the files."""
        before = self.store.get("T", 1, 3, 32, 1 << 20)
        job = self.store.upkeep.queue_job(thorough=False)
        assert job is not None
        self.store.append([[message(100, queue_id=1)]], NOW_MS)
        job.run()
        self.assertEqual(self.store.get("T", 1, 3, 32, 1 << 20).buffers, before.buffers)
        self.store.finished(job, None)
        self.assertEqual(self.store.get("T", 1, 3, 32, 1 << 20).buffers, before.buffers)
        self.assertEqual(bodies(read_queue(self.store, "T", 1, step=64))[-1], message(100).body)

    def test_limits(self) -> None:
        """At most so many messages and bytes, but always one, as in Java."""
        size = len(self.store.get("T", 0, 0, 1, 1 << 20).buffers[0])
        self.assertEqual(self.store.get("T", 0, 0, 5, 1 << 20).count, 5)
        self.assertEqual(self.store.get("T", 0, 0, 32, 3 * size + 10).count, 3)
        result = self.store.get("T", 0, 0, 32, 1)
        self.assertEqual((result.count, result.next_offset), (1, 1))

    def test_filter(self) -> None:
        """Only accepted tags codes; the next offset passes the refused ones; none accepted is NO_MATCHED_MESSAGE."""
        wanted = tags_code({"TAGS": "tag1"})
        result = self.store.get("T", 0, 0, 5, 1 << 20, lambda code: code == wanted)
        self.assertEqual(result.count, 5)
        self.assertEqual({decode(data).flag % 3 for data in split(result.buffers)}, {1})
        result = self.store.get("T", 0, 0, 32, 1 << 20, lambda code: False)
        self.assertEqual((result.status, result.next_offset), (GetStatus.NO_MATCHED_MESSAGE, 40))

    def test_how_far_behind(self) -> None:
        """From the last message that was looked at to the end of the log, be it given, filtered or too much; what
        found none is nowhere (DefaultMessageStore.getMessage: maxPhyOffsetPulling)."""
        queue, end = self.store.queues.get("T", 0), self.store.max_physical_offset
        assert queue is not None
        for last, args in (
            (4, (0, 5, 1 << 20)),
            (0, (0, 32, 1)),
            (39, (35, 32, 1 << 20)),
            (39, (3, 32, 1 << 20, lambda code: False)),
        ):
            result = self.store.get("T", 0, *args)  # type: ignore[arg-type]
            self.assertEqual(result.behind, end - queue.unit(last).physical_offset, args)
            self.assertEqual(result.next_offset, last + 1)
        for offset in (-1, 40, 41):
            self.assertEqual(self.store.get("T", 0, offset, 32, 1 << 20).behind, 0)
        self.assertEqual(self.store.get("T", 9, 0, 32, 1 << 20).behind, 0)

    def test_confirm_offset_bounds_what_is_seen(self) -> None:
        """Messages that end behind it are not there yet: for get, max offset, and by place."""
        for number in (0, 1, 20, 79, 80):
            places = [self.store.queues.get("T", 0), self.store.queues.get("T", 1)]
            ends = sorted(queue.unit(at).physical_offset for queue in places if queue for at in range(40))
            self.store.confirm_offset = ends[number] if number < 80 else None
            visible = [(number + 1) // 2, number // 2] if number < 80 else [40, 40]
            with self.subTest(number=number):
                self.assertEqual([self.store.max_offset("T", 0), self.store.max_offset("T", 1)], visible)
                self.assertEqual([len(read_queue(self.store, "T", 0)), len(read_queue(self.store, "T", 1))], visible)
                if number < 80:
                    self.assertIsNone(self.store.message_at(ends[number]))

    def test_offset_by_time(self) -> None:
        """First at or after; with ``upper`` last at or before; the ends where there is none."""
        times = [NOW_MS + 2000 * index for index in range(40)]
        self.assertEqual(self.store.offset_by_time("T", 0, times[7]), 7)
        self.assertEqual(self.store.offset_by_time("T", 0, times[7] + 1), 8)
        self.assertEqual(self.store.offset_by_time("T", 0, times[7] + 1, upper=True), 7)
        self.assertEqual(self.store.offset_by_time("T", 0, times[7], upper=True), 7)
        self.assertEqual(self.store.offset_by_time("T", 0, 0), 0)
        self.assertEqual(self.store.offset_by_time("T", 0, 0, upper=True), 0)
        self.assertEqual(self.store.offset_by_time("T", 0, 1 << 60), 40)
        self.assertEqual(self.store.offset_by_time("T", 0, 1 << 60, upper=True), 39)
        self.assertEqual(self.store.offset_by_time("X", 0, times[7]), 0)
        self.assertEqual(self.store.earliest_time("T", 1), NOW_MS + 1000)
        self.assertEqual(self.store.earliest_time("T", 5), -1)
        self.assertEqual(self.store.earliest_message_time(), NOW_MS)

    def test_equal_times(self) -> None:
        """Of several messages of one millisecond lower is the first and upper the last."""
        store = open_store(memory_disk())
        for number, time_ms in enumerate((1000, 2000, 2000, 2000, 3000)):
            store.append([[message(number)]], time_ms)
        self.assertEqual(store.offset_by_time("T", 0, 2000), 1)
        self.assertEqual(store.offset_by_time("T", 0, 2000, upper=True), 3)

    def test_message_at_refuses_what_is_no_record(self) -> None:
        """Negative, behind the end, and between records."""
        for offset in (-1, 5, self.store.max_physical_offset, 1 << 62):
            self.assertIsNone(self.store.message_at(offset))

    def test_reads_are_joined(self) -> None:
        """A pull of interleaved messages costs one read of the log a file, not one a message."""
        store = open_store(memory_disk(), WIDE)
        for number in range(80):
            store.append([[message(number, queue_id=number % 2)]], NOW_MS)
        self.disk = store._disk  # type: ignore[assignment]
        self.disk.trace = []
        self.assertEqual(store.get("T", 0, 0, 32, 1 << 20).count, 32)
        self.assertLessEqual([operation for operation, _ in self.disk.trace].count("read"), 1)


class QueryTests(unittest.TestCase):
    """By key."""

    def test_keys_of_every_kind(self) -> None:
        """UNIQ_KEY, each word of KEYS, T# + tag; newest first; in the time asked for; of the topic asked for."""
        store = open_store(memory_disk())
        for number in range(60):
            put = message(number, topic="A" if number % 2 else "B", KEYS=f"order{number % 5}  all")
            store.append([[put]], NOW_MS + number * 1000)
        everything = (0, 1 << 62)
        self.assertEqual(len(store.query("A", message(7).keys[0], 9, *everything)), 1)
        self.assertEqual(store.query("B", message(7).keys[0], 9, *everything), [])
        orders = [decode(data).store_timestamp_ms for data in store.query("A", "order1", 64, *everything)]
        self.assertEqual(orders, [NOW_MS + number * 1000 for number in (51, 41, 31, 21, 11, 1)])
        self.assertEqual(len(store.query("A", "all", 64, *everything)), 30)
        self.assertEqual(len(store.query("A", "all", 4, *everything)), 4)
        self.assertEqual(len(store.query("A", "T#tag0", 64, *everything)), 10)
        between = store.query("A", "all", 64, NOW_MS + 9_500, NOW_MS + 20_500)
        self.assertEqual(
            [decode(data).store_timestamp_ms - NOW_MS for data in between], [19_000, 17_000, 15_000, 13_000, 11_000]
        )
        self.assertEqual(store.query("A", "missing", 64, *everything), [])
        self.assertEqual(store.query("A", "all", 0, *everything), [])
        self.assertEqual(verify(store), [])

    def test_keys_with_any_characters(self) -> None:
        """Hashes of keys outside ASCII, short and long, equal for writing and asking."""
        store = open_store(memory_disk(), WIDE)
        keys = ["é", "ключ", "\U0001f600" * 20, "k" * 300, "7F0000010A2B18B4AAC2" + "é" * 12, "#", "T#"]
        for number, key in enumerate(keys):
            store.append([[message(number, topic="Tö", KEYS=key)]], NOW_MS)
        for number, key in enumerate(keys):
            with self.subTest(key=key):
                found = store.query("Tö", key, 9, 0, 1 << 62)
                self.assertEqual([decode(data).body for data in found], [message(number).body])

    def test_without_an_index(self) -> None:
        """messageIndexEnable = false: nothing is found, nothing is written."""
        disk = memory_disk()
        store = open_store(disk, attrs.evolve(SMALL, index_enable=False))
        store.append([[message(1)]], NOW_MS)
        self.assertEqual(store.query("T", message(1).keys[0], 9, 0, 1 << 62), [])
        store.close(NOW_MS)
        self.assertEqual(disk.list(f"{ROOT}/index"), [])

    def test_index_keys(self) -> None:
        """Java's order and splitting (IndexService.buildIndex of 5.5)."""
        fields = {"KEYS": "b  a ", "TAGS": "t", "UNIQ_KEY": "u"}
        self.assertEqual(index_keys(fields), ("u", "b", "a", "T#t"))
        self.assertEqual(index_keys(fields, with_tags=False), ("u", "b", "a"))
        self.assertEqual(index_keys({}), ())


class TwoDisks(MemoryDisk):
    """Two file systems, of which one fills up."""

    def __init__(self, full: str) -> None:
        super().__init__(random.Random(0))
        self.full = full
        self.fuller = 0.1

    def space(self, path: str) -> DiskSpace:
        used = round(1000 * (self.fuller if path == self.full else 0.1))
        return DiskSpace(1000, 1000 - used, 1000 - used)


class UpkeepTests(unittest.TestCase):
    """Jobs, checkpoint, expiry, the disk guard."""

    def test_group_commit(self) -> None:
        """One flush at a time; it covers what was written before it; the rest shares the next one."""
        store = open_store(memory_disk())
        self.assertIsNone(store.flush_job())
        store.append([[message(1)]], NOW_MS)
        end = store.max_physical_offset
        job = store.flush_job()
        assert job is not None
        store.append([[message(2)]], NOW_MS)
        self.assertIsNone(store.flush_job())
        job.run()
        self.assertEqual(store.flushed_offset, 0)
        store.finished(job, None)
        self.assertEqual(store.flushed_offset, end)
        flush(store)
        self.assertEqual(store.flushed_offset, store.max_physical_offset)
        self.assertIsNone(store.flush_job())

    def test_the_log_on_another_disk(self) -> None:
        """The fuller of the two counts, for a log of either layout: its marks are told by its path."""
        for layout in (COMMITLOG, DLEDGER):
            for used in ({"/log": 98, ROOT: 50}, {"/log": 50, ROOT: 98}):
                disk = memory_disk()
                config = attrs.evolve(SMALL, layout=layout, commitlog_directory="/log/data", entry_index_directory="/i")
                store = open_store(disk, config)
                self.assertIsNone(store.unwritable_reason(NOW_MS))

                def space(path: str, used: dict[str, int] = used) -> DiskSpace:
                    free = 100 - next(share for at, share in used.items() if path.startswith(at))
                    return DiskSpace(100, free, free)

                disk.space = space  # type: ignore[method-assign]
                later_ms = NOW_MS + 60_000
                self.assertEqual(store.unwritable_reason(later_ms), "the disk is 98% full")
                upkeep(store, later_ms)
                filling = [each for each in store.upkeep.notices() if isinstance(each, Filling)]
                self.assertEqual([each.path.startswith("/log") for each in filling], [used["/log"] == 98])

    def test_rolling_syncs_the_former_file_and_the_directory(self) -> None:
        """An acknowledgement after a roll covers the end of the old file and the name of the new one."""
        disk = memory_disk()
        store = open_store(disk)
        store.append([[message(1, body=bytes(2000))]], NOW_MS)
        flush(store)
        store.append([[message(2, body=bytes(2000))]], NOW_MS)
        disk.trace = []
        flush(store)
        directory = store.log.segments.directory
        synced = [path for operation, path in disk.trace if operation == "sync"]
        self.assertEqual(synced, [f"{directory}/{0:020d}", f"{directory}/{4096:020d}", directory])

    def test_the_next_file_is_made_ahead(self) -> None:
        """Sparse, reserved or warmed; an append that cannot wait makes its own and nothing falls on it."""
        for more in ({}, {"preallocate": True}, {"warm": True}):
            with self.subTest(**more):
                disk = memory_disk()
                store = open_store(disk, attrs.evolve(SMALL, **more))
                store.append([[message(1, body=bytes(2200))]], NOW_MS)
                jobs = [job for job in store.maintenance(NOW_MS, NOW_MS) if job.kind == "segment"]
                self.assertEqual(len(jobs), 1)
                self.assertEqual([job for job in store.maintenance(NOW_MS, NOW_MS) if job.kind == "segment"], [])
                jobs[0].run()
                store.append([[message(2, body=bytes(2200))]], NOW_MS)  # could not wait
                store.finished(jobs[0], None)
                jobs = [job for job in store.maintenance(NOW_MS, NOW_MS) if job.kind == "segment"]
                jobs[0].run()
                store.finished(jobs[0], None)
                disk.trace = []
                store.append([[message(3, body=bytes(2200))]], NOW_MS)
                self.assertNotIn("create", [operation for operation, _ in disk.trace])
                self.assertEqual(bodies(read_queue(store)), [bytes(2200)] * 3)
                self.assertEqual(verify(store), [])
                store.close(NOW_MS)
                self.assertEqual(verify(open_store(disk)), [])

    def test_the_checkpoint_claims_only_what_is_synced(self) -> None:
        """Queue entries synced before the log is: logics_offset waits for the log (facts 12, Java trusts it)."""
        disk = memory_disk()
        store = open_store(disk)
        store.append([[message(1)]], NOW_MS)
        place = store.append([[message(2)]], NOW_MS + 5)[0][0]
        upkeep(store, NOW_MS + 70_000)
        self.assertEqual(checkpoint.load(disk, f"{ROOT}/checkpoint").logics_offset, 0)
        flush(store)
        upkeep(store, NOW_MS + 80_000)
        fields = checkpoint.load(disk, f"{ROOT}/checkpoint")
        self.assertEqual((fields.logics_offset, fields.logics_timestamp_ms), (place.physical_offset, NOW_MS + 5))
        self.assertEqual(fields.index_timestamp_ms, NOW_MS + 5)
        self.assertEqual(disk.size(f"{ROOT}/checkpoint"), 4096)

    def test_bounded_memory(self) -> None:
        """Tails and pending units are written early when they grow; if they cannot be, appends are refused."""
        config = attrs.evolve(WIDE, pending_queue_bytes_max=400, pending_index_units_max=30)
        disk = memory_disk()
        store = open_store(disk, config)
        upkeep(store, NOW_MS)
        for number in range(21):
            store.append([[message(number)]], NOW_MS)
        self.assertEqual(
            {job.kind for job in store.maintenance(NOW_MS, NOW_MS)} & {"queues", "index"}, {"queues", "index"}
        )
        store = open_store(memory_disk(), config)
        for number in range(400):
            store.append([[message(number)]], NOW_MS)
        self.assertIn("consume queues", store.unwritable_reason(NOW_MS) or "")
        upkeep(store, NOW_MS)
        self.assertTrue(store.writable(NOW_MS))

    def fill(self, disk: MemoryDisk, config: StoreConfig = SMALL) -> MessageStore:
        """A store of about eight log files, an hour apart, flushed."""
        store = open_store(disk, config)
        for number in range(40):
            store.append([[message(number, body=bytes(600))]], NOW_MS + number * HOUR)
        flush(store)
        upkeep(store, NOW_MS + 40 * HOUR)
        return store

    def test_expiry_by_time(self) -> None:
        """In the hour of deleteWhen, files whose youngest message is too old go; queues and index go with them."""
        disk = memory_disk()
        store = self.fill(disk)
        four = (NOW_MS // (24 * HOUR) + 5) * 24 * HOUR + 4 * HOUR
        upkeep(store, four - HOUR)
        self.assertEqual(store.min_physical_offset, 0)
        upkeep(store, four)
        self.assertGreater(store.min_physical_offset, 0)
        kept = read_queue(store)
        reserved_ms = SMALL.file_reserved_ms
        younger = [number for number in range(40) if NOW_MS + number * HOUR + reserved_ms > four]
        self.assertLessEqual(len(younger), len(kept))
        self.assertLess(len(kept), len(younger) + 6)  # a file holds five
        self.assertEqual(store.min_offset("T", 0), kept[0].queue_offset)
        self.assertEqual(store.get("T", 0, 0, 1, 99).status, GetStatus.OFFSET_TOO_SMALL)
        self.assertEqual(disk.list(store.log.segments.directory)[0], f"{store.min_physical_offset:020d}")
        self.assertEqual(verify(store), [])
        disk.crash()
        self.assertEqual(len(read_queue(open_store(disk))), len(kept))

    def test_a_queue_file_that_entries_wait_for_stays(self) -> None:
        """A write of queue entries failed, and the log's files go meanwhile, as on a full disk: the file that those
        entries belong to is not made anew with nothing before them, or a start would take the queue for empty."""
        disk = memory_disk()
        store = self.fill(disk)
        queue = store.queues.queues["T"][0]
        per_file = queue.files.file_size // 20
        self.assertGreaterEqual(queue.next_offset, 2 * per_file)
        queue.take_back(per_file - 1)
        begin = queue.unit(per_file).physical_offset
        self.assertEqual(store.queues.expired_paths(begin), [])
        store.queues.mark(queue)
        upkeep(store, NOW_MS + 41 * HOUR)
        self.assertEqual(len(store.queues.expired_paths(begin)), 1)

    def test_expiry_that_somebody_asked_for(self) -> None:
        """The same whatever the hour, for some rounds; what is not expired stays."""
        store = self.fill(memory_disk())
        later = (NOW_MS // (24 * HOUR) + 5) * 24 * HOUR + 4 * HOUR - 2 * HOUR
        upkeep(store, later)
        self.assertEqual(store.min_physical_offset, 0)
        store.upkeep.expire_soon(log=False)
        upkeep(store, later)
        self.assertEqual(store.min_physical_offset, 0)
        store.upkeep.expire_soon(log=True)
        upkeep(store, later)
        kept = len(read_queue(store))
        younger = sum(NOW_MS + number * HOUR + SMALL.file_reserved_ms > later for number in range(40))
        self.assertLess(kept, 40)
        self.assertLessEqual(younger, kept)
        for _ in range(ASKED_ROUNDS):
            later += SMALL.expire_interval_ms
            upkeep(store, later)
        begin = store.min_physical_offset
        upkeep(store, later + HOUR)
        self.assertEqual(store.min_physical_offset, begin)
        self.assertEqual(verify(store), [])

    def test_expiry_goes_on_when_the_clock_is_set(self) -> None:
        """A year back: files are looked at again after the same interval, and go in the hour of deleteWhen."""
        store = self.fill(memory_disk())
        four = (NOW_MS // (24 * HOUR) + 5) * 24 * HOUR + 4 * HOUR
        steady_ms = NOW_MS + 100 * HOUR
        run_here(store.maintenance(steady_ms, four + 365 * 24 * HOUR + HOUR), store.finished)
        self.assertEqual(store.min_physical_offset, 0)
        run_here(store.maintenance(steady_ms + SMALL.expire_interval_ms, four), store.finished)
        self.assertGreater(store.min_physical_offset, 0)

    def test_the_last_file_never_goes(self) -> None:
        """However old, and however full the disk."""
        disk = memory_disk()
        store = self.fill(disk)
        disk.ratio = 0.99
        for day in range(5, 400):
            upkeep(store, NOW_MS + day * 24 * HOUR)
        self.assertEqual(store.min_physical_offset, (store.max_physical_offset - 1) // 4096 * 4096)
        self.assertGreater(len(read_queue(store)), 0)
        self.assertEqual(store.max_offset("T", 0), 40)
        self.assertEqual(verify(store), [])
        store.close(NOW_MS)
        store = open_store(disk)
        self.assertEqual(store.max_offset("T", 0), 40)

    def test_what_goes_before_its_time(self) -> None:
        """Each file with its age, and the mark that the disk passed; nothing is said of what has expired."""
        disk = memory_disk()
        store = self.fill(disk)
        self.assertEqual(store.upkeep.notices(), [])
        now_ms, reserved_ms = NOW_MS + 90 * HOUR, SMALL.file_reserved_ms
        names = disk.list(store.log.segments.directory)
        disk.ratio = 0.77
        upkeep(store, now_ms)
        self.assertEqual(store.upkeep.notices(), [Filling(ROOT, 0.77, "expired files go at any hour")])
        left = disk.list(store.log.segments.directory)
        expired = names[: len(names) - len(left)]
        self.assertTrue(expired)
        self.assertEqual(store.upkeep.expired_early, 0)
        disk.ratio = 0.86
        upkeep(store, now_ms + MINUTE)
        filling, *early = store.upkeep.notices()
        gone = left[: len(left) - len(disk.list(store.log.segments.directory))]
        self.assertGreater(len(gone), 2)
        self.assertEqual(filling, Filling(ROOT, 0.86, "the oldest files go, expired or not"))
        self.assertEqual(
            [each.path for each in early if isinstance(each, ExpiredEarly)],
            [f"{store.log.segments.directory}/{name}" for name in gone],
        )
        for each in early:
            assert isinstance(each, ExpiredEarly)
            self.assertEqual((each.reserved_ms, each.used_ratio), (reserved_ms, 0.86))
            self.assertLess(0, each.age_ms)
            self.assertLess(each.age_ms, reserved_ms)
        self.assertEqual(store.upkeep.expired_early, len(early))
        self.assertEqual(store.upkeep.notices(), [])

    def test_marks_are_not_told_again_at_once(self) -> None:
        """A disk that stays about one passes it every few seconds."""
        disk = memory_disk()
        store = self.fill(disk)
        told = []
        for second in range(0, 1200, 20):
            disk.ratio = 0.76 if second % 40 else 0.74
            upkeep(store, NOW_MS + 41 * HOUR + second * 1000)
            told += store.upkeep.notices()
        self.assertEqual(len(told), 2)

    def test_a_file_that_begins_with_damage(self) -> None:
        """Its first record does not say how old the one before is: that stays until the next one's does."""
        disk = memory_disk()
        store = self.fill(disk)
        names = disk.list(store.log.segments.directory)
        file = disk.open(f"{store.log.segments.directory}/{names[1]}")
        file.write(0, [bytes(88)])
        file.close()
        disk.ratio = 0.77
        times = [NOW_MS + hour * HOUR + SMALL.file_reserved_ms for hour in range(40)]
        gone = []
        for time_ms in times:
            upkeep(store, time_ms)
            gone.append(len(names) - len(disk.list(store.log.segments.directory)))
        self.assertNotIn(1, gone)
        self.assertIn(2, gone)

    def test_a_log_on_another_disk(self) -> None:
        """storePathCommitLog: what is nearly full counts, whichever of the two; each file is where it belongs."""
        for full in ("/log", ROOT):
            disk = TwoDisks(full)
            store = self.fill(disk, attrs.evolve(SMALL, commitlog_directory="/log"))
            store.close(NOW_MS + 40 * HOUR)
            store = open_store(disk, attrs.evolve(SMALL, commitlog_directory="/log"))
            with self.subTest(full=full):
                self.assertEqual((len(disk.list("/log")) > 5, disk.exists(f"{ROOT}/commitlog")), (True, False))
                self.assertEqual(len(read_queue(store)), 40)
                self.assertTrue(store.writable(NOW_MS + 41 * HOUR))
                disk.fuller = 0.96
                self.assertFalse(store.writable(NOW_MS + 42 * HOUR))
                self.assertEqual(store.space.used_ratio, 0.96)

    def test_one_log_of_two_roots(self) -> None:
        """storePathCommitLog of two brokers names one directory, or that of the other's root: the second is refused,
        before it has changed anything, and may have it when the first has stopped."""
        for configured, other in (("/log", "/log"), (None, f"{ROOT}/commitlog")):
            disk = memory_disk()
            store = open_store(disk, attrs.evolve(SMALL, commitlog_directory=configured))
            store.append([[message(1)]], NOW_MS)
            end = store.max_physical_offset
            second = attrs.evolve(SMALL, commitlog_directory=other)
            with self.assertRaises(DiskFailure) as refused:
                open_store(disk, second, root="/elsewhere")
            self.assertEqual((refused.exception.errno, refused.exception.path), (errno.EAGAIN, other))
            store.close(NOW_MS)
            again = open_store(disk, second, root="/elsewhere")
            self.assertEqual(again.max_physical_offset, end)
            again.close(NOW_MS)

    def test_disk_levels(self) -> None:
        """75 %: expired files go at any hour.  85 %: any file.  95 %: writes are refused (facts 13, issue 3)."""
        now_ms = NOW_MS + 40 * HOUR + 3 * 24 * HOUR  # some are older than three days, and it is not four o'clock
        for ratio, goes, writable in (
            (0.74, "nothing", True),
            (0.76, "expired", True),
            (0.86, "more", True),
            (0.96, "more", False),
        ):
            disk = memory_disk()
            store = self.fill(disk)
            before = len(store.log.segments.bases)
            disk.ratio = ratio
            upkeep(store, now_ms - now_ms % (24 * HOUR) + 9 * HOUR)
            gone = before - len(store.log.segments.bases)
            with self.subTest(ratio=ratio):
                self.assertEqual(gone > 0, goes != "nothing")
                if goes == "more":
                    self.assertEqual(store.min_physical_offset, (store.max_physical_offset - 1) // 4096 * 4096)
                self.assertEqual(store.writable(now_ms), writable)
                if not writable:
                    self.assertIn("96%", store.unwritable_reason(now_ms) or "")

    def test_delete_topic(self) -> None:
        """Queues and files go; a job that is out does not bring them back; the name can be used again from 0."""
        disk = memory_disk()
        store = open_store(disk)
        store.append([[message(1), message(2, topic="Other")]], NOW_MS)
        upkeep(store, NOW_MS + 2000)
        store.append([[message(3)]], NOW_MS)
        job = store.upkeep.queue_job(thorough=True)
        assert job is not None
        store.delete_topic("T")
        job.run()
        store.finished(job, None)
        self.assertEqual(disk.list(store.queues.directory), ["Other"])
        self.assertEqual(store.get("T", 0, 0, 1, 99).status, GetStatus.NO_MATCHED_LOGIC_QUEUE)
        self.assertEqual(store.append([[message(4)]], NOW_MS)[0][0].queue_offset, 0)
        self.assertEqual(bodies(read_queue(store)), [message(4).body])
        store.delete_topic("../Other")
        self.assertTrue(disk.exists(f"{store.queues.directory}/Other"))

    def test_truncate_cannot_come_back(self) -> None:
        """C1 of regressions.md: a crash at any step after the cut is reported, or during it, never revives the tail."""
        for step in range(1, 90):
            disk = MemoryDisk(random.Random(step), 512)
            store = open_store(disk)
            places = [store.append([[message(number, body=bytes(500))]], NOW_MS + number)[0][0] for number in range(20)]
            flush(store)
            upkeep(store, NOW_MS + 70_000)
            flush(store)
            upkeep(store, NOW_MS + 80_000)
            cut = places[9].physical_offset
            disk.fail_at(step, times=1 << 30)
            try:
                store.truncate(cut)
                done = True
                disk.heal()
                self.assertEqual(len(read_queue(store)), 9)
                self.assertEqual(verify(store), [])
                store.append([[message(99)]], NOW_MS + 99)
            except DiskFailure:
                done = False
            disk.heal()
            disk.crash()
            store = open_store(disk)
            seen = bodies(read_queue(store))
            with self.subTest(step=step):
                self.assertEqual(verify(store), [])
                self.assertEqual(len(seen) >= 9, True)
                if done:
                    self.assertIn(len(seen), (9, 10))
                    self.assertEqual(seen[9:], [message(99).body][: len(seen) - 9])
        self.assertTrue(done, "the loop ends behind the last step")


class ConfigTests(unittest.TestCase):
    """Settings that cannot work are refused with Java's name of the key."""

    def test_wrong_settings(self) -> None:
        """Each with the key in its message."""
        for more, text in (
            ({"queue_file_size": 30}, "mappedFileSizeConsumeQueue"),
            ({"segment_size": 100}, "mappedFileSizeCommitLog"),
            ({"segment_size": 1 << 31}, "mappedFileSizeCommitLog"),
            ({"message_bytes_max": 1 << 27}, "maxMessageSize"),
            ({"index_units": 0}, "maxIndexNum"),
            ({"delete_hours": frozenset((24,))}, "deleteWhen"),
            ({"disk_force_ratio": 1.5}, "a disk ratio"),
            ({"delay_levels_ms": ()}, "messageDelayLevel"),
        ):
            with self.subTest(**more), self.assertRaisesRegex(ConfigError, text):
                MessageStore(memory_disk(), ROOT, attrs.evolve(StoreConfig(), **more), HOST)

    def test_the_lock(self) -> None:
        """A second store on the directory does not start, and does not disturb the first."""
        disk = memory_disk()
        store = open_store(disk)
        with self.assertRaises(DiskFailure) as caught:
            open_store(disk)
        self.assertEqual(caught.exception.errno, errno.EAGAIN)
        store.append([[message(1)]], NOW_MS)
        store.close(NOW_MS)
        open_store(disk).close(NOW_MS)

    def test_topics_are_directory_names(self) -> None:
        """What Java's validator admits passes; what leaves the directory does not."""
        for topic in ("T", "%RETRY%group", "a-b_c|d", "é", "..."):
            self.assertIsNone(topic_problem(topic))
        for topic in ("", ".", "..", "a/b", "/", "a\\b", "a\0", "a\n", "x" * 256, "é" * 128):
            self.assertIsNotNone(topic_problem(topic))

    def test_batch_queues_are_refused(self) -> None:
        """A Java store with BatchCQ topics: said at the start, not found out by a consumer."""
        disk = memory_disk()
        open_store(disk).close(NOW_MS)
        disk.make_dirs(f"{ROOT}/batchconsumequeue")
        open_store(disk).close(NOW_MS)
        disk.make_dirs(f"{ROOT}/batchconsumequeue/T/0")
        with self.assertRaisesRegex(CorruptStore, "BatchCQ"):
            open_store(disk)


def split(buffers: object) -> list[bytes]:
    """Records of a result, apart."""
    found = []
    for data in buffers:  # type: ignore[attr-defined]
        at = 0
        while at < len(data):
            total = int.from_bytes(data[at : at + 4], "big")
            found.append(bytes(data[at : at + total]))
            at += total
    return found
