"""A closed-loop load client for a Raft leader: N clients, each with one 256-byte write under way, in one process.

    python benchmarks/raft_client.py remoting 127.0.0.1:9878 --clients 64 --seconds 10

Standard library alone.  One epoll set, requests laid ahead, no object per request: it costs 9 to 40 us of CPU a
write, most of it the kernel's, so that it takes as little as can be from the nodes it shares the machine with.  Two
dialects:

remoting   one frame: a packed RocketMQ header, body = 8 bytes of key and the value.  The answer's body is a u64 that
           counts the writes applied.
etcd       HTTP/2 and gRPC laid by hand: KV/Put, headers from HPACK's dynamic table as other gRPC clients send them.
           The server is told to keep no table of its own, so that answers need no decoding: a Put was applied when a
           DATA frame came (an error sends none).

Prints a JSON line when the measured time begins, and one with the results when it ends.
"""

from __future__ import annotations

import argparse
import itertools
import json
import select
import socket
import struct
import sys
import time
from typing import NamedTuple

CODE = 11900  # of no RocketMQ request
VALUE = bytes(range(256))


class Broken(Exception):
    """The server said something that is no acknowledgement."""


class Remoting:
    """What is said on one connection with ``share`` clients; ``first`` is the key of its first."""

    greeting = b""

    def __init__(self, server: str, share: int, first: int) -> None:
        self.control = b""
        self._rest = b""
        self._last = b""
        self._frames = [self._frame(slot, first + slot) for slot in range(share)]

    @staticmethod
    def _frame(slot: int, key: int) -> bytes:
        header = struct.pack(">hBhiiii", CODE, 3, 513, slot, 0, 0, 0)
        body = struct.pack(">Q", key) + VALUE
        return struct.pack(">iI", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body

    def request(self, slot: int) -> bytes:
        """The next write of one client."""
        return self._frames[slot]

    def answered(self, data: bytes) -> list[int]:
        """The clients whose answers these bytes complete."""
        if self._rest:
            data = self._rest + data
        at, slots = 0, []
        while len(data) - at >= 8:
            length, word = struct.unpack_from(">iI", data, at)
            stop = at + 4 + length
            if len(data) < stop:
                break
            header = data[at + 8 : at + 8 + (word & 0xFFFFFF)]
            if not header.startswith(b'{"code":0,'):
                raise Broken(header.decode(errors="replace"))
            begin = header.index(b'"opaque":') + 9
            slots.append(int(header[begin : header.index(b",", begin)]))
            self._last = data[stop - 8 : stop]
            at = stop
        self._rest = data[at:]
        return slots

    def count(self) -> int:
        """The writes applied, as the last answer says."""
        return int.from_bytes(self._last, "big")


DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
_FRAME = struct.Struct(">HBBBI")


def http2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _FRAME.pack(size >> 8, size & 255, kind, flags, stream) + payload


def literal(name: bytes | int, value: bytes) -> bytes:
    """A header that goes into HPACK's dynamic table; a number is a name of the static table."""
    head = bytes((0x40 | name,)) if isinstance(name, int) else bytes((0x40, len(name))) + name
    return head + bytes((len(value),)) + value


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where the next field begins) of protobuf."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7


class Etcd:
    """The same over gRPC: one stream a write."""

    # HEADER_TABLE_SIZE 0; windows that no answer fills
    greeting = (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + http2_frame(SETTINGS, 0, 0, struct.pack(">HIHI", 1, 0, 4, 1 << 30))
        + http2_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 65536))
    )

    def __init__(self, server: str, share: int, first: int) -> None:
        self.control = b""
        self._rest = b""
        self._last = b""
        self._next = itertools.count(1, 2)
        self._slots: dict[int, int] = {}
        self._put: set[int] = set()
        names = (4, b"/etcdserverpb.KV/Put"), (1, server.encode()), (31, b"application/grpc"), (b"te", b"trailers")
        self._headers = b"\x83\x86" + b"".join(literal(name, value) for name, value in names)  # POST, http
        self._messages = [self._message(first + slot) for slot in range(share)]

    @staticmethod
    def _message(key: int) -> bytes:
        put = b"\x0a\x08" + struct.pack(">Q", key) + b"\x12\x80\x02" + VALUE
        return b"\0" + struct.pack(">I", len(put)) + put

    def request(self, slot: int) -> bytes:
        """The next write of one client."""
        stream = next(self._next)
        self._slots[stream] = slot
        headers = http2_frame(HEADERS, END_HEADERS, stream, self._headers)
        self._headers = b"\x83\x86\xc1\xc0\xbf\xbe"  # from the second request on out of the table
        return headers + http2_frame(DATA, END_STREAM, stream, self._messages[slot])

    def answered(self, data: bytes) -> list[int]:
        """The clients whose answers these bytes complete."""
        if self._rest:
            data = self._rest + data
        at, slots = 0, []
        while len(data) - at >= 9:
            high, low, kind, flags, stream = _FRAME.unpack_from(data, at)
            stop = at + 9 + (high << 8 | low)
            if len(data) < stop:
                break
            if kind == DATA:
                self._put.add(stream)
                self._last = data[at + 14 : stop]
            elif kind == HEADERS and flags & END_STREAM:
                if stream not in self._put:
                    raise Broken(f"etcd refused a Put: {data[at + 9 : stop]!r}")
                self._put.discard(stream)
                slots.append(self._slots.pop(stream))
            elif kind in (RST_STREAM, GOAWAY):
                raise Broken(f"HTTP/2 frame {kind} of etcd: {data[at + 9 : stop]!r}")
            elif kind in (SETTINGS, PING) and not flags & ACK:
                self.control += http2_frame(kind, ACK, 0, data[at + 9 : stop] if kind == PING else b"")
            at = stop
        self._rest = data[at:]
        return slots

    def count(self) -> int:
        """The store's revision as the last answer says: every Put counts it up."""
        at = 2 if self._last[1] < 128 else 3  # header { cluster_id, member_id, revision }
        for _ in range(3):
            value, at = varint(self._last, at + 1)
        return value


