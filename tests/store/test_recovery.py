"""Starting on every kind of directory: clean, crashed, damaged by hand.  Source: facts/store.md 12; issue 3
(recovery)."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.errors import CorruptStore
from rocketha.store import checkpoint
from rocketha.store.config import StoreConfig
from rocketha.store.disk import Disk
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import PutMessage, RecoveryReport
from rocketha.store.posix_disk import PosixDisk
from rocketha.store.verify import verify
from tests.store.support import (
    HOST,
    NOW_MS,
    ON_REAL_DISK,
    ROOT,
    SMALL,
    bodies,
    flush,
    memory_disk,
    message,
    open_store,
    read_all,
    read_queue,
    upkeep,
)

LOG = f"{ROOT}/commitlog"
QUEUE = f"{ROOT}/consumequeue/T/0"


class RecoveryCase(unittest.TestCase):
    """A store with forty messages in two queues, stopped or killed, then changed by hand."""

    config = SMALL

    @property
    def size(self) -> int:
        """Of a file of the log."""
        return self.config.segment_size

    @property
    def lead(self) -> int:
        """Bytes before a record."""
        return self.config.layout.head_bytes

    def made(self, clean: bool, count: int = 40, synced: bool = True) -> MemoryDisk:
        """The disk of it."""
        disk = memory_disk()
        store = open_store(disk, self.config)
        for number in range(count):
            store.append(
                [[message(number, queue_id=number % 2, body=b"%03d" % number + bytes(150))]], NOW_MS + number * 1000
            )
        if synced:
            flush(store)
            upkeep(store, NOW_MS + 100_000)
            upkeep(store, NOW_MS + 100_001)
        if clean:
            store.close(NOW_MS)
        else:
            disk.kill()
        return disk

    def reload(self, disk: Disk) -> tuple[MessageStore, RecoveryReport]:
        """Start on it."""
        store = MessageStore(disk, ROOT, self.config, HOST)
        return store, store.load(NOW_MS)

    def sound(self, store: MessageStore, count: int) -> list[int]:
        """Queues and index equal a rebuild, nothing twice; returns the numbers of the messages served."""
        self.assertEqual(verify(store), [])
        numbers = sorted(int(record.body[:3]) for records in read_all(store).values() for record in records)
        self.assertEqual(len(numbers), len(set(numbers)))
        self.assertEqual(len(numbers), count)
        return numbers

    def overwrite(self, disk: Disk, path: str, offset: int, data: bytes) -> None:
        """Damage a file."""
        file = disk.open(path)
        file.write(offset, [data])
        file.sync()
        file.close()


class CleanStartTests(RecoveryCase):
    """After a clean stop."""

    def test_nothing_to_do(self) -> None:
        """One record is looked at, nothing is written but the abort file, whose content is the pid."""
        disk = self.made(clean=True)
        self.assertFalse(disk.exists(f"{ROOT}/abort"))
        disk.trace = []
        store = MessageStore(disk, ROOT, self.config, HOST)
        report = store.load(NOW_MS, pid=4711)
        self.assertEqual((report.clean, report.records, report.dispatched, report.truncated_bytes), (True, 1, 0, 0))
        self.assertEqual({path for operation, path in disk.trace if operation == "write"}, {f"{ROOT}/abort"})
        self.assertEqual(disk.read_all(f"{ROOT}/abort", 20), b"4711")
        self.sound(store, 40)

    def test_empty_directory(self) -> None:
        """A first start, and a start on what a first start left."""
        disk = memory_disk()
        store, report = self.reload(disk)
        self.assertEqual((report.end, report.notes), (0, ()))
        store.close(NOW_MS)
        store, report = self.reload(disk)
        self.assertEqual((report.clean, report.end), (True, 0))
        self.assertEqual(store.append([[message(0)]], NOW_MS)[0][0].queue_offset, 0)

    def test_all_queues_missing(self) -> None:
        """consumequeue/ was deleted: rebuilt wholly from the log."""
        disk = self.made(clean=True)
        disk.remove_tree(f"{ROOT}/consumequeue")
        store, report = self.reload(disk)
        self.assertEqual(report.dispatched, 40)
        self.sound(store, 40)

    def test_one_queue_missing(self) -> None:
        """One queue's directory was deleted: it is noticed, and rebuilt."""
        for queue_id in (0, 1):
            disk = self.made(clean=True)
            disk.remove_tree(f"{ROOT}/consumequeue/T/{queue_id}")
            store, report = self.reload(disk)
            with self.subTest(queue_id=queue_id):
                self.assertTrue(any("rebuilt" in note for note in report.notes), report.notes)
                self.sound(store, 40)

    def test_queue_short_of_its_end(self) -> None:
        """The newest file of a queue was lost: the queue is rebuilt, no offset is given twice."""
        disk = self.made(clean=True, count=90)
        disk.remove(f"{QUEUE}/{800:020d}")
        store, report = self.reload(disk)
        self.assertTrue(report.notes)
        self.sound(store, 90)
        self.assertEqual(store.append([[message(99)]], NOW_MS)[0][0].queue_offset, 45)

    def test_hole_in_a_queue(self) -> None:
        """Entries in the middle are zeros: the queue is rebuilt as soon as the log shows that it goes on."""
        disk = self.made(clean=True)
        self.overwrite(disk, f"{QUEUE}/{0:020d}", 5 * 20, bytes(15 * 20))
        store, report = self.reload(disk)
        self.assertTrue(any("rebuilt" in note for note in report.notes), report.notes)
        self.sound(store, 40)

    def test_queue_beyond_the_log(self) -> None:
        """The newest log file was lost: entries that point into it go, the next offset follows the log."""
        disk = self.made(clean=True)
        last = disk.list(LOG)[-1]
        disk.remove(f"{LOG}/{last}")
        store, report = self.reload(disk)
        left = sum(len(records) for records in read_all(store).values())
        self.assertTrue(0 < left < 40)
        self.assertTrue(any("pointed behind the log" in note for note in report.notes), report.notes)
        self.sound(store, left)

    def test_the_log_is_gone(self) -> None:
        """No log files: the queues go too, as in Java, and so do their keys."""
        disk = self.made(clean=True)
        disk.remove_tree(LOG)
        store, report = self.reload(disk)
        self.assertTrue(any("no log" in note for note in report.notes))
        self.assertEqual(read_all(store), {})
        self.assertEqual(store.query("T", "T#tag0", 9, 0, 1 << 62), [])
        self.assertEqual(store.append([[message(1)]], NOW_MS)[0][0].queue_offset, 0)
        self.assertEqual(verify(store), [])

    def test_damage_before_the_end_is_refused_not_cut(self) -> None:
        """Bit rot in the middle after a clean stop: that message is not served, the others are."""
        disk = self.made(clean=True)
        disk.flip_bit(f"{LOG}/{0:020d}", self.lead + 88 + 40)
        store, _ = self.reload(disk)
        numbers = sorted(int(record.body[:3]) for records in read_all(store).values() for record in records)
        self.assertEqual(numbers, list(range(1, 40)))

    def test_garbage_behind_the_end_is_erased(self) -> None:
        """Java's writeWithoutMmap leaves any bytes behind the last record: they cannot become records later."""
        disk = self.made(clean=True)
        store, report = self.reload(disk)
        end = report.end
        whole = store.log.read(0, 400)
        store.close(NOW_MS)
        self.overwrite(disk, f"{LOG}/{end - end % self.size:020d}", end % self.size, b"\0\0\0\1" + whole)
        store, report = self.reload(disk)
        self.assertGreater(report.truncated_bytes, 50)
        self.assertEqual(report.end, end)
        base = end - end % self.size
        self.assertEqual(
            disk.read_all(f"{LOG}/{base:020d}", self.size)[end - base :].count(0), self.size - (end - base)
        )

    def test_index_missing(self) -> None:
        """index/ was deleted after a clean stop: begun anew, as in Java, and the start says nothing wrong about it."""
        disk = self.made(clean=True)
        disk.remove_tree(f"{ROOT}/index")
        store, _ = self.reload(disk)
        self.sound(store, 40)
        store.append([[message(77)]], NOW_MS)
        self.assertEqual(len(store.query("T", message(77).keys[0], 9, 0, 1 << 62)), 1)


