"""The table of topics this broker has.

Pure.  Must not know about connections, effects or files: callers save the text of :meth:`TopicTable.as_json` and
register the topic when a method says that something changed.

Theory of operation: a :class:`TopicConfig` is a value; every change replaces it and moves :class:`DataVersion` on, so
that slaves and nameservers see it.  A topic comes to be in one of four ways: the broker owns it
(:func:`system_topics`), an administrator made it, a producer sent to it and its default topic may be inherited, or a
consumer group needs a retry or DLQ topic.

Java: ``TopicConfigManager``, ``TopicConfig``, ``TopicConfigSerializeWrapper``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from rocketha.broker import names, permissions
from rocketha.broker.attributes import TOPIC_ATTRIBUTES, alter
from rocketha.broker.data_version import DataVersion, VersionedTable
from rocketha.broker.row_texts import RowTexts, file_text, pretty_row
from rocketha.broker.unsaved import Unsaved
from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire import json_dialect, json_members
from rocketha.wire.codes import ResponseCode
from rocketha.wire.fields import refused

TOPICS_MAX = 100_000
QUEUE_NUMS_MAX = 65_536
ATTRIBUTES_MAX = 4096
TABLE_MAX = 1_000_000
"""Topics in a table that is read: a file's or a master's is not ours to refuse."""
FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
SCHEDULE_QUEUE_NUMS = 18
DEFAULT_QUEUE_NUMS = 16


@attrs.frozen
class TopicConfig:
    """One topic as Java's ``TopicConfig`` has it."""

    topic_name: str
    read_queue_nums: int = DEFAULT_QUEUE_NUMS
    write_queue_nums: int = DEFAULT_QUEUE_NUMS
    perm: int = permissions.READ_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def readable(self) -> bool:
        """Whether consumers may pull."""
        return bool(self.perm & permissions.READ)

    @property
    def writeable(self) -> bool:
        """Whether producers may send."""
        return bool(self.perm & permissions.WRITE)

    @property
    def queue_nums(self) -> int:
        """Queues that may hold messages or offsets: the larger of the two counts."""
        return max(self.read_queue_nums, self.write_queue_nums)

    def as_json(self) -> dict[str, Any]:
        """In fastjson's order (alphabetical)."""
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    @classmethod
    def from_json(cls, value: Any) -> TopicConfig:
        """From a parsed object; a missing key has Java's default.

        :raises RemoteProtocolError: a key has the wrong type or a count is out of range.
        """
        row = json_members.as_object(value, "a topic's configuration")
        return cls(
            topic_name=json_members.text(row, "topicName", ""),
            read_queue_nums=json_members.integer(row, "readQueueNums", DEFAULT_QUEUE_NUMS, 0, QUEUE_NUMS_MAX),
            write_queue_nums=json_members.integer(row, "writeQueueNums", DEFAULT_QUEUE_NUMS, 0, QUEUE_NUMS_MAX),
            perm=json_members.integer(row, "perm", permissions.READ_WRITE),
            topic_filter_type=json_members.word(row, "topicFilterType", FILTER_TYPES, FILTER_TYPES[0]),
            topic_sys_flag=json_members.integer(row, "topicSysFlag", 0),
            order=json_members.flag(row, "order"),
            attributes=json_members.text_table(row, "attributes", ATTRIBUTES_MAX),
        )


def system_topics(
    cluster_name: str,
    broker_name: str,
    *,
    auto_create: bool,
    default_queue_nums: int,
    cluster_topic: bool = True,
    broker_topic: bool = True,
    trace_topic: str = "",
) -> list[TopicConfig]:
    """The topics every broker owns (``TopicConfigManager.init``).

    ``cluster_topic`` and ``broker_topic`` are Java's clusterTopicEnable and brokerTopicEnable: without them the topic
    exists, and shows who is in the cluster, but can be neither read nor written.  ``trace_topic`` is msgTraceTopicName
    where traceTopicEnable is on.
    """
    inherit, read_write = permissions.INHERIT, permissions.READ_WRITE

    def one(name: str, queues: int, perm: int = read_write) -> TopicConfig:
        return TopicConfig(name, queues, queues, perm)

    topics = [
        one(names.SELF_TEST_TOPIC, 1),
        one(names.BENCHMARK_TOPIC, 1024),
        one(cluster_name, DEFAULT_QUEUE_NUMS, inherit | (read_write if cluster_topic else 0)),
        one(broker_name, 1, inherit | (read_write if broker_topic else 0)),
        one(names.OFFSET_MOVED_TOPIC, 1),
        one(names.SCHEDULE_TOPIC, SCHEDULE_QUEUE_NUMS),
        one(names.reply_topic(cluster_name), 1),
        one(names.revive_topic(cluster_name), 8),
        one(names.member_topic(broker_name), 1, inherit),
        one(names.HALF_TOPIC, 1),
        one(names.OP_HALF_TOPIC, 1),
        one(names.ROCKSDB_HALF_TOPIC, 1),
        one(names.ROCKSDB_OP_HALF_TOPIC, 1),
        one(names.TIMER_TOPIC, 1),
    ]
    if trace_topic:
        topics.append(one(trace_topic, 1))
    if auto_create:
        topics.insert(1, one(names.DEFAULT_TOPIC, default_queue_nums, inherit | read_write))
    return topics


