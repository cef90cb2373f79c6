"""A broker's two timers: one a second for everything that is merely periodic, one for the next deadline.

Decides nothing: it is told when the next deadline is and whom to call.  Work of a timer is done as one turn, so that
what it stages is appended as one write and what it says leaves together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import task

from rocketha.observe.logging import lasting

LEAST_S = 0.001
"""A deadline that has passed waits this long, so that the reactor reads between two of them."""


class BrokerClock:
    """Runs while a broker serves.

    :param now_ms: the clock that deadlines are of.
    :param next_due_ms: the next deadline; None: there is none.
    :param due: it is reached.
    :param second: a second has passed.
    :param as_turn: does work as one turn.
    """

    def __init__(
        self,
        reactor: Any,
        now_ms: Callable[[], int],
        next_due_ms: Callable[[], int | None],
        due: Callable[[], None],
        second: Callable[[], None],
        as_turn: Callable[[Callable[[], None]], None],
    ) -> None:
        self._reactor = reactor
        self._now_ms = now_ms
        self._next_due_ms = next_due_ms
        self._due = due
        self._second = second
        self._as_turn = as_turn
        self._seconds: task.LoopingCall | None = None
        self._deadline: Any = None
        self._deadline_ms = 0

    def start(self) -> None:
        """The broker serves."""
        self._serve_due = lasting(lambda: self._as_turn(self._due), "a deadline")
        self._seconds = task.LoopingCall(lasting(lambda: self._as_turn(self._second), "the clock"))
        self._seconds.clock = self._reactor
        self._seconds.start(1.0, now=False)
        self._arm()

    def stop(self) -> None:
        """Call nobody any more."""
        if self._seconds is not None and self._seconds.running:
            self._seconds.stop()
        self._seconds = None
        self._disarm()

    def rearm_if_earlier(self) -> None:
        """There may be a nearer deadline than before."""
        due_ms = self._next_due_ms()
        if due_ms is not None and (self._deadline is None or due_ms < self._deadline_ms):
            self._arm()

    def _disarm(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def _arm(self) -> None:
        due_ms = self._next_due_ms()
        self._disarm()
        if due_ms is not None and self._seconds is not None:
            self._deadline_ms = due_ms
            wait_s = max(LEAST_S, (due_ms - self._now_ms()) / 1000)
            self._deadline = self._reactor.callLater(wait_s, self._reached)

    def _reached(self) -> None:
        self._deadline = None
        self._serve_due()
        self._arm()
