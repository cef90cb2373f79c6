"""Logs of a gigabyte in seconds, with faults strewn in, and what audits must say of them, found record by record.

The oracle is a loop over records that the codec of brokers decodes; it shares nothing with the tables but that codec.
"""

from __future__ import annotations

import bisect
import datetime
import random
import statistics
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import attrs

from rocketha.export.exporter import Exporter
from rocketha.export.source import Identity, Source
from rocketha.store import checkpoint, epoch_file
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from rocketha.wire import properties
from rocketha.wire.ha_values import EpochEntry
from rocketha.wire.record import PHYSICAL_OFFSET_AT, Blank, Record, decode_any, encode, encode_blank, sealed
from rocketha.wire.store_files import CheckpointFields

NOW_MS = 1_790_000_000_000
KEY_BYTES = 32
QUEUES = 8
FAULTS = ("hole", "key", "offset", "clock")
_PLACES = struct.Struct(">qq")
_STORED_AT = 56
_HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")


@attrs.define
class Big:
    """One log's directory.

    :ivar starts: where its records begin, all of them.
    """

    root: Path
    file_size: int
    starts: list[int] = attrs.field(factory=list)
    end: int = 0

    def epochs(self, starts: dict[int, int]) -> None:
        """Which masters wrote from which offset."""
        disk = PosixDisk()
        epoch_file.save(disk, f"{self.root}/epochFileCheckpoint", [EpochEntry(*each) for each in starts.items()])
        checkpoint.save(disk, f"{self.root}/checkpoint", CheckpointFields(confirm_offset=self.end))

    def export(self, directory: Path, number: int) -> None:
        source = Source(ReadingDisk(), str(self.root), (f"{self.root}/commitlog",))
        exporter = Exporter(source, PosixDisk(), str(directory), lambda: NOW_MS)
        for _ in exporter.run(Identity("c", "b", number), directory.name):
            pass

    def change(self, at: int, value: int) -> None:
        """A byte of the log, by exclusive or."""
        base = at - at % self.file_size
        with open(self.root / "commitlog" / f"{base:020d}", "r+b") as file:
            file.seek(at - base)
            (byte,) = file.read(1)
            file.seek(at - base)
            file.write(bytes((byte ^ value,)))


def written(root: Path, mib: int, seed: int, file_size: int, body_bytes: int = 1000, faults: int = 20) -> Big:
    """A log of about so many MiB; each kind of fault about so many times."""
    (root / "commitlog").mkdir(parents=True)
    made, chance = Big(root, file_size), random.Random(seed)
    templates = []
    for queue in range(QUEUES):
        block = properties.build({"UNIQ_KEY": "0" * KEY_BYTES, "TAGS": "T"})
        templates.append(
            bytearray(
                encode(
                    sealed(
                        Record(
                            0,
                            0,
                            0,
                            queue % 4,
                            0,
                            0,
                            0,
                            0,
                            NOW_MS,
                            _HOST,
                            NOW_MS,
                            _HOST,
                            0,
                            0,
                            chance.randbytes(body_bytes),
                            f"Topic{queue // 4}",
                            block,
                        )
                    )
                )
            )
        )
    key_at = [bytes(each).index(b"0" * KEY_BYTES) for each in templates]
    share = faults / ((mib << 20) / (body_bytes + 150))
    offsets, number, now = [0] * QUEUES, 0, NOW_MS
    while made.end < mib << 20:
        data, at = bytearray(file_size), 0
        while True:
            queue = number % QUEUES
            record = templates[queue]
            if at + len(record) + 8 > file_size:
                break
            fault = chance.choice(FAULTS) if chance.random() < share * len(FAULTS) else ""
            offsets[queue] += chance.randrange(1, 5) if fault == "hole" else 0
            offsets[queue] -= 1 if fault == "offset" and offsets[queue] else 0
            now += 1 if fault != "clock" else -1000
            _PLACES.pack_into(record, PHYSICAL_OFFSET_AT - 8, offsets[queue], made.end + at)
            record[_STORED_AT : _STORED_AT + 8] = now.to_bytes(8, "big")
            key = number - QUEUES if fault == "key" and number > QUEUES else number
            record[key_at[queue] : key_at[queue] + KEY_BYTES] = b"%0*X" % (KEY_BYTES, key)
            data[at : at + len(record)] = record
            made.starts.append(made.end + at)
            at += len(record)
            offsets[queue] += 1
            number += 1
        data[at : at + 8] = encode_blank(file_size - at)
        (root / "commitlog" / f"{made.end:020d}").write_bytes(data)
        made.end += file_size
    return made


