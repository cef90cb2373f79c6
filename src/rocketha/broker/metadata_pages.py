"""Taking a table from a master page by page: GET_ALL_TOPIC_CONFIG (21) and GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201).

Pure.  Theory of operation.  A page is asked for by its first entry's place in the sorted table and by the version of
the table that the earlier pages had; a master whose version is another one now starts again at 0, and so do we.  The
table is whole when as many entries came as the master says it has, all under one version.  Nothing less is ever used:
half an answer changes nothing.  A master before 5.3 gives no total and everything at once.

Java's own slave stops one entry early (``seq >= total - 1``); we do not.

Java: ``BrokerOuterAPI.getAllTopicConfig``, ``getAllSubscriptionGroupConfig``; ``GetAllTopicConfigRequestHeader``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs

from rocketha.broker.data_version import DataVersion
from rocketha.broker.groups import GROUPS_MAX, SubscriptionGroupConfig, read_groups
from rocketha.broker.topics import TOPICS_MAX, TopicConfig, read_topics
from rocketha.errors import RemoteProtocolError
from rocketha.store.deleted_topics import Deleted, read_deleted
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode

PAGE_SIZE = 2000
"""Entries asked for at a time, as Java does."""
DELETED_FIELD = "rocketha.deletedTopics"
"""Of the request for topics: whether the deleted ones are wanted too.  Java does not look at it."""
RESTARTS_MAX = 5
"""Times that the table may change while it is being taken; then the next round tries again."""

Entry = TypeVar("Entry")
Forbidden = dict[str, dict[str, int]]
_Read = Callable[[Any], tuple[dict[str, Entry], Forbidden]]


@attrs.frozen
class Kind(Generic[Entry]):
    """One of the two tables that travel in pages: names of header fields, and how a body is read."""

    code: int
    first_field: str
    count_field: str
    total_field: str
    total_max: int
    read: _Read[Entry]


def _topics(value: Any) -> tuple[dict[str, TopicConfig], Forbidden]:
    return read_topics(value), {}


def _groups(value: Any) -> tuple[dict[str, SubscriptionGroupConfig], Forbidden]:
    groups = read_groups(value)
    return groups.table, groups.forbidden


TOPICS: Kind[TopicConfig] = Kind(
    RequestCode.GET_ALL_TOPIC_CONFIG, "topicSeq", "maxTopicNum", "totalTopicNum", TOPICS_MAX, _topics
)
GROUPS: Kind[SubscriptionGroupConfig] = Kind(
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "groupSeq", "maxGroupNum", "totalGroupNum", GROUPS_MAX, _groups
)


class Pages(Generic[Entry]):
    """One table being taken.

    :ivar version: of the pages so far; None before the first.
    :ivar table: the entries so far.
    :ivar forbidden: groups only: what is taken away from them.
    :ivar deleted: topics only: what a master of ours deleted while its log has records of it, and where that log
        begins; None of a Java master's.
    :ivar whole: all of the table is here.
    """

    def __init__(self, kind: Kind[Entry]) -> None:
        self._kind = kind
        self._seq = 0
        self._restarts = 0
        self.version: DataVersion | None = None
        self.table: dict[str, Entry] = {}
        self.forbidden: Forbidden = {}
        self.deleted: tuple[dict[str, Deleted], int] | None = None
        self.whole = False

    def fields(self) -> dict[str, str]:
        """The header of the request for the next page."""
        version = "" if self.version is None else json_dialect.dumps(self.version.as_json()).decode()
        kind = self._kind
        fields = {kind.first_field: str(self._seq), kind.count_field: str(PAGE_SIZE), "dataVersion": version}
        if kind is TOPICS and not self._seq:
            fields[DELETED_FIELD] = "true"
        return fields

    def take(self, fields: Mapping[str, str], body: bytes) -> None:
        """A page came.

        :raises RemoteProtocolError: it is none, or the master does not give what it says it has.
        """
        kind = self._kind
        value = json_dialect.loads(body)
        page, forbidden = kind.read(value)
        version = DataVersion.from_json(value.get("dataVersion"))
        deleted = _deleted(value) or self.deleted
        total = _total(fields.get(kind.total_field), kind)
        if self.version is None:
            self.version = version
        if total is None:
            self.deleted = deleted
            self._add(page, forbidden)
            self.whole = True
            return
        if version != self.version:
            self._restart(version)
            return
        self.deleted = deleted
        self._add(page, forbidden)
        self._seq += len(page)
        if not page or len(self.table) != self._seq or self._seq > total:
            raise RemoteProtocolError(f"{self._seq} entries came of {total}, {len(self.table)} of them different")
        self.whole = self._seq == total

    def _add(self, page: Mapping[str, Entry], forbidden: Mapping[str, dict[str, int]]) -> None:
        self.table.update(page)
        self.forbidden.update(forbidden)

    def _restart(self, version: DataVersion) -> None:
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            raise RemoteProtocolError(f"the table changed {self._restarts} times while it was read")
        self._seq, self.version = 0, version
        self.table, self.forbidden = {}, {}


def _deleted(value: Any) -> tuple[dict[str, Deleted], int] | None:
    if "deletedTopics" not in value:
        return None
    begin = value.get("logBegin")
    if not isinstance(begin, int):
        raise RemoteProtocolError("logBegin is no place in the log")
    return read_deleted(value["deletedTopics"]), begin


def _total(text: str | None, kind: Kind[Any]) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= kind.total_max):
        raise RemoteProtocolError(f"{kind.total_field} is {text[:40]!r}")
    return int(text)
