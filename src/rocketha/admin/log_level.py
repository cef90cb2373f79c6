"""``rocketha log-level``: what a running nameserver, broker, controller or witness logs."""

from __future__ import annotations

from contextlib import closing

import click

from rocketha.admin import options, output
from rocketha.admin.client import LEARNER, NETWORK_ERRORS, NoAnswer, RequestFailed, plain
from rocketha.admin.commands import DONE, Given
from rocketha.admin.commands import command as declared
from rocketha.admin.main_loop import run_with
from rocketha.admin.secure import dialer_of
from rocketha.observe.logging import LEVELS
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire.codes import PrivateCode


async def level(client: RemotingClient, address: str, wanted: str | None, timeout_s: float = 3.0) -> str:
    """The level that a process logs at, after a change where one is wanted.

    :raises RequestFailed: it refuses, or is one of Java's.
    :raises NoAnswer: it does not answer.
    """
    fields = {} if wanted is None else {"level": wanted}
    try:
        answer = await client.request(address, PrivateCode.LOG_LEVEL, fields, timeout_s=timeout_s)
    except NETWORK_ERRORS as problem:
        raise NoAnswer(f"{plain(problem)} ({LEARNER})") from problem
    if answer.code != 0:
        raise RequestFailed(answer.code, answer.remark, address)
    return answer.fields["level"]


@declared("log-level")
@click.argument("address", metavar="HOST:PORT")
@click.argument("level", metavar="[LEVEL]", required=False, type=click.Choice(LEVELS))
@options.JSON
@options.TIMEOUT
@options.connection
@run_with(lambda reactor, args: closing(RemotingClient(dialer_of(reactor, args))))
async def command(client: RemotingClient, args: Given) -> int:
    """Show or change what a running process logs: critical, error, warn, info, debug or trace.

    HOST:PORT is a port for requests: of a nameserver, a broker, a controller, or, for a witness, its address in
    dLegerPeers.  A learner has none: it logs what --log-level said at its start.

    A change is in its log, and lasts until the process ends. Without identities and users it is granted on the
    process's own machine only.
    """
    found = await level(client, args.address, args.level, args.timeout)
    output.say(args, f"{args.address} logs {found} and what is worse", address=args.address, level=found)
    return DONE
