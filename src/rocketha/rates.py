"""How often one host may ask for what stays: broker ids, broker groups, addresses, a broker's topics and groups.

Knows no clock.  Each host has a number at once and then one now and then, so that no table is filled by one that asks
again and again; a host that runs whole groups, as tests and trials do, does not feel it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

EACH_MS = 10_000
REMEMBERED_MAX = 4096

IDS_AT_ONCE = 16
"""Of one group, whose members are 256 at most and whose ids are never given again."""

NEWCOMERS_AT_ONCE = 1024
"""Groups of a controller, addresses of a nameserver: behind one address (NAT) may be a whole site."""


MADE_AT_ONCE, MADE_EACH_MS = 8192, 1000
"""Topics and groups that come to be by use.  Java has no bound; a broker is full at 100,000 of either, for good, and
each of them costs all that save and replicate its tables."""


class Rates:
    """Who asked lately.  Of more than are remembered the one that asked longest ago begins anew.

    :param at_once: so many are granted before one has to wait for the next.
    :param each_ms: for so long.
    """

    def __init__(self, at_once: int, each_ms: int = EACH_MS) -> None:
        self._each_ms = each_ms
        self._ahead_ms = at_once * each_ms
        self._free_ms: OrderedDict[Hashable, int] = OrderedDict()  # when all that was asked for is paid off

    def take(self, who: Hashable, now_ms: int) -> bool:
        """Whether it may ask now; that counts."""
        free_ms = self._after(who, now_ms)
        if free_ms > now_ms + self._ahead_ms:
            return False
        self._free_ms[who] = free_ms
        self._free_ms.move_to_end(who)
        if len(self._free_ms) > REMEMBERED_MAX:
            self._free_ms.popitem(last=False)
        return True

    def may(self, who: Hashable, now_ms: int) -> bool:
        """Whether it may ask now; that does not count."""
        return self._after(who, now_ms) <= now_ms + self._ahead_ms

    def _after(self, who: Hashable, now_ms: int) -> int:
        """When all is paid off, with one more."""
        return max(now_ms, self._free_ms.get(who, now_ms)) + self._each_ms
