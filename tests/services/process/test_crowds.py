"""Real servers whose ports are crowded: who works, a replica and an operator come in, and nobody stalls.

White-box only in what it counts: places, descriptors, memory, times, the metric of ended connections.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import threading
import time
import unittest
import urllib.request
from pathlib import Path
from typing import Any

from rocketha.observe.http import CONNECTIONS_MAX
from rocketha.wire.codes import PrivateCode, RequestCode
from rocketha.wire.ha_frames import encode_classic_report
from tests.interop.harness import ports, remoting
from tests.interop.harness.processes import scratch, wait_until
from tests.interop.harness.roles import LOOPBACK, Host, OurBroker
from tests.services.broker_case import pull_fields, send_fields

MIB = 1 << 20
FILES = 256
LIMITED = Host("limited", "127.0.0.1", ("sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh"))
OFFSET = {"topic": "T", "queueId": "0"}
ASK = remoting.frame(RequestCode.GET_MIN_OFFSET, OFFSET)


def pull(offset: int, wait: bool, queue_id: int = 0) -> bytes:
    """PULL_MESSAGE, which waits a minute for a message, or not at all."""
    more: dict[str, Any] = {"sysFlag": "6" if wait else "4", "suspendTimeoutMillis": "60000"}
    return remoting.frame(RequestCode.PULL_MESSAGE, pull_fields(queue_id=queue_id, offset=offset, **more))


class Broker(OurBroker):
    """With a status port."""

    def command(self) -> list[str]:
        self.http = getattr(self, "http", None) or ports.free_ports(1)[0]
        return [*super().command(), "--http", str(self.http)]

    def ended(self) -> dict[str, int]:
        """The metric of ended connections."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=5) as page:
            text = page.read().decode()
        return {
            found[1]: int(found[2])
            for found in re.finditer(r'rocketha_connections_ended_total\{reason="(\w+)",role="broker"\} (\d+)', text)
        }


