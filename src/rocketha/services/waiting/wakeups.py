"""Who waits for messages is told when they can be read: held pulls, and the delivery of delayed messages.

Must not know what makes a message readable.  On a broker that shows all it stores that is its append; where consumers
see no more than the confirm offset it is that offset's passing the message's end; on a slave it is its entry in the
queue.

Theory of operation.  What is stored and not yet readable is kept by turns: the end of the log after the turn, and of
each message its queue, tags code and delay level.  When a turn's end is confirmed its messages count as arrived.  If
too much waits, what waits is forgotten and every held pull runs again at the next confirmation instead.

One message may wake many pulls of one connection: that of a broker that passes on those of many consumers, or of
somebody who asks for it thousands of times.  Their answers are made as it takes them; the other pulls go on waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rocketha.broker.delayed_delivery import DelayedDelivery
from rocketha.broker.long_polling import HeldPull, HeldPulls
from rocketha.store.messages import PutBatch, PutMessage

WAITING_MAX = 500_000
"""Messages stored and not yet readable that are remembered one by one."""

UNSENT_MAX = 16 * 1024 * 1024
"""Bytes of answers that may wait for a connection to take them; with one more, far less than what ends it."""

UNSENT_AGAIN_MS = 20
"""After so long it is looked again whether it has taken them."""


class _Arrival(NamedTuple):
    topic: str
    queue_id: int
    tags_code: int
    delay_level: int


class Wakeups:
    """Of one broker.

    :param pull_again: runs a held pull once more and answers it.
    """

    def __init__(self, held: HeldPulls, delayed: DelayedDelivery, pull_again: Callable[[HeldPull, int], None]) -> None:
        self._held = held
        self._delayed = delayed
        self._pull_again = pull_again
        self._unconfirmed: deque[tuple[int, list[_Arrival]]] = deque()
        self._unconfirmed_count = 0
        self._anything_from: int | None = None  # unconfirmed messages up to there are not in _unconfirmed
        self._room_ms = 0  # when to look next whether connections have taken what they got

    def readable(self, messages: Sequence[PutMessage | PutBatch], now_ms: int) -> None:
        """Messages were stored, and can be read."""
        held = self._held
        for message in messages:
            if held.count:
                codes = message.tags_codes if isinstance(message, PutBatch) else (message.tags_code,)
                for code in codes:
                    self._run(held.arrived(message.topic, message.queue_id, code), now_ms)
            if isinstance(message, PutMessage) and message.delay_level:
                self._delayed.arrived(message.queue_id + 1, now_ms)

    def stored(self, messages: Sequence[PutMessage | PutBatch], log_end: int) -> None:
        """Messages were stored and can be read when all before ``log_end`` is confirmed."""
        arrivals: list[_Arrival] = []
        for message in messages:
            if isinstance(message, PutBatch):
                arrivals += [_Arrival(message.topic, message.queue_id, code, 0) for code in message.tags_codes]
            else:
                arrivals.append(_Arrival(message.topic, message.queue_id, message.tags_code, message.delay_level))
        self._unconfirmed_count += len(arrivals)
        if self._unconfirmed_count > WAITING_MAX:
            self.anything_until(log_end)
        else:
            self._unconfirmed.append((log_end, arrivals))

    def anything_until(self, log_end: int) -> None:
        """Messages of which nothing is remembered lie before ``log_end`` and are not confirmed."""
        self._unconfirmed.clear()
        self._unconfirmed_count = 0
        self._anything_from = max(log_end, self._anything_from or 0)

    def confirmed(self, offset: int, now_ms: int) -> None:
        """Everything before ``offset`` can be read."""
        unconfirmed = self._unconfirmed
        if self._anything_from is not None:
            # a part of it may be readable now, and nothing says which
            if offset >= self._anything_from:
                self._anything_from = None
            self._delayed.look_again(now_ms)
            self._run(self._held.all(), now_ms)
        while unconfirmed and unconfirmed[0][0] <= offset:
            _, arrivals = unconfirmed.popleft()
            self._unconfirmed_count -= len(arrivals)
            for topic, queue_id, code, delay_level in arrivals:
                if self._held.count:
                    self._run(self._held.arrived(topic, queue_id, code), now_ms)
                if delay_level:
                    self._delayed.arrived(queue_id + 1, now_ms)

    def dispatched(self, max_offset: Callable[[str, int], int], now_ms: int) -> None:
        """Queues have grown, and which is not known: pulls whose message is there run again.

        :param max_offset: of a topic and queue id.
        """
        self._run(self._held.behind(max_offset), now_ms)

    def role_lost(self, now_ms: int) -> None:
        """Nothing that is stored here is shown any more: every held pull runs again and gets its answer."""
        self._unconfirmed.clear()
        self._unconfirmed_count = 0
        self._anything_from = None
        self._run(self._held.all(), now_ms)

    def topics_changed(self, topics: Iterable[str], now_ms: int) -> None:
        """Topics were made, changed or deleted: pulls of them may get another answer now."""
        self._run(self._held.topics_changed(frozenset(topics)), now_ms)

    def due(self, now_ms: int) -> None:
        """Pulls whose time is up get their answer; delayed messages whose time has come are staged."""
        self._run(self._held.due(now_ms), now_ms)
        if now_ms >= self._room_ms:
            self._room_ms = now_ms + UNSENT_AGAIN_MS
            for pull in self._held.taken_up(_has_room):
                self._pull_again(pull, now_ms)
        self._delayed.deliver(now_ms)

    def next_due_ms(self) -> int | None:
        """When :meth:`due` has something to do next."""
        room_ms = self._room_ms if self._held.any_put_off else None
        times = (self._held.next_deadline_ms(), self._delayed.next_due_ms(), room_ms)
        return min((each for each in times if each is not None), default=None)

    def _run(self, pulls: Iterable[HeldPull], now_ms: int) -> None:
        for pull in pulls:
            if _has_room(pull.connection) or not self._put_off(pull, now_ms):
                self._pull_again(pull, now_ms)

    def _put_off(self, pull: HeldPull, now_ms: int) -> bool:
        if not self._held.any_put_off:
            self._room_ms = now_ms + UNSENT_AGAIN_MS
        return self._held.put_off(pull)


def _has_room(connection: Any) -> bool:
    """Whether one more answer may wait for this connection to take it."""
    return bool(connection.has_room(UNSENT_MAX))
