"""Small remoting servers for the fuzzer to attack: a good one, and ones that crash, hang, keep and close wrongly.

One thread, one selector; started and stopped by the test that needs it.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from types import TracebackType

from rocketha.errors import RemoteProtocolError
from rocketha.wire import remoting
from rocketha.wire.codes import ResponseCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import Answer, Command


class Server:
    """Answers every request with REQUEST_CODE_NOT_SUPPORTED and closes on what it cannot read.

    :ivar seen: requests so far.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._running = True
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running = False
        self._thread.join()

    def _serve(self) -> None:
        while self._running:
            for key, _ in self._selector.select(0.02):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._read(key.fileobj, key.data)  # type: ignore[arg-type]
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(True)
        sock.settimeout(5)
        self._selector.register(sock, selectors.EVENT_READ, FrameBuffer())

    def _read(self, sock: socket.socket, buffer: FrameBuffer) -> None:
        try:
            data = sock.recv(65536)
            if not data:
                self.close(sock)
                return
            for frame in buffer.feed(data):
                command = remoting.decode(frame)
                if not command.is_response and not command.is_oneway:
                    self.seen += 1
                    self.request(sock, command)
        except RemoteProtocolError:
            self.unreadable(sock)
        except OSError:
            self.close(sock)

    def close(self, sock: socket.socket) -> None:
        """End one connection."""
        if sock.fileno() >= 0:
            self._selector.unregister(sock)
            sock.close()

    def answer(
        self, sock: socket.socket, command: Command, code: int = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    ) -> None:
        """Answer one request."""
        sock.sendall(remoting.encode_answer(command.opaque, Answer(code, "no")))

    # ---- what the servers below do another way

    def request(self, sock: socket.socket, command: Command) -> None:
        """A readable request."""
        self.answer(sock, command)

    def unreadable(self, sock: socket.socket) -> None:
        """A frame that cannot be read."""
        self.close(sock)


class Encrypted(Server):
    """The same under TLS.

    :param context: with its certificate.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.settimeout(5)
        try:
            secured = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except OSError:  # it has ended already
            return
        self._selector.register(secured, selectors.EVENT_READ, FrameBuffer())

    def _read(self, sock: socket.socket, buffer: FrameBuffer) -> None:
        super()._read(sock, buffer)
        assert isinstance(sock, ssl.SSLSocket)
        while sock.fileno() >= 0 and sock.pending():  # decrypted already: no selector tells
            super()._read(sock, buffer)


class Talkative(Server):
    """Says something at once, whatever comes, and ends the connection."""

    WORDS = b"welcome to another protocol"

    def _read(self, sock: socket.socket, buffer: FrameBuffer) -> None:
        try:
            sock.recv(65536)
            sock.sendall(self.WORDS)
        except OSError:
            pass
        self.close(sock)


class Crashing(Server):
    """Takes no connections any more after a while, as a process that died."""

    LIMIT = 40

    def request(self, sock: socket.socket, command: Command) -> None:
        self.answer(sock, command)
        if self.seen >= self.LIMIT:
            self._running = False


class Hanging(Server):
    """Stops answering anything after a while."""

    LIMIT = 40

    def request(self, sock: socket.socket, command: Command) -> None:
        if self.seen < self.LIMIT:
            self.answer(sock, command)


class Slow(Server):
    """Takes its time once, for everybody."""

    AT = 30
    SECONDS = 0.4

    def request(self, sock: socket.socket, command: Command) -> None:
        if self.seen == self.AT:
            time.sleep(self.SECONDS)  # the fault itself: meanwhile nobody is answered
        self.answer(sock, command)


class Lenient(Server):
    """Keeps connections open on unreadable frames."""

    def unreadable(self, sock: socket.socket) -> None:
        """Nothing."""


class Strict(Server):
    """Closes the connection on a request it does not like."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def request(self, sock: socket.socket, command: Command) -> None:
        if command.code == self._code:
            self.close(sock)
        else:
            self.answer(sock, command, ResponseCode.SYSTEM_ERROR)


class Forgetful(Server):
    """Never answers requests of one code."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def request(self, sock: socket.socket, command: Command) -> None:
        if command.code != self._code:
            self.answer(sock, command)


class Chattering(Server):
    """Answers what nobody asked, sends requests of its own, and garbage in the end."""

    def request(self, sock: socket.socket, command: Command) -> None:
        if self.seen % 50 == 0:
            sock.sendall(b"\x00\x00\x00\x04\x09\x00\x00\x00")
            return
        sock.sendall(remoting.encode_answer(-7, Answer()))
        sock.sendall(remoting.encode(remoting.request(40, {"consumerGroup": "g"}, oneway=True)))
        self.answer(sock, command)
