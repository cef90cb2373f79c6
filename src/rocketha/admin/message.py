"""``rocketha message``: look up messages, follow what became of them, and watch a topic.

A message has two ids.  The one that its producer made (``UNIQ_KEY``) is looked up by an index, and wants the topic; the
other one, made by the broker, has address and position within the log: 32 hexadecimal digits, of an IPv6 host 56.

Traces.  Producers and consumers that are told to trace send a record of what they did to a topic of its own, under the
message's id as a key.  There records end with U+0002, and fields are separated by U+0001; the first names their kind.

Java: ``mqadmin queryMsgById``, ``queryMsgByUniqueKey``, ``queryMsgByKey``, ``queryMsgTraceById``, ``TraceDataEncoder``.
"""

from __future__ import annotations

import ipaddress
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence

import click

from rocketha.admin import options, output, receive
from rocketha.admin.client import Queue
from rocketha.admin.cluster import Cluster, opened
from rocketha.admin.commands import DONE, Given, actions
from rocketha.admin.main_loop import run_with
from rocketha.admin.received import Received, received
from rocketha.broker import names
from rocketha.errors import ConfigError, RockethaError
from rocketha.wire import properties, record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import LONG_MAX

FOUND_MAX = 64
BROKER_ID = re.compile(r"(?:[0-9A-F]{32}|[0-9A-F]{56})", re.IGNORECASE)
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@actions("message")
@options.cluster
def command() -> None:
    """Look up messages, follow what became of them, and watch a topic."""


def at_broker(text: str) -> tuple[str, int]:
    """``host:port`` and position within the log, out of an id that a broker made.

    :raises ConfigError: it is none.
    """
    if not BROKER_ID.fullmatch(text):
        raise ConfigError(f"{text!r} is no id of 32 or 56 hexadecimal digits; for other ids --topic is wanted")
    data = bytes.fromhex(text)
    host, port, offset = data[:-12], int.from_bytes(data[-12:-8], "big"), int.from_bytes(data[-8:], "big")
    if not 0 < port < 65536 or offset > LONG_MAX:
        raise ConfigError(f"{text!r} is no id that a broker made; for other ids --topic is wanted")
    address = ipaddress.ip_address(host)
    return (f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"), offset


@command.command("show")
@click.argument("id")
@click.option("--topic", default="", metavar="NAME", help="Needed for an id that a producer made.")
@run_with(opened)
async def show(cluster: Cluster, args: Given) -> int:
    """Show a message by one of its ids."""
    if args.topic:
        found = await by_key(cluster, args.topic, args.id, unique=True)
    else:
        address, offset = at_broker(args.id)
        answer = await cluster.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, {"topic": "", "offset": str(offset)})
        found = list(messages("-", answer.body))
    return _print(args, found, f"no message {args.id}", whole=True)


@command.command("query")
@click.argument("topic")
@click.option("--key", required=True, metavar="KEY", help="One of the message's keys.")
@click.option("--max", "most", type=click.IntRange(1, FOUND_MAX), default=32, metavar="N", help="Default 32.")
@click.option(
    "--from", "begin", metavar="TIME", help="Stored since, in local time such as 2026-01-31T12:00 (UTC with a Z)."
)
@click.option("--to", "end", metavar="TIME", help="Stored until.")
@run_with(opened)
async def query(cluster: Cluster, args: Given) -> int:
    """Find the messages of TOPIC that have a key."""
    begin, end = _time(args.begin, "--from", 0), _time(args.end, "--to", LONG_MAX)
    found = await by_key(cluster, args.topic, args.key, args.most, begin, end)
    return _print(args, found, f"no message of {args.topic} has the key {args.key}")


def _time(text: str | None, option: str, default: int) -> int:
    if text is None:
        return default
    when = receive.parse_start(text)
    if isinstance(when, str):
        raise ConfigError(f"{option} {text!r}: a time such as 2026-01-31T12:00 is wanted")
    return when


async def by_key(
    cluster: Cluster,
    topic: str,
    key: str,
    most: int = 32,
    begin_ms: int = 0,
    end_ms: int = LONG_MAX,
    unique: bool = False,
) -> list[Received]:
    """Messages by a key, of all brokers of a topic, oldest first.

    An index has hashes of keys: others that have the same are left out here.

    :param unique: the key is an id that a producer made.
    """
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": str(most),
        "beginTimestamp": str(begin_ms),
        "endTimestamp": str(end_ms),
    }
    if unique:
        fields["_UNIQUE_KEY_QUERY"] = "true"
    accepted = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    found: list[Received] = []
    for name, _, address in await cluster.of_topic(topic):
        answer = await cluster.ask(address, RequestCode.QUERY_MESSAGE, fields, accepted=accepted)
        if answer.code == ResponseCode.SUCCESS:
            found += [each for each in messages(name, answer.body) if _has(each, key, unique)]
    return sorted(found, key=lambda each: (each.store_timestamp_ms, each.queue, each.queue_offset))


def _has(message: Received, key: str, unique: bool) -> bool:
    if unique:
        return message.properties.get(properties.UNIQUE_KEY) == key
    return key in message.properties.get(properties.KEYS, "").split()


