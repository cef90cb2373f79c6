"""Which stamped requests were served: none is served twice.

Pure.  Theory of operation.  A request is remembered until its time is out of the window; what is older is refused for
its age.  So memory must last for all requests of a window, and is bounded nevertheless: where it is full, who has most
in it loses the oldest part of that, and whatever of his is not newer than what was lost is refused from then on.  The
window of one busy user gets shorter; nothing is ever served twice for that, and no other user feels it.  Names are
those of users, so there are not many.

The same holds for what a process cannot know: before it began, and before it became master, others served.
"""

from __future__ import annotations

import heapq

import attrs

from rocketha.access.policies import Refused
from rocketha.access.stamp import NONCE_BYTES, Stamp

AHEAD_MS = 10_000
"""How far a client's clock may be ahead: less than behind, for what such a client signed before a start or a switch can
be served again for so long after it."""
REMEMBERED_MAX = 100_000
"""Requests of all users; about 100 bytes each."""
LOST_PART = 64
"""When it is full, one in so many is lost: there is room for a while, whoever has how much."""
FORGOTTEN_AT_ONCE = 16
"""With each request that comes; so many expire at once where there were many, and none for a while."""


BEHIND_MS = 1000
"""A client whose clock is behind is refused for so long after each start or switch: from here on it is told."""


def _difference(late_ms: int) -> str:
    what = "before" if late_ms > 0 else "after"
    return f"signed {abs(late_ms) / 1000:.1f} s {what} the time of this broker: check both clocks."


class Forgotten(Refused):
    """It may have been served before: signed again, it is served."""


@attrs.define
class _Seen:
    """Of one user.

    :ivar keys: time and nonce of each request, as one number.
    :ivar line: the same, the oldest first (a heap).
    :ivar until_ms: what is not newer may be forgotten.
    """

    keys: set[int] = attrs.field(factory=set)
    line: list[int] = attrs.field(factory=list)
    until_ms: int = -1

    def add(self, key: int) -> None:
        self.keys.add(key)
        heapq.heappush(self.line, key)

    def forget(self, most: int, before_ms: float = float("inf")) -> int:
        """The oldest that were signed before some time, at most so many; how many that were."""
        line, count = self.line, 0
        while count < most and line and line[0] >> 8 * NONCE_BYTES < before_ms:
            key = heapq.heappop(line)
            self.keys.discard(key)
            self.until_ms = key >> 8 * NONCE_BYTES
            count += 1
        return count


class Replays:
    """Of one broker.

    :param window_ms: how old a request may be.
    :param now_ms: ms since 1970; what was signed before is not known here.
    """

    def __init__(self, window_ms: int, now_ms: int) -> None:
        self._window_ms = window_ms
        self._began_ms = now_ms
        self._until_ms = -1  # likewise of users of whom nothing is remembered
        self._users: dict[str, _Seen] = {}
        self.count = 0

    def begin(self, now_ms: int) -> None:
        """Others may have served what was signed until now."""
        self._began_ms = max(self._began_ms, now_ms)

    def check_began(self, stamp: Stamp, now_ms: int) -> None:
        """See that a request, remembered or not, is of the time since then.

        :raises Forgotten: others may have served it.
        """
        if stamp.time_ms <= self._began_ms:
            late_ms = now_ms - stamp.time_ms
            clocks = f" It was {_difference(late_ms)}" if late_ms >= BEHIND_MS else ""
            raise Forgotten(f"signed before this broker began to serve: sign it again.{clocks}")

    def take(self, user: str, stamp: Stamp, now_ms: int) -> None:
        """A request came; remember it.

        :raises Forgotten: see there.
        :raises Refused: it came before, or by its time it is not of now.
        """
        late_ms = now_ms - stamp.time_ms
        if not -AHEAD_MS <= late_ms <= self._window_ms:
            raise Refused(_difference(late_ms))
        self.check_began(stamp, now_ms)
        before_ms = now_ms - self._window_ms
        seen = self._users.get(user)
        if seen is None:
            seen = self._users[user] = _Seen()
        self.count -= seen.forget(FORGOTTEN_AT_ONCE, before_ms)
        if stamp.time_ms <= max(seen.until_ms, self._until_ms):
            raise Forgotten("signed before requests that are remembered here: sign it again.")
        key = stamp.time_ms << 8 * NONCE_BYTES | int.from_bytes(stamp.nonce)
        if key in seen.keys:
            raise Refused("this request was sent before.")
        seen.add(key)
        self.count += 1
        if self.count > REMEMBERED_MAX:
            self._make_room(before_ms)

    def _make_room(self, before_ms: int) -> None:
        for seen in self._users.values():
            self.count -= seen.forget(FORGOTTEN_AT_ONCE, before_ms)
        # What one has lost may be of now, and ahead: it is remembered as his own until it would be refused for its age.
        for name in [name for name, seen in self._users.items() if not seen.line and seen.until_ms < before_ms]:
            self._until_ms = max(self._until_ms, self._users.pop(name).until_ms)
        most = [(-len(seen.line), name) for name, seen in self._users.items()]
        heapq.heapify(most)
        while self.count > REMEMBERED_MAX - max(1, REMEMBERED_MAX // LOST_PART):
            size, name = most[0]
            lost = self._users[name].forget(1 + -size // LOST_PART)
            self.count -= lost
            heapq.heapreplace(most, (size + lost, name))
