"""How a server's ports are opened and its connections made, and the plain way of it."""

from __future__ import annotations

from typing import Any, Protocol

from twisted.application import service, strports

from rocketha.access.askers import ANYBODY, Askers
from rocketha.observe.refusals import Refusals
from rocketha.protocols.endpoints import client_endpoint


class Network(Protocol):
    """The only way of a server to its ports and to others: who has another one has TLS, say."""

    def port(self, reactor: Any, description: str, factory: Any, refusals: Refusals) -> service.Service:
        """A port that listens while its service runs.

        :param description: endpoint string.
        :param refusals: told of connections that are ended before ``factory`` hears of what they say.
        """

    def endpoint(self, reactor: Any, address: str, timeout_s: float) -> Any:
        """What connects to ``host:port``.

        :raises ConfigError: when it is no address.
        """

    @property
    def askers(self) -> Askers:
        """Who is at the other end of connections."""


class InTheClear:
    """Plain TCP both ways."""

    def port(self, reactor: Any, description: str, factory: Any, refusals: Refusals) -> service.Service:
        return strports.service(description, factory, reactor)

    def endpoint(self, reactor: Any, address: str, timeout_s: float) -> Any:
        return client_endpoint(reactor, address, timeout_s)

    @property
    def askers(self) -> Askers:
        return ANYBODY
