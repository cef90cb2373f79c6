"""What a process knows of the cluster, for the status page: plain values that become JSON.

Pure.  Each service says what it knows (``overview`` in the module of that name beside it), and no more: None is what it
does not know, and a note says where to look for that.  Nobody's name or address is in here but those of brokers,
controllers and nameservers: whoever reaches the port reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from rocketha.observe.timeline import Moment

ROWS_MAX = 500
"""Of a table; how many more there are is said."""


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
_KEYS: Mapping[str, Callable[[Any], object]] = {
    "processes": lambda row: (row.kind, row.address),
    "groups": lambda row: (row.cluster, row.name),
    "topics": lambda row: row.name,
}


def merged(title: str, *overviews: Overview) -> Overview:
    """What one process knows that is several services: of what two of them know, the word of the first."""

    def all_of(name: str) -> list[object]:
        rows = [row for each in overviews for row in getattr(each, name)]
        key = _KEYS.get(name)
        if key is None:
            return rows
        found: dict[object, object] = {}
        for row in rows:
            found.setdefault(key(row), row)
        return list(found.values())

    rows = {name: all_of(name) for name in (*_TABLES, "moments", "notes")}
    return Overview(title, **rows)  # type: ignore[arg-type]


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
