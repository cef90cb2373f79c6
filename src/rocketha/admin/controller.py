"""``rocketha controller``: see who leads and why a broker is master, move leadership, change who is in the group.

What it must not know: how any of it is decided.  One controller is enough to be given: it says where the others are.

Java: ``mqadmin getControllerMetaData``; the rest has no counterpart there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

import click
from twisted.internet.task import deferLater

from rocketha.admin import options, output
from rocketha.admin.client import NETWORK_ERRORS, NoRoute, RequestFailed, plain
from rocketha.admin.commands import DONE, FAILED, Given, actions
from rocketha.admin.main_loop import run_with
from rocketha.admin.secure import dialer_of
from rocketha.errors import RockethaError
from rocketha.protocols.endpoints import Dialer, parse_peers
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Command

HEAD = ("ID", "ADDRESS", "ROLE", "TERM", "COMMITTED", "APPLIED", "SETS", "HEARD", "SUSPECTED")
TRIES, PAUSE_S = 20, 0.25
CHANGE_TIMEOUT_S = 30.0


class Controllers:
    """A group of controllers, of which at least one address is known."""

    def __init__(self, dialer: Dialer, addresses: Sequence[str]) -> None:
        self._reactor = dialer.reactor
        self._addresses = list(addresses)
        self._client = RemotingClient(dialer)

    def close(self) -> None:
        """End all connections."""
        self._client.close()

    async def ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        timeout_s: float = 5.0,
        body: bytes = b"",
    ) -> Command:
        """One request.

        :raises RequestFailed: it is refused.
        """
        answer = await self._client.request(address, code, fields, body, timeout_s)
        if answer.code != 0:
            raise RequestFailed(answer.code, answer.remark, address)
        return answer

    async def metadata(self) -> Command:
        """1005 of the first that answers.

        :raises NoRoute: nobody does.
        """
        problems = []
        for address in self._addresses:
            try:
                return await self.ask(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            except NETWORK_ERRORS as problem:
                problems.append(plain(problem))
        raise NoRoute("no controller answers: " + "; ".join(problems))

    async def peers(self) -> dict[str, str]:
        """Id to ``host:port`` of all controllers."""
        found = {}
        for item in filter(None, (await self.metadata()).fields.get("peers", "").split(";")):
            node, _, address = item.partition(":")
            found[node] = address
        return found

    async def ask_leader(
        self, code: int, fields: Mapping[str, str] | None = None, timeout_s: float = 5.0, body: bytes = b""
    ) -> Command:
        """One request to whoever leads; asked again for a while where nobody does.

        :raises RequestFailed: it is refused, or nobody leads.
        """
        refused: RockethaError = NoRoute("no controller leads")
        for _ in range(TRIES):
            leader = (await self.metadata()).fields.get("controllerLeaderAddress")
            if leader:
                try:
                    return await self.ask(leader, code, fields, timeout_s, body)
                except RequestFailed as problem:
                    if problem.code != ResponseCode.CONTROLLER_NOT_LEADER:
                        raise
                    refused = problem
                except NETWORK_ERRORS as problem:
                    refused = NoRoute(f"{leader}: {plain(problem)}")
            await deferLater(self._reactor, PAUSE_S, lambda: None)
        raise refused


@actions("controller")
@options.JSON
@options.CONTROLLERS
@options.connection
def command() -> None:
    """See and manage the controllers.  One that is given says where the others are."""


def _opened(reactor: Any, args: Given) -> AbstractContextManager[Controllers]:
    return closing(Controllers(dialer_of(reactor, args), options.addresses(args.controllers, "--controllers")))


@command.command("status")
@run_with(_opened)
async def status(controllers: Controllers, args: Given) -> int:
    """Every controller: role, term, log, brokers."""
    rows: dict[str, dict[str, Any]] = {}
    for node, address in sorted((await controllers.peers()).items()):
        try:
            answer = await controllers.ask(address, PrivateCode.STATUS)
            rows[node] = {"address": address, **json_dialect.loads(answer.body)}
        except (RequestFailed, *NETWORK_ERRORS) as problem:
            rows[node] = {"address": address, "problem": plain(problem)}
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
        notes += [f"{node}: {replica} is {state}" for replica, state in suspicions.items()]
    return table, notes


@command.command("why")
@click.argument("broker", metavar="BROKER_NAME")
@click.option("--cluster", default="", metavar="NAME", help="Needed where several clusters have a set of this name.")
@click.option("--last", type=int, default=10, metavar="N", help="Only so many decisions (default 10).")
@run_with(_opened)
async def why(controllers: Controllers, args: Given) -> int:
    """The last decisions about a broker set, and what was seen."""
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
    master = found["masterBrokerId"]
    address = found["brokerAddrs"].get(str(master), "")
    lines = [
        f"{found['clusterName']}/{found['brokerName']}: master {master or 'none'} {address}".rstrip()
        + f" in epoch {found['masterEpoch']}, in sync {found['syncStateSet']}"
    ]
    for each in found["decisions"][-last:]:
        result = f"master {each['masterBrokerId'] or 'none'} epoch {each['masterEpoch']} in sync {each['syncStateSet']}"
        lines.append(f"{each['index']}  {each['did']}  {each['why']}: {each['reason']}  ->  {result}")
        lines += [f"      broker {seen['brokerId']} {seen['saw']} {seen['text']}".rstrip() for seen in each["seen"]]
    return lines


@command.command("transfer")
@click.argument("to", metavar="ID")
@run_with(_opened)
async def transfer(controllers: Controllers, args: Given) -> int:
    """Hand leadership to another controller."""
    await controllers.ask_leader(PrivateCode.TRANSFER, {"to": args.to}, CHANGE_TIMEOUT_S)
    output.say(args, f"{args.to} leads", leader=args.to)
    return DONE


@command.command("members")
@run_with(_opened)
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
@run_with(_opened)
async def add(controllers: Controllers, args: Given) -> int:
    """Add a controller that was started with raftJoinExisting=true."""
    parse_peers(args.peer)
    return await _change(controllers, args, {"learn" if args.learner else "add": args.peer})


@command.command("remove")
@click.argument("id", metavar="ID")
@run_with(_opened)
async def remove(controllers: Controllers, args: Given) -> int:
    """Remove a controller."""
    return await _change(controllers, args, {"remove": args.id})
