"""Controllers and their brokers: real :class:`ControllerService` nodes, simulated brokers as their clients.

Theory of operation: brokers of one or two groups register from empty disks, get ids, elect masters, grow sets, write
and acknowledge; faults hit all hosts; an operator now and then designates a master or cleans out a dead broker.  At the
end every group must have a master that acts, with all its brokers in the set, and every node the same table.
"""

from __future__ import annotations

from typing import Any

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.config.controller import ControllerConfig, complete_controller
from rocketha.services.controller.service import ControllerService
from rocketha.simulation.broker import Rules, SimulatedBroker
from rocketha.simulation.broker_oracle import BrokerOracle, Group
from rocketha.simulation.controller_checks import ControllerChecks
from rocketha.simulation.controller_model import GroupState, step
from rocketha.simulation.faults import Injector
from rocketha.simulation.findings import Findings
from rocketha.simulation.history import History
from rocketha.simulation.host import Host, Process
from rocketha.simulation.linearizability import explain
from rocketha.simulation.operator import Operator
from rocketha.simulation.raft_checks import RaftChecks
from rocketha.simulation.raft_scenario import raft_options
from rocketha.simulation.setup import Setup
from rocketha.simulation.world import World

PORT = 9878
BROKER_PORT = 10911
GROUPS = (Group("c1", "a"), Group("c2", "a"))
"""One name in two clusters: they must not meet (B5)."""
RESTART_CLEANED_S = 5.0
"""Within so many seconds the operator starts anew what was cleaned out while it ran."""


