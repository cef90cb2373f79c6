"""How a server's ports are opened and its connections made, and the plain way of it."""

from __future__ import annotations

from typing import Any, Protocol

from twisted.application import service, strports

from rocketha.access.askers import ANYBODY, Askers
from rocketha.addresses import NOBODY, Networks
from rocketha.observe.refusals import Refusals
from rocketha.protocols.endpoints import client_endpoint
from rocketha.protocols.proxy_port import ProxyPort


class Network(Protocol):
    """The only way of a server to its ports and to others: who has another one has TLS, say."""

    def port(
        self, reactor: Any, description: str, factory: Any, refusals: Refusals, proxies: Networks = NOBODY
    ) -> service.Service:
        """A port that listens while its service runs.

        :param description: endpoint string.
        :param refusals: told of connections that are ended before ``factory`` hears of what they say.
        :param proxies: whose connections begin with a PROXY header; ``factory`` makes remoting connections then.
        :raises ConfigError: the port can not be what it is asked to be.
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

    def port(
        self, reactor: Any, description: str, factory: Any, refusals: Refusals, proxies: Networks = NOBODY
    ) -> service.Service:
        return strports.service(description, ProxyPort(factory, proxies, refusals) if proxies else factory, reactor)

    def endpoint(self, reactor: Any, address: str, timeout_s: float) -> Any:
        return client_endpoint(reactor, address, timeout_s)

    @property
    def askers(self) -> Askers:
        return ANYBODY
