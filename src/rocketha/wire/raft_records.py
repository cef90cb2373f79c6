"""The bytes of a Raft node's files: records of the log by a fast path, headers and small files by plain construct.

Pure.  Layouts are in ``wire/spec/raft_log.py``.  It must not know how the files work together (``store/raft_log.py``).

A record's CRC begins with the CRC of its segment's header, so that a record of another segment, group or node, left
on the platter or written to the wrong place, is no record here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import construct

from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.wire import codec
from rocketha.wire.crc import crc32
from rocketha.wire.raft_entries import INDEX_MAX, MEMBERS_BYTES_MAX, Entry, EntryKind, Members
from rocketha.wire.spec import raft_log as spec
from rocketha.wire.spec.format import Format

ENTRY_BYTES_MAX = 32 << 20
"""Data bytes of one entry."""

Refuse = Callable[[str], RockethaError]
"""Makes the error to raise from its text."""

_HEAD = codec.flat(spec.RECORD_HEAD)
_PACK_HEAD = struct.Struct(">" + _HEAD.layout.format[2:])  # without the crc, which stands first
_PROGRESS = codec.flat(spec.PROGRESS)
_MARK = spec.RECORD_MARK
_UNKNOWN = 0xFFFFFFFF
_KINDS = frozenset(int(kind) for kind in EntryKind)

HEAD_BYTES = _HEAD.size
"""Bytes of a record beside its data."""

PROGRESS_BYTES = _PROGRESS.size
MEMBERSHIPS_BYTES_MAX = 4 << 20
_WITNESS_HEAD = struct.Struct(">BQQI")  # behind the length
_SPAN = struct.Struct(">QQ")
_WITNESS_PREFIX_BYTES = 16
PREFIX_BYTES = 16
"""Bytes of a segment's or snapshot's header that :func:`header_bytes` needs."""


class Record(NamedTuple):
    """A record as its fields; see ``spec.raft_log.RECORD``."""

    crc: int
    mark: bytes
    kind: int
    length: int
    unsynced: int
    uncommitted: int
    index: int  # type: ignore[assignment]
    term: int
    data: bytes

    @property
    def synced(self) -> int:
        """Entries up to here were synced when this one was written; 0 for unknown."""
        return 0 if self.unsynced == _UNKNOWN else self.index - self.unsynced


class Batch(NamedTuple):
    """What :func:`decode` read.

    :ivar entries: the entries.
    :ivar stop: offset behind the last one's record.
    :ivar crc: the last record's, 0 without entries.
    :ivar commit: the last record's hint, 0 for unknown.
    :ivar problem: why the bytes at ``stop`` are no record; None when the buffer just ends within or before it.
    """

    entries: list[Entry]
    stop: int
    crc: int
    commit: int
    problem: str | None


class SegmentHeader(NamedTuple):
    """See ``spec.raft_log.SEGMENT_HEADER``; ``crc`` seeds the records', 0 before the header is built."""

    base: bool
    sequence: int
    first_index: int
    previous_term: int
    previous_crc: int
    group: str
    node: str
    crc: int = 0
    header_bytes: int = 0


class StateFile(NamedTuple):
    """See ``spec.raft_log.HARD_STATE``."""

    term: int
    vote: str
    commit: int
    sequence: int
    group: str
    node: str
    members: bytes


class Membership(NamedTuple):
    """A row of ``spec.raft_log.MEMBERSHIPS``."""

    index: int  # type: ignore[assignment]
    term: int
    members: bytes


class WitnessState(NamedTuple):
    """See ``spec.raft_log.WITNESS``.

    :ivar spans: index and term of each.
    """

    number: int
    last_index: int
    members: bytes
    spans: Sequence[tuple[int, int]]
    memberships: Sequence[Membership]


class Progress(NamedTuple):
    """See ``spec.raft_log.PROGRESS``."""

    number: int
    sequence: int
    synced: int
    commit: int


class SnapshotHeader(NamedTuple):
    """See ``spec.raft_log.SNAPSHOT_HEADER``."""

    index: int  # type: ignore[assignment]
    term: int
    length: int
    data_crc: int
    group: str
    node: str
    members: bytes
    header_bytes: int = 0


