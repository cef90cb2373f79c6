"""A deleted topic stays deleted, whatever makes queues from the log again; and nothing that is alive is ever hidden.

Source: rocketmq#1852, where a topic comes back with a restart and its old messages with its name.
"""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable

import attrs

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.store import atomic_file
from rocketha.store.config import HOUR, MINUTE, StoreConfig
from rocketha.store.deleted_topics import NAME, Complete, Deleted, DeletedTopics, LastRecord, read_deleted
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.replica_log import ReplicaLog
from rocketha.store.verify import verify
from rocketha.wire.record import decode
from tests.store.replica_support import catch_up, elect, feed, files, open_master, open_replica, raw
from tests.store.support import HOST, NOW_MS, ROOT, SMALL, bodies, flush, memory_disk, message, read_queue, upkeep

PATH = f"{ROOT}/config/{NAME}"
LATER_MS = 1 << 62


UNINDEXED = attrs.evolve(SMALL, index_enable=False)
"""So that recovery begins where the checkpoint proves the queues."""


def opened(disk: MemoryDisk, config: StoreConfig = SMALL) -> tuple[MessageStore, tuple[str, ...]]:
    """A store that stands alone, and what its start said."""
    store = MessageStore(disk, ROOT, config, HOST)
    return store, store.load(NOW_MS, pid=4711).notes


def put(store: MessageStore, first: int, last: int, topic: str = "T") -> None:
    """Messages with these numbers."""
    for number in range(first, last):
        store.append([[message(number, topic, body=b"%d" % number)]], NOW_MS + number)


def proven(store: MessageStore, minute: int = 1) -> None:
    """Let the checkpoint prove every queue."""
    flush(store)
    upkeep(store, NOW_MS + minute * MINUTE)
    upkeep(store, NOW_MS + minute * MINUTE + 1000)


def save(store: MessageStore) -> None:
    """As the broker does before it answers a deletion."""
    flush(store)
    atomic_file.make_dirs(store._disk, f"{ROOT}/config")
    atomic_file.save(store._disk, PATH, store.deleted_topics.dump())
    store.deleted_topics.dirty = False


def delete(store: MessageStore, topic: str = "T") -> None:
    """An acknowledged deletion."""
    store.delete_topic(topic)
    save(store)


def cut_behind() -> tuple[MemoryDisk, MessageStore, bytes]:
    """A log whose messages from 3 on were taken back by who knows no deleted topics, and the file of these before."""
    disk = memory_disk()
    store, _ = opened(disk)
    put(store, 0, 3)
    end = store.log.end
    put(store, 3, 20)
    delete(store)
    entry = disk.read_all(PATH, 1 << 20)
    store.follow()
    store.truncate(end)
    store.dispatched = end
    store.lead()
    return disk, store, entry


def found(store: MessageStore, number: int, topic: str = "T") -> list[bytes]:
    """Bodies of the messages that have the key of one."""
    return [decode(data).body for data in store.query(topic, message(number, topic).keys[0], 9, 0, LATER_MS)]


