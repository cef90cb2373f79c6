"""Every column of the Spark table against Java's own ``MessageDecoder``, row for row.

On logs that a real Java broker wrote for Java's client, that ours wrote, and that nobody ever wrote: records of any
content, IPv6 hosts, long topics, every codec.
"""

from __future__ import annotations

import random
import sys

from tests.spark import logs

from .harness import FULL, PairCase
from .harness.tables import TableCase

MESSAGES = 200_000 if FULL else 3_000


class AnyLogTests(TableCase):
    """What no broker wrote, but its format allows."""

    def test_any_record(self) -> None:
        seed = random.randrange(1 << 32)
        store = logs.filled(self.subfolder("store") / "s", seed, MESSAGES // 3)
        directory = self.subfolder("any")
        store.export(directory)
        with self.subTest(seed=seed):
            self.assertEqual(self.compare(directory, 1), len(store.records))


class BrokerLogs(PairCase, TableCase):
    """What Java's client sends, as a broker stored it."""

    def test_mixed_messages(self) -> None:
        """Singles, batches, bodies that the client compresses, delays, tags, keys, any properties."""
        self.client.producer("packing", "packers", compress_over=500)
        count = MESSAGES // 4
        named = {"colour": "grün", "empty ": "x", "emoji": "😀", "KEY2": "a b"}
        for number, (mode, more) in enumerate(
            (
                ("sync" if not FULL else "async", {"tags": ["A", "B"], "props": named, "max_size": 300}),
                ("batch", {"batch": 17, "max_size": 200}),
                ("async", {"max_size": 9000, "text": True, "flag": 7, "producer": "packing"}),
                ("async", {"delay_level": 2, "max_size": 50}),
            )
        ):
            self.client.send(f"Columns{number}", mode, count, prefix=f"m{number}", timeout_s=300, **more)
        self.client.send("T" * 120, "sync", 5, prefix="long")
        rows = self.compare(self.export(self.broker.root), 4 * count + 5)
        sys.stderr.write(f"{self.pair}: {rows} rows equal\n")


class JavaBrokerColumns(BrokerLogs):
    """A Java broker's."""

    pair = ("java", "java")


class OurBrokerColumns(BrokerLogs):
    """Ours."""

    pair = ("ours", "ours")


del BrokerLogs, PairCase, TableCase
