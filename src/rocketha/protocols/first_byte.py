"""Plain and TLS connections on one port: the first byte of a connection says which it is.

Theory of operation.  A TLS connection begins with a record of kind 22; remoting, HA links and Raft begin with other
bytes.  The port's own protocol is connected at once, so that its limits and deadlines hold from the first moment.  What
stands before it leaves a TCP connection when the first byte has come, and costs nothing from then on; before other
transports it stays and passes everything on.

What it must not know: what is said behind that byte, nor how TLS is made.

Java: ``NettyRemotingServer.TlsModeHandler``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any
from typing import Protocol as Interface

from twisted.internet.interfaces import IAddress, ILoggingContext, IProtocol, IProtocolFactory
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.observe.refusals import Ended, Other, Refusals
from rocketha.wire.proxy_header import Source

TLS_RECORD = 0x16
"""First byte of a TLS handshake."""


class TlsMode(Enum):
    """``tls.server.mode``."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class Secured(Interface):
    """Gives accepted connections TLS."""

    @property
    def problem(self) -> str:
        """Why it cannot; empty: it can."""

    def secure(self, inner: Any, transport: Any, failed: Any) -> IProtocol:
        """The protocol that decrypts for another one, which is connected already.

        :param failed: called with the reason, a text, if the handshake fails.
        """


@implementer(IProtocolFactory, ILoggingContext)
class FirstBytePort:
    """The factory of a port, before its own.

    :param factory: the port's own.
    :param refusals: told of connections that are ended here.
    """

    noisy = False

    def __init__(self, factory: Any, mode: TlsMode, tls: Secured, refusals: Refusals) -> None:
        self._factory = factory
        self._mode = mode
        self._tls = tls
        self._refusals = refusals

    def buildProtocol(self, addr: IAddress | None) -> IProtocol | None:
        """Twisted: a peer connects."""
        inner = self._factory.buildProtocol(addr)
        return None if inner is None else _FirstByte(self, inner)

    def doStart(self) -> None:
        """Twisted: the port listens."""
        self._factory.doStart()

    def doStop(self) -> None:
        """Twisted: the port is closed."""
        self._factory.doStop()

    def logPrefix(self) -> str:
        """Twisted: for its log."""
        return type(self._factory).__name__

    def choose(self, inner: Any, transport: Any, peer: Other, first: int) -> IProtocol | None:
        """Whom a connection with this first byte is for; None: it is refused, and ended.

        :param peer: from whom it is.
        """
        if first != TLS_RECORD:
            if self._mode is not TlsMode.ENFORCING:
                return inner  # type: ignore[no-any-return]
            self._end(transport, peer, Ended.TLS_NEEDED, "it does not speak TLS, and tls.server.mode is enforcing")
        elif self._mode is TlsMode.DISABLED:
            self._end(transport, peer, Ended.NO_TLS, "it speaks TLS, and tls.server.mode is disabled")
        elif problem := self._tls.problem:
            self._end(transport, peer, Ended.NO_TLS, f"it speaks TLS: {problem}")
        else:
            failed = self._refusals.ended_by_us
            return self._tls.secure(inner, transport, lambda why: failed(peer, Ended.TLS_FAILED, why))
        return None

    def _end(self, transport: Any, peer: Other, cause: Ended, why: str) -> None:
        self._refusals.ended_by_us(peer, cause, why)
        transport.abortConnection()


@implementer(IProtocol)
class _FirstByte:
    """A connection's protocol until its first byte has come."""

    def __init__(self, port: FirstBytePort, inner: Any) -> None:
        self._port = port
        self._inner = inner
        self._transport: Any = None
        self._chosen: Any = None
        self._source: Source | None = None

    def makeConnection(self, transport: Any) -> None:
        """Twisted: the transport is there."""
        self._transport = transport
        self._inner.makeConnection(transport)

    def announced(self, source: Source | None) -> None:
        """See :meth:`~rocketha.protocols.remoting.RemotingProtocol.announced`."""
        self._source = source
        self._inner.announced(source)

    def _peer(self) -> Other:
        found = self._source or self._transport.getPeer()
        host = str(getattr(found, "host", "unknown"))
        return Other(f"{host}:{getattr(found, 'port', 0)}", host)

    def connectionMade(self) -> None:
        """Twisted calls :meth:`makeConnection`."""

    def dataReceived(self, data: bytes) -> None:
        """Twisted: a read, the first one or of a transport that goes on calling us."""
        if self._chosen is None:
            chosen = self._chosen = self._port.choose(self._inner, self._transport, self._peer(), data[0])
            if chosen is None:
                self._chosen = _NOBODY
            else:
                self._transport.protocol = chosen  # a TCP transport calls that from now on, others still us
        self._chosen.dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted: it ended."""
        told = self._inner if self._chosen in (None, _NOBODY) else self._chosen
        told.connectionLost(reason)


class _Nobody:
    """Hears what a refused connection still says."""

    def dataReceived(self, data: bytes) -> None:
        """It is dropped."""


_NOBODY = _Nobody()
