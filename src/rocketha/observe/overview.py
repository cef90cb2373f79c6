"""What a process knows of the cluster, for the status page: plain values that become JSON.

Pure.  Each service says what it knows (``overview`` in the module of that name beside it), and no more: None is what it
does not know, and a note says where to look for that.  Nobody's name or address is in here but those of brokers,
controllers and nameservers: whoever reaches the port reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

import attrs

from rocketha.observe.timeline import Moment
from rocketha.wire import json_dialect, json_members

ROWS_MAX = 500
"""Of a table; how many more there are is said."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Rows(Sequence[T], Generic[T]):
    """A table whose rows are made when they are asked for: of 20,000 topics a page has the first :data:`ROWS_MAX`.

    :param makes: what a row is about, by which it is the same as another service's -> makes it of that; in the order
        of the table.
    """

    def __init__(self, makes: Mapping[Any, Callable[[Any], T]]) -> None:
        self.makes = makes
        self._keys = list(makes)

    @classmethod
    def of(cls, keys: Iterable[K], make: Callable[[K], T]) -> Rows[T]:
        """Of rows that are all made alike."""
        return cls(dict.fromkeys(keys, make))

    def __len__(self) -> int:
        return len(self._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, which: int) -> T: ...

    @overload
    def __getitem__(self, which: slice) -> list[T]: ...

    def __getitem__(self, which: int | slice) -> T | list[T]:
        if isinstance(which, slice):
            return [self.makes[key](key) for key in self._keys[which]]
        key = self._keys[which]
        return self.makes[key](key)


class Told(Sequence[T], Generic[T]):
    """The first rows of a table that another process has, as it told them.

    :param more: how many more it has.
    """

    def __init__(self, rows: Sequence[T], more: int) -> None:
        self._rows = tuple(rows)
        self._more = more

    def __len__(self) -> int:
        return len(self._rows) + self._more

    @overload
    def __getitem__(self, which: int) -> T: ...

    @overload
    def __getitem__(self, which: slice) -> Sequence[T]: ...

    def __getitem__(self, which: int | slice) -> T | Sequence[T]:
        return self._rows[which]


@attrs.frozen
class Process:
    """One that is known here.

    :ivar kind: ``broker``, ``controller``, ``nameserver`` ...
    :ivar state: one word: ``master``, ``leads``, ``alive``, ``dead`` ...
    :ivar well: whether it is; None: not known.
    :ivar detail: for a person.
    """

    name: str
    kind: str
    address: str
    state: str
    well: bool | None
    detail: str = ""


@attrs.frozen
class Replica:
    """One of a broker group.

    :ivar role: ``master``, ``slave``, ``fenced``; empty: not known.
    :ivar in_sync: whether it is in the SyncStateSet; None: not known, or there is none.
    :ivar end: of its log, bytes.
    :ivar lag_bytes: what it lacks of the master's log.
    :ivar heard_ms: how long ago it was heard.
    """

    broker_id: int | None
    address: str
    role: str = ""
    in_sync: bool | None = None
    epoch: int | None = None
    end: int | None = None
    lag_bytes: int | None = None
    heard_ms: int | None = None


@attrs.frozen
class Group:
    """A broker group: one brokerName of one cluster.

    :ivar epoch: of the master; in DLedger mode, the term.
    :ivar source: who says so.
    """

    cluster: str
    name: str
    source: str
    replicas: Sequence[Replica]
    epoch: int | None = None
    set_epoch: int | None = None


@attrs.frozen
class Topic:
    """A topic, of clients.

    :ivar messages: in its queues.
    """

    name: str
    queues: int
    brokers: Sequence[str]
    messages: int | None = None


@attrs.frozen
class Consumption:
    """How far a consumer group has read a topic on this broker.

    :ivar lag: messages that it has not consumed.
    """

    group: str
    topic: str
    lag: int
    members: int


@attrs.frozen
class Refused:
    """Requests or connections that were refused for one reason."""

    role: str
    what: str
    reason: str
    count: int


