"""The confirm offset: up to where the log is on every member of the SyncStateSet, and consumers may read.

Pure.  Invariant: it never goes back, except by a cut of the log below it.  It is kept in the store's checkpoint.

Java: ``CommitLog.confirmOffset``, ``AutoSwitchHAClient`` (which lets it go back whenever its master says so).
"""

from __future__ import annotations


class ConfirmOffset:
    """One replica's, whatever its role; it survives changes of role.

    :param stored: what the checkpoint had, clamped to the log's end as it is after recovery (regressions A8, C12).
    """

    __slots__ = ("offset",)

    def __init__(self, stored: int = 0, log_end: int = 0) -> None:
        self.offset = max(0, min(stored, log_end))

    def advance(self, offset: int, log_end: int) -> bool:
        """It is known up to ``offset``, as a master computes it or a slave's master says; whether that is news.

        Never beyond the own log's end.  Negative ones say nothing: Java's before it computed its first.
        """
        offset = min(offset, log_end)
        if offset <= self.offset:
            return False
        self.offset = offset
        return True

    def truncated(self, log_end: int) -> bool:
        """The log was cut; whether confirmed bytes were, which an unclean election alone excuses."""
        if log_end >= self.offset:
            return False
        self.offset = log_end
        return True