def messages(broker: str, body: bytes) -> Iterator[Received]:
    """The records of an answer."""
    for _, each in record.scan(body):
        yield received(Queue(each.topic, broker, each.queue_id), each)


def _print(args: Given, found: Sequence[Received], nothing: str, whole: bool = False) -> int:
    if not found:
        raise RockethaError(nothing)
    if args.json:
        output.say_json([json.loads(receive.as_json(each)) for each in found])
        return DONE
    for each in found:
        sys.stdout.write(receive.as_text(each).decode() + "\n")
        if whole:
            for name, value in sorted(each.properties.items()):
                print(output.clean(f"    {name}={value}"))
    return DONE


# -- traces

FIELDS: dict[str, tuple[str, ...]] = {
    "Pub": (
        "time",
        "region",
        "group",
        "topic",
        "id",
        "tags",
        "keys",
        "storeHost",
        "bodyLength",
        "costMs",
        "messageType",
        "offsetMessageId",
        "success",
        "clientHost",
    ),
    "SubBefore": ("time", "region", "group", "requestId", "id", "retryTimes", "keys", "clientHost"),
    "SubAfter": ("requestId", "id", "costMs", "success", "keys", "contextCode", "time", "group"),
    "EndTransaction": (
        "time",
        "region",
        "group",
        "topic",
        "id",
        "tags",
        "keys",
        "storeHost",
        "messageType",
        "transactionId",
        "transactionState",
        "fromCheck",
    ),
    "Recall": ("time", "region", "group", "topic", "id", "success"),
}
"""Kind of a trace record to its fields; newer clients append to them."""
WHAT = {"Pub": "sent", "SubBefore": "received", "SubAfter": "consumed", "EndTransaction": "ended", "Recall": "recalled"}


def traces(body: str, wanted: str) -> list[dict[str, str]]:
    """The records about a message in what a client sent to the trace topic."""
    found = []
    for text in body.split("\x02"):
        kind, *values = text.split("\x01")
        names_of = FIELDS.get(kind)
        if names_of is not None:
            row = {"kind": kind, **dict(zip(names_of, values, strict=False))}
            if row.get("id") == wanted:
                found.append(row)
    return found


@command.command("trace")
@click.argument("id")
@click.option("--trace-topic", default=names.TRACE_TOPIC, metavar="NAME", help=f"Default {names.TRACE_TOPIC}.")
@run_with(opened)
async def trace(cluster: Cluster, args: Given) -> int:
    """Show who sent a message and who consumed it, as clients that trace have told.

    ID is the one that the producer made.
    """
    told = await by_key(cluster, args.trace_topic, args.id, FOUND_MAX)
    found = [row for each in told for row in traces(each.body.decode("utf-8", "replace"), args.id)]
    if not found:
        raise RockethaError(f"no client has told of {args.id}: tracing may be off")
    started = {row["requestId"]: row for row in found if row["kind"] == "SubBefore" and "requestId" in row}
    for row in found:
        before = started.get(row.get("requestId", ""), {})
        if row["kind"] == "SubAfter":
            row.update({key: before[key] for key in ("group", "clientHost") if key in before and key not in row})
    found.sort(key=lambda row: _milliseconds(row) or 0)
    rows = [_trace_row(each) for each in found]
    output.show(args, found, ("WHEN", "WHAT", "GROUP", "CLIENT", "TOOK", "SUCCESS"), rows)
    return DONE


def _trace_row(row: dict[str, str]) -> output.Row:
    when = _milliseconds(row)
    took = f"{row['costMs']} ms" if row.get("costMs") else "-"
    success = row.get("success") or row.get("transactionState")
    at = receive.moment(when) if when is not None else "-"
    return (at, WHAT[row["kind"]], row.get("group"), row.get("clientHost"), took, success)


def _milliseconds(row: dict[str, str]) -> int | None:
    text = row.get("time", "")
    return int(text) if text.isascii() and text.isdigit() else None


# -- watching


def ago(text: str, now_ms: int) -> int:
    """``--since``: milliseconds since 1970, out of such as 30s, 5m, 2h or 1d.

    :raises ConfigError: it is none.
    """
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS_S or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise ConfigError(f"--since {text!r}: such as 30s, 5m, 2h or 1d is wanted")
    return max(0, now_ms - int(number) * UNITS_S[unit] * 1000)


@command.command("tail")
@click.argument("topic")
@click.option("--since", metavar="TIME", help="Begin so long ago, such as 5m or 2h (default: now).")
@click.option("--tags", default="", metavar="A||B", help="Only messages with one of these tags.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="Stop after N messages.")
@click.option("--idle", type=float, metavar="S", help="Stop when nothing came for S seconds.")
def tail(args: Given) -> int:
    """Print the messages of TOPIC as they come, until Ctrl-C; with --json one object a line.

    All queues are read, and no group's offsets are touched.
    """
    start: str | int = ago(args.since, time.time_ns() // 1_000_000) if args.since else "last"
    return receive.print_as_they_come(args, None, start, "json" if args.json else "text")
