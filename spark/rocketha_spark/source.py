"""``format("rocketha")``: what Spark calls to read exports."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator, Sequence

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from rocketha_spark.batches import batches
from rocketha_spark.exports import Export, opened
from rocketha_spark.filters import Bounds, narrowed
from rocketha_spark.options import Options, parse
from rocketha_spark.plan import Piece, limit, packed, pieces
from rocketha_spark.schema import ddl, wanted
from rocketha_spark.stream import Positions


@functools.cache
def settle() -> None:
    """Once in a worker: what was imported stays for good.  Spark collects garbage behind each task of a worker that it
    uses again, and looking through everything that pyspark, numpy and pyarrow made takes 70 ms.
    """
    gc.freeze()


class Task(InputPartition):
    """What one task reads, and of the manifest what it needs for that."""

    def __init__(self, export: Export, pieces: tuple[Piece, ...]) -> None:
        slim = attrs.evolve(export.manifest, segments=(), blocks=(), files=(), cuts=())
        self.export = attrs.evolve(export, manifest=slim)
        self.pieces = pieces

    def rows(self, names: Sequence[str], options: Options, bounds: Bounds | None = None) -> Iterator[pa.RecordBatch]:
        """Of all its pieces.

        :raises CorruptStore: as ``batches``.
        """
        settle()
        for piece in self.pieces:
            yield from batches(self.export, piece, names, options, bounds)


def tasks(exports: Sequence[Export], planned: Iterable[Piece], options: Options) -> list[InputPartition]:
    """Of what is planned, in its order."""
    return [Task(exports[some[0].export], some) for some in packed(planned, options.partition_bytes)]


class RockethaSource(DataSource):
    """The table of one or more exports; docs/spark.rst has its columns and options."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "rocketha"

    def schema(self) -> str:
        """All columns; a user who gives fewer pays for those only."""
        return ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch query."""
        options = parse(self.options)
        kind = FilteredReader if options.push_filters else Reader
        return kind(options, wanted(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a streaming query."""
        return StreamReader(parse(self.options), wanted(schema))


class Reader(DataSourceReader):
    """All records that the options leave."""

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names
        self._bounds: Bounds | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Some pieces of log each."""
        exports = opened(self._options.path)
        planned = (
            piece
            for number, export in enumerate(exports)
            for piece in pieces(
                export, number, export.manifest.begin, limit(export, self._options), self._options, self._bounds
            )
        )
        return tasks(exports, planned, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        assert isinstance(partition, Task)
        return partition.rows(self._names, self._options, self._bounds)


class FilteredReader(Reader):
    """With the option ``pushFilters``; Spark wants ``spark.sql.python.filterPushdown.enabled`` for it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of them; Spark evaluates each of them all the same."""
        self._bounds = narrowed(filters)
        return filters


class StreamReader(Positions, DataSourceStreamReader):
    """Records from where the last micro-batch ended."""

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        super().__init__(options, names)
        self._names = names

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Some pieces of the log between two offsets each."""
        ranges = list(self.ranges(start, end))
        planned = (
            piece
            for number, (export, low, high) in enumerate(ranges)
            for piece in pieces(export, number, low, high, self.options)
        )
        return tasks([export for export, _, _ in ranges], planned, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        assert isinstance(partition, Task)
        return partition.rows(self._names, self.options)
