"""Group commit: one flush at a time, everything that waits goes with the next.

Theory of operation.  While a flush is on its way to the disk, appends and their waiters collect; when it returns, the
waiters it covers are answered and, if others wait, the next one starts.  So the number of ``fdatasync`` calls follows
the disk, not the senders.  Under ASYNC_FLUSH a clock starts it.  A failed flush is final: the store refuses writes
from then on and sends replicas only what is on the disk, and every waiter is told.  Where a flush could not open what
it was to sync, nothing has failed: those who wait go on waiting, and the clock begins the next one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.errors import DiskFailure, NotOpened
from rocketha.observe.logging import emit_disk_failure, make_logger
from rocketha.services.waiting.blocking import BlockingWork, exception_of
from rocketha.store.message_store import MessageStore

SLOW_SYNC_S = 0.5
"""A disk that needs longer keeps senders waiting who have a sync in their acknowledgement."""


class Flusher:
    """Keeps a store's log on the disk.

    :param as_turn: does work as one turn, so that the answers of one flush leave together.
    :param seconds: a clock that never goes back.
    :ivar syncing_since_s: when the present sync began, by that clock; None while there is none.
    :ivar slow_sync: how long the last one took that took longer than :data:`SLOW_SYNC_S`, and when it ended.
    :ivar paused: nothing is begun: the log is about to be cut.
    """

    def __init__(
        self,
        store: MessageStore,
        waiting: Acknowledgements,
        work: BlockingWork,
        as_turn: Callable[[Callable[[], None]], None],
        seconds: Callable[[], float],
    ) -> None:
        self._store = store
        self._waiting = waiting
        self._work = work
        self._as_turn = as_turn
        self._running: defer.Deferred[Any] | None = None
        self._idle: list[defer.Deferred[None]] = []
        self._wanted: list[tuple[int, defer.Deferred[Exception | None]]] = []
        self._log = make_logger()
        self.paused = False
        self._watchers: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.count = 0
        self.syncing_since_s: float | None = None
        self.slow_sync: tuple[float, float] | None = None
        self._seconds = seconds
        self._starved = False  # and said so

    def watch(self, synced: Callable[[], None], failed: Callable[[], None]) -> None:
        """Tell of the log.

        :param synced: more of it is on the disk.
        :param failed: no more of it will be; told before those who wait.
        """
        self._watchers.append((synced, failed))

    def on_disk(self, offset: int) -> defer.Deferred[Exception | None]:
        """Fires when the log is on the disk up to there, with None, or with why it will not be."""
        if offset <= self._store.flushed_offset:
            return defer.succeed(None)
        log = self._store.log
        if log.broken is not None and not self._store.unfinished_cut:
            return defer.succeed(DiskFailure(log.segments.directory, "sync", errno.EIO, log.broken))
        waiter: defer.Deferred[Exception | None] = defer.Deferred()
        self._wanted.append((offset, waiter))
        self.kick()
        return waiter

    def log_cut(self) -> None:
        """The log ends earlier than it did: who waits for what was behind waits for no more than is there."""
        end = self._store.log.end
        self._wanted = [(min(offset, end), waiter) for offset, waiter in self._wanted]
        self._tell_wanted(None)

    def _tell_wanted(self, failure: Exception | None) -> None:
        flushed, wanted = self._store.flushed_offset, self._wanted
        done = [waiter for offset, waiter in wanted if failure is not None or offset <= flushed]
        self._wanted = [(offset, waiter) for offset, waiter in wanted if failure is None and offset > flushed]
        for waiter in done:
            waiter.callback(failure)

    def kick(self) -> None:
        """Something waits for the disk, or it is time: flush unless a flush is under way."""
        if self._running is not None or self.paused:
            return
        job = self._store.flush_job()
        if job is None:
            self._answer_waiting()
            return
        self.count += 1
        self.syncing_since_s = self._seconds()
        running = self._running = self._work.run(job.run)
        running.addBoth(self._done, job).addErrback(self._crashed)

    def _done(self, result: Any, job: Any) -> None:
        began_s, now_s = self.syncing_since_s, self._seconds()
        self._running = self.syncing_since_s = None
        if began_s is not None and now_s - began_s >= SLOW_SYNC_S:
            self.slow_sync = now_s - began_s, now_s
        failure = exception_of(result)
        self._store.finished(job, failure)
        if isinstance(failure, NotOpened):
            if not self._starved:
                self._log.error("the commit log can not be flushed now, it is tried again: {why}", why=str(failure))
            self._starved = True
        elif failure is not None:
            self._log.critical(
                "the commit log can not be flushed, no more messages are taken, and what lies between {flushed} and"
                " {end} is copied to nobody until a new start has looked at it: {why}",
                flushed=self._store.flushed_offset,
                end=self._store.max_physical_offset,
                why=str(failure),
            )
            emit_disk_failure(self._log, failure)
            for _, failed in self._watchers:
                failed()
            self._tell_wanted(failure)
            self._as_turn(self._fail)
        else:
            self._starved = False
            self._tell_wanted(None)
            self._answer_waiting()
            for synced, _ in self._watchers:
                synced()
            if began_s is not None:
                self._waiting.latencies.syncs.observe(now_s - began_s)
            if self._wanted or (self._waiting.sync_flush and len(self._waiting)):
                self.kick()
        if self._running is None:
            idle, self._idle = self._idle, []
            for waiter in idle:
                waiter.callback(None)
        if failure is not None and not isinstance(failure, DiskFailure):
            result.raiseException()

    def _answer_waiting(self) -> None:
        if len(self._waiting):
            self._as_turn(self._answer)

    def _answer(self) -> None:
        self._waiting.flushed(self._store.flushed_offset)

    def _fail(self) -> None:
        self._waiting.disk_failed()

    def _crashed(self, failure: Failure) -> None:
        self._log.critical("flush: {trace}", trace=failure.getTraceback())

    def idle(self) -> defer.Deferred[None]:
        """Fires when no flush is under way."""
        if self._running is None:
            return defer.succeed(None)
        waiter: defer.Deferred[None] = defer.Deferred()
        self._idle.append(waiter)
        return waiter
