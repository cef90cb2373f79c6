"""Membership: joint changes, learners, removed nodes, and configurations that are taken back."""

from __future__ import annotations

from twisted.trial import unittest

from rocketha.raft.config import Role
from rocketha.raft.errors import Busy, MembersRefused, NotLeader, Transferring
from rocketha.raft.membership import MembersChange, MembershipHistory, changed, left
from rocketha.raft.messages import EntryKind, Kind, Members
from tests.raft.cluster import Cluster, group


def add(*ids: str) -> dict[str, str]:
    """Addresses for new members."""
    return {each: f"host{each}:9878" for each in ids}


class ChangeTests(unittest.SynchronousTestCase):
    """The arithmetic."""

    def test_a_change_of_voters_is_joint(self) -> None:
        """Voters new, outgoing old; learners that were voters wait until the joint configuration is left."""
        joint = changed(group(["1", "2", "3"], ["4"]), MembersChange(add("4", "5"), add("2"), {"3"}))
        self.assertEqual(joint.voters, {"1", "4", "5"})
        self.assertEqual(joint.outgoing, {"1", "2", "3"})
        self.assertEqual((joint.learners, joint.learners_next), (frozenset(), {"2"}))
        self.assertEqual(set(joint.addresses), {"1", "2", "3", "4", "5"})
        final = left(joint)
        self.assertEqual((final.voters, final.outgoing, final.learners), ({"1", "4", "5"}, frozenset(), {"2"}))
        self.assertEqual(set(final.addresses), {"1", "2", "4", "5"})

    def test_learners_come_and_go_at_once(self) -> None:
        """No majority changes, so none needs to be joint; the same for a new address."""
        members = changed(group(3), MembersChange(add_learners=add("4")))
        self.assertEqual((members.outgoing, members.learners), (frozenset(), {"4"}))
        self.assertEqual(changed(members, MembersChange(remove={"4"})), group(3))
        moved = changed(group(3), MembersChange({"1": "other:1"}))
        self.assertEqual((moved.outgoing, moved.addresses["1"]), (frozenset(), "other:1"))

    def test_nonsense_is_refused(self) -> None:
        """With a reason."""
        joint = changed(group(3), MembersChange(add("4")))
        for members, change in (
            (group(3), MembersChange()),
            (group(3), MembersChange(remove={"9"})),
            (group(3), MembersChange(remove={"1", "2", "3"})),
            (group(3), MembersChange(add("4"), add("4"))),
            (group(3), MembersChange({str(each): "h:1" for each in range(100)})),
            (joint, MembersChange(add("5"))),
        ):
            self.assertRaises(MembersRefused, changed, members, change)

    def test_configurations_are_taken_back(self) -> None:
        """A cut of the log takes them back; compaction forgets what nobody can ask for."""
        history = MembershipHistory(group(1), 0)
        for index, size in ((5, 2), (9, 3), (12, 4)):
            history.appended(index, group(size))
        self.assertEqual(
            [history.at(each) for each in (0, 4, 5, 8, 9, 11, 12, 99)],
            [group(each) for each in (1, 1, 2, 2, 3, 3, 4, 4)],
        )
        history.cut(10)
        self.assertEqual((history.index, history.current), (9, group(3)))
        history.compacted(7)
        self.assertEqual([history.at(each) for each in (7, 9)], [group(2), group(3)])
        history.cut(9)
        self.assertEqual((history.index, history.current), (5, group(2)))
        history.restored(20, group(4))
        history.cut(3)
        self.assertEqual((history.index, history.current), (20, group(4)))


