"""A whole RocketMQ of ours with identities and users on, as processes: what each port lets in, and what none shows.

One set of processes for all tests; the search for secrets comes last, over all that the others left behind.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import traceback
import unittest
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import attrs
from twisted.python import usage

from rocketha.access.policies import Action
from rocketha.access.routes import Asker, Route
from rocketha.access.signature import sign, signed
from rocketha.admin import fuzz_port
from rocketha.admin.fuzz_port import MAY_STAY_SILENT
from rocketha.broker.routes import ROUTES, BrokerRoute, Kind
from rocketha.services.broker.tap import Options as BrokerOptions
from rocketha.wire import remoting
from rocketha.wire.codes import ResponseCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.fuzz import requests
from rocketha.wire.fuzz.request_table import NAMES, REQUESTS
from tests.broker.test_needs import BODIES, FIELDS, needs
from tests.fuzz.doors import OTHER, PLAIN, SHOWS, Assault, Door, doors
from tests.interop.harness.leaks import Leaks
from tests.interop.harness.roles import our_environment
from tests.interop.harness.secured import CREATE_ACL, CREATE_USER, Secured

SEED = int(os.environ.get("ROCKETHA_FUZZ_SEED") or int.from_bytes(os.urandom(4), "big"))
CASES = int(os.environ.get("ROCKETHA_FUZZ_ACCESS_CASES", "60"))
ANSWER_S = 20
REFUSED = re.compile(
    r"has no permission to access|is not for|username cannot be null|check signature failed|is not found\."
)
ACTIONS = list(Action)
BINARY_CODE_MAX = 1 << 15
LEADING_AWAY = ("../../elsewhere", "/tmp/elsewhere", "a/../../elsewhere", "..", "elsewhere\0x", "%2e%2e/elsewhere")


@attrs.frozen
class Question:
    """A request.

    :ivar user: name and password of who signs it; without a password, an unsigned claim to be him.
    :ivar binary: with the packed header.
    """

    route: Route
    binary: bool
    fields: Mapping[str, str] = attrs.field(repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    user: tuple[str, str | None] | None = None

    def frame(self, opaque: int) -> bytes:
        """As it is sent."""
        given = dict(self.fields)
        if self.user is not None:
            given["AccessKey"] = self.user[0]
            if self.user[1] is not None:
                given["Signature"] = sign(self.user[1], signed(given, self.body))
        command = remoting.request(self.route.code, given, self.body)
        command.opaque = opaque
        return remoting.encode(command, self.binary)

    def __str__(self) -> str:
        who = "nobody" if self.user is None else self.user[0]
        return f"{self.route.name}, {'packed' if self.binary else 'JSON'}, of {who}"


def questions(
    table: Mapping[int, Route],
    fields: Mapping[str, str] = FIELDS,
    user: tuple[str, str | None] | None = None,
    name: str = "",
) -> Iterator[Question]:
    """Every code of a table, with a JSON header and, where the code fits in, with the packed one.

    :param name: stands in bodies in place of each name there.
    """
    for code, route in table.items():
        value = BODIES.get(code)
        body = b"" if value is None else json.dumps(renamed(value, name) if name else value).encode()
        for binary in (False, True)[: 1 + (code < BINARY_CODE_MAX)]:
            yield Question(route, binary, fields, body, user)


def renamed_questions(table: Mapping[int, Route], user: tuple[str, str], name: str) -> Iterator[Question]:
    """Requests as they should be but for one name in each: in one of its fields, or all in its body."""
    chance = Random(name)
    for code, route in table.items():
        if code in REQUESTS and code not in MAY_STAY_SILENT:
            for field, kind in REQUESTS[code][0].items():
                if kind in NAMES:
                    head, body = requests.make(chance, 0, code)
                    fields = {**head["extFields"], field: name}
                    yield Question(route, chance.random() < 0.5 and code < BINARY_CODE_MAX, fields, body, user)
    yield from questions(table, FIELDS, user, name)


def renamed(value: Any, name: str) -> Any:
    """With another text in place of each."""
    if isinstance(value, dict):
        return {key: renamed(item, name) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, name) for item in value]
    return name if isinstance(value, str) else value


class Speaker:
    """A connection that asks.

    :param before: what it says first.
    """

    def __init__(self, address: str, tls: ssl.SSLContext | None = None, before: bytes = b"") -> None:
        host, port = address.rsplit(":", 1)
        sock = socket.create_connection((host, int(port)), ANSWER_S)
        self._sock = sock if tls is None else tls.wrap_socket(sock, server_hostname=host)
        self._sock.settimeout(ANSWER_S)
        self._buffer = FrameBuffer()
        self._opaque = 0
        self._sock.sendall(before)

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *exception: object) -> None:
        self._sock.close()

    def ask(self, questions: Iterable[Question]) -> Iterator[tuple[Question, remoting.Command]]:
        """All of them, one behind the other, and what each is answered."""
        waiting: dict[int, Question] = {}
        data = b""
        for question in questions:
            self._opaque += 1
            waiting[self._opaque] = question
            data += question.frame(self._opaque)
        self._sock.sendall(data)
        while waiting:
            data = self._sock.recv(1 << 16)
            if not data:
                raise ConnectionError(f"closed before {next(iter(waiting.values()))} was answered")
            for frame in self._buffer.feed(data):
                answer = remoting.decode(frame)
                if answer.is_response and answer.opaque in waiting:
                    yield waiting.pop(answer.opaque), answer


@attrs.frozen
class Port:
    """A port of a broker, and how it is spoken to."""

    name: str
    address: str
    tls: ssl.SSLContext | None
    fast: bool


class SecuredTests(unittest.TestCase):
    """See the module."""

    secured: Secured
    users: Mapping[str, tuple[str, str]]

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-secured-")
        cls.addClassCleanup(folder.cleanup)
        inner = Path(folder.name) / "cluster"  # nobody else writes to the directory that it is in
        inner.mkdir()
        cls.secured = Secured(inner)
        cls.addClassCleanup(cls.secured.stop)
        cls.secured.start()
        cls.make_users()

    # ---- rights

    def ports(self) -> Iterator[Port]:
        """Each that users reach, in the clear and under TLS, with and without a client's certificate."""
        secured = self.secured
        with secured.speaking("operator"):
            ledger = secured.ledgers.await_master().address
        for name, address in (("broker", secured.broker.address), ("ledger", ledger)):
            host, port = address.rsplit(":", 1)
            for which, number in (("main", int(port)), ("fast", int(port) - 2)):
                for how, tls in (
                    ("plain", None),
                    ("TLS", secured.context()),
                    ("client", secured.context("client")),
                ):
                    yield Port(f"{name} {which} {how}", f"{host}:{number}", tls, which == "fast")

    @classmethod
    def make_users(cls) -> None:
        """One for each action, who may do that with everything; and one who may do nothing."""
        made = {f"only-{action.value}": action for action in ACTIONS}
        cls.users = {name: (name, f"{name}-password") for name in (*made, "none")}
        with cls.secured.speaking("operator"):
            for address in (cls.secured.broker.address, cls.secured.ledgers.await_master().address):
                for name, (_, password) in cls.users.items():
                    body = json.dumps({"password": password, "userType": "Normal"}).encode()
                    said = [cls.secured.ask(address, CREATE_USER, {"username": name}, body=body)]
                    if name in made:
                        entry = {"resource": "*", "actions": [made[name].value], "decision": "Allow"}
                        body = json.dumps({"policies": [{"entries": [entry]}]}).encode()
                        said.append(cls.secured.ask(address, CREATE_ACL, {"subject": f"User:{name}"}, body=body))
                    if any(each.code for each in said):
                        raise AssertionError(f"{name} at {address}: {said}")

    def may(self, route: BrokerRoute, action: Action | None) -> bool:
        """What the rules say."""
        if route.supers or (route.asker is Asker.PEER and route.claims is not None):
            return False
        wanted = needs(route)
        return action is Action.ALL or all(action in need.actions for need in wanted)

    def test_1_one_user_for_each_right(self) -> None:
        """Every code, on every port, with every header encoding: let in is who has the right, and nobody else (X9, X17,
        X19)."""
        asked = 0
        for port in self.ports():
            for name, user in self.users.items():
                action = next((each for each in ACTIONS if name == f"only-{each.value}"), None)
                with Speaker(port.address, port.tls) as speaker:
                    for question, answer in speaker.ask(questions(ROUTES, user=user)):
                        route = ROUTES[question.route.code]
                        asked += 1
                        if port.fast and route.kind is Kind.PULL:
                            self.assertEqual(answer.code, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
                            continue
                        refused = answer.code == ResponseCode.NO_PERMISSION and REFUSED.search(answer.remark or "")
                        self.assertEqual(not refused, self.may(route, action), f"{port.name}: {question}: {answer}")
        self.assertGreater(asked, 12 * len(ACTIONS) * len(ROUTES))

    def test_2_unsigned_and_forged(self) -> None:
        """Nobody gets anything so, at any port (X5)."""
        for port in self.ports():
            for user in (None, ("only-All", "guess"), ("nobody", "x"), ("root", None)):
                with Speaker(port.address, port.tls) as speaker:
                    for question, answer in speaker.ask(questions(ROUTES, user=user)):
                        wanted = ResponseCode.NO_PERMISSION
                        if port.fast and ROUTES[question.route.code].kind is Kind.PULL:
                            wanted = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                        self.assertEqual(answer.code, wanted, f"{port.name}: {question}: {answer}")

    def test_3_strangers_at_the_other_ports(self) -> None:
        """Nameserver, controller, DLedger port and witness: what is for members is for no stranger, in the clear or
        under TLS, with either header (X5, X19)."""
        for door in doors(self.secured):
            if door.stream or door.way == OTHER or isinstance(next(iter(door.table.values())), BrokerRoute):
                continue
            with Speaker(door.address, self.tls(door)) as speaker:
                table = {code: route for code, route in door.table.items() if route.claims is not None}
                for question, answer in speaker.ask(questions(table)):
                    self.assertEqual(answer.code, ResponseCode.NO_PERMISSION, f"{door}: {question}: {answer}")

    def tls(self, door: Door) -> ssl.SSLContext | None:
        return self.secured.context(SHOWS[door.way]) if door.way in SHOWS else None

    def test_3_where_a_connection_comes_from(self) -> None:
        """X20: what the socket says; a connection that says something else before its first request is ended."""
        claims = (
            b"PROXY TCP4 10.1.1.7 10.1.1.1 4444 10911\r\n",
            b"PROXY UNKNOWN\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\1\1\7\x0a\1\1\1\x11\x5c\x2a\x9f",
        )
        for port in self.ports():
            for claim in claims:
                with Speaker(port.address, port.tls, claim) as speaker, self.assertRaises(OSError):
                    list(speaker.ask(questions(ROUTES, user=self.users["only-All"])))

    # ---- hostile requests

    def test_4_a_few_cases_at_each_door(self) -> None:
        """A sample of ``make fuzz-access``: `python -m tests.fuzz.access --seed SEED --case N DOOR` is a case again."""
        sys.stdout.write(f"fresh fuzz seed {SEED} (ROCKETHA_FUZZ_SEED sets it)\n")
        assault = Assault(self.secured, SEED)
        # a busy machine is no finding
        with mock.patch.multiple(fuzz_port, LATE_SECONDS=30.0, PATIENCE_SECONDS=60.0):
            for door in doors(self.secured):
                with self.subTest(str(door), seed=SEED):
                    report = assault.run(door, 0, CASES)
                    self.assertEqual(report.found, [], "\n".join(report.lines()))
                    self.assertGreater(report.sent, CASES * 0.9)

    def test_5_names_that_lead_elsewhere(self) -> None:
        """X3: in every field and body of every request that has a name, from who may do everything.  No file is made
        but those that valid names have."""
        root = ("root", self.secured.passwords["root"])
        operator = self.secured.context("operator")
        outside = self.secured.folder.parent
        before = set(outside.iterdir())
        for door in doors(self.secured):
            if door.stream or door.way != PLAIN:
                continue
            for name in LEADING_AWAY:
                with Speaker(door.address, operator) as speaker:
                    for _ in speaker.ask(renamed_questions(door.table, root, name)):
                        """Whatever it is answered."""
        self.assertEqual(set(outside.iterdir()), before)
        names = {path.relative_to(self.secured.folder).as_posix() for path in self.secured.folder.rglob("*")}
        self.assertEqual([name for name in names if not re.fullmatch(r"[A-Za-z0-9_%|./-]{1,300}", name)], [])
        self.assertEqual([name for name in names if "elsewhere" in name], [])

    # ---- secrets

    def test_6_no_secret_is_shown(self) -> None:
        """In no file but where it is configured, no answer, no page, no command's output and nothing of /proc (X2, X12,
        X13)."""
        secured = self.secured
        leaks = Leaks(secured.secrets())
        self.look_at_answers(leaks)
        self.look_at_refused_passwords(leaks)
        for name, role in secured.roles().items():
            leaks.look_at_process(name, role.pid)
            for page in ("metrics", "healthz", "readyz", ""):
                leaks.look(f"{name} /{page}", self.page(secured.status(name), page))
        self.look_at_commands(leaks)
        self.look_at_broken_starts(leaks)
        leaks.look_at_files(secured.folder, but=secured.places())
        self.assertEqual(leaks.found, [])
        self.assertGreater(leaks.looked, 500)
        for password in [each[1] for each in self.users.values()]:  # such short ones could stand somewhere by chance
            self.assertNotIn(password, "".join(role.log() for role in secured.roles().values()))

    def test_7_a_planted_secret_is_found(self) -> None:
        """Wherever the search looks, and however it is spelled."""
        leaks = Leaks(self.secured.secrets())
        for secret in self.secured.secrets():
            for how, form in secret.forms.items():
                found = len(leaks.found)
                leaks.look(how, b'{"x":"' + form + b'"}')
                self.assertGreater(len(leaks.found), found, f"{secret.name} {how}")
        for path in self.secured.places():
            found = len(leaks.found)
            leaks.look(str(path), path.read_bytes())
            if not path.name.startswith("namesrv") and not path.name.startswith("n"):  # these name files only
                self.assertGreater(len(leaks.found), found, path)

    def look_at_answers(self, leaks: Leaks) -> None:
        """Of every code at every port, to who may have them."""
        root = ("root", self.secured.passwords["root"])
        operator = self.secured.context("operator")
        for door in doors(self.secured):
            if door.stream or door.way != PLAIN:
                continue
            with Speaker(door.address, operator) as speaker:
                for fields in ({}, FIELDS, {"username": "root", "subject": "User:root", "filter": ""}):
                    for question, answer in speaker.ask(questions(door.table, fields, root)):
                        text = json.dumps([answer.remark, answer.fields], ensure_ascii=False).encode()
                        leaks.look(f"{door}: {question}", text + b"\n" + answer.body)

    def look_at_refused_passwords(self, leaks: Leaks) -> None:
        """What is said, and later logged, of a change of users that has a password in it and is refused."""
        secret = self.secured.passwords["root"]
        bodies: list[str] = [
            f'{{"password":"{secret}"',
            f'{{"password":["{secret}"]}}',
            f'{{"password":"{secret}","userType":"{secret}"}}',
            f'{{"password":"{secret}","userStatus":"x"}}',
            f'{{"username":"{secret}","password":"{secret}\\u0007"}}',
            f'{{"password":"{secret * 20}"}}',
            f'["{secret}"]',
            f'{{"policies":[{{"policyType":"{secret}","entries":["{secret}"]}}]}}',
            secret,
            f'{{"{secret}":{"[" * 100}',
        ]
        users = (("root", secret), ("publisher", self.secured.passwords["publisher"]), ("root", "guess"), None)
        table = {code: route for code, route in ROUTES.items() if route.supers}
        for port in self.ports():
            for user in users:
                with Speaker(port.address, port.tls) as speaker:
                    asked = [
                        attrs.evolve(each, body=body.encode())
                        for body in bodies
                        for each in questions(table, {"username": "none", "subject": "User:none"}, user)
                    ]
                    for question, answer in speaker.ask(asked):
                        text = json.dumps([answer.remark, answer.fields], ensure_ascii=False).encode()
                        leaks.look(f"{port.name}: {question}, refused", text + answer.body)

    def page(self, address: str, path: str) -> bytes:
        try:
            with urllib.request.urlopen(f"http://{address}/{path}", timeout=ANSWER_S) as answer:
                found: bytes = str(answer.headers).encode() + answer.read()
                return found
        except urllib.error.HTTPError as refusal:
            return str(refusal.headers).encode() + refusal.read()

    def look_at_commands(self, leaks: Leaks) -> None:
        """What our own command prints for an operator."""
        secured = self.secured
        environment = our_environment() | {"ROCKETHA_TLS": str(secured.pki / "operator.properties")}
        broker = secured.broker.folder / f"{secured.broker.name}.conf"
        for words in (
            ("clients", "--namesrv", secured.namesrv.address),
            ("controller", "--controllers", secured.controller.address, "status"),
            ("dledger", "--group", "broker-a", "--peers", secured.peers, "status"),
            ("check", "--config", str(broker)),
            ("pki", "show", str(secured.pki)),
        ):
            command = [sys.executable, "-m", "rocketha.admin.cli", *words]
            done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
            leaks.look(f"rocketha {' '.join(words)}", done.stdout + done.stderr)
            self.assertTrue(done.stdout + done.stderr)

    def look_at_broken_starts(self, leaks: Leaks) -> None:
        """What is said of a configuration that is refused for its secrets."""
        secured = self.secured
        good = (secured.broker.folder / f"{secured.broker.name}.conf").read_text()
        secret = secured.passwords["root"]
        pair = json.dumps({"username": "root", "password": secret})
        for name, lines in {
            "half": f'initAuthenticationUser={{"username":"root","password":"{secret}"',
            "other": f'initAuthenticationUser={{"user":"root","pass":"{secret}"}}',
            "blank": f'initAuthenticationUser={{"username":" ","password":"{secret}"}}',
            "inner": f'innerClientAuthenticationCredentials={{"accessKey":"{secret}"}}',
            "long": f"initAuthenticationUser={pair}{'x' * 5000}",
            "control": f"initAuthenticationUser={pair}\x01",
            "key": f"tls.server.keyPassword={secret}\x01",
        }.items():
            path = secured.folder / f"broken-{name}.conf"
            path.write_text(f"{good}{lines}\n")
            options = BrokerOptions()
            with self.subTest(name), self.assertRaises(usage.UsageError) as refusal:
                options.parseOptions(["--config", str(path)])
            leaks.look(f"a start with {name}", f"{refusal.exception}{traceback_of(refusal.exception)}".encode())
            path.unlink()


def traceback_of(error: BaseException) -> str:
    """With what led to it, as a log would have it."""
    return "".join(traceback.format_exception(error))
