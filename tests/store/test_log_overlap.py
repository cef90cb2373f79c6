"""What a classic slave compares with its master: where that begins, and that no other log passes (regression A12)."""

from __future__ import annotations

import itertools
import unittest

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store.disk import Disk
from rocketha.store.log_overlap import OVERLAP_BYTES, first_difference, overlap_begin
from rocketha.store.log_walk import record_at
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.record import TRANSACTION_BITS
from tests.store.replica_support import catch_up, ends, fill, memory, open_master, open_replica, raw
from tests.store.support import NOW_MS, SMALL, message


def follower(disk: Disk) -> ReplicaLog:
    """A classic slave's log."""
    return open_replica(disk, bounded=False)


class OverlapTests(unittest.TestCase):
    """Where it begins."""

    def test_an_empty_log(self) -> None:
        """There is nothing to compare, wherever it begins."""
        self.assertEqual(overlap_begin(follower(memory())), 0)

    def test_a_short_log(self) -> None:
        """All of its last file."""
        master = open_master(memory())
        fill(master, 0, 60)
        self.assertLess(SMALL.segment_size, master.end)
        self.assertLess(master.end % SMALL.segment_size, OVERLAP_BYTES)
        replica = follower(memory())
        replica.append_raw(0, raw(master))
        catch_up(replica)
        self.assertEqual(overlap_begin(replica), replica.end // SMALL.segment_size * SMALL.segment_size)

    def test_the_newest_record_is_all_in_it(self) -> None:
        """Wherever the log was cut: also where nothing but a part of a record is in the last file."""
        master = open_master(memory())
        fill(master, 0, 60)
        data, boundaries = raw(master), ends(raw(master))
        queued = [
            (each, after)
            for each, after in itertools.pairwise([0, *boundaries])
            if (record := record_at(master.store.log.segments, each)) and not record.sys_flag & TRANSACTION_BITS
        ]
        for end in range(boundaries[-30], len(data), 37):
            replica = follower(memory())
            replica.append_raw(0, data[:end])
            catch_up(replica)
            begin = overlap_begin(replica)
            self.assertLessEqual(begin, max(each for each, after in queued if after <= end), end)
            self.assertIsNone(first_difference(replica, begin, data[begin:end]), end)

    def test_without_queues(self) -> None:
        """A slave that is far behind with its queues compares what it has at its end."""
        master = open_master(memory())
        fill(master, 0, 60)
        replica = follower(memory())
        replica.append_raw(0, raw(master)[: SMALL.segment_size])
        self.assertEqual(replica.dispatched_offset, 0)
        self.assertEqual(overlap_begin(replica), 0)

    def test_expired(self) -> None:
        """Never before the first byte that is kept."""
        master = open_master(memory())
        fill(master, 0, 60)
        master.store.log.segments.detach_first()
        self.assertGreater(master.begin, 0)
        self.assertGreaterEqual(overlap_begin(master), master.begin)


class DifferenceTests(unittest.TestCase):
    """What another log is."""

    def test_the_same_messages_a_moment_later(self) -> None:
        """Two brokers that were sent the same at other times have records of equal sizes at equal places."""
        logs = []
        for now_ms in (NOW_MS, NOW_MS + 1):
            master = open_master(memory())
            for number in range(20):
                master.store.append([[message(number)]], now_ms)
            logs.append(master)
        one, other = logs
        self.assertEqual((one.end, ends(raw(one))), (other.end, ends(raw(other))))
        begin = overlap_begin(one)
        self.assertIsNotNone(first_difference(one, begin, raw(other)[begin:]))

    def test_each_byte_counts(self) -> None:
        """The place of the first is told."""
        master = open_master(memory())
        fill(master, 0, 5)
        data = raw(master)
        for at in range(0, len(data), 7):
            other = bytearray(data)
            other[at] ^= 1
            other[-1] ^= 1
            self.assertEqual(first_difference(master, 0, other), at)
        self.assertIsNone(first_difference(master, 3, memoryview(data)[3:]))

    def test_a_disk_that_fails(self) -> None:
        """It is no difference."""
        disk = memory()
        master = open_master(disk)
        fill(master, 0, 5)
        data = raw(master)
        disk.fail_at(1, times=100, only=["read"])
        with self.assertRaises(DiskFailure):
            first_difference(master, 0, data)

    def test_bytes_behind_the_end(self) -> None:
        """Nor is what this log does not have."""
        master = open_master(memory())
        fill(master, 0, 5)
        with self.assertRaises(CorruptStore):
            first_difference(master, 0, raw(master) + b"x")