DIALECTS: dict[str, type[Remoting | Etcd]] = {"remoting": Remoting, "etcd": Etcd}


class Connection:
    """A socket and its clients: when each one's write left."""

    __slots__ = ("dialect", "sent", "sock", "unsent")

    def __init__(self, dialect: Remoting | Etcd, server: tuple[str, int], share: int) -> None:
        self.sock = socket.create_connection(server)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.dialect = dialect
        self.sent = [0.0] * share
        self.unsent = b""
        self.sock.sendall(dialect.greeting)
        self.sock.setblocking(False)

    def send(self, data: bytes) -> None:
        """What the socket does not take waits for the next send (its answers bring one: windows are far larger)."""
        data = self.unsent + data
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        self.unsent = data[sent:]


class Window(NamedTuple):
    """Answers between two times: how many, when, how long each took, and the server's count at both ends."""

    begin_s: float
    end_s: float
    taken_s: list[float]
    counted: int
    cpu_s: float


def open_all(dialect: str, server: str, clients: int, share: int) -> list[Connection]:
    host, _, port = server.rpartition(":")
    connections = []
    for first in range(0, clients, share):
        size = min(share, clients - first)
        connections.append(Connection(DIALECTS[dialect](server, size, first), (host.strip("[]"), int(port)), size))
    return connections


def load(connections: list[Connection], warm_s: float, seconds: float) -> Window:
    """Keep every client at it; the window opens after the warm part."""
    poll, clock = select.epoll(), time.perf_counter
    by_fd = {connection.sock.fileno(): connection for connection in connections}
    for fd, connection in by_fd.items():
        poll.register(fd, select.EPOLLIN)
        now = clock()
        connection.sent = [now] * len(connection.sent)
        connection.send(b"".join(map(connection.dialect.request, range(len(connection.sent)))))
    opens = clock() + warm_s
    closes, taken, at_begin, cpu, count = opens + seconds, [], 0, 0.0, 0
    open_ = False
    while True:
        events = poll.poll(10)
        if not events:
            raise Broken("no answer to anybody for 10 s")
        for fd, _ in events:
            connection = by_fd[fd]
            data = connection.sock.recv(1 << 16)
            if not data:
                raise Broken("the server closed a connection")
            dialect, sent = connection.dialect, connection.sent
            slots = dialect.answered(data)
            now = clock()
            if open_:
                taken += [now - sent[slot] for slot in slots]
            out, dialect.control = dialect.control, b""
            for slot in slots:
                sent[slot] = now
                out += dialect.request(slot)
            if out or connection.unsent:
                connection.send(out)
        if now >= opens and not open_ and slots:
            open_, at_begin, cpu, opens = True, dialect.count(), time.process_time(), now
            print(json.dumps({"begun": time.time()}), flush=True)
        elif now >= closes and slots:
            count = dialect.count() - at_begin
            return Window(opens, now, taken, count, time.process_time() - cpu)


def results(window: Window, clients: int) -> dict[str, object]:
    """What the last line says; the server's own count proves it: one write a client may be on its way at either end."""
    taken = sorted(window.taken_s)
    acknowledged = len(taken)
    if not acknowledged or abs(window.counted - acknowledged) > 2 * clients + 2:
        raise Broken(f"{acknowledged} answers, but the server counts {window.counted} writes")
    seconds = window.end_s - window.begin_s

    def percentile(part: float) -> float:
        return round(taken[min(acknowledged - 1, int(acknowledged * part))] * 1e3, 3)

    return {
        "acknowledged": acknowledged,
        "seconds": round(seconds, 3),
        "per_s": round(acknowledged / seconds, 1),
        "p50_ms": percentile(0.5),
        "p99_ms": percentile(0.99),
        "p999_ms": percentile(0.999),
        "max_ms": round(taken[-1] * 1e3, 3),
        "client_cpu_s": round(window.cpu_s, 3),
    }


def main(argv: list[str]) -> int:
    """Run once."""
    parser = argparse.ArgumentParser("raft_client.py", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("dialect", choices=DIALECTS)
    parser.add_argument("server", help="host:port of the leader")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--share", type=int, default=1, help="clients on one connection")
    parser.add_argument("--warm", type=float, default=2, help="seconds of load before the measured time")
    parser.add_argument("--seconds", type=float, default=8)
    given = parser.parse_args(argv)
    try:
        connections = open_all(given.dialect, given.server, given.clients, given.share)
        window = load(connections, given.warm, given.seconds)
        print(json.dumps(results(window, given.clients)), flush=True)
    except (Broken, OSError) as problem:
        print(f"raft_client: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
