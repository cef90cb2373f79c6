"""What is asked for: bounds that pass over segments, and rows before columns are made of them.

Nobody evaluates options again: a reader drops every record outside of its bounds, but for what is no record, whose
place alone is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketha.export.manifest import QueuePart

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


@attrs.frozen
class Bounds:
    """Records outside of these are not asked for.

    :ivar phys_low: the lowest log offset; ``phys_high`` lies behind the highest.
    :ivar stored_low: the earliest store time in ms, ``stored_high`` the last.
    :ivar topics: None of all; as ``queue_ids``.
    :ivar index_low: the lowest number of an entry of DLedger; ``index_high`` lies behind the highest.
    :ivar queues: of some queues, by topic and id, the lowest offset, and what lies behind the highest.
    """

    phys_low: int = LOWEST
    phys_high: int = HIGHEST
    stored_low: int = LOWEST
    stored_high: int = HIGHEST
    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    index_low: int = LOWEST
    index_high: int = HIGHEST
    queues: Mapping[tuple[str, int], tuple[int, int]] = attrs.field(factory=dict)

    def may_have(self, part: QueuePart) -> bool:
        """Whether any records of a queue, of those in a segment, are asked for."""
        if self.topics is not None and part.topic not in self.topics:
            return False
        if self.queue_ids is not None and part.queue_id not in self.queue_ids:
            return False
        low, high = self.queues.get((part.topic, part.queue_id), (LOWEST, HIGHEST))
        return part.last >= low and part.first < high

    def within(self, other: Bounds) -> Bounds:
        """What lies within both; at most one of them has ``queues``."""
        topics, queue_ids = self.topics, self.queue_ids
        return Bounds(
            max(self.phys_low, other.phys_low),
            min(self.phys_high, other.phys_high),
            max(self.stored_low, other.stored_low),
            min(self.stored_high, other.stored_high),
            topics if other.topics is None else both(topics, other.topics),
            queue_ids if other.queue_ids is None else both(queue_ids, other.queue_ids),
            max(self.index_low, other.index_low),
            min(self.index_high, other.index_high),
            self.queues or other.queues,
        )


EVERYTHING = Bounds()


def both(one: frozenset[str] | frozenset[int] | None, other: frozenset) -> frozenset:  # type: ignore[type-arg]
    """What lies in both; None is all."""
    return other if one is None else frozenset(one & other)
