"""The projection of an export: its columns without bodies, once more, as Parquet files beside the log.

Spark computes on Parquet's columns where it makes rows of a Python source's batches, and need not read bodies to pass
over them.  So a projection costs a pass over the log, and then questions about everything but bodies cost little.

Theory of operation: ``projection/<segment>-<digest>`` has the records of one segment.  The digest is of the export's
digests of that part of the log, of where it begins and ends, and of the columns: a segment that grew, was cut or
expired has another name or none, so what is found under a name is right, and nothing need be noted down.  Spark writes
``_SUCCESS`` last; a directory without it is written again.  What depends on more than the record is not in the files:
the replica's names and what is confirmed are added when they are read.
"""

from __future__ import annotations

import bisect
import fcntl
import functools
import glob
import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from rocketha.errors import ConfigError
from rocketha.export.manifest import Segment
from rocketha.store.posix_disk import private_dirs, private_file
from rocketha_spark.exports import Export, opened
from rocketha_spark.options import Options, parse
from rocketha_spark.plan import bounds_of, chosen, limit
from rocketha_spark.schema import ddl
from rocketha_spark.source import load

DIRECTORY = "projection"
FILE_OF_BYTES = 512 << 20
"""Of log in one file: opening one costs as much as reading some MB of it."""
COLUMNS = (
    "phys_offset",
    "size",
    "term",
    "ledger_index",
    "topic",
    "kind",
    "real_topic",
    "stored_again",
    "queue_id",
    "queue_offset",
    "msg_id",
    "uniq_key",
    "keys",
    "tags",
    "born_ts",
    "store_ts",
    "born_host",
    "store_host",
    "sys_flag",
    "flag",
    "reconsume_times",
    "prepared_offset",
    "delay_level",
    "body_length",
    "body_codec",
    "body_crc",
    "dt",
    "hour",
)
"""In the files."""
OF_THE_EXPORT = ("cluster", "broker_name", "broker_id", "replica")
_OURS = re.compile("[0-9]{20}-[0-9a-f]{16}")
"""Names of directories that were projections of segments; what else stands there is somebody else's."""
WITHIN = (*COLUMNS, *OF_THE_EXPORT, "confirmed")
"""What a query may ask for that a projection answers."""


def project(spark: SparkSession, path: str) -> int:
    """Writes what the projections of some exports lack, and deletes what they no longer need.

    :param path: of one or more exports.
    :returns: how many segments were written.
    :raises ConfigError: there is no export.
    """
    written = 0
    for export in opened(path):
        with _locked(export):
            written += _project(spark, export)
    return written


def _project(spark: SparkSession, export: Export) -> int:
    written = 0
    wanted = {
        _directory(export, segment): segment
        for segment in export.manifest.segments
        if segment.messages and not segment.corrupt
    }
    for directory, segment in wanted.items():
        if not _whole(directory):
            _write(spark, export, segment, directory)
            written += 1
    for directory in glob.glob(f"{glob.escape(export.directory)}/{DIRECTORY}/*"):
        if directory not in wanted and _OURS.fullmatch(os.path.basename(directory)):
            shutil.rmtree(directory, ignore_errors=True)  # which follows no link
    return written


def _write(spark: SparkSession, export: Export, segment: Segment, directory: str) -> None:
    options = {
        "onlyConfirmed": "false",
        "partitionBytes": str(FILE_OF_BYTES),
        **_range(segment.begin, segment.records_end),
    }
    rows = load(spark, glob.escape(export.directory), COLUMNS, options)
    fresh = f"{os.path.dirname(directory)}/.fresh"
    for each in (fresh, directory):
        if os.path.islink(each):
            raise ConfigError(f"{each} is a symbolic link, which no projection has")
    rows.write.mode("overwrite").parquet(f"file://{fresh}")
    shutil.rmtree(directory, ignore_errors=True)
    os.rename(fresh, directory)


@contextmanager
def _locked(export: Export) -> Iterator[None]:
    """One run at a time writes an export's projection: Spark would mix the files of two.

    :raises ConfigError: another one does, or its directory is a symbolic link.
    """
    path = f"{export.directory}/{DIRECTORY}"
    if os.path.islink(path) or os.path.islink(f"{path}/.lock"):
        raise ConfigError(f"{path}, or its .lock, is a symbolic link, which no projection has")
    private_dirs(path)
    with open(f"{path}/.lock", "ab", opener=private_file) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"another run writes {path}") from None
        yield


