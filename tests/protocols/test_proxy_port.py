"""A port behind listed proxies: whose header is read, whom a connection is from then, and what that is not good for."""

from __future__ import annotations

import struct
from typing import Any

from twisted.internet import task
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.access.askers import Askers
from rocketha.access.identity import Identity, Part
from rocketha.access.trusted import parse
from rocketha.addresses import Networks
from rocketha.namesrv.own_port import own_port
from rocketha.observe.refusals import Ended
from rocketha.protocols.endpoints import is_loopback
from rocketha.protocols.first_byte import FirstBytePort, TlsMode
from rocketha.protocols.limits import Limits
from rocketha.protocols.proxy_port import ProxyPort
from rocketha.protocols.raft_port import may_be_from
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.wire.spec.proxy import SIGNATURE
from tests.protocols.test_remoting import Echo, frame, frames_of

PROXY = "10.0.0.9"
LINE = b"PROXY TCP4 10.1.1.7 10.1.1.1 4444 10911\r\n"
ENDS = struct.pack(">4s4sHH", bytes((10, 1, 1, 7)), bytes((10, 1, 1, 1)), 4444, 10911)
V2 = SIGNATURE + b"\x21\x11\x00\x0f" + ENDS + b"\x04\x00\x00"
LOCAL = SIGNATURE + b"\x20\x00\x00\x00"
UNKNOWN = b"PROXY UNKNOWN\r\n"
OTHERS = b"PROXY TCP4 10.0.0.3 10.1.1.1 4444 10911\r\n"


class _NoTls:
    """TLS is not there."""

    problem = "not here"

    def secure(self, inner: Any, transport: Any, failed: Any) -> Any:
        raise AssertionError("it was asked for")


class Transport(StringTransport):
    """Gives what comes to whoever is its protocol by then, as a TCP connection does."""

    protocol: Any

    def __init__(self, address: Any) -> None:
        super().__init__(peerAddress=address)
        self.aborted = False

    def abortConnection(self) -> None:
        self.aborted = True


class ProxyCase(SynchronousTestCase):
    """A port before which 10.0.0.9 and fd00::/16 are proxies."""

    limits = Limits(connections=8, connections_per_address=2, first_frame_s=10)
    mode = TlsMode.PERMISSIVE

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.service = Echo()
        self.factory = RemotingFactory(self.service, self.clock, self.limits)
        self.ended = self.factory.refusals.ended
        first = FirstBytePort(self.factory, self.mode, _NoTls(), self.factory.refusals)
        self.port = ProxyPort(first, Networks.parse(f"{PROXY}, fd00::/16, 127.0.0.9"), self.factory.refusals)
        self.port.doStart()
        self.addCleanup(self.port.doStop)

    def connect(self, host: str = PROXY) -> Transport:
        address = IPv6Address("TCP", host, 50000) if ":" in host else IPv4Address("TCP", host, 50000)
        return self.enter(address)

    def enter(self, address: Any) -> Transport:
        transport = Transport(address)
        transport.protocol = self.port.buildProtocol(address)
        transport.protocol.makeConnection(transport)
        return transport

    @property
    def newest(self) -> RemotingProtocol:
        """The latest connection that has a place."""
        return self.factory.connections[max(self.factory.connections)]

    def say(self, transport: Transport, data: bytes, cut: int = 0) -> None:
        for at in range(0, len(data), cut or len(data)):
            transport.protocol.dataReceived(data[at : at + (cut or len(data))])

    def assert_served(self, transport: Transport, **ended: int) -> None:
        (answer,) = frames_of(transport.value())
        self.assertEqual((answer.code, answer.body), (0, b"hello"))
        self.assertEqual(dict(self.ended), ended)

    def assert_refused(self, transport: Transport, cause: Ended) -> None:
        self.assertEqual(dict(self.ended), {cause.value: 1})
        self.assertTrue(transport.aborted or transport.disconnecting)
        self.assertEqual(transport.value(), b"")
        self.assertFalse(any(event[0] == "request" for event in self.service.events))
        self.ended.clear()


