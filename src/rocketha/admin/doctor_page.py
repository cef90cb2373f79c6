"""``rocketha doctor`` as text and as JSON: one page of who leads, who is in the set, what is refused, and what to do.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rocketha.admin.finding_kinds import Finding
from rocketha.admin.picture import Broker, Picture, Process, Refusal
from rocketha.admin.status_page import clock, seconds
from rocketha.observe.logging import one_line

LINE_MAX = 400
REFUSALS_SHOWN = 10
DOCS = "docs/troubleshooting.rst"


def as_json(picture: Picture, findings: Sequence[Finding]) -> dict[str, Any]:
    """For programs."""
    return {
        "healthy": not findings,
        "findings": [
            {
                "kind": each.kind.name,
                "title": each.kind.title,
                "subject": each.subject,
                "cause": each.cause,
                "evidence": list(each.evidence),
                "toDo": list(each.to_do),
            }
            for each in findings
        ],
        "refusals": [
            {
                "server": process.name,
                "what": each.what,
                "reason": each.reason,
                "peer": each.peer,
                "client": each.client,
                "count": each.count,
                "secondsAgo": each.seconds_ago,
                "remark": each.remark,
            }
            for process, each in _refusals(picture)
        ],
    }


def lines(picture: Picture, findings: Sequence[Finding]) -> Iterator[str]:
    """For people."""
    for line in _lines(picture, findings):
        yield one_line(line, LINE_MAX)


def _lines(picture: Picture, findings: Sequence[Finding]) -> Iterator[str]:
    yield f"{len(findings)} findings" if len(findings) != 1 else "1 finding"
    for number, finding in enumerate(findings, 1):
        yield ""
        yield f"{number}. {finding.subject}: {finding.cause}"
        yield f"   {finding.kind.name}: {finding.kind.title}"
        yield from (f"   seen: {each}" for each in finding.evidence)
        yield from (f"   next: {each}" for each in finding.to_do)
    if findings:
        yield ""
        yield f"Each kind of finding is explained in {DOCS}."
    yield ""
    yield from _leads(picture)
    yield ""
    yield from _machines(picture)
    yield from _groups(picture)
    yield from _refused(picture)


def _leads(picture: Picture) -> Iterator[str]:
    """Who leads, and who is in the set."""
    if picture.controllers:
        leader = picture.leader
        answering = sum(not each.process.problem for each in picture.controllers)
        who = "no controller leads" if leader is None else f"controller {leader.id} {leader.process.address} leads"
        yield f"{who}; {answering} of {len(picture.controllers)} answer"
    for each in picture.sets:
        master = "no master" if each.master is None else f"master {each.master} {each.addresses.get(each.master, '')}"
        stale = " (stale: no controller leads)" if each.stale else ""
        yield f"{each.title}: {master.rstrip()}, epoch {each.epoch}, in sync {list(each.in_sync)}{stale}"
    controlled = {at for each in picture.sets for at in each.addresses.values()}
    for broker in picture.brokers:
        if broker.role == "MASTER" and broker.address not in controlled:
            yield f"{broker.cluster}/{broker.name}: master {broker.address}, {len(broker.replicas)} replicas"


def _machines(picture: Picture) -> Iterator[str]:
    """Versions, clocks, disks, lag: a line a process."""
    brokers = {each.address: each for each in picture.brokers}
    for process in picture.processes:
        if process.problem:
            yield f"{process.name}: {process.problem}"
            continue
        whose = "Java " if process.ours is False else ""
        told = [f"{whose}{process.version or 'of unknown version'}", f"clock {clock(process)}"]
        broker = brokers.get(process.address) if process.kind == "broker" else None
        if broker is not None:
            told += _broker(broker, picture)
        yield f"{process.name}: {', '.join(told)}"


def _broker(broker: Broker, picture: Picture) -> Iterator[str]:
    if broker.role:
        yield (
            f"{broker.role.lower()} for {seconds(broker.role_s)}" if broker.role_s is not None else broker.role.lower()
        )
    if broker.disk_used is not None:
        yield f"disk {broker.disk_used:.0%}"
    if broker.log_end is not None:
        yield f"log ends at {broker.log_end:,}"
    for replica in broker.replicas:
        yield f"replica {replica.address} lacks {max(0, replica.lag):,} bytes"


def _groups(picture: Picture) -> Iterator[str]:
    for broker in picture.brokers:
        if broker.groups_untold:
            yield f"consumer groups at {broker.name or broker.address} were not looked at: {broker.groups_untold}"
    rows = [(group.lag, group.name, broker) for broker in picture.brokers for group in broker.groups if group.lag]
    for lag, name, broker in sorted(rows, key=lambda row: (-row[0], row[1]))[:REFUSALS_SHOWN]:
        yield f"group {name} at {broker.name or broker.address}: {lag:,} messages not consumed"
    if len(rows) > REFUSALS_SHOWN:
        yield f"and {len(rows) - REFUSALS_SHOWN} other groups that lag less"


def _refusals(picture: Picture) -> list[tuple[Process, Refusal]]:
    found = [(process, each) for process in picture.processes for each in process.refusals]
    return sorted(found, key=lambda pair: (-pair[1].count, pair[0].name, pair[1].what))


def _refused(picture: Picture) -> Iterator[str]:
    """By reason and peer."""
    found = _refusals(picture)
    if found:
        yield ""
        yield "refused, by server, reason and peer:"
    for process, each in found[:REFUSALS_SHOWN]:
        who = f"{each.client} at {each.peer}" if each.client else each.peer
        ago = seconds(each.seconds_ago)
        yield f"  {process.name}: {each.count} x {each.what} {each.reason}, {who}, last {ago} ago: {each.remark}"
    if len(found) > REFUSALS_SHOWN:
        yield f"  and {len(found) - REFUSALS_SHOWN} other kinds: rocketha clients -b SERVER --refused"
