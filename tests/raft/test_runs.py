"""Entries that stand for several: the log against a plain list of single ones, and what a leader stores itself."""

from __future__ import annotations

import random

from twisted.trial import unittest

from rocketha.errors import InvariantBroken
from rocketha.raft.errors import Busy, NotLeader
from rocketha.raft.log import Log, in_order
from rocketha.raft.messages import Entry, EntryKind, Kind, Members, Message
from tests.raft.cluster import Cluster, Server
from tests.raft.runs import RunServer, RunStorage, compact_some, joined, runs, save_some, singles


def lines(first: int, *terms: int) -> list[Entry]:
    """Single entries from ``first`` on."""
    return [
        Entry(first + at, term, EntryKind.NORMAL, b"%d\n" % ((first + at) * 7 + term)) for at, term in enumerate(terms)
    ]


class LogTests(unittest.SynchronousTestCase):
    """As tests/raft/test_log.py has it for single entries."""

    def test_like_a_list(self) -> None:
        """Random appends, merges that overlap, cuts, saves, commits, compactions; everything is split somewhere."""
        for seed in range(150):
            self.one(seed)

    def one(self, seed: int) -> None:
        chance = random.Random(seed)
        storage = RunStorage(Members(), random.Random(seed + 1))
        log = Log(storage, 0, chance.choice([0, 2, 100]), chance.choice([0, 5, 1000]))
        model: list[Entry] = []
        term = 1
        for step in range(120):
            what = chance.randrange(9)
            if what <= 1:
                fresh = lines(len(model) + 1, *[term] * chance.randint(1, 9))
                log.append(runs(fresh, chance))
                model += fresh
            elif what == 2 and log.commit < len(model):
                term += 1
                cut = chance.randint(log.commit + 1, len(model))
                fresh = lines(cut, *[term] * chance.randint(1, 6))
                since = chance.randint(log.commit, cut - 1)
                self.assertEqual(log.merge(runs([*model[since : cut - 1], *fresh], chance)), cut, f"{seed} {step}")
                model[cut - 1 :] = fresh
            elif what == 7 and log.commit < len(model) and model[-1].term > 1:  # an older term goes on over a newer one
                cut = next(at for at, each in enumerate(model) if each.term == model[-1].term) + 1
                if cut <= max(log.commit, 1) or model[cut - 2].term == model[-1].term:
                    continue
                since = chance.randint(min(log.commit, cut - 2), cut - 2)
                fresh = lines(cut, *[model[cut - 2].term] * chance.randint(1, 6))
                self.assertEqual(log.merge(runs([*model[since : cut - 1], *fresh], chance)), cut, f"{seed} {step}")
                model[cut - 1 :] = fresh
            elif what == 3 and model:  # what is here, and more
                since = chance.randint(min(log.commit, len(model) - 1), len(model) - 1)
                fresh = lines(len(model) + 1, *[model[-1].term] * chance.randint(0, 4))
                self.assertEqual(log.merge(runs([*model[since:], *fresh], chance)), 0)
                model += fresh
            elif what == 4:
                save_some(log, storage, chance)
            elif what == 5:
                log.commit_to(chance.randint(0, len(model) + 2))
            elif what == 6:
                taken = log.take_committed(chance.choice([1, 9, 100]))
                if taken:
                    self.assertEqual(list(singles(taken)), model[taken[0].index - 1 : taken[-1].last])
                    log.applied_to(taken[-1].last)
            else:
                compact_some(log, storage, chance)
            self.check(log, model, chance)

    def check(self, log: Log, model: list[Entry], chance: random.Random) -> None:
        self.assertEqual((log.last_index, log.last_term), (len(model), model[-1].term if model else 0))
        self.assertTrue(log.applied <= log.released <= log.commit <= log.last_index)
        self.assertTrue(log.released <= log.persisted <= log.saved <= log.last_index)
        first = log.first_index
        for index in range(first, len(model) + 1):
            self.assertEqual(log.term(index), model[index - 1].term)
        if first <= len(model):
            low = chance.randint(first, len(model))
            high = chance.randint(low + 1, len(model) + 1)
            found = log.entries(low, high, chance.choice([0, 1, 3, 9, 1000]))
            single = list(singles(found))
            self.assertEqual(single, model[low - 1 : low - 1 + len(single)])
            self.assertTrue(low <= found[-1].last < high)
            self.assertEqual(log.size(found), sum(len(each.data) for each in found))
            behind = chance.randint(low - 1, found[-1].last)
            self.assertEqual(list(singles(log.behind(found, behind))), model[behind : found[-1].last])

    def test_what_waits_for_its_majority(self) -> None:
        """In bytes, by whole runs."""
        log = Log(RunStorage(Members(), random.Random(1)), 0, 100, 1 << 20)
        log.append([joined(lines(1, 1, 1, 1)), joined(lines(4, 1, 1))])
        size = [len(run.data) for run in log.entries(1, 6, 1 << 20)]
        for commit, expected in ((0, sum(size)), (2, sum(size)), (3, size[1]), (4, size[1]), (5, 0)):
            log.commit_to(commit)
            self.assertEqual(log.uncommitted_bytes, expected)

    def test_in_order(self) -> None:
        run = joined(lines(3, 1, 1, 1))
        self.assertTrue(in_order([run, *lines(6, 1, 2)], 2, 1, 2))
        self.assertTrue(in_order([run], 2, 1, 1))
        for entries, index in (([run, *lines(5, 1)], 2), ([run, *lines(7, 1)], 2), ([run], 1), ([run, run], 2)):
            self.assertFalse(in_order(entries, index, 1, 2))


