"""Ending the process because it cannot do what it is for, with an exit status that says so."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from twisted.internet.error import ReactorNotRunning

from rocketha.observe.events import ProcessFails
from rocketha.observe.logging import emit, make_logger


def end_process(reactor: Any, why: str) -> None:
    """Log why, stop every service in order, and exit with status 1 (``twistd`` by itself would say 0)."""
    emit(make_logger(), ProcessFails(why))

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)

    reactor.addSystemEventTrigger("after", "shutdown", leave)
    if reactor.running:
        with contextlib.suppress(ReactorNotRunning):  # it stops already
            reactor.stop()
    else:
        reactor.callWhenRunning(reactor.stop)
