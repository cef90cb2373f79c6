"""The key index: finds records by topic and key, newest first.

Pure.  Java: ``IndexService``; the file format is in ``wire/spec/index_file.py``.  Theory of operation: a list of
files, named by the time they were begun; only the newest takes units.  Its hash slots are held in memory (20 MB of
address space, of which only the touched pages exist), new units in a short tail; a job writes both now and then.
Reads look in the tail, then in the file. An index lags behind the log and is never ahead of it: a key is put only
after its record was written.

After a crash the newest file is believed up to what the checkpoint says; what is later is rebuilt from its units, the
slots included, and the log is dispatched again from there (``recovery.py``).
"""

from __future__ import annotations

import datetime
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

import attrs

from rocketha.compiled import compiled
from rocketha.errors import CorruptStore
from rocketha.store.config import StoreConfig
from rocketha.store.disk import Disk
from rocketha.store.dispatch import index_keys
from rocketha.store.foreign_names import ForeignNames, is_number
from rocketha.store.in_memory import NotInMemory, Wait
from rocketha.store.index_file import FALL_MS, Chain, IndexFile, Search, key_hash
from rocketha.store.jobs import Job
from rocketha.store.messages import BatchKeys, Keys
from rocketha.store.segment import OpenFiles
from rocketha.wire.batch import Members
from rocketha.wire.java_text import hashes_behind, string_hash
from rocketha.wire.properties import parse

_EPOCH = datetime.datetime(1970, 1, 1)
_REMEMBERED_MAX = 10_000

TOGETHER = 128
"""Records that are worth to be indexed together: one of them costs half of what it does alone."""

DEFERRED_MAX = 1024
"""Records that may wait to be indexed."""

DEFERRED_BYTES_MAX = 1 << 20
"""Bytes of batches that they may lie in, which stay in memory meanwhile."""

Keyed = tuple[str, Keys, int]
"""A record to index: topic, keys or the properties that they stand in, log offset."""

Units = tuple["array[int]", "array[int]"]
"""Hashes of keys, and the log offset of each one's record."""


class KeyRows(NamedTuple):
    """Records to index, column by column: a row is a topic, keys, one of each column, and the record's log offset.

    Where some records have more keys than others there is one column, and they have a row for each key.
    """

    topics: Sequence[str]
    columns: Sequence[Sequence[str]]
    offsets: Sequence[int]


def rows_of(records: Sequence[Keyed]) -> KeyRows:
    """Records one by one, column by column."""
    keyed = [(topic, keys_of(keys), offset) for topic, keys, offset in records]
    widths = {len(keys) for _, keys, _ in keyed}
    if len(widths) > 1:
        keyed = [(topic, (key,), offset) for topic, keys, offset in keyed for key in keys]
    if not keyed:
        return KeyRows((), (), ())
    topics, rows, offsets = zip(*keyed, strict=True)
    return KeyRows(topics, list(zip(*rows, strict=True)), offsets)


def keys_of(keys: Keys) -> tuple[str, ...]:
    """The keys, where they stand in properties."""
    return index_keys(parse(keys)) if isinstance(keys, bytes) else keys


@compiled
def units_of_records(prefix_of: Callable[[str], int], records: Sequence[Keyed]) -> Units | None:
    """What to index of some records; None: many together cost less, by :class:`KeyRows`."""
    return None


@compiled
def units_of_members(prefix: int, members: Members, offsets: Sequence[int]) -> Units | None:
    """What to index of the records of a batch, from their properties, where these are ASCII; None: see above."""
    return None


class ToIndex(Protocol):
    """Records of one turn that are in the log and not in the index."""

    def count(self) -> int:
        """How many."""

    def units(self, prefix_of: Callable[[str], int]) -> Units | None:
        """What to index; None where it is better found of many together.

        :param prefix_of: the hash of what stands before each key of a topic.
        """

    def rows(self) -> KeyRows:
        """What it is found from."""


@attrs.frozen
class KeyedRecords:
    """Records one by one."""

    records: Sequence[Keyed]

    def count(self) -> int:
        return len(self.records)

    def units(self, prefix_of: Callable[[str], int]) -> Units | None:
        return units_of_records(prefix_of, self.records)

    def rows(self) -> KeyRows:
        return rows_of(self.records)


