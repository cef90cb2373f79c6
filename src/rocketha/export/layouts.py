"""The layouts of a log's files that an export knows, and how each is read for one.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from rocketha.export import ledger, scan
from rocketha.export.manifest import COMMITLOG, DLEDGER
from rocketha.store import layout
from rocketha.wire.record import RECORD_BYTES_MAX


@attrs.frozen
class Layout:
    """One of them.

    :ivar files: what it is.
    :ivar units: what a piece of a log has; as ``scan.records``.
    :ivar follows: whether it goes on somewhere in a piece; as ``scan.records_follow``.
    """

    files: layout.Layout
    units: Callable[[bytes, scan.Tally, int, bool], Iterator[scan.Unit]]
    follows: Callable[[bytes, int, scan.Tally], bool]

    def size(self, data: bytes) -> int:
        """Of the unit with which a piece begins, as it says itself."""
        return int.from_bytes(data[self.files.size_at : self.files.size_at + 4], "big")

    @property
    def look_bytes(self) -> int:
        """Of a unit, up to where its record says at which place it stands."""
        return self.files.head_bytes + scan.HEAD_BYTES

    @property
    def unit_bytes_max(self) -> int:
        return self.files.head_bytes + RECORD_BYTES_MAX


LAYOUTS = {
    COMMITLOG: Layout(layout.COMMITLOG, scan.records, scan.records_follow),
    DLEDGER: Layout(layout.DLEDGER, ledger.entries, ledger.entries_follow),
}
