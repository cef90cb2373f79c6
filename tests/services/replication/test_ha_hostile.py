"""What the other end of an HA link may do to a broker under controllers: each ends in a line of log and a closed link.

At a master anybody, who can reach its port; at a slave its master, whose process may be stuck in a part of it only.
"""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.protocol import Factory, Protocol

from rocketha.broker.role import Role
from rocketha.protocols.endpoints import client_endpoint
from rocketha.protocols.ha_master import HA_LIMITS, MasterHaProtocol
from rocketha.simulation.host import Host
from rocketha.wire.codes import ResponseCode
from rocketha.wire.ha_frames import Dialect, SlaveHello, encode_report, encode_slave_hello
from tests.services.controlled_case import ControlledCase
from tests.services.events_case import lines_of

HELLO = encode_slave_hello(SlaveHello(77, False, False))
HEAR = MasterHaProtocol.makeConnection


class Stranger(Protocol):
    """Says what it is given, and counts what it is sent."""

    def __init__(self, words: bytes) -> None:
        self.words = words
        self.heard = b""
        self.ended = False

    def connectionMade(self) -> None:
        """Twisted: say it."""
        self.transport.write(self.words)

    def dataReceived(self, data: bytes) -> None:
        """Twisted: an answer."""
        self.heard += data

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
        self.link = self.service(self.slave).broker.replication.following.connection
        self.lines = lines_of(self)

    def say(self, words: bytes) -> Stranger:
        """To the HA port, by a connection of its own."""
        assert self.client_host.process is not None
        stranger = Stranger(words)
        endpoint = client_endpoint(self.client_host.process.reactor, f"{self.first.address}:10912", 3.0)
        self.await_(endpoint.connect(Factory.forProtocol(lambda: stranger)))
        return stranger

    def unharmed(self) -> None:
        """The slave's link is the one that it was, and messages are acknowledged by both."""
        following = self.service(self.slave).broker.replication.following
        self.assertIs(following.connection, self.link)
        self.assertEqual(self.members(), (1, 2))
        self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)
        self.assertEqual(len(self.service(self.first).broker.replication.links.factory.connections), 1)

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

    def drip(self, words: bytes, every_s: float) -> Stranger:
        """Byte by byte."""
        stranger = self.say(b"")
        for number in range(len(words)):
            if not stranger.ended:
                stranger.transport.write(words[number : number + 1])
            self.run_for(every_s)
        return stranger

    def test_a_greeting_byte_by_byte(self) -> None:
        """That something is heard is not enough: greeting and first report have one deadline."""
        for words, every_s in ((HELLO, 1.5), (HELLO + encode_report(0), 0.8)):
            began = self.world.now
            stranger = self.drip(words, every_s)
            self.assertTrue(stranger.ended)
            self.assertEqual(stranger.heard == b"", words is HELLO)
            ended = [line for line in self.lines if "the link of the slave 10.0.0.1" in line]
            self.assertEqual(len(ended), 1, ended)
            self.assertIn("no handshake in 20000 ms, though something was heard", ended[0])
            self.assertGreater(self.world.now - began, 20)
            self.lines.clear()
            self.unharmed()

    def test_a_slow_greeting(self) -> None:
        """Within the deadline it is one like any other."""
        stranger = self.drip(HELLO + encode_report(0), 0.6)
        self.run_for(1)
        self.assertFalse(stranger.ended)
        end = self.log(self.first).end
        self.assertIn(self.bytes_of(self.log(self.first), 0)[:end], stranger.heard)
        stranger.transport.loseConnection()
        self.run_for(1)
        self.unharmed()

    def test_oversized_greetings(self) -> None:
        """What they announce is not waited for."""
        head, padded = HELLO[:8], encode_slave_hello(SlaveHello(-1, False, False, Dialect.SEED, "10.9.9.9:1"))
        for words, said in (
            (head + b"\x00\x00\x00\x33", "neither a broker id nor an address: 0x33"),
            (head + b"\x7f\xff\xff\xff" + bytes(1 << 20), "neither a broker id nor an address: 0x7fffffff"),
            (head + b"\xff\xff\xff\xff", "neither a broker id nor an address: -0x1"),
            (padded + bytes(1 << 20), "an HA frame of state 0"),
            (HELLO + HELLO[:12] + b"\x00\x00\x00\x4e", "after one as"),
        ):
            self.ends(words, 1.0, said)
            self.lines.clear()

    def test_a_flood_of_greetings(self) -> None:
        """It is answered once, and has the deadline of one."""
        stranger = self.say(HELLO * 20_000)
        self.run_for(0.5)
        answer = stranger.heard
        self.assertLess(len(answer), 1000)
        stranger.transport.write(HELLO * 20_000)
        self.until("it is hung up on", lambda: stranger.ended, 21.0)
        self.assertEqual(stranger.heard, answer)
        self.unharmed()

    def test_all_places_taken(self) -> None:
        """By so many that report as slaves do, and that no controller knows: the slave's link is made again at once."""
        factory = self.service(self.first).broker.replication.links.factory
        self.patch(factory.admission, "_limits", attrs.evolve(HA_LIMITS, connections_per_address=100))
        for number in range(100, 180):
            self.say(encode_slave_hello(SlaveHello(number, False, False)) + encode_report(0))
        self.until("no place is left", lambda: len(factory.connections) == HA_LIMITS.connections, 5.0)
        assert self.link is not None
        self.link.abort("the test ends it")
        following = self.service(self.slave).broker.replication.following
        self.until("it follows again", lambda: following.transfers, 5.0)
        self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)
        for number in range(200, 280):
            self.say(encode_slave_hello(SlaveHello(number, False, False)) + encode_report(0))
        self.run_for(1)
        self.assertIsNot(following.connection, self.link)
        self.assertTrue(following.transfers)
        self.assertEqual(self.members(), (1, 2))

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


