"""Reads that wait for no disk: what they lack is named, so that somebody else can fetch it first.

Pure.  Theory of operation: a reader that may not wait is told :class:`NotInMemory` and which parts of which files that
is about.  A thread reads those (:func:`fetch`) and throws them away: then they are in the page cache, and so is what
opening those files needs.  The reader asks again, from the beginning, and may lack the next part, which only the former
one names: a queue's entries, then the messages; each step of a search (:class:`Tries`).  Nothing that was read passes
from the thread to the reader, so it does not matter what became of the log meanwhile.  No counterpart in Java, where
each reader has a thread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.store.disk import Disk, File
from rocketha.wire.record import RECORD_BYTES_MAX

FETCH_BYTES = 1 << 20
"""Read at a time."""
RECORD_FETCH_BYTES = 4096
"""Of a record whose size is not known: most are shorter."""
IN_VAIN_MAX = 2
"""What is gone from memory again after so many times is read where it is needed; some file systems keep nothing."""
TRIES_MAX = 100
"""So is anything after so many: a search of the longest queue has 40 steps, each of an entry and of its message."""

Wanted = Callable[[], bool]
"""Whether anybody waits for it still; asked in the thread."""


class Wait(enum.Enum):
    """What a read may wait for."""

    NOTHING = "it is read if it is in memory, of a file that is open"
    OPEN = "the same, and its file may be opened: it was read a moment ago"
    ANYTHING = "it is read"


class Lack(Protocol):
    """Something of a file that is not in memory.  Equal ones are of the same bytes."""

    @property
    def path(self) -> str:
        """The file."""

    def fetch(self, file: File, wanted: Wanted) -> None:
        """Read it, and what is found by reading it.  Blocking; ends early when it is not wanted any more."""

    def __hash__(self) -> int: ...


class Part(NamedTuple):
    """Bytes of a file."""

    path: str
    offset: int
    size: int

    def fetch(self, file: File, wanted: Wanted) -> None:
        start, end = self.offset, self.offset + self.size
        while start < end and wanted():
            file.read(start, min(FETCH_BYTES, end - start))
            start += FETCH_BYTES


class RecordPart(NamedTuple):
    """A record of the log, which says itself how long it is."""

    path: str
    offset: int

    def fetch(self, file: File, wanted: Wanted) -> None:
        head = file.read(self.offset, RECORD_FETCH_BYTES)
        size = int.from_bytes(head[:4], "big")
        if len(head) < size <= RECORD_BYTES_MAX:
            Part(self.path, self.offset, size).fetch(file, wanted)


class NotInMemory(Exception):
    """A read would have to wait for the disk."""

    def __init__(self, parts: Sequence[Lack]) -> None:
        super().__init__(f"{len(parts)} parts are not in memory, the first one of {parts[0]}")
        self.parts = tuple(parts)


def fetch(disk: Disk, parts: Sequence[Lack], wanted: Wanted) -> dict[Lack, Exception]:
    """Have these in memory.  Blocking.

    :returns: those that could not be read, and why.
    """
    failed: dict[Lack, Exception] = {}
    for part in parts:
        if not wanted():
            break
        try:
            file = disk.open(part.path)
            try:
                part.fetch(file, wanted)
            finally:
                file.close()
        except (DiskFailure, CorruptStore) as failure:
            failed[part] = failure
    return failed


class Tries:
    """Of one read that is tried until it lacks nothing.

    :ivar parts: what it lacked the last time.
    """

    __slots__ = ("_count", "_failed", "_fetched", "_in_vain", "parts")

    def __init__(self) -> None:
        self.parts: Sequence[Lack] = ()
        self._fetched: set[Lack] = set()
        self._failed: Mapping[Lack, Exception] = {}
        self._count = self._in_vain = 0

    @property
    def wait(self) -> Wait:
        """What it may wait for the next time."""
        if self._in_vain >= IN_VAIN_MAX or self._count >= TRIES_MAX:
            return Wait.ANYTHING
        return Wait.OPEN if self._count else Wait.NOTHING

    def lacked(self, parts: Sequence[Lack]) -> None:
        """It was tried, and lacks these.

        :raises Exception: why one of them could not be fetched; a file that is gone since is lacked by nobody.
        """
        for part in parts:
            if part in self._failed:
                raise self._failed[part]
        self._in_vain += not self._fetched.isdisjoint(parts)
        self._fetched.update(parts)
        self._count += 1
        self.parts = parts

    def fetched(self, failed: Mapping[Lack, Exception]) -> None:
        """They were, but for these."""
        self._failed = failed
