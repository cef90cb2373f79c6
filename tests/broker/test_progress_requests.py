"""Consumer progress and moved offsets beyond what the recorded dialogue holds."""

from __future__ import annotations

import unittest

from rocketha.broker.effects import NotifyClient, SaveConfig
from rocketha.broker.state import BrokerRules
from rocketha.wire import json_dialect
from tests.broker.support import WALL_MS, Broker, Client, heartbeat, plain, subscription, topic_fields

CONSUME_STATS, BROKER_STATS, TIME_SPAN, CLONE, RESET = 208, 317, 303, 314, 222
A, B = Client(1), Client(2)


def prepared(rules: BrokerRules | None = None) -> Broker:
    """Topic T with two queues, ten messages in the first at WALL_MS, WALL_MS + 1 ...; group G has consumed four."""
    broker = Broker(rules)
    broker.ask(17, topic_fields("T", 2))
    broker.ask(200, {}, {"groupName": "G"})
    for number in range(10):
        broker.store.put("T", 0, WALL_MS + number)
    broker.state.offsets.commit("G", "T", 0, 4, lambda: WALL_MS)
    return broker


class StatisticsTests(unittest.TestCase):
    """GET_CONSUME_STATS and GET_BROKER_CONSUME_STATS."""

    def setUp(self) -> None:
        self.broker = prepared()

    def rows(self, **header: str) -> list[dict[str, int]]:
        value = self.broker.value(CONSUME_STATS, {"consumerGroup": "G", **header})
        return [row for _, row in plain(value["offsetTable"])]

    def test_where_a_group_is(self) -> None:
        """Committed, given, the end, and when the last consumed message was stored."""
        self.broker.state.offsets.note_pull("G", "T", 0, 7)
        first, second = self.rows()
        expected = {"brokerOffset": 10, "consumerOffset": 4, "lastTimestamp": WALL_MS + 3, "pullOffset": 7}
        self.assertEqual(first, expected)
        self.assertEqual(second, {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0})

    def test_only_what_a_connected_group_subscribes_to(self) -> None:
        """A topic it left is not shown, unless it is named in topicList."""
        self.broker.ask(34, {}, heartbeat("a", {"G": [subscription("U")]}))
        self.assertEqual(self.rows(), [])
        self.assertEqual(self.rows(topic="T"), [])
        self.assertEqual(len(self.rows(topicList="T;none;")), 2)

    def test_a_topic_that_was_deleted_is_left_out(self) -> None:
        """Offsets may outlive a topic in an old file."""
        self.broker.state.offsets.commit("G", "Gone", 0, 4, lambda: WALL_MS)
        self.assertEqual(len(self.rows()), 2)

    def test_all_groups(self) -> None:
        """Sums over the groups; a negative difference counts as it is (as in Java)."""
        self.broker.state.offsets.commit("G", "T", 1, 3, lambda: WALL_MS)
        self.broker.state.offsets.note_pull("G", "T", 0, 6)
        value = self.broker.value(BROKER_STATS, {"isOrder": "false"})
        self.assertEqual((value["totalDiff"], value["totalInflightDiff"]), (10 - 4 - 3, 2))
        self.assertEqual(self.broker.value(BROKER_STATS, {"isOrder": "true"})["totalDiff"], 0)

    def test_too_many_queues_of_all_groups(self) -> None:
        """One question must not keep everybody waiting: 65,536 queues took 1.8 s, as fuzzing showed."""
        self.broker.ask(17, topic_fields("Wide", 65_535))
        self.broker.state.offsets.commit("G", "Wide", 0, 1, lambda: WALL_MS)
        answer = self.broker.reply(BROKER_STATS, {"isOrder": "false"})
        self.assertEqual(answer.code, 1)
        self.assertIn("consumerProgress", answer.remark or "")
        self.assertEqual(len(self.rows(topic="T")), 2)

    def test_too_many_topics(self) -> None:
        """topicList is bounded."""
        for text in ("x;" * 300_000, ";".join(map(str, range(4097)))):
            self.assertEqual(self.broker.reply(CONSUME_STATS, {"consumerGroup": "G", "topicList": text}).code, 29)
        self.assertEqual(self.broker.reply(CONSUME_STATS, {}).code, 29)

    def test_time_span(self) -> None:
        """First, last, where the group is, and how long the next message has waited."""
        self.broker.wall_ms = WALL_MS + 1000
        queue, empty = self.broker.value(TIME_SPAN, {"topic": "T", "group": "G"})["consumeTimeSpanSet"]
        self.assertEqual((queue["minTimeStamp"], queue["maxTimeStamp"]), (WALL_MS, WALL_MS + 9))
        self.assertEqual((queue["consumeTimeStamp"], queue["delayTime"]), (WALL_MS + 3, 1000 - 4))
        self.assertEqual((empty["minTimeStamp"], empty["maxTimeStamp"], empty["delayTime"]), (-1, -1, 0))
        self.assertEqual(self.broker.reply(TIME_SPAN, {"topic": "none", "group": "G"}).code, 17)


