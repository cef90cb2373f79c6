"""What goes wrong in a run: drawn from the seed, done to the world, undone in time.

Theory of operation.  A seed switches on a handful of the kinds of fault (a run with all of them shows less than many
runs with a few each), then draws episodes: one to three faults that overlap, each for a while, with pauses between.
All of them end before the run's last part, in which the cluster must recover: :meth:`Injector.heal_all` makes sure.

Kinds are named for what an operator would call them.  Those of a *host* hit one node (or one broker's host); those of
the *network* cut the nodes in some way, with or without the clients' hosts; those of a *disk* leave the process alive.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence

import attrs

from rocketha.simulation.host import Host
from rocketha.simulation.link import Link
from rocketha.simulation.world import World


@attrs.frozen
class Fault:
    """One thing that goes wrong for a while; seconds of true time.

    :ivar targets: names of hosts.
    :ivar size: how bad; what it means is the kind's affair.
    """

    kind: str
    begins_s: float
    ends_s: float
    targets: tuple[str, ...]
    size: float = 0.0

    def __str__(self) -> str:
        size = f" {self.size:.3g}" if self.size else ""
        return f"{self.begins_s:6.2f}-{self.ends_s:6.2f} {self.kind}{size} {' '.join(self.targets)}"


HOST_KINDS = ("kill", "die-at-write", "power", "freeze", "freeze-machine", "clock-jump", "no-names")
DISK_KINDS = ("slow-disk", "stuck-disk", "disk-error", "sync-error", "disk-full")
NETWORK_KINDS = (
    "halves",
    "single",
    "one-way",
    "bridge",
    "majority-ring",
    "flapping",
    "clients-cut",
    "deaf",
    "slow-link",
    "loss",
    "reset",
    "corrupt",
)
ALL_KINDS = (*HOST_KINDS, *DISK_KINDS, *NETWORK_KINDS, "power-all", "kill-majority")

LONG_S = 8.0
"""Most faults last up to this, a few up to four times as long."""


def draw(
    chance: random.Random,
    nodes: Sequence[str],
    clients: Sequence[str],
    begin_s: float,
    end_s: float,
    kinds: Sequence[str] = ALL_KINDS,
) -> tuple[Fault, ...]:
    """A schedule.

    :param nodes: hosts of the group under test.
    :param clients: hosts of brokers and other clients.
    :param begin_s: nothing goes wrong before.
    :param end_s: all is over by then.
    """
    faults: list[Fault] = []
    enabled = sorted(chance.sample(sorted(kinds), min(len(kinds), chance.randrange(2, 7))))
    rest_s = chance.choice((0.5, 2.0, 5.0))
    now = begin_s + chance.random() * rest_s
    while enabled and now < end_s - 0.5:
        last = now
        for _ in range(chance.choice((1, 1, 2, 2, 3))):
            begins = now + chance.random() * 2.0
            long_s = LONG_S * (4 if chance.random() < 0.05 else 1)
            ends = min(end_s, begins + chance.choice((0.1, 1.0, long_s)) * (0.1 + chance.random()))
            if begins >= end_s:
                continue
            kind = chance.choice(enabled)
            targets = _targets(chance, kind, nodes, clients)
            faults.append(Fault(kind, round(begins, 3), round(ends, 3), targets, _size(chance, kind)))
            last = max(last, ends)
        now = last + chance.random() * rest_s
    return tuple(sorted(faults, key=lambda fault: (fault.begins_s, fault.ends_s, fault.kind)))


def _targets(chance: random.Random, kind: str, nodes: Sequence[str], clients: Sequence[str]) -> tuple[str, ...]:
    everybody = [*nodes, *clients]
    if len(everybody) == 1:
        return (everybody[0],)
    if kind in ("power-all", "bridge", "majority-ring"):
        return tuple(chance.sample(list(nodes), len(nodes)))
    if kind == "kill-majority":
        return tuple(sorted(chance.sample(list(nodes), len(nodes) // 2 + 1)))
    if kind == "halves":
        shuffled = chance.sample(everybody, len(everybody))
        return tuple(sorted(shuffled[: chance.randrange(1, max(2, len(shuffled)))]))
    if kind in ("one-way", "deaf", "slow-link", "loss", "reset"):
        return tuple(chance.sample(everybody, 2)) if len(everybody) > 1 else tuple(everybody)
    if kind == "corrupt":
        return tuple(chance.sample(list(nodes), 2)) if len(nodes) > 1 else tuple(nodes)
    if kind == "clients-cut" and clients:
        return tuple(sorted(chance.sample(list(clients), chance.randrange(1, len(clients) + 1))))
    if kind in DISK_KINDS or chance.random() < 0.7 or not clients:
        return (chance.choice(list(nodes)),)
    return (chance.choice(everybody),)


def _size(chance: random.Random, kind: str) -> float:
    if kind == "clock-jump":
        return chance.choice((-3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0)) * (0.5 + chance.random() / 2)
    if kind == "slow-disk":
        return float(chance.choice((10, 100, 1000)))
    if kind == "die-at-write":
        return float(chance.randrange(1, 30))
    if kind == "slow-link":
        return chance.choice((0.05, 0.2, 1.0))
    if kind in ("loss", "corrupt"):
        return chance.choice((0.03, 0.3))
    if kind == "flapping":
        return chance.choice((0.1, 0.5, 1.5))
    return 0.0


class Injector:
    """Does a schedule to a world.

    :param nodes: names of the group's hosts, in order.
    :ivar restart_s: after the death of a process that no fault will restart, a supervisor does.
    """

    def __init__(self, world: World, nodes: Sequence[str], restart_s: float = 1.0) -> None:
        self._world = world
        self._nodes = [world.hosts[name] for name in nodes]
        self._chance = world.chance("injector")
        self._down: dict[str, int] = {}
        self.restart_s = restart_s
        self.active: set[int] = set()
        self.over = False
        for name in sorted(world.hosts):
            world.hosts[name].on_death = self._died

    def schedule(self, faults: Sequence[Fault]) -> None:
        """Have all of them happen."""
        for number, fault in enumerate(faults):
            self._world.scheduler.at(fault.begins_s, None, self._begin, number, fault)
            self._world.scheduler.at(fault.ends_s, None, self._end, number, fault)

    def _begin(self, number: int, fault: Fault) -> None:
        if self.over:
            return
        self.active.add(number)
        self._world.trace.note(self._world.now, "fault", f"begins: {fault}")
        begin = _BEGIN[fault.kind]
        begin(self, f"{fault.kind}#{number}", fault, [self._world.hosts[name] for name in fault.targets])

    def _end(self, number: int, fault: Fault) -> None:
        if number not in self.active:
            return
        self.active.discard(number)
        self._world.trace.note(self._world.now, "fault", f"ends: {fault}")
        hosts = [self._world.hosts[name] for name in fault.targets]
        self._world.heal(f"{fault.kind}#{number}")
        end = _END.get(fault.kind)
        if end is not None:
            end(self, fault, hosts)

    def heal_all(self) -> None:
        """Whatever is still wrong is right again, and every host runs."""
        self.over = True
        self.active.clear()
        self._down.clear()
        self._world.network.heal_all()
        self._world.trace.note(self._world.now, "fault", "all healed")
        for name in sorted(self._world.hosts):
            host = self._world.hosts[name]
            host.disk.slow, host.disk.capacity_bytes, host.disk.die_at = 1.0, None, 0
            host.disk.heal()
            host.thaw()
            host.start()
            if host.process is not None:
                host.process.reactor.nameResolver.failing = False

    # -- processes

    def _died(self, host: Host) -> None:
        """The supervisor: a process that ended is started again, unless a fault holds it down."""
        self._world.scheduler.after(self.restart_s * (0.2 + self._chance.random()), None, self._revive, host)

    def _revive(self, host: Host) -> None:
        if not self._down.get(host.name) and host.process is None:
            host.start()

    def hold_down(self, hosts: Sequence[Host], by: int) -> None:
        """Keep the supervisor from starting them (1), or let it again (-1); it counts."""
        for host in hosts:
            self._down[host.name] = max(0, self._down.get(host.name, 0) + by)

    def _kill(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        self.hold_down(hosts, 1)
        for host in hosts:
            host.kill()

    def _power_off(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        self.hold_down(hosts, 1)
        for host in hosts:
            host.power_off()

    def _restart(self, fault: Fault, hosts: list[Host]) -> None:
        self.hold_down(hosts, -1)
        for host in hosts:
            self._revive(host)

    def _die_at_write(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            if host.alive:
                host.disk.die_at = int(fault.size)

    def _freeze(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            host.freeze(whole=fault.kind == "freeze-machine")

    def _thaw(self, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            host.thaw()

    def _jump(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            host.clock.jump(fault.size)

    def _names(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            if host.process is not None:
                host.process.reactor.nameResolver.failing = True

    def _names_again(self, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            if host.process is not None:
                host.process.reactor.nameResolver.failing = False

    # -- disks

    def _disk(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            if fault.kind == "disk-full":
                host.disk.capacity_bytes = host.disk.used_bytes()
            elif fault.kind == "disk-error":
                host.disk.fail_at(1, errno.EIO, times=1 << 30, only=("write", "create"))
            elif fault.kind == "sync-error":
                host.disk.fail_at(1, errno.EIO, times=1, only=("sync",))
            else:
                host.disk.slow, host.disk.cached = fault.size or 4000.0, False

    def _disk_again(self, fault: Fault, hosts: list[Host]) -> None:
        for host in hosts:
            if fault.kind == "disk-full":
                host.disk.capacity_bytes = None
            elif fault.kind in ("disk-error", "sync-error"):
                host.disk.heal()
            else:
                host.disk.slow, host.disk.cached = 1.0, True

    # -- network

    def _split(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        others = [host for _, host in sorted(self._world.hosts.items()) if host not in hosts]
        self._world.partition(name, hosts, others)

    def _clients_cut(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        self._world.partition(name, [host for host in hosts if host not in self._nodes], self._nodes)

    def _one_way(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        """The first is not heard by the second (``one-way``), or by anybody (``deaf`` the other way round)."""
        if fault.kind == "one-way" and len(hosts) > 1:
            self._world.block(name, hosts[0], hosts[1])
            return
        for _, other in sorted(self._world.hosts.items()):
            if other is not hosts[0]:
                self._world.block(name, other, hosts[0])

    def _bridge(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        """Two halves that only the first node sees both of."""
        rest = hosts[1:]
        self._world.partition(name, rest[: len(rest) // 2], rest[len(rest) // 2 :])

    def _ring(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        """Each node sees its neighbours only: everybody sees a majority, and nobody the same one (of five)."""
        count = len(hosts)
        for one in range(count):
            for two in range(one + 1, count):
                if count > 3 and (two - one) not in (1, count - 1):
                    self._world.partition(name, [hosts[one]], [hosts[two]])
        if count <= 3:
            self._world.partition(name, hosts[:1], hosts[-1:])

    def _flap(self, name: str, fault: Fault, hosts: list[Host], cut: bool = True) -> None:
        number = int(name.rpartition("#")[2])
        if number not in self.active:
            return
        if cut:
            self._split(name, fault, hosts)
        else:
            self._world.heal(name)
        pause_s = fault.size * (0.5 + self._chance.random())
        self._world.scheduler.after(pause_s, None, self._flap, name, fault, hosts, not cut)

    def _links(self, hosts: Sequence[Host]) -> list[Link]:
        network = self._world.network
        if len(hosts) < 2:
            return []
        one, two = hosts[0].address, hosts[1].address
        return [network.link(one, two), network.link(two, one)]

    def _worsen(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        for link in self._links(hosts):
            {"slow-link": link.slow, "loss": link.loss, "corrupt": link.corrupt}[fault.kind][name] = fault.size

    def _reset(self, name: str, fault: Fault, hosts: list[Host]) -> None:
        if len(hosts) > 1:
            for stream in self._world.network.between(hosts[0].address, hosts[1].address):
                stream.reset()


_BEGIN: dict[str, Callable[[Injector, str, Fault, list[Host]], None]] = {
    "kill": Injector._kill,
    "kill-majority": Injector._kill,
    "power": Injector._power_off,
    "power-all": Injector._power_off,
    "die-at-write": Injector._die_at_write,
    "freeze": Injector._freeze,
    "freeze-machine": Injector._freeze,
    "clock-jump": Injector._jump,
    "no-names": Injector._names,
    **dict.fromkeys(DISK_KINDS, Injector._disk),
    "halves": Injector._split,
    "single": Injector._split,
    "one-way": Injector._one_way,
    "deaf": Injector._one_way,
    "bridge": Injector._bridge,
    "majority-ring": Injector._ring,
    "flapping": Injector._flap,
    "clients-cut": Injector._clients_cut,
    "slow-link": Injector._worsen,
    "loss": Injector._worsen,
    "corrupt": Injector._worsen,
    "reset": Injector._reset,
}

_END: dict[str, Callable[[Injector, Fault, list[Host]], None]] = {
    "kill": Injector._restart,
    "kill-majority": Injector._restart,
    "power": Injector._restart,
    "power-all": Injector._restart,
    "freeze": Injector._thaw,
    "freeze-machine": Injector._thaw,
    "no-names": Injector._names_again,
    **dict.fromkeys(DISK_KINDS, Injector._disk_again),
}
