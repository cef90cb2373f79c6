"""Messages of the schedule topic go to their real topic when their time has come.

Pure.  Theory of operation: queue n-1 holds level n; all its messages wait equally long, so only its head can be due.
:meth:`deliver` stages what is due and moves the level's offset once the copy is stored; a copy that could not be
stored is tried again.

Progress against the log.  Progress is saved every few seconds and reaches a slave within one, the log when it is
flushed and replicated: after a crash or a switch either may be behind the other.  So the copies in the log decide
(regressions A20, F6).  At the start each level steps back while its last message has no copy in the log, and then
passes over messages that have one, until the first that has none: in each level copies were made in order.  What
cannot be looked up (no index, no unique key) counts as progress says, as in Java.  On a master whose log is not
confirmed to its end yet this waits until it is.

Java: ``ScheduleMessageService`` (whose copy also keeps the DELAY property).
"""

from __future__ import annotations

from itertools import chain

from rocketha.broker import names
from rocketha.broker.delay_levels import DelayLevels
from rocketha.broker.send import Sends
from rocketha.broker.state import BrokerState
from rocketha.errors import RockethaError
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetStatus, PutResult
from rocketha.wire import record
from rocketha.wire.properties import parse

BATCH = 256
"""Messages of one level in one turn, so that a backlog after a long stop does not hold up the rest."""

RETRY_MS = 1000
UNCONFIRMED_MS = 100
"""Between two looks at what is stored and may not be read yet."""
CLOCK_BACK_MS = 60_000
"""By so much a new master's clock may be behind the former one's."""
BATCH_BYTES = 4 * 1024 * 1024


COPIES_MAX = 64
"""Records with the key of one message that are looked at."""
STEPS_BACK_MAX = 10_000


