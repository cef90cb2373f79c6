"""The body of REGISTER_BROKER (103): a broker's topics and their version.

Knows bytes and limits, not what a registration does.  Theory of operation: three shapes, told apart by the request
header: JSON (``compressed=false``, what every shipped broker sends), a deflated sequence of counted texts
(``compressed=true``, deprecated), and the bare topic wrapper of brokers below version 37.  Every count and length is
compared with the bytes that are there before anything is allocated; inflating stops at ``INFLATED_BYTES_MAX`` and at
100 times the body's size. Java class: ``RegisterBrokerBody`` (which allocates whatever the peer says and inflates
without an end).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.namesrv import data_version
from rocketha.namesrv.data_version import DataVersion
from rocketha.wire import java_types, json_dialect, json_members
from rocketha.wire.codes import ResponseCode

VERSION_WHOLE_BODY = 37
"""``MQVersion`` V3_0_11: brokers below it send the topic wrapper alone."""
VERSION_MAPPINGS = 413
"""``MQVersion`` V5_0_0: from it on the compressed form ends with static topic mappings."""

INFLATED_BYTES_MAX = 64 << 20
INFLATED_RATIO_MAX = 100
INFLATED_BYTES_FLOOR = 64 << 10
"""A tiny body may inflate to this much whatever the ratio."""
TEXT_BYTES_MAX = 1 << 20
"""Longest single text in the compressed form: a static topic's mapping, some 14 bytes for each of its queues."""
NAME_CHARACTERS_MAX = 255
QUEUES_MAX = 65_536
PERM_MAX = 15
TOPICS_MAX = 1_000_000
MEMBERS_MAX = 4096
FILTER_SERVERS_MAX = 64
_INT = struct.Struct(">i")
_T = TypeVar("_T")


@attrs.frozen(slots=True)
class Topic:
    """What a route needs of a topic's configuration.  ``perm`` bits: 8 priority, 4 read, 2 write, 1 inherit."""

    name: str
    read_queues: int = 4
    write_queues: int = 4
    perm: int = 6
    sys_flag: int = 0


@attrs.frozen(slots=True)
class RegisterBody:
    """One registration's content.

    ``mappings`` (static topics) is topic to mapping object, passed on as it came.  ``filter_servers`` is ``None`` where
    the broker is too old to send them.
    """

    version: DataVersion = attrs.Factory(DataVersion)
    topics: tuple[Topic, ...] = ()
    mappings: Mapping[str, Mapping[str, Any]] = attrs.Factory(dict)
    filter_servers: tuple[str, ...] | None = ()


def parse(body: bytes, compressed: bool, version: int) -> RegisterBody:
    """Read a body.

    :param version: the ``MQVersion`` ordinal of the broker.
    :raises RequestRefused: SYSTEM_ERROR (1) with the reason, for anything malformed or over a limit.
    """
    if not body:
        return RegisterBody()
    try:
        if version < VERSION_WHOLE_BODY:
            return attrs.evolve(_from_wrapper(_object(body), ()), filter_servers=None)
        if compressed:
            return _from_compressed(_inflate(body), version)
        whole = _object(body)
        wrapper = json_members.table(whole, "topicConfigSerializeWrapper", MEMBERS_MAX)
        return _from_wrapper(wrapper, _filter_servers(whole))
    except RemoteProtocolError as error:
        raise refused(str(error)) from None


def refused(reason: str) -> RequestRefused:
    """Java answers code 1 for a body it cannot decode."""
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"Failed to decode RegisterBrokerBody: {reason}")


def is_name(name: Any) -> bool:
    """Whether it may stand in a route: not empty, not endless, printable."""
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS_MAX and name.isprintable()


def check_name(name: Any, what: str) -> str:
    """A name as it may stand in a route.

    :raises RequestRefused: it may not.
    """
    if not is_name(name):
        raise refused(f"{what} is not a name of 1 to {NAME_CHARACTERS_MAX} printable characters")
    return str(name)


def _object(body: bytes) -> dict[str, Any]:
    json_members.check_members(body, "the body")
    return json_members.as_object(json_dialect.loads_large(body), "the body")


def _from_wrapper(wrapper: dict[str, Any], filters: tuple[str, ...]) -> RegisterBody:
    table = json_members.table(wrapper, "topicConfigTable", TOPICS_MAX)
    mappings = json_members.table(wrapper, "topicQueueMappingInfoMap", TOPICS_MAX)
    return RegisterBody(
        version=data_version.from_json(wrapper.get("dataVersion")),
        topics=tuple(_topic(key, item) for key, item in table.items()),
        mappings=dict(_mapping(item) for item in map(java_types.bean, mappings.values()) if item is not None),
        filter_servers=filters,
    )


