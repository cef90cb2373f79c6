"""How far consumer groups are behind, as far as that is known without waiting for a disk.

Pure.  Theory of operation: the groups are those that have offsets, online or not.  A queue in which a group has none
counts nothing, as in Java.  How old the oldest message is that a group has not consumed is read from the log, if that
is in memory; so it is often not known of groups that are far behind.  All of it is bounded, since peers name groups:
see the numbers below.  Where there are more than one look takes, the next one goes on where it ended, beside those
that had the largest lag so far.  The figures are kept for a moment, for all who ask in it.

Java: ``ConsumerLagCalculator``, which knows the groups that are online only.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import NamedTuple

from rocketha.broker.offsets import SEPARATOR, ConsumerOffsets, split_key
from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store.in_memory import NotInMemory, Wait
from rocketha.store.message_store import MessageStore

SHOWN_MAX = 1000
"""Groups and topics that are shown: those with the largest lag."""
LOOKED_AT_MAX = 10_000
"""Groups and topics of which the lag is made out in one look, beside those that are shown."""
AGES_MAX = 200
"""Messages of which it is looked how old they are, of the largest lags first: their files may have to be opened."""
KEPT_MS = 1000


class Lag(NamedTuple):
    """Of one group in one topic.

    :ivar messages: stored and not consumed.
    :ivar in_flight: of these, given to consumers.
    :ivar oldest_ms: when the oldest of them was stored, ms since 1970; 0 without any, None where that is not known.
    :ivar oldest_ready_ms: likewise of those that were given to nobody.
    """

    group: str
    topic: str
    messages: int
    in_flight: int
    oldest_ms: int | None
    oldest_ready_ms: int | None

    @property
    def ready(self) -> int:
        """Given to nobody yet."""
        return self.messages - self.in_flight


class _Place(NamedTuple):
    queue_id: int
    consumed: int
    pulled: int
    end: int


class _Behind(NamedTuple):
    group: str
    topic: str
    messages: int
    in_flight: int
    places: list[_Place]


class Lags:
    """Those of one broker.

    :param now_ms: a clock that never goes back.
    :param store_busy: whether the store may not be touched now: then it is as it was.
    :ivar left_out: groups and topics that are not shown, as of the last look.
    """

    def __init__(
        self,
        offsets: ConsumerOffsets,
        store: MessageStore,
        now_ms: Callable[[], int],
        store_busy: Callable[[], bool],
    ) -> None:
        self.left_out = 0
        self._offsets = offsets
        self._store = store
        self._now_ms = now_ms
        self._store_busy = store_busy
        self._until_ms: int | None = None
        self._worst: list[str] = []
        self._begin = 0  # of the next look, in the table's order
        self._rows: list[Lag] = []

    def rows(self) -> list[Lag]:
        """The lags, by group and topic."""
        now_ms = self._now_ms()
        if (self._until_ms is None or now_ms >= self._until_ms) and not self._store_busy():
            self._until_ms = now_ms + KEPT_MS
            self._rows = self._look()
        return self._rows

    def _look(self) -> list[Lag]:
        committed = self._offsets.committed
        end = self._begin + LOOKED_AT_MAX
        looked_at = dict.fromkeys(itertools.islice(committed, self._begin, end))
        looked_at |= dict.fromkeys(key for key in self._worst if key in committed)
        self._begin = end if end < len(committed) else 0
        counted = ((self.messages(key), key) for key in looked_at)
        self._worst = [key for _, key in heapq.nlargest(SHOWN_MAX, counted, itemgetter(0))]
        worst = [self._behind(key, committed[key]) for key in self._worst]
        self.left_out = len(committed) - len(worst)
        looks = iter(range(AGES_MAX))
        return sorted(self._aged(each, looks) for each in worst)

    def largest(self) -> list[str]:
        """Keys of the table of offsets, the largest lag first, then by group and topic; as of the last look."""
        return [row.topic + SEPARATOR + row.group for row in sorted(self.rows(), key=lambda row: (-row.messages, row))]

    def messages(self, key: str) -> int:
        """How many a group has not consumed now; asked of all groups, so it makes nothing.

        :param key: of the table of offsets.
        """
        consumed = self._offsets.committed[key]
        queues = self._store.queues.queues.get(split_key(key)[0])
        messages = 0
        if queues is not None:
            for queue_id, offset in consumed.items():
                queue = queues.get(queue_id)
                if queue is not None:
                    behind = queue.next_offset - max(offset, queue.min_offset)
                    if behind > 0:
                        messages += behind
        return messages

    def _behind(self, key: str, consumed: dict[int, int]) -> _Behind:
        topic, group = split_key(key)
        queues, pulled = self._store.queues.queues.get(topic, {}), self._offsets.pulled.get(key, {})
        places, messages, in_flight = [], 0, 0
        for queue_id, offset in consumed.items():
            queue = queues.get(queue_id)
            if queue is None:
                continue
            begin = max(offset, queue.min_offset)
            end = queue.next_offset
            if begin >= end:
                continue
            given = min(max(pulled.get(queue_id, begin), begin), end)
            places.append(_Place(queue_id, begin, given, end))
            messages += end - begin
            in_flight += given - begin
        return _Behind(group, topic, messages, in_flight, places)

    def _aged(self, behind: _Behind, looks: Iterator[int]) -> Lag:
        oldest: list[int | None] = []
        ready: list[int | None] = []
        for place in behind.places:
            at_ms = self._stored_ms(behind.topic, place.queue_id, place.consumed, looks)
            oldest.append(at_ms)
            if place.pulled == place.consumed:
                ready.append(at_ms)
            elif place.pulled < place.end:
                ready.append(self._stored_ms(behind.topic, place.queue_id, place.pulled, looks))
        group, topic, messages, in_flight, _ = behind
        return Lag(group, topic, messages, in_flight, _first(oldest), _first(ready))

    def _stored_ms(self, topic: str, queue_id: int, offset: int, looks: Iterator[int]) -> int | None:
        if next(looks, None) is None:
            return None
        try:
            stored_ms = self._store.store_time_at(topic, queue_id, offset, Wait.OPEN)
        except (NotInMemory, DiskFailure, CorruptStore):
            return None
        return stored_ms if stored_ms > 0 else None


def _first(times_ms: list[int | None]) -> int | None:
    """The first of them; None where one is not known: it may be the first."""
    return None if None in times_ms else min((each for each in times_ms if each is not None), default=0)
