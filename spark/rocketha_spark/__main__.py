"""``python -m rocketha_spark NAME PATH``: audits, figures, Parquet and the report from a shell or a scheduler.

Exit status: 0 done, and of audits nothing found; 1 an audit found something; 2 of flags, exports and files that cannot
be used.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from rocketha.errors import RockethaError
from rocketha_spark import audits, engines, figures
from rocketha_spark.duck import Duck
from rocketha_spark.exports import opened
from rocketha_spark.read import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ARROW = "-Darrow.enable_null_check_for_get=false"
SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.driver.extraJavaOptions": _ARROW,
    "spark.executor.extraJavaOptions": _ARROW,
}
"""Where a user says nothing of them; docs/spark.rst, Speed."""
FIGURES = (*figures.FIGURES, "consumer_lag")
SPARKS = ("to_parquet", "project")
"""What only Spark does."""
ENGINES = ("auto", "duckdb", "spark")
DUCK_BYTES = 4 << 30
"""Of log: of more than that, and without a word from the user, Spark is started."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rocketha_spark", description=__doc__)
    jobs = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    functions = {**audits.AUDITS, "unkept": audits.unkept, **figures.FIGURES, "consumer_lag": figures.consumer_lag}
    says = {"all": "every audit; each finding says which one found it"}
    says |= {name: " ".join((each.__doc__ or "").partition("\n\n")[0].split()) for name, each in functions.items()}
    says |= {"to_parquet": "write Parquet files by replica, day and hour", "report": "write a page of HTML"}
    says["project"] = "write the columns without bodies beside the log; questions about those become faster"
    for name, help_ in says.items():
        job = jobs.add_parser(name, help=help_.replace("%", "%%"), description=help_)
        job.add_argument("path", help="an export's directory, or a glob of several")
        if name != "project":
            job.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the table")
        if name not in SPARKS:
            job.add_argument(
                "--engine",
                choices=ENGINES,
                default="auto",
                help="what computes; auto: DuckDB in this process, where it is installed and the logs have up to"
                f" {DUCK_BYTES >> 30} GiB, else Spark, and that under spark-submit",
            )
        if name == "unkept":
            job.add_argument("ledger", help="JSON lines, .csv with names, or .parquet: topic, uniq_key and more")
        if name in ("to_parquet", "report"):
            job.add_argument("target", help="what is written")
        elif name != "project":
            job.add_argument("--limit", type=int, default=1000, help="rows to print (default %(default)s)")
    return parser


def _rows(session: engines.Session, given: argparse.Namespace, options: dict[str, str]) -> int:
    """Prints them, a JSON object a line."""
    if given.name == "all":
        found = [
            _print(name, rows, given.limit, "findings", {"audit": name})
            for name, rows in audits.every(session, given.path, **options)
        ]
        return int(any(found))
    if given.name == "unkept":
        table = read(session, given.path, audits.COLUMNS["unkept"], **{"onCorrupt": "row", **options})
        return int(_print(given.name, audits.unkept(table, engines.file(session, given.ledger)), given.limit))
    if given.name in FIGURES:
        figure = figures.figure(session, given.name, given.path, **options)
        _print(given.name, figure.orderBy(*figure.columns[:3]), given.limit, "rows")
        return 0
    return int(_print(given.name, audits.audit(session, given.name, given.path, **options), given.limit))


def _print(
    name: str, found: DataFrame, limit: int, what: str = "findings", more: dict[str, object] | None = None
) -> bool:
    """Whether there are any."""
    rows = found.limit(limit + 1).collect()
    for row in rows[:limit]:
        print(_line({**(more or {}), **row.asDict(recursive=True)}))
    if not rows and what == "findings":
        print(f"{name}: nothing found")
        return False
    print(f"{name}: {'more than ' if len(rows) > limit else ''}{min(len(rows), limit)} {what}")
    return True


def _line(row: dict[str, object]) -> str:
    """As Spark's to_json has it."""
    there = {name: value for name, value in row.items() if value is not None}
    return json.dumps(there, ensure_ascii=False, separators=(",", ":"), default=_text)


def _text(value: object) -> str:
    if isinstance(value, datetime):  # Spark gives local time without a zone
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return base64.b64encode(bytes(value)).decode() if isinstance(value, bytes | bytearray) else str(value)


def _run(session: engines.Session, given: argparse.Namespace, options: dict[str, str]) -> int:
    if given.name == "report":
        from rocketha_spark.report import write_report  # its libraries draw; nothing else needs them

        found = [each for each in write_report(session, given.path, given.target, **options) if each.findings]
        print(
            f"report: {given.target}; {', '.join(each.name for each in found) or 'none'} of the audits found something"
        )
        return 0
    if given.name not in SPARKS:
        return _rows(session, given, options)
    assert not isinstance(session, Duck)
    if given.name == "project":
        from rocketha_spark.projection import project

        print(f"project: {project(session, given.path)} segments written")
        return 0
    from rocketha_spark.parquet import to_parquet

    written = to_parquet(session, given.path, given.target, **options).count()
    print(f"to_parquet: {written} messages in {given.target}")
    return 0


def _in_duck(given: argparse.Namespace) -> bool:
    """Whether DuckDB is to do it.

    :raises RockethaError: there is no such export.
    """
    engine = getattr(given, "engine", "spark")
    if engine != "auto":
        return bool(engine == "duckdb")
    if "PYSPARK_GATEWAY_PORT" in os.environ or any(map(_missing, ("duckdb", "sqlframe"))):  # spark-submit sets it
        return False
    return sum(each.manifest.end - each.manifest.begin for each in opened(given.path)) <= DUCK_BYTES


def _missing(module: str) -> bool:
    return importlib.util.find_spec(module) is None


@contextmanager
def _spark(name: str) -> Iterator[Any]:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    settings = SparkConf()
    if settings.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # elsewhere workers have a Python of their own
    for key, value in SETTINGS.items():
        settings.setIfMissing(key, value)
    there = SparkSession.getActiveSession()
    spark = SparkSession.builder.config(conf=settings).appName(f"rocketha {name}").getOrCreate()
    try:
        yield spark
    finally:
        if there is None:
            spark.stop()


def main(arguments: list[str] | None = None) -> int:
    """Run a job; its exit status."""
    given = _parser().parse_args(arguments)
    options = dict(each.partition("=")[::2] for each in getattr(given, "option", ()))
    try:
        with Duck() if _in_duck(given) else _spark(given.name) as session:
            return _run(session, given, options)
    except (RockethaError, OSError) as error:
        return _refused(_reason(str(error)))
    except ImportError as error:
        return _refused(f"{error.name or error} is missing: pip install 'rocketha[arrow]', or 'rocketha[spark]'")
    except Exception as error:  # of engines, which need not be imported
        if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
            raise KeyboardInterrupt from None
        engine = type(error).__module__.partition(".")[0].lstrip("_")
        if engine not in ("pyspark", "duckdb", "sqlframe", "sqlglot"):
            raise
        text = str(error) if engine == "pyspark" else str(error).strip().partition("\n")[0]  # below, SQL of ours
        return _refused(_reason(text))


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


def _reason(text: str) -> str:
    """The line of an error that says why: of one that Spark brings from a Python worker the last of its traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("SQLSTATE:")]
    ours = [line for line in lines if line.startswith("rocketha.errors.")]
    return ours[-1].partition(": ")[2] if ours else (lines or ["no reason is known"])[-1]


if __name__ == "__main__":
    sys.exit(main())
