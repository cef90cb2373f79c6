"""Which client of a group owns a queue, for orderly consumption.

Pure.  Theory of operation: an orderly consumer locks the queues it was allocated before it consumes them, and again
every 20 s.  A lock belongs to a client id; it ends when its owner unlocks it or 60 s after the owner last locked it.
Locks are not saved: after a restart the clients lock again.

Java: ``RebalanceLockManager``, ``LockBatchRequestBody``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import attrs

from rocketha.broker.names import CLIENT_ID_LENGTH_MAX, RETRY_TOPIC_LENGTH_MAX
from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_members
from rocketha.wire.codes import ResponseCode
from rocketha.wire.fields import refused

LOCK_MS = 60_000
BROKER_NAME_LENGTH_MAX = 255
QUEUES_MAX = 16_384
"""Queues in one request."""
LOCKS_MAX = 1_000_000
"""Locks of all groups together."""


class MessageQueue(NamedTuple):
    """A queue of one broker; the order of the fields is fastjson's."""

    broker_name: str
    queue_id: int
    topic: str

    def as_json(self) -> dict[str, Any]:
        """As fastjson writes it."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}


@attrs.frozen
class LockRequest:
    """The body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    group: str
    client_id: str
    queues: tuple[MessageQueue, ...]


@attrs.define(slots=True)
class _Lock:
    client_id: str
    locked_ms: int


def parse_lock_request(body: bytes) -> LockRequest:
    """The request of a body.

    :raises RemoteProtocolError: it is none.
    """
    value = json_members.json_object(body, "a lock request")
    group = json_members.text(value, "consumerGroup", "", RETRY_TOPIC_LENGTH_MAX)
    client_id = json_members.text(value, "clientId", length_max=CLIENT_ID_LENGTH_MAX)
    if not client_id:
        raise RemoteProtocolError("clientId is empty")
    return LockRequest(group, client_id, tuple(map(_queue, json_members.rows(value, "mqSet", QUEUES_MAX))))


def _queue(row: dict[str, Any]) -> MessageQueue:
    return MessageQueue(
        json_members.text(row, "brokerName", "", BROKER_NAME_LENGTH_MAX),
        json_members.integer(row, "queueId", 0),
        json_members.text(row, "topic", "", RETRY_TOPIC_LENGTH_MAX),
    )


class QueueLocks:
    """Locks by group and queue."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def lock(self, group: str, queues: Sequence[MessageQueue], client_id: str, now_ms: int) -> list[MessageQueue]:
        """Lock what is free, expired or one's own; the queues that ``client_id`` owns now, in the order asked.

        :raises RequestRefused: 1, there are too many locks.
        """
        locks = self._groups.setdefault(group, {})
        owned = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                if self._count >= LOCKS_MAX:
                    raise refused(f"this broker has {LOCKS_MAX} locks and takes no more", ResponseCode.SYSTEM_ERROR)
                locks[queue] = _Lock(client_id, now_ms)
                self._count += 1
            elif lock.client_id == client_id or now_ms - lock.locked_ms > LOCK_MS:
                lock.client_id, lock.locked_ms = client_id, now_ms
            else:
                continue
            owned.append(queue)
        if not locks:
            del self._groups[group]
        return owned

    def unlock(self, group: str, queues: Sequence[MessageQueue], client_id: str) -> None:
        """Free what ``client_id`` owns; anything else stays as it is."""
        locks = self._groups.get(group)
        if locks is None:
            return
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            del self._groups[group]

    def owner(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """The client that owns the queue, if its lock still counts."""
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or now_ms - lock.locked_ms > LOCK_MS else lock.client_id

    def any_held(self, group: str, now_ms: int) -> bool:
        """Whether a client of the group holds a lock that still counts (the group consumes in order)."""
        locks = self._groups.get(group)
        return locks is not None and any(now_ms - lock.locked_ms <= LOCK_MS for lock in locks.values())

    def expire(self, now_ms: int) -> int:
        """Forget locks that no longer count; how many.  It changes no answer, only memory."""
        dropped = 0
        for group in list(self._groups):
            locks = self._groups[group]
            for queue in [queue for queue, lock in locks.items() if now_ms - lock.locked_ms > LOCK_MS]:
                del locks[queue]
                dropped += 1
            if not locks:
                del self._groups[group]
        self._count -= dropped
        return dropped
