"""The table without Spark: Arrow's record batches, for DuckDB, Polars, pandas and whatever else reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rocketha.errors import ConfigError
from rocketha_spark.batches import batches
from rocketha_spark.bounds import Bounds
from rocketha_spark.exports import Export
from rocketha_spark.options import Options, parse
from rocketha_spark.plan import bounds_of, chosen, limit, pieces
from rocketha_spark.schema import ARROW_TYPES, arrow_schema, known


def read(path: str, columns: Sequence[str] = (), **options: str) -> pa.RecordBatchReader:
    """The rows of one or more exports, in the order of each log, made as they are taken: memory holds a few MiB.

    :param path: a directory, or a glob of several.
    :param columns: those that are made, and no others; all without.
    :param options: the table's, docs/spark.rst; those of tasks and streams change nothing here.
    :raises ConfigError: a column or option that is not there, or no export.
    :raises CorruptStore: when they are taken: a damaged record, unless ``onCorrupt`` says row or skip.
    """
    given = parse({"path": path, **options})
    return rows(chosen(given), given, columns)


def rows(exports: Sequence[Export], given: Options, columns: Sequence[str] = ()) -> pa.RecordBatchReader:
    """The same of exports that are open.

    :raises ConfigError: a column that is not there, or options that do not fit these exports.
    """
    if given.span.latest:
        raise ConfigError("startingOffsets latest is for streams: there is nothing behind the end")
    names = tuple(map(known, columns)) or tuple(
        name for name in ARROW_TYPES if name != "properties" or given.include_properties
    )
    ranges = [(export, bounds_of(export, given)) for export in exports]
    return pa.RecordBatchReader.from_batches(arrow_schema(names), _rows(ranges, names, given))


def _rows(
    ranges: Sequence[tuple[Export, Bounds]], names: tuple[str, ...], options: Options
) -> Iterator[pa.RecordBatch]:
    for export, bounds in ranges:
        for piece in pieces(export, 0, export.manifest.begin, limit(export, options), options, bounds):
            yield from batches(export, piece, names, options, bounds)
