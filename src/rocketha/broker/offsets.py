"""How far each consumer group has come in each queue.

Pure.  Must not know which topics and groups exist: requests are checked before they get here.

Theory of operation: three maps with the same keys, ``topic@group`` to queue to offset.  ``committed`` is what a
consumer reports, and is saved.  ``pulled`` is what it was last given, only for statistics.  ``resets`` are an
administrator's orders: such an offset wins over the committed one, reports of the consumer are ignored, until a pull
comes from there; those that come from elsewhere are told to move (:meth:`ConsumerOffsets.moved_to`).

Java: ``ConsumerOffsetManager``, which gives the order to one pull: if its consumer has lost the queue to another
meanwhile, that one never hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from rocketha.broker.data_version import DataVersion
from rocketha.broker.row_texts import RowTexts, file_text
from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire import java_types, json_dialect, json_members

SEPARATOR = "@"
VERSION_STEP = 500
"""Commits between two data versions (consumerOffsetUpdateVersionStep)."""

_QUEUE_BYTES = 30
"""Of an offset in JSON, at most."""

_Table = dict[str, dict[int, int]]

TELLS_MAX, TOLD_MAX = 3, 1000
"""How often one connection is told of a reset, and how many are; beyond that the consumer goes its own way."""


@attrs.define
class _Reset:
    """An order that has not been carried out.

    :ivar told: how often, by connection.
    """

    offset: int
    told: dict[int, int] = attrs.field(factory=dict)


class ConsumerOffsets:
    """Offsets of all groups.  ``dirty`` is set by every change and cleared by whoever saved the table.

    :ivar changes: counts the changes of this process; a slave asks for the table when the number is another.
    """

    def __init__(self) -> None:
        self.committed: _Table = {}
        self.pulled: _Table = {}
        self.resets: dict[str, dict[int, _Reset]] = {}
        self.data_version = DataVersion()
        self.state_version = 0
        self.dirty = False
        self.changes = 0
        self._group_texts: RowTexts[list[str]] = RowTexts()
        self._committed_texts, self._pulled_texts = RowTexts(_row), RowTexts(_row)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, wall_ms: Callable[[], int]) -> None:
        """The group has consumed everything below ``offset`` of this queue.

        :param wall_ms: asked when the version moves on, which few commits bring about.
        """
        key = topic + SEPARATOR + group
        queues = self.committed.get(key)
        if queues is None:
            queues = self.committed[key] = {}
        queues[queue_id] = offset
        self.dirty = True
        self.changes += 1
        if self.changes % VERSION_STEP == 0:
            self.data_version.next(wall_ms(), self.state_version)

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group goes on: an ordered reset, else what it committed, else -1."""
        reset = self._reset(group, topic, queue_id)
        if reset is not None:
            return reset.offset
        queues = self.committed.get(topic + SEPARATOR + group)
        return -1 if queues is None else queues.get(queue_id, -1)

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group was given everything below ``offset``; hot path."""
        key = topic + SEPARATOR + group
        queues = self.pulled.get(key)
        if queues is None:
            queues = self.pulled[key] = {}
        queues[queue_id] = offset

    def query_pulled(self, group: str, topic: str, queue_id: int) -> int:
        """What :meth:`note_pull` noted, else the committed offset, else -1."""
        queues = self.pulled.get(topic + SEPARATOR + group)
        found = None if queues is None else queues.get(queue_id)
        return self.query(group, topic, queue_id) if found is None else found

    def order_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """An administrator sends the group to ``offset`` of this queue."""
        key = topic + SEPARATOR + group
        self.resets.setdefault(key, {})[queue_id] = _Reset(offset)
        self.committed.setdefault(key, {})[queue_id] = offset
        self._changed()

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a reset has not been carried out."""
        return self._reset(group, topic, queue_id) is not None

    def _reset(self, group: str, topic: str, queue_id: int) -> _Reset | None:
        if not self.resets:
            return None
        ordered = self.resets.get(topic + SEPARATOR + group)
        return None if ordered is None else ordered.get(queue_id)

    def moved_to(self, group: str, topic: str, queue_id: int, connection: int, offset: int) -> int | None:
        """Where a reset sends a pull that comes from ``offset``; None: it is served.

        The order is carried out when one comes from there.  A pull that a connection has given up, since its consumer
        lost the queue, may hear of it first, so each connection is told; one that was told often enough is left alone.
        """
        reset = self._reset(group, topic, queue_id)
        if reset is None:
            return None
        told = reset.told.get(connection, 0)
        if offset != reset.offset and told < TELLS_MAX and len(reset.told) < TOLD_MAX:
            return reset.offset
        key = topic + SEPARATOR + group
        del self.resets[key][queue_id]
        if not self.resets[key]:
            del self.resets[key]
        return None

    def told(self, group: str, topic: str, queue_id: int, connection: int) -> None:
        """A connection is told where :meth:`moved_to` sends it."""
        reset = self._reset(group, topic, queue_id)
        if reset is not None:
            reset.told[connection] = reset.told.get(connection, 0) + 1

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group has offsets, sorted."""
        return sorted(topic for topic, owner in map(split_key, self.committed) if owner == group)

    def topics_by_group(self) -> dict[str, list[str]]:
        """Every group with the topics in which it has offsets: one pass where many groups are asked for."""
        return _topics_by_group(self.committed)

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets in the topic, sorted."""
        return sorted(owner for name, owner in map(split_key, self.committed) if name == topic)

    def queues_of(self, group: str, topic: str) -> dict[int, int]:
        """Committed offsets by queue; a copy."""
        return dict(self.committed.get(topic + SEPARATOR + group, {}))

    def remove_topic(self, topic: str) -> None:
        """The topic is gone."""
        self._remove([key for key in self._keys() if split_key(key)[0] == topic])

    def remove_group(self, group: str) -> None:
        """The group is gone."""
        self._remove([key for key in self._keys() if split_key(key)[1] == group])

    def clone(self, source: str, target: str, topic: str) -> bool:
        """Give ``target`` the offsets of ``source`` in one topic; whether there were any."""
        offsets = self.committed.get(topic + SEPARATOR + source)
        if offsets is None:
            return False
        self.committed[topic + SEPARATOR + target] = dict(offsets)
        self._changed()
        return True

    def as_json(self) -> dict[str, Any]:
        """The file's content and the body of GET_ALL_CONSUMER_OFFSET."""
        value: dict[str, Any] = {
            "dataVersion": self.data_version.as_json(),
            "groupTopicMap": self.topics_by_group(),
            "offsetTable": self.committed,
        }
        if self.pulled:
            value["pullOffsetTable"] = self.pulled
        return value

    def page(self, after: str, bytes_max: int) -> tuple[dict[str, Any], str | None]:
        """A part of the table: what is committed under the keys behind ``after``, about so many bytes of it.

        :return: the body, and the last key in it where there are more.
        """
        part: _Table = {}
        size = 0
        more = None
        for key in sorted(key for key in self.committed if key > after):
            if size > bytes_max:
                break
            part[key] = queues = self.committed[key]
            size += len(key) + _QUEUE_BYTES * (1 + len(queues))
            more = key
        else:
            more = None
        return {"dataVersion": self.data_version.as_json(), "offsetTable": part}, more

    def dump(self) -> bytes:
        """The text of config/consumerOffset.json."""
        return self.dump_later()()

    def dump_later(self) -> Callable[[], bytes]:
        """The same, made by a thread: the keys are those of now, the offsets may be later ones.

        A row changes while others are laid out.  It is copied in one step of the interpreter.
        """
        version = json_dialect.dumps_pretty(self.data_version.as_json(), 1)
        committed, pulled = dict(self.committed), dict(self.pulled)

        def text() -> bytes:
            parts = {
                "dataVersion": version,
                "groupTopicMap": self._group_texts.table(_topics_by_group(committed)),
                "offsetTable": self._committed_texts.table({key: row.copy() for key, row in committed.items()}),
            }
            if pulled:
                parts["pullOffsetTable"] = self._pulled_texts.table({key: row.copy() for key, row in pulled.items()})
            return file_text(parts)

        return text

    def load(self, data: bytes, path: str = "config/consumerOffset.json") -> None:
        """Replace the table by the file's.

        :raises CorruptStore: it is no such file.
        """
        try:
            value = json_dialect.loads(data, json_dialect.FILE_BYTES_MAX)
            committed = read_offsets(value)
            pulled = _offset_table(value.get("pullOffsetTable"))
        except RemoteProtocolError as problem:
            raise CorruptStore(path, 0, str(problem)) from None
        self.committed, self.pulled = committed, pulled
        self.data_version.assign(DataVersion.from_json(value.get("dataVersion")))

    def replace(self, table: dict[str, dict[int, int]], version: DataVersion) -> None:
        """What is committed is a master's from now on."""
        self.committed = table
        self.data_version.assign(version)
        self._changed()

    def begin_term(self, epoch: int, wall_ms: int) -> None:
        """This broker is master of ``epoch``."""
        self.state_version = epoch
        self.data_version.next(wall_ms, epoch)
        self._changed()

    def lower(self, key: str, queue_id: int, offset: int) -> None:
        """The queue ends at ``offset``, before what was committed under ``topic@group``."""
        self.committed[key][queue_id] = offset
        self._changed()

    def _keys(self) -> list[str]:
        return sorted({*self.committed, *self.pulled, *self.resets})

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            tables: tuple[dict[str, Any], ...] = (self.committed, self.pulled, self.resets)
            for table in tables:
                table.pop(key, None)
            self._changed()

    def _changed(self) -> None:
        self.dirty = True
        self.changes += 1


