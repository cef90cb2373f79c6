"""Requests in the order of their deadlines."""

from __future__ import annotations

import random
import unittest

from rocketha.services.waiting.deadline_line import DeadlineLine

Pair = tuple[float, str]


class DeadlineLineTests(unittest.TestCase):
    """Pairs of a deadline and a name."""

    def setUp(self) -> None:
        self.line: DeadlineLine[Pair] = DeadlineLine(lambda pair: pair[0])

    def add(self, *pairs: Pair) -> None:
        for pair in pairs:
            self.line.add(pair)

    def test_order(self) -> None:
        """By deadline; those of one deadline as they came."""
        chance = random.Random(5)
        pairs = [(float(chance.randrange(6)), f"{number}") for number in range(100)]
        self.add(*pairs)
        self.assertEqual((len(self.line), self.line.due_s), (100, 0.0))
        self.assertEqual(list(self.line.all()), sorted(pairs, key=lambda pair: pair[0]))
        self.assertEqual((len(self.line), self.line.first, self.line.due_s), (0, None, None))

    def test_overdue(self) -> None:
        """At its deadline, and not before; whoever is given has left."""
        self.add((2.0, "b"), (1.0, "a"), (3.0, "c"))
        self.assertEqual(list(self.line.overdue(0.9)), [])
        for pair in self.line.overdue(2.0):
            self.assertNotEqual(self.line.first, pair)
            if pair == (1.0, "a"):
                self.add((1.5, "while it goes on"))
        self.assertEqual((len(self.line), self.line.first), (1, (3.0, "c")))

    def test_sift(self) -> None:
        """Each is looked at once, also where looking at one brings another; those that stay keep their order."""
        self.add(*((float(number), "") for number in range(6)))
        seen: list[Pair] = []

        def stays(pair: Pair) -> bool:
            seen.append(pair)
            if pair[0] == 5.0:
                self.add((9.0, "new"))
            return pair[0] % 2 == 0

        self.assertEqual(self.line.sift(stays), [(1.0, ""), (3.0, ""), (5.0, "")])
        self.assertEqual(len(seen), 6)
        self.assertEqual(list(self.line.all()), [(0.0, ""), (2.0, ""), (4.0, ""), (9.0, "new")])

    def test_one_that_comes_while_sifting(self) -> None:
        """Those that stay and were not looked at yet do not get behind it."""
        self.add((1.0, "goes"), (2.0, "stays"))

        def stays(pair: Pair) -> bool:
            if pair[1] == "goes":
                self.add((3.0, "new"))
            return pair[1] != "goes"

        self.line.sift(stays)
        self.assertEqual(list(self.line.all()), [(2.0, "stays"), (3.0, "new")])
