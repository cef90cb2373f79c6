"""What carries out plans: Spark, or DuckDB in this process (:mod:`rocketha_spark.duck`).

A session is a SparkSession or a :class:`Duck`; a table is what it gives, with Spark's methods in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

from rocketha_spark.duck import Duck
from rocketha_spark.schema import ddl_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Session: TypeAlias = "SparkSession | Duck"


class Plans(NamedTuple):
    """What plans are made of.

    :ivar sql: the functions.
    :ivar window: the class Window.
    """

    sql: Any
    window: Any


def _is_ducks(table: DataFrame) -> bool:
    return type(table).__module__.startswith("sqlframe.")


def small(table: DataFrame) -> DataFrame:
    """The same; Spark gives each task all of it."""
    return table if _is_ducks(table) else table.hint("broadcast")


def plans(table: DataFrame) -> Plans:
    """Of the engine that a table is of."""
    if _is_ducks(table):
        from sqlframe.duckdb import Window, functions

        return Plans(functions, Window)
    from pyspark.sql import Window as SparkWindow
    from pyspark.sql import functions as spark_functions

    return Plans(spark_functions, SparkWindow)


def made(session: Session, rows: Iterable[Sequence[object]], schema: pa.Schema) -> DataFrame:
    """A table of rows of this process."""
    if isinstance(session, Duck):
        return session.made(rows, schema)
    return session.createDataFrame(list(rows), ddl_of(schema))


def file(session: Session, path: str) -> DataFrame:
    """A table of a .csv with names, a .parquet, or JSON lines."""
    if isinstance(session, Duck):
        return session.file(path)
    if path.endswith(".csv"):
        return session.read.csv(path, header=True)
    return session.read.parquet(path) if path.endswith(".parquet") else session.read.json(path)
