"""The checker of histories, on histories whose verdict is known."""

from __future__ import annotations

import itertools
import random
from typing import Any
from unittest import TestCase

from rocketha.simulation.linearizability import FOREVER, UNKNOWN, Operation, explain, linearizable


def register(state: int, what: tuple[str, int], output: Any) -> tuple[bool, int]:
    """A register: ("w", value) or ("r", 0)."""
    kind, value = what
    if kind == "w":
        return True, value
    return output is UNKNOWN or output == state, state


def by_trying_all(history: list[Operation]) -> bool:
    """The same verdict by trying every order: for short histories."""
    unknown = [each for each in history if each.output is UNKNOWN]
    known = [each for each in history if each.output is not UNKNOWN]
    for count in range(len(unknown) + 1):
        for extra in itertools.combinations(unknown, count):
            for order in itertools.permutations([*known, *extra]):
                state, fine = 0, True
                for place, operation in enumerate(order):
                    if any(later.returned < operation.invoked for later in order[place + 1 :]):
                        fine = False
                        break
                    allowed, state = register(state, operation.input, operation.output)
                    if not allowed:
                        fine = False
                        break
                if fine:
                    return True
    return False


class RegisterTests(TestCase):
    """Examples, and agreement with the slow way."""

    def test_a_read_must_see_a_finished_write(self) -> None:
        """A stale read is caught, and shown."""
        history = [Operation(0, 1, ("w", 1), None), Operation(2, 3, ("r", 0), 0)]
        self.assertFalse(linearizable(history, 0, register))
        self.assertIn("not linearizable", str(explain(history, 0, register)))
        self.assertIsNone(explain(history[:1], 0, register))

    def test_a_read_beside_a_write_may_see_either(self) -> None:
        """But time does not run back for the next reader."""
        write = Operation(0, 10, ("w", 1), None)
        self.assertTrue(linearizable([write, Operation(1, 2, ("r", 0), 0), Operation(3, 4, ("r", 0), 1)], 0, register))
        self.assertFalse(linearizable([write, Operation(1, 2, ("r", 0), 1), Operation(3, 4, ("r", 0), 0)], 0, register))

    def test_an_unknown_write_may_happen_late_or_never(self) -> None:
        """And once only."""
        lost = Operation(0, FOREVER, ("w", 5), UNKNOWN)
        for reads, verdict in (((0, 5), True), ((0, 0), True), ((5, 0), False)):
            history = [lost, *(Operation(2 * n + 1, 2 * n + 2, ("r", 0), value) for n, value in enumerate(reads))]
            self.assertEqual(linearizable(history, 0, register), verdict, reads)

    def test_agrees_with_trying_all_orders(self) -> None:
        """On random short histories, of which a good part is wrong."""
        chance = random.Random(3)
        verdicts = []
        for _ in range(400):
            history = []
            for number in range(5):
                begin = chance.randrange(8)
                unknown = chance.random() < 0.2
                what = ("w", number + 1) if chance.random() < 0.5 else ("r", 0)
                output = UNKNOWN if unknown else None if what[0] == "w" else chance.randrange(4)
                history.append(Operation(begin, FOREVER if unknown else begin + chance.randrange(1, 6), what, output))
            verdict = linearizable(history, 0, register)
            self.assertEqual(verdict, by_trying_all(history), history)
            verdicts.append(verdict)
        self.assertTrue(50 < sum(verdicts) < 350, sum(verdicts))
