"""A go-between in front of one lead controller that knows which request passes, and stops the world at a chosen one.

Brokers are told that it is the leader (the answer to 1005 is rewritten), so everything they ask passes here. At the
chosen request code, before it is handed on or after the controller answered and before the broker hears of it,
`strike` is called: that is where a test kills the broker. Every answer of the controller is kept.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

from . import ports

GET_METADATA = 1005
ANSWER_FLAG = 1


class Passed(NamedTuple):
    code: int
    answer: int  # the controller's response code


class Front:
    """Listens on `address`; `target` answers. One strike: afterwards everything passes again."""

    def __init__(self, target: Callable[[], str]) -> None:
        self.target = target
        self.port = ports.block()
        self.address = f"127.0.0.1:{self.port}"
        self.passed: list[Passed] = []
        self.struck = threading.Event()
        self._strike: tuple[int, str, Callable[[], None]] | None = None
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        threading.Thread(target=self._accept, name="front", daemon=True).start()

    def arm(self, code: int, moment: str, strike: Callable[[], None]) -> None:
        """Call `strike` at the next request `code`, "before" it is handed on or "after" it was answered."""
        with self._lock:
            self.struck.clear()
            self._strike = (code, moment, strike)

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), name="front-connection", daemon=True).start()

    def _hit(self, code: int, moment: str) -> bool:
        with self._lock:
            if self._strike is None or self._strike[:2] != (code, moment):
                return False
            strike, self._strike = self._strike[2], None
        strike()
        self.struck.set()
        return True

    def _serve(self, sock: socket.socket) -> None:
        """Requests of one connection, one after the other, on one connection behind: a broker's stays open too."""
        try:
            with sock, self._behind() as behind:
                while self._pass_one(sock, behind):
                    pass
        except (OSError, ValueError):
            return

    def _behind(self) -> socket.socket:
        host, port = self.target().rsplit(":", 1)
        behind = socket.create_connection((host, int(port)), 5)
        behind.settimeout(10)
        return behind

    def _pass_one(self, sock: socket.socket, behind: socket.socket) -> bool:
        request = _read(sock)
        if request is None:
            return False
        header = json.loads(_header(request))
        code = header["code"]
        if self._hit(code, "before"):
            return False
        behind.sendall(request)
        if header["flag"] & 2:  # one way
            return True
        answer = _read(behind)
        if answer is None:
            return False
        told = json.loads(_header(answer))
        self.passed.append(Passed(code, told["code"]))
        if self._hit(code, "after"):
            return False
        if code == GET_METADATA:
            answer = self._rewritten(told)
        sock.sendall(answer)
        return True

    def _rewritten(self, told: dict[str, object]) -> bytes:
        fields = told.get("extFields")
        if isinstance(fields, dict) and fields.get("controllerLeaderAddress"):
            fields["controllerLeaderAddress"] = self.address
        data = json.dumps(told).encode()
        return struct.pack(">ii", 4 + len(data), len(data)) + data


def _read(sock: socket.socket) -> bytes | None:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = sock.recv(size - len(data))
            if not piece:
                return b""
            data += piece
        return data

    head = exactly(4)
    if not head:
        return None
    body = exactly(struct.unpack(">i", head)[0])
    return head + body if body else None


def _header(frame: bytes) -> bytes:
    word = struct.unpack(">i", frame[4:8])[0]
    if word >> 24:
        raise OSError("a header that is not JSON")
    return frame[8 : 8 + (word & 0xFFFFFF)]
