"""Commands: both header forms, there and back, against plain construct, against Java's bytes, and at every limit.

Sources: RemotingCommand, RocketMQSerializable, LanguageCode; facts checked on the running Java 5.5.0.
"""

from __future__ import annotations

import json
import struct
import unittest
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec, remoting
from rocketha.wire.fuzz.fittings import packed_header
from rocketha.wire.registry import FORMATS
from rocketha.wire.remoting import HEADER_LIMIT, LANGUAGES, VERSION, Answer, Command, decode, encode, encode_answer
from rocketha.wire.spec import remoting as spec
from tests.wire.support import commands, filled, java_frames, text


def json_frame(header: bytes | dict[str, Any], body: bytes = b"") -> bytes:
    """What follows the length word, for any header text."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">I", len(raw)) + raw + body


def binary_frame(header: bytes, body: bytes = b"") -> bytes:
    """The same with a packed header."""
    return struct.pack(">I", 1 << 24 | len(header)) + header + body


def packed(fields: bytes = b"", remark: bytes = b"", language: int = 0) -> bytes:
    """A packed header with raw fields."""
    fixed = struct.pack(">hBhii", 105, language, 513, 9, 0)
    return fixed + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields


def field(name: bytes, value: bytes) -> bytes:
    """One packed field."""
    return struct.pack(">H", len(name)) + name + struct.pack(">i", len(value)) + value


class RoundTripTests(unittest.TestCase):
    """What is written is read."""

    @given(commands(binary=False))
    def test_json(self, command: Command) -> None:
        """Any command, JSON header."""
        self.assertEqual(decode(encode(command)[4:]), command)

    @given(commands(binary=True))
    def test_packed(self, command: Command) -> None:
        """Any command the packed form can carry."""
        self.assertEqual(decode(encode(command, binary=True)[4:]), command)

    @given(commands(binary=True))
    def test_forms_agree_with_construct(self, command: Command) -> None:
        """Plain construct finds the same fields in what we write, in both forms."""
        for binary in (False, True):
            frame = codec.parse(spec.FRAME, encode(command, binary=binary))
            self.assertEqual((frame["serialize_type"], frame["body"]), (int(binary), command.body))
            if binary:
                head = codec.parse(spec.BINARY_HEADER, frame["header"])
                rows = {row["name"].decode(): row["value"].decode() for row in head["fields"]}
                self.assertEqual((head["remark"].decode() or None, rows), (command.remark, command.fields))
                numbers = (head["code"], head["version"], head["opaque"], head["flag"])
            else:
                head = codec.parse(spec.JSON_HEADER, frame["header"])
                self.assertEqual((head.get("remark"), head["extFields"]), (command.remark, command.fields))
                numbers = (head["code"], head["version"], head["opaque"], head["flag"])
            self.assertEqual(numbers, (command.code, command.version, command.opaque, command.flag))

    @given(st.integers(-(2**31), 2**31 - 1), st.dictionaries(text, text, max_size=4) | st.none(), st.none() | text)
    def test_answers(self, opaque: int, fields: dict[str, str] | None, remark: str | None) -> None:
        """The hand-laid answer is a response that decodes to what was meant, and keeps absent apart from empty."""
        raw = encode_answer(opaque, Answer(17, remark, fields, b"body"))
        command = decode(raw[4:])
        self.assertEqual(struct.unpack(">i", raw[:4])[0], len(raw) - 4)
        self.assertEqual((command.code, command.opaque, command.remark), (17, opaque, remark))
        self.assertEqual((command.fields, command.body), (fields or {}, b"body"))
        self.assertTrue(command.is_response)
        self.assertEqual((command.language, command.version), ("PYTHON", VERSION))
        head = json.loads(raw[8 : 8 + (struct.unpack(">I", raw[4:8])[0] & 0xFFFFFF)])
        self.assertEqual("extFields" in head, fields is not None)
        self.assertEqual("remark" in head, remark is not None)
        self.assertEqual(list(head), sorted(head), "Java's key order")

    def test_memoryview(self) -> None:
        """A slice of a receive buffer decodes as bytes do, and its body is a copy."""
        raw = encode(Command(310, fields={"a": "b"}, body=b"hello"))
        for binary in (raw, encode(Command(310, fields={"a": "b"}, body=b"hello"), binary=True)):
            buffer = bytearray(binary)
            command = decode(memoryview(buffer)[4:])
            buffer[:] = bytes(len(buffer))
            self.assertEqual((command.fields, command.body), ({"a": "b"}, b"hello"))


class CommandTests(unittest.TestCase):
    """The value itself."""

    def test_flags(self) -> None:
        """Bit 0 is a response, bit 1 a oneway; other bits say nothing."""
        for flag, response, oneway in (
            (0, False, False),
            (1, True, False),
            (2, False, True),
            (3, True, True),
            (4, False, False),
        ):
            command = Command(1, flag=flag)
            self.assertEqual((command.is_response, command.is_oneway), (response, oneway))

    def test_request(self) -> None:
        """A request of ours: its own copy of the fields, oneway by flag."""
        fields = {"a": "1"}
        command = remoting.request(15, fields, b"x", oneway=True)
        fields["a"] = "2"
        self.assertEqual((command.code, command.flag, command.fields, command.body), (15, 2, {"a": "1"}, b"x"))
        self.assertEqual(remoting.request(34), Command(34))


class JsonHeaderTests(unittest.TestCase):
    """Type 0, and what Java's reader coerces or takes for granted."""

    def test_defaults(self) -> None:
        """Absent keys are Java's defaults; unknown keys are ignored."""
        self.assertEqual(decode(json_frame(b"{}")), Command(0, "JAVA", 0, 0, 0, None, {}, b""))
        self.assertEqual(decode(json_frame({"code": 5, "news": [1]})).code, 5)

    def test_language(self) -> None:
        """Known names are kept; unknown ones and other types are None, without an error (seen offline)."""
        for name in LANGUAGES:
            self.assertEqual(decode(json_frame({"language": name})).language, name)
        for odd in ("KLINGON", "", "java", 3, None, {}, [], 1.5):
            self.assertIsNone(decode(json_frame({"language": odd})).language)

    def test_extfields_are_coerced(self) -> None:
        """Numbers and booleans become their text, null is absent (seen offline); so do lists and objects."""
        given = {"a": 1, "b": True, "c": False, "d": None, "e": 1.5, "f": "x", "g": -(2**63)}
        frame = json_frame({"extFields": {**given, "h": ["x"], "i": [], "j": {"k": [1]}, "l": [None]}})
        wanted = {"a": "1", "b": "true", "c": "false", "e": "1.5", "f": "x", "g": str(-(2**63))}
        wanted |= {"h": "x", "i": "[]", "j": '{"k":[1]}'}
        self.assertEqual(decode(frame).fields, wanted)
        self.assertEqual(decode(json_frame({"extFields": None})).fields, {})

    def test_wrong_types(self) -> None:
        """Numbers that are none or too large, a remark that is no text, a header that is no object."""
        for header in (
            {"extFields": []},
            {"extFields": "a"},
            {"remark": 5},
            {"code": "10"},
            {"code": 1.0},
            {"code": None},
            {"code": 2**31},
            {"opaque": -(2**31) - 1},
            {"version": 2**70},
            {"flag": []},
        ):
            with self.subTest(header), self.assertRaises(RemoteProtocolError):
                decode(json_frame(header))
        for raw in (b"", b"null", b"[]", b"5", b'"x"', b"{", b"{}x", b"\xff", b'{"remark":"\\ud800"}', b"[" * 60000):
            with self.subTest(raw[:20]), self.assertRaises(RemoteProtocolError):
                decode(json_frame(raw))

    def test_deep_values(self) -> None:
        """A thousand lists where a number, a text or a field is wanted: refused, never a RecursionError."""
        for depth in (34, 40, 900, 1000, 1020, 1023, 1024, 5000):
            for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
                deep = opening * depth + b"1" + closing * depth
                for member in (b'"code"', b'"remark"', b'"extFields"'):
                    with self.subTest(depth, member=member), self.assertRaises(RemoteProtocolError):
                        decode(json_frame(b"{" + member + b":" + deep + b"}"))

    def test_fastjson_dialect(self) -> None:
        """Unquoted keys, as fastjson takes them; of a repeated key the last counts."""
        self.assertEqual(decode(json_frame(b"{code:10,opaque:4}")).code, 10)
        self.assertEqual(decode(json_frame(b'{"code":10,"code":11}')).code, 11)

    def test_separators_in_properties(self) -> None:
        """0x01 and 0x02 arrive escaped in the header's text and come out as themselves."""
        self.assertEqual(decode(json_frame(b'{"extFields":{"i":"K\\u0001v\\u0002"}}')).fields, {"i": "K\x01v\x02"})


