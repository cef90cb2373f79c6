"""One index file: slots, units, and what of them is not written yet.

Pure.  Java: ``IndexFile`` and ``IndexHeader``.  Invariants: unit numbers run from 1; ``previous`` of a unit is
smaller than its own number; neither log offsets nor times fall from unit to unit.  So the slots follow from the units,
and units can be taken back from the newest on (:meth:`IndexFile.truncate`) by restoring each slot to the unit's
``previous``.

Order on disk: units, then the header that counts them, synced; then the slots, synced.  A file torn in between ends
later than the checkpoint says, and both Java (removes it) and we (rebuild it from its units) then distrust it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import attrs

from rocketha.compiled import compiled
from rocketha.errors import CorruptStore
from rocketha.store.config import StoreConfig
from rocketha.store.disk import Disk, File
from rocketha.store.in_memory import Wait, Wanted
from rocketha.store.index_tail import UNIT, UnitTail
from rocketha.store.segment import OpenFiles
from rocketha.wire.store_files import INDEX_HEADER, INDEX_UNIT, IndexHeader, IndexUnit

HEADER = INDEX_HEADER.size
SLOT = 4
PAGE_SLOTS = 1024
"""Slots of a page of the file cache: it is written whole."""
PAGES_MAX = 64
"""Pages written together."""
SECONDS_MAX = 0x7FFFFFFF
FALL_MS = 1000
"""By up to this the store time may fall from unit to unit: by more, a new file begins."""
ANYWHERE = 1 << 62
CHAIN_MAX = 100_000
"""Units followed in one slot before a search gives up."""

_READ_UNITS = 65536


def key_hash(value: int) -> int:
    """``IndexFile.indexKeyHashMethod``: absolute value, 0 for the one that has none."""
    return value if value >= 0 else (-value if value != -0x80000000 else 0)


def _slot_at(slot: int) -> int:
    """Place of a slot in its file."""
    return HEADER + slot * SLOT


def _to_number(data: bytes) -> int:
    """Of the unit that a slot leads to, as the file has it."""
    return int.from_bytes(data, "big", signed=True)


def _to_unit(data: bytes) -> IndexUnit | None:
    """A unit as the file has it; None where that ends before."""
    return IndexUnit(*INDEX_UNIT.unpack(data)) if len(data) == UNIT else None


@compiled
def link_units(
    hashes: array[int], offsets: array[int], seconds: list[int], slots: memoryview, dirty: bytearray, number: int
) -> tuple[bytes, int]:
    """Let slots lead to new units, the first of which has this number.

    :param dirty: gets 1 for each page whose slots change.
    :return: the packed units, and how many are the first of their slots.
    """
    previous: list[int] = []
    add = previous.append
    slots_number = len(slots)
    used = [value % slots_number for value in hashes]
    # Slots lie anywhere in 20 MB: a tight loop lets the processor fetch many of them at once, the next one cannot.
    itemgetter(*used)(slots)
    for slot in used:
        add(slots[slot])
        slots[slot] = number
        number += 1
    if 0 in dirty:
        for page in dict.fromkeys([slot // PAGE_SLOTS for slot in used]):
            dirty[page] = 1
    return _pack_units(hashes, offsets, seconds, previous), previous.count(0)


def _pack_units(hashes: array[int], offsets: array[int], seconds: Sequence[int], previous: Sequence[int]) -> bytes:
    """As ``INDEX_UNIT.layout`` packs each, at a fraction of the time: column by column, an offset being two words."""
    words = array("i", bytes(len(hashes) * UNIT))
    step = UNIT // words.itemsize
    halves = array("i", offsets.tobytes())
    high = 1 if sys.byteorder == "little" else 0
    words[0::step] = hashes
    words[1::step] = halves[high::2]
    words[2::step] = halves[1 - high :: 2]
    words[3::step] = array("i", seconds)
    words[4::step] = array("i", previous)
    return _swap(words).tobytes()


def _swap(words: array[int]) -> array[int]:
    if sys.byteorder == "little":
        words.byteswap()
    return words


@attrs.frozen
class Snapshot:
    """What a job writes of one file: taken in the store's thread, written in another."""

    path: str
    file_size: int
    header: bytes
    first_unit: int
    units: tuple[bytes, ...]  # in pieces
    unit_count: int
    units_at: int
    pages: tuple[tuple[int, bytes], ...]  # (first slot, packed slots in native order)

    def write(self, disk: Disk) -> None:
        """Units, header, sync; slots, sync."""
        file = disk.open(self.path) if disk.exists(self.path) else disk.create(self.path, self.file_size)
        try:
            if self.units:
                file.write(self.units_at + self.first_unit * UNIT, self.units)
            file.write(0, [self.header])
            file.sync()
            if self.pages:
                for first_slot, data in self.pages:
                    file.write(_slot_at(first_slot), [memoryview(_swap(array("i", data))).cast("B")])
                file.sync()
        finally:
            file.close()


