"""Brokers as clients meet them: real :class:`BrokerService`, :class:`NameServerService` and :class:`ControllerService`
nodes, simulated producers and consumers.

Theory of operation: producers send to topics that are made while the run goes on, with and without
a delay, consumers read queues at their ends
and whole ones from their beginning, sometimes a broker is stopped in order; faults hit all hosts.
:class:`MessageOracle` compares what clients are told; :class:`ClusterChecks` compares the brokers' logs.  At the end
nobody sends any more, every acknowledged message must be in the masters' queues and have reached the consumers, and
replicas must have equal bytes.
"""

from __future__ import annotations

from typing import Any

from rocketha.services.broker.service import BrokerService
from rocketha.services.controller.service import ControllerService
from rocketha.services.witness.service import Witness
from rocketha.simulation import cluster_programs
from rocketha.simulation.cluster_checks import ClusterChecks
from rocketha.simulation.cluster_setup import (
    ALONE,
    NAMESERVER,
    NAMESERVER_PORT,
    PRODUCERS,
    RAFT_PORT,
    READER,
    ClusterSetup,
)
from rocketha.simulation.faults import Injector
from rocketha.simulation.findings import Findings
from rocketha.simulation.host import Host, Process
from rocketha.simulation.members_operator import MembersOperator
from rocketha.simulation.message_clients import Consumer, DelayedProducer, Producer, TopicMaker
from rocketha.simulation.message_oracle import MessageOracle
from rocketha.simulation.world import World

QUIET_END_S = 6.0
"""Nobody sends so long before the end, so that consumers and replicas can have everything."""
PROBE_S = 2.0
"""How often an operator looks at the brokers, as a readiness probe would."""
STOP_MEAN_S = 15.0
DELAYED_PER_S = 1.0
"""Messages with a delay level, of each producer."""


