"""``rocketha pki``: the certificates of a cluster, from an authority in a folder.

What it must not know: how certificates are made (:mod:`rocketha.services.tls.authority`).
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rocketha.access.identity import Identity, make
from rocketha.admin import options, output
from rocketha.admin.commands import DONE, FAILED, Given, actions
from rocketha.errors import ConfigError
from rocketha.services.tls.network import NOT_INSTALLED, installed

if TYPE_CHECKING:
    from rocketha.services.tls.authority import Issued

DAYS, CA_DAYS, DAYS_MAX = 365, 3650, 36500
DEFAULT_CLUSTER, BROKER_NAME = "DefaultCluster", "broker-a"


FOLDER = click.argument("folder", metavar="DIRECTORY")


def _days(default: int) -> options.Decorated:
    days = click.IntRange(1, DAYS_MAX)
    return click.option("--days", type=days, default=default, metavar="N", help=f"Valid so long (default {default}).")


@actions("pki")
@options.JSON
def command() -> None:
    """Make, renew and show the certificates of a cluster, from an authority in a folder."""


@command.command("init")
@FOLDER
@click.option("--name", default="rocketha CA", metavar="NAME", help="Its name (default: rocketha CA).")
@_days(CA_DAYS)
def init(args: Given) -> int:
    """Make an authority: keep its key away from the servers."""
    authority = _authority()
    authority.Authority.make(args.folder, args.name, _now(), args.days)
    return _shown(args, [authority.look(os.path.join(args.folder, "ca.crt"))])


@command.command("issue")
@FOLDER
@click.argument("name")
@click.option("--host", multiple=True, metavar="HOST", help="Where it is reached: a name or an IP address.")
@click.option(
    "--cluster",
    default=DEFAULT_CLUSTER,
    metavar="NAME",
    help=f"brokerClusterName, or * for controllers and nameservers of several (default {DEFAULT_CLUSTER}).",
)
@click.option(
    "--as",
    "identities",
    multiple=True,
    metavar="PART:NAME[:ID]",
    help="Who it is, more than once where one process is several: broker:broker-a, broker:broker-a:2, controller:n0, "
    "nameserver:ns1, operator:ann, client:shop.",
)
@_days(DAYS)
def issue(args: Given) -> int:
    """Make a key, a certificate, and the tls.* keys that use them; NAME is that of the files."""
    made = _authority().Authority(args.folder)
    identities = [_identity(args.cluster, each) for each in args.identities]
    return _shown(args, [made.issue(args.name, args.host, identities, _now(), args.days)])


@command.command("cluster")
@FOLDER
@click.option("--brokers", type=int, default=1, metavar="N", help="Default 1.")
@click.option("--controllers", type=int, default=0, metavar="N", help="Default 0.")
@click.option("--name", default=BROKER_NAME, metavar="NAME", help=f"brokerName (default {BROKER_NAME}).")
@click.option(
    "--cluster", default=DEFAULT_CLUSTER, metavar="NAME", help=f"brokerClusterName (default {DEFAULT_CLUSTER})."
)
@click.option("--host", multiple=True, metavar="HOST", help="As for issue; it is one for all.")
@_days(DAYS)
def cluster(args: Given) -> int:
    """Make all that rocketha-cluster --tls DIRECTORY and its operator need."""
    kind, now = _authority().Authority, _now()
    if not os.path.exists(os.path.join(args.folder, "ca.crt")):
        kind.make(args.folder, "rocketha CA", now, CA_DAYS)
    made = kind(args.folder)
    parts = members(args.cluster, args.name, args.brokers, args.controllers)
    return _shown(args, [made.issue(name, args.host, parts[name], now, args.days) for name in parts])


@command.command("renew")
@FOLDER
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_days(DAYS)
def renew(args: Given) -> int:
    """Make new ones with the same names, or only those of NAME; running servers take them."""
    made, now = _authority().Authority(args.folder), _now()
    return _shown(args, [made.renew(name, now, args.days) for name in args.names or made.names()])


@command.command("show")
@click.argument("path", metavar="FILE|DIRECTORY")
def show(args: Given) -> int:
    """Print what is in certificates, and for how long they are valid."""
    folder = os.path.isdir(args.path)
    paths = [os.path.join(args.path, each) for each in sorted(os.listdir(args.path))] if folder else [args.path]
    look = _authority().look
    return _shown(args, [look(path) for path in paths if not folder or path.endswith(".crt")])


def _authority() -> Any:
    """The module, which wants what may not be installed."""
    if not installed():
        raise ConfigError(NOT_INSTALLED)
    from rocketha.services.tls import authority

    return authority


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _shown(args: Given, found: Sequence[Issued]) -> int:
    """What there is now."""
    now = _now()
    if args.json:
        output.say_json([_as_json(each) for each in found])
    else:
        print("\n".join(line for each in found for line in lines(each, now)))
    return DONE if found else FAILED


def members(cluster: str, broker: str, brokers: int, controllers: int) -> dict[str, list[Identity]]:
    """Who each process of ``rocketha-cluster`` is, by the name of its files, and an operator."""
    parent = [make(cluster, "nameserver", "cluster"), make(cluster, "operator", "cluster")]
    if brokers == 1 and not controllers:
        parent.append(make(cluster, "broker", broker))  # in the same process
    found = {"cluster": parent, "operator": [make(cluster, "operator", "operator")]}
    found |= {f"broker-{number}": [make(cluster, "broker", broker)] for number in range(1, brokers + 1)}
    return found | {f"controller-{n}": [make(cluster, "controller", f"n{n}")] for n in range(1, controllers + 1)}


def _identity(cluster: str, text: str) -> Identity:
    words = text.split(":")
    if not 2 <= len(words) <= 3:
        raise ConfigError(f"--as {text}: PART:NAME or broker:NAME:ID is wanted, such as controller:n0")
    return make(cluster, *words)


def _as_json(issued: Issued) -> dict[str, Any]:
    return {
        "path": issued.path,
        "subject": issued.subject,
        "authority": issued.is_ca,
        "who": [each.uri for each in issued.identities],
        "hosts": list(issued.hosts),
        "begins": issued.begins.isoformat(),
        "ends": issued.ends.isoformat(),
        "issuer": issued.issuer,
        "serial": f"{issued.serial:x}",
    }


def _facts(issued: Issued, now: datetime.datetime) -> list[tuple[str, str]]:
    days = (issued.ends - now).days
    left = f"{days} days left" if issued.ends > now else "it has ended"
    return [
        *(("who", each.uri) for each in issued.identities),
        ("hosts", " ".join(issued.hosts)),
        ("valid", f"{issued.begins:%Y-%m-%d} to {issued.ends:%Y-%m-%d}, {left}"),
        ("issuer", "itself" if issued.issuer == issued.subject else issued.issuer),
        ("serial", f"{issued.serial:x}"),
    ]


def lines(issued: Issued, now: datetime.datetime) -> list[str]:
    """One certificate, for a person."""
    head = f"{issued.path}: {issued.subject}{' (authority)' if issued.is_ca else ''}"
    return [head, *(f"  {name:7}{value}" for name, value in _facts(issued, now) if value)]
