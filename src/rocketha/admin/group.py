"""``rocketha group``: see, make and delete consumer groups, how far they are, and move them.

Moving.  While members are connected, brokers are told where to begin (222): ours and Java's since 5.0 keep the order
and tell each consumer at its next pull; older ones tell the consumers at once.  Where nobody is connected the offset is
committed as a consumer would.

Java: ``mqadmin updateSubGroup``, ``deleteSubGroup``, ``consumerProgress``, ``consumerConnection``,
``resetOffsetByTime``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import click

from rocketha.admin import options, output
from rocketha.admin.client import NETWORK_ERRORS, NoRoute, Queue, plain
from rocketha.admin.clients import release
from rocketha.admin.cluster import Cluster, by_queue, opened
from rocketha.admin.commands import DONE, FAILED, Given, actions, confirm
from rocketha.admin.everywhere import at_each
from rocketha.admin.main_loop import run_with
from rocketha.admin.receive import moment, parse_start
from rocketha.admin.topic import BROKER, CLUSTER, delete_topic
from rocketha.broker import names
from rocketha.broker.groups import PREDEFINED_GROUPS, SubscriptionGroupConfig
from rocketha.errors import ConfigError, RockethaError
from rocketha.wire import json_dialect
from rocketha.wire.cluster_info import MASTER_ID, BrokerSet
from rocketha.wire.codes import RequestCode, ResponseCode

PAGE = 2000
CHOSEN = ("consumeEnable", "consumeBroadcastEnable", "consumeMessageOrderly", "retryMaxTimes")
"""What ``group create`` has options for."""
END_OF_QUEUE = -1
"""A timestamp that stands for the end of each queue (``ResetOffsetRequestHeader``)."""


@actions("group")
@options.cluster
def command() -> None:
    """See, make and delete consumer groups, how far they are, and move them."""


@command.command("list")
@click.option("--cluster", default="", metavar="NAME", help="Only those of this cluster.")
@click.option("--all", is_flag=True, help="Those that every broker has, too.")
@run_with(opened)
async def list_(cluster: Cluster, args: Given) -> int:
    """List the consumer groups, and how many members are connected."""
    at: dict[str, set[str]] = {}
    members: dict[str, set[str]] = {}
    for each in cluster.masters(await cluster.sets(args.cluster)):
        for group in await groups_at(cluster, each.master):
            if args.all or not (group in PREDEFINED_GROUPS or names.is_system_group(group)):
                at.setdefault(group, set()).add(each.name)
                found = await members_at(cluster, each.master, group)
                members.setdefault(group, set()).update(found)
    rows = [(group, len(members[group]), ", ".join(sorted(at[group]))) for group in sorted(at)]
    shown = [{"group": name, "members": count, "brokers": sorted(at[name])} for name, count, _ in rows]
    output.show(args, shown, ("GROUP", "MEMBERS", "BROKERS"), rows)
    return DONE


async def groups_at(cluster: Cluster, address: str) -> dict[str, Any]:
    """Name to configuration of every group of a broker, asked for page by page."""
    found: dict[str, Any] = {}
    while True:
        fields = {"groupSeq": str(len(found)), "dataVersion": "", "maxGroupNum": str(PAGE)}
        answer = await cluster.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, fields)
        page = json_dialect.loads(answer.body).get("subscriptionGroupTable") or {}
        before = len(found)
        found |= page
        total = int(answer.fields.get("totalGroupNum", 0))
        if len(found) >= total or len(found) == before:
            return found


async def members_at(cluster: Cluster, address: str, group: str) -> dict[str, Any]:
    """Client id to what a broker says of each connected member."""
    fields = {"consumerGroup": group}
    accepted = (ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE)
    answer = await cluster.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, fields, accepted=accepted)
    if answer.code != ResponseCode.SUCCESS:
        return {}
    found = json_dialect.loads(answer.body)
    topics = {topic: each.get("subString") for topic, each in (found.get("subscriptionTable") or {}).items()}
    return {
        str(each.get("clientId")): {
            "address": each.get("clientAddr"),
            "language": each.get("language"),
            "version": release(each.get("version")),
            "messageModel": found.get("messageModel"),
            "subscriptions": topics,
        }
        for each in found.get("connectionSet") or ()
    }


@command.command("show")
@click.argument("group")
@run_with(opened)
async def show(cluster: Cluster, args: Given) -> int:
    """Show a group's configuration at each broker, and who is connected."""
    configs: dict[str, Any] = {}
    members: dict[str, Any] = {}
    for each in cluster.masters(await cluster.sets()):
        config = (await groups_at(cluster, each.master)).get(args.group)
        if config is not None:
            configs[each.name] = config
            members |= await members_at(cluster, each.master, args.group)
    if not configs:
        raise RockethaError(f"no broker knows the group {args.group}")
    if args.json:
        output.say_json({"configurations": configs, "members": members})
        return DONE
    head = ("BROKER", "CONSUMES", "BROADCASTS", "ORDERLY", "RETRIES", "RETRY QUEUES")
    keys = ("consumeEnable", "consumeBroadcastEnable", "consumeMessageOrderly", "retryMaxTimes", "retryQueueNums")
    output.table(head, [(name, *(_word(config.get(key)) for key in keys)) for name, config in configs.items()])
    print(f"{len(members)} members")
    if members:
        rows = [
            (name, each["address"], each["language"], each["version"], _wanted(each)) for name, each in members.items()
        ]
        output.table(("CLIENT", "ADDRESS", "LANGUAGE", "VERSION", "SUBSCRIPTIONS"), rows)
    return DONE


