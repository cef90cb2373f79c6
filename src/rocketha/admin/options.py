"""The options that many commands share, one decorator each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from rocketha.admin.commands import Common
from rocketha.errors import ConfigError

NAMESRV_ENVIRONMENT = "NAMESRV_ADDR"
"""Where the nameservers are when no flag says so, as for RocketMQ's own tools."""
NAMESRV_DEFAULT = "127.0.0.1:9876"

CONTROLLERS_ENVIRONMENT = "ROCKETHA_CONTROLLERS"
CONTROLLERS_DEFAULT = "127.0.0.1:9878"

TLS_ENVIRONMENT = "ROCKETHA_TLS"
CREDENTIALS_ENVIRONMENT = "ROCKETHA_CREDENTIALS"

TIMEOUT_S = 3.0

Decorated = Callable[[Any], Any]

NAMESRV: Decorated = click.option(
    "-n",
    "--namesrv",
    cls=Common,
    metavar="HOST:PORT[;...]",
    envvar=NAMESRV_ENVIRONMENT,
    default=NAMESRV_DEFAULT,
    help=f"The nameservers (default: ${NAMESRV_ENVIRONMENT}, else {NAMESRV_DEFAULT}).",
)
CONTROLLERS: Decorated = click.option(
    "-a",
    "--controllers",
    cls=Common,
    metavar="HOST:PORT[;...]",
    envvar=CONTROLLERS_ENVIRONMENT,
    default=CONTROLLERS_DEFAULT,
    help=f"One or more controllers (default: ${CONTROLLERS_ENVIRONMENT}, else {CONTROLLERS_DEFAULT}).",
)
TIMEOUT: Decorated = click.option(
    "--timeout", cls=Common, type=float, default=TIMEOUT_S, metavar="S", help=f"Per request (default {TIMEOUT_S:g})."
)
JSON: Decorated = click.option(
    "--json", cls=Common, is_flag=True, help="Print JSON, for other programs; errors are a JSON object, too."
)
YES: Decorated = click.option("-y", "--yes", cls=Common, is_flag=True, help="Do it without asking.")


def connection(function: Any) -> Any:
    """``--tls`` and ``--credentials``: how a command connects, and as whom (:mod:`rocketha.admin.secure`)."""
    tls = click.option(
        "--tls",
        cls=Common,
        metavar="FILE",
        envvar=TLS_ENVIRONMENT,
        default="",
        help=f"Connect under TLS, by the tls.client.* keys of this file (default ${TLS_ENVIRONMENT}).",
    )
    credentials = click.option(
        "--credentials",
        cls=Common,
        metavar="FILE",
        envvar=CREDENTIALS_ENVIRONMENT,
        default="",
        help="Sign requests as the user of this file, which has lines accessKey: NAME and secretKey: PASSWORD as "
        f"RocketMQ's tools.yml (default ${CREDENTIALS_ENVIRONMENT}).",
    )
    return tls(credentials(function))


def cluster(function: Any) -> Any:
    """What every command has that asks brokers by way of the nameservers (:mod:`rocketha.admin.cluster`)."""
    return JSON(TIMEOUT(NAMESRV(connection(function))))


def addresses(text: str, option: str) -> list[str]:
    """The addresses of an option; ``;`` separates them as in Java, and ``,`` because shells eat semicolons.

    :raises ConfigError: there is none.
    """
    found = split(text)
    if not found:
        raise ConfigError(f"{option}: at least one HOST:PORT is wanted")
    return found


def split(text: str) -> list[str]:
    """What ``;`` or ``,`` separates."""
    return [each.strip() for each in text.replace(",", ";").split(";") if each.strip()]