class PackedHeaderTests(unittest.TestCase):
    """Type 1."""

    def test_smallest(self) -> None:
        """21 bytes: no remark, no fields."""
        header = packed()
        self.assertEqual(len(header), 21)
        self.assertEqual(decode(binary_frame(header)), Command(105, "JAVA", 513, 9, 0))

    def test_fast_codec_size(self) -> None:
        """The 310 header of facts (fields a to n, checked against the Java classes) is 142 bytes in our writer too."""
        fields = {letter: letter for letter in "abcdefghijklmn"}
        sizes = 21 + sum(2 + 1 + 4 + 1 for _ in fields)
        raw = encode(Command(310, fields=fields), binary=True)
        self.assertEqual(len(raw) - 8, sizes)

    def test_nulls(self) -> None:
        """Zero lengths are null: an empty remark, a field without a name or a value; a later null hides an earlier
        value.
        """
        fields = field(b"a", b"") + field(b"", b"x") + field(b"b", b"1") + field(b"b", b"") + field(b"c", b"1")
        command = decode(binary_frame(packed(fields + field(b"c", b"2"))))
        self.assertEqual((command.remark, command.fields), (None, {"c": "2"}))

    def test_language(self) -> None:
        """Codes by LanguageCode; a code beyond it is None."""
        for code, name in ((0, "JAVA"), (3, "PYTHON"), (13, "NODE_JS"), (14, None), (255, None)):
            self.assertEqual(decode(binary_frame(packed(language=code))).language, name)

    def test_cut_everywhere(self) -> None:
        """Every strict prefix of a packed header is refused, and so is one byte more."""
        header = packed(field(b"topic", b"T") + field(b"b", b"22"), b"because")
        self.assertEqual(decode(binary_frame(header)).fields, {"topic": "T", "b": "22"})
        for stop in range(len(header)):
            with self.subTest(stop), self.assertRaises(RemoteProtocolError):
                decode(binary_frame(header[:stop]))
        with self.assertRaisesRegex(RemoteProtocolError, "1 bytes after the binary header"):
            decode(binary_frame(header + b"\x00"))

    def test_lengths_that_lie(self) -> None:
        """Lengths of remark, fields, names and values: negative, or past their surroundings."""
        good = packed(field(b"ab", b"cd"), b"r")
        # Positions: remark length 13, fields length 18, name length 22, value length 26.
        for at, width, values in (
            (13, 4, (-1, -(2**31), 2**31 - 1, 100)),
            (18, 4, (-1, 2**31 - 1, 11, 9, 1)),
            (22, 2, (-1, 3, 32767)),
            (26, 4, (-1, 3, 1, 2**31 - 1)),
        ):
            for value in values:
                lying = good[:at] + (value % (1 << 8 * width)).to_bytes(width, "big") + good[at + width :]
                with self.subTest(at=at, value=value), self.assertRaises(RemoteProtocolError):
                    decode(binary_frame(lying))

    def test_not_utf8(self) -> None:
        """Text that is not UTF-8 is refused by name, wherever it stands."""
        for header, name in (
            (packed(remark=b"\xff"), "remark"),
            (packed(field(b"\xff", b"a")), "field name"),
            (packed(field(b"a", b"\xff")), "field value"),
            (packed(field(b"\xff", b"")), "field name"),
        ):
            with self.subTest(name), self.assertRaisesRegex(RemoteProtocolError, f"{name} is not UTF-8"):
                decode(binary_frame(header))

    @given(st.dictionaries(filled, filled, max_size=5))
    def test_same_as_json(self, fields: dict[str, str]) -> None:
        """The two forms of one header are one command."""
        head = {"code": 310, "version": 401, "opaque": 7, "flag": 0, "extFields": fields, "language": "JAVA"}
        self.assertEqual(decode(binary_frame(packed_header(head))), decode(json_frame(head)))


