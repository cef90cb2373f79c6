"""Pulls that found nothing and wait for a message.

Pure.  Theory of operation: a held pull is woken by the first message of its queue whose tags code it accepts, and
runs once more without waiting again; at its deadline it runs once more too.  Deadlines are kept in a heap, so that
the service needs one timer for all.  One that was woken while its connection has too much to take is put off: nothing
wakes it, and each look at those of a connection costs the same, however many there are.

Java: ``PullRequestHoldService``, ``ManyPullRequest`` (which looks every 5 s, so that its waits are rounded up).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

import attrs

from rocketha.wire.remoting import Command

HELD_MAX = 200_000
HELD_PER_CONNECTION_MAX = 8192


@attrs.define(slots=True, eq=False)
class HeldPull:
    """One waiting pull; ``woken`` is set once it is out of the table."""

    connection: Any
    command: Command
    topic: str
    queue_id: int
    offset: int
    accepts: Callable[[int], bool] | None
    deadline_ms: int
    woken: bool = False


class HeldPulls:
    """All waiting pulls by queue."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], dict[HeldPull, None]] = {}  # the values as an ordered set
        self._connections: dict[int, dict[HeldPull, None]] = {}
        self._put_off: dict[int, deque[HeldPull]] = {}  # by connection; none is empty
        self._deadlines: list[tuple[int, int, HeldPull]] = []
        self._sequence = 0
        self.count = 0  # with those put off

    def hold(self, pull: HeldPull) -> bool:
        """Let a pull wait; False when too many do."""
        if not self._has_place(pull.connection.id):
            return False
        self._connections.setdefault(pull.connection.id, {})[pull] = None
        self._queues.setdefault((pull.topic, pull.queue_id), {})[pull] = None
        self._sequence += 1
        heapq.heappush(self._deadlines, (pull.deadline_ms, self._sequence, pull))
        self.count += 1
        return True

    def put_off(self, pull: HeldPull) -> bool:
        """Let one that was woken wait until its connection has room; False when too many wait."""
        if not self._has_place(pull.connection.id):
            return False
        self._put_off.setdefault(pull.connection.id, deque()).append(pull)
        self.count += 1
        return True

    @property
    def any_put_off(self) -> bool:
        """Whether one is."""
        return bool(self._put_off)

    def taken_up(self, has_room: Callable[[Any], bool]) -> Iterator[HeldPull]:
        """Those put off, oldest first, as long as their connection has room; each waits no more when it is given."""
        for number in list(self._put_off):
            waiting = self._put_off.get(number)
            while waiting and has_room(waiting[0].connection):
                pull = waiting.popleft()
                self.count -= 1
                if not waiting:
                    del self._put_off[number]
                yield pull

    def _has_place(self, connection_id: int) -> bool:
        own = len(self._connections.get(connection_id, ())) + len(self._put_off.get(connection_id, ()))
        return self.count < HELD_MAX and own < HELD_PER_CONNECTION_MAX

    def arrived(self, topic: str, queue_id: int, tags_code: int) -> list[HeldPull]:
        """A message came: the pulls it wakes."""
        waiting = self._queues.get((topic, queue_id))
        if not waiting:
            return []
        woken = [pull for pull in waiting if pull.accepts is None or pull.accepts(tags_code)]
        for pull in woken:
            self._release(pull)
        return woken

    def topics_changed(self, topics: Collection[str]) -> list[HeldPull]:
        """Topics were deleted or changed: every pull of them runs once more and gets its answer."""
        woken = [pull for (name, _), waiting in self._queues.items() if name in topics for pull in waiting]
        for pull in woken:
            self._release(pull)
        return woken

    def behind(self, max_offset: Callable[[str, int], int]) -> list[HeldPull]:
        """Queues grew without saying which: the pulls whose queue reaches beyond their offset now.

        :param max_offset: of a topic and queue id.
        """
        woken = []
        for (topic, queue_id), waiting in self._queues.items():
            end = max_offset(topic, queue_id)
            woken += [pull for pull in waiting if pull.offset < end]
        for pull in woken:
            self._release(pull)
        return woken

    def all(self) -> list[HeldPull]:
        """Every waiting pull, which waits no more."""
        woken = [pull for waiting in self._queues.values() for pull in waiting]
        for pull in woken:
            self._release(pull)
        return woken

    def due(self, now_ms: int) -> list[HeldPull]:
        """The pulls whose time is up."""
        deadlines, result = self._deadlines, []
        while deadlines and (deadlines[0][2].woken or deadlines[0][0] <= now_ms):
            pull = heapq.heappop(deadlines)[2]
            if not pull.woken:
                self._release(pull)
                result.append(pull)
        if len(deadlines) > 2 * self.count + 1000:
            # Woken pulls stay in the heap until their time; a busy queue would let it grow.
            self._deadlines = [entry for entry in deadlines if not entry[2].woken]
            heapq.heapify(self._deadlines)
        return result

    def next_deadline_ms(self) -> int | None:
        """When :meth:`due` has something next."""
        return self._deadlines[0][0] if self._deadlines else None

    def waits_for(self, connection_id: int) -> bool:
        """Whether a pull of this connection waits."""
        return bool(self._connections.get(connection_id)) or connection_id in self._put_off

    def disconnected(self, connection_id: int) -> None:
        """A connection is gone: its pulls wait no more."""
        for pull in list(self._connections.get(connection_id, ())):
            self._release(pull)
        put_off = self._put_off.pop(connection_id, None)
        if put_off is not None:
            self.count -= len(put_off)
            put_off.clear()

    def _release(self, pull: HeldPull) -> None:
        pull.woken = True
        self.count -= 1
        key = pull.topic, pull.queue_id
        waiting = self._queues[key]
        del waiting[pull]
        if not waiting:
            del self._queues[key]
        own = self._connections[pull.connection.id]
        del own[pull]
        if not own:
            del self._connections[pull.connection.id]