class ResetTests(unittest.TestCase):
    """INVOKE_BROKER_TO_RESET_OFFSET."""

    def reset(self, broker: Broker, **more: str) -> dict[int, int] | int:
        fields = {"topic": "T", "group": "G", "timestamp": str(WALL_MS + 2), "isForce": "true", **more}
        answer = broker.reply(RESET, fields)
        if answer.code:
            return answer.code
        return {key["queueId"]: offset for key, offset in json_dialect.loads(answer.body)["offsetTable"].entries}

    def test_by_time(self) -> None:
        """The first message stored at or after it; -1 is the end; one queue or all."""
        broker = prepared()
        self.assertEqual(self.reset(broker), {0: 2, 1: 0})
        self.assertIn(SaveConfig("offsets"), broker.effects)
        self.assertEqual(self.reset(broker, timestamp="-1"), {0: 10, 1: 0})
        self.assertEqual(self.reset(broker, queueId="0"), {0: 2})
        self.assertEqual(broker.state.offsets.moved_to("G", "T", 0, 1, 9), 2)
        self.assertEqual(broker.state.offsets.moved_to("G", "T", 1, 1, 9), 0)

    def test_to_an_offset(self) -> None:
        """From the oldest to one past the end, as in Java."""
        broker = prepared()
        self.assertEqual(self.reset(broker, queueId="0", offset="7"), {0: 7})
        self.assertEqual(self.reset(broker, queueId="0", offset="11"), {0: 11})
        self.assertEqual(self.reset(broker, queueId="0", offset="12"), 1)
        self.assertEqual(self.reset(broker, queueId="0", offset="-1"), {0: 2})
        broker.store.first["T", 0] = 5
        self.assertEqual(self.reset(broker, queueId="0", offset="4"), 1)

    def test_refusals(self) -> None:
        """A slave, unknown topic and group, a queue that is not there."""
        broker = prepared()
        self.assertEqual(self.reset(broker, topic="none"), 17)
        self.assertEqual(self.reset(broker, group="none"), 26)
        self.assertEqual(self.reset(broker, queueId="2"), 29)
        self.assertEqual(self.reset(broker, timestamp="yesterday"), 29)
        broker.state.is_slave = True
        self.assertEqual(self.reset(broker), 1)
        self.assertEqual(broker.state.offsets.resets, {})

    def test_at_the_clients(self) -> None:
        """useServerSideResetOffset=false: every member is told; without force nobody is sent forward."""
        broker = prepared(BrokerRules(server_side_reset_offset=False))
        self.assertEqual(self.reset(broker), 1)  # queue 1 was never consumed: Java says so of the group
        broker.state.offsets.commit("G", "T", 1, 0, lambda: WALL_MS)
        self.assertEqual(self.reset(broker), 206)
        for client, name in ((A, "a"), (B, "b")):
            broker.ask(34, {}, heartbeat(name, {"G": [subscription("T")]}), client=client)
        self.assertEqual(self.reset(broker), {0: 2, 1: 0})
        calls = [effect for effect in broker.effects if isinstance(effect, NotifyClient)]
        self.assertEqual([(call.connection_id, call.code) for call in calls], [(1, 220), (2, 220)])
        self.assertEqual(calls[0].fields, {"topic": "T", "group": "G", "timestamp": str(WALL_MS + 2)})
        sent = json_dialect.loads(calls[0].body)["offsetTable"]
        self.assertEqual({key["queueId"]: offset for key, offset in sent.entries}, {0: 2, 1: 0})
        self.assertEqual(self.reset(broker, timestamp="-1", isForce="false"), {0: 4, 1: 0})
        self.assertEqual(self.reset(broker, timestamp="-1"), {0: 10, 1: 0})

    def test_c_clients_get_a_list(self) -> None:
        """`ResetOffsetBodyForC`: C++ has no maps keyed by objects."""
        broker = prepared(BrokerRules(server_side_reset_offset=False))
        broker.state.offsets.commit("G", "T", 1, 0, lambda: WALL_MS)
        broker.ask(34, {}, heartbeat("a", {"G": [subscription("T")]}))
        fields = {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"}
        broker.ask(RESET, fields, language="CPP")
        (call,) = (effect for effect in broker.effects if isinstance(effect, NotifyClient))
        row = {"brokerName": "broker-a", "queueId": 0, "topic": "T", "offset": 0}
        self.assertEqual(json_dialect.loads(call.body)["offsetTable"][0], row)


class CloneTests(unittest.TestCase):
    """CLONE_GROUP_OFFSET."""

    def test_one_topic_or_all(self) -> None:
        """Without a topic every topic of the group (Java copies nothing then)."""
        broker = prepared()
        broker.ask(17, topic_fields("U"))
        broker.state.offsets.commit("G", "U", 0, 8, lambda: WALL_MS)
        broker.ask(CLONE, {"srcGroup": "G", "destGroup": "One", "topic": "U", "offline": "true"})
        broker.ask(CLONE, {"srcGroup": "G", "destGroup": "All", "offline": "true"})
        offsets = broker.state.offsets
        self.assertEqual((offsets.query("One", "T", 0), offsets.query("One", "U", 0)), (-1, 8))
        self.assertEqual((offsets.query("All", "T", 0), offsets.query("All", "U", 0)), (4, 8))
        offsets.commit("G", "T", 0, 9, lambda: WALL_MS)
        self.assertEqual(offsets.query("All", "T", 0), 4)

    def test_a_topic_the_group_left(self) -> None:
        """Not while the group is connected and subscribes to others, unless `offline`."""
        broker = prepared()
        broker.ask(34, {}, heartbeat("a", {"G": [subscription("U")]}))
        broker.ask(CLONE, {"srcGroup": "G", "destGroup": "D", "topic": "T"})
        self.assertEqual(broker.state.offsets.query("D", "T", 0), -1)
        broker.ask(CLONE, {"srcGroup": "G", "destGroup": "D", "topic": "T", "offline": "true"})
        self.assertEqual(broker.state.offsets.query("D", "T", 0), 4)

    def test_a_bad_target(self) -> None:
        """The name goes into a file."""
        self.assertEqual(prepared().reply(CLONE, {"srcGroup": "G", "destGroup": "a@b", "topic": "T"}).code, 29)
