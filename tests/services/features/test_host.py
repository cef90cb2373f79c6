"""What features bring, within a broker: requests, timers, ports, topics, files, roles."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet import defer
from twisted.internet.protocol import Factory, Protocol

from rocketha.interfaces import (
    BrokerRole,
    FeatureParts,
    File,
    Listener,
    Reply,
    Request,
    Route,
    ServedBy,
    Timer,
    Topic,
)
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.features.cases import Feature, PluginCase

COUNT, LATER, STORE = 20_001, 20_002, 20_003


class PartsTests(PluginCase):
    """One feature with all of them."""

    def plugins(self) -> list[Feature]:
        self.asked: list[Request] = []
        self.roles: list[BrokerRole] = []
        self.gone: list[str] = []
        self.runs: list[str] = []
        self.later: defer.Deferred[Reply] = defer.Deferred()
        self.remembered = getattr(self, "remembered", b"")
        factory = Factory.forProtocol(Protocol)
        self.stopped = False

        def respond(request: Request) -> Reply:
            self.asked.append(request)
            return Reply(fields={"n": str(len(self.asked))}, body=b"body")

        def load(data: bytes) -> None:
            self.remembered = data

        def stop() -> None:
            self.stopped = True

        def build(context: Any) -> FeatureParts:
            return FeatureParts(
                routes=[
                    Route(COUNT, "ACME_COUNT", respond),
                    Route(LATER, "ACME_LATER", lambda request: self.later),
                    Route(STORE, "ACME_STORE", lambda request: Reply(), ServedBy.MASTER),
                ],
                timers=[
                    Timer("always", 2.0, lambda: self.runs.append("always")),
                    Timer("master", 3.0, lambda: self.runs.append("master"), ServedBy.MASTER),
                ],
                listeners=[Listener("own", "tcp:7000:interface=127.0.0.1", factory)],
                topics=[Topic("ACME", 3)],
                file=File(lambda: json.dumps({"n": len(self.asked)}).encode(), load),
                on_role=self.roles.append,
                on_disconnect=self.gone.append,
                on_stop=stop,
            )

        return [Feature(build)]

    def test_request(self) -> None:
        """The handler sees what the client sent; the answer is its own."""
        client = self.connect()
        answer = client.ask(COUNT, {"a": "b"}, b"asked")
        self.assertEqual((answer.code, answer.fields["n"], answer.body), (0, "1", b"body"))
        (request,) = self.asked
        self.assertEqual((request.code, request.fields["a"], request.body), (COUNT, "b", b"asked"))
        self.assertEqual((request.peer, request.language, request.version), (client.protocol.peer, "JAVA", 513))

    def test_request_answered_later(self) -> None:
        client = self.connect()
        client.say(client.command(LATER))
        self.assertEqual(client.heard(), [])
        self.later.callback(Reply(7, "seven"))
        (answer,) = client.heard()
        self.assertEqual((answer.code, answer.remark), (7, "seven"))

    def test_requests_are_counted_by_name(self) -> None:
        client = self.connect()
        client.ask(COUNT)
        refusals = self.service.refusals
        self.assertEqual((refusals.asked[COUNT], refusals.request_name(COUNT)), (1, "ACME_COUNT"))

    def test_a_master_serves_what_masters_serve(self) -> None:
        """And an unknown code of the same range is unknown."""
        client = self.connect()
        self.assertEqual(client.ask(STORE).code, 0)
        self.assertEqual(client.ask(STORE + 1).code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    def test_timers(self) -> None:
        self.advance(6.05)
        self.assertEqual(self.runs.count("always"), 3)
        self.assertEqual(self.runs.count("master"), 2)

    def test_the_port_is_open_while_the_broker_serves(self) -> None:
        ports = [server[0] for server in self.clock.tcpServers]
        self.assertIn(7000, ports)
        self.stop()
        self.assertTrue(self.stopped)

    def test_topics_are_made(self) -> None:
        """By a master; and they are saved."""
        self.advance(1.1)
        self.assertEqual(self.broker.state.topics.table["ACME"].read_queue_nums, 3)
        self.assertIn(b"ACME", self.disk.open("/store/config/topics.json").read(0, 1 << 20))

    def test_the_file_outlives_the_broker(self) -> None:
        self.connect().ask(COUNT)
        self.successResultOf(self.context().save())
        self.stop()
        self.service = self.start()
        self.assertEqual(json.loads(self.remembered), {"n": 1})

    def test_roles(self) -> None:
        """FENCED before anything is served, then what it becomes."""
        self.assertEqual(self.roles, [BrokerRole.FENCED, BrokerRole.MASTER])
        self.assertIs(self.context().role(), BrokerRole.MASTER)
        self.stop()
        self.assertEqual(self.roles[-1], BrokerRole.FENCED)

    def test_a_client_that_is_gone(self) -> None:
        client = self.connect()
        client.close()
        self.assertEqual(self.gone, [client.protocol.peer])

    def test_context(self) -> None:
        context = self.context()
        self.assertEqual((context.cluster, context.broker), ("DefaultCluster", "broker-a"))
        counter = context.counter("things", "Things.")
        counter.value += 2
        context.gauge("level", "Level.", lambda: 0.5)
        text = self.service.metrics.exposition()
        self.assertIn("rocketha_plugin_acme_things_total 2", text)
        self.assertIn("rocketha_plugin_acme_level 0.5", text)

    def test_shown_in_no_java_table(self) -> None:
        """A plug-in's topic is a topic like others: it is in the table that nameservers and slaves get."""
        self.advance(1.1)
        self.assertIn(b"ACME", self.connect().ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)


class SlaveTests(PluginCase):
    """A broker that is no master."""

    config = "brokerRole=SLAVE\nbrokerId=1\n"

    def plugins(self) -> list[Feature]:
        self.runs: list[str] = []

        def build(context: Any) -> FeatureParts:
            return FeatureParts(
                routes=[
                    Route(COUNT, "ACME_COUNT", lambda request: Reply()),
                    Route(STORE, "ACME_STORE", lambda request: Reply(), ServedBy.MASTER),
                ],
                timers=[Timer("master", 1.0, lambda: self.runs.append("master"), ServedBy.MASTER)],
                topics=[Topic("ACME")],
            )

        return [Feature(build)]

    def test_only_what_any_broker_serves(self) -> None:
        """No timer of a master's runs, no topic is made, and its requests are refused."""
        client = self.connect()
        self.assertEqual(client.ask(COUNT).code, 0)
        client.say(client.command(STORE))
        self.advance(3.0)
        (answer,) = client.heard()
        self.assertIn(answer.code, (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE))
        self.assertEqual(self.runs, [])
        self.assertNotIn("ACME", self.broker.state.topics.table)
