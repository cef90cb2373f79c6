"""Asks every process of a cluster how it is, and makes a :class:`~rocketha.admin.picture.Picture` of the answers.

What it must not know: what is good or bad about them (:mod:`rocketha.admin.findings`).

Theory of operation.  Nameservers say which brokers there are; brokers say, in their configuration, where controllers
and the members of a DLedger group are; controllers say which further brokers belong to a set.  All of one kind are
asked at once.  Nothing is asked twice of who did not answer, so a look takes about one timeout where something is dead.
What somebody does not answer, or does not know, is left out, never guessed: Java's processes are asked RocketMQ's own
requests, and tell what those tell.  A process that was asked by two names (a host name that was given, and the address
that it registered) stands in the picture once, by the address that the others know.

Where a consumer group lags, its offsets are asked again after a pause: who commits nothing meanwhile consumes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

import rocketha
from rocketha.admin import dledger
from rocketha.admin.client import NETWORK_ERRORS, RequestFailed, plain
from rocketha.admin.picture import (
    FENCED,
    MASTER,
    SLAVE,
    Broker,
    Connection,
    ControlledSet,
    Controller,
    Group,
    Ledger,
    Nameserver,
    Picture,
    Process,
    Queue,
    Refusal,
    Replica,
)
from rocketha.errors import ConfigError, RockethaError
from rocketha.protocols.endpoints import parse_peers
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire import ha_status, json_dialect
from rocketha.wire.cluster_info import cluster_info
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.json_dialect import ObjectKeyed
from rocketha.wire.remoting import Command
from rocketha.wire.replica_list import get_replicas, replica_sets

TIMEOUT_S = 3.0
PAGES_MAX = 64
"""Of one server's connections: some 60 MiB."""

GROUPS_MAX = 100
"""That lag most at a Java broker, of which the clients are looked up."""

_FAILURES = (RockethaError, *NETWORK_ERRORS)
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_SLOW = re.compile(r"([0-9]+) ms, ([0-9]+) s ago")
_UPTIME = re.compile(r"\[ ([0-9]+) days, ([0-9]+) hours, ([0-9]+) minutes, ([0-9]+) seconds \]")
_ROLES = {"MASTER": MASTER, "SLAVE": SLAVE, "FENCED": FENCED, "ASYNC_MASTER": MASTER, "SYNC_MASTER": MASTER}

T = TypeVar("T")


@attrs.frozen
class _Timed:
    """An answer, and between which moments of the wall clock here it was asked and came."""

    command: Command
    sent_ms: int
    came_ms: int

    def clock(self, there_ms: int) -> dict[str, int]:
        """How far a clock that showed this is ahead of the one here, and how far that may be wrong."""
        return {
            "clock_ahead_ms": there_ms - (self.sent_ms + self.came_ms) // 2,
            "clock_doubt_ms": (self.came_ms - self.sent_ms + 1) // 2,
        }


