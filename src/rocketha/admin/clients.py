"""``rocketha clients``: who is connected to a server, what for, and what was refused lately.

What it must not know: how a server counts.  One of ours is asked with a request of our own (CLIENTS, 11007), page by
page; a broker of Java's, which answers that it does not know it, with RocketMQ's own: 328 for producers, 201 and 203
for consumers.  Those say nothing of connections without a group, nor of refusals.

Java: ``mqadmin producerConnection``, ``consumerConnection``, ``producer``, for one group each.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import click

from rocketha.admin import options, output
from rocketha.admin.client import LEARNER, NETWORK_ERRORS, Client, RequestFailed, plain
from rocketha.admin.commands import DONE, FAILED, Given
from rocketha.admin.commands import command as declared
from rocketha.admin.main_loop import Interrupted, run_coroutine
from rocketha.admin.secure import dialer_of
from rocketha.errors import ConfigError, RemoteProtocolError
from rocketha.observe.logging import one_line
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode

TEXT_MAX = 300
REFUSALS_SHOWN = 20
FIRST_REGULAR, LAST_REGULAR = 212, 611
"""``MQVersion`` V4_0_0_SNAPSHOT and V5_9_9."""


@declared("clients")
@click.option(
    "-b",
    "--broker",
    metavar="HOST:PORT[;...]",
    default="",
    help="Only these servers, of whichever kind (default: all registered brokers).",
)
@click.option("--refused", is_flag=True, help="Only connections on which something was refused.")
@options.JSON
@options.NAMESRV
@options.connection
def command(args: Given) -> int:
    """List who is connected to the brokers, what for, and what was refused.

    A learner has no port for requests, and no clients: what it gave up is on its status port.
    """
    names, servers = options.split(args.namesrv), options.split(args.broker)
    if not names and not servers:
        raise ConfigError("--namesrv or --broker: at least one HOST:PORT is wanted")

    async def main(reactor: Any, interrupted: Interrupted) -> int:
        client = Client(dialer_of(reactor, args), names or servers, random.Random())
        try:
            found = {address: await _of(client, address) for address in servers or await client.brokers()}
        finally:
            client.close()
        if args.refused:
            for each in found.values():
                each["connections"] = [row for row in each.get("connections", ()) if row.get("refusedCount")]
        if args.json:
            output.say_json(found)
        else:
            for address, each in found.items():
                print("\n".join(lines(address, each)))
        return DONE if found and not any("problem" in each for each in found.values()) else FAILED

    return run_coroutine(main)


async def _of(client: Client, address: str) -> dict[str, Any]:
    try:
        try:
            return await _ours(client, address)
        except RequestFailed as problem:
            if problem.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return await _javas(client, address)
    except NETWORK_ERRORS as problem:
        return {"problem": f"{plain(problem)} ({LEARNER})"}
    except (RequestFailed, RemoteProtocolError) as problem:
        return {"problem": plain(problem)}


async def _ours(client: Client, address: str) -> dict[str, Any]:
    answer = await client.request(address, PrivateCode.CLIENTS)
    found: dict[str, Any] = json_dialect.loads(answer.body)
    while "next" in answer.fields:
        answer = await client.request(address, PrivateCode.CLIENTS, {"after": answer.fields["next"]})
        found["connections"] += json_dialect.loads(answer.body)["connections"]
    return found


async def _javas(client: Client, address: str) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}

    def row(at: str, member: Mapping[str, Any]) -> dict[str, Any]:
        return rows.setdefault(
            at,
            {
                "address": at,
                "clientIds": [str(member.get("clientId"))],
                "language": member.get("language"),
                "version": member.get("version"),
                "producerGroups": [],
                "consumerGroups": [],
            },
        )

    producers = json_dialect.loads((await client.request(address, RequestCode.GET_ALL_PRODUCER_INFO)).body)
    for group, members in (producers.get("data") or {}).items():
        for member in members:
            row(str(member.get("remoteIP")).lstrip("/"), member)["producerGroups"].append(group)
    groups = json_dialect.loads((await client.request(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
    for group in sorted(groups.get("subscriptionGroupTable") or {}):
        try:
            answer = await client.request(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        except RequestFailed:  # nobody is there
            continue
        found = json_dialect.loads(answer.body)
        wanted = {topic: each.get("subString") for topic, each in (found.get("subscriptionTable") or {}).items()}
        consumes = {"group": group, "messageModel": found.get("messageModel"), "subscriptions": wanted}
        for member in found.get("connectionSet") or ():
            row(str(member.get("clientAddr")), member)["consumerGroups"].append(consumes)
    return {"connections": list(rows.values())}


def lines(address: str, found: Mapping[str, Any]) -> list[str]:
    """A table for a person; below each connection what it is for, and what was refused there last."""
    title = f"{found.get('role', 'broker')} {address}"
    if "problem" in found:
        return [f"{title}: {found['problem']}", ""]
    rows = found["connections"]
    cells = [
        (
            _text(row["address"]),
            _seconds(row.get("openSeconds")),
            _text(row.get("language") or "-"),
            _text(release(row.get("version"))),
            _text(", ".join(row.get("clientIds") or ()) or "-"),
            _text(row.get("refusedCount", "-")),
        )
        for row in rows
    ]
    head, *table = output.aligned(("ADDRESS", "OPEN", "LANGUAGE", "VERSION", "CLIENT", "REFUSED"), cells)
    shown = [f"{title}: {len(rows)} connections", head]
    for line, row in zip(table, rows, strict=True):
        shown += [line, *(f"    {each}" for each in _below(row))]
    kinds = found.get("refusals") or []
    if kinds:
        shown.append("refused lately, also to who is gone:")
        shown += [f"    {each['count']} x {_refusal(each)}" for each in kinds[:REFUSALS_SHOWN]]
    if len(kinds) > REFUSALS_SHOWN:
        shown.append(f"    and {len(kinds) - REFUSALS_SHOWN} other kinds: see --json")
    return [*shown, ""]


def _below(row: Mapping[str, Any]) -> Iterable[str]:
    if row.get("producerGroups"):
        yield _text(f"produces as {', '.join(row['producerGroups'])}")
    for each in row.get("consumerGroups") or ():
        wanted = ", ".join(f"{topic} {expression}" for topic, expression in each["subscriptions"].items())
        yield _text(f"consumes as {each['group']} ({str(each['messageModel']).lower()}): {wanted or 'nothing'}")
    for each in row.get("brokers") or ():
        yield _text(f"is broker {each}")
    if "lastRefusal" in row:
        yield f"refused last: {_refusal(row['lastRefusal'])}"


def _refusal(each: Mapping[str, Any]) -> str:
    who = f"{each['clientId'] or 'client unknown'}, {each['language'] or '-'}, version {release(each['version'])}"
    told = f"{each['what']} {each['reason']} {_seconds(each['secondsAgo'])} ago, {each['address']} ({who})"
    return _text(f"{told}: {each['remark']}")


def release(ordinal: Any) -> str:
    """A release by the ordinal that clients send: 5.5.0 for 513.

    Java: ``MQVersion``. From 4.0.0-SNAPSHOT on each minor one has ten patch releases, each behind its snapshot.
    """
    if not isinstance(ordinal, int) or not FIRST_REGULAR <= ordinal <= LAST_REGULAR:
        return "-" if ordinal in (None, -1) else str(ordinal)
    number, released = divmod(ordinal - FIRST_REGULAR, 2)
    return f"{4 + number // 100}.{number // 10 % 10}.{number % 10}{'' if released else '-SNAPSHOT'}"


def _text(value: object) -> str:
    return one_line(str(value), TEXT_MAX)


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"
