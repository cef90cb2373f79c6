"""One connection for one question: the plain request that says whether a port still serves, and a case sent alone."""

from __future__ import annotations

import socket
import ssl

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.wire import remoting
from rocketha.wire.codes import RequestCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.fuzz.case import Case

READ_BYTES = 256 * 1024
ANSWER_LIMIT = 256 * 1024 * 1024
CONNECT_SECONDS = 8.0
AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a socket says that has nothing yet."""
ALONE_SECONDS = 3.0
"""How long a case sent alone may go without an answer before it counts as silent."""


@attrs.frozen
class ProbeAnswer:
    """How long the answer took; None and why when there is none."""

    seconds: float | None
    problem: str = ""


PROBE_OPAQUE = 0x50524F42


class Probe:
    """One plain request on a new connection: GET_ROUTEINFO_BY_TOPIC, which any server answers with something.

    Its time includes the run's own work between two looks at the selector, a few milliseconds.

    :param tls: it is asked inside a TLS session of this.
    :param stream: nothing is asked: it is enough that the connection is taken, and the handshake done.
    """

    def __init__(
        self, address: tuple[str, int], now: float, tls: ssl.SSLContext | None = None, stream: bool = False
    ) -> None:
        self.since = now
        self._stream = stream
        self._buffer = FrameBuffer(ANSWER_LIMIT)
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self._problem = ""
        command = remoting.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        command.opaque = PROBE_OPAQUE
        self._unsent = b"" if stream else remoting.encode(command)
        try:
            self.sock.settimeout(CONNECT_SECONDS)
            self.sock.connect(address)
            self.sock.setblocking(False)
            if tls is not None:
                self.sock = tls.wrap_socket(self.sock, server_hostname=address[0], do_handshake_on_connect=False)
        except OSError as problem:
            self._problem = str(problem)

    def poll(self, now: float) -> ProbeAnswer | None:
        """The answer, None while there is none."""
        if self._problem:
            return ProbeAnswer(None, self._problem)
        data = b""
        try:
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.do_handshake()
            if self._stream:
                return ProbeAnswer(now - self.since)
            if self._unsent:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
            while piece := self.sock.recv(READ_BYTES):
                data += piece
        except AGAIN:
            if not data:
                return None
        except OSError as problem:
            return ProbeAnswer(None, str(problem))
        if not data:
            return ProbeAnswer(None, "closed without an answer")
        try:
            commands = [remoting.decode(frame, ANSWER_LIMIT) for frame in self._buffer.feed(data)]
        except RemoteProtocolError as problem:
            return ProbeAnswer(None, f"its answer is unreadable: {problem}")
        if any(command.is_response and command.opaque == PROBE_OPAQUE for command in commands):
            return ProbeAnswer(now - self.since)
        return None

    def close(self) -> None:
        """End its connection."""
        self.sock.close()


def alone(address: tuple[str, int], case: Case) -> str:
    """What one case gets on a connection of its own: ``answered CODE``, ``closed`` or ``silent``."""
    with socket.create_connection(address, CONNECT_SECONDS) as sock:
        sock.settimeout(ALONE_SECONDS)
        buffer = FrameBuffer(ANSWER_LIMIT)
        try:
            sock.sendall(case.data)
            while data := sock.recv(READ_BYTES):
                for frame in buffer.feed(data):
                    if (command := remoting.decode(frame, ANSWER_LIMIT)).is_response:
                        return f"answered {command.code}"
        except TimeoutError:
            return "silent"
        except (OSError, RemoteProtocolError) as problem:
            return f"closed ({problem})"
        return "closed"
