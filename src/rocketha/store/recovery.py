"""Starting: where the log ends, and queues and index that agree with it.

Pure.  Java: ``CommitLog.recoverNormally`` / ``recoverAbnormally``, ``ConsumeQueueStore.recover``,
``IndexService.load``. Theory of operation.

1. Where to begin.  After a clean stop: at the newest record that any queue points at.  After a crash: at the record
   that the checkpoint proves to be synced together with its queue entry, or, without one, at the newest file whose
   beginning the checkpoint covers; entries behind that are dropped, and if the index is behind, the walk begins where
   the index ends.
2. Walk from there, record by record with CRC, up to the first bad one; write the queue entries and index units that
   are missing.
3. The log ends where the walk ended.  Whatever lies behind is zeroed and synced, files behind are removed, so that it
   cannot come back; queue entries and index units behind it are dropped.
4. A queue found to have a hole is rebuilt from the whole log.
5. Everything is synced before the checkpoint says so.

A replicated log may end anywhere within a record, and what is missing reads as zeros; its CRC covers the body only.
So above the confirm offset the walk also ends at a record that is torn as :func:`rocketha.store.log_walk.torn` sees it:
taken for whole, it would never become what the master has.  And queues and index are made up to the confirm offset only
(``replica_log.py`` goes on from ``dispatched_to``).

Where we differ from Java: Java starts the walk at a file's beginning and cuts the log at the first bad record even if
all behind was synced long ago; we begin at the proven record, and damaged records before it are refused when they are
read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from rocketha.errors import CorruptStore, RemoteProtocolError, ensure
from rocketha.store.census import UNKNOWN, Census
from rocketha.store.commitlog import CommitLog
from rocketha.store.config import StoreConfig
from rocketha.store.consume_queue import ConsumeQueue
from rocketha.store.deleted_topics import DeletedTopics
from rocketha.store.disk import Disk
from rocketha.store.dispatch import of_record, topic_problem
from rocketha.store.entries import Entries
from rocketha.store.index import KeyIndex
from rocketha.store.jobs import Job
from rocketha.store.log_walk import HeadWalk, LogWalk, ended_by, record_at, torn
from rocketha.store.messages import RecoveryReport
from rocketha.store.queue_table import QueueTable
from rocketha.wire.dledger import EntryHead
from rocketha.wire.record import Record
from rocketha.wire.spec.consume_queue import PADDING_SIZE
from rocketha.wire.store_files import CheckpointFields, QueueUnit

QUEUE_BYTES_MAX = 16 << 20
"""Queue tails collected before they are written."""
AGAIN_BYTES = 1 << 20
"""Of the log, written again at a time."""
NOTES_MAX = 50
EXPIRED_MIN = 8
"""So many entries of deleted records, if a queue has them, show that nothing in it is live."""


class Recovery:
    """One start of one store."""

    def __init__(
        self,
        disk: Disk,
        config: StoreConfig,
        log: CommitLog,
        queues: QueueTable,
        index: KeyIndex | None,
        deleted: DeletedTopics,
        checkpoint: CheckpointFields,
        entries: Entries | None = None,
    ) -> None:
        self._disk = disk
        self._config = config
        self._layouts = log.layouts
        self._log = log
        self._queues = queues
        self._index = index
        self._deleted = deleted
        self._checkpoint = checkpoint
        self._entries = entries
        self._notes: list[str] = []
        self._dispatched = 0
        self._index_from = -1
        self._last_offsets: dict[ConsumeQueue, int] = {}
        self._holed: dict[ConsumeQueue, None] = {}
        self._confirm: int | None = None
        self._entered = -1  # newest record that has its queue entry
        self._found_entries = False
        self.last_record: Record | None = None
        self.dispatched_to = 0
        self.lost_confirmed = False

    def run(self, clean: bool, census: Census = UNKNOWN, confirm: int | None = None) -> RecoveryReport:
        """Recover; ``log``, ``queues`` and ``index`` have found their files already.

        Afterwards ``last_record`` is the newest record that was dispatched, ``dispatched_to`` the place behind it;
        ``lost_confirmed`` says whether what was cut off has a whole record before ``confirm``.

        :param census: what the queues were at the clean stop, see :mod:`rocketha.store.census`.
        :param confirm: dispatch records that end at or below it; None for all.
        :raises CorruptStore: what an ordinary broker wrote before the first entry is damaged.
        :raises DiskFailure: the disk would not; starting again begins anew.
        """
        log, queues, index = self._log, self._queues, self._index
        if not log.segments.bases and next(queues.all(), None) is not None:
            self._note("there is no log, the consume queues are removed")
            for topic in sorted(queues.queues):
                queues.delete_topic(topic)
        queues.drop_void(self._deleted)  # removed names may be back after a power cut, or a Java broker made them
        start = self._start_clean() if clean else self._start_crashed()
        self._confirm, self._entered = confirm, queues.max_physical_offset()
        walk = LogWalk(log.segments, start, layouts=self._layouts)
        records, stopped_at = 0, None
        for unit in walk.units():
            record = unit.record
            problem = None if record is None else self._torn(record, clean)
            if problem is not None:
                walk.reason = problem
                break
            if unit.entry is not None and not self._found(unit.entry, clean):
                walk.reason = f"it is not the turn of entry {unit.entry.entry_index}"
                break
            if record is None:
                continue
            records += 1
            if stopped_at is None and self._is_due(record):
                self.last_record = record
                self._dispatch(record)
            elif stopped_at is None:
                stopped_at = self._unit_of(record.physical_offset)
        self.lost_confirmed = confirm is not None and ended_by(log.segments, walk.position, confirm, self._layouts)
        if walk.position < log.segments.divide:
            path = log.segments.path(log.segments.base_of(walk.position))
            why = f"the log ends here, where an ordinary broker wrote it: {walk.reason}"
            raise CorruptStore(path, walk.position % log.segments.file_size, why)
        truncated = self._cut(walk)
        if self._entries is not None:
            if not self._found_entries:
                self._entries.none_found(log.end)
            self._entries.ended()
            if self._entries.index.tail:
                queues.mark(self._entries.index)
        self.dispatched_to = log.end if stopped_at is None else stopped_at
        if clean and census[0] == log.end:
            self._compare(census)
        if self._holed:
            self._rebuild()
        queues.correct_min(log.begin)
        self._settle(start, clean)
        if index is not None:
            index.truncate(log.end)
        self._write()
        return RecoveryReport(clean, start, log.end, records, self._dispatched, truncated, tuple(self._notes))

    # Where to begin

    def _start_clean(self) -> int:
        segments = self._log.segments
        newest = self._queues.max_physical_offset()
        if self._index is not None:
            self._index_from = max(newest, self._index.end_offset)
        if newest < segments.begin:
            if segments.bases:
                self._note("no queue entry points into the log, all queues are rebuilt")
            return segments.begin
        if self._good(newest) is not None:
            return self._unit_of(newest)
        self._note(f"the newest queue entry points at {newest}, where there is no good record")
        return self._newest_file(lambda record: record.physical_offset <= newest)

    def _start_crashed(self) -> int:
        segments, fields = self._log.segments, self._checkpoint
        proven = self._good(fields.logics_offset) if fields.logics_offset > 0 else None
        if proven is not None:
            start = self._unit_of(proven.physical_offset)
        elif fields.logics_offset > 0:
            start = self._newest_file(lambda record: record.physical_offset <= fields.logics_offset)
        else:
            time_ms = min(fields.physic_timestamp_ms, fields.logics_timestamp_ms) - 3000
            start = self._newest_file(lambda record: record.store_timestamp_ms <= time_ms)
        limit = start if proven is None else proven.physical_offset + 1
        dropped = sum(self._drop_unproven(queue, limit) for queue in self._queues.all())
        if dropped:
            self._note(f"{dropped} queue entries from {start} on are written anew")
        index = self._index
        if index is None:
            return start
        self._index_from = index.end_offset
        if index.end_offset >= start:
            return start
        if index.end_offset >= segments.begin and self._good(index.end_offset) is not None:
            return self._unit_of(index.end_offset)
        if index.had_files or fields.index_timestamp_ms == 0:
            return self._newest_file(lambda record: record.physical_offset <= index.end_offset)
        self._note("the index was there before the crash and is not now; it begins anew")
        return start

    def _drop_unproven(self, queue: ConsumeQueue, limit: int) -> int:
        """Drop the entries that point at or behind ``limit``; returns how many.

        Behind the proven entries a power cut may leave torn ones that seem to point anywhere.  The search cannot stop
        before the last proven entry, so it suffices to step back until an entry and its record agree: what is before
        it was synced with it.  Where none does, nothing in the queue is live: it is kept for its next offset only.
        """
        dropped = queue.truncate(limit)
        while queue.next_offset > queue.first_held():
            last = queue.last()
            if last.physical_offset < limit and self._agrees(queue, queue.next_offset - 1, last):
                return dropped
            if self._expired(queue) or last == (0, PADDING_SIZE, 0):
                break
            dropped += queue.cut(queue.next_offset - 1)
        if queue.pad_dead(self._log.begin):
            self._queues.mark(queue)
        return dropped

    def _expired(self, queue: ConsumeQueue) -> bool:
        """Whether the queue's newest entries rise and end before the log begins.  Two torn ones may seem to, behind
        entries that are live."""
        first = max(queue.first_held(), queue.next_offset - EXPIRED_MIN)
        places = [queue.unit(offset).physical_offset for offset in range(first, queue.next_offset)]
        return places[-1] < self._log.begin and all(map(operator.lt, places, places[1:]))

    def _agrees(self, queue: ConsumeQueue, offset: int, unit: QueueUnit) -> bool:
        record = record_at(self._log.segments, unit.physical_offset)
        return (
            record is not None
            and (record.topic, record.queue_id, record.queue_offset, record.total)
            == (
                queue.topic,
                queue.queue_id,
                offset,
                unit.size,
            )
            and not self._deleted.is_void(queue.topic, unit.physical_offset)
        )

    def _newest_file(self, covered: Callable[[Record], bool]) -> int:
        """The beginning of the newest file whose first record is good and ``covered``; else of the oldest file."""
        segments = self._log.segments
        for base in reversed(segments.bases):
            record = self._good(base + self._layouts.at(base).head_bytes)
            if record is not None and record.store_timestamp_ms and covered(record):
                return base
        return segments.begin

    def _good(self, offset: int) -> Record | None:
        """The record at a log offset, if a walk may begin with it."""
        record = record_at(self._log.segments, offset)
        layout = self._layouts.at(offset)
        if record is None or not layout.head_bytes:
            return record
        position = offset - layout.head_bytes
        data = self._log.segments.read(position, layout.head_bytes + record.total)
        try:
            unit = layout.unit(data, 0, position, len(data), None)
        except RemoteProtocolError:
            return None
        return None if unit is None else unit.record

    def _unit_of(self, record_offset: int) -> int:
        """Where the unit begins that has a record."""
        return record_offset - self._layouts.at(record_offset).head_bytes

    # Walking

    def _torn(self, record: Record, clean: bool) -> str | None:
        """Why a whole-looking record is none.  Asked only of a replica's bytes above its confirm offset, which are
        sent again if they are cut: zeros are a guess, since a producer may send them, and nobody's message may be lost
        by one."""
        if self._confirm is None or record.physical_offset + record.total <= self._confirm:
            return None
        return torn(record, self._log.segments, power_cut=not clean)

    def _found(self, entry: EntryHead, clean: bool) -> bool:
        """Have the index of entries agree with the log: from where the walk begins; from its begin where more is
        missing.  False: the entry is none, as the heads before it show."""
        entries = self._entries
        assert entries is not None
        first = not self._found_entries
        if first and (not entries.knows(entry, self._log) or entries.index.next_offset < entry.entry_index):
            if not self._begin_entries(entries, entry):
                return False
        self._found_entries = True
        entries.found(entry, again=not clean)
        return True

    def _begin_entries(self, entries: Entries, upto: EntryHead) -> bool:
        """Make the index anew, from the begin of the log to before that entry; by heads, whatever bodies are like."""
        begin = self._log.segments.own_begin
        if upto.position > begin:
            self._note(f"the index of entries lacks what is before {upto.entry_index}: it is made anew")
        heads = HeadWalk(self._log.segments, begin, upto.position)
        for number, head in enumerate(heads):
            if not number:
                entries.begin(head.entry_index)
            entries.found(head, again=True)
            if len(entries.index.tail) >= QUEUE_BYTES_MAX:
                self._queues.mark(entries.index)
                self._run(self._queues.write_job(thorough=False))
        whole = heads.position == upto.position > begin
        if whole and entries.next_index != upto.entry_index:
            return False
        if not whole:
            entries.begin(upto.entry_index)
        if heads.position < upto.position:
            self._note(f"entries before {upto.entry_index} can not be found by their number: {heads.reason}")
        return True

    def _is_due(self, record: Record) -> bool:
        """Whether a record is to be dispatched: it is confirmed, or has its entry already."""
        confirm = self._confirm
        return (
            confirm is None
            or record.physical_offset + record.total <= confirm
            or record.physical_offset <= self._entered
        )

    def _dispatch(self, record: Record) -> None:
        dispatch = of_record(record, self._config.delay_levels_ms, self._config.index_tags)
        if dispatch.queued and not self._deleted.is_void(record.topic, record.physical_offset):
            queue = self._queues.get(record.topic, record.queue_id)
            if queue is None:
                problem = topic_problem(record.topic) or (None if record.queue_id >= 0 else "negative queue id")
                if problem is not None:
                    self._note(f"the record at {record.physical_offset} gets no queue entry: {problem}")
                    return
                queue = self._queues.get_or_make(record.topic, record.queue_id)
            self._enqueue(queue, record, dispatch.tags_code)
        index = self._index
        if index is not None and dispatch.keys and record.physical_offset > self._index_from:
            index.put(record.topic, dispatch.keys, record.physical_offset, record.store_timestamp_ms)
            if index.pending_units >= self._config.pending_index_units_max:
                self._run(index.write_job())

    def _enqueue(self, queue: ConsumeQueue, record: Record, code: int) -> None:
        if queue in self._holed:
            return
        last = self._last_offsets.get(queue)
        if last is None:
            last = queue.last().physical_offset
        if record.physical_offset <= last:
            return
        if record.queue_offset != queue.next_offset:
            if queue.next_offset == queue.first_held():
                queue.start_at(record.queue_offset)
            elif record.queue_offset > queue.next_offset:
                self._note(f"queue {queue.topic}/{queue.queue_id} has a hole at {queue.next_offset}, it is rebuilt")
                self._holed[queue] = None
                return
            elif record.queue_offset == 0:
                self._note(f"topic {queue.topic} was deleted and made again before {record.physical_offset}")
                queue.reset()
            elif not self._agrees(queue, record.queue_offset, queue.unit(record.queue_offset)):
                queue.cut(record.queue_offset)  # what is there is no entry, and so is what follows it
            else:
                self._note(
                    f"the record at {record.physical_offset} repeats offset {record.queue_offset} of queue "
                    f"{queue.topic}/{queue.queue_id} and gets no entry"
                )
                return
        self._put(queue, record, code)

    def _put(self, queue: ConsumeQueue, record: Record, code: int) -> None:
        queue.put(record.physical_offset, record.total, code)
        self._last_offsets[queue] = record.physical_offset
        self._queues.mark(queue)
        self._dispatched += 1
        if self._dispatched * 20 % QUEUE_BYTES_MAX == 0:
            self._run(self._queues.write_job(thorough=False))

    def _compare(self, census: Census) -> None:
        """Find the queues that are not what they were when the store stopped."""
        self._queues.correct_min(self._log.begin)
        for (topic, queue_id), (low, high) in sorted(census[1].items()):
            if topic_problem(topic) is not None or not 0 <= queue_id < 1 << 31:
                continue
            queue = self._queues.get_or_make(topic, queue_id)
            if (queue.min_offset, queue.next_offset) != (low, high):
                self._note(
                    f"queue {topic}/{queue_id} is [{queue.min_offset}, {queue.next_offset}), when the store stopped it "
                    f"was [{low}, {high}): it is rebuilt"
                )
                self._holed[queue] = None

    def _rebuild(self) -> None:
        """Write queues anew from the whole log; what the log lacks is padded so that later offsets keep their
        meaning."""
        wanted = {(queue.topic, queue.queue_id): queue for queue in self._holed}
        for queue in self._holed:
            queue.reset()
        for record in LogWalk(self._log.segments, self._log.begin, self.dispatched_to, self._layouts):
            found = wanted.get((record.topic, record.queue_id))
            if found is None:
                continue
            dispatch = of_record(record, self._config.delay_levels_ms)
            if not dispatch.queued:
                continue
            if found.next_offset == found.first_held() and record.queue_offset:
                found.start_at(record.queue_offset)
            elif record.queue_offset == 0:
                found.reset()
            elif record.queue_offset < found.next_offset:
                continue
            while found.next_offset < record.queue_offset:
                found.put(record.physical_offset, PADDING_SIZE, 0)
            self._put(found, record, dispatch.tags_code)

    # Ending

    def _cut(self, walk: LogWalk) -> int:
        log = self._log
        end = walk.position
        if not log.segments.bases:
            return 0
        behind = sum(base > end for base in log.segments.bases)
        erased = log.truncate(end)
        if erased:
            self._note(f"the log ends at {end} ({walk.reason}); {erased} bytes behind it were erased")
        if behind > 1:
            self._note(f"{behind} files behind {end} were removed")
        return erased

    def _settle(self, start: int, clean: bool) -> None:
        """Drop queue entries behind the end of the log, in memory and on disk."""
        log = self._log
        for queue in self._queues.all():
            dropped = queue.truncate(log.end)
            if dropped:
                self._note(f"{dropped} entries of {queue.topic}/{queue.queue_id} pointed behind the log")
        self._run(self._queues.write_job(thorough=False))
        for queue in self._queues.all():
            queue.clean_behind()
        if self._entries is not None:
            self._entries.index.clean_behind()
        if not clean:
            self._write_again(start)
        for base in log.segments.bases:
            if base + log.segments.file_size > start:
                log.segments.file(base).sync()
        # The names too: the process that made these files may have died before it synced them.
        log.segments.names_changed = True
        log.segments.sync_names()
        if not clean:
            self._queues.distrust_names()

    def _write_again(self, start: int) -> None:
        """What the crashed process wrote may be in the page cache only, and after a sync of its that failed no later
        one writes it: the kernel takes those pages for clean.  Messages behind such a hole would go with it.
        """
        segments, end = self._log.segments, self._log.end
        while start < end:
            data = segments.read(start, min(AGAIN_BYTES, end - start))
            ensure(bool(data), "the log has files up to its end")
            segments.write(start, data)
            start += len(data)

    def _write(self) -> None:
        self._run(self._queues.write_job(thorough=True))
        if self._index is not None:
            self._run(self._index.write_job())

    def _run(self, job: Job | None) -> None:
        if job is None:
            return
        try:
            job.run()
        except BaseException as error:
            if isinstance(error, Exception):
                job.fail(error)
            raise
        job.apply()

    def _note(self, text: str) -> None:
        if len(self._notes) < NOTES_MAX:
            self._notes.append(text)
