"""Runs one coroutine on the reactor and turns how it ended into an exit code."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

from rocketha.admin.client import NETWORK_ERRORS, NoAnswer, plain
from rocketha.admin.commands import INTERRUPTED, Given
from rocketha.observe.logging import text_observer

Opened = TypeVar("Opened")


class Interrupted:
    """What to do when the person presses Ctrl-C: set ``finish``, and it is awaited before the reactor stops.

    :ivar came: the reactor is stopping.
    """

    def __init__(self) -> None:
        self.finish: Callable[[], Awaitable[None]] | None = None
        self.came = False


def run_coroutine(main: Callable[[Any, Interrupted], Coroutine[Deferred[Any], Any, int]]) -> int:
    """Run ``main(reactor, interrupted)`` to its end.

    :return: what it returned, 130 after Ctrl-C.
    :raises NoAnswer: the network failed.
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
        if loop.running and not interrupted.came:  # the reactor is stopped once
            loop.stop()

    async def finish() -> None:
        interrupted.came = True
        if not result and not failed and interrupted.finish is not None:
            await interrupted.finish()

    def begin() -> None:
        Deferred.fromCoroutine(main(loop, interrupted)).addBoth(done)

    loop.addSystemEventTrigger("before", "shutdown", lambda: Deferred.fromCoroutine(finish()))
    loop.callWhenRunning(begin)
    loop.run()
    if failed:
        problem = failed[0].value
        if isinstance(problem, NETWORK_ERRORS):
            raise NoAnswer(plain(problem)) from problem
        failed[0].raiseException()
    return result[0] if result else INTERRUPTED


def run_with(
    opened: Callable[[Any, Given], AbstractContextManager[Opened]],
) -> Callable[[Callable[[Opened, Given], Coroutine[Deferred[Any], Any, int]]], Callable[[Given], int]]:
    """A decorator: a coroutine function becomes a command's function, which runs it on the reactor.

    :param opened: ``opened(reactor, given)`` makes what it works with, which is closed behind it.
    """

    def decorate(work: Callable[[Opened, Given], Coroutine[Deferred[Any], Any, int]]) -> Callable[[Given], int]:
        @functools.wraps(work)
        def run(given: Given) -> int:
            async def main(reactor: Any, interrupted: Interrupted) -> int:
                with opened(reactor, given) as found:
                    return await work(found, given)

            return run_coroutine(main)

        return run

    return decorate