def projected(spark: SparkSession, columns: Sequence[str], given: dict[str, str]) -> DataFrame | None:
    """The table, as far as projections go from them, and the rest from the logs: segments that were not projected, or
    are not any more what they were, and those with damaged records.  None where that is all, or where projections do
    not have all columns that are asked for, or reading begins or ends elsewhere than at places in the log.

    :param given: options of the table.
    """
    if not columns or not set(columns) <= set(WITHIN):
        return None
    options = parse(given)
    if options.cuts or not options.span.of_the_log or options.span.latest:
        return None
    stretches = [_Stretch(export, *_ends(export, options)) for export in chosen(options)]
    if not any(each.there for each in stretches):
        return None
    unplaced = {name: value for name, value in given.items() if name.lower() not in _PLACED}
    parts = []
    for each in stretches:
        if each.there:
            parts.append(_of_files(spark, each, options).select(*columns))
        for low, high in each.between():
            path = glob.escape(each.export.directory)
            parts.append(load(spark, path, columns, {**unplaced, **_range(low, high)}))
    return functools.reduce(DataFrame.unionAll, parts)


_PLACED = ("path", "replica", "startingoffsets", "endingoffsets", "offsetkind")


def _ends(export: Export, options: Options) -> tuple[int, int]:
    bounds = bounds_of(export, options)
    return max(export.manifest.begin, bounds.phys_low), min(limit(export, options), bounds.phys_high)


@attrs.frozen(slots=False)
class _Stretch:
    """What a query reads of an export.

    :ivar low: records begin there or behind it, before ``high``.
    """

    export: Export
    low: int
    high: int

    @functools.cached_property
    def there(self) -> dict[int, str]:
        """Of the segments that are read from a projection, by their bases, its directories."""
        if not os.path.isdir(f"{self.export.directory}/{DIRECTORY}"):
            return {}
        found = {each.base: _directory(self.export, each) for each in self.asked() if not each.corrupt}
        return {base: directory for base, directory in found.items() if _whole(directory)}

    def between(self) -> Iterator[tuple[int, int]]:
        """Stretches of the others."""
        runs: list[list[Segment]] = [[]]
        for segment in self.asked():
            if segment.base in self.there:
                runs.append([])
            else:
                runs[-1].append(segment)
        for run in filter(None, runs):
            yield max(self.low, run[0].begin), min(self.high, run[-1].records_end)

    def asked(self) -> Iterator[Segment]:
        """The segments that have something of it."""
        for segment in self.export.manifest.segments:
            if segment.messages and segment.begin < self.high and segment.records_end > self.low:
                yield segment


def _of_files(spark: SparkSession, stretch: _Stretch, options: Options) -> DataFrame:
    export, there = stretch.export, [each for each in stretch.asked() if each.base in stretch.there]
    paths = (_literal(f"file://{directory}") for directory in stretch.there.values())
    table = spark.read.schema(ddl(COLUMNS)).option("recursiveFileLookup", "true").parquet(*paths)
    manifest = export.manifest
    if stretch.low > there[0].begin:
        table = table.where(sql.col("phys_offset") >= stretch.low)
    if stretch.high < there[-1].records_end:
        table = table.where(sql.col("phys_offset") < stretch.high)
    if not options.all_topics:
        topics = {queue.topic for segment in there for queue in segment.queues}
        table = table.where(sql.col("topic").isin(sorted(filter(options.wants, topics))))
    of_export: dict[str, Column] = {name: sql.lit(getattr(manifest, name)) for name in OF_THE_EXPORT}
    confirmed = sql.col("phys_offset") + sql.col("size") <= manifest.confirmed
    return table.withColumns({**of_export, "broker_id": of_export["broker_id"].cast("bigint"), "confirmed": confirmed})


def _literal(path: str) -> str:
    """What Hadoop reads as that path and no pattern."""
    return re.sub(r"([][{}*?\\])", r"\\\1", path)


def _range(low: int, high: int) -> dict[str, str]:
    return {"startingOffsets": str(low), "endingOffsets": str(high)}


def _whole(directory: str) -> bool:
    """Spark has written all of it, and no symbolic link leads anywhere else."""
    if os.path.islink(os.path.dirname(directory)) or os.path.islink(directory) or not os.path.isdir(directory):
        return False
    with os.scandir(directory) as entries:
        found = {each.name: each.is_file(follow_symlinks=False) for each in entries}
    return "_SUCCESS" in found and all(found.values())


def _directory(export: Export, segment: Segment) -> str:
    """Of a segment's files, as the export is now."""
    digest = hashlib.sha256(f"{segment.begin} {segment.records_end} {COLUMNS}".encode())
    blocks = export.manifest.blocks
    first = bisect.bisect_right(blocks, segment.begin, key=lambda block: block.end)
    for block in itertools.takewhile(lambda block: block.begin < segment.records_end, blocks[first:]):
        digest.update(block.sha256.encode())
    return f"{export.directory}/{DIRECTORY}/{segment.base:020d}-{digest.hexdigest()[:16]}"