# ---- records


def encode(entries: Sequence[Entry], seed: int, synced: int, commit: int) -> tuple[bytes, int]:
    """The records of some entries, as one buffer, and the last one's crc.

    :param seed: crc of the segment's header.
    :param synced: highest index known to be on the disk, below the first entry's.
    :param commit: highest index known to be committed.
    :raises RemoteProtocolError: an entry that no record can hold.
    """
    parts: list[bytes] = []
    add, pack = parts.append, _PACK_HEAD.pack
    crc = 0
    try:
        for index, term, kind, data, _ in entries:
            unsynced = index - synced
            uncommitted = index - commit
            if unsynced > _UNKNOWN:
                unsynced = _UNKNOWN
            if not 0 <= uncommitted <= _UNKNOWN:
                uncommitted = _UNKNOWN if uncommitted > 0 else 0
            head = pack(_MARK, kind, len(data), unsynced, uncommitted, index, term)
            crc = crc32(data, crc32(head, seed))
            add(crc.to_bytes(4, "big"))
            add(head)
            add(data)
    except struct.error as problem:
        raise RemoteProtocolError(f"raft-record: {problem}") from None
    return b"".join(parts), crc


def decode(buffer: bytes, at: int, seed: int, index: int, term: int, size_max: int = 1 << 62) -> Batch:
    """The entries from ``at`` on, up to the end of the buffer or the first bytes that are no record.

    :param seed: crc of the segment's header.
    :param index: what the first entry's must be; each later one's is one more.
    :param term: the lowest term the first entry may have; terms never fall.
    :param size_max: stop once this many data bytes are collected (at least one entry is).
    """
    entries: list[Entry] = []
    add, unpack, view = entries.append, _HEAD.layout.unpack_from, memoryview(buffer)
    end, size, last_crc, commit = len(buffer), 0, 0, 0
    problem = None
    while end - at >= HEAD_BYTES and size < size_max:
        crc, mark, kind, length, _, uncommitted, number, this_term = unpack(buffer, at)
        stop = at + HEAD_BYTES + length
        if stop > end and (mark == _MARK and number == index and length <= ENTRY_BYTES_MAX):
            break  # the rest may stand behind the buffer
        if stop > end or crc32(view[at + 4 : stop], seed) != crc:
            problem = _describe(mark, length, number, index)
            break
        if mark != _MARK or number != index or this_term < term or kind not in _KINDS:
            problem = f"entry {number} of term {this_term} and kind {kind} where entry {index} was to stand"
            break
        add(Entry(number, this_term, kind, buffer[at + HEAD_BYTES : stop]))
        at, index, term, last_crc = stop, index + 1, this_term, crc
        size += length
        commit = 0 if uncommitted == _UNKNOWN else number - uncommitted
    return Batch(entries, at, last_crc, commit, problem)


def _describe(mark: bytes, length: int, number: int, index: int) -> str:
    if mark == _MARK and number == index:
        return f"the checksum of entry {index} ({length} bytes) does not match"
    if mark == b"\0\0\0" and number == 0:
        return f"zeros where entry {index} was to stand"
    return f"no record where entry {index} was to stand"


def record_length(buffer: bytes, at: int) -> int:
    """Bytes of the record whose head stands at ``at``, not checked."""
    return HEAD_BYTES + int.from_bytes(buffer[at + 8 : at + 12], "big")


def record_at(buffer: bytes, at: int, seed: int) -> Record | None:
    """The record that begins at ``at``, whatever its index; None where none does."""
    if at < 0 or len(buffer) - at < HEAD_BYTES:
        return None
    values = _HEAD.layout.unpack_from(buffer, at)
    crc, mark, kind, length = values[:4]
    stop = at + HEAD_BYTES + length
    if mark != _MARK or kind not in _KINDS or length > ENTRY_BYTES_MAX or stop > len(buffer):
        return None
    if crc32(memoryview(buffer)[at + 4 : stop], seed) != crc:
        return None
    return Record._make((*values, buffer[at + HEAD_BYTES : stop]))


