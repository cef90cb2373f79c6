"""A process's view of the simulated world, with the interfaces of Twisted's reactor.

The real services get it where production gives them Twisted's own, and cannot tell.  One reactor belongs to one
incarnation of one process: after its death no timer fires, no byte leaves and no connection is made by what is left of
it.  Its time is the host's steady clock, with that clock's drift.

Theory of operation: a delayed call is one entry of the scheduler's heap, at the true time its local time comes.  A call
that was put off meanwhile is put back when its first moment comes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from twisted.internet import defer, error
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import (
    IDelayedCall,
    IHostnameResolver,
    IHostResolution,
    IReactorCore,
    IReactorFromThreads,
    IReactorPluggableNameResolver,
    IReactorTCP,
    IReactorTime,
    IResolutionReceiver,
)
from zope.interface import implementer

from rocketha.simulation.clock import HostClock
from rocketha.simulation.scheduler import Owner, Scheduler


class Doors(Protocol):
    """What a process's connections go through: the network."""

    def resolve(self, name: str, failing: bool = False) -> str | None:
        """The address of a name."""

    def listen(self, reactor: SimulatedReactor, port: int, factory: Any, interface: str) -> Any:
        """A port of this process."""

    def connect(self, reactor: SimulatedReactor, host: str, port: int, factory: Any, timeout: float) -> Any:
        """A connector of this process."""


@implementer(IDelayedCall)
class SimulatedCall:
    """A timer.

    :ivar time: local time at which it is due.
    """

    __slots__ = ("_args", "_function", "_kw", "_place", "_reactor", "called", "cancelled", "time")

    def __init__(
        self, reactor: SimulatedReactor, time: float, function: Callable[..., Any], args: tuple[Any, ...], kw: Any
    ) -> None:
        self._reactor = reactor
        self.time = time
        self._function: Callable[..., Any] | None = function
        self._args = args
        self._kw = kw
        self._place = 0
        self.called = self.cancelled = 0

    def fire(self, place: int) -> None:
        """The scheduler: the moment this was placed at has come."""
        if place != self._place or self.called or self.cancelled:
            return
        reactor = self._reactor
        if self.time > reactor.clock.local(reactor.scheduler.now) + 1e-9:
            self.place()
            return
        function, args, kw = self._function, self._args, self._kw
        self.called = 1
        self._function, self._args = None, ()
        reactor.timers -= 1
        assert function is not None
        function(*args, **kw)

    def place(self) -> None:
        """Put it into the heap, by the clock as it goes now."""
        self._place += 1
        reactor = self._reactor
        reactor.scheduler.at(reactor.clock.true(self.time), reactor.owner, self.fire, self._place)

    def getTime(self) -> float:
        return self.time

    def cancel(self) -> None:
        """Twisted: never."""
        self._check()
        self.cancelled = 1
        self._function, self._args = None, ()
        self._reactor.timers -= 1

    def reset(self, secondsFromNow: float) -> None:
        """Twisted: so long from now."""
        self._check()
        self._move(self._reactor.seconds() + secondsFromNow)

    def delay(self, secondsLater: float) -> None:
        """Twisted: so much later than it would be."""
        self._check()
        self._move(self.time + secondsLater)

    def _move(self, time: float) -> None:
        earlier = time < self.time
        self.time = time
        if earlier:
            self.place()

    def _check(self) -> None:
        if self.cancelled:
            raise error.AlreadyCancelled
        if self.called:
            raise error.AlreadyCalled

    def active(self) -> bool:
        return not (self.cancelled or self.called)