class CrashedStartTests(RecoveryCase):
    """With the abort file."""

    def test_killed_before_anything_was_synced(self) -> None:
        """kill -9 leaves what was written: all is served."""
        disk = self.made(clean=False, synced=False)
        store, report = self.reload(disk)
        self.assertEqual((report.clean, report.records), (False, 40))
        self.sound(store, 40)

    def test_the_proven_part_is_not_walked_again(self) -> None:
        """The checkpoint bounds the work: only what came after it is read."""
        disk = self.made(clean=False)
        store, report = self.reload(disk)
        self.assertLess(report.records, 5)
        self.sound(store, 40)

    def test_torn_tail(self) -> None:
        """Cut the last record at every byte: the others are served, the rest is zeros, its offset is given again."""
        disk = self.made(clean=False, synced=False, count=5)
        size = len(disk.read_all(f"{LOG}/{0:020d}", self.size).rstrip(b"\0"))
        whole = disk.read_all(f"{LOG}/{0:020d}", self.size)
        starts = [at for at in range(size) if whole[at + 4 : at + 8] == bytes.fromhex("daa320a7")]
        for cut in range(starts[-1], size):
            disk = self.made(clean=False, synced=False, count=5)
            self.overwrite(disk, f"{LOG}/{0:020d}", cut, bytes(size - cut))
            store, report = self.reload(disk)
            expected = 4 if any(whole[cut:size]) else 5
            # Inside the properties only the last byte's separator or letters are lost: the format has no CRC over them.
            if cut > starts[-1] + 88 + 153:
                continue
            with self.subTest(cut=cut):
                self.sound(store, expected)
                self.assertEqual(report.end, starts[-1] - self.lead if expected == 4 else size)

    def test_garbage_in_the_middle_of_the_unproven_part(self) -> None:
        """The walk stops at the first bad record; what follows it is erased and its offsets are given again."""
        disk = self.made(clean=False, synced=False)
        self.overwrite(disk, f"{LOG}/{self.size:020d}", 700, b"garbage" * 20)
        store, report = self.reload(disk)
        left = sum(len(records) for records in read_all(store).values())
        self.assertTrue(0 < left < 40)
        self.assertEqual(self.sound(store, left), list(range(left)))
        self.assertGreater(report.truncated_bytes, 0)
        self.assertEqual(disk.list(LOG)[-1], f"{self.size:020d}")
        flush(store)
        place = store.append([[message(left, queue_id=left % 2)]], NOW_MS)[0][0]
        self.assertEqual(place.physical_offset, report.end + self.lead)
        disk.crash()
        self.assertEqual(verify(self.reload(disk)[0]), [])

    def test_bad_crc_in_the_unproven_part(self) -> None:
        """One flipped bit of a body ends the log there."""
        disk = self.made(clean=False, synced=False)
        disk.flip_bit(f"{LOG}/{0:020d}", self.lead + 88 + 20)
        store, report = self.reload(disk)
        self.assertEqual(report.end, 0)
        self.sound(store, 0)

    def test_zero_length_last_file(self) -> None:
        """A crash between creating the file and giving it its size: the file is removed (facts 1)."""
        for clean in (True, False):
            disk = self.made(clean=clean)
            names = disk.list(LOG)
            disk.create(f"{LOG}/{int(names[-1]) + self.size:020d}", 0).close()
            disk.create(f"{QUEUE}/{int(disk.list(QUEUE)[-1]) + 400:020d}", 0).close()
            store, _ = self.reload(disk)
            self.assertEqual(disk.list(LOG), names)
            self.sound(store, 40)

    def test_wrong_sizes(self) -> None:
        """Short, long, empty in the middle, a gap, numbers that are no name of ours: the start stops and says which
        file and why."""

        def cut(disk: MemoryDisk) -> None:
            disk.open(f"{LOG}/{0:020d}").truncate(self.size - 1)

        def grow(disk: MemoryDisk) -> None:
            disk.open(f"{LOG}/{0:020d}").truncate(self.size + 900)

        def empty(disk: MemoryDisk) -> None:
            disk.open(f"{LOG}/{0:020d}").truncate(0)

        def gap(disk: MemoryDisk) -> None:
            disk.remove(f"{LOG}/{self.size:020d}")

        def odd(disk: MemoryDisk) -> None:
            disk.create(f"{LOG}/{self.size * 50 + 1:020d}", self.size).close()

        def digits(disk: MemoryDisk) -> None:
            disk.create(f"{LOG}/{self.size * 50}", self.size).close()  # Java would take it for one of the log's

        def queue_name(disk: MemoryDisk) -> None:
            disk.create(f"{ROOT}/consumequeue/T/7", 0).close()

        for damage in (cut, grow, empty, gap, odd, digits, queue_name):
            disk = self.made(clean=False)
            damage(disk)
            with self.subTest(damage=damage.__name__), self.assertRaises(CorruptStore) as caught:
                self.reload(disk)
            self.assertTrue(caught.exception.path.startswith(ROOT))
            with self.assertRaises(CorruptStore):
                self.reload(disk)  # the lock was given back

    def test_queues_torn_after_the_checkpoint(self) -> None:
        """Garbage entries that point anywhere, behind the proven ones, are written anew."""
        for garbage in (
            bytes(20) * 4,
            b"\xff" * 80,
            bytes(range(80)),
            (5).to_bytes(8, "big") + b"\0\0\0\x99" + bytes(8),
        ):
            disk = self.made(clean=False, count=30)
            store, _ = self.reload(disk)
            for number in range(30, 36):
                store.append([[message(number, queue_id=0, body=b"%03d" % number)]], NOW_MS + number)
            upkeep(store, NOW_MS + 2000)
            disk.kill()
            self.overwrite(disk, f"{QUEUE}/{0:020d}", 15 * 20, garbage)
            store, _ = self.reload(disk)
            with self.subTest(garbage=garbage[:12]):
                self.sound(store, 36)

    def test_index_newer_than_the_checkpoint(self) -> None:
        """Units that were not proven are dropped and written anew; slots are computed from the units (facts 12)."""
        disk = self.made(clean=False)
        fields = checkpoint.load(disk, f"{ROOT}/checkpoint")
        for index_ms in (0, fields.index_timestamp_ms - 20_000):
            checkpoint.save(disk, f"{ROOT}/checkpoint", fields._replace(index_timestamp_ms=index_ms))
            for name in disk.list(f"{ROOT}/index"):
                self.overwrite(disk, f"{ROOT}/index/{name}", 40, b"\x7f" * 100)
            store, _ = self.reload(disk)
            with self.subTest(index_ms=index_ms):
                self.sound(store, 40)
                self.assertEqual(len(store.query("T", message(7).keys[0], 9, 0, 1 << 62)), 1)
            disk.kill()

    def test_checkpoint_missing_or_nonsense(self) -> None:
        """Without a checkpoint everything is checked and rebuilt; an older Java's has 40 bytes that count."""
        disk = self.made(clean=False)
        fields = checkpoint.load(disk, f"{ROOT}/checkpoint")
        old = fields._replace(logics_offset=0)
        path = f"{ROOT}/checkpoint"
        for damage in (
            lambda: disk.remove(path),
            lambda: disk.open(path).truncate(10),
            lambda: self.overwrite(disk, path, 0, b"\xff" * 48),
            lambda: checkpoint.save(disk, path, fields._replace(logics_offset=1 << 40)),
            lambda: checkpoint.save(disk, path, fields._replace(logics_offset=77)),
            lambda: checkpoint.save(disk, path, old),
        ):
            damage()
            store, report = self.reload(disk)
            with self.subTest(report=report):
                self.sound(store, 40)
            disk.kill()

    def test_a_deleted_topic_made_again(self) -> None:
        """Offsets begin at 0 twice in the log: after a crash the queue holds the second life."""
        disk = memory_disk()
        store = open_store(disk, self.config)
        store.append([[message(number, body=b"%03d" % number) for number in range(5)]], NOW_MS)
        store.delete_topic("T")
        store.append([[message(number, body=b"%03d" % number) for number in range(5, 8)]], NOW_MS + 1)
        disk.kill()
        store, report = self.reload(disk)
        self.assertEqual([record.body for record in read_queue(store)], [b"005", b"006", b"007"])
        self.assertTrue(any("made again" in note for note in report.notes))
        self.assertEqual(store.max_offset("T", 0), 3)

    def test_a_queue_that_begins_late_is_padded(self) -> None:
        """Its older records have expired and its files are lost: padding up to its first offset, as Java writes it."""
        disk = self.made(clean=False, count=90)
        for base in range(0, self.size * 2, self.size):
            disk.remove(f"{LOG}/{base:020d}")
        disk.remove_tree(f"{ROOT}/consumequeue")
        disk.remove(f"{ROOT}/checkpoint")
        store, _ = self.reload(disk)
        queue = store.queues.get("T", 0)
        assert queue is not None
        self.assertGreater(queue.min_offset, 5)
        self.assertEqual(verify(store), [])
        store.close(NOW_MS)
        data = disk.read_all(f"{QUEUE}/{queue.files.begin:020d}", 400)
        padded = queue.min_offset - queue.files.begin // 20
        self.assertEqual(data[: padded * 20], (bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)) * padded)
        store, _ = self.reload(disk)
        self.assertEqual(verify(store), [])

    def test_hostile_topic_in_the_log(self) -> None:
        """A record whose topic would leave the directory gets no queue, and the start says so."""
        disk = memory_disk()
        store = open_store(disk, self.config)
        store.append([[message(1, topic="aa.bb")]], NOW_MS)
        disk.kill()
        data = disk.read_all(f"{LOG}/{0:020d}", self.size)
        self.overwrite(disk, f"{LOG}/{0:020d}", data.index(b"\x05aa.bb") + 1, b"../xx")
        store, report = self.reload(disk)
        self.assertTrue(any("no queue entry" in note for note in report.notes), report.notes)
        self.assertEqual(store.queue_table(), {})
        self.assertFalse(disk.exists(f"{ROOT}/xx"))


