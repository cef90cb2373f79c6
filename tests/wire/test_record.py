"""Log records: the derived reader and writer against the construct specification, Java's bytes, and hostile input.

Source: wire/spec/commitlog.py; facts/store.md 2 and 5; security.md (lengths).
"""

from __future__ import annotations

import unittest
import zlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec, record, store_files
from rocketha.wire.record import Blank, Record
from rocketha.wire.spec import checkpoint, commitlog, consume_queue, index_file

I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record that can exist, v1 and v2, IPv4 and IPv6."""
    sys_flag = draw(I32)
    topic = draw(st.one_of(st.text(max_size=30), st.text("abc%_é", min_size=100, max_size=255)))
    return record.sealed(
        Record(
            0,
            0,
            0,
            draw(I32),
            draw(I32),
            draw(I64),
            draw(I64),
            sys_flag,
            draw(I64),
            draw(st.binary(min_size=20, max_size=20)) if sys_flag & 0x10 else draw(st.binary(min_size=8, max_size=8)),
            draw(I64),
            draw(st.binary(min_size=20, max_size=20)) if sys_flag & 0x20 else draw(st.binary(min_size=8, max_size=8)),
            draw(I32),
            draw(I64),
            draw(st.binary(max_size=300)),
            topic,
            draw(st.binary(max_size=300)),
        )
    )


SIMPLE = record.sealed(
    Record(0, 0, 0, 3, 0, 7, 4096, 0, 1, bytes(8), 2, bytes(range(8)), 0, 0, b"hello", "TopicTest", b"TAGS\x01a\x02")
)


class RecordTests(unittest.TestCase):
    """Encode, decode, refuse."""

    @given(records())
    def test_equals_construct_both_ways(self, value: Record) -> None:
        """Our bytes are the specification's bytes, and both readers read the same from them."""
        data = record.encode(value)
        self.assertEqual(len(data), value.total)
        parsed = codec.parse(commitlog.RECORD, data)
        for name in Record._fields:
            expected = getattr(value, name)
            found = parsed[name]
            self.assertEqual(found.decode("utf-8", "surrogatepass") if name == "topic" else found, expected, name)
        self.assertEqual(codec.build(commitlog.RECORD, parsed), data)
        self.assertEqual(record.decode(data), value)
        self.assertTrue(record.is_intact(data, 0, len(data)))

    @given(records(), st.data())
    @settings(max_examples=200)
    def test_every_cut_is_refused(self, value: Record, data: st.DataObject) -> None:
        """A frame that ends anywhere inside the record is no record."""
        whole = record.encode(value)
        cut = data.draw(st.integers(0, len(whole) - 1))
        with self.assertRaises(RemoteProtocolError):
            record.decode(whole[:cut])
        self.assertFalse(record.is_intact(whole[:cut], 0, len(whole)))

    @given(st.binary(max_size=200), st.integers(-5, 210))
    @example(b"\0\0\0\x5b\xda\xa3\x20\xa7" + bytes(83), 0)
    def test_any_bytes_give_a_value_or_our_error(self, data: bytes, offset: int) -> None:
        """No exception but RemoteProtocolError, whatever stands there."""
        try:
            found = record.decode_any(data, offset)
        except RemoteProtocolError:
            return
        self.assertIn(type(found), (Record, Blank))

    @given(records(), st.integers(0, 400), st.integers(0, 7))
    @settings(max_examples=300)
    def test_a_flipped_bit_never_escapes_its_field(self, value: Record, at: int, bit: int) -> None:
        """What still decodes has the same total and an intact body: lengths cannot be bent to read elsewhere."""
        data = bytearray(record.encode(value))
        at %= len(data)
        data[at] ^= 1 << bit
        try:
            found = record.decode(bytes(data))
        except RemoteProtocolError:
            return
        self.assertEqual(found.total, value.total)
        if found.body:
            self.assertEqual(zlib.crc32(found.body) & 0x7FFFFFFF, found.body_crc)

    def test_hostile_lengths(self) -> None:
        """Negative, huge and contradicting lengths in each length field, each refused by name."""
        data = record.encode(SIMPLE)
        body_at, topic_at = 84, 88 + 5
        properties_at = topic_at + 1 + 9
        cases = [
            (0, 4, "total", (0, -1, -(1 << 31), (1 << 31) - 1, 90, len(data) + 1)),
            (body_at, 4, "body", (-1, -(1 << 31), (1 << 31) - 1, len(data))),
            (topic_at, 1, "topic", (-1, -128, 127)),
            (properties_at, 2, "properties", (-1, -32768, 32767, 0)),
        ]
        for at, width, name, values in cases:
            for value in values:
                with self.subTest(field=name, value=value):
                    bent = data[:at] + value.to_bytes(width, "big", signed=True) + data[at + width :]
                    with self.assertRaisesRegex(RemoteProtocolError, name):
                        record.decode(bent)

    def test_crc(self) -> None:
        """A changed body is refused, unless asked not to look; an empty body needs no CRC, as in Java."""
        data = bytearray(record.encode(SIMPLE))
        data[88] ^= 1
        with self.assertRaisesRegex(RemoteProtocolError, "CRC"):
            record.decode(bytes(data))
        self.assertEqual(record.decode(bytes(data), check_crc=False).body, b"iello")
        self.assertFalse(record.is_intact(bytes(data), 0, len(data)))
        empty = record.sealed(SIMPLE._replace(body=b""))._replace(body_crc=5)
        self.assertEqual(record.decode(record.encode(empty)).body_crc, 5)
        self.assertTrue(record.is_intact(record.encode(empty), 0, empty.total))

    def test_java_record(self) -> None:
        """The layout of facts/store.md 2: 91 bytes and the variable parts, each at its offset."""
        data = record.encode(SIMPLE)
        self.assertEqual(len(data), 91 + 5 + 9 + len(SIMPLE.properties))
        self.assertEqual(data[4:8].hex(), "daa320a7")
        self.assertEqual(int.from_bytes(data[28:36], "big"), 4096)
        self.assertEqual(data[88:93], b"hello")
        self.assertEqual(data[93:103], b"\x09TopicTest")

    def test_long_topics_need_v2(self) -> None:
        """127 bytes are v1, 128 are v2 (MessageVersion); more than a short can say is refused."""
        self.assertEqual(record.topic_block("t" * 127), (commitlog.MAGIC_V1, b"\x7f" + b"t" * 127))
        self.assertEqual(record.topic_block("t" * 128), (commitlog.MAGIC_V2, b"\x00\x80" + b"t" * 128))
        with self.assertRaises(RemoteProtocolError):
            record.topic_block("t" * 32768)

    def test_wrong_hosts_and_values_are_refused(self) -> None:
        """A host whose width contradicts sys_flag, a number beyond its field, a magic that is none."""
        for wrong in (
            SIMPLE._replace(born_host=bytes(20)),
            SIMPLE._replace(sys_flag=0x20),
            SIMPLE._replace(queue_id=1 << 31),
            SIMPLE._replace(magic=1),
            SIMPLE._replace(properties=bytes(40_000)),
        ):
            with self.subTest(wrong=wrong), self.assertRaises(RemoteProtocolError):
                record.encode(wrong)

    def test_blank(self) -> None:
        """The end-of-file record as seen live (facts/store.md 2.1), and its misuse."""
        self.assertEqual(record.encode_blank(0x15).hex(), "00000015cbd43194")
        self.assertEqual(record.decode_any(record.encode_blank(21)), Blank(21))
        with self.assertRaises(RemoteProtocolError):
            record.decode(record.encode_blank(21))
        with self.assertRaises(RemoteProtocolError):
            record.decode_any(record.encode_blank(7))

    def test_scan_stops_at_the_first_bad_record(self) -> None:
        """Whole records up to zeros, a blank or damage."""
        data = record.encode(SIMPLE)
        self.assertEqual([at for at, _ in record.scan(data * 3)], [0, len(data), 2 * len(data)])
        self.assertEqual(len(list(record.scan(data + bytes(100) + data))), 1)
        self.assertEqual(len(list(record.scan(data + record.encode_blank(50) + data))), 1)
        damaged = bytearray(data * 3)
        damaged[len(data) + 88] ^= 1
        self.assertEqual(len(list(record.scan(bytes(damaged)))), 1)

    @given(st.lists(st.tuples(records(), st.integers(0, 1)), max_size=6), st.integers(0, 5))
    def test_take_intact(self, values: list[tuple[Record, int]], victim: int) -> None:
        """The batch reader takes exactly the records that is_intact takes, each run of neighbours as one piece."""
        parts = [record.encode(value) for value, _ in values]
        data, wanted = bytearray(), []
        for part, (_, gap) in zip(parts, values, strict=True):
            data += b"\xff" * gap
            wanted.append((1000 + len(data), len(part), 0))
            data += part
        good = list(wanted)
        if victim < len(values) and values[victim][0].body:
            head = {0: 88, 0x10: 100, 0x20: 100, 0x30: 112}[values[victim][0].sys_flag & 0x30]
            data[wanted[victim][0] - 1000 + head] ^= 0x80
            del good[victim]
        pieces, count = record.take_intact(bytes(data), 1000, wanted)
        self.assertEqual(count, len(good))
        self.assertEqual(b"".join(pieces), b"".join(bytes(data[at - 1000 :][:size]) for at, size, _ in good))
        begins = [at for at, _, _ in good]
        self.assertEqual(len(pieces), len([at for at in begins if at not in {a + size for a, size, _ in good}]))

    def test_take_intact_outside(self) -> None:
        """Entries that point outside of what was read, or at too few bytes, take nothing."""
        data = record.encode(SIMPLE)
        wrong = [(0, 91, 0), (999, 100, 0), (1000 + len(data), 91, 0), (1000, 1, 0)]
        self.assertEqual(record.take_intact(data, 1000, wrong), ([], 0))
        self.assertEqual(record.take_intact(data, 1000, [*wrong, (1000, len(data), 0)]), ([data], 1))


