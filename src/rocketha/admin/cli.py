"""The ``rocketha`` command: finds the subcommand's module by name and hands over.

What it must not know: what a subcommand does. A subcommand is a module of this package with
``add_arguments(parser)`` and ``run(args) -> int``, listed in :data:`SUBCOMMANDS`; it is imported only when it is used,
so that ``--help`` is quick.

Exit codes: 0 done, 1 it failed (the reason is on standard error), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import rocketha
from rocketha.errors import ConfigError, RockethaError

SUBCOMMANDS = {
    "send": "send messages",
    "receive": "print messages as they come",
    "clients": "list who is connected to the brokers, what for, and what was refused",
    "controller": "see and manage the controllers: status, why, transfer, members, add, remove",
    "dledger": "see who leads a group in DLedger mode, and hand its leadership over",
    "plan": "reckon what a group in DLedger mode may take in, by its network",
    "pki": "make, renew and show the certificates of a cluster",
    "keys": "print the configuration keys, or those with a word in them",
    "check": "tell whether a broker's configuration would start, and which plug-ins there are",
    "requests": "print which requests a broker serves in which role",
    "metrics": "print rules for Prometheus, or a dashboard for Grafana",
    "formats": "print the layout of every wire and disk format",
    "export": "copy a broker's store, checked, for other programs; again for what came since",
    "pyfiles": "write a zip for spark-submit --py-files, for clusters without rocketha",
    "simulate": "run a cluster with faults in simulated time, from a seed, and check what must hold",
    "fuzz": "attack a format's reader, a port or a file with valid, cut, mutated and hostile values",
}

ENVIRONMENT = "NAMESRV_ADDR"
"""Where the nameservers are when no flag says so, as for RocketMQ's own tools."""

DEFAULT_NAMESERVER = "127.0.0.1:9876"


def add_nameserver_argument(parser: argparse.ArgumentParser) -> None:
    """``--namesrv``, the same for every subcommand that needs it."""
    parser.add_argument(
        "-n",
        "--namesrv",
        metavar="HOST:PORT[;...]",
        default=os.environ.get(ENVIRONMENT) or DEFAULT_NAMESERVER,
        help=f"the nameservers (default: ${ENVIRONMENT}, else {DEFAULT_NAMESERVER})",
    )


def nameservers(text: str) -> list[str]:
    """The addresses of ``--namesrv``; ``;`` separates them as in Java, and ``,`` because shells eat semicolons."""
    return [each.strip() for each in text.replace(",", ";").split(";") if each.strip()]


class _SubcommandParser(argparse.ArgumentParser):
    """Takes words and options in any order: ``send TOPIC --tags A BODY`` too."""

    _mixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What argparse's own parser does where it can take no mixture, such as for subcommands of a subcommand."""
        if self._mixed or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixed = False


def parser_for(command: str | None) -> argparse.ArgumentParser:
    """The parser with the arguments of one subcommand (the others only by name)."""
    parser = argparse.ArgumentParser(prog="rocketha", description="Talk to a RocketMQ cluster, and take formats apart.")
    parser.add_argument("--version", action="version", version=f"rocketha {rocketha.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_SubcommandParser)
    for name, summary in SUBCOMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == command:
            importlib.import_module(f"rocketha.admin.{name}").add_arguments(sub)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = next((each for each in given if not each.startswith("-")), None)
    args = parser_for(command).parse_args(given)
    try:
        return int(importlib.import_module(f"rocketha.admin.{args.command}").run(args))
    except ConfigError as problem:
        print(f"rocketha {args.command}: {problem}", file=sys.stderr)
        return 2
    except RockethaError as problem:
        print(f"rocketha {args.command}: {problem}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Somebody piped us into head. Point stdout elsewhere, or the interpreter complains once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
