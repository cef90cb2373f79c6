"""The layouts of a log's files that an export knows: what differs between them, for whoever reads one.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from rocketha.export import ledger, scan
from rocketha.export.manifest import COMMITLOG, DLEDGER
from rocketha.wire import dledger
from rocketha.wire.record import RECORD_BYTES_MAX, encode_blank


@attrs.frozen
class Layout:
    """One of them.

    :ivar units: what a piece of a log has; as ``scan.records``.
    :ivar follows: whether it goes on somewhere in a piece; as ``scan.records_follow``.
    :ivar length: of the unit with which a piece begins, as it says itself.
    :ivar end_of_file: the eight bytes that end a file of which so many are left.
    :ivar head_bytes: of a unit, up to where its record says at which place it stands.
    :ivar unit_bytes_max: of one unit.
    :ivar record_at: where in a unit its record begins.
    """

    units: Callable[[bytes, scan.Tally, int, bool], Iterator[scan.Unit]]
    follows: Callable[[bytes, int, scan.Tally], bool]
    length: Callable[[bytes], int]
    end_of_file: Callable[[int], bytes]
    head_bytes: int
    unit_bytes_max: int
    record_at: int


LAYOUTS = {
    COMMITLOG: Layout(
        scan.records, scan.records_follow, scan.record_length, encode_blank, scan.HEAD_BYTES, RECORD_BYTES_MAX, 0
    ),
    DLEDGER: Layout(
        ledger.entries,
        ledger.entries_follow,
        ledger.entry_length,
        dledger.build_filler,
        ledger.LOOK_BYTES,
        dledger.ENTRY_BYTES_MAX,
        dledger.HEAD_BYTES,
    ),
}
