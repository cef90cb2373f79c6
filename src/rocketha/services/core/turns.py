"""All that a broker does is done in turns: reads of its ports, timers, news of replicas.

At the end of one, what it staged is appended as one write, and what it said leaves together.

There are two timers: one a second for everything that is merely periodic, one for the next deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rocketha.observe.logging import lasting
from rocketha.protocols.turn import Turn
from rocketha.services.process.platform import Platform
from rocketha.services.process.ticker import Ticker

SECOND_S = 1.0
STALL_S = 1.0
"""A second that comes later than this is said: the process was stopped, or something in it took long."""
LEAST_S = 0.001
"""A deadline that has passed waits this long, so that the reactor reads between two of them."""


class Deadlines(Protocol):
    """Whoever has something to do at a time of its own, ms of the steady clock."""

    def next_due_ms(self) -> int | None:
        """The next; None: there is none."""

    def due(self, now_ms: int) -> None:
        """A deadline is reached, of this one or of another."""


class BrokerClock:
    """Runs while a broker serves.

    :param second: a second has passed.
    """

    def __init__(
        self, platform: Platform, turns: BrokerTurns, deadlines: Sequence[Deadlines], second: Callable[[], None]
    ) -> None:
        self._platform = platform
        self._turns = turns
        self._deadlines = tuple(deadlines)
        self._serve_due = lasting(lambda: turns.run(self._due), "a deadline")
        self._second = second
        self._lookout = platform.stalls.lookout(SECOND_S, STALL_S)
        self._seconds = Ticker(platform.reactor, lasting(self._passed, "the clock"), SECOND_S)
        self._timer: Any = None
        self._timer_ms = 0

    def start(self) -> None:
        """The broker serves."""
        self._lookout.begin()
        self._seconds.start()
        self._turns.at_end(self.rearm_if_earlier)
        self._arm()

    def stop(self) -> None:
        """Call nobody any more."""
        self._seconds.stop()
        self._disarm()

    def rearm_if_earlier(self) -> None:
        """There may be a nearer deadline than before."""
        due_ms = self._next_due_ms()
        if due_ms is not None and (self._timer is None or due_ms < self._timer_ms):
            self._arm()

    def _next_due_ms(self) -> int | None:
        next_ms: int | None = None
        for each in self._deadlines:
            due_ms = each.next_due_ms()
            if due_ms is not None and (next_ms is None or due_ms < next_ms):
                next_ms = due_ms
        return next_ms

    def _disarm(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _arm(self) -> None:
        due_ms = self._next_due_ms()
        self._disarm()
        if due_ms is not None and self._seconds.running:
            self._timer_ms = due_ms
            wait_s = max(LEAST_S, (due_ms - self._platform.now_ms()) / 1000)
            self._timer = self._platform.reactor.callLater(wait_s, self._reached)

    def _passed(self) -> None:
        self._lookout.look()
        self._turns.run(self._second)

    def _due(self) -> None:
        now_ms = self._platform.now_ms()
        for each in self._deadlines:
            each.due(now_ms)

    def _reached(self) -> None:
        self._timer = None
        self._serve_due()
        self._arm()


class BrokerTurns:
    """Of one broker.

    :ivar turn: that of its ports.
    """

    def __init__(self) -> None:
        self.turn = Turn()
        self._ends: list[Callable[[], None]] = []

    def at_end(self, call: Callable[[], None]) -> None:
        """Have it called at the end of each, before what was said leaves; in the order in which they asked."""
        self._ends.append(call)

    def ended(self) -> None:
        """The read of a port ends, or another turn."""
        for call in self._ends:
            call()

    def run(self, work: Callable[[], None]) -> None:
        """Do the work of a timer, or of news of a replica, as one turn; within one it is part of it."""
        turn = self.turn
        if turn.active:
            work()
            return
        turn.active = True
        try:
            work()
            self.ended()
        finally:
            turn.end()
