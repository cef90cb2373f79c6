"""The log: against a plain list, with a cache of any size, cuts, late syncs and snapshots."""

from __future__ import annotations

import random

from twisted.trial import unittest

from rocketha.errors import InvariantBroken
from rocketha.raft.log import Log, in_order
from rocketha.raft.memory_storage import MemoryStorage
from rocketha.raft.messages import Entry, EntryKind, Members, SnapshotMeta
from rocketha.raft.storage import Compacted, Unavailable
from tests.raft.cluster import group
from tests.raft.runs import compact_some, save_some


def made(first: int, *terms: int) -> tuple[Entry, ...]:
    """Entries from ``first`` on with data of different sizes."""
    return tuple(Entry(first + at, term, EntryKind.NORMAL, b"x" * ((first + at) % 4)) for at, term in enumerate(terms))


class LogTests(unittest.SynchronousTestCase):
    """Reads and marks."""

    def test_like_a_list(self) -> None:
        """Random appends, cuts, saves, commits, applies, compactions: every read is what a list says."""
        for seed in range(60):
            chance = random.Random(seed)
            storage = MemoryStorage(Members())
            log = Log(storage, 0, chance.choice([0, 2, 100]), chance.choice([0, 5, 1000]))
            model: list[Entry] = []
            term = 1
            for _ in range(120):
                step = chance.randrange(7)
                if step <= 1:
                    log.append(made(len(model) + 1, *[term] * chance.randint(1, 4)))
                    model += made(len(model) + 1, *[term] * (log.last_index - len(model)))
                elif step == 2 and log.commit < len(model):
                    term += 1
                    cut = chance.randint(log.commit + 1, len(model))
                    entries = made(cut, *[term] * chance.randint(1, 3))
                    self.assertEqual(log.merge(entries), cut)
                    model[cut - 1 :] = entries
                elif step == 3:
                    save_some(log, storage, chance)
                elif step == 4:
                    log.commit_to(chance.randint(0, len(model) + 2))
                elif step == 5:
                    taken = log.take_committed(chance.choice([1, 4, 100]))
                    if taken:
                        self.assertEqual(list(taken), model[taken[0].index - 1 : taken[-1].index])
                        log.applied_to(taken[-1].index)
                else:
                    compact_some(log, storage, chance)
                self.check(log, model, chance)

    def check(self, log: Log, model: list[Entry], chance: random.Random) -> None:
        """The invariants of the module, and some reads."""
        self.assertEqual((log.last_index, log.last_term), (len(model), model[-1].term if model else 0))
        self.assertTrue(log.applied <= log.released <= log.commit <= log.last_index)
        self.assertTrue(log.released <= log.persisted <= log.saved <= log.last_index)
        first = log.first_index
        for index in range(first, len(model) + 1):
            self.assertEqual(log.term(index), model[index - 1].term)
            self.assertTrue(log.matches(index, model[index - 1].term))
            self.assertFalse(log.matches(index, model[index - 1].term + 1))
        if first <= len(model):
            low = chance.randint(first, len(model))
            high = chance.randint(low + 1, len(model) + 1)
            size = chance.choice([0, 1, 3, 7, 1000])
            found = list(log.entries(low, high, size))
            self.assertEqual(found, model[low - 1 : low - 1 + len(found)])
            self.assertGreaterEqual(len(found), 1)
            self.assertTrue(len(found) == 1 or log.size(found) <= size)
            self.assertEqual(log.size(found), sum(len(each.data) for each in found))
            limit, term = chance.randint(first - 1, len(model)), chance.randint(0, 9)
            fitting = [index for index in range(first, limit + 1) if model[index - 1].term <= term]
            self.assertEqual(log.last_with_term_at_most(limit, term), max(fitting, default=first - 1))

    def test_a_size_that_fits_is_used(self) -> None:
        """Not one entry less than fits."""
        log = Log(MemoryStorage(Members()), 0, 100, 1000)
        log.append([Entry(each + 1, 1, 1, b"12345") for each in range(10)])
        self.assertEqual([len(log.entries(1, 11, size)) for size in (1, 5, 9, 10, 49, 50, 99)], [1, 1, 1, 2, 9, 10, 10])
        self.assertEqual(len(log.entries(3, 5, 99)), 2)

    def test_outside(self) -> None:
        """Before the first and after the last."""
        storage = MemoryStorage(group(1))
        storage.save(None, made(1, 1, 1, 1))
        storage.sync()
        storage.save_snapshot(SnapshotMeta(2, 1, group(1)), b"")
        storage.compact(2)
        log = Log(storage, 99, 0, 0)
        self.assertEqual((log.commit, log.applied, log.first_index), (3, 2, 3))
        self.assertRaises(Unavailable, log.term, 4)
        self.assertRaises(Compacted, log.term, 1)
        self.assertRaises(Compacted, log.entries, 2, 4, 99)
        self.assertFalse(log.matches(1, 1))
        self.assertEqual(log.term(2), 1)

    def test_rules_that_protect_data(self) -> None:
        """Broken, they end the process."""
        log = Log(MemoryStorage(Members()), 0, 0, 0)
        log.append(made(1, 1, 1))
        log.commit_to(1)
        self.assertRaises(InvariantBroken, log.merge, made(1, 2))
        self.assertRaises(InvariantBroken, log.applied_to, 1)
        self.assertRaises(InvariantBroken, log.restore, SnapshotMeta(1, 1, Members()))

    def test_in_order(self) -> None:
        """Indexes without gaps, terms that do not fall, none above the message's."""
        self.assertTrue(in_order(made(3, 1, 1, 2), 2, 1, 2))
        for entries, index, log_term, term in (
            (made(3, 1, 1, 2), 1, 1, 2),
            (made(3, 1, 1, 2), 2, 2, 2),
            (made(3, 1, 1, 2), 2, 1, 1),
            (made(3, 2, 1), 2, 1, 2),
            (made(3, 1, 3, 2), 2, 1, 3),
            ((*made(3, 1), *made(5, 1)), 2, 1, 1),
            ((*made(3, 1), *made(3, 1), *made(5, 1)), 2, 1, 1),
        ):
            self.assertFalse(in_order(entries, index, log_term, term))

    def test_the_cache_is_bounded(self) -> None:
        """What is applied and synced leaves the memory, a few at a time."""
        storage = MemoryStorage(Members())
        log = Log(storage, 0, 10, 1000)
        for index in range(1, 1001):
            log.append([Entry(index, 1, 1, b"x")])
            storage.save(None, log.take_unsaved())
            log.persisted_to(index, 1)
            log.commit_to(index)
            log.take_committed(99)
            log.applied_to(index)
            self.assertLessEqual(len(log._tail), 21)
        self.assertEqual([each.index for each in log.entries(1, 5, 99)], [1, 2, 3, 4])
        self.assertEqual([each.index for each in log.entries(998, 1001, 99)], [998, 999, 1000])
