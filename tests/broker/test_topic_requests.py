"""Requests about topics beyond what the recorded dialogue holds."""

from __future__ import annotations

import unittest
from typing import Any

from rocketha.broker.effects import Audit, RegisterTopics, SaveConfig
from rocketha.broker.topics import TopicConfig
from tests.broker.support import Broker, heartbeat, plain, subscription, topic_fields

UPDATE, UPDATE_LIST, DELETE, GET, ALL, STATS, WHO = 17, 18, 215, 351, 21, 202, 300


class UpdateTests(unittest.TestCase):
    """UPDATE_AND_CREATE_TOPIC and its list form."""

    def setUp(self) -> None:
        self.broker = Broker()

    def test_effects(self) -> None:
        """Saved, registered, logged with who did it; the same again does nothing."""
        self.broker.ask(UPDATE, topic_fields("T"))
        self.assertEqual(
            self.broker.effects,
            [
                SaveConfig("topics"),
                RegisterTopics(("T",)),
                Audit("topic updated", "192.0.2.1:5000", {"topic": "T"}),
            ],
        )
        self.broker.ask(UPDATE, topic_fields("T"))
        self.assertEqual(self.broker.effects, [])

    def test_attributes_stay_over_an_update_without_any(self) -> None:
        """An administrator changes the queues: the message type stays."""
        self.broker.ask(UPDATE, topic_fields("T", attributes="+message.type=FIFO"))
        self.broker.ask(UPDATE, topic_fields("T", 7))
        expected = TopicConfig("T", 7, 7, attributes={"message.type": "FIFO"})
        self.assertEqual(self.broker.state.topics.table["T"], expected)

    def test_refusals_change_nothing(self) -> None:
        """Names, ranges, types and attributes."""
        before = dict(self.broker.state.topics.table)
        for fields, code in (
            (topic_fields("a/b"), 29),
            (topic_fields("DefaultCluster"), 29),
            (topic_fields("broker-a"), 29),
            (topic_fields("rmq_sys_x"), 29),
            (topic_fields("T", -1), 29),
            (topic_fields("T", 65_537), 29),
            (topic_fields("T", perm="16"), 29),
            (topic_fields("T", perm="x"), 29),
            (topic_fields("T", topicFilterType="NONE"), 29),
            (topic_fields("T", attributes="-message.type"), 1),
            (topic_fields("T", attributes="+message.type=LOUD"), 1),
            (topic_fields("T", attributes="+message.type=FIFO,+message.type=NORMAL"), 1),
            (topic_fields("T", attributes="+a+b=1"), 1),
            (topic_fields("T", attributes="+reserve.time=-2"), 1),
        ):
            with self.subTest(fields=fields):
                answer = self.broker.reply(UPDATE, fields)
                self.assertEqual(answer.code, code, answer.remark)
                self.assertEqual(self.broker.effects, [])
        self.assertEqual(self.broker.state.topics.table, before)

    def test_a_slave_refuses(self) -> None:
        """Tables are changed on the master.  A deletion is agreed to: mqadmin tells slaves, too, and ends with the
        first that refuses, so that neither the other brokers nor the nameservers hear of it (deleteSubGroup -c).
        """
        before = dict(self.broker.state.topics.table)
        self.broker.state.is_slave = True
        self.assertEqual(self.broker.reply(UPDATE, topic_fields("T")).code, 1)
        for topic in (*before, "%RETRY%missing"):
            if not self.broker.state.topics.is_system(topic):
                self.assertEqual(self.broker.reply(DELETE, {"topic": topic}).code, 0)
        self.assertEqual(self.broker.state.topics.table, before)

    def test_a_list_is_checked_before_it_is_used(self) -> None:
        """One bad name: nothing is made.  Java stops silently at the first topic that is there already; we go on."""
        rows = [TopicConfig("T1").as_json(), TopicConfig("T2", 2, 2).as_json()]
        bad = [*rows, TopicConfig("../T3").as_json()]
        self.assertEqual(self.broker.reply(UPDATE_LIST, {}, {"topicConfigList": bad}).code, 29)
        self.assertNotIn("T1", self.broker.state.topics)
        self.broker.ask(UPDATE, topic_fields("T1", 16))
        self.assertEqual(self.broker.reply(UPDATE_LIST, {}, {"topicConfigList": rows}).code, 0)
        self.assertIn(RegisterTopics(("T2",)), self.broker.effects)
        bad_bodies: list[Any] = [[], *({"topicConfigList": rows} for rows in (3, [1], [{"perm": "x"}]))]
        for body in bad_bodies:
            self.assertEqual(self.broker.reply(UPDATE_LIST, {}, body).code, 1)
        too_many = {"topicConfigList": [{"topicName": "T"}] * 4097}
        self.assertEqual(self.broker.reply(UPDATE_LIST, {}, too_many).code, 1)


