"""Connections that take the places of others, and those that ask and never read."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable

from tests.attacks.attack import Verdict, attack, wait
from tests.attacks.registrations import registration, topics
from tests.attacks.servers import BIN, alone, cpu_s, get, group, nameserver, until
from tests.attacks.victim import Victim
from tests.attacks.wire import (
    HEARTBEAT,
    HOST,
    PULL,
    REGISTER_BROKER,
    ROUTE,
    RUNTIME,
    SEND_V2,
    STRANGER,
    Connection,
    ask,
    consumers,
    frame,
    message,
    pull,
)

FILES = 512
"""Leaves a port 256 places."""


def said(port: int, number: int) -> bytes:
    """One valid frame, after which nothing follows."""
    return frame(RUNTIME)


def registered(port: int, number: int) -> bytes:
    """The heartbeat of a client."""
    return frame(HEARTBEAT, {}, consumers(f"group-{number % 10}", client=f"holder@{number}"))


def waits(port: int, number: int) -> bytes:
    """A pull that waits for 20 s."""
    return frame(PULL, pull("victims") | {"sysFlag": 6, "suspendTimeoutMillis": 20_000, "queueOffset": 10**9})


class Crowd:
    """Connections that are opened, say what they say, and come again where they are closed."""

    def __init__(
        self, port: int, count: int, says: Callable[[int, int], bytes], again_s: float | None, source: str
    ) -> None:
        """Fill the port; ``again_s`` is the pause after which each asks again, None for never."""
        self.port, self.count, self._says, self._again, self._source = port, count, says, again_s, source
        self.opened = 0
        self._sockets: dict[int, socket.socket] = {}
        self._ended = threading.Event()
        self._fill()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)
        for each in self._sockets.values():
            each.close()

    def held(self) -> int:
        """How many are open now."""
        return len(self._sockets)

    def _fill(self) -> None:
        for number in range(self.count):
            if number not in self._sockets and not (self.opened and self._ended.is_set()):
                with contextlib.suppress(OSError):
                    each = socket.create_connection((HOST, self.port), 1, source_address=(self._source, 0))
                    each.sendall(self._says(self.port, number))
                    each.setblocking(False)
                    self._sockets[number] = each
                    self.opened += 1

    def _run(self) -> None:
        asked = time.monotonic()
        while not self._ended.wait(0.2):
            for number, each in list(self._sockets.items()):
                try:
                    while each.recv(1 << 16):
                        pass
                    gone = True
                except BlockingIOError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    each.close()
                    del self._sockets[number]
            if self._again is not None and time.monotonic() - asked > self._again:
                asked = time.monotonic()
                for number, each in self._sockets.items():
                    with contextlib.suppress(OSError):
                        each.sendall(self._says(self.port, number))
            self._fill()


def served(times: int, does: Callable[[], object]) -> tuple[int, float]:
    """How many of so many, a second apart, came through within three tries, and the longest of them."""
    good, longest = 0, 0.0
    for _ in range(times):
        began = time.monotonic()
        for _ in range(3):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                if does():
                    good += 1
                    break
            wait(0.1)
        longest = max(longest, time.monotonic() - began)
        wait(1)
    return good, longest


def crowded(
    directory: pathlib.Path,
    says: Callable[[int, int], bytes],
    again_s: float | None,
    source: str = STRANGER,
    count: int = 1024,
) -> Verdict:
    """A broker with 256 places; a new client and an operator must come in, and who was there must stay.

    Both come from ``HOST``: where the crowd does, too, their address tells nobody who they are.
    """
    with alone(directory, files=FILES) as server, Victim(lambda: server.port, pause_s=0.05) as victim:
        victim.during(1)
        with Crowd(server.port, count, says, again_s, source) as crowd:
            wait(6)
            began = time.monotonic()
            client = served(8, lambda: ask(server.port, SEND_V2, message("newcomers"), b"x").code == 0)
            operator = served(3, lambda: operator_lists(server.port))
            status = served(2, lambda: get(server.status_port, "/metrics"))
            old, held, opened = victim.between(began, time.monotonic()), crowd.held(), crowd.opened
        figures = (
            f"{held} of {count} held a place ({opened} opened); new clients served {client[0]} of 8"
            f" (longest {client[1]:.1f} s),"
            f" `rocketha clients` {operator[0]} of 3, status {status[0]} of 2; a client from before {old}"
        )
        return Verdict(client[0] == 8 and operator[0] == 3 and status[0] == 2 and old.longest_s < 2, figures)


def operator_lists(port: int) -> bool:
    """Whether ``rocketha clients`` answers."""
    command = [str(BIN / "rocketha"), "clients", "-b", f"{HOST}:{port}"]
    return subprocess.run(command, capture_output=True, timeout=20).returncode == 0


@attack("places-one-frame-each")
def one_frame(directory: pathlib.Path) -> Verdict:
    """1,024 connections that say one valid thing and come again when they are closed."""
    return crowded(directory, said, None)


@attack("places-of-registered-clients")
def registered_clients(directory: pathlib.Path) -> Verdict:
    """1,024 connections, each with the heartbeat of a client."""
    return crowded(directory, registered, 20)


@attack("places-of-pulls-that-wait")
def waiting_pulls(directory: pathlib.Path) -> Verdict:
    """1,024 connections, each with a pull that waits."""
    return crowded(directory, waits, 15)


@attack("places-that-go-on-asking")
def asking(directory: pathlib.Path) -> Verdict:
    """1,024 connections that ask every second."""
    return crowded(directory, said, 1)


@attack("places-of-one-address-one-frame-each")
def one_frame_alike(directory: pathlib.Path) -> Verdict:
    """As ``places-one-frame-each``, from the address of everybody else."""
    return crowded(directory, said, None, HOST)


@attack("places-of-one-address-registered-clients")
def registered_alike(directory: pathlib.Path) -> Verdict:
    """As ``places-of-registered-clients``, from the address of everybody else."""
    return crowded(directory, registered, 20, HOST)


@attack("places-of-one-address-pulls-that-wait")
def waiting_alike(directory: pathlib.Path) -> Verdict:
    """As ``places-of-pulls-that-wait``, from the address of everybody else."""
    return crowded(directory, waits, 15, HOST)


@attack("places-of-one-address-that-goes-on-asking")
def asking_alike(directory: pathlib.Path) -> Verdict:
    """As ``places-that-go-on-asking``, from the address of everybody else."""
    return crowded(directory, said, 1, HOST)


def nameserver_crowded(directory: pathlib.Path, source: str) -> Verdict:
    """A nameserver with 256 places: routes must be answered, a registered broker must stay, an operator come in."""
    with nameserver(directory, files=FILES) as server, Connection(server.port) as broker:
        assert broker.ask(REGISTER_BROKER, registration("true", "127.0.0.1:1"), topics("orders")).code == 0
        with Crowd(server.port, 1024, said, 1, source) as crowd:
            wait(6)
            client = served(8, lambda: ask(server.port, ROUTE, {"topic": "orders"}).code == 0)
            operator = served(3, lambda: operator_lists(server.port))
            opened = crowd.opened
        again = broker.ask(REGISTER_BROKER, registration("true", "127.0.0.1:1"), topics("orders")).code
        figures = f"{opened} opened; routes answered {client[0]} of 8 (longest {client[1]:.1f} s), `rocketha clients`"
        figures += f" {operator[0]} of 3; the broker from before {again}"
        return Verdict(client[0] == 8 and operator[0] == 3 and again == 0, figures)


@attack("places-of-a-nameserver")
def of_a_nameserver(directory: pathlib.Path) -> Verdict:
    """1,024 connections that ask every second."""
    return nameserver_crowded(directory, STRANGER)


@attack("places-of-one-address-of-a-nameserver")
def of_a_nameserver_alike(directory: pathlib.Path) -> Verdict:
    """As ``places-of-a-nameserver``, from the address of everybody else."""
    return nameserver_crowded(directory, HOST)


def replica_returns(directory: pathlib.Path, says: Callable[[int, int], bytes], again_s: float | None) -> Verdict:
    """All ports of the master and of the leading controller are full; a slave is killed and must come back in sync.

    A broker's ports have 100 places each, so that its files suffice: :func:`two_ports` is about these.
    """
    with (
        group(directory, "--set", "connectionsMax=100", files=FILES) as servers,
        Victim(servers.master_port, pause_s=0.02) as victim,
        contextlib.ExitStack() as stack,
    ):
        master, slave, leader = servers.master_port(), servers.slave_port(), servers.leader()
        epoch = servers.epochs()[0]
        victim.during(1)
        for port in (master, master - 2, leader):
            stack.enter_context(Crowd(port, 300, says, again_s, STRANGER))
        wait(6)
        began = time.monotonic()
        os.kill(servers.pid(slave), signal.SIGKILL)
        fell = until(lambda: len(servers.in_sync()) == 2, 15)
        back = until(lambda: len(servers.in_sync()) == 3, 45)
        took = time.monotonic() - began
        meanwhile = victim.between(began, time.monotonic())
        same = until(lambda: servers.epochs()[0] == epoch and servers.master_port() == master, 5)
        figures = f"the slave left the set {fell}, was in sync again {back} after {took:.1f} s"
        figures += f"; no election {same}; sends {meanwhile}"
        return Verdict(back and same and meanwhile.longest_s < 4, figures)


@attack("replica-returns-one-frame-each")
def replica_one_frame(directory: pathlib.Path) -> Verdict:
    """The places are held by connections that said one thing."""
    return replica_returns(directory, said, None)


@attack("replica-returns-registered-clients")
def replica_registered(directory: pathlib.Path) -> Verdict:
    """The places are held by clients."""
    return replica_returns(directory, registered, 20)


@attack("ha-port-full-of-strangers")
def ha_full(directory: pathlib.Path) -> Verdict:
    """300 connections to the HA port, silent or with a slave's handshake of foreign ids; a slave must come back."""
    with group(directory, files=FILES) as servers, Victim(servers.master_port, pause_s=0.02) as victim:
        master, slave = servers.master_port(), servers.slave_port()
        victim.during(1)

        def shakes(port: int, number: int) -> bytes:
            return b"" if number % 2 else b"\0\0\0\1\0\0\0\0" + (number + 10).to_bytes(8, "big")

        with Crowd(master + 1, 300, shakes, None, STRANGER):
            wait(3)
            os.kill(servers.pid(slave), signal.SIGKILL)
            began = time.monotonic()
            until(lambda: len(servers.in_sync()) == 2, 15)
            back = until(lambda: len(servers.in_sync()) == 3, 45)
            took = time.monotonic() - began
            meanwhile = victim.between(began, time.monotonic())
        return Verdict(back and meanwhile.longest_s < 4, f"in sync again {back} after {took:.1f} s; sends {meanwhile}")


