"""Filters of a query that Spark hands to the source, from 4.1 on: what of them a reader can use.

Spark evaluates every one again, so bounds made of them need not say all that the filters do.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

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

from rocketha_spark.bounds import Bounds, both
from rocketha_spark.source import Reader


class FilteredReader(Reader):
    """With the option ``pushFilters``; Spark wants ``spark.sql.python.filterPushdown.enabled`` for it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of them; Spark evaluates each of them all the same."""
        self._bounds = narrowed(filters)
        return filters


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
            return attrs.evolve(bounds, topics=both(bounds.topics, frozenset(values)))
        if name == "queue_id" and all(isinstance(value, int) for value in values):
            return attrs.evolve(bounds, queue_ids=both(bounds.queue_ids, frozenset(values)))
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


def _ms(value: datetime.datetime) -> tuple[int, int]:
    """A time in whole ms, down and up."""
    aware = value if value.tzinfo is not None else value.astimezone()
    micros = (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    return micros // 1000, -(-micros // 1000)
