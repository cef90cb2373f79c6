"""``format("rocketha")``: what Spark calls to read exports.

What only newer Sparks have is in modules of its own, which are imported where it is asked for: filters that are handed
down (4.1) in :mod:`rocketha_spark.filters`, limits of micro-batches (4.2) in :mod:`rocketha_spark.limits`.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rocketha.errors import ConfigError
from rocketha_spark.batches import batches
from rocketha_spark.bounds import EVERYTHING, LOWEST, Bounds
from rocketha_spark.exports import Export
from rocketha_spark.options import Options, parse
from rocketha_spark.plan import Piece, bounds_of, chosen, limit, packed, pieces
from rocketha_spark.schema import ARROW_TYPES, ddl, wanted
from rocketha_spark.stream import Positions

HANDS_FILTERS = hasattr(datasource, "Filter")
"""Whether this Spark does."""
LARGE_BYTES = 16 << 20
"""A batch of so many is not held beside another."""


@functools.cache
def settle() -> None:
    """Once in a worker: what was imported stays for good.  Spark collects garbage behind each task of a worker that it
    uses again, and looking through everything that pyspark, numpy and pyarrow made takes 70 ms.
    """
    gc.freeze()


class Task(InputPartition):
    """What one task reads, and of the manifest what it needs for that."""

    def __init__(self, export: Export, pieces: tuple[Piece, ...], bounds: Bounds) -> None:
        slim = attrs.evolve(export.manifest, segments=(), blocks=(), files=(), cuts=())
        self.export = attrs.evolve(export, manifest=slim)
        self.pieces = pieces
        self.bounds = bounds

    def rows(self, names: Sequence[str], options: Options) -> Iterator[pa.RecordBatch]:
        """Of all its pieces.

        :raises CorruptStore: as ``batches``.
        """
        settle()
        for piece in self.pieces:
            yield from let_go(batches(self.export, piece, names, options, self.bounds))


def let_go(made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows; what a large batch has is freed before the next one is made.

    Spark's worker holds the first batch of a task to its end, and any other until it has the next; so one without rows
    stands before each large one, and behind it.
    """
    for batch in made:
        if batch.nbytes < LARGE_BYTES:
            yield batch
            continue
        none = pa.RecordBatch.from_pylist([], batch.schema)
        yield none
        yield batch
        del batch
        yield none


def tasks(ranges: Sequence[tuple[Export, int, int, Bounds]], options: Options) -> list[InputPartition]:
    """Of exports, from where to where in their logs, and what of that; in this order."""
    planned = _planned(ranges, options)
    if options.min_partitions:
        planned = list(planned)
        size = sum(piece.end - piece.begin for piece in planned) // options.min_partitions
        if size < options.partition_bytes:
            options = attrs.evolve(options, partition_bytes=max(1, size))
            planned = _planned(ranges, options)
    return [
        Task(ranges[some[0].export][0], some, ranges[some[0].export][3])
        for some in packed(planned, options.partition_bytes)
    ]


def _planned(ranges: Sequence[tuple[Export, int, int, Bounds]], options: Options) -> Iterable[Piece]:
    for number, (export, begin, end, bounds) in enumerate(ranges):
        yield from pieces(export, number, begin, end, options, bounds)


class RockethaSource(DataSource):
    """The table of one or more exports; docs/spark.rst has its columns and options."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "rocketha"

    def schema(self) -> str:
        """All columns; a user who gives fewer pays for those only."""
        options = parse(self.options)
        return ddl([name for name in ARROW_TYPES if name != "properties" or options.include_properties])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a batch query."""
        options = parse(self.options)
        if not options.push_filters:
            return Reader(options, wanted(schema))
        if not HANDS_FILTERS:
            raise ConfigError("pushFilters needs Spark 4.1: earlier ones hand no filters to the source")
        from rocketha_spark.filters import FilteredReader

        return FilteredReader(options, wanted(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a streaming query."""
        options = parse(self.options)
        try:
            from rocketha_spark.limits import LimitedStreamReader
        except ImportError:
            if options.max_bytes_per_trigger is not None:
                raise ConfigError("maxBytesPerTrigger needs Spark 4.2: earlier ones limit no micro-batch") from None
            return StreamReader(options, wanted(schema))
        return LimitedStreamReader(options, wanted(schema))


class Reader(DataSourceReader):
    """All records that the options leave."""

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        if options.span.latest:
            raise ConfigError("startingOffsets latest is for streams: there is nothing behind the end")
        self._options = options
        self._names = names
        self._bounds = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """Some pieces of log each."""
        ranges = [
            (each, each.manifest.begin, limit(each, self._options), bounds_of(each, self._options).within(self._bounds))
            for each in chosen(self._options)
        ]
        return tasks(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task; where there is nothing to read, Spark asks for one of no partition."""
        return partition.rows(self._names, self._options) if isinstance(partition, Task) else iter(())


class StreamReader(DataSourceStreamReader):
    """Records from where the last micro-batch ended."""

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        self._positions = Positions(options, names)
        self._options = options
        self._names = names
        self._reached: dict[str, object] = {}

    def initialOffset(self) -> dict[str, object]:
        """Of a new query."""
        return self._positions.first()

    def latestOffset(self) -> dict[str, object]:  # type: ignore[override]  # as Spark has it up to 4.1
        """Where the next micro-batch ends."""
        return self._positions.latest(self._reached)

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Some pieces of the log between two offsets each."""
        ranges = [
            (export, low, high, attrs.evolve(bounds_of(export, self._options, strict=False), phys_low=LOWEST))
            for export, low, high in self._positions.ranges(start, end)
        ]
        self._reached = end
        return tasks(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return partition.rows(self._names, self._options) if isinstance(partition, Task) else iter(())


def register(spark: SparkSession) -> None:
    """Make the source known, where Spark has not found it: what is found anywhere Spark 4.0 lets nobody register."""
    try:
        spark.dataSource.register(RockethaSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def load(spark: SparkSession, path: str, columns: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """The table of one or more exports, read from the logs.

    :param path: a directory, or a glob of several.
    :param columns: those that are made; all without.
    :raises ConfigError: a column that is not there.
    """
    register(spark)
    reader = spark.read.format("rocketha").options(**options)
    return (reader.schema(ddl(columns)) if columns else reader).load(path)