def read_offsets(value: Any) -> dict[str, dict[int, int]]:
    """What is committed in a parsed ``ConsumerOffsetSerializeWrapper``: a file's, a master's.

    :raises RemoteProtocolError: it is none.
    """
    return _offset_table(json_members.as_object(value, "a table of offsets").get("offsetTable"))


def split_key(key: str) -> tuple[str, str]:
    """Topic and group of a table's key."""
    topic, _, group = key.partition(SEPARATOR)
    return topic, group


def _topics_by_group(keys: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for topic, group in map(split_key, keys):
        groups.setdefault(group, []).append(topic)
    return groups


def _row(key: str, queues: dict[int, int]) -> bytes:
    """An entry of an offset table in its file: what :func:`~rocketha.broker.row_texts.pretty_row` makes, sooner."""
    cells = ",\n\t\t\t".join([f'"{queue}":{offset}' for queue, offset in queues.items()])
    return json_dialect.dumps(key) + (f":{{\n\t\t\t{cells}\n\t\t}}" if cells else ":{}").encode()


def _offset_table(value: Any) -> _Table:
    """A parsed ``{"topic@group": {queue: offset}}``; fastjson's integer keys come as text."""
    table: _Table = {}
    for key, queues in (java_types.bean(value) or {}).items():
        # A key that is not topic@group is kept: newer Java versions have others.
        try:
            table[key] = java_types.offset_table(queues) or {}
        except RemoteProtocolError as problem:
            raise RemoteProtocolError(f"offsets of {key[:300]!r}: {problem}") from None
    return table
