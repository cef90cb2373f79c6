"""The fuzzer at every port of ours where identities and users are demanded: what is sent, and what must hold after.

Theory of operation.  A *door* is a port of one process and a way to speak there: in the clear, or under TLS as a
stranger or with a client's certificate, or with damaged TLS itself.  Requests come unsigned, forged, rightly signed by
users with one right each, and changed after signing.  Beyond what :class:`~rocketha.admin.fuzz_port.PortRun` finds: no
answer is a success for who may not ask; what nobody had a right to change is as it was; each refusal is counted; the
log has nothing that a person must look at; descriptors go back.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from rocketha.access.identity import Part
from rocketha.access.routes import Route
from rocketha.admin.fuzz import BODIES, framed
from rocketha.admin.fuzz_port import PortRun
from rocketha.admin.fuzz_report import PortReport
from rocketha.broker import routes as broker_routes
from rocketha.controller import routes as controller_routes
from rocketha.namesrv import routes as namesrv_routes
from rocketha.services.raft import java_port
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fuzz.case import Case
from rocketha.wire.fuzz.generator import REMOTING, Generator
from rocketha.wire.registry import FORMATS
from tests.choices import check
from tests.fuzz.administration import Administration
from tests.fuzz.signing import SIGNED, Signer
from tests.fuzz.streams import HA, RAFT, Source, Streams, ha, handshake, http, raft
from tests.interop.harness.processes import wait_until
from tests.interop.harness.secured import KEPT, RIGHTS, Secured

PLAIN, STRANGER, CLIENT, OTHER, RECORDS = "plain", "stranger", "client", "other", "records"
SHOWS = {STRANGER: None, CLIENT: "client", OTHER: "other"}
"""Under TLS: whose certificate; other is that of a broker of another name."""
SHARES = {PLAIN: 1.0, STRANGER: 0.35, CLIENT: 0.35, OTHER: 0.2, RECORDS: 0.1}
"""Of the cases at a port in the clear, and under TLS."""
ADMINISTRATION_EACH = 6
"""One in so many cases is a request about users, or one of brokers or operators; root signs what users may ask."""
KNOWN = {f"{prefix}{name}" for prefix in ("", "User:") for name in ("root", "inner", "victim", *RIGHTS)}
ALARMING = re.compile(r"Traceback|Unhandled|#critical|#error")
ITS_OWN = re.compile(r"#error\] broker \S+/fuzz-broker:[0-9]+ has epoch [0-9]+, the controllers know of none after ")
"""What who shows that broker's identity may have an operator told: of its own set, that controllers lost decisions."""
DESCRIPTORS_MORE = 24
BYTES_BACK_MAX = 400
"""Of a stream, for each connection: a refusal with its reason, no log and no table."""
SETTLE_S = 60.0
CLOSE_S = 40.0
GROWTH_MIB = 96


@attrs.frozen
class Door:
    """One.

    :ivar role: the process's name in :meth:`Secured.roles`.
    :ivar kind: what is spoken there: remoting, dledger, raft, ha or http.
    :ivar table: the rows of a remoting port.
    """

    name: str
    role: str
    address: str
    kind: str
    way: str
    table: Mapping[int, Route] = attrs.field(factory=dict)

    def __str__(self) -> str:
        return f"{self.name}:{self.way}"

    @property
    def stream(self) -> bool:
        """Whether each case has a connection of its own."""
        return self.way == RECORDS or self.kind in ("raft", "ha", "http")


def _near(address: str, more: int) -> str:
    host, port = address.rsplit(":", 1)
    return f"{host}:{int(port) + more}"


PORTS: Mapping[str, tuple[str, str, Callable[[Secured], str], Mapping[int, Route]]] = {
    "namesrv": ("namesrv", "remoting", lambda secured: secured.namesrv.address, namesrv_routes.ROUTES),
    "controller": ("controller", "remoting", lambda secured: secured.controller.address, controller_routes.ROUTES),
    "controller-raft": ("controller", "raft", lambda secured: secured.controller.address, {}),
    "broker": ("broker", "remoting", lambda secured: secured.broker.address, broker_routes.ROUTES),
    "broker-fast": ("broker", "remoting", lambda secured: _near(secured.broker.address, -2), broker_routes.ROUTES),
    "broker-ha": ("broker", "ha", lambda secured: _near(secured.broker.address, 1), {}),
    "dledger": ("ledger-0", "dledger", lambda secured: secured.peer(0), java_port.ROUTES),
    "dledger-raft": ("ledger-0", "raft", lambda secured: secured.peer(0), {}),
    "witness": ("witness", "dledger", lambda secured: secured.peer(2), java_port.WITNESS_ROUTES),
    "witness-raft": ("witness", "raft", lambda secured: secured.peer(2), {}),
    "status": ("broker", "http", lambda secured: secured.status("broker"), {}),
}
"""Name -> whose it is, what is spoken there, where it is, and what is answered."""
NAMES = tuple((port, way) for port in PORTS for way in SHARES if port != "status" or way == PLAIN)
"""Port and way of each door."""


