"""The membership entries of a message log: which they are, in a file beside it.

Pure.  A start must not read a billion messages to find them.  It must not know how an entry lies in the log.

Order.  A row is on the disk before its entry is written, and goes after its entry was cut.  So a crash leaves a row too
many, never one too few, and a start drops those whose entry is not in the log.  No other entry can have the same number
and term.  Where the log is empty, since a crash came between the end of one and the begin of the next, the last row
says best who the members are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import itemgetter

from rocketha.errors import CorruptStore
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.wire import raft_records
from rocketha.wire.raft_entries import Members
from rocketha.wire.raft_records import MEMBERSHIPS_BYTES_MAX, Membership

ROWS_MAX = 800
"""Of the largest ones that the file holds.  Who lacks the entries of older ones would learn of the others only."""
_index = itemgetter(0)


class Memberships:
    """See the module.

    :param configured: who the group is made of where no entry says otherwise.
    """

    def __init__(self, disk: Disk, directory: str, configured: Members) -> None:
        self._disk = disk
        self._path = f"{directory}/members"
        self._configured = configured
        self._rows: list[Membership] = []

    def load(self, has: Callable[[int, int], bool]) -> None:
        """Read the file.

        :param has: whether the log has an entry of that number and term, or does not reach back so far.
        :raises CorruptStore: it is damaged: without it this member could count votes of a majority that is none.
        :raises DiskFailure: the disk.
        """
        self._rows = []
        if not self._disk.exists(self._path):
            return
        data = self._disk.read_all(self._path, MEMBERSHIPS_BYTES_MAX)
        rows = raft_records.parse_memberships(data, lambda reason: CorruptStore(self._path, 0, reason))
        kept = [row for row in rows if has(row.index, row.term)]
        if kept == rows:
            self._rows = rows
        else:
            self._save(kept)

    def _save(self, rows: list[Membership]) -> None:
        atomic_file.save(self._disk, self._path, raft_records.build_memberships(rows), backup=False)
        self._rows = rows

    def at(self, index: int) -> Membership | None:
        """The row of an entry."""
        place = bisect_left(self._rows, index, key=_index)
        return self._rows[place] if place < len(self._rows) and self._rows[place].index == index else None

    def next(self, index: int) -> int | None:
        """The first membership entry from an index on."""
        place = bisect_left(self._rows, index, key=_index)
        return self._rows[place].index if place < len(self._rows) else None

    def behind(self, index: int) -> list[Membership]:
        """Those behind an index."""
        return self._rows[bisect_left(self._rows, index + 1, key=_index) :]

    def as_of(self, index: int) -> Members:
        """Who the group is made of where the log ends there."""
        place = bisect_left(self._rows, index + 1, key=_index)
        return Members.decode(self._rows[place - 1].members) if place else self._configured

    def changed(self, index: int) -> bool:
        """Whether an entry up to there has changed them; the first row of a log may be of what was configured."""
        return self.as_of(index).since_ms is not None

    def add(self, row: Membership, begin: int) -> None:
        """Before its entry is written, behind all that are in the log.

        :param begin: of what is before this index, the last one only is ever asked for.
        :raises DiskFailure: the file is as it was.
        """
        before = self._rows[: bisect_left(self._rows, row.index, key=_index)]
        rows = [*(each for each in before if each.term <= row.term), row]  # others can not be committed
        old = max(bisect_left(rows, begin, key=_index) - 1, 0)
        self._save(rows[old:][-ROWS_MAX:])

    def cut(self, index: int) -> None:
        """The log has no entries from there on.

        :raises DiskFailure: the file is as it was.
        """
        place = bisect_left(self._rows, index, key=_index)
        if place < len(self._rows):
            self._save(self._rows[:place])

    def only_last(self, begin: int) -> None:
        """The log is empty, and begins behind that index: the last members that were told hold until it says others.

        :raises DiskFailure: the file is as it was.
        """
        if self._rows:
            self._save([Membership(begin, 0, self._rows[-1].members)])