@implementer(IHostResolution)
class _Resolution:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Nothing waits."""


@implementer(IHostnameResolver)
class SimulatedResolver:
    """Names of the simulated network; finds nothing while :attr:`failing`."""

    def __init__(self, reactor: SimulatedReactor) -> None:
        self._reactor = reactor
        self.failing = False

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[Any] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """Twisted: look a name up."""
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        address = self._reactor.network.resolve(hostName, self.failing)
        if address is not None:
            resolutionReceiver.addressResolved(IPv4Address("TCP", address, portNumber))
        resolutionReceiver.resolutionComplete()
        return resolution


@implementer(IReactorCore, IReactorTime, IReactorTCP, IReactorFromThreads, IReactorPluggableNameResolver)
class SimulatedReactor:
    """See the module.

    :param owner: whose events its timers are.
    :param address: the host's.
    :param exited: called when the process ends itself by ``stop``.
    :ivar timers: calls that wait.
    :ivar timers_max: most that waited at a time.
    """

    running = True
    installed = True

    def __init__(
        self,
        scheduler: Scheduler,
        network: Doors,
        clock: HostClock,
        owner: Owner,
        address: str,
        exited: Callable[[], None],
    ) -> None:
        self.scheduler = scheduler
        self.network = network
        self.clock = clock
        self.owner = owner
        self.address = address
        self.nameResolver: Any = SimulatedResolver(self)
        self.timers = self.timers_max = 0
        self._exited = exited
        self._triggers: list[tuple[str, Callable[[], Any]]] = []
        self._ephemeral = itertools.count(32768)

    # -- time

    def seconds(self) -> float:
        return self.clock.local(self.scheduler.now)

    def wall(self) -> float:
        """The time of day as the host has it; for services that are given such a clock."""
        return self.clock.wall(self.scheduler.now)

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any, **kw: Any) -> SimulatedCall:
        """Twisted: a timer by the host's clock."""
        if delay < 0:
            raise ValueError(f"{delay} is not greater than or equal to 0 seconds")
        clock, scheduler = self.clock, self.scheduler
        call = SimulatedCall(self, clock.local(scheduler.now) + delay, callable, args, kw)
        self.timers = timers = self.timers + 1
        if timers > self.timers_max:
            self.timers_max = timers
        call.place()
        return call

    def getDelayedCalls(self) -> list[SimulatedCall]:
        """Twisted: the timers that wait."""
        found = {}
        for _, call in self.scheduler.pending(self.owner):
            timer = getattr(call, "__self__", None)
            if isinstance(timer, SimulatedCall) and timer.active():
                found[id(timer)] = timer
        return list(found.values())

    # -- threads and life

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        self.scheduler.after(0.0, self.owner, lambda: callable(*args, **kw))

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        callable(*args, **kw)

    def addSystemEventTrigger(
        self, phase: str, eventType: str, callable: Callable[..., Any], *args: Any, **kw: Any
    ) -> tuple[str, Callable[[], Any]]:
        """Twisted: only ``shutdown`` ever comes; its ``after`` phase is the end of a real process and is not run."""
        trigger = (f"{phase} {eventType}", lambda: callable(*args, **kw))
        self._triggers.append(trigger)
        return trigger

    def removeSystemEventTrigger(self, triggerID: Any) -> None:
        self._triggers.remove(triggerID)

    def fireSystemEvent(self, eventType: str) -> None:
        """Twisted: run the triggers of ``before`` and ``during``, in order."""
        for phase in ("before", "during"):
            for name, call in list(self._triggers):
                if name == f"{phase} {eventType}":
                    call()

    def stop(self) -> None:
        """Twisted: the process ends."""
        self.scheduler.after(0.0, self.owner, self._stop)

    def _stop(self) -> None:
        self.fireSystemEvent("shutdown")
        self._exited()

    def crash(self) -> None:
        self._exited()

    def run(self) -> None:
        raise RuntimeError("the simulation runs, not one reactor of it")

    def iterate(self, delay: float = 0.0) -> None:
        raise RuntimeError("the simulation runs, not one reactor of it")

    def resolve(self, name: str, timeout: Sequence[int] = ()) -> defer.Deferred[str]:
        """Twisted: the old way to look a name up."""
        address = self.network.resolve(name, self.nameResolver.failing)
        if address is None:
            return defer.fail(error.DNSLookupError(name))
        return defer.succeed(address)

    def installNameResolver(self, resolver: Any) -> Any:
        before, self.nameResolver = self.nameResolver, resolver
        return before

    # -- connections

    def ephemeral_port(self) -> int:
        return next(self._ephemeral)

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        """Twisted: accept connections."""
        return self.network.listen(self, port, factory, interface)

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30.0, bindAddress: tuple[str, int] | None = None
    ) -> Any:
        """Twisted: open one."""
        return self.network.connect(self, host, port, factory, timeout)
