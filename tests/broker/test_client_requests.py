"""Heartbeats, offsets and locks as requests (Java: ClientManageProcessor, ConsumerManageProcessor)."""

from __future__ import annotations

import json
import unittest
from typing import Any
from unittest import mock

from rocketha.broker import request
from rocketha.broker.effects import NotifyClient, RegisterTopics, SaveConfig
from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.heartbeat import SUBSCRIPTIONS_MAX
from rocketha.broker.state import BrokerRules, maker_of
from rocketha.errors import Ignored, RemoteProtocolError, RequestRefused
from rocketha.rates import Rates
from rocketha.wire import json_dialect
from rocketha.wire.codes import ResponseCode
from tests.broker.support import DATA, RECORD_SIZE, Broker, Client, heartbeat, subscription, topic_fields

HEART_BEAT, UNREGISTER, CHECK, CONSUMERS, QUERY, UPDATE, LOCK, UNLOCK = 34, 35, 46, 38, 14, 15, 41, 42
A, B = Client(1, "192.0.2.1:1"), Client(2, "192.0.2.2:2")


def notified(effects: list[Any]) -> list[tuple[int, str]]:
    return [
        (effect.connection_id, effect.fields["consumerGroup"]) for effect in effects if isinstance(effect, NotifyClient)
    ]


class RecordedClientTests(unittest.TestCase):
    """What real Java clients sent is answered as the Java broker answered."""

    def test_recorded_requests(self) -> None:
        """Heartbeats, unregistrations, offsets and locks of `data/java_requests.json`: same code and header fields."""
        broker, compared = Broker(), 0
        for topic in ("GoldenPlain", "GoldenTagged", "GoldenBatch", "GoldenOrdered"):
            broker.ask(17, topic_fields(topic))
            for queue_id in range(3 if topic == "GoldenOrdered" else 4):  # its three keys fill three queues
                broker.store.put(topic, queue_id, broker.now_ms)
        broker.ask(HEART_BEAT, {}, heartbeat("192.0.2.2@golden-27230", {"golden-orderly": []}))
        for exchange in json.loads((DATA / "java_requests.json").read_text()):
            if exchange["code"] not in (HEART_BEAT, UNREGISTER, CONSUMERS, QUERY, UPDATE, LOCK, UNLOCK):
                continue
            answer = broker.reply(exchange["code"], exchange["fields"], exchange["body"].encode())
            java = exchange["answer"]
            with self.subTest(code=exchange["code"], fields=exchange["fields"]):
                self.assertEqual(answer.code, 0 if java is None else java["code"], answer.remark)
                if java is not None:
                    self.assertEqual(answer.fields, java["fields"])
                    if exchange["code"] == LOCK:
                        self.assertEqual(answer.body, java["body"].encode())
                compared += 1
        self.assertGreater(compared, 25)


