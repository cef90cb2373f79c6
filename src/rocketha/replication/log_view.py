"""The commit log as replication sees it: where it begins, where it ends, how far one file reaches.

Pure, and an interface only: whoever sends has the bytes fetched by who keeps the log, so that they need not pass
through here.  All offsets are physical offsets of the commit log, bytes.

Java: ``DefaultMessageStore.getCommitLogData``, ``getMaxPhyOffset``, ``getMinPhyOffset``.
"""

from __future__ import annotations

from typing import Protocol


class LogView(Protocol):
    """What a link may ask of a log."""

    @property
    def begin(self) -> int:
        """Offset of the first byte kept."""
        ...

    @property
    def end(self) -> int:
        """Offset after the last byte that may be replicated."""
        ...

    @property
    def file_size(self) -> int:
        """Bytes of one segment file; each begins at a multiple of it."""
        ...

    def readable(self, offset: int) -> int:
        """Bytes from ``offset`` to the end of its file, or of the log where that is nearer; 0 outside the log."""
        ...

    def part_of_record(self, offset: int, limit: int) -> bool:
        """Whether all between the two is a part of a record that begins at ``offset`` and ends behind ``limit``; True
        of nothing, False where it cannot be told.
        """
        ...


def last_file_start(log: LogView) -> int:
    """Where a slave begins that has nothing and wants the newest file only (S0.41, and every classic one)."""
    return max(log.begin, log.end - log.end % log.file_size)