def _topic(key: str, value: Any) -> Topic:
    config = json_members.as_object(value, f"topic {key[:NAME_CHARACTERS_MAX]!r}")
    name = check_name(json_members.text(config, "topicName", key), "a topic's name")
    try:
        return Topic(
            name,
            json_members.integer(config, "readQueueNums", 16, 0, QUEUES_MAX),
            json_members.integer(config, "writeQueueNums", 16, 0, QUEUES_MAX),
            json_members.integer(config, "perm", 6, 0, PERM_MAX),
            json_members.integer(config, "topicSysFlag", 0),
        )
    except RemoteProtocolError as problem:
        raise RemoteProtocolError(f"topic {name}: {problem}") from None


def _mapping(value: Any) -> tuple[str, Mapping[str, Any]]:
    mapping = json_members.as_object(value, "a static topic mapping")
    check_name(json_members.text(mapping, "bname"), "a static topic mapping's bname")
    return check_name(json_members.text(mapping, "topic"), "a static topic mapping's topic"), mapping


def _filter_servers(whole: Mapping[str, Any]) -> tuple[str, ...]:
    """Java keeps whatever stands there; what is no name helps nobody, and is left out."""
    found = json_members.text_list(whole, "filterServerList", FILTER_SERVERS_MAX)
    return tuple(item for item in found if is_name(item))


def _inflate(body: bytes) -> bytes:
    limit = min(INFLATED_BYTES_MAX, max(INFLATED_BYTES_FLOOR, INFLATED_RATIO_MAX * len(body)))
    machine = zlib.decompressobj()
    try:
        data = machine.decompress(body, limit + 1)
    except zlib.error as error:
        raise refused(str(error)) from None
    if len(data) > limit:
        raise refused(f"{len(body)} bytes inflate to more than {limit}")
    if not machine.eof:
        raise refused("the compressed data ends too early")
    return data


@attrs.define(slots=True)
class _Reader:
    """Counted texts, one after the other."""

    data: bytes
    position: int = 0

    def integer(self, what: str) -> int:
        if len(self.data) - self.position < 4:
            raise refused(f"ends before {what}")
        (value,) = _INT.unpack_from(self.data, self.position)
        self.position += 4
        return int(value)

    def text(self, what: str, limit: int = TEXT_BYTES_MAX) -> str:
        size = self.integer(f"the length of {what}")
        left = len(self.data) - self.position
        if not 0 <= size <= min(limit, left):
            raise refused(f"the length of {what} is {size}: allowed is up to {limit}, there are {left} bytes")
        raw = self.data[self.position : self.position + size]
        self.position += size
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise refused(f"{what} is not UTF-8") from None

    def items(self, what: str, read: Callable[[str], _T]) -> list[_T]:
        count = self.integer(f"the number of {what}s")
        # Each is at least its own length word, so that a count is bounded by the bytes that are there.
        if not 0 <= count <= (len(self.data) - self.position) // 4:
            raise refused(f"the number of {what}s is {count}, more than fit into what follows")
        return [read(self.text(what)) for _ in range(count)]


def _from_compressed(data: bytes, version: int) -> RegisterBody:
    reader = _Reader(data)
    stored = data_version.from_json(json_dialect.loads(reader.text("the data version")))
    topics = tuple(reader.items("topic", _topic_from_text))
    filters = _filter_servers({"filterServerList": json_dialect.loads(reader.text("the filter server list"))})
    mappings: dict[str, Mapping[str, Any]] = {}
    if version >= VERSION_MAPPINGS:
        mappings = dict(reader.items("static topic mapping", lambda text: _mapping(json_dialect.loads(text))))
    return RegisterBody(stored, topics, mappings, filters)


def _topic_from_text(text: str) -> Topic:
    """``name readQ writeQ perm filterType attributesJson``; the attributes may hold blanks and do not matter here."""
    parts = text.split(" ", 5)
    if len(parts) < 5 or not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts[1:4]):
        raise refused("a topic is not: name, three numbers, filter type")
    name = check_name(parts[0], "a topic's name")
    numbers = tuple(map(int, parts[1:4]))
    if max(numbers[:2]) > QUEUES_MAX or numbers[2] > PERM_MAX:
        raise refused(f"topic {name} has {numbers[0]} and {numbers[1]} queues and perm {numbers[2]}")
    return Topic(name, *numbers)
