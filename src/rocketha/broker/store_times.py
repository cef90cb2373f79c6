"""When messages were stored, by a clock that does not step.

Pure.  A record says at which time of day it was stored, and somebody may set that clock while the message waits.  This
remembers how far the time of day was ahead of the steady clock, and from which place of the log on: where it changed, a
new line begins.  So the steady time of every message that this broker stored follows from its place and its stamp.

What another process stored is another matter: its clock's steps are not known.
"""

from __future__ import annotations

from bisect import bisect_right

STEP_MS = 50
"""Less than this is two clocks read one after the other."""
LINES_MAX = 1000
"""Steps that are remembered."""
CLOCK_AHEAD_MS = 60_000
"""By so much another broker's clock may be ahead of ours."""


class StoreTimes:
    """Of one log; told before each write."""

    def __init__(self) -> None:
        self._places = [0]
        self._ahead_ms = [0]
        self._own_from = 0
        self._began_ms = 0

    def begin(self, place: int, now_ms: int, wall_ms: int) -> None:
        """What lies before ``place`` was stored by somebody else."""
        self._places, self._ahead_ms = [0], [wall_ms - now_ms]
        self._own_from, self._began_ms = place, now_ms

    def stores_at(self, place: int, now_ms: int, wall_ms: int) -> None:
        """What lies from ``place`` on gets this time of day."""
        ahead_ms = wall_ms - now_ms
        if -STEP_MS < ahead_ms - self._ahead_ms[-1] < STEP_MS:
            return
        self._places.append(place)
        self._ahead_ms.append(ahead_ms)
        del self._places[:-LINES_MAX], self._ahead_ms[:-LINES_MAX]

    def due_ms(self, place: int, stamp_ms: int, delay_ms: int) -> int:
        """When, by the steady clock, a message's delay is over.

        Another process's message was stored before we began, whatever its stamp says: a broker whose clock is ahead of
        ours may have written it.  If it is much further ahead, a clock was set back: it is due now, as in Java.
        """
        stored_ms = stamp_ms - self._ahead_ms[max(0, bisect_right(self._places, place) - 1)]
        if place < self._own_from:
            if stored_ms > self._began_ms + CLOCK_AHEAD_MS:
                return self._began_ms
            stored_ms = min(stored_ms, self._began_ms)
        return stored_ms + delay_ms
