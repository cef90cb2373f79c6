"""A new master finds in its log what its tables lack."""

from __future__ import annotations

import unittest

from rocketha.broker.metadata_recovery import SLACK_MS, Lowered, QueueEnd, lower_offsets, topics_of_log
from rocketha.broker.offsets import ConsumerOffsets
from rocketha.broker.topics import TopicConfig
from tests.broker.support import NOW_MS, Broker

EMPTY = QueueEnd(0, -1)


class TopicsOfLogTests(unittest.TestCase):
    """Regression F2: topics gone after a switch (apache/rocketmq #9804)."""

    def setUp(self) -> None:
        self.table = Broker().state.topics
        self.table.put(TopicConfig("Known", 3, 3), NOW_MS)  # what the slave has is of NOW_MS

    def test_a_topic_made_by_a_send(self) -> None:
        """It has as many queues as an automatic topic may have, so that a stale route names no queue that is not
        there."""
        ends = {"Known": {0: QueueEnd(5, NOW_MS)}, "New": {2: QueueEnd(1, NOW_MS + 5)}}
        self.assertEqual(topics_of_log(self.table, ends), [TopicConfig("New", 8, 8)])

    def test_at_least_the_queues_that_the_log_shows(self) -> None:
        """The default topic was larger once."""
        ends = {"New": {11: QueueEnd(1, NOW_MS + 5), 30: EMPTY}}
        self.assertEqual(topics_of_log(self.table, ends), [TopicConfig("New", 12, 12)])

    def test_retry_and_dead_letter_topics(self) -> None:
        """Have as many queues as were used: consumers of the group would be given the others."""
        ends = {"%DLQ%G": {0: QueueEnd(1, NOW_MS)}, "%RETRY%G": {0: QueueEnd(9, NOW_MS)}}
        self.assertEqual(topics_of_log(self.table, ends), [TopicConfig("%DLQ%G", 1, 1), TopicConfig("%RETRY%G", 1, 1)])

    def test_a_deleted_topic_stays_deleted(self) -> None:
        """Late records of it made its queues again; all are older than the table that lacks it."""
        ends = {"Old": {0: QueueEnd(5, NOW_MS - SLACK_MS - 1)}}
        self.assertEqual(topics_of_log(self.table, ends), [])

    def test_places_in_the_log_and_not_clocks(self) -> None:
        """The former master's clock was set back, or on: what counts is where the log ended when the table was
        taken."""
        made_later = {"New": {0: QueueEnd(1, NOW_MS - 600_000, 700), 1: EMPTY}}
        self.assertEqual(topics_of_log(self.table, made_later, 700), [TopicConfig("New", 8, 8)])
        deleted = {"Old": {0: QueueEnd(1, NOW_MS + 600_000, 699), 1: EMPTY}}
        self.assertEqual(topics_of_log(self.table, deleted, 700), [])

    def test_a_table_that_nobody_ever_changed(self) -> None:
        """Its file is lost, or it never was taken from a master: its time stamp says nothing about topics."""
        table = Broker().state.topics
        self.assertEqual(table.data_version.counter, 0)
        ends = {"Old": {0: QueueEnd(5, 1000)}}
        self.assertEqual([config.topic_name for config in topics_of_log(table, ends)], ["Old"])

    def test_queues_without_messages(self) -> None:
        """Say nothing."""
        self.assertEqual(topics_of_log(Broker().state.topics, {"New": {0: EMPTY}}), [])

    def test_without_automatic_topics(self) -> None:
        """There is no default topic: what is shown is all that is known."""
        del self.table.table["TBW102"]
        self.assertEqual(topics_of_log(self.table, {"N": {1: QueueEnd(1, NOW_MS)}}), [TopicConfig("N", 2, 2)])

    def test_an_absurd_queue(self) -> None:
        """A record of a queue that no topic can have makes no topic."""
        self.assertEqual(topics_of_log(self.table, {"N": {1 << 30: QueueEnd(1, NOW_MS)}}), [])


class LowerOffsetsTests(unittest.TestCase):
    def test_offsets_behind_the_end(self) -> None:
        """Regression A18: a group would pass over what is written between the end and its offset."""
        offsets = ConsumerOffsets()
        for queue_id, offset in ((0, 5), (1, 9), (2, 7)):
            offsets.commit("G", "T", queue_id, offset, lambda: NOW_MS)
        offsets.dirty = False
        changes = offsets.changes
        done = lower_offsets(offsets, {"T": {0: QueueEnd(5, -1), 1: QueueEnd(4, -1)}})
        self.assertEqual(done, [Lowered("G", "T", 1, 9, 4), Lowered("G", "T", 2, 7, 0)])
        self.assertEqual(offsets.queues_of("G", "T"), {0: 5, 1: 4, 2: 0})
        self.assertTrue(offsets.dirty)
        self.assertGreater(offsets.changes, changes)

    def test_nothing_to_do(self) -> None:
        """Changes nothing."""
        offsets = ConsumerOffsets()
        offsets.commit("G", "T", 0, 5, lambda: NOW_MS)
        offsets.dirty = False
        self.assertEqual(lower_offsets(offsets, {"T": {0: QueueEnd(6, -1)}}), [])
        self.assertFalse(offsets.dirty)
