"""The way of a request through a broker: one row for each code, and the same gates for all.

Theory of operation.  A request passes, in this order: is its code known; do the plug-ins' authenticators let it in; is
the log being changed (then it is parked); the gate of its row in the broker's present role; its responder; what that
wants done is done; its answer waits for the tables that it changed.

There is one table from request code to responder; a change of the role makes another, in which each responder stands
behind the gate that :func:`rocketha.broker.role.gate` names for its kind of request.  A master that is one for good
pays nothing for this.  Under controllers its sends and reads ask first whether it still may
(:attr:`Replication.refusal`); while that is undecided, they are parked.  In the other roles what is not served goes to
a refusal, or on to the master where its row allows that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rocketha.access.routes import unsupported
from rocketha.broker.request import Responder
from rocketha.broker.role import BUSY, NOT_AVAILABLE, NOT_ENOUGH, REFUSALS, Gate, Role, gate
from rocketha.broker.routes import CHANGES, BrokerRoute, Kind
from rocketha.broker.unsaved import NotSavedYet
from rocketha.broker.unserved import UNSERVED
from rocketha.errors import RequestRefused, ensure
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.replication.service import Replication
from rocketha.services.tables.waits import NewTopics, Promises, SavedAnswers
from rocketha.services.waiting.fresh_reads import FreshReads
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


class Judge(Protocol):
    """Who lets requests in.

    :ivar judges: whether it is asked at all.
    """

    judges: bool

    def judge(self, connection: Any, command: Command) -> None:
        """Let it in.

        :raises RequestRefused: it is not.
        """


class Waited(Protocol):
    """Who lets in once more what was let in and has waited, maybe for another role."""

    def after_wait(self, command: Command) -> None:
        """Let it in.

        :raises RequestRefused: it is not.
        """


class Dispatcher:
    """Of one broker: what its ports ask (:class:`rocketha.protocols.remoting.RequestService`).

    :ivar table: request code to responder, in the present role.
    :ivar parked: requests that wait for the store, or for a decision.
    """

    def __init__(self, core: BrokerCore) -> None:
        self._state, self._sends = core.state, core.parts.sends
        self._changes, self._effects, self._turns = core.changes, core.effects, core.turns
        self._files = core.parts.files
        self._now_ms = core.platform.now_ms
        self._features: Sequence[BrokerFeature] = ()
        self._served: dict[int, Responder] = dict(core.parts.requests)
        self._routes: Mapping[int, BrokerRoute] = {}
        self.table: dict[int, Responder] = {}
        self.parked = ParkedRequests(core.platform.reactor)
        self._reactor = core.platform.reactor
        self._waited: Waited | None = None
        self._fresh_reads: FreshReads | None = None
        self._is_fresh = False  # what is served now has waited for that before
        self.new_topics = NewTopics(
            self.parked, core.state, core.parts.files, core.parts.sends, self.again, core.turns.run, core.busy
        )

    def open(
        self,
        replication: Replication,
        features: Sequence[BrokerFeature],
        routes: Mapping[int, BrokerRoute],
        elsewhere: Elsewhere,
        judge: Judge,
        promises: Promises,
        waited: Waited | None,
    ) -> None:
        """Requests come from now on.

        :param features: answer what the tables and the store do not; told of clients that are gone.
        :param routes: the rows, by code; there is one for all that is answered.
        :param elsewhere: what a row allows is passed on by it.
        :param judge: lets requests in.
        :param promises: says that a change of the tables outlives this broker.
        :param waited: lets in once more what has waited; None: all of it.
        """
        self._replication, self._features, self._routes = replication, features, routes
        for feature in features:
            self._served.update(feature.requests)
        without = sorted(self._served.keys() - routes.keys())
        ensure(not without, f"requests {without} have no row")
        self._elsewhere, self._judge, self._waited = elsewhere, judge, waited
        self._saved_answers = SavedAnswers(self._files, promises)
        if replication.confirms_reads:
            self._fresh_reads = FreshReads(
                self._reactor,
                replication.fresh,
                self.go_on,
                lambda connection, command: self._refuse(connection, command, BUSY),
                self._turns.run,
            )
        self._make_table(replication.role)

    # --- what the ports call

    def connected(self, connection: RemotingProtocol) -> None:
        """A client is there; nothing to do before it asks."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        for feature in self._features:
            feature.disconnected(connection)
        if self._state.effects:
            self._effects.carry_out()

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Answer or stage one request.

        :raises RequestRefused: answered by the protocol.
        """
        if self._judge.judges and command.code in self.table:
            self._judge.judge(connection, command)
        return self.serve(connection, command)

    def serve(self, connection: Any, command: Command) -> Answer | None:
        """The same of one that was let in."""
        respond = self.table.get(command.code)
        if respond is None:
            raise unsupported(command.code, UNSERVED.get(command.code, ""))
        if self._changes.busy:
            return self._park(connection, command)
        try:
            answer = respond(connection, command, self._now_ms())
        except RequestRefused:
            self._effects.carry_out()
            raise
        except NotSavedYet as needed:
            refusal = self.new_topics.park(connection, command, needed.topic)
            self._effects.carry_out()
            return refusal
        saves = self._effects.carry_out() if self._state.effects else ()
        if answer is not None and (saves or command.code in CHANGES):
            return self._saved_answers.answer(connection, command, answer, saves)
        return answer

    def again(self, connection: Any, command: Command) -> Answer | None:
        """The same of one that has waited since.

        :raises RequestRefused: it is not let in any more, or as for :meth:`request`.
        """
        if self._waited is not None:
            self._waited.after_wait(command)
        return self.serve(connection, command)

    def resume(self, connection: Any, command: Command, until_s: float) -> Answer | None:
        """The same of one that has waited elsewhere, for a master.

        :param until_s: when its time is over.
        """
        return self.parked.resume(self.again, connection, command, until_s)

    def turn_ended(self) -> None:
        self._turns.ended()

    # --- the role

    def role_changed(self, role: Role) -> None:
        """Another table from now on."""
        self._state.is_slave = role is not Role.MASTER
        self._make_table(role)

    def _make_table(self, role: Role) -> None:
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
                return self._if_slaves_are_read(self._when_fresh(respond), self._refusing(BUSY))
            case Gate.MASTERS:
                return self._if_slaves_are_read(respond, self._elsewhere_or_here(respond))
            case Gate.BUSY | Gate.NOT_AVAILABLE | Gate.UNKNOWN_ROLE:
                return self._refusing(REFUSALS[gate])

    def only_pass_on(self) -> None:
        """The store is closed: nothing is answered here any more."""
        self.table = {code: self._refusing(NOT_AVAILABLE) for code in self._served}

    @property
    def undecided(self) -> bool:
        return self._replication.undecided

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

    def role_settled(self, role: Role) -> None:
        """All features know of the role: what waited is served in it."""
        if role is not Role.MASTER:
            self.new_topics.role_lost()
            self.new_topics.go_on()

    # --- responders

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
                return self.parked.park(connection, command)
            if refusal is NOT_ENOUGH:  # no other broker has more
                return refusal
            return self._refuse(connection, command, refusal)

        return send

    def _read_if_it_may(self, respond: Responder) -> Responder:
        replication = self._replication

        def read(connection: Any, command: Command, now_ms: int) -> Answer | None:
            if replication.refusal is None:
                return respond(connection, command, now_ms)
            return self.parked.park(connection, command) if replication.undecided else BUSY

        return read

    def _answer_if_decided(self, respond: Responder) -> Responder:
        replication, park = self._replication, self.parked.park

        def answer(connection: Any, command: Command, now_ms: int) -> Answer | None:
            return park(connection, command) if replication.undecided else respond(connection, command, now_ms)

        return answer

    def _change_if_it_may(self, respond: Responder) -> Responder:
        """Topics and groups: whoever is no master any more would change tables that nobody takes over."""
        replication = self._replication

        def change(connection: Any, command: Command, now_ms: int) -> Answer | None:
            if replication.undecided:
                return self.parked.park(connection, command)
            lost = replication.refusal is not None or replication.retiring
            return NOT_AVAILABLE if lost else respond(connection, command, now_ms)

        return change

    def _when_fresh(self, respond: Responder) -> Responder:
        """Where this replica can know what is acknowledged by now."""
        reads = self._fresh_reads
        if reads is None:
            return respond

        def read(connection: Any, command: Command, now_ms: int) -> Answer | None:
            return respond(connection, command, now_ms) if self._is_fresh else reads.take(connection, command)

        return read

    def go_on(self, connection: Any, command: Command) -> Answer | None:
        """The same as :meth:`again`, of a read for which this replica has what was acknowledged before it came."""
        self._is_fresh = True
        try:
            return self.again(connection, command)
        finally:
            self._is_fresh = False

    def _if_slaves_are_read(self, here: Responder, else_: Responder) -> Responder:
        """slaveReadEnable may change while the broker runs."""
        keys = self._replication.keys
        return lambda connection, command, now_ms: (here if keys.slave_read_enable else else_)(
            connection, command, now_ms
        )

    def _elsewhere_or_here(self, respond: Responder) -> Responder:
        elsewhere = self._elsewhere

        def pass_on(connection: Any, command: Command, now_ms: int) -> Answer | None:
            answer = elsewhere.take(connection, command, BUSY)
            return respond(connection, command, now_ms) if answer is BUSY else answer

        return pass_on

    def _park(self, connection: Any, command: Command) -> Answer | None:
        """A request that is served came while the log is being changed."""
        if self._routes[command.code].kind is Kind.ITSELF:
            return self._served[command.code](connection, command, 0)
        return self.parked.park(connection, command)
