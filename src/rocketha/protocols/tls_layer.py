"""TLS beneath a protocol, at either end, over Twisted's :class:`~twisted.protocols.tls.TLSMemoryBIOProtocol`.

Theory of operation.  What one read of the socket brings is decrypted whole and given on in one call, and what one write
encrypts goes to the socket at once in one piece: our protocols do all work of a read as one turn and write once in it.
(Twisted's own layer gives on each record of 16 KiB by itself, and writes in the next turn of the reactor.)  A protocol
whose connection is made here is connected when the handshake is over; one that was accepted was connected before.

Needs the extra ``rocketha[tls]``: import it only where TLS is wanted.
What it must not know: certificates, which are their maker's affair (:mod:`rocketha.services.tls.certificates`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any
from typing import Protocol as Interface

from OpenSSL import SSL
from twisted.internet import defer, error
from twisted.internet.interfaces import (
    IAddress,
    IHandshakeListener,
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.protocols.eager import PIECE_BYTES, eager_write
from rocketha.protocols.endpoints import TlsFailed

UNBELIEVED = "the files changed during the handshake, and its certificate is believed no more"


def reason_of(failure: Failure) -> str:
    """Why TLS failed, as OpenSSL says it, for a person."""
    problem = failure.value
    if isinstance(problem, SSL.Error) and problem.args and isinstance(problem.args[0], list):
        words = [str(each[-1]) for each in problem.args[0] if each and each[-1]]
        if words:
            return "; ".join(words)
    return failure.getErrorMessage() or type(problem).__name__


class _AtOnce:
    """The TCP transport beneath: writes what is encrypted to the socket at once, and in large pieces while corked."""

    def __init__(self, transport: Any) -> None:
        self.tcp = transport
        self._pieces: list[bytes] = []
        self._size = 0
        self._corks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tcp, name)

    def write(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if not self._corks or self._size >= PIECE_BYTES:
            self._send()

    def cork(self) -> None:
        self._corks += 1

    def uncork(self) -> None:
        self._corks -= 1
        if not self._corks and self._pieces:
            self._send()

    def _send(self) -> None:
        pieces, self._pieces, self._size = self._pieces, [], 0
        eager_write(self.tcp, pieces[0] if len(pieces) == 1 else b"".join(pieces))


@implementer(IHandshakeListener)
class _Plain(Protocol):
    """What the layer gives on; gathers what one read brings.

    :param ready: called when the handshake is over.
    :param failed: called with the reason if it fails.
    :ivar ending: called when a connection ends whose handshake was over.
    """

    def __init__(self, inner: Any, ready: Callable[[], None], failed: Callable[[Failure], None]) -> None:
        self.inner = inner
        self.ending: Callable[[], None] = lambda: None
        self._ready = ready
        self._failed = failed
        self._pieces: list[bytes] = []
        self.shaken = self._over = False

    def handshakeCompleted(self) -> None:
        self.shaken = True
        self._ready()

    def dataReceived(self, data: bytes) -> None:
        self._pieces.append(data)

    def give_on(self) -> None:
        pieces = self._pieces
        if pieces and not self._over:
            self._pieces = []
            self.inner.dataReceived(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def drop(self) -> None:
        """Give nothing on any more."""
        self._over = True

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._over:
            return
        self.give_on()
        self._over = True
        if not self.shaken:
            self._failed(reason)
            return
        if reason.check(SSL.Error):  # such as a server's word, after the handshake, that it does not believe us
            reason = Failure(error.ConnectionLost(f"TLS: {reason_of(reason)}"))
        self.inner.connectionLost(reason)


class TlsLayer(TLSMemoryBIOProtocol):
    """The protocol of a TCP connection under TLS, and the transport of the protocol above it.

    As a TCP transport it may be ended when it has ended already, and its end does not wait for the peer's word.
    """

    def __init__(self, factory: TlsFactory, plain: _Plain) -> None:
        super().__init__(factory, plain, False)
        self.plain = plain
        self._lost = self._produced = False

    @property
    def tcp(self) -> Any:
        """The transport beneath."""
        return self._beneath.tcp

    def makeConnection(self, transport: Any) -> None:
        self._beneath = _AtOnce(transport)
        super().makeConnection(self._beneath)

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        self.plain.give_on()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.plain.shaken:
            self.plain.ending()
        super().connectionLost(reason)
        self._lost = True

    def write(self, data: bytes) -> None:
        self._beneath.cork()
        try:
            super().write(data)
        finally:
            self._beneath.uncork()

    def loseConnection(self) -> None:
        if self._lost:
            return
        super().loseConnection()
        if self.plain.shaken and not self._produced:
            self.tcp.loseConnection()

    def abortConnection(self) -> None:
        if not self._lost:
            super().abortConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._produced = True
        super().registerProducer(producer, streaming)

    def unregisterProducer(self) -> None:
        self._produced = False
        if not self._lost:
            super().unregisterProducer()


class Context(Interface):
    """Who has the context of new connections: it may be another one from time to time."""

    @property
    def context(self) -> SSL.Context:
        """The present one."""

    def believes(self, connection: SSL.Connection) -> bool:
        """Whether the other end of a connection, made with this context or one before it, would be let in now."""


class Opened:
    """The connections of one side, while they last.

    :param source: of their contexts.
    """

    def __init__(self, source: Context) -> None:
        self._source = source
        self.layers: set[TlsLayer] = set()

    def believes(self, layer: TlsLayer) -> bool:
        """Whether the other end would be let in now; asked when a handshake is over, which an older context began."""
        return self._source.believes(layer.getHandle())

    def end_unbelieved(self) -> Iterator[str]:
        """End those that would not be let in now, one a step: its peer, or nothing where it stays.

        Connections may begin and end between the steps: a handshake that is not over is asked at its end.
        """
        for layer in list(self.layers):
            if layer not in self.layers or not layer.plain.shaken or self.believes(layer):
                yield ""
                continue
            peer = layer.getPeer()
            layer.abortConnection()
            yield f"{getattr(peer, 'host', 'unknown')}:{getattr(peer, 'port', 0)}"


class TlsFactory(TLSMemoryBIOFactory):
    """Makes the TLS of connections.

    :param opened: knows of them.
    """

    def __init__(self, creator: Any, dials: bool, opened: Opened) -> None:
        super().__init__(creator, dials, None)  # type: ignore[arg-type]
        self.opened = opened

    def registerProtocol(self, p: Any) -> None:
        super().registerProtocol(p)
        self.opened.layers.add(p)

    def unregisterProtocol(self, p: Any) -> None:
        super().unregisterProtocol(p)
        self.opened.layers.discard(p)


@implementer(IOpenSSLServerConnectionCreator)
class _Accepting:
    def __init__(self, source: Context) -> None:
        self._source = source

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        return SSL.Connection(self._source.context, None)


class Sessions:
    """The last session with each server: the next connection takes it up, which spares both ends their signatures.

    Only while the context is the same one: who is believed may change with another.
    """

    def __init__(self) -> None:
        self._of: dict[str, tuple[SSL.Context, SSL.Session]] = {}

    def take_up(self, name: str, context: SSL.Context, connection: SSL.Connection) -> None:
        """Offer it on a new connection."""
        made_by, session = self._of.get(name, (None, None))
        if made_by is context and session is not None:
            connection.set_session(session)

    def keep(self, name: str, connection: SSL.Connection) -> None:
        """Of a connection that ends: a server gives tickets when the handshake is over."""
        session = connection.get_session()
        if session is not None:
            self._of[name] = connection.get_context(), session


@implementer(IOpenSSLClientConnectionCreator)
class _Dialing:
    def __init__(self, source: Context, host: str | None, name: str, sessions: Sessions) -> None:
        self._source = source
        self._host = host
        self._name = name
        self._sessions = sessions

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        context = self._source.context
        connection = SSL.Connection(context, None)
        if self._host is not None:
            connection.set_tlsext_host_name(self._host.encode("idna"))
        self._sessions.take_up(self._name, context, connection)
        tlsProtocol.plain.ending = lambda: self._sessions.keep(self._name, connection)
        return connection


def accepting(source: Context, opened: Opened) -> TlsFactory:
    """Makes the TLS of accepted connections."""
    return TlsFactory(_Accepting(source), False, opened)


def dialing(source: Context, opened: Opened, host: str | None, name: str, sessions: Sessions) -> TlsFactory:
    """Makes the TLS of connections to a server.

    :param host: its name, which it is told; None where it is known by its IP address.
    :param name: by which its session is kept.
    """
    return TlsFactory(_Dialing(source, host, name, sessions), True, opened)


def secure_accepted(factory: TlsFactory, inner: Any, transport: Any, failed: Callable[[str], None]) -> TlsLayer:
    """Put TLS beneath a protocol whose TCP connection was accepted and has said nothing yet."""

    def ready() -> None:
        if not factory.opened.believes(layer):
            failed(UNBELIEVED)
            layer.abortConnection()

    def lost(reason: Failure) -> None:
        if reason.check(SSL.Error):  # else it went away, or was ended by us
            failed(reason_of(reason))
        inner.connectionLost(reason)

    layer = TlsLayer(factory, _Plain(inner, ready, lost))
    producer, streaming = transport.producer, transport.streamingProducer
    if producer is not None:
        transport.unregisterProducer()
    layer.makeConnection(transport)
    inner.transport = layer
    if producer is not None:
        layer.registerProducer(producer, streaming)
    return layer


@implementer(IStreamClientEndpoint)
class TlsEndpoint:
    """Connects as another endpoint does, and speaks TLS then; fires when the handshake is over.

    :param clock: the handshake's time is measured with it.
    :param tls: makes the connection's TLS.
    :param name: of the server, for errors.
    :param check: given the connection when the handshake is over; raises where it is not with whom it should be.
    """

    def __init__(
        self,
        clock: Any,
        endpoint: Any,
        tls: TlsFactory,
        timeout_s: float,
        name: str,
        check: Callable[[SSL.Connection], None] = lambda connection: None,
    ) -> None:
        self._clock = clock
        self._endpoint = endpoint
        self._tls = tls
        self._timeout_s = timeout_s
        self._name = name
        self._check = check

    def connect(self, protocolFactory: Any) -> defer.Deferred[Any]:
        """Twisted: connect."""
        attempt = _Attempt(protocolFactory, self._tls, self._name, self._check)
        return attempt.begin(self._clock, self._endpoint, self._timeout_s)


class _Attempt(Factory):
    """One connection on its way."""

    noisy = False

    def __init__(self, factory: Any, tls: TlsFactory, name: str, check: Callable[[SSL.Connection], None]) -> None:
        self._factory = factory
        self._tls = tls
        self._name = name
        self._check = check
        self._layer: TlsLayer | None = None
        self._timeout: Any = None
        self._done: defer.Deferred[Any] = defer.Deferred(self._cancel)

    def begin(self, clock: Any, endpoint: Any, timeout_s: float) -> defer.Deferred[Any]:
        until_s = clock.seconds() + timeout_s
        self._connecting = endpoint.connect(self)

        def connected(layer: TlsLayer) -> None:
            if not self._done.called:
                self._timeout = clock.callLater(max(0.0, until_s - clock.seconds()), self._too_late)

        self._connecting.addCallbacks(connected, self._end)
        return self._done

    def buildProtocol(self, addr: IAddress | None) -> TlsLayer | None:  # type: ignore[override]
        inner = self._factory.buildProtocol(addr)
        if inner is None:
            return None
        self._layer = TlsLayer(self._tls, _Plain(inner, self._ready, self._failed))
        return self._layer

    def _ready(self) -> None:
        self._stop_timer()
        layer = self._layer
        assert layer is not None
        try:
            self._check(layer.getHandle())
        except Exception as problem:
            self._give_up(f"its certificate is not that of this host: {problem}")
            return
        if not self._tls.opened.believes(layer):
            self._give_up(UNBELIEVED)
            return
        inner = layer.plain.inner
        inner.makeConnection(layer)
        self._end(inner)

    def _failed(self, reason: Failure) -> None:
        self._stop_timer()
        gone = reason.check(error.ConnectionClosed) is not None
        self._not_connected(reason_of(reason), errno.ECONNRESET if gone else None)

    def _not_connected(self, why: str, number: int | None = None) -> None:
        self._end(Failure(TlsFailed(number, f"TLS with {self._name}: {why}")))

    def _too_late(self) -> None:
        self._give_up("no handshake in time")

    def _give_up(self, why: str) -> None:
        self._abort()
        self._not_connected(why)

    def _abort(self) -> None:
        assert self._layer is not None
        self._layer.plain.drop()
        self._layer.abortConnection()

    def _stop_timer(self) -> None:
        if self._timeout is not None and self._timeout.active():
            self._timeout.cancel()

    def _cancel(self, _: Any) -> None:
        self._stop_timer()
        if self._layer is None or not self._connecting.called:
            self._connecting.cancel()
        else:
            self._abort()

    def _end(self, result: Any) -> None:
        if not self._done.called:
            self._done.callback(result)