def cut(log: Big, at: int) -> None:
    """The log ends there now, as when another master was elected that had no more."""
    base = at - at % log.file_size
    for path in (log.root / "commitlog").iterdir():
        if int(path.name) > base:
            path.unlink()
    with open(log.root / "commitlog" / f"{base:020d}", "r+b") as file:
        file.truncate(at - base)
        file.truncate(log.file_size)
    log.starts = log.starts[: bisect.bisect_left(log.starts, at)]


def decoded(directory: Path) -> Iterator[tuple[int, int, bytes, Record]]:
    """Of an export: offset, file, bytes and record, one by one; a damaged one as it says that it is."""
    for path in sorted((directory / "commitlog").iterdir()):
        data, base, at = path.read_bytes(), int(path.name), 0
        while at < len(data):
            found = decode_any(data, at, check_crc=False)
            if isinstance(found, Blank):
                break
            yield base + at, base, data[at : at + found.total], found
            at += found.total


def key_of(record: Record) -> str:
    """Its unique key."""
    return properties.parse(record.properties)["UNIQ_KEY"]


def audited(directory: Path) -> dict[str, list[object]]:
    """What loss, duplicates and order are to find."""
    following: dict[object, int] = {}
    by_offset: dict[object, list[int]] = defaultdict(list)
    by_key: dict[object, list[int]] = defaultdict(list)
    queues: dict[object, list[tuple[int, int]]] = defaultdict(list)
    order: list[object] = []
    before = 0
    for at, _, _, record in decoded(directory):
        queue = record.topic, record.queue_id
        by_offset[queue, record.queue_offset].append(at)
        by_key[record.topic, key_of(record)].append(at)
        queues[queue].append((record.queue_offset, at))
        if record.store_timestamp_ms < before:
            order.append(("store_ts", at))
        before = record.store_timestamp_ms
    loss: list[object] = []
    for (topic, queue_id), places in queues.items():  # type: ignore[misc]
        places.sort()
        last = -1
        for offset, at in places:
            following.setdefault((topic, queue_id), offset)
            if offset > following[topic, queue_id]:
                loss.append((topic, queue_id, following[topic, queue_id], offset - 1, at))
            if at < last:
                order.append(("queue_offset", at))
            following[topic, queue_id] = max(following[topic, queue_id], offset + 1)
            last = at
    doubled = [places for found in (by_offset, by_key) for places in found.values() if len(places) > 1]
    return {"loss": loss, "duplicates": [*doubled], "order": order}


def figured(directory: Path, consumed: dict[tuple[str, int], int]) -> dict[str, dict[object, tuple[object, ...]]]:
    """What lag, skew, cost and consumer_lag are to say, of a group that consumed so far.

    :param consumed: its offset of each topic and queue.
    """
    delays: dict[int, list[int]] = defaultdict(list)
    queues: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    days: Counter[tuple[datetime.date, str, str]] = Counter()
    waiting: dict[tuple[str, int], list[int]] = defaultdict(list)
    ends: dict[tuple[str, int], tuple[int, int]] = {}
    for _, _, data, record in decoded(directory):
        stored, queue = record.store_timestamp_ms, (record.topic, record.queue_id)
        delays[stored // 60_000 * 60].append(stored - record.born_timestamp_ms)
        queues[queue][0] += 1
        queues[queue][1] += len(data)
        day = datetime.datetime.fromtimestamp(stored / 1000, datetime.UTC).date()
        for kind, value in (("messages", 1), ("bytes", len(data)), ("body_bytes", len(record.body))):
            days[day, record.topic, kind] += value
        if record.queue_offset >= consumed[queue]:
            waiting[queue].append(stored)
        end, newest = ends.get(queue, (0, 0))
        ends[queue] = max(end, record.queue_offset + 1), max(newest, stored)
    topics: dict[str, list[int]] = defaultdict(list)
    for (topic, _), (messages, _) in queues.items():
        topics[topic].append(messages)
    means = {topic: statistics.fmean(each) for topic, each in topics.items()}
    return {
        "lag": {begin: (len(some), *quantiles(some), max(some)) for begin, some in delays.items()},
        "skew": {queue: (*some, round(some[0] / means[queue[0]], 6)) for queue, some in queues.items()},
        "cost": {
            (day, topic): tuple(days[day, topic, kind] for kind in ("messages", "bytes", "body_bytes"))
            for day, topic, _ in days
        },
        "consumer_lag": {
            queue: (offset, ends[queue][0], len(waiting[queue]), ends[queue][1] - min(waiting[queue]))
            for queue, offset in consumed.items()
        },
    }


def quantiles(values: list[int]) -> Iterator[float]:
    """p50, p95, p99 and p99.9, between two values in proportion."""
    values.sort()
    for share in (0.5, 0.95, 0.99, 0.999):
        at = (len(values) - 1) * share
        low = values[int(at)]
        yield round(low + (values[min(int(at) + 1, len(values) - 1)] - low) * (at - int(at)), 6)
