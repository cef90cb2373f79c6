"""The guard before a server: what reaches it, what is said to who is turned away, and what is written down."""

from __future__ import annotations

from typing import Any

from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rocketha.access.askers import ANYBODY, Askers
from rocketha.access.identity import Identity, Part
from rocketha.access.trusted import parse
from rocketha.broker.routes import ROUTES as BROKER_ROUTES
from rocketha.controller.routes import ROUTES
from rocketha.errors import RequestRefused
from rocketha.services.access.guard import guarded
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command, request

OWN = Identity("c", Part.CONTROLLER, "n0")
BROKER = Identity("c", Part.BROKER, "broker-a", 1)
FIELDS = {"clusterName": "c", "brokerName": "broker-a", "brokerId": "1"}


class _Service:
    """Hears what is let in."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def connected(self, connection: Any) -> None:
        self.heard.append("connected")

    def disconnected(self, connection: Any, reason: str) -> None:
        self.heard.append(reason)

    def turn_ended(self) -> None:
        self.heard.append("ended")

    def request(self, connection: Any, command: Command) -> Answer | None:
        self.heard.append(command.code)
        return Answer()


class _Connection:
    """From somewhere, with the identities of a certificate."""

    id = 1
    peer = "10.0.0.3:1"

    def __init__(self, *shown: Identity, host: str = "10.0.0.3") -> None:
        self.transport = shown
        self.proven_host = host


class _Users:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses = False

    def judge(self, connection: Any, command: Command, route: Any) -> None:
        self.asked.append("judged")

    def passed_on(self, command: Command) -> None:
        self.asked.append("passed on")
        if self.refuses:
            raise RequestRefused(ResponseCode.NO_PERMISSION, "this request was sent before.")


class GuardTests(SynchronousTestCase):
    """A controller's."""

    def setUp(self) -> None:
        self.service = _Service()
        trusted = parse("broker/broker-a/1@10.0.0.9; broker/broker-b/1@10.0.0.9")
        self.guard: Any = guarded(self.service, Askers(lambda transport: transport, (OWN,), trusted), ROUTES)
        self.logged: list[Any] = []
        globalLogPublisher.addObserver(self.logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.logged.append)

    def ask(self, connection: _Connection, code: int, **fields: str) -> None:
        self.guard.request(connection, request(code, {**FIELDS, **fields}))

    def refused(self, connection: _Connection, code: int, **fields: str) -> str:
        with self.assertRaises(RequestRefused) as refusal:
            self.ask(connection, code, **fields)
        self.assertEqual(refusal.exception.code, ResponseCode.NO_PERMISSION)
        self.assertEqual(self.service.heard, [])
        return str(refusal.exception.remark)

    def test_let_in(self) -> None:
        self.ask(_Connection(BROKER), RequestCode.BROKER_HEARTBEAT)
        self.assertEqual(self.service.heard, [RequestCode.BROKER_HEARTBEAT])

    def test_turned_away(self) -> None:
        said = self.refused(_Connection(), RequestCode.BROKER_HEARTBEAT)
        self.assertIn("BROKER_HEARTBEAT is not for who shows no certificate", said)
        said = self.refused(_Connection(BROKER), RequestCode.BROKER_HEARTBEAT, brokerId="2")
        self.assertIn("broker/broker-a/1 of c", said)
        self.refused(_Connection(BROKER), RequestCode.CLEAN_BROKER_DATA)

    def test_a_trusted_address(self) -> None:
        """It stands for whoever is listed there; a certificate is stronger."""
        there = _Connection(host="::ffff:10.0.0.9")
        self.refused(there, RequestCode.BROKER_HEARTBEAT, brokerId="2")
        self.refused(_Connection(Identity("c", Part.CLIENT, "x"), host="10.0.0.9"), RequestCode.BROKER_HEARTBEAT)
        self.ask(there, RequestCode.BROKER_HEARTBEAT)
        self.ask(there, RequestCode.BROKER_HEARTBEAT, brokerName="broker-b")
        self.assertEqual(len(self.service.heard), 2)

    def test_several_parts(self) -> None:
        self.ask(_Connection(Identity("c", Part.NAMESERVER, "x"), BROKER), RequestCode.BROKER_HEARTBEAT)
        self.assertEqual(len(self.service.heard), 1)

    def test_operators_are_written_down(self) -> None:
        self.ask(_Connection(Identity("c", Part.OPERATOR, "ann")), RequestCode.CLEAN_BROKER_DATA)
        (line,) = (each for each in self.logged if each.get("event") == "operator.asked")
        self.assertEqual(
            (line["who"], line["peer"], line["request"]), ("operator/ann of c", "10.0.0.3:1", "CLEAN_BROKER_DATA")
        )
        self.ask(_Connection(BROKER), RequestCode.BROKER_HEARTBEAT)
        self.assertEqual(sum(each.get("event") == "operator.asked" for each in self.logged), 1)

    def test_what_has_no_row(self) -> None:
        """The server says itself that it does not know it."""
        self.ask(_Connection(), 4711)
        self.assertEqual(self.service.heard, [4711])

    def test_the_rest_passes(self) -> None:
        self.guard.connected(_Connection())
        self.guard.disconnected(_Connection(), "gone")
        self.guard.turn_ended()
        self.assertEqual(self.service.heard, ["connected", "gone", "ended"])

    def test_what_a_replica_passes_on(self) -> None:
        """It has judged it; whether it was served before is seen here."""
        users = _Users()
        own = Identity("c", Part.BROKER, "broker-a", 2)
        askers = Askers(lambda transport: transport, (own,), {})
        guard: Any = guarded(self.service, askers, BROKER_ROUTES, users)
        send, heard = request(RequestCode.SEND_MESSAGE_V2, {"b": "T"}), RequestCode.SEND_MESSAGE_V2
        guard.request(_Connection(BROKER), send)
        self.assertEqual((users.asked, self.service.heard), (["passed on"], [heard]))
        stranger = _Connection()
        stranger.id = 2
        guard.request(stranger, send)
        self.assertEqual((users.asked, self.service.heard), (["passed on", "judged"], [heard, heard]))
        users.refuses = True
        with self.assertRaises(RequestRefused):
            guard.request(_Connection(BROKER), send)
        self.assertEqual(self.service.heard, [heard, heard])

    def test_nothing_where_nothing_is_demanded(self) -> None:
        self.assertIs(guarded(self.service, ANYBODY, ROUTES), self.service)
