"""The table of consumer groups this broker knows.

Pure.  Must not know who is connected (:mod:`rocketha.broker.clients`).  A group comes to be when its first member
sends a heartbeat (autoCreateSubscriptionGroup) or when an administrator makes it.

Java: ``SubscriptionGroupManager``, ``SubscriptionGroupConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rocketha.broker import names
from rocketha.broker.attributes import GROUP_ATTRIBUTES, alter
from rocketha.broker.data_version import DataVersion, VersionedTable
from rocketha.broker.row_texts import RowTexts, file_text, pretty_row
from rocketha.broker.topics import SortedNames
from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire import json_dialect, json_members
from rocketha.wire.codes import ResponseCode
from rocketha.wire.fields import refused

GROUPS_MAX = 100_000
RETRY_QUEUE_NUMS_MAX = 1024
TABLE_MAX = 1_000_000
"""Groups in a table that is read: a file's or a master's is not ours to refuse."""

PREDEFINED_GROUPS = (
    names.TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""The groups every broker has (``SubscriptionGroupManager.init``)."""

_MEMBERS_MAX = 4096
"""Attributes of a group, and what else it holds several of."""


def _table(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return json_members.table(found, name, _MEMBERS_MAX)


# Java's key, our attribute, what reads it: the order is fastjson's (alphabetical)
_KEYS: tuple[tuple[str, str, Callable[[Mapping[str, Any], str], Any]], ...] = (
    ("attributes", "attributes", lambda found, name: json_members.text_table(found, name, _MEMBERS_MAX)),
    ("brokerId", "broker_id", json_members.long),
    ("consumeBroadcastEnable", "consume_broadcast_enable", json_members.flag),
    ("consumeEnable", "consume_enable", json_members.flag),
    ("consumeFromMinEnable", "consume_from_min_enable", json_members.flag),
    ("consumeMessageOrderly", "consume_message_orderly", json_members.flag),
    ("consumeTimeoutMinute", "consume_timeout_minute", json_members.integer),
    ("groupName", "group_name", json_members.text),
    ("groupRetryPolicy", "group_retry_policy", _table),
    ("groupSysFlag", "group_sys_flag", json_members.integer),
    ("notifyConsumerIdsChangedEnable", "notify_consumer_ids_changed_enable", json_members.flag),
    ("retryMaxTimes", "retry_max_times", json_members.integer),
    ("retryQueueNums", "retry_queue_nums", json_members.integer),
    ("subscriptionDataSet", "subscription_data_set", lambda found, name: json_members.rows(found, name, _MEMBERS_MAX)),
    ("whichBrokerWhenConsumeSlowly", "which_broker_when_consume_slowly", json_members.long),
)


@attrs.frozen
class SubscriptionGroupConfig:
    """One group as Java's ``SubscriptionGroupConfig`` has it."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15  # push consumers only
    subscription_data_set: list[Any] | None = None  # kept as it came; nothing here reads it
    attributes: Mapping[str, str] = attrs.field(factory=dict)

    def as_json(self) -> dict[str, Any]:
        """In fastjson's order; a subscriptionDataSet that is not there is left out."""
        values = {key: getattr(self, attribute) for key, attribute, _ in _KEYS}
        if self.subscription_data_set is None:
            del values["subscriptionDataSet"]
        return values

    @classmethod
    def from_json(cls, value: Any) -> SubscriptionGroupConfig:
        """From a parsed object; a missing key has Java's default.

        :raises RemoteProtocolError: a key has the wrong type or a count is out of range.
        """
        row = json_members.as_object(value, "a group's configuration")
        found: dict[str, Any] = {"group_name": ""}
        for key, attribute, read in _KEYS:
            if row.get(key) is not None:
                found[attribute] = read(row, key)
        config = cls(**found)
        if not 0 <= config.retry_queue_nums <= RETRY_QUEUE_NUMS_MAX:
            allowed = f"allowed is 0 to {RETRY_QUEUE_NUMS_MAX}"
            raise RemoteProtocolError(f"retryQueueNums is {config.retry_queue_nums}, {allowed}")
        return config


@attrs.frozen
class Groups:
    """A table of groups as it travels: configurations and, for some of them, topic -> bits that are taken away."""

    table: dict[str, SubscriptionGroupConfig]
    forbidden: dict[str, dict[str, int]]


def read_groups(value: Any) -> Groups:
    """The table in a parsed ``SubscriptionGroupWrapper``: a file's, a master's.

    :raises RemoteProtocolError: it is none.
    """
    found = json_members.as_object(value, "a table of groups")
    table = json_members.table(found, "subscriptionGroupTable", TABLE_MAX)
    forbidden = json_members.table(found, "forbiddenTable", TABLE_MAX)
    groups = {name: _named(SubscriptionGroupConfig.from_json(entry), name) for name, entry in table.items()}
    bits = {name: _bits(topics) for name, topics in forbidden.items()}
    return Groups(groups, {name: topics for name, topics in bits.items() if topics})


class GroupTable(VersionedTable):
    """All consumer groups by name."""

    def __init__(self) -> None:
        super().__init__()
        self.table: dict[str, SubscriptionGroupConfig] = {
            name: SubscriptionGroupConfig(name) for name in PREDEFINED_GROUPS
        }
        self.forbidden: dict[str, dict[str, int]] = {}  # group -> topic -> bits that are taken away
        self._names = SortedNames()
        self._texts: RowTexts[SubscriptionGroupConfig] = RowTexts(_row)

    def __contains__(self, group: object) -> bool:
        return group in self.table

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's configuration."""
        return self.table.get(group)

    def find(self, group: str, auto_create: bool, wall_ms: int) -> SubscriptionGroupConfig | None:
        """The group, made with the defaults when it is missing and may be made.

        :returns: ``None`` when groups are not created by use, the name is bad, or the table is full.
        """
        present = self.table.get(group)
        if present is not None:
            return present
        config = self.would_be(group, auto_create)
        if config is not None:
            self.table[group] = config
            self._changed(wall_ms)
        return config

    def would_be(self, group: str, auto_create: bool) -> SubscriptionGroupConfig | None:
        """What :meth:`find` makes of a group that is missing."""
        if not (auto_create or names.is_system_group(group)):
            return None
        if names.group_problem(group) is not None or len(self.table) >= GROUPS_MAX:
            return None
        return SubscriptionGroupConfig(group)

    def update(self, wanted: SubscriptionGroupConfig, wall_ms: int) -> SubscriptionGroupConfig:
        """An administrator's create or update; ``wanted.attributes`` are signed changes.

        :raises RequestRefused: 29 bad name, 1 bad attribute or table full.
        """
        names.check_group(wanted.group_name)
        present = self.table.get(wanted.group_name)
        if present is None and len(self.table) >= GROUPS_MAX:
            raise refused(f"this broker has {GROUPS_MAX} groups and takes no more", ResponseCode.SYSTEM_ERROR)
        current = present.attributes if present is not None else {}
        altered = alter(present is None, GROUP_ATTRIBUTES, current, wanted.attributes)
        config = attrs.evolve(wanted, attributes=altered)
        self.table[config.group_name] = config
        self._changed(wall_ms)
        return config

    def delete(self, group: str, wall_ms: int) -> bool:
        """Forget a group; whether it was there."""
        self.forbidden.pop(group, None)
        if self.table.pop(group, None) is None:
            return False
        self._changed(wall_ms)
        return True

    def forbidden_bits(self, group: str, topic: str) -> int:
        """Permission bits taken from this group on this topic."""
        topics = self.forbidden.get(group)
        return topics.get(topic, 0) if topics else 0

    def forbid(self, group: str, topic: str, bit: int, on: bool, wall_ms: int) -> None:
        """Take a permission bit away or give it back."""
        bits = self.forbidden_bits(group, topic)
        bits = bits | bit if on else bits & ~bit
        topics = self.forbidden.setdefault(group, {})
        if bits:
            topics[topic] = bits
        else:
            topics.pop(topic, None)
        if not topics:
            del self.forbidden[group]
        self._changed(wall_ms)

    def page(self, version_text: str | None, first: int, count: int) -> dict[str, SubscriptionGroupConfig]:
        """One page of the table sorted by name; a reader whose version is not the present one starts again at 0."""
        if DataVersion.from_text(version_text) != self.data_version:
            first = 0
        return {name: self.table[name] for name in self._names.page(self.table, self.data_version, first, count)}

    def replace(
        self,
        table: dict[str, SubscriptionGroupConfig],
        forbidden: dict[str, dict[str, int]],
        version: DataVersion,
    ) -> None:
        """The whole table is a master's from now on."""
        self.table, self.forbidden = table, forbidden
        self.data_version.assign(version)
        self.dirty = True

    def as_json(self, groups: Mapping[str, SubscriptionGroupConfig] | None = None) -> dict[str, Any]:
        """The file's content and the body of GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
        chosen = self.table if groups is None else groups
        return {
            "dataVersion": self.data_version.as_json(),
            "forbiddenTable": {name: bits for name, bits in self.forbidden.items() if name in chosen},
            "subscriptionGroupTable": {name: config.as_json() for name, config in chosen.items()},
        }

    def dump(self) -> bytes:
        """The text of config/subscriptionGroup.json."""
        return self.dump_later()()

    def dump_later(self) -> Callable[[], bytes]:
        """The same of the table as it is now, made by a thread."""
        groups, version = dict(self.table), json_dialect.dumps_pretty(self.data_version.as_json(), 1)
        forbidden = {name: dict(bits) for name, bits in self.forbidden.items() if name in groups}
        return lambda: file_text(
            {
                "dataVersion": version,
                "forbiddenTable": json_dialect.dumps_pretty(forbidden, 1),
                "subscriptionGroupTable": self._texts.table(groups),
            }
        )

    def load(self, data: bytes, path: str = "config/subscriptionGroup.json") -> None:
        """Add what the file holds to the predefined groups.

        :raises CorruptStore: it is no such file.
        """
        try:
            value = json_dialect.loads(data, json_dialect.FILE_BYTES_MAX)
            loaded = read_groups(value)
        except RemoteProtocolError as problem:
            raise CorruptStore(path, 0, str(problem)) from None
        self.table.update(loaded.table)
        self.forbidden.update(loaded.forbidden)
        self.data_version.assign(DataVersion.from_json(value.get("dataVersion")))


def _row(name: str, config: SubscriptionGroupConfig) -> bytes:
    """One entry of config/subscriptionGroup.json."""
    return pretty_row(name, config.as_json())


def _named(config: SubscriptionGroupConfig, name: str) -> SubscriptionGroupConfig:
    return config if config.group_name == name else attrs.evolve(config, group_name=name)


def _bits(topics: Any) -> dict[str, int]:
    found = json_members.as_object(topics, "forbiddenTable of a group")
    numbers = {topic: json_members.integer(found, topic, 0) for topic in found}
    return {topic: bits for topic, bits in numbers.items() if bits > 0}