class ZeroTests(unittest.TestCase):
    """A producer may send zeros, as a member of a batch even as all its properties: nothing is judged by them."""

    def test_zeros_in_properties(self) -> None:
        """As last and as inner record, killed and stopped: the log is what it was."""
        config = attrs.evolve(SMALL, segment_size=1 << 16)
        for properties in (b"\0", b"A\x01b\0", b"A\x01" + bytes(1100) + b"\x02"):
            for clean in (False, True):
                for behind in (0, 10):
                    with self.subTest(properties=properties[:4], clean=clean, behind=behind):
                        disk = memory_disk()
                        store = open_store(disk, config)
                        store.append([[message(1)]], NOW_MS)
                        strange = PutMessage("T", 0, 0, 0, NOW_MS, HOST, 0, 0, b"body", properties, 0, (), 0)
                        store.append([[strange, *map(message, range(3, 3 + behind))]], NOW_MS)
                        flush(store)
                        wanted = store.log.end, store.max_offset("T", 0)
                        if clean:
                            store.close(NOW_MS)
                        else:
                            store._release()
                        again = open_store(disk, config)
                        self.assertEqual((again.log.end, again.max_offset("T", 0)), wanted)
                        again._release()


HISTORIES = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=1, max_size=4),
        ),
        st.tuples(st.sampled_from(("flush", "upkeep", "stop", "kill", "crash")), st.just([])),
    ),
    max_size=25,
)
History = list[tuple[str, list[list[int]]]]


