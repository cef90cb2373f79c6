"""Connections that we open: one per address, made when first needed, shared by all requests to that address.

Theory of operation.  ``request`` connects if there is no connection and waits on the same attempt when one is under
way.  A broken connection fails its own requests at once; the next request connects anew.  Retrying is the caller's
affair: only it knows whether a request may be sent twice.

Java: ``NettyRemotingClient``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.errors import ConfigError
from rocketha.protocols.eager import queued_bytes
from rocketha.protocols.endpoints import Dialer, connect_protocol
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.wire.codes import ResponseCode
from rocketha.wire.limits import ANSWER_HEADER_BYTES_MAX
from rocketha.wire.remoting import Answer, Command

CONNECT_TIMEOUT_S = 3.0

CLIENT_LIMITS = Limits(header_bytes=ANSWER_HEADER_BYTES_MAX)
"""A server's answer may have a long header: the ids of a batch of thousands of messages stand in one field."""


class NoService:
    """A client that answers no requests of the server's (``RequestService``)."""

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """Nothing to do."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Refused: this client serves nothing."""
        return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    def turn_ended(self) -> None:
        """Nothing to do."""


class RemotingClient:
    """A pool of connections by address.

    :param dialer: connects and keeps time.
    :param service: answers what servers ask of us (40 NOTIFY_CONSUMER_IDS_CHANGED ...); None refuses everything.
    """

    def __init__(self, dialer: Dialer, service: Any | None = None, limits: Limits | None = None) -> None:
        self._dialer = dialer
        self._factory = RemotingFactory(
            service or NoService(), dialer.reactor, limits or CLIENT_LIMITS, server=False, signer=dialer.signer
        )
        self._connections: dict[str, RemotingProtocol] = {}
        self._connecting: dict[str, list[defer.Deferred[RemotingProtocol]]] = {}
        self._attempts: dict[str, defer.Deferred[Any]] = {}
        self._closed = False
        self._factory.doStart()

    def connect(self, address: str, timeout_s: float = CONNECT_TIMEOUT_S) -> defer.Deferred[RemotingProtocol]:
        """The open connection to ``host:port``, or a new one."""
        known = self._connections.get(address)
        if known is not None and not known.closed:
            return defer.succeed(known)
        if self._closed:
            return defer.fail(error.ConnectionAborted("this client is closed"))
        waiter: defer.Deferred[RemotingProtocol] = defer.Deferred()
        waiting = self._connecting.setdefault(address, [])
        waiting.append(waiter)
        if len(waiting) == 1:
            try:
                endpoint = self._dialer.endpoint(address, timeout_s)
            except ConfigError:
                self._settle(address, Failure())
                return waiter
            attempt = connect_protocol(endpoint, self._factory.buildProtocol(None))
            self._attempts[address] = attempt
            attempt.addBoth(lambda result: self._settle(address, result))
        return waiter

    def _settle(self, address: str, result: Any) -> None:
        self._attempts.pop(address, None)
        waiting = self._connecting.pop(address, [])
        if isinstance(result, Failure):
            for waiter in waiting:
                waiter.errback(Failure(error.ConnectError(string=f"{address}: {result.getErrorMessage()}")))
            return
        if self._closed:
            result.abort()
            for waiter in waiting:
                waiter.errback(Failure(error.ConnectionAborted("this client is closed")))
            return
        self._connections[address] = result
        for waiter in waiting:
            waiter.callback(result)

    def request(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = 3.0,
    ) -> defer.Deferred[Command]:
        """One request; fires with the response whatever its code, fails when there is none in time."""
        connected = self.connect(address, min(timeout_s, CONNECT_TIMEOUT_S))
        return connected.addCallback(lambda connection: connection.request(code, fields, body, timeout_s))

    def oneway(
        self, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> defer.Deferred[None]:
        """One request that gets no answer; fires when it was handed to the connection."""
        return self.connect(address).addCallback(lambda connection: connection.notify(code, fields, body))

    def is_open(self, address: str) -> bool:
        """Whether there is a connection to ``address``."""
        known = self._connections.get(address)
        return known is not None and not known.closed

    def unsent(self, address: str) -> int:
        """Bytes that wait for the server at ``address`` to read them."""
        known = self._connections.get(address)
        return 0 if known is None or known.closed else queued_bytes(known.transport)

    def give_up(self, address: str) -> None:
        """End the connection to ``address`` now, and make a new one for the next request."""
        known = self._connections.get(address)
        if known is not None:
            known.abort()

    def close(self) -> None:
        """End every connection and refuse new ones."""
        self._closed = True
        for attempt in list(self._attempts.values()):
            attempt.cancel()
        self._factory.close_all()
        self._factory.doStop()
