"""The driver's applying side: committed entries to the state machine, outcomes to who waits for them.

What it must not know: the disk, connections.

Theory of operation.  Entries go to the machine in batches, for some milliseconds a turn, so that a long backlog does
not keep heartbeats waiting.  Answers to all outcomes of a turn leave together.  A snapshot is made between two batches,
when the state is exactly that after the last applied entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from twisted.internet import defer

from rocketha.raft.messages import Entry, EntryKind, Members, SnapshotMeta
from rocketha.services.raft.options import RaftOptions
from rocketha.services.raft.snapshots import RaftSnapshots, Savable
from rocketha.services.raft.store import Member


class StateMachine(Savable, Protocol):
    """What the group replicates.  May have ``freeze``, see :class:`Savable`."""

    def apply(self, entries: Sequence[Entry]) -> Sequence[object]:
        """Apply entries (of kind NORMAL only), in order; one outcome for each.  Must not fail: it ends the process."""


class Applier:
    """Applies what is committed; an :class:`~rocketha.services.raft.store.Applying`.

    :param seconds: a clock.
    """

    def __init__(
        self,
        member: Member,
        machine: StateMachine,
        snapshots: RaftSnapshots,
        options: RaftOptions,
        seconds: Callable[[], float],
    ) -> None:
        self._todo: deque[Entry] = deque()  # committed and not applied yet
        self.count = 0
        self.last_term = 0
        self._node = member.node
        self._machine = machine
        self._snapshots = snapshots
        waiters = member.waiters
        self._proposals, self._barriers, self._changes = waiters.proposals, waiters.barriers, waiters.changes
        self._options = options
        self._turn = member.turn
        self._seconds = seconds

    @property
    def made(self) -> int:
        return self._snapshots.made

    @property
    def received(self) -> int:
        return self._snapshots.received

    def pending(self) -> bool:
        return bool(self._todo)

    def committed(self, entries: Sequence[Entry]) -> None:
        self._todo.extend(entries)

    def run(self) -> None:
        seconds, node, turn = self._seconds, self._node, self._turn
        until_s = seconds() + self._options.apply_s
        outermost = not turn.active
        turn.active = True
        try:
            while self._todo:
                self._batch()
                if self._snapshots.due(node.applied):
                    self._snapshots.make(node.snapshot_meta(node.applied))
                if seconds() > until_s:
                    break
        finally:
            if outermost:
                turn.end()

    def _batch(self) -> None:
        todo = self._todo
        batch = [todo.popleft() for _ in range(min(len(todo), self._options.apply_entries))]
        normal = [entry for entry in batch if entry.kind == EntryKind.NORMAL]
        if normal:
            outcomes = self._machine.apply(normal)
            self._snapshots.applied(sum(len(entry.data) for entry in normal))
            self._proposals.applied(normal, outcomes)
        if len(normal) < len(batch):
            for entry in batch:
                if entry.kind != EntryKind.NORMAL:
                    self._proposals.superseded(entry.index)
                if entry.kind == EntryKind.MEMBERSHIP:
                    self._changes.applied(entry.index, Members.decode(entry.data))
        self.count += len(batch)
        self._node.applied_to(batch[-1].index)
        self._barriers.applied(batch[-1].index)
        self.last_term = batch[-1].term

    def give_up(self) -> None:
        self._todo.clear()

    def install(self, meta: SnapshotMeta, data: bytes) -> defer.Deferred[None]:
        return self._snapshots.install(meta, data)

    def skipped_to(self, meta: SnapshotMeta) -> None:
        self._changes.applied(meta.index, meta.members)
        self._barriers.applied(meta.index)
