"""Work that blocks (the disk) off the reactor, one queue of it at a time.

Theory of operation: a :class:`Worker` owns one thread and runs what it is given in order; results come back to the
reactor.  The store's jobs touch files only and are made so that the reactor may go on appending meanwhile.  A
simulator gives another implementation of
:class:`BlockingWork`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from twisted.internet import defer, threads
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

T = TypeVar("T")


class BlockingWork(Protocol):
    """Runs blocking calls somewhere else."""

    def run(self, call: Callable[[], T]) -> defer.Deferred[T]:
        """The call's result, in the reactor."""

    def start(self) -> None:
        """Be ready."""

    def stop(self) -> None:
        """Finish what was given and take no more; blocks until then."""


def exception_of(result: Any) -> Exception | None:
    """What went wrong in :meth:`BlockingWork.run`, None when nothing did."""
    if not isinstance(result, Failure):
        return None
    return result.value if isinstance(result.value, Exception) else RuntimeError(result.getErrorMessage())


class Underway:
    """The work that was begun and has not ended."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: list[defer.Deferred[None]] = []

    def add(self, running: defer.Deferred[Any]) -> None:
        """Count one in; it may end well or not, what it yields passes through."""
        self._count += 1
        running.addBoth(self._ended)

    def _ended(self, result: Any) -> Any:
        self._count -= 1
        if not self._count:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                waiter.callback(None)
        return result

    def idle(self) -> defer.Deferred[None]:
        """Fires when nothing is under way."""
        if not self._count:
            return defer.succeed(None)
        waiter: defer.Deferred[None] = defer.Deferred()
        self._waiting.append(waiter)
        return waiter


class Worker:
    """One thread of its own."""

    def __init__(self, reactor: Any, name: str) -> None:
        self._reactor = reactor
        self._pool = ThreadPool(1, 1, name)

    def start(self) -> None:
        """Start the thread."""
        self._pool.start()

    def run(self, call: Callable[[], T]) -> defer.Deferred[T]:
        """Run a call after those given before it."""
        return threads.deferToThreadPool(self._reactor, self._pool, call)

    def stop(self) -> None:
        """Let the thread finish and end."""
        self._pool.stop()


class AtOnce:
    """No thread: for calls that do not block, because the disk is in memory."""

    def __init__(self, reactor: Any, name: str) -> None:
        """As a :class:`Worker` is made."""

    def start(self) -> None:
        """Nothing to start."""

    def run(self, call: Callable[[], T]) -> defer.Deferred[T]:
        """Run it now."""
        return defer.execute(call)

    def stop(self) -> None:
        """Nothing waits."""
