"""Requests that the broker passes on to its clients for an administrator, and the one answer made of their replies.

Java: ``Broker2Client.callClient``, ``AdminBrokerProcessor`` (307, 309, 221).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.broker.effects import CallClients, Reply
from rocketha.observe.logging import make_logger
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command


class ProxiedCalls:
    """Carries out :class:`CallClients`.

    :param find: a connection by its id, None when it is gone.
    """

    def __init__(self, find: Callable[[int], RemotingProtocol | None]) -> None:
        self._find = find
        self._log = make_logger()

    def call(self, effect: CallClients) -> None:
        """Ask every target, then answer whoever asked."""
        replies = [
            self._ask(connection_id, client_id, effect.code, effect.fields, effect.body, effect.timeout_ms)
            for connection_id, client_id in effect.targets
        ]
        gathered: defer.Deferred[Any] = defer.gatherResults(replies)
        gathered.addCallback(lambda found: self._answer(effect, effect.combine(found)))
        gathered.addErrback(self._failed, effect)

    def _ask(
        self, connection_id: int, client_id: str, code: int, fields: Mapping[str, str], body: bytes, timeout_ms: int
    ) -> defer.Deferred[Reply]:
        connection = self._find(connection_id)
        if connection is None:
            return defer.succeed(Reply(client_id, None))

        def replied(command: Command) -> Reply:
            return Reply(client_id, command.code, command.remark, command.fields, command.body)

        def silent(failure: Failure) -> Reply:
            return Reply(client_id, None, timed_out=bool(failure.check(error.TimeoutError)))

        return connection.request(code, fields, body, timeout_s=timeout_ms / 1000).addCallbacks(replied, silent)

    def _answer(self, effect: CallClients, answer: Answer) -> None:
        connection_id, command = effect.answer_to
        connection = self._find(connection_id)
        if connection is not None:
            connection.answer(command, answer)

    def _failed(self, failure: Failure, effect: CallClients) -> None:
        self._log.error("a request passed on to clients failed: {trace}", trace=failure.getTraceback())
        self._answer(effect, Answer(ResponseCode.SYSTEM_ERROR, failure.getErrorMessage()))
