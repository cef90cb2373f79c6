"""config/*.json of a Java broker 5.5.0 and of ours.

``data/java_config`` was written by the Java broker at the end of the dialogue in ``data/java_dialogue.json``.
"""

from __future__ import annotations

import json
import unittest
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketha.broker.groups import PREDEFINED_GROUPS, GroupTable, SubscriptionGroupConfig
from rocketha.broker.names import GROUP_LENGTH_MAX, TOPIC_LENGTH_MAX
from rocketha.broker.offsets import ConsumerOffsets
from rocketha.broker.state import BrokerState
from rocketha.broker.topics import TopicConfig, TopicTable
from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire import json_dialect
from tests.broker.support import DATA, NOW_MS, Broker

JAVA = DATA / "java_config"

NAMES = st.text("abcXYZ019_-%|", min_size=1, max_size=20)


def java_file(name: str) -> tuple[bytes, Any]:
    """A file's bytes and what is in it."""
    data = (JAVA / name).read_bytes()
    return data, json_dialect.loads(data)


class JavaFilesTests(unittest.TestCase):
    """A directory of a Java broker can be taken over and given back."""

    def test_topics(self) -> None:
        """All topics with their attributes and the version; written again they are the same."""
        data, value = java_file("topics.json")
        table = TopicTable()
        table.load(data)
        self.assertEqual(set(table.table), set(value["topicConfigTable"]))
        self.assertEqual(table.table["TestB"], TopicConfig("TestB", 2, 3, order=True))
        self.assertEqual(table.table["TBW102"].perm, 7)
        self.assertEqual(json_dialect.loads(table.dump()), value)

    def test_a_fresh_broker_has_java_s_topics(self) -> None:
        """The broker's own topics are those of Java, with the same queues and permissions."""
        _, value = java_file("topics.json")
        made = {"TestA", "TestB", "%RETRY%G1", "%RETRY%GB", "%RETRY%GV"}
        java = {name: config for name, config in value["topicConfigTable"].items() if name not in made}
        ours = {name: config.as_json() for name, config in Broker().state.topics.table.items()}
        self.assertEqual(ours, java)

    def test_groups(self) -> None:
        """All groups; written again they are the same, and a fresh table has Java's predefined ones."""
        data, value = java_file("subscriptionGroup.json")
        table = GroupTable()
        self.assertEqual(
            {name: config.as_json() for name, config in table.table.items()},
            {name: value["subscriptionGroupTable"][name] for name in PREDEFINED_GROUPS},
        )
        table.load(data)
        self.assertEqual(table.table["GX"].retry_max_times, 3)
        self.assertFalse(table.table["GX"].consume_from_min_enable)
        self.assertEqual(json_dialect.loads(table.dump()), value)

    def test_offsets(self) -> None:
        """fastjson's unquoted queue numbers are read; ours are quoted, which Java reads too."""
        data, value = java_file("consumerOffset.json")
        self.assertIn(b"0:3", data)
        offsets = ConsumerOffsets()
        offsets.load(data)
        self.assertEqual(offsets.query("G1", "TestA", 0), 3)
        self.assertEqual(offsets.query("GX", "TestA", 1), 1)
        self.assertEqual(offsets.query_pulled("G1", "TestA", 0), 0)
        written = offsets.dump()
        self.assertIn(b'"0":3', written)
        again = json_dialect.loads(written)
        self.assertEqual(again["offsetTable"], value["offsetTable"])
        self.assertEqual(again["pullOffsetTable"], value["pullOffsetTable"])
        self.assertEqual(
            {key: sorted(topics) for key, topics in again["groupTopicMap"].items()},
            {key: sorted(topics) for key, topics in value["groupTopicMap"].items()},
        )

    def test_a_reset_is_not_saved_as_an_order(self) -> None:
        """As in Java a reset that no consumer took yet survives a restart only as the committed offset."""
        offsets = ConsumerOffsets()
        offsets.commit("G", "T", 0, 9, lambda: NOW_MS)
        offsets.order_reset("G", "T", 0, 4)
        again = ConsumerOffsets()
        again.load(offsets.dump())
        self.assertEqual(again.query("G", "T", 0), 4)
        self.assertFalse(again.has_reset("G", "T", 0))


