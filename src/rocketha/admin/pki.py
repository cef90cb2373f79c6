"""``rocketha pki``: the certificates of a cluster, from an authority in a folder.

What it must not know: how certificates are made (:mod:`rocketha.services.tls.authority`).
"""

from __future__ import annotations

import argparse
import datetime
import os
from typing import TYPE_CHECKING

from rocketha.access.identity import Identity, make
from rocketha.errors import ConfigError
from rocketha.services.tls.network import NOT_INSTALLED, installed

if TYPE_CHECKING:
    from rocketha.services.tls.authority import Issued

DAYS, CA_DAYS, DAYS_MAX = 365, 3650, 36500
DEFAULT_CLUSTER, BROKER_NAME = "DefaultCluster", "broker-a"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    init = commands.add_parser("init", help="make an authority: keep its key away from the servers")
    init.add_argument("folder", metavar="DIRECTORY")
    init.add_argument("--name", default="rocketha CA", help="its name (default: rocketha CA)")
    init.add_argument("--days", type=int, default=CA_DAYS, metavar="N", help=f"default {CA_DAYS}")
    issue = commands.add_parser("issue", help="make a key, a certificate, and the tls.* keys that use them")
    issue.add_argument("folder", metavar="DIRECTORY")
    issue.add_argument("name", metavar="NAME", help="of the files")
    issue.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="where it is reached: a name or an IP address",
    )
    issue.add_argument(
        "--cluster",
        default=DEFAULT_CLUSTER,
        help=f"brokerClusterName, or * for controllers and nameservers of several (default {DEFAULT_CLUSTER})",
    )
    issue.add_argument(
        "--as",
        dest="identities",
        action="append",
        default=[],
        metavar="PART:NAME[:ID]",
        help="who it is, more than once where one process is several: broker:broker-a, broker:broker-a:2, "
        "controller:n0, nameserver:ns1, operator:ann, client:shop",
    )
    issue.add_argument("--days", type=int, default=DAYS, metavar="N", help=f"default {DAYS}")
    cluster = commands.add_parser(
        "cluster", help="make all that rocketha-cluster --tls DIRECTORY and its operator need"
    )
    cluster.add_argument("folder", metavar="DIRECTORY")
    cluster.add_argument("--brokers", type=int, default=1, metavar="N", help="default 1")
    cluster.add_argument("--controllers", type=int, default=0, metavar="N", help="default 0")
    cluster.add_argument("--name", default=BROKER_NAME, help=f"brokerName (default {BROKER_NAME})")
    cluster.add_argument("--cluster", default=DEFAULT_CLUSTER, help=f"brokerClusterName (default {DEFAULT_CLUSTER})")
    cluster.add_argument("--host", action="append", default=[], metavar="HOST", help="as for issue; it is one for all")
    cluster.add_argument("--days", type=int, default=DAYS, metavar="N", help=f"default {DAYS}")
    renew = commands.add_parser("renew", help="make new ones with the same names; running servers take them")
    renew.add_argument("folder", metavar="DIRECTORY")
    renew.add_argument("names", metavar="NAME", nargs="*", help="default: all")
    renew.add_argument("--days", type=int, default=DAYS, metavar="N", help=f"default {DAYS}")
    show = commands.add_parser("show", help="print what is in certificates, and for how long they are valid")
    show.add_argument("path", metavar="FILE|DIRECTORY")


def run(args: argparse.Namespace) -> int:
    """Do it, and print what there is now."""
    if not installed():
        raise ConfigError(NOT_INSTALLED)
    from rocketha.services.tls.authority import Authority, look

    now = datetime.datetime.now(datetime.UTC)
    if args.action != "show" and not 1 <= args.days <= DAYS_MAX:
        raise ConfigError(f"--days {args.days}: 1 to {DAYS_MAX}")
    match args.action:
        case "init":
            Authority.make(args.folder, args.name, now, args.days)
            found = [look(os.path.join(args.folder, "ca.crt"))]
        case "issue":
            identities = [_identity(args.cluster, each) for each in args.identities]
            found = [Authority(args.folder).issue(args.name, args.host, identities, now, args.days)]
        case "cluster":
            if not os.path.exists(os.path.join(args.folder, "ca.crt")):
                Authority.make(args.folder, "rocketha CA", now, CA_DAYS)
            authority = Authority(args.folder)
            parts = members(args.cluster, args.name, args.brokers, args.controllers)
            found = [authority.issue(name, args.host, parts[name], now, args.days) for name in parts]
        case "renew":
            authority = Authority(args.folder)
            found = [authority.renew(name, now, args.days) for name in args.names or authority.names()]
        case _:
            folder = os.path.isdir(args.path)
            paths = [os.path.join(args.path, each) for each in sorted(os.listdir(args.path))] if folder else [args.path]
            found = [look(path) for path in paths if not folder or path.endswith(".crt")]
    print("\n".join(line for each in found for line in lines(each, now)))
    return 0 if found else 1


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


def lines(issued: Issued, now: datetime.datetime) -> list[str]:
    """One certificate, for a person."""
    days = (issued.ends - now).days
    left = f"{days} days left" if issued.ends > now else "it has ended"
    facts = [
        *(("who", each.uri) for each in issued.identities),
        ("hosts", " ".join(issued.hosts)),
        ("valid", f"{issued.begins:%Y-%m-%d} to {issued.ends:%Y-%m-%d}, {left}"),
        ("issuer", "itself" if issued.issuer == issued.subject else issued.issuer),
        ("serial", f"{issued.serial:x}"),
    ]
    head = f"{issued.path}: {issued.subject}{' (authority)' if issued.is_ca else ''}"
    return [head, *(f"  {name:7}{value}" for name, value in facts if value)]
