"""How often one host may ask for what is never given back: broker ids.

Knows no clock.  Each host has a few at once in each group and then one now and then, so that no set is filled by one
that applies for id after id; a host that runs a whole group, as tests and trials do, does not feel it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

AT_ONCE = 16
EACH_MS = 10_000
REMEMBERED_MAX = 4096


class Rates:
    """Who asked lately.  Of more than are remembered the one that asked longest ago begins anew."""

    def __init__(self) -> None:
        self._free_ms: OrderedDict[Hashable, int] = OrderedDict()  # when all that was asked for is paid off

    def take(self, who: Hashable, now_ms: int) -> bool:
        """Whether it may ask now; that counts."""
        free_ms = max(now_ms, self._free_ms.get(who, now_ms)) + EACH_MS
        if free_ms > now_ms + AT_ONCE * EACH_MS:
            return False
        self._free_ms[who] = free_ms
        self._free_ms.move_to_end(who)
        if len(self._free_ms) > REMEMBERED_MAX:
            self._free_ms.popitem(last=False)
        return True
