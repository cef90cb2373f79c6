"""The log of a Raft node on its disk: entries, term and vote, snapshots.

Pure.  It must not know the rules of Raft, only what Raft needs of a disk: what :meth:`RaftLog.sync` covered, and a vote
that was saved, are there after any crash; what was cut never comes back; what is damaged is never served.  Java:
``DLedgerMmapFileStore``, which keeps none of the three promises.

Theory of operation.  The log is a chain of segments (:mod:`rocketha.store.raft_segment`), each with a sequence number.
**A newer segment replaces what older ones hold from its first index on**, and that is the only way in which anything
is ever replaced: to cut a suffix, to go on behind a failed write, to drop a torn tail after a crash, to begin anew
behind a received snapshot, a new segment is made.  It is written beside, synced, renamed, and its directory is synced:
in this one step, old entries are gone for good, whatever the power does next.  Files that are wholly replaced are then
removed and others shrunk, in no hurry.  Before a new segment is made, the former one is synced: so only the newest
segment has anything unsynced, and recovery (:mod:`rocketha.store.raft_recovery`) may take any damage elsewhere for what
it is.

Threads.  Everything runs on the reactor's, except :meth:`RaftLog.sync` and :meth:`RaftLog.write_snapshot`, each of
which one worker at a time may call beside everything else.

Failures.  After a failed sync nothing is believed any more: :attr:`RaftLog.failed` is set, every later call raises, and
only a new start, which reads what the disk really has, helps.  After any other failure the same call can be made again.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.errors import DiskFailure, InvariantBroken, ensure
from rocketha.store import atomic_file
from rocketha.store.disk import Disk, File, Lock
from rocketha.store.raft_recovery import Recovered, Recovery
from rocketha.store.raft_segment import Place, create_segment
from rocketha.store.raft_snapshot import SnapshotFile, Snapshots
from rocketha.store.raft_state import ProgressFile, VoteFile
from rocketha.store.raft_tail import bounded
from rocketha.wire.raft_entries import (
    Compacted,
    Entry,
    HardState,
    Members,
    SnapshotMeta,
    Unavailable,
    memberships_among,
)
from rocketha.wire.raft_records import ENTRY_BYTES_MAX, HEAD_BYTES, SegmentHeader

SEGMENT_BYTES = 64 << 20
"""Size of a segment, bytes; reserved on the disk when it is made."""

MEMORY_BYTES = 8 << 20
"""Newest entries kept in memory, bytes with what Python needs for them; older ones are read from the disk."""

_NO_SNAPSHOT = SnapshotMeta()


class RaftLog:
    """See the module's text.  Implements ``rocketha.raft.storage.LogStorage``.

    :ivar failed: the failure of a sync after which nothing works any more; None while all is well.
    :ivar notes: what recovery found that an operator may want to know.
    """

    def __init__(self, disk: Disk, directory: str, owner: tuple[str, str], segment_bytes: int, lock: Lock) -> None:
        """Use :meth:`open`."""
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self._segment_bytes = segment_bytes
        self._lock = lock
        self._votes = VoteFile(disk, directory)
        self._progress = ProgressFile(disk, directory)
        self._snapshots = Snapshots(disk, directory, owner)
        self._written: dict[tuple[int, int], SnapshotFile] = {}
        self._retired: list[File] = []
        self._dead: list[str] = []
        self._torn = False
        self._syncing = False
        self.failed: DiskFailure | None = None
        self.notes: list[str] = []

    # ---- opening and closing

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        group: str,
        id: str,
        initial_members: Members,
        segment_bytes: int = SEGMENT_BYTES,
        memory_bytes: int = MEMORY_BYTES,
    ) -> RaftLog:
        """The log of a directory, made if it is not there.  What it holds when this returns is on the disk.

        :param group: the Raft group, and ``id`` the node in it: the directory of another one is refused.
        :param initial_members: who the group is made of at its first start; later starts keep what they have.
        :raises CorruptStore: bytes that were synced are not what was written: the node must not start.
        :raises ConfigError: the directory is another node's.
        :raises DiskFailure: the disk would not, or another process has the directory; try again later.
        """
        atomic_file.make_dirs(disk, directory)
        lock = disk.lock(f"{directory}/lock")
        log = cls(disk, directory, (group, id), segment_bytes, lock)
        try:
            recovery = Recovery(disk, directory, (group, id), log._snapshots)
            log._adopt(recovery.run(log._votes, log._progress, initial_members, memory_bytes))
        except BaseException:
            log._close_files()
            raise
        return log

    def _adopt(self, found: Recovered) -> None:
        """Make the disk what recovery says it is."""
        self._state = found.state
        self._tail = found.tail
        self._segments = found.segments
        self._sequence = found.sequence
        self._mark = (found.sequence, found.tail.last)
        self._durable = (found.sequence, found.tail.first - 1)
        self._commit = found.commit
        self._retired = [segment.file for segment in found.dead]
        self._dead = [segment.path for segment in found.dead]
        self.notes = found.notes
        snapshot = self.snapshot()
        if self._segments:
            # A former process's sync may have failed: its writes can be read until the power fails, no sync of ours
            # would write them, and it would say that all is well.  So they are written again.
            self._segments[-1].rewrite(found.synced + 1)
        if not self._segments:
            self._begin_segment(1, base_term=0)
        elif not self._holds(snapshot):
            self.notes.append(f"the log ends with entry {self._tail.last}; it begins anew behind the snapshot")
            self._replace_log(snapshot)
        elif found.torn:
            self._begin_segment(self._tail.last + 1)
        else:
            self._segments[-1].file.sync()
        self._durable = self._mark
        self._commit = max(snapshot.index, min(self._commit, self._tail.last))
        self._bury()
        for segment in self._segments[:-1]:
            if segment.size != segment.end:
                segment.shrink()
        # The process that made these names may have died before it synced them.
        self._disk.sync_dir(self._directory)
        self._progress.open()
        self._progress.write(*self._durable, self._commit)
        self._progress.sync()
        self._close_retired()

    def close(self) -> None:
        """Sync, and give everything back.

        :raises DiskFailure: the last sync failed; everything was given back all the same.
        """
        try:
            if self.failed is None:
                self.sync()
                self._progress.sync()
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._close_retired()
        for segment in getattr(self, "_segments", []):
            segment.file.close()
        self._progress.close()
        self._lock.release()

    # ---- reading: LogStorage

    def initial(self) -> tuple[HardState, Members]:
        """The saved hard state, and the members as of the newest snapshot, else of the first start."""
        newest = self._snapshots.newest
        members = newest.meta.members if newest is not None else Members.decode(self._state.members)
        return HardState(self._state.term, self._state.vote, min(self._commit, self._tail.last)), members

    def memberships(self) -> list[Entry]:
        return memberships_among(
            self.entries, max(self.snapshot().index + 1, self.first_index()), self.last_index() + 1
        )

    @property
    def voted(self) -> tuple[int, str]:
        """Term and vote on the disk."""
        return self._state.term, self._state.vote

    def first_index(self) -> int:
        """The oldest entry that can be read."""
        return self._tail.first

    def last_index(self) -> int:
        """The newest entry; ``first_index() - 1`` when there is none."""
        return self._tail.last

    def term(self, index: int) -> int:
        """The term of an entry, also of ``first_index() - 1``.

        :raises Compacted: before that.
        :raises Unavailable: behind the last.
        """
        return self._tail.term(index)

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries from ``low`` to before ``high``: at least one, then at most ``max_bytes`` of data.

        :raises Compacted: ``low`` is before the first.
        :raises Unavailable: ``high`` is behind the last but one.
        :raises CorruptStore: a record on the disk is damaged; it is not served.
        """
        tail = self._tail
        if low < tail.first:
            raise Compacted(f"entry {low} is compacted, the first is {tail.first}")
        if high > tail.last + 1:
            raise Unavailable(f"entry {high - 1} is behind the last, {tail.last}")
        if low >= high:
            return []
        if low >= tail.low:
            return tail.slice(low, high, max_bytes)
        found: list[Entry] = []
        size = 0
        while low < high and (not found or size <= max_bytes):
            if low >= tail.low:
                part = tail.slice(low, high, max_bytes)
            else:
                segment = next(each for each in reversed(self._segments) if each.first <= low)
                part = segment.read(low, high, max_bytes - size)
            found += part
            size += sum([len(entry.data) for entry in part])
            low = part[-1].index + 1
        return bounded(found, max_bytes)

    def split(self, run: Entry, index: int) -> tuple[Entry, Entry]:
        """There are no runs."""
        raise InvariantBroken(f"{run.count} entries at {run.index} are one in a log without runs")

    def snapshot(self) -> SnapshotMeta:
        """What the newest snapshot is about; index 0 when there is none."""
        newest = self._snapshots.newest
        return newest.meta if newest is not None else _NO_SNAPSHOT

    def read_snapshot(self, offset: int, size: int, index: int | None = None) -> bytes:
        """Data of the newest snapshot, or of the one at ``index``, of which the last two are kept.

        :raises Compacted: it is not kept any more.
        :raises CorruptStore: it is damaged; it is not served.
        """
        return self._snapshots.read(offset, size, index)

    def synced_index(self) -> int:
        """Entries up to here are on the disk."""
        sequence, index = self._durable
        newest = self._segments[-1]
        return max(index, newest.first - 1) if sequence == newest.header.sequence else newest.first - 1

    # ---- writing

    def save(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Term and vote are on the disk when this returns; entries are when a :meth:`sync` begun afterwards does.

        Entries follow the last one, or replace what is from the first one on that differs, and whatever is behind them:
        that is gone for good when this returns.

        :raises DiskFailure: nothing of the entries counts, except that what they were to replace may be gone; the same
            save can be tried again unless :attr:`failed` is set.
        """
        self._usable()
        if hard_state is not None:
            self._save_state(hard_state)
        if entries:
            ensure(entries[-1].term <= self._state.term, "a term is saved before entries of it")
            self._save_entries(entries)

    def _save_state(self, wanted: HardState) -> None:
        state = self._state
        ensure(wanted.term >= state.term, "a term never falls")
        if (wanted.term, wanted.vote) == (state.term, state.vote):
            if wanted.commit > self._commit:
                self._commit = wanted.commit
                if not self._syncing:
                    self._progress.write(*self._durable, self._commit)
            return
        ensure(wanted.term > state.term or not state.vote, "a vote is given once in a term")
        commit = max(self._commit, wanted.commit)
        changed = state._replace(term=wanted.term, vote=wanted.vote, commit=commit, sequence=self._sequence)
        try:
            self._votes.save(changed)
        except DiskFailure as failure:
            self._note_failure(failure)
            raise
        self._state = changed
        self._commit = commit

    def _save_entries(self, entries: Sequence[Entry]) -> None:
        tail = self._tail
        first = entries[0].index
        ensure(tail.first <= first <= tail.last + 1, f"entry {first} follows {tail.last} or replaces one that is there")
        if first <= tail.last:
            same = 0
            while same < len(entries) and first + same <= tail.last and tail.term(first + same) == entries[same].term:
                same += 1
            entries = entries[same:]
            if first + same <= tail.last:
                self._cut(first + same)
            if not entries:
                return
        index, term = tail.last, tail.last_term
        for entry in entries:
            index += 1
            ensure(entry.count == 1, "this log has no runs")
            ensure(entry.index == index and entry.term >= term, "entries are adjacent and their terms do not fall")
            ensure(len(entry.data) <= ENTRY_BYTES_MAX, "an entry is not longer than a record can be")
            term = entry.term
        if self._torn:
            self._begin_segment(tail.last + 1)
        self._write(entries)

    def _write(self, entries: Sequence[Entry]) -> None:
        """Append, in one write where the segment has room."""
        while entries:
            segment = self._segments[-1]
            count = segment.fitting(entries)
            if not count:
                self._begin_segment(self._tail.last + 1, bytes_min=HEAD_BYTES + len(entries[0].data))
                continue
            part = entries[:count] if count < len(entries) else entries
            try:
                segment.write(part, self.synced_index(), self._commit)
            except DiskFailure:
                self._torn = True  # the next write goes to a new segment, which replaces what this one left
                raise
            self._tail.append(part)
            self._mark = (segment.header.sequence, segment.last)
            entries = entries[count:]
        self._close_retired()

    def _cut(self, index: int) -> None:
        """Entries from ``index`` on are gone for good when this returns."""
        ensure(index > self._commit, f"entry {index} is committed (up to {self._commit}) and never cut")
        self._begin_segment(index)

    def _begin_segment(self, first: int, base_term: int | None = None, bytes_min: int = 0) -> None:
        """Make a segment that replaces the log from ``first`` on; on the disk when this returns.

        :param base_term: it replaces everything; the entry before it, which a snapshot covers, has this term.
        """
        holder = None
        if base_term is None:
            holder = next((each for each in self._segments if each.first < first <= each.last + 1), None)
            if holder is None:
                base_term = self._tail.term(first - 1)
        self._bury()
        place = Place(first - 1, 0, 0, base_term or 0) if holder is None else holder.place(first - 1)
        if holder is not None and holder is self._segments[-1]:
            self._sync_file(holder.file)
        header = SegmentHeader(holder is None, self._sequence + 1, first, place.term, place.crc, *self._owner)
        try:
            segment = create_segment(self._disk, self._directory, header, self._segment_bytes, bytes_min)
        except DiskFailure as failure:
            self._note_failure(failure)
            raise
        replaced = [each for each in self._segments if holder is None or each.first >= first]
        kept = [each for each in self._segments if each not in replaced]
        if holder is None:
            self._tail.restart(first, place.term)
        else:
            holder.cut(place)
            self._tail.cut(first)
        self._segments = [*kept, segment]
        self._sequence = header.sequence
        self._mark = self._durable = (header.sequence, first - 1)
        self._torn = False
        self._retired += [each.file for each in replaced]
        self._dead += [each.path for each in replaced]
        self._bury()
        if holder is not None:
            holder.shrink()

    def _bury(self) -> None:
        """Remove segments that were replaced.

        Always before the one that replaced them can go in its turn: they would count again.
        """
        while self._dead:
            self._disk.remove(self._dead[-1])
            self._dead.pop()

    def _note_failure(self, failure: DiskFailure) -> None:
        """After some failures only the next start can tell whether the new name or contents are there."""
        if failure.operation == "rename" or (failure.operation, failure.path) == ("sync", self._directory):
            self.failed = failure

    def _sync_file(self, file: File) -> None:
        try:
            file.sync()
        except DiskFailure as failure:
            self.failed = failure
            raise

    def sync(self) -> None:
        """Entries saved before this was called are on the disk when it returns.  In a worker, beside everything else.

        :raises DiskFailure: they are not, and :attr:`failed` is set.
        """
        self._usable()
        ensure(not self._syncing, "one sync at a time")
        self._syncing = True
        try:
            sequence, index = mark = self._mark
            segment = self._segments[-1]
            # A segment made since is synced up to its beginning, and so is all before it.
            if mark != self._durable and segment.header.sequence == sequence:
                segment.file.sync()
                self._durable = mark
                self._progress.write(sequence, index, self._commit)
        except DiskFailure as failure:
            self.failed = failure
            raise
        finally:
            self._syncing = False

    # ---- snapshots

    def write_snapshot(self, meta: SnapshotMeta, data: bytes) -> None:
        """A snapshot is on the disk, whole, when this returns; it counts after :meth:`install_snapshot`.

        In a worker, one at a time, beside everything else.

        :raises DiskFailure: it is not there; try again, unless :attr:`failed` is set.
        """
        self._usable()
        try:
            file = self._snapshots.write(meta, data)
        except DiskFailure as failure:
            self._note_failure(failure)
            raise
        self._written[meta.index, meta.term] = file

    def install_snapshot(self, meta: SnapshotMeta) -> None:
        """A snapshot that was written is the newest one now.

        Where the log does not have its entry (it was received), it replaces the log.

        :raises DiskFailure: try again, unless :attr:`failed` is set.
        """
        self._usable()
        file = self._written.get((meta.index, meta.term))
        ensure(file is not None and file.meta == meta, "a snapshot is written before it is installed")
        assert file is not None
        ensure(meta.index >= self.snapshot().index, "snapshots are taken in order")
        if not self._holds(meta):
            self._replace_log(meta)
        self._commit = max(self._commit, meta.index)
        self._snapshots.add(file)
        for key in [key for key in list(self._written) if key[0] <= meta.index]:
            self._written.pop(key, None)  # later ones may be written by the worker already

    def _holds(self, meta: SnapshotMeta) -> bool:
        return self._tail.first - 1 <= meta.index <= self._tail.last and self._tail.term(meta.index) == meta.term

    def _replace_log(self, meta: SnapshotMeta) -> None:
        """An empty log behind a snapshot."""
        ensure(meta.index >= self._tail.first - 1, "a snapshot is not behind the log")
        self._begin_segment(meta.index + 1, base_term=meta.term)

    def compact(self, index: int) -> None:
        """Entries up to ``index`` are not wanted any more; segments that hold no others are removed.

        :param index: at most the newest snapshot's; what is compacted already is fine.
        """
        self._usable()
        ensure(index <= self.snapshot().index, "only what a snapshot covers is compacted")
        if index >= self._tail.first:
            self._tail.compact(index)
        if len(self._segments) > 1 and self._segments[1].first <= self._tail.first:
            self._bury()
            self._disk.sync_dir(self._directory)
        while len(self._segments) > 1 and self._segments[1].first <= self._tail.first:
            self._disk.remove(self._segments[0].path)
            self._retired.append(self._segments.pop(0).file)
        self._close_retired()

    # ---- helping

    def _usable(self) -> None:
        if self.failed is not None:
            failed = self.failed
            text = f"nothing is written any more after {failed.operation} failed: {failed.message}"
            raise DiskFailure(failed.path, failed.operation, failed.errno, text)

    def _close_retired(self) -> None:
        """Close files that no sync in a worker can still use."""
        if not self._syncing:
            while self._retired:
                self._retired.pop().close()
