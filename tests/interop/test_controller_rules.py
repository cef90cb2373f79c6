"""The rules of the controller, request by request, against a running Java controller.

A single DLedger node is given the sequences of tests/controller/sequences.py over a plain socket; each of its answers
must be what our state machine gives to the same requests.  ``ROCKETHA_RECORD=1`` also writes the answers to
tests/controller/data, so that tests/controller/test_java_rules.py can ask the same without Java.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence

from rocketha.wire import remoting as wire
from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.remoting import Answer, Command
from tests.controller.java_rules import DIFFERENCES, SEQUENCES, compact, ours, theirs
from tests.controller.sequences import Op, sequence
from tests.controller.support import DATA, load

from .harness import InteropCase, remoting, wait_until
from .harness.roles import JavaController

NEVER_MS = 100_000_000
"""Java's own scans would elect in the middle of a sequence."""


class Asker:
    """One connection, our wire code."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 10)
        self._opaque = 0

    def close(self) -> None:
        self._socket.close()

    def ask(self, command: Command) -> Answer:
        """The answer; of a oneway request none is awaited."""
        self._opaque += 1
        command.opaque = self._opaque
        self._socket.sendall(wire.encode(command))
        if command.is_oneway:
            return Answer()
        size = int.from_bytes(self._exactly(4), "big")
        assert 0 < size <= FRAME_LIMIT
        reply = wire.decode(self._exactly(size))
        assert reply.opaque == self._opaque, reply
        return Answer(reply.code, reply.remark, reply.fields, reply.body)

    def wait_closed(self, timeout_s: float) -> None:
        """Until the controller closes."""
        self._socket.settimeout(timeout_s)
        assert self._socket.recv(1) == b""

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the controller")
            data += piece
        return data


def leads(address: str) -> bool:
    try:
        return remoting.call(address, 1005).fields.get("isLeader") == "true"
    except OSError:
        return False


def _await_first_scan(address: str) -> None:
    """Java scans for silent brokers 2 s after its start, whatever the interval, and closes their connections."""
    silent = Asker(address)
    silent.ask(Op("beat", 1, text="dead").command("first-scan"))
    try:
        silent.wait_closed(60)
    finally:
        silent.close()


class JavaRulesTests(InteropCase):
    """S0, S3 and facts/controller.md 3 and 4, on RocketMQ 5.5.0."""

    controller: JavaController
    asker: Asker

    @classmethod
    def prepare(cls) -> None:
        extra = {"scanNotActiveBrokerInterval": NEVER_MS, "scanInactiveMasterInterval": NEVER_MS}
        cls.controller = cls.share(JavaController("n0", cls.folder / "controller", extra))
        wait_until("the controller to lead", lambda: leads(cls.controller.address), 60, cls.controller.running)
        _await_first_scan(cls.controller.address)
        cls.asker = Asker(cls.controller.address)
        cls.addClassCleanup(cls.asker.close)

    def test_sequences(self) -> None:
        """Every answer of every sequence is the same: code, remark, header, body."""
        recorded = {}
        for number in range(SEQUENCES):
            name, steps = f"s{number}", sequence(number)
            answers = [self.asker.ask(op.command(name)) for op in steps]
            recorded[name] = (steps, answers)
            with self.subTest(number):
                self.assertEqual(ours(steps, name), theirs(steps, answers))
        _record("java-sequences.json", recorded)

    def test_differences(self) -> None:
        """Where we differ on purpose, Java still does what docs/divergence.md says of it."""
        recorded = {}
        for title, steps in DIFFERENCES.items():
            recorded[title] = (steps, [self.asker.ask(op.command(title)) for op in steps])
        _record("java-differences.json", recorded)
        self.assertEqual(compact(recorded), load("java-differences.json"))


def _record(name: str, recorded: Mapping[str, tuple[Sequence[Op], Sequence[Answer]]]) -> None:
    if os.environ.get("ROCKETHA_RECORD"):
        text = json.dumps(compact(recorded), separators=(",", ":"), ensure_ascii=False)
        text = text.replace("],[[[", "],\n[[[").replace('],"s', '],\n"s')
        (DATA / name).write_text(text + "\n", encoding="utf-8")
