"""Entries of a queue, and what an administrator wants gone."""

from __future__ import annotations

import unittest

from tests.broker.support import NOW_MS, RECORD_SIZE, Broker, heartbeat, subscription, topic_fields

CLEAN_QUEUES, CLEAN_TOPICS, QUEUE_ENTRIES, DELETE_LOG, LEAST_OFFSETS = 306, 316, 321, 329, 308


class StoreRequestsTests(unittest.TestCase):
    """One method a request."""

    def setUp(self) -> None:
        self.broker = Broker()
        self.broker.ask(17, topic_fields("T", 2))
        for number in range(5):
            self.broker.store.put("T", 0, NOW_MS + number)
        self.asked = {"topic": "T", "queueId": "0", "index": "1", "count": "2"}

    def test_entries(self) -> None:
        """What mqadmin queryCq shows: places, sizes, tags codes, and where the queue begins and ends."""
        value = self.broker.value(QUEUE_ENTRIES, self.asked)
        self.assertEqual((value["minQueueIndex"], value["maxQueueIndex"]), (0, 5))
        self.assertEqual(
            value["queueData"],
            [
                {"eval": False, "physicOffset": number * RECORD_SIZE, "physicSize": RECORD_SIZE, "tagsCode": number}
                for number in (1, 2)
            ],
        )
        self.assertEqual(len(self.broker.value(QUEUE_ENTRIES, {**self.asked, "count": "100"})["queueData"]), 4)

    def test_entries_for_a_group(self) -> None:
        """Whether its filter takes them; said, where it is not online."""
        asked = {**self.asked, "count": "3", "consumerGroup": "G"}
        self.assertEqual(self.broker.value(QUEUE_ENTRIES, asked)["filterData"], "G@T is not online!")
        wanted = subscription("T") | {"subString": "two", "tagsSet": ["two"], "codeSet": [2]}
        self.broker.ask(34, {}, heartbeat("a", {"G": [wanted]}))
        value = self.broker.value(QUEUE_ENTRIES, asked)
        self.assertEqual(value["subscriptionData"]["topic"], "T")
        self.assertEqual([row["eval"] for row in value["queueData"]], [False, True, False])

    def test_entries_that_are_not_there(self) -> None:
        """In Java's words and codes: a queue that is not, an index that is not."""
        answer = self.broker.reply(QUEUE_ENTRIES, {**self.asked, "queueId": "1"})
        self.assertEqual((answer.code, answer.remark), (1, "1@T is not exist!"))
        answer = self.broker.reply(QUEUE_ENTRIES, {**self.asked, "index": "5"})
        self.assertEqual((answer.code, answer.remark), (0, "Index 5 of 0@T is not exist!"))

    def test_expired_files(self) -> None:
        """The store is asked to look; how, its own tests say."""
        for code in (CLEAN_QUEUES, DELETE_LOG):
            self.assertEqual(self.broker.reply(code).code, 0)
        self.assertEqual(self.broker.store.asked_to_expire, [False, True])

    def test_unused_topics(self) -> None:
        """Queues go whose topic is not there, but for the system's; not on a slave, whose table may be late."""
        for topic in ("gone", "SCHEDULE_TOPIC_XXXX", "rmq_sys_anything"):
            self.broker.store.put(topic, 0, NOW_MS)
        self.broker.state.is_slave = True
        self.assertEqual(self.broker.reply(CLEAN_TOPICS).code, 0)
        self.assertEqual(self.broker.store.deleted, [])
        self.broker.state.is_slave = False
        self.assertEqual(self.broker.reply(CLEAN_TOPICS).code, 0)
        self.assertEqual(self.broker.store.deleted, ["gone"])

    def test_least_offsets(self) -> None:
        """Of all groups but those left out; a queue in which the compared group is behind has the greatest number."""
        offsets = self.broker.state.offsets
        for group, queue_id, offset in (("G", 0, 3), ("H", 0, 2), ("H", 1, 7), ("C", 0, 4), ("C", 1, 6), ("C", 2, 1)):
            offsets.commit(group, "T", queue_id, offset, NOW_MS)
        asked = {"topic": "T", "compareGroup": "C", "filterGroups": "H"}
        self.assertEqual(self.broker.value(LEAST_OFFSETS, asked)["correctionOffsets"], {"0": 3, "1": 6, "2": 1})
        offsets.commit("C", "T", 0, 1, NOW_MS)
        asked = {"topic": "T", "compareGroup": "C", "filterGroups": "C,H"}
        self.assertEqual(self.broker.value(LEAST_OFFSETS, asked)["correctionOffsets"], {"0": 2**63 - 1})
        self.assertEqual(len(offsets.groups_of("T")), 3)  # Java deletes those that are left out
