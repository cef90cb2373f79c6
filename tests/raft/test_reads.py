"""Linearizable reads: rounds, leases, and reads that are lost."""

from __future__ import annotations

from twisted.trial import unittest

from rocketha.raft.config import Role
from rocketha.raft.errors import Busy, NotLeader
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import FORCED, Kind, Message, ReadState
from rocketha.raft.read_index import READS_MAX, LeaderReads
from tests.raft.cluster import Cluster, group


class ReadIndexTests(unittest.SynchronousTestCase):
    """Ongaro's thesis, 6.4."""

    def leading(self, **settings: object) -> Cluster:
        """Three nodes, 1 leads, two entries are committed."""
        cluster = Cluster(3, **settings)
        for server in cluster.servers.values():
            server.node._core.promised_ticks = 0
        cluster.elect("1")
        cluster.node("1").propose([b"a"])
        cluster.settle()
        return cluster

    def test_a_read_needs_a_majority_asked_afterwards(self) -> None:
        """Neither nobody's answer nor an older round's is enough; one answer of two is."""
        cluster = self.leading()
        cluster.tick(3)
        cluster.isolate("1")
        node = cluster.node("1")
        node.read_index(7)
        cluster.settle()
        self.assertEqual(cluster["1"].reads, [])
        node.step(Message(Kind.HEART_BEAT_ANSWER, "2", "1", 1, context=3, index=2, hint_index=2))
        cluster.settle()
        self.assertEqual(cluster["1"].reads, [])
        node.step(Message(Kind.HEART_BEAT_ANSWER, "2", "1", 1, context=4, index=2, hint_index=2))
        cluster.settle()
        self.assertEqual(cluster["1"].reads, [ReadState(7, 2)])

    def test_reads_of_a_turn_share_a_round(self) -> None:
        """A hundred reads, one heartbeat to each follower."""
        cluster = self.leading()
        for context in range(100):
            cluster.node("1").read_index(context)
        cluster.collect()
        self.assertEqual([each.kind for each in cluster.wire], [Kind.HEART_BEAT] * 2)
        cluster.settle()
        self.assertEqual([each.context for each in cluster["1"].reads], list(range(100)))

    def test_a_new_leader_waits_for_its_first_entry(self) -> None:
        """It does not know what is committed before; then one round is still needed."""
        cluster = self.leading()
        cluster.lose = lambda message: message.kind == Kind.APPEND
        cluster.node("1").transfer("2")
        cluster.settle()
        self.assertEqual(cluster.node("2").role, Role.LEADER)
        cluster.node("2").read_index(1)
        cluster.tick(2)
        self.assertEqual(cluster["2"].reads, [])
        cluster.lose = lambda message: False
        cluster.tick(2)
        self.assertEqual(cluster["2"].reads, [ReadState(1, 3)])

    def test_a_follower_asks_its_leader(self) -> None:
        """A learner too; the index is the leader's."""
        cluster = Cluster(group(["1", "2"], ["3"]))
        cluster.elect("1")
        for each in ("2", "3"):
            cluster.node(each).read_index(5)
        cluster.settle()
        for each in ("2", "3"):
            self.assertEqual(cluster[each].reads, [ReadState(5, 1)])

    def test_without_a_leader_a_read_is_refused(self) -> None:
        """At once."""
        self.assertRaises(NotLeader, Cluster(3).node("1").read_index, 1)

    def test_reads_are_lost_with_the_leader(self) -> None:
        """A deposed leader's, and those that followers asked it; each is told once (D9)."""
        cluster = self.leading()
        cluster.isolate("1", "3")
        cluster.node("1").read_index(1)
        cluster.node("2").read_index(2)
        cluster.isolate("1")
        cluster.node("3").read_index(3)
        cluster.settle()
        cluster.tick(40)
        self.assertEqual(cluster["1"].lost_reads, [1])
        self.assertEqual(cluster["2"].lost_reads, [2])
        self.assertEqual(cluster["3"].lost_reads, [3])
        cluster.heal()
        cluster.tick(40)
        self.assertEqual([each.reads for each in cluster.servers.values()], [[], [], []])

    def test_a_node_that_does_not_lead_says_so(self) -> None:
        """A read forwarded to a node that leads no more comes back as lost."""
        cluster = self.leading()
        cluster.node("3").read_index(9)
        cluster.node("1").transfer("2")
        cluster.collect()
        cluster.wire.sort(key=lambda each: each.kind != Kind.TAKE_LEADERSHIP)
        cluster.settle()
        self.assertEqual(cluster["3"].reads + cluster["3"].lost_reads, cluster["3"].lost_reads)
        self.assertEqual(cluster["3"].lost_reads, [9])

    def test_a_read_nobody_waits_for(self) -> None:
        """forget_read: an answer that comes later is nobody's."""
        cluster = self.leading()
        cluster.node("2").read_index(1)
        cluster.node("2").forget_read(1)
        cluster.settle()
        self.assertEqual(cluster["2"].reads, [])

    def test_reads_are_bounded(self) -> None:
        """Own ones raise Busy, those of others are refused."""
        cluster = self.leading()
        cluster.isolate("1")
        reads = cluster.node("1")._elections.leadership
        assert reads is not None
        for context in range(READS_MAX):
            reads._reads.ask("2", context, 1)
        self.assertRaises(Busy, cluster.node("1").read_index, 1)
        cluster.node("1").step(Message(Kind.READ_INDEX, "3", "1", 1, context=8))
        cluster.node("1").turn = None  # type: ignore[attr-defined]
        self.assertTrue(any(each.reject and each.context == 8 for each in cluster.node("1").ready().messages_now))

    def test_a_single_node_needs_nobody(self) -> None:
        """At once."""
        cluster = Cluster(1)
        cluster.elect("1")
        cluster.node("1").read_index(4)
        cluster.settle()
        self.assertEqual(cluster["1"].reads, [ReadState(4, 1)])


