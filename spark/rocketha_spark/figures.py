"""Measures of exports, each a function from a table to rows of figures: delays, shares, bytes, what groups have ahead.

A table is what :func:`rocketha_spark.read.read` gives; :data:`COLUMNS` says which columns each needs.  They are plans
that Spark or DuckDB carries out when rows are asked for; what they group by is few: minutes, queues, topics of a day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha_spark.engines import made, plans, small
from rocketha_spark.exports import Export, opened, read_within
from rocketha_spark.options import parse
from rocketha_spark.read import queued, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rocketha_spark.engines import Session

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
CONSUMER_OFFSETS = "config/consumerOffset.json"
_QUEUE = ("topic", "queue_id")
_OFFSETS = pa.schema(
    [
        ("replica", pa.string()),
        ("consumer_group", pa.string()),
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("consumer_offset", pa.int64()),
    ]
)


def _elapsed(sql: Any, begin: Column, end: Column) -> Column:
    """In ms.  Of DuckDB's times sqlframe makes whole seconds only, of what is not microseconds."""
    elapsed: Column = sql.round((sql.unix_micros(end) - sql.unix_micros(begin)) / 1000)
    return elapsed.cast("bigint")  # of centuries a double is less than exact, and casts differ


def span(sql: Any, seconds: int) -> Column:
    """``begin``: the multiple of so many seconds within which a message was stored.

    :param sql: the functions of an engine.
    """
    spans: Column = sql.floor(sql.unix_micros("store_ts") / (seconds * 10**6))
    begin: Column = sql.timestamp_seconds(spans * seconds)
    return begin.alias("begin")


def lag(table: DataFrame, seconds: int = 60) -> DataFrame:
    """For each replica and minute, from its ``begin`` on, how long messages took from their producer to the log:
    ``messages``, the percentiles ``p50`` to ``p999`` and the ``longest``, in ms.

    What the broker stored again (a delayed message that is due, a committed one, a retry) is no producer's, and does
    not count.  Clocks of two machines: a producer whose clock is ahead makes delays below 0, which count as they are.
    Percentiles are exact, between two values in proportion.

    :param seconds: of a row, instead of a minute.
    """
    sql = plans(table).sql
    timed = table.where("born_ts is not null and store_ts is not null and not stored_again")
    elapsed = _elapsed(sql, sql.col("born_ts"), sql.col("store_ts"))
    taken = timed.select("replica", span(sql, seconds), elapsed.alias("ms"))
    found = taken.groupBy("replica", "begin").agg(
        sql.count("*").alias("messages"),
        sql.percentile("ms", list(PERCENTILES.values())).alias("all"),
        sql.max("ms").alias("longest"),
    )
    each = [sql.element_at("all", at).alias(name) for at, name in enumerate(PERCENTILES, 1)]
    return found.select("replica", "begin", "messages", *each, "longest")


def skew(table: DataFrame) -> DataFrame:
    """For each replica, topic and queue ``messages``, ``bytes``, and ``times_mean``: its messages over those of the
    topic's mean queue with any; 1 in all of them is even.
    """
    sql, window = plans(table)
    found = (
        queued(table)
        .where("topic is not null")
        .groupBy("replica", *_QUEUE)
        .agg(sql.count("*").alias("messages"), sql.sum("size").alias("bytes"))
    )
    mean = sql.avg("messages").over(window.partitionBy("replica", "topic"))
    return found.withColumn("times_mean", sql.col("messages") / mean)


def cost(table: DataFrame) -> DataFrame:
    """For each replica, topic and day (``dt``, of UTC) ``messages``, ``bytes`` of log, ``body_bytes`` of these, and the
    ``share`` of the day's bytes.
    """
    sql, window = plans(table)
    found = table.groupBy("replica", "dt", "topic").agg(
        sql.count("*").alias("messages"), sql.sum("size").alias("bytes"), sql.sum("body_length").alias("body_bytes")
    )
    return found.withColumn("share", sql.col("bytes") / sql.sum("bytes").over(window.partitionBy("replica", "dt")))


