"""``rocketha controller``: see who leads and why a broker is master, move leadership, change who is in the group.

What it must not know: how any of it is decided.  One controller is enough to be given: it says where the others are.

Java: ``mqadmin getControllerMetaData``; the rest has no counterpart there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rocketha.admin import controller_recovery, options, output
from rocketha.admin.client import NETWORK_ERRORS, RequestFailed, plain
from rocketha.admin.commands import DONE, FAILED, Given, actions, confirm
from rocketha.admin.controllers import CHANGE_TIMEOUT_S, Controllers, opened
from rocketha.admin.main_loop import run_with
from rocketha.controller.group import DECISIONS_MAX
from rocketha.protocols.endpoints import parse_peers
from rocketha.services.controller.trail import Names, wall_time
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, ResponseCode

JAVA = "a controller of Java's, which does not tell: rocketha cluster status shows what is known of it"
HEAD = ("ID", "ADDRESS", "ROLE", "TERM", "COMMITTED", "APPLIED", "SETS", "HEARD", "SUSPECTED")


@actions("controller")
@options.JSON
@options.CONTROLLERS
@options.connection
def command() -> None:
    """See and manage the controllers.  One that is given says where the others are."""


@command.command("status")
@run_with(opened)
async def status(controllers: Controllers, args: Given) -> int:
    """Every controller: role, term, log, brokers.

    SETS are the broker sets that it knows, HEARD the brokers whose heartbeats hold at this controller, SUSPECTED those
    that it asks whether they are dead.  Brokers send heartbeats to all controllers, so HEARD is the same everywhere.
    """
    rows: dict[str, dict[str, Any]] = {}
    for node, address in sorted((await controllers.peers()).items()):
        try:
            answer = await controllers.ask(address, PrivateCode.STATUS)
            rows[node] = {"address": address, **json_dialect.loads(answer.body)}
        except (RequestFailed, *NETWORK_ERRORS) as problem:
            java = isinstance(problem, RequestFailed) and problem.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            rows[node] = {"address": address, "problem": JAVA if java else plain(problem)}
    output.show(args, rows, HEAD, *status_table(rows))
    return DONE if any(row.get("isLeader") for row in rows.values()) else FAILED


def status_table(rows: Mapping[str, Mapping[str, Any]]) -> tuple[list[output.Row], list[str]]:
    """The rows of a table for a person, and, to stand below it, whoever is suspected."""
    table: list[output.Row] = []
    notes = []
    for node, row in rows.items():
        if "problem" in row:
            table.append((node, str(row["address"]), "-", *["-"] * 6))
            notes.append(f"{node}: {row['problem']}")
            continue
        suspicions = row.get("suspicions", {})
        named = ("role", "term", "committedIndex", "appliedIndex", "brokerSets", "brokersHeard")
        table.append((node, str(row["address"]), *(str(row.get(name, "-")) for name in named), str(len(suspicions))))
        notes += [f"{node} suspects {replica}: {state}" for replica, state in suspicions.items()]
    return table, notes


@command.command("why")
@click.argument("broker", metavar="BROKER_NAME")
@click.option("--cluster", default="", metavar="NAME", help="Needed where several clusters have a set of this name.")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=DECISIONS_MAX,
    metavar="N",
    help=f"Only so many decisions (default {DECISIONS_MAX}, which is all that controllers keep).",
)
@run_with(opened)
async def why(controllers: Controllers, args: Given) -> int:
    """The last decisions about a broker set, and what was seen.

    Earlier ones are in the controllers' logs: event group.elected.
    """
    fields = {"brokerName": args.broker}
    if args.cluster:
        fields["clusterName"] = args.cluster
    found = json_dialect.loads((await controllers.ask_leader(PrivateCode.WHY, fields)).body)
    if args.json:
        output.say_json(found)
    else:
        for line in why_lines(found, args.last):
            print(line)
    return DONE


def why_lines(found: Mapping[str, Any], last: int) -> list[str]:
    """The present state and the last decisions, newest last."""

    def state(now: Mapping[str, Any]) -> str:
        master, in_sync = now["masterBrokerId"], ", ".join(names.of(each) for each in now["syncStateSet"])
        told = f"master {names.of(master) if master else 'none'} in epoch {now['masterEpoch']}"
        return f"{told}, in sync {in_sync or 'nobody'} in set epoch {now['syncStateSetEpoch']}"

    names = Names(found)
    lines = [f"{found['clusterName']}/{found['brokerName']}: {state(found)}"]
    if not found["decisions"]:
        lines.append("no decision is kept: this state was imported, and nothing was decided since")
    for each in found["decisions"][-last:]:
        what = f"{wall_time(each['leaderClockMs'])}  {each['index']}  {each['did']}  {each['why']}: {each['reason']}"
        lines.append(f"{what}  ->  {state(each)}")
        for seen in each["seen"]:
            lines.append(f"      broker {names.of(seen['brokerId'])} {seen['saw']} {seen['text']}".rstrip())
    return lines


@command.command("transfer")
@click.argument("to", metavar="ID")
@run_with(opened)
async def transfer(controllers: Controllers, args: Given) -> int:
    """Hand leadership to another controller."""
    await controllers.ask_leader(PrivateCode.TRANSFER, {"to": args.to}, CHANGE_TIMEOUT_S)
    output.say(args, f"{args.to} leads", leader=args.to)
    return DONE


@command.command("members")
@run_with(opened)
async def members(controllers: Controllers, args: Given) -> int:
    """Who belongs to the group."""
    answer = await controllers.ask_leader(PrivateCode.STATUS)
    found = json_dialect.loads(answer.body)
    if args.json:
        output.say_json({name: found[name] for name in ("members", "voters", "learners", "changing")})
        return DONE
    for node, address in found["members"].items():
        print(f"{node}-{address}  {'votes' if node in found['voters'] else 'learns'}")
    return DONE


async def _change(controllers: Controllers, args: Given, fields: Mapping[str, str]) -> int:
    answer = await controllers.ask_leader(PrivateCode.MEMBERS, fields, CHANGE_TIMEOUT_S)
    peers = answer.fields.get("peers", "")
    output.say(args, peers, peers=peers)
    return DONE


@command.command("add")
@click.argument("peer", metavar="ID-HOST:PORT")
@click.option("--learner", is_flag=True, help="It gets the log and does not vote.")
@run_with(opened)
async def add(controllers: Controllers, args: Given) -> int:
    """Add a controller that was started with raftJoinExisting=true."""
    parse_peers(args.peer)
    return await _change(controllers, args, {"learn" if args.learner else "add": args.peer})


@command.command("remove")
@click.argument("id", metavar="ID")
@options.YES
@run_with(opened)
async def remove(controllers: Controllers, args: Given) -> int:
    """Remove a controller."""
    confirm(args, f"Remove controller {args.id}")
    return await _change(controllers, args, {"remove": args.id})


for each in controller_recovery.ACTIONS:
    command.add_command(each)
