"""Every refusal of a broker shows in its metrics and its log: all requests with garbage, all ends of connections."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from rocketha.broker.routes import ROUTES
from rocketha.errors import DiskFailure, Ignored
from rocketha.observe.refusals import is_refusal
from rocketha.services.process.clients import PAGE_BYTES
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from tests.services.broker_case import BrokerCase, Client, heartbeat, send_fields
from tests.services.refusals_case import CODES, GARBAGE, kept_log, seen_at, series, told

SILENT = frozenset((RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE))
"""They may wait for messages."""


class RefusalCase(BrokerCase):
    """A broker, and what it logs of refusals."""

    def setUp(self) -> None:
        super().setUp()
        self.said: list[dict[str, Any]] = []
        self.service.refusals.log = kept_log(self.said)
        for factory in self.broker.core.factories:  # which a memory reactor does not do
            factory.doStart()


class RequestTests(RefusalCase):
    """Requests."""

    def test_every_request_with_garbage(self) -> None:
        """What the answers on the wire say is what the metric counts and the log tells, code by code."""
        expected: Counter[str] = Counter()
        unsupported = set()
        client = self.connect()
        for code in CODES:
            for fields, body in GARBAGE:
                if client.protocol.closed:
                    client = self.connect()
                client.say(client.command(code, fields, body))
                self.clock.advance(0)
                answers = [said for said in client.heard() if said.is_response]
                for answer in answers:
                    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                        unsupported.add(code)
                    if is_refusal(code, answer.code):
                        expected[series("broker", code, answer.code)] += 1
                self.assertTrue(answers or code in SILENT, code)
        answered = set(CODES) - unsupported | {RequestCode.NOTIFY_BROKER_ROLE_CHANGED}  # under controllers only
        self.assertEqual(answered, ROUTES.keys(), "who has a row is answered, and nobody else")
        self.assertGreater(len(expected), 100)
        self.assertEqual(seen_at(self.service.refusals), expected)
        for _ in range(200):
            self.clock.advance(1)
        self.assertEqual(told(self.said), expected)

    def test_who_wants_no_answer_is_seen_too(self) -> None:
        """Java commits offsets without asking for an answer: a refused one was seen by nobody."""
        client = self.connect()
        fields = {"consumerGroup": "none", "topic": "T", "queueId": "0", "commitOffset": "1"}
        client.say(client.command(RequestCode.UPDATE_CONSUMER_OFFSET, fields, oneway=True))
        self.assertEqual(client.heard(), [])
        names = ("UPDATE_CONSUMER_OFFSET", "SUBSCRIPTION_GROUP_NOT_EXIST")
        self.assertEqual(self.service.refusals.requests, {names: 1})

    def test_sends_that_the_disk_refuses_at_the_end_of_a_turn(self) -> None:
        """They were staged; both kinds are counted as what was asked."""
        client = self.connect()
        self.assertEqual(client.ask(310, send_fields(), b"x").code, 0)

        def fail(*_: Any) -> Any:
            raise DiskFailure("/store/commitlog", "write", 28, "no space")

        self.patch(self.broker.store, "append", fail)
        client.say(
            client.command(310, send_fields(), b"x"),
            client.command(10, _plain_fields(), b"x"),
            client.command(310, send_fields(), b"x", oneway=True),
        )
        self.assertEqual([said.code for said in client.heard()], [14, 14])
        self.assertEqual(
            self.service.refusals.requests,
            {("SEND_MESSAGE_V2", "SERVICE_NOT_AVAILABLE"): 2, ("SEND_MESSAGE", "SERVICE_NOT_AVAILABLE"): 1},
        )

    def test_what_is_answered_well_is_not_counted(self) -> None:
        """Sends, pulls with and without messages, heartbeats, offsets that are not there."""
        client = self.connect()
        client.ask(310, send_fields(), b"x")
        client.ask(34, body=heartbeat("c", "G", "T"))
        client.ask(14, {"consumerGroup": "G", "topic": "U", "queueId": "0", "setZeroIfNotFound": "false"})
        self.assertEqual((seen_at(self.service.refusals), self.said), ({}, []))

    def test_a_refused_heartbeat_of_a_go_client(self) -> None:
        """The line has all that one looks for: it was in neither log nor metrics, and no consumer ever joined."""
        client = self.connect()
        body = b'{"clientID":"10.1.2.3@77","consumerDataSet":{"groupName":"G","consumeType":7},"producerDataSet":[]}'
        command = client.command(RequestCode.HEART_BEAT, {}, body)
        command.language, command.version = "GO", 317
        client.say(command)
        (answer,) = client.heard()
        self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)
        (line,) = self.said
        found = [line[name] for name in ("client_id", "peer", "language", "version", "what", "reason")]
        peer = client.protocol.peer
        self.assertEqual(found, ["10.1.2.3@77", peer, "GO", 317, "HEART_BEAT", "SYSTEM_ERROR"])
        self.assertEqual(line["remark"], answer.remark)

    def test_an_ignored_row(self) -> None:
        """A handler that leaves something out says so: a group that may not be made."""
        self.broker.state.rules.auto_create_group = False
        client = self.connect()
        self.assertEqual(client.ask(34, body=heartbeat("c", "G", "T")).code, 0)
        self.assertEqual(self.service.refusals.rows, {("HEART_BEAT", Ignored.NOT_ALLOWED.value): 1})
        (line,) = self.said
        self.assertEqual((line["event"], line["reason"], line["client_id"]), ("row.ignored", "not_allowed", "c"))
        self.assertIn("G", line["remark"])


class ConnectionTests(RefusalCase):
    """Connections that the broker ends."""

    def ended(self) -> dict[str, int]:
        self.assertEqual(
            {each["reason"] for each in self.said if each["event"] == "connection.ended"},
            set(self.service.refusals.ended),
        )
        return dict(self.service.refusals.ended)

    def test_bad_frame_on_both_ports(self) -> None:
        """They share one count."""
        for fast in (False, True):
            self.connect(fast=fast).protocol.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(self.ended(), {"bad_frame": 2})

    def test_heartbeats_that_stopped(self) -> None:
        """A client that asks, and sends no heartbeat for 120 s."""
        client = self.connect()
        client.ask(34, body=heartbeat("c", "G", "T"))
        for _ in range(140):
            self.clock.advance(1)
            if not client.protocol.closed:
                client.say(client.command(RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": "0"}))
        self.assertTrue(client.protocol.closed)
        self.assertEqual(self.ended(), {"expired": 1})

    def test_silence(self) -> None:
        """No request at all."""
        self.connect()
        for _ in range(12):
            self.clock.advance(1)
        self.assertEqual(self.ended(), {"no_request": 1})

    def test_the_port_for_replicas(self) -> None:
        """What comes by it counts with the rest, and is no client's."""
        self.connect().ask(34, body=heartbeat("c", "G", "T"))
        protocol = self.broker.replication.links.factory.buildProtocol(None)
        transport = StringTransport(peerAddress=IPv4Address("TCP", "10.0.0.7", 5))
        transport.abortConnection = transport.loseConnection  # type: ignore[method-assign]
        protocol.makeConnection(transport)
        protocol.dataReceived(b"\xff" * 64)
        self.assertTrue(transport.disconnecting)
        self.assertEqual(self.ended(), {"bad_frame": 1})
        self.assertEqual([(line["peer"], line["client_id"]) for line in self.said], [("10.0.0.7:5", "unknown")])
        protocol.connectionLost(Failure(ConnectionDone()))

    def test_a_service_that_stops_refuses_nobody(self) -> None:
        """Its connections end, and that is no refusal."""
        self.connect().ask(34, body=heartbeat("c", "G", "T"))
        self.successResultOf(self.service.stopService())
        self.assertEqual(self.ended(), {})