def parse_record(data: bytes) -> Record:
    """A whole record of a segment whose header's crc is 0 (for tools and tests)."""
    found = record_at(data, 0, 0)
    if found is None or len(data) != HEAD_BYTES + found.length:
        raise RemoteProtocolError(f"raft-record: {len(data)} bytes are no record")
    return found


def build_record(record: Record) -> bytes:
    """The bytes of a record, its checksum made anew."""
    head = _PACK_HEAD.pack(
        _MARK, record.kind, len(record.data), record.unsynced, record.uncommitted, record.index, record.term
    )
    return crc32(record.data, crc32(head)).to_bytes(4, "big") + head + record.data


# ---- headers and small files


def _build(form: construct.Construct, magic: bytes, value: dict[str, Any]) -> bytes:
    """Build with the crc of what stands behind it, and the header's size where the format has that field."""
    raw = codec.build(form, {"magic": magic, "crc": 0, "header_bytes": 0, **value})
    if "header_bytes" in {sub.name for sub in form.subcon.subcons}:
        raw = codec.build(form, {"magic": magic, "crc": 0, **value, "header_bytes": len(raw)})
    return raw[:8] + crc32(raw[12:]).to_bytes(4, "big") + raw[12:]


def _parse(form: construct.Construct, magic: bytes, data: bytes, refuse: Refuse) -> Any:
    """Parse after magic, checksum and version were found right."""
    if data[:8] != magic:
        raise refuse(f"{form.name}: begins with {data[:8]!r}, not {magic!r}")
    if len(data) < 12 or crc32(memoryview(data)[12:]) != int.from_bytes(data[8:12], "big"):
        raise refuse(f"{form.name}: the checksum does not match")
    parsed = codec.parse(form, data, refuse)
    if parsed.get("version", spec.VERSION) != spec.VERSION:
        raise refuse(f"{form.name}: version {parsed.version}, this program reads {spec.VERSION}")
    if parsed.get("header_bytes", len(data)) != len(data):
        raise refuse(f"{form.name}: {len(data)} bytes, the header says {parsed.header_bytes}")
    return parsed


def header_bytes(prefix: bytes, size_max: int, refuse: Refuse = RemoteProtocolError) -> int:
    """Bytes of the header that begins with ``prefix`` (a segment's or a snapshot's)."""
    size = int.from_bytes(prefix[12:16], "big") if len(prefix) >= PREFIX_BYTES else 0
    if not PREFIX_BYTES <= size <= size_max:
        raise refuse(f"a header of {size} bytes")
    return size


def build_segment_header(header: SegmentHeader) -> bytes:
    """The header; ``crc`` and ``header_bytes`` are made anew."""
    value = {**header._asdict(), "version": spec.VERSION, "base": int(header.base)}
    return _build(spec.SEGMENT_HEADER, spec.SEGMENT_MAGIC, value)


def parse_segment_header(data: bytes, refuse: Refuse = RemoteProtocolError) -> SegmentHeader:
    """A header from exactly its bytes."""
    found = _parse(spec.SEGMENT_HEADER, spec.SEGMENT_MAGIC, data, refuse)
    if found.base > 1 or found.first_index < 1:
        raise refuse(f"raft-segment-header: base {found.base}, first index {found.first_index}")
    return SegmentHeader(found.base == 1, *(found[name] for name in SegmentHeader._fields[1:]))


def build_state(state: StateFile) -> bytes:
    """The file's bytes."""
    return _build(spec.HARD_STATE, spec.STATE_MAGIC, {**state._asdict(), "version": spec.VERSION})


def parse_state(data: bytes, refuse: Refuse = RemoteProtocolError) -> StateFile:
    """The hard state from the whole file."""
    found = _parse(spec.HARD_STATE, spec.STATE_MAGIC, data, refuse)
    return StateFile(*(found[name] for name in StateFile._fields))


