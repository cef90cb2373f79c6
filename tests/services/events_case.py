"""What a test sees of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase


def events_of(case: SynchronousTestCase) -> list[dict[str, Any]]:
    """Events with a name from now on until the test ends, as the log has them: the name is ``event``."""
    said: list[dict[str, Any]] = []
    _observe(case, lambda event: said.append(event) if isinstance(event.get("event"), str) else None)
    return said


def lines_of(case: SynchronousTestCase) -> list[str]:
    """What the log says from now on until the test ends."""
    lines: list[str] = []
    _observe(case, lambda event: lines.append(formatEvent(event)))
    return lines


def _observe(case: SynchronousTestCase, take: Callable[[dict[str, Any]], None]) -> None:
    globalLogPublisher.addObserver(take)
    case.addCleanup(globalLogPublisher.removeObserver, take)