class ClusterScenario:
    """See the module.

    :ivar whole_s: true time from which on nothing went wrong any more.
    """

    def __init__(self, setup: ClusterSetup, world: World) -> None:
        self.setup = setup
        self.world = world
        self.findings = Findings(world)
        self.oracle = MessageOracle(self.findings)
        self._chance = world.chance("cluster operator")
        self.places = {place.host: place for place in setup.brokers}
        self.brokers: list[Host] = []
        self.controllers: list[Host] = []
        self._unwell: dict[str, Process] = {}
        self.whole_s = float("inf")
        for number, name in enumerate((*setup.nodes, *setup.clients)):
            host = world.add_host(name, None, setup.rates[number], setup.errors_s[number], start=False)
            host.disk.tear_bytes = setup.tear_bytes
            host.program = self._program(name)
            if name == setup.witness:
                self.findings.count("witnesses")
            elif name in self.places:
                self.brokers.append(host)
                if setup.mode == ALONE:
                    host.on_power_loss = self._power_lost
            elif name in setup.controllers:
                self.controllers.append(host)
        self.checks = ClusterChecks(setup, self.findings, self.oracle, self.brokers, self.controllers)
        self.injector = Injector(world, setup.nodes)
        for host in world.hosts.values():
            world.scheduler.after(self._chance.random() * 0.5, None, host.start)
        world.scheduler.after(PROBE_S, None, self._probe)
        if setup.stops:
            self._wait_to_stop()

    # -- programs

    def _program(self, name: str) -> Any:
        if name == self.setup.witness:
            return self._witness
        if name in self.places:
            return self._broker
        if name in self.setup.controllers:
            return self._controller
        if name == NAMESERVER:
            return cluster_programs.nameserver
        return self._producer if name in PRODUCERS else self._consumer

    def _broker(self, process: Process) -> BrokerService:
        service = cluster_programs.broker(self.setup, self.places[process.host.name], process)
        service.started.addCallback(lambda _: self.checks.started(process, service))
        return service

    def _witness(self, process: Process) -> Witness:
        return cluster_programs.witness(self.setup, self.places[process.host.name], process)

    def _controller(self, process: Process) -> ControllerService:
        return cluster_programs.controller(self.setup, process)

    def _producer(self, process: Process) -> list[Any]:
        setup = self.setup
        nameserver = setup.address(NAMESERVER, NAMESERVER_PORT)
        until_s = setup.seconds - QUIET_END_S
        per_s = setup.sends_per_s / len(PRODUCERS)
        made: list[Any] = [
            kind(process, nameserver, setup.groups, setup.queues, rate, setup.body_bytes_max, until_s, self.oracle)
            for kind, rate in ((Producer, per_s), (DelayedProducer, DELAYED_PER_S))
        ]
        if process.host.name == PRODUCERS[0]:
            every_s = (setup.heal_s - 5.0) / setup.topics / 2.0
            made.append(TopicMaker(process, nameserver, setup.groups, setup.topics, setup.queues, every_s, self.oracle))
        elif setup.moves:
            members = {each.host: setup.address(each.host, RAFT_PORT) for each in setup.brokers}
            made.append(MembersOperator(process, members, setup.witness, setup.heal_s, self.findings))
        return made

    def _consumer(self, process: Process) -> Consumer:
        nameserver = self.setup.address(NAMESERVER, NAMESERVER_PORT)
        return Consumer(process, nameserver, self.setup.queues, self.oracle, self.setup.slave_reads)

    # -- what happens to hosts

    def _power_lost(self, host: Host) -> None:
        self.oracle.power_lost(self.places[host.name].group)

    def _probe(self) -> None:
        """An operator starts anew what is not ready for a reason that only a restart takes away: a failed flush."""
        for host in self.brokers:
            process = host.process
            service = process.service if process is not None else None
            ill = service is not None and service.serving and service.broker.store.log.broken is not None
            if ill and self._unwell.get(host.name) is process:
                self.findings.count("restarts after a failed flush")
                host.kill()
            elif ill and process is not None:
                self._unwell[host.name] = process
        self.world.scheduler.after(PROBE_S, None, self._probe)

    def _wait_to_stop(self) -> None:
        self.world.scheduler.after(STOP_MEAN_S * (0.2 + 1.6 * self._chance.random()), None, self._stop)

    def _stop(self) -> None:
        """An operator stops a broker in order; the supervisor starts it again."""
        if self.world.now > self.setup.heal_s:
            return
        host = self._chance.choice(self.brokers)
        process = host.process
        if process is not None and process.service is not None and not process.frozen:
            self.findings.count("orderly stops")
            self.world.scheduler.after(0.0, process, self._stop_service, process)
        self._wait_to_stop()

    def _stop_service(self, process: Process) -> None:
        if not process.service.running:
            return

        def stopped(failure: Any) -> None:
            if process.host.process is process:
                process.host.exited("stopped" if failure is None else f"stopped with {failure.getErrorMessage()}")

        process.service.stopService().addBoth(stopped)

    # -- what is asked of a scenario

    def look(self) -> None:
        self.checks.look()
        if self.world.now > self.whole_s:
            self.checks.delays(self.whole_s)

    def recovered(self) -> str | None:
        for group in self.setup.groups:
            if self.oracle.last_acknowledged_s.get(group, 0.0) < self.setup.heal_s:
                return f"{group} has acknowledged nothing since; {self.checks.recovered()}"
            if len(self.oracle.topics.get(group, ())) < self.setup.topics:
                return f"{group} has {self.oracle.topics.get(group)} of {self.setup.topics} topics"
        missing = self.checks.recovered()
        if missing is not None:
            return missing
        self.whole_s = min(self.whole_s, self.world.now)
        if self.world.now < self.setup.seconds - QUIET_END_S / 2:
            return None
        return self._unread() or self.checks.unequal()

    def _unread(self) -> str | None:
        """When nobody sends any more: the queue whose end the consumer has not reached."""
        process = self.world.hosts[READER].process
        if process is None or not isinstance(process.service, Consumer):
            return "the consumer does not run"
        for group in self.setup.groups:
            for queue in self.oracle.queues(group):
                reached, end = process.service.reached.get(queue, 0), self.oracle.end(queue)
                if reached < end:
                    return f"the consumer is at {reached} of {queue}, {end} are acknowledged"
        return None

    def finish(self) -> None:
        self.checks.finish()
        self.oracle.delays(self.whole_s, self.checks.deleted)
