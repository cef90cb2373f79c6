"""The log of a witness: which terms its entries have, without their data.

Pure.  A vote needs no more of a log than the term and index of its last entry, and an acknowledgement no more than
where it ends.  So the whole log is its *spans*, one a term, of which those of committed entries are forgotten, and
membership entries.  It must not know who writes it when.

``state`` is term and vote, as of any Raft log of ours (:mod:`rocketha.store.raft_state`).  ``witness`` has two slots
for everything else.  They are written in turn, and each is synced before the other is written: a power cut can tear the
one that nobody was told of.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError, ensure
from rocketha.store import atomic_file
from rocketha.store.disk import Disk, File, Lock
from rocketha.store.raft_state import SLOTS, VoteFile, check_owner
from rocketha.wire import raft_records
from rocketha.wire.raft_entries import (
    INDEX_MAX,
    Compacted,
    Entry,
    EntryKind,
    HardState,
    Members,
    SnapshotMeta,
    Unavailable,
)
from rocketha.wire.raft_records import Membership, StateFile, WitnessState
from rocketha.wire.spec.raft_log import WITNESS_SLOT_BYTES

KEPT_ENTRIES, KEPT_SPANS = 100_000, 64
"""Committed ones are not forgotten before there are as many entries, or terms or changes of the members."""
_index = itemgetter(0)


class WitnessLog:
    """See the module; a :class:`~rocketha.raft.storage.LogStorage` that can be written.

    :ivar failed: why an image could not be written; none is, after that.
    :ivar notes: what an operator may want to know of how it was found.
    """

    def __init__(self, disk: Disk, directory: str, owner: tuple[str, str], members: Members) -> None:
        """Opens nothing.

        :param owner: group and id: the directory of another one is refused.
        :param members: who the group is made of at its first start.
        """
        self.failed: DiskFailure | None = None
        self.notes: list[str] = []
        self.voted = (0, "")
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self._votes = VoteFile(disk, directory)
        self._members = members
        self._spans: list[tuple[int, int]] = [(0, 0)]
        self._last = 0
        self._rows: list[Membership] = []
        self._number = 0
        self._file: File | None = None
        self._lock: Lock | None = None

    def load(self) -> None:
        """Read what is there.  Blocking.

        :raises CorruptStore: part of it is damaged or missing: this member could acknowledge or vote twice.
        :raises ConfigError: the directory is another member's.
        :raises DiskFailure: the disk, or another process has the directory.
        """
        atomic_file.make_dirs(self._disk, self._directory)
        self._lock = self._disk.lock(f"{self._directory}/lock")
        state, found = self._votes.load(), self._load_slots()
        if state is not None:
            check_owner(self._votes.path, (state.group, state.node), self._owner)
            self.voted = (state.term, state.vote)
        lacks = self._path if found is None and state else self._votes.path if found and not state else ""
        if lacks and (found is None or found.last_index):
            raise CorruptStore(lacks, 0, "it is missing or damaged. Empty the directory: this member begins anew")
        if found is not None:
            self._number, self._last = found.number, found.last_index
            members = Members.decode(found.members)
            if members.since_ms is not None:  # else they are those of the configuration, which may have been edited
                self._members = members
            self._spans, self._rows = list(found.spans), list(found.memberships)
        self._open()

    @property
    def _path(self) -> str:
        return f"{self._directory}/witness"

    def _load_slots(self) -> WitnessState | None:
        """The newer state."""
        if not self._disk.exists(self._path):
            return None
        data = self._disk.read_all(self._path, SLOTS * WITNESS_SLOT_BYTES)
        found = []
        for slot in range(SLOTS):
            try:
                found.append(raft_records.parse_witness_slot(data[slot * WITNESS_SLOT_BYTES :][:WITNESS_SLOT_BYTES]))
            except RemoteProtocolError as error:
                if any(data[slot * WITNESS_SLOT_BYTES :][:64]):
                    self.notes.append(f"{self._path}: slot {slot} is damaged, as by a power cut: {error}")
        return max(found, key=_index, default=None)

    def _open(self) -> None:
        size = SLOTS * WITNESS_SLOT_BYTES
        if self._disk.exists(self._path):
            self._file = self._disk.open(self._path)
            if self._file.size() < size:
                self._file.truncate(size)
            self._file.sync()  # what was read may be in the page cache only, and the other slot is written next
        else:
            self._file = self._disk.create(self._path, size, preallocate=True)
            self._disk.sync_dir(self._directory)
        self.write(*self.image())  # so that a later start finds one

    # What the core reads

    def initial(self) -> tuple[HardState, Members]:
        return HardState(*self.voted, self._spans[0][0]), self._members

    def memberships(self, behind: int | None = None, last: int = INDEX_MAX) -> list[Entry]:
        """The membership entries behind one, up to another.

        :param behind: by default what is before the first entry.
        """
        rows = self._rows if behind is None else self._rows[bisect_left(self._rows, behind + 1, key=_index) :]
        kind = int(EntryKind.MEMBERSHIP)
        return [Entry(row.index, row.term, kind, row.members) for row in rows if row.index <= last]

    def first_index(self) -> int:
        return self._spans[0][0] + 1

    def last_index(self) -> int:
        return self._last

    def term(self, index: int) -> int:
        if index > self._last:
            raise Unavailable(f"entry {index} is behind the last one, {self._last}")
        place = bisect_right(self._spans, index, key=_index)
        if not place:
            raise Compacted(f"entry {index} is before the first one, {self.first_index()}")
        return self._spans[place - 1][1]

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        raise Compacted("a witness keeps no entries")

    def split(self, run: Entry, index: int) -> tuple[Entry, Entry]:
        """Of a run only the count matters, so its data goes with the first part."""
        count = index - run.index
        return run._replace(count=count), run._replace(index=index, data=b"", count=run.count - count)

    def snapshot(self) -> SnapshotMeta:
        index, term = self._spans[0]
        return SnapshotMeta(index, term, self._members) if index else SnapshotMeta()

    def read_snapshot(self, offset: int, size: int, index: int | None = None) -> bytes:
        return b""

    # What the driver writes

    def save(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Term and vote are on the disk when this returns; the entries are when an image made later is.

        :raises DiskFailure: nothing was saved.
        """
        if hard_state is not None and hard_state[:2] != self.voted and hard_state.term:
            state = StateFile(hard_state.term, hard_state.vote, 0, 0, *self._owner, Members().encode())
            self._votes.save(state)
            self.voted = (hard_state.term, hard_state.vote)
        if entries and entries[0].index <= self._last:
            self._cut(entries[0].index)
        for entry in entries:
            ensure(entry.index == self._last + 1, f"entry {entry.index} behind {self._last}")
            if entry.term != self._spans[-1][1]:
                self._spans.append((entry.index, entry.term))
            if entry.kind == EntryKind.MEMBERSHIP:
                self._rows.append(Membership(entry.index, entry.term, entry.data))
            self._last = entry.last

    def _cut(self, index: int) -> None:
        ensure(index > self._spans[0][0], f"entry {index} is committed")
        del self._spans[bisect_left(self._spans, index, key=_index) :]
        del self._rows[bisect_left(self._rows, index, key=_index) :]
        self._last = index - 1

    def forget(self, committed: int) -> bool:
        """Forget what is before a committed entry, where that is much; whether it was."""
        few = max(len(self._spans), len(self._rows)) <= KEPT_SPANS
        if committed - self._spans[0][0] < KEPT_ENTRIES and few:
            return False
        term = self.term(committed)
        self._spans = [(committed, term), *(span for span in self._spans if span[0] > committed)]
        place = bisect_right(self._rows, committed, key=_index)
        if place:
            self._members = Members.decode(self._rows[place - 1].members)
            del self._rows[:place]
        return True

    def begin_at(self, meta: SnapshotMeta) -> None:
        """Forget everything: the log begins behind a committed entry."""
        self._spans, self._rows, self._last = [(meta.index, meta.term)], [], meta.index
        self._members = meta.members

    def image(self) -> tuple[int, bytes]:
        """Everything but term and vote, for :meth:`write`: its number, which rises, and its bytes.

        :raises CorruptStore: it does not fit: the leaders of very many terms committed nothing.
        """
        self._number += 1
        state = WitnessState(self._number, self._last, self._members.encode(), self._spans, self._rows)
        try:
            return self._number, raft_records.build_witness(state)
        except RemoteProtocolError as error:
            raise CorruptStore(self._path, 0, str(error)) from None

    def write(self, number: int, image: bytes) -> None:
        """Have an image on the disk.  Blocking; one after the other, as they were made.

        :raises DiskFailure: what is on the disk is unknown.
        """
        if self.failed is not None:
            raise self.failed
        assert self._file is not None
        try:
            self._file.write(number % SLOTS * WITNESS_SLOT_BYTES, [image])
            self._file.sync()
        except DiskFailure as failure:
            self.failed = failure  # another try would write over the slot that is known to be right
            raise

    def close(self) -> None:
        """Give descriptors and the directory back."""
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()
        self._file = self._lock = None
