"""The units that an index file has not written: as a list of them would have it."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from rocketha.store.index_tail import PIECE_MIN, UNIT, UnitTail
from rocketha.wire.store_files import INDEX_UNIT, IndexUnit


class UnitTailTests(SynchronousTestCase):
    def check(self, tail: UnitTail, first: int, model: list[IndexUnit]) -> None:
        self.assertEqual((tail.first, tail.end, len(tail)), (first, first + len(model), len(model)))
        packed = b"".join(tail.pieces())
        self.assertEqual([IndexUnit(*fields) for fields in INDEX_UNIT.layout.iter_unpack(packed)], model)
        for number in range(first, first + len(model), 17):
            self.assertEqual(tail.unit(number), model[number - first])

    def test_any_order_of_changes(self) -> None:
        for seed in range(20):
            with self.subTest(seed=seed):
                self.change(random.Random(seed))

    def change(self, chance: random.Random) -> None:
        tail, first, model = UnitTail(), 1, []  # type: UnitTail, int, list[IndexUnit]
        for step in range(100):
            do = chance.random()
            if do < 0.8:
                units = [IndexUnit(step, number, 0, 0) for number in range(chance.choice((1, 4, 128, 1000)))]
                tail.add(b"".join(INDEX_UNIT.pack(*unit) for unit in units))
                model += units
            elif do < 0.9:
                number = chance.randrange(max(0, first - 3), first + len(model) + 1)
                tail.drop_before(number)
                del model[: max(0, number - first)]
                first = max(first, number)
            else:
                number = chance.randrange(max(1, first - 3), first + len(model) + 1)
                tail.drop_from(number)
                del model[max(0, number - first) :]
                first = min(first, number)
            if step % 10 == 0:
                self.check(tail, first, model)
        self.check(tail, first, model)

    def test_units_that_come_one_by_one_share_a_piece(self) -> None:
        tail = UnitTail()
        for number in range(10_000):
            tail.add(INDEX_UNIT.pack(number, 0, 0, 0))
        self.assertLessEqual(len(tail.pieces()), 10_000 * UNIT // PIECE_MIN + 1)

    def test_pieces_taken_do_not_change(self) -> None:
        tail = UnitTail()
        tail.add(b"\1" * UNIT)
        taken = tail.pieces()
        tail.add(b"\2" * UNIT)
        tail.drop_before(2)
        self.assertEqual(taken, (b"\1" * UNIT,))