class MadeByUseTests(unittest.TestCase):
    """Topics and groups that nobody made: one host makes so many at once, and then one now and then."""

    def setUp(self) -> None:
        self.broker = Broker()
        self.state = self.broker.state
        self.state.made = Rates(3, 1000)

    def beat(self, client: Client, *groups: str) -> int:
        answer = self.broker.ask(HEART_BEAT, {}, heartbeat("c", {group: [] for group in groups}), client)
        assert answer is not None
        return answer.code

    def test_heartbeats(self) -> None:
        """The groups that are there are served, the one too many is counted; its next heartbeat makes it."""
        client = Client(1, "192.0.2.1:1")
        self.assertEqual(self.beat(client, "g1", "g2", "g3", "g4"), 0)
        self.assertEqual(self.beat(client, "g1", "g2", "g3"), 0)
        self.assertEqual([each[1] for each in client.left_out], [Ignored.TOO_MANY])
        self.assertIn("g4", client.left_out[0][2])
        self.assertNotIn("g4", self.state.groups)
        self.assertNotIn("%RETRY%g4", self.state.topics)
        self.assertEqual(set(self.state.clients.consumers), {"g1", "g2", "g3"})
        self.beat(Client(2, "192.0.2.2:1"), "g5")
        self.assertIn("g5", self.state.groups)  # another host
        self.broker.now_ms += 1000
        self.beat(client, "g4")
        self.assertIn("g4", self.state.groups)

    def test_sends_and_the_other_requests(self) -> None:
        """Topics count with groups; what is there, or cannot be made, does not; the broker itself is not counted."""
        maker = maker_of("192.0.2.1", 0)
        for topic in ("t1", "t1", "%RETRY%t2", "none"):
            self.state.topic_for_send(topic, "nope" if topic == "none" else "TBW102", 4, 0, maker)
        self.state.find_group("g1", maker)
        for make in (
            lambda: self.state.topic_for_send("t3", "TBW102", 4, 0, maker),
            lambda: self.state.topic_for_send("%RETRY%t4", "TBW102", 4, 0, maker),
            lambda: self.state.find_group("g2", maker),
        ):
            with self.assertRaises(RequestRefused) as refused:
                make()
            self.assertEqual(refused.exception.code, ResponseCode.SYSTEM_BUSY)
        self.assertIsNotNone(self.state.topic_for_send("t1", "TBW102", 4, 0, maker))
        self.assertIsNotNone(self.state.find_group("g2", maker_of("", 0)))


