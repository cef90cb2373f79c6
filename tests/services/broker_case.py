"""A whole BrokerService on a fake reactor and a disk in memory, with connections that are asked and answered by
bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet import defer
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.broker.running import RunningBroker
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import load_broker
from rocketha.services.process.platform import Platform
from rocketha.store.disk import Disk
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire import json_dialect, record
from rocketha.wire.codes import RequestCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import Command, decode, encode, request

START_S = 1_795_256_860.0
"""The time of day when a test begins."""
STEADY_S = 5000.0
"""What the reactor's clock shows then: whoever mixes them up is decades off."""
CONFIG = """
brokerName=broker-a
storePathRootDir=/store
mappedFileSizeCommitLog=8388608
mappedFileSizeConsumeQueue=20000
maxHashSlotNum=1000
maxIndexNum=4000
"""


class HeldWork:
    """Blocking work that the test lets happen: at once, or when it says so."""

    held: bool = False
    made: list[HeldWork]

    def __init__(self, reactor: Any, name: str) -> None:
        self.name = name
        self.waiting: list[tuple[Callable[[], Any], defer.Deferred[Any]]] = []

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        self.let_go()

    def run(self, call: Callable[[], Any]) -> defer.Deferred[Any]:
        if not self.held:
            return defer.execute(call)
        result: defer.Deferred[Any] = defer.Deferred()
        self.waiting.append((call, result))
        return result

    def let_go(self) -> None:
        """Do what waits."""
        waiting, self.waiting = self.waiting, []
        for call, result in waiting:
            defer.execute(call).chainDeferred(result)


class Client:
    """One connection to the broker."""

    def __init__(self, broker: BrokerService, port: int, fast: bool = False, host: str = "127.0.0.1") -> None:
        kind = IPv6Address if ":" in host else IPv4Address
        self.transport = StringTransport(peerAddress=kind("TCP", host, port))
        self.transport.abortConnection = self.transport.loseConnection  # type: ignore[method-assign]
        self.protocol: RemotingProtocol = broker.broker.core.factories[1 if fast else 0].buildProtocol(None)
        self.protocol.makeConnection(self.transport)
        self._buffer = FrameBuffer()
        self._opaque = 0

    def say(self, *commands: Command) -> None:
        """Send commands in one read."""
        self.protocol.dataReceived(b"".join(map(encode, commands)))

    def command(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", oneway: bool = False
    ) -> Command:
        """A request with a fresh opaque."""
        self._opaque += 1
        made = request(code, fields, body, oneway)
        made.opaque, made.language, made.version = self._opaque, "JAVA", 513
        return made

    def heard(self) -> list[Command]:
        """Everything said to this client since the last look."""
        data = self.transport.value()
        self.transport.clear()
        return [decode(frame, 1 << 24) for frame in self._buffer.feed(data)]

    def ask(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
        """One request and its answer; requests of the broker's that come before it are dropped."""
        command = self.command(code, fields, body)
        self.say(command)
        (answer,) = [said for said in self.heard() if said.is_response]
        assert answer.opaque == command.opaque
        return answer

    def close(self) -> None:
        """The connection ends."""
        from twisted.internet.error import ConnectionDone
        from twisted.python.failure import Failure

        self.protocol.connectionLost(Failure(ConnectionDone()))


def send_fields(topic: str = "T", queue_id: int = 0, properties: str = "", **more: str) -> dict[str, str]:
    """The header of SEND_MESSAGE_V2 as Java fills it."""
    return {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1795256860000",
        "h": "0",
        "i": properties or "UNIQ_KEY\x01" + "A" * 32 + "\x02WAIT\x01true\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
        **more,
    }


def pull_fields(topic: str = "T", queue_id: int = 0, offset: int = 0, **more: str) -> dict[str, str]:
    """The header of PULL_MESSAGE of a client that brings its subscription and does not wait."""
    return {
        "consumerGroup": "G",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
        **more,
    }


def heartbeat(client_id: str, group: str, *topics: str, tags: str = "*", model: str = "CLUSTERING") -> bytes:
    """The body of HEART_BEAT."""
    from rocketha.broker.subscription import parse_tags

    subscriptions = [parse_tags(topic, tags, 1).as_json() for topic in topics]
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": model,
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    return json_dialect.dumps(
        {"clientID": client_id, "consumerDataSet": [consumer], "heartbeatFingerprint": 0, "producerDataSet": []}
    )


def records(answer: Command) -> list[record.Record]:
    """The messages of a pull answer."""
    return [found for _, found in record.scan(answer.body)]


class BrokerCase(SynchronousTestCase):
    """Starts a broker for each test."""

    config = ""

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(0))
        self.clock = MemoryReactorClock()
        self.clock.rightNow = STEADY_S
        self.set_by_s = 0.0  # by how much somebody has set the time of day
        self.works: list[HeldWork] = []
        self.service = self.start()

    def work(self, reactor: Any, name: str) -> HeldWork:
        made = HeldWork(reactor, name)
        self.works.append(made)
        return made

    @property
    def broker(self) -> RunningBroker:
        """What the service runs."""
        return self.service.broker

    def platform(self, disk: Disk | None = None) -> Platform:
        """What a broker runs on: this case's disk and clock."""
        return Platform(
            disk=disk or self.disk,
            reactor=self.clock,
            chance=random.Random(1),
            work=self.work,
            wall=lambda: START_S - STEADY_S + self.clock.seconds() + self.set_by_s,
        )

    def start(self) -> BrokerService:
        """A broker on the disk as it is."""
        loaded = load_broker((CONFIG + self.config).encode(), environment={"HOME": "/home"})
        broker = BrokerService(loaded.config, self.platform())
        broker.startService()
        self.successResultOf(broker.started)
        self._port = 40000
        return broker

    def stop(self) -> None:
        """A clean stop."""
        self.successResultOf(self.service.stopService())

    def connect(self, fast: bool = False, host: str = "127.0.0.1") -> Client:
        self._port += 1
        return Client(self.service, self._port, fast, host)

    def advance(self, seconds: float, step: float = 0.1) -> None:
        """Let time pass in steps."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)

    def send(self, client: Client, body: bytes = b"body", **fields: str) -> Command:
        """One send and its answer."""
        given: dict[str, Any] = dict(fields)
        return client.ask(RequestCode.SEND_MESSAGE_V2, send_fields(**given), body)
