"""Attributes of topics and groups travel between brokers as JSON and arrive as they were (regression F3)."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.topics import TopicConfig
from rocketha.wire import json_dialect

attributes = st.dictionaries(st.text(max_size=12), st.text(max_size=40), max_size=8)


class AttributeTextsTests(unittest.TestCase):
    """Any names and values, those with quotes, line ends and characters outside of ASCII among them."""

    @given(attributes)
    def test_f3_of_a_topic(self, found: dict[str, str]) -> None:
        """As a table of a master carries them."""
        topic = TopicConfig("T", 3, 5, attributes=found)
        self.assertEqual(TopicConfig.from_json(json_dialect.loads(json_dialect.dumps(topic.as_json()))), topic)

    @given(attributes)
    def test_f3_of_a_group(self, found: dict[str, str]) -> None:
        """Likewise."""
        group = SubscriptionGroupConfig("G", attributes=found)
        self.assertEqual(
            SubscriptionGroupConfig.from_json(json_dialect.loads(json_dialect.dumps(group.as_json()))), group
        )
