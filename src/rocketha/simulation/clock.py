"""A host's clock: it drifts, and it jumps when somebody sets it.

Knows true time as an argument only.  Theory of operation: local = base + (true - set) * rate.  A jump changes the base;
whoever keeps timers by this clock is told, as Twisted's reactor compares its timers with the clock at each turn.
"""

from __future__ import annotations

from collections.abc import Callable

EPOCH_S = 1_700_000_000.0
"""Local time at the beginning of a run, before a host's own error: some day of 2023."""


class HostClock:
    """See the module.

    :ivar rate: local seconds a true second, 0.95 to 1.05.
    :ivar jumped: called after each jump.
    """

    __slots__ = ("_base", "_set", "jumped", "rate")

    def __init__(self, rate: float = 1.0, error_s: float = 0.0) -> None:
        self.rate = rate
        self.jumped: list[Callable[[], None]] = []
        self._base = EPOCH_S + error_s
        self._set = 0.0

    def local(self, true: float) -> float:
        """Local seconds at a true time."""
        return self._base + (true - self._set) * self.rate

    def true(self, local: float) -> float:
        """The true time of a local one, as things are now."""
        return self._set + (local - self._base) / self.rate

    def jump(self, true: float, by_s: float) -> None:
        """Somebody sets the clock."""
        self._base = self.local(true) + by_s
        self._set = true
        for told in list(self.jumped):
            told()
