"""The compiled twins do what their references do, and leave to them what they cannot."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import sysconfig
import unittest
import zlib
from array import array
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha import compiled
from rocketha.broker import message_keys, send
from rocketha.broker.message_keys import batch_keys
from rocketha.errors import InvariantBroken, RemoteProtocolError
from rocketha.store import append, index, index_file
from rocketha.store.dispatch import index_keys
from rocketha.store.index_file import key_hash
from rocketha.store.messages import PutBatch
from rocketha.wire import batch, dledger, properties, record
from rocketha.wire.java_text import string_hash
from rocketha.wire.record import HEAD_LAYOUTS, Record

MODULES = (append, batch, index, index_file, message_keys, record, send)
"""Where references are."""

_PIECE = st.one_of(
    st.builds(
        "{}\x01{}\x02".format, st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "a"]), st.text("ab #\x7f", max_size=9)
    ),
    st.text(alphabet="aKEYSUNIQ_\x01\x02 \0", max_size=12),
)
_BLOCK = st.lists(_PIECE, max_size=5).map(lambda pieces: "".join(pieces).encode())
_INT = st.integers(-(1 << 31), (1 << 31) - 1)
_MESSAGE = st.builds(batch.BatchMessage, _INT, st.binary(max_size=40), _BLOCK)
_RECORD = Record(0, 0, 0, 3, 0, 7, 4096, 0, 1, bytes(8), 2, bytes(range(8)), 0, 0, b"", "TopicTest", b"TAGS\x01a\x02")
_SLOTS, _PAGES = 5000, 5


def without_compiler() -> str | None:
    """Why there need not be a twin."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        return "no C compiler"
    if not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "no Python.h"
    return None


def twin(name: str) -> Callable[..., Any]:
    """The compiled one alone."""
    found: Callable[..., Any] = getattr(compiled._twins, name)
    return found


def rows(members: batch.Members) -> list[batch.BatchMessage]:
    """Their messages."""
    return list(map(batch.BatchMessage, members.flags, members.bodies, members.properties))


def with_blocks(blocks: list[bytes]) -> batch.Members:
    """Compiled members with these properties."""
    found: batch.Members = twin("split_batch")(batch.join(batch.BatchMessage(0, b"", each) for each in blocks), 1000)
    return found


