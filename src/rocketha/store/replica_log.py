"""The store of a replica: raw bytes in, queues and index up to the confirm offset, and the way to be a master.

Pure.  Around one :class:`MessageStore`, which a master uses alone.  It knows offsets, epochs and disks, not links,
controllers or time; one thread calls it.  Java: the slave half of ``CommitLog.appendData``, ``ReputMessageService``,
``AutoSwitchHAService.changeToMaster`` / ``truncateInvalidMsg``.

Theory of operation
-------------------

A replica's log grows by bytes exactly as the master sent them, cut anywhere, into files of the same size: the files
become equal byte for byte.  Where a record begins is looked at later, by the dispatcher.

**What a replica has on which disk when it reports an ack.**  A report carries :attr:`ReplicaLog.ack_offset`.  With
``ASYNC_FLUSH``, as in Java, that is the end of the log: the bytes are in the page cache, and survive the death of the
process, not of the machine.  With ``SYNC_FLUSH`` it is the end of what was synced (Java reports its page cache here
too): the reporter flushes after each turn of appends and reports when the flush is done.  The first report on a
connection also says where the transfer begins and must be the end of the log; so a ``SYNC_FLUSH`` replica connects
only when :attr:`ReplicaLog.ready` is true, that is, when all it has is synced.  An ack within a record counts for
nobody: the master compares with the ends of records.

**The confirm offset** is the bound below which a consumer may read, and below which nothing is ever cut but by an
unclean election.  Kept in the checkpoint (byte 32, as Java), saved with it about once a second and at a clean stop, as
far as the log is synced; what is on the disk is therefore a little too low, and never too high: a cut lowers it there
first.  A log that is found shorter by a whole record has lost synced bytes: they are missing (below).  A store that has
neither a confirm offset nor an epoch file stood alone: all of its log counts as confirmed.  It moves up only
(:meth:`ReplicaLog.confirm`), never above the end.

**Queues and index** follow the confirm offset, so that a cut above it does not touch them; unless ``bounded`` is
false (classic replication, which has no confirm offset; ``readUnCommitted``).  A master's own are made as it appends;
its consumers still see only what is confirmed.

**What lies between the confirm offset and the end** when a replica is promoted stays, if it is whole: some producer
may have been told of it.  :meth:`ReplicaLog.promote` dispatches up to the last whole record, cuts off the rest (what
the old master was in the middle of), and only then does the store take messages; the next queue offsets follow from
the queues, which hold all of the log.  The new epoch begins at that end.  Consumers see it when the new master's
confirm offset passes it.  A bad record below the confirm offset refuses the promotion: another replica has it whole.
So does the lack of what was cut off for such a record (:meth:`ReplicaLog.cut_damage`), or thrown away to copy the log
anew (:meth:`ReplicaLog.start_over`), until it is there again.  How far the log was confirmed is kept in a file of its
own (``missing_file.py``), which also the next start reads, until the copy is synced; recovery writes it too, before the
checkpoint is lowered, when it ends the log below the confirm offset.

**Cutting** (:meth:`ReplicaLog.truncate`): see ``message_store.py`` for the log, ``epoch_file.py`` for the order of log
and epochs.  A cut within a record is made at its beginning: the rest would read as zeros and could pass for whole.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

import attrs

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError, ensure
from rocketha.store import epoch_file, missing_file
from rocketha.store.commitlog import Run
from rocketha.store.deleted_topics import LastRecord
from rocketha.store.disk import Buffer, Disk
from rocketha.store.epoch_file import Epochs
from rocketha.store.jobs import run_here
from rocketha.store.log_walk import part_of_record, record_at
from rocketha.store.message_store import MessageStore
from rocketha.store.raw_reader import RawReader
from rocketha.store.replica_dispatch import Damage, Dispatcher
from rocketha.wire.ha_values import EpochEntry

DISPATCH_BYTES = 1 << 20
"""Bytes dispatched by one call, unless told: some milliseconds."""
_ALL = 1 << 62


@attrs.frozen
class Promotion:
    """What becoming a master did.

    :ivar end: end of the log, where the new epoch begins.
    :ivar cut_bytes: bytes behind the last whole record, gone now.
    :ivar reason: why that was the last; empty if nothing was cut.
    """

    end: int
    cut_bytes: int
    reason: str


class ReplicaLog:
    """The replicated log of a broker, in either role.

    :ivar epochs: who wrote which part, ascending, as the epoch file says.
    :ivar store: serves readers in both roles, takes messages in that of the master.
    """

    def __init__(
        self, store: MessageStore, disk: Disk, epoch_path: str, synced_acks: bool = False, bounded: bool = True
    ) -> None:
        """Opens nothing; the store is loaded.

        :param epoch_path: storePathEpochFile, the same that the store was loaded with.
        :param synced_acks: flushDiskType SYNC_FLUSH.
        :param bounded: queues stop at the confirm offset.
        """
        self.store = store
        self.epochs: Epochs = ()
        self._disk = disk
        self._path = epoch_path
        self._synced_acks = synced_acks
        self._bounded = bounded
        self._epochs_due: Epochs | None = None  # a cut is made, and this list is not saved yet
        # Up to here the log was confirmed when damage was found below, or all of it thrown away; here and in the file.
        self._missing = self._missing_saved = 0
        self._dispatcher = Dispatcher(store.log, store.queues, store.index, store.deleted_topics, store.config)

    def load(self) -> None:
        """Read the epochs, leave out those that a crash left behind the end of the log, and follow.  Blocking.

        :raises CorruptStore: the epoch file and its backup are damaged, or the file of what is missing.
        """
        self._missing = self._missing_saved = missing_file.load(self._disk, self._path)
        found = epoch_file.load(self._disk, self._path)
        self.epochs = epoch_file.within(found, self.end)
        if self.epochs != found:
            epoch_file.save(self._disk, self._path, self.epochs, shorter=True)
        self.follow()
        self.settle()

    # What a link sees (replication.log_view.LogView)

    @property
    def begin(self) -> int:
        """Offset of the oldest byte kept."""
        return self.store.log.begin

    @property
    def end(self) -> int:
        """Offset behind the newest byte."""
        return self.store.log.end

    @property
    def file_size(self) -> int:
        """Bytes of a file of the log; no block crosses a multiple of it."""
        return self.store.config.segment_size

    def readable(self, offset: int) -> int:
        """Bytes from ``offset`` to the end of its file or of the log, as far as it reads as written; 0 outside."""
        return self.store.log.readable(offset)

    def part_of_record(self, offset: int, limit: int) -> bool:
        """Whether all between the two is a part of a record that begins at ``offset`` and ends behind ``limit``; True
        of nothing, False where it cannot be told.
        """
        try:
            return part_of_record(self.store.log.segments, offset, limit)
        except DiskFailure:
            return False

    def reader(self) -> RawReader:
        """A reader of raw bytes for one link."""
        return RawReader(self.store.log, self._disk)

    @property
    def ready(self) -> bool:
        """Whether a connection may begin: what its first report says is what an ack may say."""
        return self.ack_offset == self.end

    @property
    def ack_offset(self) -> int:
        """What may be reported to the master; see the module."""
        return min(self.store.flushed_offset, self.end) if self._synced_acks else self.end

    # The replica

    def append_raw(self, offset: int, data: Buffer) -> None:
        """Write bytes of the master's log at its end.  An empty log begins at any file's beginning.

        :raises RemoteProtocolError: they do not follow what is there.  Nothing was written.
        :raises DiskFailure: nothing of them counts; the next start may find some of them.
        """
        store = self.store
        log = store.log
        ensure(not store.leads, "a master's log takes no raw bytes")
        if offset != log.end and (log.begin < log.end or offset < 0 or offset % self.file_size):
            raise RemoteProtocolError(f"bytes for {offset}, the log ends at {log.end}")
        if self._epochs_due is not None:
            raise DiskFailure(self._path, "write", errno.EIO, "the epochs of a cut part are not taken out yet")
        log.check_writable()
        if offset != log.end:
            if log.segments.bases:  # a file was made, and nothing written
                if store.busy:
                    raise DiskFailure(log.segments.directory, "write", errno.EAGAIN, "a job is out")
                store.truncate(log.begin)
            self.begin_at(offset)
        try:
            log.write_raw(data)
        except DiskFailure:
            if not log.segments.bases:  # it has not begun
                self.begin_at(0)
            raise

    def append_entries(self, runs: list[Run], dispatched: bool = True) -> None:
        """Write whole entries of a leader's log, in a log that has such; where a file ends before them, that too.

        :param dispatched: False: they are for nobody's queues, and a master may write them, too.
        :raises DiskFailure: nothing of them counts; the next start may find some of them.
        """
        store = self.store
        ensure(not (store.leads and dispatched), "a master's log takes no entries of others")
        store.log.check_writable()
        store.log.write(runs)
        store.entered(bytes(runs[-1].parts[0]))

    def begin_at(self, offset: int) -> None:
        """Let an empty log begin there."""
        store = self.store
        store.log.end = store.log.flushed = store.log.written_from = store.dispatched = offset
        self._dispatcher.begin(offset)
        if store.confirm_offset_set is not None:
            store.confirm_offset = offset

    def confirm(self, offset: int) -> None:
        """Raise the confirm offset to the master's, as far as this log reaches; a smaller one changes nothing."""
        wanted = min(offset, self.end)
        if wanted > self.store.confirm_offset:
            self.store.confirm_offset = wanted

    def dispatch(self, bytes_max: int = DISPATCH_BYTES) -> bool:
        """Make queues and index of about that many bytes; True if calling again would do more.

        :raises DiskFailure: the log cannot be read; call again.
        """
        if self.store.leads:
            return False
        before = self._dispatcher.position
        self._run_dispatcher(self._limit(), bytes_max)
        return before < self._dispatcher.position < self._limit() and self.damage is None

    def _limit(self) -> int:
        return min(self.store.confirm_offset, self.end) if self._bounded else self.end

    def _run_dispatcher(self, limit: int, bytes_max: int) -> None:
        dispatcher, store = self._dispatcher, self.store
        try:
            dispatcher.run(limit, bytes_max)
        finally:
            store.dispatched = store.upkeep.keep_from = dispatcher.position
            if dispatcher.last_record is not None:
                store.upkeep.last_record = dispatcher.last_record

    @property
    def dispatched_offset(self) -> int:
        """Queues and index are made up to here."""
        return self.end if self.store.leads else self.store.dispatched

    @property
    def damage(self) -> Damage | None:
        """Bytes that are no record, below what may be dispatched: cut the log there and have them sent again."""
        return self._dispatcher.damage

    @property
    def notes(self) -> Sequence[str]:
        """What the dispatcher found strange."""
        return self._dispatcher.notes

    # Epochs and cuts

    def save_epochs(self, epochs: Sequence[EpochEntry]) -> None:
        """Replace the list; on the disk when this returns, if it is another one.  Blocking.

        An epoch is saved before its first byte is appended, and never before the bytes it begins behind.

        :raises RemoteProtocolError: no list of epochs.
        :raises DiskFailure: the former or the new list is there; this object still has the former.
        """
        wanted = tuple(EpochEntry(*entry) for entry in epochs)
        if wanted == self.epochs and self._epochs_due is None:
            return
        # A log that is empty may begin anywhere, and its epochs are saved before its first byte.
        behind = self.begin < self.end and wanted and wanted[-1].start_offset > self.end
        ensure(not behind, "no epoch begins behind the end of the log")
        shorter = any(entry not in wanted for entry in self.epochs)
        epoch_file.save(self._disk, self._path, wanted, shorter)
        self.epochs = wanted
        self._epochs_due = None

    def truncate(self, offset: int, epochs: Sequence[EpochEntry] | None = None) -> int:
        """Cut the log, down to the beginning of the record that ``offset`` lies in; returns the new end.

        Blocking; no job may be out (:attr:`MessageStore.busy`).  When it returns neither bytes nor epochs of the cut
        part can come back.

        :param epochs: the list that holds afterwards; by default the present one without those that begin in the cut
            part.  Not looked at where nothing is cut.
        :raises DiskFailure: part of it may be done: repeat it, or start again.
        """
        unfinished = self.store.unfinished_cut or self._epochs_due is not None
        if unfinished:
            offset = min(offset, self.end)
        ensure(self.begin <= offset <= self.end, f"cut at {offset}, the log is [{self.begin}, {self.end}]")
        if offset == self.end and not unfinished:
            return offset
        if self._epochs_due is None:
            self._epochs_due = self.epochs  # from here on nothing is appended until the cut is through
        target = self._record_begin(offset)
        if epochs is None:
            kept = tuple(entry for entry in self.epochs if entry.start_offset < target)
        else:
            kept = epoch_file.within([EpochEntry(*entry) for entry in epochs], target)
        self._epochs_due = kept
        self.store.truncate(target)
        self._dispatcher.begin(min(self._dispatcher.position, target))
        self._dispatcher.last_record = None
        self.store.dispatched = self._dispatcher.position
        if not self.store.leads:
            self.store.upkeep.keep_from = self.store.dispatched
        self.save_epochs(kept)
        return target

    def cut_damage(self, damage: Damage) -> None:
        """Cut the log at :attr:`damage`; until it reaches as far again as it was confirmed, promotions are refused:
        this replica is still a member that acknowledged it.  Blocking; no job may be out.

        :raises DiskFailure: see :meth:`truncate`.
        """
        self.owe()
        self.truncate(damage.offset)

    def owe(self) -> None:
        """Remember how far the log is confirmed, if there is damage before: recovery would cut it off.  Blocking.

        :raises DiskFailure: it is remembered, but perhaps not by the next start.
        """
        if self.damage is not None and self.damage.offset < self.store.confirm_offset:
            self._note_missing()

    def _note_missing(self) -> None:
        confirmed = min(self.store.confirm_offset, self.end)
        if self._bounded and self._missing < confirmed:
            self._missing = confirmed
        if self._missing_saved < self._missing:  # an earlier attempt may have failed
            missing_file.save(self._disk, self._path, self._missing)
            self._missing_saved = self._missing

    def settle(self) -> None:
        """Forget what was missing if the log is whole up to there.  Blocking; no job may be out.

        :raises DiskFailure: it is not forgotten.
        """
        if not self._lacks_confirmed and self._missing <= self.dispatched_offset:
            self._forget()

    def _forget(self) -> None:
        """The copy is synced first: no power cut takes it then."""
        if not self._missing:
            return
        job = self.store.flush_job()
        if job is not None:
            run_here([job], self.store.finished)
        if self.store.flushed_offset == self.end:
            self._missing_saved = 0  # from here on perhaps: the file may go, and the end of that fail
            missing_file.save(self._disk, self._path, 0)
            self._missing = 0

    @property
    def _lacks_confirmed(self) -> bool:
        """Whether what was missing is not here again.  A log without a whole record has nothing, wherever it begins."""
        return self._missing > 0 and (not self._has_records or self.end < self._missing)

    @property
    def _has_records(self) -> bool:
        """Whether one was found whole."""
        return bool(self.store.log.segments.bases) and self._dispatcher.position > self.begin

    @property
    def lack(self) -> str:
        """What was confirmed and is bad, or is missing since it was cut off or thrown away; empty: nothing."""
        if self.damage is not None:
            return f"the log is bad at {self.damage.offset}: {self.damage.reason}"
        if self._lacks_confirmed:
            copied = f"is copied up to {self.end} only" if self._has_records else "nothing of it is copied yet"
            return f"the log was confirmed up to {self._missing}, was cut or thrown away, and {copied}"
        return ""

    def start_over(self) -> None:
        """Throw everything away: log, queues, index, epochs; what was confirmed is missing.  Blocking; no job is out.

        For a replica whose end the master no longer has, or that has nothing in common with it.

        :raises DiskFailure: part of it may be done: repeat it, or start again.
        """
        store = self.store
        ensure(not store.leads, "a master does not start over")
        self._note_missing()
        self._epochs_due = ()
        store.truncate(self.begin)
        for queue in store.queues.all():
            queue.reset()
        store.log.end = store.log.flushed = store.log.written_from = store.dispatched = 0
        store.deleted_topics.lower(0, LastRecord(0, 0))
        self._dispatcher.begin(0)
        self._dispatcher.last_record = None
        if store.confirm_offset_set is not None:
            store.confirm_offset = 0
        self.save_epochs(())

    def _record_begin(self, offset: int) -> int:
        """The beginning of the unit that holds the byte before ``offset``, or ``offset`` if one ends there."""
        log, size, layout = self.store.log, self.file_size, self.store.log.layouts.at(offset)
        if offset == self.end or record_at(log.segments, offset + layout.head_bytes) is not None:
            return offset
        position = max(self.begin, offset - offset % size)
        if position <= self.dispatched_offset <= offset:
            position = self.dispatched_offset
        data, data_from = b"", position
        while position < offset:
            at = position - data_from
            if at + layout.size_at + 4 > len(data):
                data, data_from, at = log.read(position, DISPATCH_BYTES), position, 0
            size_at = at + layout.size_at
            total = int.from_bytes(data[size_at : size_at + 4], "big", signed=True)
            if total < 8 or position + total > offset:
                return position  # within a record, or there is none
            position += total
        return position

    # Roles

    def follow(self) -> None:
        """Be a replica: no messages are taken, raw bytes are."""
        self.store.follow()
        self._dispatcher.begin(self.store.dispatched)

    def promote(self) -> Promotion:
        """Be a master: see the module for what becomes of the end of the log.  Blocking; no job may be out.

        Then :meth:`save_epochs` with the new epoch at :attr:`end`, and only then messages.

        :raises CorruptStore: a bad record below the confirm offset, or what was confirmed was cut there and is not sent
            again yet; nothing was cut now.
        :raises DiskFailure: call again, or start again.
        """
        store, dispatcher = self.store, self._dispatcher
        ensure(not store.leads and not store.busy, "a promotion begins in a replica that has no job out")
        self.dispatch_all()
        if self._lacks_confirmed:
            raise CorruptStore(store.log.segments.directory, self.end, self.lack)
        end, position = self.end, dispatcher.position
        reason = ""
        if position < end:
            damage = dispatcher.damage
            reason = damage.reason if damage is not None else f"{end - position} bytes of a record"
            if damage is not None and position < max(store.confirm_offset, self._missing) and self._bounded:
                path = store.log.segments.path(store.log.segments.base_of(position))
                raise CorruptStore(path, position % self.file_size, f"a confirmed record is bad: {reason}")
        if position < end and store.ledger is not None:  # all of it is committed
            raise CorruptStore(store.log.segments.directory, position, f"queues can not be made of {reason}")
        if position < end or store.unfinished_cut or self._epochs_due is not None:
            self.truncate(position)
        self._forget()
        store.lead()
        return Promotion(self.end, end - self.end, reason)

    def end_whole(self) -> None:
        """Let the log end behind a whole record, so that any broker can be started on it.  Blocking; no job may be out.

        For a classic replica that stops.  What is cut its master sends again; damage is left where it is.
        """
        self.dispatch_all()
        position = self._dispatcher.position
        if position < self.end and self.damage is None:
            self.truncate(position)

    def dispatch_all(self) -> None:
        """Make queues and index up to the last whole record, confirmed or not.  Blocking; no job may be out.

        A replica does so before it stops: after a clean stop Java 5.5.0 looks for what is missing in the queues, and
        leaves out the first of it (``CommitLog.recoverNormally``).
        """
        ensure(not self.store.leads and not self.store.busy, "a replica that has no job out")
        store, dispatcher = self.store, self._dispatcher
        dispatcher.begin(store.dispatched)
        while dispatcher.position < self.end and dispatcher.damage is None:
            before = dispatcher.position
            self._run_dispatcher(self.end, _ALL)
            job = store.upkeep.queue_job(thorough=False)
            if job is not None:
                run_here([job], lambda done, error: done.apply() if error is None else done.fail(error))
            elif dispatcher.position == before:
                break
