"""The driver's writing side: what a Ready wants on the disk, and what waits until it is there.

What it must not know: the core's rules, connections, the state machine.

Theory of operation.  Saving is a buffered write in the reactor's thread; the sync that makes it last is the store's,
and runs in another.  While one sync runs further saves gather, and one sync then covers all of them (group commit).  A
save that fails leaves the log as it was and is tried again once a second.  A sync that fails is final, because nobody
can say what of it reached the disk: the process must end.  A sync that takes long is reported, so that a node whose
disk crawls does not lead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.python.failure import Failure

from rocketha.raft.messages import Entry, HardState, Message
from rocketha.services.raft.store import RaftStore
from rocketha.services.waiting.blocking import Underway


class RaftJournal:
    """Saves and syncs.

    :param synced: called in the reactor with index and term of the last entry now on disk, and what waited for it.
    :param failed: called when a sync failed.
    :ivar syncs: how many were made.
    :ivar over: set when the service leaves: no sync is begun any more.
    :ivar syncing_since: the tick at which the present sync began; None while there is none.
    """

    def __init__(
        self,
        store: RaftStore,
        synced: Callable[[int, int, list[Message]], None],
        failed: Callable[[Failure], None],
    ) -> None:
        self.syncs = 0
        self.syncing_since: int | None = None
        self.over = False
        self.underway = Underway()
        self._store = store
        self._synced = synced
        self._failed = failed
        self._unsynced = False
        self._after: list[Message] = []

    def save(self, hard_state: HardState | None, entries: Sequence[Entry], after: Sequence[Message]) -> None:
        """Write.  Term and vote are on the disk when this returns; the messages wait until the entries are.

        :raises DiskFailure: nothing was saved; unless ``log.failed`` says otherwise the same may be tried again.
        """
        self._store.log.save(hard_state, entries)
        if entries:
            self.written()
        self._after += after

    def written(self) -> None:
        """There are entries to sync."""
        self._unsynced = True

    def kick(self, tick: int) -> None:
        """Everything of this turn is saved: sync it, unless a sync is under way."""
        if self.syncing_since is not None or not self._unsynced or self.over:
            return
        after, self._after = self._after, []
        self._unsynced = False
        log = self._store.log
        index = log.last_index()
        term = log.term(index)
        running = self._store.sync()
        self.syncs += 1
        if running is None:
            self._synced(index, term, after)
            return
        self.syncing_since = tick
        self.underway.add(running)
        running.addCallbacks(self._done, self._broken, callbackArgs=(index, term, after))

    def _done(self, result: Any, index: int, term: int, after: list[Message]) -> None:
        self.syncing_since = None
        self._synced(index, term, after)

    def _broken(self, failure: Failure) -> None:
        # syncing_since stays: no other sync is ever begun.
        self._failed(failure)
