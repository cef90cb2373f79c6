"""Nobody takes what the others need, and all that was taken is given back."""

from __future__ import annotations

import random
import sys
import tracemalloc
import unittest

from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.wire.remoting import Command, decode, encode


class FairBudgetTests(unittest.TestCase):
    def test_one_that_takes_all_it_can(self) -> None:
        """Gets half of the places, or of the bytes; the other half is for whoever comes."""
        budget = FairBudget(10, 1000)
        self.assertEqual([budget.take(1, 1) for _ in range(7)], [True] * 5 + [False] * 2)
        self.assertTrue(budget.take(2, 1))
        budget = FairBudget(100, 1000)
        self.assertEqual([budget.take(1, 100) for _ in range(7)], [True] * 5 + [False] * 2)
        self.assertTrue(budget.take(2, 100))

    def test_many_that_take_all_they_can(self) -> None:
        """Share evenly, and there is still a part for the next."""
        budget = FairBudget(1000, 10**9)
        taken = dict.fromkeys(range(9), 0)
        for _ in range(200):
            for owner in taken:
                taken[owner] += budget.take(owner, 1)
        self.assertEqual(set(taken.values()), {100})
        self.assertTrue(budget.take(9, 1))

    def test_given_back(self) -> None:
        """In any order, until nothing is left of anybody."""
        chance = random.Random(4)
        budget, held = FairBudget(50, 5000), []
        for _ in range(2000):
            owner, size = chance.randrange(5), chance.randrange(1, 400)
            if chance.random() < 0.5 and budget.take(owner, size):
                held.append((owner, size))
            elif held:
                budget.give_back(*held.pop(chance.randrange(len(held))))
            self.assertEqual((budget.count, budget.bytes), (len(held), sum(size for _, size in held)))
            self.assertLessEqual(budget.bytes, 5000)
        for owner, size in held:
            budget.give_back(owner, size)
        self.assertEqual((budget.count, budget.bytes, budget._shares), (0, 0, {}))


class HeldBytesTests(unittest.TestCase):
    def test_what_python_needs(self) -> None:
        """Bodies, long fields, wide characters, remarks, and many short fields: about what is allocated."""
        for command in (
            Command(310, body=bytes(100_000)),
            Command(11, fields={"junk": "x" * 60_000}),
            Command(11, fields={"junk": "x" * 60_000 + "\U0001f600"}),
            Command(11, fields={f"k{number}": "" for number in range(1000)}),
            Command(11, remark="x" * 60_000),
        ):
            frame = encode(command)[4:]
            tracemalloc.start()
            kept = decode(frame)
            allocated, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            with self.subTest(sorted(command.fields)[:1], version=sys.version):
                self.assertGreater(held_bytes(kept), allocated * 0.8)
                self.assertLess(held_bytes(kept), allocated * 1.8 + 2000)
