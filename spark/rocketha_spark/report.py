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
from collections.abc import Iterator, Mapping, Sequence
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
    from pyspark.sql import DataFrame

FINDINGS = 20
"""Of an audit that are shown."""
POINTS = 240
"""Of a line, at most."""
BARS = 20
"""Names with a bar, or one for each replica."""
Points = list[tuple[datetime, float]]
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
        exports=[each.manifest for each in exports], verdicts=verdicts, charts=charts, time=_time, size=_bytes
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
    series: dict[str, Points] = defaultdict(list)
    for row in counts.limit(POINTS * len(exports)).collect():
        series[row["replica"]].append((_utc(row["begin"]), row["messages"] / step))
    one_each = {replica: {"": points} for replica, points in series.items()}
    yield _lines("Messages", f"Stored a second, in steps of {step} s.", one_each, "messages/s")
    delays = lag(read(session, path, COLUMNS["lag"], **options), step).orderBy("begin")
    shares: dict[str, dict[str, Points]] = defaultdict(lambda: {name: [] for name in PERCENTILES})
    for row in delays.limit(POINTS * len(exports)).collect():
        for percentile, points in shares[row["replica"]].items():
            points.append((_utc(row["begin"]), row[percentile]))
    yield _lines("Delay", "From the producer's clock to the log's, percentiles.", shares, "ms", logarithmic=True)
    cost = figure(session, "cost", path, **options).where("topic is not null").groupBy("replica", "topic")
    size = sql.sum("bytes").alias("value")
    yield _bars("Bytes", "Topics with the most of the log.", cost.agg(size), ("topic",), exports, "bytes")
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
    title: str, says: str, of: Mapping[str, Mapping[str, Points]], unit: str, logarithmic: bool = False
) -> Chart:
    """Of replicas that say the same one of them is drawn.

    :param of: by replica, and by what its lines are.
    """
    alike: list[tuple[list[str], Mapping[str, Points]]] = []
    for replica, mine in of.items():
        names = next((names for names, theirs in alike if theirs == mine), None)
        if names is None:
            alike.append(([replica], mine))
        else:
            names.append(replica)
    drawn, colours = [], len(drawings.COLOURS)
    for group, (names, mine) in enumerate(alike):
        who = "" if len(of) == 1 else "all replicas" if len(names) == len(of) else ", ".join(sorted(names))
        for number, (name, points) in enumerate(mine.items()):
            several = len(mine) > 1
            label = " ".join(filter(None, (name, who)))
            drawn.append(
                drawings.Line(label, points, number if several else group, group if several else group // colours)
            )
    return Chart(title, says, _uri(drawings.lines(drawn, unit, logarithmic)) if drawn else None)


def _bars(title: str, says: str, rows: DataFrame, names: Sequence[str], exports: Sequence[Export], unit: str) -> Chart:
    """Of the names with the largest values: one bar where all replicas say the same, else one a replica."""
    sql = plans(rows).sql
    most = rows.groupBy(*names).agg(sql.max("value").alias("most"))
    largest = most.orderBy(sql.desc("most"), *names).limit(BARS)
    found = rows.join(largest, list(names)).select("replica", *names, "value", "most")
    by_name: dict[str, dict[str, float]] = defaultdict(dict)
    for row in found.orderBy(sql.desc("most"), *names, "replica").collect():
        by_name[" ".join(str(row[name]) for name in names)][row["replica"]] = float(row["value"])
    values = []
    for label, said in by_name.items():
        if len(said) == len(exports) and len(set(said.values())) == 1:
            values.append((label, next(iter(said.values()))))
        else:
            values += [(f"{label} ({replica})", value) for replica, value in said.items()]
    if unit == "bytes" and values:
        unit, size = _unit(max(value for _, value in values))
        values = [(label, value / size) for label, value in values]
    return Chart(title, says, _uri(drawings.bars(values, unit)) if values else None)


def _unit(most: float) -> tuple[str, int]:
    """In which so many bytes are a number below 1024, and its size."""
    power = min(4, max(0, int(most).bit_length() - 1) // 10)
    return ("bytes", "KiB", "MiB", "GiB", "TiB")[power], 1 << 10 * power


def _bytes(count: int) -> str:
    unit, size = _unit(count)
    return f"{drawings.number(count / size)} {unit}"


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
