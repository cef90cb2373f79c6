"""``rocketha broker``: see the brokers, and take a set or a replica out of service.

Draining a set: the nameservers stop giving its queues to producers, who go to other sets; what is there is still read.
Draining a replica: where it is master, the controllers make another one of the SyncStateSet master.  A broker that
registers its topics anew, as after a restart, is written to again.

Decommissioning a replica that has stopped for good: the controllers forget its id, so that nobody waits for it.

Java: ``mqadmin clusterList``, ``brokerStatus``, ``getBrokerEpoch``, ``wipeWritePerm``, ``addWritePerm``,
``electMaster``, ``cleanBrokerMetadata``.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

import attrs
import click

from rocketha.admin import controller_state, options, output
from rocketha.admin.client import NETWORK_ERRORS, RequestFailed, plain
from rocketha.admin.cluster import WRONG_SHAPE, Cluster, cluster_of, opened
from rocketha.admin.commands import DONE, FAILED, Given, actions, confirm, only_one
from rocketha.admin.controllers import Controllers
from rocketha.admin.main_loop import run_with
from rocketha.admin.secure import dialer_of
from rocketha.errors import ConfigError, RemoteProtocolError, RockethaError
from rocketha.wire import controller_calls, json_dialect
from rocketha.wire.cluster_info import BrokerSet
from rocketha.wire.codes import RequestCode
from rocketha.wire.fields import LONG_MAX
from rocketha.wire.replica_list import ReplicaSet

HEAD = ("CLUSTER", "BROKER", "ID", "ADDRESS", "VERSION", "IN/S", "OUT/S", "DISK")
ID = click.IntRange(1)


@actions("broker")
@options.cluster
def command() -> None:
    """See the brokers, and take a set or a replica out of service."""


async def each_broker(sets: Sequence[BrokerSet]) -> AsyncIterator[tuple[BrokerSet, int, str]]:
    """Set, id and address of every broker."""
    for each in sets:
        for number, address in sorted(each.addresses.items()):
            yield each, number, address


async def runtime(cluster: Cluster, address: str) -> dict[str, str]:
    """What a broker tells of itself: names and texts."""
    answer = await cluster.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    try:
        return {str(name): str(value) for name, value in sorted(json_dialect.loads(answer.body)["table"].items())}
    except WRONG_SHAPE as problem:
        raise RemoteProtocolError(f"{address}: {type(problem).__name__} {problem}") from None


@command.command("list")
@click.option("--cluster", default="", metavar="NAME", help="Only those of this cluster.")
@run_with(opened)
async def list_(cluster: Cluster, args: Given) -> int:
    """List the brokers: who is master (id 0), and whether each answers."""
    found: list[dict[str, Any]] = []
    async for each, number, address in each_broker(await cluster.sets(args.cluster)):
        row: dict[str, Any] = {"cluster": each.cluster, "broker": each.name, "id": number, "address": address}
        try:
            row["runtime"] = await runtime(cluster, address)
        except (RockethaError, *NETWORK_ERRORS) as problem:
            row["problem"] = plain(problem)
        found.append(row)
    notes = [f"{row['address']}: {row['problem']}" for row in found if "problem" in row]
    output.show(args, found, HEAD, [_row(row) for row in found], notes)
    return FAILED if notes else DONE


def _row(row: Mapping[str, Any]) -> output.Row:
    told = row.get("runtime", {})
    rates = [told.get(name, "").split(" ")[0] for name in ("putTps", "getTransferredTps")]
    shown = [f"{float(rate):.1f}" if rate.replace(".", "", 1).isdigit() else "-" for rate in rates]
    ratio = told.get("commitLogDiskRatio", "")
    disk = f"{float(ratio):.0%}" if ratio.replace(".", "", 1).isdigit() else "-"
    return (row["cluster"], row["broker"], row["id"], row["address"], told.get("brokerVersionDesc"), *shown, disk)


@command.command("status")
@click.argument("broker", metavar="NAME|HOST:PORT")
@run_with(opened)
async def status(cluster: Cluster, args: Given) -> int:
    """Show all that a broker tells of itself, or each broker of a name."""
    if ":" in args.broker:
        addresses = [args.broker]
    else:
        addresses = list((await cluster.one_set(args.broker)).addresses.values())
    found: dict[str, dict[str, str]] = {}
    problems: dict[str, str] = {}
    for address in addresses:
        try:
            found[address] = await runtime(cluster, address)
        except (RequestFailed, RemoteProtocolError, *NETWORK_ERRORS) as problem:
            problems[address] = plain(problem)
    if args.json:
        output.say_json(found | {address: {"problem": text} for address, text in problems.items()})
    else:
        for address, table in found.items():
            output.table((f"OF {address}", "VALUE"), table.items())
        for address, text in problems.items():
            print(output.clean(f"{address}: {text}"))
    return FAILED if problems else DONE


@command.command("epochs")
@click.argument("name")
@run_with(opened)
async def epochs(cluster: Cluster, args: Given) -> int:
    """Show at which offset each master of a set began, as each replica has it.

    ID is what the nameservers call it: 0 is the master, whatever id the controllers gave it.
    """
    found = []
    async for _, number, address in each_broker([await cluster.one_set(args.name)]):
        answer = await cluster.ask(address, RequestCode.GET_BROKER_EPOCH_CACHE)
        value = json_dialect.loads(answer.body)
        try:
            for each in value["epochList"]:
                end = int(each["endOffset"])
                found.append(
                    {
                        "id": number,
                        "address": address,
                        "epoch": int(each["epoch"]),
                        "startOffset": int(each["startOffset"]),
                        "endOffset": int(value["maxOffset"]) if end == LONG_MAX else end,
                    }
                )
        except WRONG_SHAPE as problem:
            raise RemoteProtocolError(f"{address}: {type(problem).__name__} {problem}") from None
    rows = [tuple(each.values()) for each in found]
    output.show(args, found, ("ID", "ADDRESS", "EPOCH", "START", "END"), rows)
    return DONE


# -- out of service


@attrs.frozen
class Managed:
    """A cluster, and the controllers that manage it."""

    cluster: Cluster
    controllers: Controllers

    def close(self) -> None:
        """End all connections."""
        self.cluster.close()
        self.controllers.close()


def _managed(reactor: Any, args: Given) -> AbstractContextManager[Managed]:
    addresses = options.addresses(args.controllers, "--controllers")
    return closing(Managed(cluster_of(reactor, args), Controllers(dialer_of(reactor, args), addresses)))


async def replicas(controllers: Controllers, name: str) -> ReplicaSet:
    """A set as the controllers have it.

    :raises ConfigError: they know none of that name.
    """
    found = await controller_state.replica_sets(controllers, {name: ""})
    if name not in found:
        raise ConfigError(f"the controllers know no broker {name!r}")
    return found[name]


@command.command("drain")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let producers send there again.")
@click.option("--id", type=ID, metavar="ID", help="Only this replica, under controllers: another one becomes master.")
@options.CONTROLLERS
@options.YES
@run_with(_managed)
async def drain(managed: Managed, args: Given) -> int:
    """Have a set take no more writes, or a replica hand its master role over.

    Clients learn it within 30 s. A set is written to again after --undo, or when one of its brokers registers anew.
    """
    only_one(args, ("--undo", "--id"))
    if args.id is not None:
        return await _hand_over(managed, args)
    cluster = managed.cluster
    await cluster.one_set(args.name)
    if args.undo:
        code, field, word = RequestCode.ADD_WRITE_PERM_OF_BROKER, "addTopicCount", "writable"
    else:
        confirm(args, f"Have {args.name} take no more writes")
        code, field, word = RequestCode.WIPE_WRITE_PERM_OF_BROKER, "wipeTopicCount", "not writable"
    answers = await cluster.every_nameserver(code, {"brokerName": args.name})
    found = {address: int(answer.fields.get(field, 0)) for address, answer in answers.items()}
    rows = [(address, args.name, count, word) for address, count in found.items()]
    output.show(args, found, ("NAMESERVER", "BROKER", "TOPICS", "NOW"), rows)
    return DONE


async def _hand_over(managed: Managed, args: Given) -> int:
    found = await replicas(managed.controllers, args.name)
    if args.id not in found.members:
        raise ConfigError(f"--id {args.id}: {args.name} has {', '.join(map(str, sorted(found.members)))}")
    if found.master != args.id:
        output.say(args, f"{args.name} has another master: {found.master}", master=found.master)
        return DONE
    others = sorted(({*found.in_sync} & found.alive) - {args.id})
    if not others:
        raise RockethaError(f"no other replica of {args.name} is alive and in sync")
    confirm(args, f"Make {others[0]} master of {args.name} instead of {args.id}")
    there = await managed.cluster.one_set(args.name)
    call = controller_calls.elect_master(there.cluster, args.name, others[0], _now_ms(), designate=True)
    await managed.controllers.ask_leader(call.code, call.fields)
    output.say(args, f"{others[0]} is master of {args.name}", master=others[0])
    return DONE


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@command.command("decommission")
@click.argument("name")
@click.option("--id", required=True, type=ID, metavar="ID", help="The replica that leaves for good.")
@click.option("--cluster", default="", metavar="NAME", help="Needed where no broker of the set is registered.")
@options.CONTROLLERS
@options.YES
@run_with(_managed)
async def decommission(managed: Managed, args: Given) -> int:
    """Have the controllers forget a replica that has stopped for good.

    It must not run. To take it out: drain NAME --id ID, stop it, wait until controllers miss it, and decommission it.
    """
    found = await replicas(managed.controllers, args.name)
    if args.id not in found.members:
        raise ConfigError(f"--id {args.id}: {args.name} has {', '.join(map(str, sorted(found.members)))}")
    if args.id in found.alive:
        raise RockethaError(
            f"{args.id} of {args.name} runs: stop it first, and wait until the controllers miss it: at most "
            "controllerHeartBeatTimeoutMills (10 s) after its last heartbeat"
        )
    if args.id == found.master:
        raise RockethaError(f"{args.id} is the last master of {args.name}: what only it has would be lost")
    if not {*found.in_sync} - {args.id}:
        raise RockethaError(f"{args.id} is the last of the SyncStateSet of {args.name}: what only it has would be lost")
    cluster = args.cluster or (await managed.cluster.one_set(args.name)).cluster
    confirm(args, f"Forget replica {args.id} of {args.name} at {found.members[args.id]}")
    fields = {
        "clusterName": cluster,
        "brokerName": args.name,
        "brokerControllerIdsToClean": str(args.id),
        "isCleanLivingBroker": "false",
        "invokeTime": str(_now_ms()),
    }
    await managed.controllers.ask_leader(RequestCode.CLEAN_BROKER_DATA, fields)
    left = sorted(set(found.members) - {args.id})
    output.say(args, f"{args.name} has {', '.join(map(str, left))}", replicas=left)
    return DONE
