"""Header fields: present, typed, bounded."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RequestRefused
from rocketha.wire import fields


class FieldTests(unittest.TestCase):
    """What a handler gets, and what it never sees."""

    @given(st.integers(fields.LONG_MIN, fields.LONG_MAX))
    def test_every_long(self, number: int) -> None:
        """All 64-bit numbers are read."""
        self.assertEqual(fields.long({"n": str(number)}, "n"), number)

    def test_what_java_reads(self) -> None:
        """`Long.valueOf` takes a sign and leading zeros."""
        self.assertEqual(fields.integer({"n": "+007"}, "n"), 7)
        self.assertEqual(fields.integer({"n": "-0"}, "n"), 0)
        self.assertEqual(fields.integer({"n": "-\u0661\uff12"}, "n"), -12)
        self.assertEqual(fields.long({"n": "0" * 30 + "5"}, "n"), 5)

    def test_unreadable(self) -> None:
        """An optional number that Java cannot read is none; one that it can is within the bounds, or refused."""
        for text in ("x", "", "1.0", str(2**31)):
            self.assertIsNone(fields.optional_integer({"n": text}, "n"), text)
        self.assertEqual(fields.optional_long({"n": str(2**31)}, "n"), 2**31)
        self.assertIsNone(fields.optional_long({"n": str(2**63)}, "n"))
        self.assertRaises(RequestRefused, fields.optional_integer, {"n": "-1"}, "n", 0)

    def test_what_only_python_reads(self) -> None:
        """Blanks, underscores, digits beyond 16 bits and huge numbers are refused, naming the field."""
        for text in (" 1", "1_0", "\U0001d7cf", "\u00b2", "1e3", "0x1", "", "9" * 5000, str(2**63), str(-(2**63) - 1)):
            with self.subTest(text=text[:20]), self.assertRaises(RequestRefused) as caught:
                fields.long({"queueOffset": text}, "queueOffset")
            self.assertIn("queueOffset", caught.exception.remark)
            self.assertLess(len(caught.exception.remark), 200)
            self.assertEqual(caught.exception.code, 29)

    def test_range(self) -> None:
        """A number out of range says the range."""
        with self.assertRaises(RequestRefused) as caught:
            fields.integer({"queueId": "4"}, "queueId", 0, 3)
        self.assertIn("0 to 3", caught.exception.remark)

    def test_missing_and_empty(self) -> None:
        """A required field that is missing or empty is refused; an optional one is None."""
        for header in ({}, {"group": ""}):
            self.assertRaises(RequestRefused, fields.text, header, "group")
            self.assertIsNone(fields.optional_text(header, "group"))
            self.assertIsNone(fields.optional_integer(header, "group"))
        self.assertIsNone(fields.optional_text({"group": "  "}, "group"))

    def test_too_long(self) -> None:
        """Text has a limit."""
        self.assertRaises(RequestRefused, fields.text, {"g": "x" * 11}, "g", 10)
        self.assertRaises(RequestRefused, fields.optional_text, {"g": "x" * 11}, "g", 10)

    def test_booleans(self) -> None:
        """`Boolean.parseBoolean`: true in any case, everything else false."""
        self.assertTrue(fields.flag({"f": "TRUE"}, "f"))
        self.assertFalse(fields.flag({"f": "1"}, "f"))
        self.assertTrue(fields.flag({}, "f", True))
        self.assertIsNone(fields.optional_flag({}, "f"))
        self.assertIs(fields.optional_flag({"f": "no"}, "f"), False)
