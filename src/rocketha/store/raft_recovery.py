"""Starting a Raft node: what its log is, and whether its end is where it was left.

Pure.  Theory of operation.

1. Which segments count.  From the newest back: one that begins where a newer one begins, or behind that, was replaced
   by it; whatever is older than one that begins a log (``base``) was replaced by a snapshot.
2. Each of them is read whole.  All but the newest were synced before their successor was made, so a record that is
   not there or not good is damage, and the start is refused; only where the newest snapshot covers the whole segment
   is it dropped instead.
3. The newest may end in a torn tail: writes that a power cut caught before their sync.  They survive each by itself,
   so good records may even follow bad ones.  What tells the two apart is what is known to have been synced: a hint in
   ``progress``, or a good record behind the bad one that says how far the log was synced when it was written.  If that
   is at or behind the first bad record, synced bytes have changed, and the start is refused: this node may have told
   others that it has the entry.  Else the tail was never acknowledged, and is dropped.
4. The newest snapshot must reach the log.  A log that does not reach the snapshot, or has another entry there, is one
   that a received snapshot was about to replace: it is replaced now.

Nothing is changed here but the files that a crash left half made; ``raft_log`` cuts, replaces and removes afterwards.
"""

from __future__ import annotations

import errno
import re

import attrs

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store.disk import Disk
from rocketha.store.foreign_names import ForeignNames
from rocketha.store.raft_segment import Segment, file_name, open_segment, walk
from rocketha.store.raft_snapshot import Snapshots
from rocketha.store.raft_state import ProgressFile, VoteFile, check_owner
from rocketha.store.raft_tail import EntryTail
from rocketha.wire import raft_records
from rocketha.wire.raft_entries import Entry, Members
from rocketha.wire.raft_records import HEAD_BYTES, Progress, StateFile
from rocketha.wire.spec.raft_log import RECORD_MARK

ADVICE = (
    "This node must not go on with less than it had. Let a majority of the others run, take this node out of the "
    "group, move its directory away, and add it again: it gets a snapshot."
)

_SEGMENT = re.compile(r"[0-9]{20}-[0-9]{10}\.log")
_SNAPSHOT = re.compile(r"snapshot-[0-9]{20}-[0-9]{20}")
_UNFINISHED = re.compile(rf"(state|{_SEGMENT.pattern}|{_SNAPSHOT.pattern})\.tmp")
_SMALL_FILES = ("state", "progress", "lock", "newcomer", "newcomer.tmp")

SEARCH_BYTES = 1 << 20
SEARCHED_BYTES_MAX = 256 << 20
"""Bytes checked in a search for records behind a damaged one: marks that are none must not make it endless."""


@attrs.define
class Recovered:
    """What was found.

    :ivar segments: those that count, oldest first; none at the first start.
    :ivar dead: those that were replaced.
    :ivar torn: behind the last record of the newest segment there is something that is to be dropped.
    :ivar synced: entries of the newest segment up to here were certainly synced.
    :ivar commit: the highest commit hint; may be behind the last entry.
    :ivar sequence: the highest number of a segment.
    :ivar notes: what an operator may want to know.
    """

    state: StateFile
    tail: EntryTail
    segments: list[Segment] = attrs.Factory(list)
    dead: list[Segment] = attrs.Factory(list)
    torn: bool = False
    synced: int = 0
    commit: int = 0
    sequence: int = 0
    notes: list[str] = attrs.Factory(list)


