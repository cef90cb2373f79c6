"""One port for remoting and Raft: the first byte decides, and until then the remoting limits count."""

from __future__ import annotations

from typing import Any

from twisted.internet import error, task
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.admission import Admission
from rocketha.protocols.limits import Limits
from rocketha.protocols.raft_port import RaftPort
from rocketha.protocols.remoting import ServerParts
from rocketha.protocols.shared_port import SharedPort, SharedProtocol
from rocketha.wire.raft_frames import MessageWriter
from rocketha.wire.raft_values import Kind, Message
from tests.protocols.raft_case import IDENTITY, Heard, Transport, contents, hello
from tests.protocols.test_remoting import Echo, frame, frames_of

LIMITS = Limits(first_frame_s=10, connections=4, connections_per_address=2)


class SharedPortTests(SynchronousTestCase):
    """n0's port, with an echo behind its remoting side."""

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.service = Echo()
        self.group = Heard()
        self.raft = RaftPort(IDENTITY, self.group)
        self.factory = SharedPort(self.service, self.clock, self.raft, LIMITS)
        self.factory.doStart()
        self.addCleanup(self.factory.doStop)

    def connect(self, host: str = "127.0.0.1") -> tuple[SharedProtocol, Transport]:
        protocol = self.factory.buildProtocol(None)
        transport = Transport(host)
        protocol.makeConnection(transport)
        return protocol, transport

    def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def names(self) -> list[Any]:
        return [event[0] for event in self.service.events if event != "turn ended"]

    def test_remoting(self) -> None:
        """A request is served as on any port; the service hears of the connection with its first byte."""
        protocol, transport = self.connect()
        self.assertEqual(self.names(), [])
        protocol.dataReceived(frame(1, 7, b"x"))
        self.assertEqual(self.names(), ["connected", "request"])
        self.assertEqual([c.opaque for c in frames_of(transport.value())], [7])
        protocol.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual(self.names()[-1], "disconnected")

    def test_raft(self) -> None:
        """A member's connection is the Raft port's; the service never hears of it, and its counts do not hold it."""
        protocol, transport = self.connect()
        protocol.dataReceived(hello())
        self.assertEqual(len(contents(transport.taken())), 1)
        message = Message(Kind.HEART_BEAT, "n1", "n0", 3)
        protocol.dataReceived(MessageWriter().frame(message))
        self.assertEqual(self.group.messages, [message])
        self.assertEqual((self.service.events, self.factory.connections), ([], {}))
        self.assertEqual(self.raft.connected, ["n1"])
        self.assertIsNot(transport.producer, protocol)
        protocol.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual((self.raft.connected, self.service.events), ([], []))

    def test_byte_by_byte(self) -> None:
        """One byte at a time is the same, for both."""
        remoting, transport = self.connect()
        for byte in frame(1, 5, b"body"):
            remoting.dataReceived(bytes([byte]))
        self.assertEqual([(c.opaque, c.body) for c in frames_of(transport.value())], [(5, b"body")])
        raft, _ = self.connect()
        for byte in hello():
            raft.dataReceived(bytes([byte]))
        self.assertEqual(self.raft.connected, ["n1"])

    def test_saying_nothing_counts_and_ends(self) -> None:
        """Connections without a byte are held to the limits of the remoting port: by address, in all, and in time."""
        silent = [self.connect("10.0.0.1") for _ in range(3)]
        self.assertEqual([transport.aborted for _, transport in silent], [True, False, False])
        others = [self.connect() for _ in range(2)]
        self.connect()
        self.assertEqual([transport.aborted for _, transport in silent], [True, True, False])
        others[0][0].dataReceived(hello())
        self.connect()  # a member's connection has left its place
        self.assertFalse(silent[2][1].aborted)
        self.advance(11)
        self.assertTrue(silent[2][1].disconnecting)
        self.assertFalse(others[0][1].disconnecting)
        for protocol, _ in silent:
            protocol.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual(self.service.events, [])

    def test_a_flood_keeps_no_member_out(self) -> None:
        """Nor a broker: not from the same address, and not from another that has taken all there is."""
        for host in ("10.0.0.1", "127.0.0.1"):
            for _ in range(20):
                self.connect(host)
                self.connect(host)[0].dataReceived(b"R")
            member, transport = self.connect(host)
            member.dataReceived(hello(sender="n2"))
            broker, its = self.connect(host)
            broker.dataReceived(frame(1, 7))
            for _ in range(20):
                self.connect(host)
            self.assertEqual((transport.aborted, its.aborted, self.raft.connected), (False, False, ["n2"]), host)
            self.assertEqual([c.opaque for c in frames_of(its.value())], [7])

    def test_places_are_taken_by_who_works(self) -> None:
        """A member comes in and has none of them then; clients and controllers do, and those that came first stay."""
        admission = Admission(LIMITS, lambda ids: ids, reserve=True)
        self.factory = SharedPort(
            self.service,
            self.clock,
            self.raft,
            LIMITS,
            ServerParts(admission=admission, shows=lambda command: command.code == 9),
        )
        self.factory.doStart()
        self.addCleanup(self.factory.doStop)
        early = [self.connect() for _ in range(4)]
        for protocol, _ in early:
            protocol.dataReceived(frame(1))
        for name in ("n1", "n2") * 3:
            self.connect()[0].dataReceived(hello(sender=name))
        self.assertEqual(self.raft.connected, ["n1", "n2"])
        client, its = self.connect()
        client.dataReceived(frame(1, 7))
        self.assertEqual([each.code for each in frames_of(its.value())], [0])
        controller, _ = self.connect()
        controller.dataReceived(frame(9, 8))
        for _ in range(20):
            self.connect()[0].dataReceived(frame(1))
        self.assertEqual([transport.aborted for _, transport in early], [False, False, True, True])
        self.assertFalse(controller.closed)

    def test_neither(self) -> None:
        """A length over the limit is refused as remoting, an R that is no magic as Raft."""
        for data in (b"GET / HTTP/1.1\r\n", b"RSET\r\n", b"\x16\x03\x01\x02\x00"):
            protocol, transport = self.connect()
            protocol.dataReceived(data)
            self.assertTrue(transport.disconnecting, data)
            protocol.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual(self.factory.connections, {})

    def test_empty_reads(self) -> None:
        """A first byte that is all there is yet decides."""
        protocol, _ = self.connect()
        protocol.dataReceived(b"R")
        self.assertEqual((self.raft.strangers, len(self.factory.connections)), (1, 1))
        for byte in hello()[1:]:
            protocol.dataReceived(bytes([byte]))
        self.assertEqual((self.raft.strangers, self.factory.connections), (0, {}))
        self.assertEqual(self.raft.connected, ["n1"])

    def test_no_raft_here(self) -> None:
        """Where no protocol is made for it the connection ends."""
        self.factory.raft = type("None", (), {"buildProtocol": lambda self, addr: None})()
        protocol, transport = self.connect()
        protocol.dataReceived(hello())
        self.assertTrue(transport.aborted)
