"""Every refusal of a nameserver shows in its metrics and its log."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rocketha.errors import Ignored
from rocketha.namesrv.routes import ROUTES
from rocketha.observe.refusals import NAMELESS, is_refusal, request_name
from rocketha.protocols.admission import SETTLED_IDLE_S
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import request
from tests.namesrv.helpers import register_command
from tests.services.namesrv.test_service import NameServerCase, Peer
from tests.services.refusals_case import CODES, GARBAGE, kept_log, seen_at, series, told


class RefusalTests(NameServerCase):
    """On a fake reactor."""

    def setUp(self) -> None:
        super().setUp()
        self.namesrv = self.start()
        self.said: list[dict[str, Any]] = []
        self.namesrv.refusals.log = kept_log(self.said)
        assert self.namesrv.factory is not None
        self.namesrv.factory.doStart()  # which a memory reactor does not do

    def test_every_request_with_garbage(self) -> None:
        """What the answers on the wire say is what the metric counts and the log tells, code by code."""
        expected: Counter[str] = Counter()
        unsupported = set()
        peer = Peer(self)
        for code in CODES:
            for fields, body in GARBAGE:
                answer = peer.ask(request(code, fields, body))
                if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    unsupported.add(code)
                if is_refusal(code, answer.code):
                    expected[series("namesrv", code, answer.code)] += 1
        self.assertEqual(set(CODES) - unsupported, ROUTES.keys(), "who has a row is answered, and nobody else")
        self.assertGreater(len(expected), 100)
        self.assertEqual(seen_at(self.namesrv.refusals), expected)
        self.assertEqual(
            self.namesrv.refusals.asked, {NAMELESS if request_name(code) == "unknown" else code: 3 for code in CODES}
        )
        for _ in range(200):
            self.reactor.advance(1)
        self.assertEqual(told(self.said), expected)

    def test_a_refused_registration_names_the_broker(self) -> None:
        """By its address, which its header has."""
        command = register_command()
        command.body = b"{["
        self.assertNotEqual(Peer(self).ask(command).code, 0)
        (line,) = self.said
        self.assertEqual((line["what"], line["client_id"]), ("REGISTER_BROKER", command.fields["brokerAddr"]))

    def test_an_ignored_row(self) -> None:
        """An effect of a handler becomes a count and a line."""
        body = b'{"queueDatas":[]}'
        self.assertEqual(Peer(self).ask(request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"}, body)).code, 0)
        self.assertEqual(self.namesrv.refusals.rows, {("REGISTER_TOPIC_IN_NAMESRV", Ignored.BAD_VALUE.value): 1})
        self.assertEqual([each["event"] for each in self.said], ["row.ignored"])

    def test_ends_of_connections(self) -> None:
        """A bad frame, silence, a broker whose registration ran out."""
        broken, silent, broker = Peer(self), Peer(self), Peer(self)
        self.assertFalse(silent.protocol.closed)
        broken.protocol.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(broker.ask(register_command()).code, 0)
        for _ in range(130):
            self.reactor.advance(1)
            if not broker.protocol.closed:
                broker.ask(request(RequestCode.GET_BROKER_CLUSTER_INFO))
        self.assertEqual(self.namesrv.refusals.ended, {"bad_frame": 1, "no_request": 1, "expired": 1})
        self.assertEqual({each["event"] for each in self.said}, {"connection.ended"})

    def test_all_places_taken_by_who_spoke(self) -> None:
        """A broker keeps its place, clients that ask now and then make room."""
        assert self.namesrv.factory is not None
        self.namesrv.factory.admission._all.limit = 2
        broker, client = Peer(self), Peer(self)
        self.assertEqual(broker.ask(register_command()).code, 0)
        self.assertEqual(client.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})).code, 17)
        for _ in range(SETTLED_IDLE_S):
            self.reactor.advance(1)
        newcomer, late = Peer(self), Peer(self)
        self.assertEqual(late.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})).code, 17)
        operator = Peer(self)
        operator.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}))  # as mqadmin does first
        self.assertEqual(operator.ask(request(RequestCode.GET_BROKER_CLUSTER_INFO)).code, 0)
        closed = [each.protocol.closed for each in (broker, client, newcomer, late, operator)]
        self.assertEqual(closed, [False, True, True, True, False])
        self.assertEqual(self.namesrv.refusals.ended, {"lost_place": 3})

    def test_who_is_connected(self) -> None:
        """Brokers by the connections that they registered on."""
        broker, other = Peer(self), Peer(self)
        broker.ask(register_command())
        page = json_dialect.loads(other.ask(request(PrivateCode.CLIENTS)).body)
        first, second = page["connections"]
        self.assertEqual(len(first["brokers"]), 1)
        self.assertIn("10.0.0.1:", first["brokers"][0])
        self.assertNotIn("brokers", second)
        self.assertEqual(page["role"], "namesrv")
