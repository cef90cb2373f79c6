"""A replica whose disk fails, tears and forgets at every step: the log is the master's up to where it ends, what was
cut stays away, epochs fit the log (regressions A8, C1, C4, C5)."""

from __future__ import annotations

import errno
import random
import unittest

import attrs

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store import epoch_file
from rocketha.store.jobs import run_here
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.replica_log import ReplicaLog
from rocketha.store.verify import verify
from rocketha.wire import epoch_file as epoch_text
from rocketha.wire.ha_values import EpochEntry
from tests.store.replica_support import (
    EPOCHS,
    catch_up,
    elect,
    ends,
    entries,
    feed,
    fill,
    memory,
    open_master,
    open_replica,
    raw,
)
from tests.store.support import NOW_MS, flush, try_upkeep, upkeep

FORK = 14
"""Records that the two histories share."""


@attrs.define
class Histories:
    """Two masters' logs that part: the old one's, and the one that was elected with less."""

    old: bytes
    new: bytes
    fork: int
    old_epochs: tuple[EpochEntry, ...]
    new_epochs: tuple[EpochEntry, ...]

    @classmethod
    def make(cls) -> Histories:
        """Epoch 1 is shared, epochs 2 and 3 are the old history's, 5 the new one's; records of equal sizes follow the
        fork, so that a revived tail would continue the new log."""
        old = open_master(memory())
        fill(old, 0, FORK)
        shared = raw(old)
        old.follow()
        elect(old, 2)
        fill(old, 100, 10)
        old.follow()
        elect(old, 3)
        fill(old, 200, 12)
        new = open_replica(memory())
        feed(new, shared, random.Random(1))
        new.save_epochs(entries((1, 0)))
        elect(new, 5)
        fill(new, 300, 25)
        return cls(raw(old), raw(new), len(shared), old.epochs, new.epochs)


HISTORIES = Histories.make()


def follow_old(disk: MemoryDisk, chance: random.Random) -> ReplicaLog:
    """A replica that has the whole old history, partly confirmed, queues written, all synced."""
    replica = open_replica(disk)
    replica.save_epochs(HISTORIES.old_epochs[:1])
    feed(replica, HISTORIES.old, chance)
    replica.save_epochs(HISTORIES.old_epochs)
    catch_up(replica)
    flush(replica.store)  # first: the checkpoint says no more of the confirm offset than is synced
    upkeep(replica.store, NOW_MS + 100_000)
    return replica


