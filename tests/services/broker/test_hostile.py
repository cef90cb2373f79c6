"""Hostile peers against a real process: refused, bounded, and others served meanwhile."""

from __future__ import annotations

import os
import pathlib
import select
import socket
import struct
import subprocess
import time
import unittest
import zlib

from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import Command, decode, encode, request
from tests.services.broker_case import pull_fields, send_fields
from tests.services.process.test_process import ClusterProcess

GROWTH_MAX = 200 * 1024 * 1024
"""Bytes by which the process may grow under these attacks."""


def asked(code: int, opaque: int, fields: dict[str, str] | None = None, body: bytes = b"", flag: int = 0) -> bytes:
    """One frame."""
    command = request(code, fields, body)
    command.opaque, command.flag = opaque, flag
    return encode(command)


class HostileTests(unittest.TestCase):
    """One cluster for all tests; each ends with a good client's question answered."""

    cluster: ClusterProcess

    def setUp(self) -> None:
        base = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"rocketha-hostile-{os.getpid()}"
        work = base / self.id().rsplit(".", maxsplit=1)[-1]
        work.mkdir(parents=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", str(base)], check=False)
        self.cluster = ClusterProcess(self, work / "data", "--set", "connectionsMax=100")
        self.cluster.words()
        self.rss = self.resident()
        self.opaque = 1_000_000

    def resident(self) -> int:
        with open(f"/proc/{self.cluster.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def connect(self, port: int | None = None) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port or self.cluster.broker), timeout=10)
        self.addCleanup(connection.close)
        return connection

    def answers(self, connection: socket.socket, count: int) -> list[Command]:
        """The next answers of a connection; fewer when it is closed."""
        buffer, found = FrameBuffer(1 << 25), list[Command]()
        connection.settimeout(20)
        while len(found) < count:
            data = connection.recv(1 << 20)
            if not data:
                break
            found += [decode(frame, 1 << 24) for frame in buffer.feed(data)]
        return found

    def assert_served(self) -> None:
        """A good client gets its answer within a second, and the process has not grown."""
        for port in (self.cluster.broker, self.cluster.namesrv):
            self.opaque += 1
            good = self.connect(port)
            began = time.monotonic()
            good.sendall(asked(28 if port == self.cluster.broker else 106, self.opaque))
            (answer,) = self.answers(good, 1)
            self.assertEqual((answer.opaque, answer.code), (self.opaque, 0))
            self.assertLess(time.monotonic() - began, 5)
        self.assertLess(self.resident() - self.rss, GROWTH_MAX)
        self.assertIsNone(self.cluster.process.poll())

    def assert_closed(self, connection: socket.socket) -> None:
        connection.settimeout(20)
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass

    def test_frames_that_close(self) -> None:
        """Bad lengths, a header longer than its frame, an unknown serializer, TLS and HTTP, deep JSON."""
        deep = b'{"code":105,"extFields":' + b"[" * 50_000
        bad = [struct.pack(">i", length) for length in (0, -1, 0x7FFFFFFF, 16 * 1024 * 1024 + 1, -0x80000000)] + [
            struct.pack(">iI", 8, 0xFFFF) + b"{}{}",
            struct.pack(">iI", 6, 9 << 24 | 2) + b"{}",
            struct.pack(">iI", 4 + len(deep), len(deep)) + deep,
            struct.pack(">iI", 9, 5) + b"\xff\xff\xff\xff\xff",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        ]
        for port in (self.cluster.broker, self.cluster.namesrv):
            for data in bad:
                connection = self.connect(port)
                connection.sendall(data)
                self.assert_closed(connection)
        self.assert_served()

    def test_a_byte_at_a_time(self) -> None:
        """A client that sends single bytes is served like any other."""
        connection = self.connect()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for data in (asked(310, 1, send_fields(topic="Slow"), b"body"), asked(11, 2, pull_fields(topic="Slow"))):
            for byte in data:
                connection.send(bytes([byte]))
            (pulled,) = self.answers(connection, 1)
            self.assertEqual(pulled.code, 0)
        self.assertIn(b"body", pulled.body)

    def test_connections_beyond_the_bound(self) -> None:
        """The 101st connection is refused; when idle ones go, there is room again."""
        held = [self.connect() for _ in range(100)]
        for connection in held:
            connection.sendall(asked(28, 1))
        self.assertEqual(len([1 for connection in held if self.answers(connection, 1)]), 100)
        self.assert_closed(self.connect())
        for connection in held:
            connection.close()
        deadline = time.monotonic() + 20
        while True:
            late = self.connect()
            try:
                late.sendall(asked(28, 7))
                if self.answers(late, 1):
                    break
            except OSError:
                pass
            self.assertLess(time.monotonic(), deadline, "no room after the others went")
        self.assert_served()

    def test_large_frames_never_finished(self) -> None:
        """Sixty connections that each begin a frame of 16 MiB cost what they sent, not what they claimed."""
        claim = struct.pack(">iI", 16 * 1024 * 1024, 100)
        for _ in range(60):
            self.connect().sendall(claim + b"x" * 65536)
        self.assert_served()

    def test_oneway_flood_with_one_opaque(self) -> None:
        """100,000 oneway requests, good and bad, all with the same opaque: no answer, no growth."""
        connection = self.connect()
        flood = b"".join(
            (asked(code, 5, fields, b"x", flag=2))
            for code, fields in ((310, send_fields(topic="../x")), (15, {}), (999, {}), (34, {}), (36, {"offset": "1"}))
        )
        for _ in range(200):
            connection.sendall(flood * 100)
        connection.sendall(asked(28, 6))
        self.assertEqual([answer.opaque for answer in self.answers(connection, 1)], [6])
        self.assert_served()

    def test_who_asks_and_never_reads(self) -> None:
        """Pulls of large messages whose answers nobody reads: reading stops, memory stays."""
        writer = self.connect()
        for number in range(8):
            writer.sendall(asked(310, number, send_fields(topic="Big"), b"x" * 1_000_000))
        self.assertEqual([answer.code for answer in self.answers(writer, 8)], [0] * 8)
        pulls = b"".join(asked(11, number, pull_fields(topic="Big", offset=number % 8)) for number in range(100))
        for _ in range(10):
            deaf = self.connect()
            deaf.setblocking(False)
            for _ in range(20):  # until it is not read from any more
                if not select.select([], [deaf], [], 0.2)[1]:
                    break
                try:
                    deaf.send(pulls)
                except OSError:
                    break
        self.rss += 256 * 1024 * 1024  # what waits for slow readers is bounded by this (queued_bytes_all)
        self.assert_served()

    def test_register_bodies(self) -> None:
        """A deflated registration of 1000:1, and counts and lengths that lie: refused, the nameserver lives."""
        fields = {
            "brokerName": "evil",
            "brokerAddr": "127.0.0.1:1",
            "clusterName": "C",
            "haServerAddr": "127.0.0.1:2",
            "brokerId": "0",
            "compressed": "true",
        }
        bomb = zlib.compress(b"\0" * (300 << 20), 9)
        lies = [zlib.compress(struct.pack(">i", length) + b"{}") for length in (-1, 0x7FFFFFFF, 1 << 30)]
        connection = self.connect(self.cluster.namesrv)
        for number, body in enumerate([bomb, *lies, b"\x78\x9c", b"{}"]):
            connection.sendall(asked(103, number, fields, body))
        answers = self.answers(connection, 6)
        self.assertEqual(len(answers), 6)
        self.assertTrue(all(answer.code != 0 and answer.remark for answer in answers))
        self.assert_served()

    def test_names(self) -> None:
        """Topics and groups named like paths, with NUL, #, %, or too long: refused, and no file is made of them."""
        connection, number = self.connect(), 0
        for name in ("..", "../../etc/passwd", "/tmp/x", "a\x00b", "a#b", "x" * 256, "%00", ".", "a\nb"):
            for code, fields in (
                (310, send_fields(topic=name)),
                (
                    17,
                    {
                        "topic": name,
                        "defaultTopic": "TBW102",
                        "readQueueNums": "4",
                        "writeQueueNums": "4",
                        "perm": "6",
                        "topicFilterType": "SINGLE_TAG",
                        "topicSysFlag": "0",
                        "order": "false",
                    },
                ),
                (11, pull_fields(topic="TBW102", consumerGroup=name)),
            ):
                number += 1
                connection.sendall(asked(code, number, fields, b"x"))
                (answer,) = self.answers(connection, 1)
                if not (name == "%00" and code != 11):  # a good name in RocketMQ, odd as it looks
                    self.assertNotEqual(answer.code, 0, (code, name))
        queues = self.cluster.log.parent / "data" / "store" / "consumequeue"
        self.assertLessEqual({path.name for path in queues.iterdir()}, {"%00"})
        self.assert_served()
