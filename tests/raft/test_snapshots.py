"""Snapshots: at every index, in parts, with breaks, and beside everything else."""

from __future__ import annotations

from twisted.trial import unittest

from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Entry, EntryKind, HardState, Kind, Members, Message, SnapshotMeta
from rocketha.raft.snapshot_receipt import SnapshotReceipt
from rocketha.raft.storage import Compacted
from tests.raft.cluster import Cluster, Server, group


class SnapshotTests(unittest.SynchronousTestCase):
    """Groups that compact."""

    def test_c13_a_snapshot_at_every_index(self) -> None:
        """C13: compact at each index of a small log with a membership change, restart, fill a new node: all equal."""
        for at in range(1, 9):
            cluster = Cluster(3)
            cluster.elect("1")
            steps = [b"a", b"b", None, b"c", b"d"]
            for step in steps:
                if step is None:
                    cluster.node("1").propose_members(MembersChange({"4": "host4:9878"}))
                    cluster.servers["4"] = cluster.make("4", Members())
                else:
                    cluster.node("1").propose([step])
                while cluster.deliver() and cluster.node("1").applied < at:
                    pass
                if cluster.node("1").applied == at:
                    cluster["1"].take_snapshot()
                cluster.settle()
            with self.subTest(at):
                before = (cluster.node("1").last_index, cluster.node("1").members)
                cluster["1"].restart()
                self.assertEqual((cluster.node("1").last_index, cluster.node("1").members), before)
                cluster.tick(60)
                leader = cluster.leader()
                cluster.node(leader).propose([b"e"])
                cluster.settle()
                cluster[leader].take_snapshot()
                cluster.servers["5"] = cluster.make("5", Members())
                cluster.node(leader).propose_members(MembersChange({"5": "host5:9878"}))
                cluster.settle()
                cluster.tick(5)
                for server in cluster.servers.values():
                    self.assertEqual(server.applied, [b"a", b"b", b"c", b"d", b"e"], server.name)
                    self.assertEqual(server.node.members, group(5), server.name)

    def lagging(self, **settings: object) -> Cluster:
        """1 leads; 3 lacks what 1 has compacted."""
        cluster = Cluster(3, cached_entries=0, cached_bytes=0, **settings)
        cluster.elect("1")
        cluster.isolate("3")
        cluster.node("1").propose([b"entry %d" % each for each in range(20)])
        cluster.settle()
        cluster["1"].take_snapshot()
        cluster.node("1").propose([b"later"])
        cluster.settle()
        cluster.heal()
        return cluster

    def sent(self, cluster: Cluster) -> list[int]:
        """Offsets of snapshot parts in the order they were sent, until all is done."""
        offsets = []
        for _ in range(100):
            cluster.collect()
            offsets += [each.offset for each in cluster.wire if each.kind == Kind.SNAPSHOT]
            if not cluster.deliver():
                break
        return offsets

    def test_in_parts(self) -> None:
        """Each part once, in order; then the entries after it."""
        cluster = self.lagging(snapshot_chunk_bytes=50)
        cluster.tick(1, "1")
        offsets = self.sent(cluster)
        self.assertEqual(cluster["3"].applied, cluster["1"].applied)
        cluster = self.lagging(snapshot_chunk_bytes=50)
        cluster.node("1").tick()
        offsets = self.sent(cluster)
        self.assertEqual(offsets, [0, 50, 100, 150])
        self.assertEqual(cluster["3"].applied[-1], b"later")

    def test_a_size_that_is_a_multiple_of_the_parts(self) -> None:
        """The last part is then empty, and nothing is lost."""
        cluster = self.lagging()
        size = len(cluster["1"].storage.read_snapshot(0, 1 << 20))
        for part in (size, size // 2 if size % 2 == 0 else size // 3, 10):
            cluster = self.lagging(snapshot_chunk_bytes=part)
            cluster.tick(1)
            self.assertEqual(cluster["3"].applied, cluster["1"].applied)

    def test_lost_parts_are_sent_again(self) -> None:
        """And only these: the transfer goes on where it stopped, after silence or a broken connection."""
        for broken in (False, True):
            cluster = self.lagging(snapshot_chunk_bytes=50)
            seen: list[int] = []

            def lose(message: Message, seen: list[int] = seen) -> bool:
                if message.kind == Kind.SNAPSHOT:
                    seen.append(message.offset)
                    return seen.count(100) == 1 and message.offset == 100
                return False

            cluster.lose = lose
            cluster.tick(1)
            if broken:
                cluster.node("1").unreachable("3")
                cluster.tick(1)
            else:
                cluster.tick(6)
            self.assertEqual(seen, [0, 50, 100, 100, 150])
            self.assertEqual(cluster["3"].applied, cluster["1"].applied)

    def test_a_snapshot_that_is_too_large_is_no_load(self) -> None:
        """It is asked for again a few times a second, not at line speed for ever, and the leader's status shows it."""
        cluster = self.lagging(snapshot_chunk_bytes=50, max_snapshot_bytes=120)
        parts: list[Message] = []
        cluster.lose = lambda message: message.kind == Kind.SNAPSHOT and parts.append(message) is not None
        cluster.tick(30)
        self.assertTrue(3 <= len(parts) <= 12, str(len(parts)))
        self.assertEqual(cluster.node("1").status().peers["3"].state, "SNAPSHOT")
        self.assertEqual(cluster.leader(), "1")

    def test_a_follower_that_restarts_begins_anew(self) -> None:
        """What it had received was in memory only."""
        cluster = self.lagging(snapshot_chunk_bytes=50)
        cluster.lose = lambda message: message.kind == Kind.SNAPSHOT and message.offset == 100
        cluster.tick(1)
        cluster["3"].crash()
        cluster.lose = lambda message: False
        cluster.tick(10)
        self.assertEqual(cluster["3"].applied, cluster["1"].applied)

    def test_a_newer_snapshot_replaces_one_that_is_gone(self) -> None:
        """The leader compacts twice while it sends: the old one is not kept."""
        cluster = self.lagging(snapshot_chunk_bytes=50)
        cluster.lose = lambda message: message.kind == Kind.SNAPSHOT and message.offset == 100
        cluster.tick(1)
        cluster.lose = lambda message: False
        for each in (b"x", b"y", b"z"):
            cluster.node("1").propose([each])
            cluster.collect()
            while cluster.wire:
                cluster.wire = [each for each in cluster.wire if each.kind != Kind.SNAPSHOT]
                cluster.deliver()
            cluster["1"].take_snapshot()
        cluster.tick(10)
        self.assertEqual(cluster["3"].applied, cluster["1"].applied)
        self.assertEqual(cluster["3"].applied[-1], b"z")

    def test_the_install_is_not_acknowledged_before_it_is_stored(self) -> None:
        """A16: the follower answers after persisted_snapshot, and applies nothing before."""
        server = Server("3", group(3))
        meta = SnapshotMeta(5, 1, group(3))
        server.node.step(Message(Kind.SNAPSHOT, "1", "3", 1, snapshot=meta, data=b"a\n", done=True))
        ready = server.node.ready()
        self.assertEqual(ready.snapshot, (meta, b"a\n"))
        answers = [*ready.messages_now, *ready.messages_after_sync]
        self.assertEqual([each.kind for each in answers], [Kind.SNAPSHOT_ANSWER])
        server.carry_out(ready)
        server.turn()
        self.assertEqual([(each.kind, each.index) for each in server.outbox[1:]], [(Kind.APPEND_ANSWER, 5)])
        self.assertEqual(server.applied, [b"a"])

    def test_no_campaign_while_a_snapshot_is_installed(self) -> None:
        """The node could not even read its log."""
        server = Server("3", group(3))
        meta = SnapshotMeta(5, 1, group(3))
        server.node.step(Message(Kind.SNAPSHOT, "1", "3", 1, snapshot=meta, data=b"a\n", done=True))
        server.node.campaign()
        self.assertEqual(server.node.term, 1)
        self.assertEqual(
            [each.kind for each in server.node.ready().messages_after_sync if each.kind != Kind.SNAPSHOT_ANSWER], []
        )
        self.assertRaises(Compacted, server.node.snapshot_meta, 3)

    def test_a_snapshot_of_what_is_there_is_not_installed(self) -> None:
        """The entries are equal: that is only a commit index."""
        server = Server("3", group(3))
        entries = tuple(Entry(each + 1, 1, EntryKind.NORMAL, b"x") for each in range(5))
        server.node.step(Message(Kind.APPEND, "1", "3", 1, entries=entries))
        server.turn()
        for index in (3, 2):
            meta = SnapshotMeta(index, 1, group(3))
            server.node.step(Message(Kind.SNAPSHOT, "1", "3", 1, snapshot=meta, data=b"a\n", done=True))
            ready = server.node.ready()
            self.assertIsNone(ready.snapshot)
            server.carry_out(ready)
            self.assertEqual((server.node.commit, server.node.last_index), (3, 5))

    def test_a_conflicting_tail_goes(self) -> None:
        """A snapshot replaces entries that were never committed, however many."""
        server = Server("3", group(3))
        server.storage.save(HardState(1, "", 0), tuple(Entry(each + 1, 1, 1, b"x") for each in range(9)))
        server.storage.sync()
        server.restart()
        meta = SnapshotMeta(5, 2, group(3))
        server.node.step(Message(Kind.SNAPSHOT, "1", "3", 3, snapshot=meta, data=b"a\n", done=True))
        server.turn()
        self.assertEqual((server.node.last_index, server.node.commit, server.applied), (5, 5, [b"a"]))
        after = (Entry(6, 3, EntryKind.NORMAL, b"b"),)
        server.node.step(Message(Kind.APPEND, "1", "3", 3, 5, 2, 6, entries=after))
        server.turn()
        self.assertEqual(server.applied, [b"a", b"b"])


class ReceiptTests(unittest.SynchronousTestCase):
    """Parts put together."""

    def part(self, offset: int, data: bytes, done: bool = False, sender: str = "1", term: int = 1) -> Message:
        """A part."""
        return Message(Kind.SNAPSHOT, sender, "2", term, offset=offset, data=data, done=done)

    def test_parts(self) -> None:
        """Only in order; doubles and gaps are refused and change nothing."""
        receipt, meta = SnapshotReceipt(), SnapshotMeta(5, 1, group(3))
        self.assertEqual(receipt.take(self.part(0, b"ab"), meta, 100), (True, None))
        self.assertEqual(receipt.take(self.part(0, b"ab"), meta, 100), (False, None))
        self.assertEqual(receipt.take(self.part(4, b"ef"), meta, 100), (False, None))
        self.assertEqual(receipt.received, 2)
        self.assertEqual(receipt.take(self.part(2, b"cd", True), meta, 100), (True, b"abcd"))
        self.assertEqual(receipt.received, 0)

    def test_parts_of_different_leaders_do_not_mix(self) -> None:
        """Two machines may write the same state in different bytes."""
        meta = SnapshotMeta(5, 1, group(3))
        for other in (self.part(2, b"cd", True, sender="3"), self.part(2, b"cd", True, term=2)):
            receipt = SnapshotReceipt()
            receipt.take(self.part(0, b"ab"), meta, 100)
            self.assertEqual(receipt.take(other, meta, 100), (False, None))
            self.assertEqual(receipt.received, 0)

    def test_a_snapshot_is_bounded(self) -> None:
        """One that grows too large is dropped."""
        receipt, meta = SnapshotReceipt(), SnapshotMeta(5, 1, group(3))
        receipt.take(self.part(0, b"abc"), meta, 5)
        self.assertEqual(receipt.take(self.part(3, b"def"), meta, 5), (False, None))
        self.assertEqual(receipt.received, 0)
