"""Sets about which something may be on its way through the log.

What it must not know: requests, connections.

Theory of operation.  An event is on its way from when it is proposed until it is applied or void, and not only until
its sender is told "unknown": while a majority answers heartbeats and its disks stand still an entry may wait in the log
for much longer.  What changes nothing now may change something after it, so it has to follow it through the log.
"""

from __future__ import annotations

from collections import Counter


class Undecided:
    """Events on their way, by the broker name of their set."""

    def __init__(self) -> None:
        self._waited_for: Counter[str] = Counter()
        self._given_up: dict[str, int] = {}  # broker name -> the newest entry that may be one of its set's

    def begun(self, name: str) -> None:
        """An event of a set is proposed."""
        self._waited_for[name] += 1

    def ended(self, name: str) -> None:
        """It was applied, or surely never will be; or it is given up."""
        self._waited_for[name] -= 1
        if not self._waited_for[name]:
            del self._waited_for[name]

    def given_up(self, name: str, last_index: int, applied: int) -> None:
        """Nobody waits any more for an event that may be an entry.

        :param last_index: the newest entry of the log: it is none after that one.
        :param applied: the newest entry applied.
        """
        self._given_up = {each: index for each, index in self._given_up.items() if index > applied}
        self._given_up[name] = last_index

    def has(self, name: str, applied: int) -> bool:
        """Whether something about a set may be on its way.

        :param applied: the newest entry applied.
        """
        return name in self._waited_for or self._given_up.get(name, 0) > applied
