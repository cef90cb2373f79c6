"""Timers that do not care about the wall clock.

Twisted's reactors count their timers in ``time.time``: a clock that is set back by an hour stops every timer of the
process for that hour (no heartbeats, no registration, no flush), one that is set forward fires all at once.
:class:`SteadyClock`, the first service of each tap, lets the process's reactor count in :func:`steady_seconds` instead.
From then on ``reactor.seconds()`` is no time of day; services that need one are given ``wall``.

That clock also runs while the machine is suspended, where the operating system has one that does: a master that slept
must not believe a lease that was granted before (:mod:`rocketha.replication.lease`).

Only the taps use it: a test's reactor has timers of the test runner in it.
"""

from __future__ import annotations

import time
from typing import Any

from twisted.application import service

_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def steady_seconds() -> float:
    """Seconds since the machine was started, or since some other moment that does not change."""
    return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)


class SteadyClock(service.Service):
    """Makes the reactor's clock monotonic when the process starts.

    :param reactor: the global one, taken at the start, where not given.
    """

    def __init__(self, reactor: Any = None) -> None:
        self.setName("steady clock")
        self._reactor = reactor

    def privilegedStartService(self) -> None:
        """Twisted: before any port is opened or timer set; timers set earlier keep what they had left to wait."""
        super().privilegedStartService()
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor
        timers = [(call, call.getTime() - self._reactor.seconds()) for call in self._reactor.getDelayedCalls()]
        self._reactor.seconds = steady_seconds
        for call, left_s in timers:
            call.seconds = steady_seconds
            call.reset(max(0.0, left_s))
