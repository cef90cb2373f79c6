"""A log as large as wanted, and its export: what ``benchmarks.spark_source`` reads.

Each message has keys and a body of its own, as those of applications have: bodies are hexadecimal digits from a pool,
which Parquet's dictionaries find no two of, and its codec packs to about two thirds.
"""

from __future__ import annotations

import random
import struct
import time
import zlib
from pathlib import Path

from rocketha.export.exporter import Exporter
from rocketha.export.source import Identity, Source
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from rocketha.wire import properties
from rocketha.wire.record import PHYSICAL_OFFSET_AT, Record, encode, encode_blank, sealed

FILE_BYTES = 1 << 30
"""mappedFileSizeCommitLog, unless told."""
TOPICS = 16
RARE, RARE_EVERY = "TopicNN", 100
"""Of so many files one has messages of that topic: one of each round of all queues."""
QUEUES = 4
BEGIN_MS = 1_790_000_000_000
_HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
_OFFSETS = struct.Struct(">qq")  # queue_offset and physical_offset
_QUEUE_OFFSET_AT = PHYSICAL_OFFSET_AT - 8
_BODY_CRC_AT = 8
_STORE_AT = 56
_BODY_AT = 88
_POOL_BYTES = 16 << 20
_BLANK_BYTES_MIN = 8


_ORDER, _UNIQUE = "0" * 12, "0" * 32


def _templates(body_bytes: int) -> list[bytes]:
    """One of each queue, and the rare one."""
    made = []
    for number in range(TOPICS * QUEUES + 1):
        named = {"UNIQ_KEY": _UNIQUE, "TAGS": f"Tag{number % 5}", "KEYS": f"order-{_ORDER} eu"}
        topic, queue = (f"Topic{number // QUEUES:02d}" if number < TOPICS * QUEUES else RARE), number % QUEUES
        body = bytes(body_bytes)
        record = Record(
            0,
            0,
            0,
            queue,
            0,
            0,
            0,
            0,
            BEGIN_MS - 3,
            _HOST,
            BEGIN_MS,
            _HOST,
            0,
            0,
            body,
            topic,
            properties.build({**named, "WAIT": "true"}),
        )
        made.append(encode(sealed(record)))
    assert len({len(each) for each in made}) == 1
    return made


def write_log(root: Path, mib: int, body_bytes: int, file_bytes: int = FILE_BYTES) -> int:
    """A commitlog of about so many MiB, a message a ms; how many it has."""
    (root / "commitlog").mkdir(parents=True)
    (*templates, rare), count, base = _templates(body_bytes), 0, 0
    chance = random.Random(body_bytes)
    pool = chance.randbytes(_POOL_BYTES // 2).hex().encode()
    unique_at = [each.index(_UNIQUE.encode(), _BODY_AT + body_bytes) for each in templates]
    order_at = [each.index(_ORDER.encode() + b" eu", _BODY_AT + body_bytes) for each in templates]
    while base < mib << 20:
        data, at = bytearray(file_bytes), 0
        while True:
            kind = count % len(templates)
            record = rare if not kind and base // file_bytes % RARE_EVERY == 1 else templates[kind]
            if at + len(record) + _BLANK_BYTES_MIN > file_bytes:
                break
            data[at : at + len(record)] = record
            _OFFSETS.pack_into(data, at + _QUEUE_OFFSET_AT, count // len(templates), base + at)
            data[at + _STORE_AT : at + _STORE_AT + 8] = (BEGIN_MS + count).to_bytes(8, "big")
            begin = chance.randrange(_POOL_BYTES - body_bytes)
            body = pool[begin : begin + body_bytes]
            data[at + _BODY_AT : at + _BODY_AT + body_bytes] = body
            crc = zlib.crc32(body) & 0x7FFFFFFF
            data[at + _BODY_CRC_AT : at + _BODY_CRC_AT + 4] = crc.to_bytes(4, "big")
            data[at + unique_at[kind] : at + unique_at[kind] + 32] = b"7F000001%024X" % count
            data[at + order_at[kind] : at + order_at[kind] + 12] = b"%012d" % count
            at, count = at + len(record), count + 1
        data[at : at + 8] = encode_blank(file_bytes - at)
        (root / "commitlog" / f"{base:020d}").write_bytes(data)
        base += file_bytes
    return count


def export(root: Path, directory: Path) -> float:
    """Seconds that the export of a log took."""
    began = time.perf_counter()
    source = Source(ReadingDisk(), str(root), (f"{root}/commitlog",))
    exporter = Exporter(source, PosixDisk(), str(directory), lambda: BEGIN_MS)
    for _ in exporter.run(Identity("bench", "broker", 0), "bench"):
        pass
    return time.perf_counter() - began