class HeartbeatTests(unittest.TestCase):
    """HEART_BEAT and UNREGISTER_CLIENT."""

    def setUp(self) -> None:
        self.broker = Broker()

    def beat(self, client: Client, body: dict[str, Any]) -> dict[str, str]:
        answer = self.broker.reply(HEART_BEAT, {}, body, client=client)
        self.assertEqual(answer.code, 0, answer.remark)
        return dict(answer.fields or {})

    def test_a_first_consumer_makes_group_and_retry_topic(self) -> None:
        """Both are saved, the topic is registered, and the sender is told of itself."""
        self.beat(A, heartbeat("a", {"G": [subscription("T")]}))
        self.assertEqual(
            self.broker.effects,
            [
                SaveConfig("groups"),
                SaveConfig("topics"),
                RegisterTopics(("%RETRY%G",)),
                NotifyClient(A.id, 40, {"consumerGroup": "G"}),
            ],
        )
        self.beat(A, heartbeat("a", {"G": [subscription("T")]}))
        self.assertEqual(self.broker.effects, [])

    def test_the_retry_topic_has_the_group_s_queues(self) -> None:
        """retryQueueNums of the group's configuration."""
        self.broker.state.groups.update(SubscriptionGroupConfig("G", retry_queue_nums=3), self.broker.now_ms)
        self.beat(A, heartbeat("a", {"G": []}))
        self.assertEqual(self.broker.state.topics.table["%RETRY%G"].write_queue_nums, 3)

    def test_a_group_that_may_not_be_made_is_passed_over(self) -> None:
        """autoCreateSubscriptionGroup=false, and names that are none: no error, no member (as in Java)."""
        client = Client()
        self.broker.state.rules.auto_create_group = False
        self.beat(client, heartbeat("a", {"G": [subscription("T")]}, ("P",)))
        self.broker.state.rules.auto_create_group = True
        self.beat(client, heartbeat("a", {"../G": [subscription("T")]}))
        self.assertEqual([each[:2] for each in client.left_out], [(HEART_BEAT, Ignored.NOT_ALLOWED)] * 2)
        self.assertEqual(self.broker.state.clients.consumers, {})
        self.assertIn("P", self.broker.state.clients.producers)

    def test_who_is_told(self) -> None:
        """Every member, the sender too; nobody when group or broker says so."""
        self.beat(A, heartbeat("a", {"G": [subscription("T")]}))
        self.beat(B, heartbeat("b", {"G": [subscription("T")]}))
        self.assertEqual(notified(self.broker.effects), [(1, "G"), (2, "G")])
        quiet = SubscriptionGroupConfig("Q", notify_consumer_ids_changed_enable=False)
        self.broker.state.groups.update(quiet, self.broker.now_ms)
        self.beat(A, heartbeat("a", {"Q": [subscription("T")]}))
        self.assertEqual(notified(self.broker.effects), [])
        self.broker.state.rules.notify_consumer_ids_changed = False
        self.broker.reply(UNREGISTER, {"clientID": "b", "consumerGroup": "G"}, client=B)
        self.assertEqual(notified(self.broker.effects), [])

    def test_leaving(self) -> None:
        """UNREGISTER_CLIENT: the others are told; a producer group of its own."""
        self.beat(A, heartbeat("a", {"G": [subscription("T")]}, ("P",)))
        self.beat(B, heartbeat("b", {"G": [subscription("T")]}))
        self.broker.reply(UNREGISTER, {"clientID": "a", "consumerGroup": "G", "producerGroup": "P"})
        self.assertEqual(notified(self.broker.effects), [(2, "G")])
        self.assertEqual(self.broker.state.clients.producers, {})
        self.assertEqual(self.broker.reply(UNREGISTER, {"clientID": "x", "consumerGroup": "none"}).code, 0)
        self.assertNotIn("none", self.broker.state.groups)

    def test_pull_consumers_can_be_rejected(self) -> None:
        """rejectPullConsumerEnable."""
        self.broker.state.rules.reject_pull_consumer = True
        body = heartbeat("a", {"G": []})
        body["consumerDataSet"][0]["consumeType"] = "CONSUME_ACTIVELY"
        client = Client()
        self.beat(client, body)
        self.assertEqual(self.broker.state.clients.consumers, {})
        self.assertEqual([each[:2] for each in client.left_out], [(HEART_BEAT, Ignored.NOT_ALLOWED)])

    def test_a_slave_takes_members_and_changes_no_table(self) -> None:
        """facts 5: a slave must accept 34; its tables come from the master."""
        self.broker.state.is_slave = True
        topics = dict(self.broker.state.topics.table)
        self.beat(A, heartbeat("a", {"G": [subscription("T")]}))
        self.assertEqual(notified(self.broker.effects), [(1, "G")])
        self.assertEqual(self.broker.state.topics.table, topics)
        self.assertNotIn("G", self.broker.state.groups)
        self.assertIsNotNone(self.broker.state.clients.subscription("G", "T"))

    def test_ordinals_of_c_clients(self) -> None:
        """C++ clients write enumerations as numbers."""
        body = heartbeat("a", {"G": []})
        body["consumerDataSet"][0] |= {"consumeType": 1, "messageModel": 0, "consumeFromWhere": 4}
        self.beat(A, body)
        group = self.broker.state.clients.consumers["G"]
        self.assertEqual(group.message_model, "BROADCASTING")
        self.assertEqual(group.consume_type, "CONSUME_PASSIVELY")
        self.assertEqual(group.consume_from_where, "CONSUME_FROM_FIRST_OFFSET")

    def test_bad_heartbeats_cost_the_request_only(self) -> None:
        """Refused with code 1; nothing of them is kept."""
        good = heartbeat("a", {"G": [subscription("T")]})
        bad: list[Any] = [b"", b"[]", b"{", b"\xff", b"null", good | {"clientID": ""}, good | {"clientID": "x" * 1025}]
        bad += [good | {"heartbeatFingerprint": "one"}]
        bad_rows: list[Any] = [{"a": 1}, [1], "G", [[]], [{"groupName": None}]]
        bad += [good | {"consumerDataSet": rows} for rows in bad_rows]
        bad += [heartbeat("a", {str(number): [] for number in range(1025)}), b"5"]
        bad += [heartbeat("a", {}, ("p" * 256,))]
        bad += [heartbeat("a", {"G": [subscription("T")] * (SUBSCRIPTIONS_MAX + 1)}), b"[" * 100_000]
        for body in bad:
            with self.subTest(body=str(body)[:60]):
                answer = self.broker.reply(HEART_BEAT, {}, body)
                self.assertEqual(answer.code, 1)
                self.assertTrue(answer.remark)
        self.assertEqual(self.broker.state.clients.consumers, {})

    def test_rows_without_a_name(self) -> None:
        """They are for nobody: left out, said, and the rest is served, as Java serves it."""
        body = heartbeat("a", {"G": [subscription(""), subscription("T")], "": [subscription("T")]}, ("", "PG"))
        client = Client()
        self.assertEqual(self.broker.reply(HEART_BEAT, {}, body, client=client).code, 0)
        clients = self.broker.state.clients
        self.assertEqual((list(clients.consumers), list(clients.producers)), (["G"], ["PG"]))
        self.assertIsNone(clients.subscription("G", ""))
        self.assertEqual([each[:2] for each in client.left_out], [(HEART_BEAT, Ignored.NO_NAME)] * 3)

    def test_heartbeats_of_other_languages(self) -> None:
        """Go writes numbers as texts, C++ so a version, and enumerations as ordinals; neither writes every member."""
        go = subscription("T") | {"codeSet": ["2643"], "tagsSet": ["S"], "subString": "S", "ClassFilterMode": False}
        cpp = {"topic": "%RETRY%G", "subString": "*", "subVersion": "1795595085529", "codeSet": None}
        body = heartbeat("a", {"G": [go, cpp]})
        body["consumerDataSet"][0] |= {"messageModel": 1, "consumeType": 1, "consumeFromWhere": "0", "unitMode": 0}
        self.assertEqual(self.broker.reply(HEART_BEAT, {}, body).code, 0)
        found = self.broker.state.clients.subscription("G", "T")
        assert found is not None
        self.assertEqual((found.code_set, found.tags_set), (frozenset([2643]), ("S",)))
        retry = self.broker.state.clients.subscription("G", "%RETRY%G")
        assert retry is not None
        self.assertEqual((retry.sub_version, retry.expression_type), (1795595085529, "TAG"))
        data = self.broker.state.clients.consumers["G"]
        self.assertEqual((data.message_model, data.consume_type), ("CLUSTERING", "CONSUME_PASSIVELY"))


