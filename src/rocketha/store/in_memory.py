"""Reads that wait for no disk: what they lack is named, so that somebody else can fetch it first.

Pure.  Theory of operation: a reader that may not wait is told :class:`NotInMemory` and which parts of which files that
is about.  A thread reads those (:func:`fetch`) and throws them away: then they are in the page cache, and so is what
opening those files needs.  The reader asks again.  Nothing passes from the thread to the reader, so it does not matter
what became of the log meanwhile.  No counterpart in Java, where each reader has a thread.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Sequence
from typing import NamedTuple

from rocketha.errors import DiskFailure
from rocketha.store.disk import Disk

FETCH_BYTES = 1 << 20
"""Read at a time."""


class Wait(enum.Enum):
    """What a read may wait for."""

    NOTHING = "it is read if it is in memory, of a file that is open"
    OPEN = "the same, and its file may be opened: it was read a moment ago"
    ANYTHING = "it is read"


class Part(NamedTuple):
    """Bytes of a file."""

    path: str
    offset: int
    size: int


class NotInMemory(Exception):
    """A read would have to wait for the disk."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(f"{len(parts)} parts are not in memory, the first one of {parts[0]}")
        self.parts = tuple(parts)


def fetch(disk: Disk, parts: Sequence[Part]) -> None:
    """Have these in memory.  Blocking.

    What cannot be read whoever asked for it finds out, too.
    """
    for path, offset, size in parts:
        with contextlib.suppress(DiskFailure):
            file = disk.open(path)
            try:
                for start in range(offset, offset + size, FETCH_BYTES):
                    file.read(start, min(FETCH_BYTES, offset + size - start))
            finally:
                file.close()
