"""What a consumer group wants of a topic: everything, or messages with certain tags.

Pure.  The broker compares hashes only (``String.hashCode`` of the tag, as the consume queue holds it); the client
compares the text again.  SQL92 expressions are kept for display and match nothing here: this broker answers them with
an error.

Filters of other expression types, which plug-ins bring, read a message's properties.  What cannot be decided is an
error, never "no match": that would lose messages without a word.

Java: ``SubscriptionData``, ``FilterAPI``, ``FilterFactory``, ``FilterSpi``, ``ExpressionMessageFilter``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import attrs

from rocketha.broker.names import RETRY_TOPIC_LENGTH_MAX
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import json_members, record
from rocketha.wire.codes import ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.java_text import string_hash
from rocketha.wire.limits import TEXT_CHARACTERS_MAX
from rocketha.wire.properties import parse

Matches = Callable[[Mapping[str, str]], bool]
COMPILED_MAX = 1000


class MessageFilter(Protocol):
    """One expression type; see :class:`rocketha.interfaces.IMessageFilter`."""

    expression_type: str

    def matches(self, expression: str) -> Matches:
        """What tells whether a message's properties match.

        :raises ValueError: the expression is wrong.
        """


class MessageFilters:
    """Those of one broker, by expression type."""

    def __init__(self) -> None:
        self._filters: dict[str, MessageFilter] = {}
        self._compiled: OrderedDict[tuple[str, str], Matches] = OrderedDict()

    def add(self, message_filter: MessageFilter) -> None:
        """One more."""
        self._filters[message_filter.expression_type] = message_filter

    def compiled(self, expression_type: str, expression: str) -> Matches:
        """What an expression says of a message's properties.

        :raises RequestRefused: Java's answers to a type that this broker does not have (1), and to an expression that
            is wrong (23).
        """
        key = expression_type, expression
        found = self._compiled.get(key)
        if found is not None:
            self._compiled.move_to_end(key)
            return found
        message_filter = self._filters.get(expression_type)
        if message_filter is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {expression_type[:64]}",
            )
        try:
            found = message_filter.matches(expression)
        except ValueError as problem:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(problem)[:1000]) from None
        self._compiled[key] = found
        if len(self._compiled) > COMPILED_MAX:
            self._compiled.popitem(last=False)
        return found


def matching(buffers: Iterable[Any], matches: Matches) -> tuple[list[Any], int]:
    """Of records that lie one behind the other in each buffer, those whose properties match: pieces of the buffers, and
    how many records they hold.  A damaged record is given: it cannot be said that it does not match."""
    pieces: list[Any] = []
    count = 0
    for buffer in buffers:
        begin = end = 0
        for at, total, found in record.walk(buffer):
            if isinstance(found, record.Record) and not _matches(found, matches):
                continue
            count += 1
            if at != end:
                if end > begin:
                    pieces.append(buffer[begin:end])
                begin = at
            end = at + total
        if end > begin:
            pieces.append(buffer[begin:end])
    return pieces, count


def _matches(found: record.Record, matches: Matches) -> bool:
    try:
        values = parse(found.properties)
    except RemoteProtocolError:
        return True
    return matches(values)


ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
EXPRESSION_LENGTH_MAX = TEXT_CHARACTERS_MAX
TAGS_MAX = 4096
TYPE_LENGTH_MAX = 64


@attrs.frozen
class SubscriptionData:
    """One topic in a group's subscription.

    ``code_set`` is the client's own, as in Java: it decides.  ``sub_version`` is the client's clock in ms at
    subscription; a larger one replaces a smaller one.
    """

    topic: str
    sub_string: str = ALL
    tags_set: tuple[str, ...] = ()
    code_set: frozenset[int] = frozenset()
    sub_version: int = 0
    expression_type: str = TAG
    class_filter_mode: bool = False

    @property
    def is_tag(self) -> bool:
        """Whether this is an expression of tags, which is also what no type means."""
        return self.expression_type in (TAG, "")

    def accepts(self) -> Callable[[int], bool] | None:
        """The test for a consume queue's tags code; ``None`` when everything is wanted."""
        if self.class_filter_mode or (self.is_tag and self.sub_string == ALL):
            return None
        return self.code_set.__contains__

    def as_json(self) -> dict[str, Any]:
        """In fastjson's order."""
        return {
            "classFilterMode": self.class_filter_mode,
            "codeSet": sorted(self.code_set),
            "expressionType": self.expression_type,
            "subString": self.sub_string,
            "subVersion": self.sub_version,
            "tagsSet": list(self.tags_set),
            "topic": self.topic,
        }

    @classmethod
    def from_json(cls, value: Any) -> SubscriptionData:
        """From a heartbeat's parsed object.

        :raises RemoteProtocolError: Java would not read it either, or there is more than the limits allow.
        """
        row = json_members.as_object(value, "a subscription")
        return cls(
            json_members.text(row, "topic", length_max=RETRY_TOPIC_LENGTH_MAX),
            json_members.text(row, "subString", ALL, EXPRESSION_LENGTH_MAX),
            tuple(json_members.texts(row, "tagsSet", TAGS_MAX)),
            frozenset(json_members.integers(row, "codeSet", TAGS_MAX)),
            json_members.long(row, "subVersion", 0),
            json_members.text(row, "expressionType", TAG, TYPE_LENGTH_MAX) or TAG,
            json_members.flag(row, "classFilterMode"),
        )


def parse_tags(topic: str, expression: str | None, sub_version: int = 0) -> SubscriptionData:
    """The subscription of an expression such as ``TagA || TagB``, as a pull request carries it.

    Nothing, "" and ``*`` want everything; parts are trimmed and empty parts dropped.

    :raises RequestRefused: 29, longer or with more tags than allowed.
    """
    if not expression or expression == ALL:
        return SubscriptionData(topic, sub_version=sub_version)
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise refused(f"the subscription is longer than {EXPRESSION_LENGTH_MAX} characters")
    parts = (part.strip() for part in expression.split("||"))
    tags = tuple(dict.fromkeys(part for part in parts if part))
    if len(tags) > TAGS_MAX:
        raise refused(f"the subscription names {len(tags)} tags, allowed are {TAGS_MAX}")
    return SubscriptionData(topic, expression, tags, frozenset(map(string_hash, tags)), sub_version)