class CutFaultTests(unittest.TestCase):
    """The cut at the consistent point, with a fault at each of its steps."""

    def check(self, replica: ReplicaLog, returned: bool, where: str) -> None:
        """Whatever the moment: a beginning of the old log that holds what is shared, epochs that fit it; after the cut
        was reported, nothing else than what is shared."""
        fork = HISTORIES.fork
        self.assertGreaterEqual(replica.end, fork, where)
        self.assertEqual(raw(replica), HISTORIES.old[: replica.end], where)
        self.assertIn(replica.end, [fork, *ends(HISTORIES.old)], where)
        self.assertLessEqual(replica.store.confirm_offset, replica.end, f"{where}: A8")
        self.assertLessEqual(replica.dispatched_offset, replica.end, where)
        self.assertTrue(all(entry.start_offset <= replica.end for entry in replica.epochs), where)
        beyond = [entry for entry in HISTORIES.old_epochs if entry.start_offset < replica.end]
        self.assertEqual([entry for entry in replica.epochs if entry.start_offset < replica.end], beyond, where)
        if returned:
            self.assertEqual((replica.end, replica.epochs), (fork, HISTORIES.old_epochs[:1]), where)

    def rejoin(self, replica: ReplicaLog, where: str) -> None:
        """Cut what is left to cut, follow the new history to its end: equal to it in everything."""
        replica.truncate(min(HISTORIES.fork, replica.end), HISTORIES.old_epochs[:1])
        replica.save_epochs(HISTORIES.new_epochs)
        feed(replica, HISTORIES.new, random.Random(3))
        catch_up(replica)
        self.assertEqual(raw(replica), HISTORIES.new, where)
        self.assertEqual(replica.epochs, HISTORIES.new_epochs, where)
        self.assertEqual(verify(replica.store), [], where)

    def cut(self, number: int, power: bool) -> bool:
        """Fail operation ``number`` of a cut and all after it, then the process or the machine dies; whether it
        failed."""
        disk = memory(number, 512)
        replica = follow_old(disk, random.Random(number))
        disk.fail_at(number, errno.EIO, times=1 << 30)
        returned = False
        try:
            replica.truncate(HISTORIES.fork, HISTORIES.old_epochs[:1])
            returned = True
        except DiskFailure:
            pass
        failed = disk.operations >= number
        disk.heal()
        if power:
            disk.crash()
        else:
            disk.kill()
        where = f"operation {number}, {'power' if power else 'kill'}"
        with self.subTest(where):
            replica = open_replica(disk)
            self.check(replica, returned, where)
            self.assertEqual(verify_all(replica), [], where)
            self.rejoin(replica, where)
        return failed

    def test_c1_a_crash_at_every_step_of_a_cut(self) -> None:
        """The tail never returns once the cut is reported; before that the log is the old one's beginning, with its
        epochs.  Java only moves positions in memory: rocketmq issue 10666."""
        for power in (False, True):
            number = 1
            while self.cut(number, power):
                number += 1
            self.assertGreater(number, 20)

    def test_c1_power_cuts_after_the_cut(self) -> None:
        """The cut returned, the new master's bytes come, the power fails at any moment: old bytes never follow new
        ones."""
        for seed in range(60):
            chance = random.Random(seed)
            disk = memory(seed, 512)
            replica = follow_old(disk, chance)
            replica.truncate(HISTORIES.fork)
            replica.save_epochs(HISTORIES.new_epochs)
            until = chance.randrange(HISTORIES.fork, len(HISTORIES.new))
            feed(replica, HISTORIES.new[:until], chance)
            synced = HISTORIES.fork
            if chance.random() < 0.5:
                job = replica.store.flush_job()
                if job is not None:
                    run_here([job], replica.store.finished)
                    synced = until
                feed(replica, HISTORIES.new[: chance.randrange(until, len(HISTORIES.new))], chance)
            disk.crash()
            with self.subTest(seed=seed):
                replica = open_replica(disk)
                self.assertEqual(raw(replica), HISTORIES.new[: replica.end])
                whole = max(end for end in ends(HISTORIES.new) if end <= synced)
                self.assertGreaterEqual(replica.end, whole)
                self.assertEqual(replica.epochs, HISTORIES.new_epochs)
                self.assertLessEqual(replica.store.confirm_offset, replica.end)
                self.rejoin(replica, f"seed {seed}")

    def test_a_failed_cut_takes_nothing_until_it_is_repeated(self) -> None:
        """The process lives: each operation fails once; no bytes are taken before the repeated cut is through."""
        number = 0
        while True:
            number += 1
            disk = memory(number)
            replica = follow_old(disk, random.Random(number))
            disk.fail_at(number)
            try:
                replica.truncate(HISTORIES.fork + 20, HISTORIES.old_epochs[:1])
            except DiskFailure:
                with self.assertRaises(DiskFailure):
                    replica.append_raw(replica.end, b"abc")
                self.assertEqual(replica.truncate(HISTORIES.fork + 20, HISTORIES.old_epochs[:1]), HISTORIES.fork)
            if disk.operations < number:
                break
            disk.heal()
            with self.subTest(number=number):
                self.assertEqual(verify(replica.store), [])
                self.rejoin(replica, f"operation {number}")
        self.assertGreater(number, 20)


class Feed:
    """A replica on a disk that may fail: appends, flushes, upkeep, confirms, dispatch, in an order a seed decides."""

    def __init__(self, data: bytes, seed: int) -> None:
        self.data = data
        self.chance = random.Random(seed)
        self.reported = 0
        self.now_ms = NOW_MS

    def step(self, replica: ReplicaLog) -> None:
        """One turn of a broker."""
        choice = self.chance.random()
        self.now_ms += self.chance.choice((1, 10, 1000, 30_000))
        try:
            if choice < 0.5:
                step = self.chance.choice((1, 40, 300, 2000))
                replica.append_raw(replica.end, self.data[replica.end : replica.end + step])
            elif choice < 0.65:
                replica.confirm(replica.end - self.chance.randrange(500))
            elif choice < 0.8:
                replica.dispatch(self.chance.choice((1, 1000, 1 << 20)))
            elif choice < 0.9:
                job = replica.store.flush_job()
                if job is not None:
                    run_here([job], replica.store.finished)
            else:
                try_upkeep(replica.store, self.now_ms)
        except DiskFailure:
            pass
        self.reported = max(self.reported, replica.ack_offset)