class FrameTests(unittest.TestCase):
    """What holds for both forms: the header word and the limits (security.md)."""

    def test_header_word(self) -> None:
        """No word, a header longer than the frame, over the limit, of an unknown type: refused."""
        for frame, text_ in (
            (b"", "no header word"),
            (b"\x00\x00\x00", "no header word"),
            (b"\x00\x00\x00\x01", "header of 1 bytes in a frame of 4"),
            (b"\x00\xff\xff\xff{}", "header of 16777215 bytes"),
            (struct.pack(">I", HEADER_LIMIT + 1) + bytes(HEADER_LIMIT + 1), f"at most {HEADER_LIMIT}"),
            (b"\x02\x00\x00\x02{}", "unknown serialize type 2"),
            (b"\xff\x00\x00\x02{}", "unknown serialize type 255"),
        ):
            with self.subTest(text_), self.assertRaisesRegex(RemoteProtocolError, text_):
                decode(frame)

    def test_header_of_exactly_the_limit(self) -> None:
        """A header of the limit is read; a caller may allow more."""
        filler = HEADER_LIMIT - len(b'{"remark":""}')
        raw = b'{"remark":"' + b"a" * filler + b'"}'
        self.assertEqual(len(decode(json_frame(raw)).remark or ""), filler)
        longer = raw[:-2] + b'a"}'
        with self.assertRaises(RemoteProtocolError):
            decode(json_frame(longer))
        self.assertEqual(len(decode(json_frame(longer), HEADER_LIMIT + 1).remark or ""), filler + 1)

    def test_body(self) -> None:
        """Everything after the header, also nothing."""
        self.assertEqual(decode(json_frame(b"{}", b"\x00\x01")).body, b"\x00\x01")
        self.assertEqual(decode(json_frame(b"{}")).body, b"")

    def test_what_cannot_be_written(self) -> None:
        """Codes beyond the packed form, lone surrogates, headers over 24 bits: refused by us, never by struct or
        orjson.
        """
        for command, binary in (
            (Command(200050), True),
            (Command(1, version=70000), True),
            (Command(1, remark="\ud800"), False),
            (Command(1, fields={"a": "\udfff"}), False),
            (Command(1, fields={"a": "x" * (1 << 24)}), False),
        ):
            with self.subTest(command.code, binary=binary), self.assertRaises(RemoteProtocolError):
                encode(command, binary=binary)

    def test_packed_text_that_cannot_be_written(self) -> None:
        """The packed form refuses a lone surrogate and an over-long name as well."""
        for command in (
            Command(1, remark="\ud800"),
            Command(1, fields={"\udfff": "a"}),
            Command(1, fields={"n" * 65536: "a"}),
        ):
            with self.assertRaises(RemoteProtocolError):
                encode(command, binary=True)

    def test_the_registered_reader(self) -> None:
        """The format as the fuzzer and tools use it: one frame with its length word, exactly."""
        reader = FORMATS["remoting"].parse
        raw = encode(Command(105, fields={"topic": "T"}))
        self.assertEqual(reader(raw), Command(105, fields={"topic": "T"}))
        for wrong in (raw[:-1], raw + b"\x00", raw[:3], b"", b"\xff\xff\xff\xff"):
            with self.assertRaises(RemoteProtocolError):
                reader(wrong)


