"""A table from a program: the columns that are needed, and no others, since a Python source is told of no pruning."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from rocketha.wire.record import TRANSACTION_BITS, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketha_spark.projection import projected
from rocketha_spark.source import load


def read(spark: SparkSession, path: str, columns: Sequence[str] = (), **options: str) -> DataFrame:
    """The table of one or more exports: from their projections where these have all that is asked for, or the logs.

    :param path: a directory, or a glob of several.
    :param columns: those that are made; all without.
    :raises ConfigError: a column that is not there.
    """
    table = projected(spark, columns, {"path": path, **options})
    return load(spark, path, columns, options) if table is None else table


def queued(table: DataFrame) -> DataFrame:
    """Records that stand in a queue: prepared and rolled back ones do not.  Needs ``sys_flag``."""
    bits = sql.col("sys_flag").bitwiseAND(TRANSACTION_BITS)
    return table.where(~bits.isin(TRANSACTION_PREPARED, TRANSACTION_ROLLBACK))