class RepeatedBodyTests(unittest.TestCase):
    """A body that comes again is not read again."""

    def test_remembered_and_bounded(self) -> None:
        """Small bodies once; large ones each time; a flood of different ones does not grow memory; errors pass."""
        calls: list[bytes] = []

        def parse(body: bytes) -> tuple[bytes]:
            calls.append(body)
            if body == b"bad":
                raise RemoteProtocolError("bad")
            return (body,)

        read, large = request.RepeatedBodies(parse), b"x" * (request.REPEATED_BYTES_MAX + 1)
        for body in (b"a", b"a", large, large):
            self.assertEqual(read(body), (body,))
        self.assertEqual(calls, [b"a", large, large])
        for _ in range(2):
            self.assertRaises(RemoteProtocolError, read, b"bad")
        self.assertEqual(calls[-2:], [b"bad", b"bad"])
        with mock.patch.object(request, "REPEATED_BODIES_MAX", 2):
            for number in range(10):
                read(b"%d" % number)
        self.assertLessEqual(len(read._known), 2)


class FingerprintTests(unittest.TestCase):
    """The second version of heartbeats."""

    def beat(self, broker: Broker, fingerprint: int, topics: list[str] | None) -> str:
        body = heartbeat("a", {"G": [subscription(topic) for topic in topics or []]})
        body |= {"heartbeatFingerprint": fingerprint, "withoutSub": topics is None}
        return dict(broker.reply(HEART_BEAT, {}, body).fields or {})["IS_SUB_CHANGE"]

    def test_as_java(self) -> None:
        """Known, the same, another, the same again; the subscriptions are kept while they are left out."""
        broker = Broker()
        beats = [(7, ["T"]), (7, None), (8, ["T", "U"]), (8, None)]
        said = [self.beat(broker, fingerprint, topics) for fingerprint, topics in beats]
        self.assertEqual(said, ["false", "false", "true", "false"])
        self.assertEqual(set(broker.state.clients.consumers["G"].subscriptions), {"T", "U"})

    def test_a_restarted_broker_asks_for_the_subscriptions(self) -> None:
        """Java answers false here and never learns them: every pull is then refused with 24."""
        broker = Broker()
        self.assertEqual(self.beat(broker, 7, None), "true")
        self.assertEqual(self.beat(broker, 7, None), "true")
        self.assertEqual(self.beat(broker, 7, ["T"]), "false")
        self.assertIsNotNone(broker.state.clients.subscription("G", "T"))

    def test_an_ordered_retry_topic_stays_ordered(self) -> None:
        """Java takes a heartbeat without subscriptions for one without ordered topics (seen: the mark flips each
        time).
        """
        broker = Broker()
        broker.ask(17, topic_fields("T", order="true"))
        self.beat(broker, 7, ["T"])
        version = broker.state.topics.data_version.counter
        self.beat(broker, 7, None)
        self.assertTrue(broker.state.topics.table["%RETRY%G"].order)
        self.assertEqual(broker.state.topics.data_version.counter, version)