def _word(value: Any) -> Any:
    return {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value


def _wanted(member: Mapping[str, Any]) -> str:
    return ", ".join(f"{topic} {expression}" for topic, expression in sorted(member["subscriptions"].items()))


@command.command("create")
@click.argument("group")
@click.option("--retries", type=click.IntRange(-1), default=16, metavar="N", help="Of a message (default 16).")
@click.option("--orderly", is_flag=True, help="Consumers of this group consume in order.")
@click.option("--no-broadcast", is_flag=True, help="It may not consume as broadcast.")
@click.option("--disabled", is_flag=True, help="It may not consume at all.")
@CLUSTER
@BROKER
@run_with(opened)
async def create(cluster: Cluster, args: Given) -> int:
    """Make a consumer group at the masters of a cluster.

    Where a broker fails, it is told where the group is and where it is not, and the same command again makes it at
    those that lack it.
    """
    problem = names.group_problem(args.group)
    if problem:
        raise ConfigError(problem)
    sets = [await cluster.one_set(args.broker)] if args.broker else await cluster.one_cluster(args.cluster)
    wanted = SubscriptionGroupConfig(
        args.group,
        consume_enable=not args.disabled,
        consume_broadcast_enable=not args.no_broadcast,
        consume_message_orderly=args.orderly,
        retry_max_times=args.retries,
    ).as_json()
    at = cluster.masters(sets)
    having: list[BrokerSet] = []
    lacking: list[BrokerSet] = []
    for each in at:
        found = (await groups_at(cluster, each.master)).get(args.group)
        if found is not None and any(found.get(key) != wanted[key] for key in CHOSEN):
            raise RockethaError(f"{args.group} is at {each.name} already, and is not what is wanted: see group show")
        (lacking if found is None else having).append(each)

    async def change(each: BrokerSet) -> None:
        body = json_dialect.dumps(wanted)
        await cluster.ask(each.master, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    await at_each(args, lacking, change, f"group {args.group}", "made", having)
    brokers = [each.name for each in at]
    output.say(args, f"{args.group} is at {', '.join(brokers)}", brokers=brokers)
    return DONE


@command.command("delete")
@click.argument("group")
@click.option("--keep-offsets", is_flag=True, help="A group of this name would go on where this one was.")
@CLUSTER
@options.YES
@run_with(opened)
async def delete(cluster: Cluster, args: Given) -> int:
    """Delete a consumer group, with its offsets, its retry topic and its dead letters."""
    at = cluster.masters(await cluster.one_cluster(args.cluster))
    confirm(args, f"Delete group {args.group} in {at[0].cluster}")
    fields = {"groupName": args.group, "cleanOffset": "false" if args.keep_offsets else "true"}

    async def change(each: BrokerSet) -> None:
        await cluster.ask(each.master, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)

    await at_each(args, at, change, f"group {args.group}", "deleted")
    if not args.keep_offsets:
        for prefix in (names.RETRY_PREFIX, names.DLQ_PREFIX):
            await delete_topic(cluster, args, at, prefix + args.group)
    output.say(args, f"{args.group} is deleted", brokers=[each.name for each in at])
    return DONE


# -- how far it is


@attrs.frozen
class Progress:
    """Of one queue."""

    queue: Queue
    ends: int
    committed: int
    pulled: int
    last_ms: int

    @property
    def lag(self) -> int:
        """Messages that are not consumed."""
        return max(0, self.ends - self.committed)


async def progress(cluster: Cluster, group: str, topic: str) -> list[Progress]:
    """How far a group is in all queues of all brokers."""
    fields = {"consumerGroup": group, **({"topic": topic} if topic else {})}
    found = []
    for each in cluster.masters(await cluster.sets()):
        answer = await cluster.ask(each.master, RequestCode.GET_CONSUME_STATS, fields)
        for queue, row in sorted(by_queue(answer.body).items()):
            ends, committed, pulled, last = (
                int(row.get(key, 0)) for key in ("brokerOffset", "consumerOffset", "pullOffset", "lastTimestamp")
            )
            found.append(Progress(queue, ends, committed, pulled, last))
    return sorted(found, key=lambda each: each.queue)


@command.command("lag")
@click.argument("group")
@click.option("--topic", default="", metavar="NAME", help="Only in this topic.")
@run_with(opened)
async def lag(cluster: Cluster, args: Given) -> int:
    """Show how far a group is in each queue, the largest lag first, and what is left in all.

    IN FLIGHT is what was given to consumers and is not consumed yet.
    """
    found = await progress(cluster, args.group, args.topic)
    if not found:
        raise RockethaError(f"{args.group} committed no offset yet{f' in {args.topic}' if args.topic else ''}")
    found.sort(key=lambda each: (-each.lag, each.queue))
    total = sum(each.lag for each in found)
    shown = {
        "group": args.group,
        "lag": total,
        "queues": [
            {
                "topic": each.queue.topic,
                "broker": each.queue.broker_name,
                "queueId": each.queue.queue_id,
                "brokerOffset": each.ends,
                "consumerOffset": each.committed,
                "lag": each.lag,
                "inFlight": max(0, each.pulled - each.committed),
                "lastConsumed": moment(each.last_ms) if each.last_ms else "",
            }
            for each in found
        ],
    }
    head = ("TOPIC", "BROKER", "QUEUE", "END", "COMMITTED", "LAG", "IN FLIGHT", "LAST CONSUMED")
    rows = [tuple(each.values()) for each in shown["queues"]]
    output.show(args, shown, head, rows, [f"lag of {args.group}: {total}"])
    return DONE


# -- moving it


@attrs.frozen
class Move:
    """Of one queue, from an offset (-1: none is committed) to another."""

    queue: Queue
    address: str
    present: int
    target: int


@command.command("reset")
@click.argument("group")
@click.argument("topic")
@click.option(
    "--to",
    required=True,
    metavar="WHERE",
    help="earliest, latest, a local time such as 2026-01-31T12:00 (UTC with a Z), or an offset.",
)
@click.option("--queue", metavar="BROKER:ID", help="Only this queue, such as broker-a:3.")
@click.option("--dry-run/--execute", default=True, help="Only show what would be done (this is the default), or do it.")
@options.YES
@run_with(opened)
async def reset(cluster: Cluster, args: Given) -> int:
    """Move a group in a topic to another place, while its members are connected or not.

    Nothing is changed without --execute.  An offset that a queue does not have becomes its first or last one.
    """
    where = place(args.to)
    moves = await plan(cluster, args.group, args.topic, where, args.queue)
    shown = [
        {
            "broker": each.queue.broker_name,
            "queueId": each.queue.queue_id,
            "from": None if each.present < 0 else each.present,
            "to": each.target,
        }
        for each in moves
    ]
    rows = [tuple(each.values()) for each in shown]
    notes = ["nothing was changed: --execute does it"] if args.dry_run else []
    if not args.dry_run:
        confirm(args, f"Move {args.group} in {len(moves)} queues of {args.topic} to {args.to}")
        if await execute(cluster, args.group, where, moves, args.queue is None):
            notes = ["connected members go on there when their long polls end: 15 s by default"]
    found = {"group": args.group, "topic": args.topic, "done": not args.dry_run, "queues": shown}
    output.show(args, found, ("BROKER", "QUEUE", "FROM", "TO"), rows, notes)
    return DONE if moves else FAILED


def place(text: str) -> int | str:
    """``--to``: an offset, or "earliest", "latest" or "@" and milliseconds since 1970.

    :raises ConfigError: it is none of them.
    """
    named = {"earliest": "earliest", "first": "earliest", "latest": "latest", "last": "latest"}.get(text)
    if named:
        return named
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        when = parse_start(text)
    except ConfigError:
        raise ConfigError(
            f"--to {text!r}: earliest, latest, a time such as 2026-01-31T12:00 or an offset is wanted"
        ) from None
    if isinstance(when, str) or when < 0:
        raise ConfigError(f"--to {text!r}: a time since 1970 is wanted")  # brokers take others for the end of a queue
    return f"@{when}"


async def plan(cluster: Cluster, group: str, topic: str, where: int | str, only: str | None) -> list[Move]:
    """What moves where."""
    route = await cluster.client.route(topic, fresh=True)
    queues = route.readable()
    if only is not None:
        queues = [each for each in queues if f"{each.broker_name}:{each.queue_id}" == only]
        if not queues:
            raise ConfigError(f"--queue {only}: {topic} has no such queue")
    lacking = sorted({each.broker_name for each in queues if MASTER_ID not in route.brokers[each.broker_name]})
    if lacking:
        raise NoRoute(f"without a master: {', '.join(lacking)}")  # a slave would take it, and be overruled later
    moves = []
    for queue in queues:
        address = route.address(queue.broker_name)
        fields = {"topic": topic, "queueId": str(queue.queue_id)}
        low = await _offset(cluster, address, RequestCode.GET_MIN_OFFSET, fields)
        high = await _offset(cluster, address, RequestCode.GET_MAX_OFFSET, fields)
        if isinstance(where, int):
            target = min(max(where, low), high)
        elif where.startswith("@"):
            timed = {**fields, "timestamp": where[1:]}
            target = await _offset(cluster, address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timed)
        else:
            target = low if where == "earliest" else high
        if target < 0:
            raise RockethaError(f"{address} knows no such place in {queue}")
        committed = {**fields, "consumerGroup": group, "setZeroIfNotFound": "false"}
        present = await _offset(cluster, address, RequestCode.QUERY_CONSUMER_OFFSET, committed)
        moves.append(Move(queue, address, present, target))
    return moves


async def _offset(cluster: Cluster, address: str, code: int, fields: Mapping[str, str]) -> int:
    """An offset; -1 where there is none."""
    accepted = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    answer = await cluster.ask(address, code, fields, accepted=accepted)
    return int(answer.fields["offset"]) if answer.code == ResponseCode.SUCCESS else -1


async def execute(cluster: Cluster, group: str, where: int | str, moves: list[Move], whole: bool) -> bool:
    """Move.  Nothing is done where a broker could not do what is wanted.

    :param whole: in all queues of the topic.
    :return: whether members are connected, who are told by the answers to their pulls.
    :raises RockethaError: it cannot be done, or a broker failed; which ones did it before is said.
    """
    addresses = dict.fromkeys(each.address for each in moves)
    ordered = {address for address in addresses if await members_at(cluster, address, group)}
    by_time = whole and isinstance(where, str)
    if not by_time:
        for address in sorted(ordered):
            await _see_that_it_moves_one_queue(cluster, address)
    done: list[str] = []
    for address in addresses:
        here = [each for each in moves if each.address == address]
        try:
            if address in ordered:
                await _order(cluster, group, where, here, by_time)
            else:
                await _commit(cluster, group, here)
        except (RockethaError, *NETWORK_ERRORS) as problem:
            moved = f"it was moved at {', '.join(done)} already" if done else "it was moved at no other broker"
            raise RockethaError(f"{group} at {address}: {plain(problem)}; {moved}") from problem
        done.append(address)
    return bool(ordered)


async def _see_that_it_moves_one_queue(cluster: Cluster, address: str) -> None:
    """One that has consumers move knows times only, and would move them in all queues, whatever is asked."""
    answer = await cluster.ask(address, RequestCode.GET_BROKER_CONFIG)
    if "useServerSideResetOffset=true" not in answer.body.decode("utf-8", "replace").split():
        raise RockethaError(
            f"useServerSideResetOffset is off at {address}, so it moves a group whose members are connected to a time, "
            "in all queues: stop them first; nothing was changed"
        )


async def _commit(cluster: Cluster, group: str, moves: list[Move]) -> None:
    """As a consumer would."""
    for each in moves:
        fields = {
            "consumerGroup": group,
            "topic": each.queue.topic,
            "queueId": str(each.queue.queue_id),
            "commitOffset": str(each.target),
        }
        await cluster.ask(each.address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)


async def _order(cluster: Cluster, group: str, where: int | str, moves: list[Move], by_time: bool) -> None:
    """Have a broker move a group whose members are connected: by time at once, else queue by queue."""
    common = {"topic": moves[0].queue.topic, "group": group, "isForce": "true"}
    times = {"earliest": "0", "latest": str(END_OF_QUEUE)}
    if by_time and isinstance(where, str):
        orders = [{**common, "timestamp": times.get(where, where[1:]), "queueId": "-1"}]
    else:
        orders = [
            {**common, "timestamp": "0", "queueId": str(each.queue.queue_id), "offset": str(each.target)}
            for each in moves
        ]
    came: dict[Queue, int] = {}
    for order in orders:
        answer = await cluster.ask(moves[0].address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, order)
        came |= {queue: int(offset) for queue, offset in by_queue(answer.body).items()}
    if not isinstance(where, int):
        return  # what is sent meanwhile moves the end of a queue, and what expires its beginning
    wrong = [f"{each.queue} to {came.get(each.queue)}" for each in moves if came.get(each.queue) != each.target]
    if wrong:
        raise RockethaError(f"the broker moved {'; '.join(wrong)}")