class MessageIdTests(unittest.TestCase):
    """The offsetMsgId."""

    def test_java_example(self) -> None:
        """IP, port and offset in upper-case hex, as MessageDecoder.createMessageId prints it."""
        host = bytes((192, 168, 1, 2)) + (10911).to_bytes(4, "big")
        self.assertEqual(record.make_message_id(host, 0xABCDEF), "C0A8010200002A9F0000000000ABCDEF")

    @given(
        st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)), st.integers(0, (1 << 63) - 1)
    )
    def test_round_trip(self, host: bytes, offset: int) -> None:
        """Both widths; lower case is understood too."""
        text = record.make_message_id(host, offset)
        self.assertEqual(record.parse_message_id(text), (host, offset))
        self.assertEqual(record.parse_message_id(text.lower()), (host, offset))

    @given(st.text(max_size=60))
    @example("F" * 32)
    @example("é" * 32)
    def test_any_text(self, text: str) -> None:
        """Whatever a client sends as an id: a value or our error; a negative offset is an error."""
        try:
            _, offset = record.parse_message_id(text)
        except RemoteProtocolError:
            return
        self.assertGreaterEqual(offset, 0)


class StoreFilesTests(unittest.TestCase):
    """The fixed-width formats: fast path equal to construct, field names equal to the specification's."""

    CASES = (
        (store_files.QUEUE_UNIT, consume_queue.UNIT, store_files.QueueUnit, 20),
        (store_files.INDEX_HEADER, index_file.HEADER, store_files.IndexHeader, 40),
        (store_files.INDEX_UNIT, index_file.UNIT, store_files.IndexUnit, 20),
        (store_files.CHECKPOINT, checkpoint.CHECKPOINT, store_files.CheckpointFields, 48),
    )

    def test_names_and_sizes(self) -> None:
        """A NamedTuple with other names or order would put values into the wrong fields."""
        for flat, _, tuple_type, size in self.CASES:
            self.assertEqual(flat.names, tuple_type._fields)
            self.assertEqual(flat.size, size)

    @given(st.data())
    def test_equal_to_construct(self, data: st.DataObject) -> None:
        """Any bytes of the right length, both ways; a byte short is refused."""
        for flat, spec, tuple_type, size in self.CASES:
            raw = data.draw(st.binary(min_size=size, max_size=size))
            parsed = codec.parse(spec, raw)
            values = tuple_type(*flat.unpack(raw))
            self.assertEqual(values._asdict(), {name: parsed[name] for name in flat.names})
            self.assertEqual(flat.pack(*values), raw)
            with self.assertRaises(RemoteProtocolError):
                flat.unpack(raw[:-1])
