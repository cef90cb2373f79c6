"""Tables of real logs, compared row for row with what Java's own decoders print."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as sql

from rocketha.export.exporter import Exporter
from rocketha.export.source import Identity, found
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from tests.spark.session import session

from .case import InteropCase
from .clients import records

EXPORTED_MS = 1_790_000_000_000
SAME = ("topic", "flag", "body_length", "body_crc", "born_host", "store_host", "msg_id", "reconsume_times",
        "prepared_offset", "tags", "uniq_key", "delay_level")  # fmt: skip
RENAMED = {"phys_offset": "phy", "size": "size", "queue_id": "q", "queue_offset": "off", "sys_flag": "sys"}


class TableCase(InteropCase):
    """Exports, and what both make of them."""

    def export(self, store: Path, replica: str = "r") -> Path:
        directory = self.subfolder(f"export-{replica}")
        exporter = Exporter(found(ReadingDisk(), str(store)), PosixDisk(), str(directory), lambda: EXPORTED_MS)
        for _ in exporter.run(Identity("c", "b", 0), replica):
            pass
        return directory

    def compare(self, directory: Path, least: int, layout: str = "commitlog") -> int:
        """Each row with Java's line, in the order of the log; how many."""
        java = iter(sorted(records(directory / layout, layout), key=lambda each: int(each["at"])))
        options = {"onlyConfirmed": "false", "partitionBytes": "4m"}  # what the driver has at a time
        table = session().read.format("rocketha").options(**options).load(str(directory))
        rows = 0
        for row in table.withColumn("body", sql.sha2("body", 256)).toLocalIterator():
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
            rows += 1
        self.assertEqual([each for each in java if "blank" not in each and each["size"]], [])
        self.assertGreaterEqual(rows, least)
        return rows
