"""What the Java 5.5.0 name server answered, asked of ours.

``data/<scenario>`` holds recorded connections of real Java brokers, producers and tools with a real Java name server:
one file a connection, chunks in hexadecimal with their time.  All requests of a scenario are replayed in order of time.
"""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any, NamedTuple

from rocketha.wire import json_dialect
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import Answer, Command, decode
from tests.namesrv.helpers import ask, name_server

DATA = Path(__file__).parent / "data"


class Exchange(NamedTuple):
    """One request, when it came, over which connection, and Java's answer."""

    when: float
    connection: int
    request: Command
    answer: Command


def exchanges(scenario: str) -> list[Exchange]:
    """All answered requests of a scenario, in order of time."""
    found = []
    for path in sorted((DATA / scenario).glob("*.jsonl")):
        buffers = {"c2s": FrameBuffer(), "s2c": FrameBuffer()}
        requests: dict[int, tuple[float, Command]] = {}
        connection = 0
        for line in path.read_text().splitlines():
            chunk = json.loads(line)
            if "conn" in chunk:
                connection = chunk["conn"]
                continue
            for frame in buffers[chunk["dir"]].feed(bytes.fromhex(chunk["hex"])):
                command = decode(frame)
                if not command.is_response:
                    requests[command.opaque] = (chunk["t"], command)
                elif command.opaque in requests:
                    when, request = requests.pop(command.opaque)
                    found.append(Exchange(when, connection, request, command))
    return sorted(found, key=lambda exchange: exchange.when)


def comparable(body: bytes) -> Any:
    """A body's content: key order, and quotes around integer keys, do not count; nor does the order of routes."""
    if not body:
        return None
    value = json_dialect.loads(body)
    for key in ("brokerDatas", "queueDatas"):
        if isinstance(value, dict) and key in value:
            value[key] = sorted(value[key], key=lambda row: str(row["brokerName"]))
    return value


class GoldenReplayTests(unittest.TestCase):
    """Code, remark, header and body of every recorded answer."""

    def replay(self, scenario: str, registrations_before: int = 0) -> int:
        """Compare all answers once so many registrations were seen (the others set up what came before the
        recording)."""
        server = name_server()
        compared = registered = 0
        for when, connection, request, wanted in exchanges(scenario):
            got = ask(server, request, connection, int(when * 1000))
            registered += request.code == 103
            if registered < registrations_before:
                continue
            compared += 1
            where = f"{scenario} at {when}: request {request.code} {request.fields}"
            self.assertEqual(self.shown(got), (wanted.code, wanted.remark, wanted.fields), where)
            self.assertEqual(comparable(got.body), comparable(wanted.body), where)
        return compared

    def shown(self, got: Answer) -> tuple[int, str | None, dict[str, str]]:
        return got.code, got.remark, dict(got.fields or {})

    def test_controller_mode(self) -> None:
        """Two replicas of one broker register in controller mode, and a producer of nine topics asks for routes."""
        self.assertEqual(self.replay("controller-mode"), 30)

    def test_classic(self) -> None:
        """A classic master and its slave: the slave is told the master's addresses."""
        self.assertEqual(self.replay("classic"), 34)

    def test_elect(self) -> None:
        """Mastership moves from one address to the other: each leaves its old id."""
        self.assertGreater(self.replay("elect", registrations_before=2), 30)

    def test_shutdown(self) -> None:
        """UNREGISTER_BROKER empties the table."""
        self.assertGreater(self.replay("shutdown", registrations_before=1), 6)