class Search(NamedTuple):
    """What is looked for: a hash, how many log offsets, of which time, and from where to before where in the log."""

    key_hash: int
    count_max: int
    begin_ms: int = -ANYWHERE
    end_ms: int = ANYWHERE
    first: int = 0
    end: int = ANYWHERE


@attrs.frozen
class Chain:
    """The units of one slot, each of which names the one before; a :class:`~rocketha.store.in_memory.Lack`.

    :ivar number: of the newest one that is not in memory; 0: nor is the slot.
    :ivar unit_count: number behind the file's last unit.
    """

    path: str
    slot: int
    number: int
    units_at: int = attrs.field(eq=False)
    unit_count: int = attrs.field(eq=False)
    begin_timestamp_ms: int = attrs.field(eq=False)
    search: Search = attrs.field(eq=False)

    def walk(self, number: int, unit_of: Callable[[int], IndexUnit | None], found: list[int]) -> int:
        """Follow it from a unit on; returns the number of the unit that ``unit_of`` does not have, 0 at the end."""
        wanted, count_max, begin_ms, end_ms, first, end = self.search
        for _ in range(CHAIN_MAX):
            if not 0 < number < self.unit_count or len(found) >= count_max:
                break
            unit = unit_of(number)
            if unit is None:
                return number
            hash_value, physical_offset, seconds, previous = unit
            if seconds < 0 or physical_offset < first:
                break
            time_ms = self.begin_timestamp_ms
            if number > 1:  # the first one's is measured against the former file
                time_ms += seconds * 1000
            # A unit knows its second only, and falls by up to FALL_MS.  Java compares the rounded time, and loses a
            # message sent within the first second asked for; we let the record's own time decide.
            if hash_value == wanted and begin_ms - FALL_MS < time_ms <= end_ms + FALL_MS and physical_offset < end:
                found.append(physical_offset)
            if previous >= number or time_ms + FALL_MS <= begin_ms:
                break
            number = previous
        return 0

    def fetch(self, file: File, wanted: Wanted) -> None:
        def unit_of(number: int) -> IndexUnit | None:
            return _to_unit(file.read(self.units_at + number * UNIT, UNIT)) if wanted() else None

        self.walk(self.number or _to_number(file.read(_slot_at(self.slot), SLOT)), unit_of, [])


