"""A table from a program: the columns that are needed, and no others, since a Python source is told of no pruning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketha.wire.record import TRANSACTION_BITS, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketha_spark.duck import Duck
from rocketha_spark.engines import plans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rocketha_spark.engines import Session


def read(session: Session, path: str, columns: Sequence[str] = (), **options: str) -> DataFrame:
    """The table of one or more exports: with Spark from their projections where these have all that is asked for, or
    the logs.

    :param session: Spark's, or DuckDB's (:class:`rocketha_spark.duck.Duck`).
    :param path: a directory, or a glob of several.
    :param columns: those that are made; all without.
    :raises ConfigError: a column that is not there.
    """
    if isinstance(session, Duck):
        return session.read(path, columns, options)
    from rocketha_spark.projection import projected
    from rocketha_spark.source import load

    table = projected(session, columns, {"path": path, **options})
    return load(session, path, columns, options) if table is None else table


def queued(table: DataFrame) -> DataFrame:
    """Records that stand in a queue: prepared and rolled back ones do not.  Needs ``sys_flag``."""
    bits = plans(table).sql.expr(f"sys_flag & {TRANSACTION_BITS}")
    return table.where(~bits.isin(TRANSACTION_PREPARED, TRANSACTION_ROLLBACK))