class OldAndBadFilesTests(unittest.TestCase):
    """Files of older versions, and files that are none."""

    def test_missing_keys_have_java_s_defaults(self) -> None:
        """RocketMQ 4.x writes neither attributes nor retry policy (facts: missing keys take defaults)."""
        topics, groups = TopicTable(), GroupTable()
        topics.load(b'{"dataVersion":{"counter":3,"timestampe":1},"topicConfigTable":{"T":{"perm":6}}}')
        groups.load(b'{"subscriptionGroupTable":{"G":{"groupName":"G","retryMaxTimes":2}}}')
        self.assertEqual(topics.table["T"], TopicConfig("T", 16, 16))
        self.assertEqual(topics.data_version.counter, 3)
        self.assertEqual(groups.table["G"], SubscriptionGroupConfig("G", retry_max_times=2))

    def test_what_is_no_such_file_is_refused_with_its_path(self) -> None:
        """Nothing is taken from a bad file."""
        wrong = b'{"offsetTable":{"a@b":3},"topicConfigTable":3,"subscriptionGroupTable":3}'
        for table in (TopicTable(), GroupTable(), ConsumerOffsets()):
            for data in (b"", b"[]", b"\x00\x01", wrong):
                with self.subTest(table=type(table).__name__, data=data):
                    before = table.as_json()
                    with self.assertRaises(CorruptStore) as caught:
                        table.load(data, "/store/config/x.json")
                    self.assertIn("/store/config/x.json", str(caught.exception))
                    self.assertEqual(table.as_json(), before)

    def test_a_name_that_leaves_the_directory_is_refused(self) -> None:
        """CVE-2019-17572: a topic's name is a directory, also when it comes from a file."""
        for name in ("../../etc", "a/b", "..", ".", "a\\b", "a\\u0000b", "x" * 256):
            data = b'{"topicConfigTable":{"%s":{}}}' % name.replace("\\b", "\\\\b").encode()
            with self.subTest(name=name), self.assertRaises(CorruptStore):
                TopicTable().load(data)

    def test_a_broker_s_name_may_hold_dots(self) -> None:
        """The topics named after a cluster and a broker are not checked like others, in Java neither."""
        table = TopicTable()
        table.load(b'{"topicConfigTable":{"broker.example.1":{}}}')
        self.assertIn("broker.example.1", table)


class RoundTripTests(unittest.TestCase):
    """What we write we read."""

    @given(
        st.dictionaries(NAMES, st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 15), st.booleans())),
    )
    def test_topics(self, wanted: dict[str, tuple[int, int, int, bool]]) -> None:
        """Any table of topics."""
        table, again = TopicTable(), TopicTable()
        for name, (read, write, perm, order) in wanted.items():
            table.put(TopicConfig(name, read, write, perm, order=order, attributes={"message.type": "FIFO"}), NOW_MS)
        again.load(table.dump())
        self.assertEqual((again.table, again.data_version), (table.table, table.data_version))

    @given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 9), st.integers(0, 2**63 - 1))))
    def test_offsets(self, commits: list[tuple[str, str, int, int]]) -> None:
        """Any commits: the last one of a queue counts."""
        offsets, again = ConsumerOffsets(), ConsumerOffsets()
        for group, topic, queue_id, offset in commits:
            offsets.commit(group, topic, queue_id, offset, lambda: NOW_MS)
        self.assertEqual(offsets.dump(), json_dialect.dumps_pretty(offsets.as_json()))
        for group, topic, queue_id, offset in commits[::2]:
            offsets.note_pull(group, topic + '"', queue_id, offset)
        self.assertEqual(offsets.dump(), json_dialect.dumps_pretty(offsets.as_json()))
        again.load(offsets.dump())
        last = {(group, topic, queue_id): offset for group, topic, queue_id, offset in commits}
        for (group, topic, queue_id), offset in last.items():
            self.assertEqual(again.query(group, topic, queue_id), offset)
        self.assertEqual(again.committed, offsets.committed)

    def test_limits_are_java_s(self) -> None:
        """TopicValidator: 127 and 120 characters."""
        self.assertEqual((TOPIC_LENGTH_MAX, GROUP_LENGTH_MAX), (127, 120))

    def test_dump_is_indented_by_tabs(self) -> None:
        """fastjson's pretty form, so that a person sees the same file."""
        state: BrokerState = Broker().state
        lines = state.topics.dump().decode().split("\n")
        self.assertEqual(lines[:2], ["{", '\t"dataVersion":{'])
        self.assertEqual(json.loads(state.topics.dump()), state.topics.as_json())

    def test_topics_are_laid_out_as_anything_else(self) -> None:
        """Whatever a file of another broker's had in it."""
        table = TopicTable()
        self.assertEqual(table.dump(), json_dialect.dumps_pretty(table.as_json()))
        for number, name in enumerate(("T", 'quote"d', "back\\slash", "ü\u2028\x01\n\U0001f680", "%RETRY%g")):
            attributes = {"message.type": "FIFO", "odd\n": '\n"}'} if number % 2 else {}
            table.put(TopicConfig(name, number, 2 * number, 7, f"kind{name}", number, bool(number % 2), attributes), 1)
        self.assertEqual(table.dump(), json_dialect.dumps_pretty(table.as_json()))


class LargeFileTests(unittest.TestCase):
    """A broker with many groups has a large consumerOffset.json, with Java's unquoted keys."""

    def test_beyond_the_bound_for_bodies(self) -> None:
        """5 MiB of offsets are read at the start, although a peer's body of that size would be refused."""
        rows = ",".join(f'"topic{number:06d}@group{number:06d}":{{0:{number},1:7}}' for number in range(120_000))
        text = b'{"offsetTable":{' + rows.encode() + b"}}"
        self.assertGreater(len(text), json_dialect.TOLERANT_BYTES_MAX)
        offsets = ConsumerOffsets()
        offsets.load(text)
        self.assertEqual(offsets.query("group119999", "topic119999", 0), 119_999)
        self.assertRaises(RemoteProtocolError, json_dialect.loads, text)
