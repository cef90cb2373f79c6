"""What happened in a run, in order, with its true time: bounded, and summed up in a digest that is always kept.

Two runs of one seed are the same run when their digests are equal.
"""

from __future__ import annotations

import collections
import zlib
from collections.abc import Callable, Iterator
from typing import Any


class Trace:
    """See the module.

    :param lines_max: lines kept; older ones fall out.  0 keeps none, and the digest only.
    :ivar digest: over everything noted and every byte delivered.
    :ivar describe: says in a few words what delivered bytes are.
    """

    def __init__(self, lines_max: int = 0) -> None:
        self.on = lines_max > 0
        self.digest = 0
        self.dropped = 0
        self.describe: Callable[[bytes], str] = lambda data: ""
        self._lines: collections.deque[tuple[float, str, str]] = collections.deque(maxlen=max(1, lines_max))

    def note(self, now: float, who: str, what: str) -> None:
        """One line.  Callers on hot paths look at :attr:`on` first."""
        self.digest = zlib.crc32(f"{now!r} {who} {what}".encode(), self.digest)
        if self.on:
            self._keep(now, who, what)

    def say(self, now: float, who: str, what: str) -> None:
        """A line for the reader only: the same run without a trace has none, so the digest leaves it out."""
        if self.on:
            self._keep(now, who, what)

    def _keep(self, now: float, who: str, what: str) -> None:
        if len(self._lines) == self._lines.maxlen:
            self.dropped += 1
        self._lines.append((now, who, what))

    def delivered(self, now: float, source: Any, target: Any, data: bytes) -> None:
        """Bytes that were delivered, for the reader (:meth:`mix` counts them in)."""
        self._keep(now, target.host, f"< {source.host}:{source.port} {len(data)} bytes {self.describe(data)}")

    def mix(self, now: float, data: bytes) -> None:
        """Bytes that were delivered."""
        self.digest = zlib.crc32(data, self.digest ^ int(now * 1_000_000) & 0xFFFFFFFF)

    def lines(self) -> Iterator[str]:
        """As printed."""
        if self.dropped:
            yield f"... {self.dropped} earlier lines dropped"
        for now, who, what in self._lines:
            yield f"{now:11.6f} {who:12} {what}"
