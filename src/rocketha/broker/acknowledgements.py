"""Answers to sends that wait for the disk.

Pure.  Theory of operation: under SYNC_FLUSH a send is answered once every byte of the log up to the end of its
message is on the disk. Ends only grow, so the waiters are a queue: one flush releases a prefix of it.  A waiter past
its deadline is answered FLUSH_DISK_TIMEOUT with the full success header (the message is stored, only not known to be
on the disk), as Java does.

Java: ``CommitLog.GroupCommitService``, ``FlushDiskWatcher``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Writer(Protocol):
    """The part of a connection an answer needs."""

    def write(self, data: bytes) -> None:
        """Whole frames to the peer."""


class Waiting(NamedTuple):
    """One unanswered send.

    ``end``: commitlog offset that must be on the disk; ``frame``: makes the answer from its code.
    """

    end: int
    deadline_ms: int
    connection: Writer
    frame: Callable[[int], bytes]


class Acknowledgements:
    """The sends that wait, in the order of their ends."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """One more; its end is not below those before it."""
        self._waiting.append(waiting)

    def flushed(self, offset: int) -> int:
        """The disk has everything below ``offset``: answer those it covers with success; how many."""
        waiting, count = self._waiting, 0
        while waiting and waiting[0].end <= offset:
            entry = waiting.popleft()
            entry.connection.write(entry.frame(0))
            count += 1
        return count

    def expired(self, now_ms: int, code: int) -> int:
        """Answer those past their deadline with ``code``; how many."""
        waiting, count = self._waiting, 0
        while waiting and waiting[0].deadline_ms <= now_ms:
            entry = waiting.popleft()
            entry.connection.write(entry.frame(code))
            count += 1
        return count

    def fail(self, code: int) -> int:
        """The disk failed: answer all with ``code``; how many."""
        count = len(self._waiting)
        while self._waiting:
            entry = self._waiting.popleft()
            entry.connection.write(entry.frame(code))
        return count
