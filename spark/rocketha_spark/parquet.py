"""Exports as Parquet: a directory for each replica, day and hour, written again where it is not what the export has.

Theory of operation: nothing is noted down.  For each hour the count of records and a digest of their places are
compared with those of the Parquet files, from the columns that this takes.  Hours that differ are written, whole, with
all columns; Spark replaces their directories, and no others, when all of them are written.  So a run that broke off is
repaired by the next, a second run writes nothing, and one after a larger export the hours that grew.  What is confirmed
is never cut, so no hour ever vanishes from an export.
"""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from rocketha.errors import ConfigError
from rocketha_spark.read import read
from rocketha_spark.schema import ARROW_TYPES, ddl
from rocketha_spark.source import HANDS_FILTERS

HOUR = ("replica", "dt", "hour")
"""How the files are partitioned."""


def to_parquet(spark: SparkSession, path: str, target: str, **options: str) -> DataFrame:
    """Parquet files as the export has its records, all columns but chain_digest; as a table.

    :param path: of one or more exports.
    :param target: a directory, on any file system that Spark writes to; always with the same options.
    :param options: the table's.
    :raises ConfigError: what is not confirmed was asked for, or the target has Parquet files of something else.
    """
    for name, value in options.items():
        if name.lower() == "onlyconfirmed" and value.lower() != "true":
            raise ConfigError("to_parquet writes what is confirmed only: what is not may be cut")
        if name.lower() == "cuts" and value.lower() != "false":
            raise ConfigError("to_parquet writes what stands in the log, not its cuts")
    names = [name for name in read(spark, path).columns if name != "chain_digest"]
    _refuse_foreign(spark, target)
    stale = _stale(read(spark, path, (*HOUR, "phys_offset"), **options), _written(spark, target))
    if stale:
        hours = spark.createDataFrame(stale, "replica string, dt date, hour int")
        rows = _since(spark, path, names, stale, options).alias("rows")
        same = [sql.col(f"rows.{name}").eqNullSafe(sql.col(f"hours.{name}")) for name in HOUR]
        fresh = rows.join(sql.broadcast(hours).alias("hours"), same, "left_semi")
        fresh.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(*HOUR).parquet(target)
    return spark.read.schema(ddl(names)).parquet(target)


def _refuse_foreign(spark: SparkSession, target: str) -> None:
    """Hours of another table would be written over."""
    try:
        there = set(spark.read.parquet(target).columns)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):  # nothing is there
            return
        raise
    if not {*HOUR, "phys_offset"} <= there or there - set(ARROW_TYPES):
        raise ConfigError(f"{target} has Parquet files of another table; nothing was changed")


def _written(spark: SparkSession, target: str) -> DataFrame | None:
    try:
        return spark.read.schema(ddl((*HOUR, "phys_offset"))).parquet(target)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise


def _stale(table: DataFrame, written: DataFrame | None) -> list[tuple[Any, ...]]:
    """The hours that are to be written; as many as an export has."""
    wanted = _digest(table).alias("wanted")
    if written is None:
        return [tuple(row) for row in wanted.select(*HOUR).collect()]
    there = _digest(written).alias("there")
    same = [sql.col(f"wanted.{name}").eqNullSafe(sql.col(f"there.{name}")) for name in (*HOUR, "records", "places")]
    return [tuple(row) for row in wanted.join(there, same, "left_anti").select(*HOUR).collect()]


def _digest(table: DataFrame) -> DataFrame:
    return table.groupBy(*HOUR).agg(
        sql.count("*").alias("records"), sql.bit_xor(sql.xxhash64("phys_offset")).alias("places")
    )


def _since(
    spark: SparkSession, path: str, names: list[str], stale: list[tuple[Any, ...]], options: dict[str, str]
) -> DataFrame:
    """The table, without the files that end before the first of those hours where Spark lets a source know."""
    hours = [(row[1], row[2]) for row in stale]
    pushes = HANDS_FILTERS and spark.conf.get("spark.sql.python.filterPushdown.enabled", "false") == "true"
    if not pushes or (None, None) in hours:
        return read(spark, path, names, **options)
    day, hour = min(hours)
    first = datetime.combine(day, time(hour), UTC)
    return read(spark, path, names, **{**options, "pushFilters": "true"}).where(sql.col("store_ts") >= sql.lit(first))
