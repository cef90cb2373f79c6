"""Changes of the log that nobody may see half done: cuts, promotions, epochs of a master.

Theory of operation.  Such a change blocks on the disk, so it runs in the log's thread; and it turns over what the
reactor's thread reads, so meanwhile nobody else touches the store: no flush and no upkeep is under way when it begins,
none begins before it is over, and the broker parks its requests.  What follows from the change in memory is done before
they go on.  One at a time, in the order they were asked for.

An epoch that a slave learns of changes only the epoch file, and a list that is replaced as a whole: it is written in
the same thread and the same order, and nobody else stops for it (:meth:`LogChanges.beside`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from twisted.internet import defer

from rocketha.services.waiting.blocking import BlockingWork

T = TypeVar("T")


class StoreJobs(Protocol):
    """Whoever works on the store in jobs of its own, which block.

    :ivar paused: none is begun.
    """

    paused: bool

    def idle(self) -> defer.Deferred[None]:
        """Fires when none is under way."""


class LogChanges:
    """Of one broker.

    :ivar busy: one is being made: the store is not to be touched.
    """

    def __init__(self, jobs: Sequence[StoreJobs], work: BlockingWork) -> None:
        self.busy = False
        self._over: list[Callable[[], None]] = []
        self._jobs = jobs
        self._work = work
        self._lock = defer.DeferredLock()

    def when_over(self, call: Callable[[], None]) -> None:
        """Have it called each time when the store may be touched again."""
        self._over.append(call)

    def run(self, call: Callable[[], T], then: Callable[[T], None] | None = None) -> defer.Deferred[T]:
        """The result of a blocking call that has the store to itself.

        :param then: given the result in the reactor's thread, before anybody else touches the store.
        """
        return self._lock.run(self._alone, call, then)

    def beside(self, call: Callable[[], T]) -> defer.Deferred[T]:
        """The result of a blocking call that touches nothing of the store's: all but other changes go on meanwhile."""
        return self._lock.run(self._work.run, call)

    def idle(self) -> defer.Deferred[None]:
        """Fires when none is under way or waits."""
        return self._lock.run(lambda: None)

    @defer.inlineCallbacks
    def _alone(self, call: Callable[[], Any], then: Callable[[Any], None] | None) -> Generator[Any, Any, Any]:
        self._pause(True)
        try:
            for jobs in self._jobs:
                yield jobs.idle()
            self.busy = True
            result = yield self._work.run(call)
            self.busy = False
            if then is not None:
                then(result)
            return result
        finally:
            self.busy = False
            self._pause(False)
            for call_over in self._over:
                call_over()

    def _pause(self, paused: bool) -> None:
        for jobs in self._jobs:
            jobs.paused = paused
