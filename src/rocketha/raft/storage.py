"""The log as the core sees it: what is stored, and how it is read.  Writing is the driver's.

Pure.  ``store/raft_log.py`` is the real one, ``raft/memory_storage.py`` the one of tests and of the simulator's models.
"""

from __future__ import annotations

from typing import Protocol

from rocketha.raft.messages import Entry, HardState, Members, SnapshotMeta
from rocketha.wire.raft_entries import Compacted as Compacted
from rocketha.wire.raft_entries import Unavailable as Unavailable


class LogStorage(Protocol):
    """What was saved (synced or not): all reads see every ``save`` before them."""

    def initial(self) -> tuple[HardState, Members]:
        """The saved hard state, and the members as of the snapshot (as configured at first start if there is none).

        Membership entries after it are those of :meth:`memberships`.
        """

    def memberships(self) -> list[Entry]:
        """The membership entries after the snapshot; asked once, when a node starts."""

    def first_index(self) -> int:
        """The first entry that can be read: at most one after the snapshot's; ``last_index() + 1`` if there is none."""

    def last_index(self) -> int:
        """The last entry stored; ``first_index() - 1`` if there is none."""

    def term(self, index: int) -> int:
        """The term of an entry; also of ``first_index() - 1`` (0 for index 0).

        :raises Compacted: before that.
        :raises Unavailable: after ``last_index()``.
        """

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries from ``low`` to before ``high``: at least one, then no more than ``max_bytes`` of data.

        Where they are runs, one may go on beyond ``high``, and be larger than ``max_bytes``.

        :raises Compacted: when ``low`` is before ``first_index()``.
        :raises Unavailable: when ``high`` is after ``last_index() + 1``.
        """

    def split(self, run: Entry, index: int) -> tuple[Entry, Entry]:
        """A run in two, the second of which begins with ``index``.  Not asked of a log without runs."""

    def snapshot(self) -> SnapshotMeta:
        """The newest snapshot; index and term are 0 if there is none."""

    def read_snapshot(self, offset: int, size: int, index: int | None = None) -> bytes:
        """Bytes of a snapshot (the newest, or that of ``index``) from ``offset``: ``size``, fewer only at its end.

        :raises Compacted: when that one is no longer kept.
        """
