"""The topic table (Java: TopicConfigManager)."""

from __future__ import annotations

import unittest
from unittest import mock

from rocketha.broker import permissions, topics
from rocketha.broker.effects import RegisterTopics, SaveConfig
from rocketha.broker.state import BrokerRules
from rocketha.broker.topics import TopicConfig, TopicTable
from rocketha.errors import RequestRefused
from tests.broker.support import NOW_MS, Broker


class AutoCreateTests(unittest.TestCase):
    """A producer sends to a topic that nobody made (facts: broker-requests 2)."""

    def setUp(self) -> None:
        self.broker = Broker()
        self.state = self.broker.state

    def create(self, topic: str, default: str = "TBW102", queues: int = 4) -> TopicConfig | None:
        return self.state.topic_for_send(topic, default, queues, 0)

    def test_queues_are_the_smaller_number(self) -> None:
        """The producer's wish, at most the default topic's 8; without the inherit bit."""
        self.assertEqual(self.create("T"), TopicConfig("T", 4, 4, permissions.READ_WRITE))
        self.assertEqual(self.create("U", queues=100), TopicConfig("U", 8, 8, permissions.READ_WRITE))

    def test_it_is_saved_and_registered_once(self) -> None:
        """The second message finds it there."""
        first = self.create("T")
        self.assertEqual(self.state.take_effects(), [SaveConfig("topics"), RegisterTopics(("T",))])
        version = self.state.topics.data_version.as_json()
        self.assertIs(self.create("T"), first)
        self.assertEqual(self.state.take_effects(), [])
        self.assertEqual(self.state.topics.data_version.as_json(), version)

    def test_not_from_a_topic_that_is_missing_or_not_inheritable(self) -> None:
        """Java answers 17 then."""
        self.assertIsNone(self.create("T", "NoSuchTopic"))
        self.assertIsNone(self.create("T", "SELF_TEST_TOPIC"))
        self.assertIsNone(self.create("T", queues=0))
        self.assertIsNone(self.create("T", queues=-5))
        self.assertEqual(self.state.take_effects(), [])

    def test_switched_off(self) -> None:
        """autoCreateTopicEnable=false: there is no TBW102, and one from an old file does not count."""
        broker = Broker(BrokerRules(auto_create_topic=False))
        self.assertNotIn("TBW102", broker.state.topics)
        broker.state.topics.put(TopicConfig("TBW102", 8, 8, 7), NOW_MS)
        self.assertIsNone(broker.state.topic_for_send("T", "TBW102", 4, 0))

    def test_the_name_is_checked(self) -> None:
        """A bad name is refused before it is stored."""
        self.assertRaises(RequestRefused, self.create, "../../evil")
        self.assertRaises(RequestRefused, self.create, "%RETRY%../x")
        self.assertNotIn("../../evil", self.state.topics)

    def test_retry_topics_have_one_queue(self) -> None:
        """Whatever the producer asks for."""
        self.assertEqual(self.create("%RETRY%G", queues=16), TopicConfig("%RETRY%G", 1, 1))

    def test_the_table_is_bounded(self) -> None:
        """A flood of names ends in an error, not in memory."""
        with mock.patch.object(topics, "TOPICS_MAX", len(self.state.topics.table) + 1):
            self.create("T1")
            self.assertRaises(RequestRefused, self.create, "T2")
            self.assertIsNotNone(self.create("T1"))


class TableTests(unittest.TestCase):
    """Versions, pages and order marks."""

    def test_every_change_moves_the_version(self) -> None:
        """Slaves and nameservers copy the table when its version differs."""
        table = TopicTable()
        table.state_version = 3
        table.put(TopicConfig("T"), NOW_MS)
        self.assertEqual(table.data_version.as_json(), {"counter": 1, "stateVersion": 3, "timestamp": NOW_MS})
        self.assertTrue(table.delete("T", NOW_MS + 1))
        self.assertFalse(table.delete("T", NOW_MS + 2))
        self.assertEqual(table.data_version.as_json(), {"counter": 2, "stateVersion": 3, "timestamp": NOW_MS + 1})
        self.assertTrue(table.dirty)

    def test_a_retry_topic_follows_the_order_mark(self) -> None:
        """Seen on Java: a group that subscribes to an ordered topic has an ordered retry topic."""
        table = TopicTable()
        self.assertEqual(table.create_for_group("%RETRY%G", 1, NOW_MS)[1], True)
        self.assertEqual(table.create_for_group("%RETRY%G", 1, NOW_MS)[1], False)
        config, changed = table.create_for_group("%RETRY%G", 1, NOW_MS, order=True)
        self.assertEqual((config.order, changed, table.is_order("%RETRY%G")), (True, True, True))
        self.assertFalse(table.is_order("missing"))

    def test_pages_start_again_when_the_version_moved(self) -> None:
        """GET_ALL_TOPIC_CONFIG: the second page of an older version would miss topics."""
        table = TopicTable()
        for name in "cab":
            table.put(TopicConfig(name), NOW_MS)
        version = f'{{"counter":3,"stateVersion":0,"timestamp":{NOW_MS}}}'
        self.assertEqual(list(table.page(version, 1, 2)), ["b", "c"])
        self.assertEqual(list(table.page(version, 3, 2)), [])
        table.put(TopicConfig("d"), NOW_MS)
        for stale in (version, "", None, "{nonsense", "[1]"):
            self.assertEqual(list(table.page(stale, 1, 2)), ["a", "b"])

    def test_permissions(self) -> None:
        """Bits 4 and 2; queues are the larger count."""
        self.assertEqual([TopicConfig("T", perm=perm).readable for perm in (0, 2, 4, 6)], [False, False, True, True])
        self.assertEqual([TopicConfig("T", perm=perm).writeable for perm in (0, 2, 4, 6)], [False, True, False, True])
        self.assertEqual(TopicConfig("T", 3, 5).queue_nums, 5)

    def test_system_names(self) -> None:
        """Own topics, everything that begins with rmq_sys_, and no other."""
        table = Broker().state.topics
        for name in ("TBW102", "DefaultCluster", "broker-a", "rmq_sys_anything", "SCHEDULE_TOPIC_XXXX"):
            self.assertTrue(table.is_system(name), name)
        self.assertFalse(table.is_system("Orders"))
