"""A replica's store: raw bytes become the master's files; promotion, cuts, confirm offset (regressions A7, A10, A19,
C10, C12, F5)."""

from __future__ import annotations

import contextlib
import itertools
import random
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.errors import CorruptStore, DiskFailure, InvariantBroken, RemoteProtocolError
from rocketha.services.replication.autoswitch import AutoSwitchMode
from rocketha.store import checkpoint, missing_file
from rocketha.store.disk import File
from rocketha.store.dispatch import of_record
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.posix_disk import PosixDisk
from rocketha.store.replica_dispatch import Dispatcher
from rocketha.store.replica_log import ReplicaLog
from rocketha.store.verify import verify
from rocketha.wire.record import decode
from tests.store.replica_support import (
    EPOCHS,
    catch_up,
    elect,
    ends,
    entries,
    feed,
    files,
    fill,
    memory,
    open_master,
    open_replica,
    queue_offsets,
    raw,
    varied,
)
from tests.store.support import HOST, NOW_MS, ROOT, SMALL, flush, message, read_all, upkeep


class ReplicaTests(unittest.TestCase):
    """Raw bytes in, a master's files out."""

    def assert_equal_files(self, one: object, other: object) -> None:
        """Log, queues and index of two closed stores are the same bytes."""
        for folder in ("commitlog", "consumequeue", "index"):
            self.assertEqual(files(one, folder), files(other, folder), folder)  # type: ignore[arg-type]

    def test_any_cut_makes_the_masters_files(self) -> None:
        """Bytes cut anywhere, dispatched in any portions: log, queues and index equal the master's byte for byte."""
        theirs = memory()
        master = open_master(theirs)
        fill(master, 0, 150)
        data = raw(master)
        master.store.close(NOW_MS)
        self.assertGreater(len(files(theirs, "commitlog")), 5)
        self.assertGreater(len(files(theirs, "index")), 3)
        for seed in range(8):
            ours = memory(seed)
            replica = open_replica(ours)
            feed(replica, data, random.Random(seed), 1 + 90 * seed**2 if seed else 2)
            catch_up(replica)
            self.assertEqual(verify(replica.store), [])
            self.assertEqual(replica.notes, [])
            replica.store.close(NOW_MS)
            with self.subTest(seed=seed):
                self.assert_equal_files(ours, theirs)

    def test_a19_queues_of_a_killed_replica_equal_its_masters(self) -> None:
        """Killed at any moment, started and fed again: the same files (DLedger loses the tail of its queues)."""
        theirs = memory()
        master = open_master(theirs)
        fill(master, 0, 120)
        data = raw(master)
        master.store.close(NOW_MS)
        for seed in range(12):
            chance = random.Random(seed)
            ours = memory(seed)
            for _ in range(6):
                replica = open_replica(ours)
                until = min(len(data), replica.end + chance.randrange(6000))
                feed(replica, data[:until], chance)
                if chance.random() < 0.5:
                    upkeep(replica.store, NOW_MS + 100_000)
                if chance.random() < 0.3:
                    flush(replica.store)
                    replica.store.close(NOW_MS)
                else:
                    ours.kill()
            replica = open_replica(ours)
            feed(replica, data, chance)
            catch_up(replica)
            with self.subTest(seed=seed):
                self.assertEqual(verify(replica.store), [])
                replica.store.close(NOW_MS)
                for folder in ("commitlog", "consumequeue"):
                    self.assertEqual(files(ours, folder), files(theirs, folder))

    def test_queues_stop_at_the_confirm_offset(self) -> None:
        """Bounded: no entry points behind it and no consumer sees more; unbounded (classic): all of the log."""
        master = open_master(memory())
        fill(master, 0, 60)
        data = raw(master)
        replica = open_replica(memory())
        replica.append_raw(0, data)
        self.assertFalse(replica.dispatch())
        for confirm in (1, *ends(data)[::7], len(data)):
            replica.confirm(confirm)
            while replica.dispatch(700):
                pass
            self.assertLessEqual(replica.store.queues.max_physical_offset(), confirm)
            whole = max((end for end in ends(data) if end <= confirm), default=0)
            self.assertEqual(replica.dispatched_offset, whole)
            for records in read_all(replica.store).values():
                self.assertTrue(all(record.physical_offset + record.total <= confirm for record in records))
        replica.confirm(5)
        self.assertEqual(replica.store.confirm_offset, len(data), "a smaller one changes nothing")
        replica.confirm(1 << 60)
        self.assertEqual(replica.store.confirm_offset, len(data), "never above the end")
        classic = open_replica(memory(), bounded=False)
        classic.append_raw(0, data)
        while classic.dispatch():
            pass
        self.assertEqual(classic.dispatched_offset, len(data))
        self.assertEqual(read_all(classic.store), read_all(replica.store))

    def test_nothing_is_left_for_java_to_dispatch(self) -> None:
        """After a clean stop Java 5.5.0 dispatches what lies behind the last queue entry, but for its first record: a
        replica that stops leaves nothing, confirmed or not.  Consumers see no more for it."""
        master = open_master(memory())
        fill(master, 0, 60)
        data = raw(master)
        for confirm, end in itertools.product((1, *ends(data)[::9], len(data)), (len(data) - 3, len(data))):
            if confirm > end:
                continue
            disk = memory()
            replica = open_replica(disk)
            replica.append_raw(0, data[:end])
            replica.confirm(confirm)
            AutoSwitchMode().end_log(replica)
            replica.store.close(NOW_MS)
            with self.subTest(confirm=confirm, end=end):
                self.assertEqual(replica.store.dispatched, max(each for each in ends(data) if each <= end))
                again = open_replica(disk)
                self.assertEqual(again.store.confirm_offset, confirm)
                for record in itertools.chain(*read_all(again.store).values()):
                    self.assertLessEqual(record.physical_offset + record.total, confirm)
                again.append_raw(again.end, data[again.end :])
                again.confirm(len(data))
                catch_up(again)
                self.assertEqual(verify(again.store), [])

    def test_a_slice_is_as_long_as_asked(self) -> None:
        """Whoever dispatches between other work says how much: never a record more than that, and at least one."""
        master, replica = open_master(memory()), open_replica(memory())
        fill(master, 0, 40)
        replica.append_raw(0, raw(master))
        replica.confirm(replica.end)
        longest = max(end - begin for begin, end in itertools.pairwise([0, *ends(raw(master))]))
        for asked in (1, 600, 1500):
            before = replica.dispatched_offset
            self.assertTrue(replica.dispatch(asked))
            self.assertTrue(before < replica.dispatched_offset < before + asked + longest)

    def test_a_master_shows_only_what_is_confirmed(self) -> None:
        """A7: queues hold everything appended, consumers see what the set has."""
        master = open_master(memory())
        places = master.store.append([[message(number) for number in range(4)]], NOW_MS)[0]
        self.assertEqual(master.store.max_offset("T", 0), 0)
        master.confirm(places[1].physical_offset + places[1].size)  # type: ignore[union-attr]
        self.assertEqual(master.store.max_offset("T", 0), 2)
        master.confirm(master.end)
        self.assertEqual(master.store.max_offset("T", 0), 4)

    def test_what_does_not_follow_is_refused(self) -> None:
        """Overlap, gap, negative, a first file in its middle: RemoteProtocolError, and nothing is written."""
        replica = open_replica(memory())
        for offset in (-1, 17, -4096, 4095):
            with self.assertRaises(RemoteProtocolError):
                replica.append_raw(offset, b"abc")
        master = open_master(memory())
        fill(master, 0, 60)
        data = raw(master)
        replica.save_epochs(entries((1, 0), (3, 8192)))  # before the first byte
        replica.append_raw(8192, data[8192:9000])  # sync from the last file
        with self.assertRaises(InvariantBroken):
            replica.save_epochs(entries((1, 0), (4, 9001)))
        self.assertEqual((replica.begin, replica.end, replica.readable(8192)), (8192, 9000, 808))
        for offset in (0, 8192, 8999, 9001, 12288):
            with self.assertRaises(RemoteProtocolError):
                replica.append_raw(offset, b"abc")
        self.assertEqual(replica.end, 9000)
        feed(replica, data, random.Random(1))
        catch_up(replica)
        self.assertEqual(raw(replica, 8192), data[8192:])
        self.assertEqual(verify(replica.store), [])
        with self.assertRaises(InvariantBroken):
            master.append_raw(master.end, b"abc")
        with self.assertRaises(InvariantBroken):
            replica.store.append([[message(1)]], NOW_MS)

    def test_what_a_report_says(self) -> None:
        """ASYNC_FLUSH: the end of the log; SYNC_FLUSH: what is synced, and no connection before all is."""
        master = open_master(memory())
        fill(master, 0, 20)
        data = raw(master)
        lazy = open_replica(memory())
        lazy.append_raw(0, data[:1000])
        self.assertEqual((lazy.ack_offset, lazy.ready), (1000, True))
        careful = open_replica(memory(), synced_acks=True)
        careful.append_raw(0, data[:1000])
        self.assertEqual((careful.ack_offset, careful.ready), (0, False))
        flush(careful.store)
        careful.append_raw(1000, data[1000:1400])
        self.assertEqual((careful.ack_offset, careful.ready), (1000, False))
        flush(careful.store)
        self.assertEqual((careful.ack_offset, careful.ready), (1400, True))

    def test_a_gap_or_restart_of_a_queue_is_followed(self) -> None:
        """A topic deleted and made again on the master, and a queue whose first entries the log lacks."""
        theirs = memory()
        master = open_master(theirs)
        for number in range(10):
            master.store.append([[message(number)]], NOW_MS)
        master.store.delete_topic("T")
        for number in range(3):
            master.store.append([[message(number, body=b"new")]], NOW_MS)
        replica = open_replica(memory())
        feed(replica, raw(master), random.Random(2))
        catch_up(replica)
        self.assertEqual([record.body for record in read_all(replica.store)["T", 0]], [b"new"] * 3)
        self.assertIn("deleted and made again", replica.notes[0])

    def test_an_entry_torn_to_a_place_before_the_log_is_made_anew(self) -> None:
        """Of a slave that began in the middle of its master's log: the padding before its first entry proves nothing,
        and an entry torn by a power cut so that it points at a file that is gone is not one of old."""
        theirs, ours = memory(), memory()
        master = open_master(theirs)
        for number in range(60):
            master.store.append([[message(number)]], NOW_MS + number)
        data, begin = raw(master), SMALL.segment_size
        slave = self.slave(ours)
        slave.append_raw(begin, data[begin:])
        catch_up(slave)
        wanted = read_all(slave.store)
        first = slave.store.min_offset("T", 0)
        self.assertGreater(first, 0)
        upkeep(slave.store, NOW_MS + 100_000)
        ours.kill()
        at = first * 20
        path = f"{ROOT}/consumequeue/T/0/{at - at % SMALL.queue_file_size:020d}"
        file = ours.open(path)
        file.write(at % SMALL.queue_file_size, [(234).to_bytes(8, "big") + (4096).to_bytes(4, "big") + bytes(8)])
        file.sync()
        slave = self.slave(ours)
        catch_up(slave)
        self.assertEqual(read_all(slave.store), wanted)
        self.assertEqual(verify(slave.store), [])

    @staticmethod
    def slave(disk: MemoryDisk) -> ReplicaLog:
        """Of a classic pair."""
        store = MessageStore(disk, ROOT, SMALL, HOST)
        store.load(NOW_MS, replica=True)
        log = ReplicaLog(store, disk, EPOCHS, synced_acks=False, bounded=False)
        log.follow()
        return log

    def test_a_lone_offset_does_not_fill_the_memory(self) -> None:
        """A queue offset of 2**62 in a whole record: no entry, a note; one of 10**9 begins the queue there."""
        for wanted, count in (((1 << 62), 0), (10**9, 1)):
            master = open_master(memory())
            master.store.append([[message(1)]], NOW_MS)
            data = bytearray(raw(master))
            data[20:28] = wanted.to_bytes(8, "big")
            replica = open_replica(memory())
            replica.append_raw(0, data)
            catch_up(replica)
            self.assertEqual(len(read_all(replica.store).get(("T", 0), [])), count)
            self.assertEqual(len(replica.notes), 1 - count)

    def test_a_raw_reader_keeps_to_its_file(self) -> None:
        """Blocks end at the end of a file, and are the bytes of the log; a reader opens nothing before it reads."""
        master = open_master(memory())
        fill(master, 0, 40)
        reader = master.reader()
        self.assertIsNone(reader._file)
        self.assertEqual(master.readable(4000), 96)
        for offset, size in ((4000, 97), (master.end, 1), (-1, 4), (0, 0), (master.end - 4, 5)):
            with self.assertRaises(CorruptStore):
                reader.read(offset, size)
        for offset, size in ((4000, 96), (4100, 50), (0, 4)):
            self.assertEqual(reader.read(offset, size), master.store.log.read(offset, size))


