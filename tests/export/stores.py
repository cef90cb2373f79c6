"""Stores of brokers that never ran, for exports of any content: records where they would go, files of their size."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from pathlib import Path

from rocketha.export.exporter import Exporter
from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Manifest, decode
from rocketha.export.source import Identity, Source
from rocketha.store import checkpoint, epoch_file
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from rocketha.wire import properties
from rocketha.wire.ha_values import EpochEntry
from rocketha.wire.record import Record, encode, encode_blank, sealed
from rocketha.wire.store_files import CheckpointFields

FILE_BYTES = 1 << 16
NOW_MS = 1_790_000_000_000
BLANK_BYTES_MIN = 8


def made(chance: random.Random, topic: str = "", queue_id: int = -1) -> Record:
    """Any record; where it goes is not said yet."""
    packed = chance.random() < 0.2
    body = chance.randbytes(chance.choice((0, 1, 100, 900)))
    named = {name: f"{name} v{chance.randrange(100)}" for name in ("TAGS", "KEYS", "color") if chance.random() < 0.7}
    named["UNIQ_KEY"] = f"{chance.getrandbits(64):016X}"
    return Record(
        0, 0, 0, queue_id if queue_id >= 0 else chance.randrange(4), chance.randrange(9), 0, 0, packed * 0x301,
        NOW_MS, chance.randbytes(8), NOW_MS, bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big"), 0, 0,
        zlib.compress(body) if packed else body, topic or chance.choice(("A", "B", "%RETRY%g")),
        properties.build(named),
    )  # fmt: skip


class Store:
    """A log in `root`, with what a test wants of it.

    :ivar records: those that are there now, by offset.
    :ivar end: of the log.
    """

    def __init__(self, root: Path, file_size: int = FILE_BYTES, begin: int = 0) -> None:
        self.root = root
        self.file_size = file_size
        self.records: dict[int, Record] = {}
        self.begin = self.end = begin
        self.queues: dict[tuple[str, int], int] = {}
        self.epochs: list[EpochEntry] = []
        self.now_ms = NOW_MS
        (root / "commitlog").mkdir(parents=True)

    def _write(self, offset: int, data: bytes) -> None:
        base = offset - offset % self.file_size
        path = self.root / "commitlog" / f"{base:020d}"
        with open(path, "r+b" if path.exists() else "w+b") as file:
            file.truncate(self.file_size)
            file.seek(offset - base)
            file.write(data)

    def append(self, records: Sequence[Record]) -> list[Record]:
        """At the end, each with the next offset of its queue, a ms after the one before."""
        done = []
        for record in records:
            queue = (record.topic, record.queue_id)
            total = len(encode(sealed(record)))
            room = self.file_size - self.end % self.file_size
            if total + BLANK_BYTES_MIN > room:
                self._write(self.end, encode_blank(room))
                self.end += room
            self.now_ms += 1
            whole = sealed(
                record._replace(
                    physical_offset=self.end, queue_offset=self.queues.get(queue, 0),
                    born_timestamp_ms=self.now_ms - 5, store_timestamp_ms=self.now_ms,
                )
            )  # fmt: skip
            data = encode(whole)
            self._write(self.end, data)
            self.records[self.end] = whole
            self.queues[queue] = whole.queue_offset + 1
            self.end += len(data)
            done.append(whole)
        return done

    def cut(self, offset: int) -> None:
        """What stands from there on is gone, as when a replica that was ahead follows another master."""
        self.records = {at: record for at, record in self.records.items() if at < offset}
        self.queues = {(each.topic, each.queue_id): each.queue_offset + 1 for each in self.records.values()}
        for path in (self.root / "commitlog").iterdir():
            base = int(path.name)
            if base >= offset:
                path.unlink()
            elif base + self.file_size > offset:
                with open(path, "r+b") as file:
                    file.truncate(offset - base)
                    file.truncate(self.file_size)
        self.end = offset

    def new_master(self, epoch: int) -> None:
        """An epoch begins here."""
        self.epochs = [each for each in self.epochs if each.start_offset < self.end]
        self.epochs.append(EpochEntry(epoch, self.end))
        epoch_file.save(PosixDisk(), f"{self.root}/epochFileCheckpoint", self.epochs)

    def confirm(self, offset: int) -> None:
        """What the checkpoint says of it."""
        disk, path = PosixDisk(), f"{self.root}/checkpoint"
        checkpoint.save(disk, path, CheckpointFields(confirm_offset=offset))

    def export(self, directory: Path, replica: str = "r", broker_id: int = 1, corrupt_too: bool = False) -> Manifest:
        """Everything there is, into a directory."""
        source = Source(ReadingDisk(), str(self.root), (f"{self.root}/commitlog",))
        exporter = Exporter(source, PosixDisk(), str(directory), lambda: self.now_ms, corrupt_too)
        for _ in exporter.run(Identity("c", "b", broker_id), replica):
            pass
        path = directory / NAME
        return decode(path.read_bytes()[:FILE_BYTES_MAX], str(path))
