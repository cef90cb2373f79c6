"""A table taken page by page, from our master and from Java's; and our pages as Java's slave takes them."""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketha.broker.data_version import DataVersion
from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.metadata_pages import DELETED_FIELD, GROUPS, PAGE_SIZE, RESTARTS_MAX, TOPICS, Kind, Pages
from rocketha.broker.state import BrokerRules
from rocketha.broker.topics import TopicConfig
from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_dialect
from rocketha.wire.remoting import Answer
from tests.broker.support import NOW_MS, Broker

GET_ALL_TOPICS, GET_ALL_GROUPS = 21, 201


def master(topics: int, page_size: int = 1000) -> Broker:
    """A broker with so many topics in all (as many as the system has at least)."""
    broker = Broker(BrokerRules(split_metadata_size=page_size))
    for number in range(topics - len(broker.state.topics.table)):
        broker.state.topics.table[f"T{number:05d}"] = TopicConfig(f"T{number:05d}", 4, 4)
    broker.state.topics.data_version.next(NOW_MS)
    return broker


def taken(kind: Kind[Any], ask: Callable[[dict[str, str]], Answer], pages_max: int = 100) -> Pages[Any]:
    """Everything that the master gives."""
    pages: Pages[Any] = Pages(kind)
    for _ in range(pages_max):
        answer = ask(pages.fields())
        assert answer.code == 0, answer
        pages.take(answer.fields or {}, answer.body)
        if pages.whole:
            return pages
    raise AssertionError("it never ends")


def as_javas_slave(broker: Broker) -> dict[str, Any]:
    """BrokerOuterAPI.getAllTopicConfig of 5.5.0, line by line: it stops when seq >= total - 1."""
    table: dict[str, Any] = {}
    version: Any = None
    seq = 0
    while True:
        text = "" if version is None else json.dumps(version)
        answer = broker.reply(GET_ALL_TOPICS, {"topicSeq": str(seq), "maxTopicNum": "2000", "dataVersion": text})
        value = json_dialect.loads(answer.body)
        table.update(value["topicConfigTable"])
        seq += len(value["topicConfigTable"])
        if version is None:
            version = value["dataVersion"]
        assert answer.fields is not None
        if version != value["dataVersion"]:
            version, seq = value["dataVersion"], 0
            table.clear()
            continue
        if seq >= int(answer.fields["totalTopicNum"]) - 1:
            return table


class OurMasterTests(unittest.TestCase):
    @given(st.integers(16, 70), st.integers(1, 30))
    def test_all_topics_come(self, count: int, page_size: int) -> None:
        """Whatever the size of the table and of its pages."""
        broker = master(count, page_size)
        pages = taken(TOPICS, lambda fields: broker.reply(GET_ALL_TOPICS, fields))
        self.assertEqual(pages.table, broker.state.topics.table)
        self.assertEqual(pages.version, broker.state.topics.data_version)

    @given(st.integers(16, 70), st.integers(1, 30))
    def test_javas_slave_gets_all_topics(self, count: int, page_size: int) -> None:
        """It stops one early, so no page of ours leaves one over."""
        broker = master(count, page_size)
        self.assertEqual(set(as_javas_slave(broker)), set(broker.state.topics.table))

    def test_the_2001st_topic(self) -> None:
        """Java's own sizes: a page of 2000 would leave the last topic out for ever."""
        broker = master(2001, 2000)
        self.assertEqual(len(as_javas_slave(broker)), 2001)

    def test_groups_and_what_is_forbidden_to_them(self) -> None:
        """Forbidden bits come with the page of their group."""
        broker = Broker(BrokerRules(split_metadata_size=3))
        for number in range(7):
            broker.state.groups.update(SubscriptionGroupConfig(f"G{number}", retry_max_times=number), NOW_MS)
        broker.state.groups.forbid("G5", "T", 4, True, NOW_MS)
        pages = taken(GROUPS, lambda fields: broker.reply(GET_ALL_GROUPS, fields))
        self.assertEqual(pages.table, broker.state.groups.table)
        self.assertEqual(pages.forbidden, {"G5": {"T": 4}})

    def test_a_change_between_two_pages(self) -> None:
        """The table is taken anew: no table of two halves."""
        broker = master(60, 20)
        asked = []

        def ask(fields: dict[str, str]) -> Answer:
            asked.append(fields["topicSeq"])
            if len(asked) == 2:
                broker.state.topics.delete("T00000", NOW_MS)
                broker.state.topics.put(TopicConfig("A-new-first-one"), NOW_MS)
            return broker.reply(GET_ALL_TOPICS, fields)

        pages = taken(TOPICS, ask)
        self.assertEqual(pages.table, broker.state.topics.table)
        self.assertEqual(asked, ["0", "20", "0", "20", "40"])

    def test_a_table_that_never_rests(self) -> None:
        """Is left to the next round."""
        broker = master(60, 20)

        def ask(fields: dict[str, str]) -> Answer:
            broker.state.topics.data_version.next(NOW_MS)
            return broker.reply(GET_ALL_TOPICS, fields)

        with self.assertRaisesRegex(RemoteProtocolError, f"changed {RESTARTS_MAX + 1} times"):
            taken(TOPICS, ask)


