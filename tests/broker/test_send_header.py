"""The header of a send request, as Java's two classes read it."""

from __future__ import annotations

import unittest

from rocketha.broker.send_header import parse
from rocketha.errors import RequestRefused
from rocketha.wire.remoting import Command

LETTERS = {"a": "P", "b": "T", "c": "D", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0"}


class SendHeaderTests(unittest.TestCase):
    """Side fields, which no message is refused for."""

    def test_booleans_in_any_case(self) -> None:
        """`Boolean.parseBoolean` takes TRUE for true, and nothing else."""
        for word, wanted in (("true", True), ("TRUE", True), ("tRuE", True), ("1", False), ("yes", False), ("", False)):
            header = parse(Command(310, fields={**LETTERS, "k": word, "m": word}))
            self.assertEqual((header.unit_mode, header.batch), (wanted, wanted), word)

    def test_side_numbers(self) -> None:
        """A number of attempts that Java cannot read, or that is none of its ints, is absent."""
        for word in ("x", "", str(2**31), "9" * 30):
            header = parse(Command(310, fields={**LETTERS, "j": word, "l": word}))
            self.assertEqual((header.reconsume_times, header.max_reconsume_times), (0, None), word)

    def test_needed_numbers(self) -> None:
        """They are within Java's types."""
        for letter, word in (("e", str(2**31)), ("g", str(2**63)), ("h", "x"), ("d", "")):
            self.assertRaises(RequestRefused, parse, Command(310, fields={**LETTERS, letter: word}))