class OffsetTests(unittest.TestCase):
    """QUERY_CONSUMER_OFFSET and UPDATE_CONSUMER_OFFSET."""

    def setUp(self) -> None:
        self.broker = Broker(BrokerRules(in_memory_bytes=10 * RECORD_SIZE))
        self.broker.ask(17, topic_fields("T", 2))
        self.broker.ask(200, {}, {"groupName": "G"})

    def query(self, **more: str) -> tuple[int, str | None]:
        answer = self.broker.reply(QUERY, {"consumerGroup": "G", "topic": "T", "queueId": "0", **more})
        return answer.code, dict(answer.fields or {}).get("offset")

    def update(self, **more: str) -> int:
        fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "5", **more}
        return self.broker.reply(UPDATE, fields).code

    def test_a_young_queue_begins_at_zero(self) -> None:
        """facts 6: even for CONSUME_FROM_LAST_OFFSET, while message 0 is there and near the end of the log."""
        self.assertEqual(self.query(), (22, None))
        self.broker.store.put("T", 0, 1)
        self.assertEqual(self.query(), (0, "0"))
        self.assertEqual(self.query(setZeroIfNotFound="false"), (22, None))
        for _ in range(9):
            self.broker.store.put("T", 1, 1)
        self.assertEqual(self.query(), (0, "0"))
        self.broker.store.put("T", 1, 1)
        self.assertEqual(self.query(), (22, None))

    def test_a_queue_that_lost_messages_is_not_young(self) -> None:
        """The client decides by its consumeFromWhere."""
        self.broker.store.put("T", 0, 1)
        self.broker.store.put("T", 0, 1)
        self.broker.store.first["T", 0] = 1
        self.assertEqual(self.query(), (22, None))

    def test_what_was_committed_comes_back(self) -> None:
        """Also smaller than before: a consumer may go back."""
        self.assertEqual(self.update(), 0)
        self.assertEqual(self.query(), (0, "5"))
        self.assertEqual(self.update(commitOffset="3"), 0)
        self.assertEqual(self.query(), (0, "3"))
        self.assertTrue(self.broker.state.offsets.dirty)

    def test_only_existing_queues_of_existing_topics_and_groups(self) -> None:
        """Java takes any queue number: a client could fill memory and the file.  As Java, ours says so only where it is
        no number; what means nothing is not stored."""
        self.assertEqual(self.update(consumerGroup="none"), 26)
        self.assertEqual(self.update(topic="none"), 17)
        self.assertEqual(self.update(queueId="2"), 0)
        self.assertEqual(self.update(queueId="-1"), 0)
        self.assertEqual(self.update(commitOffset="-1"), 0)
        self.assertEqual(self.update(queueId="x"), 29)
        self.assertEqual(self.update(commitOffset=str(2**63)), 29)
        self.assertEqual(self.broker.state.offsets.committed, {})

    def test_a_reset_wins_until_it_is_carried_out(self) -> None:
        """useServerSideResetOffset: reports are accepted and ignored; with the switch off nothing is ignored."""
        self.update()
        self.broker.state.offsets.order_reset("G", "T", 0, 2)
        self.assertEqual(self.update(commitOffset="9"), 0)
        self.assertEqual(self.query(), (0, "2"))
        self.assertEqual(self.broker.state.offsets.moved_to("G", "T", 0, 1, 9), 2)
        self.assertIsNone(self.broker.state.offsets.moved_to("G", "T", 0, 1, 2))
        self.update(commitOffset="9")
        self.assertEqual(self.query(), (0, "9"))

    def test_a_reset_wins_over_the_commit_of_a_pull(self) -> None:
        """A pull may carry a commit too, which no check stands before."""
        self.broker.state.offsets.order_reset("G", "T", 0, 2)
        self.broker.state.offsets.commit("G", "T", 0, 9, lambda: self.broker.now_ms)
        self.assertEqual(self.query(), (0, "2"))

    def test_the_version_moves_every_500_commits(self) -> None:
        """consumerOffsetUpdateVersionStep."""
        for _ in range(499):
            self.update()
        self.assertEqual(self.broker.state.offsets.data_version.counter, 0)
        self.update()
        self.assertEqual(self.broker.state.offsets.data_version.counter, 1)


