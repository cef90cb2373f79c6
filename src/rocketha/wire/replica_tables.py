"""What a slave asks its master for beside the log: 21 topics, 201 groups, 43 and 45 offsets, 402 request modes.

Pure.  Knows requests, pages and the tables' outer shape; what a topic or group may be is judged by ``broker/`` when an
entry is taken, and so is what changed.

Theory of operation.  Topics and groups come in pages.  A master whose table changed meanwhile answers with another
version and begins again; so does :class:`Pages`, a bounded number of times.  A master of an older version sends all at
once and no total.  (Java's slave stops one entry short of the total, so it misses the 2,001st topic.)

fastjson leaves queues and levels unquoted in offset tables.  Quoting them first lets the fast JSON reader do the work;
where such digits stand inside a text the quoted result is no JSON, and the tolerant reader gets the original.

Java: ``SlaveSynchronize``, ``BrokerOuterAPI``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.controller_calls import Call
from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.json_members import INT_MAX, LONG_MAX, header_number
from rocketha.wire.remoting import Command
from rocketha.wire.spec import ha_bodies
from rocketha.wire.spec.format import Format

ENTRIES_MAX = 200_000
PAGE = 2_000
"""Entries asked for at once, as Java does."""

RESTARTS_MAX = 5
QUEUES_MAX = 65_536
"""Of one topic in an offset table."""

LEVELS_MAX = 1_024
DELAY_OFFSETS_LIMIT = 1 << 20
"""Bytes; Java has 18 levels, a few hundred bytes."""

REQUEST_MODES_LIMIT = 4 << 20
"""Bytes; a mode takes about 120."""

_BARE_KEY = re.compile(rb"([{,])(-?[0-9]{1,19}):")
_QUEUE = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_SMALL = {str(number): number for number in range(1024)}

Json = dict[str, Any]


class Table(NamedTuple):
    """Topics or groups by name, as their JSON objects.

    ``version`` is the ``DataVersion`` object; ``forbidden`` (groups only) is group to topic to bits.
    """

    version: Json
    entries: Mapping[str, Json]
    forbidden: Mapping[str, Json]


class Offsets(NamedTuple):
    """Consumers' offsets: ``topic@group`` to queue to offset; ``pulled`` is what was last given, often empty."""

    version: Json
    committed: Mapping[str, Mapping[int, int]]
    pulled: Mapping[str, Mapping[int, int]]


class DelayOffsets(NamedTuple):
    """How far each delay level was delivered."""

    version: Json
    offsets: Mapping[int, int]


# --- topics and groups


class Pages:
    """Collects one table from its pages: ask with :meth:`call`, give the answer to :meth:`take`, until it is whole."""

    def __init__(self, code: RequestCode, first: str, count: str, total: str, key: str) -> None:
        self._code = code
        self._first, self._count, self._total, self._key = first, count, total, key
        self._entries: dict[str, Json] = {}
        self._forbidden: dict[str, Json] = {}
        self._version: Json | None = None
        self._restarts = 0

    def call(self) -> Call:
        """The next request."""
        version = b"" if self._version is None else json_dialect.dumps(self._version)
        fields = {self._first: str(len(self._entries)), "dataVersion": version.decode(), self._count: str(PAGE)}
        return Call(self._code, fields)

    def take(self, answer: Command) -> Table | None:
        """The whole table, or None: ask again.

        :raises RequestRefused: the master's refusal.
        :raises RemoteProtocolError: it is no such table, too large, never complete, or does not stand still.
        """
        _granted(answer)
        table = read_table(answer.body, self._key)
        if self._version is not None and table.version != self._version:
            self._begin_again(answer, table)
            return None
        self._version = table.version
        before = len(self._entries)
        self._entries |= table.entries
        self._forbidden |= table.forbidden
        if len(self._entries) > ENTRIES_MAX:
            raise RemoteProtocolError(f"{self._key} has more than {ENTRIES_MAX} entries")
        whole = Table(self._version, self._entries, self._forbidden)
        if self._total not in answer.fields:
            return whole
        total = header_number(answer.fields, self._total, 0, INT_MAX)
        if len(self._entries) >= total:
            return whole
        if len(self._entries) == before:
            raise RemoteProtocolError(f"{self._key} ends after {before} entries of {total}")
        return None

    def _begin_again(self, answer: Command, table: Table) -> None:
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            raise RemoteProtocolError(f"{self._key} changed {self._restarts} times while it was read")
        self._version = table.version
        self._entries.clear()
        self._forbidden.clear()


def topic_pages() -> Pages:
    """21, for one round."""
    return Pages(RequestCode.GET_ALL_TOPIC_CONFIG, "topicSeq", "maxTopicNum", "totalTopicNum", "topicConfigTable")


def group_pages() -> Pages:
    """201, for one round."""
    return Pages(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        "groupSeq",
        "maxGroupNum",
        "totalGroupNum",
        "subscriptionGroupTable",
    )


def read_table(data: bytes, key: str) -> Table:
    """One page of topics or groups."""
    found = json_members.json_object(data, "a table")
    entries = json_members.table(found, key, ENTRIES_MAX)
    forbidden = json_members.table(found, "forbiddenTable", ENTRIES_MAX)
    for name, entry in (*entries.items(), *forbidden.items()):
        json_members.as_object(entry, f"{key} of {name[:80]!r}")
    return Table(_version(found), entries, forbidden)


# --- offsets and modes