class OtherMasterTests(unittest.TestCase):
    """Answers that ours never gives."""

    def page(self, *topics: str, counter: int = 1) -> bytes:
        table = {topic: TopicConfig(topic).as_json() for topic in topics}
        return json_dialect.dumps({"dataVersion": DataVersion(counter).as_json(), "topicConfigTable": table})

    def test_an_old_master_gives_no_total(self) -> None:
        """Before 5.3 everything came at once."""
        pages = Pages(TOPICS)
        pages.take({}, self.page("A", "B"))
        self.assertTrue(pages.whole)
        self.assertEqual(list(pages.table), ["A", "B"])

    def test_what_is_asked_for(self) -> None:
        """As Java asks: no version at first, then that of the pages before."""
        pages = Pages(TOPICS)
        first = {"topicSeq": "0", "maxTopicNum": str(PAGE_SIZE), "dataVersion": "", DELETED_FIELD: "true"}
        self.assertEqual(pages.fields(), first)
        pages.take({"totalTopicNum": "3"}, self.page("A", "B"))
        self.assertFalse(pages.whole)
        version = json.loads(pages.fields()["dataVersion"])
        self.assertEqual(version, {"counter": 1, "stateVersion": 0, "timestamp": 0})
        self.assertEqual((pages.fields()["topicSeq"], DELETED_FIELD in pages.fields()), ("2", False))

    def test_less_than_it_has(self) -> None:
        """An empty page in the middle, or the same entries again, are no table."""
        pages = Pages(TOPICS)
        pages.take({"totalTopicNum": "3"}, self.page("A", "B"))
        self.assertRaises(RemoteProtocolError, pages.take, {"totalTopicNum": "3"}, self.page())
        again = Pages(TOPICS)
        again.take({"totalTopicNum": "4"}, self.page("A", "B"))
        self.assertRaises(RemoteProtocolError, again.take, {"totalTopicNum": "4"}, self.page("A", "B"))
        self.assertFalse(pages.whole or again.whole)

    def test_damage(self) -> None:
        """Names that leave the store, wrong types, totals that are none."""
        for fields, body in (
            ({}, self.page("../evil")),
            ({}, b"[]"),
            ({}, b'{"topicConfigTable":{"A":7}}'),
            ({}, self.page("A")[:-9]),
            ({"totalTopicNum": "-1"}, self.page("A")),
            ({"totalTopicNum": "99999999999"}, self.page("A")),
        ):
            with self.subTest(fields=fields, body=body):
                self.assertRaises(RemoteProtocolError, Pages(TOPICS).take, fields, body)
