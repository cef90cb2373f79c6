"""Logs of any content, and what a table of them must have, found record by record."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import random
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rocketha.export.manifest import BLOCK_BYTES, Manifest
from rocketha.wire.properties import parse_text
from rocketha.wire.record import Record, encode
from tests.export.stores import FILE_BYTES, NOW_MS, LedgerStore, Store

NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "DELAY", "color", "größe", "a", "INNER_NUM", "REAL_TOPIC", "RETRY_TOPIC")
NAMES += ("DLQ_ORIGIN_TOPIC", "TIMER_ROLL_TIMES", "TRANSACTION_CHECK_TIMES")
VALUES = (
    "",
    "1",
    "+0",
    "-3",
    "007",
    "99999999999",
    "x y  z",
    " lead",
    "ü€😀",
    "TagA",
    "2147483647",
    "-2147483649",
    "1.5",
    "0",
    "%RETRY%g",
)
TOPICS = ("A", "B", "%RETRY%group", "Thema-ä", "t" * 127, "long" * 40, "x" * 300)
TOPICS += (
    "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "%DLQ%g",
)

CODECS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


def block(chance: random.Random) -> bytes:
    """Properties as clients write them, and as they never should."""
    parts = []
    for _ in range(chance.choice((0, 0, 1, 3, 6))):
        name, value = chance.choice(NAMES), chance.choice(VALUES)
        parts.append(
            chance.choices(
                (f"{name}\x01{value}", name, f"\x01{value}", f"{name}\x01{value}\x01more", f"{name}\x01"),
                (12, 1, 1, 1, 1),
            )[0].encode()
        )
    data = b"\x02".join(parts) + (b"\x02" if chance.random() < 0.7 else b"")
    return data + (b"\xff\xfe" if chance.random() < 0.03 else b"")


def packed(chance: random.Random, body: bytes) -> tuple[int, bytes]:
    """sys_flag and body of a codec."""
    kind = chance.choice((0x001, 0x101, 0x201, 0x301, 0x701))
    if kind == 0x701:  # no such codec
        return kind, body
    if kind & 0x300 in (0, 0x300):
        return kind, zlib.compress(body)
    return kind, pa.compress(body, codec="lz4" if kind & 0x100 else "zstd", asbytes=True)


def any_record(chance: random.Random) -> Record:
    """One of every kind."""
    flags = chance.choice((0, 0, 0, 0x10, 0x20, 0x30)) | chance.choice((0, 0, 0, 4, 8, 0xC))
    body = chance.randbytes(chance.choice((0, 1, 50, 700)))
    if chance.random() < 0.2:
        more, body = packed(chance, body)
        flags |= more
    mapped = bytes(10) + b"\xff\xff" + bytes((10, 0, 0, chance.randrange(9)))
    wide = chance.choice((chance.randbytes(16), mapped, bytes(15) + b"\x01"))
    born = (wide if flags & 0x10 else chance.randbytes(4)) + chance.randrange(1 << 16).to_bytes(4, "big")
    store = (wide if flags & 0x20 else bytes((127, 0, 0, 1))) + (10911).to_bytes(4, "big")
    return Record(
        0,
        0,
        0,
        chance.randrange(-1, 4),
        chance.randrange(-9, 9),
        0,
        0,
        flags,
        NOW_MS,
        born,
        NOW_MS,
        store,
        chance.randrange(3),
        chance.choice((0, 17, 1 << 40)),
        body,
        chance.choice(TOPICS),
        block(chance),
    )


def filled(
    root: Path, seed: int, count: int, file_size: int = FILE_BYTES, more: int = 0, kind: type[Store] = Store
) -> Store:
    """A store with epochs and a confirmed end before its last records.

    :param more: bytes that each body has besides.
    :param kind: of the store.
    """
    chance = random.Random(seed)
    store = kind(root, file_size)
    for epoch in (2, 3, 7):
        store.new_master(epoch)
        if isinstance(store, LedgerStore):
            for _ in range(chance.randrange(3)):
                store.append_empty()
        records = (any_record(chance) for _ in range(count // 3))
        store.append([each._replace(body=each.body + bytes(more)) for each in records])
    ends = sorted(store.records)
    store.confirm(ends[-max(1, count // 10)])
    return store


def host(data: bytes) -> str:
    address = ipaddress.ip_address(data[:-4])
    port = int.from_bytes(data[-4:], "big", signed=True)
    mapped = getattr(address, "ipv4_mapped", None)
    if address.version == 4 or mapped:
        return f"{mapped or address}:{port}"
    return "[" + ":".join(re.sub("^0+(?=.)", "", group) for group in address.exploded.split(":")) + f"]:{port}"


def kind(record: Record, pairs: dict[str, str]) -> tuple[str, str, bool]:
    """What a record is, which topic it is for, and whether no producer stored it."""
    topic, real = record.topic, pairs.get("REAL_TOPIC")
    if topic == "SCHEDULE_TOPIC_XXXX":
        return "delayed", real or topic, bool(real and real.startswith("%RETRY%"))
    if topic == "rmq_sys_wheel_timer":
        return "timer", real or topic, pairs.get("TIMER_ROLL_TIMES", "0") != "0"
    if topic.endswith("TRANS_HALF_TOPIC"):
        return "half", real or topic, "TRANSACTION_CHECK_TIMES" in pairs
    if topic.endswith("TRANS_OP_HALF_TOPIC"):
        return "op", topic, True
    if topic.startswith(("%RETRY%", "%DLQ%")):
        came_from = pairs.get("DLQ_ORIGIN_TOPIC") or pairs.get("RETRY_TOPIC") or topic
        return "retry" if topic.startswith("%R") else "dead letter", came_from, True
    return "plain", topic, real is not None or record.sys_flag & 0xC == 8


def rows(
    records: dict[int, Record],
    manifest: Manifest,
    directory: Path,
    good: bool = True,
    entries: dict[int, tuple[int, int]] | None = None,
) -> Iterator[dict[str, Any]]:
    """What a table of these records has, in the order of the log.

    :param good: their bodies match their CRCs.
    :param entries: DLedger's, in which they are: index and term.
    """
    chain: tuple[object, bytes] = (None, b"")
    for at, record in sorted(records.items()):
        base = at - at % manifest.file_size
        data = encode(record)
        entry = entries.get(at) if entries else None
        head = 48 if entry else 0
        epoch = max((each.epoch for each in manifest.epochs if each.start <= at), default=None)
        digest = hashlib.sha256(data).digest()
        link = ((at - head) // manifest.file_size, (at - head) // BLOCK_BYTES, epoch)
        chain = link, hashlib.sha256((chain[1] if chain[0] == link else b"") + digest).digest()
        pairs = parse_text(record.properties.decode("utf-8", "replace"))
        delay = pairs.get("DELAY", "0")
        level = int(delay) if re.fullmatch(r"[+-]?[0-9]+", delay) else 1 << 40
        stored = datetime.datetime.fromtimestamp(record.store_timestamp_ms / 1000, datetime.UTC)
        yield {
            "cluster": manifest.cluster,
            "broker_name": manifest.broker_name,
            "broker_id": manifest.broker_id,
            "replica": manifest.replica,
            "phys_offset": at,
            "size": len(data),
            "epoch": epoch,
            "term": entry[1] if entry else None,
            "ledger_index": entry[0] if entry else None,
            "topic": record.topic,
            **dict(zip(("kind", "real_topic", "stored_again"), kind(record, pairs), strict=True)),
            "queue_id": record.queue_id,
            "queue_offset": record.queue_offset,
            "msg_id": (record.store_host + at.to_bytes(8, "big")).hex().upper(),
            "uniq_key": pairs.get("UNIQ_KEY"),
            "keys": [each for each in pairs["KEYS"].split(" ") if each] if "KEYS" in pairs else None,
            "tags": pairs.get("TAGS"),
            "born_ts": datetime.datetime.fromtimestamp(record.born_timestamp_ms / 1000, datetime.UTC),
            "store_ts": stored,
            "born_host": host(record.born_host),
            "store_host": host(record.store_host),
            "sys_flag": record.sys_flag,
            "flag": record.flag,
            "reconsume_times": record.reconsume_times,
            "prepared_offset": record.prepared_offset,
            "delay_level": level if -(1 << 31) <= level < 1 << 31 else None,
            "body": record.body,
            "body_length": len(record.body),
            "body_codec": CODECS.get(record.sys_flag >> 8 & 7) if record.sys_flag & 1 else None,
            "properties": sorted(pairs.items()),
            "body_crc": record.body_crc,
            "crc_ok": good,
            "record_digest": digest,
            "chain_digest": chain[1],
            "confirmed": at + len(data) <= manifest.confirmed,
            "source_file": str(directory / manifest.layout_of(base) / f"{base:020d}"),
            "dt": stored.date(),
            "hour": stored.hour,
        }
