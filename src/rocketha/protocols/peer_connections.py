"""Connections to servers whose death matters: what went wrong is told apart, and a refusal is told at once.

What it must not know: what is said on them.  Unlike :class:`~rocketha.protocols.remoting_client.RemotingClient` it
keeps the reason of a failure (``ConnectionRefusedError`` means that nobody listens), tells when a connection ends, and
can make a connection that is not shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import Dialer, connect_protocol
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command


class PeerConnections:
    """A pool of connections by address.

    :param ended: called with an address when its pooled connection is gone.
    """

    def __init__(
        self, dialer: Dialer, ended: Callable[[str], None] = lambda address: None, limits: Limits | None = None
    ) -> None:
        self._dialer = dialer
        self._ended = ended
        self._factory = RemotingFactory(self, dialer.reactor, limits or Limits(), server=False, signer=dialer.signer)
        self._pool: dict[str, RemotingProtocol] = {}
        self._waiting: dict[str, list[defer.Deferred[RemotingProtocol]]] = {}
        self._attempts: set[defer.Deferred[Any]] = set()
        self._closed = False
        self._factory.doStart()

    # -- connections ----------------------------------------------------------------------------------------------

    def open(self, address: str) -> RemotingProtocol | None:
        """The pooled connection, if it is there."""
        found = self._pool.get(address)
        return found if found is not None and not found.closed else None

    def connect(self, address: str, timeout_s: float) -> defer.Deferred[RemotingProtocol]:
        """The pooled connection, made if need be; fails with the reason as Twisted's endpoints give it."""
        found = self.open(address)
        if found is not None:
            return defer.succeed(found)
        waiter: defer.Deferred[RemotingProtocol] = defer.Deferred()
        waiting = self._waiting.setdefault(address, [])
        waiting.append(waiter)
        if len(waiting) == 1:
            self.dial(address, timeout_s).addBoth(self._settle, address)
        return waiter

    def dial(self, address: str, timeout_s: float) -> defer.Deferred[RemotingProtocol]:
        """A connection of its own, which the caller ends."""
        if self._closed:
            return defer.fail(error.ConnectionAborted("closed"))
        try:
            endpoint = self._dialer.endpoint(address, timeout_s)
        except ConfigError as problem:
            return defer.fail(error.ConnectError(string=str(problem)))
        attempt = connect_protocol(endpoint, self._factory.buildProtocol(None))
        self._attempts.add(attempt)

        def over(result: Any) -> Any:
            self._attempts.discard(attempt)
            if self._closed and not isinstance(result, Failure):
                result.abort()
                return Failure(error.ConnectionAborted("closed"))
            return result

        return attempt.addBoth(over)

    def _settle(self, result: Any, address: str) -> None:
        waiting = self._waiting.pop(address, [])
        if not isinstance(result, Failure):
            self._pool[address] = result
        for waiter in waiting:
            if isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(result)

    def drop(self, address: str, unsaid: bool = False) -> None:
        """End the pooled connection; nobody is told.

        :param unsaid: what was written and has not left does not leave.
        """
        found = self._pool.pop(address, None)
        if found is not None:
            if unsaid:
                found.abort()
            else:
                found.close()

    def close(self) -> None:
        """End everything, for good."""
        self._closed = True
        for attempt in list(self._attempts):
            attempt.cancel()
        self._pool.clear()
        self._factory.close_all()
        self._factory.doStop()

    # -- what connections say -------------------------------------------------------------------------------------

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do: who dialled knows."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """A connection ended."""
        for address, pooled in self._pool.items():
            if pooled is connection:
                del self._pool[address]
                self._ended(address)
                return

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Nothing is served on connections of ours."""
        return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    def turn_ended(self) -> None:
        """Nothing is staged."""
