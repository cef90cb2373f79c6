"""An independent reader of a store folder: what the files say, without our store's code and without Java's.

Layout: facts of RocketMQ's CommitLog, ConsumeQueue and IndexFile, as docs/ describes them. Used to compare two
folders, and to check that consume queues say exactly what the log says.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MAGIC_V1, MAGIC_V2, MAGIC_BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
MAGIC_ENTRY, MAGIC_FILLER, ENTRY_HEAD = 1, -1, 48
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
QUEUE_UNIT = 20


class Record(NamedTuple):
    """One record of the log; `data` is all of it."""

    at: int
    data: bytes
    topic: str
    queue: int
    queue_offset: int
    properties: dict[str, str]
    body: bytes
    sys_flag: int
    stored_ms: int


class Bad(AssertionError):
    """The files contradict themselves."""


class Torn(Bad):
    """A record is wrong; `end` is the log offset behind it."""

    def __init__(self, text: str, end: int) -> None:
        super().__init__(text)
        self.end = end


def _java_hash(text: str) -> int:
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _parse(data: bytes, at: int) -> Record:
    magic, crc, queue, _flag, queue_offset, physical, sys_flag = struct.unpack_from(">IIiiqqi", data, 4)
    if physical != at:
        raise Bad(f"record at {at} says that it is at {physical}")
    place = 48 + (20 if sys_flag & 0x10 else 8)
    (stored_ms,) = struct.unpack_from(">q", data, place)
    place += 8 + (20 if sys_flag & 0x20 else 8) + 4 + 8
    (size,) = struct.unpack_from(">i", data, place)
    body = data[place + 4 : place + 4 + size]
    place += 4 + size
    if (zlib.crc32(body) & 0x7FFFFFFF) != crc:
        raise Bad(f"record at {at}: wrong body CRC")
    width = 1 if magic == MAGIC_V1 else 2
    length = int.from_bytes(data[place : place + width], "big")
    topic = data[place + width : place + width + length].decode()
    place += width + length
    (length,) = struct.unpack_from(">h", data, place)
    if place + 2 + length != len(data):
        raise Bad(f"record at {at}: {len(data)} bytes, its parts {place + 2 + length}")
    pairs = (part.split("\x01", 1) for part in data[place + 2 :].decode().split("\x02") if "\x01" in part)
    return Record(at, data, topic, queue, queue_offset, dict(pairs), body, sys_flag, stored_ms)


def segments(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if len(p.name) == 20 and p.name.isdigit()) if folder.is_dir() else []


def log(root: Path) -> Iterator[Record]:
    """Every record up to the first place where there is none; Bad where a record is wrong."""
    for file in segments(root / "commitlog"):
        base, data, place = int(file.name), file.read_bytes(), 0
        while place + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, place)
            if magic == MAGIC_BLANK:
                if place + size != len(data):
                    raise Bad(
                        f"{file.name}: the blank record at {place} ends at {place + size}, the file at {len(data)}"
                    )
                break
            if magic not in (MAGIC_V1, MAGIC_V2):
                return
            if size <= 0 or place + size > len(data):
                raise Bad(f"{file.name}: record at {place} claims {size} bytes")
            try:
                record = _parse(data[place : place + size], base + place)
            except Bad as bad:
                raise Torn(str(bad), base + place + size) from None
            yield record
            place += size


def ledger(data_folder: Path) -> Iterator[Record]:
    """The same of a log of DLedger's: each record behind the head of its entry."""
    for file in segments(data_folder):
        base, data, place = int(file.name), file.read_bytes(), 0
        while place + ENTRY_HEAD <= len(data):
            magic, size = struct.unpack_from(">iI", data, place)
            if magic == MAGIC_FILLER:
                break
            if magic != MAGIC_ENTRY:
                return
            (position,) = struct.unpack_from(">q", data, place + 24)
            if position != base + place or place + size > len(data):
                raise Bad(f"{file.name}: the entry at {place} says that it is at {position}, with {size} bytes")
            if size > ENTRY_HEAD:
                yield _parse(data[place + ENTRY_HEAD : place + size], position + ENTRY_HEAD)
            place += size


def log_after_kill(root: Path) -> list[Record]:
    """The same of a broker that was killed: the kernel may have stopped within its last write, at the end of a page.

    So the last record may be torn; Bad when anything lies behind it.
    """
    records: list[Record] = []
    files = segments(root / "commitlog")
    try:
        for record in log(root):
            records.append(record)
    except Torn as torn:
        behind = [
            file.read_bytes()[max(0, torn.end - int(file.name)) :]
            for file in files
            if int(file.name) + file.stat().st_size > torn.end
        ]
        if any(data.strip(b"\0") for data in behind):
            raise Bad(f"{torn}, and there is more behind it") from None
    return records


class Unit(NamedTuple):
    at: int
    size: int
    tags_code: int


