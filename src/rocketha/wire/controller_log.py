"""Controller log entries and snapshots: bytes to rows and back.

Pure.  Knows the layout and its bounds, not what a request means (``controller/events.py`` and ``controller/state.py``
do).  Theory of operation: the fixed head of an entry is one ``struct.Struct``; the texts and lists after it are read
with a cursor that checks every length against the buffer before it slices.  The raft log checks an entry's CRC, so an
entry has none of its own; a snapshot has.  Not Java's format: its controllers write Hessian.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.crc import crc32
from rocketha.wire.spec import controller_log as spec
from rocketha.wire.spec.format import Format

VERSION = spec.VERSION
ENTRY_BYTES_MAX = 256 * 1024
SNAPSHOT_BYTES_MAX = 1 << 30

_ENTRY = codec.flat(spec.ENTRY_FIXED)
_ALIVE = codec.flat(spec.ALIVE)
_GROUP = codec.flat(spec.GROUP_FIXED)
_SNAPSHOT = codec.flat(spec.SNAPSHOT_FIXED)
_COUNT = struct.Struct(">H")
_LENGTH = struct.Struct(">I")
_SEEN = struct.Struct(">qB")
_LONG = struct.Struct(">q")
_FLAGS = struct.Struct(">B")
_DECISION = struct.Struct(">qBqii")


class Alive(NamedTuple):
    """A replica the leader thought alive when it proposed; the numbers are its last heartbeat's."""

    broker_id: int
    epoch: int = -1
    max_offset: int = -1  # bytes
    priority: int = 2**31 - 1  # the smallest wins
    confirms: bool = False  # it announced that it acknowledges nothing before its role is confirmed


class Seen(NamedTuple):
    """What a probe, another controller or a replica said of a broker."""

    broker_id: int
    saw: int  # rocketha.controller.events.Saw
    text: str = ""


class EntryRow(NamedTuple):
    """One log entry; the fields are explained in ``spec.controller_log.ENTRY``."""

    kind: int
    why: int = 0
    flags: int = 0
    broker_id: int = 0
    expected_master: int = 0
    master_epoch: int = 0
    set_epoch: int = 0
    now_ms: int = 0
    never_told: int = 0
    cluster: str = ""
    broker_name: str = ""
    subject: str = ""
    asker: str = ""
    reason: str = ""
    ids: tuple[int, ...] = ()
    alive: tuple[Alive, ...] = ()
    seen: tuple[Seen, ...] = ()


class MemberRow(NamedTuple):
    """A registered broker."""

    broker_id: int
    address: str  # host:port
    check_code: str
    flags: int = 0


class DecisionRow(NamedTuple):
    """One decision of the audit trail: what was done and the state after it."""

    log_index: int
    did: int  # rocketha.controller.group.Did
    master: int
    master_epoch: int
    set_epoch: int
    in_sync: tuple[int, ...]
    entry: bytes  # the log entry, see decode_entry


class GroupRow(NamedTuple):
    """One broker group of a snapshot; ``decisions`` are encoded :class:`DecisionRow`, oldest first."""

    next_id: int
    master: int
    master_epoch: int
    set_epoch: int
    flags: int
    elected_id: int
    elected_index: int
    elected_flags: int
    cluster: str
    broker_name: str
    members: tuple[MemberRow, ...]
    in_sync: tuple[int, ...]
    before: tuple[int, ...]
    retired: tuple[int, ...]
    cleaned: tuple[MemberRow, ...]
    holders: tuple[int, ...]
    decisions: tuple[bytes, ...]


class SnapshotRow(NamedTuple):
    """A whole state: ``log_index`` of the last entry in it, groups by cluster and broker name."""

    log_index: int
    groups: tuple[GroupRow, ...]


# -- writing ------------------------------------------------------------------------------------------------------


def encode_entry(row: EntryRow) -> bytes:
    """The bytes of a log entry.

    :raises RemoteProtocolError: when a number or a text does not fit its field, or the whole is over the bound.
    """
    try:
        parts = [_ENTRY.layout.pack(VERSION, *row[:9])]
        for text in row[9:14]:
            data = text.encode()
            parts += (_COUNT.pack(len(data)), data)
        parts.append(_ids(row.ids))
        parts.append(_COUNT.pack(len(row.alive)))
        parts += [_ALIVE.layout.pack(*alive) for alive in row.alive]
        parts.append(_COUNT.pack(len(row.seen)))
        for broker_id, saw, said in row.seen:
            parts += (_SEEN.pack(broker_id, saw), _text(said))
    except (struct.error, UnicodeEncodeError) as problem:
        raise RemoteProtocolError(f"controller log entry cannot be written: {problem}") from None
    data = b"".join(parts)
    if len(data) > ENTRY_BYTES_MAX:
        raise RemoteProtocolError(f"a controller log entry of {len(data)} bytes, at most {ENTRY_BYTES_MAX}")
    return data


