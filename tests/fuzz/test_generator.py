"""The generator itself: what it makes, that it makes it again, and that it refuses what it cannot make."""

from __future__ import annotations

import hashlib
import itertools
import os
import pathlib
import subprocess
import sys
import unittest
from random import Random

import construct
from construct import (
    Array,
    Bytes,
    Check,
    Computed,
    Const,
    Default,
    Enum,
    FixedSized,
    Float64b,
    FocusedSeq,
    GreedyBytes,
    GreedyRange,
    GreedyString,
    If,
    IfThenElse,
    Int8sb,
    Int8ub,
    Int16ub,
    Int24ub,
    Int32sb,
    Int64sb,
    NullTerminated,
    Padded,
    PascalString,
    Pass,
    Prefixed,
    PrefixedArray,
    Rebuild,
    Struct,
    Switch,
    Terminated,
    len_,
    this,
)

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.fuzz.case import CUT, HOSTILE, KINDS, MUTATED, VALID
from rocketha.wire.fuzz.fittings import packed_header
from rocketha.wire.fuzz.generator import REMOTING, Generator, Unbuildable
from rocketha.wire.fuzz.request_table import REQUESTS
from rocketha.wire.fuzz.spans import SpanFinder
from rocketha.wire.fuzz.walk import SpecWalker
from rocketha.wire.registry import FORMATS
from rocketha.wire.remoting import decode
from rocketha.wire.spec.format import Format
from rocketha.wire.spec.remoting import JsonText
from tests.fuzz.readers import SPEC, note_format

EVERYTHING = Struct(
    "mark" / Const(b"RKT"),
    "version" / Const(2, Int8ub),
    "kind" / Enum(Int8ub, plain=0, counted=1, far=200),
    "count" / Int8ub,
    "items" / Array(this.count, Int16ub),
    "width" / Int8sb,
    "raw" / Bytes(this.width),
    "tail_length" / Rebuild(Int24ub, len_(this.tail)),
    "tail" / Bytes(this.tail_length),
    "name" / PascalString(Int16ub, "utf8"),
    "ended" / NullTerminated(GreedyBytes, term=b"\x00"),
    "counted" / PrefixedArray(Int8ub, Int32sb),
    "choice" / Int8ub,
    "chosen" / Switch(this.choice, {1: Int64sb, 2: Bytes(3)}, default=Pass),
    "maybe" / If(this.choice == 1, Int16ub),
    "either" / IfThenElse(this.count > 4, Int8ub, Int64sb),
    "fixed" / FixedSized(16, Struct("a" / Int32sb, "b" / GreedyBytes)),
    "padded" / Padded(8, Int32sb),
    "twice" / Computed(lambda context: context["count"] * 2),
    "sure" / Check(lambda context: context["twice"] == context["count"] * 2),
    "default" / Default(Int16ub, 7),
    "ratio" / Float64b,
    "inner"
    / Prefixed(Int32sb, FocusedSeq("rows", "rows" / GreedyRange(Struct("a" / Int8ub, "b" / Int8ub)), Terminated)),
    "whole" / Prefixed(Int16ub, GreedyBytes, includelength=True),
    "text" / Prefixed(Int8ub, GreedyString("utf8")),
    construct.Padding(2),
    "echo" / Computed(this.tail_length),
    "wide" / Int24ub,
    "of_wide" / Bytes(lambda context: context.get("wide")),
    "of_parent" / Struct("a" / Bytes(this._.wide)),
    "of_name" / Bytes(lambda context: len(context["name"])),
    "less" / Bytes(lambda context: context["count"] - 1),
    "nothings" / Array(2, Pass),
    Terminated,
)
"""Every kind of construct in use, and every way a length is said."""

PADDING_BYTES = 4 + 2
"""Bytes of EVERYTHING that belong to no field: the padding of padded, and Padding."""


def plain(spec: construct.Construct, name: str = "plain", bound: int = 1 << 20) -> Format:
    """A format whose reader is plain construct."""
    return Format(name, spec, lambda data: codec.parse(spec, data), lambda value: codec.build(spec, value), bound, "")


