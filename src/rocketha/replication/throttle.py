"""How fast a link may send: a token bucket.

Pure.  Blocks go out whole and the bucket may fall into debt for the last of them, so a limit delays a block by no more
than the time that the blocks before it take at the limit (regression G4: not to the next full second).

Java: ``FlowMonitor``, which counts per second, and in classic links headers only.
"""

from __future__ import annotations

_MS = 1000


class Throttle:
    """One link's.

    Invariant: in any stretch of t ms no more leaves than ``burst + rate * t + one block``.

    :param rate: bytes a second; 0 is no limit.
    :param burst: bytes that may leave at once after a quiet time; less than a millisecond's worth costs speed.
    """

    __slots__ = ("_level", "_read_ms", "burst", "rate")

    def __init__(self, rate: int, burst: int) -> None:
        self.rate = rate
        self.burst = burst
        self._level = burst * _MS  # in bytes times milliseconds a second, so that no fraction is lost
        self._read_ms: int | None = None

    def wait_ms(self, now_ms: int) -> int:
        """How long until the next block may leave; 0: now, whole."""
        if not self.rate:
            return 0
        self._fill(now_ms)
        return max(0, -(self._level // self.rate))

    def took(self, size: int, now_ms: int) -> None:
        """A block of ``size`` bytes, headers included, left."""
        if self.rate:
            self._fill(now_ms)
            self._level -= size * _MS

    def limit(self, rate: int, burst: int) -> None:
        """Other limits from now on; debt is kept."""
        self.rate = rate
        self.burst = burst
        self._level = min(self._level, burst * _MS)
        if not rate:
            self._level, self._read_ms = burst * _MS, None

    def _fill(self, now_ms: int) -> None:
        """A clock that goes back adds nothing."""
        if self._read_ms is not None and now_ms > self._read_ms:
            self._level = min(self.burst * _MS, self._level + (now_ms - self._read_ms) * self.rate)
        if self._read_ms is None or now_ms > self._read_ms:
            self._read_ms = now_ms
