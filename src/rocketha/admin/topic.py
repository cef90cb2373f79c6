"""``rocketha topic``: see, make, change and delete topics.

Java: ``mqadmin topicList``, ``topicRoute``, ``updateTopic``, ``deleteTopic``, ``topicStatus``.
"""

from __future__ import annotations

from typing import Any

import click

from rocketha.admin import options, output
from rocketha.admin.client import DEFAULT_TOPIC, NETWORK_ERRORS, PERM_READ, PERM_WRITE, QUEUES_MAX, RequestFailed, plain
from rocketha.admin.cluster import Cluster, by_queue, opened
from rocketha.admin.commands import DONE, FAILED, Given, actions, confirm
from rocketha.admin.everywhere import at_each
from rocketha.admin.main_loop import run_with
from rocketha.admin.receive import moment
from rocketha.broker import names
from rocketha.errors import ConfigError, RockethaError
from rocketha.wire import json_dialect
from rocketha.wire.cluster_info import BrokerSet
from rocketha.wire.codes import RequestCode, ResponseCode

PERMISSIONS = {"rw": PERM_READ | PERM_WRITE, "r": PERM_READ, "w": PERM_WRITE, "none": 0}
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
TYPE = "message.type"
HEAD = ("BROKER", "ID", "ADDRESS", "READ", "WRITE", "PERM", "TYPE", "ORDER")

QUEUES = click.IntRange(1, QUEUES_MAX)
CLUSTER = click.option("--cluster", default="", metavar="NAME", help="Needed where there are several.")
BROKER = click.option("--broker", default="", metavar="NAME", help="Only at the brokers of this name.")


@actions("topic")
@options.cluster
def command() -> None:
    """See, make, change and delete topics."""


@command.command("list")
@click.option("--cluster", default="", metavar="NAME", help="Only those of this cluster.")
@click.option("--all", is_flag=True, help="System topics, retry topics and dead letters, too.")
@run_with(opened)
async def list_(cluster: Cluster, args: Given) -> int:
    """List the topics."""
    code, fields = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}
    if args.cluster:
        code, fields = RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": args.cluster}
    found = topics_in(await cluster.nameserver(code, fields))
    if not args.all:
        system = topics_in(await cluster.nameserver(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS))
        hidden = names.SYSTEM_TOPICS.union(system)
        prefixes = (names.RETRY_PREFIX, names.DLQ_PREFIX, names.SYSTEM_TOPIC_PREFIX)
        found = [each for each in found if each not in hidden and not each.startswith(prefixes)]
        found = [each for each in found if not each.endswith("_REPLY_TOPIC")]
    if args.json:
        output.say_json(found)
    else:
        for each in found:
            print(output.clean(each))
    return DONE


def topics_in(value: Any) -> list[str]:
    """The topics of an answer, sorted."""
    found = value.get("topicList") if isinstance(value, dict) else None
    return sorted(map(str, found or ()))


@command.command("show")
@click.argument("topic")
@click.option("--replicas", is_flag=True, help="At each replica of a set, not only at its master.")
@run_with(opened)
async def show(cluster: Cluster, args: Given) -> int:
    """Show what a topic is at each broker set that has it."""
    rows: list[dict[str, Any]] = []
    notes = []
    for name, number, address in await cluster.of_topic(args.topic, args.replicas):
        row = {"broker": name, "brokerId": number, "address": address}
        try:
            config = await config_at(cluster, address, args.topic)
        except (RequestFailed, *NETWORK_ERRORS) as problem:
            if not args.replicas:
                raise
            config = {"problem": plain(problem)}
        if config is None:
            config = {"problem": f"it does not have {args.topic}"}
        rows.append({**row, **config})
        if "problem" in config:
            notes.append(f"{name}, id {number}: {config['problem']}")
    output.show(args, rows, HEAD, [_row(each) for each in rows], notes)
    return DONE if rows and not notes else FAILED


def _row(found: dict[str, Any]) -> output.Row:
    if "problem" in found:
        return found["broker"], found["brokerId"], found["address"], *[None] * 5
    perm = found.get("perm")
    words = next((word for word, bits in PERMISSIONS.items() if bits == perm), perm)
    kind = (found.get("attributes") or {}).get(TYPE, "NORMAL")
    order = "yes" if found.get("order") else "no"
    return (
        found["broker"],
        found["brokerId"],
        found["address"],
        found.get("readQueueNums"),
        found.get("writeQueueNums"),
        words,
        kind,
        order,
    )


