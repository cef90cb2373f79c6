"""``rocketha cluster``: every process of a cluster, as it is."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, closing
from typing import Any

import click

from rocketha.admin import options, output, status_page
from rocketha.admin.commands import DONE, FAILED, Common, Given, actions
from rocketha.admin.looking import Looker
from rocketha.admin.main_loop import run_with
from rocketha.admin.picture import Picture
from rocketha.admin.secure import dialer_of
from rocketha.errors import ConfigError
from rocketha.protocols.remoting_client import RemotingClient


def whole(function: Any) -> Any:
    """The options of commands that look at a whole cluster."""
    for option in (
        options.connection,
        options.JSON,
        click.option(
            "-b",
            "--broker",
            cls=Common,
            metavar="HOST:PORT[;...]",
            default="",
            help="Brokers to be asked besides those that are registered.",
        ),
        click.option(
            "-a",
            "--controllers",
            cls=Common,
            metavar="HOST:PORT[;...]",
            envvar=options.CONTROLLERS_ENVIRONMENT,
            default="",
            help=f"Controllers (default: ${options.CONTROLLERS_ENVIRONMENT}, else those that brokers name).",
        ),
        options.NAMESRV,
    ):
        function = option(function)
    return function


def wall_ms() -> int:
    """ms since 1970."""
    return time.time_ns() // 1_000_000


class Connected:
    """A command's connections to a cluster, as its options say.

    :ivar client: carries requests.
    :ivar reactor: counts time.
    """

    def __init__(self, reactor: Any, args: Given) -> None:
        self.reactor = reactor
        self.client = RemotingClient(dialer_of(reactor, args))

    def close(self) -> None:
        """End all connections."""
        self.client.close()

    async def look(self, args: Given, pause_s: float = 0.0) -> Picture:
        """The cluster that the options name.

        :raises ConfigError: they name nobody.
        """
        names, controllers, brokers = map(options.split, (args.namesrv, args.controllers, args.broker))
        if not (names or controllers or brokers):
            raise ConfigError("--namesrv, --controllers or --broker: at least one HOST:PORT is wanted")
        return await Looker(self.client, self.reactor, wall_ms, pause_s).picture(names, controllers, brokers)


def connected(reactor: Any, args: Given) -> AbstractContextManager[Connected]:
    """For :func:`~rocketha.admin.main_loop.run_with`."""
    return closing(Connected(reactor, args))


@actions("cluster")
@whole
def command() -> None:
    """See every process of a cluster."""


@command.command("status")
@run_with(connected)
async def status(cluster: Connected, args: Given) -> int:
    """Every nameserver, controller and broker: version, clock, role, epoch, who is in sync, log and lag.

    What did not answer, or does not tell, is "-". What controllers say of broker sets while none of them leads is
    marked STALE. Exit code 1: somebody did not answer.
    """
    picture = await cluster.look(args)
    if args.json:
        output.say_json(status_page.as_json(picture))
    else:
        print("\n".join(status_page.lines(picture)))
    processes = list(picture.processes)
    return DONE if processes and not any(each.problem or each.refused for each in processes) else FAILED
