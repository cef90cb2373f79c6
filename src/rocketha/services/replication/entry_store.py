"""The message log as what a member of a Raft group keeps.

Theory of operation.  The log is the broker's own (:mod:`rocketha.store.entry_log`): a follower writes what its leader
sends, a leader has written its messages before the core hears of them.  Whatever else has the store to itself, a cut or
a promotion, comes first (:meth:`EntryStore.way`), and so does a cut that entries need.

*What a member's acknowledgement says.*  Under SYNC_FLUSH that its disk has the entries: the flusher says when.  Under
ASYNC_FLUSH, as in Java, that its page cache has them: that outlives the process, not the machine.  Terms and votes are
on the disk in either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import DiskFailure
from rocketha.observe.events import LogTruncated
from rocketha.observe.logging import emit, make_logger
from rocketha.raft.messages import SnapshotMeta
from rocketha.services.core.log_changes import LogChanges
from rocketha.services.raft.commit_watch import CommitWatch
from rocketha.services.raft.store import Member
from rocketha.services.waiting.flusher import Flusher
from rocketha.store.entry_log import EntryLog


class EntryStore:
    """A :class:`~rocketha.services.raft.store.RaftStore`.

    :param end: where the log ends.
    :param synced: an acknowledgement means the disk, not the page cache.
    :param committed: called in the reactor with the last entry that is committed, and safe here, when that moved.
    """

    def __init__(
        self,
        log: EntryLog,
        end: Callable[[], int],
        changes: LogChanges,
        flusher: Flusher,
        synced: bool,
        committed: Callable[[int], None],
    ) -> None:
        self.log = log
        self._end = end
        self._changes = changes
        self._flusher = flusher
        self._is_synced = synced
        self._committed = committed
        self._applying: CommitWatch | None = None
        self._logger = make_logger()

    def open(self) -> defer.Deferred[None]:
        return self._changes.run(self.log.load)

    def way(self, index: int) -> defer.Deferred[None] | None:
        if self._changes.busy:
            return self._changes.idle()
        if not self.log.needs_cut(index):
            return None
        return self._changes.run(lambda: self.log.cut(index)).addCallback(self._cut)

    def _cut(self, lost: int) -> None:
        self._flusher.log_cut()
        if lost:
            emit(self._logger, LogTruncated(self._end(), lost, "the leader does not have them"))

    def sync(self) -> defer.Deferred[None] | None:
        if not self._is_synced:
            return None

        def on_disk(failure: Exception | None) -> None:
            if failure is not None:
                raise failure

        return self._flusher.on_disk(self._end()).addCallback(on_disk)

    def applying(self, member: Member) -> CommitWatch:
        # The log is not to be looked at while it is cut; who had that done goes on afterwards.
        self._applying = CommitWatch(self.log, member, lambda: self._changes.busy, self._install, self._committed)
        return self._applying

    def _install(self, meta: SnapshotMeta, data: bytes) -> defer.Deferred[None]:
        return self._changes.run(lambda: self.log.begin_at(meta, data)).addCallback(lambda _: self._flusher.log_cut())

    def close(self) -> defer.Deferred[Any]:
        applying = self._applying
        if applying is None:
            return self._changes.idle()
        commit = applying.commit
        return self._changes.run(lambda: self.log.save_committed(commit)).addErrback(self._not_saved)

    def _not_saved(self, failure: Failure) -> None:
        """Only Java's DLedger would read it."""
        failure.trap(DiskFailure)
        self._logger.warn("DLedger's checkpoint is not written: {why}", why=failure.getErrorMessage())