def read_topics(value: Any) -> dict[str, TopicConfig]:
    """The table in a parsed ``TopicConfigSerializeWrapper``: a file's, a master's.

    :raises RemoteProtocolError: it is none, or a name in it could leave the store's directory.
    """
    table = json_members.table(json_members.as_object(value, "a table of topics"), "topicConfigTable", TABLE_MAX)
    topics = {}
    for name, entry in table.items():
        config = TopicConfig.from_json(entry)
        problem = names.path_problem(name)
        if problem is not None:
            raise RemoteProtocolError(problem)
        topics[name] = config if config.topic_name == name else attrs.evolve(config, topic_name=name)
    return topics


def _row(name: str, config: TopicConfig) -> bytes:
    """One entry of config/topics.json."""
    return pretty_row(name, config.as_json())


class SortedNames:
    """The names of a table as its pages show them; sorted once for all pages of one version."""

    def __init__(self) -> None:
        self._of: tuple[int, int, int, int] | None = None
        self._names: list[str] = []

    def page(self, table: Mapping[str, object], version: DataVersion, first: int, count: int) -> list[str]:
        """The names of one page.

        A Java slave stops when it has all entries but one (``seq >= total - 1``), so a page that would leave one over
        takes that one too.
        """
        present = *version.numbers, len(table)
        if self._of != present:
            self._of, self._names = present, sorted(table)
        names, first, count = self._names, max(0, first), max(0, count)
        return names[first:] if first + count == len(names) - 1 else names[first : first + count]


