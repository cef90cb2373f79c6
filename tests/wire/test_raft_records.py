"""The fast codec of the Raft log's records against plain construct, and what it refuses."""

from __future__ import annotations

import unittest
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec, raft_records
from rocketha.wire.raft_entries import Entry, Members
from rocketha.wire.raft_records import HEAD_BYTES, Record
from rocketha.wire.spec import raft_log as spec

TERMS = st.lists(st.integers(0, 3), max_size=12)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@st.composite
def batches(draw: st.DrawFn) -> list[Entry]:
    """Adjacent entries."""
    index = draw(st.integers(1, 2**62))
    term = draw(st.integers(0, 2**62))
    made = []
    for step in draw(TERMS):
        term += step
        made.append(Entry(index, term, draw(st.sampled_from((1, 2, 3))), draw(st.binary(max_size=60))))
        index += 1
    return made


class RecordTests(unittest.TestCase):
    """Batches of records."""

    @settings(deadline=None)
    @given(batches(), U32, U64, U64)
    def test_equals_construct(self, entries: list[Entry], seed: int, synced: int, commit: int) -> None:
        """Each record of a batch is what construct builds of its fields, and construct reads what was put in."""
        if not entries:
            return
        synced = min(synced, entries[0].index - 1)
        data, crc = raft_records.encode(entries, seed, synced, commit)
        at = 0
        for entry in entries:
            stop = at + HEAD_BYTES + len(entry.data)
            parsed = codec.parse(spec.RECORD, data[at:stop])
            self.assertEqual((parsed.index, parsed.term, parsed.kind, parsed.data), entry[:4])
            self.assertEqual((parsed.mark, parsed.length), (b"RLE", len(entry.data)))
            self.assertEqual(parsed.unsynced, min(entry.index - synced, 2**32 - 1))
            self.assertEqual(parsed.uncommitted, min(max(entry.index - commit, 0), 2**32 - 1))
            self.assertEqual(parsed.crc, zlib.crc32(data[at + 4 : stop], seed))
            self.assertEqual(codec.build(spec.RECORD, parsed), data[at:stop])
            at = stop
        self.assertEqual((at, parsed.crc), (len(data), crc))

    @settings(deadline=None)
    @given(batches(), U32, st.binary(max_size=50), st.integers(0, 200))
    def test_round_trip(self, entries: list[Entry], seed: int, before: bytes, most: int) -> None:
        """What was encoded is decoded, at any offset, from any prefix as far as it goes, bounded by bytes."""
        data, crc = raft_records.encode(entries, seed, 0, 0)
        index, term = (entries[0].index, entries[0].term) if entries else (1, 0)
        batch = raft_records.decode(before + data, len(before), seed, index, term)
        self.assertEqual((batch.entries, batch.stop, batch.problem), (entries, len(before + data), None))
        self.assertEqual(batch.crc, crc)
        for cut in range(len(data)):
            part = raft_records.decode(data[:cut], 0, seed, index, term)
            self.assertEqual((part.entries, part.problem), (entries[: len(part.entries)], None))
            self.assertLessEqual(part.stop, cut)
        some = raft_records.decode(data, 0, seed, index, term, most)
        self.assertEqual(some.entries, entries[: len(some.entries)])
        size = sum(len(entry.data) for entry in some.entries[:-1])
        self.assertTrue(size < most or not some.entries)

    @settings(deadline=None)
    @given(batches(), U32, st.data())
    def test_any_flipped_bit_is_noticed(self, entries: list[Entry], seed: int, data: st.DataObject) -> None:
        """Entries before the flipped record are given, it and those behind are not."""
        if not entries:
            return
        raw, _ = raft_records.encode(entries, seed, 0, 0)
        at = data.draw(st.integers(0, len(raw) - 1))
        flipped = bytearray(raw)
        flipped[at] ^= 1 << data.draw(st.integers(0, 7))
        batch = raft_records.decode(bytes(flipped), 0, seed, entries[0].index, entries[0].term)
        self.assertEqual(batch.entries, entries[: len(batch.entries)])
        self.assertLessEqual(batch.stop, at)
        # A length that points behind the buffer cannot be told from a record that goes on there.
        self.assertTrue(
            batch.problem is not None or len(raw) - batch.stop < raft_records.record_length(bytes(flipped), batch.stop)
        )

    def test_strangers_are_refused(self) -> None:
        """Another seed, index, a fallen term, an unknown kind, a length beyond the limit: each with its reason."""
        good, _ = raft_records.encode([Entry(7, 3, 1, b"abc")], 9, 6, 0)
        self.assertEqual(raft_records.decode(good, 0, 9, 7, 3).entries, [Entry(7, 3, 1, b"abc")])
        wrong_kind, _ = raft_records.encode([Entry(7, 3, 4, b"abc")], 9, 6, 0)
        huge = good[:8] + (2**31).to_bytes(4, "big") + good[12:]
        for data, seed, index, term, text in (
            (good, 8, 7, 3, "checksum of entry 7"),
            (good, 9, 8, 3, "entry 7 of term 3 and kind 1 where entry 8"),
            (good, 9, 7, 4, "entry 7 of term 3"),
            (wrong_kind, 9, 7, 3, "kind 4"),
            (bytes(100), 9, 7, 3, "zeros where entry 7"),
            (b"x" * 100, 9, 7, 3, "no record where entry 7"),
            (huge, 9, 7, 3, "checksum of entry 7"),
        ):
            batch = raft_records.decode(data, 0, seed, index, term)
            self.assertEqual(batch.entries, [])
            self.assertIn(text, batch.problem or "")
            self.assertEqual(raft_records.record_at(data, 0, seed) is not None, data is good and seed == 9)

    def test_unencodable(self) -> None:
        """Numbers that no field holds are ours to report."""
        for entry in (Entry(1 << 64, 1, 1, b""), Entry(1, -1, 1, b""), Entry(1, 1, 256, b"")):
            with self.assertRaises(RemoteProtocolError):
                raft_records.encode([entry], 0, 0, 0)

    def test_hints(self) -> None:
        """What was synced and committed when a record was written; saturated ones say nothing."""
        data, _ = raft_records.encode([Entry(2**40, 1, 1, b"")], 0, 2**40 - 5, 2**40 - 9)
        record = raft_records.record_at(data, 0, 0)
        assert record is not None
        self.assertEqual((record.synced, raft_records.decode(data, 0, 0, 2**40, 0).commit), (2**40 - 5, 2**40 - 9))
        data, _ = raft_records.encode([Entry(2**40, 1, 1, b"")], 0, 3, 5)
        record = raft_records.record_at(data, 0, 0)
        assert record is not None
        self.assertEqual((record.synced, raft_records.decode(data, 0, 0, 2**40, 0).commit), (0, 0))

    def test_names_are_the_specs(self) -> None:
        """The NamedTuple counts the same fields as the declaration, and the head's is its beginning."""
        fields = [sub.name for sub in spec.RECORD.subcon.subcons if sub.name]
        self.assertEqual(list(Record._fields), fields)
        self.assertEqual([sub.name for sub in spec.RECORD_HEAD.subcon.subcons], fields[:-1])


