"""Simulated brokers for a controller: each registers by its own connection, then sends a heartbeat (904) a second.

    python benchmarks/raft_fleet.py 127.0.0.1:9878 --brokers 5000

Standard library alone, one epoll set.  Sets have three replicas; the first of each is elected master.  Their
address is that of the fleet, which listens there and answers whatever it is asked, as a living broker does when a
controller looks whether it is there.

Prints a JSON line when all are registered and beat, and one with what was sent when its standard input ends.
"""

from __future__ import annotations

import argparse
import collections
import json
import select
import socket
import struct
import sys
import time
from typing import Any

HEARTBEAT, ELECT, REGISTER, APPLY_ID = 904, 1002, 1003, 1013
REPLICAS = 3
PERIOD_S = 1.0
REGISTERING_MAX = 100
"""Brokers in the middle of their registration."""


def frame(code: int, opaque: int, fields: dict[str, str], oneway: bool = False) -> bytes:
    header = {
        "code": code,
        "extFields": fields,
        "flag": 2 if oneway else 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 513,
    }
    data = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack(">iI", 4 + len(data), len(data)) + data


class Answers:
    """Cuts what a peer says into headers."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        data = self._rest + data
        at, headers = 0, []
        while len(data) - at >= 8:
            length, word = struct.unpack_from(">iI", data, at)
            if len(data) - at < 4 + length:
                break
            headers.append(json.loads(data[at + 8 : at + 8 + (word & 0xFFFFFF)]))
            at += 4 + length
        self._rest = data[at:]
        return headers


class Broker:
    """One connection; registers step by step, then beats."""

    def __init__(self, server: tuple[str, int], number: int, port: int) -> None:
        self.name, self.id = f"broker-{number // REPLICAS:04d}", number % REPLICAS + 1
        self.address = f"127.0.0.1:{port}"
        self.sock = socket.create_connection(server)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = Answers()
        self.registered = False
        common = {"clusterName": "bench", "brokerName": self.name}
        mine = {**common, "brokerId": str(self.id), "invokeTime": str(int(time.time() * 1000))}
        apply = {**common, "appliedBrokerId": str(self.id), "registerCheckCode": f"{self.address};1"}
        self._steps = [
            frame(APPLY_ID, 1, apply),
            frame(REGISTER, 2, {**mine, "brokerAddress": self.address}),
        ]
        if self.id == 1:
            self._steps.append(frame(ELECT, 3, {**mine, "designateElect": "false"}))
        self.beat = frame(
            HEARTBEAT,
            4,
            {
                **common,
                "brokerId": str(self.id),
                "brokerAddr": self.address,
                "epoch": "1",
                "maxOffset": "1000",
                "confirmOffset": "1000",
                "heartbeatTimeoutMills": "10000",
                "electionPriority": "2147483647",
            },
            oneway=True,
        )

    def step(self) -> None:
        """The next request of the registration; a beat goes before it, so that the controller knows it lives."""
        if self._steps:
            self.sock.send(self.beat + self._steps.pop(0))
        else:
            self.registered = True

    def heard(self, data: bytes) -> bool:
        """Whether its registration got on."""
        got_on = False
        for header in self.answers.feed(data):
            if not header.get("flag", 0) & 1:
                continue  # the controller tells of an election
            if header["code"]:
                raise SystemExit(f"{self.name} {self.id}: {header}")
            if not self.registered:
                self.step()
                got_on = self.registered
        return got_on


class Fleet:
    """All of them, and the port at which they are looked for."""

    def __init__(self, server: tuple[str, int], count: int) -> None:
        self._poll = select.epoll()
        self._port = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._port.setblocking(False)
        self._poll.register(self._port.fileno(), select.EPOLLIN)
        self._askers: dict[int, tuple[socket.socket, Answers]] = {}
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        self._server = server
        self._count = count
        self.brokers: dict[int, Broker] = {}
        # Registered ones, by when their next beat is due.
        self._due: collections.deque[tuple[float, Broker]] = collections.deque()
        # Replicas 1 first: the others need a set to join.
        self._waiting = collections.deque(sorted(range(count), key=lambda number: number % REPLICAS))
        self.sent = self.asked = 0
        self.late_s = 0.0

    def run(self) -> None:
        registering, told = 0, False
        while True:
            while self._waiting and registering < REGISTERING_MAX:
                broker = Broker(self._server, self._waiting.popleft(), self._port.getsockname()[1])
                self.brokers[broker.sock.fileno()] = broker
                self._poll.register(broker.sock.fileno(), select.EPOLLIN)
                broker.step()
                registering += 1
            now = time.monotonic()
            for fd, _ in self._poll.poll(max(0.001, self._due[0][0] - now) if self._due else 1):
                if fd == sys.stdin.fileno():
                    return
                if fd == self._port.fileno():
                    self._accept()
                elif fd in self._askers:
                    self._answer(fd)
                elif self.brokers[fd].heard(self._received(fd)):
                    registering -= 1
                    self._due.append((time.monotonic() + PERIOD_S, self.brokers[fd]))
            self._beat(time.monotonic())
            if not told and len(self._due) == self._count:
                told = True
                self._spread()
                print(json.dumps({"brokers": self._count}), flush=True)

    def _received(self, fd: int) -> bytes:
        data = self.brokers[fd].sock.recv(1 << 16)
        if not data:
            raise SystemExit(f"the controller closed the connection of {self.brokers[fd].name}")
        return data

    def _spread(self) -> None:
        """From now on beats are even over the second."""
        now, brokers = time.monotonic(), [broker for _, broker in self._due]
        self._due.clear()
        self._due.extend((now + i * PERIOD_S / len(brokers), broker) for i, broker in enumerate(brokers))
        self.sent, self.late_s = 0, 0.0

    def _beat(self, now: float) -> None:
        due = self._due
        while due and due[0][0] <= now:
            at, broker = due.popleft()
            broker.sock.send(broker.beat)
            self.sent += 1
            self.late_s = max(self.late_s, now - at)
            due.append((at + PERIOD_S, broker))

    def _accept(self) -> None:
        asker, _ = self._port.accept()
        self._askers[asker.fileno()] = (asker, Answers())
        self._poll.register(asker.fileno(), select.EPOLLIN)

    def _answer(self, fd: int) -> None:
        asker, answers = self._askers[fd]
        data = b""
        try:
            data = asker.recv(1 << 16)
            for header in answers.feed(data):
                self.asked += 1
                text = b'{"code":0,"flag":1,"language":"JAVA","opaque":%d,"version":513}' % header["opaque"]
                asker.send(struct.pack(">iI", 4 + len(text), len(text)) + text)
        except ConnectionError:
            pass
        if not data:
            self._poll.unregister(fd)
            asker.close()
            del self._askers[fd]


def main(argv: list[str]) -> int:
    """Until standard input ends."""
    parser = argparse.ArgumentParser("raft_fleet.py", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("server", help="host:port of the controller that leads")
    parser.add_argument("--brokers", type=int, default=5000)
    given = parser.parse_args(argv)
    host, _, port = given.server.rpartition(":")
    fleet = Fleet((host, int(port)), given.brokers)
    begin = time.monotonic()
    fleet.run()
    print(
        json.dumps(
            {
                "sent": fleet.sent,
                "late_ms": round(fleet.late_s * 1e3, 1),
                "asked": fleet.asked,
                "seconds": round(time.monotonic() - begin, 1),
                "cpu_s": round(time.process_time(), 2),
            }
        ),
        flush=True,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