class Recovery:
    """One start."""

    def __init__(self, disk: Disk, directory: str, owner: tuple[str, str], snapshots: Snapshots) -> None:
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self._snapshots = snapshots
        self._opened: list[Segment] = []

    def run(self, votes: VoteFile, progress: ProgressFile, members: Members, memory_bytes: int) -> Recovered:
        """See the module's text.

        :param members: of the group at the first start; later those of the first start count.
        :raises CorruptStore: what is there is not what was written.
        :raises ConfigError: it is another node's.
        """
        foreign = ForeignNames()
        names = self._remove_unfinished(foreign)
        found = Recovered(self._state(votes, names, members), EntryTail(1, 0, memory_bytes))
        self._snapshots.load(names)
        hints = progress.load()
        try:
            self._open_segments(names)
            self._nothing_missing(found, hints)
            if self._opened:
                self._choose(found)
                self._read(found, hints)
                self._check(found, votes.path)
        except BaseException:
            for segment in self._opened:
                segment.file.close()
            raise
        found.commit = max([found.commit, found.state.commit, *(hint.commit for hint in hints)])
        found.notes += foreign.notes
        found.notes += [f"a damaged snapshot is not used: {problem}" for problem in self._snapshots.problems]
        return found

    # ---- the files

    def _remove_unfinished(self, foreign: ForeignNames) -> list[str]:
        """Our names in the directory, without what a crash left half made."""
        names = []
        for name in foreign.ours(self._disk, self._directory, _is_ours):
            if _UNFINISHED.fullmatch(name):
                self._disk.remove(f"{self._directory}/{name}")
            else:
                names.append(name)
        return names

    def _state(self, votes: VoteFile, names: list[str], members: Members) -> StateFile:
        state = votes.load()
        if state is not None:
            check_owner(votes.path, (state.group, state.node), self._owner)
            return state
        left = [name for name in names if name == "progress" or _SEGMENT.fullmatch(name) or _SNAPSHOT.fullmatch(name)]
        if left:
            raise CorruptStore(
                votes.path, 0, f"the file is missing, and {left[0]} is there: its vote is lost. {ADVICE}"
            )
        self._sync_parents()
        state = StateFile(0, "", 0, 0, *self._owner, members.encode())
        votes.save(state)
        return state

    def _sync_parents(self) -> None:
        """Whoever made the directories may have died before it synced their names: without them, a vote is nowhere."""
        parent = self._directory
        while parent not in ("", "/"):
            parent = parent.rpartition("/")[0]
            try:
                self._disk.sync_dir(parent or "/")
            except DiskFailure as failure:
                if failure.errno not in (errno.EACCES, errno.EPERM):  # not ours to read, so not ours to have made
                    raise

    def _open_segments(self, names: list[str]) -> None:
        for name in names:
            if not _SEGMENT.fullmatch(name):
                continue
            path = f"{self._directory}/{name}"
            segment = open_segment(self._disk, path)
            self._opened.append(segment)
            check_owner(path, (segment.header.group, segment.header.node), self._owner)
            if name != file_name(segment.header):
                raise CorruptStore(path, 0, f"the header is that of {file_name(segment.header)}")
        self._opened.sort(key=lambda segment: segment.header.sequence)

    def _nothing_missing(self, found: Recovered, hints: list[Progress]) -> None:
        """The newest segment that anything speaks of is there."""
        found.sequence = self._opened[-1].header.sequence if self._opened else 0
        known = max([found.state.sequence, *(hint.sequence for hint in hints)])
        if known > found.sequence or (not self._opened and self._snapshots.files):
            raise CorruptStore(self._directory, 0, f"segment number {known or 1} of the log is missing. {ADVICE}")

    def _choose(self, found: Recovered) -> None:
        bound = None
        replaced = False
        for segment in reversed(self._opened):
            if replaced or (bound is not None and segment.first >= bound):
                found.dead.append(segment)
                continue
            found.segments.insert(0, segment)
            bound = segment.first
            replaced = segment.header.base

    # ---- the records

    def _read(self, found: Recovered, hints: list[Progress]) -> None:
        newest = self._snapshots.newest
        covered = newest.meta.index if newest is not None else 0
        chain, found.segments = found.segments, []
        for place, segment in enumerate(chain):
            limit = chain[place + 1].first if place + 1 < len(chain) else None
            problem = self._link(found, segment)
            if problem is not None:
                if segment.first - 1 > covered:
                    raise problem
                self._drop(found, problem)
            if not found.segments:
                found.tail.restart(segment.first, segment.header.previous_term)
            found.segments.append(segment)
            problem = self._read_segment(found, segment, limit)
            if limit is None:
                found.synced = max([hint.synced for hint in hints if hint.sequence == found.sequence], default=0)
                found.torn = self._judge(segment, problem, found.synced)
                if found.torn:
                    found.notes.append(
                        f"what followed entry {segment.last} was never synced, and is dropped: {problem}"
                    )
            elif problem is not None:
                if limit - 1 > covered:
                    raise CorruptStore(problem.path, problem.offset, f"{problem.reason}. {ADVICE}")
                self._drop(found, problem)

    def _drop(self, found: Recovered, problem: CorruptStore) -> None:
        found.notes.append(f"older segments are dropped, the snapshot has their effects: {problem}")
        found.dead += found.segments
        found.segments = []

    def _link(self, found: Recovered, segment: Segment) -> CorruptStore | None:
        """What is wrong with the joint between a segment and the one before it."""
        if not found.segments:
            return None
        last, header = found.segments[-1], segment.header
        if (last.last + 1, last.last_crc, last.last_term) == (segment.first, header.previous_crc, header.previous_term):
            return None
        return CorruptStore(
            segment.path,
            0,
            f"the segment follows entry {segment.first - 1} of term {header.previous_term}, {last.path} ends with "
            f"entry {last.last} of term {last.last_term} or another of that number. {ADVICE}",
        )

    def _read_segment(self, found: Recovered, segment: Segment, limit: int | None) -> CorruptStore | None:
        """Take a segment's entries up to before ``limit``; what is wrong with the first one that is not good."""
        if limit is not None and segment.first >= limit:
            return None
        header = segment.header
        reached = segment.end
        for at, batch in walk(segment.file, segment.end, segment.size, header.crc, segment.first, header.previous_term):
            entries, stop, crc = batch.entries, at + batch.stop, batch.crc
            if limit is not None and entries and entries[-1].index >= limit:
                entries, stop, crc = self._first(segment, at, entries, limit)
            if entries:
                segment.took(entries, at, stop, crc)
                found.tail.append(entries)
                found.commit = max(found.commit, batch.commit)
            if limit is not None and segment.last == limit - 1:
                return None
            reached = stop
            if batch.problem is not None:
                return CorruptStore(segment.path, reached, batch.problem)
        if limit is None:
            return None
        return CorruptStore(segment.path, reached, f"the file ends before entry {segment.last + 1}")

    def _first(self, segment: Segment, at: int, entries: list[Entry], limit: int) -> tuple[list[Entry], int, int]:
        """The entries of a batch before ``limit``, where the last one's record ends, and its checksum."""
        kept = entries[: limit - entries[0].index]
        stop = at + sum(HEAD_BYTES + len(entry.data) for entry in kept)
        crc = segment.file.read(stop - HEAD_BYTES - len(kept[-1].data), 4)
        return kept, stop, int.from_bytes(crc, "big")

    # ---- the end

    def _judge(self, segment: Segment, problem: CorruptStore | None, synced: int) -> bool:
        """Whether there is a torn tail.

        :raises CorruptStore: what is missing or bad was synced.
        """
        wanted = segment.last + 1
        reason = problem.reason if problem is not None else "the file ends there"
        torn, later = self._search(segment, wanted)
        if max(synced, later) >= wanted:
            raise CorruptStore(
                segment.path,
                segment.end,
                f"entry {wanted} is damaged or gone, and entries up to {max(synced, later)} had been synced: {reason}. "
                f"{ADVICE}",
            )
        return torn

    def _search(self, segment: Segment, wanted: int) -> tuple[bool, int]:
        """Whether anything but zeros follows the last record, and the highest sync that a record there knows of."""
        torn, synced, searched = False, 0, 0
        at = segment.file.next_data(segment.end)
        while at is not None and at < segment.size and searched < SEARCHED_BYTES_MAX:
            data = segment.file.read(at, min(SEARCH_BYTES, segment.size - at))
            blank = data == bytes(len(data))  # most often; compared at memory's speed, which a search is not
            torn = torn or not blank
            place = -1 if blank else data.find(RECORD_MARK)
            beyond = at + max(1, len(data) - (len(RECORD_MARK) - 1))
            searched += len(data)
            while place >= 0:
                record, size = self._record(segment, at + place - 4)
                searched += size
                if record is not None and record.index >= wanted:
                    synced = max(synced, record.synced)
                if searched >= SEARCHED_BYTES_MAX:
                    break
                place = data.find(RECORD_MARK, place + 1)
            at = segment.file.next_data(beyond) if beyond < segment.size else None
        return torn, synced

    def _record(self, segment: Segment, at: int) -> tuple[raft_records.Record | None, int]:
        """A good record at ``at``, and how many bytes were read to see."""
        head = segment.file.read(at, HEAD_BYTES)
        size = raft_records.record_length(head, 0) if len(head) == HEAD_BYTES else segment.size
        if at + size > segment.size or size > HEAD_BYTES + raft_records.ENTRY_BYTES_MAX:
            return None, HEAD_BYTES
        return raft_records.record_at(segment.file.read(at, size), 0, segment.header.crc), size

    def _check(self, found: Recovered, state_path: str) -> None:
        """Log, snapshot and hard state fit together."""
        newest = self._snapshots.newest
        index = newest.meta.index if newest is not None else 0
        if index < found.tail.first - 1:
            if self._snapshots.problems:
                problem = self._snapshots.problems[-1]
                raise CorruptStore(problem.path, problem.offset, f"{problem.reason}. {ADVICE}")
            raise CorruptStore(
                self._directory,
                0,
                f"the log begins with entry {found.tail.first}, the newest snapshot is that of {index}. {ADVICE}",
            )
        if found.tail.last_term > found.state.term:
            raise CorruptStore(
                state_path,
                0,
                f"the term is {found.state.term}, the log has entries of term {found.tail.last_term}: this is an old "
                f"copy of the file. {ADVICE}",
            )


def _is_ours(name: str) -> bool:
    return name in _SMALL_FILES or any(pattern.fullmatch(name) for pattern in (_SEGMENT, _SNAPSHOT, _UNFINISHED))
