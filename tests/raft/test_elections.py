"""Elections: votes, pre-votes, leader stickiness, check-quorum, and the election after a refused connection."""

from __future__ import annotations

import itertools

from twisted.trial import unittest

from rocketha.raft.config import RaftConfig, Role
from rocketha.raft.elections import HURRY_TICKS
from rocketha.raft.memory_storage import MemoryStorage
from rocketha.raft.messages import FORCED, Entry, EntryKind, HardState, Kind, Message
from rocketha.raft.node import RaftNode
from tests.raft.cluster import Cluster, Server, group


def vote(sender: str, to: str, term: int, index: int, log_term: int, kind: Kind = Kind.VOTE) -> Message:
    """A request for a vote."""
    return Message(kind, sender, to, term, index, log_term)


class VoteTests(unittest.SynchronousTestCase):
    """What a voter does (paper 5.2, 5.4.1)."""

    def voter(self, terms: tuple[int, ...] = (), term: int = 0) -> Server:
        """Node 2 of three with a log of these terms."""
        server = Server("2", group(3))
        entries = tuple(Entry(index + 1, each, EntryKind.NORMAL, b"x") for index, each in enumerate(terms))
        server.storage.save(HardState(term, "", 0), entries)
        server.storage.sync()
        server.restart()
        return server

    def answer(self, server: Server, message: Message) -> bool:
        """Whether it grants."""
        server.node.step(message)
        server.turn()
        answers = [each for each in server.outbox if each.kind in (Kind.VOTE_ANSWER, Kind.PRE_VOTE_ANSWER)]
        server.outbox.clear()
        self.assertEqual(len(answers), 1)
        return not answers[0].reject

    def test_one_vote_a_term(self) -> None:
        """Invariant 2: the same candidate may ask again, another one not; a new term is a new vote."""
        server = self.voter()
        self.assertTrue(self.answer(server, vote("1", "2", 1, 0, 0)))
        self.assertTrue(self.answer(server, vote("1", "2", 1, 0, 0)))
        self.assertFalse(self.answer(server, vote("3", "2", 1, 0, 0)))
        self.assertTrue(self.answer(server, vote("3", "2", 2, 0, 0)))

    def test_a15_the_vote_survives_a_crash(self) -> None:
        """A15: the vote is saved before it is given, so a restart does not vote again in that term."""
        server = self.voter()
        server.node.step(vote("1", "2", 1, 0, 0))
        ready = server.node.ready()
        self.assertEqual(ready.hard_state, HardState(1, "1", 0))
        self.assertTrue(ready.must_sync)
        self.assertEqual(ready.messages_now, ())
        self.assertEqual([each.kind for each in ready.messages_after_sync], [Kind.VOTE_ANSWER])
        server.carry_out(ready)
        server.crash()
        self.assertFalse(self.answer(server, vote("3", "2", 1, 0, 0)))
        self.assertTrue(self.answer(server, vote("1", "2", 1, 0, 0)))

    def test_nothing_is_said_in_a_term_before_it_is_saved(self) -> None:
        """A15: whatever goes out together with a new term waits for it to be on disk, a single voter's APPEND too."""
        server = Server("1", group(["1"], ["2"]))
        server.node.campaign()
        ready = server.node.ready()
        self.assertEqual(ready.hard_state, HardState(1, "1", 0))
        self.assertEqual(ready.messages_now, ())
        self.assertEqual([each.kind for each in ready.messages_after_sync], [Kind.APPEND])

    def test_a17_only_who_has_the_last_entries_is_elected(self) -> None:
        """A17: terms of the last entries are compared first, then their indexes; both from the log itself."""
        for terms, index, log_term, granted in (
            ((1, 1, 2), 3, 2, True),
            ((1, 1, 2), 4, 2, True),
            ((1, 1, 2), 2, 2, False),
            ((1, 1, 2), 9, 1, False),
            ((1, 1, 2), 1, 3, True),
            ((), 0, 0, True),
        ):
            with self.subTest(f"{terms} {index}/{log_term}"):
                server = self.voter(terms, term=3)
                self.assertEqual(self.answer(server, vote("1", "2", 4, index, log_term)), granted)
                server = self.voter(terms, term=3)
                self.assertEqual(self.answer(server, vote("1", "2", 4, index, log_term, Kind.PRE_VOTE)), granted)

    def test_a17_a_candidate_names_its_own_last_entry(self) -> None:
        """A17: also right after entries were cut and after a restart, never what was once there."""
        server = self.voter((1, 1, 2), term=2)
        entries = (Entry(3, 3, EntryKind.NO_OP, b""),)
        server.node.step(Message(Kind.APPEND, "1", "2", 3, 2, 1, entries=entries))
        server.turn()
        for restart in (False, True):
            if restart:
                server.restart()
            server.node.campaign()
            server.turn()
            asked = [each for each in server.outbox if each.kind == Kind.PRE_VOTE]
            self.assertEqual({(each.index, each.log_term) for each in asked}, {(3, 3)})

    def test_pre_votes_change_nothing(self) -> None:
        """A pre-vote neither raises the term nor is a vote."""
        server = self.voter()
        self.assertTrue(self.answer(server, vote("1", "2", 5, 0, 0, Kind.PRE_VOTE)))
        self.assertTrue(self.answer(server, vote("3", "2", 5, 0, 0, Kind.PRE_VOTE)))
        self.assertEqual((server.node.term, server.node.vote), (0, ""))

    def test_a_voter_with_an_empty_disk_is_cautious(self) -> None:
        """It acknowledged an entry, lost its disk, and is asked to elect a node that lacks the entry: it does not."""
        for cautious, elected in ((True, False), (False, True)):
            cluster = Cluster(3, cautious=cautious)
            cluster.elect("1")
            cluster.isolate("3")
            cluster.node("1").propose([b"a"])
            cluster.settle()
            self.assertEqual(cluster["2"].applied, [b"a"])
            cluster.isolate("1")
            cluster.servers["2"] = cluster.make("2", group(3))
            cluster.cut = {("1", each) for each in "23"} | {(each, "1") for each in "23"}
            cluster.tick(60, "2", "3")
            self.assertEqual(cluster.leader() in ("2", "3"), elected)
            if cautious:
                cluster.heal()
                cluster.tick(60)
                self.assertEqual([each.applied for each in cluster.servers.values()], [[b"a"]] * 3)
                cluster.isolate("1")  # filled again, it votes as before
                cluster.tick(60, "2", "3")
                self.assertIn(cluster.leader(), ("2", "3"))

    def test_two_empty_disks_elect_nobody(self) -> None:
        """They know that the third has entries: all three elect that one, and it alone."""
        for known in (True, False):
            cluster = Cluster(3)
            cluster.elect("3")
            cluster.node("3").propose([b"a"])
            cluster.settle()
            for name in "12":
                cluster.servers[name] = cluster.make(name, group(3))
                if known:
                    cluster.node(name).unsure = True  # their driver was told so by the third
            cluster.isolate("3")
            cluster.tick(100, "1", "2")
            self.assertEqual(cluster.leader() in ("1", "2"), not known)
            if known:
                cluster.heal()
                cluster.tick(100)
                self.assertEqual(cluster.leader(), "3")
                self.assertEqual([each.applied for each in cluster.servers.values()], [[b"a"]] * 3)

    def test_the_first_election_of_a_group(self) -> None:
        """Empty disks elect an empty disk.  If all crash when only one has an entry, all votes together elect it."""
        cluster = Cluster(3)
        cluster.lose = lambda message: message.kind == Kind.APPEND
        cluster.elect("1")
        for server in cluster.servers.values():
            server.crash()
        cluster.lose = lambda message: False
        self.assertEqual([each.node.last_index for each in cluster.servers.values()], [1, 0, 0])
        cluster.tick(60)
        self.assertNotEqual(cluster.leader(), "")
        self.assertGreater(cluster.node("3").applied, 0)

    def test_an_old_candidate_learns_the_term(self) -> None:
        """Votes and appends of an older term are answered with the newer one."""
        server = self.voter((), term=7)
        server.node.step(vote("1", "2", 3, 9, 9))
        server.node.step(Message(Kind.HEART_BEAT, "3", "2", 6))
        server.turn()
        self.assertEqual(
            [(each.kind, each.term, each.reject) for each in server.outbox],
            [(Kind.VOTE_ANSWER, 7, True), (Kind.APPEND_ANSWER, 7, True)],
        )

    def test_messages_for_others_are_dropped(self) -> None:
        """And those from itself, and those from nobody."""
        server = self.voter()
        for sender, to in (("1", "3"), ("2", "2"), ("", "2")):
            server.node.step(vote(sender, to, 9, 9, 9))
        self.assertEqual(server.node.term, 0)


