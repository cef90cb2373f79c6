"""Requests that a client answers (Java: AdminBrokerProcessor.callConsumer, Broker2Client)."""

from __future__ import annotations

import unittest

from rocketha.broker.effects import CallClients, Reply
from rocketha.broker.proxied_requests import CollectStatus, PassOn
from rocketha.wire import json_dialect
from tests.broker.support import NOW_MS, RECORD_SIZE, Broker, Client, heartbeat, plain, subscription, topic_fields

RUNNING_INFO, CONSUME_DIRECTLY, STATUS = 307, 309, 223
MEMBER, OLD_MEMBER, ADMIN = Client(1), Client(2, version=27), Client(9, "192.0.2.9:9")


class ProxiedRequestTests(unittest.TestCase):
    """Which call a request becomes."""

    def setUp(self) -> None:
        self.broker = Broker()
        self.broker.ask(17, topic_fields("T"))
        self.broker.ask(34, {}, heartbeat("c1", {"G": [subscription("T")]}), client=MEMBER)

    def call(self, code: int, fields: dict[str, str]) -> CallClients:
        self.assertIsNone(self.broker.ask(code, fields, client=ADMIN))
        (effect,) = self.broker.effects
        assert isinstance(effect, CallClients)
        return effect

    def test_running_info(self) -> None:
        """The request goes on as it came; the answer belongs to the administrator's opaque."""
        fields = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true"}
        call = self.call(RUNNING_INFO, fields)
        self.assertEqual((call.targets, call.code, call.fields), (((1, "c1"),), RUNNING_INFO, fields))
        asker, asked = call.answer_to
        self.assertEqual((asker, asked.code, asked.opaque, call.timeout_ms), (ADMIN.id, RUNNING_INFO, 7, 10_000))

    def test_nobody_there(self) -> None:
        """Unknown group, unknown client, and clients too old to know the request."""
        self.broker.ask(34, {}, heartbeat("old", {"G": [subscription("T")]}), client=OLD_MEMBER)
        for group, client_id in (("none", "c1"), ("G", "none"), ("G", "old")):
            answer = self.broker.reply(RUNNING_INFO, {"consumerGroup": group, "clientId": client_id})
            self.assertEqual(answer.code, 1)
        self.assertEqual(self.broker.reply(STATUS, {"group": "G", "topic": "T"}).code, 1)
        self.assertEqual(self.broker.reply(STATUS, {"group": "none", "topic": "T"}).code, 1)

    def test_consume_directly(self) -> None:
        """The stored record is the body; the header says what the client needs to know."""
        self.broker.store.put("T", 0, NOW_MS)
        self.broker.store.put("T", 0, NOW_MS)
        message_id = f"7F00000100002A9F{RECORD_SIZE:016X}"
        call = self.call(CONSUME_DIRECTLY, {"consumerGroup": "G", "clientId": "c1", "msgId": message_id, "topic": "T"})
        self.assertEqual(call.body, b"record at %d" % RECORD_SIZE)
        self.assertEqual(call.fields["brokerName"], "broker-a")
        self.assertEqual((call.fields["topicSysFlag"], call.fields["groupSysFlag"]), ("0", "0"))

    def test_message_ids(self) -> None:
        """IPv6 ids are longer; what is no id, or points nowhere, is refused."""
        self.broker.store.put("T", 0, NOW_MS)
        fields = {"consumerGroup": "G", "clientId": "c1"}
        self.call(CONSUME_DIRECTLY, fields | {"msgId": "0" * 56})
        for message_id, code in (("", 29), ("x" * 32, 29), ("0" * 31, 29), ("0" * 31 + "5", 1), ("F" * 32, 1)):
            with self.subTest(message_id=message_id):
                self.assertEqual(self.broker.reply(CONSUME_DIRECTLY, fields | {"msgId": message_id}).code, code)

    def test_status_of_all_or_one(self) -> None:
        """clientAddr, despite its name, is a client id."""
        self.broker.ask(34, {}, heartbeat("c2", {"G": [subscription("T")]}), client=Client(2))
        call = self.call(STATUS, {"group": "G", "topic": "T"})
        self.assertEqual((call.targets, call.code), (((1, "c1"), (2, "c2")), 221))
        self.assertEqual(self.call(STATUS, {"group": "G", "topic": "T", "clientAddr": "c2"}).targets, ((2, "c2"),))


class CombineTests(unittest.TestCase):
    """What the administrator gets."""

    def test_a_reply_passes_as_it_is(self) -> None:
        """Code, remark, header fields and body."""
        answer = PassOn("G", "c")([Reply("c", 1, "no", {"a": "b"}, b"body")])
        self.assertEqual(answer, (1, "no", {"a": "b"}, b"body"))

    def test_no_reply(self) -> None:
        """207 when the client did not answer in time, 1 when its connection was lost."""
        self.assertEqual(PassOn("G", "c")([Reply("c", None, timed_out=True)]).code, 207)
        self.assertEqual(PassOn("G", "c")([Reply("c", None, "reset")]).code, 1)

    def test_status_of_those_who_answered(self) -> None:
        """fastjson's maps keyed by queues are read and written; the rest is left out."""
        body = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
        replies = [
            Reply("c1", 0, body=body),
            Reply("c2", 1),
            Reply("c3", None, timed_out=True),
            Reply("c4", 0, body=b"{"),
            Reply("c5", 0, body=b"3"),
        ]
        value = json_dialect.loads(CollectStatus()(replies).body)
        self.assertEqual(plain(value["consumerTable"]), {"c1": [[{"brokerName": "b", "queueId": 0, "topic": "T"}, 5]]})