class MembersTests(unittest.TestCase):
    """The data of membership entries."""

    @settings(deadline=None)
    @given(
        st.lists(st.frozensets(NAMES, max_size=4), min_size=4, max_size=4), st.dictionaries(NAMES, NAMES, max_size=4)
    )
    def test_round_trip(self, sets: list[frozenset[str]], addresses: dict[str, str]) -> None:
        """Any sets of names come back, and equal members give equal bytes and hashes."""
        members = Members(sets[0], sets[1], sets[2], sets[3], addresses)
        again = Members.decode(members.encode())
        self.assertEqual((again, again.encode(), hash(again)), (members, members.encode(), hash(members)))

    def test_refusals(self) -> None:
        """Names empty, too long, unencodable; too many; bytes out of order, with foreign bits or nothing to say."""
        for members in (
            Members({""}),
            Members({"x" * 256}),
            Members({"\ud800"}),
            Members({"a"}, addresses={"a": "h" * 301}),
            Members({f"n{number}" for number in range(256)}),
        ):
            with self.assertRaises(RemoteProtocolError):
                members.encode()
        good = Members({"a", "b"}).encode()
        for data in (
            b"",
            good + b"x",
            good[:-1],
            b"\2" + good[1:],
            good.replace(b"b", b"a"),
            good[:-1] + b"\x10",
            good[:-1] + b"\x20",
            good[:-1] + b"\0",
        ):
            with self.assertRaises(RemoteProtocolError):
                Members.decode(data)


class SmallFileTests(unittest.TestCase):
    """Headers, vote, hints and blocks."""

    def test_every_flipped_bit_is_noticed(self) -> None:
        """Of every byte of each of them."""
        members = Members({"n0"}).encode()
        for data, parse in (
            (
                raft_records.build_segment_header(raft_records.SegmentHeader(True, 3, 9, 4, 77, "g", "n")),
                raft_records.parse_segment_header,
            ),
            (
                raft_records.build_state(raft_records.StateFile(3, "n1", 7, 2, "g", "n", members)),
                raft_records.parse_state,
            ),
            (raft_records.build_progress(raft_records.Progress(1, 2, 3, 4)), raft_records.parse_progress),
            (
                raft_records.build_snapshot_header(raft_records.SnapshotHeader(3, 2, 9, 8, "g", "n", members)),
                raft_records.parse_snapshot_header,
            ),
            (raft_records.build_block(b"data of a block", 5), lambda raw: raft_records.parse_block(raw, 5)),
        ):
            parse(data)
            for at in range(len(data)):
                for bit in range(8):
                    flipped = bytearray(data)
                    flipped[at] ^= 1 << bit
                    with self.assertRaises(RemoteProtocolError):
                        parse(bytes(flipped))

    def test_blocks_belong_to_their_place(self) -> None:
        """A block of another snapshot, or of another place in the same, does not match."""
        seeds = {
            raft_records.block_seed(index, term, number) for index in (1, 2) for term in (1, 2) for number in (0, 1)
        }
        self.assertEqual(len(seeds), 8)
        block = raft_records.build_block(b"x", raft_records.block_seed(5, 1, 0))
        with self.assertRaises(RemoteProtocolError):
            raft_records.parse_block(block, raft_records.block_seed(5, 1, 1))
