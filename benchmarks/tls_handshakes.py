"""What a TLS handshake costs a server of ours: its CPU, and how long others wait meanwhile.

Run: ``python -m benchmarks.tls_handshakes [--count 1000]``.  A nameserver on loopback is connected to so many times,
one connection after the other, by the standard library's client: in the clear, with a full handshake, and with the
session before taken up; with a certificate of P-256 and one of RSA with 2,048 bits, TLS 1.3 and 1.2.  Each connection
asks one thing.  Printed are milliseconds of the server's CPU for a connection, and the longest that a connection in the
clear waited for an answer: alone, while four threads made full handshakes as fast as they could, and while 100
connections asked for theirs at once, with the time until all of these were answered.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import trustme
from tests.interop.harness import remoting
from tests.interop.harness.processes import end_all
from tests.interop.harness.roles import GET_BROKER_CLUSTER_INFO, OurNamesrv

CROWD, CROWD_S = 4, 5.0
AT_ONCE = 100


class Server:
    """A nameserver with a certificate of this kind of key."""

    def __init__(self, folder: Path, kind: trustme.KeyType) -> None:
        folder.mkdir()
        authority = trustme.CA(key_type=kind)
        issued = authority.issue_cert("127.0.0.1", key_type=kind)
        self.trust, certificate, key = folder / "ca.pem", folder / "server.crt", folder / "server.key"
        authority.cert_pem.write_to_path(str(self.trust))
        certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        key.touch(0o600)
        key.write_bytes(issued.private_key_pem.bytes())
        keys = {"tls.config.file": "", "tls.server.certPath": certificate, "tls.server.keyPath": key}
        self.role = OurNamesrv("namesrv", folder / "namesrv", keys).start()
        self.at = "127.0.0.1", self.role.port

    def ask(self, context: ssl.SSLContext | None, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        """Connect, ask one thing, and go; the session that may be taken up."""
        with socket.create_connection(self.at, 5) as plain:
            if context is None:
                plain.sendall(remoting.frame(GET_BROKER_CLUSTER_INFO))
                remoting.read_reply(plain)
                return None
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection:
                connection.sendall(remoting.frame(GET_BROKER_CLUSTER_INFO))
                remoting.read_reply(connection)
                return connection.session

    def cpu_ms(self, count: int, context: ssl.SSLContext | None, resume: bool) -> float:
        """For a connection."""
        session = self.ask(context, None)
        before = self.role.cpu_seconds()
        for _ in range(count):
            taken = self.ask(context, session if resume else None)
            session = taken or session
        return (self.role.cpu_seconds() - before) / count * 1000

    def longest_ms(self, context: ssl.SSLContext) -> tuple[float, float]:
        """Of a connection in the clear: alone, and beside the crowd."""
        return self._longest_ms(), self._beside(context)

    def at_once(self, context: ssl.SSLContext) -> tuple[float, float]:
        """Ms until 100 connections that began their handshakes together were answered; the longest wait beside them.

        Their first words are ready before, so that it is the server that takes the time.
        """
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(_Shaking(self.at, context)) for _ in range(AT_ONCE)]
            over, worst = threading.Event(), [0.0]
            beside = threading.Thread(target=self._ask_until, args=(over, worst))
            beside.start()
            began = time.monotonic()
            for each in waiting:
                each.begin()
            for each in waiting:
                each.finish()
            took = time.monotonic() - began
            over.set()
            beside.join()
        return took * 1000, worst[0]

    def _ask_until(self, over: threading.Event, worst: list[float]) -> None:
        with socket.create_connection(self.at, 5) as connection:
            while not over.is_set():
                began = time.monotonic()
                connection.sendall(remoting.frame(GET_BROKER_CLUSTER_INFO))
                remoting.read_reply(connection)
                worst[0] = max(worst[0], (time.monotonic() - began) * 1000)

    def _beside(self, context: ssl.SSLContext) -> float:
        over = threading.Event()

        def crowd() -> None:
            while not over.is_set():
                self.ask(context, None)

        threads = [threading.Thread(target=crowd) for _ in range(CROWD)]
        for each in threads:
            each.start()
        found = self._longest_ms()
        over.set()
        for each in threads:
            each.join()
        return found

    def _longest_ms(self) -> float:
        worst, until = 0.0, time.monotonic() + CROWD_S
        with socket.create_connection(self.at, 5) as connection:
            while (began := time.monotonic()) < until:
                connection.sendall(remoting.frame(GET_BROKER_CLUSTER_INFO))
                remoting.read_reply(connection)
                worst = max(worst, time.monotonic() - began)
        return worst * 1000


class _Shaking:
    """A connection of one that has prepared its first words."""

    def __init__(self, at: tuple[str, int], context: ssl.SSLContext) -> None:
        self._sock = socket.create_connection(at, 10)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=at[0])
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()

    def __enter__(self) -> _Shaking:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def begin(self) -> None:
        """Send them."""
        self._sock.sendall(self._out.read())

    def finish(self) -> None:
        """Go on until the handshake is over, ask one thing and have the answer's first byte."""
        self._until(self._tls.do_handshake)
        self._tls.write(remoting.frame(GET_BROKER_CLUSTER_INFO))
        self.begin()
        self._until(lambda: self._tls.read(1))

    def _until(self, step: Callable[[], object]) -> None:
        while True:
            try:
                step()
                return
            except ssl.SSLWantReadError:
                if self._out.pending:
                    self.begin()
                self._in.write(self._sock.recv(65536))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000)
    count = parser.parse_args().count
    folder = Path(tempfile.mkdtemp(prefix="rocketha-bench-"))
    try:
        for kind in (trustme.KeyType.ECDSA, trustme.KeyType.RSA):
            server = Server(folder / kind.name, kind)
            clear = server.cpu_ms(count, None, False)
            for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
                context = ssl.create_default_context(cafile=server.trust)
                context.minimum_version = context.maximum_version = version
                full, resumed = server.cpu_ms(count, context, False), server.cpu_ms(count, context, True)
                print(
                    f"{kind.name:6} {version.name:8} clear {clear:.3f} full {full:.3f} resumed {resumed:.3f} ms",
                    flush=True,
                )
            alone, beside = server.longest_ms(context)
            print(f"{kind.name:6} longest answer: alone {alone:.2f} ms, beside handshakes {beside:.2f} ms", flush=True)
            took, worst = server.at_once(ssl.create_default_context(cafile=server.trust))
            print(
                f"{kind.name:6} {AT_ONCE} at once: answered after {took:.1f} ms; longest answer beside {worst:.2f} ms",
                flush=True,
            )
            server.role.stop()
    finally:
        end_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
