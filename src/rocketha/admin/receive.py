"""``rocketha receive``: print messages as they come, alone or as a member of a consumer group."""

from __future__ import annotations

import base64
import datetime
import random
import sys
from typing import Any

import click
import orjson
from twisted.internet.defer import Deferred

from rocketha.admin import options
from rocketha.admin.client import Client
from rocketha.admin.commands import Given
from rocketha.admin.commands import command as declared
from rocketha.admin.consumer import Consumer
from rocketha.admin.main_loop import Interrupted, run_coroutine
from rocketha.admin.received import Received
from rocketha.admin.secure import dialer_of
from rocketha.admin.subscription import Subscription
from rocketha.errors import ConfigError
from rocketha.wire import properties


def parse_start(text: str) -> str | int:
    """``--from``: first, last, or milliseconds since 1970.

    :raises ConfigError: it is none of them.
    """
    if text in ("first", "last"):
        return text
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"--from {text!r}: first, last or a time such as 2026-01-31T12:00 is wanted") from None


def moment(milliseconds: int) -> str:
    """A timestamp in ISO 8601, UTC; one that no calendar has is shown as the number."""
    try:
        when = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_text(message: Received) -> bytes:
    """One line: where, when, tags and keys, body. What a terminal would act upon is escaped."""
    named = message.properties
    shown = (("tags", properties.TAGS), ("keys", properties.KEYS))
    extra = "".join(f" {label}={named[name]}" for label, name in shown if name in named)
    again = f" again={message.reconsume_times}" if message.reconsume_times else ""
    body = message.body.decode("utf-8", "backslashreplace")
    line = f"{message.queue}#{message.queue_offset} {moment(message.store_timestamp_ms)}{extra}{again} {body}"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line).encode("utf-8", "replace")


def as_json(message: Received) -> bytes:
    """One JSON object; a body that is not UTF-8 comes as base64."""
    record: dict[str, Any] = {
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue_id": message.queue.queue_id,
        "queue_offset": message.queue_offset,
        "id": message.offset_message_id,
        "born": moment(message.born_timestamp_ms),
        "stored": moment(message.store_timestamp_ms),
        "reconsume_times": message.reconsume_times,
        "properties": dict(message.properties),
    }
    try:
        record["body"] = message.body.decode("utf-8")
    except UnicodeDecodeError:
        record["body_base64"] = base64.b64encode(message.body).decode("ascii")
    return orjson.dumps(record)


FORMATS = {"text": as_text, "json": as_json, "body": lambda message: message.body}


class _Printer:
    """Prints, counts, and knows when it is enough."""

    def __init__(self, reactor: Any, form: str, count: int | None, idle_s: float | None) -> None:
        self.enough: Deferred[None] = Deferred()
        self._reactor = reactor
        self._format = FORMATS[form]
        self._left = count
        self._idle = idle_s
        self._timer = None if idle_s is None else reactor.callLater(idle_s, self.stop)

    def deliver(self, message: Received) -> bool:
        """Print one message; False, and not printed, when there is enough already."""
        if self.enough.called:
            return False
        sys.stdout.buffer.write(self._format(message) + b"\n")
        sys.stdout.buffer.flush()
        if self._timer is not None and self._timer.active():
            self._timer.reset(self._idle)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.stop()
        return True

    def stop(self) -> None:
        """It is enough."""
        if not self.enough.called:
            if self._timer is not None and self._timer.active():
                self._timer.cancel()
            self.enough.callback(None)


@declared("receive")
@click.argument("topic")
@click.option(
    "--group",
    metavar="NAME",
    help="Share the queues with this consumer group and commit offsets; else read all.",
)
@click.option(
    "--from",
    "start",
    default="last",
    metavar="WHERE",
    help="Where to begin without a committed offset: first, last (default), or a local time such as 2026-01-31T12:00 "
    "(UTC with a Z).",
)
@click.option("--tags", default="", metavar="A||B", help="Only messages with one of these tags.")
@click.option("--count", type=int, metavar="N", help="Stop after N messages.")
@click.option("--idle", type=float, metavar="S", help="Stop when nothing came for S seconds.")
@click.option("--format", type=click.Choice(tuple(FORMATS)), default="text", help="Default text.")
@options.NAMESRV
@options.connection
def command(args: Given) -> int:
    """Print the messages of TOPIC as they come, until Ctrl-C, --count or --idle."""
    if args.count is not None and args.count < 1:
        raise ConfigError(f"--count {args.count}: 1 or more is wanted")
    return print_as_they_come(args, args.group, parse_start(args.start), args.format)


def print_as_they_come(args: Given, group: str | None, start: str | int, form: str) -> int:
    """Receive until there is enough, or until Ctrl-C.

    :param args: with ``topic``, ``tags``, ``count``, ``idle`` and how to connect.
    :param form: one of :data:`FORMATS`.
    """
    tags = tuple(part.strip() for part in args.tags.split("||") if part.strip() and part.strip() != "*")
    subscription = Subscription(args.topic, group, tags, start)

    async def main(reactor: Any, interrupted: Interrupted) -> int:
        client = Client(dialer_of(reactor, args), options.addresses(args.namesrv, "--namesrv"), random.SystemRandom())
        printer = _Printer(reactor, form, args.count, args.idle)
        consumer = Consumer(client, subscription, printer.deliver)

        async def finish() -> None:
            await consumer.stop()
            client.close()

        try:
            await consumer.start()
        except BaseException:
            client.close()
            raise
        interrupted.finish = finish
        await printer.enough
        interrupted.finish = None
        await finish()
        return 0

    return run_coroutine(main)