class CrowdsTests(unittest.TestCase):
    """Brokers with 1,024 places, and with few files; what connects is on loopback, where no address has a share."""

    folder: Path
    large: Broker
    broker: Broker

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = scratch("crowds")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.large = cls.start(LOOPBACK, connectionsMax=1024)

    @classmethod
    def start(cls, host: Host, **extra: object) -> Broker:
        """One without nameservers, with a message in queue 0."""
        broker = Broker(cls.folder / host.name, None, extra, host=host)
        cls.addClassCleanup(broker.kill)
        broker.start()
        assert remoting.call(broker.address, RequestCode.SEND_MESSAGE_V2, send_fields(), b"x").code == 0
        return broker

    def setUp(self) -> None:
        self.broker = self.large
        wait_until("the test before is gone", lambda: self.ask(PrivateCode.CLIENTS).body.count(b'"id"') < 3, 10)
        self.before = self.broker.ended()

    def newly_ended(self, reason: str) -> int:
        """Connections, since the test began."""
        return self.broker.ended().get(reason, 0) - self.before.get(reason, 0)

    def connect(self, words: bytes = b"", above: int = 0) -> socket.socket:
        """One that may lose its place before it has said anything."""
        made = socket.socket()
        self.addCleanup(made.close)
        made.settimeout(10)
        with contextlib.suppress(OSError):
            made.connect(("127.0.0.1", self.broker.port + above))
            made.sendall(words)
        return made

    def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"", above: int = 0) -> remoting.Reply:
        return remoting.call(f"127.0.0.1:{self.broker.port + above}", code, fields, body, timeout_s=10)

    def assert_servers_come_in(self) -> None:
        """Operators by both ports, a slave for the tables, a controller; each at once."""
        began = time.monotonic()
        for code, above in (
            (PrivateCode.CLIENTS, 0),
            (RequestCode.GET_BROKER_RUNTIME_INFO, -2),
            (RequestCode.GET_ALL_TOPIC_CONFIG, -2),
            (RequestCode.GET_BROKER_HA_STATUS, 0),
        ):
            self.assertEqual(self.ask(code, above=above).code, 0, code)
        self.assertLess(time.monotonic() - began, 2)

    def test_few_open_files(self) -> None:
        """256 of them: pulls that wait on both ports, and a crowd at the port for replicas, leave descriptors for all
        that has to go on."""
        self.broker, self.before = self.start(LIMITED), {}
        worker = self.connect(pull(1, wait=True))
        for _ in range(70):
            self.connect(pull(1, wait=True))
            self.connect(pull(1, wait=True), above=-2)
            self.connect(encode_classic_report(1 << 40), above=1)
        self.assert_servers_come_in()
        self.assertLess(len(os.listdir(f"/proc/{self.broker.pid}/fd")), FILES)
        worker.sendall(remoting.frame(RequestCode.SEND_MESSAGE_V2, send_fields(queue_id=1), b"x"))
        self.assertEqual(remoting.read_reply(worker).code, 0)
        slave = self.connect(encode_classic_report(0), above=1)
        self.assertEqual(len(slave.recv(8)), 8, "the master's log")
        self.assertGreater(self.newly_ended("lost_place"), 0)
        self.assertGreater(self.newly_ended("logs_differ"), 0, "what the port for replicas refused")
        self.assertNotIn("EMFILE", self.broker.log())
        self.assertNotIn("Too many open files", self.broker.log())

    def test_all_places_hold_a_pull(self) -> None:
        """1,024 clients that wait for messages, and 300 more: these stay, and so do those that came first."""
        waiting = [self.connect(pull(1, wait=True)) for _ in range(1024)]
        crowd = [self.connect(pull(1, wait=True)) for _ in range(300)]
        self.assert_servers_come_in()
        wait_until("as many have left", lambda: self.newly_ended("lost_place") >= 300, 10)
        self.assertEqual(self.gone(crowd), [])
        left = self.gone(waiting)
        self.assertIn(len(left), range(300, 305), "operators come and go")
        self.assertGreater(min(left), 400, "about half of the places are for those that came first")

    def gone(self, connections: list[socket.socket]) -> list[int]:
        """Those that were closed, though nobody was answered."""
        closed = []
        for number, each in enumerate(connections):
            each.setblocking(False)
            try:
                self.assertEqual(each.recv(1), b"")
            except BlockingIOError:
                continue
            except ConnectionResetError:
                pass
            closed.append(number)
        return closed

    def test_one_frame_each(self) -> None:
        """1,024 connections that asked once: more clients and operators come in at once."""
        for _ in range(1024):
            self.connect(ASK)
        self.assert_servers_come_in()
        began = time.monotonic()
        for _ in range(10):
            self.assertEqual(self.ask(RequestCode.GET_MIN_OFFSET, OFFSET).code, 0)
        self.assertLess(time.monotonic() - began, 2)

    def test_pulls_that_are_not_read(self) -> None:
        """200 connections with 64 pulls of a quarter of a mebibyte each: a send waits at most for the CPU time of two
        pulls of each, as measured one at a time on this machine, and memory grows by less than 100 MiB."""
        for _ in range(100):
            self.assertEqual(self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(queue_id=2), b"y" * 8000).code, 0)
        began = self.broker.cpu_seconds()
        for _ in range(400):
            self.assertEqual(self.ask(RequestCode.PULL_MESSAGE, pull_fields(queue_id=2, offset=0)).code, 0)
        two_pulls_each_s = self.broker.cpu_seconds() - began
        before = most = self.broker.rss_bytes()
        waited_s: list[float] = []
        enough = threading.Event()
        sender = self.connect()

        def send() -> None:
            while not enough.is_set():
                began = self.broker.cpu_seconds()  # wall time would depend on what else runs here
                sender.sendall(remoting.frame(RequestCode.SEND_MESSAGE_V2, send_fields(queue_id=1), b"x"))
                assert remoting.read_reply(sender).code == 0
                waited_s.append(self.broker.cpu_seconds() - began)

        thread = threading.Thread(target=send)
        thread.start()
        for _ in range(200):
            self.connect(pull(0, wait=False, queue_id=2) * 64)
        deadline, sent = time.monotonic() + 15, len(waited_s)
        while time.monotonic() < deadline and len(waited_s) < sent + 100:
            most = max(most, self.broker.rss_bytes())
            enough.wait(0.05)
        enough.set()
        thread.join()
        self.assertLess(max(waited_s), two_pulls_each_s)
        self.assertGreaterEqual(len(waited_s), sent + 100)
        self.assertLess(most - before, 100 * MIB)
        self.assert_servers_come_in()

    def test_the_status_port(self) -> None:
        """Sixteen silent connections: the scraper takes the place of the oldest."""
        silent = [socket.create_connection(("127.0.0.1", self.broker.http), 5) for _ in range(CONNECTIONS_MAX)]
        for each in silent:
            self.addCleanup(each.close)
        began = time.monotonic()
        self.assertGreaterEqual(self.newly_ended("lost_place"), 1)
        self.assertLess(time.monotonic() - began, 2)
