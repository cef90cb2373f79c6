"""UNIQ_KEY.  Source: MessageClientIDSetter; facts/store.md section 5."""

from __future__ import annotations

import unittest

from rocketha.wire.unique_id import UniqueIds


class UniqueIdTests(unittest.TestCase):
    """Layout and uniqueness."""

    def test_layout(self) -> None:
        """Address, low 16 bits of the pid, distinction, milliseconds since the month began, counter; upper-case hex."""
        ids = UniqueIds(b"\x7f\x00\x00\x01", 0x54321, 0x18B4AAC2)
        self.assertEqual(ids.next(0x00ABCDEF), "7F000001" + "4321" + "18B4AAC2" + "00ABCDEF" + "0001")
        self.assertEqual(len(ids.next(0)), 32)
        self.assertEqual(len(UniqueIds(bytes(16), 1, 1).next(0)), 56)

    def test_unique(self) -> None:
        """65,536 ids of one millisecond differ; then the counter begins again."""
        ids = UniqueIds(b"\x7f\x00\x00\x01", 1, 1)
        made = [ids.next(5) for _ in range(65537)]
        self.assertEqual(len(set(made)), 65536)
        self.assertEqual(made[0], made[-1])

    def test_numbers_are_cut(self) -> None:
        """Any pid, distinction and time fit."""
        self.assertEqual(len(UniqueIds(b"\x00" * 4, 2**40, -1).next(2**50)), 32)
