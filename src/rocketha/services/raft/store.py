"""What a member keeps: its log, and what becomes of what is committed.  The seam between the driver and a disk.

Two do it: :class:`~rocketha.services.raft.machine_store.MachineStore`, a log of its own with a state machine behind it,
and the message log of a broker, which is both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs
from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import DiskFailure
from rocketha.protocols.turn import Turn
from rocketha.raft.messages import Entry, HardState, SnapshotMeta
from rocketha.raft.node import RaftNode
from rocketha.raft.storage import LogStorage
from rocketha.services.raft.waiting import Waiters


class StoredLog(LogStorage, Protocol):
    """A log that can be written.

    :ivar failed: the failure after which nothing works any more; None while all is well.
    :ivar notes: what an operator may want to know of how it was found.
    """

    failed: DiskFailure | None
    notes: list[str]

    @property
    def voted(self) -> tuple[int, str]:
        """Term and vote as they are on the disk."""

    def save(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        """Write.  Term and vote are on the disk when this returns, the entries once they are synced.

        :raises DiskFailure: nothing was saved; unless ``failed`` says otherwise the same may be tried again.
        """


class Applying(Protocol):
    """What is done with committed entries.

    :ivar count: entries applied since the start.
    :ivar last_term: term of the newest one applied since the start.
    :ivar made: snapshots made since the start.
    :ivar received: snapshots received since the start.
    """

    count: int
    last_term: int

    @property
    def made(self) -> int: ...

    @property
    def received(self) -> int: ...

    def pending(self) -> bool:
        """Whether :meth:`run` has something to do."""

    def committed(self, entries: Sequence[Entry]) -> None:
        """Have them applied; none where the core hands out none."""

    def run(self) -> None:
        """Apply for a while, and tell the core."""

    def give_up(self) -> None:
        """A snapshot came that holds what is committed and not applied yet."""

    def install(self, meta: SnapshotMeta, data: bytes) -> defer.Deferred[None]:
        """Put a received snapshot in place of log and state; fires when both stand on it."""

    def skipped_to(self, meta: SnapshotMeta) -> None:
        """A snapshot took the place of everything up to ``meta.index``."""


@attrs.frozen
class Member:
    """The running member that a store belongs to.

    :ivar turn: of the connections that outcomes are answered on.
    :ivar compacted: called in the reactor when the log's snapshot or first entry has moved.
    :ivar broken: called when something failed that must not.
    """

    node: RaftNode
    waiters: Waiters
    turn: Turn
    compacted: Callable[[], None]
    broken: Callable[[Failure], None]


class RaftStore(Protocol):
    """See the module."""

    @property
    def log(self) -> StoredLog:
        """There once :meth:`open` fired."""

    def open(self) -> defer.Deferred[None]:
        """Fires when the log is recovered."""

    def way(self, index: int) -> defer.Deferred[None] | None:
        """Make way for entries from ``index`` on: fires when they can be saved.  None: they can be at once."""

    def sync(self) -> defer.Deferred[None] | None:
        """Fires when everything saved before this call is as safe as an acknowledgement says; None where it is."""

    def applying(self, member: Member) -> Applying:
        """Made once, when the core is."""

    def close(self) -> defer.Deferred[None]:
        """Nothing is asked any more: fires when the log is closed."""