class ElectionTests(unittest.SynchronousTestCase):
    """Groups that elect."""

    def test_first_election_by_the_timer(self) -> None:
        """Within two election times there is a leader, and the others know it."""
        cluster = Cluster(5, seed=3)
        cluster.tick(40)
        leader = cluster.leader()
        self.assertNotEqual(leader, "")
        self.assertEqual({each.node.leader_id for each in cluster.servers.values()}, {leader})
        self.assertEqual(sum(each.node.role is Role.LEADER for each in cluster.servers.values()), 1)

    def test_a_single_node_leads_itself(self) -> None:
        """Its entries are committed once they are synced, no sooner."""
        cluster = Cluster(1)
        cluster["1"].lazy = True
        cluster.node("1").campaign()
        cluster.settle()
        self.assertEqual(cluster.node("1").role, Role.LEADER)
        self.assertEqual(cluster.node("1").commit, 0)
        cluster["1"].sync()
        self.assertEqual(cluster.node("1").commit, 1)

    def test_d7_an_isolated_node_raises_no_term(self) -> None:
        """D7: pre-vote: cut off for a hundred election times it comes back with its old term, and the leader stays."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.isolate("3")
        cluster.tick(1000, "3")
        cluster.tick(20, "1", "2")
        cluster.heal()
        cluster.tick(30)
        self.assertEqual([each.node.term for each in cluster.servers.values()], [1, 1, 1])
        self.assertEqual(cluster.leader(), "1")

    def test_d7_one_way_isolation(self) -> None:
        """D7: a node that hears nobody, but is heard, does not depose the leader."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.cut |= {("1", "3"), ("2", "3")}
        cluster.tick(100)
        self.assertEqual(cluster.leader(), "1")
        self.assertEqual(cluster.node("1").term, 1)

    def test_b3_a_bridge_changes_no_leader(self) -> None:
        """B3: a follower cut from the leader only: the leader stays while a majority hears it, with or without it."""
        for pre_vote in (True, False):
            cluster = Cluster(3, pre_vote=pre_vote)
            cluster.elect("1")
            cluster.cut |= {("1", "3"), ("3", "1")}
            cluster.tick(100)
            self.assertEqual(cluster.leader(), "1")
            self.assertEqual(cluster.node("2").term, 1)

    def test_loyalty_ends_with_the_leader(self) -> None:
        """Votes are refused while the leader was heard within an election time, given afterwards."""
        cluster = Cluster(3, pre_vote=False)
        cluster.elect("1")
        cluster.tick(1)
        cluster.node("2").step(vote("3", "2", 2, 9, 9))
        self.assertEqual(cluster.node("2").term, 1)
        for _ in range(10):
            cluster.node("2").tick()
        cluster.node("2").step(vote("3", "2", 2, 9, 9))
        self.assertEqual((cluster.node("2").term, cluster.node("2").vote), (2, "3"))

    def test_a_leader_is_loyal_to_itself(self) -> None:
        """A vote of a newer term does not depose a leader that hears its majority; one that it asked for does."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("1").step(vote("3", "1", 2, 9, 9))
        self.assertEqual((cluster.node("1").role, cluster.node("1").term), (Role.LEADER, 1))
        cluster.node("1").step(vote("3", "1", 2, 9, 9)._replace(context=FORCED))
        self.assertEqual((cluster.node("1").role, cluster.node("1").vote), (Role.FOLLOWER, "3"))

    def test_check_quorum(self) -> None:
        """A leader without a majority's answers steps down within two election times; without the check it stays."""
        for check, role in ((True, Role.FOLLOWER), (False, Role.LEADER)):
            cluster = Cluster(3, check_quorum=check)
            cluster.elect("1")
            cluster.isolate("1")
            cluster.tick(20, "1")
            self.assertEqual(cluster.node("1").role, role)

    def test_check_quorum_keeps_a_leader_that_is_heard(self) -> None:
        """One answer of two is a majority of three."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.isolate("3")
        cluster.tick(100, "1", "2")
        self.assertEqual(cluster.leader(), "1")

    def test_a_stale_leader_gives_way(self) -> None:
        """A leader that was cut off follows as soon as it hears of the newer term, also from a mere answer."""
        cluster = Cluster(3, check_quorum=False)
        cluster.elect("1")
        cluster.isolate("1")
        cluster.elect("2")
        cluster.cut = {("2", "1")}
        cluster.tick(1, "1")
        self.assertEqual(cluster.node("1").role, Role.FOLLOWER)
        self.assertEqual(cluster.node("1").term, cluster.node("2").term)


class SplitTests(unittest.SynchronousTestCase):
    """Two that stand in one term."""

    def split(self, count: int = 3, **settings: object) -> Cluster:
        """A group whose leader 1 is silent, and whose others have just asked one another for votes, all at once."""
        cluster = Cluster(count, **settings)
        cluster.elect("1")
        cluster.tick(1)
        cluster.isolate("1")
        others = [each for each in cluster.servers if each != "1"]
        for each in others:
            for _ in range(20):
                cluster.node(each)._core.promised_ticks = 0
                cluster.node(each)._elections.elapsed += 1
        for each in others:
            cluster.node(each).campaign()
        cluster.settle()
        return cluster

    def test_the_next_election_is_soon(self) -> None:
        """A quarter of a second later, not 1 to 2 s; the one whose turn it is first wins."""
        for count in (3, 5):
            for seed in range(20):
                cluster = self.split(count, seed=seed)
                others = [each for each in cluster.servers if each != "1"]
                terms = {cluster.node(each).term for each in others}
                self.assertEqual((cluster.leader(), terms), ("1", {2}), "they are no split")
                cluster.tick(2 * HURRY_TICKS + 1, *others)
                self.assertEqual(cluster.leader(), "2")

    def test_without_pre_votes_they_wait(self) -> None:
        """Members in Java's protocol: one who cannot win would raise the term again and again."""
        cluster = self.split(pre_vote=False)
        cluster.tick(3 * HURRY_TICKS, "2", "3")
        self.assertEqual({cluster.node(each).role for each in "23"}, {Role.CANDIDATE})

    def test_who_cannot_win_lets_the_winner_be(self) -> None:
        """One that was refused since another won hears of that, or its pre-vote is refused; the term stays."""
        cluster = Cluster(5)
        cluster.elect("1")
        cluster.tick(1)
        cluster.isolate("1")
        for each in "2345":
            cluster.node(each)._elections.elapsed += 20
            cluster.node(each)._core.promised_ticks = 0
        cluster.node("5").campaign()
        cluster.settle()
        self.assertEqual(cluster.leader(), "5")
        term = cluster.node("5").term
        late = Message(Kind.VOTE_ANSWER, "3", "2", term, reject=True)
        cluster.node("2")._core.role = Role.CANDIDATE
        cluster.node("2").step(late)
        cluster.cut = {("5", "2")}
        cluster.tick(15, "2", "3", "4", "5")
        self.assertEqual((cluster.leader(), {cluster.node(each).term for each in "2345"}), ("5", {term}))


