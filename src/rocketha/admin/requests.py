"""``rocketha requests``: every request that our servers answer, from the rows that they run on.

``docs/requests.rst`` is this command's output, and a test says when it is stale.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import click

from rocketha.access.routes import Asker, Route
from rocketha.admin.commands import Given
from rocketha.admin.commands import command as declared
from rocketha.broker import routes as of_brokers
from rocketha.broker.role import Gate, Role, gate
from rocketha.broker.routes import BrokerRoute, Kind
from rocketha.controller import routes as of_controllers
from rocketha.controller.routes import ControllerRoute
from rocketha.errors import RockethaError
from rocketha.namesrv import routes as of_nameservers
from rocketha.services.raft.java_port import ROUTES as MEMBER_ROUTES
from rocketha.services.raft.java_port import WITNESS_ROUTES
from rocketha.wire.codes import PrivateCode
from rocketha.wire.dledger_values import EXCHANGES, DLedgerRequestCode

R = TypeVar("R", bound=Route)

ROLES = {
    "master": (Role.MASTER, False),
    "slave": (Role.SLAVE, False),
    "elected master": (Role.MASTER, True),
    "its slave": (Role.SLAVE, True),
    "without a role": (Role.FENCED, True),
}
"""What a column is called -> a role, and whether there are controllers."""

INTRODUCTION = """\
Written by ``rocketha requests --rst docs/requests.rst`` from the rows that the servers run on: ``broker/routes.py``,
``controller/routes.py``, ``namesrv/routes.py``. A code that is not here is answered REQUEST_CODE_NOT_SUPPORTED; why
each of Java's that is missing is missing says `Divergence <divergence.md>`_.

