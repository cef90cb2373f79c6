"""What a test sees of the events in the log."""

from __future__ import annotations

from typing import Any

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase


def events_of(case: SynchronousTestCase) -> list[dict[str, Any]]:
    """Those from now on until the test ends, as the log has them: the name is ``event``."""
    said: list[dict[str, Any]] = []

    def take(event: dict[str, Any]) -> None:
        if isinstance(event.get("event"), str):
            said.append(event)

    globalLogPublisher.addObserver(take)
    case.addCleanup(globalLogPublisher.removeObserver, take)
    return said
