"""What the files of replicas must have in common: the log byte for byte, the consume queues, the epochs.

Independent of both stores, as disk.py is. Each comparison raises `Bad` with the first difference, named so that it can
be looked up: the offset, the record that it lies in, the bytes of each side.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path

from .disk import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, Bad, check, log, queues, segments
from .ledger import Ack

STEP = 1 << 20
EPOCHS = "epochFileCheckpoint"


class LogFiles:
    """The commit log of one store folder as a row of bytes. Each call looks at the files as they are then."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files = segments(root / "commitlog")
        self._bases = [int(file.name) for file in self._files]

    @property
    def begin(self) -> int:
        """The offset of the first byte; 0 where there is no file."""
        return self._bases[0] if self._bases else 0

    @property
    def end(self) -> int:
        """The offset behind the last record (or the blank that fills a file), by the records' own sizes."""
        for file, base in zip(reversed(self._files), reversed(self._bases), strict=True):
            at = _end_of_records(file)
            if at:
                return base + at
        return self.begin

    def read(self, at: int, size: int) -> bytes:
        """Up to `size` bytes from an offset, of one file; Bad where no file has that offset."""
        index = bisect_right(self._bases, at) - 1
        if index >= 0:
            with self._files[index].open("rb") as data:
                data.seek(at - self._bases[index])
                piece = data.read(size)
            if piece:
                return piece
        raise Bad(f"{self.root}: no byte at {at}; the files begin at {self._bases}")

    def record_at(self, at: int) -> str:
        """Which record an offset lies in, for a report."""
        index = bisect_right(self._bases, at) - 1
        if index < 0:
            return "before the first file"
        base = self._bases[index]
        begin = base + _end_of_records(self._files[index], at - base)
        return f"byte {at - begin} of the record at {begin}"


def _end_of_records(file: Path, limit: int | None = None) -> int:
    """Where the records of a file end; with `limit`, where the last one begins that is not beyond it."""
    size, place = file.stat().st_size, 0
    with file.open("rb") as data:
        while place + 8 <= size:
            data.seek(place)
            length, magic = struct.unpack(">iI", data.read(8))
            if magic not in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK) or length <= 0:
                break
            if limit is not None and place + length > limit:
                break
            place += length
            if magic == MAGIC_BLANK:
                break
    return place


def compare_logs(roots: Mapping[str, Path], end: int, begin: int | None = None) -> int:
    """The logs hold the same bytes from `begin` (the latest beginning of any) to `end`; how many bytes that is."""
    logs = {name: LogFiles(root) for name, root in roots.items()}
    at = begin = max(files.begin for files in logs.values()) if begin is None else begin
    (one, first), *others = logs.items()
    while at < end:
        piece = first.read(at, min(STEP, end - at))
        size = len(piece)
        for name, files in others:
            theirs = files.read(at, size)
            size = min(size, len(theirs))
            if piece[:size] != theirs[:size]:
                where = at + next(i for i in range(size) if piece[i] != theirs[i])
                raise Bad(
                    f"the logs differ at {where} of {end}: "
                    + "; ".join(
                        f"{n} has {logs[n].read(where, 16).hex()} ({logs[n].record_at(where)}, ends at {logs[n].end})"
                        for n in (one, name)
                    )
                )
        at += size
    return end - begin


def compare_whole_logs(roots: Mapping[str, Path]) -> int:
    """The logs are the same bytes, begin and end at the same offsets; how many bytes."""
    ranges = {name: (files.begin, files.end) for name, files in ((n, LogFiles(root)) for n, root in roots.items())}
    length = compare_logs(roots, min(end for _, end in ranges.values()))
    if len(set(ranges.values())) > 1:
        raise Bad(f"the logs reach from and to {ranges}, and are equal where all have bytes")
    return length


def compare_queues(roots: Mapping[str, Path]) -> int:
    """Each store's queues say what its log says, and all say the same; how many entries. For stores nobody has open."""
    first: tuple[str, dict[tuple[str, int], object]] | None = None
    count = 0
    for name, root in roots.items():
        try:
            check(root)
        except Bad as why:
            raise Bad(f"{name}: {why}") from None
        # an empty folder of a queue is not a difference
        found: dict[tuple[str, int], object] = {key: units for key, units in queues(root).items() if units}
        if first is None:
            first = name, found
            count = sum(len(units) for units in queues(root).values())
        elif found != first[1]:
            odd = sorted(k for k in {*found, *first[1]} if found.get(k) != first[1].get(k))
            raise Bad(f"{first[0]} and {name} differ in the consume queues {odd[:5]} ({len(odd)})")
    return count


def epochs(root: Path) -> list[tuple[int, int]]:
    """(epoch, start offset) of each line of the epoch file; empty where there is none.

    Bad for a wrong checksum, and for what is no such file: a Java broker writes it in place, and may be at it.
    """
    path = root / EPOCHS
    if not path.exists():
        return []
    data = path.read_bytes()
    try:
        count, crc, lines = data.split(b"\n", 2)
        if lines and not lines.endswith(b"\n"):
            lines += b"\n"
        found = [(int(e), int(s)) for e, s in (line.split(b"-") for line in lines.split(b"\n") if line)]
    except ValueError:
        raise Bad(f"{path}: {data!r}") from None
    if len(found) != int(count) or int(crc) not in (0, zlib.crc32(lines) & 0x7FFFFFFF):
        raise Bad(f"{path}: {data!r}")
    return found


def compare_epochs(roots: Mapping[str, Path]) -> list[tuple[int, int]]:
    """All epoch files say the same, and something; what they say."""
    said = {name: epochs(root) for name, root in roots.items()}
    one = next(iter(said.values()))
    if not one or any(each != one for each in said.values()):
        raise Bad(f"epoch files: {said}")
    return one


def check_acknowledged(acks: Iterable[Ack], root: Path) -> int:
    """Every acknowledged message is in this log, at the place that the client was told; how many."""
    places: dict[str, list[int]] = {}
    for record in log(root):
        places.setdefault(record.properties.get("KEYS", ""), []).append(record.at)
    acks = list(acks)
    lost = [ack for ack in acks if places.get(ack.key) != [ack.physical]]
    if lost:
        shown = [(ack, places.get(ack.key)) for ack in lost[:5]]
        raise Bad(
            f"{root}: of {len(acks)} acknowledged messages {len(lost)} are not where they were said to be: {shown}"
        )
    return len(acks)
