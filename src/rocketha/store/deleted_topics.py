"""Topics that were deleted while the log still has records of them: up to where in the log their names are void.

Pure.  No counterpart in Java, whose recovery believes the log alone: there a deleted topic comes back with a restart,
and its old messages with its name (rocketmq#1852).

Theory of operation.  A deletion voids the records of a name below the end that the log has then; records of a topic
that is made again under it come behind.  Whoever makes queues from the log (recovery, a replica's dispatch) passes over
void records, and a query by key does not give them; the index has them, as the log does.  A topic's queues go at the
deletion itself, so nobody else has to know.  An entry goes when the log begins behind it.

Not all deletions are known: a replica may get a topic's records after the topic was deleted.  So it is noted up to
where in the log the table of topics is complete.  A topic that the table lacks was deleted if its records are below; if
there are some behind, it came later.  A master of Java's tells of no deletion, and its table may lack topics that its
log has: under it nothing is noted.  Nor does the note hold once a Java broker had the store, whose table may have lost
topics; or where the table that is read is an older one, its backup, say.  So the note names the version of its table,
and a start with another version forgets it.

The table is a file beside ``topics.json``, which Java ignores, and travels to replicas of ours with the topics.  It
must never hide what was not deleted, so it holds for its own log only:

- where the log is cut, entries are lowered to the new end; so they are where a replica's shorter log becomes the
  master's, before it takes a message;
- an entry names the newest record below it.  If a start does not find that one where it was, the log has been cut by
  somebody who does not know this file, and others may be written there: the entry counts no more.  A replica's log may
  not reach there yet.  The entry of a master is saved after the log below it is synced, so a power cut takes neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import attrs

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.store.log_walk import record_at
from rocketha.store.segment import SegmentedFile
from rocketha.wire import json_dialect

NAME = "rocketha-deletedTopics.json"
TOPICS_MAX = 100_000
"""Names remembered; beyond, the oldest deletion is forgotten."""
_OFFSET_MAX = (1 << 63) - 1


class LastRecord(NamedTuple):
    """The newest record of a log at some time: where it stands, and its store time in ms."""

    offset: int
    stored_ms: int


@attrs.frozen
class Deleted:
    """One deletion.

    :ivar below: log offset below which the topic's records are void.
    :ivar last: the newest record there was.
    """

    below: int
    last: LastRecord


Version = tuple[int, int, int]
"""Of a table of topics: the numbers of its ``DataVersion``, which Java moves on with each change, too."""


@attrs.frozen
class Complete:
    """How far a table of topics is complete.

    :ivar below: it named every topic that had a record below this log offset and was not deleted.
    :ivar last: the newest record there was.
    :ivar version: of that table; None where a file does not say, or nothing is below: that holds of any table.
    """

    below: int
    last: LastRecord
    version: Version | None


DeletedTable = Mapping[str, Deleted]


class DeletedTopics:
    """The table of one store.  Every change makes a new dict: it is written from another thread than it is changed in.

    :ivar dirty: it is not as its file.
    :ivar complete: how far the table of topics is complete; None where nobody has said so.
    :ivar lowered: times that entries were lowered or dropped since the log was cut: a replica asks for its master's.
    """

    def __init__(self) -> None:
        self._table: dict[str, Deleted] = {}
        self.complete: Complete | None = None
        self.dirty = False
        self.lowered = 0

    @property
    def table(self) -> DeletedTable:
        """By topic."""
        return self._table

    def is_void(self, topic: str, physical_offset: int) -> bool:
        """Whether a record belongs to a topic that was deleted after it was written."""
        deleted = self._table.get(topic)
        return deleted is not None and physical_offset < deleted.below

    def add(self, topic: str, below: int, last: LastRecord) -> None:
        """A topic was deleted."""
        table = {**self._table, topic: Deleted(below, last)}
        if len(table) > TOPICS_MAX:
            del table[min(table, key=lambda name: table[name].below)]
        self._set(table)

    def topics_complete(self, below: int, last: LastRecord, version: Version) -> None:
        """The table of topics is, as far as the log below this offset goes."""
        complete = Complete(below, last, version if below else None)
        if complete != self.complete:
            self.complete, self.dirty = complete, True

    def topics_read(self, version: Version) -> None:
        """At a start: the table of topics that was read has this version; what was noted of another does not hold."""
        if self.complete is not None and self.complete.below and self.complete.version != version:
            self.topics_unknown()

    def topics_unknown(self) -> None:
        """Nobody knows of which topics of the log the table has to have."""
        if self.complete is not None:
            self.complete, self.dirty = None, True

    def replace(self, table: DeletedTable, log_begin: int) -> None:
        """The whole table is a master's from now on, but for what it has forgotten since its log begins there."""
        kept = {name: each for name, each in self._table.items() if each.below <= log_begin}
        merged = {**kept, **table}
        if merged != self._table:
            self._set(merged)

    def lower(self, end: int, last: LastRecord) -> None:
        """The log ends there, and what comes behind is new.

        :param last: its newest record.
        """
        if self.complete is not None and self.complete.below > end:
            self.complete, self.dirty = Complete(end, last, self.complete.version), True
        if any(each.below > end for each in self._table.values()):
            table = {name: each if each.below <= end else Deleted(end, last) for name, each in self._table.items()}
            self.lowered += 1
            self._set(table if end else {})

    def expire(self, log_begin: int) -> None:
        """Forget what the log begins behind."""
        self._keep(lambda each: each.below > log_begin)

    def check(self, segments: SegmentedFile, ahead: bool) -> list[str]:
        """At the start, before the end of the log is known: forget what does not hold for this log; the names.

        :param ahead: the log is a replica's, so that entries may be about what it does not have yet.
        """
        self.expire(segments.begin)
        known = {each.last for each in self._table.values()}  # most often few
        holds = {last: _stands(segments, last, ahead) for last in known}
        complete = self.complete
        if complete is not None and complete.below > segments.begin and not _stands(segments, complete.last, ahead):
            self.complete, self.dirty = None, True
        dropped = sorted(name for name, each in self._table.items() if not holds[each.last])
        self._keep(lambda each: holds[each.last])
        return dropped

    def _keep(self, wanted: Callable[[Deleted], bool]) -> None:
        table = {name: each for name, each in self._table.items() if wanted(each)}
        if len(table) < len(self._table):
            self._set(table)

    def _set(self, table: dict[str, Deleted]) -> None:
        self._table = table
        self.dirty = True

    # The file

    def as_json(self) -> dict[str, Any]:
        """By topic, as it is saved and travels."""
        return _as_json(self._table)

    def dump(self) -> bytes:
        """The file's text."""
        return self.dump_later()()

    def dump_later(self) -> Callable[[], bytes]:
        """The same of the table as it is now, made by a thread."""
        table, complete = self._table, self.complete
        noted = {} if complete is None else {"topicsComplete": _complete_as_json(complete)}
        return lambda: json_dialect.dumps({"deletedTopics": _as_json(table), **noted})

    def load(self, data: bytes, path: str = NAME) -> None:
        """Take over a file's text.

        :raises CorruptStore: it is none.
        """
        try:
            value = json_dialect.loads(data, json_dialect.FILE_BYTES_MAX)
            table = read_deleted(value.get("deletedTopics") if isinstance(value, dict) else None)
            complete = value.get("topicsComplete")
            self._table, self.complete = table, None if complete is None else _read_complete(complete)
        except RemoteProtocolError as problem:
            raise CorruptStore(path, 0, str(problem)) from None

    def read(self, disk: Disk, root: str) -> list[str]:
        """Read the file of a store, or its backup; what an operator should know."""
        path = f"{root}/config/{NAME}"
        notes: list[str] = []
        try:
            for data in atomic_file.candidates(disk, path):
                try:
                    self.load(data, path)
                    return notes
                except CorruptStore as problem:
                    notes.append(f"{problem}: topics that were deleted may come back")
        except DiskFailure as problem:
            notes.append(f"{problem}: topics that were deleted may come back")
        return notes


