"""The ports of a broker: clients' main and fast port, and those for replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rocketha.access.routes import unsupported
from rocketha.addresses import NOBODY, Networks
from rocketha.broker.routes import PULLS, BrokerRoute
from rocketha.protocols.admission import Admission
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol, RequestService, ServerParts
from rocketha.services.config import views
from rocketha.services.core.core import BrokerCore
from rocketha.services.process.reserve import shows_by
from rocketha.services.replication.service import Port
from rocketha.wire.remoting import Answer, Command

FAST_PORT_BELOW = 2
"""How far below the main port the fast port is."""


class FastPort:
    """Everything but pulls, on ``listenPort - 2``: passes on to the main port's service what is no pull.

    In Java it has a thread pool of its own, so that pulls cannot hold up the rest; here it exists because slaves and
    tools use it.  Java: ``BrokerController.initializeRemotingServer`` (fastRemotingServer).
    """

    def __init__(self, broker: RequestService) -> None:
        self._broker = broker

    def connected(self, connection: RemotingProtocol) -> None:
        """As on the main port."""
        self._broker.connected(connection)

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """As on the main port."""
        self._broker.disconnected(connection, reason)

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """As on the main port, without pulls."""
        if command.code in PULLS:
            raise unsupported(command.code)
        return self._broker.request(connection, command)

    def turn_ended(self) -> None:
        """As on the main port."""
        self._broker.turn_ended()


class BrokerPorts:
    """Of one broker.

    :param listen: endpoint strings of the main port; from ``bindAddress`` and ``listenPort`` where empty.
    :param requests: answers what comes by the ports for clients.
    :param routes: the requests that come by them.
    :param holding: which connections have clients that do something, and keep their place.
    """

    def __init__(
        self,
        core: BrokerCore,
        listen: Sequence[str],
        requests: RequestService,
        routes: Mapping[int, BrokerRoute],
        holding: Callable[[Sequence[int]], set[int]],
    ) -> None:
        self._core = core
        self._config = core.config
        self._listen = tuple(listen)
        self._requests = requests
        self._limits = views.limits(core.config.remoting)
        self._parts = ServerParts(
            turn=core.turns.turn,
            refusals=core.refusals,
            admission=Admission(self._limits, holding, reserve=True),
            shows=shows_by(routes),
            answered=core.parts.waiting.latencies.answered,
        )

    def open(self, parent: Any, replicas: Sequence[Port]) -> None:
        """Listen.

        :param parent: the service that they belong to; it runs.
        :param replicas: the ports for replicas.
        :raises CannotListenError: a port is taken.
        """
        config = self._config
        for description in self._listen or (self._endpoint(config.listen_port),):
            self._open(parent, description, self._requests, "main")
        if config.fast_port_enable and not self._listen:
            below = self._endpoint(config.listen_port - FAST_PORT_BELOW)
            self._open(parent, below, FastPort(self._requests), "fast")
        if self._listen and config.replication.alone:
            return  # one whose main port is not where the file says, for a test or a quick look
        for name, number, factory in replicas:
            port = self._listening(self._endpoint(number), factory)
            port.setName(f"port-{name}")
            port.setServiceParent(parent)

    def _endpoint(self, port: int) -> str:
        config = self._config
        return views.endpoint(config.bind_address, port, config.remoting.server_socket_backlog)

    def _listening(self, description: str, factory: Any, proxies: Networks = NOBODY) -> Any:
        platform = self._core.platform
        return platform.network.port(platform.reactor, description, factory, self._core.refusals, proxies)

    def _open(self, parent: Any, description: str, requests: RequestService, name: str) -> None:
        core, factories = self._core, self._core.factories
        factory = RemotingFactory(requests, core.platform.reactor, self._limits, parts=self._parts)
        factories.append(factory)
        port = self._listening(description, factory, self._config.proxies.networks)
        port.setName(f"port-{name}-{len(factories)}")
        port.setServiceParent(parent)  # it runs: the port listens now, and a taken one raises here
