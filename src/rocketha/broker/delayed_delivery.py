"""Messages of the schedule topic go to their real topic when their time has come.

Pure.  Theory of operation: queue n-1 holds level n; all its messages wait equally long, so only its head can be due.
:meth:`deliver` stages what is due and moves the level's offset once the copy is stored; a copy that could not be
stored is tried again, and the offset does not pass it.

Progress against the log.  Progress is saved every few seconds and reaches a slave within one, the log when it is
flushed and replicated: after a crash or a switch either may be behind the other.  So the copies in the log decide
(regressions A20, F6).  At the start each level steps back while its last message has no copy in the log, and then
passes over messages that have one, until the first that has none: in each level copies were made in order.  What
cannot be looked up (no index, no unique key) counts as progress says, as in Java.  On a master whose log is not
confirmed to its end yet this waits until it is.

A disk is not waited for (:mod:`rocketha.broker.queue_reader`): a level goes on when what it lacked is there, from where
it was; the others go on meanwhile.

Java: ``ScheduleMessageService`` (whose copy also keeps the DELAY property).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import attrs

from rocketha.broker import names
from rocketha.broker.delay_levels import DelayLevels
from rocketha.broker.queue_reader import Fetch, QueueReader
from rocketha.broker.send import Sends
from rocketha.broker.state import BrokerState
from rocketha.errors import RockethaError
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetStatus, PutResult
from rocketha.wire import record
from rocketha.wire.properties import parse

BATCH = 256
"""Messages of one level in one turn, so that a backlog after a long stop does not hold up the rest."""
UNSURE_BATCH = 16
"""Each of these is looked up, and all are read again when something of that had to be fetched."""

RETRY_MS = 1000
UNCONFIRMED_MS = 100
"""Between two looks at what is stored and may not be read yet."""
COPIES_MAX = 64
"""Records with the key of one message that are looked at."""
STEPS_BACK_MAX = 10_000


@attrs.define(eq=False)
class _Level:
    """Of a broker that delivers.

    :ivar queue: of the schedule topic.
    :ivar begun: the log has decided how far it is.
    :ivar stepping: else from where the next step back is made, and how far at most.
    :ivar unsure: its next messages may be delivered already.
    """

    number: int
    queue: QueueReader
    begun: bool = False
    stepping: tuple[int, int] | None = None
    unsure: bool = False


@attrs.define(eq=False)
class _Step:
    """Of a level: a copy that is staged.

    :ivar begin: progress before.
    :ivar end: progress when it is written; what follows and cannot be delivered is passed over with it.
    :ivar skipped: how many those are.
    """

    begin: int
    end: int
    skipped: int = 0


class DelayedDelivery:
    """Delivers every level of one broker.

    :param fetch: has what is not in memory fetched.
    :ivar failed: called while an exception is handled: a level could not be read, and will be tried again.
    :ivar skipped: messages that could not be delivered because they are unreadable.
    :ivar repeats_avoided: messages that were delivered already, though progress did not say so.
    :ivar losses_avoided: messages that were not, though it did.
    """

    def __init__(
        self,
        state: BrokerState,
        store: MessageStore,
        delays: DelayLevels,
        sends: Sends,
        fetch: Fetch,
        failed: Callable[[], None],
    ) -> None:
        self._state = state
        self._store = store
        self._delays = delays
        self._sends = sends
        self._levels: dict[int, _Level] = {}  # by number; none of a broker that delivers nothing
        # level -> when its head is due; one without an entry is empty, or fetching.  Kept from the last look.
        self._due_ms: dict[int, int] = {}
        self._begin_at: int | None = None  # the log up to here must be confirmed before anything is delivered
        self._fetch = fetch
        self.failed = failed
        self.skipped = self.repeats_avoided = self.losses_avoided = 0

    def start(self, now_ms: int) -> None:
        """After recovery, and when this broker becomes master."""
        self._begin_at = self._store.max_physical_offset
        self._sends.times.begin(self._begin_at, now_ms, self._state.wall_ms())
        self._levels = {number: self._level(number) for number in range(1, self._delays.highest + 1)}
        self._due_ms = {number: now_ms for number, level in self._levels.items() if level.queue.end}

    def _level(self, number: int) -> _Level:
        return _Level(number, QueueReader(self._store, names.SCHEDULE_TOPIC, number - 1, self._fetch))

    def look_again(self, now_ms: int) -> None:
        """Messages may have become readable, and nobody knows of which level."""
        for level in self._levels.values():
            if self._is_idle(level) and self._progress(level) < level.queue.end:
                self._due_ms[level.number] = now_ms

    def stop(self) -> None:
        """This broker delivers nothing any more: it is not the master, or ends."""
        self._levels, self._due_ms = {}, {}
        self._begin_at = None

    def _is_current(self, level: _Level) -> bool:
        """Whether this broker has been delivering since it began with this level."""
        return self._levels.get(level.number) is level

    def _is_idle(self, level: _Level) -> bool:
        return level.number not in self._due_ms and not level.queue.fetching

    def _progress(self, level: _Level) -> int:
        return self._delays.offsets.get(level.number, level.queue.begin)

    def _advance(self, level: _Level, offset: int) -> None:
        self._delays.advance(level.number, offset, self._state.wall_ms())

    # The beginning

    def _begin(self, level: _Level) -> None:
        """The log decides how far a level is."""
        low, end = level.queue.begin, level.queue.end
        present = self._progress(level)
        corrected = self._stepped_back(level, low, min(max(present, low), end))
        if corrected != present:
            self._advance(level, corrected)
        level.unsure = corrected < end
        level.begun = True

    def _stepped_back(self, level: _Level, low: int, offset: int) -> int:
        offset, lowest = level.stepping or (offset, max(low, offset - STEPS_BACK_MAX))
        while offset > lowest:
            message = level.queue.message(offset - 1)
            if message is None or self._was_delivered(level, message) is not False:
                break
            offset -= 1
            self.losses_avoided += 1
            level.stepping = offset, lowest
            level.queue.came_further()
        return offset

    def _was_delivered(self, level: _Level, message: record.Record) -> bool | None:
        """Whether the log has this message's copy: behind it, and the same in all that a consumer sees.

        None: nobody can say, as the index does not have the message itself, or it has no key.
        """
        try:
            values = parse(message.properties)
            topic, queue_id, key = values["REAL_TOPIC"], int(values["REAL_QID"]), values["UNIQ_KEY"]
        except (RockethaError, KeyError, ValueError):
            return None
        place, wait = message.physical_offset, level.queue.wait
        for found in self._store.query_placed(topic, key, COPIES_MAX, place + 1, self._store.max_physical_offset, wait):
            copy = record.decode(found)
            same = (copy.topic, copy.queue_id, copy.reconsume_times) == (topic, queue_id, message.reconsume_times)
            delayed = "REAL_TOPIC" in parse(copy.properties)  # a copy keeps it, Java's too
            if same and delayed and copy.body == message.body:
                return True
        itself = self._store.query_placed(names.SCHEDULE_TOPIC, key, COPIES_MAX, place, place + 1, wait)
        return False if itself else None

    # Messages

    def arrived(self, number: int, now_ms: int) -> None:
        """A message was stored for a level: if nothing waited there, it is the head."""
        level = self._levels.get(number)
        if level is not None and self._is_idle(level):
            self._due_ms[number] = now_ms + self._delays.delay_ms(number)

    def next_due_ms(self) -> int | None:
        """When :meth:`deliver` has something to do next."""
        return min(self._due_ms.values()) if self._due_ms else None

    def deliver(self, now_ms: int) -> None:
        """Stage the copies of what is due; the caller commits the turn."""
        if self._begin_at is not None:
            if self._store.confirm_offset < self._begin_at:
                self._due_ms = dict.fromkeys(self._due_ms, now_ms + UNCONFIRMED_MS)
                return
            self._begin_at = None
        for number in sorted(number for number, due_ms in self._due_ms.items() if due_ms <= now_ms):
            self._go_on(self._levels[number], now_ms)

    def _go_on(self, level: _Level, now_ms: int) -> None:
        try:
            self._deliver_if_in_memory(level, now_ms)
        except Exception:  # the other levels' copies are staged, and have to be committed before they are looked at
            self.failed()
            self._due_ms[level.number] = now_ms + RETRY_MS
            level.queue.came_further()

    def _deliver_if_in_memory(self, level: _Level, now_ms: int) -> None:
        def work() -> None:
            if not level.begun:
                self._begin(level)
            self._deliver_level(level, now_ms)

        if not level.queue.attempt(work):  # nothing of it was staged
            del self._due_ms[level.number]
            level.queue.fetch(lambda now_ms: self._fetched(level, now_ms), lambda: self._is_current(level))

    def _fetched(self, level: _Level, now_ms: int) -> None:
        self._due_ms[level.number] = now_ms
        self._go_on(level, now_ms)

    def _deliver_level(self, level: _Level, now_ms: int) -> None:
        number, offset = level.number, self._progress(level)
        found = level.queue.get(offset, UNSURE_BATCH if level.unsure else BATCH)
        if found.status is not GetStatus.FOUND:
            end = level.queue.end
            behind = min(max(found.next_offset, offset), end)
            if behind != offset:  # expired or corrupt units: go on behind them
                self._advance(level, behind)
            if behind < end:
                self._due_ms[number] = now_ms + RETRY_MS
            else:
                del self._due_ms[number]
            level.queue.came_further()
            return
        if not level.unsure:
            level.queue.came_further()
        delay_ms, times = self._delays.delay_ms(number), self._sends.times
        step: _Step | None = None
        # a buffer holds any number of records: the store joins those that lie side by side in the log
        for _, message in chain.from_iterable(map(record.scan, found.buffers)):
            due_ms = times.due_ms(message.physical_offset, message.store_timestamp_ms, delay_ms)
            if now_ms < due_ms:
                self._due_ms[number] = due_ms
                return
            if level.unsure:
                if self._was_delivered(level, message):
                    self.repeats_avoided += 1
                    self._advance(level, message.queue_offset + 1)
                    level.queue.came_further()
                    continue
                level.unsure = False
                level.queue.came_further()
            step = self._stage(level, message, step, now_ms)
        if found.next_offset < found.max_offset:
            self._due_ms[number] = now_ms
        elif found.next_offset < level.queue.end:
            self._due_ms[number] = now_ms + UNCONFIRMED_MS
        else:
            del self._due_ms[number]

    def _stage(self, level: _Level, message: record.Record, last: _Step | None, now_ms: int) -> _Step | None:
        """Stage a message's copy.  Progress goes step by step, and no further than what was written: not past a copy
        that failed, over others of its turn or over what cannot be delivered.

        :param last: the step before in this turn.
        :return: the last one now.
        """
        next_offset = message.queue_offset + 1
        try:
            values = parse(message.properties)
            topic, queue_id = values["REAL_TOPIC"], int(values["REAL_QID"])
            names.check_topic(topic)
            if topic in names.NO_SEND_TOPICS or not 0 <= queue_id <= 65_535:
                raise KeyError(topic)
            copy = self._sends.restaged(message, topic, queue_id, values, message.reconsume_times, 0)
        except (RockethaError, KeyError, ValueError):
            if last is None:
                self.skipped += 1
                self._advance(level, next_offset)
            else:
                last.skipped += 1
                last.end = next_offset
            return last
        step = _Step(self._progress(level) if last is None else last.end, next_offset)

        def done(placed: PutResult | None) -> None:
            if placed is None:
                if self._is_current(level):
                    self._due_ms[level.number] = now_ms + RETRY_MS
            elif self._progress(level) == step.begin:
                self.skipped += step.skipped
                self._advance(level, step.end)

        self._sends.stage(copy, done)
        return step
