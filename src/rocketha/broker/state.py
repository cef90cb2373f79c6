"""Everything a broker keeps in memory besides messages, in one place, and the rules that touch several tables.

Pure.  Must not know how effects are carried out nor how bytes travel.  A request handler gets a :class:`BrokerState`,
changes tables through it and appends :mod:`rocketha.broker.effects` to ``state.effects``; the service takes them with
:meth:`BrokerState.take_effects` after every handler, carries them out, and only then writes the answer.  A handler that
stages a message asks :meth:`BrokerState.need_saved` before.

The service owns the configuration (files, flags, which keys may change); handlers show it and ask for changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import attrs

from rocketha.broker import names, permissions
from rocketha.broker.clients import Clients, GroupChange
from rocketha.broker.data_version import DataVersion
from rocketha.broker.effects import Audit, Effect, NotifyClient, RegisterTopics, SaveConfig
from rocketha.broker.groups import GroupTable, SubscriptionGroupConfig
from rocketha.broker.metadata_modes import RequestModes
from rocketha.broker.offsets import ConsumerOffsets
from rocketha.broker.queue_locks import QueueLocks
from rocketha.broker.stats import BrokerStats
from rocketha.broker.subscription import MessageFilters
from rocketha.broker.topics import TopicConfig, TopicTable, system_topics
from rocketha.broker.unsaved import NotSavedYet
from rocketha.errors import ConfigError, RequestRefused
from rocketha.rates import MADE_AT_ONCE, MADE_EACH_MS, Rates
from rocketha.store.deleted_topics import DeletedTopics
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.store_files import QueueUnit


class ConfigView(Protocol):
    """The whole configuration as text, by Java's key names."""

    @property
    def version(self) -> DataVersion:
        """Moves on with every change of a running broker."""

    def texts(self) -> Mapping[str, str]:
        """Every key with its present value."""

    def change(self, changes: Mapping[str, str], wall_ms: int) -> None:
        """Change live keys, all or none.

        :raises ConfigError: changes are switched off, a key is unknown, not live, or its value is refused.
        """


@attrs.define
class FixedConfig:
    """A configuration that nobody may change: the default, and what tests use."""

    values: Mapping[str, str] = attrs.field(factory=dict)
    version: DataVersion = attrs.field(factory=DataVersion)

    def texts(self) -> Mapping[str, str]:
        """Every key with its present value."""
        return self.values

    def change(self, changes: Mapping[str, str], wall_ms: int) -> None:
        """:raises ConfigError: always."""
        raise ConfigError("this broker's configuration can not be changed while it runs")


class Maker(NamedTuple):
    """Whose request needs a topic or a group, and when."""

    host: str
    now_ms: int


def maker_of(host: str, now_ms: int) -> Maker | None:
    """Who sends from this address; None: this broker itself, which has none."""
    return Maker(host, now_ms) if host else None


class MessageStore(Protocol):
    """What request handlers need of the store (:class:`rocketha.store.patient_reads.PatientReads` has it)."""

    def together(self) -> AbstractContextManager[None]:
        """Reads of many queues are made in here, and nothing is done with them before it ends."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset the next message of the queue gets; 0 when there is no such queue."""

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the oldest message still there; 0 when there is no such queue."""

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        """The first offset stored at or after a time."""

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """When the oldest message of the queue was stored, -1 when there is none."""

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """When a message was stored, -1 when it is not there."""

    def physical_offset(self, topic: str, queue_id: int, offset: int) -> int:
        """Where in the commit log a message of a queue is, -1 when it is not there."""

    def earliest_message_time(self) -> int:
        """When the oldest message of the store was stored, -1 when there is none."""

    def message_at(self, physical_offset: int) -> bytes | None:
        """The record at an offset of the commit log."""

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueUnit]:
        """Entries of a queue, fewer where there are no more."""

    def topics(self) -> list[str]:
        """Topics that have queues, sorted."""

    def queue_ids(self, topic: str) -> list[int]:
        """A topic's queues that were ever written to, sorted."""

    @property
    def deleted_topics(self) -> DeletedTopics:
        """Those that were deleted while the log has records of them."""

    def delete_topic(self, topic: str, below: int | None = None) -> None:
        """Forget the topic's queues, and void its records below a log offset; of all of them where not given."""

    def expire_soon(self, log: bool) -> None:
        """Look for what has expired with the next round; of the log, too, whatever the hour."""

    @property
    def max_physical_offset(self) -> int:
        """The end of the commit log."""

    @property
    def min_physical_offset(self) -> int:
        """The beginning of the commit log."""

    @property
    def flushed_offset(self) -> int:
        """Up to where the commit log is on disk."""


