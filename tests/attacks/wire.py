"""RocketMQ's remoting protocol by hand: frames as bytes, and a blocking connection."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import socket
import struct
import time
from typing import Any

HOST = "127.0.0.1"
STRANGER = "127.0.0.2"
"""Whence attacks come where the attacked tells addresses apart."""


def _outside() -> str:
    """An address of this machine that is not loopback's; loopback's where it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as finder, contextlib.suppress(OSError):
        finder.connect(("203.0.113.1", 9))  # sends nothing
        return str(finder.getsockname()[0])
    return STRANGER


OUTSIDE = _outside()
"""Whence they come where the attacked machine's own requests are an operator's."""

SEND, SEND_V2, PULL, HEARTBEAT, LOCK = 10, 310, 11, 34, 41
REGISTER_BROKER, UNREGISTER_BROKER, ROUTE, CLUSTERS, RUNTIME, HA_STATUS = 103, 104, 105, 106, 28, 907
BROKER_HEARTBEAT = 904
ALTER, ELECT, REGISTER, REPLICAS, CONTROLLERS, SYNC_STATE, EPOCHS = 1001, 1002, 1003, 1004, 1005, 1006, 1007
NOTICE, CLEAN, NEXT_ID, APPLY_ID = 1008, 1011, 1012, 1013
ONEWAY = 2

_opaques = itertools.count(1)


def frame(
    code: int, fields: dict[str, object] | None = None, body: bytes = b"", flag: int = 0, opaque: int | None = None
) -> bytes:
    """One request."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (fields or {}).items()
    }
    header = {"code": code, "language": "JAVA", "version": 513, "flag": flag, "extFields": texts}
    header["opaque"] = next(_opaques) if opaque is None else opaque
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


@dataclasses.dataclass(frozen=True)
class Answer:
    """One response."""

    code: int
    remark: str
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, also where Java wrote map keys without quotes."""
        return json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', self.body) or b"null")


class Connection:
    """A blocking connection; requests are answered in turn."""

    def __init__(self, port: int, timeout: float = 5.0, source: str = HOST) -> None:
        """Connect."""
        self.socket = socket.create_connection((HOST, port), timeout, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self._received = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close, whatever is under way."""
        self.socket.close()

    def tell(self, code: int, fields: dict[str, object] | None = None, body: bytes = b"") -> None:
        """Send what nobody answers."""
        self.socket.sendall(frame(code, fields, body, ONEWAY))

    def ask(self, code: int, fields: dict[str, object] | None = None, body: bytes = b"") -> Answer:
        """Send a request and wait for its answer; requests of the server's own are passed over."""
        opaque = next(_opaques)
        self.socket.sendall(frame(code, fields, body, 0, opaque))
        deadline = time.monotonic() + self.timeout
        while True:
            header, answer_body = self.next_frame(deadline)
            if header.get("flag", 0) & 1 and header["opaque"] == opaque:
                return Answer(header["code"], header.get("remark") or "", header.get("extFields") or {}, answer_body)

    def next_frame(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        """The next frame of any kind."""
        length, word = struct.unpack(">II", self._take(8, deadline))
        size = word & 0xFFFFFF
        content = self._take(length - 4, deadline)
        return json.loads(content[:size]), content[size:]

    def _take(self, count: int, deadline: float) -> bytes:
        while len(self._received) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer")
            self.socket.settimeout(left)
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("closed by the server")
            self._received += more
        taken, self._received = self._received[:count], self._received[count:]
        return taken


def ask(port: int, code: int, fields: dict[str, object] | None = None, body: bytes = b"", source: str = HOST) -> Answer:
    """Ask once, on a connection of its own."""
    with Connection(port, source=source) as connection:
        return connection.ask(code, fields, body)


def message(topic: str, queue: int = 0, properties: str = "", flags: int = 0) -> dict[str, object]:
    """The header of a send (310)."""
    header: dict[str, object] = {"a": "attackers", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": flags}
    header |= {"g": int(time.time() * 1000), "h": 0, "i": properties, "j": 0, "k": False, "m": False}
    return header


def pull(topic: str, queue: int = 0, offset: int = 0, count: int = 32) -> dict[str, object]:
    """The header of a pull that does not wait."""
    header: dict[str, object] = {"consumerGroup": "attackers", "topic": topic, "queueId": queue, "queueOffset": offset}
    header |= {"maxMsgNums": count, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*"}
    header |= {"subVersion": 0, "expressionType": "TAG"}
    return header


def consumers(*groups: str, client: str = "attacker@1") -> bytes:
    """The body of a heartbeat (34) of consumers."""
    rows = [
        {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [],
        }
        | {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False}
        for group in groups
    ]
    return json.dumps({"clientID": client, "producerDataSet": [], "consumerDataSet": rows}).encode()
