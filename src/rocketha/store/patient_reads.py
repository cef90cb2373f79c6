"""The store as requests read it: whoever runs a request says what it may wait for, the request itself does not.

Pure.  Theory of operation.  A request is run :meth:`PatientReads.waiting` for so much, and each of its reads waits for
no more: one that would have to raises :class:`~rocketha.store.in_memory.NotInMemory` through the request, which is run
again from the beginning when that was fetched.  So a request changes nothing before its last read that may not be
changed twice.  One that reads of many queues does so :meth:`PatientReads.together`: then a read that lacks something
has a stand-in for its result, the next ones go on, and what all of them lacked is named when the last one is done.
Queues are so fetched side by side, in as many tries as one of them takes.

Nothing else reads while a request is run, and outside of one anything is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rocketha.store.deleted_topics import DeletedTopics
from rocketha.store.in_memory import Lack, NotInMemory, Wait
from rocketha.store.message_store import MessageStore
from rocketha.wire.store_files import QueueUnit

T = TypeVar("T")


class PatientReads:
    """Of one store; each read is described there."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._wait = Wait.ANYTHING
        self._lacks: list[Lack] | None = None  # of those that are made together

    @contextmanager
    def waiting(self, wait: Wait) -> Iterator[None]:
        """What is read in here waits for no more.

        :raises NotInMemory: it would have to.
        """
        outer, self._wait = self._wait, wait
        try:
            yield
        finally:
            self._wait = outer

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is read in here is read side by side: nothing that follows from it may leave before the end.

        :raises NotInMemory: at the end; whatever else was raised may come of a stand-in.
        """
        lacks = self._lacks = []
        try:
            yield
        except Exception:
            if not lacks:
                raise
        finally:
            self._lacks = None
        if lacks:
            raise NotInMemory(tuple(dict.fromkeys(lacks)))

    def _read(self, read: Callable[[Wait], T], stand_in: T) -> T:
        try:
            return read(self._wait)
        except NotInMemory as lacking:
            if self._lacks is None:
                raise
            self._lacks += lacking.parts
            return stand_in

    # Reads of messages and of queues' entries

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Index that the next message of the queue gets."""
        return self._read(lambda wait: self._store.max_offset(topic, queue_id, wait), 0)

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        """The first index stored at or after a time, or with ``upper`` the last at or before it."""
        return self._read(lambda wait: self._store.offset_by_time(topic, queue_id, timestamp_ms, upper, wait), 0)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Store time of the queue's first readable message."""
        return self._read(lambda wait: self._store.earliest_time(topic, queue_id, wait), -1)

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of the message at an index."""
        return self._read(lambda wait: self._store.store_time_at(topic, queue_id, offset, wait), -1)

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """Log offset of the message at an index."""
        return self._read(lambda wait: self._store.physical_offset(topic, queue_id, offset, wait), -1)

    def earliest_message_time(self) -> int:
        """Store time of the first message of the log."""
        return self._read(self._store.earliest_message_time, -1)

    def message_at(self, physical_offset: int) -> bytes | None:
        """The record at a log offset."""
        return self._read(lambda wait: self._store.message_at(physical_offset, wait), None)

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[bytes]:
        """Whole records that have a key."""
        return self._read(lambda wait: self._store.query(topic, key, max_count, begin_ms, end_ms, wait), [])

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueUnit]:
        """Entries of a queue."""
        return self._read(lambda wait: self._store.entries(topic, queue_id, offset, count, wait), [])

    # What is known without a look at a file

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Smallest index still readable."""
        return self._store.min_offset(topic, queue_id)

    def topics(self) -> list[str]:
        """Topics that have queues, sorted."""
        return sorted(self._store.queues.queues)

    def queue_ids(self, topic: str) -> list[int]:
        """A topic's queues, sorted."""
        return sorted(self._store.queues.queues.get(topic, ()))

    @property
    def deleted_topics(self) -> DeletedTopics:
        """Those that were deleted while the log has records of them."""
        return self._store.deleted_topics

    def delete_topic(self, topic: str, below: int | None = None) -> None:
        """Forget a topic's queues, and void its records."""
        self._store.delete_topic(topic, below)

    def expire_soon(self, log: bool) -> None:
        """Look for what has expired with the next round of upkeep."""
        self._store.upkeep.expire_soon(log)

    @property
    def index_last_offset(self) -> int:
        """Log offset of the newest indexed record."""
        return self._store.index_last_offset

    @property
    def index_last_time(self) -> int:
        """Store time of the newest indexed record."""
        return self._store.index_last_time

    @property
    def max_physical_offset(self) -> int:
        """Offset behind the newest record."""
        return self._store.max_physical_offset

    @property
    def min_physical_offset(self) -> int:
        """Offset of the oldest byte kept."""
        return self._store.min_physical_offset

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the disk."""
        return self._store.flushed_offset
