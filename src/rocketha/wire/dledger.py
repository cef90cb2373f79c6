"""The entries of a DLedger log and of its index.

Pure.  Fast paths derived from ``wire/spec``.  Java: ``DLedgerEntryCoder``, ``DLedgerMmapFileStore``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rocketha.compiled import compiled
from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.record import RECORD_BYTES_MAX
from rocketha.wire.spec import dledger as spec
from rocketha.wire.spec.format import Format

_HEAD = codec.flat(spec.ENTRY_HEAD)
_UNIT = codec.flat(spec.INDEX_UNIT)
_FILLER = struct.Struct(">ii")
ENTRY_LOOK = struct.Struct(">ii16xq12xi")
"""Of an entry's head: magic, size, position, length of the body."""
HEAD_BYTES = _HEAD.size
"""Before a record of DLedger's log: its PHYSICALOFFSET is the entry's position and this."""
UNIT_BYTES = _UNIT.size
FILLER_BYTES = _FILLER.size


class EntryHead(NamedTuple):
    """What stands before an entry's body; see ``spec.dledger.ENTRY_HEAD``."""

    magic: int
    size: int
    entry_index: int
    term: int
    position: int
    channel: int
    chain_crc: int
    body_crc: int
    body_length: int

    def follows(self, before: EntryHead) -> bool:
        """Whether it may stand behind that one: it has the next number, and its term does not fall."""
        return self.entry_index == before.entry_index + 1 and self.term >= before.term


class IndexUnit(NamedTuple):
    """Where an entry is; see ``spec.dledger.INDEX_UNIT``."""

    magic: int
    position: int
    size: int
    entry_index: int
    term: int


def parse_head(data: bytes, at: int = 0) -> EntryHead:
    """The head of an entry.

    :raises RemoteProtocolError: fewer bytes, or a head that contradicts itself.
    """
    if at < 0 or len(data) - at < HEAD_BYTES:
        raise RemoteProtocolError(f"entry at {at}: {max(len(data) - at, 0)} bytes left")
    head = EntryHead._make(_HEAD.layout.unpack_from(data, at))
    problem = breach(head)
    if problem is not None:
        raise RemoteProtocolError(f"entry at {at}: {problem}")
    return head


def breach(head: EntryHead) -> str | None:
    """What in a head contradicts itself, or is no entry of this dialect; None where all is well."""
    if head.magic != spec.MAGIC:
        return f"magic {head.magic}"
    if not 0 <= head.body_length == head.size - HEAD_BYTES <= RECORD_BYTES_MAX:
        return f"{head.size} bytes with a body of {head.body_length}"
    return str(head) if head.entry_index < 0 or head.term < 0 or head.position < 0 else None


def pack_head(head: EntryHead) -> bytes:
    """The bytes of a head that came from somebody else.

    :raises RemoteProtocolError: it contradicts itself, or a number of it does not fit.
    """
    problem = breach(head)
    if problem is not None:
        raise RemoteProtocolError(f"entry {head.entry_index}: {problem}")
    return _HEAD.pack(*head)


def build_head(entry_index: int, term: int, position: int, body_bytes: int) -> bytes:
    """The head of an entry, as DLedger's leader writes it."""
    return _HEAD.pack(spec.MAGIC, HEAD_BYTES + body_bytes, entry_index, term, position, 0, 0, 0, body_bytes)


def filler_at(data: bytes, at: int = 0) -> int | None:
    """How many bytes of the file are left where a filler begins; None where none does."""
    if len(data) - at < FILLER_BYTES:
        return None
    magic, total = _FILLER.unpack_from(data, at)
    return int(total) if magic == spec.MAGIC_FILLER else None


def build_filler(total: int) -> bytes:
    """The eight bytes that end a file of which ``total`` bytes are left."""
    return _FILLER.pack(spec.MAGIC_FILLER, total)


def unit_of(head: EntryHead) -> IndexUnit:
    """The unit of an entry."""
    return IndexUnit(head.magic, head.position, head.size, head.entry_index, head.term)


@compiled
def units_of(entries: bytes) -> bytes:
    """The units of entries that lie one behind the other, from the first byte to the last, or to what ends a file.

    :raises RemoteProtocolError: something is no entry, or does not follow the one before.
    """
    units: list[bytes] = []
    at, last = 0, None
    while at < len(entries) and filler_at(entries, at) is None:
        head = parse_head(entries, at)
        if last is not None and not (head.follows(last) and head.position == last.position + last.size):
            raise RemoteProtocolError(f"{head} does not follow {last}")
        at += head.size
        if at > len(entries):
            raise RemoteProtocolError(
                f"entry {head.entry_index} has {head.size} bytes, {at - len(entries)} are missing"
            )
        units.append(build_unit(unit_of(head)))
        last = head
    return b"".join(units)


def runs_of(entries: bytes, bytes_max: int) -> list[tuple[int, int, bytes]]:
    """Entries that lie one behind the other, in runs of no more than so many bytes, or a single entry: the number of
    the first, how many, and their bytes; without what ends a file.

    :param entries: whole ones; of an own log, so they are not looked at again.
    """
    runs = []
    at, end, look = 0, len(entries), _FILLER.unpack_from
    while at < end:
        stop, count = at, 0
        while stop < end:
            magic, size = look(entries, stop)
            if magic == spec.MAGIC_FILLER or (count and stop + size - at > bytes_max):
                break
            stop, count = stop + size, count + 1
        if not count:
            break
        runs.append((int.from_bytes(entries[at + 8 : at + 16], "big"), count, entries[at:stop]))
        at = stop
    return runs


def split(entries: bytes, count: int) -> int:
    """Where the entry stands that has ``count`` before it."""
    at = 0
    for _ in range(count):
        at += _FILLER.unpack_from(entries, at)[1]
    return at


def build_unit(unit: IndexUnit) -> bytes:
    """Its bytes."""
    return _UNIT.pack(*unit)


def parse_unit(data: bytes) -> IndexUnit:
    """A unit of the index.

    :raises RemoteProtocolError: not 32 bytes.
    """
    return IndexUnit(*_UNIT.unpack(data))


def _parse_head(data: bytes) -> EntryHead:
    if len(data) != HEAD_BYTES:
        raise RemoteProtocolError(f"{len(data)} bytes instead of {HEAD_BYTES}")
    return parse_head(data)


def _parse_filler(data: bytes) -> int:
    total = filler_at(data)
    if total is None or len(data) != FILLER_BYTES:
        raise RemoteProtocolError("no filler")
    return total


FORMATS = (
    Format(
        name="dledger-entry-head",
        spec=spec.ENTRY_HEAD,
        parse=_parse_head,
        build=pack_head,
        bound=HEAD_BYTES,
        doc="Before each record of dledger-<selfId>/data (DLedgerEntryCoder).",
    ),
    Format(
        name="dledger-filler",
        spec=spec.FILLER,
        parse=_parse_filler,
        build=build_filler,
        bound=FILLER_BYTES,
        doc="Ends a full file of dledger-<selfId>/data (MmapFileList).",
    ),
    Format(
        name="dledger-index-unit",
        spec=spec.INDEX_UNIT,
        parse=parse_unit,
        build=build_unit,
        bound=UNIT_BYTES,
        doc="One entry of dledger-<selfId>/index (DLedgerMmapFileStore).",
    ),
)
