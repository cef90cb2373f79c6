"""``rocketha requests``: which requests a broker serves in which role, from the rows that the code itself runs on.

``docs/requests.rst`` is this command's output, and a test says when it is stale.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from rocketha.broker.role import Gate, Role, gate
from rocketha.broker.routes import ROUTES, Kind, Route

ROLES = {
    "master": (Role.MASTER, False),
    "slave": (Role.SLAVE, False),
    "elected master": (Role.MASTER, True),
    "its slave": (Role.SLAVE, True),
    "without a role": (Role.FENCED, True),
}
"""What a column is called -> a role, and whether there are controllers."""

INTRODUCTION = """\
Written by ``rocketha requests --rst docs/requests.rst`` from the rows of ``rocketha/broker/routes.py`` and the gates of
``rocketha/broker/role.py``. A code that is not named here is served in every role, or answered
REQUEST_CODE_NOT_SUPPORTED. The first two columns of roles are those of ``brokerRole``, the other three those under
controllers. While the log is being cut to match a new master's, requests wait, except those about the role.
*Passed on*: a broker under controllers that is not master may ask the master on the client's behalf
(``forwardSends``). *Disk*: the
thread that fetches messages which are not in memory. The second port (``listenPort`` - 2) serves everything but pulls.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    parser.add_argument("--rst", metavar="FILE", help="write it as a reStructuredText page there instead")


def run(args: argparse.Namespace) -> int:
    """Print, or write the page."""
    if args.rst:
        pathlib.Path(args.rst).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


def page() -> str:
    """The tables."""
    named = [each for each in Kind if each is not Kind.OTHER]
    kinds = [[f"**{each.name}**", each.value, *(_name(gate(each, *role)) for role in ROLES.values())] for each in named]
    routes = [_row(each) for each in sorted(ROUTES.values(), key=lambda route: route.code)]
    gates = [[f"*{_name(each)}*", each.value] for each in Gate]
    parts = ["Requests of a broker", "====================", "", INTRODUCTION]
    parts += ["Kinds", "-----", "", _table(["kind", "what it does", *ROLES], kinds)]
    parts += ["", _table(["word", "means"], gates), ""]
    parts += ["Codes", "-----", "", _table(["code", "name", "kind", "passed on", "disk", "changes"], routes), ""]
    return "\n".join(parts)


def _row(route: Route) -> list[str]:
    fetches = "" if route.fetches is None else route.fetches.name.lower().replace("_", "-")
    return [
        str(int(route.code)), f"``{route.code.name}``", route.kind.name, "yes" if route.forwarded else "", fetches,
        route.changes or "",
    ]  # fmt: skip


def _name(gate: Gate) -> str:
    return gate.name.lower().replace("_", " ")


def _table(head: list[str], rows: list[list[str]]) -> str:
    """A simple table: an empty first cell would begin no row."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
