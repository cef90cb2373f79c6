"""Exports that somebody else made: links out of them, bodies that unpack to gigabytes, tables that are not ours."""

from __future__ import annotations

import os
import random
import shutil
import tracemalloc
import unittest
import zlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa

from rocketha.errors import ConfigError, CorruptStore
from rocketha.export.manifest import NAME
from rocketha_spark import batches as making
from rocketha_spark import projection
from rocketha_spark.bounds import EVERYTHING
from rocketha_spark.exports import opened, read_within
from rocketha_spark.figures import consumer_offsets
from rocketha_spark.options import parse
from rocketha_spark.parquet import to_parquet
from rocketha_spark.plan import pieces
from rocketha_spark.read import read
from rocketha_spark.report import write_report
from rocketha_spark.source import Task, tasks
from tests.export.stores import Store, made
from tests.export.test_foreign import tree
from tests.spark.session import session
from tests.spark.test_columns import Case, table

POOLS: list[pa.MemoryPool] = []
"""What was allocated from one is given back to it, perhaps behind the test."""


class LinkTests(Case):
    """A file of an export stands elsewhere, where its reader may read and its maker may not."""

    def setUp(self) -> None:
        super().setUp()
        self.store, self.manifest = self.exported(1, 100)

    def moved(self, name: str) -> None:
        path, there = self.out / name, self.root / "secret"
        path.rename(there)
        path.symlink_to(there)
        self.addCleanup(shutil.rmtree, there, ignore_errors=True)

    def test_logs(self) -> None:
        """None is followed: the query ends, and says where."""
        first = f"{0:020d}"
        for name in ("commitlog", f"commitlog/{first}", "offsets", f"offsets/{first}", NAME):
            with self.subTest(name):
                self.moved(name)
                with self.assertRaisesRegex(CorruptStore, f"^{self.out}/{name}.*: a symbolic link"):
                    table(self.out, ("body",), onlyConfirmed="false")
                (self.out / name).unlink()
                (self.root / "secret").rename(self.out / name)
        self.assertTrue(table(self.out, ("body",)))

    def test_small_files(self) -> None:
        """Consumer offsets, by a file or its folder."""
        config = self.store.root / "config"
        config.mkdir()
        (config / "consumerOffset.json").write_text('{"offsetTable":{"A@g":{0:5}}}')
        self.store.export(self.out)
        (export,) = opened(str(self.out))
        self.assertEqual(list(consumer_offsets(export)), [("r", "g", "A", 0, 5)])
        for name in ("config", "config/consumerOffset.json"):
            self.moved(name)
            with self.assertRaisesRegex(CorruptStore, "a symbolic link"):
                list(consumer_offsets(export))
            (self.out / name).unlink()
            (self.root / "secret").rename(self.out / name)

    def test_no_file_at_all(self) -> None:
        """A FIFO does not hold a task up for ever; a directory is none."""
        path = self.out / "commitlog" / f"{0:020d}"
        path.unlink()
        os.mkfifo(path)
        with self.assertRaises(CorruptStore):
            table(self.out, ("body",), onlyConfirmed="false")
        path.unlink()
        path.mkdir()
        with self.assertRaises(CorruptStore):
            table(self.out, ("body",), onlyConfirmed="false")

    def test_the_directory_itself(self) -> None:
        """Its name is the user's: it may be a link."""
        link = self.root / "latest"
        link.symlink_to(self.out)
        self.assertEqual(len(table(link, ("topic",))), len(table(self.out, ("topic",))))
        with self.assertRaises(FileNotFoundError):
            read_within(str(link), "none", 10)

    def test_other_storage(self) -> None:
        for path in ("s3://bucket/x", "hdfs://host/x", "file://host/x"):
            with self.assertRaisesRegex(ConfigError, "is not supported|takes no host"):
                opened(path)
        self.assertEqual(len(opened(f"file://{self.out}")), 1)
        with self.assertRaisesRegex(ConfigError, "s3: is not supported"):
            write_report(session(), str(self.out), "s3://bucket/page.html")


