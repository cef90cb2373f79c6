"""A broker's message log as a Raft log: what the core reads, and what its driver writes.

Pure.  Around one :class:`~rocketha.store.replica_log.ReplicaLog` whose layout is DLedger's.  It must not know the rules
of Raft, only what Raft needs of a disk.  Java: ``DLedgerMmapFileStore``, ``MemberState``.

Theory of operation.  Nothing is kept twice: an entry's bytes are in the log, its place and term in the index of entries
(:mod:`rocketha.store.entries`).  Entries leave and come as *runs*, several of one term that lie one behind the other in
one file, so their cost does not depend on how many there are.

*Numbers.*  DLedger counts entries and terms from 0, the core from 1.

*Where the log ends.*  Behind its last entry, never behind what fills up a file: so all members with the same last entry
put the next one at the same place, also the one that each makes by itself, the first of a term.

*Where it begins.*  With the first entry of its oldest file.  Of the entry before, the core wants the term: it is told
that of the first one.  That is the truth, or stands for an older term under which nobody can have another entry there:
who made the first entry in its term had the entry before it, and so has everybody with an entry of that term there.

*Members.*  An entry that changes them holds a record that no broker dispatches, as the first one of a term does; which
entries these are is in a file of its own (:mod:`rocketha.store.memberships`).

*Term and vote* are in DLedger's file ``currterm``, and are on the disk before anything is said in the term.  An older
one is a wrong one, so there is no backup to fall back to.

*What is on the disk* is up to who writes: see ``services/replication/entry_store.py``.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError, ensure
from rocketha.store import atomic_file
from rocketha.store.commitlog import Run
from rocketha.store.disk import Disk
from rocketha.store.memberships import Memberships
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire import dledger
from rocketha.wire.dledger import IndexUnit
from rocketha.wire.dledger_terms import (
    Committed,
    TermStart,
    Vote,
    build_committed,
    build_log_begin,
    build_term_start,
    build_vote,
    members_record,
    parse_committed,
    parse_log_begin,
    parse_term_start,
    parse_vote,
    term_record,
)
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
from rocketha.wire.raft_records import Membership
from rocketha.wire.record import decode

FIRST_TERM = 1
"""In which a new member is (``RaftConfig.first_term``): it is elected in a later one."""
RUN_BYTES = 256 << 10
"""Of a run, unless it is a single entry: as many as the core puts into a message."""
FILE_BYTES_MAX = 4096
UNITS_READ = 8192
"""Of the index, at once: more entries of the smallest size do not fit a run."""


def load_committed(disk: Disk, directory: str) -> Committed:
    """What the file ``checkpoint`` says; of no file, or a damaged one, that nothing is committed."""
    for data in atomic_file.candidates(disk, f"{directory}/checkpoint"):
        try:
            return parse_committed(data)
        except RemoteProtocolError:
            continue
    return Committed()


def _membership(row: Membership) -> Entry:
    return Entry(row.index, row.term, int(EntryKind.MEMBERSHIP), row.members)


class EntryLog:
    """See the module; a :class:`~rocketha.raft.storage.LogStorage` that can be written.

    :ivar voted: term and vote as they are on the disk.
    :ivar failed: never set: a log that takes no more bytes says so at each write.
    :ivar notes: what an operator may want to know of how it was found.
    """

    def __init__(self, log: ReplicaLog, disk: Disk, directory: str, members: Members) -> None:
        """Opens nothing; the store is loaded.

        :param directory: dledger-<selfId>.
        :param members: who the group is made of.
        """
        entries = log.store.ledger
        ensure(entries is not None, "a log of entries")
        assert entries is not None
        self._log = log
        self._entries = entries
        self._index = entries.index
        self._disk = disk
        self._directory = directory
        self._members = Memberships(disk, directory, members)
        self._base_term = 0  # of the entry before the first one; while the log is empty and begins behind another
        self._first = (-1, 0)  # where the log begins, and the number of the first entry
        self._origin: int | None = None
        self.voted = (0, "")
        self.failed: DiskFailure | None = None
        self.notes: list[str] = []

    def load(self) -> None:
        """Read term and vote, and let the log end behind its last entry.  Blocking; no job may be out.

        :raises CorruptStore: the file is damaged: with an older vote this member could vote twice in a term.
        :raises DiskFailure: the disk.
        """
        path = self._vote_path
        if self._disk.exists(path):
            try:
                vote = parse_vote(self._disk.read_all(path, FILE_BYTES_MAX))
            except RemoteProtocolError as error:
                raise CorruptStore(path, 0, str(error)) from None
            self.voted = (vote.term + 1, vote.leader)
        last = self.last_index()
        if last >= self.first_index() and self.end_of(last) < self._log.end:
            self._log.truncate(self.end_of(last))
        self._members.load(self._may_have)
        if self._empty:
            self._members.only_last(self._first_number())
        self._entries.term = max(self.voted[0] - 1, 0)
        if self._adopted and not self.last_index() and self.voted == (0, ""):
            self._write_origin()
        self._origin = self._find_origin()

    @property
    def _empty(self) -> bool:
        return self._begin >= self._log.end

    def _may_have(self, index: int, term: int) -> bool:
        """Whether an entry is in the log, or may have been: what was before the first one was committed."""
        if self._empty or index <= self._first_number():
            return True
        return index <= self.last_index() and self.term(index) == term

    def members_changed(self, index: int) -> bool:
        """Whether the entries up to one say who the members are, and not the configuration."""
        return self._members.changed(index)

    @property
    def _adopted(self) -> bool:
        """Whether there are files of an ordinary broker, which began the log."""
        segments = self._log.store.log.segments
        return segments.begin < segments.divide

    def _write_origin(self) -> None:
        """The first entry, by which members whose logs an ordinary broker began are ahead of those that begin with
        nothing: they are elected.  All whose logs are equal write the same one, in a term in which none of ours leads:
        no leader's first entry is taken for it."""
        offset, time_ms = self._log.store.upkeep.last_record
        record = self._log.store.message_at(offset)
        digest = int.from_bytes(hashlib.sha256(record or b"").digest()[:8], "big")
        self.save(None, [Entry(1, FIRST_TERM, EntryKind.NO_OP, build_term_start(TermStart(time_ms, "", digest)))])

    def _find_origin(self) -> int | None:
        first = self.first_index()
        start = self._start_in(first) if self._adopted and first == 1 <= self.last_index() else None
        return None if start is None or start.address else start.origin

    @property
    def origin(self) -> int | None:
        """Tells apart what ordinary brokers had before; None where nothing was, or nobody knows any more."""
        return self._origin

    @property
    def _vote_path(self) -> str:
        return f"{self._directory}/currterm"

    # What the core reads

    def initial(self) -> tuple[HardState, Members]:
        commit = self.index_at(self._log.store.confirm_offset)
        return HardState(*self.voted, commit), self._members.as_of(self._first_number())

    def memberships(self, behind: int | None = None, last: int = INDEX_MAX) -> list[Entry]:
        """The membership entries behind one, up to another.

        :param behind: by default what is before the first entry.
        """
        rows = self._members.behind(self._first_number() if behind is None else behind)
        return [_membership(row) for row in rows if row.index <= last]

    def first_index(self) -> int:
        return self._first_number() + 1

    def last_index(self) -> int:
        return self._entries.next_index

    def term(self, index: int) -> int:
        if index == 0:
            return 0
        before, last = self._first_number(), self.last_index()
        if index > last:
            raise Unavailable(f"entry {index} is behind the last one, {last}")
        if index < before:
            raise Compacted(f"entry {index} is before the first one, {before + 1}")
        if before == last:
            return self._base_term
        return self._unit(max(index - 1, before)).term + 1

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """One run, of what stands from ``low`` on; a membership entry stands alone."""
        row = self._members.at(low)
        if row is not None and self.first_index() <= low <= self.last_index():
            return [_membership(row)]
        return [self._run(low, min(high, self._members.next(low) or high), max_bytes)]

    def _run(self, low: int, high: int, max_bytes: int) -> Entry:
        if low < self.first_index():
            raise Compacted(f"entry {low} is before the first one, {self.first_index()}")
        if high > self.last_index() + 1:
            raise Unavailable(f"entry {high - 1} is behind the last one, {self.last_index()}")
        wanted = min(high - low, UNITS_READ)
        units = self._index.read(low - 1, wanted)
        first = self._unit(low - 1)
        end, count = first.position + first.size, 1
        bytes_max = min(max_bytes, RUN_BYTES)
        for at in range(dledger.UNIT_BYTES, len(units), dledger.UNIT_BYTES):
            unit = dledger.parse_unit(units[at : at + dledger.UNIT_BYTES])
            if unit.position != end or unit.term != first.term or end + unit.size - first.position > bytes_max:
                break
            end, count = end + unit.size, count + 1
        log = self._log.store.log
        if end > log.sound_end:
            raise DiskFailure(log.segments.directory, "read", errno.EIO, log.broken or "a sync failed")
        data = log.read(first.position, end - first.position)
        self._check(data, units[: count * dledger.UNIT_BYTES], first)
        return Entry(low, first.term + 1, int(EntryKind.NORMAL), data, count)

    def _check(self, data: bytes, units: bytes, first: IndexUnit) -> None:
        """What the log has is what the index says: a follower would take whatever it is sent."""
        try:
            found = dledger.units_of(data)
        except RemoteProtocolError as error:
            raise self._corrupt(first, str(error)) from None
        if found != units:
            raise self._corrupt(first, f"the index has another entry {first.entry_index}")

    def _corrupt(self, unit: IndexUnit, reason: str) -> CorruptStore:
        segments = self._log.store.log.segments
        path = segments.path(segments.base_of(unit.position))
        return CorruptStore(path, unit.position % self._log.file_size, reason)

    def raw(self, entry: Entry) -> bytes:
        """An entry of the log, or a run, as it is on the disk.

        :raises Unavailable: it is not there yet.
        """
        if entry.kind == EntryKind.NORMAL:
            return entry.data
        if entry.index > self.last_index():
            raise Unavailable(f"entry {entry.index} is not stored yet")
        return self._run(entry.index, entry.index + 1, RUN_BYTES).data

    @property
    def file_size(self) -> int:
        """Bytes of a file of the log."""
        return self._log.file_size

    def split(self, run: Entry, index: int) -> tuple[Entry, Entry]:
        count = index - run.index
        at = dledger.split(run.data, count)
        return (
            run._replace(data=run.data[:at], count=count),
            run._replace(index=index, data=run.data[at:], count=run.count - count),
        )

    def snapshot(self) -> SnapshotMeta:
        """What is before the first entry."""
        before = self._first_number()
        return SnapshotMeta(before, self.term(before), self._members.as_of(before)) if before else SnapshotMeta()

    def read_snapshot(self, offset: int, size: int, index: int | None = None) -> bytes:
        """Where the log begins."""
        meta = self.snapshot()
        if index is not None and index != meta.index:
            raise Compacted(f"the log begins behind entry {meta.index} now")
        return build_log_begin(self._begin)[offset : offset + size]

    # What is where

    @property
    def _begin(self) -> int:
        """Where the first entry is."""
        return self._log.store.log.segments.own_begin

    def _first_number(self) -> int:
        begin = self._begin
        if self._empty:
            return self._entries.next_index
        if self._first[0] != begin:
            self._first = (begin, self._entries.first_at(begin))
        return self._first[1]

    def _unit(self, number: int) -> IndexUnit:
        unit = self._index.unit(number)
        if unit is None:
            path = self._index.files.directory
            raise CorruptStore(path, number * dledger.UNIT_BYTES, f"the index has no entry {number}")
        return unit

    def end_of(self, index: int) -> int:
        """Log offset behind an entry."""
        if index < self.first_index():
            return self._begin
        unit = self._unit(index - 1)
        return unit.position + unit.size

    def index_at(self, position: int) -> int:
        """The last entry that ends at or before a log offset."""
        number = self._entries.first_at(position)
        if number > self._first_number() and self.end_of(number) > position:
            number -= 1
        return number

    def term_start(self, term: int) -> TermStart | None:
        """What the leader of a term says of itself, in the term's first entry; None where that is not here."""
        low, high = self.first_index(), self.last_index()
        while low < high:
            middle = (low + high) // 2
            if self.term(middle) >= term:
                high = middle
            else:
                low = middle + 1
        if low > self.last_index() or self.term(low) != term:
            return None
        return self._start_in(low)

    def _start_in(self, index: int) -> TermStart | None:
        unit = self._unit(index - 1)
        data = self._log.store.log.read(unit.position + dledger.HEAD_BYTES, unit.size - dledger.HEAD_BYTES)
        try:
            return parse_term_start(decode(data).body)
        except RemoteProtocolError:
            return None

    # What the driver writes

    def save(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Append entries behind the last one, which are whole in one place; :meth:`cut` makes room for others.

        :raises DiskFailure: some of them may be there: cut, and save again.
        """
        if hard_state is not None:
            self._vote(hard_state.term, hard_state.vote)
        for entry in entries:
            if entry.kind == EntryKind.NORMAL:
                data, position = entry.data, dledger.parse_head(entry.data).position
            else:
                data, position = self._own_entry(entry)
            ensure(entry.index == self.last_index() + 1, f"entry {entry.index} behind {self.last_index()}")
            self._members.cut(entry.index)  # a write before this one failed
            if entry.kind == EntryKind.MEMBERSHIP:
                self._members.add(Membership(entry.index, entry.term, entry.data), self.first_index())
            self._append(position, data, entry.kind == EntryKind.NORMAL)

    def _vote(self, term: int, vote: str) -> None:
        if (term, vote) != self.voted and term:
            atomic_file.save(self._disk, self._vote_path, build_vote(Vote(term - 1, vote)), backup=False)
            self.voted = (term, vote)
            self._entries.term = term - 1

    def _own_entry(self, entry: Entry) -> tuple[bytes, int]:
        """The first entry of a term, or one that changes the members, and where it belongs."""
        made = members_record if entry.kind == EntryKind.MEMBERSHIP else term_record
        position, size = self._log.end, self._log.file_size
        length = dledger.HEAD_BYTES + len(made(entry.data, 0))
        if position % size + length + dledger.FILLER_BYTES > size:
            position += -position % size
        record = made(entry.data, position + dledger.HEAD_BYTES)
        return dledger.build_head(entry.index - 1, entry.term - 1, position, len(record)) + record, position

    def _append(self, position: int, data: bytes, dispatched: bool) -> None:
        if position != self._log.end and not self.last_index():
            self._begin_elsewhere(position)
        end = self._log.end
        room = -end % self._log.file_size
        runs = [Run(position, [data])]
        if position != end:
            if position != end + room:
                self._refuse_to_begin(position)
            ensure(position == end + room and room >= dledger.FILLER_BYTES, f"an entry for {position} behind {end}")
            runs.insert(0, Run(end, [dledger.build_filler(room)]))
        self._log.append_entries(runs, dispatched)

    def _begin_elsewhere(self, position: int) -> None:
        """The leader's log was begun by an ordinary broker, and is DLedger's from there on."""
        store = self._log.store
        self._refuse_to_begin(position)
        ensure(position % self._log.file_size == 0, f"a log begins with a file, not at {position}")
        if store.log.segments.bases:
            if store.busy:
                raise DiskFailure(store.log.segments.directory, "write", errno.EAGAIN, "a job is out")
            store.truncate(store.log.begin)
        self._log.begin_at(position)

    def _refuse_to_begin(self, position: int) -> None:
        """Keep what an ordinary broker had.

        :raises CorruptStore: there is something.
        """
        if self._adopted:
            segments = self._log.store.log.segments
            raise CorruptStore(
                segments.path(segments.begin),
                0,
                f"this broker has messages of the time before DLedger mode, up to {segments.divide}, and the leader's"
                f" log, in which entries stand at {position}, has other ones or none.  To copy the leader's, empty this"
                " broker's store",
            )

    def save_committed(self, commit: int) -> None:
        """Write the file ``checkpoint``, for Java: it is not needed here.

        :raises DiskFailure: it is as it was.
        """
        data = build_committed(Committed(commit - 1, self.last_index() - 1))
        atomic_file.save(self._disk, f"{self._directory}/checkpoint", data)

    # With nobody else at the store

    def needs_cut(self, index: int) -> bool:
        """Whether there is something to cut before entries from ``index`` on can be appended."""
        return index <= self.last_index() or self._log.store.unfinished_cut

    def cut(self, index: int) -> int:
        """Cut the entries from ``index`` on; returns the bytes.  Blocking; no job may be out.

        :raises DiskFailure: part of it may be done: repeat it.
        """
        before = self._log.end
        if self.needs_cut(index):
            self._log.truncate(self.end_of(index - 1) if index <= self.last_index() else before)
            self._members.cut(index)
        return before - self._log.end

    def begin_at(self, meta: SnapshotMeta, data: bytes) -> None:
        """Throw everything away: the log begins anew, behind entry ``meta.index``, where the leader's does.  Blocking;
        no job may be out.

        :raises RemoteProtocolError: no place where a log can begin.
        :raises DiskFailure: part of it may be done: repeat it.
        """
        position = parse_log_begin(data)
        if position % self._log.file_size:
            raise RemoteProtocolError(f"a log that begins at {position}, files have {self._log.file_size} bytes")
        if self.last_index() <= FIRST_TERM:  # it was never filled: who says that the leader had what is before?
            self._refuse_to_begin(position)
        self._members.add(Membership(meta.index, meta.term, meta.members.encode()), 0)
        self._log.start_over()
        self._entries.begin(meta.index)
        self._entries.next_index = meta.index
        self._log.begin_at(position)
        self._base_term = meta.term
