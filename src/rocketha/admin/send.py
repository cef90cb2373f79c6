"""``rocketha send``: messages from the command line, a file or standard input."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import click

from rocketha.admin import options
from rocketha.admin.client import Client
from rocketha.admin.commands import Given, only_one
from rocketha.admin.commands import command as declared
from rocketha.admin.main_loop import Interrupted, run_coroutine
from rocketha.admin.producer import BODY_BYTES_MAX, Message, Producer, Sent
from rocketha.admin.secure import dialer_of
from rocketha.errors import ConfigError
from rocketha.wire import properties

BATCH_BYTES_MAX = BODY_BYTES_MAX - 64 * 1024


def message_properties(args: Given) -> dict[str, str]:
    """The properties the flags ask for.

    :raises ConfigError: a flag makes no sense.
    """
    found: dict[str, str] = {}
    for text in args.property:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise ConfigError(f"--property {text!r}: NAME=VALUE is wanted")
        found[name] = value
    if args.tags:
        found[properties.TAGS] = args.tags
    if args.keys:
        found[properties.KEYS] = args.keys
    if args.delay_level is not None:
        if args.delay_level < 1:
            raise ConfigError(f"--delay-level {args.delay_level}: 1 or more is wanted")
        found[properties.DELAY] = str(args.delay_level)
    return found


def bodies(args: Given) -> Iterator[bytes]:
    """What to send, once each.

    :raises ConfigError: there is nothing, or the file cannot be read.
    """
    if args.file is not None:
        try:
            with open(args.file, "rb") as file:
                yield file.read(BODY_BYTES_MAX + 1)
        except OSError as problem:
            raise ConfigError(f"--file {args.file}: {problem.strerror}") from None
    yield from (text.encode("utf-8", "surrogateescape") for text in args.bodies)
    if args.file is None and not args.bodies:
        if sys.stdin.isatty():
            print("one message per line; end with Ctrl-D", file=sys.stderr)
        for line in sys.stdin.buffer:
            body = line.rstrip(b"\r\n")
            if body:
                yield body


def describe(sent: Sent) -> str:
    """One line for a person or for awk."""
    offset = "" if sent.queue_offset is None else f" offset={sent.queue_offset}"
    at = f" id={sent.offset_message_id}" if sent.offset_message_id else ""
    return f"{sent.status} key={sent.message_id} queue={sent.queue}{offset}{at}"


async def _send_all(reactor: Any, args: Given) -> int:
    client = Client(dialer_of(reactor, args), options.addresses(args.namesrv, "--namesrv"), random.SystemRandom())
    producer = Producer(client, args.group)
    named = message_properties(args)
    say = (lambda sent: None) if args.quiet else (lambda sent: print(describe(sent), flush=True))
    collected: list[Message] = []
    try:
        for body in bodies(args):
            message = Message(args.topic, body, named)
            if args.batch:
                collected += [message] * args.count
                if sum(len(each.body) for each in collected) > BATCH_BYTES_MAX:
                    raise ConfigError(f"--batch: more than {BATCH_BYTES_MAX} bytes")
                continue
            for _ in range(args.count):
                if args.oneway:
                    say(await producer.send_oneway(message, args.queue))
                else:
                    say(await producer.send(message, args.queue, args.timeout))
        if collected:
            say(await producer.send_batch(collected, args.timeout))
        await producer.drain()
    finally:
        client.close()
    return 0


@declared("send")
@click.argument("topic")
@click.argument("bodies", metavar="[BODY]...", nargs=-1)
@click.option("--file", metavar="PATH", help="One message: the contents of this file.")
@click.option("--tags", metavar="TAG", help="The message's tag, by which consumers filter.")
@click.option("--keys", metavar="KEYS", help="Keys for queries, separated by blanks.")
@click.option("--property", metavar="NAME=VALUE", multiple=True, help="May be repeated.")
@click.option("--delay-level", type=int, metavar="N", help="Deliver later: 1 is 1 s, 2 is 5 s ... 18 is 2 h.")
@click.option("--count", type=int, default=1, metavar="N", help="Send everything N times (default 1).")
@click.option("--queue", type=int, metavar="ID", help="Only to queues of this number.")
@click.option("--group", default="rocketha_send", metavar="NAME", help="The producer group (default rocketha_send).")
@click.option("--batch", is_flag=True, help="As one batch: all stored or none, in one queue.")
@click.option("--oneway", is_flag=True, help="Without waiting for an answer.")
@click.option("-q", "--quiet", is_flag=True, help="Print only what went wrong.")
@options.TIMEOUT
@options.NAMESRV
@options.connection
def command(args: Given) -> int:
    """Send messages to TOPIC, one for each BODY; without any, one for each line of standard input.

    A line is printed for each: the result, the message's id, its queue and offset.  The first one that fails after its
    retries ends the command.
    """
    only_one(args, ("--batch", "--oneway"))
    if args.count < 1:
        raise ConfigError(f"--count {args.count}: 1 or more is wanted")
    if args.batch and args.queue is not None:
        raise ConfigError("--batch chooses its queue itself")
    message_properties(args)

    async def main(reactor: Any, interrupted: Interrupted) -> int:
        return await _send_all(reactor, args)

    return run_coroutine(main)
