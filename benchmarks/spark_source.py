"""Exports read by Spark: MB and rows a second of a count, of columns without bodies and of everything.

Against Parquet with the same rows, a data source that parses record by record, and the plain read of the files.
``python -m benchmarks.spark_source --mib 2048 --rounds 3``; MB are of the log in each column, so they compare.
Filters that leave 1 % of the files: ``--mib 10240 --file-mib 64 --ways "full,1 % by time,1 % by topic"``, since every
query of Spark costs a fifth of a second before anything is read.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks import spark_data
from rocketha.wire.properties import parse
from rocketha.wire.record import scan
from rocketha_spark.__main__ import SETTINGS
from rocketha_spark.counts import count
from rocketha_spark.projection import project
from rocketha_spark.read import read
from rocketha_spark.source import load

LIGHT = ("topic", "queue_id", "queue_offset", "phys_offset", "store_ts", "body_length")
FULL = (*LIGHT, "tags", "uniq_key", "body")


class ByRecord(DataSource):
    """What one writes first: each record parsed alone, a tuple each."""

    @classmethod
    def name(cls) -> str:
        return "byrecord"

    def schema(self) -> str:
        return (
            "topic string, queue_id int, queue_offset bigint, phys_offset bigint, store_ms bigint, body_length int,"
            " tags string, uniq_key string, body binary"
        )

    def reader(self, schema: Any) -> DataSourceReader:
        return ByRecordReader(self.options["path"])


class ByRecordReader(DataSourceReader):
    """A file is a task."""

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(each)) for each in sorted(Path(self._path, "commitlog").iterdir())]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        for _, each in scan(Path(partition.value).read_bytes()):
            named = parse(each.properties)
            yield (
                each.topic,
                each.queue_id,
                each.queue_offset,
                each.physical_offset,
                each.store_timestamp_ms,
                len(each.body),
                named.get("TAGS"),
                named.get("UNIQ_KEY"),
                each.body,
            )


def cpu_seconds() -> float:
    """Of this process and all below it, so far; those that ended count once their parent has waited for them."""
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
        spent[int(path.parent.name)] = sum(map(int, fields[11:15])) / tick
    total, left = 0.0, [os.getpid()]
    while left:
        process = left.pop()
        total += spent.get(process, 0.0)
        left += children.get(process, [])
    return total


def session() -> SparkSession:
    """Two local cores, and the settings that docs/spark.rst gives under Speed."""
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("rocketha-bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        **SETTINGS,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(ByRecord)
    return spark


def light(table: DataFrame) -> Any:
    """Something of every column but the body; no greatest string, for which Spark would sort all rows."""
    return (
        table.groupBy("topic")
        .agg(
            sql.sum("body_length"),
            sql.max("queue_offset"),
            sql.max("phys_offset"),
            sql.max("queue_id"),
            sql.max(table.columns[4]),
        )
        .collect()
    )


def full(table: DataFrame) -> Any:
    """Something of every column."""
    return (
        table.groupBy("topic")
        .agg(
            sql.sum(sql.length("body")),
            sql.max("queue_offset"),
            sql.max("phys_offset"),
            sql.max("queue_id"),
            sql.max(table.columns[4]),
            sql.sum(sql.length("tags")),
            sql.sum(sql.length("uniq_key")),
            sql.sum("body_length"),
        )
        .collect()
    )


def plain_read(directory: Path) -> None:
    """The files, one behind the other."""
    for path in sorted((directory / "commitlog").iterdir()):
        with open(path, "rb", buffering=0) as file:
            while file.read(8 << 20):
                pass


def ways_of(spark: SparkSession, ours: str, parquet: str, rows: int) -> dict[str, Callable[[], object]]:
    """What is measured, by its name."""
    hundredth = sql.timestamp_millis(sql.lit(spark_data.BEGIN_MS + rows // 100))
    pushed = {"pushFilters": "true"}
    return {
        "count": lambda: count(ours),
        "count parquet": lambda: spark.read.parquet(parquet).count(),
        "light": lambda: light(read(spark, ours, LIGHT)),
        "light from log": lambda: light(load(spark, ours, LIGHT, {})),
        "light parquet": lambda: light(spark.read.parquet(parquet).select(*LIGHT)),
        "full": lambda: full(read(spark, ours, FULL)),
        "full parquet": lambda: full(spark.read.parquet(parquet)),
        "full by record": lambda: full(spark.read.format("byrecord").load(ours)),
        "1 % by time": lambda: full(load(spark, ours, FULL, pushed).where(sql.col("store_ts") < hundredth)),
        "1 % by topic": lambda: full(load(spark, ours, FULL, pushed).where(sql.col("topic") == spark_data.RARE)),
        "files": lambda: plain_read(Path(ours)),
    }


RATIOS = (
    ("count", "count parquet", ">= 1"),
    ("light", "light parquet", ">= 0.8"),
    ("light from log", "light parquet", "without the projection"),
    ("full", "full parquet", ">= 0.5"),
    ("full", "full by record", ">= 2.5 at 1 KiB, 4 at 128 B"),
)
FILTERED = ("1 % by time", "1 % by topic")


def measure(spark: SparkSession, folder: Path, body_bytes: int, given: argparse.Namespace, chosen: list[str]) -> None:
    """One size of bodies.

    :param given: the flags.
    :param chosen: names of ways; none means all, but for filters where a file is more than what they leave.
    """
    rows = spark_data.write_log(folder / "store", given.mib, body_bytes, given.file_mib << 20)
    exported = folder / "export"
    seconds = spark_data.export(folder / "store", exported)
    shutil.rmtree(folder / "store")
    size = sum(path.stat().st_size for path in (exported / "commitlog").iterdir()) / 1e6
    print(f"\n{body_bytes} B bodies: {rows} messages, {size:.0f} MB; exported in {seconds:.1f} s")
    ours, parquet = str(exported), str(folder / "parquet")
    ways = ways_of(spark, ours, parquet, rows)
    if not chosen:
        few = 100 * given.file_mib > given.mib  # files, of which one is more than 1 %
        chosen = [name for name in ways if not (few and name in FILTERED)]
    ways = {name: ways[name] for name in chosen}
    if any("parquet" in name for name in ways):
        load(spark, ours, FULL, {}).write.parquet(parquet)
        print(f"Parquet: {size_of(folder / 'parquet'):.0f} MB")
    if "light" in ways:
        began = time.perf_counter()
        project(spark, ours)
        seconds = time.perf_counter() - began
        print(f"projection: {size_of(exported / 'projection'):.0f} MB in {seconds:.1f} s")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(given.rounds + 1):
        for name, way in ways.items():
            began, spent = time.perf_counter(), cpu_seconds()
            way()
            if turn:  # the first is to warm up
                found[name].append((time.perf_counter() - began, cpu_seconds() - spent))
    report(found, size, rows)


def size_of(directory: Path) -> float:
    """MB of all files below."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def report(found: dict[str, list[tuple[float, float]]], size: float, rows: int) -> None:
    """Medians and ratios."""
    median = {
        name: tuple(statistics.median(column) for column in zip(*taken, strict=True)) for name, taken in found.items()
    }
    print(f"{'':16}{'s':>8}{'CPU s':>8}{'MB/s':>9}{'MB/CPU s':>10}{'rows/s':>12}{'s, least to most':>20}")
    for name, (wall, cpu) in median.items():
        walls = sorted(each for each, _ in found[name])
        print(
            f"{name:16}{wall:8.3f}{cpu:8.2f}{size / wall:9.0f}{size / max(cpu, 0.01):10.0f}{rows / wall:12.0f}"
            f"{walls[0]:13.3f}{walls[-1]:7.3f}"
        )
    for name, over, wanted in RATIOS:
        if name in median and over in median:
            print(f"{name} against {over}: {median[over][0] / median[name][0]:.2f} ({wanted})")
    for name in FILTERED:
        if name in median and "full" in median:
            part = [100 * median[name][at] / median["full"][at] for at in (0, 1)]
            print(f"{name} costs {part[0]:.1f} % of the time of all, {part[1]:.1f} % of its CPU (<= 5)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spark_source", description=__doc__)
    parser.add_argument("--mib", type=int, default=2048, help="of log (default %(default)s)")
    parser.add_argument("--file-mib", type=int, default=spark_data.FILE_BYTES >> 20, help="(default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="behind one to warm up (default %(default)s)")
    parser.add_argument("--bodies", default="1024,128", help="bytes (default %(default)s)")
    parser.add_argument("--ways", default="", help="names of what is measured, with commas between (default: all)")
    given = parser.parse_args()
    chosen = [each.strip() for each in given.ways.split(",") if each.strip()]
    spark = session()
    unknown = set(chosen) - set(ways_of(spark, "", "", 0))
    if unknown:
        parser.error(f"no such ways: {', '.join(sorted(unknown))}")
    for body_bytes in map(int, given.bodies.split(",")):
        with tempfile.TemporaryDirectory(prefix="rocketha-spark-bench-") as folder:
            measure(spark, Path(folder), body_bytes, given, chosen)
    spark.stop()


if __name__ == "__main__":
    main()
