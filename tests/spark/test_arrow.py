"""The table without Spark, and that its answers are Spark's: audits and figures of logs of any content.

``make soak`` compares a hundred logs; ``make test`` some.
"""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketha.errors import ConfigError, CorruptStore
from rocketha_spark import arrow, audits, figures
from rocketha_spark.__main__ import FIGURES, _line
from rocketha_spark.duck import Duck
from rocketha_spark.engines import Session
from rocketha_spark.schema import ARROW_TYPES
from tests.export.stores import Store
from tests.seeds import SeededCase
from tests.spark.logs import TOPICS, filled
from tests.spark.session import session
from tests.spark.test_columns import table

LOGS = 100 if os.environ.get("ROCKETHA_SOAK") else 2
MESSAGES = 250


class _Case(SeededCase):
    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-arrow-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def filled(self, name: str, seed: int | None = None) -> Store:
        return filled(self.root / name, self.chance.randrange(1 << 30) if seed is None else seed, MESSAGES)


class ReadTests(_Case):
    """Batches, and what is wrong with what is asked for."""

    def setUp(self) -> None:
        super().setUp()
        self.store = self.filled("store")
        self.store.export(self.root / "a", "a", 1)
        self.path = str(self.root / "a")

    def test_rows(self) -> None:
        """All columns, some of them, and those that options leave."""
        rows = arrow.read(self.path, onlyConfirmed="false").read_all()
        self.assertEqual(rows.schema.names, list(ARROW_TYPES))
        found = [{**row, "properties": sorted(row["properties"])} for row in rows.to_pylist()]
        wanted = table(self.root / "a", onlyConfirmed="false")
        self.assertEqual(found, [{**row, "properties": sorted(row["properties"])} for row in wanted])
        some = arrow.read(self.path, ("topic", "phys_offset"), topics="A,B").read_all()
        self.assertEqual(some.schema.names, ["topic", "phys_offset"])
        self.assertEqual(set(some["topic"].to_pylist()) - {"A", "B"}, set())
        self.assertNotIn("properties", arrow.read(self.path, includeProperties="false").schema.names)

    def test_what_cannot_be(self) -> None:
        """Said before anything is read."""
        for path, columns, options, why in (
            (self.path, ("colour",), {}, "no column 'colour'"),
            (self.path, (), {"onCorrupt": "maybe"}, "onCorrupt is one of"),
            (self.path, (), {"startingOffsets": "latest"}, "latest is for streams"),
            (f"{self.path}/none", (), {}, "no export at"),
        ):
            with self.assertRaisesRegex(ConfigError, why):
                arrow.read(path, columns, **options)

    def test_damage(self) -> None:
        """The record is named, also where DuckDB asked for the rows."""
        body = max((each.body for each in self.store.records.values()), key=len)
        for file in (self.root / "a" / "commitlog").iterdir():
            data = file.read_bytes()
            file.write_bytes(data.replace(body, bytes([body[0] ^ 1]) + body[1:]))
        with self.assertRaises(CorruptStore):
            arrow.read(self.path, ("body", "crc_ok"), onlyConfirmed="false").read_all()
        with Duck(str(self.root)) as duck, self.assertRaises(CorruptStore):
            duck.read(self.path, ("body", "crc_ok"), {"onlyConfirmed": "false"})

    def test_one_at_a_time(self) -> None:
        """A second one would be given the first one's tables."""
        with Duck(str(self.root)) as duck:
            with self.assertRaisesRegex(ConfigError, "another Duck is open"):
                Duck()
            found = duck.made([(1, "a"), (2, None)], pa.schema([("number", pa.int32()), ("text", pa.string())]))
            self.assertEqual([tuple(row) for row in found.collect()], [(1, "a"), (2, None)])
            self.assertEqual(duck.made([], pa.schema([("number", pa.int32())])).collect(), [])
        duck.close()
        self.assertEqual([each for each in self.root.iterdir() if "duck" in each.name], [])
        Duck(str(self.root)).close()

    def test_cannot_open(self) -> None:
        """Nothing of it stays, and the next one opens."""
        with self.assertRaises(OSError):
            Duck(str(self.root / "none"))
        Duck(str(self.root)).close()

    def test_ledger(self) -> None:
        """Text stays text, names of columns may be SQL's, and a column that is missing is named."""
        path = self.root / "ledger.json"
        key = "F47AC10B-58CC-4372-A567-0E02B2C3D479"
        path.write_text(f'{{"topic":"A","uniq_key":"{key}","when":"2024-01-01"}}\n')
        with Duck(str(self.root)) as duck:
            kept = duck.read(self.path, audits.COLUMNS["unkept"], {})
            (row,) = audits.unkept(kept, duck.file(str(path))).collect()
            self.assertEqual(tuple(row), ("A", key, "2024-01-01"))
            path.write_text('{"topic":"A"}\n')
            with self.assertRaisesRegex(ConfigError, "no column uniq_key"):
                audits.unkept(kept, duck.file(str(path)))


@pytest.mark.soak
class SameAnswersTests(_Case):
    """Two replicas, of which one was cut back and went on alone, with damage and without."""

    def test_same(self) -> None:
        for number in range(LOGS):
            seed = self.chance.randrange(1 << 30)
            with self.subTest(number=number, seed=seed):
                self.exported(seed, str(number))
                path = str(self.root / f"[ab]{number}")
                with Duck(str(self.root)) as duck:
                    said = self.answers(duck, path)
                self.assertEqual(said, self.answers(session(), path))
                self.assertTrue(any(said.values()))

    def exported(self, seed: int, name: str) -> None:
        for replica in "ab":
            store = self.filled(f"store-{replica}{name}", seed)
            if replica == "b":
                store.cut(sorted(store.records)[-self.chance.randrange(1, 40)])
                store.new_master(9)
                for each in self.filled(f"other-{name}").records.values():
                    store.append([each])
            config = store.root / "config"
            config.mkdir(exist_ok=True)
            offsets = ",".join(f'"{topic}@group":{{0:{self.chance.randrange(9)},1:0}}' for topic in TOPICS)
            (config / "consumerOffset.json").write_text(f'{{"offsetTable":{{{offsets}}}}}')
            store.export(self.root / f"{replica}{name}", replica, ord(replica))
            if self.chance.random() < 0.5:
                (file, *_) = sorted((self.root / f"{replica}{name}" / "commitlog").iterdir())
                data = bytearray(file.read_bytes())
                data[sorted(store.records)[3] + 90] ^= 1
                file.write_bytes(data)

    def answers(self, engine: Session, path: str) -> dict[str, list[Any]]:
        options = {"onlyConfirmed": "false"}
        said = dict(audits.every(engine, path, **options))
        said |= {name: figures.figure(engine, name, path, **options) for name in FIGURES}
        return {name: sorted(rounded(row.asDict()) for row in rows.collect()) for name, rows in said.items()}


def rounded(row: dict[str, Any]) -> str:
    """As the command has it; shares and percentiles as far as sums of doubles agree."""
    return _line({name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()})


if __name__ == "__main__":
    unittest.main()
