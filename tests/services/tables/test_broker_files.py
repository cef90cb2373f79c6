"""Tables and their files: one write at a time, each change in one of them, and everybody told how it went."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.services.tables.broker_files import BrokerFiles, Saved
from rocketha.store import atomic_file
from rocketha.store.memory_disk import MemoryDisk
from tests.services.broker_case import HeldWork

PATH = "/store/config/numbers.json"


class Numbers:
    """A table of lines; a line that is no number is damage."""

    def __init__(self) -> None:
        self.dirty = False
        self.lines: list[str] = []
        self.dumps = 0

    def add(self, number: int) -> None:
        self.lines.append(str(number))
        self.dirty = True

    def dump_later(self) -> Callable[[], bytes]:
        self.dumps += 1
        lines = list(self.lines)
        return lambda: "\n".join(lines).encode() or b"\n"

    def load(self, data: bytes, path: str = "") -> None:
        lines = data.decode().split()
        if not all(map(str.isdecimal, lines)):
            raise CorruptStore(path, 0, "no number")
        self.lines = lines


class FilesCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        self.begin()

    def begin(self) -> None:
        """A process."""
        self.work = HeldWork(None, "files")
        self.table, self.other = Numbers(), Numbers()
        tables: Any = {"numbers": ("numbers.json", self.table), "others": ("others.json", self.other)}
        self.files = BrokerFiles(self.disk, "/store", tables, self.work)
        self.files.load()
        self.file = self.files["numbers"]
        self.work.held = True

    def on_disk(self) -> list[str]:
        """What a process that starts now would find after a power cut."""
        self.disk.crash()
        found = Numbers()
        found.load(atomic_file.load(self.disk, PATH) or b"")
        return found.lines

    def save(self, number: int) -> Saved:
        self.table.add(number)
        return self.file.save()


class SaveTests(FilesCase):
    def test_in_the_work(self) -> None:
        """The reactor writes nothing; the maker is told when it is there."""
        saved = self.save(1)
        self.assertNoResult(saved)
        self.assertFalse(self.disk.exists(PATH))
        self.work.let_go()
        self.assertIsNone(self.successResultOf(saved))
        self.assertEqual(self.on_disk(), ["1"])

    def test_nothing_to_save(self) -> None:
        self.assertIsNone(self.successResultOf(self.file.save()))
        self.file.begin()
        self.assertEqual((self.work.waiting, self.table.dumps), ([], 0))

    def test_one_runs_and_one_waits_with_the_newest(self) -> None:
        """A hundred changes during a write are one more write."""
        first = self.save(0)
        later = [self.save(number) for number in range(1, 101)]
        self.assertEqual(len(self.work.waiting), 1)
        self.work.let_go()
        self.assertIsNone(self.successResultOf(first))
        for saved in later:
            self.assertNoResult(saved)
        self.assertEqual((self.on_disk(), self.table.dumps, len(self.work.waiting)), (["0"], 2, 1))
        self.work.let_go()
        self.assertEqual([self.successResultOf(saved) for saved in later], [None] * 100)
        self.assertEqual(self.on_disk(), [str(number) for number in range(101)])
        self.assertEqual((self.work.waiting, self.table.dumps), ([], 2))

    def test_told_in_the_order_of_the_changes(self) -> None:
        order: list[int] = []
        for number in range(5):
            self.save(number).addCallback(lambda _, number=number: order.append(number))
            if number == 2:
                self.work.let_go()
        self.work.let_go()
        self.work.let_go()
        self.assertEqual(order, [0, 1, 2, 3, 4])

    def test_a_change_that_is_being_written(self) -> None:
        """Whoever asks again waits for that write, and for no other."""
        first = self.save(1)
        again = self.file.save()
        self.assertNoResult(again)
        self.work.let_go()
        self.assertEqual((self.successResultOf(first), self.successResultOf(again)), (None, None))
        self.assertEqual(self.work.waiting, [])

    def test_tables_are_independent(self) -> None:
        self.other.add(7)
        saves = [self.save(1), self.files["others"].save()]
        self.assertEqual(len(self.work.waiting), 2)
        self.work.let_go()
        self.assertEqual([self.successResultOf(saved) for saved in saves], [None, None])

    def test_whoever_gives_up_waiting(self) -> None:
        """Is not told; the others are."""
        gone, there = self.save(1), self.file.save()
        self.assertIsNotNone(gone.addErrback(lambda failure: failure.trap(defer.CancelledError)))
        gone.cancel()
        self.work.let_go()
        self.assertIsNone(self.successResultOf(there))

    def test_whoever_is_told_first_fails(self) -> None:
        """The others are told all the same, and what changed meanwhile is written."""

        class Bad:
            def write_began(self) -> None:
                pass

            def write_ended(self, failure: Exception | None) -> None:
                raise RuntimeError("a test says so")

        self.file.watch(Bad())
        saved, later = self.save(1), self.save(2)
        self.work.let_go()
        self.assertIsNone(self.successResultOf(saved))
        self.work.let_go()
        self.assertIsNone(self.successResultOf(later))
        self.assertEqual(self.on_disk(), ["1", "2"])


class FailureTests(FilesCase):
    def test_everybody_is_told_and_nothing_is_lost(self) -> None:
        """Those of the write that failed; those of the next are told of that one, which has all changes."""
        first, again, later = self.save(1), self.file.save(), self.save(2)
        self.disk.fail_at(1, errno.ENOSPC, only=["write"])
        self.work.let_go()
        for saved in (first, again):
            self.assertIsInstance(self.successResultOf(saved), DiskFailure)
        self.assertNoResult(later)
        self.disk.heal()
        self.work.let_go()
        self.assertIsNone(self.successResultOf(later))
        self.assertEqual(self.on_disk(), ["1", "2"])

    def test_tried_again_when_somebody_asks(self) -> None:
        """Not at once: the disk would have no rest."""
        self.disk.fail_at(1, errno.EIO, only=["sync"])
        saved = self.save(1)
        self.work.let_go()
        self.assertIsInstance(self.successResultOf(saved), DiskFailure)
        self.disk.heal()
        self.assertEqual((self.work.waiting, self.table.dirty), ([], True))
        self.file.begin()
        self.work.let_go()
        self.assertEqual(self.on_disk(), ["1"])

    def test_every_operation_fails(self) -> None:
        """The file holds what it held or what is new; the next save is whole; a success is on the disk."""
        for number in range(1, 100):
            self.disk = MemoryDisk(random.Random(number))
            self.begin()
            for value in (0, 1):
                self.save(value)
                self.work.let_go()
            self.disk.fail_at(number)
            saved = self.save(2)
            self.work.let_go()
            self.disk.heal()
            failure = self.successResultOf(saved)
            with self.subTest(number=number):
                if failure is None:
                    self.assertEqual(self.on_disk(), ["0", "1", "2"])
                    break
                self.assertIn(self.on_disk(), (["0", "1"], ["0", "1", "2"]))
                after = self.save(3)
                self.work.let_go()
                self.assertIsNone(self.successResultOf(after))
                self.assertEqual(self.on_disk(), ["0", "1", "2", "3"])
        self.assertGreater(number, 8)

    def tell(self, saved: Saved, value: int, told: list[int]) -> None:
        """Note a success."""
        saved.addCallback(lambda failure: failure or told.append(value))

    def test_power_fails_within_a_save(self) -> None:
        """Whatever was acknowledged is found, by the process that starts then."""
        for number in range(1, 100):
            self.disk = MemoryDisk(random.Random(number))
            self.begin()
            told: list[int] = []
            for value in (0, 1):
                self.tell(self.save(value), value, told)
                self.work.let_go()
            self.disk.fail_at(number, times=1000)  # from here on the machine does nothing any more
            self.tell(self.save(2), 2, told)
            self.work.let_go()
            self.disk.heal()
            self.disk.crash()
            self.begin()
            with self.subTest(number=number):
                self.assertEqual(told[:2], [0, 1])
                self.assertIn(self.table.lines, (["0", "1"], ["0", "1", "2"]))
                if len(told) == 3:
                    self.assertEqual(self.table.lines, ["0", "1", "2"])
                    break
        self.assertGreater(number, 8)

    def test_a_fault_of_ours(self) -> None:
        """Is told like one of the disk, and logged with its trace."""
        saved = self.save(1)
        (call, result), *_ = self.work.waiting
        self.work.waiting[0] = (lambda: 1 / 0, result)
        self.work.let_go()
        self.assertIsInstance(self.successResultOf(saved), ZeroDivisionError)
        self.assertTrue(self.table.dirty)
        self.assertIsNotNone(call)


class StopTests(FilesCase):
    def test_idle_after_the_write_that_waits(self) -> None:
        self.save(1)
        self.save(2)
        idle = self.files.idle()
        self.work.let_go()
        self.assertNoResult(idle)
        self.work.let_go()
        self.successResultOf(idle)
        self.assertEqual(self.on_disk(), ["1", "2"])

    def test_settled_whatever_changes_meanwhile(self) -> None:
        """Else somebody who changes a table all the time would keep a broker from stopping."""
        self.save(1)
        self.table.add(2)
        settled = self.files.settle()
        self.work.let_go()
        self.save(3)
        self.assertNoResult(settled)
        self.work.let_go()
        self.assertEqual(self.successResultOf(settled), [None, None])
        self.assertEqual(len(self.work.waiting), 1)

    def test_the_rest_in_the_thread_that_closes(self) -> None:
        """All are tried before the first failure is told."""
        self.table.add(1)
        self.other.add(2)
        self.disk.fail_at(1, errno.EIO, only=["write"])
        with self.assertRaises(DiskFailure):
            self.files.save_all_blocking()
        self.disk.heal()
        self.assertEqual((self.table.dirty, self.other.dirty), (True, False))
        self.files.save_all_blocking()
        self.assertEqual(self.on_disk(), ["1"])


class LoadTests(FilesCase):
    def test_damage(self) -> None:
        """The backup serves; with neither readable nothing starts."""
        for value in (1, 2):
            self.save(value)
            self.work.let_go()
        self.disk.open(PATH).write(0, [b"x"])
        self.begin()
        self.assertEqual((self.table.lines, self.table.dirty), (["1"], False))
        self.disk.open(PATH + ".bak").write(0, [b"x"])
        with self.assertRaises(CorruptStore):
            self.begin()