def encode_decision(row: DecisionRow) -> bytes:
    """The bytes of one decision of the audit trail."""
    head = _DECISION.pack(row.log_index, row.did, row.master, row.master_epoch, row.set_epoch)
    return b"".join((head, _ids(row.in_sync), _LENGTH.pack(len(row.entry)), row.entry))


def encode_group(row: GroupRow) -> bytes:
    """The bytes of one group."""
    parts = [_GROUP.layout.pack(*row[:8]), _text(row.cluster), _text(row.broker_name), *_members(row.members)]
    parts += (_ids(row.in_sync), _ids(row.before), _ids(row.retired))
    parts += (*_members(row.cleaned), _ids(row.holders), _COUNT.pack(len(row.decisions)))
    for decision in row.decisions:
        parts += (_LENGTH.pack(len(decision)), decision)
    return b"".join(parts)


def encode_snapshot(log_index: int, groups: list[bytes]) -> bytes:
    """A snapshot of encoded groups."""
    head = _SNAPSHOT.layout.pack(spec.SNAPSHOT_MAGIC, spec.SNAPSHOT_VERSION, log_index, len(groups))
    data = b"".join((head, *groups))
    return data + _LENGTH.pack(crc32(data))


def _ids(ids: tuple[int, ...]) -> bytes:
    return struct.pack(f">H{len(ids)}q", len(ids), *ids)


def _members(rows: tuple[MemberRow, ...]) -> list[bytes]:
    parts = [_COUNT.pack(len(rows))]
    for broker_id, address, check_code, flags in rows:
        parts += (_LONG.pack(broker_id), _text(address), _text(check_code), bytes((flags,)))
    return parts


def _text(text: str) -> bytes:
    data = text.encode()
    return _COUNT.pack(len(data)) + data


# -- reading ------------------------------------------------------------------------------------------------------


