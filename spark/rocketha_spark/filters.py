"""What of Spark's filters a reader can use: bounds that pass over segments, and rows before columns are made of them.

Of a query's filters Spark evaluates every one again, so bounds made of them need not say all that the filters do.
Nobody evaluates options again: a reader drops every record outside of its bounds, but for what is no record, whose
place alone is known.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import attrs
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

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
            topics if other.topics is None else _both(topics, other.topics),
            queue_ids if other.queue_ids is None else _both(queue_ids, other.queue_ids),
            max(self.index_low, other.index_low),
            min(self.index_high, other.index_high),
            self.queues or other.queues,
        )


EVERYTHING = Bounds()


def narrowed(filters: Iterable[Filter]) -> Bounds:
    """What filters that all must hold leave."""
    bounds = Bounds()
    for each in filters:
        bounds = _narrowed(bounds, each)
    return bounds


def _narrowed(bounds: Bounds, given: Filter) -> Bounds:
    name = ".".join(getattr(given, "attribute", ()))
    if isinstance(given, EqualTo | In):
        values = given.value if isinstance(given, In) else (given.value,)
        if name == "topic" and all(isinstance(value, str) for value in values):
            return attrs.evolve(bounds, topics=_both(bounds.topics, frozenset(values)))
        if name == "queue_id" and all(isinstance(value, int) for value in values):
            return attrs.evolve(bounds, queue_ids=_both(bounds.queue_ids, frozenset(values)))
        if isinstance(given, In):
            return bounds
    if not isinstance(given, EqualTo | LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual):
        return bounds
    upper = isinstance(given, EqualTo | LessThan | LessThanOrEqual)
    lower = isinstance(given, EqualTo | GreaterThan | GreaterThanOrEqual)
    value = given.value
    if name == "phys_offset" and isinstance(value, int):
        if upper:
            bounds = attrs.evolve(bounds, phys_high=min(bounds.phys_high, value + (not isinstance(given, LessThan))))
        if lower:
            bounds = attrs.evolve(bounds, phys_low=max(bounds.phys_low, value + isinstance(given, GreaterThan)))
    elif name == "store_ts" and isinstance(value, datetime.datetime):
        low, high = _ms(value)
        if upper:
            bounds = attrs.evolve(bounds, stored_high=min(bounds.stored_high, low))
        if lower:
            bounds = attrs.evolve(bounds, stored_low=max(bounds.stored_low, high if high == low else low))
    return bounds


def _both(one: frozenset[str] | frozenset[int] | None, other: frozenset) -> frozenset:  # type: ignore[type-arg]
    return other if one is None else frozenset(one & other)


def _ms(value: datetime.datetime) -> tuple[int, int]:
    """A time in whole ms, down and up."""
    aware = value if value.tzinfo is not None else value.astimezone()
    micros = (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    return micros // 1000, -(-micros // 1000)
