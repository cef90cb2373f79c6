"""Upkeep: which jobs are due, what the checkpoint may claim after them, what has expired, how full the disk is.

Pure.  Java: the flush, checkpoint and clean services of ``DefaultMessageStore``, each a thread there.  Here the store
asks once a second which jobs are due; at most one of a kind is out at a time.

The claims.  A job that syncs queues or index notes how far they went (a mark).  The checkpoint takes a mark over only
when the log below it is synced too: recovery believes the checkpoint, and a power cut may leave queues that point at
records which are torn.
"""

from __future__ import annotations

import contextlib

from rocketha.errors import DiskFailure
from rocketha.store import checkpoint, expiry
from rocketha.store.commitlog import CommitLog
from rocketha.store.config import StoreConfig
from rocketha.store.deleted_topics import DeletedTopics
from rocketha.store.disk import Disk, DiskSpace
from rocketha.store.entries import Entries
from rocketha.store.index import KeyIndex
from rocketha.store.jobs import Job
from rocketha.store.log_walk import record_at
from rocketha.store.queue_table import QueueTable
from rocketha.wire.record import Record
from rocketha.wire.store_files import CheckpointFields

ASKED_ROUNDS = 20
"""Rounds in which expired files of the log go after somebody asked for it (Java's manualDeleteFileSeveralTimes)."""


