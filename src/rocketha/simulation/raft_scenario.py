"""A Raft group alone: real :class:`RaftService` nodes with a register machine, and clients that call them.

Theory of operation: clients live outside of the network; each asks the node it takes for the leader, as code in that
node's process would, and takes what comes back, or that nothing does.  Reads wait for a barrier first.  Histories go to
the linearizability checker, one object a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.application import strports

from rocketha.raft.config import RaftConfig
from rocketha.raft.errors import RaftRefused
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Entry
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.options import RaftMember, RaftOptions
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import Lost
from rocketha.simulation import register
from rocketha.simulation.faults import Injector
from rocketha.simulation.findings import Findings
from rocketha.simulation.history import History
from rocketha.simulation.host import Host, Process
from rocketha.simulation.linearizability import explain
from rocketha.simulation.raft_checks import RaftChecks
from rocketha.simulation.register import CAS, READ, WRITE, Command, RegisterMachine
from rocketha.simulation.setup import Setup
from rocketha.simulation.world import World

PORT = 9878
GROUP = "simulated"
CLIENTS = 3
CALL_S = 0.001
QUIET_END_S = 6.0
"""Nobody asks anything so long before the end, so that all nodes can have applied the same."""
PATIENCE_S = 4.0
"""A client gives up waiting after this and goes on; what it asked may still happen."""


def raft_options(setup: Setup) -> RaftOptions:
    """A node's settings in a run."""
    return RaftOptions(
        snapshot_entries=setup.snapshot_entries,
        keep_entries=setup.snapshot_entries // 2,
        segment_bytes=setup.segment_bytes,
    )


class CheckedMachine(RegisterMachine):
    """A register machine that shows the checks what it applies."""

    def __init__(self, name: str, checks: RaftChecks) -> None:
        super().__init__()
        self._name = name
        self._checks = checks

    def apply(self, entries: Sequence[Entry]) -> list[object]:
        self._checks.applied(self._name, tuple(entries))
        outcomes = super().apply(entries)
        self._checks.state(self._name, self.index, self.digest)
        return outcomes

    def restore(self, data: bytes) -> None:
        super().restore(data)
        if self.index:
            self._checks.state(self._name, self.index, self.digest)


class Member:
    """What runs on a node's host.

    :ivar raft: the service.
    """

    def __init__(self, process: Process, setup: Setup, addresses: dict[str, str], checks: RaftChecks) -> None:
        self.machine = CheckedMachine(process.host.name, checks)
        member = RaftMember(process.host.name, GROUP, addresses, "/raft")
        platform, options = process.platform(on_fatal=process.host.exited), raft_options(setup)
        self.raft = RaftService(
            member,
            MachineStore(member, self.machine, platform, options),
            platform,
            options,
            RaftConfig(process.host.name, lease_reads=setup.lease_reads),
        )
        self.raft.started.addCallback(lambda _: checks.watch(process, self.raft))
        self.raft.startService()
        strports.service(f"tcp:{PORT}", self.raft.port, process.reactor).startService()


class Client:
    """One client: one operation at a time."""

    def __init__(self, scenario: RaftScenario, name: str) -> None:
        self._scenario = scenario
        self._chance = scenario.world.chance(f"client {name}")
        self.name = name
        self.leader = ""
        self._number = 0
        self._call: Any = None

    def start(self) -> None:
        """The first operation."""
        self._pause()

    def _pause(self) -> None:
        mean_s = CLIENTS / self._scenario.setup.operations_per_s
        self._call = None
        self._scenario.world.scheduler.after(mean_s * (0.2 + 1.6 * self._chance.random()), None, self._next)

    def _next(self) -> None:
        scenario = self._scenario
        if scenario.world.now > scenario.setup.seconds - QUIET_END_S:
            return
        host = scenario.world.hosts.get(self.leader) or self._chance.choice(scenario.nodes)
        self.leader = ""
        if self._chance.random() < 0.05:
            host = self._chance.choice(scenario.nodes)
        self._number += 1
        key = f"r{self._chance.randrange(scenario.setup.keys)}"
        kind = self._chance.choice((WRITE, WRITE, READ, READ, CAS))
        value = f"{self.name}.{self._number}" if kind != READ else ""
        expected = self._chance.choice(scenario.written.setdefault(key, [""])[-3:]) if kind == CAS else ""
        command = Command(self.name, self._number, kind, key, value, expected)
        call = self._call = (self._number, host.name)
        scheduler = scenario.world.scheduler
        scheduler.after(PATIENCE_S, None, self._give_up, call)
        if host.process is not None:
            scheduler.after(CALL_S, host.process, self._ask, call, host.process, command)

    def _give_up(self, call: Any) -> None:
        if call is self._call:
            self._pause()

    def _ask(self, call: Any, process: Process, command: Command) -> None:
        member = process.service
        if member is None or call is not self._call:
            return
        scenario = self._scenario
        token = scenario.history.invoke(command.key, scenario.world.now, self.name, command)
        scenario.findings.count("operations")
        if command.kind == READ:
            asked = member.raft.barrier().addCallback(lambda _: member.machine.values.get(command.key, ""))
        else:
            scenario.written.setdefault(command.key, [""]).append(command.value)
            asked = member.raft.propose(command.encode())
        asked.addCallbacks(self._answered, self._failed, (call, token), None, (call, token, member))

    def _answered(self, output: Any, call: Any, token: Any) -> None:
        scenario = self._scenario
        scenario.history.settle(token, scenario.world.now, output)
        scenario.findings.count("operations answered")
        if call is self._call:
            self.leader = call[1]
            self._pause()

    def _failed(self, failure: Any, call: Any, token: Any, member: Member) -> None:
        """Lost may have happened; every other error says that it did not."""
        if not (failure.check(Lost) and failure.value.maybe_applied):
            self._scenario.history.drop(token)
        if call is self._call:
            self.leader = member.raft.leader_id
            self._pause()