def queues(root: Path) -> dict[tuple[str, int], dict[int, Unit]]:
    """What the consume queue files say: {(topic, queue): {queue offset: unit}}; fillers and unwritten space left
    out."""
    found: dict[tuple[str, int], dict[int, Unit]] = {}
    base = root / "consumequeue"
    for topic in sorted(base.iterdir()) if base.is_dir() else []:
        for queue in sorted(topic.iterdir()) if topic.is_dir() else []:
            units: dict[int, Unit] = {}
            for file in segments(queue):
                data, first = file.read_bytes(), int(file.name) // QUEUE_UNIT
                for index in range(len(data) // QUEUE_UNIT):
                    unit = Unit(*struct.unpack_from(">qiq", data, index * QUEUE_UNIT))
                    if unit.size > 0 and unit.size != 0x7FFFFFFF:
                        units[first + index] = unit
            found[topic.name, int(queue.name)] = units
    return found


def expected_queues(records: list[Record]) -> dict[tuple[str, int], dict[int, Unit | None]]:
    """What the queues must say after this log. None for the tags code of a scheduled message, which is a time."""
    wanted: dict[tuple[str, int], dict[int, Unit | None]] = {}
    for record in records:
        if record.sys_flag & 0xC in (4, 0xC):
            continue
        code = _java_hash(record.properties["TAGS"]) if record.properties.get("TAGS") else 0
        units = wanted.setdefault((record.topic, record.queue), {})
        if record.queue_offset in units:
            raise Bad(f"{record.topic}/{record.queue}: two records have queue offset {record.queue_offset}")
        units[record.queue_offset] = Unit(record.at, len(record.data), code)
    return wanted


def check_units(root: Path, records: Iterable[Record], topic: str) -> None:
    """The queues of a topic have each number that its records have, and each unit says where such a record is.

    For logs in which several records have one number, as Java's leaders in DLedger mode make them after a kill: any of
    these will do.
    """
    stored: dict[tuple[str, int], dict[int, list[tuple[int, int]]]] = {}
    for record in records:
        numbers = stored.setdefault((record.topic, record.queue), {})
        numbers.setdefault(record.queue_offset, []).append((record.at, len(record.data)))
    found = queues(root)
    for key, units in found.items():
        for number, unit in units.items():
            if unit[:2] not in stored.get(key, {}).get(number, []):
                raise Bad(f"consume queue {key} at {number}: says {unit}, the log {stored.get(key, {}).get(number)}")
    for key, numbers in stored.items():
        if key[0] == topic and (lacks := sorted(set(numbers) - set(found.get(key, {})))):
            raise Bad(f"consume queue {key}: lacks {lacks[:5]} ({len(lacks)})")


def check(root: Path) -> list[Record]:
    """The log is whole, and the consume queues equal a rebuild from it; the records. For a store that nobody has
    open."""
    records = list(log(root))
    wanted, found = expected_queues(records), queues(root)
    for key in sorted(set(wanted) | set(found)):
        ours, theirs = wanted.get(key, {}), found.get(key, {})
        if sorted(ours) != sorted(theirs):
            missing, extra = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
            raise Bad(
                f"consume queue {key}: lacks {missing[:5]} ({len(missing)}), "
                f"has beyond the log {extra[:5]} ({len(extra)})"
            )
        if sorted(ours) != list(range(len(ours))):
            raise Bad(f"consume queue {key}: offsets are not 0..{len(ours) - 1}")
        for offset, unit in ours.items():
            real = theirs[offset]
            same = real[:2] == unit[:2] if key[0] == SCHEDULE else real == unit  # type: ignore[index]
            if not same:
                raise Bad(f"consume queue {key} at {offset}: says {real}, the log {unit}")
    return records


def masked(record: Record) -> bytes:
    """A record without the fields that name time and host: born and store timestamp, the ports of both hosts."""
    data = bytearray(record.data)
    wide_born, wide_store = bool(record.sys_flag & 0x10), bool(record.sys_flag & 0x20)
    born_port = 48 + (16 if wide_born else 4)
    store_time = born_port + 4
    store_port = store_time + 8 + (16 if wide_store else 4)
    for place, size in ((40, 8), (born_port, 4), (store_time, 8), (store_port, 4)):
        data[place : place + size] = bytes(size)
    return bytes(data)


class Index(NamedTuple):
    """An index file without its times: (begin and end offset, slots, count), the slots in use, the units (hash,
    offset, chain)."""

    header: tuple[int, int, int, int]
    slots: dict[int, int]
    units: list[tuple[int, int, int]]


def indexes(root: Path) -> list[Index]:
    """All index files in the order of their names (names are times)."""
    found = []
    for file in sorted(p for p in (root / "index").iterdir() if p.name.isdigit()) if (root / "index").is_dir() else []:
        with file.open("rb") as data:
            _, _, begin, end, slot_count, count = struct.unpack(">qqqqii", data.read(40))
            # the counts of the header: slots ever used, and the next unit; the file's size gives the number of slots
            slots_in_file = _slots_of(file)
            slots = struct.unpack(f">{slots_in_file}i", data.read(4 * slots_in_file))
            units = [struct.unpack(">iqii", data.read(20)) for _ in range(count)]
        header = (begin, end, slot_count, count)
        found.append(Index(header, {i: s for i, s in enumerate(slots) if s}, [(u[0], u[1], u[3]) for u in units]))
    return found


_SLOTS = 20000


def _slots_of(file: Path) -> int:
    """The harness's brokers all have maxHashSlotNum=20000 (roles.py)."""
    assert file.stat().st_size >= 40 + 4 * _SLOTS
    return _SLOTS
