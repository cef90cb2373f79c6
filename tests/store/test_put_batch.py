"""A batch by columns is stored exactly as its messages one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import DiskFailure
from rocketha.store.config import StoreConfig
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import BatchKeys, PlacedBatch, PutBatch, PutMessage
from rocketha.wire.batch import BatchMessage, join, members
from rocketha.wire.properties import build

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
NOW = 1_795_256_860_000
CONFIG = StoreConfig(
    segment_size=65536, queue_file_size=2000, index_slots=100, index_units=1000, message_bytes_max=8192
)


class PutBatchTests(SynchronousTestCase):
    """Two stores, one filled each way."""

    def setUp(self) -> None:
        self.disks = [MemoryDisk(random.Random(0)) for _ in range(2)]
        self.stores = [MessageStore(disk, "/store", CONFIG, HOST) for disk in self.disks]
        for store in self.stores:
            store.load(NOW)

    def batch(self, chance: random.Random, count: int, alike: bool) -> PutBatch:
        bodies = [bytes([chance.randrange(256)]) * (100 if alike else chance.randrange(1, 900)) for _ in range(count)]
        host = HOST if chance.random() < 0.8 else bytes(15) + b"\x01" + HOST[4:]
        keys = [(f"a{i}", "b") if alike else (f"key{i}", "T#x")[: chance.randrange(3)] for i in range(count)]
        blocks = [properties_of(some, number) for number, some in enumerate(keys)]
        messages = [BatchMessage(chance.randrange(10), *each) for each in zip(bodies, blocks, strict=True)]
        return PutBatch(
            "T",
            chance.randrange(3),
            0,
            NOW - 5,
            host,
            0,
            members(join(messages)),
            [chance.randrange(-5, 5) for _ in bodies],
            partial(columns_of, keys, alike),
        )

    def rows(self, batch: PutBatch) -> list[PutMessage]:
        columns, messages = batch.keys()
        found = batch.members
        keys: list[tuple[str, ...]] = [()] * found.count
        for number, row in zip(messages, zip(*columns, strict=True), strict=True):
            keys[number] += row
        rows = zip(found.flags, found.bodies, found.properties, batch.tags_codes, keys, strict=True)
        return [
            PutMessage(batch.topic, batch.queue_id, flag, 0, batch.born_timestamp_ms, batch.born_host, 0, 0, *rest)
            for flag, *rest in rows
        ]

    def test_same_files(self) -> None:
        """Log, queues and index are equal byte for byte, over a file's end too, and the places agree."""
        chance = random.Random(7)
        for number in range(40):
            batch = self.batch(chance, chance.randrange(1, 40), alike=number % 2 == 0)
            (placed,) = self.stores[0].append([batch], NOW + number)
            (expected,) = self.stores[1].append([self.rows(batch)], NOW + number)
            assert isinstance(placed, PlacedBatch) and isinstance(expected, list)
            self.assertEqual(placed.queue_offset, expected[0].queue_offset)
            self.assertEqual(placed.physical_offsets, [result.physical_offset for result in expected])
            self.assertEqual(placed.end, expected[-1].physical_offset + expected[-1].size)
        self.assertGreater(self.stores[0].max_physical_offset, 3 * CONFIG.segment_size)
        for store in self.stores:
            store.close(NOW + 100)
        first, second = ({path: disk.read_all(path, 1 << 20) for path in files(disk)} for disk in self.disks)
        self.assertEqual(first, second)

    def test_a_failed_write_leaves_nothing(self) -> None:
        """The queue offsets of a batch that could not be written are given to the next."""
        batch = self.batch(random.Random(1), 10, True)
        self.disks[0].fail_at(1, only=["write"])
        self.assertRaises(DiskFailure, self.stores[0].append, [batch], NOW)
        self.disks[0].heal()
        (placed,) = self.stores[0].append([batch], NOW)
        assert isinstance(placed, PlacedBatch)
        self.assertEqual((placed.queue_offset, self.stores[0].max_offset("T", batch.queue_id)), (0, 10))


def properties_of(keys: Sequence[str], number: int) -> bytes:
    """A block whose index keys are these."""
    words = " ".join([key for key in keys if not key.startswith("T#")])
    values = {"k": str(number), "KEYS": words, "TAGS": "".join(key[2:] for key in keys if key.startswith("T#"))}
    return build({name: value for name, value in values.items() if value})


def columns_of(keys: Sequence[tuple[str, ...]], alike: bool) -> BatchKeys:
    """As many keys of each, or as many as it has."""
    if alike:
        return BatchKeys(list(zip(*keys, strict=True)), range(len(keys)))
    numbers = [number for number, some in enumerate(keys) for _ in some]
    return BatchKeys([[key for some in keys for key in some]], numbers)


def files(disk: MemoryDisk, directory: str = "/store") -> list[str]:
    """Every file below a directory."""
    found: list[str] = []
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        found += files(disk, path) if disk.is_dir(path) else [path]
    return found