class DeleteTests(unittest.TestCase):
    """DELETE_TOPIC_IN_BROKER."""

    def setUp(self) -> None:
        self.broker = Broker()
        self.broker.ask(UPDATE, topic_fields("T"))
        self.broker.store.put("T", 0, 1)
        self.broker.state.offsets.commit("G", "T", 0, 1, lambda: 1)
        self.broker.state.offsets.commit("G", "U", 0, 1, lambda: 1)

    def test_queues_and_offsets_go_too(self) -> None:
        """Offsets in other topics stay; the nameservers get the whole table."""
        self.assertEqual(self.broker.reply(DELETE, {"topic": "T"}).code, 0)
        self.assertEqual(self.broker.store.deleted, ["T"])
        self.assertEqual(set(self.broker.state.offsets.committed), {"U@G"})
        self.assertNotIn("T", self.broker.state.topics)
        self.assertIn(RegisterTopics(None), self.broker.effects)
        self.assertIn(SaveConfig("offsets"), self.broker.effects)

    def test_pop_retry_topics_go_too(self) -> None:
        """Both spellings that Java gives them, when they are there."""
        for name in ("%RETRY%G+T", "%RETRY%G_T", "%RETRY%G"):
            self.broker.state.topics.table[name] = TopicConfig(name)
        self.broker.ask(DELETE, {"topic": "T"})
        self.assertEqual(self.broker.store.deleted, ["T", "%RETRY%G+T", "%RETRY%G_T"])
        self.assertIn("%RETRY%G", self.broker.state.topics)

    def test_a_bad_name_never_reaches_the_store(self) -> None:
        """The store would remove a directory of that name."""
        for topic in ("../../store", "", "..", "TBW102"):
            self.assertEqual(self.broker.reply(DELETE, {"topic": topic}).code, 29)
        self.assertEqual(self.broker.store.deleted, [])


class ShowTests(unittest.TestCase):
    """What administrators and slaves read."""

    def setUp(self) -> None:
        self.broker = Broker()
        self.broker.ask(UPDATE, topic_fields("T", readQueueNums="1", writeQueueNums="2"))

    def test_statistics_cover_readable_and_writable_queues(self) -> None:
        """The larger of both counts; a queue that lost its oldest messages says so."""
        for stored_ms in (11, 12, 13):
            self.broker.store.put("T", 1, stored_ms)
        self.broker.store.first["T", 1] = 2
        rows = plain(self.broker.value(STATS, {"topic": "T"})["offsetTable"])
        self.assertEqual(
            [row for _, row in rows],
            [
                {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0},
                {"lastUpdateTimestamp": 13, "maxOffset": 3, "minOffset": 2},
            ],
        )

    def test_consumers_of_a_topic(self) -> None:
        """Connected groups and groups with offsets, once each."""
        self.broker.ask(34, {}, heartbeat("a", {"G": [subscription("T")]}))
        self.broker.state.offsets.commit("G", "T", 0, 1, lambda: 1)
        self.broker.state.offsets.commit("Old", "T", 0, 1, lambda: 1)
        self.assertEqual(self.broker.value(WHO, {"topic": "T"}), {"groupList": ["G", "Old"]})

    def test_pages_are_bounded(self) -> None:
        """splitMetadataSize limits what one answer holds; without header fields an old slave gets all."""
        self.broker.state.rules.split_metadata_size = 3
        self.assertEqual(len(self.broker.value(ALL, {"topicSeq": "0", "maxTopicNum": "2000"})["topicConfigTable"]), 3)
        self.assertEqual(len(self.broker.value(ALL, {"topicSeq": "0", "maxTopicNum": "2"})["topicConfigTable"]), 2)
        total = len(self.broker.state.topics.table)
        answer = self.broker.reply(ALL)
        self.assertEqual(dict(answer.fields or {}), {"totalTopicNum": str(total)})
        self.assertEqual(len(self.broker.value(ALL)["topicConfigTable"]), total)
        self.assertEqual(self.broker.reply(ALL, {"topicSeq": "-1"}).code, 29)