class BombTests(Case):
    """A few KiB each that unpack to megabytes."""

    def bombs(self, count: int, size: int) -> Store:
        chance = random.Random(1)
        store = self.KIND(self.root / "store", 1 << 22)
        packed = [zlib.compress(bytes((number % 256,)) * size) for number in range(count)]
        records = (made(chance)._replace(body=each, sys_flag=1) for each in packed)
        store.append([each for record in records for each in (record, made(chance)._replace(sys_flag=0))])
        self.out = self.root / "out"
        store.export(self.out)
        return store

    def sizes(self) -> list[list[int]]:
        """Of the bodies in each batch."""
        (export,) = opened(str(self.out))
        parsed = parse({"path": str(self.out), "decompress": "true", "onlyConfirmed": "false"})
        found = []
        for piece in pieces(export, 0, 0, export.manifest.end, parsed):
            for batch in making.batches(export, piece, ("body", "phys_offset"), parsed):
                found.append([len(each.as_py()) for each in batch.column(0)])
        return found

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Of the export, as a worker of Spark asks for them."""
        (export,) = opened(str(self.out))
        parsed = parse({"path": str(self.out), "decompress": "true", "onlyConfirmed": "false"})
        (task,) = tasks([(export, 0, export.manifest.end, EVERYTHING)], parsed)
        assert isinstance(task, Task)
        return task.rows(("topic", "body"), parsed)

    def test_bounded(self) -> None:
        """300 MB in one piece of log: in batches of bounded bytes, in order, each record once."""
        store = self.bombs(300, 1 << 20)
        self.assertLess(store.end, making.BATCH_BYTES)
        sizes = [sum(each) for each in self.sizes()]
        self.assertLessEqual(max(sizes), making.UNPACKED_BYTES)
        self.assertLessEqual(len(sizes), 300 * (1 << 20) // making.UNPACKED_BYTES + 1)

    def test_longer_than_a_batch(self) -> None:
        """Such a body is a batch of its own; the short ones beside it are in others."""
        self.bombs(10, 3000)
        with mock.patch.object(making, "UNPACKED_BYTES", 2000):
            sizes = self.sizes()
        self.assertEqual([each for each in sizes if max(each) == 3000], [[3000]] * 10)
        self.assertEqual(sum(map(len, sizes)), 20)

    def live(self) -> tuple[int, int]:
        """Read all rows as Spark's worker does, which holds the first batch, and each until it has the next.

        :returns: how many there were, and the most bytes that Python, numpy and Arrow held at a time.
        """
        default, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
        POOLS.append(counted)
        pa.set_memory_pool(counted)
        rows = self.rows()
        tracemalloc.start()
        try:
            first = next(rows)
            count = first.num_rows
            for batch in rows:
                count += batch.num_rows
            return count, tracemalloc.get_traced_memory()[1] + (counted.max_memory() or 0)
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(default)

    def test_memory(self) -> None:
        """A worker has one batch at a time and little besides."""
        self.bombs(100, 1 << 20)
        found, live = self.live()
        self.assertEqual(found, 200)
        self.assertLess(live, 1.5 * making.UNPACKED_BYTES)

    def test_memory_of_long_bodies(self) -> None:
        """And so where each is longer than a batch may be."""
        size = making.UNPACKED_BYTES + (4 << 20)
        self.bombs(6, size)
        found, live = self.live()
        self.assertEqual(found, 12)
        self.assertLess(live, 1.5 * size)

    def test_the_same_rows(self) -> None:
        """With all columns, also where a body is longer than a batch may have, and where records are damaged."""
        self.bombs(40, 3000)
        path = self.out / "commitlog" / f"{0:020d}"
        whole = table(self.out, decompress="true", onlyConfirmed="false")
        self.assertEqual(len(whole), 80)
        for limit in (1, 3000, 10_000):
            with mock.patch.object(making, "UNPACKED_BYTES", limit):
                self.assertEqual(table(self.out, decompress="true", onlyConfirmed="false"), whole)
                self.assertGreaterEqual(len(self.sizes()), 40 * 3000 // max(limit, 3000))
        data = bytearray(path.read_bytes())
        for row in (whole[10], whole[11]):
            data[row["phys_offset"] + 30] ^= 1  # its place, so that it is no record
            data[row["phys_offset"] + 88] ^= 255  # and what is its body is not packed
        path.write_bytes(data)
        bad = table(self.out, decompress="true", onlyConfirmed="false", onCorrupt="row")
        with mock.patch.object(making, "UNPACKED_BYTES", 3000):
            some = table(self.out, decompress="true", onlyConfirmed="false", onCorrupt="row")
        self.assertEqual(some, bad)
        self.assertEqual([row["body"] for row in bad[10:12]], [None, None])
        self.assertEqual([row["body"] for row in bad[12:]], [row["body"] for row in whole[12:]])


class WritingTests(Case):
    """What Spark's side writes, and removes."""

    def setUp(self) -> None:
        super().setUp()
        self.store, self.manifest = self.exported(1, 100)

    def test_projection(self) -> None:
        """What stands beside it and is none stays; through a link nothing is written, read or removed."""
        folder, other = self.out / "projection", self.root / "other"
        (folder / "mine").mkdir(parents=True)
        (folder / "notes.txt").write_text("mine")
        other.mkdir()
        (other / "theirs").write_text("theirs")
        stale = f"{0:020d}-{'0' * 16}"
        (folder / stale).mkdir()
        (folder / (stale[:-1] + "1")).symlink_to(other)
        self.assertEqual(projection.project(session(), str(self.out)), 1)
        left = sorted(each.name for each in folder.iterdir())
        self.assertIn("mine", left)
        self.assertIn("notes.txt", left)
        self.assertNotIn(stale, left)
        self.assertEqual((other / "theirs").read_text(), "theirs")
        (made_,) = (each for each in folder.iterdir() if (each / "_SUCCESS").exists())
        columns = ("topic", "phys_offset")
        self.assertTrue(read(session(), str(self.out), columns).inputFiles())
        made_.rename(other / "moved")
        made_.symlink_to(other / "moved")
        self.assertFalse(read(session(), str(self.out), columns).inputFiles())
        with self.assertRaisesRegex(ConfigError, "is a symbolic link"):
            projection.project(session(), str(self.out))
        folder.rename(self.root / "away")
        folder.symlink_to(self.root / "away")
        before = tree(self.root / "away")
        with self.assertRaisesRegex(ConfigError, "is a symbolic link"):
            projection.project(session(), str(self.out))
        self.assertEqual(tree(self.root / "away"), before)

    def test_parquet(self) -> None:
        """A table of something else is not written over, though its hours have the same names."""
        target = self.root / "table"
        rows = read(session(), str(self.out), ("replica", "dt", "hour", "topic")).withColumnRenamed("topic", "mine")
        rows.write.partitionBy("replica", "dt", "hour").parquet(str(target))
        before = tree(target)
        with self.assertRaisesRegex(ConfigError, "Parquet files of another table; nothing was changed"):
            to_parquet(session(), str(self.out), str(target))
        self.assertEqual(tree(target), before)

    def test_report(self) -> None:
        """Its page is the user's own, and no file beside it is used for the while."""
        page, beside = self.root / "page.html", self.root / "page.html.tmp"
        beside.write_text("mine")
        write_report(session(), str(self.out), str(page))
        self.assertEqual(beside.read_text(), "mine")
        self.assertEqual(page.stat().st_mode & 0o777, 0o600)
        self.assertEqual(sorted(Path(self.root).glob(".page*")), [])


del Case

if __name__ == "__main__":
    unittest.main()