class IndexFile:
    """One file.  See the module for the order of things.

    :ivar written: the header was written once.
    """

    def __init__(self, disk: Disk, files: OpenFiles, directory: str, name: str, config: StoreConfig) -> None:
        self.name = name
        self.path = f"{directory}/{name}"
        self.slots_number = config.index_slots
        self.unit_limit = config.index_units
        self.file_size = HEADER + SLOT * config.index_slots + UNIT * config.index_units
        self.begin_timestamp_ms = self.end_timestamp_ms = 0
        self.begin_offset = self.end_offset = 0
        self.slot_count = 0
        self.written = False
        self._units_at = HEADER + SLOT * config.index_slots
        self._disk = disk
        self._files = files
        self._slots: memoryview | None = None
        self._dirty_pages = bytearray((config.index_slots + PAGE_SLOTS - 1) // PAGE_SLOTS)
        self._tail = UnitTail()

    @property
    def unit_count(self) -> int:
        """Number of the next unit."""
        return self._tail.end

    @property
    def written_bytes(self) -> int:
        """Of the header, the slots and the units, those not written yet included; the rest of the file is sparse."""
        return self._units_at + UNIT * self.unit_count

    @property
    def pending_units(self) -> int:
        """Units not known to be written."""
        return len(self._tail)

    def header(self) -> IndexHeader:
        """The header as it would be written now."""
        return IndexHeader(
            self.begin_timestamp_ms,
            self.end_timestamp_ms,
            self.begin_offset,
            self.end_offset,
            self.slot_count,
            self.unit_count,
        )

    # Writing

    def begin(self, former: IndexFile | None) -> None:
        """Start a new file, with the former one's end as its beginning until the first unit comes, as Java does."""
        self._slots = _empty_slots(self.slots_number)
        if former is not None:
            self.begin_offset = self.end_offset = former.end_offset
            self.begin_timestamp_ms = self.end_timestamp_ms = former.end_timestamp_ms

    def put(self, hashes: array[int], offsets: array[int], times_ms: Sequence[int]) -> int:
        """Add units, given as columns of key hashes, log offsets and store times; returns how many found room."""
        slots = self._slots if self._slots is not None else self.take_slots()
        room = self.unit_limit - self.unit_count
        if len(hashes) > room:
            hashes, offsets, times_ms = hashes[:room], offsets[:room], times_ms[:room]
        seconds = self._seconds(offsets[0], times_ms)
        units, begun = link_units(hashes, offsets, seconds, slots, self._dirty_pages, self.unit_count)
        self._tail.add(units)
        self.slot_count += begun
        self.end_offset = offsets[-1]
        self.end_timestamp_ms = times_ms[-1]
        return len(hashes)

    def _seconds(self, offset: int, times_ms: Sequence[int]) -> list[int]:
        """Of the next units; they may be a file's first, which begin it."""
        first = []
        if self.unit_count <= 1:
            # of a new file it is the former file's end, as in Java
            first = [self._second(times_ms[0]) if self.begin_timestamp_ms > 0 else 0]
            self.begin_offset, self.begin_timestamp_ms = offset, times_ms[0]
        rest = times_ms[len(first) :]
        if rest.count(times_ms[-1]) == len(rest):
            return first + [self._second(times_ms[-1])] * len(rest)
        known = {time_ms: self._second(time_ms) for time_ms in dict.fromkeys(rest)}
        return first + [known[time_ms] for time_ms in rest]

    def _second(self, time_ms: int) -> int:
        return min(max(time_ms - self.begin_timestamp_ms, 0) // 1000, SECONDS_MAX)

    def takes(self, store_timestamp_ms: int) -> bool:
        """Whether there is room for a unit of this time: in a file whose times fall, searches would miss some."""
        if self.unit_count <= 1:
            return True
        return self.unit_count < self.unit_limit and store_timestamp_ms > self.end_timestamp_ms - FALL_MS

    def snapshot(self) -> Snapshot:
        """Copy what is pending; :meth:`apply` or :meth:`restore` must follow."""
        slots = self._slots
        pages: list[tuple[int, bytes]] = []
        if slots is not None:
            dirty = self._dirty_pages
            page = dirty.find(1)
            while page >= 0:
                end = dirty.find(0, page, page + PAGES_MAX)
                end = end if end >= 0 else min(page + PAGES_MAX, len(dirty))
                dirty[page:end] = bytes(end - page)
                pages.append((page * PAGE_SLOTS, bytes(slots[page * PAGE_SLOTS : end * PAGE_SLOTS])))
                page = dirty.find(1, end)
        return Snapshot(
            self.path,
            self.file_size,
            INDEX_HEADER.pack(*self.header()),
            self._tail.first,
            self._tail.pieces(),
            self.unit_count,
            self._units_at,
            tuple(pages),
        )

    def apply(self, snapshot: Snapshot) -> None:
        """The snapshot is on the disk."""
        self.written = True
        self._tail.drop_before(snapshot.unit_count)

    def restore(self, snapshot: Snapshot) -> None:
        """The snapshot did not get there: its pages are dirty again."""
        for first, data in snapshot.pages:
            page, end = first // PAGE_SLOTS, -(-(first + len(data) // SLOT) // PAGE_SLOTS)
            self._dirty_pages[page:end] = b"\1" * (end - page)

    def drop_slots(self) -> None:
        """Give the memory of a full file's slots back, once they are written."""
        if not any(self._dirty_pages) and not self.pending_units:
            self._slots = None

    def take_slots(self) -> memoryview:
        """The slots, read from the file if need be."""
        if self._slots is None:
            self._slots = self._read_slots()
        return self._slots

    # Reading

    def covers(self, search: Search) -> bool:
        """``IndexFile.isTimeMatched``: whether the file's time and the wanted time overlap."""
        begin_ms, end_ms = search.begin_ms - FALL_MS, search.end_ms + FALL_MS
        return self.unit_count > 1 and begin_ms <= self.end_timestamp_ms and end_ms >= self.begin_timestamp_ms

    def unit(self, number: int) -> IndexUnit:
        """A unit, from the tail or from the file."""
        if number >= self._tail.first:
            return self._tail.unit(number)
        place = self._units_at + number * UNIT
        unit = _to_unit(self._files.get(self.path).read(place, UNIT))
        if unit is None:
            raise CorruptStore(self.path, place, "the file ends before this unit")
        return unit

    def units(self) -> Iterator[tuple[int, int]]:
        """``(key hash, log offset)`` of every unit."""
        for unit in self._iterate():
            yield unit[0], unit[1]

    def _iterate(self) -> Iterator[tuple[int, int, int, int]]:
        number, written = 1, self._tail.first
        while number < written:
            wanted = min(_READ_UNITS, written - number)
            data = self._files.get(self.path).read(self._units_at + number * UNIT, wanted * UNIT)
            yield from INDEX_UNIT.layout.iter_unpack(data[: len(data) // UNIT * UNIT])
            number += wanted
        for piece in self._tail.pieces():
            yield from INDEX_UNIT.layout.iter_unpack(piece)

    def chain_problems(self) -> Iterator[str]:
        """Slots that do not lead to their newest unit, units that do not lead to the one before; for verification."""
        newest: dict[int, int] = {}
        for number, (hash_value, _, _, previous) in enumerate(self._iterate(), 1):
            slot = hash_value % self.slots_number
            if previous != newest.get(slot, 0):
                yield f"{self.path} unit {number} follows {previous}, not {newest.get(slot, 0)}"
            newest[slot] = number
        for slot in sorted(newest):
            if self._slot(slot) != newest[slot]:
                yield f"{self.path} slot {slot} leads to {self._slot(slot)}, not {newest[slot]}"
        if self.slot_count != len(newest):
            yield f"{self.path} counts {self.slot_count} slots, {len(newest)} are in use"

    def find(self, search: Search, found: list[int], wait: Wait = Wait.ANYTHING) -> Chain | None:
        """Add log offsets of units that are searched for, newest first (``IndexFile.selectPhyOffset``).

        :returns: what of it would take more than ``wait``; None: all of it was found.
        """
        slot = search.key_hash % self.slots_number
        chain = Chain(self.path, slot, 0, self._units_at, self.unit_count, self.begin_timestamp_ms, search)
        number = self._slot(slot, wait)
        if number is None:
            return chain
        lacks = chain.walk(number, lambda number: self._unit(number, wait), found)
        return attrs.evolve(chain, number=lacks) if lacks else None

    def _slot(self, slot: int, wait: Wait = Wait.ANYTHING) -> int | None:
        """Number of the slot's newest unit, 0 if it has none; None: it would take more than ``wait``."""
        if self._slots is not None:
            return int(self._slots[slot])
        data = self._read(_slot_at(slot), SLOT, wait)
        return None if data is None else _to_number(data)

    def _unit(self, number: int, wait: Wait) -> IndexUnit | None:
        """None: it would take more than ``wait``."""
        if wait is Wait.ANYTHING or number >= self._tail.first:
            return self.unit(number)
        data = self._read(self._units_at + number * UNIT, UNIT, wait)
        return None if data is None else _to_unit(data) or self.unit(number)

    def _read(self, offset: int, size: int, wait: Wait) -> bytes | None:
        if wait is Wait.NOTHING and not self._files.has(self.path):
            return None
        file = self._files.get(self.path)
        if wait is not Wait.ANYTHING:
            view = memoryview(bytearray(size))
            cached = file.read_cached(offset, view)
            if cached is not None:
                return bytes(view) if cached else None
        return file.read(offset, size)

    # Starting, cutting

    def load(self, newest: bool) -> None:
        """Read the header, and the slots of the newest file.

        :raises CorruptStore: a wrong size or an impossible header.
        """
        size = self._disk.size(self.path)
        if size != self.file_size:
            raise CorruptStore(self.path, size, f"the file has {size} bytes, configured are {self.file_size}")
        self._take_header(IndexHeader(*INDEX_HEADER.unpack(self._files.get(self.path).read(0, HEADER))))
        self.written = True
        if newest:
            self.take_slots()

    def _take_header(self, header: IndexHeader) -> None:
        if not 0 <= header.unit_count <= self.unit_limit or not 0 <= header.slot_count <= self.slots_number:
            raise CorruptStore(self.path, 32, f"{header.unit_count} units and {header.slot_count} slots in use")
        (
            self.begin_timestamp_ms,
            self.end_timestamp_ms,
            self.begin_offset,
            self.end_offset,
            self.slot_count,
            unit_count,
        ) = header
        self._tail.begin(max(1, unit_count))

    def rebuild(self, trusted_ms: int) -> None:
        """After a crash: keep the units stored surely before ``trusted_ms``, compute slots and header from them.

        Those were synced; the ones behind, and any slot, may be torn.  A unit knows its second only, hence the 999 ms.
        """
        slots = _empty_slots(self.slots_number)
        kept = used = last_offset = last_seconds = 0
        seconds_max = (trusted_ms - 999 - self.begin_timestamp_ms) // 1000
        for number, (hash_value, offset, seconds, previous) in enumerate(self._iterate(), 1):
            seconds = seconds if number > 1 else 0  # the first one's is measured against the former file
            slot = hash_value % self.slots_number
            if not last_seconds <= seconds <= seconds_max or offset < last_offset:
                break
            if hash_value < 0 or previous != slots[slot]:
                break
            slots[slot] = kept = number
            used += not previous
            last_offset, last_seconds = offset, seconds
        self._slots = slots
        self._tail.begin(kept + 1)
        self.slot_count = used
        self.end_offset = last_offset
        self.end_timestamp_ms = self.begin_timestamp_ms + last_seconds * 1000
        self._dirty_pages = bytearray(b"\1" * len(self._dirty_pages))
        self.written = False

    def truncate(self, log_end: int) -> None:
        """Take back the units of records at or behind ``log_end``."""
        if self.unit_count <= 1 or self.end_offset < log_end:
            return
        slots, end = self.take_slots(), self.unit_count
        while end > 1:
            number = end - 1
            unit = self.unit(number)
            if unit.physical_offset < log_end:
                self.end_offset = unit.physical_offset
                self.end_timestamp_ms = self.begin_timestamp_ms + unit.seconds * 1000
                break
            slot = unit.key_hash % self.slots_number
            if unit.key_hash >= 0 and slots[slot] == number:
                slots[slot] = unit.previous
                self._dirty_pages[slot // PAGE_SLOTS] = 1
                self.slot_count -= not unit.previous
            end = number
        else:
            self.end_offset = self.begin_offset
            self.end_timestamp_ms = self.begin_timestamp_ms
        self._tail.drop_from(end)
        self.written = False  # the header on disk counts units that are gone

    def _read_slots(self) -> memoryview:
        slots = _empty_slots(self.slots_number)
        file = self._files.get(self.path)
        first, end = 0, self.slots_number
        position = file.next_data(HEADER)
        while position is not None and position < self._units_at:
            first = (position - HEADER) // SLOT
            count = min(PAGE_SLOTS * 16, end - first)
            data = file.read(HEADER + first * SLOT, count * SLOT)
            if data.count(0) != len(data):
                slots[first : first + count] = _swap(array("i", data))
            position = file.next_data(HEADER + (first + count) * SLOT)
        return slots


def _empty_slots(number: int) -> memoryview:
    """Slots that are zero; memory comes only with the pages that are touched (calloc)."""
    return memoryview(bytearray(number * SLOT)).cast("i")
