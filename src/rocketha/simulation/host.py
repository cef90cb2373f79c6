"""A simulated machine: its power, its clock, its disk, its place in the network, and the process that runs on it.

Theory of operation.  A host has one process at a time, made by a function that is given the process and starts a
service on its reactor; the same function makes the next one after a restart, so what survives is what the disk kept.
Three ways to stop: :meth:`Host.kill` (the page cache stays, the kernel closes the connections), :meth:`Host.power_off`
(unsynced writes are lost or torn, the network hears nothing), :meth:`Host.freeze` (a process that stands still, or a
whole machine that does).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rocketha.services.process.platform import Platform
from rocketha.simulation.clock import HostClock
from rocketha.simulation.disk import SimulatedDisk, SimulatedWork
from rocketha.simulation.network import Network, Station
from rocketha.simulation.reactor import SimulatedReactor
from rocketha.simulation.scheduler import Owner, Scheduler


class Process(Owner):
    """One incarnation of a host's program.

    :ivar reactor: what its service runs on.
    :ivar service: whatever the host's program returned.
    :ivar threads: those that it has made.
    """

    __slots__ = ("host", "number", "reactor", "service", "threads")

    def __init__(self, host: Host, number: int) -> None:
        super().__init__(host.scheduler, host.name)
        self.host = host
        self.number = number
        self.reactor = SimulatedReactor(
            host.scheduler, host.network, host.clock, self, host.station.address, host.exited
        )
        self.service: Any = None
        self.threads: list[SimulatedWork] = []
        self.meter = host.disk

    @property
    def disk(self) -> SimulatedDisk:
        """The host's."""
        return self.host.disk

    def work(self, reactor: Any = None, name: str = "") -> SimulatedWork:
        """A thread, made like :class:`rocketha.services.waiting.blocking.Worker`."""
        thread = SimulatedWork(self.host.scheduler, self, self.host.disk, self.host.random)
        self.threads.append(thread)
        return thread

    def platform(self, **others: Any) -> Platform:
        """What a service of this process runs on.

        :param others: see :class:`Platform`.
        """
        return Platform(
            disk=self.disk,
            reactor=self.reactor,
            chance=self.host.random,
            work=self.work,
            sync_work=self.work,
            wall=self.reactor.wall,
            **others,
        )


Program = Callable[[Process], Any]


class Host:
    """See the module.

    :param chance: of its disk and its threads.
    :ivar starts: processes so far.
    :ivar on_death: called when a process ended.
    :ivar on_power_loss: called when what was not synced is gone, whether a process ran or not.
    """

    def __init__(
        self, scheduler: Scheduler, network: Network, name: str, address: str, clock: HostClock, chance: random.Random
    ) -> None:
        self.scheduler = scheduler
        self.network = network
        self.name = name
        self.clock = clock
        self.random = chance
        self.station: Station = network.add(name, address)
        self.disk = SimulatedDisk(chance)
        self.disk.died = self._dies
        self.disk.hastened = self._hastened
        self.process: Process | None = None
        self.program: Program | None = None
        self.starts = 0
        self.on_death: Callable[[Host], None] = lambda host: None
        self.on_power_loss: Callable[[Host], None] = lambda host: None

    @property
    def address(self) -> str:
        """Of its one network card."""
        return self.station.address

    @property
    def alive(self) -> bool:
        """Whether its process exists, frozen or not."""
        return self.process is not None

    @property
    def frozen(self) -> bool:
        """Whether its process stands still."""
        return self.process is not None and self.process.frozen

    def start(self) -> None:
        """Power on if need be, and start the program; an exception of its start is its end."""
        if self.process is not None or self.program is None:
            return
        self.station.up = self.station.accepting = True
        self.starts += 1
        process = self.process = Process(self, self.starts)
        self._note(f"starts (incarnation {self.starts})")
        self.scheduler.after(0.0, process, self._begin, process)

    def _begin(self, process: Process) -> None:
        assert self.program is not None
        try:
            process.service = self.program(process)
        except Exception:
            self.kill()
            raise

    def kill(self) -> None:
        """The process dies; what it wrote stays in the kernel's memory."""
        if self._end_process("is killed"):
            self.disk.kill()

    def _dies(self) -> None:
        """In the middle of an event, of which nothing may be written any more."""
        self.kill()
        self.disk.gone = True
        self.scheduler.after(0.0, None, setattr, self.disk, "gone", False)

    def _hastened(self, share: float) -> None:
        """What the process's reactor and its threads wait for comes sooner."""
        if self.process is not None:
            self.process.busy.hasten(share)
            for thread in self.process.threads:
                thread.busy.hasten(share)

    def exited(self, why: str = "") -> None:
        """The process ended itself."""
        if self._end_process(f"exits: {why}" if why else "exits"):
            self.disk.kill()

    def power_off(self) -> None:
        """The machine loses its power, with what was not synced."""
        self.station.up = False
        self._end_process("loses its power")
        self.disk.crash()
        self.on_power_loss(self)

    def _end_process(self, how: str) -> bool:
        process = self.process
        if process is None:
            return False
        self._note(how)
        self.process = None
        process.dead = True
        self.disk.die_at = 0
        self.disk.spent_s = 0.0
        self.network.forget_process(process)
        self.on_death(self)
        return True

    def freeze(self, whole: bool) -> None:
        """Stand still: the process (SIGSTOP, garbage collection) or the whole machine (a paused VM)."""
        if self.process is not None and not self.process.frozen:
            self._note("freezes" + (" whole" if whole else ""))
            self.process.frozen = True
            self.station.accepting = not whole

    def thaw(self) -> None:
        """Go on."""
        self.station.accepting = True
        if self.process is not None and self.process.frozen:
            self._note("thaws")
            self.scheduler.thaw(self.process)

    def _note(self, what: str) -> None:
        self.network.trace.note(self.scheduler.now, self.name, what)