class RunCluster(Cluster):
    """Three nodes on storages with runs."""

    def make(self, name: str, members: Members) -> Server:
        return RunServer(name, members, self.seed, **self.settings)


class StoredTests(unittest.SynchronousTestCase):
    """What a leader puts into its storage itself."""

    def setUp(self) -> None:
        self.cluster = RunCluster(3)
        self.cluster.elect("1")

    def leader(self) -> RunServer:
        server = self.cluster["1"]
        assert isinstance(server, RunServer)
        return server

    def test_it_is_sent_and_committed(self) -> None:
        """No Ready asks for it to be saved."""
        saved: list[Entry] = []
        self.leader().on_ready = lambda server, ready: saved.extend(ready.entries)
        self.leader().propose([b"%d\n" % each for each in range(100)])
        self.cluster.settle()
        self.cluster.tick(2)
        for server in self.cluster.servers.values():
            self.assertEqual(server.applied, [b"%d" % each for each in range(100)])
            self.assertEqual((server.node.commit, server.node.applied), (101, 101))
        self.assertEqual(saved, [])

    def test_where_it_is_refused(self) -> None:
        self.assertRaises(NotLeader, self.cluster.node("2").check_room, 1, 1)
        self.assertRaises(NotLeader, self.cluster.node("2").stored, lines(2, 1))
        self.cluster = RunCluster(3, max_uncommitted_entries=50, max_uncommitted_bytes=200)
        self.cluster.elect("1")
        self.cluster.isolate("1")
        self.leader().propose([b"x\n"] * 50)
        self.assertRaises(Busy, self.leader().node.check_room, 1, 1)
        self.assertRaises(Busy, self.leader().node.check_room, 0, 101)
        self.leader().node.check_room(0, 100)

    def test_only_behind_what_is_saved(self) -> None:
        """What a Ready has to save first has an earlier place in the storage."""
        node = self.cluster.node("1")
        node.propose([b"a\n"])
        self.assertRaises(Busy, node.check_room, 1, 1)
        self.assertRaises(InvariantBroken, node.stored, lines(node.last_index + 1, node.term))

    def test_only_what_follows(self) -> None:
        node = self.cluster.node("1")
        for first, term in ((node.last_index + 2, node.term), (node.last_index, node.term), (2, node.term + 1)):
            self.assertRaises(InvariantBroken, node.stored, lines(first, term))

    def test_half_of_a_run_is_compacted(self) -> None:
        """A follower that has some of it as a snapshot only takes the rest."""
        self.cluster = RunCluster(3, cached_entries=0)
        self.cluster.elect("1")
        self.leader().propose([b"%d\n" % each for each in range(10)])
        self.cluster.settle()
        self.cluster.tick(2)
        follower = self.cluster["2"]
        follower.take_snapshot()
        node = follower.node
        self.assertEqual((node.commit, node.last_index), (11, 11))
        run = joined(lines(2, *[node.term] * 15))
        node.step(Message(Kind.APPEND, "1", "2", node.term, 1, node.term, 11, entries=(run,)))
        follower.turn()
        self.assertEqual(node.last_index, 16)

    def test_a_log_that_is_its_own_state_machine(self) -> None:
        """Nothing is handed out to be applied, and a start goes on from what was committed."""
        self.cluster = RunCluster(3, hands_out=False)
        self.cluster.elect("1")
        self.leader().propose([b"%d\n" % each for each in range(100)])
        self.cluster.settle()
        self.cluster.tick(25)  # the hint is saved once an election time
        for server in self.cluster.servers.values():
            node = server.node
            self.assertEqual((server.applied, node.released, node.commit), ([], 101, 101))
            node.applied_to(node.released)
            server.restart()
            self.assertEqual((server.node.released, server.node.applied), (101, 101))
