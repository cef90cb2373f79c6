"""The message store: log, consume queues, index and their small files under one directory.

Pure: it opens files through a :class:`Disk` only, and time comes as an argument.  Java: ``DefaultMessageStore``.  One
thread calls it; what would wait for the disk is handed out as jobs (``jobs.py``).  The directory is RocketMQ's own: a
Java broker starts on ours and we on Java's.

Life: ``load`` (blocking) -> ``append`` / ``get`` / ... with ``flush_job`` and ``maintenance`` -> ``close`` (blocking).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketha.errors import CorruptStore, DiskFailure, ensure
from rocketha.store import atomic_file, census, missing_file
from rocketha.store.append import Appender, Group
from rocketha.store.commitlog import CommitLog
from rocketha.store.config import StoreConfig
from rocketha.store.deleted_topics import DeletedTable, DeletedTopics, LastRecord, Version
from rocketha.store.disk import Disk, DiskSpace, Lock
from rocketha.store.entries import Entries, EntryIndex, first_head
from rocketha.store.foreign_names import ForeignNames
from rocketha.store.in_memory import Wait
from rocketha.store.index import KeyIndex
from rocketha.store.jobs import Job, run_here
from rocketha.store.layout import COMMITLOG, DLEDGER, begins_so
from rocketha.store.log_walk import FIRST_READ, record_at
from rocketha.store.messages import GetResult, PlacedBatch, PutResult, RecoveryReport
from rocketha.store.queue_table import QUEUE_BYTES_LIMIT, QueueTable, queue_directories
from rocketha.store.reading import Reader
from rocketha.store.recovery import Recovery
from rocketha.store.segment import NAME_DIGITS, OpenFiles
from rocketha.store.upkeep import Upkeep
from rocketha.wire.store_files import CheckpointFields, QueueUnit

ABORT_BYTES_MAX = 4096
REPLICA = b" replica"
"""In the abort file, behind the process's number: a classic slave's."""
_CUT_UNFINISHED = "a cut of the log is not finished"


class MessageStore:
    """See the module.

    :ivar config: the settings.
    :ivar log: the message log.
    :ivar queues: the consume queues.
    :ivar index: the key index, None if switched off.
    :ivar deleted_topics: the topics that were deleted while the log has records of them; whoever saves tables saves it.
    :ivar ledger: the entries of a log that has such; else None.
    :ivar dispatched: of a replica: queues and index are made up to here; a master makes them as it appends.
    """

    def __init__(self, disk: Disk, root: str, config: StoreConfig, store_host: bytes) -> None:
        """Opens nothing.

        :param root: storePathRootDir.
        :param store_host: IP and port (big-endian int) of this broker, written into every record.
        """
        config.check()
        self.root = root.rstrip("/")
        self.config = config
        self._disk = disk
        self._files = OpenFiles(disk, config.open_files_max)
        self.log = CommitLog(
            disk,
            self._files,
            config.commitlog_directory or f"{self.root}/commitlog",
            config.segment_size,
            config.layout,
            config.older_log_directory,
        )
        self.queues = QueueTable(disk, self._files, f"{self.root}/consumequeue", config)
        self.index = KeyIndex(disk, self._files, f"{self.root}/index", config) if config.index_enable else None
        self.ledger = self._make_entries()
        self._appender = Appender(self.log, self.queues, self.index, config, store_host, self.ledger)
        self.deleted_topics = DeletedTopics()
        self._reader = Reader(self.log, self.index, self.deleted_topics, config)
        self._locks: list[Lock] = []
        self._loaded = False
        self._appendable = False
        self._jobs_out = 0
        self.dispatched = 0
        self.upkeep = Upkeep(
            disk, self.root, config, self.log, self.queues, self.index, self.deleted_topics, self.ledger
        )

    def _check_layout(self) -> None:
        """See that the files are not those of a log of the other kind: its bytes would be taken for garbage.

        :raises CorruptStore: they are.
        """
        segments = self.log.segments
        for begin in sorted({segments.begin, segments.own_begin}):
            data = segments.read(begin, FIRST_READ)
            for other in (COMMITLOG, DLEDGER):
                if other is not self.log.layouts.at(begin) and begins_so(other, data, begin, segments.file_size):
                    kind = "DLedger's" if other is DLEDGER else "no DLedger's"
                    raise CorruptStore(segments.path(begin), 0, f"the log is {kind}")

    def _refuse_other_log(self) -> None:
        """See that an ordinary broker is not started on DLedger's log: the queues would be taken for leftovers.

        :raises CorruptStore: it is.
        """
        if self.ledger is not None:
            return
        for name in sorted(name for name in self._disk.list(self.root) if name.startswith("dledger-")):
            directory = f"{self.root}/{name}/data"
            if has_log_files(self._disk, directory):
                text = "the store has a log of DLedger's: start it with enableDLegerCommitLog"
                raise CorruptStore(directory, 0, text)

    def _directories(self) -> list[str]:
        entries = [] if self.ledger is None else [self.ledger.index.files.directory]
        return [self.log.segments.directory, self.queues.directory, f"{self.root}/index", *entries]

    def _log_directories(self) -> list[str]:
        older = self.config.older_log_directory
        return [self.log.segments.directory, *([older] if older and self._disk.is_dir(older) else [])]

    def _make_entries(self) -> Entries | None:
        config = self.config
        if not config.layout.head_bytes:
            return None
        directory = config.entry_index_directory or f"{self.root}/entries"
        return Entries(EntryIndex(self._disk, self._files, directory, config.entry_index_file_size))

    # Starting and stopping

    def load(
        self,
        now_ms: int,
        pid: int = 0,
        epoch_path: str | None = None,
        replica: bool = False,
        committed: int | None = None,
    ) -> RecoveryReport:
        """Take the lock, recover, and be ready.  Blocking: call it in a thread.

        :param pid: written into the abort file for the operator's eyes.
        :param epoch_path: of a broker in controller mode its epoch file: the store is a replica then, see
            :mod:`rocketha.store.replica_log`; None for a broker that stands alone or is replicated the classic way.
        :param replica: of the latter, the slave: its log grows by bytes, cut anywhere.  The abort file says so too, so
            that after a crash the log is judged as what it was, whatever the broker is now.
        :param committed: of a log of entries: the last one that is known to be, -1 for none; where the checkpoint has
            no confirm offset.
        :raises CorruptStore: files that cannot be this store's: sizes, names, gaps.  Nothing was changed.
        :raises DiskFailure: the disk, or the lock is held.
        """
        disk = self._disk
        atomic_file.make_dirs(disk, self.root)
        self._locks.append(disk.lock(f"{self.root}/lock"))
        try:
            clean = not disk.exists(self._abort_path)
            was_replica = not clean and REPLICA in disk.read_all(self._abort_path, ABORT_BYTES_MAX)
            for directory in self._directories():
                atomic_file.make_dirs(disk, directory)
            for directory in self._log_directories():
                self._locks.append(disk.lock(directory))  # another root may name the same one
            foreign = ForeignNames()
            fields = self._find_files(foreign)
            ensure(self.ledger is None or not replica, "a log of entries is no replica of raw bytes")
            may_grow = epoch_path is not None or replica
            notes = self._load_deleted(may_grow or was_replica)
            if self.index is not None:
                notes += self.index.load(clean, fields.index_timestamp_ms, self._time_at, foreign)
            notes += [*foreign.notes, *self.log.segments.notes]
            stopped = census.take(disk, self.root)
            if clean:
                self._write_abort(pid, replica)
            recovery = Recovery(
                disk, self.config, self.log, self.queues, self.index, self.deleted_topics, fields, self.ledger
            )
            confirm = self._confirm_found(fields, epoch_path, committed)
            if epoch_path is None and (replica or was_replica):
                confirm = 0  # its master has all of it; ReplicaLog makes the queues
            report = recovery.run(clean, stopped, confirm)
            census.remove(disk, self.root)
            if epoch_path is not None and recovery.lost_confirmed:
                missing_file.raise_to(disk, epoch_path, fields.confirm_offset)  # before the checkpoint says less
                notes.append(
                    f"the log was confirmed, and synced, up to {fields.confirm_offset}, and ends at {self.log.end}:"
                    " what is missing has to be copied from another replica before this one may be master"
                )
            self.upkeep.recovered(recovery.last_record)
            if not may_grow:
                self._lower_deleted()
            self.dispatched = recovery.dispatched_to
            if not clean and was_replica != replica:
                self._write_abort(pid, replica)
        except BaseException:
            self._release()
            raise
        self.upkeep.begin(now_ms)
        self._loaded = True
        self._appendable = epoch_path is None and not replica and self.dispatched == self.log.end
        if epoch_path is not None:
            self.confirm_offset = self.log.end if confirm is None else min(confirm, self.log.end)
        return report if not notes else _with_notes(report, notes)

    def _find_files(self, foreign: ForeignNames) -> CheckpointFields:
        """Of log, queues and index of entries; what the checkpoint says."""
        batch_queues = f"{self.root}/batchconsumequeue"
        if any(names for _, names in queue_directories(self._disk, batch_queues, foreign)):
            raise CorruptStore(batch_queues, 0, "topics with queue type BatchCQ are not supported")
        fields = self.upkeep.load()
        self.log.segments.load(foreign)
        self.queues.load(foreign)
        self._check_layout()
        self._refuse_other_log()
        if self.ledger is not None:
            first = first_head(self.log)
            self.ledger.index.load(foreign, first.entry_index if first is not None else 0)
        return fields

    def _confirm_found(self, fields: CheckpointFields, epoch_path: str | None, committed: int | None) -> int | None:
        """The confirm offset that the log had; None where all of it counts: a broker that stood alone until now had
        no epochs, and showed its consumers everything."""
        if committed is not None and self.ledger is not None:
            known = fields.confirm_offset or self.ledger.end_of(committed)
            return max(known, self.log.segments.divide)  # what an ordinary broker had, its consumers saw
        if epoch_path is None or (fields.confirm_offset == 0 and not self._disk.exists(epoch_path)):
            return None
        return fields.confirm_offset

    def _load_deleted(self, ahead: bool) -> list[str]:
        """What an operator should know.

        :param ahead: entries may be about bytes of a master's log that are not copied yet.
        """
        notes = self.deleted_topics.read(self._disk, self.root)
        dropped = self.deleted_topics.check(self.log.segments, ahead)
        if dropped:
            names = ", ".join(dropped[:10])
            notes.append(f"the log is not the one in which these topics were deleted, they may come back: {names}")
        return notes

    def _lower_deleted(self) -> None:
        self.deleted_topics.lower(self.log.end, LastRecord(*self.upkeep.last_record))

    def _time_at(self, physical_offset: int) -> int:
        """Before the end of the log is known: the store time of the record at an offset, -1 where there is no good
        one."""
        record = record_at(self.log.segments, physical_offset)
        return -1 if record is None else record.store_timestamp_ms

    def _write_abort(self, pid: int, replica: bool) -> None:
        text = str(pid).encode("ascii")
        if replica or self._disk.exists(self._abort_path):  # no crash may leave it without what it says
            atomic_file.save(self._disk, self._abort_path, text + (REPLICA if replica else b""), backup=False)
            return
        file = self._disk.create(self._abort_path, 0)
        try:
            file.write(0, [text])
            file.sync()
        finally:
            file.close()
        self._disk.sync_dir(self.root)

    def close(self, now_ms: int) -> None:
        """Stop cleanly: write and sync everything, save the checkpoint, remove the abort file, release the lock.
        Blocking.

        :raises DiskFailure: something could not be written: the abort file stays, the next start recovers.
        """
        try:
            if self._loaded:
                if self.log.broken is None:
                    self.log.check_writable()
                self._run_all([self.flush_job()])
                self._run_all([self.upkeep.queue_job(thorough=True)])
                self._run_all([self.upkeep.index_job()])
                self.upkeep.promote()
                self._run_all([self.upkeep.checkpoint_job()])
                if self.log.broken is not None:
                    raise DiskFailure(self.log.segments.directory, "close", 0, self.log.broken)
                ensure(self.log.flushed == self.log.end, "everything is on the disk before the abort file goes")
                if self._appendable or self.dispatched == self.log.end:
                    census.save(self._disk, self.root, self.log.end, self.queues)
                self._disk.remove(self._abort_path)
                self._disk.sync_dir(self.root)
        finally:
            self._release()

    def _run_all(self, jobs: Sequence[Job | None]) -> None:
        run_here([job for job in jobs if job is not None], _settle)

    def _release(self) -> None:
        self._loaded = self._appendable = False
        self.log.close()
        self._files.close()
        while self._locks:
            self._locks.pop().release()

    @property
    def _abort_path(self) -> str:
        return f"{self.root}/abort"

    # Writing

    def append(self, groups: Sequence[Group], wall_ms: int) -> list[list[PutResult] | PlacedBatch]:
        """Store the messages of a turn; each group lies in one file (a client's batch).

        Readable at once; durable when :attr:`flushed_offset` has passed them.

        :param wall_ms: the time of day, their store time.

        :raises WriteInDoubt: none of them is stored, and none is seen while this process lives; the next one may find
            some of them, the first ones, if this one dies before a later append is on the disk.
        :raises DiskFailure: none of them is stored, and none will ever be seen.
        :raises InvariantBroken: a message beyond the limits of the configuration, or a topic that is no directory name.
        """
        ensure(self._appendable, "append before load, after close, or to a replica")
        results = self._appender.append(groups, wall_ms)
        last = results[-1] if results else None
        if isinstance(last, PlacedBatch):
            self.upkeep.last_record = (last.physical_offsets[-1], wall_ms)
        elif last:
            self.upkeep.last_record = (last[-1].physical_offset, wall_ms)
        return results

    def entered(self, entries: bytes) -> None:
        """The log was given whole entries by :class:`rocketha.store.replica_log.ReplicaLog`: they are in the index.

        :raises RemoteProtocolError: they do not follow one another, or the last one.
        """
        self._appender.entered(entries)

    def unwritable_reason(self, now_ms: int) -> str | None:
        """Why the store takes no messages now, in words for a remark; None while it does."""
        if self.log.broken is None:
            self.upkeep.look_when_due(now_ms)
        return self.unwritable_seen

    @property
    def unwritable_seen(self) -> str | None:
        """The same by what was last seen of the disk: does not wait for it."""
        if self.log.broken is not None:
            return self.log.broken
        if self.upkeep.full:
            return f"the disk is {self.used_ratio:.0%} full"
        if self.queues.pending_bytes > QUEUE_BYTES_LIMIT * self.config.pending_queue_bytes_max:
            return "the consume queues cannot be written"
        return None

    def writable(self, now_ms: int) -> bool:
        """Whether messages are taken: the disk guard, and no failed sync."""
        return self.unwritable_reason(now_ms) is None

    @property
    def used_ratio(self) -> float:
        """Used part of the disk, as last looked at."""
        return self.upkeep.space.used_ratio

    @property
    def space(self) -> DiskSpace:
        """Of the disk, as last looked at: does not wait for it."""
        return self.upkeep.space

    # Syncing and upkeep

    def flush_job(self) -> Job | None:
        """Sync the log up to here: group commit in synchronous mode, a timer's work in asynchronous mode.

        None when there is nothing to sync or such a job is out; ask again when it is finished.
        """
        job = self.upkeep.flush_job()
        if job is not None:
            self._jobs_out += 1
        return job

    def maintenance(self, now_ms: int, wall_ms: int) -> list[Job]:
        """The upkeep that is due: call it about once a second, run each job in a thread, then :meth:`finished`.

        :param wall_ms: the time of day: store times tell how old a file is.
        """
        jobs = self.upkeep.maintenance(now_ms, wall_ms)
        self._jobs_out += len(jobs)
        return jobs

    def finished(self, job: Job, error: Exception | None) -> None:
        """The ``run`` of a job of :meth:`flush_job` or :meth:`maintenance` returned or raised; called in the store's
        thread."""
        self._jobs_out -= 1
        _settle(job, error)

    flushed = finished

    @property
    def busy(self) -> bool:
        """Whether a job is out, so that the log cannot be cut now."""
        return self._jobs_out > 0

    def truncate(self, end: int) -> None:
        """Cut log, queues and index at a log offset, the beginning of a unit.  Blocking; no job may be out.

        When it returns the cut part cannot come back, whatever happens.  Order: the checkpoint stops claiming what
        will go; then the log is cut, its first bytes first; then what points at it.  A crash in between leaves a log
        that is cut or whole.  Marks (confirm, flushed, dispatched) are lowered with it.

        :raises DiskFailure: part of it may be done; nothing is taken any more: repeat it, or start again.
        """
        log = self.log
        ensure(log.begin <= end <= log.end, f"cut at {end}, the log is [{log.begin}, {log.end}]")
        ensure(not self.busy, "no job is out while the log is cut")
        broken = None if log.broken == _CUT_UNFINISHED else log.broken
        log.broken = _CUT_UNFINISHED
        confirm = self._reader.confirm_offset
        if confirm is not None:
            self.confirm_offset = min(confirm, end)
        self.dispatched = min(self.dispatched, end)
        for queue in self.queues.all():
            queue.truncate(end)
            queue.correct_min(log.begin)
        newest = max(self.queues.max_physical_offset(), 0)
        self.upkeep.lower(end, newest, max(self._reader.store_time(newest), 0))
        log.truncate(end)
        if self.ledger is not None:
            self.ledger.cut(end)
        self._lower_deleted()
        for queue in self.queues.all():
            queue.clean_behind()
        if self.index is not None:
            self.index.truncate(end)
            self._run_all([self.upkeep.index_job()])
        log.broken = broken

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        max_bytes: int,
        accepts: Callable[[int], bool] | None = None,
        wait: Wait = Wait.ANYTHING,
    ) -> GetResult:
        """Messages of a queue from ``offset`` on.

        :param max_bytes: the first message comes whatever its size.
        :param accepts: called with each tags code; None for all messages.
        :raises NotInMemory: it would take more than ``wait``.
        """
        return self._reader.get(self.queues.get(topic, queue_id), offset, max_messages, max_bytes, accepts, wait)

    def message_at(self, physical_offset: int, wait: Wait = Wait.ANYTHING) -> bytes | None:
        """The whole record at a log offset; None if there is no good one.

        :raises NotInMemory: it would take more than ``wait``.
        """
        return self._reader.message_at(physical_offset, wait)

    def query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, wait: Wait = Wait.ANYTHING
    ) -> list[bytes]:
        """Whole records that have a key (or UNIQ_KEY, or ``T#`` + tag), newest first.

        :raises NotInMemory: it would take more than ``wait``.
        """
        return self._reader.query(topic, key, max_count, begin_ms, end_ms, wait)

    def query_placed(
        self, topic: str, key: str, max_count: int, first: int, end: int, wait: Wait = Wait.ANYTHING
    ) -> list[bytes]:
        """The same of records from ``first`` to before ``end`` in the log: their times may be of a clock that was set.

        :raises NotInMemory: it would take more than ``wait``.
        """
        return self._reader.query_placed(topic, key, max_count, first, end, wait)

    def settle(self, least: int = 1) -> None:
        """Do what the appends left for later (their index units), if it is at least so many records: call it when the
        senders have their answers."""
        if self.index is not None:
            self.index.settle(least)

    @property
    def index_last_offset(self) -> int:
        """Log offset of the newest indexed record; 0 without an index."""
        self.settle()
        return max(0, self.index.end_offset) if self.index is not None else 0

    @property
    def index_last_time(self) -> int:
        """Store time in ms of the newest indexed record; 0 without an index."""
        self.settle()
        return self.index.end_timestamp_ms if self.index is not None else 0

    def max_offset(self, topic: str, queue_id: int, wait: Wait = Wait.ANYTHING) -> int:
        """Index that the next message of the queue gets; 0 for an unknown queue.

        :raises NotInMemory: it would take more than ``wait``.
        """
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else self._reader.visible_end(queue, wait)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Smallest index still readable; 0 for an unknown queue."""
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False, wait: Wait = Wait.ANYTHING
    ) -> int:
        """The first index stored at or after a time (max offset if there is none), or with ``upper`` the last at or
        before it (min offset if there is none).

        :raises NotInMemory: it would take more than ``wait``.
        """
        queue = self.queues.get(topic, queue_id)
        return 0 if queue is None else self._reader.offset_by_time(queue, timestamp_ms, upper, wait)

    def store_time_at(self, topic: str, queue_id: int, offset: int, wait: Wait = Wait.ANYTHING) -> int:
        """Store time in ms of the message at an index; -1 if there is none.

        :raises NotInMemory: it would take more than ``wait``.
        """
        queue = self.queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.next_offset:
            return -1
        return self._reader.store_time_at(queue, offset, wait)

    store_time = store_time_at

    def physical_offset(self, topic: str, queue_id: int, offset: int, wait: Wait = Wait.ANYTHING) -> int:
        """Log offset of the message at an index; -1 if there is none."""
        queue = self.queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.next_offset:
            return -1
        return self._reader.physical_offset(queue, offset, wait)

    def entries(
        self, topic: str, queue_id: int, offset: int, count: int, wait: Wait = Wait.ANYTHING
    ) -> list[QueueUnit]:
        """Entries of a queue from an index on, fewer where there are no more.

        :raises NotInMemory: it would take more than ``wait``.
        """
        queue = self.queues.get(topic, queue_id)
        return [] if queue is None or offset < queue.min_offset else self._reader.entries(queue, offset, count, wait)

    def earliest_time(self, topic: str, queue_id: int, wait: Wait = Wait.ANYTHING) -> int:
        """Store time in ms of the queue's first readable message; -1 if it has none.

        :raises NotInMemory: it would take more than ``wait``.
        """
        return self.store_time_at(topic, queue_id, self.min_offset(topic, queue_id), wait)

    def earliest_message_time(self, wait: Wait = Wait.ANYTHING) -> int:
        """Store time in ms of the first message of the log; -1 if there is none."""
        begin = self.log.begin
        return self._reader.store_time(begin + self.log.layouts.at(begin).head_bytes, wait)

    def queue_table(self) -> dict[str, dict[int, tuple[int, int]]]:
        """topic -> queue id -> (min offset, max offset)."""
        return {
            topic: {number: (queue.min_offset, self._reader.visible_end(queue)) for number, queue in by_id.items()}
            for topic, by_id in self.queues.queues.items()
        }

    def delete_topic(self, topic: str, below: int | None = None) -> None:
        """Forget a topic's queues and remove their files; the records stay in the log until it expires, and are void.

        :param below: log offset behind its last record, the end where not given; see :attr:`deleted_topics`.
        """
        below = self.log.end if below is None else below
        if below > self.log.begin:
            self.deleted_topics.add(topic, below, LastRecord(*self.upkeep.last_record))
        self.queues.delete_topic(topic)

    def topics_complete(self, version: Version, below: int | None = None) -> None:
        """The table of topics of this version names every topic that has a record below there (the end where not
        given) and was not deleted; see :attr:`deleted_topics`."""
        below = self.log.end if below is None else below
        last = LastRecord(*self.upkeep.last_record)
        # Without a record nothing is below.
        self.deleted_topics.topics_complete(below if last.stored_ms else 0, last, version)

    def replace_deleted(self, table: DeletedTable, log_begin: int) -> None:
        """What was deleted is what a master says from now on, whose log begins there; queues that void records were
        dispatched to go."""
        self.deleted_topics.replace(table, log_begin)
        self.queues.drop_void(self.deleted_topics)

    @property
    def max_physical_offset(self) -> int:
        """Offset behind the newest record."""
        return self.log.end

    @property
    def min_physical_offset(self) -> int:
        """Offset of the oldest byte kept."""
        return self.log.begin

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the disk."""
        return self.log.flushed

    @property
    def confirm_offset(self) -> int:
        """Messages below may be consumed."""
        confirm = self._reader.confirm_offset
        return self.log.end if confirm is None else min(confirm, self.log.end)

    @confirm_offset.setter
    def confirm_offset(self, value: int | None) -> None:
        self._reader.confirm_offset = self.upkeep.confirm_offset = value

    # Replication

    @property
    def confirm_offset_set(self) -> int | None:
        """The confirm offset as it was set; None while all that is stored may be consumed."""
        return self._reader.confirm_offset

    @property
    def unfinished_cut(self) -> bool:
        """Whether a :meth:`truncate` failed and has to be repeated."""
        return self.log.broken == _CUT_UNFINISHED

    def follow(self) -> None:
        """Take no more messages: the log grows by :class:`rocketha.store.replica_log.ReplicaLog` from now on."""
        ensure(self._loaded, "a store follows when it is loaded")
        self.settle()
        if self._appendable:
            self.dispatched = self.log.end
        self._appendable = False
        self.upkeep.keep_from = self.dispatched

    def lead(self) -> None:
        """Take messages: every record of the log has its queue entry, and the log ends behind a whole record."""
        ensure(self._loaded and self.dispatched == self.log.end, "a store leads when all of its log is dispatched")
        self._lower_deleted()
        self._appendable = True
        self.upkeep.keep_from = None

    @property
    def leads(self) -> bool:
        """Whether messages may be appended."""
        return self._appendable


def has_log_files(disk: Disk, directory: str) -> bool:
    """Whether a directory has files of a log."""
    return disk.is_dir(directory) and any(len(name) == NAME_DIGITS and name.isdigit() for name in disk.list(directory))


def _settle(job: Job, error: Exception | None) -> None:
    if error is None:
        job.apply()
    else:
        job.fail(error)


def _with_notes(report: RecoveryReport, notes: Sequence[str]) -> RecoveryReport:
    return RecoveryReport(
        report.clean,
        report.scanned_from,
        report.end,
        report.records,
        report.dispatched,
        report.truncated_bytes,
        (*notes, *report.notes),
    )