FIGURES: dict[str, Callable[[DataFrame], DataFrame]] = {"lag": lag, "skew": skew, "cost": cost}

COLUMNS = {
    "lag": ("replica", "born_ts", "store_ts", "stored_again"),
    "skew": ("replica", *_QUEUE, "size", "sys_flag"),
    "cost": ("replica", "topic", "size", "body_length", "dt"),
    "consumer_lag": ("replica", *_QUEUE, "queue_offset", "store_ts", "sys_flag"),
}
"""What each reads; the others are not made."""


def figure(session: Session, name: str, path: str, **options: str) -> DataFrame:
    """A measure of the exports at a path; damaged records are left out of times and queues.

    :param name: of :data:`FIGURES`, or ``consumer_lag``.
    """
    options = {"onCorrupt": "row", **options}
    if name == "consumer_lag":
        return consumer_lag(session, path, **options)
    return FIGURES[name](read(session, path, COLUMNS[name], **options))


def consumer_lag(session: Session, path: str, **options: str) -> DataFrame:
    """For each replica, group and queue that the group has an offset of: that ``consumer_offset``, the queue's ``end``,
    how many ``messages`` are between, since when the first of them waits (``waits_since``), and ``behind_ms``: from
    then to the queue's newest message.

    What is in the export counts: offsets of the broker's consumerOffset.json at the end of the last run.

    :raises CorruptStore: the offsets are no JSON, or not as brokers write them.
    """
    replica = parse({"path": path, **options}).replica
    rows = [row for export in opened(path, replica) for row in consumer_offsets(export)]
    offsets = made(session, rows, _OFFSETS)
    sql = plans(offsets).sql
    waiting = queued(read(session, path, COLUMNS["consumer_lag"], **options))
    queues = waiting.groupBy("replica", *_QUEUE).agg(
        (sql.max("queue_offset") + 1).alias("end"), sql.max("store_ts").alias("newest")
    )
    ahead = (
        waiting.join(small(offsets), ["replica", *_QUEUE])
        .where("queue_offset >= consumer_offset")
        .groupBy("replica", "consumer_group", *_QUEUE)
        .agg(sql.count("*").alias("messages"), sql.min("store_ts").alias("waits_since"))
    )
    found = offsets.join(queues, ["replica", *_QUEUE], "left").join(
        ahead, ["replica", "consumer_group", *_QUEUE], "left"
    )
    behind = _elapsed(sql, sql.col("waits_since"), sql.col("newest"))
    return found.select(
        "replica",
        "consumer_group",
        *_QUEUE,
        "consumer_offset",
        "end",
        sql.coalesce("messages", sql.lit(0)).alias("messages"),
        "waits_since",
        sql.coalesce(behind, sql.lit(0)).alias("behind_ms"),
    )


def consumer_offsets(export: Export) -> Iterator[tuple[str, str, str, int, int]]:
    """Replica, group, topic, queue and offset of an export's consumerOffset.json; none of an export without one.

    :raises CorruptStore: it is no such file.
    """
    from rocketha.wire import json_dialect  # it needs orjson, which is native: clusters may not have it

    if CONSUMER_OFFSETS not in {each.path for each in export.manifest.files}:
        return
    path = f"{export.directory}/{CONSUMER_OFFSETS}"
    try:
        data = read_within(export.directory, CONSUMER_OFFSETS, json_dialect.FILE_BYTES_MAX)
        table = json_dialect.loads(data, json_dialect.FILE_BYTES_MAX)["offsetTable"]
        for key, queues in table.items():
            topic, at, group = key.partition("@")
            if not at:
                raise ValueError(f"{key!r} is no topic@group")
            for queue, offset in queues.items():
                yield export.manifest.replica, group, topic, int(queue), int(offset)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RemoteProtocolError) as error:
        raise CorruptStore(path, 0, f"not the offsets of consumers: {error}") from None
