"""``rocketha cluster status`` as text and as JSON: every process, as it was found.

Pure.  It shows and does not judge: that is :mod:`rocketha.admin.findings`'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from rocketha.admin.picture import Broker, ControlledSet, Controller, Ledger, Nameserver, Picture, Process
from rocketha.observe.logging import one_line

CELL_MAX = 60
NOTE_MAX = 300
UNKNOWN = "-"


def as_json(picture: Picture) -> dict[str, Any]:
    """For programs: the picture as it is; keys of JSON are texts."""
    found: dict[str, Any] = _texts(attrs.asdict(picture))
    found["sets"] = [_texts(attrs.asdict(each)) for each in picture.sets]
    return found


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _texts(item) for key, item in value.items()}
    return [_texts(item) for item in value] if isinstance(value, list | tuple) else value


def lines(picture: Picture) -> Iterator[str]:
    """For people."""
    yield from _part("nameservers", _NAMESERVERS, (_nameserver(each, picture) for each in picture.nameservers))
    yield from _notes(each.process for each in picture.nameservers)
    yield from _part("controllers", _CONTROLLERS, (_controller(each, picture) for each in picture.controllers))
    yield from _notes(each.process for each in picture.controllers)
    yield from _suspicions(picture)
    shown: set[str] = set()
    for each in picture.sets:
        members = [broker for broker in picture.brokers if broker.address in each.addresses.values()]
        shown |= {broker.address for broker in members}
        yield from _set_head(each)
        yield from _table(_BROKERS, (_broker(broker, picture, each) for broker in members))
        for former, number in each.replaced.items():
            yield f"  id {former} is nobody's any more: {number} is at {each.addresses[former]}"
        yield ""
        yield from _notes(broker.process for broker in members)
    rest = [broker for broker in picture.brokers if broker.address not in shown]
    yield from _part("brokers", _BROKERS, (_broker(broker, picture, None) for broker in rest))
    yield from _notes(broker.process for broker in rest)
    yield from _part(
        "members of groups in DLedger mode", _LEDGERS, (_ledger(each, picture) for each in picture.ledgers)
    )


def _part(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    table = list(rows)
    if table:
        yield title
        yield from _table(head, table)
        yield ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    table = [tuple(head), *(tuple(one_line(cell, CELL_MAX) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _notes(processes: Iterable[Process]) -> Iterator[str]:
    """What did not fit into a table: why somebody did not answer."""
    notes = [f"  {each.name}: {each.problem or each.refused}" for each in processes if each.problem or each.refused]
    if notes:
        yield from (one_line(note, NOTE_MAX) for note in notes)
        yield ""


def seconds(value: float | None) -> str:
    """A time span for a person: ``12s``, ``3m05s``, ``2h10m``, ``4d02h``."""
    if value is None:
        return UNKNOWN
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def clock(process: Process) -> str:
    """How far a clock is off, as far as that can be told."""
    ahead = process.clock_ahead_ms
    if ahead is None:
        return UNKNOWN
    doubt = process.clock_doubt_ms
    return f"{ahead / 1000:+.1f}s" if abs(ahead) > doubt else f"within {max(doubt, 1)}ms"


def _about(process: Process, picture: Picture) -> tuple[str, str, str]:
    """Version, running since, clock."""
    if process.problem:
        return (UNKNOWN, "no answer", UNKNOWN)
    whose = {True: "", False: "Java ", None: ""}[process.ours]
    # By its own clock: by the one here a clock that is off would show.
    up = (
        None
        if process.started_ms is None
        else (picture.at_ms + (process.clock_ahead_ms or 0) - process.started_ms) / 1000
    )
    return (f"{whose}{process.version or UNKNOWN}", seconds(up), clock(process))


def _value(found: object) -> str:
    return UNKNOWN if found in (None, "") else f"{found:,}" if isinstance(found, int) else str(found)


_NAMESERVERS = ("ADDRESS", "VERSION", "UP", "CLOCK", "SETS", "BROKERS")


def _nameserver(found: Nameserver, picture: Picture) -> Sequence[str]:
    brokers = sum(len(each.addresses) for each in found.sets)
    return (found.process.address, *_about(found.process, picture), str(len(found.sets)), str(brokers))


_CONTROLLERS = ("ID", "ADDRESS", "VERSION", "UP", "CLOCK", "ROLE", "TERM", "COMMITTED", "APPLIED", "LACKS", "SETS")


def _controller(found: Controller, picture: Picture) -> Sequence[str]:
    leader = picture.leader
    role = found.role.lower() or ("leader" if found.leads else UNKNOWN)
    lacks: int | None = None
    if leader is not None and leader.committed is not None and found.id in leader.matches:
        lacks = max(0, leader.committed - leader.matches[found.id])
    return (
        found.id or UNKNOWN,
        found.process.address,
        *_about(found.process, picture),
        UNKNOWN if found.process.problem else role,
        _value(found.term),
        _value(found.committed),
        _value(found.applied),
        _value(lacks),
        str(len(found.sets)) if found.process.ours else UNKNOWN,
    )


def _suspicions(picture: Picture) -> Iterator[str]:
    if picture.controllers and picture.leader is None:
        yield "no controller leads: what follows of broker sets is stale"
        yield ""
    told = [
        f"  {each.id} suspects {who}: {state}" for each in picture.controllers for who, state in each.suspicions.items()
    ]
    if told:
        yield from told
        yield ""


def _set_head(found: ControlledSet) -> Iterator[str]:
    master = "no master" if found.master is None else f"master {found.master} {found.addresses.get(found.master, '')}"
    stale = "STALE, " if found.stale else ""
    in_sync = ", ".join(map(str, found.in_sync)) or "nobody"
    yield (
        f"{found.title}: {master.rstrip()} in epoch {found.epoch}, in sync {in_sync} (version {found.set_epoch}), "
        f"{stale}by controller {found.said_by}"
    )


_BROKERS = (
    "ID",
    "ADDRESS",
    "VERSION",
    "UP",
    "CLOCK",
    "ROLE",
    "SINCE",
    "EPOCH",
    "LOG BEGINS",
    "LOG ENDS",
    "LACKS",
    "IN SYNC",
    "ALIVE",
    "DISK",
    "REGISTERED",
)


def _broker(found: Broker, picture: Picture, placed: ControlledSet | None) -> Sequence[str]:
    number = found.id if placed is None else placed.id_at(found.address)
    names = [each for each in picture.nameservers if not each.process.problem]
    registered = sum(bool(each.ids_of(found.address)) for each in names)
    return (
        UNKNOWN if number is None else str(number),
        found.address,
        *_about(found.process, picture),
        found.role.lower() or UNKNOWN,
        seconds(found.role_s),
        _value(found.epoch),
        _value(found.log_begin),
        _value(found.log_end),
        _value(_lacks(found, picture)),
        _yes(number in placed.in_sync) if placed is not None else UNKNOWN,
        _yes(number in placed.alive) if placed is not None else UNKNOWN,
        UNKNOWN if found.disk_used is None else f"{found.disk_used:.0%}",
        f"{registered} of {len(names)}",
    )


def _lacks(found: Broker, picture: Picture) -> int | None:
    """Bytes that it has not of what its master has."""
    if found.log_end is None or found.role == "MASTER":
        return None
    ends = [
        each.log_end
        for each in picture.brokers
        if each.role == "MASTER"
        and each.log_end is not None
        and (each.cluster, each.name) == (found.cluster, found.name)
    ]
    return max(0, max(ends) - found.log_end) if ends else None


def _yes(value: bool) -> str:
    return "yes" if value else "no"


_LEDGERS = ("GROUP", "ID", "ADDRESS", "SPEAKS", "LEADER", "TERM", "LOG ENDS", "COMMITTED", "LACKS")


def _ledger(found: Ledger, picture: Picture) -> Sequence[str]:
    committed = [each.committed for each in picture.ledgers if each.group == found.group and each.committed is not None]
    lacks = max(0, max(committed) - found.last) if committed and found.last is not None else None
    return (
        found.group,
        found.id,
        found.address,
        {True: "ours", False: "java", None: UNKNOWN}[found.ours],
        found.problem or found.leader or "none",
        _value(found.term),
        _value(found.last),
        _value(found.committed),
        _value(lacks),
    )
