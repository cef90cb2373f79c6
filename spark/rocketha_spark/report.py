"""One page about exports, for a person: what there is, what the audits say, and charts; a file that needs no other.

Theory of operation: what the engine gives is bounded before it comes here: findings by :data:`FINDINGS`, points of a
line by :data:`POINTS`, bars by :data:`BARS`.  The page has no script, and forbids itself whatever it does not bring
along.
"""

from __future__ import annotations

import base64
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
from jinja2 import Environment, PackageLoader

from rocketha.export.target import local_path
from rocketha_spark import drawings
from rocketha_spark.audits import AUDITS, every
from rocketha_spark.engines import Session, plans
from rocketha_spark.exports import Export, opened
from rocketha_spark.figures import COLUMNS, PERCENTILES, consumer_lag, figure, lag, span
from rocketha_spark.options import parse
from rocketha_spark.read import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

FINDINGS = 20
"""Of an audit that are shown."""
POINTS = 240
"""Of a line, at most."""
BARS = 15
_STEPS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400, 7 * 86400)


@attrs.frozen
class Verdict:
    """Of one audit.

    :ivar more: there are more findings than those.
    """

    name: str
    says: str
    columns: tuple[str, ...]
    findings: tuple[tuple[str, ...], ...]
    more: bool


@attrs.frozen
class Chart:
    """One picture, or why there is none."""

    title: str
    says: str
    picture: str | None


def write_report(session: Session, path: str, target: str, **options: str) -> tuple[Verdict, ...]:
    """A page of HTML at ``target``, replaced when it is whole; what its audits found.

    :param path: of one or more exports.
    :raises OSError: the page cannot be written.
    :raises ConfigError: there is no export, or the page would be on another kind of storage.
    """
    target = local_path(target)
    exports = opened(path, parse({"path": path, **options}).replica)
    verdicts = tuple(_verdict(name, found) for name, found in every(session, path, **options))
    charts = list(_charts(session, exports, path, {"onCorrupt": "row", **options}))
    environment = Environment(loader=PackageLoader("rocketha_spark"), autoescape=True)
    page = environment.get_template("report.html.jinja").render(
        exports=[each.manifest for each in exports], verdicts=verdicts, charts=charts, time=_time
    )
    folder, name = os.path.split(os.path.abspath(target))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix=f".{name}.", dir=folder, delete=False) as file:
        try:
            file.write(page)
            file.flush()
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise
    return verdicts


def _verdict(name: str, found: DataFrame) -> Verdict:
    rows = found.limit(FINDINGS + 1).collect()
    says = (AUDITS[name].__doc__ or "").partition("\n\n")[0].replace("``", "")
    cells = tuple(tuple(drawings.name(str(value)) for value in row) for row in rows[:FINDINGS])
    return Verdict(name, " ".join(says.split()), tuple(found.columns), cells, len(rows) > FINDINGS)


def _charts(session: Session, exports: Sequence[Export], path: str, options: dict[str, str]) -> Iterator[Chart]:
    step = _step(exports)
    timed = read(session, path, ("replica", "store_ts"), **options).where("store_ts is not null")
    sql = plans(timed).sql
    counts = timed.groupBy("replica", span(sql, step)).agg(sql.count("*").alias("messages")).orderBy("begin")
    series: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for row in counts.limit(POINTS * len(exports)).collect():
        series[row["replica"]].append((_utc(row["begin"]), row["messages"] / step))
    yield _lines("Messages", f"Stored a second, in steps of {step} s.", series, "messages/s")
    delays = lag(read(session, path, COLUMNS["lag"], **options), step).orderBy("begin")
    series = defaultdict(list)
    for row in delays.limit(POINTS * len(exports)).collect():
        for percentile in PERCENTILES:
            label = percentile if len(exports) == 1 else f"{row['replica']} {percentile}"
            series[label].append((_utc(row["begin"]), row[percentile]))
    yield _lines("Delay", "From the producer's clock to the log's, percentiles.", series, "ms", logarithmic=True)
    cost = figure(session, "cost", path, **options).where("topic is not null").groupBy("replica", "topic")
    mebibytes = (sql.sum("bytes") / 2**20).alias("value")
    yield _bars("Bytes", "Topics with the most of the log.", cost.agg(mebibytes), ("topic",), exports, "MiB")
    skew = figure(session, "skew", path, **options).withColumnRenamed("times_mean", "value").where("value > 1")
    says = "Queues with more messages than their topic's mean queue."
    yield _bars("Skew", says, skew, ("topic", "queue_id"), exports, "times the mean")
    waiting = consumer_lag(session, path, **options).withColumnRenamed("messages", "value").where("value > 0")
    says = "Messages that a group has not consumed, at the export's end."
    yield _bars("Consumers", says, waiting, ("consumer_group", "topic", "queue_id"), exports, "messages")


def _step(exports: Sequence[Export]) -> int:
    """Seconds, so that the log's time makes at most as many points as a chart has."""
    times = [
        (each.first_stored_ms, each.last_stored_ms)
        for export in exports
        for each in export.manifest.segments
        if each.messages
    ]
    length = (max(last for _, last in times) - min(first for first, _ in times)) / 1000 if times else 0
    return next((step for step in _STEPS_S if length / step < POINTS - 1), int(length / (POINTS - 1)) + 1)


def _lines(
    title: str, says: str, series: dict[str, list[tuple[datetime, float]]], unit: str, logarithmic: bool = False
) -> Chart:
    return Chart(title, says, _uri(drawings.lines(series, unit, logarithmic)) if series else None)


def _bars(title: str, says: str, rows: DataFrame, names: Sequence[str], exports: Sequence[Export], unit: str) -> Chart:
    top = rows.orderBy(plans(rows).sql.desc("value"), "replica", *names).limit(BARS).collect()
    shown = names if len(exports) == 1 else ("replica", *names)
    values = [(_label(row, shown), float(row["value"])) for row in top]
    return Chart(title, says, _uri(drawings.bars(values, unit)) if values else None)


def _label(row: Row, names: Sequence[str]) -> str:
    return " ".join(str(row[name]) for name in names)


def _uri(picture: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"


def _utc(naive: datetime) -> datetime:
    """Spark gives local time without a zone."""
    return naive.astimezone(UTC)


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