class LeaseTests(unittest.SynchronousTestCase):
    """Reads without a round, if configured."""

    def leading(self) -> Cluster:
        """1 leads with a lease."""
        cluster = ReadIndexTests().leading(lease_reads=True, election_ticks=20)
        cluster.tick(1)
        return cluster

    def test_a_lease_answers_at_once(self) -> None:
        """Without a message."""
        cluster = self.leading()
        cluster.node("1").read_index(1)
        cluster.collect()
        self.assertEqual((cluster["1"].reads, cluster.wire), ([ReadState(1, 2)], []))

    def test_a_lease_ends_before_anybody_else_is_elected(self) -> None:
        """Counted from when its round was sent; it ends some ticks before the first vote could be given."""
        cluster = self.leading()
        cluster.isolate("1")
        answered = 0
        for tick in range(20):
            cluster.tick(1)
            cluster.node("1").read_index(100 + tick)
            cluster.settle()
            if any(each.context == 100 + tick for each in cluster["1"].reads):
                answered = tick + 1
        self.assertGreater(answered, 10)
        self.assertLess(answered, 18)

    def test_a_transfer_ends_the_lease(self) -> None:
        """The successor's votes are not refused by leader stickiness."""
        cluster = self.leading()
        cluster.lose = lambda message: message.kind == Kind.TAKE_LEADERSHIP
        cluster.node("1").transfer("2")
        for context in (1, 2):
            cluster.node("1").read_index(context)
            cluster.collect()
            self.assertEqual(cluster["1"].reads, [])
            cluster.tick(1)  # a round more, which gives no lease either
            cluster["1"].reads.clear()

    def test_no_lease_after_a_transfer_that_was_given_up(self) -> None:
        """The order may still arrive, and overrides every promise: so for this term there is none any more."""
        cluster = self.leading()
        orders: list[Message] = []
        cluster.lose = lambda message: message.kind == Kind.TAKE_LEADERSHIP and not orders.append(message)
        cluster.node("1").transfer("2")
        cluster.tick(60, "1")
        self.assertEqual((cluster.node("1").status().transferring_to, cluster.leader()), ("", "1"))
        cluster.lose = lambda message: False
        cluster.isolate("1")
        cluster.wire.append(orders[0])  # it was under way so long
        cluster.settle()
        self.assertEqual(cluster.node("2").role, Role.LEADER)
        cluster.node("1").read_index(1)
        cluster.collect()
        self.assertEqual(cluster["1"].reads, [])

    def test_who_needs_a_lease_begins_another_term(self) -> None:
        """After a transfer that was given up there is none in this one."""
        cluster = Cluster(3, sticky_lease=True, election_ticks=20)
        cluster.elect("1")
        term = cluster.node("1").term
        cluster.lose = lambda message: message.kind == Kind.TAKE_LEADERSHIP
        cluster.node("1").transfer("2")
        cluster.tick(80)
        leader = cluster.leader()
        self.assertGreater(cluster.node(leader).term, term)
        self.assertTrue(cluster.node(leader).lease_holds)

    def test_no_lease_without_promises(self) -> None:
        """Followers that are set otherwise elect whenever they like to: reads ask for a round then."""
        cluster = Cluster(3, lease_reads=True, election_ticks=20)
        for each in ("2", "3"):
            cluster[each].settings["lease_reads"] = False
            cluster[each].restart()
        cluster.node("1")._core.promised_ticks = 0
        cluster.elect("1")
        cluster.tick(5)
        cluster.node("1").read_index(1)
        cluster.collect()
        self.assertEqual(cluster["1"].reads, [])
        cluster.settle()
        self.assertEqual(cluster["1"].reads, [ReadState(1, 1)])

    def test_late_ticks_are_no_longer_lease(self) -> None:
        """Where the driver tells the time it is that which counts, however few ticks came."""
        cluster = self.leading()
        cluster.node("1").time_is(100)
        cluster.node("1").read_index(1)
        cluster.collect()
        self.assertEqual(cluster["1"].reads, [])
        cluster.settle()  # its round gives a new lease, of 16 ticks
        for clock, reads in ((115, 1), (116, 0)):
            cluster["1"].reads.clear()
            cluster.node("1").tick()
            cluster.node("1").time_is(clock)
            cluster.lose = lambda message: True
            cluster.node("1").read_index(clock)
            cluster.collect()
            self.assertEqual(len(cluster["1"].reads), reads, clock)

    def test_standing_still_ends_the_lease(self) -> None:
        """A frozen process does not know how long it stood."""
        cluster = self.leading()
        cluster.node("1").stood_still()
        cluster.node("1").read_index(1)
        cluster.collect()
        self.assertEqual(cluster["1"].reads, [])
        cluster.settle()
        self.assertEqual(cluster["1"].reads, [ReadState(1, 2)])

    def test_a_restarted_follower_keeps_the_promise(self) -> None:
        """It forgot whom it follows, but votes for nobody within an election time."""
        cluster = self.leading()
        cluster["2"].crash()
        cluster.node("2").step(Message(Kind.VOTE, "3", "2", 2, 9, 9))
        self.assertEqual(cluster.node("2").vote, "1")
        for _ in range(20):
            cluster.node("2").tick()
        cluster.node("2").step(Message(Kind.VOTE, "3", "2", 2, 9, 9))
        self.assertEqual(cluster.node("2").vote, "3")

    def test_who_is_left_alone_keeps_the_promise(self) -> None:
        """1 takes itself out; 2 restarts with that in its log before 1 knows, and its own vote is a majority now."""
        cluster = Cluster(2, lease_reads=True, election_ticks=20)
        for server in cluster.servers.values():
            server.node._core.promised_ticks = 0
        cluster.elect("1")
        cluster.tick(4)
        joint = cluster.node("1").propose_members(MembersChange(remove={"1"}))
        cluster.lose = lambda message: message.kind == Kind.APPEND_ANSWER and message.index > joint
        cluster.settle()
        cluster["2"].crash()
        self.assertEqual((cluster.node("2").members.voters, cluster.node("2").members.outgoing), ({"2"}, frozenset()))
        cluster.isolate("2")
        for _ in range(40):
            cluster.node("2").campaign()
            cluster.settle()
            if cluster.node("2").role is Role.LEADER:
                break
            cluster.tick(1)
        cluster.node("2").propose([b"new"])
        cluster.settle()
        self.assertEqual((cluster["2"].applied, cluster.node("1").role), ([b"new"], Role.LEADER))
        cluster.node("1").read_index(5)
        cluster.collect()
        self.assertEqual(cluster["1"].reads, [])

    def test_who_was_always_alone_starts_at_once(self) -> None:
        """There is nobody whom it could have promised anything; a new address of its own changes nothing of that."""
        cluster = Cluster(1, lease_reads=True, election_ticks=20)
        cluster.elect("1")
        cluster.node("1").propose_members(MembersChange(add_voters={"1": "elsewhere:9878"}))
        cluster.settle()
        cluster["1"].crash()
        self.assertLess(cluster.node("1").commit, cluster.node("1").last_index)
        cluster.elect("1")

    def assert_keeps_the_promise(self, cluster: Cluster, vote: str) -> None:
        """2 hears of term 2 from somebody, and gives no vote in it, nor in term 3, before 20 ticks are over."""
        node = cluster.node("2")
        node.step(Message(Kind.VOTE, "3", "2", 2, 9, 9))
        self.assertEqual((node.term, node.vote), (1, vote))
        node.step(Message(Kind.PRE_VOTE_ANSWER, "3", "2", 2, reject=True))
        self.assertEqual((node.term, node.leader_id), (2, ""))
        cluster.collect()
        cluster.wire.clear()
        for tick in range(20):
            for term in (2, 3):
                node.step(Message(Kind.VOTE, "3", "2", term, 9, 9))
                node.step(Message(Kind.PRE_VOTE, "3", "2", term, 9, 9))
                self.assertEqual((node.term, node.vote), (2, ""), tick)
            cluster.collect()
            self.assertEqual([(each.kind, each.reject) for each in cluster.wire], [(Kind.PRE_VOTE_ANSWER, True)] * 2)
            cluster.wire.clear()
            node.tick()
        node.step(Message(Kind.VOTE, "3", "2", 2, 9, 9))
        self.assertEqual(node.vote, "3")

    def test_a_promise_outlives_the_term(self) -> None:
        """Whatever else becomes known meanwhile: the leader does not know that term, and its lease runs on."""
        self.assert_keeps_the_promise(self.leading(), "1")

    def test_the_promise_that_may_be_forgotten_does_too(self) -> None:
        """After a restart."""
        cluster = self.leading()
        cluster["2"].crash()
        self.assert_keeps_the_promise(cluster, "1")

    def test_a_promise_does_not_hold_against_an_order(self) -> None:
        """The leader itself wants a successor: that ended its leases."""
        cluster = self.leading()
        cluster.node("2").step(Message(Kind.PRE_VOTE_ANSWER, "3", "2", 2, reject=True))
        cluster.node("2").step(Message(Kind.VOTE, "3", "2", 2, 9, 9, context=FORCED))
        self.assertEqual(cluster.node("2").vote, "3")

    def test_no_lease_from_shorter_promises(self) -> None:
        """The leader's election timeout is longer than the others': they elect before its lease would end."""
        cluster = Cluster(3, lease_reads=True, election_ticks=20)
        cluster["1"].settings["election_ticks"] = 60
        cluster["1"].restart()
        for server in cluster.servers.values():
            server.node._core.promised_ticks = 0
        cluster.elect("1")
        cluster.tick(4)
        cluster.isolate("1")
        for _ in range(60):
            cluster.tick(1)
            if cluster.leader() != "1":
                break
        new = cluster.leader()
        self.assertIn(new, ("2", "3"))
        cluster.node(new).propose([b"new"])
        cluster.settle()
        self.assertEqual((cluster[new].applied, cluster.node("1").role), ([b"new"], Role.LEADER))
        cluster.node("1").read_index(5)
        cluster.collect()
        self.assertEqual(cluster["1"].reads, [])

    def test_a_lease_from_longer_promises(self) -> None:
        """It is as long as the leader's own election timeout allows."""
        cluster = Cluster(3, lease_reads=True, election_ticks=60, heartbeat_ticks=2)
        cluster["1"].settings["election_ticks"] = 20
        cluster["1"].restart()
        for server in cluster.servers.values():
            server.node._core.promised_ticks = 0
        cluster.elect("1")
        cluster.tick(4)
        core, reads = cluster.node("1")._core, cluster.node("1")._elections.leadership._reads
        self.assertEqual(reads.lease_until - core.clock, 16)

    def test_an_old_promise_is_none_for_a_newer_round(self) -> None:
        """It arrives after an answer without one: the follower started anew meanwhile, without the key."""
        cluster = self.leading()
        cluster.isolate("1")
        cluster.tick(8, "1")
        node, leadership = cluster.node("1"), cluster.node("1")._elections.leadership
        newest = leadership._reads.round
        for context, promised in ((newest, 0), (newest - 3, 20)):
            node.step(Message(Kind.HEART_BEAT_ANSWER, "2", "1", 1, 2, promised, hint_index=2, context=context))
        self.assertEqual(leadership.peers["2"].promised_round, newest - 3)
        node.step(Message(Kind.HEART_BEAT_ANSWER, "2", "1", 1, 2, 20, hint_index=2, context=newest - 5))
        self.assertEqual(leadership.peers["2"].promised_round, newest - 3)


class LeaderReadsTests(unittest.SynchronousTestCase):
    """The table by itself."""

    def test_a_round_under_way_does_not_count(self) -> None:
        """A read asked after a round was sent needs the next one."""
        reads = LeaderReads()
        reads.ask("", 1, 10)
        self.assertEqual(reads.begin_round(0), 1)
        reads.ask("", 2, 11)
        self.assertEqual([each.context for each in reads.confirm(1)], [1])
        self.assertTrue(reads.unsent)
        self.assertEqual(reads.begin_round(0), 2)
        self.assertEqual(reads.confirm(1), [])
        self.assertEqual([each.context for each in reads.confirm(2)], [2])
        self.assertEqual(len(reads), 0)