class FeedFaultTests(unittest.TestCase):
    """The way up: raw appends, flushes, dispatch, checkpoint."""

    def check(self, replica: ReplicaLog, owed: int, where: str) -> None:
        """The master's bytes, as far as owed but for the record that the end lies in; queues up to the confirm
        offset."""
        data = HISTORIES.new
        self.assertEqual(raw(replica), data[: replica.end], where)
        self.assertGreaterEqual(replica.end, max([0, *(end for end in ends(data) if end <= owed)]), where)
        self.assertLessEqual(replica.store.confirm_offset, replica.end, f"{where}: A8")
        self.assertEqual(verify_all(replica), [], where)

    def test_every_operation_fails(self) -> None:
        """One failing operation anywhere, then the process is killed, or goes on: the log is the master's."""
        for goes_on in (False, True):
            number = 0
            while True:
                number += 1
                disk = memory(number)
                run = Feed(HISTORIES.new, seed=5)
                disk.fail_at(number)
                try:
                    replica = open_replica(disk)
                except DiskFailure:
                    disk.heal()
                    disk.kill()
                    continue
                for _ in range(60):
                    run.step(replica)
                failed = disk.operations >= number
                disk.heal()
                end, broken = replica.end, replica.store.log.broken
                with self.subTest(number=number, goes_on=goes_on):
                    if not goes_on or broken is not None:
                        disk.kill()
                        replica = open_replica(disk)
                        self.check(replica, end, f"operation {number}")
                    feed(replica, HISTORIES.new, random.Random(1))
                    self.check(replica, len(HISTORIES.new), f"operation {number}")
                if not failed:
                    break
            self.assertGreater(number, 60)

    def test_power_cuts(self) -> None:
        """What a SYNC_FLUSH replica reported survives any power cut; what survives is the master's, to the byte, and
        whole."""
        for seed in range(50):
            chance = random.Random(seed)
            disk = memory(seed, 512)
            run = Feed(HISTORIES.new, seed)
            with self.subTest(seed=seed):
                for cut in range(3):
                    replica = open_replica(disk, synced_acks=True)
                    if not replica.epochs:
                        replica.save_epochs(entries((1, 0)))
                    run.reported = replica.end
                    for _ in range(chance.randrange(5, 60)):
                        run.step(replica)
                    disk.crash()
                    replica = open_replica(disk, synced_acks=True)
                    self.check(replica, run.reported, f"seed {seed}, cut {cut}")
                    disk.kill()

    def test_promotions_fail_at_every_operation(self) -> None:
        """A promotion that fails can be repeated, in this process or after a kill; it ends the same."""
        whole = ends(HISTORIES.new)[22]
        data = HISTORIES.new[: whole + 50]
        for again in (False, True):
            number = 0
            while True:
                number += 1
                disk = memory(number)
                replica = open_replica(disk)
                replica.append_raw(0, data)
                replica.confirm(3000)
                replica.dispatch()
                disk.fail_at(number)
                try:
                    elect(replica, 9)
                except DiskFailure:
                    disk.heal()
                    if again:
                        disk.kill()
                        replica = open_replica(disk)
                    if replica.store.leads:
                        replica.save_epochs(entries((9, replica.end)))
                    else:
                        elect(replica, 9)
                failed = disk.operations >= number
                disk.heal()
                with self.subTest(number=number, again=again):
                    self.assertEqual((replica.end, replica.epochs), (whole, entries((9, whole))))
                    fill(replica, 900, 5)
                    self.assertEqual(verify(replica.store), [])
                if not failed:
                    break
            self.assertGreater(number, 8)