class ControllerScenario:
    """See the module.

    :param operated: whether an operator elects and cleans.
    """

    def __init__(self, setup: Setup, world: World, operated: bool = True) -> None:
        self.setup = setup
        self.world = world
        self.findings = Findings(world)
        self.oracle = BrokerOracle(self.findings)
        self.history = History()
        self.raft_checks = RaftChecks(self.findings)
        self.checks = ControllerChecks(self.findings, self.raft_checks, self.oracle, self.history, self.restart_cleaned)
        self._restarts = world.chance("brokers cleaned out while they ran")
        self._chance = world.chance("controllers and brokers")
        self.addresses = {name: f"10.0.0.{number + 1}:{PORT}" for number, name in enumerate(setup.nodes)}
        self._hurried = self._chance.random() < 0.5
        self.troubled = operated  # brokers that miss notices and fall behind by themselves
        self.moving = self._chance.random() < 0.3  # brokers come back under another port
        self.adopting = False  # controllers take brokers with the ids that they bring
        self._disks: dict[str, int] = {}
        self.nodes: list[Host] = []
        self.brokers: list[tuple[Host, Group]] = []
        for number, name in enumerate((*setup.nodes, *setup.clients)):
            host = world.add_host(name, None, setup.rates[number], setup.errors_s[number], start=False)
            host.disk.tear_bytes = setup.tear_bytes
            if name in setup.nodes:
                host.program = self._controller
                self.nodes.append(host)
            else:
                # Most brokers are of one group: a set of three is where the sets and elections are.
                group = GROUPS[0] if len(self.brokers) != 1 or len(setup.clients) < 3 else GROUPS[1]
                host.program = self._broker
                self.brokers.append((host, group))
        self.injector = Injector(world, setup.nodes)
        for host in self.nodes:
            host.start()
        for host, _ in self.brokers:
            world.scheduler.after(self._chance.random() * 2.0, None, host.start)
        if operated:
            self._add_operator()
        self._looks = 0

    # -- programs

    def _controller(self, process: Process) -> Any:
        peers = ";".join(f"{name}-{address}" for name, address in self.addresses.items())
        config = ControllerConfig(
            controller_dleger_group="simulated",
            controller_dleger_peers=peers,
            controller_dleger_self_id=process.host.name,
            controller_store_path="/controller",
            raft_lease_reads=self.setup.lease_reads,
            adopt_unknown_brokers=self.adopting,
            remote_admin_enable=self.adopting,
        )
        complete_controller(config, (), "simulation", [])
        service = ControllerService(
            config, process.platform(on_fatal=process.host.exited), raft_options=raft_options(self.setup)
        )
        service.privilegedStartService()
        self.checks.watch(process.host.name, lambda: self.world.now, service)
        raft = service.raft
        raft.started.addCallback(lambda _: self.raft_checks.watch(process, raft))
        service.startService()
        return service

    def _broker(self, process: Process) -> SimulatedBroker:
        host = process.host
        group = next(group for each, group in self.brokers if each is host)
        disk = f"{host.name}.{self._disks.setdefault(host.name, 1)}"
        port = BROKER_PORT + (process.number % 3 if self.moving else 0)
        rules = Rules(
            hurried=self._hurried,
            poll_s=1.0 + host.random.random() * (4.0 if self.troubled else 1.0),
            heartbeat_timeout_ms=host.random.choice((3_000, 10_000)),
            heeds_notices=not self.troubled or host.random.random() < 0.6,
            lazy=0.04 if self.troubled else 0.0,
            lazy_until_s=self.setup.heal_s - 4.0,
        )
        return SimulatedBroker(
            process,
            group,
            disk,
            port,
            tuple(self.addresses.values()),
            rules,
            self.oracle,
            self.history,
            lambda: self._new_identity(host),
        )

    def _new_identity(self, host: Host) -> None:
        """It was cleaned out of the controllers: what registers next is another broker on the same host."""
        self._disks[host.name] += 1
        host.kill()

    def restart_cleaned(self, key: Group, number: int) -> None:
        """A broker was cleaned out of the controllers; if it runs, the operator starts it anew some seconds later.

        Nobody else would.  One that the leader does not hear, as it is cut off, may be cleaned out while it runs, and
        only a registration tells it so: until then it follows its group's master, which asks in vain for a set with it.
        """
        for host, broker in self._brokers_of(key):
            if broker is not None and broker.number == number:
                self.findings.count("cleaned out while they ran")
                after_s = self._restarts.random() * RESTART_CLEANED_S
                self.world.scheduler.after(after_s, None, self._restart, host, host.process)

    def _restart(self, host: Host, process: Process) -> None:
        if host.process is process:
            host.kill()

    def _add_operator(self) -> None:
        def program(process: Process) -> Operator:
            return Operator(
                RemotingClient(Dialer(process.reactor)),
                process,
                tuple(self.addresses.values()),
                GROUPS,
                self.history,
                self.findings,
                self.setup.heal_s,
            )

        self.world.add_host("operator", program)

    # -- what is asked of a scenario

    def look(self) -> None:
        self.raft_checks.look(self.nodes)
        self._looks += 1
        if self._looks % 8 == 0:
            self.raft_checks.match(self.nodes)

    def recovered(self) -> str | None:
        missing = self.raft_checks.recovered(self.nodes, exact=False)
        if missing is not None:
            return missing
        for key in GROUPS:
            brokers = self._brokers_of(key)
            if brokers:
                missing = self._group_recovered(key, brokers)
                if missing is not None:
                    return f"{key}: {missing}"
        return None

    def _brokers_of(self, key: Group) -> list[tuple[Host, SimulatedBroker | None]]:
        return [
            (host, host.process.service if host.process is not None else None)
            for host, group in self.brokers
            if group == key
        ]

    def _group_recovered(self, key: Group, brokers: list[tuple[Host, SimulatedBroker | None]]) -> str | None:
        state: GroupState = self.checks.group(key)
        ids: set[int] = set()
        for host, broker in brokers:
            if broker is None or not broker.registered or broker.number is None:
                return f"{host.name} is not registered"
            ids.add(broker.number)
        if not set(state.in_sync) & ids and not state.master:
            return None  # nobody who holds what was acknowledged is left: an operator must decide
        acting = [broker for _, broker in brokers if broker is not None and broker.master is not None]
        newest = [broker for broker in acting if broker.epoch == state.epoch]
        if len(newest) != 1 or newest[0].number != state.master:
            return f"master {state.master or 'none'} in epoch {state.epoch} does not act"
        if len(acting) != 1:
            return f"{', '.join(broker.name for broker in acting)} act as masters"
        if set(state.in_sync) != ids:
            return f"in sync are {state.in_sync} of {sorted(ids)}"
        return None

    def finish(self) -> None:
        self.raft_checks.match(self.nodes, 1 << 30)
        self.checks.refold([(host.name, host.process.service.state) for host in self.nodes if host.process is not None])
        for key in GROUPS:
            wrong = explain(self.history.of(key), GroupState(), step)
            if wrong is not None:
                self.findings.violated("linearizable metadata", f"{key}: {wrong}")
