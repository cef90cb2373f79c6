"""``python -m rocketha_spark NAME PATH``: audits, figures, Parquet and the report from a shell or a scheduler.

Exit status: 0 done, and of audits nothing found; 1 an audit found something; 2 of flags, exports and files that cannot
be used.
"""

from __future__ import annotations

import argparse
import os
import sys

from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from rocketha.errors import RockethaError
from rocketha_spark import audits, figures
from rocketha_spark.parquet import to_parquet
from rocketha_spark.projection import project
from rocketha_spark.read import read

_ARROW = "-Darrow.enable_null_check_for_get=false"
SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.driver.extraJavaOptions": _ARROW,
    "spark.executor.extraJavaOptions": _ARROW,
}
"""Where a user says nothing of them; docs/spark.rst, Speed."""
FIGURES = (*figures.FIGURES, "consumer_lag")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rocketha_spark", description=__doc__)
    jobs = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    functions = {**audits.AUDITS, "unkept": audits.unkept, **figures.FIGURES, "consumer_lag": figures.consumer_lag}
    says = {name: " ".join((each.__doc__ or "").partition("\n\n")[0].split()) for name, each in functions.items()}
    says |= {"to_parquet": "write Parquet files by replica, day and hour", "report": "write a page of HTML"}
    says["project"] = "write the columns without bodies beside the log; questions about those become faster"
    for name, help_ in says.items():
        job = jobs.add_parser(name, help=help_.replace("%", "%%"), description=help_)
        job.add_argument("path", help="an export's directory, or a glob of several")
        if name != "project":
            job.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the table")
        if name == "unkept":
            job.add_argument("ledger", help="JSON lines, .csv with names, or .parquet: topic, uniq_key and more")
        if name in ("to_parquet", "report"):
            job.add_argument("target", help="what is written")
        elif name != "project":
            job.add_argument("--limit", type=int, default=1000, help="rows to print (default %(default)s)")
    return parser


def _ledger(spark: SparkSession, path: str) -> DataFrame:
    if path.endswith(".csv"):
        return spark.read.csv(path, header=True)
    return spark.read.parquet(path) if path.endswith(".parquet") else spark.read.json(path)


def _rows(spark: SparkSession, given: argparse.Namespace, options: dict[str, str]) -> int:
    """Prints them, a JSON object a line."""
    if given.name == "unkept":
        table = read(spark, given.path, audits.COLUMNS["unkept"], **{"onCorrupt": "row", **options})
        found = audits.unkept(table, _ledger(spark, given.ledger))
    elif given.name in FIGURES:
        found = figures.figure(spark, given.name, given.path, **options)
        found = found.orderBy(*found.columns[:3])
    else:
        found = audits.audit(spark, given.name, given.path, **options)
    lines = [row[0] for row in found.select(sql.to_json(sql.struct("*"))).take(given.limit + 1)]
    for line in lines[: given.limit]:
        print(line)
    more = "more than " if len(lines) > given.limit else ""
    count = f"{more}{min(len(lines), given.limit)}"
    if given.name in FIGURES:
        print(f"{given.name}: {count} rows")
        return 0
    print(f"{given.name}: {count} findings" if lines else f"{given.name}: nothing found")
    return int(bool(lines))


def _run(spark: SparkSession, given: argparse.Namespace, options: dict[str, str]) -> int:
    if given.name == "project":
        print(f"project: {project(spark, given.path)} segments written")
        return 0
    if given.name == "to_parquet":
        written = to_parquet(spark, given.path, given.target, **options).count()
        print(f"to_parquet: {written} messages in {given.target}")
        return 0
    if given.name == "report":
        from rocketha_spark.report import write_report  # its libraries draw; nothing else needs them

        found = [each for each in write_report(spark, given.path, given.target, **options) if each.findings]
        print(
            f"report: {given.target}; {', '.join(each.name for each in found) or 'none'} of the audits found something"
        )
        return 0
    return _rows(spark, given, options)


def main(arguments: list[str] | None = None) -> int:
    """Run a job; its exit status."""
    given = _parser().parse_args(arguments)
    options = dict(each.partition("=")[::2] for each in getattr(given, "option", ()))
    settings = SparkConf()
    if settings.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # elsewhere workers have a Python of their own
    for name, value in SETTINGS.items():
        settings.setIfMissing(name, value)
    there = SparkSession.getActiveSession()
    spark = SparkSession.builder.config(conf=settings).appName(f"rocketha {given.name}").getOrCreate()
    try:
        return _run(spark, given, options)
    except (PySparkException, RockethaError, OSError, ImportError) as error:
        print(_reason(str(error)), file=sys.stderr)
        return 2
    finally:
        if there is None:
            spark.stop()


def _reason(text: str) -> str:
    """The line of an error that says why: of one that Spark brings from a Python worker the last of its traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("SQLSTATE:")]
    ours = [line for line in lines if line.startswith("rocketha.errors.")]
    return ours[-1].partition(": ")[2] if ours else (lines or ["no reason is known"])[-1]


if __name__ == "__main__":
    sys.exit(main())
