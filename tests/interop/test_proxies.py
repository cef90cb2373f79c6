"""Java's clients through a relay that puts a PROXY header before each connection, in the clear and under TLS."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
import threading

from .harness import InteropCase, JavaClient, OurBroker, OurNamesrv, remoting
from .test_tls import TlsCase

BEHIND, PROXY, SOURCE = "127.0.0.5", "127.0.0.9", "10.1.1.7"
MESSAGES = 200
GET_CONSUMER_CONNECTION_LIST = 203
SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
BEFORE = {"bindAddress": BEHIND, "proxyProtocolNetworks": PROXY, "insecureNetwork": "true"}


class Relay:
    """Listens at 127.0.0.1 and passes on to the same port of another address, in versions 1 and 2 by turns."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._versions = itertools.cycle((1, 2))
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _header(self, port: int) -> bytes:
        if next(self._versions) == 1:
            return f"PROXY TCP4 {SOURCE} 127.0.0.1 {port} {self.port}\r\n".encode()
        ends = socket.inet_aton(SOURCE) + socket.inet_aton("127.0.0.1") + struct.pack(">HH", port, self.port)
        return SIGNATURE + struct.pack(">BBH", 0x21, 0x11, len(ends) + 7) + ends + b"\x02\x00\x04name"

    def _accept(self) -> None:
        while True:
            try:
                client, (_, port) = self._server.accept()
                behind = socket.create_connection((BEHIND, self.port), 5, (PROXY, 0))
            except ConnectionRefusedError:
                client.close()
                continue
            except OSError:
                return
            behind.settimeout(None)
            behind.sendall(self._header(port))
            for ends in ((client, behind), (behind, client)):
                threading.Thread(target=self._pump, args=ends, name="relay", daemon=True).start()

    @staticmethod
    def _pump(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def behind_relays(case: InteropCase, keys: dict[str, object], flags: tuple[str, ...]) -> None:
    """A nameserver and a broker that only the relays reach, a producer and a consumer."""
    names = OurNamesrv("namesrv", case.subfolder("namesrv"), {**BEFORE, **keys})
    broker = OurBroker(case.subfolder("broker"), names, {**BEFORE, "brokerIP1": "127.0.0.1", **keys})
    for role in (names, broker):
        relay = Relay(role.port)
        case.addCleanup(relay.close)
        case.use(role)
    client = case.use(JavaClient(names.address, folder=case.subfolder("client"), flags=flags))
    client.producer()
    sent = client.send("Relayed", "async", MESSAGES, prefix="r", max_size=2_000)
    client.consume("reader", "Relayed")
    received = client.await_received("reader", len(sent), 90)
    case.assertEqual(sorted(each["key"] for each in received), sorted(each["key"] for each in sent))
    found = remoting.call(broker.address, GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "group-reader"})
    (member,) = json.loads(found.body)["connectionSet"]
    case.assertEqual(member["clientAddr"].partition(":")[0], SOURCE)
    for role in (names, broker):
        case.assertNotIn("proxy_header", role.log_path.read_text())


class InTheClear(InteropCase):
    """Frames behind the header."""

    def test_clients(self) -> None:
        behind_relays(self, {}, ())


class UnderTls(TlsCase):
    """TLS behind the header, which the relay passes through."""

    def test_clients(self) -> None:
        behind_relays(self, self.keys(), self.flags())