class DelayedDelivery:
    """Delivers every level of one broker.

    :ivar skipped: messages that could not be delivered because they are unreadable.
    :ivar repeats_avoided: messages that were delivered already, though progress did not say so.
    :ivar losses_avoided: messages that were not, though it did.
    """

    def __init__(self, state: BrokerState, store: MessageStore, delays: DelayLevels, sends: Sends) -> None:
        self._state = state
        self._store = store
        self._delays = delays
        self._sends = sends
        # level -> when its head is due; a level without an entry is empty.  Kept from the last look.
        self._due_ms: dict[int, int] = {}
        self._begin_at: int | None = None  # the log up to here must be confirmed before anything is delivered
        self._unsure: set[int] = set()  # levels whose next messages may be delivered already
        self.skipped = self.repeats_avoided = self.losses_avoided = 0

    def start(self, now_ms: int) -> None:
        """After recovery, and when this broker becomes master."""
        self.stop()
        self._begin_at = self._store.max_physical_offset
        for level in range(1, self._delays.highest + 1):
            if self._end(level):
                self._due_ms[level] = now_ms

    def look_again(self, now_ms: int) -> None:
        """Messages may have become readable, and nobody knows of which level."""
        for level in range(1, self._delays.highest + 1):
            if level not in self._due_ms and self._progress(level) < self._end(level):
                self._due_ms[level] = now_ms

    def stop(self) -> None:
        """This broker delivers nothing any more: it is not the master."""
        self._due_ms.clear()
        self._unsure.clear()
        self._begin_at = None

    def _end(self, level: int) -> int:
        """Queue offset behind the level's newest message in the log, readable or not."""
        queue = self._store.queues.get(names.SCHEDULE_TOPIC, level - 1)
        return 0 if queue is None else queue.next_offset

    def _progress(self, level: int) -> int:
        return self._delays.offsets.get(level, self._store.min_offset(names.SCHEDULE_TOPIC, level - 1))

    def _begin(self, now_ms: int) -> None:
        """The log decides how far each level is."""
        for level in sorted(self._due_ms):
            low, end = self._store.min_offset(names.SCHEDULE_TOPIC, level - 1), self._end(level)
            present = self._progress(level)
            corrected = self._stepped_back(level, low, min(max(present, low), end), now_ms)
            if corrected != present:
                self._delays.advance(level, corrected, now_ms)
            if corrected < end:
                self._unsure.add(level)

    def _stepped_back(self, level: int, low: int, offset: int, now_ms: int) -> int:
        lowest = max(low, offset - STEPS_BACK_MAX)
        while offset > lowest:
            stored = self._store.message_at(self._store.physical_offset(names.SCHEDULE_TOPIC, level - 1, offset - 1))
            if stored is None or self._was_delivered(record.decode(stored), now_ms) is not False:
                break
            offset -= 1
            self.losses_avoided += 1
        return offset

    def _was_delivered(self, message: record.Record, now_ms: int) -> bool | None:
        """Whether the log has this message's copy: behind it, and the same in all that a consumer sees.

        None: nobody can say, as the index does not have the message itself, or it has no key.
        """
        try:
            values = parse(message.properties)
            topic, queue_id, key = values["REAL_TOPIC"], int(values["REAL_QID"]), values["UNIQ_KEY"]
        except (RockethaError, KeyError, ValueError):
            return None
        stored_ms, latest_ms = message.store_timestamp_ms, max(now_ms, message.store_timestamp_ms) + CLOCK_BACK_MS
        for found in self._store.query(topic, key, COPIES_MAX, stored_ms - CLOCK_BACK_MS, latest_ms):
            copy = record.decode(found)
            same = (copy.topic, copy.queue_id, copy.reconsume_times) == (topic, queue_id, message.reconsume_times)
            delayed = "REAL_TOPIC" in parse(copy.properties)  # a copy keeps it, Java's too
            if same and delayed and copy.physical_offset > message.physical_offset and copy.body == message.body:
                return True
        itself = self._store.query(names.SCHEDULE_TOPIC, key, COPIES_MAX, stored_ms, stored_ms)
        known = any(record.decode(found).physical_offset == message.physical_offset for found in itself)
        return False if known else None

    def arrived(self, level: int, now_ms: int) -> None:
        """A message was stored for ``level``: if nothing waited there, it is the head."""
        if level not in self._due_ms:
            self._due_ms[level] = now_ms + self._delays.delay_ms(level)

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
            self._begin(now_ms)
        for level in sorted(level for level, due in self._due_ms.items() if due <= now_ms):
            self._deliver_level(level, now_ms)

    def _deliver_level(self, level: int, now_ms: int) -> None:
        queue_id = level - 1
        offset = self._progress(level)
        found = self._store.get(names.SCHEDULE_TOPIC, queue_id, offset, BATCH, BATCH_BYTES, None)
        if found.status is not GetStatus.FOUND:
            end = self._end(level)
            behind = min(max(found.next_offset, offset), end)
            if behind != offset:  # expired or corrupt units: go on behind them
                self._delays.advance(level, behind, now_ms)
            if behind < end:
                self._due_ms[level] = now_ms + RETRY_MS
            else:
                self._due_ms.pop(level, None)
            return
        delay_ms = self._delays.delay_ms(level)
        # a buffer holds any number of records: the store joins those that lie side by side in the log
        for _, message in chain.from_iterable(map(record.scan, found.buffers)):
            due = message.store_timestamp_ms + delay_ms
            if now_ms < due <= now_ms + delay_ms:  # beyond that the clock was set back: deliver now, as Java does
                self._due_ms[level] = due
                return
            if level in self._unsure:
                if self._was_delivered(message, now_ms):
                    self.repeats_avoided += 1
                    self._delays.advance(level, message.queue_offset + 1, now_ms)
                    continue
                self._unsure.discard(level)
            self._stage(level, message, message.queue_offset + 1, now_ms)
        if found.next_offset < found.max_offset:
            self._due_ms[level] = now_ms
        elif found.next_offset < self._end(level):
            self._due_ms[level] = now_ms + UNCONFIRMED_MS
        else:
            del self._due_ms[level]

    def _stage(self, level: int, message: record.Record, next_offset: int, now_ms: int) -> None:
        def done(placed: PutResult | None) -> None:
            if placed is None:
                self._due_ms[level] = now_ms + RETRY_MS
            elif self._progress(level) == next_offset - 1:
                # In order only: after a failed copy the later ones of the turn must not move the offset past it.
                self._delays.advance(level, next_offset, now_ms)

        try:
            values = parse(message.properties)
            topic, queue_id = values["REAL_TOPIC"], int(values["REAL_QID"])
            names.check_topic(topic)
            if topic in names.NO_SEND_TOPICS or not 0 <= queue_id <= 65_535:
                raise KeyError(topic)
            copy = self._sends.restaged(message, topic, queue_id, values, message.reconsume_times, 0)
        except (RockethaError, KeyError, ValueError):
            self.skipped += 1
            self._delays.advance(level, next_offset, now_ms)
            return
        self._sends.stage(copy, done)
