"""How messages lie in the files of a log: RocketMQ's commit log, and DLedger's, which has an entry around each.

Pure.  The one description for whoever writes, walks, recovers or copies a log.  A *unit* is what stands between two
places of a log where something may begin: a record, or an entry with its head and the record in it, or the eight bytes
that end a file.  Offsets that clients and queues know are those of records; a log ends, and is cut, between units.

Java: ``CommitLog``, ``DLedgerCommitLog``, ``DLedgerMmapFileStore``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rocketha.errors import RemoteProtocolError
from rocketha.wire import dledger
from rocketha.wire.record import (
    PHYSICAL_OFFSET_AT,
    RECORD_BYTES_MAX,
    RECORD_BYTES_MIN,
    Blank,
    Record,
    decode,
    decode_any,
    encode_blank,
)
from rocketha.wire.spec.commitlog import MAGIC_BLANK, MAGIC_V1, MAGIC_V2


class Unit(NamedTuple):
    """What stands at a place of a log.

    :ivar size: bytes up to the next unit.
    :ivar record: None in an entry without one.
    :ivar entry: its head; None in a log that has no entries.
    """

    size: int
    record: Record | None
    entry: dledger.EntryHead | None = None


class Extent(NamedTuple):
    """How much of a log a unit takes, as its first bytes say; ``ends_file``: nothing follows it in its file."""

    size: int
    ends_file: bool


class Layouts(Protocol):
    """How the files of a log lie: they may be of two kinds."""

    def at(self, offset: int) -> Layout:
        """That of the file which holds a log offset."""


class Layout(Layouts, Protocol):
    """One of them.

    :ivar head_bytes: of a unit, before its record.
    :ivar size_at: where in a unit its size stands, four bytes.
    """

    head_bytes: int
    size_at: int

    def blank(self, left: int) -> bytes:
        """What ends a file of which so many bytes are left; eight or more."""

    def extent(self, data: bytes, at: int, room: int) -> Extent | None:
        """Of the unit at ``at``; None: more bytes than ``data`` has are needed to say.

        :param room: bytes from there to the end of the file.
        :raises RemoteProtocolError: no unit begins so.
        """

    def unit(self, data: bytes, at: int, position: int, room: int, last: Unit | None) -> Unit | None:
        """The whole unit at ``at``, checked; None where it ends its file.

        :param position: log offset of it.
        :param room: bytes from there to the end of the file.
        :param last: the unit before it, if that is known.
        :raises RemoteProtocolError: it is none, or is not all there, or belongs elsewhere.
        """


class CommitLogLayout:
    """RocketMQ's own: records, one behind the other."""

    head_bytes = 0
    size_at = 0

    def at(self, offset: int) -> Layout:
        return self

    def blank(self, left: int) -> bytes:
        return encode_blank(left)

    def extent(self, data: bytes, at: int, room: int) -> Extent | None:
        if len(data) - at < 8:
            return _short(room, 8)
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        magic = int.from_bytes(data[at + 4 : at + 8], "big", signed=True)
        if magic == MAGIC_BLANK:
            return _blank(size, room)
        if magic not in (MAGIC_V1, MAGIC_V2):
            raise RemoteProtocolError(f"magic {magic & 0xFFFFFFFF:#010x}")
        if not RECORD_BYTES_MIN <= size <= min(room, RECORD_BYTES_MAX):
            raise RemoteProtocolError(f"total {size}, {room} bytes are left in the file")
        return Extent(size, False)

    def unit(self, data: bytes, at: int, position: int, room: int, last: Unit | None) -> Unit | None:
        found = decode_any(data, at)
        if isinstance(found, Blank):
            _blank(found.total, room)
            return None
        return Unit(found.total, _standing_at(found, position))


class DLedgerLayout:
    """DLedger's of RocketMQ 5.5.0: 48 bytes with the entry's number, term and place, then its record, or nothing.

    Nothing in a head has a checksum, and what DLedger cut off it leaves in place: so an entry counts only if its number
    follows that of the one before and its term does not fall.
    """

    head_bytes = dledger.HEAD_BYTES
    size_at = 4

    def at(self, offset: int) -> Layout:
        return self

    def blank(self, left: int) -> bytes:
        return dledger.build_filler(left)

    def extent(self, data: bytes, at: int, room: int) -> Extent | None:
        left = dledger.filler_at(data, at)
        if left is not None:
            return _blank(left, room)
        if len(data) - at < self.head_bytes:
            return _short(room, self.head_bytes)
        size = dledger.parse_head(data, at).size
        if size > room:
            raise RemoteProtocolError(f"an entry of {size} bytes, {room} are left in the file")
        return Extent(size, False)

    def unit(self, data: bytes, at: int, position: int, room: int, last: Unit | None) -> Unit | None:
        extent = self.extent(data, at, room)
        if extent is not None and extent.ends_file:
            return None
        head = dledger.parse_head(data, at)
        if head.position != position:
            raise RemoteProtocolError(f"the entry says it stands at {head.position}")
        before = last.entry if last is not None else None
        if before is not None and not head.follows(before):
            raise RemoteProtocolError(
                f"entry {head.entry_index} of term {head.term} behind {before.entry_index} of term {before.term}"
            )
        if not head.body_length:
            return Unit(head.size, None, head)
        record = _standing_at(decode(data, at + self.head_bytes), position + self.head_bytes)
        if record.total != head.body_length:
            raise RemoteProtocolError(f"a record of {record.total} bytes in an entry with {head.body_length}")
        return Unit(head.size, record, head)


def _short(room: int, wanted: int) -> Extent | None:
    if room < wanted:
        raise RemoteProtocolError(f"{room} bytes are left in the file, no unit is so short")
    return None


def _blank(size: int, room: int) -> Extent:
    if size != room:
        raise RemoteProtocolError(f"blank of {size} bytes, {room} are left in the file")
    return Extent(size, True)


def _standing_at(record: Record, offset: int) -> Record:
    if record.physical_offset != offset:
        raise RemoteProtocolError(f"the record says it stands at {record.physical_offset}")
    return record


COMMITLOG: Layout = CommitLogLayout()
DLEDGER: Layout = DLedgerLayout()


class Divided(NamedTuple):
    """A log that an ordinary broker began and DLedger goes on with, from ``offset`` on (``dividedCommitlogOffset``)."""

    offset: int

    def at(self, offset: int) -> Layout:
        return COMMITLOG if offset < self.offset else DLEDGER


def begins_so(layout: Layout, data: bytes, position: int, room: int) -> bool:
    """Whether a log of that layout begins with such bytes: the head of a unit that stands there, and of its record.

    :param position: log offset of them.
    :param room: bytes to the end of the file.
    """
    try:
        extent = layout.extent(data, 0, room)
    except RemoteProtocolError:
        return False
    at = layout.head_bytes
    if extent is None or extent.ends_file or len(data) < at + PHYSICAL_OFFSET_AT + 8:
        return False
    magic = int.from_bytes(data[at + 4 : at + 8], "big", signed=True)
    offset = int.from_bytes(data[at + PHYSICAL_OFFSET_AT : at + PHYSICAL_OFFSET_AT + 8], "big")
    return magic in (MAGIC_V1, MAGIC_V2) and offset == position + at