class PromotionTests(unittest.TestCase):
    """Becoming a master; what lies behind the confirm offset."""

    def test_c10_promotion_keeps_whole_records_and_no_more(self) -> None:
        """Cut at every byte of its tail: the end is the last whole record's, confirmed or not; consumers see more only
        when it is confirmed; the next messages take the next offsets."""
        master = open_master(memory())
        fill(master, 0, 24)
        data = raw(master)
        confirmed = ends(data)[10]
        for cut in range(confirmed, len(data), 5):
            replica = open_replica(memory())
            replica.append_raw(0, data[:cut])
            replica.confirm(confirmed)
            replica.dispatch()
            whole = max(end for end in ends(data) if end <= cut)
            seen = read_all(replica.store)
            promotion = replica.promote()
            self.assertEqual((promotion.end, promotion.cut_bytes), (whole, cut - whole))
            self.assertEqual(replica.store.confirm_offset, confirmed)
            self.assertEqual(
                read_all(replica.store), seen | {key: [] for key in queue_offsets(replica) if key not in seen}
            )
            before = queue_offsets(replica)
            place = replica.store.append([[message(99)]], NOW_MS)[0][0]
            self.assertEqual((place.queue_offset, place.physical_offset >= whole), (before.get(("T", 0), 0), True))
            replica.confirm(replica.end)
            self.assertEqual(verify(replica.store), [])

    def test_a10_f5_reelections_keep_queue_offsets_dense(self) -> None:
        """One node elected again and again, two nodes in turn, with messages between: every queue's offsets are 0, 1,
        2 ... in the log of both, and the logs are equal."""
        disks = [memory(1), memory(2)]
        nodes = [open_replica(disk) for disk in disks]
        for term in range(1, 25):
            chance = random.Random(term)
            leader, other = nodes if term % 3 else reversed(nodes)
            if leader.end < other.end:
                leader, other = other, leader
            if not leader.store.leads:
                elect(leader, term)
            fill(leader, term * 100, chance.randrange(0, 5))
            if other.store.leads:
                other.follow()
            feed(other, raw(leader), chance)
            for node in nodes:
                node.confirm(node.end)
                node.dispatch()
            if chance.random() < 0.5:
                leader.follow()
            if chance.random() < 0.3:
                disks[0].kill()
                nodes[0] = open_replica(disks[0])
        for node in nodes:
            if not node.store.leads:
                catch_up(node)
            self.assertEqual(verify(node.store), [])
            for key, records in read_all(node.store).items():
                self.assertEqual([record.queue_offset for record in records], list(range(len(records))), key)
        self.assertEqual(raw(nodes[0]), raw(nodes[1]))
        self.assertEqual(queue_offsets(nodes[0]), queue_offsets(nodes[1]))

    def test_damage_is_seen_and_sent_again(self) -> None:
        """A bit that flipped on the way: never queued; the promotion refuses it below the confirm offset and cuts it
        above; a cut at the damage and the same bytes again make it whole."""
        master = open_master(memory())
        fill(master, 0, 30)
        data = raw(master)
        begin = ends(data)[8]  # message 9 has a body
        bad = bytearray(data)
        bad[begin + 90] ^= 4
        for confirm in (len(data), begin):
            replica = open_replica(memory())
            replica.append_raw(0, bad)
            replica.confirm(confirm)
            self.assertFalse(replica.dispatch())
            if confirm > begin:
                assert replica.damage is not None
                self.assertEqual(replica.damage.offset, begin)
                with self.assertRaises(CorruptStore):
                    replica.promote()
                self.assertEqual(replica.end, len(data), "nothing was cut")
                self.assertEqual(replica.truncate(begin), begin)
                replica.append_raw(begin, data[begin:])
                catch_up(replica)
                self.assertIsNone(replica.damage)
                self.assertEqual(verify(replica.store), [])
            else:
                self.assertEqual(replica.promote().end, begin)

    def test_what_was_cut_for_damage_is_missing(self) -> None:
        """Until it is there again: whatever fails, over a new start, and where the rest is thrown away too."""
        master = open_master(memory())
        fill(master, 0, 30)
        data = raw(master)
        begin = ends(data)[8]
        bad = bytearray(data)
        bad[begin + 90] ^= 4
        for what in ("cut", "started", "emptied"):
            with self.subTest(what):
                disk = memory()
                replica = open_replica(disk)
                replica.append_raw(0, bad)
                replica.confirm(len(data))
                replica.dispatch()
                assert replica.damage is not None
                replica.cut_damage(replica.damage)
                if what == "started":
                    disk.kill()
                    replica = open_replica(disk)
                elif what == "emptied":
                    replica.start_over()
                self.assertIn(f"confirmed up to {len(data)}", replica.lack)
                with self.assertRaises(CorruptStore):
                    replica.promote()
                replica.append_raw(replica.end, data[replica.end : -1])
                with self.assertRaises(CorruptStore):
                    replica.promote()
                replica.append_raw(replica.end, data[-1:])
                self.assertEqual(replica.lack, "")
                self.assertEqual(replica.promote().end, len(data))
                replica.follow()
                disk.kill()
                self.assertEqual(open_replica(disk).lack, "")

    def emptied(self, seed: int = 0) -> tuple[Any, ReplicaLog, bytes]:
        """A replica that threw its log away, its disk, and what its master has from where that begins now."""
        master = open_master(memory())
        fill(master, 0, 60)
        data = raw(master)
        disk = memory(seed)
        replica = open_replica(disk)
        self.copy_two_files(replica, data)
        catch_up(replica)
        flush(replica.store)
        replica.start_over()
        return disk, replica, data[2 * SMALL.segment_size :]

    @staticmethod
    def copy_two_files(replica: ReplicaLog, data: bytes) -> None:
        """Of its master's, to the end of the last whole record."""
        for end in (SMALL.segment_size, max(end for end in ends(data) if end < 2 * SMALL.segment_size)):
            replica.append_raw(replica.end, data[replica.end : end])

    def assert_lacks_confirmed(self, replica: ReplicaLog) -> None:
        """It is no master."""
        self.assertIn("the log was confirmed up to", replica.lack)
        with self.assertRaises(CorruptStore):
            replica.promote()
        self.assertFalse(replica.store.leads)

    def test_a_part_of_a_record_is_not_what_is_missing(self) -> None:
        """It ends before the first record of the copy is whole: settled by nothing, nor by a restart."""
        for size in (10, 120):
            for ends_how in ("", "kill", "crash"):
                with self.subTest(size, ends=ends_how):
                    disk, replica, data = self.emptied()
                    replica.append_raw(2 * SMALL.segment_size, data[:size])
                    replica.settle()
                    if ends_how:
                        getattr(disk, ends_how)()
                        replica = open_replica(disk)
                        replica.settle()
                    self.assert_lacks_confirmed(replica)

    def test_what_is_missing_could_not_be_saved(self) -> None:
        """Then nothing is thrown away, and the next attempt saves it first."""
        disk, replica, _ = self.emptied()
        replica.append_raw(0, raw(self.master_of(60)))
        catch_up(replica)
        replica.settle()
        self.assertEqual(replica.lack, "")
        end = replica.end
        disk.fail_at(1, times=1000)
        with self.assertRaises(DiskFailure):
            replica.start_over()
        disk.heal()
        self.assertEqual(replica.end, end)
        replica.start_over()
        disk.kill()
        self.assert_lacks_confirmed(open_replica(disk))

    def test_what_is_missing_was_forgotten_halfway(self) -> None:
        """The file is gone and that is not on the disk yet: what is thrown away then is missing in a file again."""
        disk, replica, _ = self.emptied()
        data = raw(self.master_of(60))
        self.copy_two_files(replica, data)  # as much as is missing, and no more
        catch_up(replica)
        flush(replica.store)
        disk.fail_at(1, times=1000, only=["sync"])
        with self.assertRaises(DiskFailure):
            replica.settle()
        disk.heal()
        self.assertFalse(disk.exists(EPOCHS + missing_file.SUFFIX))
        replica.start_over()
        disk.kill()
        self.assert_lacks_confirmed(open_replica(disk))

    @staticmethod
    def master_of(messages: int) -> Any:
        """One that has so many."""
        master = open_master(memory())
        fill(master, 0, messages)
        return master

    def test_what_is_thrown_away_is_missing(self) -> None:
        """To be copied anew from where its master's log begins: until bytes of the copy are on this disk, over power
        cuts, and though that begins behind what was confirmed."""
        master = open_master(memory())
        fill(master, 0, 60)
        data, boundaries = raw(master), ends(raw(master))
        first = 2 * SMALL.segment_size
        confirmed = max(end for end in boundaries if end < first)
        lost = 0
        for seed in range(12):
            disk = memory(seed)
            replica = open_replica(disk)
            self.copy_two_files(replica, data)
            catch_up(replica)
            flush(replica.store)
            replica.start_over()
            disk.crash()
            replica = open_replica(disk)
            self.assertIn(f"confirmed up to {confirmed}", replica.lack)
            disk.fail_at(1, times=1000)
            with self.assertRaises(DiskFailure):
                replica.append_raw(first, data[first : first + 10])
            disk.heal()
            replica.settle()
            with self.assertRaises(CorruptStore):
                replica.promote()
            replica.append_raw(first, data[first : first + SMALL.segment_size])
            catch_up(replica)
            self.assertEqual(replica.lack, "")
            disk.crash()  # takes of the copy, which is in the page cache, what it will
            replica = open_replica(disk)
            if replica.begin == replica.end:
                lost += 1
                self.assertIn(f"confirmed up to {confirmed}", replica.lack)
                with self.assertRaises(CorruptStore):
                    replica.promote()
            catch_up(replica)
            replica.start_over()
            replica.append_raw(first, data[first : first + SMALL.segment_size])
            catch_up(replica)
            disk.fail_at(1, times=1000, only=["sync"])
            with self.assertRaises(DiskFailure):
                replica.settle()
            disk.heal()
            replica.settle()
            self.assertTrue(disk.exists(f"{EPOCHS}.owed"), "of a log whose sync failed nobody knows what is there")
            disk.kill()
            replica = open_replica(disk)
            self.assertEqual((replica.begin, replica.end), (first, first + SMALL.segment_size))
            catch_up(replica)
            replica.settle()
            self.assertFalse(disk.exists(f"{EPOCHS}.owed"))
        self.assertGreater(lost, 0)

    def test_who_forgets_syncs(self) -> None:
        """A link, or a promotion: a power cut takes nothing then that was missing."""
        master = open_master(memory())
        fill(master, 0, 30)
        data = raw(master)
        for seed in range(6):
            for forget in (ReplicaLog.promote, ReplicaLog.settle):
                disk = memory(seed)
                replica = open_replica(disk)
                replica.append_raw(0, data)
                catch_up(replica)
                replica.start_over()
                replica.append_raw(0, data)
                catch_up(replica)
                self.assertTrue(disk.exists(f"{EPOCHS}.owed"))
                forget(replica)
                self.assertFalse(disk.exists(f"{EPOCHS}.owed"))
                disk.crash()
                replica = open_replica(disk)
                self.assertEqual((replica.lack, replica.end), ("", len(data)))

    def met_by_recovery(self, disk: MemoryDisk, power_cut: bool = False) -> int:
        """A disk with a replica's log, confirmed to its end, that a crash and a bit that tipped over have met; where it
        ended."""
        master = open_master(memory())
        fill(master, 0, 30)
        data, boundaries = raw(master), ends(raw(master))
        replica = open_replica(disk)
        for end in (boundaries[14], len(data)):
            replica.append_raw(replica.end, data[replica.end : end])
            catch_up(replica)
            flush(replica.store)
            upkeep(replica.store, NOW_MS + 100_000)  # queues are synced now, and not with the second half
        self.assertLess(checkpoint.load(disk, f"{ROOT}/checkpoint").logics_offset, boundaries[14])
        if power_cut:
            disk.crash()
        else:
            disk.kill()
        place = boundaries[20] + 90
        with self.opened(disk, place) as file:
            file.write(place % SMALL.segment_size, [bytes([file.read(place % SMALL.segment_size, 1)[0] ^ 4])])
            file.sync()
        self.data, self.bad_at = data, boundaries[20]
        return len(data)

    @contextlib.contextmanager
    def opened(self, disk: MemoryDisk, place: int) -> Iterator[File]:
        file = disk.open(f"{ROOT}/commitlog/{place - place % SMALL.segment_size:020d}")
        yield file
        file.close()

    def test_damage_that_recovery_meets_is_missing(self) -> None:
        """Nobody had read it before the crash: what recovery cuts off was confirmed all the same, by this replica's
        acknowledgement too.  A replica of a set may be elected; this one may not lead before it has that again."""
        for power_cut in (False, True):
            disk = memory()
            end = self.met_by_recovery(disk, power_cut)
            for _ in range(3):  # the first start knows, and so does each that follows
                replica = open_replica(disk)
                self.assertEqual(replica.end, self.bad_at)
                self.assertIn(f"confirmed up to {end}", replica.lack)
                with self.assertRaises(CorruptStore):
                    replica.promote()
                upkeep(replica.store, NOW_MS + 100_000)
                disk.kill()
            replica = open_replica(disk)
            replica.append_raw(replica.end, self.data[replica.end :])
            self.assertEqual((replica.lack, replica.promote().end), ("", end))

    def test_damage_that_recovery_meets_and_any_failure(self) -> None:
        """At each step of that start, by kill and by power cut: it is known afterwards."""
        for power_cut in (False, True):
            for step in itertools.count(1):
                disk = memory(step)
                end = self.met_by_recovery(disk)
                disk.fail_at(step, times=1000)
                try:
                    open_replica(disk)
                    through = True
                except DiskFailure:
                    through = False
                disk.heal()
                if power_cut:
                    disk.crash()
                else:
                    disk.kill()
                self.assertIn(f"confirmed up to {end}", open_replica(disk).lack, step)
                if through:
                    break
            self.assertGreater(step, 20)

    def test_a_part_of_a_record_is_not_missing(self) -> None:
        """A master's last bytes were acknowledged by all, and were not the whole of a record: nobody was told of it.
        If that master is gone, the others, started again, would wait for its end for ever."""
        master = open_master(memory())
        fill(master, 0, 30)
        data, boundaries = raw(master), ends(raw(master))
        for end in (*range(boundaries[10], boundaries[11], 7), boundaries[11] - 1, boundaries[11]):
            for power_cut in (False, True):
                disk = memory()
                replica = open_replica(disk)
                replica.append_raw(0, data[:end])
                catch_up(replica)
                flush(replica.store)
                upkeep(replica.store, NOW_MS + 100_000)
                upkeep(replica.store, NOW_MS + 101_000)
                self.assertEqual(checkpoint.load(disk, f"{ROOT}/checkpoint").confirm_offset, end)
                if power_cut:
                    disk.crash()
                else:
                    disk.kill()
                replica = open_replica(disk)
                whole = max(each for each in boundaries if each <= end)
                self.assertEqual((replica.end, replica.lack), (whole, ""), end)
                self.assertEqual(replica.promote().end, whole)

    def test_a_part_of_a_record_or_more(self) -> None:
        """Below each limit: a part of what begins there, blanks too; from within a record nothing is said to be one."""
        master = open_master(memory())
        fill(master, 0, 300)
        data = raw(master)
        disk = memory()
        replica = open_replica(disk)
        for at in range(0, len(data), replica.file_size):
            replica.append_raw(at, data[at : at + replica.file_size])
        boundaries = [0, *ends(data)]
        self.assertGreater(len(data), replica.file_size)
        for low, high in itertools.pairwise(boundaries):
            for limit in (low - 1, low, low + 1, low + 8, low + 50, (low + high) // 2, high - 1, high, high + 1):
                if 0 <= limit <= len(data):
                    self.assertEqual(replica.part_of_record(low, limit), limit < high, (low, limit, high))
            self.assertFalse(replica.part_of_record(low + 1, high - 1))
        disk.fail_at(0, times=1000)
        self.assertFalse(replica.part_of_record(0, 1), "who cannot read it cuts nothing")

    def test_what_was_never_synced_is_not_missing(self) -> None:
        """Under ASYNC_FLUSH a power cut takes what was acknowledged from the page cache, perhaps everywhere: a group
        that had to have it again would have no master for ever."""
        master = open_master(memory())
        fill(master, 0, 30)
        data, boundaries = raw(master), ends(raw(master))
        disk = memory()
        replica = open_replica(disk)
        replica.append_raw(0, data[: boundaries[14]])
        flush(replica.store)
        replica.append_raw(replica.end, data[replica.end :])
        catch_up(replica)
        for second in range(5):
            for job in replica.store.maintenance(NOW_MS + 100_000 + 1000 * second, NOW_MS + 100_000 + 1000 * second):
                job.run()
                replica.store.finished(job, None)
        self.assertEqual(checkpoint.load(disk, f"{ROOT}/checkpoint").confirm_offset, boundaries[14])
        disk.crash()
        replica = open_replica(disk)
        self.assertLess(replica.end, len(data), "nothing was lost: this shows nothing")
        self.assertEqual(replica.lack, "")
        replica.promote()

    def test_a_demoted_master_is_a_replica_again(self) -> None:
        """Its own unconfirmed tail is cut to the consistent point and replaced; epochs follow."""
        ours = memory()
        old = open_master(ours, epoch=1)
        fill(old, 0, 20)
        shared = raw(old)
        new = open_replica(memory())
        feed(new, shared, random.Random(1))
        elect(new, 2)
        fill(old, 500, 5)
        fill(new, 700, 9)
        old.follow()
        self.assertEqual(old.truncate(len(shared)), len(shared))
        old.save_epochs(new.epochs)
        feed(old, raw(new), random.Random(2))
        catch_up(old)
        catch_up(new)
        new.confirm(new.end)
        self.assertEqual(read_all(old.store), read_all(new.store))
        self.assertEqual((raw(old), old.epochs), (raw(new), new.epochs))
        self.assertEqual(verify(old.store), [])


class CutTests(unittest.TestCase):
    """Marks, confirm offset and restart."""

    def test_c12_a_cut_lowers_every_mark(self) -> None:
        """Confirm, flushed, dispatched, queue ends, the checkpoint on disk: none above the new end when it returns."""
        disk = memory()
        replica = open_replica(disk)
        master = open_master(memory())
        fill(master, 0, 60)
        data = raw(master)
        replica.append_raw(0, data)
        catch_up(replica)
        flush(replica.store)
        for _ in range(3):
            upkeep(replica.store, NOW_MS + 100_000)
        self.assertEqual(checkpoint.load(disk, f"{ROOT}/checkpoint").confirm_offset, len(data))
        for cut in (ends(data)[40] + 9, ends(data)[20], ends(data)[3], 0):
            end = replica.truncate(cut)
            self.assertEqual(end, max([0, *(each for each in ends(data) if each <= cut)]))
            self.assertEqual((replica.end, replica.store.flushed_offset, replica.store.confirm_offset), (end, end, end))
            self.assertEqual(replica.dispatched_offset, end)
            self.assertLess(replica.store.queues.max_physical_offset(), max(end, 0) or 0)
            fields = checkpoint.load(disk, f"{ROOT}/checkpoint")
            self.assertLessEqual(max(fields.confirm_offset, fields.logics_offset), end)
            self.assertEqual(verify(replica.store), [])

    def test_the_confirm_offset_survives(self) -> None:
        """A clean stop keeps it exactly; a kill keeps what the last second's checkpoint said; a store that stood
        alone counts whole; a shorter log lowers it."""
        master = open_master(memory())
        fill(master, 0, 60)
        data = raw(master)
        marks = ends(data)
        disk = memory()
        replica = open_replica(disk)
        replica.append_raw(0, data[: marks[40]])
        replica.confirm(marks[20] + 3)
        replica.dispatch()
        replica.store.close(NOW_MS)
        replica = open_replica(disk)
        self.assertEqual(replica.store.confirm_offset, marks[20] + 3)
        self.assertEqual(replica.dispatched_offset, marks[20])
        replica.confirm(marks[30])
        replica.dispatch()
        upkeep(replica.store, NOW_MS + 10)
        replica.confirm(marks[39])
        disk.kill()
        replica = open_replica(disk)
        self.assertEqual(replica.store.confirm_offset, marks[30])
        self.assertEqual(verify_upto(replica), [])
        alone = memory()
        store = MessageStore(alone, ROOT, SMALL, HOST)
        store.load(NOW_MS)
        store.append([[varied(number)] for number in range(12)], NOW_MS)
        store.close(NOW_MS)
        replica = open_replica(alone)
        self.assertEqual((replica.store.confirm_offset, replica.dispatched_offset), (replica.end, replica.end))

    def test_start_over_leaves_nothing(self) -> None:
        """Log, queues, index and epochs are gone, at once and after a restart; the replica then takes any file."""
        master = open_master(memory())
        fill(master, 0, 60)
        data = raw(master)
        disk = memory()
        replica = open_replica(disk)
        replica.append_raw(0, data[:6000])
        catch_up(replica)
        replica.save_epochs(entries((1, 0)))
        replica.start_over()
        for again in (False, True):
            if again:
                disk.crash()
                replica = open_replica(disk)
            self.assertEqual((replica.begin, replica.end, replica.epochs), (0, 0, ()))
            self.assertEqual(replica.store.confirm_offset, 0)
            self.assertEqual(sum(queue_offsets(replica).values()), 0)
            replica.append_raw(8192, data[8192:])
            catch_up(replica)
            self.assertEqual(verify(replica.store), [])
            replica.start_over()

    def test_a_record_cut_within_its_properties_is_not_taken_for_whole(self) -> None:
        """Its body and CRC are right, the rest reads as zeros.  Java takes it for whole after a kill, and its log never
        equals the master's again.  Cut at every byte, killed or stopped, started, fed on: the master's bytes."""
        master = open_master(memory())
        fill(master, 0, 13)
        data = raw(master)
        for cut in range(1, len(data), 3):
            disk = memory(cut)
            replica = open_replica(disk)
            replica.save_epochs(entries((1, 0)))
            replica.append_raw(0, data[:cut])
            if cut % 2:
                replica.store.close(NOW_MS)
            else:
                disk.kill()
            replica = open_replica(disk)
            # What is missing may be zeros in truth: then the record is whole.
            whole = max([0, *(end for end in ends(data) if not any(data[cut:end]))])
            self.assertEqual(replica.end, whole, cut)
            replica.append_raw(replica.end, data[replica.end :])
            self.assertEqual(raw(replica), data)

    def test_upkeep_keeps_what_is_not_dispatched(self) -> None:
        """A file expires only when its records have their entries."""
        config = attrs.evolve(SMALL, file_reserved_ms=1)
        master = open_master(memory(), config)
        fill(master, 0, 80)
        data = raw(master)
        replica = open_replica(memory(), config)
        replica.append_raw(0, data)
        flush(replica.store)
        replica.confirm(5000)
        replica.dispatch()
        later = NOW_MS + 3 * 24 * 3_600_000
        for hour in range(24):
            upkeep(replica.store, later + hour * 3_600_000)
        self.assertEqual(replica.begin, 4096)
        catch_up(replica)
        for hour in range(24):
            upkeep(replica.store, later + (24 + hour) * 3_600_000)
        self.assertGreater(replica.begin, 4096)

    def test_a_cut_waits_for_jobs(self) -> None:
        """No job may write what is being cut."""
        replica = open_replica(memory())
        replica.append_raw(0, b"x" * 50)
        job = replica.store.flush_job()
        assert job is not None
        self.assertTrue(replica.store.busy)
        with self.assertRaises(InvariantBroken):
            replica.truncate(0)
        job.run()
        replica.store.finished(job, None)
        self.assertEqual(replica.truncate(0), 0)


def verify_upto(replica: object) -> list[str]:
    """Dispatch the rest and verify."""
    catch_up(replica)  # type: ignore[arg-type]
    return verify(replica.store)  # type: ignore[attr-defined]


PIECES = st.sampled_from(
    [
        "TAGS\1a",
        "TAGS\1",
        "TAGS\1b\1c",
        "UNIQ_KEY\1u1",
        "UNIQ_KEY\1",
        "UNIQ_KEY\1é",
        "KEYS\1a b",
        "KEYS\1",
        "XTAGS\1q",
        "XUNIQ_KEY\1q",
        "W\1",
        "\1",
        "",
        "A\1b",
        "T\1UNIQ_KEY\1z",
        "UNIQ_KEY",
        "TAGS",
    ]
)


class MeaningTests(unittest.TestCase):
    """The short way through the properties says what the long one says."""

    @settings(max_examples=400, deadline=None)
    @given(st.lists(PIECES, max_size=5), st.booleans(), st.sampled_from([b"", b"\xff", b"\2\xc3"]))
    def test_short_and_long_way_agree(self, pieces: list[str], ended: bool, junk: bytes) -> None:
        """Repeated, empty, nested and broken pieces, with and without the last separator; asked twice, as the second
        time is answered from memory."""
        block = "\2".join(pieces).encode() + (b"\2" if ended else b"") + junk
        disk = memory()
        store = MessageStore(disk, ROOT, SMALL, HOST)
        dispatcher = Dispatcher(store.log, store.queues, store.index, store.deleted_topics, SMALL)
        master = open_master(disk)
        made = message(1)
        made.properties = block
        master.store.append([[made]], NOW_MS)
        wanted = of_record(decode(raw(master)), SMALL.delay_levels_ms)
        for _ in range(2):
            self.assertEqual(dispatcher._meaning(block), (wanted.tags_code, wanted.keys))
            dispatcher._meaning(b"TAGS\1a\2UNIQ_KEY\1u9\2\2")

    def test_an_empty_key_beside_what_is_remembered(self) -> None:
        """It is none, as for Java and for our master, also where the rest of the properties was seen before."""
        store = MessageStore(memory(), ROOT, SMALL, HOST)
        dispatcher = Dispatcher(store.log, store.queues, store.index, store.deleted_topics, SMALL)
        self.assertEqual(dispatcher._meaning(b"TAGS\1a\2UNIQ_KEY\1u9\2"), (97, ("u9", "T#a")))
        self.assertEqual(dispatcher._meaning(b"TAGS\1a\2UNIQ_KEY\1\2"), (97, ("T#a",)))

    def test_java_bytes_make_javas_queues_and_index(self) -> None:
        """A Java 5.5.0 broker's log, cut anywhere: its own consume queues and index, byte for byte."""
        from tests.store.test_java_files import CONFIG, LATER_MS, JavaFilesTests

        case = JavaFilesTests()
        case.setUp()
        self.addCleanup(case.doCleanups)
        for name in ("stopped", "killed"):
            theirs = case.unpack(name)
            log = b"".join(data for _, data in sorted(case.files(theirs, "commitlog").items()))
            data = log[: max(ends(log))]
            ours = case.folder / f"{name}-replica"
            replica = open_replica(PosixDisk(), CONFIG, root=str(ours))
            feed(replica, data, random.Random(1), 5000)
            catch_up(replica)
            self.assertEqual(verify(replica.store), [])
            replica.store.close(LATER_MS)
            self.assertEqual(case.files(Path(ours), "consumequeue"), case.files(theirs, "consumequeue"))
            self.assertEqual(list(case.files(Path(ours), "index").values()), list(case.files(theirs, "index").values()))


class RoleTests(unittest.TestCase):
    """The epoch file and the store are found by the same path."""

    def test_epochs_are_where_the_store_looks(self) -> None:
        """A store with an epoch file is a replica whose confirm offset is believed even if it is 0."""
        disk = memory()
        master = open_master(disk)
        fill(master, 0, 5)
        self.assertTrue(disk.exists(EPOCHS))
        disk.kill()
        again = open_replica(disk)
        self.assertEqual((again.store.confirm_offset, again.epochs), (0, entries((1, 0))))
        self.assertEqual(again.store.max_offset("T", 0), 0)
        self.assertEqual(again.promote().cut_bytes, 0)