class HistoryCase(unittest.TestCase):
    """A model beside the store: a list of bodies a queue."""

    def follow(self, config: StoreConfig, history: History, seed: int) -> None:
        """After any history the queues are the model's; after a power cut a prefix of it that holds all that was
        synced."""
        disk = MemoryDisk(random.Random(seed))
        store = open_store(disk, config)
        model: list[tuple[int, bytes]] = []
        synced = number = 0
        for at, (what, groups) in enumerate(history):
            now_ms = NOW_MS + at * 20_000
            if what == "append":
                turn = []
                for group in groups:
                    turn.append([])
                    for queue_id in group:
                        number += 1
                        body = b"%d " % number + bytes(number * 37 % 200)
                        turn[-1].append(message(number, queue_id=queue_id, body=body))
                        model.append((queue_id, body))
                store.append(turn, now_ms)
            elif what == "flush":
                flush(store)
                synced = len(model)
            elif what == "upkeep":
                upkeep(store, now_ms)
            else:
                if what == "stop":
                    store.close(now_ms)
                    synced = len(model)
                elif what == "kill":
                    disk.kill()
                else:
                    disk.crash()
                store = open_store(disk, config, now_ms=now_ms)
                left = sum(len(records) for records in read_all(store).values())
                if what == "crash":
                    self.assertTrue(synced <= left <= len(model), f"{synced} <= {left} <= {len(model)}")
                    model = model[:left]
                self.assertEqual(left, len(model))
                synced = left
                self.assertEqual(verify(store), [])
            for queue_id in (0, 1):
                expected = [body for place, body in model if place == queue_id]
                self.assertEqual(bodies(read_queue(store, "T", queue_id)), expected)


