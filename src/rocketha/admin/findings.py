"""What is wrong with a cluster, why, and what to do next: a picture in, findings out.

Pure.  What it must not know: how a picture is made.  Each rule looks for one kind of fault, names its cause where the
picture shows it, and gives what it saw as evidence.  A fault that explains another is told once: a broker that is down
is not also reported as lagging.  :mod:`rocketha.admin.finding_kinds` says what each kind is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from rocketha.admin.finding_kinds import KINDS, Finding
from rocketha.admin.picture import (
    FENCED,
    MASTER,
    Broker,
    Connection,
    ControlledSet,
    Group,
    Picture,
    Process,
    Refusal,
)
from rocketha.services.access.guard import DEMANDED

RECENT_S = 600
"""A refusal that is older explains nothing that happens now."""
REPEATED_S = 60
"""Who is behind at a change of masters is refused once or twice, and hears of it; who does not is refused on and on."""
HEARD_S = 2.5
"""Who lives sends a heartbeat to controllers each second; a connection is given up after three."""


@attrs.frozen(kw_only=True)
class Limits:
    """From where on something is worth a finding.

    :ivar deaf_s: a client that holds queues asks for messages within this.
    """

    lag_bytes: int = 64 << 20
    lag_messages: int = 10_000
    clock_ms: int = 5_000
    disk_filling: float = 0.75
    disk_full: float = 0.95
    deaf_s: float = 60.0


def judge(picture: Picture, limits: Limits | None = None) -> tuple[Finding, ...]:
    """All findings, the most urgent first."""
    limits = limits or Limits()
    found = [finding for rule in RULES for finding in rule(picture, limits)]
    order = {name: place for place, name in enumerate(KINDS)}
    return tuple(sorted(dict.fromkeys(found), key=lambda each: (order[each.kind.name], each.subject)))


def _finding(kind: str, subject: str, cause: str, *evidence: str, **words: str) -> Finding:
    return Finding(KINDS[kind], subject, cause, tuple(filter(None, evidence)), tuple(words.items()))


def _named(broker: Broker) -> dict[str, str]:
    """Words for what to do; the controllers' ids begin at 1, nameservers have a master as 0."""
    found = {"BROKER_NAME": broker.name, "ID": str(broker.id) if (broker.id or 0) > 0 else ""}
    return {name: value for name, value in found.items() if value}


# -- who answers


def _empty(picture: Picture, limits: Limits) -> Iterator[Finding]:
    if not any(True for _ in picture.processes):
        yield _finding("cluster.empty", "the cluster", "no nameserver, controller or broker was given, or is known")
    elif not picture.brokers and any(not each.process.problem for each in picture.nameservers):
        empty = [f"{each.process.name} has no broker" for each in picture.nameservers if not each.process.problem]
        yield _finding("cluster.empty", "the cluster", "no broker is registered", *empty)


def _nameservers(picture: Picture, limits: Limits) -> Iterator[Finding]:
    answering = [each.process.address for each in picture.nameservers if not each.process.problem]
    for each in picture.nameservers:
        if each.process.problem:
            others = f"these answer: {', '.join(answering)}" if answering else "no nameserver answers"
            yield _finding(
                "nameserver.unreachable", each.process.name, "it does not answer", _problem(each.process), others
            )


def _controllers(picture: Picture, limits: Limits) -> Iterator[Finding]:
    dead = [each for each in picture.controllers if each.process.problem]
    leader = picture.leader
    for each in dead:
        name = f"controller {each.id} {each.process.address}" if each.id else each.process.name
        majority = f"{len(picture.controllers) - len(dead)} of {len(picture.controllers)} controllers answer"
        leads = f"{leader.id or leader.process.address} leads" if leader is not None else "none leads"
        yield _finding(
            "controller.unreachable",
            name,
            "it does not answer",
            _problem(each.process),
            f"{majority}, {leads}",
            **({"ID": each.id} if each.id else {}),
        )
    if leader is not None and leader.peers:
        for each in picture.controllers:
            if each.id and each.id not in leader.peers:
                name, members = f"controller {each.id} {each.process.address}", ", ".join(sorted(leader.peers))
                words = {"SERVER": leader.process.address, "ID": each.id, "HOST:PORT": each.process.address}
                yield _finding("controller.not_member", name, "it is no member", f"members are {members}", **words)
    if picture.controllers and leader is None:
        named = [
            f"{each.process.address} names {each.leader or 'nobody'}"
            for each in picture.controllers
            if not each.process.problem
        ]
        count = f"{len(named)} of {len(picture.controllers)} controllers answer"
        yield _finding("controller.no_leader", "the controllers", "none of them leads", count, *named)


