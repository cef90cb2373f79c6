"""A table from a program: the columns that are needed, and no others, since a Python source is told of no pruning."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from rocketha.wire.record import TRANSACTION_BITS, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketha_spark.schema import ddl
from rocketha_spark.source import RockethaSource


def read(spark: SparkSession, path: str, columns: Sequence[str] = (), **options: str) -> DataFrame:
    """The table of one or more exports.

    :param path: a directory, or a glob of several.
    :param columns: those that are made; all without.
    :raises ConfigError: a column that is not there.
    """
    spark.dataSource.register(RockethaSource)
    return spark.read.format("rocketha").schema(ddl(columns)).options(**options).load(path)


def queued(table: DataFrame) -> DataFrame:
    """Records that stand in a queue: prepared and rolled back ones do not.  Needs ``sys_flag``."""
    bits = sql.col("sys_flag").bitwiseAND(TRANSACTION_BITS)
    return table.where(~bits.isin(TRANSACTION_PREPARED, TRANSACTION_ROLLBACK))