class Upkeep:
    """The jobs of one store.

    :ivar fields: what the checkpoint may claim now.
    :ivar saved: what it claims, for sure.
    :ivar last_record: log offset and store time in ms of the newest record.
    :ivar space: of the disk, as last looked at; where the log lies on another, of the one with less room.
    :ivar full: whether no message is taken, by the same look.
    :ivar confirm_offset: of a replicated log: what the next checkpoint says of it, as far as the log is synced; None
        leaves the file's value.
    :ivar keep_from: of a replica: log offset from which on queues and index are not made yet, so that no file with
        later bytes may expire; None for all of the log.
    :ivar expired_early: files that went before their time, so far.
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        config: StoreConfig,
        log: CommitLog,
        queues: QueueTable,
        index: KeyIndex | None,
        deleted: DeletedTopics,
        entries: Entries | None = None,
    ) -> None:
        self.fields = checkpoint.NOTHING
        self.last_record = (0, 0)
        self.space = DiskSpace(1, 1, 1)  # empty, until somebody looks
        self.full = False
        self._next_look_ms = 0
        self._fuller = root
        self.confirm_offset: int | None = None
        self.keep_from: int | None = None
        self.expired_early = 0
        self._marks = expiry.Marks()
        self._notices: list[expiry.ExpiredEarly | expiry.Filling] = []
        self._disk = disk
        self._root = root
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._deleted = deleted
        self._entries = entries
        self._path = f"{root}/checkpoint"
        self.saved = checkpoint.NOTHING
        self._saving = False
        self._expiring = False
        self._queue_mark: tuple[int, int, int] | None = None  # record, its store time, end of the log: synced in queues
        self._index_mark: tuple[int, int] | None = None  # store time, end of the log: synced in the index
        self._flushed_time_ms = 0
        self._next: dict[str, int] = {}
        self._log_rounds = 0  # still to look for expired files of the log though it is not the hour
        self._queues_asked = False

    def load(self) -> CheckpointFields:
        """Read the checkpoint."""
        self.fields = self.saved = checkpoint.load(self._disk, self._path)
        return self.fields

    def begin(self, now_ms: int) -> None:
        """The store is loaded: the intervals begin."""
        self._see(self._look())
        for kind in ("queues", "thorough", "index", "expire"):
            self._set_next(kind, now_ms)
        self._next_look_ms = 0

    def recovered(self, last: Record | None) -> None:
        """Everything found is synced: claim it.

        :param last: the newest record.
        """
        fields = self.fields
        if last is not None:
            self.last_record = (last.physical_offset, last.store_timestamp_ms)
            self._flushed_time_ms = last.store_timestamp_ms
            fields = fields._replace(
                physic_timestamp_ms=last.store_timestamp_ms,
                logics_timestamp_ms=last.store_timestamp_ms,
                logics_offset=last.physical_offset,
            )
        else:  # nothing is in the log, so nothing may be claimed about it
            fields = checkpoint.NOTHING._replace(
                master_flushed_offset=fields.master_flushed_offset, confirm_offset=fields.confirm_offset
            )
        if self._index is not None:
            fields = fields._replace(index_timestamp_ms=self._index.end_timestamp_ms)
        fields = fields._replace(confirm_offset=min(fields.confirm_offset, self._log.end))
        self.fields = fields
        if fields != self.saved:
            checkpoint.save(self._disk, self._path, fields)
            self.saved = fields

    def look_at_disk(self) -> None:
        """Ask how full the disk is; a disk that does not answer keeps its last figure, its writes will tell."""
        with contextlib.suppress(DiskFailure):
            self._see(self._look())

    def _see(self, space: DiskSpace) -> None:
        self.space, self.full = space, expiry.is_full(space.used_ratio, self._config)

    def _look(self) -> DiskSpace:
        places = (self._root, self._log.segments.directory)
        space, self._fuller = max(
            ((self._disk.space(path), path) for path in places), key=lambda looked: looked[0].used_ratio
        )
        return space

    def _look_at_marks(self, now_ms: int) -> None:
        filling = self._marks.passed(self._fuller, self.space.used_ratio, now_ms, self._config)
        if filling is not None:
            self._notices.append(filling)

    def notices(self) -> list[expiry.ExpiredEarly | expiry.Filling]:
        """What a person should know, since the last time this was asked; at most some for each round of upkeep."""
        told, self._notices = self._notices, []
        return told

    def look_when_due(self, now_ms: int) -> None:
        """Look at the disk now and then; hot path."""
        if now_ms >= self._next_look_ms:
            self._next_look_ms = now_ms + self._config.disk_check_interval_ms
            self.look_at_disk()

    def flush_job(self) -> Job | None:
        """Sync the log up to here: group commit in synchronous mode, a timer's work in asynchronous mode.

        None when there is nothing to sync or such a job is out; ask again when it is finished.
        """
        job = self._log.flush_job()
        if job is None:
            return None
        time_ms = self.last_record[1]

        def apply() -> None:
            job.apply()
            self._flushed_time_ms = time_ms

        return Job(job.kind, job.run, apply, job.fail)

    def maintenance(self, now_ms: int, wall_ms: int) -> list[Job]:
        """The upkeep that is due: call it about once a second, run each job in a thread, then :meth:`finished`."""
        self.promote()
        self._look_at_marks(now_ms)
        jobs: list[Job | None] = []
        thorough = self._due("thorough", now_ms)
        full = self._queues.pending_bytes >= self._config.pending_queue_bytes_max
        if thorough or full or self._due("queues", now_ms):
            jobs.append(self.queue_job(thorough))
            self._set_next("queues", now_ms)
            if thorough:
                self._set_next("thorough", now_ms)
        index = self._index
        if index is not None:
            index.settle()
        if index is not None and (
            self._due("index", now_ms) or index.pending_units >= self._config.pending_index_units_max
        ):
            jobs.append(self.index_job())
            self._set_next("index", now_ms)
        segment_size = self._config.segment_size
        if self._log.end % segment_size > segment_size // 2:
            jobs.append(self._log.segment_job(self._config.preallocate, self._config.warm))
        if self._due("expire", now_ms):
            jobs.append(self._expire_job(now_ms, wall_ms))
            self._set_next("expire", now_ms)
        jobs.append(self.checkpoint_job())
        return [job for job in jobs if job is not None]

    def expire_soon(self, log: bool) -> None:
        """Look for what has expired with the next upkeep.

        :param log: files of the log, whatever the hour, in this and the next rounds, as each takes only some; else
            only what lacks its messages already.
        """
        if log:
            self._log_rounds = ASKED_ROUNDS
        self._queues_asked = True
        self._next["expire"] = 0

    def _interval_ms(self, kind: str) -> int:
        return {
            "queues": self._config.flush_queue_interval_ms,
            "thorough": self._config.flush_queue_thorough_interval_ms,
            "index": self._config.flush_index_interval_ms,
            "expire": self._config.expire_interval_ms,
        }[kind]

    def _due(self, kind: str, now_ms: int) -> bool:
        return now_ms >= self._next.get(kind, 0)

    def _set_next(self, kind: str, now_ms: int) -> None:
        self._next[kind] = now_ms + self._interval_ms(kind)

    def queue_job(self, thorough: bool) -> Job | None:
        """Write the queues' tails; see :meth:`QueueTable.write_job`."""
        job = self._queues.write_job(thorough)
        if job is None or not thorough:
            return job
        mark = (*self.last_record, self._log.end)

        def apply() -> None:
            job.apply()
            self._queue_mark = mark
            self.promote()

        return Job(job.kind, job.run, apply, job.fail)

    def index_job(self) -> Job | None:
        """Write and sync the index; None when there is nothing to do or such a job is out."""
        index = self._index
        job = index.write_job() if index is not None else None
        if index is None or job is None:
            return None
        mark = (index.end_timestamp_ms, self._log.end)

        def apply() -> None:
            job.apply()
            self._index_mark = mark
            self.promote()

        return Job(job.kind, job.run, apply, job.fail)

    def promote(self) -> None:
        """Let the checkpoint claim queues and index once the log they point at is synced too."""
        if self._queue_mark is not None and self._log.flushed >= self._queue_mark[2]:
            offset, time_ms, _ = self._queue_mark
            self._queue_mark = None
            self.fields = self.fields._replace(logics_offset=offset, logics_timestamp_ms=time_ms)
        if self._index_mark is not None and self._log.flushed >= self._index_mark[1]:
            time_ms, _ = self._index_mark
            self._index_mark = None
            self.fields = self.fields._replace(index_timestamp_ms=time_ms)

    def checkpoint_job(self) -> Job | None:
        """Save the checkpoint if it may claim more than it does; None otherwise."""
        saved = self.saved
        if self.confirm_offset is not None:
            # What is not synced a power cut may take; what is synced and not there at the next start is damaged.
            synced = max(self._log.flushed, self.fields.confirm_offset)
            self.fields = self.fields._replace(confirm_offset=min(self.confirm_offset, synced))
        if self._saving or (
            self.fields.logics_offset == saved.logics_offset
            and self.fields.index_timestamp_ms == saved.index_timestamp_ms
            and self.fields.confirm_offset == saved.confirm_offset
        ):
            return None
        self._saving = True
        fields: CheckpointFields = self.fields._replace(physic_timestamp_ms=self._flushed_time_ms)

        def apply() -> None:
            self._saving = False
            self.saved = fields

        def fail(_: Exception) -> None:
            self._saving = False

        return Job("checkpoint", lambda: checkpoint.save(self._disk, self._path, fields), apply, fail)

    def _expire_job(self, now_ms: int, wall_ms: int) -> Job | None:
        segments = self._log.segments
        if self._expiring:
            return None
        self.look_at_disk()
        self._look_at_marks(now_ms)
        last_times = self._last_times(wall_ms)
        asked, self._queues_asked = self._queues_asked, False
        doomed = expiry.files_to_delete(last_times, wall_ms, self.space.used_ratio, self._config, self._log_rounds > 0)
        self._log_rounds = max(0, self._log_rounds - 1)
        if not doomed.files and not asked:
            return None
        paths = [segments.detach_first() for _ in range(doomed.files)]
        for path, last_ms in list(zip(paths, last_times, strict=False))[doomed.files - doomed.early :]:
            self.expired_early += 1
            self._notices.append(
                expiry.ExpiredEarly(path, wall_ms - last_ms, self._config.file_reserved_ms, self.space.used_ratio)
            )
        paths += self._queues.expired_paths(self._log.begin)
        self._deleted.expire(self._log.begin)
        if self._index is not None:
            paths += self._index.expired_paths(self._log.begin)
        if self._entries is not None:
            with contextlib.suppress(DiskFailure):  # then they go another time
                paths += self._entries.expired_paths(self._log.begin)
        if not paths:
            return None
        self._expiring = True

        def run() -> None:
            for path in paths:
                if self._disk.exists(path):
                    self._disk.remove(path)
            self._disk.sync_all((), sorted({path.rpartition("/")[0] for path in paths}))

        def done(_: Exception | None = None) -> None:
            self._expiring = False

        return Job("expire", run, done, done)

    def _last_times(self, wall_ms: int) -> list[int]:
        """For each file that may go, oldest first, when its last message was stored, or a later time."""
        segments, layouts = self._log.segments, self._log.layouts
        found: list[int | None] = []
        with contextlib.suppress(DiskFailure):  # a file that cannot be read is not deleted for that
            for base in segments.bases[1 : self._config.delete_files_max + 1]:
                if base > self._log.flushed or base >= self._log.end:
                    break
                if self.keep_from is not None and base > self.keep_from:
                    break
                record = record_at(
                    segments, base + layouts.at(base).head_bytes
                )  # the next file's first one is younger than all of this
                found.append(record.store_timestamp_ms if record is not None else None)
        times, later_ms = [], wall_ms
        for time_ms in reversed(found):  # one that begins with damage says nothing: what comes later does
            later_ms = later_ms if time_ms is None else time_ms
            times.append(later_ms)
        return times[::-1]

    def lower(self, end: int, newest: int, time_ms: int) -> None:
        """Before the log is cut: the checkpoint stops claiming anything behind a record, on the disk too.

        :param end: log offset of the cut.
        :param newest: log offset of the last record that stays.
        :param time_ms: its store time.
        """
        self._queue_mark = self._index_mark = None
        self.last_record = (newest, time_ms)
        self._flushed_time_ms = min(self._flushed_time_ms, time_ms)
        if self.confirm_offset is not None:
            self.confirm_offset = min(self.confirm_offset, end)
        fields = self.fields
        if fields.logics_offset > newest or fields.index_timestamp_ms > time_ms or fields.confirm_offset > end:
            self.fields = fields._replace(
                confirm_offset=min(fields.confirm_offset, end),
                physic_timestamp_ms=min(fields.physic_timestamp_ms, time_ms),
                logics_timestamp_ms=min(fields.logics_timestamp_ms, time_ms),
                index_timestamp_ms=min(fields.index_timestamp_ms, time_ms),
                logics_offset=min(fields.logics_offset, newest),
            )
            checkpoint.save(self._disk, self._path, self.fields)
            self.saved = self.fields
