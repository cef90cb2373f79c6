"""Real brokers under real controllers on simulated hosts, in one process and at the speed of the processor."""

from __future__ import annotations

from typing import Any

from rocketha.broker.role import Role
from rocketha.services.broker.controller_mode import ControllerMode
from rocketha.services.config.loading import load_controller
from rocketha.services.controller.service import ControllerService
from rocketha.simulation.host import Host, Process
from rocketha.wire.codes import ResponseCode
from tests.services.replication_case import ReplicationCase

CONTROLLER_PORT = 9878
CLUSTER, NAME = "DefaultCluster", "g"


class ControlledCase(ReplicationCase):
    """As many controllers and brokers as the class says; the brokers' disks are empty."""

    controllers_count = 3
    brokers_count = 3
    keys = ""
    controller_keys = ""

    def setUp(self) -> None:
        super().setUp()
        names = [f"n{number}" for number in range(self.controllers_count)]
        self.controllers: list[Host] = [
            self.world.add_host(each, self.controller_program, start=False) for each in names
        ]
        self.peers = ";".join(f"{host.name}-{host.address}:{CONTROLLER_PORT}" for host in self.controllers)
        for host in self.controllers:
            host.start()
        self.brokers: list[Host] = []

    def controller_program(self, process: Process) -> ControllerService:
        text = (
            f"{self.controller_keys}\ncontrollerDLegerPeers={self.peers}\ncontrollerDLegerSelfId={process.host.name}\n"
            "controllerStorePath=/controller\n"
        )
        config = load_controller(text.encode(), "controller.conf", {}, {"HOME": "/"}).config
        service = ControllerService(config, process.platform(on_fatal=process.host.exited))
        service.privilegedStartService()
        service.startService()
        return service

    def add_broker(self, keys: str = "") -> Host:
        """One more, on an empty disk."""
        addresses = ";".join(f"{host.address}:{CONTROLLER_PORT}" for host in self.controllers)
        settings = f"enableControllerMode=true\ncontrollerAddr={addresses}\n{self.keys}\n{keys}"
        host = self.broker(f"b{len(self.brokers) + 1}", settings)
        self.brokers.append(host)
        return host

    def start_group(self) -> Host:
        """All brokers; the first is the master, and everybody is in sync."""
        for number in range(self.brokers_count):
            self.add_broker()
            self.master()
            self.until("it is in sync", lambda number=number: len(self.members()) == number + 1)  # type: ignore[misc]
        return self.master()

    # -- what is

    def leader(self) -> Host | None:
        """The controller that leads."""
        for host in self.controllers:
            if host.process is not None and not host.frozen and host.process.service and host.process.service.leading:
                return host
        return None

    def mode(self, host: Host) -> ControllerMode:
        """What gives a broker its role."""
        found = self.service(host).broker.role_source
        assert isinstance(found, ControllerMode)
        return found

    def number(self, host: Host) -> int:
        """A broker's id; 0 before it has one."""
        life = self.mode(host).life
        return life.number if life is not None else 0

    def role(self, host: Host) -> Role:
        """What a broker is; FENCED while it does not run."""
        if host.process is None or host.process.service is None or not self.service(host).serving:
            return Role.FENCED
        return self.service(host).broker.replication.role

    def acknowledges(self, host: Host) -> bool:
        """Whether it is a master that may acknowledge."""
        return (
            self.role(host) is Role.MASTER and not host.frozen and self.service(host).broker.replication.refusal is None
        )

    def masters(self) -> list[Host]:
        """Those that may acknowledge."""
        return [host for host in self.brokers if self.acknowledges(host)]

    def master(self, seconds: float = 20.0) -> Host:
        """The one that is; waits for it."""
        self.until("a master that acknowledges", lambda: len(self.masters()) == 1, seconds)
        return self.masters()[0]

    def members(self) -> tuple[int, ...]:
        """The SyncStateSet as the master has it."""
        return self.service(self.master()).broker.replication.members

    def whole(self, seconds: float = 30.0) -> None:
        """Wait until every broker that runs is in sync."""
        running = [host for host in self.brokers if host.alive]
        self.until("all are in sync", lambda: len(self.masters()) == 1 and len(self.members()) == len(running), seconds)

    def group(self) -> Any:
        """The group as the leading controller has it."""
        leader = self.leader()
        assert leader is not None and leader.process is not None
        return leader.process.service.state.group(CLUSTER, NAME)

    def acknowledged(self, host: Host, count: int, size: int = 500) -> int:
        """How many of as many messages were acknowledged."""
        return self.send_many(host, count, size).count(ResponseCode.SUCCESS)
