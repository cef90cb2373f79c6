"""Whole clusters on simulated hosts, and an operator on one of them who looks at them."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred

from rocketha.admin.finding_kinds import Finding
from rocketha.admin.findings import Limits, judge
from rocketha.admin.looking import Looker
from rocketha.admin.picture import Picture
from rocketha.services.config.loading import load_namesrv
from rocketha.services.namesrv.service import NameServerService
from rocketha.simulation.host import Host, Process
from tests.services.controlled_case import CONTROLLER_PORT, ControlledCase
from tests.services.replication_case import NAMESERVER_PORT, PORT


class DoctorCase(ControlledCase):
    """Nameservers, controllers and brokers, as many as the class says; nothing is started that a test does not start.

    :cvar nameservers_count: of hosts ``names1`` ...
    """

    nameservers_count = 1
    namesrv_keys = ""
    limits = Limits()

    def setUp(self) -> None:
        super().setUp()
        self.names = [self.add_nameserver(f"names{number + 1}") for number in range(self.nameservers_count)]
        self.keys = f"namesrvAddr={';'.join(map(self.namesrv, self.names))}\n{type(self).keys}"
        self.run_for(0.05)

    def add_nameserver(self, name: str) -> Host:
        """A host that runs one."""

        def program(process: Process) -> NameServerService:
            text = (
                f"listenPort={NAMESERVER_PORT}\nbindAddress={process.host.address}\nkvConfigPath=/kvConfig.json\n"
                f"{self.namesrv_keys}"
            )
            loaded = load_namesrv(text.encode(), "namesrv.conf", {}, {"HOME": "/home"})
            service = NameServerService(loaded.config, process.platform())
            service.startService()
            return service

        return self.world.add_host(name, program)

    def namesrv(self, host: Host) -> str:
        """A nameserver's address."""
        return f"{host.address}:{NAMESERVER_PORT}"

    def controller(self, host: Host) -> str:
        """A controller's address."""
        return f"{host.address}:{CONTROLLER_PORT}"

    def at(self, host: Host) -> str:
        """A broker's address."""
        return f"{host.address}:{PORT}"

    def whole_cluster(self) -> Host:
        """All brokers in sync and registered; the master."""
        master = self.start_group()
        for host in self.brokers:
            self.until(f"{host.name} is registered", lambda host=host: self.registered(host))  # type: ignore[misc]
        return master

    def registered(self, host: Host) -> bool:
        """Whether all nameservers that run have a broker."""
        services = [each.process.service for each in self.names if each.process is not None]
        return all(
            self.at(host) in [live.address for live in service.server.table.live] for service in services if service
        )

    # -- the operator

    @property
    def client_process(self) -> Process:
        """The operator's."""
        process = self.client_host.process
        assert process is not None
        return process

    def addresses(self) -> tuple[list[str], list[str]]:
        """Those of all nameservers, and of all controllers."""
        return list(map(self.namesrv, self.names)), list(map(self.controller, self.controllers))

    def looker(self, pause_s: float = 0.0) -> Looker:
        """On the client's host."""
        process = self.client_process
        reactor = process.reactor
        return Looker(process.service, reactor, lambda: int(reactor.wall() * 1000), pause_s)

    def look(
        self,
        brokers: Sequence[str] = (),
        controllers: Sequence[str] | None = None,
        nameservers: Sequence[str] | None = None,
        pause_s: float = 0.0,
    ) -> Picture:
        """The cluster as it is; by default all controllers and nameservers are given."""
        names, leaders = self.addresses()
        asked = self.looker(pause_s).picture(
            names if nameservers is None else nameservers, leaders if controllers is None else controllers, brokers
        )
        waiting: Deferred[Picture] = Deferred.fromCoroutine(asked)
        self.world.scheduler.flush()
        picture: Picture = self.await_(waiting, 60.0)
        return picture

    def findings(self, picture: Picture | None = None) -> tuple[Finding, ...]:
        """What is wrong with it."""
        return judge(picture or self.look(), self.limits)

    def only(self, kind: str, found: Sequence[Finding]) -> list[Finding]:
        """Those of a kind, of which there is at least one."""
        kinds = [each for each in found if each.kind.name == kind]
        self.assertTrue(kinds, [(each.kind.name, each.subject, each.cause) for each in found])
        return kinds
