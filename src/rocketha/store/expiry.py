"""What to delete, when to refuse writes, and what of that a person should know: rules only.

Pure.  Java: ``DefaultMessageStore.CleanCommitLogService``.  Files go oldest first, never the last; the reserved time
decides, in the configured hours or as soon as the disk is fuller than it should be; a disk fuller still costs files
that are not expired.  Those are messages that somebody may have wanted: each is told of (:class:`ExpiredEarly`), and so
is each mark that the disk passes on its way there (:class:`Filling`).

The three ratios may stand in any order, since files set one of them and leave the others.  As in Java the lower one of
the other two is where unexpired files go: also where writes are refused, and whatever the first says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import attrs

from rocketha.store.config import HOUR, MINUTE, StoreConfig

TOLD_AGAIN_MS = 10 * MINUTE
"""A disk that stays about a mark passes it every few seconds."""


class Doomed(NamedTuple):
    """Which files go now.

    :ivar files: how many of the oldest.
    :ivar early: how many of those, the youngest, are not expired.
    """

    files: int
    early: int


@attrs.frozen
class ExpiredEarly:
    """A file goes whose messages are younger than the reserved time, because the disk fills.

    :ivar age_ms: of its newest message.
    """

    path: str
    age_ms: int
    reserved_ms: int
    used_ratio: float


@attrs.frozen
class Filling:
    """The disk passed a mark.

    :ivar consequence: what happens from there on.
    """

    path: str
    used_ratio: float
    consequence: str


def is_delete_hour(wall_ms: int, config: StoreConfig) -> bool:
    """``deleteWhen``: whether the local hour is one of those configured."""
    return (wall_ms + config.utc_offset_ms) // HOUR % 24 in config.delete_hours


def files_to_delete(
    last_times_ms: Sequence[int], wall_ms: int, used_ratio: float, config: StoreConfig, asked: bool = False
) -> Doomed:
    """Which of the oldest files go now.

    :param asked: somebody wants what has expired gone whatever the hour.
    :param last_times_ms: for each file but the last, oldest first, the store time of its last message (or a later
        time).
    """
    forced = used_ratio >= force_ratio(config)
    if not (asked or used_ratio >= expire_ratio(config) or is_delete_hour(wall_ms, config)):
        return Doomed(0, 0)
    expired = 0
    for last_ms in last_times_ms[: config.delete_files_max]:
        if last_ms + config.file_reserved_ms > wall_ms:
            break
        expired += 1
    count = len(last_times_ms[: config.delete_files_max]) if forced else expired
    return Doomed(count, count - expired)


def expire_ratio(config: StoreConfig) -> float:
    """From where on expired files are deleted at any hour."""
    return min(config.disk_expire_ratio, config.disk_force_ratio, config.disk_full_ratio)


def force_ratio(config: StoreConfig) -> float:
    """From where on files are deleted that are not expired; infinite where that is disabled."""
    return min(config.disk_force_ratio, config.disk_full_ratio) if config.disk_force_enable else math.inf


def is_full(used_ratio: float, config: StoreConfig) -> bool:
    """Whether writes are refused."""
    return used_ratio >= config.disk_full_ratio


class Marks:
    """Which of the three marks the disk has passed, in whatever order they stand, and when that was told last."""

    def __init__(self) -> None:
        self._passed: tuple[str, ...] = ()
        self._told_ms: dict[str, int] = {}

    def passed(self, path: str, used_ratio: float, now_ms: int, config: StoreConfig) -> Filling | None:
        """The worst mark that was passed since the last look; None of none, or where that was told just now."""
        marks = (
            (expire_ratio(config), "expired files go at any hour"),
            (force_ratio(config), "the oldest files go, expired or not"),
            (config.disk_full_ratio, "no message is taken"),
        )
        before, self._passed = self._passed, tuple(text for ratio, text in marks if used_ratio >= ratio)
        new = [text for text in self._passed if text not in before]
        told_ms = self._told_ms.get(new[-1]) if new else None
        if not new or (told_ms is not None and 0 <= now_ms - told_ms < TOLD_AGAIN_MS):
            return None
        self._told_ms[new[-1]] = now_ms
        return Filling(path, used_ratio, new[-1])