@attrs.frozen
class KeyedBatch:
    """The records of a batch, by their properties; ``keys`` finds the keys in there."""

    topic: str
    members: Members
    offsets: list[int]
    keys: Callable[[], BatchKeys]

    def count(self) -> int:
        return len(self.offsets)

    def units(self, prefix_of: Callable[[str], int]) -> Units | None:
        return units_of_members(prefix_of(self.topic), self.members, self.offsets)

    def rows(self) -> KeyRows:
        """Of topic, keys and log offset."""
        columns, messages = self.keys()
        return KeyRows([self.topic] * len(messages), columns, [self.offsets[number] for number in messages])


class KeyIndex:
    """The index files.

    :ivar end_offset: log offset of the last record indexed; -1 without any.
    :ivar had_files: loading found files, whether or not it could believe them.
    """

    def __init__(self, disk: Disk, files: OpenFiles, directory: str, config: StoreConfig) -> None:
        self.directory = directory
        self.end_offset = -1
        self.files: list[IndexFile] = []
        self.had_files = False
        self._disk = disk
        self._open_files = files
        self._config = config
        self._prefixes: dict[str, int] = {}
        self._busy = False
        self._deferred: list[tuple[ToIndex, int]] = []
        self._waiting = self._waiting_bytes = 0  # records in there, and what keeping them costs

    @property
    def pending_units(self) -> int:
        """Units not written yet."""
        return sum(file.pending_units for file in self.files)

    @property
    def end_timestamp_ms(self) -> int:
        """Store time of the last record indexed."""
        return self.files[-1].end_timestamp_ms if self.files else 0

    # Writing

    def put(self, topic: str, keys: tuple[str, ...], physical_offset: int, store_timestamp_ms: int) -> None:
        """Index a record that is in the log."""
        self.put_all([(topic, keys, physical_offset)], store_timestamp_ms)

    def defer(self, records: ToIndex, store_timestamp_ms: int, kept_bytes: int = 0) -> None:
        """Index them at the next :meth:`settle`, which whoever asks the index brings about.

        :param kept_bytes: of memory that they keep until then.
        """
        self._deferred.append((records, store_timestamp_ms))
        self._waiting += records.count()
        self._waiting_bytes += kept_bytes
        if self._waiting > DEFERRED_MAX or self._waiting_bytes > DEFERRED_BYTES_MAX:
            self.settle()

    def settle(self, least: int = 1) -> None:
        """Do what was deferred, if it is at least so many records: after the answers to the senders have left, as Java
        does it in another thread."""
        if self._waiting >= least:
            deferred, self._deferred = self._deferred, []
            self._waiting = self._waiting_bytes = 0
            self._put(deferred)

    def put_all(self, records: Sequence[Keyed], store_timestamp_ms: int) -> None:
        """Index records that are in the log, in order of their offsets."""
        self._put([(KeyedRecords(records), store_timestamp_ms)])

    def _put(self, turns: Sequence[tuple[ToIndex, int]]) -> None:
        """Index turns: each alone where that costs least, else those next to each other together."""
        together: list[tuple[KeyRows, int]] = []
        for records, time_ms in turns:
            units = records.units(self._prefix)
            if units is None:
                together.append((records.rows(), time_ms))
                continue
            self._put_together(together)
            together = []
            hashes, offsets = units
            self._put_units(hashes, offsets, [time_ms] * len(hashes))
        self._put_together(together)

    def _put_together(self, turns: Sequence[tuple[KeyRows, int]]) -> None:
        """Index turns, as many of them in one go as have as many keys a row and times that do not fall."""
        if not turns:
            return
        first = 0
        for at, (rows, time_ms) in enumerate(turns):
            before, before_ms = turns[at - 1]
            if at > first and (time_ms <= before_ms - FALL_MS or len(rows.columns) != len(before.columns)):
                self._put_rising(turns[first:at])
                first = at
        self._put_rising(turns[first:])

    def _put_rising(self, turns: Sequence[tuple[KeyRows, int]]) -> None:
        topics = [topic for rows, _ in turns for topic in rows.topics]
        by_topic = {topic: self._prefix(topic) for topic in dict.fromkeys(topics)}
        prefixes = [by_topic[topic] for topic in topics]
        columns = [list(chain(*parts)) for parts in zip(*[rows.columns for rows, _ in turns], strict=True)]
        if not topics or not columns:
            return
        # IndexFile.indexKeyHashMethod: absolute value, 0 for the one that has none
        hashes = _row_by_row(
            [
                [value if value < 0x80000000 else -value & 0x7FFFFFFF for value in hashes_behind(prefixes, column)]
                for column in columns
            ]
        )
        offsets = _row_by_row([[offset for rows, _ in turns for offset in rows.offsets]] * len(columns))
        times = _row_by_row([[time_ms for rows, time_ms in turns for _ in rows.offsets]] * len(columns))
        self._put_units(array("i", hashes), array("q", offsets), times)

    def _put_units(self, hashes: array[int], offsets: array[int], times: Sequence[int]) -> None:
        if not hashes:
            return
        file = self.files[-1] if self.files else self._begin_file(times[0])
        put = 0
        while put < len(hashes):
            if not file.takes(times[put]):
                file = self._begin_file(times[put])
            put += file.put(hashes[put:], offsets[put:], times[put:])
        self.end_offset = offsets[-1]

    def _prefix(self, topic: str) -> int:
        """Hash of what stands before each key of a topic."""
        found = self._prefixes.get(topic)
        if found is None:
            if len(self._prefixes) >= _REMEMBERED_MAX:
                self._prefixes.clear()
            found = self._prefixes[topic] = string_hash(f"{topic}#")
        return found

    def _begin_file(self, store_timestamp_ms: int) -> IndexFile:
        former = self.files[-1] if self.files else None
        local = _EPOCH + datetime.timedelta(milliseconds=store_timestamp_ms + self._config.utc_offset_ms)
        name = int(local.strftime("%Y%m%d%H%M%S") + f"{local.microsecond // 1000:03d}")
        if former is not None:
            name = max(name, int(former.name) + 1)  # file names are the order
        file = IndexFile(self._disk, self._open_files, self.directory, f"{name:017d}", self._config)
        file.begin(former)
        self.files.append(file)
        return file

    def write_job(self) -> Job | None:
        """Write and sync what is pending; None when nothing is or such a job is out."""
        self.settle()
        pending = [file for file in self.files if file.pending_units or not file.written]
        if self._busy or not pending:
            return None
        self._busy = True
        snapshots = [file.snapshot() for file in pending]

        def run() -> None:
            self._disk.make_dirs(self.directory)
            for snapshot in snapshots:
                snapshot.write(self._disk)
            self._disk.sync_dir(self.directory)

        def apply() -> None:
            self._busy = False
            for file, snapshot in zip(pending, snapshots, strict=True):
                file.apply(snapshot)
            for file in self.files[:-1]:
                file.drop_slots()

        def fail(_: Exception) -> None:
            self._busy = False
            for file, snapshot in zip(pending, snapshots, strict=True):
                file.restore(snapshot)

        return Job("index", run, apply, fail)

    # Reading

    def find(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int, wait: Wait = Wait.ANYTHING
    ) -> list[int]:
        """Log offsets of records that may have the key, newest first: equal hashes are not equal keys.

        :raises NotInMemory: it would take more than ``wait``.
        """
        return self._search(Search(unit_hash(topic, key), count_max, begin_ms, end_ms), wait)

    def find_placed(
        self, topic: str, key: str, count_max: int, first: int, end: int, wait: Wait = Wait.ANYTHING
    ) -> list[int]:
        """The same of records from ``first`` to before ``end`` in the log, whenever they were stored.

        :raises NotInMemory: it would take more than ``wait``.
        """
        return self._search(Search(unit_hash(topic, key), count_max, first=first, end=end), wait)

    def _search(self, search: Search, wait: Wait) -> list[int]:
        self.settle()
        found: list[int] = []
        lacks: list[Chain] = []
        for file in reversed(self.files):
            if file.covers(search):  # an older file may have a later time: the clock was set back between
                lacking = file.find(search, found, wait)
                if lacking is not None:
                    lacks.append(lacking)
            if file.begin_offset < search.first or len(found) >= search.count_max:
                break
        if lacks:
            raise NotInMemory(lacks)
        return found

    # Starting, cutting, expiry

    def load(self, clean: bool, trusted_ms: int, time_at: Callable[[int], int], foreign: ForeignNames) -> list[str]:
        """Find the files; returns what an operator should know.

        :param clean: the last process stopped cleanly; if not, only what was stored before ``trusted_ms`` is believed.
        :param trusted_ms: the checkpoint's: store time of the last record whose units were synced.
        :param time_at: store time in ms of the record at a log offset, -1 where there is none: what a torn header is
            held against.
        :param foreign: is told of what is somebody else's.
        :raises CorruptStore: after a clean stop, a file that cannot be one of this index.
        """
        notes: list[str] = []
        found: list[IndexFile] = []
        names = foreign.ours(self._disk, self.directory, lambda name: is_number(name) and len(name) == 17)
        for name in names:
            path = f"{self.directory}/{name}"
            file = IndexFile(self._disk, self._open_files, self.directory, name, self._config)
            try:
                file.load(newest=clean and name == names[-1])
            except CorruptStore as error:
                if clean and self._disk.size(path):
                    raise
                notes.append(f"index file removed: {error}")
                self._remove(file)
                continue
            found.append(file)
        self.had_files = bool(found)
        self.files = found if clean else self._trustworthy(found, trusted_ms, time_at)
        self._find_end()
        if not clean and self.end_offset >= 0:
            self.truncate(self.end_offset)  # the last record may lack keys that went to a file that is lost
        return notes

    def _trustworthy(self, found: list[IndexFile], trusted_ms: int, time_at: Callable[[int], int]) -> list[IndexFile]:
        """After a crash: the files up to the one whose successor was not begun before ``trusted_ms``; that one is
        rebuilt."""
        kept: list[IndexFile] = []
        for number, file in enumerate(found):
            after = found[number + 1] if number + 1 < len(found) else None
            if (
                after is not None
                and after.unit_count > 1
                and after.begin_timestamp_ms + 999 < trusted_ms
                and time_at(after.begin_offset) in (after.begin_timestamp_ms, -1)
            ):
                kept.append(file)
                continue
            if time_at(file.begin_offset) in (file.begin_timestamp_ms, -1):
                file.rebuild(trusted_ms)
                if file.unit_count > 1:
                    kept.append(file)
            break
        for file in found:
            if file not in kept:
                self._remove(file)
        return kept

    def _remove(self, file: IndexFile) -> None:
        self._open_files.forget(file.path)
        if self._disk.exists(file.path):
            self._disk.remove(file.path)

    def _find_end(self) -> None:
        used = [file for file in self.files if file.unit_count > 1]
        self.end_offset = used[-1].end_offset if used else -1

    def truncate(self, log_end: int) -> None:
        """Undo the units of records at or behind ``log_end``; in memory, the next job writes it."""
        self.settle()
        while len(self.files) > 1 and (self.files[-1].unit_count <= 1 or self.files[-1].begin_offset >= log_end):
            self._remove(self.files.pop())
            self.files[-1].take_slots()
        if self.files:
            self.files[-1].truncate(log_end)
        self._find_end()

    def expired_paths(self, log_begin: int) -> list[str]:
        """Forget the files whose every record is gone, never the newest; returns their paths."""
        paths = []
        while len(self.files) > 1 and self.files[0].end_offset < log_begin:
            file = self.files.pop(0)
            self._open_files.forget(file.path)
            paths.append(file.path)
        return paths

    def units(self) -> Iterator[tuple[int, int]]:
        """``(key hash, log offset)`` of every unit, oldest first: for verification."""
        self.settle()
        for file in self.files:
            yield from file.units()


def _row_by_row(columns: Sequence[list[int]]) -> list[int]:
    """The values of columns, those of the first row first."""
    values = [0] * (len(columns) * len(columns[0]))
    for number, column in enumerate(columns):
        values[number :: len(columns)] = column
    return values


def unit_hash(topic: str, key: str) -> int:
    """What a key of a topic is found by."""
    return key_hash(string_hash(f"{topic}#{key}"))