class SpecTests(unittest.TestCase):
    """A specification is enough: nothing else is written for a format to be covered."""

    def test_every_kind_of_construct(self) -> None:
        """A spec with every kind in use builds valid values of many sizes, and they parse."""
        generator, chance = Generator(plain(EVERYTHING), 1), Random(1)
        sizes = set()
        for _ in range(200):
            data = generator.valid(chance)
            codec.parse(EVERYTHING, data)
            sizes.add(len(data))
        self.assertGreater(len(sizes), 50)

    def test_spans_cover_every_byte(self) -> None:
        """Leaf spans of valid bytes are in order, touch each other and end at the end: no field is out of reach."""
        for spec in (EVERYTHING, SPEC, FORMATS["batch-body"].spec, FORMATS["commitlog-record"].spec):
            generator, chance = Generator(plain(spec), 1), Random(2)
            for _ in range(60):
                data = generator.valid(chance)
                leaves = [span for span in generator.spans(data) if span.role != "item" and span.stop > span.start]
                covered = sum(span.stop - span.start for span in leaves)
                paddings = PADDING_BYTES if spec is EVERYTHING else 0
                self.assertEqual(covered + paddings, len(data))
                self.assertTrue(all(a.stop <= b.start for a, b in itertools.pairwise(leaves)))

    def test_lengths_are_known_as_such(self) -> None:
        """Rebuilt, prefixed and referred-to integers are lengths; others are not; constants are constants."""
        data = Generator(plain(EVERYTHING), 1).valid(Random(3))
        roles = {span.path: span.role for span in SpanFinder(EVERYTHING).spans(data)}
        for path in ("tail_length", "count", "width", "inner.length", "name.length"):
            self.assertEqual(roles[path], "length", path)
        self.assertEqual(
            (roles["choice"], roles["mark"], roles["version"], roles["tail"]), ("int", "const", "const", "bytes")
        )

    def test_spans_of_foreign_bytes_stop(self) -> None:
        """Bytes that make no sense give the spans up to there, not an error."""
        found = SpanFinder(SPEC).spans(b"\x00\x01\x7f\xff\xff\xff")
        self.assertEqual([span.path for span in found], ["kind", "length"])
        self.assertEqual(SpanFinder(SPEC).spans(b"\x00"), [])

    def test_spans_stop_where_items_do(self) -> None:
        """A list's stray tail, a missing terminator and items of no bytes end the walk, they do not break it."""
        rows = SpanFinder(Struct("rows" / GreedyRange(Struct("a" / Int16ub)))).spans(b"\x00\x01\x00\x02\x00")
        self.assertEqual([span.path for span in rows], ["rows.0.a", "rows.0", "rows.1.a", "rows.1"])
        self.assertEqual(SpanFinder(Struct("rows" / GreedyRange(Pass))).spans(b"ab"), [])
        self.assertEqual(SpanFinder(Struct("a" / NullTerminated(GreedyBytes))).spans(b"ab"), [])

    def test_json_without_fitting(self) -> None:
        """A JSON format nobody fitted is covered: its members say what to write, hostile text included."""
        target = plain(JsonText({"topic": "text", "queueId": "int", "more": "strings"}), bound=4096)
        generator = Generator(target, 1)
        for index in range(60):
            case = generator.case(index)
            if case.kind == VALID:
                self.assertLessEqual(set(codec.parse(target.spec, case.data)), {"topic", "queueId", "more"})

    def test_an_unknown_construct_is_named(self) -> None:
        """A kind nobody taught the walk is a TypeError that names it and its place, so its format's test fails."""
        for make in (SpecWalker, SpanFinder):
            with self.assertRaisesRegex(TypeError, r"spec\.inner\.late: .*RepeatUntil"):
                make(Struct("inner" / Struct("late" / construct.RepeatUntil(lambda *each: True, Int8ub))))

    def test_a_spec_that_contradicts_itself(self) -> None:
        """A length field that can never be right is an Unbuildable with the reason, not an endless search."""
        impossible = Struct("n" / Rebuild(Int8ub, 300), "x" / Bytes(this.n))
        with self.assertRaisesRegex(Unbuildable, "12 attempts"):
            Generator(plain(impossible), 1).valid(Random(1))
        too_large = Struct("x" / Bytes(100))
        with self.assertRaises(Unbuildable):
            Generator(plain(too_large, bound=10), 1).valid(Random(1))

    def test_the_narrow_length_is_respected(self) -> None:
        """A one-byte length field leads to smaller attempts, not to failure."""
        narrow = Struct("n" / Rebuild(Int8ub, len_(this.x)), "x" / Bytes(this.n))
        chance, generator = Random(5), Generator(plain(narrow), 1)
        self.assertLessEqual(max(len(generator.valid(chance)) for _ in range(300)), 256)