class ListAndCheckTests(unittest.TestCase):
    """GET_CONSUMER_LIST_BY_GROUP, CHECK_CLIENT_CONFIG, LOCK_BATCH_MQ."""

    def test_members_in_order_of_arrival(self) -> None:
        """Clients sort the list; an empty group is an error, which they expect."""
        broker = Broker()
        for client, name in ((B, "b"), (A, "a")):
            broker.ask(HEART_BEAT, {}, heartbeat(name, {"G": []}), client=client)
        self.assertEqual(broker.value(CONSUMERS, {"consumerGroup": "G"}), {"consumerIdList": ["b", "a"]})
        self.assertEqual(broker.reply(CONSUMERS, {"consumerGroup": "none"}).code, 1)

    def test_expressions(self) -> None:
        """TAG and nothing are fine, SQL92 is not supported."""
        broker = Broker()
        row = subscription("T")
        self.assertEqual(broker.reply(CHECK, {}, {"subscriptionData": row}).code, 0)
        self.assertEqual(broker.reply(CHECK, {}, {"subscriptionData": None}).code, 0)
        answer = broker.reply(CHECK, {}, {"subscriptionData": row | {"expressionType": "SQL92"}})
        self.assertEqual((answer.code, "SQL92" in (answer.remark or "")), (1, True))
        self.assertEqual(broker.reply(CHECK, {}, b"[]").code, 1)

    def test_locks(self) -> None:
        """The body says which; another client gets none."""
        broker = Broker()
        queue = {"brokerName": "broker-a", "queueId": 1, "topic": "T"}
        body = {"clientId": "a", "consumerGroup": "G", "mqSet": [queue], "onlyThisBroker": False}
        self.assertEqual(broker.value(LOCK, {}, body), {"lockOKMQSet": [queue]})
        self.assertEqual(broker.value(LOCK, {}, body | {"clientId": "b"}), {"lockOKMQSet": []})
        self.assertEqual(broker.reply(UNLOCK, {}, body).body, b"")
        answer = broker.reply(LOCK, {}, body | {"clientId": "b"})
        self.assertEqual(json_dialect.loads(answer.body), {"lockOKMQSet": [queue]})
