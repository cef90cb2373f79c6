"""Addresses of peers: texts to endpoints.

What it must not know: what is spoken there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from twisted.internet import defer, error
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IAddress, IProtocol
from twisted.internet.protocol import Factory

from rocketha.access.signer import Signer
from rocketha.addresses import address_of
from rocketha.errors import ConfigError


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` (IPv6 hosts may be in brackets) as a pair.

    :raises ConfigError: when it is neither.
    """
    host, separator, port = address.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r} is not an address: host:port is wanted, such as 127.0.0.1:9876")
    return host, int(port)


class TlsFailed(error.ConnectError):
    """Somebody listens there, and TLS with him did not come about.

    ``osError`` is ECONNRESET where he went away before the handshake was over, as a process does that dies.
    """


def client_endpoint(reactor: Any, address: str, timeout_s: float) -> Any:
    """What connects to ``host:port``; an IP address (version 6 in brackets) is not looked up anywhere.

    :raises ConfigError: when it is no address.
    """
    host, port = split_address(address)
    try:
        version = ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        # attemptDelay: by itself it tells a refusal only 0.3 s later, and a refusal is what elections wait for.
        return HostnameEndpoint(reactor, host, port, timeout=timeout_s, attemptDelay=0.02)
    kind = TCP4ClientEndpoint if version == 4 else TCP6ClientEndpoint
    return kind(reactor, host, port, timeout=timeout_s)


class _One(Factory):
    noisy = False

    def __init__(self, protocol: IProtocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: IAddress | None) -> IProtocol:  # type: ignore[override]
        return self._protocol


def connect_protocol(endpoint: Any, protocol: Any) -> defer.Deferred[Any]:
    """Twisted's ``connectProtocol``, without two lines in the log for each connection."""
    attempt: defer.Deferred[Any] = endpoint.connect(_One(protocol))
    return attempt


@attrs.frozen
class Dialer:
    """Makes this process's connections to other servers.

    :ivar reactor: makes them, and keeps the time of whoever uses them.
    :ivar connects: a reactor, ``host:port`` and how long it may take to an endpoint; raises as :func:`client_endpoint`.
    :ivar signer: signs requests on them; None: they are not signed.
    """

    reactor: Any
    connects: Callable[[Any, str, float], Any] = client_endpoint
    signer: Signer | None = None

    @property
    def unsigned(self) -> Dialer:
        """The same, for requests that have a signature."""
        return attrs.evolve(self, signer=None)

    def endpoint(self, address: str, timeout_s: float) -> Any:
        """What connects to ``host:port``.

        :raises ConfigError: when it is no address.
        """
        return self.connects(self.reactor, address, timeout_s)


def is_loopback(host: str) -> bool:
    """Whether what comes from this IP address, or goes to it or to ``localhost``, stays on this machine."""
    try:
        return address_of(host).is_loopback
    except ValueError:
        return host == "localhost"


def literal_host(address: str) -> str | None:
    """The IP address in ``host:port``, normalised; None where the host is a name or the text no address."""
    try:
        return str(ipaddress.ip_address(split_address(address)[0].partition("%")[0]))
    except (ValueError, ConfigError):
        return None


def parse_peers(text: str) -> Mapping[str, str]:
    """``n0-host:port;n1-host:port`` as id -> ``host:port``, in the order of the text.

    The id is what stands before the first dash, so host names may have dashes (as ``controllerDLegerPeers`` since
    5.0); peers may be of different lengths; IPv6 hosts are in brackets.

    :raises ConfigError: a peer without an id or address, or an id or address that comes twice.
    """
    found: dict[str, str] = {}
    for peer in filter(None, (item.strip() for item in text.split(";"))):
        name, separator, address = peer.partition("-")
        if not separator or not name.strip():
            raise ConfigError(f"{peer!r} is no peer: id-host:port is wanted, such as n0-127.0.0.1:9878")
        split_address(address)
        if name.strip() in found:
            raise ConfigError(f"two peers have the id {name.strip()!r} in {text!r}")
        if address.strip() in found.values():
            raise ConfigError(f"two peers have the address {address.strip()} in {text!r}")
        found[name.strip()] = address.strip()
    if not found:
        raise ConfigError("no peers: id-host:port is wanted, separated by semicolons")
    return found
