"""Message properties. Source: MessageDecoder.string2messageProperties / messageProperties2String; facts/store.md
section 4.
"""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import properties

word = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=30)


def java(text: str) -> dict[str, str]:
    """string2messageProperties, step by step as the Java source goes."""
    found: dict[str, str] = {}
    length, index = len(text), 0
    while index < length:
        stop = text.find("\x02", index)
        if stop < 0:
            stop = length
        if stop - index >= 3:
            middle = text.find("\x01", index, stop)
            if index < middle < stop - 1:
                found[text[index:middle]] = text[middle + 1 : stop]
        index = stop + 1
    return found


class PropertiesTests(unittest.TestCase):
    """Blocks and strings."""

    @given(st.dictionaries(word, word, max_size=6))
    def test_there_and_back(self, wanted: dict[str, str]) -> None:
        """What is built is parsed, as text and as bytes; a trailing separator stands at the end."""
        self.assertEqual(properties.parse_text(properties.build_text(wanted)), wanted)
        block = properties.build(wanted)
        self.assertEqual(properties.parse(block), wanted)
        self.assertEqual(properties.parse(block.removesuffix(b"\x02")), wanted)

    @given(st.lists(st.sampled_from(["\x01", "\x02", "a", "bc", "KEYS", "\u4e2d", " "]), max_size=20))
    def test_as_java_reads(self, pieces: list[str]) -> None:
        """Any jumble of separators and text reads as Java reads it."""
        text = "".join(pieces)
        self.assertEqual(properties.parse_text(text), java(text))

    def test_rules(self) -> None:
        """Short pieces, missing names and values are skipped; the last of a name counts; a value may hold 0x01."""
        for text, wanted in (
            ("", {}),
            ("\x02\x02", {}),
            ("a\x01\x02", {}),
            ("\x01ab\x02", {}),
            ("abc\x02", {}),
            ("a\x01b", {"a": "b"}),
            ("a\x01b\x02a\x01c\x02", {"a": "c"}),
            ("a\x01b\x01c\x02", {"a": "b\x01c"}),
            ("KEYS\x01k1 k2\x02WAIT\x01true\x02", {"KEYS": "k1 k2", "WAIT": "true"}),
        ):
            with self.subTest(text):
                self.assertEqual(properties.parse_text(text), wanted)

    def test_order_is_kept(self) -> None:
        """The pairs stand in the order of the sender's map."""
        self.assertEqual(list(properties.parse(b"z\x011\x02a\x012\x02")), ["z", "a"])

    def test_limit(self) -> None:
        """32,767 bytes are read, one more is refused: the record's length field is a signed short."""
        longest = b"k\x01" + b"v" * (properties.LENGTH_MAX - 2)
        self.assertEqual(len(properties.parse(longest)["k"]), properties.LENGTH_MAX - 2)
        with self.assertRaisesRegex(RemoteProtocolError, "properties of 32768 bytes"):
            properties.parse(longest + b"v")

    def test_not_utf8(self) -> None:
        """Bytes that are no UTF-8 are refused."""
        with self.assertRaisesRegex(RemoteProtocolError, "not UTF-8"):
            properties.parse(b"k\x01\xff\xfe\x02")