class _Cursor:
    """Reads forward; every length is checked against the buffer before it is sliced."""

    __slots__ = ("at", "data", "end", "what")

    def __init__(self, data: bytes, at: int, end: int, what: str) -> None:
        self.data = data
        self.at = at
        self.end = end
        self.what = what

    def take(self, size: int) -> int:
        """Step over ``size`` bytes; where they begin."""
        at = self.at
        if size > self.end - at:
            raise RemoteProtocolError(f"{self.what}: {size} bytes wanted at {at}, {self.end - at} there")
        self.at = at + size
        return at

    def fixed(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The numbers of a layout."""
        return layout.unpack_from(self.data, self.take(layout.size))

    def text(self) -> str:
        """A text with its 16 bit length."""
        size = _COUNT.unpack_from(self.data, self.take(2))[0]
        at = self.take(size)
        try:
            return self.data[at : at + size].decode()
        except UnicodeDecodeError:
            raise RemoteProtocolError(f"{self.what}: the text at {at} is not UTF-8") from None

    def block(self) -> bytes:
        """Bytes with their 32 bit length."""
        size = _LENGTH.unpack_from(self.data, self.take(4))[0]
        at = self.take(size)
        return self.data[at : at + size]

    def count(self) -> int:
        """A 16 bit count."""
        return int(_COUNT.unpack_from(self.data, self.take(2))[0])

    def ids(self) -> tuple[int, ...]:
        """Counted 64 bit numbers."""
        count = self.count()
        return struct.unpack_from(f">{count}q", self.data, self.take(8 * count))

    def flags(self, value: int, known: int) -> None:
        """A bit that this program does not know changes what the rest means."""
        if value & ~known:
            raise RemoteProtocolError(f"{self.what}: unknown flags {value & ~known:#x}; a newer program wrote it")

    def finish(self) -> None:
        """Nothing may follow."""
        if self.at != self.end:
            raise RemoteProtocolError(f"{self.what}: {self.end - self.at} bytes after its end")


def decode_entry(data: bytes) -> EntryRow:
    """The row of a log entry.

    :raises RemoteProtocolError: cut, too long, another version, unknown flags, or not UTF-8.
    """
    if len(data) > ENTRY_BYTES_MAX:
        raise RemoteProtocolError(f"a controller log entry of {len(data)} bytes, at most {ENTRY_BYTES_MAX}")
    cursor = _Cursor(data, 0, len(data), "controller log entry")
    version, *head = cursor.fixed(_ENTRY.layout)
    if version != VERSION:
        raise RemoteProtocolError(f"controller log entry of version {version}, this program reads {VERSION}")
    cursor.flags(head[2], spec.ENTRY_FLAGS)
    texts = [cursor.text() for _ in range(5)]
    ids = cursor.ids()
    alive = tuple([_alive(cursor) for _ in range(cursor.count())])
    seen = tuple([_seen(cursor) for _ in range(cursor.count())])
    cursor.finish()
    return EntryRow._make((*head, *texts, ids, alive, seen))


def _alive(cursor: _Cursor) -> Alive:
    broker_id, epoch, max_offset, priority, flags = cursor.fixed(_ALIVE.layout)
    cursor.flags(flags, spec.ALIVE_FLAGS)
    return Alive(broker_id, epoch, max_offset, priority, bool(flags & 1))


def _seen(cursor: _Cursor) -> Seen:
    broker_id, saw = cursor.fixed(_SEEN)
    return Seen(broker_id, saw, cursor.text())


def decode_decision(data: bytes) -> DecisionRow:
    """One decision of the audit trail.

    :raises RemoteProtocolError: not one.
    """
    cursor = _Cursor(data, 0, len(data), "controller decision")
    head = cursor.fixed(_DECISION)
    row = DecisionRow._make((*head, cursor.ids(), cursor.block()))
    cursor.finish()
    return row


def decode_snapshot(data: bytes) -> SnapshotRow:
    """The rows of a snapshot.

    :raises RemoteProtocolError: not a snapshot, of another version, damaged, or over the bound.
    """
    if len(data) > SNAPSHOT_BYTES_MAX:
        raise RemoteProtocolError(f"a controller snapshot of {len(data)} bytes, at most {SNAPSHOT_BYTES_MAX}")
    if data[:4] != spec.SNAPSHOT_MAGIC:
        raise RemoteProtocolError(f"no controller snapshot: it begins with {data[:4].hex(' ') or 'nothing'}")
    if len(data) < _SNAPSHOT.size + 4:
        raise RemoteProtocolError(f"a controller snapshot of {len(data)} bytes is cut")
    _, version, index, count = _SNAPSHOT.layout.unpack_from(data)
    if not 1 <= version <= spec.SNAPSHOT_VERSION:
        raise RemoteProtocolError(
            f"controller snapshot of version {version}, this program reads up to {spec.SNAPSHOT_VERSION}"
        )
    end = len(data) - 4
    written, found = _LENGTH.unpack_from(data, end)[0], crc32(memoryview(data)[:end])
    if written != found:
        raise RemoteProtocolError(f"controller snapshot: CRC is {found:08x}, {written:08x} was written")
    cursor = _Cursor(data, _SNAPSHOT.size, end, "controller snapshot")
    if count > end:
        raise RemoteProtocolError(f"controller snapshot: {count} groups in {end} bytes")
    groups = tuple([_group(cursor, version) for _ in range(count)])
    cursor.finish()
    return SnapshotRow(index, groups)


def _group(cursor: _Cursor, version: int) -> GroupRow:
    member = _member if version > 1 else _old_member
    head = cursor.fixed(_GROUP.layout)
    cursor.flags(head[4], spec.GROUP_FLAGS)
    cursor.flags(head[7], spec.ELECTED_FLAGS)
    cluster, broker_name = cursor.text(), cursor.text()
    members = tuple([member(cursor) for _ in range(cursor.count())])
    in_sync, before, retired = cursor.ids(), cursor.ids(), cursor.ids()
    cleaned: tuple[MemberRow, ...] = ()
    holders: tuple[int, ...] = ()
    if version > 1:
        cleaned, holders = tuple([_member(cursor) for _ in range(cursor.count())]), cursor.ids()
    decisions = tuple([cursor.block() for _ in range(cursor.count())])
    for decision in decisions:
        decode_decision(decision)
    return GroupRow._make((*head, cluster, broker_name, members, in_sync, before, retired, cleaned, holders, decisions))


def _old_member(cursor: _Cursor) -> MemberRow:
    return MemberRow(cursor.fixed(_LONG)[0], cursor.text(), cursor.text())


def _member(cursor: _Cursor) -> MemberRow:
    row = _old_member(cursor)._replace(flags=cursor.fixed(_FLAGS)[0])
    cursor.flags(row.flags, spec.MEMBER_FLAGS)
    return row


def _build_snapshot(row: SnapshotRow) -> bytes:
    return encode_snapshot(row.log_index, [encode_group(group) for group in row.groups])


FORMATS = (
    Format(
        name="controller-log-entry",
        spec=spec.ENTRY,
        parse=decode_entry,
        build=encode_entry,
        bound=ENTRY_BYTES_MAX,
        doc="One entry of the controller's replicated log: a request and what the leader knew (ours alone).",
    ),
    Format(
        name="controller-snapshot",
        spec=spec.SNAPSHOT,
        parse=decode_snapshot,
        build=_build_snapshot,
        bound=SNAPSHOT_BYTES_MAX,
        doc="The controller's whole state, which takes the place of its log (ours alone).",
    ),
)
