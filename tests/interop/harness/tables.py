"""Tables of real logs, compared row for row with what Java's own decoders print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from rocketha.export.exporter import Exporter
from rocketha.export.source import Identity, found
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from tests.spark.session import session

from .case import InteropCase
from .clients import records

EXPORTED_MS = 1_790_000_000_000
SAME = (
    "topic",
    "flag",
    "body_length",
    "body_crc",
    "born_host",
    "store_host",
    "msg_id",
    "reconsume_times",
    "prepared_offset",
    "tags",
    "uniq_key",
    "delay_level",
)
RENAMED = {"phys_offset": "phy", "size": "size", "queue_id": "q", "queue_offset": "off", "sys_flag": "sys"}
IPV6_BITS, TRANSACTION_BITS = 0x30, 0xC


def kinds_of(row: dict[str, Any], java: dict[str, Any]) -> Iterator[str]:
    """What is special about a record, as far as its layout goes."""
    yield f"hosts {row['sys_flag'] & IPV6_BITS:#x}"
    yield f"transaction {row['sys_flag'] & TRANSACTION_BITS:#x}"
    yield f"codec {row['body_codec']}"
    if java["v2"]:
        yield "v2"
    if len(row["topic"].encode()) > 127:
        yield "long topic"


def table(directory: Path, **options: str) -> DataFrame:
    """All records of an export."""
    given = {"onlyConfirmed": "false", "partitionBytes": "4m", **options}  # what the driver has at a time
    return session().read.format("rocketha").options(**given).load(str(directory))


class TableCase(InteropCase):
    """Exports, and what both make of them.

    After `compare()`: how many records of each kind there were, by topic and in all; SHA-256 of the unpacked bodies.
    """

    kinds: Counter[str]
    topics: Counter[str]
    unpacked: dict[int, str | None]

    def export(self, store: Path, replica: str = "r") -> Path:
        directory = self.subfolder(f"export-{replica}")
        exporter = Exporter(found(ReadingDisk(), str(store)), PosixDisk(), str(directory), lambda: EXPORTED_MS)
        for _ in exporter.run(Identity("c", "b", 0), replica):
            pass
        return directory

    def compare(self, directory: Path, least: int, *layouts: str) -> int:
        """Each row with Java's line, in the order of the log; how many.

        :param layouts: of its files; "commitlog" where none is given.
        """
        lines = [each for layout in layouts or ("commitlog",) for each in records(directory / layout, layout)]
        java = iter(sorted(lines, key=lambda each: int(each["at"])))
        rows = 0
        self.kinds, self.topics, self.unpacked = Counter(), Counter(), {}
        for row in table(directory).withColumn("body", sql.sha2("body", 256)).toLocalIterator():
            theirs = next(java)
            while "blank" in theirs or not theirs["size"]:
                theirs = next(java)
            ours = row.asDict()
            self.assertNotIn("error", theirs)
            for name in SAME:
                if name == "msg_id" and ours["sys_flag"] & 0x20 and not ours["store_host"].startswith("["):
                    continue  # an IPv4 address written as IPv6: Java's id is that of the IPv4 one; no broker writes it
                self.assertEqual(ours[name], theirs.get(name), (name, theirs))
            for name, said in RENAMED.items():
                self.assertEqual(ours[name], theirs[said], (name, theirs))
            self.assertEqual(ours["properties"], theirs["props"])
            keys = theirs.get("key")
            self.assertEqual(ours["keys"], None if keys is None else [each for each in keys.split(" ") if each])
            self.assertEqual(ours["body_codec"], theirs["codec"].lower() if theirs.get("codec") else None)
            self.assertEqual(ours["body"], theirs["body_sha256"])
            self.assertEqual((ours["term"], ours["ledger_index"]), (theirs.get("term"), theirs.get("index")))
            self.assertEqual(ours["born_ts"].timestamp() * 1000, theirs["born_ms"])
            self.assertEqual(ours["store_ts"].timestamp() * 1000, theirs["store_ms"])
            self.assertEqual((ours["dt"], ours["hour"]), (ours["store_ts"].date(), ours["store_ts"].hour))
            self.assertTrue(ours["crc_ok"] and ours["confirmed"] is not None)
            self.kinds.update(kinds_of(ours, theirs))
            self.topics[ours["topic"]] += 1
            self.unpacked[ours["phys_offset"]] = theirs.get("unpacked_sha256")
            rows += 1
        self.assertEqual([each for each in java if "blank" not in each and each["size"]], [])
        self.assertGreaterEqual(rows, least)
        return rows

    def compare_unpacked(self, directory: Path) -> None:
        """Each body with decompress as Java unpacks it, of the records that `compare()` has seen."""
        rows = table(directory, decompress="true").select("phys_offset", sql.sha2("body", 256)).toLocalIterator()
        for place, body in rows:
            self.assertEqual(body, self.unpacked.pop(place), place)
        self.assertEqual(len(self.unpacked), 0)