@attrs.frozen
class Overview:
    """See the module.

    :ivar title: what this process is.
    :ivar moments: of the timeline, that this process did not see itself.
    :ivar notes: what is not known here, and where it is.
    """

    title: str = "rocketha"
    processes: Sequence[Process] = ()
    groups: Sequence[Group] = ()
    topics: Sequence[Topic] = ()
    consumers: Sequence[Consumption] = ()
    refused: Sequence[Refused] = ()
    moments: Sequence[Moment] = ()
    notes: Sequence[str] = ()


Shows = Callable[[], Overview]
"""Asked while somebody looks, at most four times a second."""

_TABLES = ("processes", "groups", "topics", "consumers", "refused")
_TOLD = ("topics", "consumers")
_KEYS: Mapping[str, Callable[[Any], object]] = {
    "processes": lambda row: (row.kind, row.address),
    "groups": lambda row: (row.cluster, row.name),
    "topics": lambda row: row.name,
}


def merged(title: str, *overviews: Overview) -> Overview:
    """What one process knows that is several services: of what two of them know, the word of the first."""

    def all_of(name: str) -> Sequence[object]:
        several: list[Sequence[object]] = [rows for each in overviews if (rows := getattr(each, name))]
        key = _KEYS.get(name)
        if len(several) == 1:
            return several[0]
        if key is None:
            return [row for rows in several for row in rows]
        found: dict[object, Callable[[object], object]] = {}
        for rows in several:
            for known, make in _makes(rows, key).items():
                found.setdefault(known, make)
        return Rows(found)

    rows = {name: all_of(name) for name in (*_TABLES, "moments", "notes")}
    return Overview(title, **rows)  # type: ignore[arg-type]


def _makes(rows: Sequence[object], key: Callable[[object], object]) -> Mapping[object, Callable[[object], object]]:
    """What :class:`Rows` are made of, also of rows that are there."""
    if isinstance(rows, Rows):
        return rows.makes
    there: dict[object, object] = {}
    for row in rows:
        there.setdefault(key(row), row)
    return dict.fromkeys(there, there.__getitem__)


def together(*shows: Shows) -> Shows:
    """The same of functions."""

    def ask() -> Overview:
        found = [each() for each in shows]
        return merged(" and ".join(each.title for each in found), *found)

    return ask


def tables(overview: Overview) -> dict[str, Mapping[str, object]]:
    """Each table as JSON has it: its first rows, and how many more there are."""
    found: dict[str, Mapping[str, object]] = {}
    for name in _TABLES:
        rows = getattr(overview, name)
        shown = [attrs.asdict(row) for row in rows[:ROWS_MAX]]
        found[name] = {"rows": shown, "more": max(0, len(rows) - ROWS_MAX)}
    return found


def tell(overview: Overview) -> bytes:
    """What others know only by this process: its topics and consumer groups, as JSON."""
    found = tables(overview)
    return json_dialect.dumps({name: found[name] for name in _TOLD})


def told(body: bytes) -> Overview:
    """The same of another process.

    :raises RemoteProtocolError: it is no such body.
    """
    found = json_members.json_object(body, "an overview")
    return Overview(topics=_rows(found, "topics", _topic), consumers=_rows(found, "consumers", _consumption))


def _rows(found: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], T]) -> Told[T]:
    table = json_members.as_object(found.get(name), name)
    rows = [read(row) for row in json_members.rows(table, "rows", ROWS_MAX)]
    return Told(rows, json_members.integer(table, "more", low=0))


def _topic(row: Mapping[str, Any]) -> Topic:
    brokers, messages = json_members.text_list(row, "brokers", ROWS_MAX), row.get("messages")
    return Topic(
        json_members.text(row, "name"),
        json_members.integer(row, "queues"),
        brokers,
        None if messages is None else json_members.long(row, "messages"),
    )


def _consumption(row: Mapping[str, Any]) -> Consumption:
    return Consumption(
        json_members.text(row, "group"),
        json_members.text(row, "topic"),
        json_members.long(row, "lag"),
        json_members.integer(row, "members"),
    )
