"""The units of an index file that are not known to be written."""

from __future__ import annotations

from bisect import bisect_right

from rocketha.wire.store_files import INDEX_UNIT, IndexUnit

UNIT = INDEX_UNIT.size
PIECE_MIN = 4096
"""Bytes from which on a piece takes no more units, so that units that come one by one do not cost an object each."""


class UnitTail:
    """Packed units that are not known to be written, in the pieces they came in: 20 MB of them are never copied.

    :ivar first: number of the first unit, or of the next one where there is none.
    :ivar end: number of the next unit.
    """

    def __init__(self) -> None:
        self.first = self.end = 1
        self._pieces: list[bytes] = []
        self._numbers: list[int] = []  # of each one's first unit

    def __len__(self) -> int:
        return self.end - self.first

    def begin(self, number: int) -> None:
        """Forget all units; the next one has this number."""
        self.first = self.end = number
        self._pieces, self._numbers = [], []

    def add(self, units: bytes) -> None:
        """Add the next ones."""
        if self._pieces and len(self._pieces[-1]) < PIECE_MIN:
            self._pieces[-1] += units
        else:
            self._pieces.append(units)
            self._numbers.append(self.end)
        self.end += len(units) // UNIT

    def unit(self, number: int) -> IndexUnit:
        """One that is here."""
        piece = bisect_right(self._numbers, number) - 1
        return IndexUnit(*INDEX_UNIT.unpack(self._pieces[piece], (number - self._numbers[piece]) * UNIT))

    def pieces(self) -> tuple[bytes, ...]:
        """All, in order."""
        return tuple(self._pieces)

    def drop_before(self, number: int) -> None:
        """Forget the units before one."""
        if number >= self.end:
            self.begin(max(number, self.first))
        elif number > self.first:
            piece = bisect_right(self._numbers, number) - 1
            first = self._numbers[piece]
            self._pieces[:piece], self._numbers[:piece] = [], []
            self._pieces[0] = self._pieces[0][(number - first) * UNIT :]
            self.first = self._numbers[0] = number

    def drop_from(self, number: int) -> None:
        """Forget a unit and those behind it."""
        if number <= self.first:
            self.begin(number)
        elif number < self.end:
            piece = bisect_right(self._numbers, number) - 1
            last = self._pieces[piece][: (number - self._numbers[piece]) * UNIT]
            keep = piece + bool(last)
            del self._pieces[keep:], self._numbers[keep:]
            if last:
                self._pieces[piece] = last
            self.end = number