def build_memberships(rows: Sequence[Membership]) -> bytes:
    """The file's bytes.

    :raises RemoteProtocolError: too many.
    """
    value = {"version": spec.VERSION, "rows": [row._asdict() for row in rows]}
    return _build(spec.MEMBERSHIPS, spec.MEMBERSHIPS_MAGIC, value)


def parse_memberships(data: bytes, refuse: Refuse = RemoteProtocolError) -> list[Membership]:
    """The whole file."""
    found = _parse(spec.MEMBERSHIPS, spec.MEMBERSHIPS_MAGIC, data, refuse)
    return _memberships(found.rows, "raft-memberships", refuse)


def _memberships(found: Any, name: str, refuse: Refuse) -> list[Membership]:
    rows = [Membership(row.index, row.term, row.members) for row in found]
    for before, row in pairwise(rows):
        if row.index <= before.index or row.term < before.term:
            raise refuse(f"{name}: entry {row.index} of term {row.term} behind {before[:2]}")
    for row in rows:
        Members.decode(row.members, refuse)
    return rows


def build_witness(state: WitnessState) -> bytes:
    """One slot's bytes: for each sync, hence without construct.

    :raises RemoteProtocolError: they do not fit a slot.
    """
    parts = [_WITNESS_HEAD.pack(spec.VERSION, state.number, state.last_index, len(state.members)), state.members]
    parts.append(len(state.spans).to_bytes(4, "big"))
    parts += [_SPAN.pack(*span) for span in state.spans]
    parts.append(len(state.memberships).to_bytes(2, "big"))
    for row in state.memberships:
        parts += (_SPAN.pack(row.index, row.term), len(row.members).to_bytes(4, "big"), row.members)
    body = b"".join(parts)
    if len(body) + _WITNESS_PREFIX_BYTES > spec.WITNESS_SLOT_BYTES:
        changes = len(state.memberships)
        raise RemoteProtocolError(f"raft-witness: {len(state.spans)} terms, {changes} changes are not committed")
    body = len(body).to_bytes(4, "big") + body
    return spec.WITNESS_MAGIC + crc32(body).to_bytes(4, "big") + body


def parse_witness(data: bytes, refuse: Refuse = RemoteProtocolError) -> WitnessState:
    """A state from exactly its bytes."""
    found = _parse(spec.WITNESS, spec.WITNESS_MAGIC, data, refuse)
    if found.length != len(data) - _WITNESS_PREFIX_BYTES:
        raise refuse(f"raft-witness: {len(data)} bytes, the header says {found.length} behind it")
    Members.decode(found.members, refuse)
    spans = [(span.index, span.term) for span in found.spans]
    rising = all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(spans))
    if not spans or not rising or not spans[-1][0] <= found.last_index <= INDEX_MAX:
        raise refuse(f"raft-witness: {len(spans)} terms up to entry {found.last_index} that do not rise")
    rows = _memberships(found.memberships, "raft-witness", refuse)
    if rows and not spans[0][0] < rows[0].index <= rows[-1].index <= found.last_index:
        raise refuse(f"raft-witness: membership entries from {rows[0].index} to {rows[-1].index}")
    return WitnessState(found.number, found.last_index, found.members, spans, rows)


def parse_witness_slot(data: bytes, refuse: Refuse = RemoteProtocolError) -> WitnessState:
    """A state from a slot, behind which other bytes may stand."""
    length = int.from_bytes(data[_WITNESS_PREFIX_BYTES - 4 : _WITNESS_PREFIX_BYTES], "big")
    return parse_witness(data[: _WITNESS_PREFIX_BYTES + length], refuse)


def build_progress(progress: Progress) -> bytes:
    """One slot's bytes."""
    raw = _PROGRESS.pack(spec.PROGRESS_MAGIC, 0, *progress)
    return raw[:8] + crc32(raw[12:]).to_bytes(4, "big") + raw[12:]


def parse_progress(data: bytes) -> Progress:
    """One slot."""
    magic, crc, *rest = _PROGRESS.unpack(data)
    if magic != spec.PROGRESS_MAGIC or crc != crc32(data[12 : _PROGRESS.size]):
        raise RemoteProtocolError("raft-progress: the checksum does not match")
    return Progress(*rest)


