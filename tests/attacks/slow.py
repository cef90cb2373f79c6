"""Silence and drips: connections that say nothing, or a byte a second."""

from __future__ import annotations

import contextlib
import pathlib
import selectors
import socket
import struct
import time
from collections.abc import Callable

from tests.attacks.attack import Verdict, attack, wait
from tests.attacks.servers import alone, get, group
from tests.attacks.wire import HOST, RUNTIME, SEND_V2, STRANGER, ask, frame, message

COUNT = 100


def dripped(
    port: int, what: bytes, seconds: float, serves: Callable[[], object], begin: int = 0
) -> tuple[int, float, int, int]:
    """Open 100 connections that send a byte a second.

    Gives how many the server had ended by then, when the last one ended, and how many looks at the service were good,
    of how many.
    """
    crowd: dict[socket.socket, int] = {}
    last, good, looks, ended = 0.0, 0, 0, 0
    began = time.monotonic()
    for _ in range(COUNT):
        each = socket.create_connection((HOST, port), 5, source_address=(STRANGER, 0))
        each.sendall(what[:begin])
        crowd[each] = begin
    while time.monotonic() < began + seconds and crowd:
        for each, sent in list(crowd.items()):
            try:
                each.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    if not each.recv(1 << 16):
                        raise ConnectionError
                each.send(what[sent : sent + 1] or what[-1:])
                crowd[each] = sent + 1
            except OSError:
                each.close()
                del crowd[each]
                ended, last = ended + 1, time.monotonic() - began
        looks += 1
        with contextlib.suppress(OSError):
            good += bool(serves())
        wait(1)
    for each in crowd:
        each.close()
    return ended, last, good, looks


def judged(found: tuple[int, float, int, int], bound_s: float) -> Verdict:
    """All must be ended within the bound, and every look at the service be good."""
    ended, last, good, looks = found
    figures = f"{ended} of {COUNT} ended, the last after {last:.0f} s; a newcomer served {good} of {looks}"
    return Verdict(ended == COUNT and last <= bound_s and good == looks, figures)


@attack("slow-first-frame")
def slow_first(directory: pathlib.Path) -> Verdict:
    """The first frame comes at a byte a second."""
    with alone(directory) as server:
        what = frame(SEND_V2, message("slow"), b"x" * 1000)
        return judged(dripped(server.port, what, 25, lambda: ask(server.port, RUNTIME).code == 0), 15)


@attack("slow-second-frame")
def slow_second(directory: pathlib.Path) -> Verdict:
    """A whole frame, and then one at a byte a second."""
    with alone(directory) as server:
        first, second = frame(RUNTIME), frame(SEND_V2, message("slow"), b"x" * 1000)
        found = dripped(server.port, first + second, 45, lambda: ask(server.port, RUNTIME).code == 0, len(first) + 4)
        return judged(found, 40)


@attack("slow-ha-port")
def slow_ha(directory: pathlib.Path) -> Verdict:
    """A slave's handshake at a byte a second, at a master's HA port."""
    with group(directory) as servers:
        port = servers.master_port() + 1
        what = b"\0\0\0\1\0\0\0\0" + (2).to_bytes(8, "big") + (b"\0\0\0\2" + bytes(8)) * 100
        return judged(dripped(port, what, 45, lambda: len(servers.in_sync()) == 3), 40)


@attack("slow-raft-port")
def slow_raft(directory: pathlib.Path) -> Verdict:
    """A frame of Raft's at a byte a second, at the leading controller."""
    with group(directory) as servers:
        leader, epoch = servers.leader(), servers.epochs()[0]
        what = struct.pack(">II", 4000, 0) + b"\1" * 4000
        found = dripped(leader, what, 45, lambda: servers.leader() == leader and servers.epochs()[0] == epoch)
        return judged(found, 40)


@attack("slow-status-port")
def slow_status(directory: pathlib.Path) -> Verdict:
    """A request of the status port at a byte a second."""
    with alone(directory) as server:
        what = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"x" * 1000
        return judged(dripped(server.status_port, what, 20, lambda: get(server.status_port, "/metrics", 3)), 15)


def silent(directory: pathlib.Path, count: int) -> Verdict:
    """So many silent connections on the status port, opened again as they are closed, beside a scraper."""
    with alone(directory) as server, contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        good, longest, opened = 0, 0.0, 0
        for look in range(12):
            for _, _ in selector.select(0):
                pass
            for key in list(selector.get_map().values()):
                with contextlib.suppress(BlockingIOError):
                    try:
                        gone = not key.fileobj.recv(1000)  # type: ignore[union-attr]
                    except ConnectionError:
                        gone = True
                    if gone:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
            while len(selector.get_map()) < count:
                each = stack.enter_context(socket.create_connection((HOST, server.status_port), 5))
                each.setblocking(False)
                selector.register(each, selectors.EVENT_READ)
                opened += 1
            began = time.monotonic()
            with contextlib.suppress(OSError):
                good += "rocketha_" in get(server.status_port, "/metrics", 5)
            longest = max(longest, time.monotonic() - began)
            wait(0.5 if look % 2 else 0)
        return Verdict(
            good == 12 and longest < 4,
            f"{count} silent, {opened} opened: metrics {good} of 12, longest {longest:.2f} s",
        )


@attack("silent-16-on-the-status-port")
def silent_16(directory: pathlib.Path) -> Verdict:
    """As many as it has places."""
    return silent(directory, 16)


@attack("silent-100-on-the-status-port")
def silent_100(directory: pathlib.Path) -> Verdict:
    """More than it has places."""
    return silent(directory, 100)