class RefusedTests(unittest.SynchronousTestCase):
    """The leader's port refuses connections: its process is gone."""

    def gone(self, **settings: object) -> Cluster:
        """Three nodes whose leader 1 has just died."""
        cluster = Cluster(3, **settings)
        for server in cluster.servers.values():
            server.node._core.promised_ticks = 0
        cluster.elect("1")
        cluster.tick(1)
        cluster.isolate("1")
        return cluster

    def test_followers_campaign_one_after_the_other(self) -> None:
        """10 to 50 ms, in the order of their ids; the second finds a leader and lets it be."""
        cluster = self.gone()
        delays = [cluster.node(each).peer_refused("1") for each in ("2", "3")]
        self.assertTrue(10 <= delays[0] < 20 <= 40 <= delays[1] < 50, str(delays))
        cluster.node("2").campaign_if_leader_gone()
        cluster.settle()
        self.assertEqual(cluster.leader(), "2")
        cluster.node("3").campaign_if_leader_gone()
        cluster.settle()
        self.assertEqual((cluster.leader(), cluster.node("2").term), ("2", 2))

    def test_one_follower_alone_is_not_enough(self) -> None:
        """While the other one hears the leader it sticks to it: a wrong refusal does no harm."""
        cluster = self.gone()
        cluster.node("2").peer_refused("1")
        cluster.node("2").campaign_if_leader_gone()
        cluster.settle()
        self.assertEqual((cluster.leader(), cluster.node("2").term), ("1", 1))
        cluster.node("3").peer_refused("1")  # now it learns it too: the next try, a few ticks later, succeeds
        cluster.tick(6, "2", "3")
        self.assertNotEqual(cluster.leader(), "1")

    def test_ticks_do_it_if_the_driver_does_not(self) -> None:
        """The election timer was shortened as well."""
        cluster = self.gone()
        for each in ("2", "3"):
            cluster.node(each).peer_refused("1")
        cluster.tick(4, "2", "3")
        self.assertIn(cluster.leader(), ("2", "3"))

    def test_votes_that_take_longer(self) -> None:
        """Each term tried is given twice the time of the one before; else slow answers were never waited for.

        Votes are lost here, so every term is. At 20 ticks the hurry is over, with three or four terms tried of ten.
        """
        cluster = self.gone(election_ticks=20)
        for each in ("2", "3"):
            cluster.node(each).peer_refused("1")
        cluster.lose = lambda message: message.kind == Kind.VOTE_ANSWER
        tried = []
        for passed in range(1, 21):
            before = cluster.node("2").term
            cluster.tick(1, "2")
            if cluster.node("2").term > before:
                tried.append(passed)
        self.assertIn(len(tried), (3, 4), str(tried))
        waited = [later - sooner for sooner, later in itertools.pairwise(tried)]
        self.assertEqual(waited, sorted(waited))
        self.assertGreaterEqual(waited[-1], 3 * waited[0])

    def test_a_leader_that_is_heard_again_is_back(self) -> None:
        """A restart so quick that nobody campaigned."""
        cluster = self.gone()
        cluster.node("2").peer_refused("1")
        cluster.heal()
        cluster.tick(1, "1")
        cluster.node("2").campaign_if_leader_gone()
        self.assertEqual(cluster.node("2").role, Role.FOLLOWER)

    def test_others_are_nobodys_business(self) -> None:
        """A follower's refusal of a follower means nothing."""
        cluster = self.gone()
        self.assertEqual(cluster.node("2").peer_refused("3"), 0)
        self.assertEqual(cluster.node("2").peer_refused(""), 0)

    def test_leases_outlive_it(self) -> None:
        """With lease reads a vote within the lease would make a read stale: then the timer decides."""
        cluster = self.gone(lease_reads=True)
        self.assertEqual(cluster.node("2").peer_refused("1"), 0)
        cluster.node("2").campaign_if_leader_gone()
        self.assertEqual(cluster.node("2").role, Role.FOLLOWER)


