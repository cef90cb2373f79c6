"""Figures of a log of any content, each against the same counted message by message; and Parquet of it."""

from __future__ import annotations

import json
import statistics
import tempfile
import unittest
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from rocketha.errors import ConfigError, CorruptStore
from rocketha.wire.properties import parse
from rocketha.wire.record import Record
from rocketha_spark import audits, figures
from rocketha_spark.engines import made as made_table
from rocketha_spark.engines import plans
from rocketha_spark.parquet import to_parquet
from rocketha_spark.read import read
from tests.export.stores import Store, made
from tests.seeds import SeededCase
from tests.spark.engines import OnDuck, OnSpark
from tests.spark.logs import kind
from tests.spark.session import session


class _Case(OnSpark, SeededCase):
    """Some hundred messages over minutes and days."""

    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-figures-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.session = self.started()

    def store(self, count: int = 400, step_ms: int = 600_000) -> Store:
        store = Store(self.root / "store")
        store.new_master(1)
        self.fill(store, count, step_ms)
        return store

    def fill(self, store: Store, count: int, step_ms: int) -> None:
        for _ in range(count):
            store.now_ms += self.chance.randrange(step_ms)
            flags = self.chance.choice((0, 0, 0, 4, 8, 0xC))
            ahead = self.chance.choice((-5, 0, 1, 2, 3, 70, 4000))
            made_ = made(self.chance)
            store.append([made_._replace(sys_flag=made_.sys_flag | flags, born_timestamp_ms=store.now_ms - ahead)])

    def export(self, store: Store, name: str = "a", number: int = 1) -> str:
        store.confirm(store.end)
        store.export(self.root / name, name, number)
        return str(self.root / name)

    def queued(self, store: Store) -> dict[tuple[str, int], list[Record]]:
        found: dict[tuple[str, int], list[Record]] = defaultdict(list)
        for _, each in sorted(store.records.items()):
            if each.sys_flag & 0xC not in (4, 0xC):
                found[each.topic, each.queue_id].append(each)
        return found


