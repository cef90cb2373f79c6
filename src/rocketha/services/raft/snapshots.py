"""Snapshots of the state machine: made now and then, so that the log stays short; installed when one is received.

What it must not know: the core's rules, connections.

Theory of operation.  After so many entries or bytes the state as of the last applied entry is written in a thread of
its own and becomes the log's snapshot; entries before it are dropped, but for a margin that lets a follower which was
away shortly catch up without a snapshot.  A state machine that can give an immutable copy (``freeze``) is encoded in
that thread too.  A failure is logged and tried again later: a snapshot is never needed to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.observe.logging import emit_disk_failure, make_logger
from rocketha.raft.messages import SnapshotMeta
from rocketha.services.waiting.blocking import BlockingWork, Underway
from rocketha.store.raft_log import RaftLog

READ_BYTES = 1 << 20


class Savable(Protocol):
    """The state machine's side."""

    def save(self) -> bytes:
        """Everything applied so far.

        A machine may have ``freeze()`` besides, which returns at once a call that makes the same bytes later, in
        another thread, of the state as it is now.
        """

    def restore(self, data: bytes) -> None:
        """Be what :meth:`save` said."""


class RaftSnapshots:
    """Makes and installs snapshots.

    :param work: runs one thing at a time.
    :param entries: between two snapshots, at most about.
    :param size: bytes of entries between two snapshots, at most about.
    :param margin: entries kept before a snapshot.
    :param installed: called in the reactor when the log's snapshot or first entry has moved.
    :param failed: called when something failed that must not.
    """

    def __init__(
        self,
        log: RaftLog,
        machine: Savable,
        work: BlockingWork,
        entries: int,
        size: int,
        margin: int,
        installed: Callable[[], None],
        failed: Callable[[Failure], None],
    ) -> None:
        self.log = log
        self.made = self.received = 0
        self.underway = Underway()
        self._machine = machine
        self._work = work
        self._entries = entries
        self._size = size
        self._margin = margin
        self._installed = installed
        self._failed = failed
        self._bytes = 0  # applied since the last one
        self._making = False
        self._not_before = 0  # entry; after a failure
        self._log = make_logger()

    def restore(self) -> int:
        """At the start: put the state machine on the log's snapshot; its index."""
        meta = self.log.snapshot()
        if meta.index:
            data, offset = [], 0
            while piece := self.log.read_snapshot(offset, READ_BYTES, meta.index):
                data.append(piece)
                offset += len(piece)
            self._machine.restore(b"".join(data))
        return meta.index

    def applied(self, size: int) -> None:
        """Entries of so many bytes were applied."""
        self._bytes += size

    def due(self, applied: int) -> bool:
        """Whether one should be made of the state after entry ``applied``."""
        if self._making or applied < self._not_before:
            return False
        since = applied - self.log.snapshot().index
        return since >= self._entries or (self._bytes >= self._size and since > 0)

    def make(self, meta: SnapshotMeta) -> defer.Deferred[None]:
        """Make one of the present state, which is that after ``meta.index``."""
        self._making = True
        self._bytes = 0
        freeze = getattr(self._machine, "freeze", None)
        encode: Callable[[], bytes]
        if freeze is not None:
            encode = cast("Callable[[], bytes]", freeze())
        else:
            data = self._machine.save()
            encode = lambda: data  # noqa: E731

        running = self._work.run(lambda: self.log.write_snapshot(meta, encode()))
        self.underway.add(running)
        running.addCallback(self._written, meta)
        running.addErrback(self._not_made, meta)
        return running

    def _written(self, result: Any, meta: SnapshotMeta) -> None:
        self._making = False
        if meta.index <= self.log.snapshot().index:
            return  # a newer one was received meanwhile
        self.log.install_snapshot(meta)
        self.log.compact(max(0, meta.index - self._margin))
        self.made += 1
        self._installed()

    def _not_made(self, failure: Failure, meta: SnapshotMeta) -> None:
        self._making = False
        self._not_before = meta.index + self._entries // 4 + 1
        if not emit_disk_failure(self._log, failure.value):
            self._failed(failure)
            return
        self._log.error("a snapshot could not be made: {why}", why=failure.getErrorMessage())

    def install(self, meta: SnapshotMeta, data: bytes) -> defer.Deferred[None]:
        """Put a received one in place of log and state; fires when both stand on it."""
        running = self._work.run(lambda: self.log.write_snapshot(meta, data))
        self.underway.add(running)
        running.addCallback(self._received, meta, data)
        return running

    def _received(self, result: Any, meta: SnapshotMeta, data: bytes) -> None:
        self.log.install_snapshot(meta)
        self._machine.restore(data)
        self._bytes = 0
        self.received += 1
