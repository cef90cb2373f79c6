"""The trace topic of traceTopicEnable: mqadmin's sendMessage with a trace, which is over at once, finds its route."""

from __future__ import annotations

from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode
from tests.services.broker_case import BrokerCase, send_fields


class TraceTopicTests(BrokerCase):
    config = "traceTopicEnable=true\nmsgTraceTopicName=Traces\n"

    def test_from_the_start(self) -> None:
        """One queue, as Java's; clients send to it, and nobody deletes it."""
        client = self.connect()
        found = client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Traces"})
        row = json_dialect.loads(found.body)
        self.assertEqual((row["readQueueNums"], row["writeQueueNums"], row["perm"]), (1, 1, 6))
        self.assertEqual(client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Traces"), b"trace").code, 0)
        self.assertNotEqual(client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Traces"}).code, 0)


class WithoutItTests(BrokerCase):
    """The default."""

    def test_there_is_none(self) -> None:
        self.assertNotIn("RMQ_SYS_TRACE_TOPIC", self.broker.state.topics)