class Gagged:
    """A transport that takes so many bytes more, drops what follows, and does not hang up; else the one it is given."""

    def __init__(self, transport: Any, left: int) -> None:
        self._transport = transport
        self._left = left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Twisted: say it."""
        said, self._left = data[: self._left], max(0, self._left - len(data))
        if said:
            self._transport.write(said)

    def loseConnection(self) -> None:
        """Twisted: hang up."""

    abortConnection = loseConnection


class StuckMasterTests(ControlledCase):
    """A master that lives, as the controllers see, and serves clients; but what it says to slaves comes to nothing."""

    controllers_count = 1
    brokers_count = 2

    def setUp(self) -> None:
        super().setUp()
        self.first: Host = self.start_group()
        self.slave = next(host for host in self.brokers if host is not self.first)
        self.following = self.service(self.slave).broker.replication.following
        self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)
        self.until("both have it", lambda: self.level(self.first, self.slave))
        self.lines = lines_of(self)

    def gag(self, left: int) -> None:
        """Each connection to come gets so many bytes of what it is to be told."""

        def gagged(protocol: MasterHaProtocol, transport: Any) -> None:
            HEAR(protocol, Gagged(transport, left))  # type: ignore[arg-type]

        self.patch(MasterHaProtocol, "makeConnection", gagged)

    def hang_up(self) -> None:
        """The links of now end."""
        self.service(self.first).broker.replication.links.factory.close_all("the test wants another one")

    def given_up(self) -> list[str]:
        """What the slave said of the links that it ended."""
        links = [line for line in self.lines if line.startswith("the link to the master 10.")]
        return [line for line in links if "nothing was heard for 20000 ms" in line]

    def goes_on_alone(self) -> None:
        """The master's epoch is the same, and it acknowledges by itself."""
        self.until("the slave is not waited for", lambda: self.members() == (1,), 20.0)
        self.assertIs(self.master(), self.first)
        self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)

    def comes_back(self, epoch: int) -> None:
        """It is heard again: the slave finds the same log, and counts."""
        self.patch(MasterHaProtocol, "makeConnection", HEAR)
        self.whole(45.0)
        self.assertEqual((self.master(), self.group().master_epoch), (self.first, epoch))
        self.assertEqual(self.send(self.first), ResponseCode.SUCCESS)
        self.until("both have it", lambda: self.level(self.first, self.slave))
        self.same_logs(self.first, self.slave)

    def test_it_accepts_and_stays_silent(self) -> None:
        """Each attempt ends by its deadline and is followed by another; the slave says that it has no link."""
        epoch, end = self.group().master_epoch, self.log(self.slave).end
        self.gag(0)
        self.hang_up()
        self.until("it connects again", lambda: self.following.connection is not None, 5.0)
        link = self.following.connection
        self.goes_on_alone()
        for count in (1, 2):
            self.until("it gives up", lambda count=count: len(self.given_up()) == count, 26.0)  # type: ignore[misc]
            self.assertIsNotNone(self.service(self.slave).broker.replication.ready())
        self.assertIsNot(self.following.connection, link)
        self.assertEqual((self.log(self.slave).end, self.role(self.slave)), (end, Role.SLAVE))
        self.comes_back(epoch)
        self.assertIsNone(self.service(self.slave).broker.replication.ready())

    def stop_within_a_block(self) -> int:
        """The slave gets a hundred bytes of a message; where its log ended before."""
        end = self.log(self.slave).end
        (connection,) = self.service(self.first).broker.replication.links.factory.connections.values()
        connection.transport = Gagged(connection.transport, 36 + 100)
        self.sending(self.first, b"x" * 1000).addErrback(lambda _: None)
        self.until("a part of it", lambda: self.log(self.slave).end > end, 2.0)
        self.assertEqual(self.log(self.slave).end, end + 100)
        return end

    def test_it_stops_within_a_block(self) -> None:
        """The part that came is shown to nobody, and the rest comes by the next link."""
        epoch = self.group().master_epoch
        end = self.stop_within_a_block()
        self.goes_on_alone()
        self.until("it gives up", self.given_up, 26.0)
        self.assertEqual((self.log(self.slave).end, self.log(self.slave).dispatched_offset), (end + 100, end))
        self.comes_back(epoch)

    def test_it_dies_within_a_block(self) -> None:
        """The slave takes over without that part."""
        end = self.stop_within_a_block()
        self.first.kill()
        self.until("the slave is the master", lambda: self.masters() == [self.slave], 20.0)
        self.assertEqual(self.send(self.slave), ResponseCode.SUCCESS)
        self.assertGreater(self.log(self.slave).end, end)
        self.restart(self.first)
        self.whole()
        self.until("both have it", lambda: self.level(self.first, self.slave))
        self.same_logs(self.first, self.slave)
