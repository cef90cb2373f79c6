"""Replication and commit: conflicts, windows, losses, and what counts as committed."""

from __future__ import annotations

from twisted.trial import unittest

from rocketha.errors import InvariantBroken
from rocketha.raft.config import Role
from rocketha.raft.errors import Busy, NotLeader
from rocketha.raft.messages import Entry, EntryKind, HardState, Kind, Members, Message
from tests.raft.cluster import Cluster, Server, group


def entries(*terms: int, after: int = 0) -> tuple[Entry, ...]:
    """Entries of these terms from ``after`` + 1 on."""
    return tuple(Entry(after + 1 + each, term, EntryKind.NORMAL, b"%d" % term) for each, term in enumerate(terms))


class CommitTests(unittest.SynchronousTestCase):
    """What counts as committed."""

    def test_a14_figure_8(self) -> None:
        """A14: an entry of an older term that a majority has is not committed; a later leader may replace it."""
        large = b"x" * 5000  # larger than what a COMPARE carries: it travels without the NO_OP after it
        cluster = Cluster(5, pre_vote=False, check_quorum=False, max_entries_bytes_per_message=100)
        cluster.elect("1")
        cluster.isolate("1", "2")  # (a) only 2 gets x
        cluster.node("1").propose([large])
        cluster.settle()
        cluster["1"].crash()  # (b) 5 leads in term 2, and nobody gets its entry
        cluster.lose = lambda message: message.kind == Kind.APPEND
        cluster.elect("5")
        cluster.heal()
        cluster.isolate("5")  # (c) 1 leads in term 3; x gets to 3, its NO_OP does not, 4 gets nothing
        cluster.lose = lambda message: (
            message.kind == Kind.APPEND
            and (message.to == "4" or (message.to == "3" and cluster.node("3").last_index == 2))
        )
        cluster.node("1").campaign()
        cluster.settle()
        cluster.elect("1")
        matches = {each: status.match for each, status in cluster.node("1").status().peers.items()}
        self.assertEqual((cluster.node("1").term, matches), (3, {"2": 3, "3": 2, "4": 0, "5": 0}))
        self.assertLess(cluster.node("1").commit, 2)
        cluster["1"].crash()  # (d) 5 is elected by 3 and 4, and replaces x
        cluster["5"].crash()
        cluster.lose = lambda message: False
        cluster.heal()
        cluster.isolate("1", "2")
        cluster.node("5").campaign()
        cluster.settle()
        cluster.elect("5")
        cluster.heal()
        cluster.tick(5)
        self.assertEqual([each.applied for each in cluster.servers.values()], [[]] * 5)
        self.assertEqual({each.node.commit for each in cluster.servers.values()}, {3})

    def test_a14_counting_is_for_the_own_term(self) -> None:
        """A14: the rule itself: a majority's match at an entry of an older term commits nothing, of this term all."""
        server = Server("1", group(5), lazy=False)
        server.storage.save(HardState(2, "", 0), entries(1, 2))
        server.storage.sync()
        server.restart()
        server.node.campaign()
        server.turn()
        server.node.step(Message(Kind.PRE_VOTE_ANSWER, "2", "1", 3))
        server.node.step(Message(Kind.PRE_VOTE_ANSWER, "3", "1", 3))
        server.turn()
        for voter in ("2", "3"):
            server.node.step(Message(Kind.VOTE_ANSWER, voter, "1", 3))
        server.turn()
        self.assertEqual((server.node.role, server.node.term, server.node.last_index), (Role.LEADER, 3, 3))
        for follower in ("2", "3", "4"):
            server.node.step(Message(Kind.APPEND_ANSWER, follower, "1", 3, index=2, hint_index=2))
        self.assertEqual(server.node.commit, 0)
        for follower in ("2", "3"):
            server.node.step(Message(Kind.APPEND_ANSWER, follower, "1", 3, index=3, hint_index=3))
        self.assertEqual(server.node.commit, 3)

    def test_a16_the_own_copy_counts_when_synced(self) -> None:
        """A16: with one follower's answer an entry is committed only once the leader has synced it too."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.isolate("3")
        cluster["1"].lazy = True
        cluster.node("1").propose([b"a"])
        cluster.settle()
        self.assertEqual(cluster.node("1").status().peers["2"].match, 2)
        self.assertEqual(cluster.node("1").commit, 1)
        cluster["1"].sync()
        self.assertEqual(cluster.node("1").commit, 2)

    def test_a16_a_follower_answers_when_synced(self) -> None:
        """A16: also an empty APPEND while a sync is under way does not make it promise more than is synced."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster["2"].lazy = True
        cluster.isolate("3")
        cluster.node("1").propose([b"a", b"b"])
        cluster.settle()
        node = cluster.node("2")
        node.step(Message(Kind.APPEND, "1", "2", 1, 3, 1))
        node.step(Message(Kind.HEART_BEAT, "1", "2", 1, context=1))
        cluster.settle()
        self.assertEqual(node.last_index, 3)
        self.assertEqual(cluster.node("1").status().peers["2"].match, 1)
        cluster["2"].sync()
        cluster.settle()
        self.assertEqual(cluster.node("1").status().peers["2"].match, 3)
        self.assertEqual(cluster.node("1").commit, 3)

    def test_a16_applied_only_what_is_synced_here(self) -> None:
        """A16: the state machine never runs ahead of the own disk, although the others have committed."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster["1"].lazy = True
        cluster.node("1").propose([b"a"])
        cluster.settle()
        self.assertEqual((cluster.node("1").commit, cluster.node("1").applied), (2, 1))
        cluster["1"].sync()
        cluster.settle()
        self.assertEqual(cluster["1"].applied, [b"a"])

    def test_a_sync_of_replaced_entries_says_nothing(self) -> None:
        """What was cut while its sync was under way does not make its successor of like index, or itself, durable."""
        server = Server("2", group(3), lazy=True)
        node = server.node
        node.step(Message(Kind.APPEND, "1", "2", 1, entries=entries(1, 1)))
        server.turn()
        node.step(Message(Kind.APPEND, "3", "2", 2, entries=entries(2, 2)))
        server.turn()
        node.persisted(2, 1)
        self.assertEqual(node.status().persisted, 0)
        node.step(Message(Kind.APPEND, "1", "2", 3, entries=(*entries(1, 1), *entries(3, after=2))))
        server.turn()
        node.persisted(2, 1)  # of which (2, 1)?  The first one's is all that can be done by now.
        self.assertEqual(node.status().persisted, 0)
        node.persisted(3, 3)
        self.assertEqual(node.status().persisted, 3)

    def test_d8_old_entries_are_committed_without_traffic(self) -> None:
        """D8: a new leader commits what it found within a round trip of its election, by its NO_OP."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("1").propose([b"a"])
        cluster.collect()
        cluster.deliver()  # the followers have it, 1 does not know
        cluster.wire.clear()
        cluster.isolate("1")
        cluster.tick(10, "2", "3")
        cluster.settle()
        leader = cluster.leader() if cluster.leader() != "1" else ""
        if not leader:
            cluster.elect("2")
            leader = "2"
        self.assertEqual(cluster[leader].applied, [b"a"])

    def test_committed_entries_are_told_at_once(self) -> None:
        """Followers learn a commit without waiting for the next entry or heartbeat, and do not answer that."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("1").propose([b"a"])
        kinds = []
        for _ in range(5):
            cluster.collect()
            kinds.append(sorted(Kind(each.kind).name for each in cluster.wire))
            cluster.deliver()
        self.assertEqual(cluster["3"].applied, [b"a"])
        self.assertEqual(kinds, [["APPEND"] * 2, ["APPEND_ANSWER"] * 2, ["APPEND"] * 2, [], []])

    def test_a_commit_index_from_beyond_is_not_believed(self) -> None:
        """A follower commits only what it knows to be its leader's: not its own tail of an older term."""
        server = Server("2", group(3))
        server.storage.save(HardState(2, "", 0), entries(1, 2, 2))
        server.storage.sync()
        server.restart()
        server.node.step(Message(Kind.HEART_BEAT, "1", "2", 3, commit=3))
        server.node.step(Message(Kind.APPEND, "1", "2", 3, 0, 0, 3, context=1))
        self.assertEqual(server.node.commit, 0)
        server.node.step(Message(Kind.APPEND, "1", "2", 3, 1, 1, 3))
        self.assertEqual(server.node.commit, 1)
        server.node.step(Message(Kind.APPEND, "1", "2", 3, 1, 1, 3, entries=entries(3, after=1)))
        self.assertEqual(server.node.commit, 2)

    def test_what_matched_an_older_leader_says_nothing(self) -> None:
        """A new leader's question about entry 1 is answered for entry 1, not for the tail of the old leader's."""
        server = Server("2", group(3))
        server.node.step(Message(Kind.APPEND, "1", "2", 1, entries=entries(1, 1, 1)))
        server.turn()
        server.outbox.clear()
        server.node.step(Message(Kind.APPEND, "3", "2", 2, 1, 1))
        server.turn()
        self.assertEqual([(each.index, each.hint_index, each.reject) for each in server.outbox], [(1, 3, False)])

    def test_committed_entries_are_never_cut(self) -> None:
        """A leader that contradicts what is committed here breaks an invariant: the process is to end, not the data."""
        server = Server("2", group(3))
        server.node.step(Message(Kind.APPEND, "1", "2", 1, commit=2, entries=entries(1, 1)))
        server.turn()
        other = Message(Kind.APPEND, "3", "2", 2, entries=entries(2, 2, 2))
        self.assertRaises(InvariantBroken, server.node.step, other)
        other = Message(Kind.APPEND, "3", "2", 2, 1, 1, entries=entries(2, 2, after=1))
        self.assertRaises(InvariantBroken, server.node.step, other)