class Administrator:
    """Hands leadership on and changes who belongs to the group, at random moments, under whatever goes wrong.

    After the last fault it sees to it that everybody is a voter again.
    """

    def __init__(self, scenario: RaftScenario) -> None:
        self._scenario = scenario
        self._chance = scenario.world.chance("administrator")
        self._reshapes = len(scenario.nodes) > 2 and self._chance.random() < 0.5
        self._wait()

    def _wait(self) -> None:
        healed = self._scenario.world.now >= self._scenario.setup.heal_s
        pause_s = 1.0 if healed else 2.0 + 8.0 * self._chance.random()
        self._scenario.world.scheduler.after(pause_s, None, self._act)

    def _act(self) -> None:
        scenario = self._scenario
        healed = scenario.world.now >= scenario.setup.heal_s
        for host in scenario.nodes:
            member = host.process.service if host.process is not None and not host.frozen else None
            if member is not None and member.raft.is_leader:
                scenario.world.scheduler.after(CALL_S, host.process, self._ask, member.raft, healed)
        self._wait()

    def _ask(self, raft: RaftService, healed: bool) -> None:
        names = [host.name for host in self._scenario.nodes]
        absent = [name for name in names if name not in raft.node.members.voters]
        try:
            if absent and (healed or self._chance.random() < 0.6):
                back = {name: self._scenario.addresses[name] for name in absent}
                asked: Any = raft.change_members(MembersChange(add_voters=back))
            elif healed:
                return
            elif self._reshapes and not absent and self._chance.random() < 0.6:
                gone = self._chance.sample(names, self._chance.randrange(1, len(names) // 2 + 1))
                asked = raft.change_members(MembersChange(remove=frozenset(gone)))  # type: ignore[arg-type]
            else:
                asked = raft.transfer(self._chance.choice(names))
        except RaftRefused:
            self._scenario.findings.count("administrator refused")
            return
        asked.addCallbacks(lambda _: self._scenario.findings.count("administrator's changes"), lambda _: None)


class Flood:
    """Now and then many proposals at once at whoever takes itself for the leader, a deposed one too: long tails that
    are never committed, for others to cut.  Nobody waits for them, and their key is read by nobody.
    """

    def __init__(self, scenario: RaftScenario) -> None:
        self._scenario = scenario
        self._chance = scenario.world.chance("flood")
        self._number = 0
        self._wait()

    def _wait(self) -> None:
        self._scenario.world.scheduler.after(2.0 + 8.0 * self._chance.random(), None, self._pour)

    def _pour(self) -> None:
        scenario = self._scenario
        if scenario.world.now > scenario.setup.seconds - QUIET_END_S:
            return
        for host in scenario.nodes:
            member = host.process.service if host.process is not None and not host.frozen else None
            if member is not None and member.raft.is_leader:
                scenario.world.scheduler.after(CALL_S, host.process, self._propose, member.raft)
        self._wait()

    def _propose(self, raft: RaftService) -> None:
        for _ in range(self._chance.choice((5, 20, 40))):
            self._number += 1
            command = Command("flood", self._number, WRITE, "flood", str(self._number))
            raft.propose(command.encode()).addErrback(lambda _: None)


class RaftScenario:
    """One run: the group, its clients, the checks."""

    def __init__(self, setup: Setup, world: World) -> None:
        self.setup = setup
        self.world = world
        self.findings = Findings(world)
        self.checks = RaftChecks(self.findings)
        self.history = History()
        self.written: dict[str, list[str]] = {}
        self.addresses = addresses = {name: f"10.0.0.{number + 1}:{PORT}" for number, name in enumerate(setup.nodes)}
        self.nodes: list[Host] = []
        for number, name in enumerate(setup.nodes):
            host = world.add_host(
                name,
                lambda process: Member(process, setup, addresses, self.checks),
                setup.rates[number],
                setup.errors_s[number],
                start=False,
            )
            host.disk.tear_bytes = setup.tear_bytes
            self.nodes.append(host)
            host.start()
        self.checks.hosts = self.nodes
        self.injector = Injector(world, setup.nodes)
        self._looks = 0
        for number in range(CLIENTS):
            Client(self, f"c{number}").start()
        Administrator(self)
        Flood(self)

    def look(self) -> None:
        self.checks.look(self.nodes)
        self._looks += 1
        if self._looks % 8 == 0:
            self.checks.match(self.nodes)

    def recovered(self) -> str | None:
        return self.checks.recovered(self.nodes)

    def finish(self) -> None:
        self.checks.match(self.nodes, 1 << 30)
        for key in self.history.objects():
            wrong = explain(self.history.of(key), "", register.step)
            if wrong is not None:
                self.findings.violated("linearizable registers", f"{key}: {wrong}")
