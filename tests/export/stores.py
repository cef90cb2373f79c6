"""Stores of brokers that never ran, for exports of any content: records where they would go, files of their size.

A message log, and DLedger's, which has its entries as DLedger writes them.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from pathlib import Path

from rocketha.export.exporter import Exporter
from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Manifest, decode
from rocketha.export.source import Identity, found
from rocketha.store import checkpoint, epoch_file
from rocketha.store.posix_disk import PosixDisk, ReadingDisk
from rocketha.wire import properties
from rocketha.wire.dledger import HEAD_BYTES, EntryHead, IndexUnit, build_filler
from rocketha.wire.ha_values import EpochEntry
from rocketha.wire.record import Record, encode, encode_blank, sealed
from rocketha.wire.spec.dledger import ENTRY_HEAD, INDEX_UNIT
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
        0,
        0,
        0,
        queue_id if queue_id >= 0 else chance.randrange(4),
        chance.randrange(9),
        0,
        0,
        packed * 0x301,
        NOW_MS,
        chance.randbytes(8),
        NOW_MS,
        bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big"),
        0,
        0,
        zlib.compress(body) if packed else body,
        topic or chance.choice(("A", "B", "%RETRY%g")),
        properties.build(named),
    )


class Store:
    """A log in `root`, with what a test wants of it.

    :ivar records: those that are there now, by their physical offset.
    :ivar end: of the log.
    """

    FOLDER = "commitlog"
    LAYOUT = "commitlog"
    RECORD_AT = 0

    def __init__(self, root: Path, file_size: int = FILE_BYTES, begin: int = 0) -> None:
        self.root = root
        self.file_size = file_size
        self.records: dict[int, Record] = {}
        self.begin = self.end = begin
        self.queues: dict[tuple[str, int], int] = {}
        self.epochs: list[EpochEntry] = []
        self.now_ms = NOW_MS
        (root / self.FOLDER).mkdir(parents=True)

    def _write(self, offset: int, data: bytes) -> None:
        base = offset - offset % self.file_size
        path = self.root / self.FOLDER / f"{base:020d}"
        with open(path, "r+b" if path.exists() else "w+b") as file:
            file.truncate(self.file_size)
            file.seek(offset - base)
            file.write(data)

    def blank(self, room: int) -> bytes:
        """What ends a file."""
        return encode_blank(room)

    def unit(self, record: bytes) -> bytes:
        """A record as it stands in the log."""
        return record

    def append(self, records: Sequence[Record]) -> list[Record]:
        """At the end, each with the next offset of its queue, a ms after the one before."""
        done = []
        for record in records:
            queue = (record.topic, record.queue_id)
            total = len(encode(sealed(record))) + self.RECORD_AT
            room = self.file_size - self.end % self.file_size
            if total + BLANK_BYTES_MIN > room:
                self._write(self.end, self.blank(room))
                self.end += room
            self.now_ms += 1
            whole = sealed(
                record._replace(
                    physical_offset=self.end + self.RECORD_AT,
                    queue_offset=self.queues.get(queue, 0),
                    born_timestamp_ms=self.now_ms - 5,
                    store_timestamp_ms=self.now_ms,
                )
            )
            self.records[self.end + self.RECORD_AT] = whole
            data = self.unit(encode(whole))
            self._write(self.end, data)
            self.queues[queue] = whole.queue_offset + 1
            self.end += len(data)
            done.append(whole)
        return done

    def cut(self, offset: int) -> None:
        """What stands from there on is gone, as when a replica that was ahead follows another master."""
        self.records = {at: record for at, record in self.records.items() if at < offset}
        self.queues = {(each.topic, each.queue_id): each.queue_offset + 1 for each in self.records.values()}
        for path in (self.root / self.FOLDER).iterdir():
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
        source = found(ReadingDisk(), str(self.root))
        exporter = Exporter(source, PosixDisk(), str(directory), lambda: self.now_ms, corrupt_too)
        for _ in exporter.run(Identity("c", "b", broker_id), replica):
            pass
        path = directory / NAME
        return decode(path.read_bytes()[:FILE_BYTES_MAX], str(path))


class LedgerStore(Store):
    """The same in DLedger's entries; an epoch is a term.

    :ivar entries: index and term of each, by the physical offset of its record.
    """

    FOLDER = "dledger-n0/data"
    LAYOUT = "dledger"
    RECORD_AT = HEAD_BYTES
    INDEX_BYTES = 32 * 1000

    def __init__(self, root: Path, file_size: int = FILE_BYTES, begin: int = 0) -> None:
        super().__init__(root, file_size, begin)
        (root / "dledger-n0/index").mkdir()
        self.term = 0
        self.next = 0
        self.entries: dict[int, tuple[int, int]] = {}

    def blank(self, room: int) -> bytes:
        return build_filler(room)

    def unit(self, record: bytes) -> bytes:
        size = HEAD_BYTES + len(record)
        head = EntryHead(1, size, self.next, self.term, self.end, 0, 0, 0, len(record))
        unit = IndexUnit(1, self.end, size, self.next, self.term)
        self._write_index(INDEX_UNIT.build(dict(zip((each.name for each in INDEX_UNIT.subcons), unit, strict=True))))
        self.entries[self.end + HEAD_BYTES] = self.next, self.term
        self.next += 1
        return ENTRY_HEAD.build(dict(zip((each.name for each in ENTRY_HEAD.subcons), head, strict=True))) + record

    def _write_index(self, unit: bytes) -> None:
        at = self.next * 32
        base = at - at % self.INDEX_BYTES
        path = self.root / "dledger-n0/index" / f"{base:020d}"
        with open(path, "r+b" if path.exists() else "w+b") as file:
            file.truncate(self.INDEX_BYTES)
            file.seek(at - base)
            file.write(unit)

    def append_empty(self) -> None:
        """An entry without a record, as a member's first one may be."""
        room = self.file_size - self.end % self.file_size
        if room < HEAD_BYTES + BLANK_BYTES_MIN:
            self._write(self.end, self.blank(room))
            self.end += room
        self._write(self.end, self.unit(b""))
        self.entries.popitem()
        self.end += HEAD_BYTES

    def cut(self, offset: int) -> None:
        """As :meth:`Store.cut`, but what stood there is not cleared: DLedger writes over it.

        :param offset: of an entry.
        """
        kept = {at: entry for at, entry in self.entries.items() if at < offset}
        self.next = next((index for at, (index, _) in sorted(self.entries.items()) if at >= offset), self.next)
        self.entries = kept
        self.records = {at: record for at, record in self.records.items() if at < offset}
        self.queues = {(each.topic, each.queue_id): each.queue_offset + 1 for each in self.records.values()}
        for path in (self.root / self.FOLDER).iterdir():
            if int(path.name) >= offset:
                path.unlink()
        self.end = offset

    def new_master(self, epoch: int) -> None:
        self.term = epoch

    def confirm(self, offset: int) -> None:
        index = max((index for at, (index, _) in self.entries.items() if at < offset), default=-1)
        text = f"#Tue Nov 24 12:00:00 UTC 2026\nendIndex={self.next - 1}\ncommittedIndex={index}\n"
        (self.root / "dledger-n0/checkpoint").write_text(text)


class AdoptedStore(LedgerStore):
    """One that goes on with an ordinary broker's log.

    :ivar older: that.
    """

    OLDER_RECORDS = 250

    def __init__(self, root: Path, file_size: int = FILE_BYTES, begin: int = 0) -> None:
        self.older = older = Store(root, file_size, begin)
        chance = random.Random(1)
        older.append([made(chance) for _ in range(self.OLDER_RECORDS)])
        room = -older.end % file_size
        if room:
            older._write(older.end, encode_blank(room))
        super().__init__(root, file_size, older.end + room)
        self.records, self.queues, self.now_ms = dict(older.records), dict(older.queues), older.now_ms