class ListedTests(ProxyCase):
    """Connections of proxies."""

    def test_every_shape_at_any_cut(self) -> None:
        for header, peer in (
            (LINE, "10.1.1.7:4444"),
            (V2, "10.1.1.7:4444"),
            (b"PROXY TCP6 2001:db8::7 ::1 4444 1\r\n", "2001:db8::7:4444"),
            (b"PROXY TCP6 ::ffff:10.1.1.7 ::1 4444 1\r\n", "10.1.1.7:4444"),
            (LOCAL, "10.0.0.9:50000"),
            (UNKNOWN, "10.0.0.9:50000"),
            (SIGNATURE + b"\x21\x00\x00\x00", "10.0.0.9:50000"),
            (SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216), "10.0.0.9:50000"),
        ):
            for cut in (0, 1, 2, 7):
                transport = self.connect()
                self.say(transport, header + frame(1, body=b"hello"), cut)
                self.assert_served(transport)
                connection = self.newest
                self.assertEqual((connection.peer, connection.socket_host), (peer, PROXY))
                self.assertEqual(connection.peer, f"{connection.peer_host}:{connection.peer_port}")
                self.assertIs(transport.protocol, connection, "nothing stays between them")
                connection.connectionLost(Failure(ConnectionDone()))
                self.assertEqual(self.service.events[-1], ("disconnected", peer))

    def test_other_forms_of_a_proxys_address(self) -> None:
        for host in ("::ffff:10.0.0.9", "fd00::1"):
            transport = self.connect(host)
            self.say(transport, LINE + frame(1, body=b"hello"))
            self.assert_served(transport)
            self.assertEqual(self.newest.peer_host, "10.1.1.7")

    def test_without_a_header(self) -> None:
        """A proxy that sends none would pass on what its clients say."""
        for data in (
            frame(1, body=b"hello"),
            b"\x16\x03\x01\x02",
            b"\x00",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\r\r",
            b"PROXZ",
        ):
            transport = self.connect()
            self.say(transport, data + frame(1))
            self.assert_refused(transport, Ended.PROXY_HEADER)
            self.say(transport, LINE + frame(1))
            self.assertEqual(dict(self.ended), {}, "it is said once")
            self.assertEqual(transport.value(), b"")
            transport.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.factory.connections, {})

    def test_broken(self) -> None:
        for header in (
            b"PROXY TCP4 10.1.1.7 10.1.1.1 4444 70000\r\n",
            b"PROXY UNKNOWN " + bytes(100),
            SIGNATURE + b"\x11\x11\x00\x0c" + bytes(12),
            SIGNATURE + b"\x31\x11\x00\x0c" + bytes(12),
            SIGNATURE + b"\x22\x11\x00\x0c" + bytes(12),
            SIGNATURE + b"\x21\x12\x00\x0c" + bytes(12),
            SIGNATURE + b"\x21\x11\x00\x0b" + bytes(12),
        ):
            transport = self.connect()
            self.say(transport, header + frame(1))
            self.assert_refused(transport, Ended.PROXY_HEADER)
            transport.protocol.connectionLost(Failure(ConnectionDone()))
        kinds = self.factory.refusals.kinds()
        self.assertEqual((kinds[0]["reason"], kinds[0]["address"]), ("proxy_header", "10.0.0.9:50000"))

    def test_a_second_header_is_what_the_client_says(self) -> None:
        """So nobody behind a proxy is believed."""
        for first in (LINE, V2, UNKNOWN):
            transport = self.connect()
            self.say(transport, first + OTHERS + frame(1))
            self.assert_refused(transport, Ended.BAD_FRAME)
            transport.protocol.connectionLost(Failure(ConnectionDone()))

    def test_half_a_header_and_silence(self) -> None:
        for header in (b"", LINE[:20], V2[:20], SIGNATURE + b"\x21\x11\xff\xff" + bytes(9000)):
            transport = self.connect()
            if header:
                self.say(transport, header)
            self.clock.pump([1.0] * 10)
            self.assertEqual(dict(self.ended), {})
            self.clock.pump([1.0])
            self.assert_refused(transport, Ended.NO_REQUEST)
            transport.protocol.connectionLost(Failure(ConnectionDone()))

    def test_who_looks_whether_the_port_is_open(self) -> None:
        """As load balancers do: connects, and goes."""
        transport = self.connect()
        transport.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((dict(self.ended), self.factory.connections), ({}, {}))

    def test_a_transport_that_goes_on_calling_who_was_first(self) -> None:
        transport = self.connect()
        first = transport.protocol
        for data in (LINE, frame(1, 1, b"a"), frame(1, 2, b"b")):
            first.dataReceived(data)
        self.assertEqual([each.body for each in frames_of(transport.value())], [b"a", b"b"])

    def test_without_tls(self) -> None:
        """A port that takes frames alone: nothing stays between either."""
        self.port = ProxyPort(self.factory, Networks.parse(PROXY), self.factory.refusals)
        transport = self.connect()
        self.say(transport, LINE)
        self.assertIs(transport.protocol, self.newest)
        self.say(transport, frame(1, body=b"hello"))
        self.assert_served(transport)

    def test_tls_behind_the_header(self) -> None:
        """Its first byte is that after the header; refusals name the source."""
        transport = self.connect()
        self.say(transport, LINE + b"\x16\x03\x01")
        self.assert_refused(transport, Ended.NO_TLS)
        self.assertEqual(self.factory.refusals.kinds()[0]["address"], "10.1.1.7:4444")


