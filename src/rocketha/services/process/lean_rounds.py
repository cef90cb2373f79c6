"""The reactor's rounds without a log context for each descriptor.

Before it serves a descriptor Twisted's epoll reactor makes a log context for the old-style messages that may come out
of that: a copied dict and seven calls.  Nothing here logs that way (:mod:`rocketha.observe.logging`), and a leader with
1,000 talkative clients spent a twentieth of its time there (``benchmarks/README.rst``).

Only the taps use it: it relies on names inside Twisted's reactor (``docs/adr/0005``).
"""

from __future__ import annotations

from typing import Any

from twisted.application import service
from twisted.internet.epollreactor import EPollReactor
from twisted.python import log

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
        if type(self._reactor) is EPollReactor and all(hasattr(self._reactor, name) for name in _RELIED_ON):
            _replace_rounds(self._reactor)


def _replace_rounds(reactor: Any) -> None:
    selectables, poll, serve = reactor._selectables, reactor._poller.poll, reactor._doReadOrWrite

    def serve_round(timeout_s: float | None) -> None:
        for fd, event in poll(-1 if timeout_s is None else timeout_s, len(selectables)):
            selectable = selectables.get(fd)
            if selectable is None:
                continue  # gone since: by what was served before it
            try:
                serve(selectable, fd, event)
            except Exception:  # of what hears of the end of it; else the reactor has logged it and ended it
                log.err()

    reactor.doIteration = serve_round