async def config_at(cluster: Cluster, address: str, topic: str) -> dict[str, Any] | None:
    """A topic's configuration at a broker; None where it is unknown."""
    fields = {"topic": topic, "lo": "true"}
    accepted = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
    answer = await cluster.ask(address, RequestCode.GET_TOPIC_CONFIG, fields, accepted=accepted)
    return json_dialect.loads(answer.body) if answer.code == ResponseCode.SUCCESS else None


async def _at(cluster: Cluster, args: Given) -> list[BrokerSet]:
    """Where a topic is to be."""
    if args.broker:
        return cluster.masters([await cluster.one_set(args.broker)])
    return cluster.masters(await cluster.one_cluster(args.cluster))


@command.command("create")
@click.argument("topic")
@click.option("--queues", type=QUEUES, default=8, metavar="N", help="To read and to write, at each broker (default 8).")
@click.option("--perm", type=click.Choice(tuple(PERMISSIONS)), default="rw", help="Default rw.")
@click.option("--type", "kind", type=click.Choice(TYPES, case_sensitive=False), help="Which messages: default NORMAL.")
@click.option("--order", is_flag=True, help="Orders of queues are kept in the nameservers' configuration.")
@CLUSTER
@BROKER
@run_with(opened)
async def create(cluster: Cluster, args: Given) -> int:
    """Make a topic at the masters of a cluster.

    One that is there already is not changed: see update.  Where a broker fails, it is told where the topic is and where
    it is not, and the same command again makes it at those that lack it.
    """
    problem = names.topic_problem(args.topic)
    if problem:
        raise ConfigError(problem)
    wanted = {
        "readQueueNums": args.queues,
        "writeQueueNums": args.queues,
        "perm": PERMISSIONS[args.perm],
        "topicSysFlag": 0,
        "order": args.order,
    }
    kind = args.kind.upper() if args.kind else ""
    at = await _at(cluster, args)
    having: list[BrokerSet] = []
    lacking: list[BrokerSet] = []
    for each in at:
        found = await config_at(cluster, each.master, args.topic)
        if found is not None and not _is(found, wanted, kind):
            raise RockethaError(f"{args.topic} is at {each.name} already, and is not what is wanted: see topic show")
        (lacking if found is None else having).append(each)
    changes = f"+{TYPE}={kind}" if kind else ""

    async def change(each: BrokerSet) -> None:
        await _write(cluster, each, args.topic, wanted, changes)

    await at_each(args, lacking, change, f"topic {args.topic}", "made", having)
    output.say(args, f"{args.topic} is at {', '.join(each.name for each in at)}", brokers=[each.name for each in at])
    return DONE


def _is(found: dict[str, Any], wanted: dict[str, Any], kind: str) -> bool:
    """Whether a topic is already what is asked for."""
    same = all((found.get(name) or 0) == value for name, value in wanted.items())
    return same and (found.get("attributes") or {}).get(TYPE, TYPES[0]) == (kind or TYPES[0])


@command.command("update")
@click.argument("topic")
@click.option("--queues", type=QUEUES, metavar="N", help="To read and to write, at each broker.")
@click.option("--read", type=click.IntRange(0, QUEUES_MAX), metavar="N", help="Queues to read.")
@click.option("--write", type=click.IntRange(0, QUEUES_MAX), metavar="N", help="Queues to write.")
@click.option("--perm", type=click.Choice(tuple(PERMISSIONS)), help="Who may do what.")
@BROKER
@run_with(opened)
async def update(cluster: Cluster, args: Given) -> int:
    """Change a topic at the brokers that have it; what is not named stays.

    To have fewer queues, lower --write first, and --read when what is in them was consumed.
    """
    asked = {
        "readQueueNums": args.queues if args.read is None else args.read,
        "writeQueueNums": args.queues if args.write is None else args.write,
        "perm": None if args.perm is None else PERMISSIONS[args.perm],
    }
    changes = {name: value for name, value in asked.items() if value is not None}
    if not changes:
        raise ConfigError("nothing to change: --queues, --read, --write or --perm is wanted")
    route = await cluster.client.route(args.topic, fresh=True)
    at = [each for each in await cluster.sets() if each.name in route.queues and args.broker in ("", each.name)]
    found = {each.name: await config_at(cluster, each.master, args.topic) for each in cluster.masters(at)}
    at = [each for each in at if found[each.name] is not None]
    if not at:
        raise RockethaError(f"{args.topic} is at no broker of that name")

    async def change(each: BrokerSet) -> None:
        present = found[each.name]
        assert present is not None
        await _write(cluster, each, args.topic, {**present, **changes}, "")

    await at_each(args, at, change, f"topic {args.topic}", "changed")
    output.say(
        args, f"{args.topic} changed at {', '.join(each.name for each in at)}", brokers=[each.name for each in at]
    )
    return DONE


