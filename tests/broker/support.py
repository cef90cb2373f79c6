"""A broker's state over a store made of lists, and a way to ask it."""

from __future__ import annotations

import json
import pathlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import attrs

from rocketha.broker.effects import Effect
from rocketha.broker.requests import request_table
from rocketha.broker.state import BrokerIdentity, BrokerRules, BrokerState
from rocketha.broker.stats import BrokerStats
from rocketha.errors import Ignored, RequestRefused
from rocketha.store.deleted_topics import DeletedTopics, LastRecord
from rocketha.wire import json_dialect
from rocketha.wire.json_dialect import ObjectKeyed
from rocketha.wire.remoting import Answer, Command
from rocketha.wire.store_files import QueueUnit

DATA = pathlib.Path(__file__).parent / "data"
NOW_MS = 1_000_000
WALL_MS = 1_700_000_000_000
RECORD_SIZE = 200


@attrs.define
class ListStore:
    """A message store that remembers when each message of a queue was stored; every record takes RECORD_SIZE bytes."""

    queues: dict[tuple[str, int], list[tuple[int, int]]] = attrs.field(factory=dict)  # (physical offset, store time)
    first: dict[tuple[str, int], int] = attrs.field(factory=dict)  # offset of the oldest message still there
    max_physical_offset: int = 0
    min_physical_offset: int = 0
    flushed_offset: int = 0
    deleted: list[str] = attrs.field(factory=list)
    deleted_topics: DeletedTopics = attrs.field(factory=DeletedTopics)
    asked_to_expire: list[bool] = attrs.field(factory=list)

    def put(self, topic: str, queue_id: int, store_ms: int) -> int:
        """Store a message; its offset in the queue."""
        messages = self.queues.setdefault((topic, queue_id), [])
        messages.append((self.max_physical_offset, store_ms))
        self.max_physical_offset += RECORD_SIZE
        return len(messages) - 1

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _messages(self, topic: str, queue_id: int) -> list[tuple[int, int]]:
        return self.queues.get((topic, queue_id), [])

    def max_offset(self, topic: str, queue_id: int) -> int:
        return len(self._messages(topic, queue_id))

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self.first.get((topic, queue_id), 0)

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        messages = self._messages(topic, queue_id)
        return next((offset for offset, (_, ms) in enumerate(messages) if ms >= timestamp_ms), len(messages))

    def earliest_time(self, topic: str, queue_id: int) -> int:
        return self.store_time_at(topic, queue_id, self.min_offset(topic, queue_id))

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        messages = self._messages(topic, queue_id)
        there = self.min_offset(topic, queue_id) <= offset < len(messages)
        return messages[offset][1] if there else -1

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int:
        messages = self._messages(topic, queue_id)
        there = self.min_offset(topic, queue_id) <= offset < len(messages)
        return messages[offset][0] if there else -1

    def earliest_message_time(self) -> int:
        return min((messages[0][1] for messages in self.queues.values() if messages), default=-1)

    def message_at(self, physical_offset: int) -> bytes | None:
        known = {place for messages in self.queues.values() for place, _ in messages}
        return b"record at %d" % physical_offset if physical_offset in known else None

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueUnit]:
        found = self._messages(topic, queue_id)[offset : offset + count]
        return [QueueUnit(place, RECORD_SIZE, place // RECORD_SIZE) for place, _ in found]

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.queues})

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(queue_id for name, queue_id in self.queues if name == topic)

    def expire_soon(self, log: bool) -> None:
        self.asked_to_expire.append(log)

    def delete_topic(self, topic: str, below: int | None = None) -> None:
        self.deleted.append(topic)
        below = self.max_physical_offset if below is None else below
        if below > self.min_physical_offset:
            self.deleted_topics.add(topic, below, LastRecord(0, 0))
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]


@attrs.frozen
class Client:
    """A connection as handlers see it."""

    id: int = 1
    peer: str = "192.0.2.1:5000"
    version: int | None = 513
    left_out: list[tuple[int, Ignored, str]] = attrs.field(factory=list, eq=False, repr=False)

    @property
    def socket_host(self) -> str:
        return self.peer.rpartition(":")[0]

    def ignored(self, command: Command, reason: Ignored, what: str) -> None:
        self.left_out.append((command.code, reason, what))


class Broker:
    """A state, its handlers, and what they left behind."""

    def __init__(self, rules: BrokerRules | None = None) -> None:
        self.store = ListStore()
        self.now_ms, self.wall_ms = NOW_MS, WALL_MS
        self.state = BrokerState(
            BrokerIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911"),
            self.store,
            BrokerStats(NOW_MS, lambda: self.wall_ms),
            lambda: self.wall_ms,
            rules or BrokerRules(),
        )
        self.table = request_table(self.state)
        self.effects: list[Effect] = []

    def ask(
        self,
        code: int,
        fields: dict[str, str] | None = None,
        body: Any = b"",
        client: Client | None = None,
        language: str = "JAVA",
    ) -> Answer | None:
        """What the handler of ``code`` answers; a refusal is the answer it becomes on the wire."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        who = client or Client()
        command = Command(code, language, who.version or 0, 7, 0, None, dict(fields or {}), raw)
        try:
            answer = self.table[code](who, command, self.now_ms)
        except RequestRefused as refusal:
            answer = Answer(refusal.code, refusal.remark)
        self.effects = self.state.take_effects()
        return answer

    def reply(self, code: int, fields: dict[str, str] | None = None, body: Any = b"", **more: Any) -> Answer:
        """The same where an answer comes at once."""
        answer = self.ask(code, fields, body, **more)
        assert answer is not None
        return answer

    def value(self, code: int, fields: dict[str, str] | None = None, body: Any = b"", **more: Any) -> Any:
        """The parsed body of a successful answer."""
        answer = self.reply(code, fields, body, **more)
        assert answer.code == 0, answer
        return json_dialect.loads(answer.body)


def plain(value: Any) -> Any:
    """A parsed body in which order does not count and an object-keyed map is a sorted list of pairs."""
    if isinstance(value, ObjectKeyed):
        return sorted(([plain(key), plain(item)] for key, item in value.entries), key=repr)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((plain(item) for item in value), key=repr)
    return value


def heartbeat(
    client_id: str,
    groups: dict[str, list[dict[str, Any]]] | None = None,
    producers: tuple[str, ...] = (),
    **more: Any,
) -> dict[str, Any]:
    """The body of a heartbeat; ``more`` are further keys, ``model`` the groups' message model."""
    model = more.pop("model", "CLUSTERING")
    consumers = [
        {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": model,
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": subscriptions,
            "unitMode": False,
        }
        for group, subscriptions in (groups or {}).items()
    ]
    producer_rows = [{"groupName": name} for name in producers]
    return {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": producer_rows, **more}


def subscription(topic: str, version: int = 1000, **more: Any) -> dict[str, Any]:
    """One topic of a heartbeat's group."""
    value: dict[str, Any] = {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": "TAG",
        "subString": "*",
        "subVersion": version,
        "tagsSet": [],
        "topic": topic,
    }
    return {**value, **more}


def topic_fields(topic: str, queues: int = 4, **more: str) -> dict[str, str]:
    """The header of UPDATE_AND_CREATE_TOPIC as mqadmin fills it."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "",
        "force": "false",
        **more,
    }
