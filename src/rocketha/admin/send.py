"""``rocketha send``: messages from the command line, a file or standard input."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from typing import Any

from rocketha.admin.cli import add_nameserver_argument, nameservers
from rocketha.admin.client import Client
from rocketha.admin.main_loop import Interrupted, run_coroutine
from rocketha.admin.producer import BODY_BYTES_MAX, Message, Producer, Sent
from rocketha.admin.secure import add_connection_arguments, dialer_of
from rocketha.errors import ConfigError
from rocketha.wire import properties

BATCH_BYTES_MAX = BODY_BYTES_MAX - 64 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    add_connection_arguments(parser)
    add_nameserver_argument(parser)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("bodies", metavar="BODY", nargs="*", help="one message each; none: one per line of stdin")
    parser.add_argument("--file", metavar="PATH", help="one message: the contents of this file")
    parser.add_argument("--tags", help="the message's tag, by which consumers filter")
    parser.add_argument("--keys", help="keys for queries, separated by blanks")
    parser.add_argument("--property", metavar="NAME=VALUE", action="append", default=[], help="may be repeated")
    parser.add_argument("--delay-level", type=int, metavar="N", help="deliver later: 1 is 1 s, 2 is 5 s ... 18 is 2 h")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="send everything N times (default 1)")
    parser.add_argument("--queue", type=int, metavar="ID", help="only to queues of this number")
    parser.add_argument("--group", default="rocketha_send", help="the producer group (default rocketha_send)")
    parser.add_argument("--timeout", type=float, default=3.0, metavar="S", help="per request (default 3)")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--batch", action="store_true", help="as one batch: all stored or none, in one queue")
    way.add_argument("--oneway", action="store_true", help="without waiting for an answer")
    parser.add_argument("--quiet", "-q", action="store_true", help="print only what went wrong")


def message_properties(args: argparse.Namespace) -> dict[str, str]:
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


def bodies(args: argparse.Namespace) -> Iterator[bytes]:
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


async def _send_all(reactor: Any, args: argparse.Namespace) -> int:
    client = Client(dialer_of(reactor, args), nameservers(args.namesrv), random.SystemRandom())
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


def run(args: argparse.Namespace) -> int:
    """Send, and say where each message went."""
    if args.count < 1:
        raise ConfigError(f"--count {args.count}: 1 or more is wanted")
    if args.batch and args.queue is not None:
        raise ConfigError("--batch chooses its queue itself")
    message_properties(args)

    async def main(reactor: Any, interrupted: Interrupted) -> int:
        return await _send_all(reactor, args)

    return run_coroutine(main)
