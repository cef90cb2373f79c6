"""One thread beside the reactor for short blocking calls: made for syncing a log hundreds of times a second.

The same face as :class:`~rocketha.services.waiting.blocking.Worker`.  A sync of a few kilobytes takes 0.2 ms of
waiting; handing it to Twisted's thread pool and back costs 35 us of CPU more, a quarter of it here (a queue in C for
the way there, an eventfd in the reactor's epoll set for the way back).

What it must not know: what it runs.

Theory of operation: calls go through a queue, are run in order, and their results wait in a deque that only the
reactor empties.  The wake-up is written once a call; the reactor takes whatever results there are.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet import defer
from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.services.waiting.blocking import BlockingWork, Worker

T = TypeVar("T")


@implementer(IReadDescriptor)
class SyncThread:
    """One thread of its own, cheap to ask.

    :param reactor: an ``IReactorFDSet`` with ``callFromThread``.
    :param name: the thread's name.
    """

    def __init__(self, reactor: Any, name: str) -> None:
        self._reactor = reactor
        self._name = name
        self._calls: queue.SimpleQueue[tuple[defer.Deferred[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._results: deque[tuple[defer.Deferred[Any], Any]] = deque()
        self._thread: threading.Thread | None = None
        self._event = -1

    def start(self) -> None:
        """Start the thread.

        :raises OSError: no file descriptors are left.
        """
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._reactor.addReader(self)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], T]) -> defer.Deferred[T]:
        """Run a call after those given before it; the result comes in a later turn of the reactor."""
        result: defer.Deferred[T] = defer.Deferred()
        if self._thread is None:
            result.errback(Failure(RuntimeError(f"the thread {self._name} does not run")))
        else:
            self._calls.put((result, call))
        return result

    def stop(self) -> None:
        """Let the thread finish what it was given and end; blocks until then.  The results still come."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        self._calls.put(None)
        thread.join()
        self._reactor.removeReader(self)
        os.close(self._event)
        self._event = -1
        self._reactor.callFromThread(self._deliver)

    def _run(self) -> None:
        take, give, event = self._calls.get, self._results.append, self._event
        while True:
            asked = take()
            if asked is None:
                return
            result, call = asked
            try:
                give((result, call()))
            except BaseException:  # it goes to whoever asked; the thread lives on
                give((result, Failure()))
            os.eventfd_write(event, 1)

    def _deliver(self) -> None:
        results = self._results
        while results:
            deferred, value = results.popleft()
            deferred.callback(value)

    # --- what the reactor calls

    def fileno(self) -> int:
        """Twisted: the descriptor to watch."""
        return self._event

    def doRead(self) -> None:
        """Twisted: results wait."""
        os.eventfd_read(self._event)
        self._deliver()

    def connectionLost(self, reason: Failure) -> None:
        """Twisted: the reactor drops all its readers when it ends."""

    def logPrefix(self) -> str:
        """Twisted: for its log."""
        return self._name


def sync_work(reactor: Any, name: str) -> BlockingWork:
    """A thread for syncs: the cheap one where there are eventfds, and the reactor watches descriptors."""
    cheap = hasattr(os, "eventfd") and IReactorFDSet.providedBy(reactor)
    return SyncThread(reactor, name) if cheap else Worker(reactor, name)
