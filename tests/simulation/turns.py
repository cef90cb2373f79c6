"""Meters what holds the reactors of simulated hosts: the processor time of each turn, and the disk's."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import attrs

from rocketha.services.broker.service import BrokerService
from rocketha.simulation.disk import SimulatedWork
from rocketha.simulation.host import Host, Process
from rocketha.simulation.scheduler import Owner
from rocketha.simulation.world import World


@attrs.frozen
class Held:
    """A turn in which a serving broker's reactor waited for its disk.

    :ivar seconds: simulated.
    :ivar paths: what was synced, files and directories.
    """

    host: str
    seconds: float
    paths: tuple[str, ...]


class Turns:
    """What was measured.

    :ivar longest_s: processor time of the longest turn, without what threads would do.
    :ivar longest: which that was.
    :ivar count: turns.
    :ivar held: those that waited for a disk.
    :ivar in_threads: what was synced and held no turn.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.longest = ""
        self.count = 0
        self.held: list[Held] = []
        self._in_threads = 0
        self._threads_s = 0.0
        self._synced: list[str] = []
        self.in_threads: set[str] = set()
        self._begin_work = SimulatedWork._do

    @contextlib.contextmanager
    def metering(self) -> Iterator[Turns]:
        """While this lasts work of threads is told from that of reactors.  The garbage collector rests: the heap of a
        test run is no broker's."""

        def do(work: SimulatedWork, call: Callable[[], Any]) -> Any:
            self._in_threads += 1
            began = time.thread_time()
            try:
                return self._begin_work(work, call)
            finally:
                self._threads_s += time.thread_time() - began
                self._in_threads -= 1

        collects = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            with mock.patch.object(SimulatedWork, "_do", do):
                yield self
        finally:
            if collects:
                gc.enable()

    def watch(self, world: World, is_metered: Callable[[str], bool]) -> None:
        """Meter the hosts of a new world that have such names."""
        at, scheduler = world.scheduler.at, world.scheduler

        def metered(when: float, owner: Owner | None, call: Callable[..., None], *args: Any) -> None:
            if isinstance(owner, Process) and is_metered(owner.name) and not isinstance(call, _Turn):
                call = _Turn(self, owner, call)
            at(when, owner, call, *args)

        scheduler.at = metered  # type: ignore[method-assign]

    def watch_disk(self, host: Host) -> None:
        """Note what is synced in turns."""
        step = host.disk.step

        def noted(path: str, operation: str, opens: bool = False) -> None:
            if operation.startswith("sync"):
                if self._in_threads:
                    self.in_threads.add(path)
                else:
                    self._synced.append(path)
            step(path, operation, opens)

        host.disk.step = noted  # type: ignore[method-assign]

    def turn(self, process: Process, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Run one and measure it."""
        serving = isinstance(process.service, BrokerService) and process.service.serving
        self._synced.clear()
        threads_s, began = self._threads_s, time.thread_time()
        try:
            call(*args)
        finally:
            took = time.thread_time() - began - (self._threads_s - threads_s)
            self.count += 1
            if took > self.longest_s:
                self.longest_s, self.longest = took, f"{getattr(call, '__qualname__', call)}{args}"[:300]
            waited = process.host.disk.spent_s
            if serving and waited:
                self.held.append(Held(process.name, waited, tuple(self._synced)))


class _Turn:
    """A call in the scheduler's heap."""

    def __init__(self, turns: Turns, process: Process, call: Callable[..., None]) -> None:
        self._turns = turns
        self._process = process
        self._call = call
        self.__self__ = getattr(call, "__self__", None)  # whose timer it is: reactors look for theirs

    def __call__(self, *args: Any) -> None:
        self._turns.turn(self._process, self._call, args)
