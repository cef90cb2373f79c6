"""Any request at all: an answer or a refusal, never another exception, and bounded tables."""

from __future__ import annotations

import json
import unittest
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketha.wire.remoting import Answer
from tests.broker.support import NOW_MS, Broker, Client, heartbeat, subscription, topic_fields

CODES = sorted(int(code) for code in Broker().table)
FIELDS = """
    attributes cleanOffset clientAddr clientID clientId commitOffset consumerGroup dataVersion defaultTopic
    destGroup group groupName groupSeq isForce isOrder lo maxGroupNum maxTopicNum msgId offline offset order perm
    producerGroup queueId readQueueNums readable setZeroIfNotFound srcGroup statsKey statsName timestamp topic
    topicFilterType topicList topicSeq topicSysFlag writeQueueNums
""".split()
NUMBERS = [-1, 0, 1, 3, 4, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1]
TEXTS = st.one_of(
    st.sampled_from(["T", "G", "c1", "TBW102", "../../x", "", " ", "true", "SINGLE_TAG", "+message.type=FIFO"]),
    st.sampled_from(NUMBERS).map(str),
    st.text(max_size=20),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=10,
)
KEYS = st.sampled_from(
    """
    clientID clientId consumerGroup groupName consumerDataSet producerDataSet subscriptionDataSet topic subString
    tagsSet codeSet subVersion mqSet brokerName queueId topicConfigList groupConfigList topicName attributes
    subscriptionData heartbeatFingerprint withoutSub perm readQueueNums retryQueueNums groupRetryPolicy messageModel
    consumeType expressionType
    """.split()
)
SHAPED = st.recursive(
    st.one_of(st.sampled_from(NUMBERS), st.sampled_from(["T", "G", "c1", "TAG", "SQL92", "CLUSTERING"]), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=20,
)
BODIES = st.one_of(
    st.binary(max_size=40),
    st.one_of(JSON, SHAPED).map(lambda value: json.dumps(value).encode()),
)


def busy_broker() -> Broker:
    """A topic, a group, a consumer, messages and offsets, so that requests get past the first check."""
    broker = Broker()
    broker.ask(17, topic_fields("T"))
    broker.ask(34, {}, heartbeat("c1", {"G": [subscription("T")]}, ("P",)))
    for queue_id in range(4):
        broker.store.put("T", queue_id, NOW_MS)
    broker.state.offsets.commit("G", "T", 0, 1, lambda: NOW_MS)
    return broker


class HostileRequestTests(unittest.TestCase):
    """security.md: hostile inputs to these handlers."""

    @settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(
        code=st.sampled_from(CODES),
        fields=st.dictionaries(st.sampled_from(FIELDS), TEXTS, max_size=8),
        body=BODIES,
        version=st.sampled_from([None, -1, 0, 513, 2**31 - 1]),
    )
    def test_any_request(self, code: int, fields: dict[str, str], body: bytes, version: int | None) -> None:
        """A code with a remark when it is refused; names in tables stay clean; answers can be written."""
        broker = busy_broker()
        answer: Answer | None = broker.ask(code, fields, body, client=Client(3, version=version))
        if answer is not None:
            self.assertIsInstance(answer.body, bytes)
            if answer.code:
                self.assertTrue(answer.remark, (code, answer))
                self.assertLess(len(answer.remark or ""), 8192)
        for name in [*broker.state.topics.table, *broker.state.groups.table]:
            self.assertNotIn("/", name)
        self.check_saved(broker)

    def check_saved(self, broker: Broker) -> None:
        """Whatever was accepted can be saved and loaded again."""
        again: dict[str, Any] = {}
        for name in ("topics", "groups", "offsets"):
            table = getattr(broker.state, name)
            fresh = again[name] = type(table)()
            fresh.load(table.dump())
            self.assertEqual(fresh.data_version, table.data_version)
        self.assertEqual(again["topics"].table, broker.state.topics.table)
        self.assertEqual(again["groups"].table, broker.state.groups.table)
        self.assertEqual(again["offsets"].committed, broker.state.offsets.committed)

    def test_deep_bodies(self) -> None:
        """JSON of depth 100,000 is refused by every handler that reads a body."""
        for code in CODES:
            for body in (b"[" * 100_000, b'{"a":' * 100_000):
                with self.subTest(code=code):
                    busy_broker().ask(code, {}, body)
