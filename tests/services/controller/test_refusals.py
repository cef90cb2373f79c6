"""Every refusal of a controller shows in its metrics and its log."""

from __future__ import annotations

from collections import Counter
from typing import Any

from twisted.internet import defer, reactor
from twisted.internet.protocol import Factory, Protocol

from rocketha.controller.routes import ROUTES
from rocketha.observe.refusals import is_refusal
from rocketha.protocols.endpoints import Dialer, client_endpoint
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, ResponseCode
from tests.services.controller_case import CLUSTER, NAME, ControllerCase, until
from tests.services.refusals_case import CODES, GARBAGE, kept_log, seen_at, series, told


class RefusalTests(ControllerCase):
    """One controller, and a client that is no broker."""

    def setUp(self) -> Any:
        self.client = RemotingClient(Dialer(reactor))
        self.addCleanup(self.client.close)
        return super().setUp()

    @defer.inlineCallbacks
    def test_every_request_with_garbage(self) -> Any:
        """What the answers on the wire say is what the metric counts and the log tells, code by code."""
        leader, said = self.leader(), list[dict[str, Any]]()
        server, now_s = leader.refusals, [0.0]
        server.log = kept_log(said)
        self.patch(server, "_seconds", lambda: now_s[0])
        expected: Counter[str] = Counter()
        asked = [(code, fields, body) for code in CODES for fields, body in GARBAGE]
        answers = yield defer.gatherResults(
            [self.client.request(leader.config.self_address, code, fields, body) for code, fields, body in asked]
        )
        unsupported = set()
        for (code, _, _), answer in zip(asked, answers, strict=True):
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                unsupported.add(code)
            if is_refusal(code, answer.code):
                expected[series("controller", code, answer.code)] += 1
        self.assertEqual(set(CODES) - unsupported, ROUTES.keys(), "who has a row is answered, and nobody else")
        self.assertGreater(len(expected), 100)
        self.assertEqual(seen_at(server), expected)
        for _ in range(200):
            now_s[0] += 1
            server.settle()
        self.assertEqual(told(said), expected)

    @defer.inlineCallbacks
    def test_raft_connections(self) -> Any:
        """What comes by the same port for Raft counts with the rest."""
        leader = self.leader()
        endpoint = client_endpoint(reactor, leader.config.self_address, 3.0)
        protocol = yield endpoint.connect(Factory.forProtocol(Protocol))
        protocol.transport.write(b"RHX and no more")
        yield until("it is counted", lambda: leader.refusals.ended == {"bad_frame": 1})
        protocol.transport.abortConnection()

    @defer.inlineCallbacks
    def test_who_is_connected(self) -> Any:
        """Brokers by the connections that their heartbeats come by, and who only asks."""
        yield self.start_brokers(1)
        answer = yield self.client.request(self.leader().config.self_address, PrivateCode.CLIENTS)
        page = json_dialect.loads(answer.body)
        brokers = [name for row in page["connections"] for name in row["brokers"]]
        self.assertEqual((brokers, page["role"]), ([f"{CLUSTER}/{NAME}:1"], "controller"))
        self.assertIn([], [row["brokers"] for row in page["connections"]])