class AvailabilityTests(unittest.TestCase):
    """Where there is a compiler, there are twins, and they can be left unused."""

    def test_built(self) -> None:
        reason = without_compiler()
        if reason:
            self.skipTest(reason)
        self.assertTrue(compiled.AVAILABLE or os.environ.get(compiled.PURE))

    def test_left_unused(self) -> None:
        code = "from rocketha import compiled; print(compiled.AVAILABLE)"
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {compiled.PURE: "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(run.stdout, "False\n")


@unittest.skipUnless(compiled.AVAILABLE, "no compiled twins here")
class TwinTests(SynchronousTestCase):
    """One function after the other; a reference without a test here fails the first."""

    def test_each_has_its_test(self) -> None:
        self.assertTrue(MODULES)  # imported, so that all references are known
        tested = {name.removeprefix("test_") for name in dir(self) if name.startswith("test_")}
        self.assertEqual(set(compiled.REFERENCES) - tested, set())

    @given(st.lists(_MESSAGE, max_size=6))
    def test_split_batch(self, messages: list[batch.BatchMessage]) -> None:
        data = batch.join(messages)
        found = twin("split_batch")(data, 6)
        self.assertEqual(rows(found), messages)
        self.assertEqual((found.count, found.data), (len(messages), data))
        if messages:
            self.assertIsNone(twin("split_batch")(data, len(messages) - 1))

    @given(st.lists(_MESSAGE, min_size=1, max_size=3), st.data())
    def test_split_batch_of_damaged_ones(self, messages: list[batch.BatchMessage], data: st.DataObject) -> None:
        """It reads what the reference reads, and nothing else."""
        damaged = bytearray(batch.join(messages))
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
        cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
        found = twin("split_batch")(cut, 1000)
        try:
            expected: batch.Columns | None = batch._any(cut)
        except RemoteProtocolError:
            expected = None
        self.assertEqual(found and rows(found), expected and rows(expected))

    @given(st.lists(_BLOCK, max_size=5))
    def test_ascii_tags_codes(self, blocks: list[bytes]) -> None:
        self.assertEqual(twin("ascii_tags_codes")(with_blocks(blocks)), list(message_keys._joined(blocks)[0]))

    def test_other_text_is_left(self) -> None:
        for block in ("TAGS\x01é\x02".encode(), b"a\x01\xff\x02", b"TAGS\x01a\x02KEYS\x01abcdefgh\x80"):
            members = with_blocks([b"TAGS\x01a\x02", block])
            self.assertIsNone(twin("ascii_tags_codes")(members))
            self.assertIsNone(twin("units_of_members")(7, members, [1, 2]))
            self.assertIsNone(twin("units_of_records")(string_hash, [("T", ("a",), 1), ("T", block, 2)]))

    @given(st.lists(_MESSAGE, min_size=1, max_size=5), st.sampled_from(list(HEAD_LAYOUTS)), st.integers(0, 1 << 62))
    def test_lay_out(self, messages: list[batch.BatchMessage], bits: int, position: int) -> None:
        values = [0, -0x25524F3C, 0, 7, 0, 0, 0, bits, 1 << 40, b"b" * 20, 1 << 41, b"s" * 20, 3, 0, 0]
        head = HEAD_LAYOUTS[bits].pack(*values)
        members = twin("split_batch")(batch.join(messages), 1000)
        group = PutBatch("T", 7, bits, 1 << 40, b"", 3, members, (), dict)  # type: ignore[arg-type]
        for entries in ((), (-1, 0), (0, 0), (1 << 40, 1 << 33)):
            arguments = group, head, b"\x01T", 5, position, 1000, *entries
            parts, *rest = compiled.REFERENCES["lay_out"](*arguments)
            (records,), *found = twin("lay_out")(*arguments)
            self.assertEqual((records, found), (b"".join(parts), rest))

    def test_lay_out_of_what_is_too_large(self) -> None:
        head = bytes(HEAD_LAYOUTS[0].size)
        members = twin("split_batch")(batch.join([batch.BatchMessage(0, bytes(900), b"")]), 1)
        group = PutBatch("T", 0, 0, 0, b"", 0, members, [0], dict)  # type: ignore[arg-type]
        self.assertIsNone(twin("lay_out")(group, head, b"\x01T", 0, 0, 900))
        self.assertRaises(InvariantBroken, append.lay_out, group, head, b"\x01T", 0, 0, 900)

    def test_the_crc_of_bodies_of_any_size(self) -> None:
        """The seed is the size."""
        for size in (*range(70), 1023, 1024, 1025, 5000):
            body = random.Random(size).randbytes(size)
            members = twin("split_batch")(batch.join([batch.BatchMessage(0, body, b"")]), 1)
            group = PutBatch("T", 0, 0, 0, b"", 0, members, [0], dict)  # type: ignore[arg-type]
            (records,), *_ = twin("lay_out")(group, bytes(HEAD_LAYOUTS[0].size), b"\x01T", 0, 0, 1 << 20)
            self.assertEqual(int.from_bytes(records[8:12]), zlib.crc32(body) & 0x7FFFFFFF, size)

    def test_columns_are_left(self) -> None:
        """Of a batch that the reference split."""
        columns = batch.Columns([0], [b""], [b""])
        group = PutBatch("T", 0, 0, 0, b"", 0, columns, [0], dict)  # type: ignore[arg-type]
        self.assertIsNone(twin("lay_out")(group, bytes(HEAD_LAYOUTS[0].size), b"\x01T", 0, 0, 1 << 20))
        self.assertIsNone(twin("ascii_tags_codes")(columns))
        self.assertIsNone(twin("units_of_members")(7, columns, [1]))

    @given(st.lists(st.tuples(st.integers(1, 1000), st.integers(-(1 << 63), (1 << 63) - 1)), min_size=1, max_size=6))
    def test_queue_units(self, records: list[tuple[int, int]]) -> None:
        offsets = [sum(size for size, _ in records[:number]) for number in range(len(records) + 1)]
        arguments = offsets[:-1], offsets[-1], [code for _, code in records]
        for lead in ((), (0,), (48,)):
            self.assertEqual(
                twin("queue_units")(*arguments, *lead), compiled.REFERENCES["queue_units"](*arguments, *lead)
            )

    @given(st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 1)), max_size=5), st.data())
    def test_take_intact(self, bodies: list[tuple[bytes, int]], data: st.DataObject) -> None:
        """Records with and without gaps; what is damaged, or points elsewhere, gives the same or is left."""
        log, wanted, base = bytearray(), [], data.draw(st.sampled_from([0, 1000, 1 << 62]))
        for body, gap in bodies:
            log += b"\xff" * gap
            plain = record.encode(record.sealed(_RECORD._replace(body=body)))
            wanted.append((base + len(log), len(plain), 0))
            log += plain
        compiled_one, plain_one = twin("take_intact"), compiled.REFERENCES["take_intact"]
        self.assertEqual(compiled_one(bytes(log), base, wanted), plain_one(bytes(log), base, wanted))
        edges = st.sampled_from([-(1 << 63), -1, 0, 90, 91, base + len(log) - 91, base + len(log), (1 << 63) - 1])
        for _ in range(data.draw(st.integers(1, 3))):
            if data.draw(st.booleans()) and log:
                log[data.draw(st.integers(0, len(log) - 1))] = data.draw(st.integers(0, 255))
            elif wanted:
                at = data.draw(st.integers(0, len(wanted) - 1))
                wanted[at] = (data.draw(edges), data.draw(edges), 0) if data.draw(st.booleans()) else wanted[at - 1]
        found = compiled_one(bytes(log), base, wanted)
        if found is not None:
            self.assertEqual(found, plain_one(bytes(log), base, wanted))

    @given(st.binary(max_size=30), st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=5))
    def test_message_ids(self, prefix: bytes, offsets: list[int]) -> None:
        prefix = prefix.hex().upper().encode()  # it is part of a pattern to the reference
        self.assertEqual(twin("message_ids")(prefix, offsets), compiled.REFERENCES["message_ids"](prefix, offsets))

    @given(st.lists(_BLOCK, max_size=5))
    def test_units_of_members(self, blocks: list[bytes]) -> None:
        offsets = [1 << 40 | number for number in range(len(blocks))]
        hashes, places = twin("units_of_members")(string_hash("T#"), with_blocks(blocks), offsets)
        expected = [
            (key_hash(string_hash(f"T#{key}")), offset)
            for block, offset in zip(blocks, offsets, strict=True)
            for key in index_keys(properties.parse(block))
        ]
        self.assertEqual(list(zip(hashes, places, strict=True)), expected)

    @given(st.lists(st.tuples(st.sampled_from("TU"), st.lists(st.text(max_size=8)).map(tuple)), max_size=5))
    def test_units_of_records(self, keyed: list[tuple[str, tuple[str, ...]]]) -> None:
        """Text of any kind: Java hashes UTF-16 units."""
        records = [(topic, keys, 1 << 41 | number) for number, (topic, keys) in enumerate(keyed)]
        self.check_units_of(records)

    def check_units_of(self, records: list[index.Keyed]) -> None:
        hashes, places = twin("units_of_records")(lambda topic: string_hash(topic + "#"), records)
        expected = [
            (key_hash(string_hash(f"{topic}#{key}")), at) for topic, keys, at in records for key in index.keys_of(keys)
        ]
        self.assertEqual(list(zip(hashes, places, strict=True)), expected)

    @given(st.lists(st.tuples(st.sampled_from("TU"), st.one_of(_BLOCK, st.just(("a", "é")))), max_size=6))
    def test_units_of_records_by_their_properties(self, keyed: list[tuple[str, tuple[str, ...] | bytes]]) -> None:
        """Beside others that come with their keys."""
        self.check_units_of([(topic, keys, 1 << 41 | number) for number, (topic, keys) in enumerate(keyed)])

    @given(st.lists(st.tuples(st.integers(0, (1 << 31) - 1), st.integers(0, 1 << 62), _INT), min_size=1, max_size=9))
    def test_link_units(self, units: list[tuple[int, int, int]]) -> None:
        """Twice, so that slots lead to units already; most hashes of a run share few slots."""
        hashes, offsets = (
            array("i", [value % 7 or value for value, _, _ in units]),
            array("q", [at for _, at, _ in units]),
        )
        results = []
        for function in (twin("link_units"), compiled.REFERENCES["link_units"]):
            slots, dirty = memoryview(bytearray(4 * _SLOTS)).cast("i"), bytearray(_PAGES)
            linked = [
                function(hashes, offsets, [second for _, _, second in units], slots, dirty, first)
                for first in (1, 1 + len(units))
            ]
            results.append((linked, bytes(slots), dirty))
        self.assertEqual(*results)

    def test_link_units_changes_nothing_where_it_refuses(self) -> None:
        slots, dirty = memoryview(bytearray(4 * _SLOTS)).cast("i"), bytearray(_PAGES)
        hashes, offsets = array("i", [1, -1]), array("q", [1, 2])
        self.assertIsNone(twin("link_units")(hashes, offsets, [1, 1], slots, dirty, 1))
        self.assertRaises(TypeError, twin("link_units"), array("i", [1, 1]), offsets, [1, "1"], slots, dirty, 1)
        self.assertEqual((bytes(slots), dirty), (bytes(4 * _SLOTS), bytearray(_PAGES)))

    @given(
        st.lists(st.integers(0, 40), max_size=6),
        st.sampled_from((0, 7, 1 << 62)),
        st.sampled_from((b"", dledger.build_filler(99), b"\0" * 8, b"\0" * 3, b"\xff" * 4)),
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
        st.sampled_from((None, 8, 16, 24)),
    )
    def test_units_of(
        self, sizes: list[int], first: int, behind: bytes, changes: list[tuple[int, int]], negative: int | None
    ) -> None:
        """Entries, some of them damaged."""
        position, data = first, bytearray()
        for number, size in enumerate(sizes):
            data += dledger.build_head(first + number, 3 + number // 2, position, size) + bytes(size)
            position += 48 + size
        data += behind
        for at, byte in changes:
            if at < len(data):
                data[at] ^= byte
        if sizes and negative is not None:
            data[negative : negative + 8] = b"\xff" * 8
        found = twin("units_of")(bytes(data))
        try:
            expected: bytes | None = compiled.REFERENCES["units_of"](bytes(data))
        except (RemoteProtocolError, struct.error):
            expected = None
        self.assertEqual(found, expected)

    def test_a_batch_is_not_read_twice(self) -> None:
        """What Java's producers send is not left to the references."""
        blocks = [b"UNIQ_KEY\x01A%d\x02WAIT\x01true\x02KEYS\x01a b\x02TAGS\x01t\x02" % number for number in range(9)]
        self.patch(message_keys, "_joined", None)
        codes, _ = batch_keys(with_blocks(blocks))
        self.assertEqual(codes, [string_hash("t")] * 9)
