"""Runs one coroutine on the reactor and turns how it ended into an exit code."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

from rocketha.admin.client import NETWORK_ERRORS
from rocketha.errors import RockethaError
from rocketha.observe.logging import text_observer


class Interrupted:
    """What to do when the person presses Ctrl-C: set ``finish``, and it is awaited before the reactor stops."""

    def __init__(self) -> None:
        self.finish: Callable[[], Awaitable[None]] | None = None


def run_coroutine(main: Callable[[Any, Interrupted], Coroutine[Deferred[Any], Any, int]]) -> int:
    """Run ``main(reactor, interrupted)`` to its end.

    :return: what it returned, 1 for an error of ours or of the network (its text goes to standard error), 130 after
        Ctrl-C.
    :raises Exception: what it raised otherwise.
    """
    from twisted.internet import reactor  # here, because importing it chooses it

    loop: Any = reactor
    globalLogBeginner.beginLoggingTo([text_observer()], redirectStandardIO=False, discardBuffer=True)
    interrupted = Interrupted()
    result: list[int] = []
    failed: list[Failure] = []

    def done(value: int | Failure) -> None:
        if isinstance(value, Failure):
            failed.append(value)
        else:
            result.append(value)
        if loop.running:
            loop.stop()

    async def finish() -> None:
        if not result and not failed and interrupted.finish is not None:
            await interrupted.finish()

    def begin() -> None:
        Deferred.fromCoroutine(main(loop, interrupted)).addBoth(done)

    loop.addSystemEventTrigger("before", "shutdown", lambda: Deferred.fromCoroutine(finish()))
    loop.callWhenRunning(begin)
    loop.run()
    if failed:
        if failed[0].check(RockethaError, *NETWORK_ERRORS):
            print(f"rocketha: {failed[0].getErrorMessage()}", file=sys.stderr)
            return 1
        failed[0].raiseException()
    return result[0] if result else 130