@attrs.frozen
class BrokerIdentity:
    """Who this broker is."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str  # host:port that clients use
    ha_address: str = ""


@attrs.define
class BrokerRules:
    """The configuration keys that handlers obey; the service changes them when a live key changes.  Java's names in
    comments.
    """

    auto_create_topic: bool = True  # autoCreateTopicEnable
    auto_create_group: bool = True  # autoCreateSubscriptionGroup
    default_topic_queue_nums: int = 8  # defaultTopicQueueNums
    cluster_topic: bool = True  # clusterTopicEnable
    broker_topic: bool = True  # brokerTopicEnable
    trace_topic: str = ""  # msgTraceTopicName, where traceTopicEnable is on
    validate_system_topic: bool = True  # validateSystemTopicWhenUpdateTopic
    notify_consumer_ids_changed: bool = True  # notifyConsumerIdsChangedEnable
    server_side_reset_offset: bool = True  # useServerSideResetOffset
    split_metadata_size: int = 1000  # splitMetadataSize
    reject_pull_consumer: bool = False  # rejectPullConsumerEnable
    names_count: bool = False  # authorizationEnabled: the topic that a request names is that of the message it is about
    in_memory_bytes: int = 1 << 30  # nearer to the end of the log than this is "in memory" (Java: 40 % of RAM)


def _no_facts(now_ms: int) -> Mapping[str, str]:
    return {}


def _no_delays() -> bytes:
    return b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"offsetTable":{}}'


@attrs.define
class BrokerState:
    """The tables of one broker and what handlers want done."""

    identity: BrokerIdentity
    store: MessageStore
    stats: BrokerStats
    wall_ms: Callable[[], int]
    """The time of day, for what is written down: versions of tables, ids; see :mod:`rocketha.broker.request`."""
    rules: BrokerRules = attrs.field(factory=BrokerRules)
    config: ConfigView = attrs.field(factory=FixedConfig)
    topics: TopicTable = attrs.field(factory=TopicTable)
    groups: GroupTable = attrs.field(factory=GroupTable)
    offsets: ConsumerOffsets = attrs.field(factory=ConsumerOffsets)
    modes: RequestModes = attrs.field(factory=RequestModes)
    clients: Clients = attrs.field(factory=Clients)
    locks: QueueLocks = attrs.field(factory=QueueLocks)
    filters: MessageFilters = attrs.field(factory=MessageFilters)
    is_slave: bool = False
    runtime_facts: Callable[[int], Mapping[str, str]] = _no_facts
    """Keys of GET_BROKER_RUNTIME_INFO that only the service knows (disk ratios, delay progress, backlog); they win."""
    delay_offsets: Callable[[], bytes] = _no_delays
    """The compact JSON of config/delayOffset.json."""
    effects: list[Effect] = attrs.field(factory=list)
    made: Rates = attrs.field(factory=lambda: Rates(MADE_AT_ONCE, MADE_EACH_MS))
    """Topics and groups that came to be by use."""

    def __attrs_post_init__(self) -> None:
        for table in (self.topics, self.groups, self.offsets):
            # as in Java a table without a file is as old as its broker: a nameserver must see that a wiped one is new
            table.data_version.timestamp_ms = table.data_version.timestamp_ms or self.stats.boot_ms
        self.topics.install(
            system_topics(
                self.identity.cluster_name,
                self.identity.broker_name,
                auto_create=self.rules.auto_create_topic,
                default_queue_nums=self.rules.default_topic_queue_nums,
                cluster_topic=self.rules.cluster_topic,
                broker_topic=self.rules.broker_topic,
                trace_topic=self.rules.trace_topic,
            )
        )

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        taken, self.effects = self.effects, []
        return taken

    def topic_for_send(
        self, topic: str, default_topic: str, queue_nums: int, sys_flag: int, maker: Maker | None = None
    ) -> TopicConfig | None:
        """The topic a producer sends to, made from its default topic when it is missing and may be made.

        A retry topic of a group is made with one queue.  ``None``: answer TOPIC_NOT_EXIST.

        :param maker: who is the reason.
        :raises RequestRefused: 2, its host has made too many of late.
        """
        present = self.topics.get(topic)
        if present is not None:
            return present
        self._check_rate(maker)
        config = self._make_for_send(topic, default_topic, queue_nums, sys_flag)
        if config is not None:
            self._made(maker)
        return config

    def _make_for_send(self, topic: str, default_topic: str, queue_nums: int, sys_flag: int) -> TopicConfig | None:
        if topic.startswith(names.RETRY_PREFIX):
            return self.topic_for_group(topic, 1, sys_flag=sys_flag)
        rules = self.rules
        config = self.topics.create_from_default(
            topic, default_topic, queue_nums, sys_flag, rules.auto_create_topic, self.wall_ms()
        )
        if config is not None:
            self.effects += [SaveConfig("topics"), RegisterTopics((topic,))]
        return config

    def topic_for_group(
        self,
        topic: str,
        queue_nums: int,
        *,
        order: bool = False,
        sys_flag: int = 0,
        perm: int = permissions.READ_WRITE,
    ) -> TopicConfig:
        """A group's retry or DLQ topic, made when it is missing."""
        config, changed = self.topics.create_for_group(
            topic, queue_nums, self.wall_ms(), order=order, sys_flag=sys_flag, perm=perm
        )
        if changed:
            self.effects += [SaveConfig("topics"), RegisterTopics((topic,))]
        return config

    def need_saved(self, topic: str) -> None:
        """A message of this topic is about to be staged.

        :raises NotSavedYet: a crash would take the topic back.
        """
        if topic in self.topics.unsaved:
            raise NotSavedYet(topic)

    def _check_rate(self, maker: Maker | None) -> None:
        if maker is not None and not self.made.may(maker.host, maker.now_ms):
            remark = f"{maker.host} makes too many topics and groups: later"
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, remark)

    def _made(self, maker: Maker | None) -> None:
        if maker is not None:
            self.made.take(maker.host, maker.now_ms)

    def find_group(self, group: str, maker: Maker | None = None) -> SubscriptionGroupConfig | None:
        """The group's configuration, made when groups come to be by use; ``None``: answer
        SUBSCRIPTION_GROUP_NOT_EXIST.

        A slave's table is its master's: there the group gets what it would have, and nothing is made.

        :param maker: who is the reason.
        :raises RequestRefused: 2, its host has made too many of late.
        """
        present = self.groups.get(group)
        if present is not None:
            return present
        if self.is_slave:
            return self.groups.would_be(group, self.rules.auto_create_group)
        self._check_rate(maker)
        config = self.groups.find(group, self.rules.auto_create_group, self.wall_ms())
        if config is not None:
            self._made(maker)
            self.effects.append(SaveConfig("groups"))
        return config

    def notify(self, change: GroupChange | None) -> None:
        """Tell the members of a group that it changed."""
        if change is None or not self.rules.notify_consumer_ids_changed:
            return
        fields = {"consumerGroup": change.group}
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        self.effects += [NotifyClient(connection_id, code, fields) for connection_id in change.connection_ids]

    def audit(self, event: str, peer: str, **details: str) -> None:
        """Have an administrative act logged."""
        self.effects.append(Audit(event, peer, details))