def build_snapshot_header(header: SnapshotHeader) -> bytes:
    """The header; its size does not depend on ``length`` and ``data_crc``, and ``header_bytes`` is made anew."""
    return _build(spec.SNAPSHOT_HEADER, spec.SNAPSHOT_MAGIC, {**header._asdict(), "version": spec.VERSION})


def parse_snapshot_header(data: bytes, refuse: Refuse = RemoteProtocolError) -> SnapshotHeader:
    """A header from exactly its bytes."""
    found = _parse(spec.SNAPSHOT_HEADER, spec.SNAPSHOT_MAGIC, data, refuse)
    return SnapshotHeader(*(found[name] for name in SnapshotHeader._fields))


def block_seed(index: int, term: int, number: int) -> int:
    """What the CRC of a snapshot's block begins with: blocks of another snapshot or place do not match."""
    return crc32(struct.pack(">QQQ", index, term, number))


def build_block(data: bytes | memoryview, seed: int = 0) -> bytes:
    """A block of a snapshot."""
    return b"".join((crc32(data, seed).to_bytes(4, "big"), data))


def parse_block(block: bytes, seed: int = 0, refuse: Refuse = RemoteProtocolError) -> bytes:
    """The data of a block."""
    data = block[4:]
    if not 0 < len(data) <= spec.SNAPSHOT_BLOCK_BYTES:
        raise refuse(f"raft-snapshot-block: {len(data)} bytes of data")
    if crc32(data, seed) != int.from_bytes(block[:4], "big"):
        raise refuse("raft-snapshot-block: the checksum does not match")
    return data


FORMATS = (
    Format(
        name="raft-record",
        spec=spec.RECORD,
        parse=parse_record,
        build=build_record,
        bound=HEAD_BYTES + ENTRY_BYTES_MAX,
        doc="One entry in a segment of the Raft log (ours; the checksum is seeded with the segment header's).",
    ),
    Format(
        name="raft-segment-header",
        spec=spec.SEGMENT_HEADER,
        parse=parse_segment_header,
        build=build_segment_header,
        bound=spec.SEGMENT_HEADER_BYTES_MAX,
        doc="The beginning of a segment of the Raft log, <first index>-<sequence>.log (ours).",
    ),
    Format(
        name="raft-hard-state",
        spec=spec.HARD_STATE,
        parse=parse_state,
        build=build_state,
        bound=1024 + MEMBERS_BYTES_MAX,
        doc="The file state of a Raft node: term and vote, replaced atomically (ours).",
    ),
    Format(
        name="raft-memberships",
        spec=spec.MEMBERSHIPS,
        parse=parse_memberships,
        build=build_memberships,
        bound=MEMBERSHIPS_BYTES_MAX,
        doc="The file members beside a message log: its membership entries, replaced atomically (ours).",
    ),
    Format(
        name="raft-witness",
        spec=spec.WITNESS,
        parse=parse_witness,
        build=build_witness,
        bound=spec.WITNESS_SLOT_BYTES,
        doc="A slot of the file witness of a witness: the terms of its entries (ours).",
    ),
    Format(
        name="raft-progress",
        spec=spec.PROGRESS,
        parse=parse_progress,
        build=build_progress,
        bound=PROGRESS_BYTES,
        doc="A slot of the file progress of a Raft node: how far the log is synced, a hint (ours).",
    ),
    Format(
        name="raft-snapshot-header",
        spec=spec.SNAPSHOT_HEADER,
        parse=parse_snapshot_header,
        build=build_snapshot_header,
        bound=spec.SNAPSHOT_HEADER_BYTES_MAX,
        doc="The beginning of a Raft snapshot's file, snapshot-<index>-<term> (ours).",
    ),
    Format(
        name="raft-snapshot-block",
        spec=spec.SNAPSHOT_BLOCK,
        parse=parse_block,
        build=build_block,
        bound=4 + spec.SNAPSHOT_BLOCK_BYTES,
        doc="The data of a Raft snapshot's file, piece by piece (ours; the checksum's seed is the piece's place).",
    ),
)
