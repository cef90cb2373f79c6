"""A host's clocks: a steady one that drifts, and the time of day, which is wrong and jumps when somebody sets it.

Theory of operation: steady = started + true * rate; the time of day is that plus an offset.  Timers go by the steady
one, as in production (:mod:`rocketha.services.process.server`): a jump moves no timer, only what is told for the time.
"""

from __future__ import annotations

EPOCH_S = 1_700_000_000.0
"""The right time of day at the beginning of a run: some day of 2023."""
STARTED_S = 1000.0
"""What every steady clock shows then."""


class HostClock:
    """See the module.

    :ivar rate: local seconds a true second, 0.95 to 1.05.
    """

    __slots__ = ("_offset", "rate")

    def __init__(self, rate: float = 1.0, error_s: float = 0.0) -> None:
        self.rate = rate
        self._offset = EPOCH_S - STARTED_S + error_s

    def local(self, true: float) -> float:
        """The steady clock at a true time."""
        return STARTED_S + true * self.rate

    def true(self, local: float) -> float:
        """The true time at which the steady clock shows this."""
        return (local - STARTED_S) / self.rate

    def wall(self, true: float) -> float:
        """The time of day, as this host has it, in seconds since 1970."""
        return self.local(true) + self._offset

    def jump(self, by_s: float) -> None:
        """Somebody sets the time of day."""
        self._offset += by_s
