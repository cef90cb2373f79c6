"""Connections that have not said who they are: what they may take, and from whom."""

from __future__ import annotations

from twisted.internet import error, task
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.limits import Limits
from rocketha.protocols.raft import RaftLimits, RaftProtocol
from rocketha.protocols.raft_port import MEMBER_STRANGERS, RaftPort
from rocketha.protocols.shared_port import SharedPort
from tests.protocols.raft_case import IDENTITY, Heard, Transport, contents, hello
from tests.protocols.test_remoting import Echo


class StrangersTests(SynchronousTestCase):
    """n0's port, which holds three connections that said nothing."""

    def setUp(self) -> None:
        self.group = Heard()
        # n2 lives behind a name: it may come from anywhere.
        self.port = RaftPort(IDENTITY, self.group, RaftLimits(strangers=3))

    def connect(self, host: str = "127.0.0.1") -> tuple[RaftProtocol, Transport]:
        protocol = self.port.buildProtocol(None)
        transport = Transport(host)
        protocol.makeConnection(transport)
        return protocol, transport

    def member(self, name: str = "n2", host: str = "10.0.0.2") -> tuple[RaftProtocol, Transport]:
        protocol, transport = self.connect(host)
        protocol.dataReceived(hello(sender=name))
        self.assertTrue(protocol.ready)
        return protocol, transport

    def test_the_oldest_goes(self) -> None:
        """A port full of strangers takes the next one, so a member that connects again comes through; those that
        greeted stay."""
        member, its = self.member()
        strangers = [self.connect("10.9.9.9")[1] for _ in range(5)]
        self.assertEqual([each.aborted for each in strangers], [True, True, False, False, False])
        again, _ = self.member("n1", "127.0.0.1")
        self.assertTrue(member.ready and again.ready)
        self.assertFalse(its.aborted)
        self.assertEqual((self.port.strangers, self.port.refused_count), (2, 3))

    def test_who_takes_most_gives_first(self) -> None:
        """One host's flood pushes out its own connections, however old another's is."""
        _, slow = self.connect("10.0.0.7")
        flood = [self.connect("10.9.9.9")[1] for _ in range(20)]
        self.assertFalse(slow.aborted)
        self.assertEqual([each.aborted for each in flood], [True] * 18 + [False] * 2)

    def test_hosts_of_members_keep_theirs(self) -> None:
        """Many hosts with a connection each do not push out one that comes from where a member spoke before: it may
        be about to prove that it knows the secret.  The host itself is no licence to fill the port."""
        self.port = RaftPort(IDENTITY, self.group, RaftLimits(strangers=10))
        self.member()
        _, coming = self.connect("10.0.0.2")
        flood = [self.connect(f"10.9.9.{number}")[1] for number in range(30)]
        self.assertFalse(coming.aborted)
        self.assertEqual(sum(each.aborted for each in flood), 21)
        same = [self.connect("10.0.0.2")[1] for _ in range(MEMBER_STRANGERS + 10)]
        self.assertEqual(sum(not each.aborted for each in [coming, *same]), MEMBER_STRANGERS + 1)
        self.assertEqual(sum(not each.aborted for each in flood), 1)

    def test_a_greeting_in_seconds(self) -> None:
        """Members greet at once: three seconds are enough."""
        protocol, transport = self.connect()
        for byte in hello()[:3]:
            protocol.dataReceived(bytes([byte]))
            self.port.sweep()
        self.assertFalse(transport.aborted)
        self.port.sweep()
        self.assertTrue(transport.aborted)

    def test_bytes_behind_a_greeting(self) -> None:
        """The greeting does not count then: nobody is replaced or told, and nothing is counted twice."""
        member, its = self.member()
        self.group.events.clear()
        for _ in range(3):
            protocol, transport = self.connect("10.0.0.2")
            protocol.dataReceived(hello(sender="n2") + b"\0")
            self.assertTrue(transport.disconnecting)
            protocol.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual((self.group.events, self.port.connected, self.port.strangers), ([], ["n2"], 0))
        self.assertFalse(its.aborted)
        member.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual(self.port.connected, [])

    def test_evicted_and_ended(self) -> None:
        """An evicted connection leaves its place once."""
        first, _ = self.connect()
        for _ in range(3):
            self.connect()
        self.assertEqual(self.port.strangers, 3)
        first.connectionLost(Failure(error.ConnectionAborted()))
        self.assertEqual(self.port.strangers, 3)


class SharedStrangersTests(SynchronousTestCase):
    """The same behind the port that remoting shares."""

    def setUp(self) -> None:
        self.raft = RaftPort(IDENTITY, Heard())
        limits = Limits(connections=10, connections_per_address=2)
        self.factory = SharedPort(Echo(), task.Clock(), self.raft, limits)

    def connect(self, data: bytes, host: str = "10.0.0.2") -> Transport:
        self.protocol = self.factory.buildProtocol(None)
        transport = Transport(host)
        self.protocol.makeConnection(transport)
        if not transport.aborted:
            self.protocol.dataReceived(data)
        return transport

    def test_they_count_until_they_greet(self) -> None:
        """Saying R is no way around the limit by address; a member's connection leaves its place."""
        transports = []
        for _ in range(3):
            transports.append(self.connect(b"R"))
            held = self.protocol
        self.assertEqual([each.aborted for each in transports], [True, False, False])
        held.dataReceived(hello(sender="n2")[1:])
        self.assertEqual((self.raft.connected, len(self.factory.connections)), (["n2"], 2))
        transports.append(self.connect(b"R"))
        self.assertEqual([each.aborted for each in transports], [True, False, False, False])
        held.connectionLost(Failure(error.ConnectionDone()))
        transports.append(self.connect(b"R"))
        self.assertEqual([each.aborted for each in transports], [True, True, False, False, False])

    def test_ended_ungreeted(self) -> None:
        """They leave their place when they end, refused or not."""
        for data in (b"R", b"RSET", hello(group="other")):
            self.connect(data)
            self.protocol.connectionLost(Failure(error.ConnectionDone()))
            self.assertEqual(self.factory.connections, {})

    def test_the_service_stops(self) -> None:
        """Closing what remoting has does not disturb one that is Raft's by now."""
        transport = self.connect(b"R")
        self.factory.sweep()
        self.factory.close_all()
        self.protocol.dataReceived(hello(sender="n2")[1:])
        self.assertEqual((self.raft.connected, len(contents(transport.taken()))), (["n2"], 1))
