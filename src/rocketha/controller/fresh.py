"""What a controller that has just become leader cannot know yet.

Must not know a socket, a clock or who is suspected.

Theory of operation.  Brokers send their heartbeats to all controllers, so that a new leader has a table already.  One
that was restarted a moment before has none, and of a broker that it never heard it cannot tell by itself whether it is
gone or only did not come by yet.  Ours come within a second; Java's look every 3 s for controllers that they had given
up, and only then send them heartbeats (``ReplicasManager.scanAvailableControllerAddresses``).

So masters never heard are asked at once, a few at a time, which harms nobody, and the time since this controller leads
decides what follows from what they do not answer (regressions B3, D3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from rocketha.controller.liveness import Liveness, ReplicaKey
from rocketha.controller.watched import Groups, Times, led_group, master_key

OPEN_MAX = 100
"""While so many suspicions are not settled, no further master never heard is asked: each begins rounds anew, and those
of whom something is known must find their turn.
"""

LOOK_MS = 200
"""Between two looks at all groups: one that was restarted may know of them only when its first entry is committed."""


class FreshLeader:
    """Since when this controller leads, and the masters that it has not heard.

    :ivar led_ms: None while another leads.
    """

    def __init__(self, groups: Groups, liveness: Liveness, times: Times) -> None:
        self._groups = groups
        self._liveness = liveness
        self._times = times
        self.led_ms: int | None = None
        self._unheard: deque[ReplicaKey] = deque()
        self._found: set[ReplicaKey] = set()  # all that were ever in the queue
        self._look_ms = 0

    def led(self, now_ms: int) -> None:
        """It leads."""
        self.led_ms = self._look_ms = now_ms

    def deposed(self) -> None:
        """It does not."""
        self.led_ms = None
        self._unheard.clear()
        self._found.clear()

    def next_unheard(self, count: int, now_ms: int) -> list[ReplicaKey]:
        """So many more that are masters and were not heard yet; each is given once.

        Not those that are alone in their set: nobody could be elected, so that nothing is gained by asking.
        """
        if now_ms >= self._look_ms and self.is_new(now_ms):
            self._look_ms = now_ms + LOOK_MS
            masters = [master_key(group) for group in self._groups.groups()]
            new = [key for key in masters if key is not None and key not in self._found and not self.has_heard(key)]
            self._unheard.extend(new)
            self._found.update(new)
        found: list[ReplicaKey] = []
        while self._unheard and len(found) < count:
            key = self._unheard.popleft()
            group = led_group(self._groups, key)
            if group is not None and len(group.addresses) > 1 and not self.has_heard(key):
                found.append(key)
        return found

    def has_heard(self, key: ReplicaKey) -> bool:
        """Whether a heartbeat of it ever came to this process."""
        return self._liveness.last(key) is not None

    def is_new(self, now_ms: int) -> bool:
        """Whether a live broker that had this controller on its list need not have been heard since it leads."""
        return self._since(now_ms) <= self._times.silence

    def awaits(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether any live broker may be one never heard."""
        return not self.has_heard(key) and self._since(now_ms) <= self._times.first

    def in_first_lease(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether it was never heard, and its silence has not lasted as long as a heartbeat holds."""
        return not self.has_heard(key) and self._since(now_ms) <= self._liveness.holds_ms(key)

    def may_hear_of(self, keys: Collection[ReplicaKey], now_ms: int) -> bool:
        """Whether one of these may live although nothing was heard of it."""
        return self.is_new(now_ms) and not all(self.has_heard(key) for key in keys)

    def _since(self, now_ms: int) -> int:
        """How long it leads, ms; 0 while it does not."""
        return 0 if self.led_ms is None else now_ms - self.led_ms
