"""The reactor's rounds without a log context for each descriptor, and without going to sleep where work comes at once.

Before it serves a descriptor Twisted's epoll reactor makes a log context for the old-style messages that may come out
of that: a copied dict and seven calls.  Nothing here logs that way (:mod:`rocketha.observe.logging`), and a leader with
1,000 talkative clients spent a twentieth of its time there (``benchmarks/README.rst``).

A process that sleeps is woken late, on a virtual machine by 50 to 100 us: as long as it takes to serve a batch.  A
client that waits for each answer pays that with each.  So where descriptors have been ready soon after one another the
reactor looks again for a moment before it sleeps (:class:`BusyPolling`).

Only the taps use it: it relies on names inside Twisted's reactor (``docs/adr/0005``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from twisted.application import service
from twisted.python import log

_give_way = getattr(os, "sched_yield", lambda: None)  # which systems without epoll may lack
_EPOLL_REACTOR = "twisted.internet.epollreactor", "EPollReactor"
"""By its name: its module can not be imported where there is no epoll."""
_RELIED_ON = "_selectables", "_poller", "_doReadOrWrite"


class LeanRounds(service.Service):
    """Gives Twisted's epoll reactor such rounds when the process starts; any other reactor stays as it is.

    :param reactor: the global one, taken at the start, where not given.
    """

    def __init__(self, reactor: Any = None) -> None:
        self.setName("lean rounds")
        self._reactor = reactor

    def privilegedStartService(self) -> None:
        """Twisted: before the main loop runs."""
        super().privilegedStartService()
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor
        made_by = type(self._reactor)
        if (made_by.__module__, made_by.__name__) == _EPOLL_REACTOR:
            if all(hasattr(self._reactor, name) for name in _RELIED_ON):
                _replace_rounds(self._reactor)


class BusyPolling:
    """Waits for descriptors; while work is frequent it polls for a moment before it sleeps.

    Polling begins after SHORT_SLEEPS short sleeps in a row and ends with the first time that it finds nothing.  Between
    two polls other threads and processes may have the core.

    :param poll: of an epoll object.
    """

    SPIN_S = 120e-6
    SHORT_S = 300e-6
    """A sleep that took no longer counts: what woke the process may have been there much earlier."""
    SHORT_SLEEPS = 4

    def __init__(
        self,
        poll: Callable[[float, int], list[tuple[int, int]]],
        seconds: Callable[[], float] = time.perf_counter,
        give_way: Callable[[], None] = _give_way,
    ) -> None:
        self._poll = poll
        self._seconds = seconds
        self._give_way = give_way
        self._short_sleeps = 0

    def wait(self, timeout_s: float | None, most: int) -> list[tuple[int, int]]:
        """As an epoll object's ``poll``; None: however long it takes."""
        if timeout_s is None:
            timeout_s = -1
        elif timeout_s < self.SPIN_S:
            return self._poll(timeout_s, most)
        began_s = self._seconds()
        polls = self._short_sleeps >= self.SHORT_SLEEPS
        while polls and self._seconds() - began_s < self.SPIN_S:
            if found := self._poll(0, most):
                return found
            self._give_way()
        found = self._poll(timeout_s, most)
        short = found and not polls and self._seconds() - began_s < self.SHORT_S
        self._short_sleeps = self._short_sleeps + 1 if short else 0
        return found


def _replace_rounds(reactor: Any) -> None:
    selectables, wait, serve = reactor._selectables, BusyPolling(reactor._poller.poll).wait, reactor._doReadOrWrite

    def serve_round(timeout_s: float | None) -> None:
        for fd, event in wait(timeout_s, len(selectables)):
            selectable = selectables.get(fd)
            if selectable is None:
                continue  # gone since: by what was served before it
            try:
                serve(selectable, fd, event)
            except Exception:  # of what hears of the end of it; else the reactor has logged it and ended it
                log.err()

    reactor.doIteration = serve_round
