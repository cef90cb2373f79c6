"""Which request is answered by what in the present role, and what waits while nobody may touch the store.

Theory of operation.  There is one table from request code to responder; a change of the role makes another, in which
each responder stands behind the gate that :func:`rocketha.broker.role.gate` names for its kind of request.  A master
that is one for good pays nothing for this.  Under controllers its sends and reads ask first whether it still may
(:attr:`Replication.refusal`); while that is undecided, they are parked.  In the other roles what is not served goes to
a refusal, or on to the master where somebody passes it on.  While the log is being cut, requests are parked, and served
when it is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rocketha.broker.role import BUSY, NOT_AVAILABLE, NOT_ENOUGH, REFUSALS, Gate, Role, gate
from rocketha.broker.routes import ROUTES, BrokerRoute, Kind
from rocketha.errors import ensure
from rocketha.services.broker.parts import Responder
from rocketha.services.replication.service import Replication
from rocketha.services.waiting.parked_requests import ParkedRequests
from rocketha.wire.remoting import Answer, Command


class Elsewhere(Protocol):
    """Who passes requests on to the master."""

    @property
    def waiting(self) -> bool:
        """Whether sends are kept, that came before any that comes now."""

    def go_on(self) -> None:
        """Do with what is kept what can be done now."""

    def take(self, connection: Any, command: Command, refusal: Answer) -> Answer | None:
        """The refusal if it is not passed on, or what tells a forwarder more; None: it is answered later."""


class RoleRequests:
    """Of one broker.

    :param parked: takes requests that wait for the store, as ones that need nothing else.
    :param served: everything that it can answer; each code has its row.
    :param elsewhere: what a row allows is passed on by it.
    :param routes: the rows, by code.
    :ivar table: request code to responder.
    """

    def __init__(
        self, parked: ParkedRequests, served: Mapping[int, Responder], replication: Replication, elsewhere: Elsewhere,
        routes: Mapping[int, BrokerRoute] = ROUTES,
    ) -> None:  # fmt: skip
        without = sorted(served.keys() - routes.keys())
        ensure(not without, f"requests {without} have no row")
        self._routes = routes
        self._served = served
        self._replication = replication
        self._elsewhere = elsewhere
        self._parked = parked
        self.table: dict[int, Responder] = {}
        self.role_changed(replication.role)

    def role_changed(self, role: Role) -> None:
        """Another table from now on."""
        leased = self._replication.leased
        self.table = {
            code: self._behind(gate(self._routes[code].kind, role, leased), code, respond)
            for code, respond in self._served.items()
        }

    def _behind(self, gate: Gate, code: int, respond: Responder) -> Responder:
        match gate:
            case Gate.OPEN:
                return respond
            case Gate.MAY_STORE:
                return self._send_if_it_may(respond)
            case Gate.MAY_SHOW:
                return self._read_if_it_may(respond)
            case Gate.DECIDED:
                return self._answer_if_decided(respond)
            case Gate.MAY_CHANGE:
                return self._change_if_it_may(respond)
            case Gate.SLAVE_READS:
                return self._if_slaves_are_read(respond, self._refusing(BUSY))
            case Gate.MASTERS:
                return self._if_slaves_are_read(respond, self._elsewhere_or_here(respond, self._elsewhere))
            case Gate.BUSY | Gate.NOT_AVAILABLE | Gate.UNKNOWN_ROLE:
                return self._refusing(REFUSALS[gate])

    def only_pass_on(self) -> None:
        """The store is closed: nothing is answered here any more."""
        self.table = {code: self._refusing(NOT_AVAILABLE) for code in self._served}

    def read_refusal(self) -> Answer | None:
        """Why a pull that waited gets nothing now; None: it is answered."""
        replication = self._replication
        match gate(Kind.PULL, replication.role, replication.leased):
            case Gate.OPEN | Gate.MAY_SHOW:
                return replication.refusal
            case Gate.SLAVE_READS:
                return None if replication.keys.slave_read_enable else BUSY
            case closed:
                return REFUSALS[closed]

    # -- responders

    def _refuse(self, connection: Any, command: Command, refusal: Answer) -> Answer | None:
        if self._routes[command.code].forwarded:
            return self._elsewhere.take(connection, command, refusal)
        return refusal

    def _refusing(self, refusal: Answer) -> Responder:
        return lambda connection, command, now_ms: self._refuse(connection, command, refusal)

    def _send_if_it_may(self, respond: Responder) -> Responder:
        replication, elsewhere = self._replication, self._elsewhere

        def send(connection: Any, command: Command, now_ms: int) -> Answer | None:
            refusal = replication.send_refusal
            if refusal is None:
                if elsewhere.waiting:
                    elsewhere.go_on()
                return respond(connection, command, now_ms)
            if replication.undecided:
                return self._parked.park(connection, command)
            if refusal is NOT_ENOUGH:  # no other broker has more
                return refusal
            return self._refuse(connection, command, refusal)

        return send

    def _read_if_it_may(self, respond: Responder) -> Responder:
        replication = self._replication

        def read(connection: Any, command: Command, now_ms: int) -> Answer | None:
            if replication.refusal is None:
                return respond(connection, command, now_ms)
            return self._parked.park(connection, command) if replication.undecided else BUSY

        return read

    def _answer_if_decided(self, respond: Responder) -> Responder:
        replication, park = self._replication, self._parked.park

        def answer(connection: Any, command: Command, now_ms: int) -> Answer | None:
            return park(connection, command) if replication.undecided else respond(connection, command, now_ms)

        return answer

    def _change_if_it_may(self, respond: Responder) -> Responder:
        """Topics and groups: whoever is no master any more would change tables that nobody takes over."""
        replication = self._replication

        def change(connection: Any, command: Command, now_ms: int) -> Answer | None:
            if replication.undecided:
                return self._parked.park(connection, command)
            lost = replication.refusal is not None or replication.retiring
            return NOT_AVAILABLE if lost else respond(connection, command, now_ms)

        return change

    def _if_slaves_are_read(self, here: Responder, else_: Responder) -> Responder:
        """slaveReadEnable may change while the broker runs."""
        keys = self._replication.keys
        return lambda connection, command, now_ms: (here if keys.slave_read_enable else else_)(
            connection, command, now_ms
        )

    @staticmethod
    def _elsewhere_or_here(respond: Responder, elsewhere: Elsewhere) -> Responder:
        def pass_on(connection: Any, command: Command, now_ms: int) -> Answer | None:
            answer = elsewhere.take(connection, command, BUSY)
            return respond(connection, command, now_ms) if answer is BUSY else answer

        return pass_on

    # -- while nobody may touch the store

    def park(self, connection: Any, command: Command) -> Answer | None:
        """A request that is served came while the log is being cut."""
        if self._routes[command.code].kind is Kind.ITSELF:
            return self._served[command.code](connection, command, 0)
        return self._parked.park(connection, command)