class JavaTests(unittest.TestCase):
    """Frames recorded from the real system."""

    def test_all_decode(self) -> None:
        """Every recorded frame decodes, with the code it was recorded for, from Java at V5_5_0."""
        for row, frame in java_frames():
            with self.subTest(row["from"], request=row["request"]):
                command = decode(frame[4:])
                self.assertEqual(command.code, row["code"])
                self.assertEqual(command.is_response, row["what"] == "answer")
                self.assertEqual((command.language, command.version), ("JAVA", 513))

    def test_what_we_write_says_the_same(self) -> None:
        """Read, written by us in either form, and read again: the same command. In JSON the same keys as Java's
        text.
        """
        for row, frame in java_frames():
            with self.subTest(row["from"], request=row["request"]):
                command = decode(frame[4:])
                ours = encode(command)
                self.assertEqual(decode(ours[4:]), command)
                java, mine = (json.loads(raw[8 : 8 + (raw[5] << 16 | raw[6] << 8 | raw[7])]) for raw in (frame, ours))
                java.setdefault("extFields", {})
                self.assertEqual(mine, java)
                if "" not in command.fields.values() and command.remark != "":
                    self.assertEqual(decode(encode(command, binary=True)[4:]), command)

    def test_a_known_header(self) -> None:
        """A send, field by field."""
        send = next(
            decode(frame[4:]) for row, frame in java_frames() if row["code"] == 310 and row["what"] == "request"
        )
        self.assertLessEqual(set("abcdefghi"), set(send.fields))
        self.assertIn("UNIQ_KEY\x01", send.fields["i"])
        self.assertTrue(send.body)
