"""Reading DLedger's log for an export: entries, most of them with one record each.

Pure.  DLedger has no checksums and does not clear what it cuts: behind the end there may be entries of earlier terms,
whole or torn, at places that were theirs.  So an entry counts if its number follows the one before and its term does
not fall (``DLedgerMmapFileStore.recover``), and its record is one that says that it stands there.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketha.errors import RemoteProtocolError
from rocketha.export.scan import Tally, Unit, decoded, is_torn, marked
from rocketha.wire import dledger
from rocketha.wire.record import Blank

TERM_MAX = (1 << 31) - 1
"""One more at each election: what is greater is damage, and no epoch of a table."""


def entries(data: bytes, tally: Tally, room: int, corrupt_too: bool) -> Iterator[Unit]:
    """The entries of a piece of a segment that begins where ``tally`` ends; as ``scan.records``."""
    base, at = tally.end, 0
    while len(data) - at >= dledger.FILLER_BYTES:
        left = dledger.filler_at(data, at)
        if left is not None:
            if left != room - at:
                raise RemoteProtocolError(f"filler of {left} bytes, {room - at} are left")
            tally.blank = True
            return
        whole = len(data) == room
        if len(data) - at < dledger.HEAD_BYTES and not whole:
            return
        head = dledger.parse_head(data, at)
        if head.position != base + at or head.size > room - at or head.term > TERM_MAX:
            raise RemoteProtocolError(f"the entry says that it stands at {head.position}: {head}")
        if len(data) - at < head.size and not whole:
            return
        if head.term < tally.term or (tally.last_index >= 0 and head.entry_index != tally.last_index + 1):
            tally.stale = head.term < tally.term
            raise RemoteProtocolError(
                f"entry {head.entry_index} of term {head.term} behind {tally.last_index} of term {tally.term}"
            )
        if head.size == dledger.HEAD_BYTES:
            yield Unit(head.size, None, True, head.entry_index, head.term)
        else:
            yield _with_record(data, at, head, corrupt_too)
        at += head.size


def _with_record(data: bytes, at: int, head: dledger.EntryHead, corrupt_too: bool) -> Unit:
    record, good = decoded(data, at + dledger.HEAD_BYTES, corrupt_too)
    if isinstance(record, Blank) or record.total != head.body_length:
        raise RemoteProtocolError(f"entry {head.entry_index} has {head.body_length} bytes, its record {record.total}")
    if record.physical_offset != head.position + dledger.HEAD_BYTES:
        raise RemoteProtocolError(
            f"the record of entry {head.entry_index} says that it stands at {record.physical_offset}"
        )
    if is_torn(record, data, at + head.size):
        raise RemoteProtocolError(f"what stands behind the body of entry {head.entry_index} is not all written")
    return Unit(head.size, record, good, head.entry_index, head.term)


def entries_follow(data: bytes, offset: int, tally: Tally) -> bool:
    """Whether a piece of a log has an entry that could stand behind those of ``tally``, with its record.

    :param offset: log offset of the piece's first byte.
    """
    for begin in marked(data, offset):
        at = begin - dledger.HEAD_BYTES
        if offset + at == tally.end and not tally.stale and _is_whole(data, begin):
            return True  # only what stands before the record is damaged
        if at < 0:
            continue
        try:
            head = dledger.parse_head(data, at)
        except RemoteProtocolError:
            continue
        if head.position == offset + at and head.term >= tally.term and head.entry_index > tally.last_index:
            return True
    return False


def _is_whole(data: bytes, at: int) -> bool:
    try:
        record, _ = decoded(data, at, False)
    except RemoteProtocolError:
        return False
    return not isinstance(record, Blank) and not is_torn(record, data, at + record.total)
