"""The ports of a broker: clients' main and fast port, and the one for replicas."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.application import strports

from rocketha.broker.routes import PULLS, BrokerRoute
from rocketha.observe.refusals import Refusals
from rocketha.protocols.admission import Admission
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol, RequestService
from rocketha.protocols.turn import Turn
from rocketha.services.config import views
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.process.reserve import shows_by
from rocketha.wire.remoting import Answer, Command
from rocketha.wire.routes import unsupported

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

    :param broker: the parent of the ports, and who answers what comes by them.
    :param listen: endpoint strings of the main port; from ``bindAddress`` and ``listenPort`` where empty.
    :param factories: gets the factory of each port for clients, in the order in which they are opened.
    :param refusals: told what these refuse.
    :param routes: the requests that come by them.
    """

    def __init__(
        self, broker: Any, config: BrokerConfig, listen: Sequence[str], reactor: Any, turn: Turn,
        factories: list[RemotingFactory], refusals: Refusals, routes: Mapping[int, BrokerRoute],
    ) -> None:  # fmt: skip
        self._broker: Any = broker
        self._config = config
        self._listen = tuple(listen)
        self._reactor = reactor
        self._turn = turn
        self._factories = factories
        self._refusals = refusals
        self._shows = shows_by(routes)
        self._limits = views.limits(config.remoting)
        self._admission = Admission(self._limits, broker.holding, reserve=True)

    def open(self, slaves: Any) -> None:
        """Listen.

        :param slaves: the factory of the port for replicas.
        :raises CannotListenError: a port is taken.
        """
        config = self._config
        for description in self._listen or (self._endpoint(config.listen_port),):
            self._open(description, self._broker, "main")
        if config.fast_port_enable and not self._listen:
            below = self._endpoint(config.listen_port - FAST_PORT_BELOW)
            self._open(below, FastPort(self._broker), "fast")
        keys = config.replication
        if self._listen and keys.alone:
            return  # one whose main port is not where the file says, for a test or a quick look
        port = strports.service(self._endpoint(keys.ha_listen_port), slaves, self._reactor)
        port.setName("port-ha")
        port.setServiceParent(self._broker)

    def _endpoint(self, port: int) -> str:
        config = self._config
        return views.endpoint(config.bind_address, port, config.remoting.server_socket_backlog)

    def _open(self, description: str, requests: Any, name: str) -> None:
        numbers = self._factories[0].numbers if self._factories else itertools.count(1)
        factory = RemotingFactory(
            requests,
            self._reactor,
            self._limits,
            numbers=numbers,
            turn=self._turn,
            refusals=self._refusals,
            admission=self._admission,
            shows=self._shows,
        )
        self._factories.append(factory)
        port = strports.service(description, factory, self._reactor)
        port.setName(f"port-{name}-{len(self._factories)}")
        port.setServiceParent(self._broker)  # it runs: the port listens now, and a taken one raises here