*By*: who asks it. Some places for connections are kept for peers and operators (``connectionsMax``).
"""

BROKERS = """\
What a broker does with a request depends on its kind. The first two columns of roles are those of ``brokerRole``, the
other three those under controllers. While the log is being cut to match a new master's, requests wait, except those of
the kind ITSELF. *Passed on*: a broker under controllers that is not master may ask the master on the client's behalf
(``forwardSends``). *Disk*: the thread that fetches messages which are not in memory. *Changes*: the answer is given
when that table is on the disk, and at the replicas. The second port (``listenPort`` - 2) serves everything but pulls.
"""

MEMBERS = """\
In DLedger mode the port of ``dLegerPeers`` answers what Java's members and clients of DLedger ask there
(``services/raft/java_port.py``). Frame and body are those of dledger 0.3.2; the answer's code is in its body. Operators
ask there, too (``rocketha dledger``), in rocketha's own requests: MEMBERS is granted on the broker's own machine only,
unless ``remoteAdminEnable`` is on. A witness answers CLIENTS and LOG_LEVEL there, too.
"""

CONTROLLERS = """\
*Leader*: only the controller that leads answers; the others answer CONTROLLER_NOT_LEADER. *Names*: it tells to which
cluster the broker belongs. *Joins*: a broker that is not known may come in by it, so many at a time from one host.
*Asks first*: whether the present master still serves. *Tells*: the answer may tell a broker that it is the master.
"""


@declared("requests")
@click.argument("word", default="")
@click.option("--rst", metavar="FILE", help="Write it as a reStructuredText page there instead.")
def command(args: Given) -> int:
    """Print which requests a server answers in which role.

    With WORD, a code or a part of a name: only those, and what each server and role does with them.
    """
    if args.rst:
        pathlib.Path(args.rst).write_text(page(), encoding="utf-8")
    elif args.word:
        found = list(described(args.word))
        if not found:
            raise RockethaError(f"none of our servers answers a request {args.word}; see docs/divergence.md")
        sys.stdout.write("\n".join([*found, ""]))
    else:
        sys.stdout.write(page())
    return 0


def described(word: str) -> Iterator[str]:
    """What is to be said of the requests with this code, or with this in their name, a line each.

    A plain text, for one who looks into a log: what the page says in columns.
    """
    tables: tuple[tuple[str, Mapping[int, Route]], ...] = (
        ("broker", of_brokers.ROUTES),
        ("controller", of_controllers.ROUTES),
        ("nameserver", of_nameservers.ROUTES),
        ("witness", {code: WITNESS_ROUTES[code] for code in WITNESS_ROUTES.keys() - MEMBER_ROUTES.keys()}),
    )
    for server, routes in tables:
        for code, route in sorted(routes.items()):
            if word == str(code) or (not word.isdigit() and word.upper() in route.name):
                yield f"{code} {route.name}, answered by a {server}; asked by {route.asker.value}"
                if isinstance(route, BrokerRoute):
                    yield from _broker_lines(route)
                elif isinstance(route, ControllerRoute):
                    yield from (f"    {text}" for value, text in _controller_words(route) if value)


def _broker_lines(route: BrokerRoute) -> Iterator[str]:
    yield f"    kind {route.kind.name}: {route.kind.value}"
    for name, role in ROLES.items():
        yield f"    {name}: {gate(route.kind, *role).value}"
    if route.forwarded:
        yield "    a broker under controllers that is not the master may pass it on to the master"
    if route.fetches is not None:
        yield f"    the thread that fetches what is not in memory: {route.fetches.value}"
    if route.changes:
        yield f"    the answer waits until {route.changes} are on the disk, and at the replicas"


def _controller_words(route: ControllerRoute) -> list[tuple[bool, str]]:
    """The columns of a row, and what each says where it is set."""
    return [
        (route.leader, "only the controller that leads answers"),
        (route.names, "it tells to which cluster the broker belongs"),
        (route.joins, "a broker that is not known may come in by it"),
        (route.doubts, "whether the present master still serves is asked first"),
        (route.tells, "the answer may tell a broker that it is the master"),
    ]


def page() -> str:
    """The tables."""
    askers = [[f"*{each.name.lower()}*", each.value] for each in Asker]
    named = [each for each in Kind if each is not Kind.OTHER]
    kinds = [[f"**{each.name}**", each.value, *(_name(gate(each, *role)) for role in ROLES.values())] for each in named]
    gates = [[f"*{_name(each)}*", each.value] for each in Gate]
    of_broker = ["kind", "passed on", "disk", "changes"]
    of_controller = ["leader", "names", "joins", "asks first", "tells"]
    parts = ["Requests", "========", "", INTRODUCTION, _table(["by", "means"], askers), ""]
    parts += ["Brokers", "-------", "", BROKERS, _table(["kind", "what it does", *ROLES], kinds), ""]
    parts += [_table(["word", "means"], gates), ""]
    parts += [_codes(of_brokers.ROUTES, of_broker, _of_broker), ""]
    parts += ["Controllers", "-----------", "", CONTROLLERS]
    parts += [_codes(of_controllers.ROUTES, of_controller, _of_controller), ""]
    parts += ["Members of a DLedger group", "--------------------------", "", MEMBERS, _members(), ""]
    parts += ["Nameservers", "-----------", "", _codes(of_nameservers.ROUTES, [], lambda route: []), ""]
    return "\n".join(parts)


def _members() -> str:
    rows = [[str(int(code)), f"ROCKETHA_{code.name}"] for code in (PrivateCode.STATUS, PrivateCode.MEMBERS)]
    rows += [[str(int(code)), f"DLEDGER_{DLedgerRequestCode(code).name}"] for code in sorted(EXCHANGES)]
    return _table(["code", "request"], rows)


def _codes(routes: Mapping[int, R], head: list[str], columns: Callable[[R], list[str]]) -> str:
    rows = [
        [str(code), f"``{route.name}``", route.asker.name.lower(), *columns(route)]
        for code, route in sorted(routes.items())
    ]
    return _table(["code", "name", "by", *head], rows)


def _of_broker(route: BrokerRoute) -> list[str]:
    fetches = "" if route.fetches is None else route.fetches.name.lower().replace("_", "-")
    return [route.kind.name, _yes(route.forwarded), fetches, route.changes or ""]


def _of_controller(route: ControllerRoute) -> list[str]:
    return [_yes(value) for value, _ in _controller_words(route)]


def _yes(value: bool) -> str:
    return "yes" if value else ""


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
