"""Signatures: Java's vectors, and the traps of its server."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.access.signature import Alike, proven, sign, signed

FIELDS = {
    "AccessKey": "root",
    "a": "pg",
    "b": "ok1",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "KEYS\x01k1\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}
BODY = bytes.fromhex("68c3bc")
SIGNATURE = "DUbzVR53BtHOe/qvRVhI+CgoFNo="
"""Printed by the Java client's hook, and accepted by Java's broker."""
SECRET = "rootsecret1"
NEW, OLD = 400, 399


class SignatureTests(unittest.TestCase):
    """What is signed, and what counts as that."""

    def test_vectors(self) -> None:
        self.assertEqual(sign(SECRET, signed(FIELDS, BODY)), SIGNATURE)
        short = {"AccessKey": "root", "SecurityToken": "tok"}
        self.assertEqual(sign(SECRET, signed(short, b"")), "/XrRjPkBiCxo/j1bzljeeXc6ogY=")

    def test_accepted(self) -> None:
        given = {**FIELDS, "Signature": SIGNATURE}
        self.assertIsNotNone(proven(SECRET, given, BODY, NEW))
        self.assertIsNotNone(proven(SECRET, dict(reversed(given.items())), BODY, NEW), "in any order")

    def test_refused(self) -> None:
        given = {**FIELDS, "Signature": SIGNATURE}
        for secret, fields, body in (
            ("rootsecret2", given, BODY),
            (SECRET, {**given, "b": "ok2"}, BODY),
            (SECRET, {**given, "new": "x"}, BODY),
            (SECRET, given, BODY + b"!"),
            (SECRET, FIELDS, BODY),
            (SECRET, {**given, "Signature": ""}, BODY),
            (SECRET, {**given, "Signature": SIGNATURE.lower()}, BODY),
            (SECRET, {**given, "Signature": SIGNATURE + "\u00e9\ud800"}, BODY),
            (SECRET, {name: value for name, value in given.items() if name != "m"}, BODY),
        ):
            self.assertIsNone(proven(secret, fields, body, NEW))

    def test_names_in_javas_order(self) -> None:
        """By UTF-16: a surrogate pair sorts before U+FF61."""
        self.assertEqual(signed({"\uff61": "1", "\U0001f600": "2", "a": "0"}, b"."), b"021.")

    def test_a_field_that_old_clients_add_later(self) -> None:
        fields = {"AccessKey": "root", "topic": "t", "_UNIQUE_KEY_QUERY": "true"}
        before = {name: value for name, value in fields.items() if name != "_UNIQUE_KEY_QUERY"}
        for version, over in ((OLD, before), (NEW, fields)):
            good = {**fields, "Signature": sign(SECRET, signed(over, b""))}
            bad = {**fields, "Signature": sign(SECRET, signed(fields if over is before else before, b""))}
            self.assertIsNotNone(proven(SECRET, good, b"", version))
            self.assertIsNone(proven(SECRET, bad, b"", version))

    def test_empty_values(self) -> None:
        """Nothing in a JSON header, the word null in a binary one."""
        fields = {"AccessKey": "root", "t": ""}
        for word in ("", "null"):
            given = {**fields, "Signature": sign(SECRET, f"root{word}".encode())}
            self.assertIsNotNone(proven(SECRET, given, b"", NEW), word)
        self.assertIsNone(proven(SECRET, {**fields, "Signature": sign(SECRET, b"rootNull")}, b"", NEW))

    def test_what_is_no_text(self) -> None:
        """A lone surrogate is a question mark to Java."""
        self.assertEqual(signed({"a": "\ud800"}, b""), b"?")

    @given(
        st.dictionaries(
            st.sampled_from(("AccessKey", "Signature", "a", "h", "\uff61", "\U0001f600")), st.text(max_size=5)
        ),
        st.tuples(*[st.text(max_size=5)] * 4),
        st.tuples(*[st.text(max_size=5)] * 4),
    )
    def test_alike(self, fixed: dict[str, str], first: tuple[str, ...], then: tuple[str, ...]) -> None:
        """What is signed of one request says what is signed of another with other values."""
        names = "e", "g", "i"
        alike = Alike({**fixed, **dict(zip(names, first, strict=False))}, names)
        wanted = signed({**fixed, **dict(zip(names, then, strict=False))}, then[3].encode())
        self.assertEqual(alike.signed(*(value.encode() for value in then)), wanted)
