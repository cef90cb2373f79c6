"""Leadership handed on: transfers, preferred leaders, failing disks, frozen processes."""

from __future__ import annotations

from twisted.trial import unittest

from rocketha.raft.config import Role
from rocketha.raft.errors import LagsTooMuch, NotLeader, Transferring, UnknownMember
from rocketha.raft.messages import Kind, Message
from tests.raft.cluster import Cluster, group


class TransferTests(unittest.SynchronousTestCase):
    """transfer()."""

    def test_leadership_is_transferred(self) -> None:
        """Within a round trip of being caught up, without a pre-vote, and although all stick to their leader."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.tick(1)
        cluster.node("1").propose([b"a"])
        cluster.node("1").transfer("3")
        self.assertRaises(Transferring, cluster.node("1").propose, [b"b"])
        cluster.settle()
        self.assertEqual((cluster.leader(), cluster.node("3").term), ("3", 2))
        cluster.node("3").propose([b"b"])
        cluster.settle()
        self.assertEqual([each.applied for each in cluster.servers.values()], [[b"a", b"b"]] * 3)

    def test_what_cannot_be_done_is_refused(self) -> None:
        """Not by a follower, not to a stranger or learner, not to one that lags or is silent."""
        cluster = Cluster(group(["1", "2", "3"], ["4"]), transfer_lag_max=2)
        self.assertRaises(NotLeader, cluster.node("1").transfer, "2")
        cluster.elect("1")
        self.assertRaises(UnknownMember, cluster.node("1").transfer, "9")
        self.assertRaises(UnknownMember, cluster.node("1").transfer, "4")
        cluster.node("1").transfer("1")
        self.assertEqual(cluster.leader(), "1")
        cluster.isolate("3")
        cluster.tick(25, "1", "2")
        self.assertRaises(LagsTooMuch, cluster.node("1").transfer, "3")
        cluster.heal()
        cluster.cut = {("1", "3")}
        cluster.node("1").propose([b"a"] * 3)
        cluster.settle()
        self.assertRaises(LagsTooMuch, cluster.node("1").transfer, "3")
        self.assertEqual(cluster.leader(), "1")

    def test_a_transfer_has_a_deadline(self) -> None:
        """A successor that never takes over: after an election time the leader serves again."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.lose = lambda message: message.kind == Kind.TAKE_LEADERSHIP
        cluster.node("1").transfer("2")
        cluster.tick(9)
        self.assertRaises(Transferring, cluster.node("1").propose, [b"a"])
        self.assertRaises(Transferring, cluster.node("1").transfer, "3")
        cluster.tick(1)
        cluster.node("1").propose([b"a"])

    def test_a_lost_order_is_repeated(self) -> None:
        """With the next heartbeat."""
        cluster = Cluster(3)
        cluster.elect("1")
        lost = []
        cluster.lose = lambda message: message.kind == Kind.TAKE_LEADERSHIP and not lost and not lost.append(1)
        cluster.node("1").transfer("2")
        cluster.settle()
        self.assertEqual((len(lost), cluster.leader()), (1, "1"))
        cluster.tick(1)
        self.assertEqual(cluster.leader(), "2")

    def test_only_the_leaders_order_counts(self) -> None:
        """TAKE_LEADERSHIP of anybody else is nothing."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("2").step(Message(Kind.TAKE_LEADERSHIP, "3", "2", 1))
        cluster.settle()
        self.assertEqual(cluster.leader(), "1")


class PreferredTests(unittest.SynchronousTestCase):
    """Leaders that somebody prefers."""

    def test_d6_a_preferred_node_takes_over_when_caught_up(self) -> None:
        """D6: not while it lags too much or is silent, nobody waits for it; then within an election time or so."""
        cluster = Cluster(3, preferred=("3",), transfer_lag_max=2)
        cluster.isolate("3")
        cluster.elect("1")
        cluster.node("1").propose([b"a"] * 5)
        cluster.settle()
        cluster.tick(30, "1", "2")
        self.assertEqual(cluster.leader(), "1")
        cluster.heal()
        cluster.cut = {("1", "3")}
        cluster.tick(30, "1", "2")
        self.assertEqual(cluster.leader(), "1")
        cluster.heal()
        cluster.tick(30)
        self.assertEqual(cluster.leader(), "3")
        term = cluster.node("3").term
        cluster.tick(100)
        self.assertEqual((cluster.leader(), cluster.node("3").term), ("3", term))

    def test_d6_a_preferred_node_that_fails_is_not_asked_every_second(self) -> None:
        """Each attempt costs an election time of refused proposals."""
        cluster = Cluster(3, preferred=("3",))
        cluster.elect("1")
        orders: list[Message] = []
        cluster.lose = lambda message: message.kind == Kind.TAKE_LEADERSHIP and not orders.append(message)
        busy = 0
        for _ in range(200):
            cluster.tick(1)
            busy += cluster.node("1").status().transferring_to != ""
        self.assertGreater(busy, 0)
        self.assertLess(busy, 40)

    def test_nodes_that_prefer_each_other(self) -> None:
        """Configured differently, as during a rolling change: leadership moves now and then, not each second."""
        cluster = Cluster(3)
        for name, other in (("1", "2"), ("2", "1")):
            cluster[name].settings["preferred"] = (other,)
            cluster[name].restart()
        cluster.elect("1")
        cluster.tick(200)  # 20 election times
        self.assertIn(cluster.node("1").term, (2, 3, 4))

    def test_a_transfer_to_the_leader_itself(self) -> None:
        """Is done already: nothing moves, proposals are taken."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("1").transfer("1")
        self.assertEqual(cluster.node("1").status().transferring_to, "")
        cluster.node("1").propose([b"a"])
        cluster.settle()
        self.assertEqual((cluster.node("1").term, cluster["2"].applied), (1, [b"a"]))


