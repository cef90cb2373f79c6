"""Stamps: what our own clients sign beside a request, and that it cannot be taken off again."""

from __future__ import annotations

import unittest

from rocketha.access.policies import Refused
from rocketha.access.signature import ACCESS_KEY, SIGNATURE, proven, sign, signed
from rocketha.access.signer import Credentials, Signer
from rocketha.access.stamp import FIELD, MARK, NONCE_BYTES, Stamp, layout
from rocketha.wire.remoting import VERSION
from tests.seeds import SeededCase

NOW_MS = 1_700_000_000_000
NONCE = bytes(range(NONCE_BYTES))
CODE, OTHER_CODE = 310, 17
FIELDS = {"a": "pg", "b": "ok1", "i": "KEYS\x01k1\x02", "m": ""}
BODY = b"h\xc3\xbc"
SECRET = "annsecret"
SIGNER = Signer(Credentials("ann", SECRET), lambda: NOW_MS, lambda: NONCE)


class StampTests(unittest.TestCase):
    """As text, and of which request."""

    def test_text(self) -> None:
        stamp = Stamp(CODE, NOW_MS, NONCE, layout(FIELDS))
        text = f"rocketha/1 310 1700000000000 {NONCE.hex()} {layout(FIELDS)};"
        self.assertEqual(str(stamp), text)
        self.assertEqual(Stamp.read(text.encode() + b"annpg310"), stamp)

    def test_what_is_none(self) -> None:
        good = str(Stamp(CODE, NOW_MS, NONCE, layout(FIELDS)))
        for bad in (
            "rocketha/1 ",
            good[:-1],
            good.replace(" 310 ", " 0310 "),
            good.replace(" 310 ", " -1 "),
            good.replace(" 310 ", " \u0663\u0661 "),
            good.replace(" 170", " 70"),
            good.replace("0a0b", "0A0B"),
            good.replace(" ", "  "),
        ):
            self.assertNotEqual(bad, good)
            with self.assertRaisesRegex(Refused, "cannot be read"):
                Stamp.read(bad.encode())

    def test_of_this_request_only(self) -> None:
        stamp = Stamp(CODE, NOW_MS, NONCE, layout(FIELDS))
        stamp.check(CODE, FIELDS)
        stamp.check(CODE, {**FIELDS, FIELD: "x", SIGNATURE: "y"})
        with self.assertRaisesRegex(Refused, "signed as a request 310, sent as 17"):
            stamp.check(OTHER_CODE, FIELDS)
        renamed = {("c" if name == "b" else name): value for name, value in FIELDS.items()}
        for other in (renamed, {**FIELDS, "n": ""}, {**FIELDS, "b": "ok"}, {"a": "pg"}, {**FIELDS, "aa": FIELDS["a"]}):
            with self.assertRaisesRegex(Refused, "other fields"):
                stamp.check(CODE, other)

    def test_layout_is_of_bytes(self) -> None:
        """A name that looks like others and their lengths is not them."""
        self.assertNotEqual(layout({"a": "12", "b": ""}), layout({"a2;1:b": ""}))
        self.assertNotEqual(layout({"a": "\u00fc"}), layout({"a": "u"}))
        self.assertEqual(layout({"a": "1", "b": "2"}), layout({"b": "3", "a": "4"}))


class SignerTests(SeededCase):
    """What a client of ours adds."""

    def test_signed_as_others_sign(self) -> None:
        """A broker that knows no stamps sees one more field, which is signed."""
        given = SIGNER.sign(CODE, FIELDS, BODY)
        self.assertEqual(given.keys() - FIELDS.keys(), {ACCESS_KEY, FIELD, SIGNATURE})
        rest = {name: value for name, value in given.items() if name != SIGNATURE}
        self.assertEqual(given[SIGNATURE], sign(SECRET, signed(rest, BODY)))
        self.assertEqual(given[ACCESS_KEY], "ann")

    def test_without_fields(self) -> None:
        message = proven(SECRET, SIGNER.sign(CODE, None, b""), b"", VERSION)
        assert message is not None
        self.assertEqual(message[-3:], b"ann")

    def test_the_password_is_not_shown(self) -> None:
        self.assertNotIn(SECRET, repr(SIGNER))

    def test_first_of_what_is_signed(self) -> None:
        """Before every name that a request has."""
        message = proven(
            SECRET, SIGNER.sign(CODE, {**FIELDS, "A": "1", "_UNIQUE_KEY_QUERY": "true"}, BODY), BODY, VERSION
        )
        assert message is not None
        self.assertTrue(message.startswith(MARK))

    def test_cut_anew(self) -> None:
        """Whoever has the frame may rename fields, and move the borders of values and the body: the signature stays
        good, and every such request is refused."""
        chance = self.chance
        given = SIGNER.sign(CODE, FIELDS, BODY)
        signature = given[SIGNATURE]
        message = proven(SECRET, given, BODY, VERSION)
        assert message is not None
        tried = 0
        for _ in range(2000):
            cuts = sorted(chance.choices(range(len(message) + 1), k=chance.randint(1, 6)))
            pieces = [message[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(message)], strict=True)]
            *values, body = pieces
            names = sorted(chance.sample(["0Stamp", "0", "A", "AccessKey", "B", "a", "b", "m", "z"], k=len(values)))
            try:
                fields = {name: value.decode() for name, value in zip(names, values, strict=True)}
            except UnicodeDecodeError:
                continue
            fields[SIGNATURE] = signature
            found = proven(SECRET, fields, body, VERSION)
            self.assertEqual(found, message)
            tried += 1
            self.assertTrue(found.startswith(MARK))
            with self.assertRaises(Refused, msg=f"{fields} {body!r}"):
                Stamp.read(found).check(CODE, fields)
        self.assertGreater(tried, 500)

    def test_a_field_that_old_clients_do_not_sign(self) -> None:
        """Who says that he is one may add it; the stamp says that it was not there."""
        given = {**SIGNER.sign(CODE, FIELDS, BODY), "_UNIQUE_KEY_QUERY": "true"}
        found = proven(SECRET, given, BODY, 300)
        assert found is not None
        with self.assertRaisesRegex(Refused, "other fields"):
            Stamp.read(found).check(CODE, given)
