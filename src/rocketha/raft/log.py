"""A node's log: the stored part behind an interface, and the newest entries in memory.

Pure.  What it must not know: roles, messages, who else there is.

Theory of operation.  New entries are put into ``_tail``; the driver is given those it has not written yet
(``take_unsaved``), tells which are synced (``persisted_to``) and gets the ones to apply (``take_committed``).  Entries
stay in ``_tail`` after that for a while, so that sending and applying read slices of a list and not the disk.  Beside
``_tail`` run ``_firsts``, the index of each, and ``_ends``, the bytes of data up to each, so that "the one that holds
entry n" and "as many as fit into n bytes" are bisections.

An entry of ``_tail`` may be a run: several entries at once.  Wherever the log has to end or begin within one the
storage splits it; all else goes by indexes and costs the same for one entry and for a hundred.

Invariants: ``applied <= released <= commit <= last_index``; ``released <= persisted <= saved <= last_index`` (but while
a received snapshot waits to be stored ``persisted`` is behind it); ``_base <= saved``; terms never fall.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

from rocketha.errors import ensure
from rocketha.raft.messages import Entry, SnapshotMeta
from rocketha.raft.storage import Compacted, LogStorage, Unavailable

_index = itemgetter(0)
_data = itemgetter(3)
_term = itemgetter(1)


class Log:
    """The log of one node.

    :ivar last_index: the newest entry, stored or not.
    :ivar last_term: its term.
    :ivar saved: handed to the driver up to here.
    :ivar persisted: synced up to here.
    :ivar commit: known to be committed up to here.
    :ivar released: handed out to be applied up to here.
    :ivar applied: applied up to here.
    """

    __slots__ = (
        "_base",
        "_cached_bytes",
        "_cached_entries",
        "_ends",
        "_firsts",
        "_pending",
        "_replaced",
        "_storage",
        "_tail",
        "applied",
        "commit",
        "last_index",
        "last_term",
        "persisted",
        "released",
        "saved",
    )

    def __init__(self, storage: LogStorage, commit_hint: int, cached_entries: int, cached_bytes: int) -> None:
        self._storage = storage
        self._cached_entries = cached_entries
        self._cached_bytes = cached_bytes
        last = storage.last_index()
        self._base = last  # the entry before _tail[0]
        self._tail: list[Entry] = []
        self._firsts: list[int] = []  # _firsts[i]: index of _tail[i]
        self._ends: list[int] = [0]  # _ends[i]: bytes before _tail[i]; one longer than _tail
        self._pending: SnapshotMeta | None = None  # received, not yet stored: nothing before it can be read
        self._replaced: set[tuple[int, int]] = set()  # (index, term) cut while their sync may still be under way
        self.last_index = last
        self.last_term = storage.term(last)
        self.saved = self.persisted = last
        self.applied = self.released = storage.snapshot().index
        self.commit = max(self.applied, min(commit_hint, last))

    # Reading

    @property
    def first_index(self) -> int:
        """The first entry that can be read."""
        return self._storage.first_index() if self._pending is None else self._pending.index + 1

    @property
    def installing(self) -> SnapshotMeta | None:
        """A received snapshot that is not stored yet."""
        return self._pending

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes of data after ``commit``, as far as they are in memory."""
        return self._ends[-1] - self._ends[self._whole(self.commit)]

    def _whole(self, index: int) -> int:
        """How many of ``_tail`` end at or before ``index``."""
        return len(self._tail) if index >= self.last_index else max(bisect_right(self._firsts, index + 1) - 1, 0)

    def term(self, index: int) -> int:
        """The term of an entry, also of the last one compacted away.

        :raises Compacted: before that.
        :raises Unavailable: after the last entry.
        """
        if index > self._base:
            if index > self.last_index:
                raise Unavailable(f"entry {index} is after the last one, {self.last_index}")
            return self._tail[bisect_right(self._firsts, index) - 1].term
        if self._pending is not None:
            if index == self._pending.index:
                return self._pending.term
            raise Compacted(f"entry {index} is replaced by a snapshot up to {self._pending.index}")
        return self._storage.term(index)

    def matches(self, index: int, term: int) -> bool:
        """Whether the entry is here, with that term."""
        if index == self.last_index:
            return term == self.last_term
        if index > self.last_index:
            return False
        try:
            return self.term(index) == term
        except Compacted:
            return False

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """Entries from ``low`` to before ``high``: at least one, then no more than fit; maybe fewer.

        :raises Compacted: when ``low`` cannot be read any more.
        """
        base = self._base
        if low <= base:
            if self._pending is not None:
                raise Compacted(f"entry {low} is replaced by a snapshot up to {self._pending.index}")
            high = min(high, base + 1)
            return self._before(self._storage.entries(low, high, max_bytes), high)
        if low > self.last_index:
            return []
        firsts, ends = self._firsts, self._ends
        start = bisect_right(firsts, low) - 1
        stop = len(firsts) if high > self.last_index else bisect_left(firsts, high)
        if ends[stop] - ends[start] > max_bytes:
            stop = max(start + 1, bisect_right(ends, ends[start] + max_bytes, start, stop) - 1)
        taken = self._before(self._tail[start:stop], high)
        return taken if firsts[start] == low else self.behind(taken, low - 1)

    def _before(self, entries: list[Entry], high: int) -> list[Entry]:
        """Without what goes on beyond ``high``."""
        if entries and entries[-1].count > 1 and entries[-1].last >= high:
            entries[-1] = self._storage.split(entries[-1], high)[0]
        return entries

    def behind(self, entries: Sequence[Entry], index: int) -> list[Entry]:
        """Those of some entries that stand behind ``index``."""
        start = bisect_right([entry.index for entry in entries], index + 1) - 1
        if start < 0 or entries[start].index == index + 1:
            return list(entries[max(start, 0) :])
        if entries[start].last <= index:
            return []
        return [self._storage.split(entries[start], index + 1)[1], *entries[start + 1 :]]

    def size(self, entries: Sequence[Entry]) -> int:
        """Bytes of data of some entries of this log."""
        if not entries:
            return 0
        start = bisect_left(self._firsts, entries[0].index)
        stop = start + len(entries)
        if stop <= len(self._tail) and self._tail[start] is entries[0] and self._tail[stop - 1] is entries[-1]:
            return self._ends[stop] - self._ends[start]
        return sum(map(len, map(_data, entries)))

    def last_with_term_at_most(self, index: int, term: int) -> int:
        """The last entry not after ``index`` whose term is at most ``term``; the one before the first if none is."""
        low, high = self.first_index - 1, min(index, self.last_index)
        if low >= high:
            return high
        while low < high:  # the term at low is at most term, or low is the start
            middle = (low + high + 1) // 2
            if self.term(middle) <= term:
                low = middle
            else:
                high = middle - 1
        return low

    # Writing

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries that follow the last one."""
        ends = self._ends
        self._tail += entries
        self._firsts += map(_index, entries)
        ends += accumulate(map(len, map(_data, entries)), initial=ends.pop())
        last = entries[-1]
        self.last_index, self.last_term = last.index + last.count - 1, last.term

    def merge(self, entries: Sequence[Entry]) -> int:
        """Add a leader's entries, the first of which follows one that matches; cut at the first that conflicts.

        Entries that are here already stay, and so does what follows them: only a conflict cuts.
        :returns: the first index that was cut, 0 if nothing was.
        """
        first = entries[0].index
        if first > self.last_index:
            self.append(entries)
            return 0
        for position, entry in enumerate(entries):
            if entry.index > self.last_index:
                self.append(entries[position:])
                return 0
            same = entry.index - 1
            if entry.term == self.term(entry.index):
                # terms do not fall: what differs is a later one, and all behind it
                last = min(entry.last, self.last_index)
                same = last if self.term(last) == entry.term else self.last_with_term_at_most(last, entry.term)
                if same == entry.last:
                    continue
            cut = same + 1 if same < self.last_index else 0
            if cut:
                self._cut(cut)
            self.append(self.behind(entries[position:], same))
            return cut
        return 0

    def _cut(self, index: int) -> None:
        ensure(index > self.commit, f"a leader replaces entry {index}, and {self.commit} is committed here")
        for lost in range(self.persisted + 1, min(self.saved, self.last_index) + 1):
            if lost >= index:
                self._replaced.add((lost, self.term(lost)))
        if index <= self._base:
            self._base = index - 1
            self._tail, self._firsts, self._ends = [], [], [0]
        else:
            at = bisect_right(self._firsts, index) - 1
            run = self._tail[at]
            del self._tail[at:], self._firsts[at:], self._ends[at + 1 :]
            if run.index < index:
                self.append([self._storage.split(run, index)[0]])
        self.saved = min(self.saved, index - 1)
        self.persisted = min(self.persisted, index - 1)
        self.last_index = index - 1
        self.last_term = self.term(index - 1)

    def take_unsaved(self) -> tuple[Entry, ...]:
        """The entries not handed to the driver yet; each is handed out once."""
        taken = tuple(self._tail[bisect_right(self._firsts, self.saved) :])
        self.saved = self.last_index
        return taken

    def persisted_to(self, index: int, term: int) -> bool:
        """Note that the entry and all before it are synced; False if that is no news, or about a replaced entry."""
        if not self.persisted < index <= self.saved or index <= self._base or self._pending is not None:
            return False
        if self.term(index) != term or (index, term) in self._replaced:
            return False
        self.persisted = index
        self._replaced = {each for each in self._replaced if each[0] > index}
        return True

    # Committing and applying

    def commit_to(self, index: int) -> bool:
        """Raise ``commit``, never above the log's end, never down; whether it moved."""
        index = min(index, self.last_index)
        if index <= self.commit:
            return False
        self.commit = index
        return True

    @property
    def can_release(self) -> bool:
        """Whether ``take_committed`` would return something."""
        return self.released < min(self.commit, self.persisted) and self._pending is None

    def take_committed(self, max_bytes: int) -> tuple[Entry, ...]:
        """Committed entries that are synced here and not handed out yet, some of them."""
        if not self.can_release:
            return ()
        taken = tuple(self.entries(self.released + 1, min(self.commit, self.persisted) + 1, max_bytes))
        self.released = taken[-1].last
        return taken

    def release(self) -> None:
        """Have what ``take_committed`` would return applied without being handed out: the storage has all of it."""
        self.released = max(self.released, min(self.commit, self.persisted))

    def applied_to(self, index: int) -> None:
        """Entries up to ``index`` are applied; old ones may leave the memory."""
        ensure(index <= self.released, f"entry {index} was applied, only {self.released} were handed out")
        self.applied = max(self.applied, index)
        cached, ends = len(self._tail), self._ends
        if cached <= 2 * self._cached_entries and ends[-1] - ends[0] <= 2 * self._cached_bytes:
            return
        by_bytes = bisect_right(ends, ends[-1] - self._cached_bytes) - 1
        excess = max(cached - self._cached_entries, by_bytes)
        drop = min(excess, self._whole(min(self.applied, self.persisted)))
        if drop > 0:
            self._base = self._tail[drop - 1].last
            del self._tail[:drop], self._firsts[:drop], ends[:drop]

    # Snapshots

    def snapshot(self) -> SnapshotMeta:
        """The newest stored snapshot."""
        return self._storage.snapshot()

    def read_snapshot(self, offset: int, size: int, index: int) -> bytes:
        """Bytes of a stored snapshot.

        :raises Compacted: when that one is no longer kept.
        """
        return self._storage.read_snapshot(offset, size, index)

    def restore(self, meta: SnapshotMeta) -> None:
        """Replace everything by a received snapshot, which is yet to be stored."""
        ensure(meta.index > self.commit, f"a snapshot up to {meta.index} would undo what is committed, {self.commit}")
        self._pending = meta
        self._base = self.last_index = self.saved = self.released = meta.index
        self.persisted = min(self.persisted, self.commit)
        self.commit = meta.index
        self.last_term = meta.term
        self._tail, self._firsts, self._ends = [], [], [0]
        self._replaced = set()

    def restored(self, meta: SnapshotMeta) -> None:
        """The received snapshot is stored and the state machine stands on it."""
        if self._pending == meta:
            self._pending = None
            self.persisted = max(self.persisted, meta.index)
            self.applied = max(self.applied, meta.index)


def in_order(entries: Sequence[Entry], index: int, log_term: int, term: int) -> bool:
    """Whether entries follow ``index`` without gaps, with terms that rise from ``log_term`` to at most ``term``."""
    terms = list(map(_term, entries))
    if entries[0].index != index + 1 or terms[0] < log_term or terms[-1] > term:
        return False
    behind = [entry[0] + entry[4] for entry in entries]
    return behind[:-1] == list(map(_index, entries[1:])) and (len(terms) == 1 or sorted(terms) == terms)