class EpochFileTests(unittest.TestCase):
    """The epoch file alone."""

    OLD = entries((1, 0), (3, 294), (4, 588))
    NEW = entries((1, 0), (3, 294))

    def test_c4_an_empty_list_is_written(self) -> None:
        """Cut to nothing, started again: no epochs, neither from the file nor from its backup; Java leaves the old
        ones."""
        disk = memory()
        disk.make_dirs("/data/store")
        epoch_file.save(disk, EPOCHS, self.NEW)
        epoch_file.save(disk, EPOCHS, self.OLD)
        epoch_file.save(disk, EPOCHS, (), shorter=True)
        disk.crash()
        self.assertEqual(epoch_file.load(disk, EPOCHS), ())
        self.assertEqual(disk.read_all(EPOCHS, 100), b"0\n0\n")
        disk.remove(EPOCHS)
        self.assertEqual(epoch_file.load(disk, EPOCHS), (), "nor from the backup")

    def test_c5_old_or_new_at_every_step(self) -> None:
        """Each operation of a save fails, with a kill or a power cut: the file is the old or the new list, never
        mixed."""
        for shorter, after in ((True, self.NEW), (False, (*self.OLD, EpochEntry(9, 700)))):
            for power in (False, True):
                number = 0
                while True:
                    number += 1
                    disk = memory(number, 1)
                    disk.make_dirs("/data/store")
                    disk.sync_dir("/")
                    disk.sync_dir("/data")
                    epoch_file.save(disk, EPOCHS, self.NEW[:1])
                    epoch_file.save(disk, EPOCHS, self.OLD)
                    disk.fail_at(number, times=1 << 30)
                    done = True
                    try:
                        epoch_file.save(disk, EPOCHS, after, shorter)
                    except DiskFailure:
                        done = False
                    failed = disk.operations >= number
                    disk.heal()
                    if power:
                        disk.crash()
                    else:
                        disk.kill()
                    with self.subTest(number=number, power=power, shorter=shorter):
                        found = epoch_file.load(disk, EPOCHS)
                        self.assertIn(found, (after,) if done else (self.OLD, after))
                    if not failed:
                        break

    def test_c5_a_file_torn_by_java_falls_back(self) -> None:
        """Java writes in place: cut at each byte, the backup counts; without one, the start stops and says where."""
        text = epoch_text.encode(self.OLD)
        for size in range(len(text) - 1):
            disk = memory()
            disk.make_dirs("/data/store")
            epoch_file.save(disk, EPOCHS, self.NEW)
            epoch_file.save(disk, EPOCHS, self.OLD)
            disk.open(EPOCHS).truncate(size)
            self.assertEqual(epoch_file.load(disk, EPOCHS), self.NEW)
            disk.remove(EPOCHS + ".bak")
            if size:
                with self.assertRaises(CorruptStore) as caught:
                    epoch_file.load(disk, EPOCHS)
                self.assertIn(EPOCHS, str(caught.exception))
            else:
                self.assertEqual(epoch_file.load(disk, EPOCHS), ())

    def test_epochs_behind_the_end_are_left_out(self) -> None:
        """The log lost bytes in a power cut: later epochs go, on the disk too; one that begins at the end stays."""
        disk = memory()
        replica = open_replica(disk)
        replica.append_raw(0, HISTORIES.new[:2000])
        replica.save_epochs(entries((1, 0), (2, 1000), (7, 2000)))
        replica.truncate(2000, ())
        disk.kill()
        replica = open_replica(disk)
        end = replica.end
        self.assertLess(end, 2000)
        self.assertEqual(replica.epochs, entries((1, 0), (2, 1000)))
        self.assertEqual(epoch_file.load(disk, EPOCHS), entries((1, 0), (2, 1000)))
        replica.save_epochs(entries((1, 0), (2, 1000), (8, end)))
        disk.kill()
        self.assertEqual(open_replica(disk).epochs, entries((1, 0), (2, 1000), (8, end)))


def verify_all(replica: ReplicaLog) -> list[str]:
    """Dispatch everything, then compare with a rebuild from the log; no entry points behind the confirm offset
    before."""
    newest = replica.store.queues.max_physical_offset()
    if newest >= replica.store.confirm_offset:
        return [f"an entry for {newest}, confirmed are {replica.store.confirm_offset}"]
    catch_up(replica)
    return verify(replica.store)