class RandomHistoryTests(HistoryCase):
    """Any history of a store."""

    @given(HISTORIES, st.integers(0, 1 << 16))
    @settings(max_examples=60, deadline=None)
    def test_the_store_is_its_model(self, history: History, seed: int) -> None:
        self.follow(SMALL, history, seed)


TOP = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
sys.path[:0] = ["src", "."]
from rocketha.store.message_store import MessageStore
from rocketha.store.posix_disk import PosixDisk
from tests.store.support import HOST, NOW_MS, ON_REAL_DISK, flush, message, upkeep
store = MessageStore(PosixDisk(), sys.argv[1], ON_REAL_DISK, HOST)
store.load(NOW_MS)
number = int(sys.argv[2])
while True:
    made = [message(number + step, queue_id=step % 2, body=b"%d" % (number + step)) for step in range(5)]
    store.append([made], NOW_MS + number)
    flush(store)
    number += 5
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    if number % 50 == 0:
        upkeep(store, NOW_MS + number * 100)
"""


class KillTests(unittest.TestCase):
    """A real process on a real disk."""

    def test_kill_9_while_writing(self) -> None:
        """Eight lives of one directory, each killed while it writes: everything acknowledged is there, once."""
        root = tempfile.mkdtemp(prefix="rocketha-kill-")
        self.addCleanup(shutil.rmtree, root)
        acknowledged = 0
        for life in range(8):
            child = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, root, str(acknowledged)], stdout=subprocess.PIPE, text=True, cwd=TOP
            )
            assert child.stdout is not None
            for _ in range(20 + 13 * life):
                line = child.stdout.readline()
                self.assertTrue(line, "the writer died")
                acknowledged = int(line)
            child.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *(int(line) for line in child.stdout.read().split())])
            child.stdout.close()
            child.wait()
            store = MessageStore(PosixDisk(), root, ON_REAL_DISK, HOST)
            report = store.load(NOW_MS)
            self.assertFalse(report.clean)
            numbers = sorted(int(record.body) for records in read_all(store).values() for record in records)
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertIn(len(numbers) - acknowledged, (0, 5))
            self.assertEqual(verify(store), [])
            acknowledged = len(numbers)
            if life % 2:
                store.close(NOW_MS)
                store = MessageStore(PosixDisk(), root, ON_REAL_DISK, HOST)
                self.assertTrue(store.load(NOW_MS).clean)
            store._release()