class FigureTests(_Case):
    """Each against the same, counted message by message."""

    def test_lag(self) -> None:
        """Of each minute, and of steps of an hour."""
        store = self.store(step_ms=5_000)
        path = self.export(store)
        for seconds in (60, 3600):
            delays: dict[int, list[int]] = defaultdict(list)
            for each in store.records.values():
                if kind(each, parse(each.properties))[2]:
                    continue
                begin = each.store_timestamp_ms // 1000 // seconds * seconds
                delays[begin].append(each.store_timestamp_ms - each.born_timestamp_ms)
            wanted = {}
            for begin, some in delays.items():
                some.sort()
                places = [(len(some) - 1) * share for share in figures.PERCENTILES.values()]
                values = [
                    some[int(at)] + (some[min(int(at) + 1, len(some) - 1)] - some[int(at)]) * (at - int(at))
                    for at in places
                ]
                wanted[begin] = [len(some), *(round(value, 6) for value in values), some[-1]]
            table = figures.lag(read(self.session, path, figures.COLUMNS["lag"]), seconds)
            rows = table.withColumn("begin", plans(table).sql.unix_seconds("begin")).collect()
            found = {
                row["begin"]: [row["messages"], *(round(row[at], 6) for at in range(3, 7)), row[7]] for row in rows
            }
            self.assertEqual(found, wanted)
            self.assertGreater(len(wanted), 0)

    def test_skew_and_cost(self) -> None:
        """Queues beside their topic's mean; bytes of topics and days."""
        store = self.store()
        path = self.export(store)
        sizes = dict(zip(sorted(store.records), (each.total for _, each in sorted(store.records.items())), strict=True))
        wanted = {}
        queues = self.queued(store)
        for (topic, queue), some in queues.items():
            mean = statistics.fmean(len(each) for key, each in queues.items() if key[0] == topic)
            size = sum(sizes[each.physical_offset] for each in some)
            wanted[topic, queue] = (len(some), size, round(len(some) / mean, 9))
        rows = figures.figure(self.session, "skew", path).collect()
        found = {(r["topic"], r["queue_id"]): (r["messages"], r["bytes"], round(r["times_mean"], 9)) for r in rows}
        self.assertEqual(found, wanted)
        days: dict[object, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
        for at, each in store.records.items():
            figures_of = days[datetime.fromtimestamp(each.store_timestamp_ms / 1000, UTC).date()][each.topic]
            for place, value in enumerate((1, sizes[at], len(each.body))):
                figures_of[place] += value
        self.assertGreater(len(days), 1)
        rows = figures.figure(self.session, "cost", path).collect()
        self.assertEqual(
            {(r["dt"], r["topic"]): [r["messages"], r["bytes"], r["body_bytes"], round(r["share"], 9)] for r in rows},
            {
                (day, topic): [*some, round(some[1] / sum(each[1] for each in topics.values()), 9)]
                for day, topics in days.items()
                for topic, some in topics.items()
            },
        )

    def test_consumer_lag(self) -> None:
        """Groups in the middle, at the end, beyond, before what there is, and of a queue that has nothing; with keys as
        Java writes them, which is not JSON.
        """
        store = self.store()
        queues = self.queued(store)
        table: dict[str, dict[int, int]] = defaultdict(dict)
        wanted = {}
        for number, ((topic, queue), some) in enumerate(sorted(queues.items())):
            behind = some[-1].queue_offset + 1
            offset = (behind // 2, behind, behind + 5, 0)[number % 4]
            table[f"{topic}@group-{number % 2}"][queue] = offset
            left = [each for each in some if each.queue_offset >= offset]
            waits = min((each.store_timestamp_ms for each in left), default=None)
            newest = max(each.store_timestamp_ms for each in some)
            wanted[f"group-{number % 2}", topic, queue] = (
                offset,
                behind,
                len(left),
                waits,
                newest - waits if waits is not None else 0,
            )
        table["Nothing@idle"][0] = 7
        wanted["idle", "Nothing", 0] = (7, None, 0, None, 0)
        text = ",".join(
            f"{json.dumps(key)}:{{{','.join(f'{queue}:{at}' for queue, at in some.items())}}}"
            for key, some in table.items()
        )
        config = self.root / "store" / "config"
        config.mkdir(exist_ok=True)
        (config / "consumerOffset.json").write_text(f'{{"dataVersion":{{"counter":1}},"offsetTable":{{{text}}}}}')
        path = self.export(store)
        found = figures.figure(self.session, "consumer_lag", path)
        since = plans(found).sql.unix_micros("waits_since") / 1000
        rows = found.withColumn("waits_since", since.cast("bigint")).collect()
        self.assertEqual({(r["consumer_group"], r["topic"], r["queue_id"]): tuple(r)[4:] for r in rows}, wanted)
        store.export(self.root / "b", "b", 2)
        both = figures.figure(self.session, "consumer_lag", str(self.root / "[ab]"), replica="b")
        self.assertEqual({row["replica"] for row in both.collect()}, {"b"})
        (Path(path) / "config" / "consumerOffset.json").write_text('{"offsetTable":{"nobody":{}}}')
        with self.assertRaisesRegex(CorruptStore, "no topic@group"):
            figures.figure(self.session, "consumer_lag", path)

    def test_unkept(self) -> None:
        """Of a ledger those that the log does not have, and whose prepared message was never committed."""
        store = self.store(60)
        path = self.export(store)
        rows, wanted = [], set()
        for _, each in sorted(store.records.items()):
            key = parse(each.properties)["UNIQ_KEY"]
            rows.append((each.topic, key, each.physical_offset))
            if each.sys_flag & 0xC in (4, 0xC):
                wanted.add((each.topic, key, each.physical_offset))
        for lost in (("A", "7F00", -1), ("other", rows[0][1], -2)):
            rows.append(lost)
            wanted.add(lost)
        schema = pa.schema([("topic", pa.string()), ("uniq_key", pa.string()), ("noted", pa.int64())])
        ledger = made_table(self.session, rows, schema)
        found = audits.unkept(read(self.session, path, audits.COLUMNS["unkept"]), ledger)
        self.assertEqual({(r["topic"], r["uniq_key"], r["noted"]) for r in found.collect()}, wanted)


class DuckFigureTests(OnDuck, FigureTests):
    """Without Spark."""


class ParquetTests(_Case):
    """What Spark writes."""

    def test_parquet(self) -> None:
        """Equal to the export; again after it grew: only hours that grew are written; a damaged hour is repaired."""
        store = self.store(150)
        path, target = self.export(store), self.root / "parquet"
        second = self.root / "b"
        store.export(second, "7", 2)  # a name like a number
        both = str(self.root / "[ab]")

        def same() -> None:
            names = [name for name in read(session(), path).columns if name != "chain_digest"]
            rows = [
                sorted(json.dumps(r.asDict(), default=str, sort_keys=True) for r in table.select(*names).collect())
                for table in (read(session(), both, names), to_parquet(session(), both, str(target)).select(*names))
            ]
            self.assertEqual(rows[0], rows[1])
            self.assertGreater(len(rows[0]), 250)

        def files() -> dict[Path, int]:
            return {each: each.stat().st_mtime_ns for each in target.rglob("*.parquet")}

        same()
        first = files()
        same()
        self.assertEqual(files(), first, "a second run wrote")
        self.fill(store, 60, 600_000)
        self.export(store)
        same()
        grown = files()
        kept = set(first.items()) & set(grown.items())
        self.assertGreater(len(kept), 4)
        self.assertGreater(len(set(grown) - set(first)), 2)
        damaged = sorted(path.parent for path, _ in kept)[1]
        for each in damaged.iterdir():
            each.unlink()
        same()
        self.assertEqual({each.parent for each in set(files()) - set(grown)}, {damaged})
        with self.assertRaisesRegex(ConfigError, "confirmed only"):
            to_parquet(session(), path, str(target), onlyConfirmed="false")


if __name__ == "__main__":
    unittest.main()
