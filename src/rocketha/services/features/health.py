"""Health checks of plug-ins: run again and again, each with a time limit.

Java has none; a broker's own reasons to be unready (its disk, its role) are asked where they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet import defer, task
from twisted.python.failure import Failure

from rocketha.observe import events
from rocketha.observe.logging import emit, make_logger


class HealthChecks:
    """Those of one broker.

    :param checks: of each plug-in; they provide :class:`rocketha.interfaces.IHealthCheck`, and their names differ.
    :param failed: told of a check that fails: the failure, the plug-in, what failed.
    """

    def __init__(
        self, checks: Iterable[tuple[str, Any]], clock: Any, failed: Callable[[Failure, str, str], None]
    ) -> None:
        self._checks = list(checks)
        self._clock = clock
        self._failed = failed
        self._running: dict[str, defer.Deferred[Any]] = {}
        self._problems: dict[str, str] = {}
        self._loops: list[task.LoopingCall] = []
        self._log = make_logger()

    def start(self) -> None:
        """Run each now, and at its period."""
        for plugin, check in self._checks:
            loop = task.LoopingCall(self._run, plugin, check)
            loop.clock = self._clock
            self._loops.append(loop)
            loop.start(check.every_s)

    def stop(self) -> None:
        """Run none any more."""
        for loop in self._loops:
            if loop.running:
                loop.stop()
        for running in tuple(self._running.values()):
            running.cancel()

    def _run(self, plugin: str, check: Any) -> defer.Deferred[None]:
        running = defer.maybeDeferred(check.check)
        self._running[check.name] = running
        running.addTimeout(check.timeout_s, self._clock)

        def failed(failure: Failure) -> str:
            if failure.check(defer.TimeoutError, defer.CancelledError):
                return f"no answer within {check.timeout_s:g} s"
            problem = f"the check failed: {type(failure.value).__name__}: {failure.getErrorMessage()}"
            if problem != self._problems.get(check.name):  # once, and not each second
                self._failed(failure, plugin, f"health check {check.name}")
            return problem

        def found(problem: Any) -> None:
            del self._running[check.name]
            if any(loop.running for loop in self._loops):
                self._found(check, problem)

        return running.addErrback(failed).addCallback(found)

    def _found(self, check: Any, found: Any) -> None:
        problem = None if found is None else str(found) or "unhealthy"
        if (before := self._problems.get(check.name)) == problem:
            return
        if problem is None:
            del self._problems[check.name]
            emit(self._log, events.HealthRestored(check.name))
            return
        self._problems[check.name] = problem
        if before is None:
            emit(self._log, events.HealthLost(check.name, problem))

    @property
    def problem(self) -> str | None:
        """What is wrong with the broker, of the first check that says so."""
        return next((f"{name}: {problem}" for name, problem in self._problems.items()), None)

    @property
    def unfit(self) -> str | None:
        """The same, of checks whose problem is a reason to have another master."""
        grave = {check.name for _, check in self._checks if check.hands_over}
        return next((f"{name}: {each}" for name, each in self._problems.items() if name in grave), None)

    def series(self) -> list[tuple[tuple[str, ...], int]]:
        """For the metric: 1 of each check that finds nothing wrong."""
        return [((check.name,), int(check.name not in self._problems)) for _, check in self._checks]
