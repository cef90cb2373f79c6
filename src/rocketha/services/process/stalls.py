"""Whether this process stood still: stopped, suspended, starved, or busy with one thing for long.

Theory of operation.  Whoever looks at equal intervals is late after such a time.  What follows from that, and from how
much, differs: a controller blames no broker for that time, a member of a Raft group begins its timeout anew.  So
everybody looks for itself, at its own interval, before it acts on the time.  That the process stood still is said once,
by who looks first.
"""

from __future__ import annotations

from typing import Any

from rocketha.observe import events
from rocketha.observe.logging import emit, make_logger


class Stalls:
    """Of one process.

    :param reactor: its clock.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._said_s = float("-inf")  # when that was: who has not looked since is late for the same reason
        self._log = make_logger()

    def lookout(self, interval_s: float, over_s: float) -> Lookout:
        """One that looks.

        :param interval_s: how often, at least.
        :param over_s: what is later by no more than this, in seconds, is no standstill.
        """
        return Lookout(self, interval_s, over_s)

    def seconds(self) -> float:
        """The steady clock."""
        return float(self._reactor.seconds())

    def found(self, late_s: float, since_s: float, now_s: float) -> None:
        """It stood still between these two times."""
        if since_s >= self._said_s:
            self._said_s = now_s
            emit(self._log, events.ReactorStalled(int(late_s * 1000)))


class Lookout:
    """See :meth:`Stalls.lookout`."""

    def __init__(self, stalls: Stalls, interval_s: float, over_s: float) -> None:
        self._stalls = stalls
        self._interval_s = interval_s
        self._over_s = over_s
        self._looked_s: float | None = None

    def begin(self) -> None:
        """It looks from now on; without this, from its first look on."""
        self._looked_s = self._stalls.seconds()

    def look(self) -> float:
        """By how many seconds this look is late, 0 where that is no standstill."""
        before_s, now_s = self._looked_s, self._stalls.seconds()
        self._looked_s = now_s
        if before_s is None or now_s - before_s - self._interval_s <= self._over_s:
            return 0.0
        late_s = now_s - before_s - self._interval_s
        self._stalls.found(late_s, before_s, now_s)
        return late_s
