"""What anybody may send to the HA port of a master under controllers: each ends in a line of log and a closed link."""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory, Protocol
from twisted.logger import formatEvent, globalLogPublisher

from rocketha.protocols.endpoints import client_endpoint
from rocketha.simulation.host import Host
from rocketha.wire.codes import ResponseCode
from rocketha.wire.ha_frames import SlaveHello, encode_report, encode_slave_hello
from tests.services.controlled_case import ControlledCase

HELLO = encode_slave_hello(SlaveHello(77, False, False))


class Stranger(Protocol):
    """Says what it is given, and counts what it is sent."""

    def __init__(self, words: bytes) -> None:
        self.words = words
        self.ended = False

    def connectionMade(self) -> None:
        """Twisted: say it."""
        self.transport.write(self.words)

    def connectionLost(self, reason: Any = None) -> None:
        """Twisted: hung up."""
        self.ended = True


class HostileTests(ControlledCase):
    """One controller, a master, and a slave whose link is not harmed."""

    controllers_count = 1
    brokers_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.first: Host = self.start_group()
        self.slave = next(host for host in self.brokers if host is not self.first)
        self.link = self.service(self.slave).replication.following.connection
        self.lines: list[str] = []

        def line(event: Any) -> None:
            self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(line)
        self.addCleanup(globalLogPublisher.removeObserver, line)

    def say(self, words: bytes) -> Stranger:
        """To the HA port, by a connection of its own."""
        assert self.client_host.process is not None
        stranger = Stranger(words)
        endpoint = client_endpoint(self.client_host.process.reactor, f"{self.first.address}:10912", 3.0)
        self.await_(endpoint.connect(Factory.forProtocol(lambda: stranger)))
        return stranger

    def unharmed(self) -> None:
        """The slave's link is the one that it was, and messages are acknowledged by both."""
        following = self.service(self.slave).replication.following
        self.assertIs(following.connection, self.link)
        self.assertEqual(self.members(), (1, 2))
        self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)
        self.assertEqual(len(self.service(self.first).replication.links.factory.connections), 1)

    def ends(self, words: bytes, seconds: float, *said: str) -> None:
        """Its connection, so soon, and why is said."""
        stranger = self.say(words)
        self.until("it is hung up on", lambda: stranger.ended, seconds)
        ended = [line for line in self.lines if "the link of the slave 10.0.0.1" in line]
        self.assertEqual([True], [all(each in line for each in said) for line in ended], ended)
        self.unharmed()

    def test_garbage(self) -> None:
        """No frame begins so."""
        self.ends(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50, 1.0, "an HA frame of state")

    def test_half_a_greeting_and_silence(self) -> None:
        """By the deadline of the handshake."""
        self.ends(HELLO[:5], 21.0, "no handshake in 20000 ms")

    def test_nothing(self) -> None:
        """Likewise."""
        self.ends(b"", 21.0, "nothing was heard for 20000 ms")

    def test_reports_beyond_the_log(self) -> None:
        """It was not sent that, and it counts nothing."""
        self.ends(HELLO + encode_report(1 << 40), 1.0, "outside of this log")

    def test_negative_reports(self) -> None:
        """Likewise."""
        self.ends(HELLO + encode_report(0)[:-8] + b"\xff" * 8, 1.0, "a report of log offset -1")

    def test_a_flood_of_reports(self) -> None:
        """By a replica that nobody registered: it delays no acknowledgement, and is silent afterwards."""
        stranger = self.say(HELLO + encode_report(0) * 20_000)
        self.run_for(0.5)
        self.assertFalse(stranger.ended)
        for _ in range(10):
            self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)
        self.until("it is hung up on", lambda: stranger.ended, 21.0)
        self.unharmed()

    def test_hundreds_of_connections(self) -> None:
        """They are ended by the deadline, and leave nothing behind."""
        strangers = [self.say(b"") for _ in range(300)]
        self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)
        self.until("all are hung up on", lambda: all(each.ended for each in strangers), 25.0)
        self.unharmed()