class ClientsTests(RefusalCase):
    """CLIENTS: who is connected."""

    def pages(self, client: Client) -> list[dict[str, Any]]:
        """All of them."""
        found, fields = [], dict[str, str]()
        while True:
            answer = client.ask(PrivateCode.CLIENTS, fields)
            self.assertEqual(answer.code, 0)
            found.append(json_dialect.loads(answer.body))
            if "next" not in answer.fields:
                return found
            fields = {"after": answer.fields["next"]}

    def test_what_is_told(self) -> None:
        """Groups, subscriptions, and what was refused; of one whose heartbeats are refused its client id too."""
        good, bad = self.connect(), self.connect()
        good.ask(34, body=heartbeat("good@1", "G", "T", tags="A || B"))
        bad.ask(34, body=b'{"clientID":"bad@1","consumerDataSet":7}')
        bad.ask(38, {"consumerGroup": "H"})
        self.clock.advance(3)
        (page,) = self.pages(self.connect())
        first, second, _ = page["connections"]
        self.assertEqual(first["clientIds"], ["good@1"])
        self.assertEqual(
            first["consumerGroups"],
            [
                {
                    "group": "G",
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "subscriptions": {"T": "A || B"},
                }
            ],
        )
        self.assertEqual((first["language"], first["version"], first["refusedCount"]), ("JAVA", 513, 0))
        self.assertEqual((second["clientIds"], second["refusedCount"]), (["bad@1"], 2))
        last = second["lastRefusal"]
        self.assertEqual((last["what"], last["reason"]), ("GET_CONSUMER_LIST_BY_GROUP", "SYSTEM_ERROR"))
        self.assertEqual(last["secondsAgo"], 3.0)
        self.assertEqual([each["what"] for each in page["refusals"]], ["GET_CONSUMER_LIST_BY_GROUP", "HEART_BEAT"])
        self.assertEqual(page["role"], "broker")

    def test_pages(self) -> None:
        """More than fits one: each connection once, every page within its bounds."""
        clients = [self.connect() for _ in range(300)]
        topics = [f"{number:03}" + "T" * 100 for number in range(60)]
        for number, client in enumerate(clients):
            client.say(client.command(34, {}, heartbeat(f"c{number}", f"G{number}", *topics)))
        pages = self.pages(self.connect())
        self.assertGreater(len(pages), 1)
        ids = [row["id"] for page in pages for row in page["connections"]]
        self.assertEqual(len(ids), 301)
        self.assertEqual(ids, sorted(set(ids)))
        self.assertLess(max(len(json_dialect.dumps(page)) for page in pages), 2 * PAGE_BYTES)


def _plain_fields() -> dict[str, str]:
    """The header of SEND_MESSAGE."""
    return {
        "producerGroup": "PG",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1795256860000",
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