def _as_json(table: DeletedTable) -> dict[str, Any]:
    return {name: _one_as_json(each) for name, each in table.items()}


def _one_as_json(deleted: Deleted | Complete) -> dict[str, int]:
    return {"below": deleted.below, "lastOffset": deleted.last.offset, "lastStored": deleted.last.stored_ms}


def _complete_as_json(complete: Complete) -> dict[str, Any]:
    noted: dict[str, Any] = {**_one_as_json(complete)}
    if complete.version is not None:
        noted["topicsVersion"] = list(complete.version)
    return noted


def _read_complete(entry: Any) -> Complete:
    one = _read_one(entry)
    version = entry.get("topicsVersion")
    if version is None:  # of a release that did not say
        return Complete(one.below, one.last, None)
    if not isinstance(version, list) or len(version) != 3:
        raise RemoteProtocolError("topicsVersion in deletedTopics is no version")
    counter, state_version, timestamp_ms = version
    return Complete(one.below, one.last, (counter, state_version, timestamp_ms))


def read_deleted(value: Any) -> dict[str, Deleted]:
    """The table in parsed JSON: a file's, a master's.

    :raises RemoteProtocolError: it is none.
    """
    if not isinstance(value, dict) or len(value) > TOPICS_MAX:
        raise RemoteProtocolError(f"deletedTopics is no map of at most {TOPICS_MAX}")
    return {name: _read_one(entry) for name, entry in value.items()}


def _read_one(entry: Any) -> Deleted:
    if not isinstance(entry, dict):
        raise RemoteProtocolError("an entry of deletedTopics is no object")
    return Deleted(_number(entry, "below"), LastRecord(_number(entry, "lastOffset"), _number(entry, "lastStored")))


def _number(entry: Mapping[str, Any], key: str) -> int:
    number = entry.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _OFFSET_MAX:
        raise RemoteProtocolError(f"{key} in deletedTopics is no place or time")
    return number


def _stands(segments: SegmentedFile, last: LastRecord, ahead: bool) -> bool:
    """Whether a record is where it was; of a replica also whether nothing is there."""
    record = record_at(segments, last.offset)
    if record is not None:
        return record.store_timestamp_ms == last.stored_ms
    return ahead and not any(segments.read(last.offset, 8))
