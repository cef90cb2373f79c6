"""What every server's process has, whatever it serves: the log at the wanted level, and what its whole life is for.

Only the taps use it: a test or a benchmark that runs a service in its own process keeps its clock and its heap.
"""

from __future__ import annotations

import gc
import time
from typing import Any

from twisted.application import service

from rocketha.observe.logging import set_level
from rocketha.services.process.lean_rounds import LeanRounds
from rocketha.services.process.log_file import LogFileService
from rocketha.services.process.open_files import raise_limit

_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class FrozenHeap(service.Service):
    """Collects once, then takes what is left out of every later collection (``gc.freeze``).

    That is modules, classes and functions, which never become garbage: a leading controller under load spent 7 % of its
    time on looking at them, up to 28 ms at once (``benchmarks/README.rst``).
    """

    def __init__(self) -> None:
        self.setName("frozen heap")

    def privilegedStartService(self) -> None:
        """Twisted: before any port is opened."""
        super().privilegedStartService()
        gc.collect()
        gc.freeze()


def steady_seconds() -> float:
    """Seconds since the machine was started, or since some other moment that does not change.

    The clock also runs while the machine is suspended, where the operating system has one that does: a master that
    slept must not believe a lease that was granted before (:mod:`rocketha.replication.lease`).
    """
    return time.monotonic() if _BOOT_TIME is None else time.clock_gettime(_BOOT_TIME)


class SteadyClock(service.Service):
    """Makes the reactor's clock monotonic when the process starts.

    Twisted's reactors count their timers in ``time.time``: a clock that is set back by an hour stops every timer of the
    process for that hour (no heartbeats, no registration, no flush), one that is set forward fires all at once.  From
    the start on ``reactor.seconds()`` is :func:`steady_seconds`, no time of day; services that need one are given
    ``wall``.

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


def server_process(options: Any) -> service.MultiService:
    """The parent of a server's services.

    :param options: the command's, for the level of the log, and its file.
    """
    set_level(options["log-level"])
    raise_limit()
    whole = service.MultiService()
    if options["log-file"] is not None:
        LogFileService(options["log-file"]).setServiceParent(whole)
    SteadyClock().setServiceParent(whole)
    LeanRounds().setServiceParent(whole)
    FrozenHeap().setServiceParent(whole)
    return whole
