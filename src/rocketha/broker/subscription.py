"""What a consumer group wants of a topic: everything, or messages with certain tags.

Pure.  The broker compares hashes only (``String.hashCode`` of the tag, as the consume queue holds it); the client
compares the text again.  SQL92 expressions are kept for display and match nothing here: this broker answers them with
an error.

Java: ``SubscriptionData``, ``FilterAPI``, ``ExpressionMessageFilter.isMatchedByConsumeQueue``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from rocketha.broker.fields import refused
from rocketha.broker.names import RETRY_TOPIC_LENGTH_MAX
from rocketha.errors import RemoteProtocolError
from rocketha.wire.java_text import string_hash

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
EXPRESSION_LENGTH_MAX = 65_536
TAGS_MAX = 4096


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

        :raises RemoteProtocolError: a key has the wrong type, or there is more than the limits allow.
        """
        if not isinstance(value, dict):
            raise RemoteProtocolError("a subscription is no object")
        topic, expression = value.get("topic"), value.get("subString")
        tags, codes = value.get("tagsSet") or [], value.get("codeSet") or []
        version, kind = value.get("subVersion"), value.get("expressionType")
        if not isinstance(topic, str) or not topic or len(topic) > RETRY_TOPIC_LENGTH_MAX:
            raise RemoteProtocolError(f"a subscription's topic is no text of 1 to {RETRY_TOPIC_LENGTH_MAX} characters")
        if not isinstance(expression, str | None) or len(expression or "") > EXPRESSION_LENGTH_MAX:
            raise RemoteProtocolError(f"subString is no text of at most {EXPRESSION_LENGTH_MAX} characters")
        if not isinstance(tags, list) or not isinstance(codes, list) or max(len(tags), len(codes)) > TAGS_MAX:
            raise RemoteProtocolError(f"tagsSet or codeSet is no list of at most {TAGS_MAX}")
        if not all(isinstance(tag, str) for tag in tags) or not all(type(code) is int for code in codes):
            raise RemoteProtocolError("tagsSet holds no texts or codeSet no numbers")
        if not isinstance(version, int | None) or not isinstance(kind, str | None) or len(kind or "") > 64:
            raise RemoteProtocolError("subVersion is no number or expressionType no text")
        return cls(
            topic,
            ALL if expression is None else expression,
            tuple(tags),
            frozenset(codes),
            version or 0,
            kind or TAG,
            bool(value.get("classFilterMode")),
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
