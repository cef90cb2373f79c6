"""``rocketha controller``: see who leads and why a broker is master, move leadership, change who is in the group.

What it must not know: how any of it is decided.  One controller is enough to be given: it says where the others are.

Java: ``mqadmin getControllerMetaData``; the rest has no counterpart there.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.task import deferLater

from rocketha.admin.cli import nameservers
from rocketha.admin.client import NETWORK_ERRORS, NoRoute, RequestFailed, plain
from rocketha.admin.main_loop import Interrupted, run_coroutine
from rocketha.admin.secure import add_connection_arguments, dialer_of
from rocketha.errors import ConfigError, RockethaError
from rocketha.protocols.endpoints import Dialer, parse_peers
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.controller.trail import Names, wall_time
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Command

ENVIRONMENT = "ROCKETHA_CONTROLLERS"
DEFAULT = "127.0.0.1:9878"
TRIES, PAUSE_S = 20, 0.25
CHANGE_TIMEOUT_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags and actions."""
    add_connection_arguments(parser)
    parser.add_argument(
        "-a",
        "--controllers",
        metavar="HOST:PORT[;...]",
        default=os.environ.get(ENVIRONMENT) or DEFAULT,
        help=f"one or more controllers (default: ${ENVIRONMENT}, else {DEFAULT})",
    )
    parser.add_argument("--json", action="store_true", help="print what was answered, for other programs")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("status", help="every controller: role, term, log, brokers")
    why = actions.add_parser("why", help="the last decisions about a broker set, and what was seen")
    why.add_argument("broker", metavar="BROKER_NAME")
    why.add_argument("--cluster", default="", help="needed where several clusters have a set of this name")
    why.add_argument("--last", type=int, default=10, metavar="N", help="only so many decisions (default 10)")
    transfer = actions.add_parser("transfer", help="hand leadership to another controller")
    transfer.add_argument("to", metavar="ID")
    actions.add_parser("members", help="who belongs to the group")
    add = actions.add_parser("add", help="add a controller that was started with raftJoinExisting=true")
    add.add_argument("peer", metavar="ID-HOST:PORT")
    add.add_argument("--learner", action="store_true", help="it gets the log and does not vote")
    remove = actions.add_parser("remove", help="remove a controller")
    remove.add_argument("id", metavar="ID")


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
        self, address: str, code: int, fields: Mapping[str, str] | None = None, timeout_s: float = 5.0
    ) -> Command:
        """One request.

        :raises RequestFailed: it is refused.
        """
        answer = await self._client.request(address, code, fields, timeout_s=timeout_s)
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

    async def ask_leader(self, code: int, fields: Mapping[str, str] | None = None, timeout_s: float = 5.0) -> Command:
        """One request to whoever leads; asked again for a while where nobody does.

        :raises RequestFailed: it is refused, or nobody leads.
        """
        refused: RockethaError = NoRoute("no controller leads")
        for _ in range(TRIES):
            leader = (await self.metadata()).fields.get("controllerLeaderAddress")
            if leader:
                try:
                    return await self.ask(leader, code, fields, timeout_s)
                except RequestFailed as problem:
                    if problem.code != ResponseCode.CONTROLLER_NOT_LEADER:
                        raise
                    refused = problem
                except NETWORK_ERRORS as problem:
                    refused = NoRoute(f"{leader}: {plain(problem)}")
            await deferLater(self._reactor, PAUSE_S, lambda: None)
        raise refused


def run(args: argparse.Namespace) -> int:
    """Do it, and say what came of it."""
    addresses = nameservers(args.controllers)
    if not addresses:
        raise ConfigError("--controllers: at least one HOST:PORT is wanted")

    async def main(reactor: Any, interrupted: Interrupted) -> int:
        controllers = Controllers(dialer_of(reactor, args), addresses)
        try:
            return int(await _ACTIONS[args.action](controllers, args))
        finally:
            controllers.close()

    return run_coroutine(main)


async def _status(controllers: Controllers, args: argparse.Namespace) -> int:
    rows: dict[str, dict[str, Any]] = {}
    for node, address in sorted((await controllers.peers()).items()):
        try:
            answer = await controllers.ask(address, PrivateCode.STATUS)
            rows[node] = {"address": address, **json_dialect.loads(answer.body)}
        except (RequestFailed, *NETWORK_ERRORS) as problem:
            rows[node] = {"address": address, "problem": plain(problem)}
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        for line in status_lines(rows):
            print(line)
    return 0 if any(row.get("isLeader") for row in rows.values()) else 1


def status_lines(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A table for a person, and below it whoever is suspected."""
    head: tuple[str, ...] = ("ID", "ADDRESS", "ROLE", "TERM", "COMMITTED", "APPLIED", "SETS", "HEARD", "SUSPECTED")
    table = [head]
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
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*lines, *notes]


async def _why(controllers: Controllers, args: argparse.Namespace) -> int:
    fields = {"brokerName": args.broker}
    if args.cluster:
        fields["clusterName"] = args.cluster
    found = json_dialect.loads((await controllers.ask_leader(PrivateCode.WHY, fields)).body)
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        for line in why_lines(found, args.last):
            print(line)
    return 0


def why_lines(found: Mapping[str, Any], last: int) -> list[str]:
    """The present state and the last decisions, newest last."""

    def state(now: Mapping[str, Any]) -> str:
        master, in_sync = now["masterBrokerId"], ", ".join(names.of(each) for each in now["syncStateSet"])
        told = f"master {names.of(master) if master else 'none'} in epoch {now['masterEpoch']}"
        return f"{told}, in sync {in_sync or 'nobody'} in set epoch {now['syncStateSetEpoch']}"

    names = Names(found)
    lines = [f"{found['clusterName']}/{found['brokerName']}: {state(found)}"]
    for each in found["decisions"][-last:]:
        what = f"{wall_time(each['leaderClockMs'])}  {each['index']}  {each['did']}  {each['why']}: {each['reason']}"
        lines.append(f"{what}  ->  {state(each)}")
        for seen in each["seen"]:
            lines.append(f"      broker {names.of(seen['brokerId'])} {seen['saw']} {seen['text']}".rstrip())
    return lines


async def _transfer(controllers: Controllers, args: argparse.Namespace) -> int:
    await controllers.ask_leader(PrivateCode.TRANSFER, {"to": args.to}, CHANGE_TIMEOUT_S)
    print(f"{args.to} leads")
    return 0


async def _members(controllers: Controllers, args: argparse.Namespace) -> int:
    answer = await controllers.ask_leader(PrivateCode.STATUS)
    found = json_dialect.loads(answer.body)
    if args.json:
        print(json.dumps({name: found[name] for name in ("members", "voters", "learners", "changing")}, indent=2))
        return 0
    for node, address in found["members"].items():
        print(f"{node}-{address}  {'votes' if node in found['voters'] else 'learns'}")
    return 0


async def _change(controllers: Controllers, fields: Mapping[str, str]) -> int:
    answer = await controllers.ask_leader(PrivateCode.MEMBERS, fields, CHANGE_TIMEOUT_S)
    print(answer.fields.get("peers", ""))
    return 0


async def _add(controllers: Controllers, args: argparse.Namespace) -> int:
    parse_peers(args.peer)
    return await _change(controllers, {"learn" if args.learner else "add": args.peer})


async def _remove(controllers: Controllers, args: argparse.Namespace) -> int:
    return await _change(controllers, {"remove": args.id})


_ACTIONS = {
    "status": _status,
    "why": _why,
    "transfer": _transfer,
    "members": _members,
    "add": _add,
    "remove": _remove,
}