class CaseTests(unittest.TestCase):
    """Cases by number."""

    def test_same_under_any_hash_seed(self) -> None:
        """Two processes with different PYTHONHASHSEED make the same bytes for every format and kind."""
        script = (
            "import hashlib\nfrom rocketha.wire.registry import FORMATS\n"
            "from rocketha.wire.fuzz.generator import Generator\nsha = hashlib.sha256()\n"
            "for name in sorted(FORMATS):\n    generator = Generator(FORMATS[name], 99)\n"
            "    for index in range(150):\n        case = generator.case(index)\n"
            "        sha.update(f'{case.kind}{case.note}'.encode() + case.data)\nprint(sha.hexdigest())\n"
        )
        root = pathlib.Path(__file__).resolve().parent.parent.parent
        digests = []
        for hash_seed in ("1", "4242"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root / "src")}
            ran = subprocess.run(
                [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
            )
            digests.append(ran.stdout)
        self.assertEqual(digests[0], digests[1])
        self.assertEqual(len(digests[0].strip()), hashlib.sha256().digest_size * 2)

    def test_order_does_not_matter(self) -> None:
        """Case 7 alone is case 7 of a whole run; another seed makes others."""
        target = FORMATS[REMOTING]
        generator = Generator(target, 4)
        whole = [generator.case(index) for index in range(20)]
        self.assertEqual(Generator(target, 4).case(7), whole[7])
        self.assertEqual(generator.case(7), whole[7])
        self.assertNotEqual(
            [Generator(target, 5).case(index).data for index in range(20)], [case.data for case in whole]
        )

    def test_a_case_names_itself(self) -> None:
        """What is printed is enough to make it again."""
        text = str(Generator(FORMATS["index-unit"], 4, (CUT,)).case(3))
        self.assertRegex(text, r"index-unit case 3 of seed 4 \(cut: .*\d+ bytes\)")

    def test_damage_is_damage(self) -> None:
        """Cut, mutated and hostile cases are mostly not what the spec built."""
        for kind in (CUT, MUTATED, HOSTILE):
            generator = Generator(note_format(), 1, (kind,))
            refused = 0
            for index in range(200):
                try:
                    codec.parse(SPEC, generator.case(index).data)
                except RemoteProtocolError:
                    refused += 1
            self.assertGreater(refused, 60, kind)

    def test_hostile_lengths_reach_the_limits(self) -> None:
        """Among a few hundred hostile notes the length is 0, negative, the largest and just too large (security.md)."""
        generator = Generator(note_format(), 1, (HOSTILE,))
        lengths = set()
        for index in range(600):
            data = generator.case(index).data
            lengths.add(int.from_bytes(data[2:6], "big", signed=True) if len(data) >= 6 else None)
        self.assertLessEqual({0, -1, 2**31 - 1, -(2**31), 70_001}, lengths)


class RemotingCaseTests(unittest.TestCase):
    """Remoting cases must reach what stands behind the decoder."""

    def test_valid_requests_decode(self) -> None:
        """Every valid case is one whole frame with the case's own opaque, over many codes and both header forms."""
        generator = Generator(FORMATS[REMOTING], 6, (VALID,))
        codes, forms = set(), set()
        for index in range(3000):
            data = generator.case(index).data
            self.assertEqual(int.from_bytes(data[:4], "big"), len(data) - 4)
            command = decode(data[4:])
            self.assertEqual(command.opaque, index)
            codes.add(command.code)
            forms.add(data[4])
        self.assertEqual(forms, {0, 1})
        self.assertLessEqual({10, 310, 320, 11, 34, 36, 12, 33, 17, 103, 105, 14, 15, 41}, codes)
        self.assertGreater(len(codes & set(REQUESTS)), len(REQUESTS) * 0.9)

    def test_hostile_requests_mostly_decode(self) -> None:
        """A hostile case that dies in the decoder tests only the decoder: more than half go further."""
        generator = Generator(FORMATS[REMOTING], 6, (HOSTILE,))
        readable, notes = 0, []
        for index in range(2000):
            case = generator.case(index)
            notes.append(case.note)
            try:
                FORMATS[REMOTING].parse(case.data)
                readable += 1
            except RemoteProtocolError:
                pass
        self.assertGreater(readable, 1000)
        for wanted in (
            "deep",
            "more of",
            "fields",
            "zlib bomb",
            "serialize type",
            "total =",
            "header_length =",
            "opens with",
        ):
            self.assertTrue(any(wanted in note for note in notes), wanted)

    def test_hostile_names_are_in(self) -> None:
        """Path pieces, NUL, separators and over-long names arrive as names (CVE-2019-17572, security.md)."""
        generator = Generator(FORMATS[REMOTING], 6, (HOSTILE,))
        seen = set()
        for index in range(6000):
            try:
                seen |= set(decode(generator.case(index).data[4:]).fields.values())
            except RemoteProtocolError:
                continue
        for name in (
            "..",
            "/",
            "\x00",
            "#",
            "%",
            "a" * 256,
            "../../../../tmp/rocketha-fuzz",
            "-1",
            "2147483648",
            "\u0663",
        ):
            self.assertIn(name, seen)

    def test_packed_header_agrees(self) -> None:
        """The packed form of a header object decodes to the same command as its JSON."""
        head = {"code": 310, "version": 513, "opaque": 5, "flag": 2, "extFields": {"a": "g", "b": "\u4e2d"}}
        header = packed_header(head)
        command = decode((0x01000000 | len(header)).to_bytes(4, "big") + header)
        self.assertEqual((command.code, command.version, command.opaque, command.flag), (310, 513, 5, 2))
        self.assertEqual((command.fields, command.language), ({"a": "g", "b": "\u4e2d"}, "JAVA"))

    def test_kinds(self) -> None:
        """All four kinds come in a run, hostile most often."""
        generator = Generator(FORMATS[REMOTING], 6)
        kinds = [generator.case(index).kind for index in range(400)]
        self.assertEqual(set(kinds), set(KINDS))
        self.assertGreater(kinds.count(HOSTILE), kinds.count(CUT))
