"""The newest entries of a Raft log in memory, and the terms of all of them.

Pure.  It must not know files.  Invariants: ``low <= last + 1``; ``entries[0].index == low`` where there are any; terms
are kept for ``first - 1`` to ``last``, as the runs of equal ones, of which there are few.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from rocketha.errors import ensure
from rocketha.wire.raft_entries import Compacted, Entry, Unavailable

ENTRY_OVERHEAD_BYTES = 200
"""What Python needs for an entry beside its data, about."""


class EntryTail:
    """See the module's text.

    :ivar first: the oldest entry that the log can give, from memory or disk; ``last + 1`` when there is none.
    :ivar last: the newest entry; ``first - 1`` when there is none.
    :ivar low: the oldest entry in memory.
    """

    __slots__ = ("_bytes", "_bytes_max", "_entries", "_starts", "_terms", "first", "last", "low")

    def __init__(self, first: int, previous_term: int, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.restart(first, previous_term)

    def restart(self, first: int, previous_term: int) -> None:
        """An empty log whose next entry is ``first``."""
        self.first = self.low = first
        self.last = first - 1
        self._entries: list[Entry] = []
        self._bytes = 0
        self._starts = [first - 1]
        self._terms = [previous_term]

    @property
    def last_term(self) -> int:
        """The term of :attr:`last`."""
        return self._terms[-1]

    def append(self, entries: Sequence[Entry]) -> None:
        """Entries behind the last; the oldest leave memory when there are too many."""
        ensure(entries[0].index == self.last + 1, "entries are appended without gaps")
        self._entries.extend(entries)
        self.last = entries[-1].index
        term = self._terms[-1]
        if entries[-1].term != term:
            for entry in entries:
                if entry.term != term:
                    term = entry.term
                    self._starts.append(entry.index)
                    self._terms.append(term)
        self._bytes += sum([len(entry.data) for entry in entries]) + ENTRY_OVERHEAD_BYTES * len(entries)
        if self._bytes > self._bytes_max:
            self._trim(self._bytes - self._bytes_max * 3 // 4)

    def _trim(self, bytes_to_free: int) -> None:
        count = freed = 0
        for entry in self._entries:
            if freed >= bytes_to_free or count == len(self._entries) - 1:
                break
            freed += len(entry.data) + ENTRY_OVERHEAD_BYTES
            count += 1
        self._drop(count)

    def _drop(self, count: int) -> None:
        """Forget the oldest entries in memory."""
        self._bytes -= sum([len(entry.data) for entry in self._entries[:count]]) + ENTRY_OVERHEAD_BYTES * count
        del self._entries[:count]
        self.low += count

    def cut(self, index: int) -> None:
        """Forget the entries from ``index`` on."""
        ensure(self.first <= index <= self.last + 1, "a cut lies within the log")
        cut = self._entries[max(0, index - self.low) :]
        self._bytes -= sum([len(entry.data) for entry in cut]) + ENTRY_OVERHEAD_BYTES * len(cut)
        del self._entries[max(0, index - self.low) :]
        keep = bisect_left(self._starts, index)
        del self._starts[keep:], self._terms[keep:]
        self.last = index - 1
        self.low = min(self.low, index)

    def compact(self, index: int) -> None:
        """Forget the entries up to ``index``, which becomes ``first - 1``."""
        ensure(self.first - 1 <= index <= self.last, "compaction stays within the log")
        self.first = index + 1
        if self.low < self.first:
            self._drop(self.first - self.low)
        keep = bisect_right(self._starts, index) - 1
        del self._starts[:keep], self._terms[:keep]

    def term(self, index: int) -> int:
        """The term of an entry, also of ``first - 1``.

        :raises Compacted: before that.
        :raises Unavailable: behind ``last``.
        """
        if index < self.first - 1:
            raise Compacted(f"entry {index} is compacted, the first is {self.first}")
        if index > self.last:
            raise Unavailable(f"entry {index} is behind the last, {self.last}")
        if index >= self._starts[-1]:
            return self._terms[-1]
        return self._terms[bisect_right(self._starts, index) - 1]

    def slice(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries in memory, from ``low`` to before ``high``: at least one, then at most ``bytes_max`` of data."""
        return bounded(self._entries[low - self.low : high - self.low], bytes_max)


def bounded(entries: list[Entry], bytes_max: int) -> list[Entry]:
    """The first entry, and those behind it as long as all have at most ``bytes_max`` of data."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.data)
        if size > bytes_max and count:
            return entries[:count]
    return entries
