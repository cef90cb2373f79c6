"""Servers for tests of others: ready soon, killed and back, and nothing is left of them."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from rocketha.testing import NotStarted, RocketMQ, servers
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command, decode, encode, request
from tests.services.broker_case import pull_fields, records, send_fields

READY_CPU_S = 1.5
"""From its start to its end.  A machine that is busy takes longer; one that is not, half a second to serve."""
PATIENCE_S = 30.0


def ask(address: str, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    """One request over a connection of its own."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rb") as read:
        connection.sendall(encode(request(code, fields, body)))
        size = int.from_bytes(read.read(4), "big")
        return decode(read.read(size), size)


def send(address: str, body: bytes) -> int:
    """The code of the answer."""
    return ask(address, RequestCode.SEND_MESSAGE_V2, send_fields(), body).code


def bodies(address: str) -> list[bytes]:
    """The messages of the first queue."""
    return [each.body for each in records(ask(address, RequestCode.PULL_MESSAGE, pull_fields()))]


def await_bodies(test: unittest.TestCase, address: str, wanted: list[bytes]) -> None:
    """A new master gives what was acknowledged once it has confirmed it, which nobody is told of."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := bodies(address)) != wanted:
        test.assertLess(time.monotonic(), deadline_s, f"{found} are not {wanted}")
        time.sleep(0.02)  # see above


def children_cpu_s() -> float:
    """Of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def refused(address: str) -> bool:
    """Whether nobody listens there."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def elsewhere(test: unittest.TestCase) -> str:
    """A directory for this test's temporary files."""
    place = test.enterContext(tempfile.TemporaryDirectory())
    test.enterContext(mock.patch.object(tempfile, "tempdir", place))
    return place


class OneBrokerTests(unittest.TestCase):
    """A broker and its nameserver in one process."""

    def test_in_memory(self) -> None:
        """It is cheap, and leaves no file and no port."""
        place = elsewhere(self)
        took = []
        for _ in range(3):
            before_s = children_cpu_s()
            with RocketMQ() as rocketmq:
                address = rocketmq.brokers["broker-1"]
                self.assertEqual(rocketmq.master(), "broker-1")
                self.assertEqual((send(address, b"a"), bodies(address)), (0, [b"a"]))
            self.assertEqual((os.listdir(place), rocketmq.pids()), ([], {}))
            self.assertTrue(refused(address) and refused(rocketmq.namesrv))
            took.append(children_cpu_s() - before_s)
        self.assertLess(min(took), READY_CPU_S, took)

    def test_killed_and_started_again(self) -> None:
        """On the same files and ports, with the message."""
        with tempfile.TemporaryDirectory() as place, RocketMQ(directory=place) as rocketmq:
            former = rocketmq.namesrv, rocketmq.brokers
            self.assertEqual(send(rocketmq.brokers["broker-1"], b"a"), 0)
            rocketmq.kill()
            self.assertTrue(refused(rocketmq.namesrv))
            rocketmq.start()
            self.assertEqual((rocketmq.namesrv, rocketmq.brokers), former)
            self.assertEqual(bodies(rocketmq.brokers["broker-1"]), [b"a"])
            rocketmq.stop()
            self.assertTrue((pathlib.Path(place) / "store" / "commitlog").is_dir(), "a directory that was given stays")

    def test_wrong_keys(self) -> None:
        """The error says what the server said, and nothing is left."""
        rocketmq = RocketMQ(keys={"defaultTopicQueueNums": "no"})
        with self.assertRaisesRegex(NotStarted, "defaultTopicQueueNums"):
            rocketmq.start()
        self.assertEqual(rocketmq.pids(), {})

    def test_a_taken_port(self) -> None:
        """Others are chosen; not after a restart, when clients know the ports."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            first, chosen = taken.getsockname()[1], servers._free_ports
            with mock.patch.object(servers, "_free_ports", side_effect=lambda count: offered.pop() or chosen(count)):
                offered = [0, first]
                with RocketMQ() as rocketmq:
                    self.assertEqual((offered, send(rocketmq.brokers["broker-1"], b"a")), ([], 0))
            rocketmq = RocketMQ()
            rocketmq._first_port = first
            with self.assertRaisesRegex(NotStarted, os.strerror(servers.errno.EADDRINUSE)):
                rocketmq.start()

    def test_it_ends_with_the_test(self) -> None:
        """A test's process that is killed leaves no servers."""
        program = (
            "import sys\nfrom rocketha.testing import RocketMQ\nrocketmq = RocketMQ()\nrocketmq.start()\n"
            "print(rocketmq.namesrv, *rocketmq.pids().values(), flush=True)\nsys.stdin.read()\n"
        )
        with tempfile.TemporaryDirectory() as place:
            arguments = [sys.executable, "-c", program]
            environment = {**os.environ, "TMPDIR": place}
            pipe = subprocess.PIPE
            with subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True, env=environment) as tests:
                assert tests.stdout is not None
                namesrv, pid = tests.stdout.readline().split()
                self.addCleanup(kill, int(pid))
                tests.kill()
            deadline_s = time.monotonic() + PATIENCE_S
            while not refused(namesrv):
                self.assertLess(time.monotonic(), deadline_s)
                time.sleep(0.02)  # no child of ours: its end sends us no event


def kill(pid: int) -> None:
    """Where it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class GroupTests(unittest.TestCase):
    """Two replicas and a controller."""

    def test_killed_frozen_and_back(self) -> None:
        place = elsewhere(self)
        with RocketMQ(brokers=2, controllers=1) as rocketmq:
            self.assertEqual(set(rocketmq.pids()), {"broker-1", "broker-2", "controller-1"})
            self.assertEqual(rocketmq.in_sync(), {"broker-1", "broker-2"})
            master = rocketmq.master()
            self.assertEqual(send(rocketmq.brokers[master], b"a"), 0)
            former = rocketmq.pids()[master]
            rocketmq.kill(master)
            follower = rocketmq.master(after=master)
            self.assertNotEqual(follower, master)
            await_bodies(self, rocketmq.brokers[follower], [b"a"])
            rocketmq._await(lambda: len(rocketmq.in_sync()) == 2, "it is started again")
            self.assertNotEqual(rocketmq.pids()[master], former)
            rocketmq.freeze(follower)
            self.assertEqual(rocketmq.master(after=follower), master)
            rocketmq.thaw(follower)
            pids = rocketmq.pids()
            with self.assertRaises(KeyError):
                rocketmq.kill("broker-3")
        self.assertEqual(os.listdir(place), [])
        for pid in pids.values():
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, 0)
