"""The entries of a log that DLedger's layout has: their numbers, and where each is.

Pure.  Java: the index of ``DLedgerMmapFileStore``: 32 bytes an entry, at 32 times its number, in files of 160 MiB of
which only what was written takes room.  How they lie in files and memory, and why none is lost:
:mod:`rocketha.store.units`.
"""

from __future__ import annotations

from rocketha.errors import RemoteProtocolError
from rocketha.store.commitlog import CommitLog
from rocketha.store.units import UnitFiles
from rocketha.wire import dledger
from rocketha.wire.dledger import EntryHead, IndexUnit


class EntryIndex(UnitFiles):
    """Where each entry is; ``next_offset`` is the number of the next one."""

    __slots__ = ()
    unit_bytes = dledger.UNIT_BYTES

    def unit(self, number: int) -> IndexUnit | None:
        """Of an entry; None where there is none, or what is there is another's."""
        if not self.first_held() <= number < self.next_offset:
            return None
        data = self.read(number, 1)
        unit = dledger.parse_unit(data) if len(data) == self.unit_bytes else None
        return unit if unit is not None and unit.entry_index == number and unit.size else None

    def is_vacant(self, offset: int) -> bool:
        return not any(self.read(offset, 1))

    def put(self, units: bytes) -> None:
        """Those of the next entries."""
        self.tail += units
        self.next_offset += len(units) // self.unit_bytes

    def expired_paths(self, first: int) -> list[str]:
        """Forget the files that have only entries before ``first``; returns their paths."""
        paths = []
        whole = min(first, self.tail_from) * self.unit_bytes  # what the tail goes to would be made anew
        while len(self.files.bases) > 1 and self.files.bases[1] <= whole:
            paths.append(self.files.detach_first())
        return paths


class Entries:
    """Of one log.

    :ivar index: where they are.
    :ivar next_index: number of the next one; ahead of the index while a turn is laid out.
    :ivar term: of the leader, in those that are appended.
    :ivar fresh: the bytes of those that a leader has appended and nobody has taken yet.
    """

    def __init__(self, index: EntryIndex) -> None:
        self.index = index
        self.next_index = 0
        self.term = 0
        self.fresh: list[bytes] = []

    def head(self, position: int, record_bytes: int) -> bytes:
        """The head of the next entry.

        :param position: log offset of the entry.
        """
        number = self.next_index
        self.next_index = number + 1
        return dledger.build_head(number, self.term, position, record_bytes)

    def written(self, data: bytes) -> int:
        """Whole entries are in the log, behind the last one; returns the bytes that the index grew by.

        :raises RemoteProtocolError: they do not follow one another.
        """
        units = dledger.units_of(data)
        self.index.put(units)
        self.next_index = self.index.next_offset
        return len(units)

    def take_fresh(self, bytes_max: int) -> list[tuple[int, int, bytes]]:
        """What was appended since the last call, as :func:`rocketha.wire.dledger.runs_of` has it."""
        fresh, self.fresh = self.fresh, []
        return [run for data in fresh for run in dledger.runs_of(data, bytes_max)]

    # Recovery

    def knows(self, head: EntryHead, log: CommitLog) -> bool:
        """Whether the index has the first entry of a log, and what stands before another one."""
        if head.position == log.segments.own_begin:
            return True
        first, before = first_head(log), self.index.unit(head.entry_index - 1)
        if before is None or (first is not None and self.index.unit(first.entry_index) != dledger.unit_of(first)):
            return False
        size, end = log.segments.file_size, before.position + before.size
        return end == head.position or -(-end // size) * size == head.position

    def end_of(self, number: int) -> int:
        """Log offset behind an entry, as the index has it; 0 where it does not."""
        unit = self.index.unit(number)
        return 0 if unit is None else unit.position + unit.size

    def begin(self, number: int) -> None:
        """Nothing of the index counts, and the next entry has that number."""
        index = self.index
        index.files.remove_after(0)
        index.tail = bytearray()
        index.tail_from = index.next_offset = number

    def found(self, head: EntryHead, again: bool) -> None:
        """The log has an entry, behind the last one found: so has the index.

        :param again: what the index says of it is written again, though it be the same.
        """
        index, number, unit = self.index, head.entry_index, dledger.unit_of(head)
        if number < index.first_held():
            self.begin(number)
        if again or index.unit(number) != unit:
            index.cut(number)
            index.put(dledger.build_unit(unit))
        self.next_index, self.term = number + 1, head.term

    def none_found(self, end: int) -> None:
        """Recovery found no entry behind the place where it began, and the log ends there: the index tells the number
        of the next one."""
        number = self.next_index = self.first_at(end)
        last = self.index.unit(number - 1)
        self.term = last.term if last is not None else 0

    def ended(self) -> None:
        """Drop what the index has behind the last entry."""
        if self.index.next_offset > self.next_index:
            self.index.cut(self.next_index)

    # Cuts and expiry

    def first_at(self, position: int) -> int:
        """Number of the first entry that stands at a log offset or behind it."""
        index = self.index
        low, high = index.first_held(), index.next_offset
        while low < high:
            middle = (low + high) // 2
            unit = index.unit(middle)
            if unit is not None and unit.position >= position:
                high = middle
            else:
                low = middle + 1
        return low

    def cut(self, end: int) -> None:
        """The log ends at an offset: those from there on are gone, on the disk too."""
        self.next_index = self.first_at(end)
        self.index.cut(self.next_index)
        self.index.clean_behind()

    def expired_paths(self, log_begin: int) -> list[str]:
        """Forget the files of the index about entries that the log has no more; returns their paths."""
        return self.index.expired_paths(self.first_at(log_begin))


def first_head(log: CommitLog) -> EntryHead | None:
    """Of a log's first entry; None where there is none, or it can not be read."""
    try:
        return dledger.parse_head(log.segments.read(log.segments.own_begin, dledger.HEAD_BYTES))
    except RemoteProtocolError:
        return None
