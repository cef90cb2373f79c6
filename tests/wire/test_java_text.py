"""Java's view of text.  Source: java.lang.String.hashCode (its documented polynomial)."""

from __future__ import annotations

import unittest

from hypothesis import example, given
from hypothesis import strategies as st

from rocketha.wire.java_text import hash_units, hashes_behind, string_hash, string_hashes, utf16_length

any_text = st.text(st.characters(), max_size=60)
ascii_text = st.text(st.characters(max_codepoint=127), max_size=70)


def utf16_units(text: str) -> list[int]:
    """char[] of a Java String, by the definition of UTF-16."""
    units = []
    for character in text:
        code = ord(character)
        if code < 0x10000:
            units.append(code)
        else:
            units += [0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)]
    return units


def naive_hash(text: str) -> int:
    """h = 31 * h + char, in 32 bits."""
    value = 0
    for unit in utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


class HashTests(unittest.TestCase):
    """string_hash decides tag filters and index slots: Java's to the bit."""

    def test_known(self) -> None:
        """Values from running Java: the empty string, TagA, the golden traffic's tag, the classic collision, a
        negative.
        """
        for text, wanted in (("", 0), ("a", 97), ("TagA", 2598919), ("prime", 106934911), ("Aa", 2112), ("BB", 2112)):
            self.assertEqual(string_hash(text), wanted)
        self.assertEqual(string_hash("polygenelubricants"), -(2**31))

    @given(any_text)
    @example("\U0001f680")
    @example("a\ud800b")
    @example("\udc00\ud83d")
    @example("\U0010ffff" * 5 + "\uffff")
    def test_any_text(self, text: str) -> None:
        """Any text, surrogate pairs and lone surrogates included."""
        self.assertEqual(string_hash(text), naive_hash(text))
        self.assertEqual(utf16_length(text), len(utf16_units(text)))

    @given(st.lists(st.one_of(any_text, ascii_text), max_size=300), any_text)
    @example(["\x7f" * 64] * 300, "")
    @example([""] * 5, "a")
    @example(["x" * length for length in range(70)], "\x7f" * 70)
    @example(["x" * 1023, "x" * 1024, "\U0001f680" * 600], "T#")
    def test_many_texts(self, texts: list[str], before: str) -> None:
        """As each by itself, also behind another text."""
        self.assertEqual(string_hashes(texts), [string_hash(text) & 0xFFFFFFFF for text in texts])
        known = [string_hash(before)] * len(texts)
        self.assertEqual(hashes_behind(known, texts), [string_hash(before + text) & 0xFFFFFFFF for text in texts])

    def test_long_text(self) -> None:
        """Around and beyond the precomputed powers, ASCII and not."""
        for count in (1023, 1024, 1025, 5000):
            for unit in ("a", "\u4e2d", "\U0001f680"):
                with self.subTest(count, unit=unit):
                    self.assertEqual(string_hash(unit * count), naive_hash(unit * count))

    @given(st.binary(max_size=1100))
    def test_units(self, units: bytes) -> None:
        """Units that are numbers already, from bytes and views of them."""
        wanted = naive_hash(units.decode("latin-1"))
        self.assertEqual(hash_units(units), wanted)
        self.assertEqual(hash_units(memoryview(units)), wanted)