class Looker:
    """Looks at clusters.

    :param client: carries the requests.
    :param reactor: counts pauses.
    :param wall_ms: ms since 1970.
    :param pause_s: between two looks at a consumer group that lags; Java's consumers commit every 5 s.
    """

    def __init__(self, client: RemotingClient, reactor: Any, wall_ms: Callable[[], int], pause_s: float = 6.0) -> None:
        self._client = client
        self._reactor = reactor
        self._wall_ms = wall_ms
        self._pause_s = pause_s

    async def picture(
        self, nameservers: Sequence[str], controllers: Sequence[str] = (), brokers: Sequence[str] = ()
    ) -> Picture:
        """Look at what these know of, and at these.

        :param controllers: where none are given, those that brokers name.
        :param brokers: besides those that are registered.
        """
        found_names = _once(await _all(map(self._nameserver, nameservers)))
        known = {at for each in found_names for row in each.sets for at in row.addresses.values()}
        found_brokers = {each.address: each for each in await _all(map(self._broker, sorted({*known, *brokers})))}
        named = controllers or sorted({at for each in found_brokers.values() for at in each.controllers})
        sets_known = {(row.cluster, row.name) for each in found_names for row in each.sets}
        found_controllers = await self._controllers(named, [name for _, name in sorted(sets_known)])
        members = {at for each in found_controllers for row in each.sets for at in row.addresses.values()}
        for each in await _all(map(self._broker, sorted(members - found_brokers.keys()))):
            found_brokers[each.address] = each
        found_brokers = {each.address: each for each in _once(found_brokers.values(), known | members)}
        picture = Picture(
            at_ms=self._wall_ms(),
            version=rocketha.__version__,
            nameservers=tuple(found_names),
            controllers=tuple(found_controllers),
            brokers=tuple(found_brokers[address] for address in sorted(found_brokers)),
            ledgers=tuple(await self._ledgers(found_brokers.values())),
        )
        return await self._again(_placed(picture))

    # -- any process

    async def _ask(self, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> _Timed:
        """
        :raises RequestFailed: it is refused.
        """
        sent_ms = self._wall_ms()
        answer = await self._client.request(address, code, dict(fields or {}), body, TIMEOUT_S)
        if answer.code != 0:
            raise RequestFailed(answer.code, answer.remark, address)
        return _Timed(answer, sent_ms, self._wall_ms())

    async def _process(self, kind: str, address: str) -> Process:
        """What any of ours tells; of another whether it answers."""
        try:
            connection = await self._client.connect(address, TIMEOUT_S)
        except _FAILURES as problem:
            return Process(kind=kind, address=address, problem=_words(problem, address))
        return attrs.evolve(await self._reached(kind, address), reached=True, end=connection.peer)

    async def _reached(self, kind: str, address: str) -> Process:
        try:
            first = await self._ask(address, PrivateCode.CLIENTS)
            body = json_dialect.loads(first.command.body)
            rows, answer = list(body["connections"]), first.command
            for _ in range(PAGES_MAX):
                if "next" not in answer.fields:
                    break
                answer = (await self._ask(address, PrivateCode.CLIENTS, {"after": answer.fields["next"]})).command
                rows += json_dialect.loads(answer.body)["connections"]
            return _process(kind, address, first, body, rows)
        except RequestFailed as refused:
            if refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return Process(kind=kind, address=address, ours=False)
            return Process(kind=kind, address=address, refused=str(refused))
        except _MALFORMED as problem:
            return Process(kind=kind, address=address, refused=f"{type(problem).__name__} {problem}")
        except _FAILURES as problem:
            return Process(kind=kind, address=address, problem=_words(problem, address))

    async def _told(self, asked: Awaitable[_Timed], parse: Callable[[_Timed], T]) -> T | None:
        """What was answered, None where nothing was, or nothing of use."""
        try:
            return parse(await asked)
        except (*_FAILURES, *_MALFORMED):
            return None

    # -- nameservers

    async def _nameserver(self, address: str) -> Nameserver:
        process = await self._process("nameserver", address)
        if process.problem:
            return Nameserver(process=process)
        try:
            answer = await self._ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            sets = cluster_info(answer.command.body).sets
        except (*_FAILURES, *_MALFORMED) as problem:
            return Nameserver(process=attrs.evolve(process, refused=process.refused or plain(problem)))
        return Nameserver(process=process, sets=sets)

    # -- controllers

    async def _controllers(self, addresses: Sequence[str], names: Sequence[str]) -> list[Controller]:
        """Those, and whom they name."""
        found = {each.process.address: each for each in await _all(self._controller(at, names) for at in addresses)}
        named = {at for each in found.values() for at in each.peers.values()}
        for each in await _all(self._controller(at, names) for at in sorted(named - found.keys())):
            found[each.process.address] = each
        found = {each.process.address: each for each in _once(found.values(), named)}
        ids = {at: number for each in found.values() for number, at in each.peers.items()}
        return [attrs.evolve(each, id=each.id or ids.get(at, "")) for at, each in sorted(found.items())]

    async def _controller(self, address: str, names: Sequence[str]) -> Controller:
        process = await self._process("controller", address)
        if process.problem:
            return Controller(process=process)
        status = await self._told(
            self._ask(address, PrivateCode.STATUS), lambda answer: json_dialect.loads(answer.command.body)
        )
        try:
            answer = await self._ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            found = _controller(process, answer.command.fields, status or {})
        except (*_FAILURES, *_MALFORMED) as problem:
            return Controller(process=attrs.evolve(process, refused=process.refused or plain(problem)))
        if status is None and found.leads and names:
            asked = self._ask(address, *get_replicas(*names))
            sets = await self._told(asked, lambda told: _sync_state_data(told.command, address))
            found = attrs.evolve(found, sets=sets or (), sets_told=sets is not None)
        return found

    # -- brokers

    async def _broker(self, address: str) -> Broker:
        process = await self._process("broker", address)
        if process.problem:
            return Broker(process=process)
        try:
            answer = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
            facts = json_dialect.loads(answer.command.body)["table"]
            broker = _runtime(process, answer, facts)
        except (*_FAILURES, *_MALFORMED) as problem:
            return Broker(process=attrs.evolve(process, refused=process.refused or plain(problem)))
        config, status = await _all(
            (
                self._told(self._ask(address, RequestCode.GET_BROKER_CONFIG), lambda told: _config(told.command.body)),
                self._told(
                    self._ask(address, RequestCode.GET_BROKER_HA_STATUS),
                    lambda told: ha_status.decode_ha_status(told.command.body),
                ),
            )
        )
        broker = _replicating(_configured(broker, config or {}), config or {}, status)
        if broker.epoch is None and (config is None or config.get("enableControllerMode") == "true"):
            asked = self._ask(address, RequestCode.GET_BROKER_EPOCH_CACHE)  # refused in other modes
            epoch = await self._told(asked, lambda told: ha_status.decode_epochs(told.command.body).entries[-1].epoch)
            broker = attrs.evolve(broker, epoch=epoch)
        if config is not None and config.get("enableDLegerCommitLog") == "true":
            broker = attrs.evolve(broker, ledger=await self._ledger_of(config))
        if broker.role != MASTER:
            return broker
        groups, untold = await self._groups(address)
        broker = attrs.evolve(broker, groups=groups, groups_untold=untold)
        return await self._with_consumers(broker) if broker.process.ours is False else broker

    async def _with_consumers(self, broker: Broker) -> Broker:
        """A broker of Java's with the clients of the groups that lag: it is asked for each group."""
        code = RequestCode.GET_CONSUMER_CONNECTION_LIST
        lagging = [each.name for each in sorted(broker.groups, key=lambda each: (-each.lag, each.name)) if each.lag]
        asked = [
            self._told(
                self._ask(broker.address, code, {"consumerGroup": name}),
                lambda told: json_dialect.loads(told.command.body),
            )
            for name in lagging[:GROUPS_MAX]
        ]
        found = zip(lagging, await _all(asked), strict=False)
        rows = [each for name, body in found for each in _consumers(name, body or {})]
        return attrs.evolve(broker, process=attrs.evolve(broker.process, connections=tuple(rows)))

    async def _groups(self, address: str) -> tuple[tuple[Group, ...], str]:
        """How far each group is, or why that is not told."""
        try:
            told = await self._ask(address, RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
            return _groups(told.command.body), ""
        except _MALFORMED as problem:
            return (), f"{type(problem).__name__} {problem}"
        except _FAILURES as problem:
            return (), _words(problem, address)

    async def _again(self, picture: Picture) -> Picture:
        """A second look at the groups of those brokers where one lags."""
        behind = [each for each in picture.brokers if any(group.lag for group in each.groups)]
        if not behind or self._pause_s <= 0:
            return picture
        await deferLater(self._reactor, self._pause_s, lambda: None)
        later = dict(
            zip(
                (each.address for each in behind),
                await _all(self._groups(each.address) for each in behind),
                strict=True,
            )
        )
        brokers = tuple(
            attrs.evolve(each, groups=_compared(each.groups, later[each.address][0], self._pause_s))
            if each.address in later and later[each.address][0]
            else each
            for each in picture.brokers
        )
        return attrs.evolve(picture, brokers=brokers)

    # -- groups in DLedger mode

    async def _ledger_of(self, config: Mapping[str, str]) -> Ledger | None:
        """The broker's own membership, of which :meth:`_ledgers` asks more."""
        try:
            peers, own = parse_peers(config["dLegerPeers"]), config["dLegerSelfId"]
            return Ledger(group=config["dLegerGroup"], id=own, address=peers[own], members=peers)
        except (KeyError, ConfigError):
            return None

    async def _ledgers(self, brokers: Iterable[Broker]) -> list[Ledger]:
        """All members of all groups that brokers belong to."""
        wanted: dict[tuple[str, str], Ledger] = {}
        for broker in brokers:
            if broker.ledger is not None:
                for member, address in broker.ledger.members.items():
                    wanted.setdefault(
                        (broker.ledger.group, member), attrs.evolve(broker.ledger, id=member, address=address)
                    )
        return await _all(self._ledger(each) for _, each in sorted(wanted.items()))

    async def _ledger(self, member: Ledger) -> Ledger:
        try:
            found = await dledger.Ledger(self._client, member.group, member.members).look(member.id)
        except (*_FAILURES, *_MALFORMED) as problem:
            return attrs.evolve(member, problem=_words(problem, member.address))
        member = attrs.evolve(
            member, ours=not found.java, leader=found.leader, term=None if found.term < 0 else found.term
        )
        if found.java:
            return member
        status = await self._told(
            self._ask(member.address, PrivateCode.STATUS), lambda told: json_dialect.loads(told.command.body)
        )
        if status is None:
            return member
        return attrs.evolve(
            member,
            term=_number(status, "term"),
            last=_number(status, "lastIndex"),
            committed=_number(status, "committedIndex"),
            members=dict(status.get("members") or member.members),
        )


# -- answers to values


async def _all(asked: Iterable[Coroutine[Deferred[Any], Any, Any]]) -> list[Any]:
    """Their results, of all that are under way at once."""
    return list(await gatherResults([Deferred.fromCoroutine(each) for each in asked], consumeErrors=True))


P = TypeVar("P", Nameserver, Controller, Broker)


def _once(found: Iterable[P], known: Collection[str] = ()) -> list[P]:
    """Each process once.

    :param known: addresses that others have of them: all of these stay, and nobody stays whom they stand for.
    """
    every = list(found)
    ends = {each.process.end for each in every if each.process.address in known}
    kept = []
    for each in every:
        if each.process.address in known or not each.process.end or each.process.end not in ends:
            ends.add(each.process.end)
            kept.append(each)
    return kept


def _words(problem: Exception, address: str) -> str:
    """Why there is no answer, without the address that is told anyway."""
    return plain(problem).removeprefix(f"{address}: ")


def _number(found: Mapping[str, Any], name: str) -> int | None:
    value = found.get(name)
    return None if value in (None, "") else int(value)


def _process(
    kind: str, address: str, first: _Timed, body: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Process:
    own = body.get("process") or {}
    clock = first.clock(int(own["nowMillis"])) if "nowMillis" in own else {}
    return Process(
        kind=kind,
        address=address,
        ours=True,
        version=str(own.get("version", "")),
        started_ms=_number(own, "startedMillis"),
        log_level=str(own.get("logLevel", "")),
        connections=tuple(map(_connection, rows)),
        refusals=tuple(map(_refusal, body.get("refusals") or ())),
        clock_ahead_ms=clock.get("clock_ahead_ms"),
        clock_doubt_ms=clock.get("clock_doubt_ms", 0),
    )


def _connection(row: Mapping[str, Any]) -> Connection:
    pulled = row.get("pulledSecondsAgo")
    return Connection(
        address=str(row["address"]),
        open_s=float(row.get("openSeconds") or 0),
        clients=tuple(map(str, row.get("clientIds") or ())),
        groups=tuple(
            str(each["group"]) for each in row.get("consumerGroups") or () if each.get("messageModel") == "CLUSTERING"
        ),
        pulled_s=None if pulled is None else float(pulled),
        brokers=tuple(map(str, row.get("brokers") or ())),
    )


def _consumers(group: str, body: Mapping[str, Any]) -> Iterable[Connection]:
    """203 of a Java broker, which does not know when somebody asked for messages."""
    if body.get("messageModel") == "CLUSTERING":
        for row in body.get("connectionSet") or ():
            clients = (str(row.get("clientId", "")),)
            yield Connection(address=str(row.get("clientAddr", "")), clients=clients, groups=(group,), pulls_told=False)


def _refusal(row: Mapping[str, Any]) -> Refusal:
    return Refusal(
        what=str(row["what"]),
        reason=str(row["reason"]),
        peer=str(row["address"]),
        count=int(row["count"]),
        seconds_ago=float(row["secondsAgo"]),
        client=str(row.get("clientId") or ""),
        remark=str(row.get("remark") or ""),
    )


def _controller(process: Process, header: Mapping[str, str], status: Mapping[str, Any]) -> Controller:
    peers = {}
    for item in filter(None, header.get("peers", "").split(";")):
        node, _, address = item.partition(":")
        peers[node] = address
    return Controller(
        process=process,
        id=str(status.get("id", "")),
        leads=header.get("isLeader") == "true",
        leader=header.get("controllerLeaderId", ""),
        leader_address=header.get("controllerLeaderAddress", ""),
        peers=peers,
        role=str(status.get("role", "")),
        term=_number(status, "term"),
        committed=_number(status, "committedIndex"),
        applied=_number(status, "appliedIndex"),
        matches={str(name): int(index) for name, index in (status.get("matchIndex") or {}).items()},
        suspicions={str(name): str(state) for name, state in (status.get("suspicions") or {}).items()},
        sets=tuple(_set(each, process.address) for each in status.get("sets") or ()),
        sets_told="sets" in status and len(status["sets"]) == _number(status, "brokerSets"),
    )


def _set(found: Mapping[str, Any], said_by: str) -> ControlledSet:
    return ControlledSet(
        cluster=str(found["clusterName"]),
        name=str(found["brokerName"]),
        addresses={int(number): str(at) for number, at in found["brokerAddrs"].items()},
        master=_number(found, "masterBrokerId"),
        epoch=int(found.get("masterEpoch") or 0),
        in_sync=tuple(map(int, found.get("syncStateSet") or ())),
        set_epoch=int(found.get("syncStateSetEpoch") or 0),
        alive=tuple(map(int, found.get("aliveBrokerIds") or ())),
        heard_s={int(number): ms / 1000 for number, ms in (found.get("heardMillisAgo") or {}).items()},
        said_by=said_by,
    )


def _sync_state_data(answer: Command, said_by: str) -> tuple[ControlledSet, ...]:
    """1006 of a Java leader, which does not say the cluster."""
    return tuple(
        ControlledSet(
            cluster="",
            name=name,
            addresses=found.members,
            master=found.master or None,
            epoch=found.master_epoch,
            in_sync=found.in_sync,
            set_epoch=found.set_epoch,
            alive=tuple(sorted(found.alive)),
            said_by=said_by,
        )
        for name, found in sorted(replica_sets(answer).items())
    )


def _runtime(process: Process, answer: _Timed, facts: Mapping[str, str]) -> Broker:
    if process.ours is False:
        process = attrs.evolve(process, **_java_clock(answer, facts))
        if facts.get("brokerVersionDesc"):
            process = attrs.evolve(process, version=facts["brokerVersionDesc"].removeprefix("V").replace("_", "."))
    used = facts.get("commitLogDiskRatio")
    return Broker(
        process=process,
        role=facts.get("rocketha.role", ""),
        role_s=_number(facts, "rocketha.roleSeconds"),
        epoch=_epoch(_number(facts, "rocketha.epoch")),
        id=_number(facts, "rocketha.replicaId") or None,
        log_begin=_number(facts, "commitLogMinOffset"),
        log_end=_number(facts, "commitLogMaxOffset"),
        disk_used=None if used in (None, "") else float(used),
        unready=facts.get("rocketha.unready", ""),
        store_refusal=facts.get("rocketha.storeRefusal", ""),
        slow_put=_slow(facts.get("rocketha.slowPut", "")),
        slow_sync=_slow(facts.get("rocketha.slowSync", "")),
        in_sync=tuple(int(each) for each in facts.get("rocketha.inSync", "").split(",") if each),
    )


def _epoch(value: int | None) -> int | None:
    return None if value is None or value < 0 else value


def _java_clock(answer: _Timed, facts: Mapping[str, str]) -> dict[str, Any]:
    """Java says when it began, and for how many whole seconds it has been running since, by the same clock."""
    uptime = _UPTIME.fullmatch(facts.get("runtime", ""))
    booted_ms = _number(facts, "bootTimestamp")
    if uptime is None or booted_ms is None:
        return {}
    days, hours, minutes, seconds = map(int, uptime.groups())
    clock = answer.clock(booted_ms + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + 500)
    return {**clock, "clock_doubt_ms": clock["clock_doubt_ms"] + 500, "started_ms": booted_ms}


def _slow(text: str) -> tuple[str, float] | None:
    found = _SLOW.match(text)
    return None if found is None else (text, float(found[2]))


def _config(body: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in body.decode("utf-8", "replace").splitlines())
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.replace(",", ";").split(";") if each.strip())


def _configured(broker: Broker, config: Mapping[str, str]) -> Broker:
    controlled = config.get("enableControllerMode") == "true"
    return attrs.evolve(
        broker,
        cluster=config.get("brokerClusterName", ""),
        name=config.get("brokerName", ""),
        id=broker.id if broker.id is not None or controlled else _number(config, "brokerId"),
        role=broker.role or ("" if controlled else _ROLES.get(config.get("brokerRole", ""), "")),
        namesrv=_addresses(config.get("namesrvAddr", "")),
        controllers=_addresses(config.get("controllerAddr", "")) if controlled else (),
    )


def _replicating(broker: Broker, config: Mapping[str, str], status: ha_status.HaStatus | None) -> Broker:
    if status is None:
        return broker
    return attrs.evolve(
        broker,
        role=broker.role or (MASTER if status.master else SLAVE),
        master=status.slave.master_address,
        replicas=tuple(
            Replica(address=each.address, acknowledged=each.ack_offset, lag=each.behind, in_sync=each.in_sync)
            for each in status.links
        ),
    )


def _groups(body: bytes) -> tuple[Group, ...]:
    groups = []
    for each in json_dialect.loads(body)["consumeStatsList"]:
        for name, stats in each.items():
            queues = [queue for found in stats for queue in _queues(found["offsetTable"])]
            groups.append(Group(name=str(name), queues=tuple(queues)))
    return tuple(sorted(groups, key=lambda group: group.name))


def _queues(table: Any) -> Iterable[Queue]:
    for key, found in table.entries if isinstance(table, ObjectKeyed) else ():
        committed = int(found["consumerOffset"])
        yield Queue(
            topic=str(key["topic"]),
            id=int(key["queueId"]),
            end=int(found["brokerOffset"]),
            committed=committed,
            pulled=max(committed, int(found.get("pullOffset") or 0)),
        )


def _compared(before: Sequence[Group], after: Sequence[Group], looked_s: float) -> tuple[Group, ...]:
    """The later look; of queues that lagged at the earlier one already, with what was committed then."""
    was = {(group.name, queue.topic, queue.id): queue for group in before for queue in group.queues}

    def queue(name: str, found: Queue) -> Queue:
        earlier = was.get((name, found.topic, found.id))
        return found if earlier is None or not earlier.lag else attrs.evolve(found, before=earlier.committed)

    return tuple(
        attrs.evolve(group, queues=tuple(queue(group.name, each) for each in group.queues), looked_s=looked_s)
        for group in after
    )


def _placed(picture: Picture) -> Picture:
    """Brokers with the set and id that others know them by, where they did not say themselves."""

    def placed(broker: Broker) -> Broker:
        rows = [row for names in picture.nameservers for row in names.ids_of(broker.address)]
        by_controllers = [(each, number) for each in picture.sets if (number := each.id_at(broker.address)) is not None]
        if not broker.name and rows:
            broker = attrs.evolve(broker, cluster=rows[0][0].cluster, name=rows[0][0].name)
        if not broker.name and by_controllers:
            broker = attrs.evolve(broker, cluster=by_controllers[0][0].cluster, name=by_controllers[0][0].name)
        if broker.id is None and by_controllers:
            broker = attrs.evolve(broker, id=by_controllers[0][1])
        if broker.id is None and rows and not by_controllers:
            broker = attrs.evolve(broker, id=rows[0][1])
        return broker

    return attrs.evolve(picture, brokers=tuple(map(placed, picture.brokers)))
