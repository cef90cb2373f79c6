"""Questions about exports, each a function from a table to the rows that answer it; none means that all is well.

A table is what :func:`rocketha_spark.read.read` gives; :data:`COLUMNS` says which columns each needs.  They are plans
that Spark or DuckDB carries out when rows are asked for: nothing is collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rocketha.errors import ConfigError
from rocketha.wire.properties import INNER_NUM
from rocketha_spark.duck import Duck
from rocketha_spark.engines import plans, small
from rocketha_spark.exports import Export, opened
from rocketha_spark.kinds import HALF, OP, TIMER
from rocketha_spark.options import parse
from rocketha_spark.read import queued, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rocketha_spark.engines import Session

PLACES_MAX = 100
"""Of one duplicate that are named."""

_QUEUE = ("replica", "topic", "queue_id")
_KIND = ("kind", "real_topic", "stored_again")


def loss(table: DataFrame) -> DataFrame:
    """Queue offsets that no record has, ``first`` to ``last``; the next record of the queue is at ``phys_offset``.

    What is missing before a queue's first record was deleted in time, or exported by nobody, and is not counted.
    """
    sql, window = plans(table)
    number = f"concat(properties['{INNER_NUM}'], ';')"  # to Java, $ is also before a line's end
    inner = sql.expr(f"try_cast(regexp_extract({number}, '^([+-]?[0-9]+);$', 1) AS bigint)")
    taken = sql.greatest(sql.coalesce(inner, sql.lit(1)), sql.lit(1))
    before = (
        window.partitionBy(*_QUEUE).orderBy("queue_offset", "phys_offset").rowsBetween(window.unboundedPreceding, -1)
    )
    first = sql.max(sql.col("queue_offset") + taken).over(before)
    gaps = queued(table).withColumn("first", first).where(sql.col("queue_offset") > sql.col("first"))
    return gaps.select(
        *_QUEUE,
        "first",
        (sql.col("queue_offset") - 1).alias("last"),
        (sql.col("queue_offset") - sql.col("first")).alias("missing"),
        "phys_offset",
    )


def duplicates(table: DataFrame) -> DataFrame:
    """Records of one queue with one queue offset, and of one topic with one unique key; with where they stand.

    A message that is delivered again keeps its key: it is told apart by its ``reconsume_times``.  So does one that
    waits for its time or its transaction: there only what producers sent counts, by the topic that it is for.
    """
    sql = plans(table).sql
    standing = queued(table)
    by_offset = _doubled(standing, "queue_offset", _QUEUE, sql.col("queue_offset").cast("string"))
    waiting = sql.col("stored_again") & sql.col("kind").isin(TIMER, HALF, OP)
    keyed = standing.where("uniq_key is not null").where(~waiting)
    return by_offset.unionByName(
        _doubled(keyed, "uniq_key", ("replica", "topic", "real_topic", "reconsume_times"), sql.col("uniq_key"))
    )


def _doubled(table: DataFrame, kind: str, keys: tuple[str, ...], value: Column) -> DataFrame:
    sql = plans(table).sql
    places = sql.slice(sql.sort_array(sql.collect_list("phys_offset")), 1, PLACES_MAX)
    found = table.groupBy(*keys, value.alias("value")).agg(
        sql.count("*").alias("records"), places.alias("phys_offsets"), sql.min("queue_id").alias("lowest_queue")
    )
    queue = "queue_id" if "queue_id" in keys else "lowest_queue"
    return found.where("records > 1").select(
        sql.lit(kind).alias("kind"),
        "replica",
        "topic",
        sql.col(queue).alias("queue_id"),
        "value",
        "records",
        "phys_offsets",
    )


def order(table: DataFrame) -> DataFrame:
    """Records that were stored earlier than the one before them in the log (``store_ts``), or that stand in the log
    before the one before them in their queue (``queue_offset``).
    """
    sql, window = plans(table)
    in_file = window.partitionBy("replica", "source_file").orderBy("phys_offset")
    stamped = table.where("store_ts is not null")
    within = stamped.withColumn("before", sql.lag("store_ts").over(in_file)).where("store_ts < before")
    edges = stamped.groupBy("replica", "source_file").agg(
        sql.min("phys_offset").alias("phys_offset"),
        sql.min_by("store_ts", "phys_offset").alias("store_ts"),
        sql.max_by("store_ts", "phys_offset").alias("last"),
    )
    across = window.partitionBy("replica").orderBy("phys_offset")  # a row for each file
    between = edges.withColumn("before", sql.lag("last").over(across)).where("store_ts < before")
    in_queue = window.partitionBy(*_QUEUE).orderBy("queue_offset", "phys_offset")
    behind = sql.lag("phys_offset").over(in_queue)
    queues = queued(table).withColumn("before", behind).where("phys_offset < before")
    kinds = [("store_ts", within), ("store_ts", between), ("queue_offset", queues)]
    parts = [found.select(sql.lit(kind).alias("kind"), "replica", "phys_offset") for kind, found in kinds]
    return parts[0].unionByName(parts[1]).unionByName(parts[2])


def divergence(table: DataFrame) -> DataFrame:
    """Of each epoch the first ``phys_offset`` at which replicas differ, and what stands there: how many ``replicas``
    have a record there, and how many ``contents`` these have.  Only what lies within every replica is compared.
    """
    sql = plans(table).sql
    ends = table.groupBy("replica").agg(
        sql.min("phys_offset").alias("begin"), sql.max(sql.col("phys_offset") + sql.col("size")).alias("end")
    )
    common = ends.agg(sql.max("begin").alias("low"), sql.min("end").alias("high"), sql.count("*").alias("all"))
    inside = table.crossJoin(small(common)).where("phys_offset >= low and phys_offset < high")
    places = inside.groupBy("phys_offset").agg(
        sql.min("epoch").alias("epoch"),
        sql.count("*").alias("replicas"),
        sql.count_distinct(sql.struct("record_digest", sql.coalesce("epoch", sql.lit(-1)))).alias("contents"),
        sql.max("all").alias("all"),
    )
    differ = places.where("contents > 1 or replicas < all")
    return differ.groupBy("epoch").agg(
        sql.min("phys_offset").alias("phys_offset"),
        sql.min_by("replicas", "phys_offset").alias("replicas"),
        sql.min_by("contents", "phys_offset").alias("contents"),
    )


def epochs(table: DataFrame) -> DataFrame:
    """Epochs that begin in the log before a lower one has ended (``regress``), and those that do not begin at the same
    offset in all replicas whose log goes back that far (``start``).
    """
    sql, window = plans(table)
    found = (
        table.where("epoch is not null").groupBy("replica", "epoch").agg(sql.min("phys_offset").alias("phys_offset"))
    )
    along = window.partitionBy("replica").orderBy("phys_offset")
    regress = found.withColumn("before", sql.lag("epoch").over(along)).where("epoch < before")
    later = found.withColumn("number", sql.row_number().over(along)).where("number > 1")  # the first may be cut off
    starts = later.withColumn("least", sql.min("phys_offset").over(window.partitionBy("epoch")))
    kinds = [("regress", regress), ("start", starts.where("phys_offset > least"))]
    parts = [rows.select(sql.lit(kind).alias("kind"), "replica", "epoch", "phys_offset") for kind, rows in kinds]
    return parts[0].unionByName(parts[1])


def corrupt(table: DataFrame) -> DataFrame:
    """Damaged records: where they stand, and of which topic they say that they are."""
    sql = plans(table).sql
    return table.where(~sql.col("crc_ok")).select("replica", "phys_offset", "size", "topic", "source_file")


def unkept(table: DataFrame, ledger: DataFrame) -> DataFrame:
    """What a producer's ledger has and the log does not: rows of the ledger.  A message that waits for its time,
    or in a transaction, is kept.

    :param ledger: of each message that was acknowledged ``topic`` and ``uniq_key`` (what a SendResult calls msgId), and
        whatever else its writer wants to see of those that are missing.
    :raises ConfigError: it has no such column.
    """
    there = [name.lower() for name in ledger.columns]
    missing = [name for name in ("topic", "uniq_key") if name not in there]
    if missing:
        raise ConfigError(f"the ledger has no column {' and no '.join(missing)}: it has {', '.join(there) or 'none'}")
    sql = plans(table).sql
    kept = queued(table).select(sql.col("real_topic").alias("topic"), "uniq_key")
    lost = ledger.join(kept, ["topic", "uniq_key"], "left_anti")
    return lost.select(*ledger.columns)  # sqlframe has the keys twice


def unclean(table: DataFrame, cuts: DataFrame) -> DataFrame:
    """Messages that were taken back when a master was elected that did not have them, and that no replica has now:
    an unclean election lost them, if they had been acknowledged.

    A producer that was refused sends again under the same unique key; what came that way is not listed.

    :param cuts: the table with the option ``cuts``.
    """
    sql = plans(table).sql
    kept = queued(table).select("real_topic", "uniq_key")
    messages = queued(cuts).where(sql.col("kind") != OP)
    lost = messages.join(kept, ["real_topic", "uniq_key"], "left_anti")
    return lost.select(*COLUMNS["unclean"]).drop("sys_flag", "kind")


AUDITS: dict[str, Callable[..., DataFrame]] = {
    "loss": loss,
    "duplicates": duplicates,
    "order": order,
    "divergence": divergence,
    "epochs": epochs,
    "corrupt": corrupt,
    "unclean": unclean,
}

COLUMNS = {
    "loss": (*_QUEUE, "queue_offset", "phys_offset", "sys_flag", "properties"),
    "duplicates": (*_QUEUE, "queue_offset", "phys_offset", "sys_flag", "uniq_key", "reconsume_times", *_KIND),
    "order": (*_QUEUE, "queue_offset", "phys_offset", "sys_flag", "store_ts", "source_file"),
    "divergence": ("replica", "phys_offset", "size", "epoch", "record_digest"),
    "epochs": ("replica", "phys_offset", "epoch"),
    "corrupt": ("replica", "phys_offset", "size", "topic", "source_file", "crc_ok"),
    "unclean": (
        "replica",
        "phys_offset",
        "size",
        "epoch",
        *_QUEUE[1:],
        "real_topic",
        "kind",
        "queue_offset",
        "uniq_key",
        "store_ts",
        "sys_flag",
        "source_file",
    ),
    "unkept": ("real_topic", "uniq_key", "sys_flag"),
}
"""What each reads; the others are not made."""


def answerable(exports: Sequence[Export]) -> list[str]:
    """The audits of these exports: what an earlier exporter took back is no table."""
    indexed = all(cut.segments for export in exports for cut in export.manifest.cuts)
    return [name for name in AUDITS if name != "unclean" or indexed]


def every(session: Session, path: str, **options: str) -> Iterator[tuple[str, DataFrame]]:
    """The findings of each audit, by its name.

    :param options: as for :func:`audit`.
    """
    options = {"onCorrupt": "row", **options}
    names = answerable(opened(path, parse({"path": path, **options}).replica))
    if isinstance(session, Duck):  # once for all of them
        session.read(path, sorted({each for name in names for each in COLUMNS[name]}), options)
    for name in names:
        yield name, audit(session, name, path, **options)


def audit(session: Session, name: str, path: str, **options: str) -> DataFrame:
    """The findings of an audit of the exports at a path; damaged records count as rows unless ``onCorrupt`` is given.

    :param name: of :data:`AUDITS`.
    """
    options = {"onCorrupt": "row", **options}
    if name == "unclean":
        table = read(session, path, COLUMNS["unkept"], **options)
        return unclean(table, read(session, path, COLUMNS[name], **{**options, "cuts": "true"}))
    return AUDITS[name](read(session, path, COLUMNS[name], **options))