class DiskTests(unittest.SynchronousTestCase):
    """D10: a disk that fails or crawls."""

    def test_d10_an_unhealthy_leader_hands_on(self) -> None:
        """At once, to a node that has all that is committed, by messages that need nothing saved."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.isolate("2")
        cluster.node("1").propose([b"a"])
        cluster.settle()
        cluster.heal()
        orders = cluster.node("1").unhealthy("EIO")
        self.assertEqual([(each.kind, each.to) for each in orders], [(Kind.TAKE_LEADERSHIP, "3")])
        self.assertEqual(cluster.node("1").role, Role.FOLLOWER)
        cluster.wire += orders
        cluster.settle()
        self.assertEqual(cluster.leader(), "3")

    def test_d10_an_unhealthy_node_is_not_electable(self) -> None:
        """Neither by its timer nor by order nor when told that the leader is gone; its followers elect another."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("2").unhealthy("slow")
        cluster.tick(2)
        self.assertRaises(LagsTooMuch, cluster.node("1").transfer, "2")
        cluster.node("2").step(Message(Kind.TAKE_LEADERSHIP, "1", "2", 1))
        self.assertEqual(cluster.node("2").peer_refused("1"), 0)
        cluster.node("2").campaign()
        self.assertEqual((cluster.node("2").role, cluster.node("2").term), (Role.FOLLOWER, 1))
        self.assertEqual(cluster.node("2").status().unhealthy, "slow")
        cluster.isolate("1")
        cluster.tick(60, "2", "3")
        self.assertEqual(cluster.leader(), "3")

    def test_d10_no_preference_for_a_failing_disk(self) -> None:
        """A preferred leader with a dead disk does not get leadership back before it is well."""
        cluster = Cluster(3, preferred=("1",))
        cluster.elect("1")
        cluster.wire += cluster.node("1").unhealthy("EIO")
        cluster.settle()
        leader = cluster.leader()
        self.assertNotEqual(leader, "1")
        cluster.tick(100)
        self.assertEqual(cluster.leader(), leader)
        cluster.node("1").healthy()
        cluster.tick(120)
        self.assertEqual(cluster.leader(), "1")

    def slow_followers(self, election_ticks: int, sync_ticks: int) -> tuple[Cluster, set[str], int]:
        """An entry each 20 ticks for 800, while each sync of 2 and 3 takes so long, and succeeds.

        Returned with who led meanwhile, and how many entries were committed.

        As in the driver, such a disk counts as unhealthy 40 ticks after its sync began, and for 200 ticks.
        """
        cluster = Cluster(3, election_ticks=election_ticks, heartbeat_ticks=election_ticks // 10 or 1)
        cluster.elect("1")
        before, leaders = cluster.node("1").commit, set()
        syncs = {"2": (-1, 0), "3": (-1, 0)}  # the tick at which one began, and how many Readys it covers
        sick_until = dict.fromkeys(syncs, 0)
        for tick in range(800):
            if tick % 20 == 0 and cluster.leader() == "1":
                cluster.node("1").propose([b"x"])
            for each, (began, covers) in syncs.items():
                server = cluster[each]
                server.lazy = True
                if began < 0 and server.unsynced:
                    syncs[each] = began, covers = tick, len(server.unsynced)
                if 0 <= began <= tick - 40:
                    server.node.unhealthy("slow")
                    sick_until[each] = tick + 200
                if 0 <= began <= tick - sync_ticks:
                    server.sync(covers)
                    syncs[each] = (-1, 0)
                if sick_until[each] == tick:
                    server.node.healthy()
            cluster.tick(1)
            leaders.add(cluster.leader())
        return cluster, leaders, cluster.node("1").commit - before

    def test_d10_a_majority_of_slow_disks(self) -> None:
        """However slow, it stores what it is sent; a new term, of whomever, would only have it begin anew."""
        for election_ticks, sync_ticks in ((6, 50), (20, 150)):
            cluster, leaders, committed = self.slow_followers(election_ticks, sync_ticks)
            self.assertEqual((leaders, cluster.node("1").term), ({"1"}, 1))
            self.assertGreater(committed, 25)

    def test_d10_a_majority_that_stores_nothing(self) -> None:
        """Nobody else could commit without these disks, and they may not stand: the leader stays."""
        cluster = Cluster(3)
        cluster.elect("1")
        for each in ("2", "3"):
            cluster.node(each).unhealthy("full")
        cluster.lose = lambda message: message.kind == Kind.APPEND_ANSWER
        cluster.node("1").propose([b"a"])
        cluster.tick(200)
        self.assertEqual((cluster.leader(), cluster.node("1").term, cluster["1"].applied), ("1", 1, []))
        cluster.lose = lambda message: False
        cluster.tick(2)
        self.assertEqual((cluster.node("1").term, cluster["1"].applied), (1, [b"a"]))

    def test_d10_who_may_not_stand_is_not_loyal_for_longer(self) -> None:
        """The leader is gone, one follower's disk is slow: it may not lead, but it elects the other at once."""
        for seed in range(10):
            cluster = Cluster(3, seed)
            cluster.elect("1")
            cluster.node("2").unhealthy("slow")
            cluster.isolate("1")
            cluster.tick(21, "2")
            self.assertEqual(cluster.node("2").leader_id, "")
            cluster.node("3").campaign()
            cluster.settle()
            self.assertEqual(cluster.node("3").role, Role.LEADER)

    def test_d10_a_candidate_gives_up(self) -> None:
        """And a single node stops leading."""
        cluster = Cluster(3)
        cluster.node("1").campaign()
        self.assertEqual(cluster.node("1").unhealthy("EIO"), ())
        self.assertEqual(cluster.node("1").role, Role.FOLLOWER)
        alone = Cluster(1)
        alone.elect("1")
        self.assertEqual(alone.node("1").unhealthy("EIO"), ())
        self.assertEqual(alone.node("1").role, Role.FOLLOWER)


class FrozenTests(unittest.SynchronousTestCase):
    """A process that stood still."""

    def test_a_thawed_follower_does_not_campaign_at_once(self) -> None:
        """It waits a whole election time for its leader first."""
        cluster = Cluster(3)
        cluster.elect("1")
        for _ in range(9):
            cluster.node("2").tick()
        cluster.node("2").stood_still()
        for _ in range(9):
            cluster.node("2").tick()
        self.assertEqual(cluster.node("2").role, Role.FOLLOWER)

    def test_a_thawed_leader_must_hear_its_majority_anew(self) -> None:
        """What it heard before does not count."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.tick(5)
        cluster.isolate("1")
        cluster.node("1").stood_still()
        cluster.tick(10, "1")
        self.assertEqual(cluster.node("1").role, Role.FOLLOWER)