class TopicTable(VersionedTable):
    """All topics by name.

    :ivar unsaved: topics that came or changed, while a crash would undo that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table: dict[str, TopicConfig] = {}
        self.unsaved = Unsaved()
        self.system: set[str] = set(names.SYSTEM_TOPICS)
        self._names = SortedNames()
        self._texts: RowTexts[TopicConfig] = RowTexts(_row)

    def __contains__(self, topic: object) -> bool:
        return topic in self.table

    def get(self, topic: str) -> TopicConfig | None:
        """The topic's configuration."""
        return self.table.get(topic)

    def install(self, topics: Iterable[TopicConfig]) -> None:
        """The broker's own topics, before :meth:`load` (a file's entry of the same name wins, as in Java)."""
        for config in topics:
            self.table[config.topic_name] = config
            self.system.add(config.topic_name)

    def is_system(self, topic: str) -> bool:
        """Whether clients may not create, change or delete it."""
        return topic in self.system or topic.startswith(names.SYSTEM_TOPIC_PREFIX)

    def is_order(self, topic: str) -> bool:
        """Whether the topic is marked as ordered."""
        config = self.table.get(topic)
        return config is not None and config.order

    def put(self, config: TopicConfig, wall_ms: int) -> None:
        """Create or replace a topic.

        :raises RequestRefused: 1, the table is full.
        """
        if config.topic_name not in self.table and len(self.table) >= TOPICS_MAX:
            raise refused(f"this broker has {TOPICS_MAX} topics and takes no more", ResponseCode.SYSTEM_ERROR)
        self.table[config.topic_name] = config
        self.unsaved.add(config.topic_name)
        self._changed(wall_ms)

    def update(self, wanted: TopicConfig, changes: Mapping[str, str], wall_ms: int) -> TopicConfig:
        """An administrator's create or update: ``changes`` are signed attribute changes on top of the present ones."""
        present = self.table.get(wanted.topic_name)
        current = present.attributes if present is not None else {}
        config = attrs.evolve(wanted, attributes=alter(present is None, TOPIC_ATTRIBUTES, current, changes))
        self.put(config, wall_ms)
        return config

    def create_from_default(
        self, topic: str, default_topic: str, queue_nums: int, sys_flag: int, auto_create: bool, wall_ms: int
    ) -> TopicConfig | None:
        """A topic that a producer sends to and nobody made: a copy of an inheritable one, with the producer's queue
        count at most.

        :returns: the present or new topic; ``None`` when it may not be created: the default topic is missing, is not
            inheritable, or is TBW102 while ``auto_create`` is off.
        """
        present = self.table.get(topic)
        if present is not None:
            return present
        default = self.table.get(default_topic)
        if default is None or not default.perm & permissions.INHERIT:
            return None
        if default_topic == names.DEFAULT_TOPIC and not auto_create:
            return None
        count = min(queue_nums, default.write_queue_nums)
        if count < 1:  # Java makes a topic without queues here, to which nobody can send
            return None
        names.check_topic(topic)
        config = TopicConfig(
            topic,
            count,
            count,
            default.perm & ~permissions.INHERIT,
            default.topic_filter_type,
            sys_flag,
        )
        self.put(config, wall_ms)
        return config

    def create_for_group(
        self,
        topic: str,
        queue_nums: int,
        wall_ms: int,
        *,
        order: bool = False,
        sys_flag: int = 0,
        perm: int = permissions.READ_WRITE,
    ) -> tuple[TopicConfig, bool]:
        """A retry or DLQ topic, made when it is missing; its order mark follows the group's subscriptions.

        :returns: the topic, and whether it was made or changed (so that it must be saved and registered).
        """
        present = self.table.get(topic)
        if present is not None:
            if present.order == order:
                return present, False
            config = attrs.evolve(present, order=order)
        else:
            names.check_topic(topic)
            config = TopicConfig(topic, queue_nums, queue_nums, perm, topic_sys_flag=sys_flag, order=order)
        self.put(config, wall_ms)
        return config, True

    def delete(self, topic: str, wall_ms: int) -> bool:
        """Forget a topic; whether it was there."""
        if self.table.pop(topic, None) is None:
            return False
        self.unsaved.discard(topic)
        self._changed(wall_ms)
        return True

    def touch(self, wall_ms: int) -> None:
        """Something that travels with the table changed."""
        self._changed(wall_ms)

    def page(self, version_text: str | None, first: int, count: int) -> dict[str, TopicConfig]:
        """One page of the table sorted by name; a reader whose version is not the present one starts again at 0."""
        if DataVersion.from_text(version_text) != self.data_version:
            first = 0
        return {name: self.table[name] for name in self._names.page(self.table, self.data_version, first, count)}

    def replace(self, table: dict[str, TopicConfig], version: DataVersion) -> None:
        """The whole table is a master's from now on."""
        for name in self.table.keys() - table.keys():
            self.unsaved.discard(name)
        for name, config in table.items():
            if self.table.get(name) != config:
                self.unsaved.add(name)
        self.table = table
        self.data_version.assign(version)
        self.dirty = True

    def as_json(self, topics: Mapping[str, TopicConfig] | None = None) -> dict[str, Any]:
        """The file's content and the body of GET_ALL_TOPIC_CONFIG (``TopicConfigSerializeWrapper``)."""
        chosen = self.table if topics is None else topics
        return {
            "dataVersion": self.data_version.as_json(),
            "topicConfigTable": {name: config.as_json() for name, config in chosen.items()},
        }

    def dump(self) -> bytes:
        """The text of config/topics.json."""
        return self.dump_later()()

    def dump_later(self) -> Callable[[], bytes]:
        """The same of the table as it is now, made by a thread."""
        topics, version = dict(self.table), json_dialect.dumps_pretty(self.data_version.as_json(), 1)
        return lambda: file_text({"dataVersion": version, "topicConfigTable": self._texts.table(topics)})

    def load(self, data: bytes, path: str = "config/topics.json") -> None:
        """Add what the file holds to the broker's own topics.

        :raises CorruptStore: it is no such file, or a name in it could leave the store's directory.
        """
        try:
            value = json_dialect.loads(data, json_dialect.FILE_BYTES_MAX)
            loaded = read_topics(value)
        except RemoteProtocolError as problem_found:
            raise CorruptStore(path, 0, str(problem_found)) from None
        self.table.update(loaded)
        self.data_version.assign(DataVersion.from_json(value.get("dataVersion")))
