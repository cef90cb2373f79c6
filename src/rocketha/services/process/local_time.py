"""The host's local time, where RocketMQ's formats ask for it."""

from __future__ import annotations

import functools
import time


def local_utc_offset_ms() -> int:
    """Local time minus UTC, now."""
    return time.localtime().tm_gmtoff * 1000


def month_start_ms(wall_ms: int) -> int:
    """The start of the local month, from which ``MessageClientIDSetter`` counts."""
    local = time.localtime(wall_ms / 1000)
    return _month_start_ms(local.tm_year, local.tm_mon)


@functools.lru_cache(maxsize=4)
def _month_start_ms(year: int, month: int) -> int:
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000
