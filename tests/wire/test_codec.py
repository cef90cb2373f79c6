"""The derived fast paths equal plain construct, and no foreign error leaves the codec."""

from __future__ import annotations

import importlib
import pkgutil
import struct
import unittest
from typing import Any

import construct
from construct import Bytes, GreedyBytes, Int16ub, Int32sb, Int32sl, Struct
from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire import codec, spec


def fixed_specs() -> dict[str, construct.Construct]:
    """Every Struct of wire/spec from which a fast path can be derived."""
    found = {}
    for info in pkgutil.iter_modules(spec.__path__):
        module = importlib.import_module(f"{spec.__name__}.{info.name}")
        for name, value in vars(module).items():
            # A Struct, bare or under its name.
            inner = value.subcon if isinstance(value, construct.Renamed) else value
            if isinstance(inner, construct.Struct):
                try:
                    codec.flat(value)
                except TypeError:
                    continue
                found[f"{info.name}.{name}"] = value
    return found


FIXED = fixed_specs()


class FlatTests(unittest.TestCase):
    """style.md 4a, rule e: derived against plain, for every specification."""

    def test_there_are_some(self) -> None:
        """The search finds what is known to be fixed: otherwise the property below says nothing."""
        self.assertLessEqual(
            {"remoting.BINARY_FIXED", "consume_queue.UNIT", "index_file.HEADER", "checkpoint.CHECKPOINT"}, set(FIXED)
        )

    @given(st.data())
    def test_equals_construct(self, data: st.DataObject) -> None:
        """For any bytes of the right size: same values, same names, and both write the same bytes back."""
        name = data.draw(st.sampled_from(sorted(FIXED)))
        flat = codec.flat(FIXED[name])
        raw = data.draw(st.binary(min_size=flat.size, max_size=flat.size))
        plain = FIXED[name].parse(raw)
        values = flat.unpack(raw)
        self.assertEqual(dict(zip(flat.names, values)), {key: plain[key] for key in flat.names})
        self.assertEqual(flat.size, FIXED[name].sizeof())
        self.assertEqual(flat.pack(*values), raw)
        self.assertEqual(FIXED[name].build(dict(zip(flat.names, values))), raw)

    def test_offsets_and_short_buffers(self) -> None:
        """Values stand at an offset; a buffer that ends before them, or an offset before it, is refused."""
        flat = codec.flat(Struct("a" / Int32sb, "b" / Bytes(2)))
        self.assertEqual(flat.unpack(b"xx\x00\x00\x00\x07ab", 2), (7, b"ab"))
        for data, offset in ((b"\x00" * 5, 0), (b"\x00" * 7, 2), (b"", 0), (b"\x00" * 12, -1), (b"\x00" * 6, 7)):
            with self.subTest(data=data, offset=offset), self.assertRaises(RemoteProtocolError):
                flat.unpack(data, offset)

    def test_unpack_all(self) -> None:
        """A whole number of values, or a refusal: construct's GreedyRange would drop a stray tail."""
        flat = codec.flat(Struct("a" / Int32sb))
        self.assertEqual(list(flat.unpack_all(b"\x00\x00\x00\x01\xff\xff\xff\xff")), [(1,), (-1,)])
        self.assertEqual(list(flat.unpack_all(b"")), [])
        with self.assertRaisesRegex(RemoteProtocolError, "no multiple of 4"):
            flat.unpack_all(b"\x00" * 5)

    def test_pack_refuses(self) -> None:
        """A value that does not fit is ours to report, with the fields' names."""
        with self.assertRaisesRegex(RemoteProtocolError, "cannot write a: "):
            codec.flat(Struct("a" / Int16ub)).pack(-1)

    def test_only_fixed_specs(self) -> None:
        """Variable fields and mixed byte orders are errors of the import, not of a message."""
        for wrong in (
            Struct("a" / GreedyBytes),
            Struct("n" / Int32sb, "a" / Bytes(lambda context: context["n"])),
            Struct("a" / Int32sb, "b" / Int32sl),
        ):
            with self.assertRaisesRegex(TypeError, "[ab]: "):
                codec.flat(wrong)

    def test_bytes_only(self) -> None:
        """A Struct of raw bytes has no byte order of its own; ours is big-endian."""
        self.assertEqual(codec.flat(Struct("a" / Bytes(3))).layout.format, ">3s")


class PlainTests(unittest.TestCase):
    """parse and build: construct with our errors."""

    PAIR = "pair" / Struct("n" / Int16ub, "data" / Bytes(lambda context: context["n"]))

    def test_both_ways(self) -> None:
        """Value to bytes and back, from any kind of buffer."""
        raw = codec.build(self.PAIR, {"n": 2, "data": b"ab"})
        self.assertEqual(raw, b"\x00\x02ab")
        for buffer in (raw, bytearray(raw), memoryview(raw)):
            self.assertEqual(codec.parse(self.PAIR, buffer)["data"], b"ab")

    def test_errors_of_parse(self) -> None:
        """Every refusal names the format; a caller that knows a file gets an error of that file."""
        with self.assertRaisesRegex(RemoteProtocolError, "^pair: "):
            codec.parse(self.PAIR, b"\x00\x09ab")
        with self.assertRaises(CorruptStore) as caught:
            codec.parse(self.PAIR, b"", lambda reason: CorruptStore("commitlog/0", 7, reason))
        self.assertEqual((caught.exception.path, caught.exception.offset), ("commitlog/0", 7))

    def test_errors_of_lambdas(self) -> None:
        """Whatever an expression of a spec raises on odd bytes becomes ours."""
        for problem in (KeyError("k"), ValueError("v"), OverflowError("o"), struct.error("s"), MemoryError()):

            def fail(context: Any, problem: BaseException = problem) -> int:
                raise problem

            with self.subTest(problem), self.assertRaises(RemoteProtocolError) as caught:
                codec.parse(Struct("a" / Bytes(fail)), b"x")
            self.assertRegex(str(caught.exception), "^Struct: .+")

    def test_errors_of_build(self) -> None:
        """Missing keys, wrong types and values out of range."""
        for value in ({}, {"n": 2}, {"n": -1, "data": b""}, {"n": 2, "data": b"abc"}, {"n": "x", "data": b""}, None, 5):
            with self.subTest(value), self.assertRaisesRegex(RemoteProtocolError, "^pair: "):
                codec.build(self.PAIR, value)