@attack("pulls-that-never-read")
def unread(directory: pathlib.Path) -> Verdict:
    """200 connections ask for 500 answers of 256 KiB each and read none, beside a client that sends."""
    with alone(directory) as server, Victim(lambda: server.port) as victim:
        with Connection(server.port) as stranger:
            for _ in range(64):
                assert stranger.ask(SEND_V2, message("large"), os.urandom(60_000)).code == 0
        before, quiet, cpu = server.rss_mib(), victim.during(2), cpu_s(server.process.pid)
        request = frame(PULL, pull("large")) * 500
        greatest, crowd = before, []
        began = time.monotonic()
        for _ in range(200):
            each = socket.create_connection((HOST, server.port), 5, source_address=(STRANGER, 0))
            each.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                each.send(request)
            crowd.append(each)
        while time.monotonic() < began + 15:
            greatest = max(greatest, server.rss_mib())
            wait(0.1)
        meanwhile, used = victim.between(began, time.monotonic()), cpu_s(server.process.pid) - cpu
        for each in crowd:
            each.close()
        after = victim.during(2)
        figures = f"{before:.0f} to {greatest:.0f} MiB at most, CPU {used:.1f} s;"
        figures += f" sends before {quiet}, during {meanwhile}, after {after}"
        return Verdict(greatest - before < 150 and meanwhile.longest_s < 2 and not meanwhile.bad, figures)