async def _write(cluster: Cluster, at: BrokerSet, topic: str, wanted: dict[str, Any], attributes: str) -> None:
    fields = {
        "topic": topic,
        "defaultTopic": DEFAULT_TOPIC,
        "readQueueNums": str(wanted["readQueueNums"]),
        "writeQueueNums": str(wanted["writeQueueNums"]),
        "perm": str(wanted["perm"]),
        "topicFilterType": str(wanted.get("topicFilterType") or "SINGLE_TAG"),
        "topicSysFlag": str(wanted.get("topicSysFlag") or 0),
        "order": "true" if wanted.get("order") else "false",
        "attributes": attributes,
    }
    await cluster.ask(at.master, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


@command.command("delete")
@click.argument("topic")
@CLUSTER
@options.YES
@run_with(opened)
async def delete(cluster: Cluster, args: Given) -> int:
    """Delete a topic, with its messages, at the masters of a cluster and at the nameservers.

    One that no nameserver knows is deleted all the same, for a broker may have it, and that is said.
    """
    at = cluster.masters(await cluster.one_cluster(args.cluster))
    confirm(args, f"Delete topic {args.topic} and its messages in {at[0].cluster}")
    known = await is_known(cluster, args.topic)
    await delete_topic(cluster, args, at, args.topic)
    said = f"{args.topic} is deleted" + ("" if known else "; no nameserver knew it")
    output.say(args, said, brokers=[each.name for each in at], known=known)
    return DONE


async def is_known(cluster: Cluster, topic: str) -> bool:
    """Whether one nameserver, whichever answers, has a route of it."""
    try:
        await cluster.client.route(topic, fresh=True)
    except RequestFailed as problem:
        if problem.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return False
    return True


async def delete_topic(cluster: Cluster, args: Given, at: list[BrokerSet], topic: str) -> None:
    """At the masters, then at the nameservers.  A topic that is not there is no error."""

    async def change(each: BrokerSet) -> None:
        await cluster.ask(each.master, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})

    await at_each(args, at, change, f"topic {topic}", "deleted")
    fields = {"topic": topic, "clusterName": at[0].cluster}
    await cluster.every_nameserver(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields)


@command.command("status")
@click.argument("topic")
@run_with(opened)
async def status(cluster: Cluster, args: Given) -> int:
    """Show how many messages each queue of a topic has, and when the last one came."""
    found: list[dict[str, Any]] = []
    for _, _, address in await cluster.of_topic(args.topic):
        answer = await cluster.ask(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": args.topic})
        for queue, each in sorted(by_queue(answer.body).items()):
            found.append(
                {
                    "broker": queue.broker_name,
                    "queueId": queue.queue_id,
                    "minOffset": int(each["minOffset"]),
                    "maxOffset": int(each["maxOffset"]),
                    "lastUpdate": moment(int(each["lastUpdateTimestamp"])) if each["lastUpdateTimestamp"] else "",
                }
            )
    rows = [
        (each["broker"], each["queueId"], each["minOffset"], each["maxOffset"], _count(each), each["lastUpdate"])
        for each in found
    ]
    total = f"{sum(map(_count, found))} messages in {len(found)} queues"
    output.show(args, found, ("BROKER", "QUEUE", "MIN", "MAX", "MESSAGES", "LAST"), rows, [total])
    return DONE


def _count(row: dict[str, Any]) -> int:
    return max(0, int(row["maxOffset"]) - int(row["minOffset"]))