class EnforcingTests(ProxyCase):
    """``tls.server.mode=enforcing``."""

    mode = TlsMode.ENFORCING

    def test_a_plain_connection(self) -> None:
        transport = self.connect()
        self.say(transport, LINE + frame(1))
        self.assert_refused(transport, Ended.TLS_NEEDED)


class OthersTests(ProxyCase):
    """Connections of everybody else."""

    def test_their_headers_are_junk(self) -> None:
        for header in (LINE, V2, LOCAL, UNKNOWN):
            transport = self.connect("10.0.0.8")
            self.say(transport, header + frame(1))
            self.assert_refused(transport, Ended.BAD_FRAME)
            self.assertEqual(self.factory.refusals.kinds()[0]["address"], "10.0.0.8:50000")
            transport.protocol.connectionLost(Failure(ConnectionDone()))

    def test_without_one_they_are_served(self) -> None:
        for address in (IPv4Address("TCP", "10.0.0.8", 50000), UNIXAddress("/run/x"), None):
            transport = self.enter(address)
            self.say(transport, frame(1, body=b"hello"))
            self.assert_served(transport)
            transport.protocol.connectionLost(Failure(ConnectionDone()))


class NoProofTests(ProxyCase):
    """What an announced address is not good for."""

    def announced(self, host: str, proxy: str = PROXY) -> RemotingProtocol:
        transport = self.connect(proxy)
        kind = "TCP6 {} ::1" if ":" in host else "TCP4 {} 10.1.1.1"
        self.say(transport, f"PROXY {kind.format(host)} 4444 1\r\n".encode() if host else UNKNOWN)
        return self.newest

    def test_limits_go_by_the_proxy(self) -> None:
        """Neither many addresses nor loopback's give more places."""
        first = self.announced("10.1.1.1")
        self.announced("127.0.0.1")
        self.assertEqual(dict(self.ended), {})
        self.announced("10.0.0.3")
        self.assertEqual((dict(self.ended), first.closed), ({"lost_place": 1}, True))

    def test_patience_goes_by_the_proxy(self) -> None:
        connection = self.announced("127.0.0.1")
        self.announced("10.1.1.1")
        self.clock.pump([1.0] * 3)
        self.assertEqual(self.factory.admission.patience_s(PROXY), 2)
        self.assertEqual(dict(self.ended), {"no_request": 2})
        self.assertTrue(connection.closed)

    def test_it_is_no_identity(self) -> None:
        """Neither the announced address is, nor the proxy's own, whatever the list says."""
        own = Identity("c", Part.BROKER, "a", 0)
        controller = Identity("c", Part.CONTROLLER, "n0")
        trusted = parse(
            f"broker/a/1@10.0.0.3,fd00::3,127.0.0.1,{PROXY},fd00::1; controller/n0@10.0.0.3,127.0.0.1,{PROXY},fd00::1"
        )
        askers = Askers(lambda transport: (), (own, controller), trusted)
        for proxy, host in (
            (PROXY, "10.0.0.3"), (PROXY, "::ffff:10.0.0.3"), (PROXY, "fd00::3"), (PROXY, "127.0.0.1"), (PROXY, ""),
            ("fd00::1", "10.0.0.3"), ("fd00::1", ""), ("fd00::1%10.0.0.3", ""), ("127.0.0.9", "127.0.0.1"),
        ):  # fmt: skip
            connection = self.announced(host, proxy)
            at = connection.proven_host
            self.assertEqual(list(askers.at(connection.transport, at)), [])
            self.assertFalse(askers.is_replica(connection.transport, at))
            self.assertFalse(askers.is_controller(connection.transport, at, "n0"))
            self.assertFalse(is_loopback(at))
            self.assertNotEqual(at, connection.local_host)
            self.assertIsNone(own_port("10.0.0.3:10911", at))
            self.assertIsNone(own_port(f"{proxy}:10911", at))
            self.assertFalse(may_be_from(at, "10.0.0.3:9878"))
            connection.connectionLost(Failure(ConnectionDone()))

    def test_a_certificate_is_one(self) -> None:
        replica = Identity("c", Part.BROKER, "a", 1)
        askers = Askers(lambda transport: (replica,), (Identity("c", Part.BROKER, "a", 0),), {})
        connection = self.announced("10.1.1.1")
        self.assertTrue(askers.is_replica(connection.transport, connection.proven_host))

    def test_no_two_connections_are_of_one_host(self) -> None:
        transport = self.connect()
        self.say(transport, LINE)
        one = self.newest
        other = self.enter(IPv4Address("TCP", PROXY, 50001))
        self.say(other, LINE)
        self.assertEqual(one.peer, self.newest.peer)
        self.assertNotEqual(one.proven_host, self.newest.proven_host)
