"""Messages of the schedule topic go to their real topic when their time has come.

Pure.  Theory of operation: queue n-1 holds level n; all its messages wait equally long, so only its head can be due.
:meth:`deliver` stages what is due and moves the level's offset once the copy is stored; a copy that could not be
stored is tried again.  A crash between the two delivers a message again after the restart, never loses it.

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
BATCH_BYTES = 4 * 1024 * 1024


class DelayedDelivery:
    """Delivers every level of one broker."""

    def __init__(self, state: BrokerState, store: MessageStore, delays: DelayLevels, sends: Sends) -> None:
        self._state = state
        self._store = store
        self._delays = delays
        self._sends = sends
        # level -> when its head is due; a level without an entry is empty.  Kept from the last look.
        self._due_ms: dict[int, int] = {}
        self.skipped = 0  # messages that could not be delivered because they are unreadable

    def start(self, now_ms: int) -> None:
        """After recovery, and when this broker becomes master: progress must lie within its queue."""
        self._due_ms.clear()
        for level in range(1, self._delays.highest + 1):
            low = self._store.min_offset(names.SCHEDULE_TOPIC, level - 1)
            high = self._store.max_offset(names.SCHEDULE_TOPIC, level - 1)
            present = self._delays.offsets.get(level, low)
            corrected = min(max(present, low), high)
            if corrected != present:
                self._delays.advance(level, corrected, now_ms)
            if corrected < high:
                self._due_ms[level] = now_ms

    def stop(self) -> None:
        """This broker delivers nothing any more: it is not the master."""
        self._due_ms.clear()

    def arrived(self, level: int, now_ms: int) -> None:
        """A message was stored for ``level``: if nothing waited there, it is the head."""
        if level not in self._due_ms:
            self._due_ms[level] = now_ms + self._delays.delay_ms(level)

    def next_due_ms(self) -> int | None:
        """When :meth:`deliver` has something to do next."""
        return min(self._due_ms.values()) if self._due_ms else None

    def deliver(self, now_ms: int) -> None:
        """Stage the copies of what is due; the caller commits the turn."""
        for level in sorted(level for level, due in self._due_ms.items() if due <= now_ms):
            self._deliver_level(level, now_ms)

    def _deliver_level(self, level: int, now_ms: int) -> None:
        queue_id = level - 1
        offset = self._delays.offsets.get(level, self._store.min_offset(names.SCHEDULE_TOPIC, queue_id))
        found = self._store.get(names.SCHEDULE_TOPIC, queue_id, offset, BATCH, BATCH_BYTES, None)
        if found.status is not GetStatus.FOUND:
            if found.next_offset > offset or offset > found.max_offset:
                self._delays.advance(level, found.next_offset, now_ms)  # expired or corrupt units: go on behind them
            if found.next_offset < found.max_offset:
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
            self._stage(level, message, message.queue_offset + 1, now_ms)
        if found.next_offset < found.max_offset:
            self._due_ms[level] = now_ms
        else:
            del self._due_ms[level]

    def _stage(self, level: int, message: record.Record, next_offset: int, now_ms: int) -> None:
        def done(placed: PutResult | None) -> None:
            if placed is None:
                self._due_ms[level] = now_ms + RETRY_MS
            elif self._delays.offsets.get(level, 0) == next_offset - 1:
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
