"""The broker's second port (listenPort - 2): everything but pulls.

In Java it has a thread pool of its own, so that pulls cannot hold up the rest; here it exists because slaves and
tools use it.

Java: ``BrokerController.initializeRemotingServer`` (fastRemotingServer).
"""

from __future__ import annotations

from rocketha.broker.routes import PULLS
from rocketha.protocols.remoting import RemotingProtocol, RequestService
from rocketha.wire.remoting import Answer, Command
from rocketha.wire.routes import unsupported

BELOW = 2
"""How far below the main port it is."""


class FastPort:
    """Passes on to the main port's service what is no pull."""

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
