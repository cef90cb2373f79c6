"""What a stored record means for the queues and the index: tags code, keys, time of delivery.

Pure.  One set of rules for the append, for recovery and for :mod:`rocketha.store.verify`, so that queues rebuilt from
the log equal those written beside it.  Java: ``CommitLog.checkMessageAndReturnSize``, ``IndexService.buildIndex``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.wire import properties as properties_wire
from rocketha.wire.java_text import string_hash
from rocketha.wire.record import TRANSACTION_BITS, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Record

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
KEY_SEPARATOR = " "
TOPIC_BYTES_MAX = 255
"""A topic is also the name of a directory."""


class Dispatch(NamedTuple):
    """Queue entry and index keys of a record.

    :ivar queued: whether it gets a queue entry: prepared and rolled back messages do not.
    """

    queued: bool
    tags_code: int
    keys: tuple[str, ...]


def tags_code(properties: Mapping[str, str]) -> int:
    """``String.hashCode`` of TAGS, 0 without (``MessageExtBrokerInner.tagsString2tagsCode``)."""
    tags = properties.get(properties_wire.TAGS)
    return string_hash(tags) if tags else 0


def index_keys(properties: Mapping[str, str], with_tags: bool = True) -> tuple[str, ...]:
    """Index keys in Java's order: UNIQ_KEY, each word of KEYS, and since 5.5 ``T#`` + TAGS."""
    keys = []
    unique = properties.get(properties_wire.UNIQUE_KEY)
    if unique is not None:
        keys.append(unique)
    words = properties.get(properties_wire.KEYS)
    if words:
        keys += key_words(words)
    if with_tags:
        tags = properties.get(properties_wire.TAGS)
        if tags:
            keys.append("T#" + tags)
    return tuple(keys)


def key_words(text: str) -> list[str]:
    """The words of KEYS."""
    words = text.split(KEY_SEPARATOR)
    return [word for word in words if word] if "" in words else words


def delay_level(properties: Mapping[str, str]) -> int:
    """The DELAY property; 0 without, or where it is no int: the broker refuses such a message before it gets here."""
    text = properties.get(properties_wire.DELAY, "0")
    if len(text) > 11:
        return 0
    try:
        return int(text)
    except ValueError:
        return 0


def deliver_time_ms(level: int, store_timestamp_ms: int, delay_levels_ms: Sequence[int]) -> int:
    """When a message of a level >= 1 is due; a level above the highest means the highest
    (``computeDeliverTimestamp``)."""
    return store_timestamp_ms + delay_levels_ms[min(level, len(delay_levels_ms)) - 1]


def of_record(record: Record, delay_levels_ms: Sequence[int], with_tags: bool = True) -> Dispatch:
    """What to write for a record.  Properties that cannot be read count as none: the message itself is whole."""
    try:
        properties = properties_wire.parse(record.properties)
    except RemoteProtocolError:
        properties = {}
    code = tags_code(properties)
    if record.topic == SCHEDULE_TOPIC:
        level = delay_level(properties)
        if level > 0:
            code = deliver_time_ms(level, record.store_timestamp_ms, delay_levels_ms)
    transaction = record.sys_flag & TRANSACTION_BITS
    keys = () if transaction == TRANSACTION_ROLLBACK else index_keys(properties, with_tags)
    return Dispatch(transaction not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK), code, keys)


def topic_problem(topic: str) -> str | None:
    """Why a topic cannot be the name of a directory; None if it can.  Guards the store against ``..`` and its friends
    even when the name comes from a damaged record."""
    if not topic:
        return "empty topic"
    if topic in (".", ".."):
        return "topic names a parent directory"
    if any(character in "/\\\0" or ord(character) < 32 for character in topic):
        return "topic holds a separator or control character"
    if len(topic.encode("utf-8", "surrogatepass")) > TOPIC_BYTES_MAX:
        return f"topic is longer than {TOPIC_BYTES_MAX} bytes"
    return None
