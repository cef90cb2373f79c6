"""Stands before a server that answers requests: lets in what its sender may ask, refuses and audits the rest.

Theory of operation.  The row of a request says what it claims about its sender (:mod:`rocketha.access.claims`), and a
broker's what its user needs (:mod:`rocketha.broker.needs`).  Who the sender is says
:class:`~rocketha.access.askers.Askers`; who signed, and what he may do, :class:`~rocketha.services.access.users.Users`.
An identity is enough for what it may ask, and for what a replica passes on, who has judged it; all else is for users.
Where neither is demanded there is no guard.  An operator's request is logged whatever came of it; refusals are counted
and logged as all of a server's are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rocketha.access.askers import Askers
from rocketha.access.claims import Claim
from rocketha.access.routes import Asker, Route
from rocketha.errors import RequestRefused
from rocketha.observe.events import OperatorAsked
from rocketha.observe.logging import emit, make_logger
from rocketha.protocols.remoting import RemotingProtocol, RequestService
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command

DEMANDED = "identities are demanded here"
"""How the remark of a request ends that is refused for want of an identity; ``rocketha doctor`` knows it by that."""


class Judge(Protocol):
    """Who judges what users ask."""

    def judge(self, connection: RemotingProtocol, command: Command, route: Any) -> None:
        """Let it in.

        :raises RequestRefused: it is not.
        """

    def passed_on(self, command: Command) -> None:
        """Let in what a replica has judged.

        :raises RequestRefused: it was served before.
        """


def guarded(
    service: RequestService, askers: Askers, routes: Mapping[int, Route], users: Judge | None = None
) -> RequestService:
    """The service for a port to use.

    :param routes: its rows; a code without one passes, for it refuses that itself.
    :param users: judges clients; None: they need not log in.
    """
    return Guard(service, askers, routes, users) if askers.known or users is not None else service


class Guard:
    """See the module; a :class:`~rocketha.protocols.remoting.RequestService`."""

    def __init__(
        self, service: RequestService, askers: Askers, routes: Mapping[int, Route], users: Judge | None
    ) -> None:
        self._service = service
        self._askers = askers
        self._routes = routes
        self._users = users
        self._replicas: dict[int, bool] = {}  # connection -> whether it is one's
        self._log = make_logger()

    def connected(self, connection: RemotingProtocol) -> None:
        self._service.connected(connection)

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        self._replicas.pop(connection.id, None)
        self._service.disconnected(connection, reason)

    def turn_ended(self) -> None:
        self._service.turn_ended()

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Pass it on.

        :raises RequestRefused: 16, it is not what its sender may ask.
        """
        route = self._routes.get(command.code)
        if route is not None:
            if route.claims is not None and self._askers.known:
                self._judge(connection, command, route, route.claims)
            elif self._users is not None:
                if self._askers.known and self._is_replica(connection):
                    self._users.passed_on(command)
                else:
                    self._users.judge(connection, command, route)
        return self._service.request(connection, command)

    def _is_replica(self, connection: RemotingProtocol) -> bool:
        found = self._replicas.get(connection.id)
        if found is None:
            found = self._askers.is_replica(connection.transport, connection.proven_host)
            self._replicas[connection.id] = found
        return found

    def _judge(self, connection: RemotingProtocol, command: Command, route: Route, claim: Claim) -> None:
        found = self._askers.at(connection.transport, connection.proven_host)
        for each in found:
            if claim.holds(each, self._askers.own, command.fields, command.body):
                if route.asker is Asker.OPERATOR:
                    emit(self._log, OperatorAsked(str(each), connection.peer, route.name))
                return
        if self._users is not None and route.asker is Asker.OPERATOR:
            self._users.judge(connection, command, route)
            return
        who = " or ".join(map(str, found)) or "who shows no certificate"
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"{route.name} is not for {who}: {DEMANDED}")
