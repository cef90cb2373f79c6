"""A witness: it votes, counts for a majority, and never leads."""

from __future__ import annotations

from unittest import mock

import attrs
from twisted.trial import unittest

from rocketha.raft import replication
from rocketha.raft.config import Role
from rocketha.raft.errors import LagsTooMuch, MembersRefused, UnknownMember
from rocketha.raft.membership import MembersChange, changed, left
from rocketha.raft.messages import EntryKind, Kind, Members, Message
from tests.raft.cluster import Cluster, Server, group

WITNESSED = attrs.evolve(group(3), witnesses={"1"})


class WitnessTests(unittest.SynchronousTestCase):
    """Two members with data, and 1, which has none."""

    def setUp(self) -> None:
        self.cluster = Cluster(WITNESSED)

    def test_it_never_stands(self) -> None:
        """Not after any time, nor when the leader's port refuses connections, nor when it is told to."""
        cluster, node = self.cluster, self.cluster.node("1")
        node.campaign()
        cluster.isolate("1")
        cluster.tick(100, "1")
        self.assertEqual((node.role, node.term), (Role.FOLLOWER, 0))
        cluster.heal()
        cluster.elect("2")
        self.assertEqual(node.peer_refused("2"), 0)
        node.step(Message(Kind.TAKE_LEADERSHIP, "2", "1", node.term))
        cluster.settle()
        self.assertEqual(cluster.leader(), "2")

    def test_the_others_do_not_wait_for_it(self) -> None:
        """After a refused connection the first one that can lead stands first."""
        self.cluster.elect("3")
        self.assertLess(self.cluster.node("2").peer_refused("3"), 30)

    def test_it_votes_and_counts(self) -> None:
        """For the one whose log is not behind what it was told of."""
        cluster = self.cluster
        cluster.elect("2")
        cluster.isolate("3")
        cluster.node("2").propose([b"a"])
        cluster.settle()
        self.assertEqual(cluster.node("2").commit, cluster.node("2").last_index)
        cluster.heal()
        cluster.isolate("2")
        cluster.tick(60, "1", "3")
        self.assertNotEqual(cluster.node("3").role, Role.LEADER)
        cluster.heal()
        cluster.tick(60)
        leader = cluster.leader()
        self.assertEqual(leader, "2")
        cluster.isolate("2")
        cluster.tick(60)
        self.assertEqual(cluster.leader(), "3")

    def test_no_leadership_is_handed_to_it(self) -> None:
        self.cluster.elect("2")
        with self.assertRaisesRegex(UnknownMember, "1 is a witness, and can not lead"):
            self.cluster.node("2").transfer("1")
        self.cluster.node("2").propose_members(MembersChange(remove={"2"}))
        self.cluster.settle()
        self.assertEqual(self.cluster.leader(), "3")
        preferring = Cluster(WITNESSED, preferred=("1",))
        preferring.elect("2")
        preferring.tick(100)
        self.assertEqual(preferring.leader(), "2")

    def test_it_is_told_of_the_end(self) -> None:
        """A leader sends it nothing of what it lacks, if that is much, but where to go on."""
        cluster = self.cluster
        cluster.elect("2")
        cluster.isolate("1")
        cluster.node("2").propose([b"%d" % each for each in range(30)])
        cluster.settle()
        commit = cluster.node("2").commit
        sent: list[Message] = []
        cluster.lose = lambda message: message.to == "1" and bool(sent.append(message))
        cluster.heal()
        with mock.patch.object(replication, "WITNESS_LAG", 10):
            cluster.tick(10)
            cluster.node("2").propose([b"more"])
            cluster.settle()
        self.assertEqual(cluster.node("1").last_index, cluster.node("2").last_index)
        snapshots = [message for message in sent if message.kind == Kind.SNAPSHOT]
        self.assertTrue(snapshots)
        for message in snapshots:
            assert message.snapshot is not None
            self.assertEqual((message.snapshot.index, message.data, message.done), (commit, b"", True))
        entries = [entry for message in sent for entry in message.entries if entry.kind == EntryKind.NORMAL]
        self.assertEqual({entry.data for entry in entries}, {b"more"})

    def unsynced(self) -> Server:
        """A leader that nobody but the witness hears, with two entries that its disk does not have."""
        self.cluster.elect("2")
        self.cluster.isolate("3")
        leader = self.cluster.servers["2"]
        leader.lazy = True
        leader.node.propose([b"a", b"b"])
        self.cluster.settle()
        return leader

    def test_power_lost_everywhere(self) -> None:
        """It has no entry that its leader had yet to sync: nobody could be elected without that one."""
        cluster, leader = self.cluster, self.unsynced()
        end = leader.node.last_index - 2
        self.assertEqual((cluster.node("1").last_index, leader.node.commit), (end, end))
        leader.lazy = False
        leader.crash()
        cluster.servers["1"].crash()
        cluster.tick(60)
        self.assertEqual(cluster.leader(), "2")

    def test_it_is_told_once_its_leader_has_synced(self) -> None:
        cluster, leader = self.cluster, self.unsynced()
        leader.sync()
        cluster.settle()
        self.assertEqual(cluster.node("1").last_index, leader.node.last_index)
        self.assertEqual(leader.node.commit, leader.node.last_index)

    def test_its_vote_is_not_held_back(self) -> None:
        """By a leader whose port refuses connections: with it the other one leads at once."""
        cluster = self.cluster
        cluster.elect("2")
        cluster.isolate("2")
        for name in ("1", "3"):
            cluster.node(name).peer_refused("2")
        cluster.node("3").campaign_if_leader_gone()
        cluster.settle()
        self.assertEqual(cluster.leader(), "3")

    def test_an_answer_from_before_a_snapshot(self) -> None:
        """Does not make the leader go on, nor send a newer one, while it is under way."""
        cluster = self.cluster
        cluster.elect("2")
        cluster.node("2").propose([b"a"])
        cluster.settle()
        cluster.isolate("1")
        cluster.node("2").propose([b"%d" % each for each in range(30)])
        cluster.settle()
        cluster.heal()
        cluster.lose = lambda message: message.kind == Kind.SNAPSHOT
        leader = cluster.node("2")
        with mock.patch.object(replication, "WITNESS_LAG", 10):
            cluster.tick(3)
            self.assertEqual(leader.status().peers["1"].state, "SNAPSHOT")
            leader.step(Message(Kind.APPEND_ANSWER, "1", "2", leader.term, index=2, hint_index=2))
            self.assertEqual(leader.status().peers["1"].state, "SNAPSHOT")


