"""What a consumer wants, and which queues of it are its own.

Java: ``SubscriptionData``, ``AllocateMessageQueueAveragely``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import attrs

from rocketha.wire import properties
from rocketha.wire.java_text import string_hash

Item = TypeVar("Item")


@attrs.frozen
class Subscription:
    """What is wanted of the topic.

    :ivar group: None to read all queues without being a member of a group.
    :ivar tags: empty for everything.
    :ivar start: where a queue begins that has no committed offset: ``first``, ``last``, or a time in ms.
    """

    topic: str
    group: str | None = None
    tags: tuple[str, ...] = ()
    start: str | int = "last"

    @property
    def expression(self) -> str:
        """As it stands in requests."""
        return " || ".join(self.tags) or "*"

    def accepts(self, found: Mapping[str, str]) -> bool:
        """The client's half of the tag filter: brokers compare hashes only."""
        return not self.tags or found.get(properties.TAGS, "") in self.tags

    def as_json(self, topic: str, version_ms: int) -> dict[str, Any]:
        """``SubscriptionData`` of a heartbeat; a retry topic is always wanted whole."""
        tags = self.tags if topic == self.topic else ()
        return {
            "classFilterMode": False,
            "codeSet": sorted({string_hash(tag) for tag in tags}),
            "expressionType": "TAG",
            "subString": self.expression if tags else "*",
            "subVersion": version_ms,
            "tagsSet": list(tags),
            "topic": topic,
        }


def share(items: Sequence[Item], members: Sequence[str], member: str) -> list[Item]:
    """The averaged share of one member: neighbours stay together, the first members get one more.

    Every member computes it alone, so it must be Java's to the letter (``AllocateMessageQueueAveragely``).
    """
    ordered = sorted(set(members))
    if member not in ordered:
        return []
    index = ordered.index(member)
    size, extra = divmod(len(items), len(ordered))
    start = index * size + min(index, extra)
    return list(items[start : start + size + (index < extra)])
