"""The rules of the controller, request by request, against a running Java controller.

A single DLedger node is given the sequences of tests/controller/sequences.py over a plain socket; each of its answers
must be what our state machine gives to the same requests.  ``ROCKETHA_RECORD=1`` also writes the answers to
tests/controller/data, so that tests/controller/test_java_rules.py can ask the same without Java.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from rocketha.wire import remoting as wire
from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.remoting import Answer, Command
from tests.controller.java_rules import DIFFERENCES, SEQUENCES, compact, ours, theirs_expected, translated
from tests.controller.sequences import sequence

from .harness import InteropCase, remoting, wait_until
from .harness.roles import JavaController

NEVER_MS = 100_000_000
"""Java's own scans would elect in the middle of a sequence."""

RECORD = Path(__file__).resolve().parents[1] / "controller" / "data"


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

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed by the controller")
            data += piece
        return data


def _leads(address: str) -> bool:
    try:
        return remoting.call(address, 1005).fields.get("isLeader") == "true"
    except OSError:
        return False


class JavaRulesTests(InteropCase):
    """S0, S3 and facts/controller.md 3 and 4, on RocketMQ 5.5.0."""

    controller: JavaController
    asker: Asker

    @classmethod
    def prepare(cls) -> None:
        extra = {"scanNotActiveBrokerInterval": NEVER_MS, "scanInactiveMasterInterval": NEVER_MS}
        cls.controller = cls.share(JavaController("n0", cls.folder / "controller", extra))
        wait_until("the controller to lead", lambda: _leads(cls.controller.address), 60, cls.controller.running)
        cls.asker = Asker(cls.controller.address)
        cls.addClassCleanup(cls.asker.close)

    def test_sequences(self) -> None:
        """Every answer of every sequence is the same: code, remark, header, body."""
        recorded: list[Any] = []
        for number in range(SEQUENCES):
            steps = sequence(number)
            answers = [self.asker.ask(op.command(f"s{number}")) for op in steps]
            recorded.append(compact(steps, answers))
            with self.subTest(number):
                self.assertEqual(ours(steps, f"s{number}"), theirs_expected(steps, answers))
        _record("java-sequences.json", recorded)

    def test_differences(self) -> None:
        """Where we differ on purpose, Java still does what docs/divergence.md says of it."""
        recorded: dict[str, Any] = {}
        for title, steps in DIFFERENCES.items():
            name = f"d-{title}"
            answers = [self.asker.ask(op.command(name)) for op in steps]
            recorded[title] = compact(steps, answers)
        _record("java-differences.json", recorded)
        if not os.environ.get("ROCKETHA_RECORD"):
            known = json.loads((RECORD / "java-differences.json").read_text(encoding="utf-8"))
            self.assertEqual(translated(recorded), known)


def _record(name: str, rows: Any) -> None:
    if os.environ.get("ROCKETHA_RECORD"):
        text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
        (RECORD / name).write_text(text.replace("],[[", "],\n[[") + "\n", encoding="utf-8")