def get_offsets() -> Call:
    """43."""
    return Call(RequestCode.GET_ALL_CONSUMER_OFFSET, {})


def offsets(answer: Command) -> Offsets:
    """43."""
    _granted(answer)
    return read_offsets(answer.body)


def read_offsets(data: bytes) -> Offsets:
    """The body of 43."""
    found = _loads(data, "an offset table")
    both = [
        {key: _numbers(value, key, QUEUES_MAX) for key, value in json_members.table(found, name, ENTRIES_MAX).items()}
        for name in ("offsetTable", "pullOffsetTable")
    ]
    return Offsets(_version(found), *both)


def get_delay_offsets() -> Call:
    """45."""
    return Call(RequestCode.GET_ALL_DELAY_OFFSET, {})


def delay_offsets(answer: Command) -> DelayOffsets:
    """45; the body itself is what Java writes to delayOffset.json."""
    _granted(answer)
    return read_delay_offsets(answer.body)


def read_delay_offsets(data: bytes) -> DelayOffsets:
    """The body of 45."""
    if len(data) > DELAY_OFFSETS_LIMIT:
        raise RemoteProtocolError(f"a table of delay offsets of {len(data)} bytes, at most {DELAY_OFFSETS_LIMIT}")
    found = _loads(data, "a table of delay offsets")
    return DelayOffsets(_version(found), _numbers(found.get("offsetTable") or {}, "offsetTable", LEVELS_MAX))


def get_request_modes() -> Call:
    """402."""
    return Call(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, {})


def request_modes(answer: Command) -> dict[str, Json]:
    """402: topic to group to mode."""
    _granted(answer)
    return read_request_modes(answer.body)


def read_request_modes(data: bytes) -> dict[str, Json]:
    """The body of 402."""
    if len(data) > REQUEST_MODES_LIMIT:
        raise RemoteProtocolError(f"a table of request modes of {len(data)} bytes, at most {REQUEST_MODES_LIMIT}")
    found = json_members.table(json_members.json_object(data, "a table"), "messageRequestModeMap", ENTRIES_MAX)
    return {topic: json_members.as_object(groups, topic[:80]) for topic, groups in found.items()}


def _version(found: Json) -> Json:
    return json_members.table(found, "dataVersion", 16)


def _numbers(value: Any, what: str, count_max: int) -> dict[int, int]:
    """Queue or level to offset."""
    found: dict[int, int] = {}
    given = json_members.as_object(value, what[:300])
    if len(given) > count_max:
        raise RemoteProtocolError(f"{what[:300]} has {len(given)} offsets, at most {count_max}")
    for key, offset in given.items():
        number = _SMALL.get(key)
        if number is None:
            number = int(key) if _QUEUE.fullmatch(key) else -2
            if not -1 <= number <= INT_MAX:
                raise RemoteProtocolError(f"{what[:300]} has a queue {key[:40]!r}")
        if type(offset) is not int and offset is not None:
            offset = json_members.long(given, key)
        if offset is None or not -1 <= offset <= LONG_MAX:
            raise RemoteProtocolError(f"{what[:300]} has an offset {str(offset)[:40]!r}")
        found[number] = offset
    return found


def _loads(data: bytes, what: str) -> Json:
    """As it is (our own masters); with its keys quoted (Java's); or by the tolerant reader, which also has the last
    word on what is no JSON at all.
    """
    json_members.check_members(data, what)
    for quoting in (False, True):
        text = _BARE_KEY.sub(rb'\1"\2":', data) if quoting else data
        try:
            return json_members.as_object(json_dialect.loads(text, 0), what)
        except RemoteProtocolError:
            continue
    return json_members.json_object(data, what)


def _granted(answer: Command) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise RequestRefused(answer.code, (answer.remark or "")[:1000])


FORMATS = (
    Format(
        name="topic-table",
        spec=ha_bodies.TOPIC_TABLE,
        parse=lambda data: read_table(data, "topicConfigTable"),
        build=None,
        bound=FRAME_LIMIT,
        doc="The answer to GET_ALL_TOPIC_CONFIG, whole or one page (TopicConfigAndMappingSerializeWrapper).",
    ),
    Format(
        name="group-table",
        spec=ha_bodies.GROUP_TABLE,
        parse=lambda data: read_table(data, "subscriptionGroupTable"),
        build=None,
        bound=FRAME_LIMIT,
        doc="The answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG, whole or one page (SubscriptionGroupWrapper).",
    ),
    Format(
        name="offset-table",
        spec=ha_bodies.OFFSET_TABLE,
        parse=read_offsets,
        build=None,
        bound=FRAME_LIMIT,
        doc="The answer to GET_ALL_CONSUMER_OFFSET (ConsumerOffsetSerializeWrapper).",
    ),
    Format(
        name="delay-offsets",
        spec=ha_bodies.DELAY_OFFSETS,
        parse=read_delay_offsets,
        build=None,
        bound=DELAY_OFFSETS_LIMIT,
        doc="The answer to GET_ALL_DELAY_OFFSET (DelayOffsetSerializeWrapper).",
    ),
    Format(
        name="request-modes",
        spec=ha_bodies.REQUEST_MODES,
        parse=read_request_modes,
        build=None,
        bound=REQUEST_MODES_LIMIT,
        doc="The answer to GET_ALL_MESSAGE_REQUEST_MODE (MessageRequestModeSerializeWrapper).",
    ),
)