def _brokers(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for broker in picture.brokers:
        if not broker.process.problem:
            continue
        lives = list(_lives(picture, broker))
        where = _known_at(picture, broker)
        if lives and not broker.process.reached:
            cause = "it runs, and nobody reaches it at the address that it registered"
            yield _finding("broker.wrong_address", _name(broker), cause, _problem(broker.process), *lives, *where)
        else:
            cause = "it takes connections and does not answer" if broker.process.reached else "it does not answer"
            yield _finding(
                "broker.unreachable", _name(broker), cause, _problem(broker.process), *where, **_named(broker)
            )


def _lives(picture: Picture, broker: Broker) -> Iterator[str]:
    """What shows that a broker runs that is not reached: heartbeats, or, where no controllers know, a registration.

    Brokers are asked before controllers: whoever died meanwhile was not heard since.
    """
    sets = [each for each in picture.sets if not each.stale and broker.address in each.addresses.values()]
    alive = [
        (each, each.heard_s.get(number, 0.0))
        for each in sets
        for number in each.alive
        if each.addresses.get(number) == broker.address and each.heard_s.get(number, 0.0) <= HEARD_S
    ]
    for each, heard_s in alive:
        yield f"its heartbeats reach controller {each.said_by}, the last {heard_s:.1f} s ago"
    if sets and not alive:
        return
    for names in picture.nameservers:
        for connection in names.process.connections:
            if any(text.endswith(f" {broker.address}") for text in connection.brokers):
                yield f"it holds a connection to nameserver {names.process.address}, from {connection.address}"


def _known_at(picture: Picture, broker: Broker) -> Iterator[str]:
    for names in picture.nameservers:
        for row, number in names.ids_of(broker.address):
            yield f"nameserver {names.process.address} has it as {row.cluster}/{row.name} id {number}"


def _ledgers(picture: Picture, limits: Limits) -> Iterator[Finding]:
    groups: dict[str, list[Any]] = {}
    for each in picture.ledgers:
        groups.setdefault(each.group, []).append(each)
    for group, members in sorted(groups.items()):
        words = {"GROUP": group, "PEERS": ";".join(f"{each.id}-{each.address}" for each in members)}
        named = [each.leader for each in members if not each.problem]
        agreed = max((named.count(name) for name in named if name), default=0)
        if agreed <= len(members) // 2:
            said = [
                f"{each.id} {each.address}: {each.problem or 'names ' + (each.leader or 'nobody')}" for each in members
            ]
            yield _finding("ledger.no_leader", f"group {group}", "no majority names one leader", *said, **words)
        for each in members:
            if each.problem:
                subject = f"member {each.id} of {group}, {each.address}"
                yield _finding("ledger.member_unreachable", subject, "it does not answer", each.problem, **words)


def _not_allowed(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for process in picture.processes:
        if process.refused and not process.problem:
            yield _finding("doctor.not_allowed", process.name, "it refuses this command", process.refused)


# -- machines


def _disks(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for broker in _answering(picture):
        used, name = broker.disk_used, _name(broker)
        shown = "" if used is None else f"{used:.1%} of the disk of its log is used"
        full = " full" in broker.store_refusal or (used is not None and used >= limits.disk_full)
        if full:
            yield _finding("disk.full", name, "the disk of its log is full", broker.store_refusal, shown)
        elif broker.store_refusal:
            yield _finding("disk.failed", name, "its store takes no messages", broker.store_refusal, shown)
        elif used is not None and used >= limits.disk_filling:
            yield _finding("disk.filling", name, "the disk of its log fills", shown)
        yield from _slow(broker)


def _slow(broker: Broker) -> Iterator[Finding]:
    put = broker.slow_put if broker.slow_put is not None and broker.slow_put[1] <= RECENT_S else None
    sync = broker.slow_sync if broker.slow_sync is not None and broker.slow_sync[1] <= RECENT_S else None
    waits_for_disk = put is not None and ("disk:" in put[0] or "sync of the log" in put[0])
    told = f"senders waited {put[0]}" if put is not None else ""
    if sync is not None or waits_for_disk:
        synced = f"a sync of the log took {sync[0]}" if sync is not None else ""
        yield _finding("disk.slow", _name(broker), "syncs of its log take long", synced, told, **_named(broker))
    elif put is not None:
        yield _finding("sends.slow", _name(broker), "senders wait for a replica", told)


def _clocks(picture: Picture, limits: Limits) -> Iterator[Finding]:
    measured = [(each, each.clock_ahead_ms) for each in picture.processes if each.clock_ahead_ms is not None]
    off = [(each, ahead) for each, ahead in measured if abs(ahead) - each.clock_doubt_ms > limits.clock_ms]
    ahead_ms = [ahead for _, ahead in off]
    if len(off) > 1 and len(off) == len(measured) and max(ahead_ms) - min(ahead_ms) <= 2 * limits.clock_ms:
        seen = [f"{each.name} is {_ahead(ahead)}" for each, ahead in off]
        yield _finding(
            "clock.off", "this machine", "all others agree with each other and not with the clock here", *seen
        )
        return
    agree = f"{len(measured) - len(off)} other processes agree with the clock here"
    for each, ahead in off:
        doubt = f"measured to within {each.clock_doubt_ms} ms"
        yield _finding("clock.off", each.name, f"its clock is {_ahead(ahead)} the one here", doubt, agree)


def _ahead(ms: int) -> str:
    return f"{abs(ms) / 1000:.1f} s {'ahead of' if ms > 0 else 'behind'}"


def _versions(picture: Picture, limits: Limits) -> Iterator[Finding]:
    found: dict[tuple[str, bool | None], dict[str, list[str]]] = {}
    for each in picture.processes:
        if each.version and not each.problem:
            found.setdefault((each.kind, each.ours), {}).setdefault(each.version, []).append(each.address)
    for (kind, ours), versions in found.items():
        if len(versions) > 1:
            seen = [f"{version}: {', '.join(addresses)}" for version, addresses in sorted(versions.items())]
            whose = "rocketha" if ours else "RocketMQ"
            yield _finding("versions.differ", f"{kind}s", f"they run different releases of {whose}", *seen)


# -- who is registered where, as what


def _registrations(picture: Picture, limits: Limits) -> Iterator[Finding]:
    asked = [each for each in picture.nameservers if not each.process.problem and not each.process.refused]
    given = {each.process.address for each in picture.nameservers}
    for broker in _answering(picture):
        if broker.role == FENCED or not broker.name:
            continue  # it registers when it knows what it is
        absent = [each for each in asked if not each.ids_of(broker.address)]
        if not absent:
            continue
        registers = f"its namesrvAddr is {';'.join(broker.namesrv)}" if broker.namesrv else "it has no namesrvAddr"
        where = [f"nameserver {each.process.address} does not have it" for each in absent]
        if len(absent) == len(asked) and not given & set(broker.namesrv):
            cause = "it registers with other nameservers"
            yield _finding("broker.wrong_nameserver", _name(broker), cause, registers, *where)
        else:
            said = [text for each in absent for text in _said_to(each.process, broker)]
            cause = f"{len(absent)} of {len(asked)} nameservers do not have it"
            yield _finding(
                "broker.not_registered",
                _name(broker),
                cause,
                registers,
                *where,
                *said,
                SERVER=absent[0].process.address,
            )


def _said_to(process: Process, broker: Broker) -> Iterator[str]:
    """What a nameserver refused a broker."""
    for refusal in _recent(process):
        if refusal.what == "REGISTER_BROKER" and refusal.client in ("", broker.address):
            yield f"{process.address} refused: {_shown(refusal)}"


_HELD = re.compile(
    r" id [0-9]+ of \S+ is that of |^broker .* is registered at .*, not at |is heard by another connection"
)


def _shared_ids(picture: Picture, limits: Limits) -> Iterator[Finding]:
    claims: dict[tuple[str, str, int], list[str]] = {}
    for broker in _answering(picture):
        if broker.name and broker.id is not None and broker.role != "":
            claims.setdefault((broker.cluster, broker.name, broker.id), []).append(broker.address)
    for (cluster, name, number), addresses in sorted(claims.items()):
        if len(addresses) > 1:
            seen = [f"{address} says that it is id {number}" for address in addresses]
            yield _finding("broker.shared_id", f"{cluster}/{name} id {number}", "two brokers claim it", *seen)
    for process in picture.processes:
        shared = [
            each for each in _recent(process) if _HELD.search(each.remark) or each.reason in ("shared_id", "own_id")
        ]
        if shared:
            told = [_shown(each) for each in shared]
            yield _finding("broker.shared_id", process.name, "it refuses one that claims an id of another", *told)


# -- who leads, and who is in the set


def _masters(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for each in picture.sets:
        if not each.stale and each.master is None:
            yield _finding(
                "set.no_master",
                each.title,
                "the controllers have no master for it",
                f"in sync: {_ids(each, each.in_sync) or 'nobody'}",
                f"alive: {_ids(each, each.alive) or 'nobody'}",
                BROKER_NAME=each.name,
            )


def _unused_ids(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for each in picture.sets:
        for former, number in ({} if each.stale else each.replaced).items():
            yield _finding(
                "set.unused_id",
                f"{each.title} id {former}",
                f"broker {number} is at its address, {each.addresses[former]}",
                BROKER_NAME=each.name,
                ID=str(former),
            )


def _registered_masters(picture: Picture, limits: Limits) -> Iterator[Finding]:
    """Where no controllers say who is master, in classic mode, it is who registers with id 0."""
    told = {each.name for each in picture.sets}
    told |= {each.name for each in picture.brokers if each.ledger is not None}  # its group has a leader, or none
    found: dict[tuple[str, str], dict[int, str]] = {}
    for names in picture.nameservers:
        for row in names.sets:
            found.setdefault((row.cluster, row.name), {}).update(row.addresses)
    for (cluster, name), addresses in sorted(found.items()):
        leads = any(each.role == MASTER for each in picture.brokers if (each.cluster, each.name) == (cluster, name))
        if 0 not in addresses and name not in told and not leads:
            seen = ", ".join(f"{number} {address}" for number, address in sorted(addresses.items()))
            cause = "no broker is registered as its master"
            todo = "in classic mode the master is the broker with brokerId=0: start it"
            yield _finding("set.no_master", f"{cluster}/{name}", cause, f"registered: {seen}", todo, BROKER_NAME=name)


def _unknown_sets(picture: Picture, limits: Limits) -> Iterator[Finding]:
    leader = picture.leader
    if leader is None or not leader.sets_told:
        return
    known, asked = {each.name for each in leader.sets}, {each.process.address for each in picture.controllers}
    found: dict[tuple[str, str], list[str]] = {}
    for broker in _answering(picture):
        if broker.name and broker.name not in known and asked.intersection(broker.controllers):
            found.setdefault((broker.cluster, broker.name), []).append(_name(broker))
    for (cluster, name), brokers in sorted(found.items()):
        yield _finding("set.unknown", f"{cluster}/{name}", "controllers do not know it", *brokers)


def _former_masters(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for each in picture.sets:
        if each.stale or each.master is None:
            continue
        for number, broker in _members(picture, each):
            if number == each.master or broker.process.problem:
                continue
            older = broker.epoch is not None and broker.epoch < each.epoch
            seen = (
                f"the controllers have master {each.master} in epoch {each.epoch}",
                f"it is {broker.role or 'of no role it tells'} of epoch {broker.epoch}",
                broker.unready,
            )
            if broker.role == MASTER:
                yield _finding("epoch.old", _name(broker), "it takes itself for the master", *seen, **_named(broker))
            elif broker.role == FENCED and older:
                cause = "it was fenced and knows an older epoch only"
                yield _finding("epoch.old", _name(broker), cause, *seen, **_named(broker))
    for process in picture.processes:
        old = [
            each
            for each in process.refusals
            if each.reason in ("old_epoch", "CONTROLLER_FENCED_MASTER_EPOCH") and each.seconds_ago <= REPEATED_S
        ]
        if old:
            told = [_shown(each) for each in old]
            yield _finding("epoch.old", process.name, "it refuses one that knows an older epoch only", *told)


def _fenced(picture: Picture, limits: Limits) -> Iterator[Finding]:
    told = {each.subject for each in _former_masters(picture, limits)}
    for broker in _answering(picture):
        if broker.role == FENCED and _name(broker) not in told:
            yield _finding("broker.fenced", _name(broker), "it is neither master nor slave", broker.unready)


def _stale_sets(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for each in picture.sets:
        if each.stale or each.master is None:
            continue
        end = _end(picture, each)
        subject = each.title
        in_sync = f"in sync: {_ids(each, each.in_sync)}, in epoch {each.epoch}"
        for number, broker in _members(picture, each):
            if number not in each.in_sync or number == each.master:
                continue
            who = f"broker {number} {broker.address}"
            if not broker.process.reached and any(True for _ in _lives(picture, broker)):
                continue  # it runs: it is its address that is wrong
            if broker.process.problem or number not in each.alive:
                silent = "" if number in each.alive else f"controller {each.said_by} hears no heartbeats of it"
                cause, seen = f"{who} is in sync and dead", (_problem(broker.process), silent, in_sync)
                yield _finding("sync_set.stale", subject, cause, *seen, BROKER_NAME=each.name)
            elif (lag := _lag(end, broker)) > limits.lag_bytes:
                cause = f"{who} is in sync and lacks {lag:,} bytes"
                yield _finding("sync_set.stale", subject, cause, in_sync, BROKER_NAME=each.name)


def _replicas(picture: Picture, limits: Limits) -> Iterator[Finding]:
    """Those that are in no SyncStateSet: outside of it, or in another mode."""
    in_sync = {each.addresses.get(number) for each in picture.sets if not each.stale for number in each.in_sync}
    for broker in _answering(picture):
        if broker.role == MASTER or broker.address in in_sync:
            continue
        masters = [
            each
            for each in _answering(picture)
            if each.role == MASTER and (each.cluster, each.name) == (broker.cluster, broker.name)
        ]
        end = max((each.log_end or 0 for each in masters), default=None)
        lag = _lag(end, broker)
        if lag > limits.lag_bytes:
            ends = f"its log ends at {broker.log_end:,}, its master's at {end:,}"
            yield _finding(
                "replica.lag", _name(broker), f"it lacks {lag:,} bytes of its master's log", ends, broker.unready
            )


def _unready(picture: Picture, limits: Limits) -> Iterator[Finding]:
    """What a broker says itself, where no other rule has said it better."""
    others = (_disks, _registrations, _fenced, _former_masters, _replicas, _stale_sets)
    told = {each.subject for rule in others for each in rule(picture, limits)}
    for broker in _answering(picture):
        if broker.unready and _name(broker) not in told:
            yield _finding("broker.unready", _name(broker), broker.unready)


# -- what is refused


_OF_SETS = frozenset(("AWAIT_METADATA",))
"""Refused to who is not of the set yet, as happens at each start: nobody's right is in question."""

_REFUSED: tuple[tuple[str, str, Callable[[Refusal], bool]], ...] = (
    ("secret.wrong", "it refuses one with another secret", lambda each: each.reason == "wrong_secret"),
    (
        "identity.refused",
        "it refuses one that is not who it claims to be",
        lambda each: each.reason == "wrong_identity" or DEMANDED in each.remark,
    ),
    (
        "permission.refused",
        "it refuses what somebody may not ask",
        lambda each: each.reason == "NO_PERMISSION" and each.what not in _OF_SETS and DEMANDED not in each.remark,
    ),
    (
        "tls.mismatch",
        "it ends connections over TLS",
        lambda each: each.reason in ("no_tls", "tls_needed", "tls_failed"),
    ),
)


def _refusals(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for process in picture.processes:
        for kind, cause, concerns in _REFUSED:
            found = [each for each in _recent(process) if concerns(each)]
            if found:
                yield _finding(kind, process.name, cause, *map(_shown, found), SERVER=process.address)


# -- consumers


def _consumers(picture: Picture, limits: Limits) -> Iterator[Finding]:
    for broker in _answering(picture):
        for group in broker.groups:
            online = [each for each in broker.process.connections if group.name in each.groups]
            subject = f"group {group.name} at {broker.name or broker.address}"
            behind = f"{group.lag:,} messages are not consumed"
            deaf = [each for each in online if _is_deaf(picture, group.name, each, limits)] if group.lag else []
            for each in deaf:
                yield _finding(
                    "client.deaf",
                    f"client {_client(each)}",
                    f"it consumes for {group.name} and asks for nothing",
                    _pulled(each),
                    behind,
                )
            stuck = _stuck(group)
            if stuck and online and not deaf:
                worst = sorted(stuck, key=lambda each: (-each.lag, each.topic, each.id))[:5]
                shown = [f"{each.topic}/{each.id}: {each.committed} of {each.end}, as before" for each in worst]
                waited = f"nothing was committed for {group.looked_s:.0f} s"
                holders = f"connected: {', '.join(map(_client, online[:5]))}"
                yield _finding(
                    "group.stuck", subject, "it has consumers, and none gets on", behind, waited, *shown, holders
                )
            elif group.lag >= limits.lag_messages:
                who = f"{len(online)} consumers are connected" if online else "no consumer is connected"
                yield _finding("group.lag", subject, behind, who, GROUP=group.name)


def _is_deaf(picture: Picture, group: str, connection: Connection, limits: Limits) -> bool:
    """Whether a client asks no broker, and has a queue of which it should.

    It asks those that have its queues, and no others, and may be sent to a slave: what one broker sees says nothing.
    """
    having = [broker for broker in _answering(picture) if any(each.name == group for each in broker.groups)]
    if not all(broker.process.ours for broker in having):
        return False  # Java's do not know when somebody asked
    members = [each for broker in _answering(picture) for each in broker.process.connections if group in each.groups]
    own = [each for each in members if each.clients == connection.clients] if connection.clients else [connection]
    silent = all(
        each.pulls_told and (each.open_s if each.pulled_s is None else each.pulled_s) >= limits.deaf_s for each in own
    )
    return silent and _spare(group, having, len({each.clients or (each.address,) for each in members}))


def _spare(group: str, having: Iterable[Broker], clients: int) -> bool:
    """Whether every client has a queue: with more clients than queues some have none, and rightly ask for nothing.

    The queues of each topic are given out by themselves, the first ones to the first clients.
    """
    queues: dict[str, set[tuple[str, int]]] = {}
    for broker in having:
        for each in broker.groups:
            if each.name == group:
                for queue in each.queues:
                    queues.setdefault(queue.topic, set()).add((broker.name or broker.address, queue.id))
    return max(map(len, queues.values()), default=0) >= clients


def _stuck(group: Group) -> list[Any]:
    """The queues that lag, where none of them got on between two looks."""
    lagging = [queue for queue in group.queues if queue.lag]
    looked = [queue for queue in lagging if queue.before is not None]
    return looked if looked and all(queue.before == queue.committed for queue in looked) else []


def _pulled(connection: Connection) -> str:
    if connection.pulled_s is None:
        return f"it has been connected for {connection.open_s:.0f} s and never asked"
    return f"it asked last {connection.pulled_s:.0f} s ago"


def _client(connection: Connection) -> str:
    return f"{', '.join(connection.clients) or 'unknown'} at {connection.address}"


# -- words


def _answering(picture: Picture) -> Iterator[Broker]:
    return (each for each in picture.brokers if not each.process.problem)


def _members(picture: Picture, found: ControlledSet) -> Iterator[tuple[int, Broker]]:
    for number, address in sorted(found.addresses.items()):
        broker = picture.broker(address)
        if broker is not None:
            yield number, broker


def _end(picture: Picture, found: ControlledSet) -> int | None:
    """Where the log of a set's master ends."""
    master = picture.broker(found.addresses.get(found.master or 0, ""))
    return None if master is None else master.log_end


def _lag(end: int | None, broker: Broker) -> int:
    return 0 if end is None or broker.log_end is None else max(0, end - broker.log_end)


def _ids(found: ControlledSet, numbers: Iterable[int]) -> str:
    return ", ".join(f"{number} {found.addresses.get(number, '')}".rstrip() for number in numbers)


def _recent(process: Process) -> Iterator[Refusal]:
    return (each for each in process.refusals if each.seconds_ago <= RECENT_S)


def _problem(process: Process) -> str:
    return f"asked at {process.address}: {process.problem}" if process.problem else ""


def _shown(refusal: Refusal) -> str:
    who = f"{refusal.client} at {refusal.peer}" if refusal.client else refusal.peer
    text = f"{refusal.count} x {refusal.what} {refusal.reason}, {refusal.seconds_ago:.0f} s ago, {who}"
    return f"{text}: {refusal.remark}" if refusal.remark else text


def _name(broker: Broker) -> str:
    if not broker.name:
        return broker.process.name
    number = "" if broker.id is None else f" id {broker.id}"
    title = f"{broker.cluster}/{broker.name}" if broker.cluster else broker.name
    return f"broker {title}{number} {broker.address}"


RULES: tuple[Callable[[Picture, Limits], Iterable[Finding]], ...] = (
    _empty,
    _nameservers,
    _controllers,
    _brokers,
    _ledgers,
    _not_allowed,
    _disks,
    _clocks,
    _versions,
    _registrations,
    _shared_ids,
    _masters,
    _registered_masters,
    _unknown_sets,
    _unused_ids,
    _former_masters,
    _fenced,
    _stale_sets,
    _replicas,
    _unready,
    _refusals,
    _consumers,
)
