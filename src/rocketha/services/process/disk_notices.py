"""What a store says of its disk, as events of the log.

What it must not know: whose store it is.
"""

from __future__ import annotations

from typing import Any

from rocketha.observe import events
from rocketha.observe.logging import emit
from rocketha.store.config import HOUR
from rocketha.store.expiry import Filling
from rocketha.store.upkeep import Upkeep


def emit_disk_notices(log: Any, upkeep: Upkeep) -> None:
    """Log what has not been logged yet."""
    for notice in upkeep.notices():
        if isinstance(notice, Filling):
            emit(log, events.DiskFilling(notice.path, notice.used_ratio, notice.consequence))
        else:
            reason = f"the disk is {notice.used_ratio:.0%} full"
            emit(
                log,
                events.LogExpiredEarly(notice.path, notice.age_ms / HOUR, notice.reserved_ms / HOUR, reason),
            )