def doors(secured: Secured) -> list[Door]:
    """All there are."""
    found = []
    for name, way in NAMES:
        role, kind, address, routes = PORTS[name]
        found.append(Door(name, role, address(secured), kind, way, routes))
    return found


def named(words: Sequence[str]) -> set[str]:
    """The doors that are called PORT or PORT:WAY; all, where none is.

    :raises argparse.ArgumentTypeError: there is no such door.
    """
    check(words, (*PORTS, *(f"{name}:{way}" for name, way in NAMES)), "doors")
    return {f"{name}:{way}" for name, way in NAMES if not words or name in words or f"{name}:{way}" in words}


class Judged(PortReport):
    """A report that knows who may be answered what."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self.door = door
        self.refused = 0

    def answer(self, case: Case, request_code: int, code: int, remark: str | None) -> None:
        super().answer(case, request_code, code, remark)
        self.refused += code == ResponseCode.NO_PERMISSION
        route = self.door.table.get(request_code)
        if code != ResponseCode.SUCCESS or route is None:
            return
        users = isinstance(route, broker_routes.BrokerRoute)
        if self.door.way == OTHER and route.claims is not None and Part.BROKER in route.claims.parts:
            return  # a broker may speak for itself; what it may not change is looked at
        if route.claims is not None and not (users and case.note.startswith(SIGNED)):
            self.found.append(f"{case}: {route.name} is a success, and it is not for {self.door.way}")
        elif users and not case.note.startswith(SIGNED):
            self.found.append(f"{case}: {route.name} is a success without a user's signature")


class Assault:
    """Runs of cases against the doors of one secured RocketMQ."""

    def __init__(self, secured: Secured, seed: int, say: Callable[[str], None] = lambda text: None) -> None:
        self._secured = secured
        self._seed = seed
        self._say = say
        guessed = {name: secured.passwords[name] for name in ("inner", "victim")}
        self._signer = Signer({name: secured.passwords[name] for name in RIGHTS}, guessed)
        self._super = Signer({"root": secured.passwords["root"]}, guessed)
        self._ledgers: dict[str, Generator] = {name: Generator(FORMATS[name], seed) for name in sorted(BODIES)}
        self._remoting = Generator(FORMATS[REMOTING], seed)
        self._sources: dict[str, Source] = {
            "raft": Streams("raft", RAFT, raft),
            "ha": Streams("ha", HA, ha),
            "http": http,
            RECORDS: handshake,
        }

    # ---- cases

    def cases(self, door: Door, first: int, count: int) -> Iterator[Case]:
        """Those with these numbers."""
        numbers = range(first, first + count)
        if door.stream:
            source = self._sources[RECORDS if door.way == RECORDS else door.kind]
            yield from (source(self._seed, index) for index in numbers)
        elif door.kind == "dledger":
            names = (REMOTING, *self._ledgers)
            for index in numbers:
                name = names[index % len(names)]
                if name == REMOTING:
                    yield self._remoting.case(index)
                else:
                    yield from framed(iter((self._ledgers[name].case(index),)), BODIES[name])
        else:
            administration = Administration(door.table)
            for index in numbers:
                if index % ADMINISTRATION_EACH:
                    yield from self._signer.cases((self._remoting.case(index),))
                else:
                    yield from self._super.cases((administration(self._seed, index),))

    # ---- a run

    def run(self, door: Door, first: int, count: int) -> Judged:
        """Send them; what is found is in the report."""
        secured, role = self._secured, self._secured.roles()[door.role]
        before, refused, files = self.state(), self.counted(door), self._files(role.pid)
        log = len(role.log())
        report = Judged(door)
        host, port = door.address.rsplit(":", 1)
        tls = secured.context(SHOWS[door.way]) if door.way in SHOWS else None
        PortRun(
            (host, int(port)),
            self.cases(door, first, count),
            report,
            role.pid,
            lanes=8 if door.stream else 24,
            close_seconds=CLOSE_S,
            tls=tls,
            stream=door.stream,
        ).run()
        report.conclude(GROWTH_MIB, strict=True)
        for line in role.log()[log:].splitlines():
            if ALARMING.search(line) and not (door.way == OTHER and ITS_OWN.search(line)):
                report.found.append(f"log: {line}")
        if role.running():
            self._after(door, report, before, refused, files)
        return report

    def _after(
        self, door: Door, report: Judged, before: Mapping[str, Any], refused: Mapping[str, float], files: int
    ) -> None:
        pid = self._secured.roles()[door.role].pid
        for name, value in self.state().items():
            if value != before[name]:
                report.found.append(f"changed: {name} was {before[name]!r} and is {value!r}")
        after = self.counted(door)
        more = {name: after[name] - refused[name] for name in after}
        if more["requests"] < report.refused:
            report.found.append(f"counted: {report.refused} requests were refused, and {more['requests']:.0f} counted")
        if door.kind == "ha" and report.sent and not more["ended"]:
            report.found.append("counted: no connection that was ended was counted")
        back = report.outcomes["bytes back"]
        if door.kind == "ha" and back and door.way != RECORDS:
            report.found.append(f"shown: {back} bytes of the HA port")
        elif door.kind == "raft" and door.way != RECORDS and back > BYTES_BACK_MAX * (report.sent + 1):
            report.found.append(f"shown: {back} bytes in answer to {report.sent} connections")
        try:
            wait_until("its descriptors to go back", lambda: self._files(pid) <= files + DESCRIPTORS_MORE, SETTLE_S)
        except AssertionError:
            report.found.append(f"descriptors: {files} before, {self._files(pid)} after")

    # ---- what is looked at

    @staticmethod
    def _files(pid: int) -> int:
        return len(os.listdir(f"/proc/{pid}/fd"))

    def state(self) -> Mapping[str, Any]:
        """What nobody who asks here may change."""
        secured = self._secured
        topic, queue = {"topic": KEPT}, {"topic": KEPT, "queueId": "0"}
        found: dict[str, Any] = {}

        def look(
            name: str,
            address: str,
            code: int,
            fields: Mapping[str, str],
            body: bytes = b"",
            read: Callable[[bytes], Any] = _lasting,
        ) -> None:
            reply = secured.ask(address, code, fields, body=body)
            found[name] = reply.code, reply.fields, read(reply.body)

        with secured.speaking("operator"):
            look("route", secured.namesrv.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic)
            look("set", secured.controller.address, RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, b'["broker-a"]')
            for name, address in (
                ("broker", secured.broker.address),
                ("ledger", secured.ledgers.await_master().address),
            ):
                look(f"{name}'s offset", address, RequestCode.GET_MAX_OFFSET, queue)
                look(f"{name}'s topic", address, RequestCode.GET_TOPIC_CONFIG, topic)
                look(f"{name}'s users", address, RequestCode.AUTH_LIST_USER, {}, read=_not_made_here)
                look(f"{name}'s policies", address, RequestCode.AUTH_LIST_ACL, {}, read=_not_made_here)
        return found

    def counted(self, door: Door) -> Mapping[str, float]:
        """What the process has counted of refusals so far."""
        address = self._secured.status(door.role)
        # the port ends the connection that is idle longest when there are many
        end = time.monotonic() + SETTLE_S
        while True:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
                    text = page.read().decode()
                break
            if time.monotonic() > end:
                raise AssertionError(f"no metrics at {address}")
        return {
            "requests": _sum(text, r"rocketha_requests_refused_total\{[^}]*NO_PERMISSION[^}]*\}"),
            "ended": _sum(text, r"rocketha_connections_ended_total\{[^}]*\}"),
        }


def _sum(text: str, series: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{series} (\S+)$", text, re.M))


def _not_made_here(body: bytes) -> list[Any]:
    """Of users: those that no case with a Super user's signature can be about."""
    return [row for row in json.loads(body) if str(row.get("username") or row.get("subject")) in KNOWN]


def _lasting(body: bytes) -> bytes:
    """Without what is another at each look."""
    return re.sub(rb'"(heartbeat|timestamp|alive)[^,}]*', b"", body)