class MistakenTests(unittest.SynchronousTestCase):
    """The others take it for a member like any other."""

    def setUp(self) -> None:
        self.cluster = Cluster(3)
        self.cluster.servers["1"] = Server("1", self.cluster.members, 0, leads=False, **self.cluster.settings)
        self.cluster.elect("2")
        self.cluster.tick(3)

    def test_it_never_stands(self) -> None:
        cluster = self.cluster
        cluster.node("1").step(Message(Kind.TAKE_LEADERSHIP, "2", "1", cluster.node("1").term))
        cluster.isolate("1")
        cluster.tick(100, "1")
        self.assertEqual(cluster.node("1").role, Role.FOLLOWER)

    def test_it_says_that_something_is_wrong(self) -> None:
        """So it can neither become the leader nor, where learners come first, a voter."""
        self.assertFalse(self.cluster.node("2").status().peers["1"].healthy)
        with self.assertRaisesRegex(LagsTooMuch, "it is a witness and was not added as one"):
            self.cluster.node("2").transfer("1")


class MembersTests(unittest.SynchronousTestCase):
    """The arithmetic of changes."""

    def test_it_comes_and_goes(self) -> None:
        """It is one from the entry that adds it to the end of the change that removes it."""
        members = changed(group(2), MembersChange(add_learners={"9": "h:9"}, witnesses={"9"}))
        self.assertEqual((members.learners, members.witnesses), ({"9"}, {"9"}))
        members = left(changed(members, MembersChange(add_voters={"9": "h:9"})))
        self.assertEqual((members.voters, members.leaders), ({"1", "2", "9"}, {"1", "2"}))
        self.assertEqual(Members.decode(members.encode()), members)
        joint = changed(members, MembersChange(remove={"9"}))
        self.assertEqual((joint.witnesses, joint.leaders), ({"9"}, {"1", "2"}))
        self.assertEqual((left(joint).voters, left(joint).witnesses), ({"1", "2"}, frozenset()))
        replaced = changed(members, MembersChange({"8": "h:8"}, remove={"9"}, witnesses={"8"}))
        self.assertEqual(left(replaced).witnesses, {"8"})

    def test_nonsense_is_refused(self) -> None:
        two = attrs.evolve(group(2), witnesses={"2"})
        for members, change, why in (
            (WITNESSED, MembersChange(remove={"2", "3"}), "no voter that can lead"),
            (WITNESSED, MembersChange({"4": "h:4"}, witnesses={"4"}), "one witness"),
            (WITNESSED, MembersChange({"2": "other:2"}, witnesses={"2"}), "2 can not become a witness"),
            (WITNESSED, MembersChange({"4": "h:4"}, witnesses={"5"}), "not added: 5"),
            (two, MembersChange(remove={"1"}), "no voter that can lead"),
        ):
            with self.assertRaisesRegex(MembersRefused, why):
                changed(members, change)
