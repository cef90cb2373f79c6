"""How often one host may ask for what stays: broker ids, broker groups, addresses.

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


class Rates:
    """Who asked lately.  Of more than are remembered the one that asked longest ago begins anew.

    :param at_once: so many are granted before one has to wait :data:`EACH_MS` for the next.
    """

    def __init__(self, at_once: int) -> None:
        self._ahead_ms = at_once * EACH_MS
        self._free_ms: OrderedDict[Hashable, int] = OrderedDict()  # when all that was asked for is paid off

    def take(self, who: Hashable, now_ms: int) -> bool:
        """Whether it may ask now; that counts."""
        free_ms = max(now_ms, self._free_ms.get(who, now_ms)) + EACH_MS
        if free_ms > now_ms + self._ahead_ms:
            return False
        self._free_ms[who] = free_ms
        self._free_ms.move_to_end(who)
        if len(self._free_ms) > REMEMBERED_MAX:
            self._free_ms.popitem(last=False)
        return True
