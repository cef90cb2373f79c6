"""What is done with committed entries where nothing is applied: who waits for them is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from twisted.internet import defer

from rocketha.raft.messages import Entry, Members, SnapshotMeta
from rocketha.services.raft.store import Member


class WatchedLog(Protocol):
    """What is asked of the log."""

    def term(self, index: int) -> int:
        """Of an entry that is committed."""

    def memberships(self, behind: int | None = None, last: int = ...) -> list[Entry]:
        """The membership entries behind one, up to another."""


class CommitWatch:
    """An :class:`~rocketha.services.raft.store.Applying` for a log that is its own state machine, or needs none.

    :param busy: whether the log is not to be looked at.
    :param install: has the log begin behind a snapshot.
    :param told: called in the reactor with the last entry that is committed, and safe here, when that moved.
    """

    def __init__(
        self,
        log: WatchedLog,
        member: Member,
        busy: Callable[[], bool],
        install: Callable[[SnapshotMeta, bytes], defer.Deferred[None]],
        told: Callable[[int], None],
    ) -> None:
        self.count = 0
        self.last_term = 0
        self.made = 0
        self.received = 0
        self.install = install
        self._log = log
        self._busy = busy
        self._node = member.node
        self._barriers, self._operators = member.waiters.barriers, member.waiters.changes
        self._told = told

    @property
    def commit(self) -> int:
        """The last entry that is committed, and safe here."""
        return self._node.applied

    def pending(self) -> bool:
        return self._node.released > self._node.applied and not self._busy()

    def committed(self, entries: Sequence[Entry]) -> None:
        """None are handed out."""

    def run(self) -> None:
        node = self._node
        index, before = node.released, node.applied
        self.count += index - before
        self.last_term = self._log.term(index)
        node.applied_to(index)
        self._barriers.applied(index)
        for entry in self._log.memberships(before, index):
            self._operators.applied(entry.index, Members.decode(entry.data))
        self._told(index)

    def give_up(self) -> None:
        """Nothing waits to be applied."""

    def skipped_to(self, meta: SnapshotMeta) -> None:
        self.received += 1
        self._operators.applied(meta.index, meta.members)
        self._barriers.applied(meta.index)