class ConflictTests(unittest.SynchronousTestCase):
    """Logs that differ become equal."""

    def joined(self, leader: tuple[int, ...], follower: tuple[int, ...]) -> int:
        """Two logs by terms: rounds of the leader's questions until the follower's equals it."""
        cluster = Cluster(3)
        term = max(*leader, *follower, 0) + 1
        for name, terms in (("1", leader), ("2", leader), ("3", follower)):
            cluster[name].storage.save(HardState(term, "", 0), entries(*terms))
            cluster[name].storage.sync()
            cluster[name].restart()
        cluster.isolate("3")
        cluster.elect("1")
        cluster.heal()
        cluster.tick(1, "1")
        refused = 0
        for _ in range(50):
            cluster.collect()
            refused += sum(each.kind == Kind.APPEND_ANSWER and each.reject for each in cluster.wire)
            if not cluster.deliver():
                break
        one, three = cluster["1"].storage, cluster["3"].storage
        last = one.last_index()
        self.assertEqual(three.entries(1, three.last_index() + 1, 1 << 20), one.entries(1, last + 1, 1 << 20))
        self.assertEqual(cluster.node("3").commit, last)
        return refused

    def test_figure_7(self) -> None:
        """The paper's figure 7: every follower there, and one that is empty, ends with the leader's log."""
        leader = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)
        for follower in (
            (1, 1, 1, 4, 4, 5, 5, 6, 6),
            (1, 1, 1, 4),
            (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
            (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
            (1, 1, 1, 4, 4, 4, 4),
            (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
            (),
        ):
            with self.subTest(str(follower)):
                self.assertLessEqual(self.joined(leader, follower), 4)

    def test_c11_long_tails_take_few_questions(self) -> None:
        """C11: a question a term, not one an entry, whoever's log is longer."""
        self.assertLessEqual(self.joined((1,) + (4,) * 300, (1,) + (2,) * 500), 3)
        self.assertLessEqual(self.joined((1,) + (4,) * 500, (1,) + (3,) * 20 + (2,) * 0), 3)
        self.assertLessEqual(self.joined((1,) * 200 + (3,) * 200, (1,) * 100 + (2,) * 300), 3)

    def test_c12_marks_follow_a_cut(self) -> None:
        """C12: what was saved, synced and last is clamped with the cut; the node can lead and commit afterwards."""
        cluster = Cluster(3)
        cluster["3"].storage.save(HardState(2, "", 0), entries(*[2] * 50))
        cluster["3"].storage.sync()
        cluster["3"].restart()
        cluster["1"].storage.save(HardState(4, "", 0), entries(3))
        cluster["1"].restart()
        cluster["1"].storage.sync()
        cluster.elect("1")
        self.assertEqual(cluster.node("3").last_index, cluster.node("1").last_index)
        status = cluster.node("3").status()
        self.assertEqual((status.persisted, status.last_index), (2, 2))
        cluster.node("1").transfer("3")
        cluster.settle()
        cluster.node("3").propose([b"a"])
        cluster.settle()
        self.assertEqual(cluster["2"].applied[-1], b"a")

    def test_a_longer_log_is_not_cut(self) -> None:
        """An APPEND that was delayed does not cut what came after it: only a conflict cuts."""
        server = Server("2", group(3))
        server.node.step(Message(Kind.APPEND, "1", "2", 1, entries=entries(1, 1, 1)))
        server.turn()
        server.node.step(Message(Kind.APPEND, "1", "2", 1, entries=entries(1)))
        server.node.step(Message(Kind.APPEND, "1", "2", 1, 1, 1))
        server.turn()
        self.assertEqual(server.node.last_index, 3)

    def test_nonsense_is_dropped(self) -> None:
        """Entries with gaps, falling terms, a future term or an unreadable membership change nothing."""
        server = Server("2", group(3))
        server.node.step(Message(Kind.APPEND, "1", "2", 2, entries=entries(1, 1)))
        server.turn()
        server.outbox.clear()
        gap = (Entry(3, 2, 1, b""), Entry(5, 2, 1, b""))
        inner = (Entry(3, 2, 1, b""), Entry(9, 2, 1, b""), Entry(5, 2, 1, b""))
        falling = (Entry(3, 2, 1, b""), Entry(4, 1, 1, b""))
        old = (Entry(3, 0, 1, b""),)
        future = (Entry(3, 3, 1, b""),)
        members = (Entry(3, 2, EntryKind.MEMBERSHIP, b"?"),)
        for bad in (gap, inner, falling, old, future, members, entries(2, after=3)):
            server.node.step(Message(Kind.APPEND, "1", "2", 2, 2, 1, 2, entries=bad))
            self.assertEqual((server.node.last_index, server.node.commit), (2, 0), str(bad))


class FlowTests(unittest.SynchronousTestCase):
    """Windows, losses and limits."""

    def under_way(self, cluster: Cluster) -> list[int]:
        """Numbers of entries in the APPENDs to 2 that are under way."""
        cluster.collect()
        return [len(each.entries) for each in cluster.wire if each.kind == Kind.APPEND and each.to == "2"]

    def test_pipelining_and_the_window_of_messages(self) -> None:
        """Entries leave without waiting for answers, up to the window; answers open it again."""
        cluster = Cluster(3, max_inflight_messages=3, max_entries_bytes_per_message=10)
        cluster.elect("1")
        cluster.node("1").propose([b"12345"] * 10)
        self.assertEqual(self.under_way(cluster), [2, 2, 2])
        self.assertEqual(cluster.node("1").status().peers["2"].inflight_messages, 3)
        cluster.settle()
        self.assertEqual(len(cluster["2"].applied), 10)

    def test_the_window_of_bytes(self) -> None:
        """The same, by bytes."""
        cluster = Cluster(3, max_inflight_bytes=20, max_entries_bytes_per_message=10)
        cluster.elect("1")
        cluster.node("1").propose([b"12345"] * 10)
        self.assertEqual(self.under_way(cluster), [2, 2])
        cluster.settle()
        self.assertEqual(len(cluster["3"].applied), 10)

    def test_one_append_a_follower_and_turn(self) -> None:
        """All that was proposed in one turn leaves together, at most as much as a message may carry."""
        cluster = Cluster(3)
        cluster.elect("1")
        for _ in range(5):
            cluster.node("1").propose([b"x"] * 100)
        self.assertEqual(self.under_way(cluster), [500])

    def test_an_entry_larger_than_a_message_travels(self) -> None:
        """Alone."""
        cluster = Cluster(3, max_entries_bytes_per_message=10, max_inflight_bytes=10)
        cluster.elect("1")
        cluster.node("1").propose([b"x" * 100, b"y", b"z"])
        cluster.settle()
        self.assertEqual(cluster["2"].applied, [b"x" * 100, b"y", b"z"])

    def test_lost_appends_are_found_by_heartbeats(self) -> None:
        """The last one too, and with a full window; no new entry is needed."""
        for settings in ({}, {"max_inflight_messages": 1}, {"max_inflight_bytes": 1}):
            cluster = Cluster(3, **settings)
            cluster.elect("1")
            cluster.node("1").propose([b"a"])
            cluster.collect()
            cluster.wire.clear()
            cluster.node("1").propose([b"b"])
            cluster.collect()
            cluster.wire.clear()
            cluster.tick(3)
            self.assertEqual(cluster["2"].applied, [b"a", b"b"], str(settings))

    def test_lost_answers_are_repeated(self) -> None:
        """Only the answers were lost, with a full window."""
        for settings in ({}, {"max_inflight_messages": 1}, {"max_inflight_bytes": 1}):
            cluster = Cluster(3, **settings)
            cluster.elect("1")
            cluster.cut |= {("2", "1"), ("3", "1")}
            cluster.node("1").propose([b"a"])
            cluster.settle()
            cluster.heal()
            cluster.tick(2)
            self.assertEqual(cluster["1"].applied, [b"a"], str(settings))

    def test_a_broken_connection_is_no_reason_to_wait(self) -> None:
        """unreachable: entries that were under way are sent again with the next turn."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("1").propose([b"a"])
        cluster.collect()
        cluster.wire.clear()
        for each in ("2", "3"):
            cluster.node("1").unreachable(each)
        cluster.settle()
        self.assertEqual(cluster["2"].applied, [b"a"])

    def test_a_restarted_follower_learns_the_commit(self) -> None:
        """At rest, and although nobody said that its connection broke."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("1").propose([b"a"])
        cluster.settle()
        cluster["2"].storage.hard_state = cluster["2"].storage.hard_state._replace(commit=0)
        cluster["2"].restart()
        self.assertEqual(cluster.node("2").commit, 0)
        cluster.tick(2)
        self.assertEqual(cluster["2"].applied, [b"a"])

    def test_g5_a_wiped_follower_is_filled_again(self) -> None:
        """G5: an emptied learner at rest: heartbeats show that it lost what it had acknowledged."""
        cluster = Cluster(group(["1", "2"], ["3"]))
        cluster.elect("1")
        cluster.node("1").propose([b"a", b"b"])
        cluster.settle()
        cluster.servers["3"] = cluster.make("3", Members())
        cluster.tick(3)
        self.assertEqual(cluster["3"].applied, [b"a", b"b"])

    def test_uncommitted_bytes_and_entries_are_bounded(self) -> None:
        """propose refuses with Busy, and takes again once something is committed."""
        for settings in ({"max_uncommitted_bytes": 10}, {"max_uncommitted_entries": 2}):
            cluster = Cluster(3, **settings)
            cluster.elect("1")
            cluster.isolate("1")
            cluster.node("1").propose([b"12345"] * 2)
            self.assertRaises(Busy, cluster.node("1").propose, [b"123456"])
            cluster.heal()
            cluster.tick(2)
            self.assertEqual(list(cluster.node("1").propose([b"1" * 50])), [4])

    def test_only_a_leader_takes_entries(self) -> None:
        """The error names the leader."""
        cluster = Cluster(3)
        self.assertEqual(self.assertRaises(NotLeader, cluster.node("1").propose, [b"a"]).leader_id, "")
        cluster.elect("1")
        self.assertEqual(self.assertRaises(NotLeader, cluster.node("2").propose, [b"a"]).leader_id, "1")
        self.assertEqual(list(cluster.node("1").propose([])), [])

    def test_committed_entries_come_in_portions(self) -> None:
        """A Ready's committed entries are bounded by bytes, at least one."""
        cluster = Cluster(1, max_committed_bytes=10)
        sizes: list[int] = []
        cluster["1"].on_ready = lambda server, ready: sizes.append(len(ready.committed))
        cluster.elect("1")
        cluster.node("1").propose([b"12345"] * 5 + [b"x" * 99])
        cluster.settle()
        self.assertEqual([each for each in sizes if each][1:], [2, 2, 1, 1])

    def throttled(self) -> Cluster:
        """1 leads and has sent a burst to 2; 3 is cut off."""
        cluster = Cluster(3, push_quota=1)
        cluster.elect("1")
        cluster.isolate("3")
        cluster.node("1").propose([b"x" * 1000] * 3000)
        cluster.settle(1000)
        return cluster

    def test_no_quota_holds_back_what_all_wait_for(self) -> None:
        """A burst makes the only follower that answers one that is far behind."""
        cluster = self.throttled()
        self.assertEqual(cluster.node("1").commit, cluster.node("1").last_index)
        cluster.heal()
        cluster.tick(5)
        self.assertLess(cluster.node("3").last_index, 1000)

    def test_no_quota_holds_back_the_only_one_that_is_left(self) -> None:
        """It lagged when the other one died."""
        cluster = self.throttled()
        cluster.heal()
        cluster.isolate("2")
        for _ in range(40):
            for name in ("1", "3"):
                cluster.node(name).tick()
            cluster.settle(1000)
        cluster.node("1").propose([b"more"])
        cluster.settle(1000)
        self.assertEqual(cluster.node("3").last_index, cluster.node("1").last_index)
        self.assertEqual(cluster.node("1").commit, cluster.node("1").last_index)

    def test_bogus_answers_count_nothing(self) -> None:
        """An answer about entries that do not exist, or from a stranger."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.isolate("1")
        cluster.node("1").propose([b"a"])
        cluster.collect()
        for sender in ("2", "9"):
            cluster.node("1").step(Message(Kind.APPEND_ANSWER, sender, "1", 1, index=99, hint_index=99))
            cluster.node("1").step(Message(Kind.HEART_BEAT_ANSWER, sender, "1", 1, context=99))
        self.assertEqual(cluster.node("1").commit, 1)
        cluster.node("1").step(Message(Kind.APPEND_ANSWER, "9", "1", 1, index=2, hint_index=2))
        self.assertEqual(cluster.node("1").commit, 1)

    def test_the_commit_hint_is_saved_now_and_then(self) -> None:
        """Once an election time if it moved, without a sync; a restart begins there."""
        cluster = Cluster(3)
        cluster.elect("1")
        cluster.node("1").propose([b"a"])
        cluster.settle()
        cluster.tick(20)
        self.assertEqual(cluster["2"].storage.hard_state.commit, 2)
        cluster["2"].restart()
        cluster["2"].turn()
        self.assertEqual(cluster["2"].applied, [b"a"])
