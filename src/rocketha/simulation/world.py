"""One simulated world: its scheduler, network, hosts and chance, all from one seed.

Theory of operation: each part that needs chance has a stream of its own, named, so that a new use of chance in one part
does not change what another draws.
"""

from __future__ import annotations

import random

from rocketha.simulation.clock import HostClock
from rocketha.simulation.host import Host, Program
from rocketha.simulation.link import Quality
from rocketha.simulation.network import Network
from rocketha.simulation.scheduler import Scheduler
from rocketha.simulation.trace import Trace


class World:
    """See the module.

    :param seed: decides everything.
    :param quality: of all links, until changed.
    :param trace: where what happens is noted.
    """

    def __init__(self, seed: int, quality: Quality | None = None, trace: Trace | None = None) -> None:
        self.seed = seed
        self.trace = trace or Trace()
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, self.chance("network"), self.trace, quality)
        self.hosts: dict[str, Host] = {}

    def chance(self, name: str) -> random.Random:
        """A stream of chance of its own."""
        return random.Random(f"{self.seed}/{name}")

    def add_host(
        self, name: str, program: Program | None = None, rate: float = 1.0, error_s: float = 0.0, start: bool = True
    ) -> Host:
        """A host named ``name`` at the next address, running ``program``."""
        address = f"10.0.{len(self.hosts) // 250}.{len(self.hosts) % 250 + 1}"
        host = Host(self.scheduler, self.network, name, address, HostClock(rate, error_s), self.chance(f"host {name}"))
        host.program = program
        self.hosts[name] = host
        if start and program is not None:
            host.start()
        return host

    @property
    def now(self) -> float:
        """True seconds since the beginning."""
        return self.scheduler.now

    def run(self, for_s: float) -> None:
        """Let it go on."""
        self.scheduler.run(self.scheduler.now + for_s)

    def partition(self, name: str, *groups: list[Host]) -> None:
        """Block every link between hosts of different groups; :meth:`heal` with the same name undoes it."""
        for number, group in enumerate(groups):
            for other in groups[number + 1 :]:
                for one in group:
                    for two in other:
                        self.block(name, one, two)
                        self.block(name, two, one)

    def block(self, name: str, source: Host, target: Host) -> None:
        """Block one way."""
        self.network.link(source.address, target.address).blocks.add(name)

    def heal(self, name: str) -> None:
        """Open what was blocked under a name."""
        self.network.heal(name)