class MembershipTests(unittest.SynchronousTestCase):
    """Groups that change."""

    def test_from_three_to_five_and_back(self) -> None:
        """3 -> 5 -> 3 with entries in between; those who left know it and are silent."""
        cluster = Cluster(3)
        cluster.elect("1")
        for name in ("4", "5"):
            cluster.servers[name] = cluster.make(name, Members())
        cluster.node("1").propose_members(MembersChange(add("4", "5")))
        cluster.node("1").propose([b"a"])
        cluster.settle()
        self.assertEqual([each.node.members.voters for each in cluster.servers.values()], [set("12345")] * 5)
        cluster.node("1").propose_members(MembersChange(remove={"1", "2"}))
        cluster.settle()
        cluster.tick(3)
        self.assertIn(cluster.leader(), ("3", "4", "5"))
        self.assertEqual({each.node.members.voters for each in cluster.servers.values()}, {frozenset("345")})
        cluster.node(cluster.leader()).propose([b"b"])
        cluster.settle()
        self.assertEqual([cluster[each].applied for each in "345"], [[b"a", b"b"]] * 3)
        term = cluster.node("3").term
        cluster.tick(100, "1", "2")
        self.assertEqual([cluster.node(each).role for each in "12"], [Role.LEARNER] * 2)
        self.assertEqual(cluster.node("3").term, term)

    def test_both_majorities_commit(self) -> None:
        """Joint: neither the new voters alone nor the old ones alone commit."""
        for cut in ("2", "3"), ("4", "5", "6", "7"):
            cluster = Cluster(3)
            cluster.elect("1")
            for name in "4567":
                cluster.servers[name] = cluster.make(name, Members())
            cluster.cut = {("1", each) for each in cut}
            cluster.node("1").propose_members(MembersChange(add(*"4567")))
            cluster.settle()
            self.assertEqual(cluster.node("1").commit, 1, str(cut))
            self.assertTrue(cluster.node("1").members.outgoing)
            cluster.heal()
            cluster.tick(3)
            self.assertFalse(cluster.node("1").members.outgoing)

    def test_both_majorities_elect(self) -> None:
        """Joint: a candidate needs both."""
        cluster = Cluster(3)
        cluster.elect("1")
        for name in "4567":
            cluster.servers[name] = cluster.make(name, Members())
        cluster.node("1").propose_members(MembersChange(add(*"4567")))
        cluster.collect()
        cluster.lose = lambda message: message.kind == Kind.APPEND_ANSWER and message.index > 1 and not message.reject
        cluster.settle()
        self.assertTrue(all(each.node.members.outgoing for each in cluster.servers.values()))
        cluster.isolate("1", "2")  # of the old voters only 3 is left
        cluster.tick(60, *"34567")
        self.assertEqual([each for each in "34567" if cluster.node(each).role is Role.LEADER], [])
        cluster.lose = lambda message: False
        cluster.heal()
        cluster.tick(60)
        self.assertFalse(cluster.node(cluster.leader()).members.outgoing)

    def test_one_change_at_a_time(self) -> None:
        """Not before the last one and the term's first entry are committed, not while leadership moves."""
        cluster = Cluster(3)
        self.assertRaises(NotLeader, cluster.node("1").propose_members, MembersChange(add("4")))
        cluster.lose = lambda message: message.kind == Kind.APPEND
        cluster.elect("1")
        self.assertRaises(Busy, cluster.node("1").propose_members, MembersChange(add("4")))
        cluster.lose = lambda message: False
        cluster.tick(2)
        cluster.node("1").propose_members(MembersChange(add("4")))
        self.assertRaises(Busy, cluster.node("1").propose_members, MembersChange(add("5")))
        cluster.servers["4"] = cluster.make("4", Members())
        cluster.settle()
        cluster.lose = lambda message: message.kind == Kind.TAKE_LEADERSHIP
        cluster.node("1").transfer("2")
        self.assertRaises(Transferring, cluster.node("1").propose_members, MembersChange(add("5")))

    def test_a_learner_is_no_voter(self) -> None:
        """It gets everything, neither commits nor elects, and a restart remembers that."""
        cluster = Cluster(group(["1", "2"], ["3"]))
        cluster.elect("1")
        cluster.cut = {("1", "2")}
        cluster.node("1").propose([b"a"])
        cluster.settle()
        self.assertEqual((cluster.node("3").last_index, cluster.node("1").commit), (2, 1))
        cluster["3"].restart()
        cluster.tick(50, "3")
        self.assertEqual((cluster.node("3").role, cluster.node("3").term), (Role.LEARNER, 1))

    def test_a_removed_node_disturbs_nobody(self) -> None:
        """It never heard that it was removed, and asks for votes for ever: nobody listens."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.isolate("3")
        cluster.node("1").propose_members(MembersChange(remove={"3"}))
        cluster.settle()
        cluster.tick(60, "1", "2")
        self.assertEqual(cluster.node("1").status().peers.keys(), {"2"})
        cluster.heal()
        cluster.tick(100)
        self.assertEqual((cluster.leader(), cluster.node("1").term), ("1", 1))

    def test_a_configuration_is_taken_back_with_its_entry(self) -> None:
        """A change that was never committed is undone when its entry is replaced, on leader and follower alike."""
        cluster = Cluster(5)
        cluster.elect("1")
        cluster.isolate("1", "2")
        cluster.node("1").propose_members(MembersChange(remove={"4", "5"}))
        cluster.settle()
        self.assertEqual(cluster.node("2").members.voters, set("123"))
        cluster.tick(60, "3", "4", "5")
        self.assertIn(cluster.leader(), ("3", "4", "5"))
        cluster.heal()
        cluster.tick(30)
        self.assertEqual({each.node.members.voters for each in cluster.servers.values()}, {frozenset("12345")})

    def test_who_removes_itself_may_be_needed_once_more(self) -> None:
        """Thesis 4.2.2: only it has the entry that removes it; it stands for election without counting itself."""
        cluster = Cluster(2)
        cluster.elect("1")
        cluster.node("1").propose_members(MembersChange(remove={"1"}))
        cluster.lose = lambda message: any(
            each.kind == EntryKind.MEMBERSHIP and not Members.decode(each.data).outgoing for each in message.entries
        )
        cluster.settle()
        self.assertEqual((cluster.node("1").members.voters, cluster.node("2").members.outgoing), ({"2"}, {"1", "2"}))
        cluster["1"].crash()
        cluster["2"].crash()
        cluster.lose = lambda message: False
        cluster.tick(60)
        self.assertEqual((cluster.leader(), cluster.node("2").members), ("2", Members({"2"}, addresses=add("2"))))

    def test_a_restart_finds_the_configuration(self) -> None:
        """In the log, behind a snapshot, and in a snapshot."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.servers["4"] = cluster.make("4", Members())
        cluster.node("1").propose_members(MembersChange(add("4")))
        cluster.settle()
        for compact in (False, True):
            if compact:
                cluster["2"].take_snapshot()
            cluster["2"].restart()
            self.assertEqual(cluster.node("2").members, group(4))

    def test_a_single_node_grows(self) -> None:
        """1 -> 3: from the first entry on both majorities are needed."""
        cluster = Cluster(1)
        cluster.elect("1")
        for name in "23":
            cluster.servers[name] = cluster.make(name, Members())
        cluster.node("1").propose_members(MembersChange(add("2", "3")))
        cluster.settle()
        cluster.node("1").propose([b"a"])
        cluster.settle()
        self.assertEqual([each.applied for each in cluster.servers.values()], [[b"a"]] * 3)
