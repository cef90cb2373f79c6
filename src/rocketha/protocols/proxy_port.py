"""A port behind proxies that say for whom a connection is (HAProxy's PROXY protocol, versions 1 and 2).

Theory of operation.  Only listed proxies are believed, and each of their connections must begin with a header: who
guessed whether there is one would believe what a client of a proxy that sends none says first.  From everybody else a
header is what any other junk is, and the port's own protocol refuses it.  The protocols behind are connected at once,
so that limits and deadlines hold while the header is not whole; they are told the source, and then hear what follows
it: TLS or frames.  After that nothing stands between them and a TCP connection.

The source is whom logs, lists, messages and policies name.  It is no proof: see
:attr:`rocketha.protocols.remoting.RemotingProtocol.proven_host`.

Java: ``NettyRemotingServer.HandshakeHandler``.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IAddress, ILoggingContext, IProtocol, IProtocolFactory
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.addresses import Networks
from rocketha.errors import RemoteProtocolError
from rocketha.observe.refusals import Ended, Other, Refusals
from rocketha.wire import proxy_header


@implementer(IProtocolFactory, ILoggingContext)
class ProxyPort:
    """The factory of a port, before those that it wraps.

    :param factory: its protocols have ``announced(source)``, see :meth:`RemotingProtocol.announced`.
    :param proxies: who must send a header.
    :param refusals: told of connections that are ended here.
    """

    noisy = False

    def __init__(self, factory: Any, proxies: Networks, refusals: Refusals) -> None:
        self._factory = factory
        self._proxies = proxies
        self._refusals = refusals

    def buildProtocol(self, addr: IAddress | None) -> IProtocol | None:
        """Twisted: a peer connects."""
        behind = self._factory.buildProtocol(addr)
        if behind is None or getattr(addr, "host", "") not in self._proxies:
            return behind  # type: ignore[no-any-return]
        return _Header(behind, self._refusals)

    def doStart(self) -> None:
        """Twisted: the port listens."""
        self._factory.doStart()

    def doStop(self) -> None:
        """Twisted: the port is closed."""
        self._factory.doStop()

    def logPrefix(self) -> str:
        """Twisted: for its log."""
        return str(self._factory.logPrefix()) if hasattr(self._factory, "logPrefix") else type(self._factory).__name__


@implementer(IProtocol)
class _Header:
    """A connection's protocol until its header is whole."""

    def __init__(self, behind: Any, refusals: Refusals) -> None:
        self._behind = behind
        self._refusals = refusals
        self._transport: Any = None
        self._held: bytearray | None = bytearray()  # None: the header has been read
        self._ended = False

    def makeConnection(self, transport: Any) -> None:
        """Twisted: the transport is there."""
        self._transport = transport
        self._behind.makeConnection(transport)

    def connectionMade(self) -> None:
        """Twisted calls :meth:`makeConnection`."""

    def dataReceived(self, data: bytes) -> None:
        """Twisted: a read, one of the first or of a transport that goes on calling us."""
        if self._ended:
            return
        if self._held is None:
            self._behind.dataReceived(data)
            return
        self._held += data
        try:
            header = proxy_header.read(self._held)
        except RemoteProtocolError as problem:
            self._refuse(str(problem))
            return
        if header is not None:
            self._pass_on(header)

    def _pass_on(self, header: proxy_header.ProxyHeader) -> None:
        assert self._held is not None
        rest, self._held = bytes(self._held[header.size :]), None
        self._transport.protocol = self._behind  # a TCP transport calls that from now on, others still us
        self._behind.announced(header.source)
        if rest:
            self._behind.dataReceived(rest)

    def _refuse(self, why: str) -> None:
        self._ended = True
        peer = self._transport.getPeer()
        host = str(getattr(peer, "host", "unknown"))
        self._refusals.ended_by_us(Other(f"{host}:{getattr(peer, 'port', 0)}", host), Ended.PROXY_HEADER, why)
        self._transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted: it ended."""
        self._behind.connectionLost(reason)
