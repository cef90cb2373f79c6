"""A queue of a system topic, read by position by the broker itself: the levels of delayed messages, and what else
keeps its work in messages.

Pure.  Nobody else waits for the disk.  Whoever reads does a piece of work that may be begun again from its beginning
(:meth:`QueueReader.attempt`); what that lacks is fetched by a thread, and then it is done again.  How far the work has
come is for its owner to keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rocketha.errors import RockethaError
from rocketha.store.in_memory import NotInMemory, Tries, Wait, Wanted
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetResult
from rocketha.wire import record

BATCH_BYTES = 4 * 1024 * 1024


class Fetch(Protocol):
    """As :meth:`rocketha.services.waiting.fetches.Fetches.begin`."""

    def __call__(self, tries: Tries, go_on: Callable[[int], None], wanted: Wanted) -> None: ...


class QueueReader:
    """One queue.

    :param fetch: has what is not in memory fetched.
    :ivar fetching: it waits for that.
    """

    def __init__(self, store: MessageStore, topic: str, queue_id: int, fetch: Fetch) -> None:
        self.fetching = False
        self._store = store
        self._topic = topic
        self._queue_id = queue_id
        self._fetch = fetch
        self._tries = Tries()

    @property
    def begin(self) -> int:
        """Queue offset of the oldest message."""
        return self._store.min_offset(self._topic, self._queue_id)

    @property
    def end(self) -> int:
        """Queue offset behind the newest message in the log, readable or not."""
        queue = self._store.queues.get(self._topic, self._queue_id)
        return 0 if queue is None else queue.next_offset

    @property
    def wait(self) -> Wait:
        """What reads for the present piece of work may wait for."""
        return self._tries.wait

    def get(self, offset: int, count: int) -> GetResult:
        """Messages from a queue offset on.

        :raises NotInMemory: for :meth:`attempt`.
        """
        return self._store.get(self._topic, self._queue_id, offset, count, BATCH_BYTES, None, self.wait)

    def message(self, offset: int) -> record.Record | None:
        """The one at a queue offset; None if there is no good one.

        :raises NotInMemory: for :meth:`attempt`.
        """
        found = self.get(offset, 1)
        try:
            return record.decode(bytes(found.buffers[0])) if found.buffers else None
        except RockethaError:
            return None

    def came_further(self) -> None:
        """A piece of work is done: what the next one lacks is something else."""
        self._tries = Tries()

    def attempt(self, work: Callable[[], None]) -> bool:
        """Do a piece of work; False: it lacks what is not in memory, and did nothing that counts.  Then :meth:`fetch`.

        :raises Exception: also why what was lacked before could not be fetched.
        """
        try:
            work()
        except NotInMemory as lacks:
            parts = lacks.parts
        else:
            return True
        self._tries.lacked(parts)
        return False

    def fetch(self, again: Callable[[int], None], wanted: Wanted) -> None:
        """Have what was lacked fetched.

        :param again: told the time in ms when it is there, or could not be had.
        :param wanted: whether anybody waits for it still.
        """

        def fetched(now_ms: int) -> None:
            self.fetching = False
            again(now_ms)

        self.fetching = True
        self._fetch(self._tries, fetched, wanted)
