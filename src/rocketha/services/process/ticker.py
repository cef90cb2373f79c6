"""A call at equal intervals, for clocks that tick many times a second.

Like :class:`twisted.internet.task.LoopingCall`, and at the same moments: multiples of the interval from the start,
without those that a slow call or a process that stood still has missed.  But for functions that are done when they
return: a LoopingCall makes a Deferred and two closures of each call, which cost more than what an idle tick does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.errors import ensure


class Ticker:
    """See the module.

    :param reactor: its clock.
    :param call: must not raise (see :func:`rocketha.observe.logging.lasting`): what it raises is the reactor's, and
        there is no next call.
    :param interval_s: seconds from call to call, above 0.
    """

    def __init__(self, reactor: Any, call: Callable[[], object], interval_s: float) -> None:
        self._reactor = reactor
        self._call = call
        self._interval_s = interval_s
        self._began_s = 0.0
        self._next: Any = None
        self._running = False

    @property
    def running(self) -> bool:
        """Whether there will be a next call."""
        return self._running

    def start(self) -> None:
        """Begin; the first call comes after one interval.  One that runs is not started: like a LoopingCall."""
        ensure(not self._running, "a ticker is started once, and again only after it was stopped")
        self._running = True
        self._began_s = now_s = self._reactor.seconds()
        self._schedule(now_s)

    def stop(self) -> None:
        """End, also in the middle of a call; nothing where it does not run."""
        self._running = False
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _tick(self) -> None:
        self._next = None
        self._call()
        if self._running and self._next is None:  # else it was stopped in the call, and started again
            self._schedule(self._reactor.seconds())

    def _schedule(self, now_s: float) -> None:
        interval_s = self._interval_s
        wait_s = interval_s - (now_s - self._began_s) % interval_s
        if now_s + wait_s == now_s:  # too little to be told from none: the tick of this moment was just now
            wait_s = interval_s
        self._next = self._reactor.callLater(wait_s, self._tick)
