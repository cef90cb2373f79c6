"""What to delete, and when to refuse writes: rules only.

Pure.  Java: ``DefaultMessageStore.CleanCommitLogService``.  Files go oldest first, never the last; the reserved time
decides, in the configured hours or as soon as the disk is fuller than it should be; a disk fuller still costs files
that are not expired.

The three ratios may stand in any order, since files set one of them and leave the others.  As in Java the lower one of
the other two is where unexpired files go: also where writes are refused, and whatever the first says.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.store.config import HOUR, StoreConfig


def is_delete_hour(now_ms: int, config: StoreConfig) -> bool:
    """``deleteWhen``: whether the local hour is one of those configured."""
    return (now_ms + config.utc_offset_ms) // HOUR % 24 in config.delete_hours


def files_to_delete(last_times_ms: Sequence[int], now_ms: int, used_ratio: float, config: StoreConfig) -> int:
    """How many of the oldest files go now.

    :param last_times_ms: for each file but the last, oldest first, the store time of its last message (or a later
        time).
    """
    forced = used_ratio >= min(config.disk_force_ratio, config.disk_full_ratio)
    if not (forced or used_ratio >= config.disk_expire_ratio or is_delete_hour(now_ms, config)):
        return 0
    count = 0
    for last_ms in last_times_ms[: config.delete_files_max]:
        if not forced and last_ms + config.file_reserved_ms > now_ms:
            break
        count += 1
    return count


def is_full(used_ratio: float, config: StoreConfig) -> bool:
    """Whether writes are refused."""
    return used_ratio >= config.disk_full_ratio