class RestartTests(unittest.TestCase):
    """A broker that stands alone."""

    def restarted(self, store: MessageStore, how: str) -> MessageStore:
        disk = store._disk
        assert isinstance(disk, MemoryDisk)
        if how == "stopped":
            store.close(NOW_MS)
        elif how == "killed":
            disk.kill()
        else:
            disk.crash()
        again, _ = opened(disk)
        return again

    def test_it_stays_deleted(self) -> None:
        """The last messages of the log were its own, or others follow; the broker stops, is killed, or the power fails:
        no queue comes back, no query finds one, and of a new topic of that name only the new messages come."""
        for how in ("stopped", "killed", "power"):
            for others in (0, 5):
                with self.subTest(how=how, others=others):
                    store, _ = opened(memory_disk())
                    put(store, 0, 3, "Other")
                    put(store, 3, 30)
                    upkeep(store, NOW_MS + 2000)
                    delete(store)
                    put(store, 30, 30 + others, "Other")
                    store = self.restarted(store, how)
                    self.assertEqual(sorted(store.queue_table()), ["Other"])
                    self.assertEqual(found(store, 5), [])
                    self.assertEqual(found(store, 1, "Other"), [b"1"])
                    put(store, 50, 53)
                    self.assertEqual(bodies(read_queue(store)), [b"50", b"51", b"52"])
                    store = self.restarted(store, "killed")
                    self.assertEqual(bodies(read_queue(store)), [b"50", b"51", b"52"])
                    self.assertEqual((found(store, 5), found(store, 51)), ([], [b"51"]))
                    self.assertEqual(verify(store), [])

    def test_all_queues_are_made_anew(self) -> None:
        """Somebody removed them: what the log gives is what was not deleted."""
        for clean in (True, False):
            store, _ = opened(memory_disk())
            put(store, 0, 20)
            delete(store)
            put(store, 20, 25)
            disk = store._disk
            assert isinstance(disk, MemoryDisk)
            if clean:
                store.close(NOW_MS)
            else:
                flush(store)
                upkeep(store, NOW_MS + 20_000)
                disk.kill()
            disk.remove_tree(f"{ROOT}/consumequeue")
            store, _ = opened(disk)
            self.assertEqual(bodies(read_queue(store)), [b"%d" % number for number in range(20, 25)])

    def test_names_that_come_back(self) -> None:
        """A power cut may undo that a file was removed, and a Java broker makes the queues from the log: they go again,
        also where the checkpoint proves them, and what is alive in them stays."""
        for made_again in (False, True):
            for clean in (False, True):
                store, _ = opened(memory_disk(), UNINDEXED)
                put(store, 0, 60)
                proven(store)
                disk = store._disk
                assert isinstance(disk, MemoryDisk)
                before = files(disk, "consumequeue/T/0")
                self.assertEqual(len(before), 3)
                delete(store)
                if made_again:
                    put(store, 60, 63)
                    proven(store, 2)
                if clean and not made_again:
                    store.close(NOW_MS)
                else:
                    disk.kill()
                disk.make_dirs(f"{ROOT}/consumequeue/T/0")
                for path, data in before.items():
                    name = f"{ROOT}/consumequeue/T/0/{path}"
                    if not disk.exists(name):
                        file = disk.create(name, len(data))
                        file.write(0, [data])
                        file.close()
                store, _ = opened(disk, UNINDEXED)
                self.assertEqual(list(store.queue_table()), ["T"] if made_again else [])
                self.assertEqual(bodies(read_queue(store)), [b"60", b"61", b"62"] if made_again else [])
                self.assertEqual(verify(store), [])

    def test_a_torn_entry_takes_nothing_along(self) -> None:
        """A power cut may leave a last entry that points anywhere, even below the deletion: the others stay."""
        store, _ = opened(memory_disk(), UNINDEXED)
        put(store, 0, 5)
        delete(store)
        put(store, 5, 15)
        proven(store)
        put(store, 15, 16)
        upkeep(store, NOW_MS + 2 * MINUTE)
        disk = store._disk
        assert isinstance(disk, MemoryDisk)
        disk.kill()
        disk.open(f"{ROOT}/consumequeue/T/0/{0:020d}").write(10 * 20, [(7).to_bytes(8, "big") + bytes(12)])
        store, _ = opened(disk, UNINDEXED)
        self.assertEqual(bodies(read_queue(store)), [b"%d" % number for number in range(5, 16)])

    def test_forgotten_when_the_log_begins_behind(self) -> None:
        """Then there is nothing to hide."""
        store, _ = opened(memory_disk())
        put(store, 0, 3)
        delete(store)
        put(store, 3, 60, "Other")
        flush(store)
        self.assertEqual(list(store.deleted_topics.table), ["T"])
        day = 24 * HOUR
        upkeep(store, (NOW_MS // day + 5) * day + 4 * HOUR)  # deleteWhen
        self.assertGreater(store.min_physical_offset, 0)
        self.assertEqual(store.deleted_topics.table, {})
        self.assertTrue(store.deleted_topics.dirty)

    def test_a_damaged_file(self) -> None:
        """Its backup counts; with neither the start says what may come of it."""
        store, _ = opened(memory_disk())
        put(store, 0, 3)
        delete(store)
        put(store, 3, 6, "Second")
        delete(store, "Second")
        store.close(NOW_MS)
        disk = store._disk
        for path, left in ((PATH, ["T"]), (f"{PATH}.bak", [])):
            disk.open(path).write(0, [b"]]]]"])
            store, notes = opened(disk)  # type: ignore[arg-type]
            self.assertEqual(sorted(store.deleted_topics.table), left)
            self.assertTrue(any("topics that were deleted may come back" in note for note in notes))
            store.close(NOW_MS)

    def test_nothing_to_delete(self) -> None:
        """An empty log has nothing to hide."""
        store, _ = opened(memory_disk())
        store.delete_topic("T")
        self.assertEqual(store.deleted_topics.table, {})


class ShorterLogTests(unittest.TestCase):
    """The log ends before the deletion: what is written there is new."""

    def check_alive(self, store: MessageStore) -> None:
        put(store, 100, 120)
        self.assertEqual(bodies(read_queue(store)), [b"%d" % number for number in range(100, 120)])
        flush(store)
        store._disk.kill()  # type: ignore[attr-defined]
        store, _ = opened(store._disk)  # type: ignore[arg-type]
        self.assertEqual(bodies(read_queue(store)), [b"%d" % number for number in range(100, 120)])
        self.assertEqual(found(store, 105), [b"105"])

    def test_a_power_cut(self) -> None:
        """Of a log that was not synced, as if the entry had been saved first."""
        shorter = 0
        for seed in range(12):
            disk = memory_disk(seed)
            store, _ = opened(disk)
            put(store, 0, 3)
            flush(store)
            put(store, 3, 20)
            end = store.log.end
            store.delete_topic("T")
            atomic_file.make_dirs(disk, f"{ROOT}/config")
            atomic_file.save(disk, PATH, store.deleted_topics.dump())
            disk.crash()
            store, notes = opened(disk)
            shorter += store.log.end < end
            self.assertTrue(all(each.below <= store.log.end for each in store.deleted_topics.table.values()), notes)
            store.delete_topic("T")
            save(store)
            self.check_alive(store)
        self.assertGreater(shorter, 2)

    def test_a_cut(self) -> None:
        """By a replica's rules: the entry is lowered with it, the file after it."""
        store, _ = opened(memory_disk())
        put(store, 0, 3)
        end = store.log.end
        put(store, 3, 20)
        delete(store)
        store.follow()
        store.truncate(end)
        self.assertEqual(store.deleted_topics.table["T"].below, end)
        self.assertEqual((store.deleted_topics.dirty, store.deleted_topics.lowered), (True, 1))
        store.dispatched = end
        store.lead()
        save(store)
        self.check_alive(store)

    def test_somebody_else_cut_it(self) -> None:
        """A Java broker ran on the directory in between, and wrote on: the entry counts no more."""
        disk, store, entry = cut_behind()
        put(store, 100, 120)
        store.close(NOW_MS)
        atomic_file.save(disk, PATH, entry)
        store, notes = opened(disk)
        self.assertEqual(bodies(read_queue(store))[-20:], [b"%d" % number for number in range(100, 120)])
        self.assertTrue(any("they may come back: T" in note for note in notes), notes)

    def test_how_far_the_topics_were_complete(self) -> None:
        """That was said of another log; of this one it is true again after a start."""
        disk, store, _ = cut_behind()
        store.topics_complete((1, 0, NOW_MS))
        save(store)
        store.close(NOW_MS)
        store, _ = opened(disk)
        assert store.deleted_topics.complete is not None
        self.assertEqual(store.deleted_topics.complete.below, store.log.end)
        end = store.log.end
        put(store, 40, 50)
        store.topics_complete((1, 0, NOW_MS))
        entry = store.deleted_topics.dump()
        store.follow()
        store.truncate(end)
        store.dispatched = end
        store.lead()
        put(store, 100, 120)
        store.close(NOW_MS)
        atomic_file.save(disk, PATH, entry)
        store, _ = opened(disk)
        self.assertIsNone(store.deleted_topics.complete)

    def test_others_of_the_same_sizes(self) -> None:
        """They stand where the old ones stood, and were stored at another time."""
        disk, store, entry = cut_behind()
        for number in range(3, 20):
            store.append([[message(number, body=b"%d" % number)]], NOW_MS + 5000 + number)
        store.close(NOW_MS)
        atomic_file.save(disk, PATH, entry)
        store, _ = opened(disk)
        self.assertEqual(bodies(read_queue(store)), [b"%d" % number for number in range(3, 20)])
        self.assertEqual(found(store, 5), [b"5"])


class ReplicaTests(unittest.TestCase):
    """A log that is copied from a master's, and what that one says was deleted."""

    def master(self) -> ReplicaLog:
        log = open_master(memory_disk())
        put(log.store, 0, 10)
        put(log.store, 10, 12, "Other")
        put(log.store, 12, 15)
        delete(log.store)
        put(log.store, 15, 18, "Other")
        log.store.settle()
        return log

    def replica(self) -> ReplicaLog:
        return open_replica(memory_disk(2))

    def agrees(self, replica: ReplicaLog, master: ReplicaLog) -> None:
        self.assertEqual(replica.store.queue_table(), master.store.queue_table())
        for topic in master.store.queue_table():
            self.assertEqual(bodies(read_queue(replica.store, topic)), bodies(read_queue(master.store, topic)))
        self.assertEqual(found(replica.store, 5), [])

    def test_copied_from_the_beginning(self) -> None:
        """The table is there first, in the middle, or comes when all is dispatched."""
        master = self.master()
        master.confirm(master.end)
        data = raw(master)
        table = master.store.deleted_topics.table

        def tell(log: ReplicaLog) -> None:
            log.store.replace_deleted(table, 0)

        steps: tuple[Callable[[ReplicaLog], None], ...]
        half, whole = data[: len(data) // 3], data
        for seed, steps in enumerate(
            (
                (tell, lambda log: feed(log, whole, random.Random(1)), catch_up),
                (
                    lambda log: feed(log, half, random.Random(2)),
                    catch_up,
                    tell,
                    lambda log: feed(log, whole, random.Random(2)),
                    catch_up,
                ),
                (lambda log: feed(log, whole, random.Random(3)), catch_up, tell),
            )
        ):
            with self.subTest(seed=seed):
                replica = self.replica()
                for step in steps:
                    step(replica)
                self.agrees(replica, master)
                save(replica.store)
                replica.store._disk.kill()  # type: ignore[attr-defined]
                again = open_replica(replica.store._disk)
                catch_up(again)
                self.agrees(again, master)

    def test_made_again_while_a_slave_was_away(self) -> None:
        """Queue 1 has old messages only, queue 0 new ones: the old ones go from both."""
        master = open_master(memory_disk())
        for number in range(6):
            master.store.append([[message(number, queue_id=number % 2)]], NOW_MS + number)
        replica = self.replica()
        feed(replica, raw(master), random.Random(4))
        catch_up(replica)
        upkeep(replica.store, NOW_MS + 2000)
        delete(master.store)
        put(master.store, 6, 8)
        master.confirm(master.end)
        feed(replica, raw(master), random.Random(4))
        catch_up(replica)
        replica.store.replace_deleted(master.store.deleted_topics.table, 0)
        self.assertEqual(bodies(read_queue(replica.store)), [b"6", b"7"])
        self.assertEqual(bodies(read_queue(replica.store, queue_id=1)), [])
        disk = replica.store._disk
        upkeep(replica.store, NOW_MS + 4000)
        self.assertFalse(disk.exists(f"{ROOT}/consumequeue/T/1"))

    def test_a_shorter_log_becomes_the_masters(self) -> None:
        """It never had what the entry is about; what it writes there is alive."""
        master = self.master()
        data = raw(master)
        replica = self.replica()
        feed(replica, data[: len(data) // 3], random.Random(5))
        catch_up(replica)
        replica.store.replace_deleted(master.store.deleted_topics.table, 0)
        below = replica.store.deleted_topics.table["T"].below
        self.assertGreater(below, replica.end)
        save(replica.store)
        disk = replica.store._disk
        disk.kill()  # type: ignore[attr-defined]
        replica = open_replica(disk)
        self.assertEqual(replica.store.deleted_topics.table["T"].below, below)
        elect(replica, 2)
        put(replica.store, 100, 105)
        replica.confirm(replica.end)
        self.assertEqual(bodies(read_queue(replica.store)), [b"%d" % number for number in range(100, 105)])
        save(replica.store)
        disk.kill()  # type: ignore[attr-defined]
        replica = open_replica(disk)
        catch_up(replica)
        self.assertEqual(bodies(read_queue(replica.store)), [b"%d" % number for number in range(100, 105)])

    def test_copied_anew(self) -> None:
        """Everything is thrown away: what comes may be another log, and the master is asked again."""
        master = self.master()
        master.confirm(master.end)
        replica = self.replica()
        feed(replica, raw(master), random.Random(6))
        replica.store.replace_deleted(master.store.deleted_topics.table, 0)
        catch_up(replica)
        replica.start_over()
        self.assertEqual((replica.store.deleted_topics.table, replica.store.deleted_topics.lowered), ({}, 1))
        feed(replica, raw(master), random.Random(6))
        catch_up(replica)
        replica.store.replace_deleted(master.store.deleted_topics.table, 0)
        self.agrees(replica, master)

    def test_copied_anew_by_one_that_began_later(self) -> None:
        """The place where its log began is one within the next log."""
        replica = self.replica()
        replica.append_raw(4096, bytes(8))
        replica.store.deleted_topics.add("T", 9000, LastRecord(8000, NOW_MS))
        replica.start_over()
        self.assertEqual(replica.store.deleted_topics.table, {})

    def test_a_master_that_forgot(self) -> None:
        """Because its log begins behind; ours does not."""
        replica = self.replica()
        replica.store.deleted_topics.add("Old", 500, LastRecord(400, NOW_MS))
        replica.store.deleted_topics.add("Undone", 5000, LastRecord(400, NOW_MS))
        replica.store.replace_deleted({"New": Deleted(9000, LastRecord(8000, NOW_MS))}, 4096)
        self.assertEqual(sorted(replica.store.deleted_topics.table), ["New", "Old"])


class TableTests(unittest.TestCase):
    """The values themselves."""

    def test_text(self) -> None:
        """Read as it was written."""
        table = DeletedTopics()
        table.add("%RETRY%g", 5, LastRecord(3, NOW_MS))
        table.add("Ünï", 1 << 40, LastRecord(1 << 39, NOW_MS))
        again = DeletedTopics()
        again.load(table.dump())
        self.assertEqual(again.table, table.table)
        self.assertTrue(again.is_void("Ünï", 5) and again.is_void("%RETRY%g", 4))
        self.assertFalse(again.is_void("%RETRY%g", 5) or again.is_void("T", 0))

    def test_how_far_the_topics_are_complete(self) -> None:
        """Read as it was written; lowered where the log is cut."""
        table = DeletedTopics()
        self.assertIsNone(table.complete)
        table.topics_complete(70, LastRecord(60, NOW_MS), (7, 2, NOW_MS))
        self.assertTrue(table.dirty)
        again = DeletedTopics()
        again.load(table.dump())
        self.assertEqual(again.complete, Complete(70, LastRecord(60, NOW_MS), (7, 2, NOW_MS)))
        again.lower(70, LastRecord(60, NOW_MS))
        self.assertFalse(again.dirty)
        again.lower(50, LastRecord(40, NOW_MS - 1))
        self.assertEqual(
            (again.complete, again.dirty), (Complete(50, LastRecord(40, NOW_MS - 1), (7, 2, NOW_MS)), True)
        )
        old = DeletedTopics()
        old.load(b'{"deletedTopics":{}}')
        self.assertIsNone(old.complete)
        with self.assertRaises(CorruptStore):
            old.load(b'{"deletedTopics":{},"topicsComplete":{"below":-1}}')
        with self.assertRaises(CorruptStore):
            old.load(
                b'{"deletedTopics":{},"topicsComplete":{"below":1,"lastOffset":0,"lastStored":5,"topicsVersion":[1]}}'
            )

    def test_of_another_table_of_topics(self) -> None:
        """A Java broker had the store, or an older table is read, or no version was noted: it may lack any topic."""
        table = DeletedTopics()
        table.topics_complete(70, LastRecord(60, NOW_MS), (7, 2, NOW_MS))
        table.topics_read((7, 2, NOW_MS))
        self.assertEqual(table.complete, Complete(70, LastRecord(60, NOW_MS), (7, 2, NOW_MS)))
        table.dirty = False
        table.topics_read((8, 2, NOW_MS))
        self.assertEqual((table.complete, table.dirty), (None, True))
        table.load(b'{"deletedTopics":{},"topicsComplete":{"below":7,"lastOffset":0,"lastStored":5}}')
        self.assertEqual(table.complete, Complete(7, LastRecord(0, 5), None))
        table.topics_read((0, 0, 0))
        self.assertIsNone(table.complete)

    def test_damage(self) -> None:
        """A master's and a file's."""
        good = {"below": 1, "lastOffset": 0, "lastStored": 5}
        self.assertEqual(read_deleted({"T": good}), {"T": Deleted(1, LastRecord(0, 5))})
        for value in (
            None,
            [],
            {"T": 5},
            {"T": {}},
            {"T": {**good, "below": -1}},
            {"T": {**good, "below": True}},
            {"T": {**good, "lastOffset": "0"}},
            {"T": {**good, "lastStored": 1 << 63}},
        ):
            with self.assertRaises(RemoteProtocolError):
                read_deleted(value)


if __name__ == "__main__":
    unittest.main()
