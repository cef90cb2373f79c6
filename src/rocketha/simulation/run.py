"""One run of a scenario: its world, what went wrong in it, what it proved, and how fast it was.

Theory of operation: a scenario builds its hosts in a world, gets faults done to it, and is asked at the end whether the
cluster recovered.  What our code logs as a failure, and every exception that reached a reactor, is a finding too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import attrs
import txaio
from twisted.internet import defer
from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.simulation.clock_steps import ClockSteps
from rocketha.simulation.faults import Injector
from rocketha.simulation.findings import Findings, Violation
from rocketha.simulation.scheduler import ProcessDied
from rocketha.simulation.setup import Setup
from rocketha.simulation.trace import Trace
from rocketha.simulation.world import World

LOOK_S = 0.5
"""How often invariants are looked at that need a look."""

CHECK_RECOVERY_S = 0.25


class Scenario(Protocol):
    """What is simulated."""

    world: World
    findings: Findings
    injector: Injector

    def look(self) -> None:
        """Check what must hold at any moment."""

    def recovered(self) -> str | None:
        """After the faults: what is still missing, None when all is well again."""

    def finish(self) -> None:
        """At the end: check histories, compare replicas."""


@attrs.frozen
class Outcome:
    """What came of a run.

    :ivar digest: equal for equal runs.
    :ivar recovered_s: from the end of the last fault to a whole cluster.
    :ivar cpu_s: processor time.
    """

    setup: Setup
    violations: tuple[Violation, ...]
    digest: int
    events: int
    counts: dict[str, int]
    recovered_s: float | None
    cpu_s: float
    trace: tuple[str, ...] = ()

    @property
    def factor(self) -> float:
        """Simulated seconds a second."""
        return self.setup.seconds / self.cpu_s if self.cpu_s else 0.0

    def lines(self) -> Iterator[str]:
        """As printed."""
        for violation in self.violations:
            yield f"  {violation}"
        counted = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        recovered = "-" if self.recovered_s is None else f"{self.recovered_s:.2f} s after the last fault"
        yield f"  recovered {recovered}; {counted}"
        yield (
            f"  {self.events} events, digest {self.digest:08x}; {self.cpu_s:.2f} s for {self.setup.seconds:g} s: "
            f"{self.factor:.0f} times real time"
        )


Build = Callable[[Setup, World], Scenario]


def run(build: Build, setup: Setup, trace_lines: int = 0) -> Outcome:
    """Run a scenario to its end, or to its first violation."""
    began = time.process_time()
    trace = Trace(trace_lines)
    with _Logs(trace) as logs:
        findings, events, recovered_s = _run(build, setup, trace, logs)
        gc.collect()  # a Deferred that failed and nobody looked at says so now
    return Outcome(
        setup,
        tuple(findings.violations),
        trace.digest,
        events,
        dict(findings.counts),
        recovered_s,
        time.process_time() - began,
        tuple(trace.lines()) if trace_lines else (),
    )


def _run(build: Build, setup: Setup, trace: Trace, logs: _Logs) -> tuple[Findings, int, float | None]:
    """The run itself; when it returns nothing refers to its world any more."""
    world = World(setup.seed, setup.quality, trace)
    scenario = build(setup, world)
    findings = logs.findings = scenario.findings
    world.scheduler.on_failure = lambda name, failure: findings.violated(
        "no exception reaches the reactor", f"{name}: {failure.getTraceback()}"
    )
    scenario.injector.schedule(setup.faults)
    ClockSteps(world)
    _look_again(world, scenario)
    recovered_s = _play(world, scenario, setup)
    if not findings.violations:
        scenario.finish()
    return findings, world.scheduler.events, recovered_s


def _play(world: World, scenario: Scenario, setup: Setup) -> float | None:
    findings = scenario.findings
    world.scheduler.run(setup.heal_s)
    if findings.violations:
        return None
    scenario.injector.heal_all()
    recovered_s: float | None = None
    missing: str | None = "nothing was looked at"
    while world.now < setup.seconds and not findings.violations:
        world.run(CHECK_RECOVERY_S)
        if recovered_s is None:
            missing = scenario.recovered()
            if missing is None:
                recovered_s = world.now - setup.heal_s
    if findings.violations:
        return recovered_s
    if recovered_s is None:
        findings.violated("recovers after the last fault (20)", str(missing))
    else:
        missing = scenario.recovered()
        if missing is not None:
            findings.violated("stays whole without faults (20)", missing)
    return recovered_s


def _look_again(world: World, scenario: Scenario) -> None:
    scenario.look()
    world.scheduler.after(LOOK_S, None, _look_again, world, scenario)


class _Unheard(defer.DebugInfo):
    """What Twisted says of a Deferred that failed and that nobody looked at; but not when its process has died.

    A Deferred stops every exception, also the one that unwinds the code of a process that dies.  Nobody is left to look
    at it, and to say so to whatever else observes the log would blame the program for its end.
    """

    def __del__(self) -> None:
        if self.failResult is None or not self.failResult.check(ProcessDied):
            super().__del__()


@implementer(ILogObserver)
class _Logs:
    """Our own logs while a run lasts: silent, or in its trace; failures among them are findings."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.findings: Findings | None = None
        self._level = "info"

    def __enter__(self) -> _Logs:
        self._level = txaio.get_global_log_level()
        txaio.set_global_log_level("info" if self._trace.on else "error")
        globalLogPublisher.addObserver(self)
        self._debug_info, defer.DebugInfo = defer.DebugInfo, _Unheard  # type: ignore[misc]
        self._collecting = gc.isenabled()
        gc.disable()  # a collection in the middle would report lost errors at a moment that differs between runs
        return self

    def __exit__(self, *_: object) -> None:
        globalLogPublisher.removeObserver(self)
        defer.DebugInfo = self._debug_info  # type: ignore[misc]
        txaio.set_global_log_level(self._level)
        if self._collecting:
            gc.enable()

    def __call__(self, event: dict[str, Any]) -> None:
        """Twisted: something is logged."""
        level = event.get("log_level", LogLevel.info)
        failure = event.get("log_failure")
        if self._trace.on and str(event.get("log_namespace", "")).startswith("rocketha"):
            self._trace.say(self.findings.now if self.findings is not None else 0.0, level.name, formatEvent(event))
        if self.findings is None or level < LogLevel.error:
            return
        if isinstance(failure, Failure):
            if not failure.check(ProcessDied):  # what an errback that is told of its process's death says, nobody said
                self.findings.violated("no failure is logged", failure.getTraceback())
        elif "Traceback" in (text := formatEvent(event)) and ProcessDied.__name__ not in text:
            self.findings.violated("no failure is logged", text)