class ReachedTests(unittest.SynchronousTestCase):
    """A voter that could not be reached when it was asked, as one that was just starting, can be now."""

    def alone(self) -> Cluster:
        """Node 2 of three asks in vain: nobody is there."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.isolate("1")
        cluster.isolate("2")
        return cluster

    def test_it_is_asked_again(self) -> None:
        """Whether it would give its vote, and for it: no tick passes."""
        cluster = self.alone()
        cluster.node("3")._elections.become_follower(1, "")  # a new process knows no leader
        cluster.node("2").campaign()
        cluster.settle()
        self.assertEqual((cluster.node("2").role, cluster.node("2").term), (Role.PRE_CANDIDATE, 1))
        cluster.cut -= {("2", "3"), ("3", "2")}
        cluster.lose = lambda message: message.kind == Kind.VOTE
        cluster.node("2").peer_reached("3")
        cluster.settle()
        self.assertEqual((cluster.node("2").role, cluster.node("2").term), (Role.CANDIDATE, 2))
        cluster.lose = lambda message: False
        cluster.node("2").peer_reached("3")
        cluster.settle()
        self.assertEqual((cluster.leader(), cluster.node("2").term), ("2", 2))

    def test_without_the_leaders_order(self) -> None:
        """Whom the leader ordered to succeed it does not say so again: by now the order may have been given up."""
        cluster = self.alone()
        cluster.cut.discard(("1", "2"))
        cluster.node("1").transfer("2")
        cluster.settle()
        self.assertEqual(cluster.node("2").role, Role.CANDIDATE)
        cluster.cut -= {("2", "3"), ("3", "2")}
        cluster.node("2").peer_reached("3")
        cluster.settle()
        self.assertEqual((cluster.node("3").leader_id, cluster.node("3").term), ("1", 1))
        cluster.node("3")._elections.elapsed = 20  # it does not stick to its leader any more
        cluster.node("2").peer_reached("3")
        cluster.settle()
        self.assertEqual(cluster.node("2").role, Role.LEADER)

    def test_only_for_a_vote(self) -> None:
        """Who does not stand, and who has no vote, say and hear nothing."""
        cluster = Cluster(group(3, ("4",)))
        cluster.elect("1")
        for each, other in (("1", "2"), ("2", "3"), ("4", "1")):
            cluster.node(each).peer_reached(other)
            self.assertFalse(cluster.node(each).has_ready())
        cluster.isolate("2")
        cluster.node("2").campaign()
        cluster.settle()
        cluster.node("2").peer_reached("4")
        self.assertFalse(cluster.node("2").has_ready())


class ConfigTests(unittest.SynchronousTestCase):
    """What cannot work is refused at once."""

    def test_refused(self) -> None:
        """No id, a heartbeat as rare as elections, leases that nothing keeps."""
        for settings in (
            {"id": ""},
            {"heartbeat_ticks": 20},
            {"heartbeat_ticks": 0},
            {"lease_reads": True, "check_quorum": False},
        ):
            with self.subTest(str(settings)):
                self.assertRaises(ValueError, RaftConfig, **{"id": "1", **settings})

    def test_a_node_outside_the_group_is_silent(self) -> None:
        """It never stands for election."""
        server = Server("9", group(3))
        for _ in range(100):
            server.node.tick()
        server.node.campaign()
        server.turn()
        self.assertEqual((server.node.role, server.outbox), (Role.LEARNER, []))

    def test_randomness_is_injected(self) -> None:
        """The same seed, the same timers; another, others."""

        def timers(seed: int) -> list[int]:
            servers = [Server("1", group(3), seed) for _ in range(2)]
            return [each.node._elections.timeout for each in servers]

        found = [timers(seed) for seed in range(20)]
        self.assertTrue(all(a == b for a, b in found))
        self.assertGreater(len({a for a, _ in found}), 5)
        self.assertIsInstance(
            RaftNode(RaftConfig("1"), MemoryStorage(group(3)), Server("1", group(3)).random), RaftNode
        )
