"""``rocketha clients``: what a person is shown, and the whole command against a real process."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest
from typing import Any

from twisted.internet import defer, reactor
from twisted.trial.unittest import TestCase

from rocketha.admin import clients
from rocketha.admin.clients import lines
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Answer, Command, encode, request
from tests.services.broker_case import heartbeat
from tests.services.process.test_process import ClusterProcess

REFUSAL = {
    "what": "HEART_BEAT",
    "reason": "SYSTEM_ERROR",
    "secondsAgo": 75.2,
    "address": "10.0.0.7:1",
    "clientId": "go@1",
    "language": "GO",
    "version": 317,
    "remark": "no list\nof objects",
}


class LinesTests(unittest.TestCase):
    """Tables."""

    def test_a_broker(self) -> None:
        """What each connection is for stands below it; control characters of peers do nothing to a terminal."""
        found = {
            "role": "broker",
            "connections": [
                {
                    "id": 1,
                    "address": "10.0.0.6:1",
                    "language": "JAVA",
                    "version": 513,
                    "openSeconds": 3700,
                    "clientIds": ["good@1"],
                    "producerGroups": ["P"],
                    "refusedCount": 0,
                    "consumerGroups": [{"group": "G", "messageModel": "CLUSTERING", "subscriptions": {"T": "*"}}],
                },
                {
                    "id": 2,
                    "address": "10.0.0.7:1",
                    "language": None,
                    "version": None,
                    "openSeconds": 5,
                    "clientIds": [],
                    "refusedCount": 2,
                    "lastRefusal": REFUSAL,
                },
            ],
            "refusals": [{"count": 2, **REFUSAL}],
        }
        told = "HEART_BEAT SYSTEM_ERROR 1m15s ago, 10.0.0.7:1 (go@1, GO, version 4.5.2): no list\\nof objects"
        self.assertEqual(
            lines("h:1", found),
            [
                "broker h:1: 2 connections",
                "ADDRESS     OPEN   LANGUAGE  VERSION  CLIENT  REFUSED",
                "10.0.0.6:1  1h01m  JAVA      5.5.0    good@1  0",
                "    produces as P",
                "    consumes as G (clustering): T *",
                "10.0.0.7:1  5s     -         -        -       2",
                f"    refused last: {told}",
                "refused lately, also to who is gone:",
                f"    2 x {told}",
                "",
            ],
        )

    def test_releases(self) -> None:
        """As RocketMQ's own table of them has it; what is not regular there stays a number."""
        javas = {212: "4.0.0-SNAPSHOT", 213: "4.0.0", 401: "4.9.4", 413: "5.0.0", 513: "5.5.0", 611: "5.9.9"}
        others = {37: "37", 211: "211", 612: "612", None: "-", -1: "-", "x": "x"}
        for ordinal, name in {**javas, **others}.items():
            self.assertEqual(clients.release(ordinal), name)

    def test_one_that_does_not_answer(self) -> None:
        """The others are shown all the same."""
        self.assertEqual(lines("h:1", {"problem": "refused"}), ["broker h:1: refused", ""])


class JavaTests(TestCase):
    """A broker that knows RocketMQ's requests only."""

    def connected(self, connection: RemotingProtocol) -> None:
        pass

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        pass

    def turn_ended(self) -> None:
        pass

    def request(self, connection: RemotingProtocol, command: Command) -> Answer:
        """As Java 5.5.0 lays its answers out."""
        member = {"clientAddr": "10.0.0.1:5", "clientId": "c@1", "language": "GO", "version": 317}
        if command.code == RequestCode.GET_ALL_PRODUCER_INFO:
            producer = {"clientId": "c@1", "remoteIP": "/10.0.0.1:5", "language": "GO", "version": 317}
            value: Any = {"data": {"P": [producer]}}
        elif command.code == RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
            value = {"subscriptionGroupTable": {"G": {}, "empty": {}}}
        elif command.code == RequestCode.GET_CONSUMER_CONNECTION_LIST:
            if command.fields["consumerGroup"] == "empty":
                return Answer(206, "not online")
            wanted = {"T": {"subString": "A"}}
            value = {"connectionSet": [member], "subscriptionTable": wanted, "messageModel": "CLUSTERING"}
        else:
            return Answer(3, f" request type {command.code} not supported")
        return Answer(body=json_dialect.dumps(value))

    @defer.inlineCallbacks
    def test_what_java_can_say(self) -> Any:
        """One row a connection, with all that it is for."""
        factory = RemotingFactory(self, reactor)  # type: ignore[arg-type]
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        self.addCleanup(factory.close_all)
        address = f"127.0.0.1:{port.getHost().port}"
        client = clients.Client(Dialer(reactor), [address], clients.random.Random(0))
        try:
            found = yield defer.ensureDeferred(clients._of(client, address))
        finally:
            client.close()
        self.assertEqual(
            lines(address, found)[1:-1],
            [
                "ADDRESS     OPEN  LANGUAGE  VERSION  CLIENT  REFUSED",
                "10.0.0.1:5  -     GO        4.5.2    c@1     -",
                "    produces as P",
                "    consumes as G (clustering): T A",
            ],
        )


class ProcessTests(unittest.TestCase):
    """A real process, started as ``make run`` starts it: without a status port."""

    def setUp(self) -> None:
        base = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"rocketha-clients-{os.getpid()}"
        base.mkdir(parents=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", str(base)], check=False)
        self.cluster = ClusterProcess(self, base / "data")
        self.cluster.words()

    def connect(self, *commands: Command) -> None:
        """A client that says this, hears an answer to each, and stays."""
        connection = socket.create_connection(("127.0.0.1", self.cluster.broker), timeout=10)
        self.addCleanup(connection.close)
        for command in commands:
            connection.sendall(encode(command))
            self.assertTrue(connection.recv(65536))

    def rocketha(self, *arguments: str) -> str:
        command = [str(pathlib.Path(sys.executable).parent / "rocketha"), "clients", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_command(self) -> None:
        """A consumer that joined, and a Go client whose heartbeat is refused; the log of the process says the same."""
        good = request(34, {}, heartbeat("good@1", "workers", "TopicTest"))
        bad = request(34, {}, b'{"clientID":"go@1","consumerDataSet":{"a":1}}')
        bad.language, bad.version = "GO", 317
        self.connect(good)
        self.connect(bad, bad)
        names = ("-n", f"127.0.0.1:{self.cluster.namesrv}")
        shown = self.rocketha(*names)
        for part in ("good@1", "consumes as workers (clustering): TopicTest *", "go@1", "HEART_BEAT SYSTEM_ERROR"):
            self.assertIn(part, shown)
        (found,) = json.loads(self.rocketha("--json", "--refused", *names)).values()
        (row,) = found["connections"]
        self.assertEqual((row["clientIds"], row["language"], row["version"]), (["go@1"], "GO", 317))
        self.assertEqual((row["refusedCount"], row["lastRefusal"]["what"]), (2, "HEART_BEAT"))
        self.assertEqual([each["count"] for each in found["refusals"]], [2])
        self.assertIn("namesrv", self.rocketha("-b", f"127.0.0.1:{self.cluster.namesrv}").split()[0])
        said = [line for line in self.cluster.logged() if line.get("event") == "request.refused"]
        self.assertEqual([(each["client_id"], each["language"]) for each in said], [("go@1", "GO")])
