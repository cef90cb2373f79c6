"""A log in memory that loses what was not synced when it crashes: for tests, models and the simulator.

Pure.  Behaves as ``store/raft_log.py``: reads see every ``save``; a changed term or vote is durable when ``save``
returns, entries when ``sync`` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.errors import InvariantBroken, ensure
from rocketha.raft.messages import Entry, HardState, Members, SnapshotMeta
from rocketha.raft.storage import Compacted, Unavailable
from rocketha.wire.raft_entries import memberships_among


class MemoryStorage:
    """The storage of one node.

    :ivar hard_state: as saved.
    :ivar synced: entries up to here survive a crash.
    """

    def __init__(self, members: Members) -> None:
        self.hard_state = HardState(0, "", 0)
        self.synced = 0
        self._initial = members
        self._first = 1
        self._before = 0  # term of the entry before the first
        self._entries: list[Entry] = []
        self._snapshots: dict[int, tuple[SnapshotMeta, bytes]] = {}
        self._newest = SnapshotMeta(0, 0, members)

    # Reading

    def initial(self) -> tuple[HardState, Members]:
        """The hard state, and the members of the snapshot."""
        return self.hard_state, self._newest.members

    def memberships(self) -> list[Entry]:
        return memberships_among(self.entries, max(self._newest.index + 1, self._first), self.last_index() + 1)

    def first_index(self) -> int:
        """The first entry that can be read."""
        return self._first

    def last_index(self) -> int:
        """The last entry."""
        return self._first + len(self._entries) - 1

    def term(self, index: int) -> int:
        """An entry's term."""
        if index == self._first - 1:
            return self._before
        if index < self._first:
            raise Compacted(f"entry {index} is compacted, the first is {self._first}")
        if index > self.last_index():
            raise Unavailable(f"entry {index} is after the last one, {self.last_index()}")
        return self._entries[index - self._first].term

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries from ``low`` to before ``high``."""
        if low < self._first:
            raise Compacted(f"entry {low} is compacted, the first is {self._first}")
        if high > self.last_index() + 1:
            raise Unavailable(f"entry {high - 1} is after the last one, {self.last_index()}")
        taken: list[Entry] = []
        for entry in self._entries[low - self._first : high - self._first]:
            max_bytes -= len(entry.data)
            if taken and max_bytes < 0:
                break
            taken.append(entry)
        return taken

    def split(self, run: Entry, index: int) -> tuple[Entry, Entry]:
        """There are no runs."""
        raise InvariantBroken(f"{run.count} entries at {run.index} are one in a log without runs")

    def snapshot(self) -> SnapshotMeta:
        """The newest snapshot."""
        return self._newest

    def read_snapshot(self, offset: int, size: int, index: int | None = None) -> bytes:
        """A part of a snapshot."""
        wanted = self._newest.index if index is None else index
        if wanted not in self._snapshots:
            raise Compacted(f"there is no snapshot of entry {wanted}")
        return self._snapshots[wanted][1][offset : offset + size]

    # Writing

    def save(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Keep the hard state and append entries; those after the first one's place are cut before."""
        if hard_state is not None:
            self.hard_state = hard_state
        if not entries:
            return
        first = entries[0].index
        ensure(all(entry.count == 1 for entry in entries), "this log has no runs")
        ensure(self._first <= first <= self.last_index() + 1, f"entry {first} leaves a gap after {self.last_index()}")
        del self._entries[first - self._first :]
        self.synced = min(self.synced, first - 1)
        self._entries += entries

    def sync(self, index: int | None = None) -> None:
        """What was saved (up to ``index``) is durable."""
        self.synced = self.last_index() if index is None else max(self.synced, min(index, self.last_index()))

    def save_snapshot(self, meta: SnapshotMeta, data: bytes) -> None:
        """Keep a snapshot; if the log does not have its entry, it replaces the log."""
        kept = {self._newest.index, meta.index}
        self._snapshots = {index: each for index, each in self._snapshots.items() if index in kept}
        self._snapshots[meta.index] = (meta, data)
        self._newest = meta
        if not (self._first - 1 <= meta.index <= self.last_index() and self.term(meta.index) == meta.term):
            self._entries = []
            self._first, self._before = meta.index + 1, meta.term
            self.synced = meta.index

    def compact(self, index: int) -> None:
        """Forget entries up to ``index``, which the snapshot contains."""
        ensure(index <= self._newest.index, f"entry {index} is in no snapshot")
        if index >= self._first:
            self._before = self.term(index)
            del self._entries[: index + 1 - self._first]
            self._first = index + 1

    def crash(self) -> None:
        """Lose what was not synced."""
        del self._entries[max(self.synced + 1 - self._first, 0) :]