@attack("client-1025")
def many_clients(directory: pathlib.Path) -> Verdict:
    """1,500 clients with heartbeats where 4,096 files may be open; each asks again at the end."""
    with alone(directory, files=4096) as server, contextlib.ExitStack() as stack:
        good = again = 0
        clients = []
        for number in range(1500):
            with contextlib.suppress(OSError):
                client = stack.enter_context(Connection(server.port))
                clients.append(client)
                good += client.ask(HEARTBEAT, {}, consumers("group", client=f"c@{number}")).code == 0
        for client in clients:
            with contextlib.suppress(OSError):
                again += client.ask(RUNTIME).code == 0
        return Verdict(good == again == 1500, f"of 1500 clients {good} were served, {again} again when all were there")


@attack("places-of-two-ports-and-the-files")
def two_ports(directory: pathlib.Path) -> Verdict:
    """Main and fast port are filled by connections that say one thing: the store must still open its files."""
    return ports_filled(directory, STRANGER)


@attack("places-of-one-address-two-ports-and-the-files")
def two_ports_alike(directory: pathlib.Path) -> Verdict:
    """As ``places-of-two-ports-and-the-files``, from the address of everybody else."""
    return ports_filled(directory, HOST)


def ports_filled(directory: pathlib.Path, source: str) -> Verdict:
    """A client that came a moment before the crowd sends to new topics."""
    small = ("--set", "mappedFileSizeCommitLog=1048576")
    with (
        alone(directory, *small, files=FILES) as server,
        Victim(lambda: server.port, pause_s=0.01) as victim,
        Connection(server.port) as client,
    ):
        assert client.ask(RUNTIME).code == 0
        with Crowd(server.port, 300, said, None, source), Crowd(server.port - 2, 300, said, None, source):
            wait(2)
            codes: dict[str, int] = {}
            for number in range(40):
                try:
                    answer = client.ask(SEND_V2, message(f"new-{number}"), bytes(100_000))
                    said_so = f"{answer.code} {answer.remark[:60]}"
                except OSError as problem:
                    said_so = type(problem).__name__
                codes[said_so] = codes.get(said_so, 0) + 1
            meanwhile, status = victim.during(3), server.process.poll()
            used = len(os.listdir(f"/proc/{server.process.pid}/fd")) if status is None else 0
        victim.during(5)
        after, ended = victim.during(3), server.process.poll()
        lost = server.log().count("Too many open files")
        figures = (
            f"{used} of {FILES} files open; 40 sends of 100 kB to new topics: {codes}; a client from before"
            f" {meanwhile}, 5 s after the attack {after}; files that could not be opened {lost}; ended: {ended}"
        )
        return Verdict(not lost and status is None and set(codes) == {"0 "} and not meanwhile.bad, figures)
