"""Raft connections on transports in memory: greetings, frames whole and in bytes, hostile bytes, limits, retries."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet import error
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import ConfigError
from rocketha.observe.refusals import QUIET_S, Refusals
from rocketha.protocols import raft_peers
from rocketha.protocols.endpoints import Dialer, client_endpoint, is_loopback, literal_host, parse_peers
from rocketha.protocols.raft import RaftLimits, RaftProtocol
from rocketha.protocols.raft_peers import RaftPeers
from rocketha.protocols.raft_port import SHARED_S, RaftPort
from rocketha.wire import raft_frames as frames
from rocketha.wire.raft_frames import Hello, MessageWriter, Ping, Refusal, RefusalCode
from rocketha.wire.raft_values import Entry, Kind, Members, Message, SnapshotMeta
from rocketha.wire.spec import raft as spec
from tests.protocols.raft_case import IDENTITY, MEMBERS, Heard, Reactor, Transport, chance, contents, hello

MESSAGES = (
    Message(Kind.HEART_BEAT, "n1", "n0", 3, context=9),
    Message(Kind.APPEND, "n1", "n0", 3, 7, 2, 6, entries=(Entry(8, 3, 1, b"a" * 300), Entry(9, 3, 2, b""))),
    Message(Kind.SNAPSHOT, "n1", "n0", 3, snapshot=SnapshotMeta(5, 2, MEMBERS), data=b"piece", done=True),
)


def bytes_of(*messages: Message) -> bytes:
    writer = MessageWriter()
    return b"".join(map(writer.frame, messages))


class PortCase(SynchronousTestCase):
    """n0's port."""

    limits = RaftLimits(strangers=3)

    def setUp(self) -> None:
        self.group = Heard()
        self.port = RaftPort(IDENTITY, self.group, self.limits)
        self.said: list[str] = []
        log = type("Log", (), {})()
        log.warn = log.error = log.info = lambda text, **values: self.said.append(text.format(**values))
        self.port.refusals.log = log

    def connect(self, host: str = "127.0.0.1") -> tuple[RaftProtocol, Transport]:
        protocol = self.port.buildProtocol(None)
        transport = Transport(host)
        protocol.makeConnection(transport)
        return protocol, transport

    def greeted(self, **changes: object) -> tuple[RaftProtocol, Transport]:
        protocol, transport = self.connect()
        protocol.dataReceived(hello(**changes))
        self.assertTrue(protocol.ready)
        transport.taken()
        return protocol, transport

    def refusal(self, transport: Transport) -> Refusal:
        (message,) = contents(transport.taken())
        return frames.decode_refusal(message)


class AcceptTests(PortCase):
    """A HELLO is judged, then messages are taken."""

    def test_welcome_then_messages(self) -> None:
        """The dialer is told who the members are; the messages of one read come together, with the greeting's ids."""
        protocol, transport = self.connect()
        protocol.dataReceived(hello())
        (answer,) = contents(transport.taken())
        self.assertEqual(
            frames.decode_hello(answer), Hello("group", "n0", "n1", "127.0.0.1:1000", 77, True, MEMBERS.encode(), 12)
        )
        self.assertEqual(self.group.events, [("up", "n1")])
        protocol.dataReceived(bytes_of(*MESSAGES))
        self.assertEqual((self.group.messages, self.group.reads), (list(MESSAGES), 1))
        self.assertEqual(self.port.connected, ["n1"])

    def test_byte_by_byte(self) -> None:
        """C8: cut anywhere it is the same."""
        protocol, transport = self.connect()
        for byte in hello():
            self.assertFalse(protocol.ready)
            protocol.dataReceived(bytes([byte]))
        self.assertEqual(len(contents(transport.taken())), 1)
        for byte in bytes_of(*MESSAGES):
            protocol.dataReceived(bytes([byte]))
        self.assertEqual(self.group.messages, list(MESSAGES))

    def test_ping(self) -> None:
        """A ping is answered with its number."""
        protocol, transport = self.greeted()
        protocol.dataReceived(frames.seal(frames.encode_ping(Ping(41))))
        self.assertEqual([frames.decode_ping(each) for each in contents(transport.taken())], [Ping(41, True)])

    def test_the_newest_connection_counts(self) -> None:
        """A member that connects again (its old connection died unseen) replaces its former connection."""
        first, old = self.greeted()
        self.greeted()
        self.assertTrue(old.aborted)
        first.connectionLost(Failure(error.ConnectionAborted()))
        self.assertEqual(self.port.connected, ["n1"])

    def test_ipv6_and_names(self) -> None:
        """An IPv4 member may appear as a mapped IPv6 address; behind a name any address may be (I6)."""
        protocol, _ = self.connect("::ffff:127.0.0.1")
        protocol.dataReceived(hello())
        self.assertTrue(protocol.ready)
        protocol, _ = self.connect("2001:db8::5")
        protocol.dataReceived(hello(sender="n2"))
        self.assertTrue(protocol.ready)


class RefusalTests(PortCase):
    """Operator errors are answered with what is wrong, logged with who, and closed."""

    def assert_refused(self, code: RefusalCode, text: str, host: str = "127.0.0.1", **changes: object) -> None:
        protocol, transport = self.connect(host)
        protocol.dataReceived(hello(**changes))
        refusal = self.refusal(transport)
        self.assertEqual(refusal.code, code)
        self.assertIn(text, refusal.text)
        self.assertTrue(transport.disconnecting)
        self.assertIn(host, self.said[-1])
        self.assertIn(text, self.said[-1])
        protocol.dataReceived(bytes_of(*MESSAGES))
        self.assertEqual(self.group.messages, [])
        protocol.connectionLost(Failure(error.ConnectionDone()))

    def test_each_mistake(self) -> None:
        """Group, receiver (a wrong address in the list), own id, unknown id, foreign address."""
        self.assert_refused(RefusalCode.GROUP, "'group', not 'other'", group="other")
        self.assert_refused(RefusalCode.RECEIVER, "this is 'n0', not 'n2'", receiver="n2")
        self.assert_refused(RefusalCode.OWN_ID, "is the id of this member", sender="n0")
        self.assert_refused(RefusalCode.UNKNOWN_MEMBER, "'n9' is no member", sender="n9")
        self.assert_refused(RefusalCode.ADDRESS, "n1' lives at 127.0.0.1:1001", host="10.0.0.5")
        self.assertEqual(self.port.refused_count, 5)

    def test_addresses_need_not_match_when_told_so(self) -> None:
        """Behind address translation the check has to be off."""
        self.port = RaftPort(IDENTITY, self.group, self.limits, check_addresses=False)
        protocol, _ = self.connect("10.0.0.5")
        protocol.dataReceived(hello())
        self.assertTrue(protocol.ready)

    def test_version(self) -> None:
        """Another version is answered although nothing else of it is understood."""
        protocol, transport = self.connect()
        protocol.dataReceived(spec.MAGIC + frames.seal(struct.pack(">BHQ", spec.HELLO, 9, 1) + b"news"))
        refusal = self.refusal(transport)
        self.assertEqual(refusal.code, RefusalCode.VERSION)
        self.assertIn("version 9", refusal.text)

    def test_two_processes_under_one_id(self) -> None:
        """When an incarnation comes back after another one spoke, both are refused, then one of them may be again."""
        self.greeted(incarnation=1)
        _, second = self.greeted(incarnation=2)
        self.assert_refused(RefusalCode.SHARED_ID, "two processes call themselves 'n1'", incarnation=1)
        self.assertTrue(second.aborted)
        self.assert_refused(RefusalCode.SHARED_ID, "two processes", incarnation=2)
        for _ in range(SHARED_S + 1):
            self.port.sweep()
        self.greeted(incarnation=2)

    def test_a_restart_is_no_second_process(self) -> None:
        """However often a member restarts, each incarnation is new."""
        for incarnation in range(1, 6):
            self.greeted(incarnation=incarnation)
            self.greeted(incarnation=incarnation)

    def test_the_same_complaint_once_a_minute(self) -> None:
        """A peer that tries for ever does not fill the log."""
        for _ in range(20):
            protocol, _ = self.connect()
            protocol.dataReceived(hello(group="other"))
            protocol.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual(len(self.said), 1)
        for _ in range(int(QUIET_S)):
            self.port.sweep()
        self.port.refusals.settle()
        self.assertEqual(len(self.said), 2)
        self.assertIn("and 18 more like it", self.said[1])
        self.assertEqual(self.port.refusals.ended, {"other_group": 20})

    def test_each_end_is_counted(self) -> None:
        """By a reason of its own, whatever the port ends a connection for; the log has the address."""
        self.group.ready = False
        self.connect()
        self.group.ready = True
        for bad in (
            b"GET / HTTP/1.1",
            hello(group="other"),
            hello(receiver="n2"),
            hello(sender="n0"),
            hello(sender="n9"),
            spec.MAGIC + frames.seal(struct.pack(">BHQ", spec.HELLO, 9, 1) + b"news"),
        ):
            self.connect("127.0.0.7")[0].dataReceived(bad)
        self.connect("10.0.0.5")[0].dataReceived(hello())
        for incarnation in (1, 2, 1):
            self.connect()[0].dataReceived(hello(incarnation=incarnation))
        protocol, _ = self.greeted(sender="n2")
        protocol.dataReceived(bytes_of(MESSAGES[0])[:9])
        self.connect("10.0.0.6")
        for _ in range(self.limits.whole_frame_s + 2):
            protocol._heard_tick = self.port.tick
            self.port.sweep()
        self.greeted(sender="n2")
        for _ in range(self.limits.silence_s + 2):
            self.port.sweep()
        for _ in range(self.limits.strangers + 1):
            self.connect("10.0.0.8")
        expected = [
            "bad_frame",
            "idle",
            "lost_place",
            "no_request",
            "not_served",
            "other_group",
            "other_member",
            "own_id",
            "shared_id",
            "slow_frame",
            "unknown_member",
            "version",
            "wrong_address",
        ]
        counted = self.port.refusals.ended
        self.assertEqual(sorted(counted), expected)
        for cause in expected:
            line = next(each for each in self.said if f"is ended, {cause}:" in each)
            self.assertRegex(line, r"connection of (127|10)\.0\.0\.[0-9]+:[0-9]+ ")


class HostileTests(PortCase):
    """Whatever bytes come, the connection ends and nothing reaches the group."""

    def assert_ended(self, data: bytes, before: bytes = b"") -> None:
        protocol, transport = self.connect()
        if before:
            protocol.dataReceived(before)
        transport.taken()
        protocol.dataReceived(data)
        self.assertTrue(transport.disconnecting, data[:40])
        self.assertTrue(protocol.closed)
        self.assertEqual(self.group.messages, [])
        protocol.connectionLost(Failure(error.ConnectionDone()))

    def test_before_the_greeting(self) -> None:
        """No magic, wrong lengths, a frame over 4 KiB, a message, a ping, an error, a welcome, bytes behind."""
        for data in (
            b"GET / HTTP/1.1\r\n",
            b"RHRB",
            b"RHX",
            spec.MAGIC + struct.pack(">i", -1),
            spec.MAGIC + struct.pack(">i", 0),
            spec.MAGIC + struct.pack(">i", 5000),
            spec.MAGIC + struct.pack(">i", 0x7FFFFFFF),
            spec.MAGIC + bytes_of(MESSAGES[0]),
            spec.MAGIC + frames.seal(frames.encode_ping(Ping(1))),
            spec.MAGIC + frames.seal(frames.encode_refusal(Refusal(1, "x"))),
            spec.MAGIC + frames.seal(frames.encode_hello(Hello("group", "n1", "n0", "", 5, True))),
            spec.MAGIC + frames.seal(b"\x40"),
            spec.MAGIC + frames.seal(b""),
            hello() + b"\0",
            hello()[:-1] + b"\xff",
        ):
            self.assert_ended(data)

    def test_after_the_greeting(self) -> None:
        """A second greeting, a wrong CRC, an unknown kind, a cut entry, a frame over the limit, a pong nobody asked."""
        good = bytes_of(MESSAGES[1])
        for data in (
            hello()[4:],
            good[:10] + b"\x55" + good[11:],
            frames.seal(b"\x63" * 58),
            frames.seal(frames.encode(MESSAGES[1])[:-1]),
            frames.seal(b"\x05"),
            struct.pack(">i", frames.FRAME_LIMIT + 1),
            frames.seal(frames.encode_ping(Ping(1, True))),
        ):
            self.assert_ended(data, hello())

    def test_good_messages_before_a_bad_one_are_taken(self) -> None:
        """They were said; the rest of the read is not looked at."""
        protocol, transport = self.greeted()
        protocol.dataReceived(bytes_of(MESSAGES[0]) + b"\0\0\0\5xxxxx" + bytes_of(MESSAGES[1]))
        self.assertEqual(self.group.messages, [MESSAGES[0]])
        self.assertTrue(transport.disconnecting)


class LimitTests(PortCase):
    """Deadlines and counts."""

    def sweep(self, seconds: int) -> None:
        for _ in range(seconds):
            self.port.sweep()

    def test_nobody_is_taken_before_the_log_is_recovered(self) -> None:
        """What a greeting says of our log must be true."""
        self.group.ready = False
        _, transport = self.connect()
        self.assertTrue(transport.aborted)
        self.assertEqual(self.port.strangers, 0)

    def test_silence(self) -> None:
        """A member that says nothing, not even ping, is given up."""
        protocol, transport = self.greeted()
        self.sweep(5)
        protocol.dataReceived(frames.seal(frames.encode_ping(Ping(1))))
        self.sweep(5)
        self.assertFalse(transport.aborted)
        self.sweep(1)
        self.assertTrue(transport.aborted)

    def test_a_begun_frame_must_end(self) -> None:
        """Bytes that keep coming do not keep a frame open for ever."""
        protocol, transport = self.greeted()
        data = bytes_of(MESSAGES[1])
        for at in range(31):
            self.assertFalse(transport.aborted)
            protocol.dataReceived(data[at : at + 1])
            self.sweep(1)
        self.assertTrue(transport.aborted)

    def test_a_refused_peer_that_does_not_read(self) -> None:
        """The ERROR may never leave: the connection is cut then."""
        protocol, transport = self.connect()
        protocol.dataReceived(hello(group="x"))
        self.sweep(6)
        self.assertTrue(transport.aborted)


class PeersCase(SynchronousTestCase):
    """n0 dials n1 and n2 on a reactor in memory."""

    limits = RaftLimits(queued_bytes=2000)

    def setUp(self) -> None:
        self.reactor = Reactor()
        self.group = Heard()
        self.peers = RaftPeers(Dialer(self.reactor), IDENTITY, self.group, chance(), self.limits)
        self.addCleanup(self.peers.stop)

    def start(self) -> None:
        self.peers.set_addresses({"n0": "127.0.0.1:1000", "n1": "127.0.0.1:1001"})

    def attempts(self) -> int:
        return len(self.reactor.tcpClients)

    def accept(self) -> tuple[RaftProtocol, Transport]:
        """The newest attempt succeeds."""
        factory = self.reactor.tcpClients[-1][2]
        protocol = factory.buildProtocol(None)
        transport = Transport(port=1001)
        protocol.makeConnection(transport)
        # What stands between the endpoint and us.
        return protocol._wrappedProtocol, transport

    def refuse(self) -> None:
        """The newest attempt is refused."""
        _, _, factory = self.reactor.tcpClients[-1][:3]
        factory.clientConnectionFailed(None, Failure(error.ConnectionRefusedError()))

    def welcome(self) -> tuple[RaftProtocol, Transport]:
        protocol, transport = self.accept()
        transport.taken()
        answer = Hello("group", "n1", "n0", "", 9, True, MEMBERS.encode())
        protocol.dataReceived(frames.seal(frames.encode_hello(answer)))
        return protocol, transport


class DialTests(PeersCase):
    """Connections are made and kept."""

    def test_dials_others_and_greets(self) -> None:
        """Magic and HELLO at once; ourselves we do not dial; what the WELCOME says of the members is passed on."""
        self.start()
        self.assertEqual([client[:2] for client in self.reactor.tcpClients], [("127.0.0.1", 1001)])
        protocol, transport = self.accept()
        data = transport.taken()
        self.assertEqual(data[:4], spec.MAGIC)
        self.assertEqual(
            frames.decode_hello(contents(data[4:])[0]), Hello("group", "n0", "n1", "127.0.0.1:1000", 77, last_index=12)
        )
        self.assertEqual(self.peers.connected, [])
        answer = Hello("group", "n1", "n0", "", 9, True, MEMBERS.encode(), 34)
        for byte in frames.seal(frames.encode_hello(answer)):
            protocol.dataReceived(bytes([byte]))
        self.assertEqual(self.peers.connected, ["n1"])
        self.assertEqual(self.group.events, [("learned", MEMBERS)])
        self.assertEqual(self.group.histories, [34])

    def test_a_refusal_is_told_and_retried_with_pauses(self) -> None:
        """The core hears of each refusal; pauses grow from 50 ms to 1 s, a fifth more or less."""
        self.start()
        pauses = []
        for _ in range(8):
            before = self.attempts()
            self.refuse()
            start = self.reactor.seconds()
            while self.attempts() == before:
                self.reactor.advance(0.005)
            pauses.append(self.reactor.seconds() - start)
        self.assertEqual(self.group.events, [("refused", "n1")] * 8)
        for pause, wanted in zip(pauses, (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0), strict=True):
            self.assertTrue(wanted * 0.79 <= pause <= wanted * 1.2 + 0.006, pauses)

    def test_other_failures_are_no_refusals(self) -> None:
        """Silence proves nothing."""
        self.start()
        factory = self.reactor.tcpClients[-1][2]
        factory.clientConnectionFailed(None, Failure(error.TimeoutError()))
        self.assertEqual(self.group.events, [])

    def test_a_broken_connection_is_dialed_at_once(self) -> None:
        """Its refusal is the proof that the process is gone; the core also hears that messages were lost."""
        self.start()
        protocol, _ = self.welcome()
        self.peers.sweep()
        protocol.connectionLost(Failure(error.ConnectionDone()))
        self.reactor.advance(0)
        self.assertEqual(self.attempts(), 2)
        self.refuse()
        self.assertEqual(self.group.events[1:], [("lost", "n1"), ("refused", "n1")])

    def test_a_connection_that_lives_for_a_moment_is_no_reason_to_hurry(self) -> None:
        """Otherwise two ends that disagree would dial and close as fast as they can."""
        self.start()
        protocol, _ = self.welcome()
        protocol.connectionLost(Failure(error.ConnectionDone()))
        self.reactor.advance(0.03)
        self.assertEqual(self.attempts(), 1)
        self.reactor.advance(0.04)
        self.assertEqual(self.attempts(), 2)

    def test_who_speaks_to_us_is_dialed_at_once(self) -> None:
        """A pause is not waited out when the member shows that it lives."""
        self.start()
        for _ in range(5):
            self.refuse()
            self.reactor.advance(1.2)
        self.refuse()
        before = self.attempts()
        self.peers.hurry("n1")
        self.assertEqual(self.attempts(), before + 1)
        self.peers.hurry("n1")
        self.assertEqual(self.attempts(), before + 1)

    def test_an_error_frame_is_a_pause(self) -> None:
        """Somebody has to mend a configuration: five seconds, and one line of log."""
        said: list[str] = []
        self.peers.log = type("Log", (), {"warn": lambda _, form, **values: said.append(form.format(**values))})()
        self.start()
        protocol, transport = self.accept()
        protocol.dataReceived(frames.seal(frames.encode_refusal(Refusal(RefusalCode.GROUP, "this is group 'b'"))))
        self.assertTrue(transport.disconnecting)
        protocol.connectionLost(Failure(error.ConnectionDone()))
        self.assertEqual(said, ["raft peer n1: n1 refuses us: this is group 'b'"])
        self.reactor.advance(3.9)
        self.assertEqual(self.attempts(), 1)
        self.reactor.advance(2.2)
        self.assertEqual(self.attempts(), 2)

    def test_who_does_not_know_our_protocol(self) -> None:
        """Is dialed in Java's the next time, and in ours again where that says nothing either."""
        lines: list[str] = []

        class Line:
            def __init__(self, member: str) -> None:
                lines.append(member)
                self.protocol = Protocol()
                self.peer, self.dropped = "", 0

        class Others:
            all, admitted = False, True

            def line(self, side: Any, member: str) -> Line:
                return Line(member)

            def answer(self, message: Message) -> bool:
                return False

        self.peers.others = Others()  # type: ignore[assignment]
        self.start()
        protocol, _ = self.accept()
        protocol.connectionLost(Failure(error.ConnectionDone()))
        self.reactor.advance(0.2)
        self.assertEqual((self.attempts(), lines), (2, ["n1"]))
        peer = self.peers._peers["n1"]
        line = Line("n1")
        peer.connection = line  # type: ignore[assignment]
        peer.ended(line, "closed")  # type: ignore[arg-type]
        self.assertFalse(peer.java)

    def test_none_is_dialed_in_javas_protocol(self) -> None:
        """Where the others may not be there."""
        lines: list[str] = []

        class Others:
            all, admitted = True, False

            def line(self, side: Any, member: str) -> Any:
                lines.append(member)

        self.peers.others = Others()  # type: ignore[assignment]
        self.start()
        self.accept()
        self.assertEqual((self.attempts(), lines), (1, []))

    def test_a_wrong_answerer(self) -> None:
        """Who answers must be the one called."""
        for answer in (Hello("group", "n2", "n0", "", 9, True), Hello("other", "n1", "n0", "", 9, True)):
            self.start()
            protocol, transport = self.accept()
            protocol.dataReceived(frames.seal(frames.encode_hello(answer)))
            self.assertTrue(transport.disconnecting)
            self.assertEqual(self.peers.connected, [])
            self.peers.set_addresses({})

    def test_hostile_answers(self) -> None:
        """A dialed connection brings no messages, and no broken frames."""
        for data in (
            bytes_of(MESSAGES[0]),
            frames.seal(b"\x63"),
            b"\0\0\0\0",
            frames.seal(frames.encode_ping(Ping(1))),
        ):
            self.start()
            protocol, transport = self.accept()
            protocol.dataReceived(data)
            self.assertTrue(transport.disconnecting)
            self.peers.set_addresses({})
        self.start()
        protocol, transport = self.welcome()
        protocol.dataReceived(bytes_of(MESSAGES[0]))
        self.assertTrue(transport.disconnecting)
        self.assertEqual(self.group.messages, [])

    def test_members_come_and_go(self) -> None:
        """Who leaves is closed, who moves is dialed at the new address, who comes is dialed; IPv6 in brackets."""
        self.start()
        _, transport = self.welcome()
        self.peers.set_addresses({"n1": "[::1]:2001", "n3": "10.0.0.3:1003"})
        self.assertTrue(transport.disconnecting)
        self.assertEqual([client[:2] for client in self.reactor.tcpClients[1:]], [("::1", 2001), ("10.0.0.3", 1003)])
        self.peers.set_addresses({})
        self.assertEqual(self.peers.views(), {})
        self.reactor.advance(10)
        self.assertEqual(self.attempts(), 3)

    def test_stopped_while_dialing(self) -> None:
        """The attempt is given up, and none follows."""
        self.start()
        self.peers.stop()
        self.assertTrue(self.reactor.connectors[-1].stoppedConnecting)
        self.reactor.advance(10)
        self.assertEqual(self.attempts(), 1)


class SendTests(PeersCase):
    """What leaves, and what does not."""

    def test_one_write_a_turn(self) -> None:
        """All messages to one peer since the last flush are one write."""
        self.start()
        _, transport = self.welcome()
        transport.writes.clear()
        for message in MESSAGES:
            self.assertTrue(self.peers.send(message._replace(sender="n0", to="n1")))
        self.assertEqual(transport.writes, [])
        self.peers.flush()
        self.assertEqual(transport.writes, [bytes_of(*MESSAGES)])

    def test_unknown_or_unconnected(self) -> None:
        """What cannot be sent is dropped: Raft repeats what matters."""
        self.start()
        self.assertFalse(self.peers.send(MESSAGES[0]._replace(to="n1")))
        self.assertFalse(self.peers.send(MESSAGES[0]._replace(to="n7")))

    def test_a_peer_that_does_not_read(self) -> None:
        """Beyond the bound messages are dropped and the core is told; what was queued leaves when it reads again."""
        self.start()
        protocol, transport = self.welcome()
        protocol.pauseProducing()
        transport.writes.clear()
        message = MESSAGES[1]._replace(to="n1")
        sent = [self.peers.send(message) for _ in range(10)]
        self.peers.flush()
        self.assertEqual(transport.writes, [])
        self.assertEqual(sent.count(True), 2000 // len(bytes_of(message)))
        self.assertIn(("lost", "n1"), self.group.events)
        view = self.peers.views()["n1"]
        self.assertEqual(view.dropped, sent.count(False))
        self.assertLessEqual(view.queued_bytes, 2000)
        protocol.resumeProducing()
        self.assertEqual(transport.writes, [bytes_of(*[message] * sent.count(True))])

    def test_pings_and_silence(self) -> None:
        """One ping a second; five seconds without an answer end the connection."""
        self.start()
        protocol, transport = self.welcome()
        transport.taken()
        for number in range(1, 6):
            self.peers.sweep()
            (ping,) = map(frames.decode_ping, contents(transport.taken()))
            self.assertEqual(ping, Ping(number))
            protocol.dataReceived(frames.seal(frames.encode_ping(Ping(number, True))))
        for _ in range(5):
            self.peers.sweep()
        self.assertFalse(transport.aborted)
        self.peers.sweep()
        self.assertTrue(transport.aborted)


class SecretTests(SynchronousTestCase):
    """I3: where the group has a secret, who does not know it is refused, at either end."""

    def meet(self, dialer_secret: bytes, port_secret: bytes) -> tuple[RaftProtocol, RaftProtocol, list[bytes]]:
        """Both ends, and all that was said, a byte at a time."""
        self.accepting, self.dialing = Heard(), Heard()
        self.refusals = Refusals("both", float)
        identity = attrs.evolve(IDENTITY, id="n1", secret=port_secret)
        port = RaftPort(identity, self.accepting, refusals=self.refusals)
        reactor, identity = Reactor(), attrs.evolve(IDENTITY, secret=dialer_secret)
        peers = RaftPeers(Dialer(reactor), identity, self.dialing, chance(), refusals=self.refusals)
        self.addCleanup(peers.stop)
        peers.set_addresses({"n1": "127.0.0.1:1001"})
        dialer = reactor.tcpClients[-1][2].buildProtocol(None)
        acceptor = port.buildProtocol(None)
        ends = ((dialer, Transport()), (acceptor, Transport()))
        for protocol, transport in ends:
            protocol.makeConnection(transport)
        said = []
        for _ in range(6):
            for (_, transport), (other, _) in (ends, ends[::-1]):
                data = transport.taken()
                said.append(data)
                for byte in data:
                    other.dataReceived(bytes([byte]))
        return dialer._wrappedProtocol, acceptor, said

    def test_the_same_secret(self) -> None:
        """Both are ready, and the secret itself was never said."""
        for secret in (b"", b"s" * 20):
            dialer, acceptor, said = self.meet(secret, secret)
            self.assertTrue(dialer.ready and acceptor.ready)
            self.assertEqual(self.accepting.events, [("up", "n0")])
            self.assertNotIn(b"ssss", b"".join(said))
            self.assertNotIn("ssss", repr(dialer.side.identity))

    def test_different_or_missing(self) -> None:
        """No end is ready, and the group never hears of the other: not even its connection is replaced."""
        for ours, theirs in ((b"one", b"two"), (b"", b"two"), (b"one", b"")):
            dialer, acceptor, said = self.meet(ours, theirs)
            self.assertFalse(dialer.ready)
            self.assertFalse(self.dialing.events or self.dialing.histories)
            self.assertEqual(self.refusals.ended, {"wrong_secret": 1}, "whichever end it was that refused")
            if theirs:
                self.assertFalse(acceptor.ready)
                self.assertEqual(self.accepting.events, [])
                self.assertNotIn(MEMBERS.encode(), b"".join(said))

    def test_a_proof_does_not_serve_twice(self) -> None:
        """What was said on one connection opens no other."""
        _, _, said = self.meet(b"secret", b"secret")
        recorded = [data for data in said[::2] if data]
        port = RaftPort(attrs.evolve(IDENTITY, id="n1", secret=b"secret"), self.accepting)
        self.accepting.events.clear()
        protocol = port.buildProtocol(None)
        transport = Transport()
        protocol.makeConnection(transport)
        for data in recorded:
            protocol.dataReceived(data)
        self.assertTrue(transport.disconnecting)
        self.assertEqual(self.accepting.events, [])

    def test_each_side_has_its_own_proof(self) -> None:
        """A challenge sent back is no proof; nor is a message, or a second greeting, in place of one."""
        for make in (
            lambda challenge: frames.seal(
                frames.encode_proof(frames.decode_proof(challenge)._replace(challenge=False))
            ),
            lambda challenge: bytes_of(MESSAGES[0]),
            lambda challenge: hello()[4:],
            lambda challenge: frames.seal(frames.encode_ping(Ping(1))),
        ):
            heard = Heard()
            port = RaftPort(attrs.evolve(IDENTITY, secret=b"secret"), heard)
            protocol = port.buildProtocol(None)
            transport = Transport()
            protocol.makeConnection(transport)
            protocol.dataReceived(hello(nonce=b"n" * 16))
            (challenge,) = contents(transport.taken())
            protocol.dataReceived(make(challenge))
            self.assertTrue(transport.disconnecting)
            self.assertEqual((heard.events, heard.messages), ([], []))


class IdentityTests(SynchronousTestCase):
    """Where identities are demanded, who shows another one is refused at either end: the group never hears of it."""

    def meet(self, dialer_vouches: bool, port_vouches: bool) -> tuple[RaftProtocol, RaftProtocol]:
        self.accepting, self.dialing, self.refusals = Heard(), Heard(), Refusals("both", float)
        asked: list[tuple[str, str]] = []

        def vouches(answer: bool) -> Callable[[object, str, str], bool]:
            return lambda transport, host, member: asked.append((host, member)) or answer

        port = RaftPort(
            attrs.evolve(IDENTITY, id="n1", vouches=vouches(port_vouches)), self.accepting, refusals=self.refusals
        )
        reactor, identity = Reactor(), attrs.evolve(IDENTITY, vouches=vouches(dialer_vouches))
        peers = RaftPeers(Dialer(reactor), identity, self.dialing, chance(), refusals=self.refusals)
        self.addCleanup(peers.stop)
        peers.set_addresses({"n1": "127.0.0.1:1001"})
        dialer, acceptor = reactor.tcpClients[-1][2].buildProtocol(None), port.buildProtocol(None)
        ends = ((dialer, Transport()), (acceptor, Transport()))
        for protocol, transport in ends:
            protocol.makeConnection(transport)
        for _ in range(6):
            for (_, transport), (other, _) in (ends, ends[::-1]):
                other.dataReceived(transport.taken())
        self.asked = asked
        return dialer._wrappedProtocol, acceptor

    def test_both_believed(self) -> None:
        dialer, acceptor = self.meet(True, True)
        self.assertTrue(dialer.ready and acceptor.ready)
        self.assertEqual([member for _, member in self.asked], ["n0", "n1"])

    def test_one_not_believed(self) -> None:
        for dialer_vouches, port_vouches in ((True, False), (False, True)):
            dialer, acceptor = self.meet(dialer_vouches, port_vouches)
            self.assertFalse(dialer.ready)
            self.assertEqual(acceptor.ready, port_vouches)
            self.assertEqual(self.refusals.ended, {"wrong_identity": 1})
            self.assertFalse(self.dialing.events or self.dialing.histories)
            if not port_vouches:
                self.assertEqual(self.accepting.events, [])


class AddressTests(SynchronousTestCase):
    """I6: host names with dashes, IPv6, peers of unequal length."""

    def test_peers(self) -> None:
        """The id ends at the first dash; the rest is the address."""
        self.assertEqual(
            parse_peers("n0-controller-0.my-net:9878;n10-10.0.0.1:80; n2-[2001:db8::2]:65535;"),
            {"n0": "controller-0.my-net:9878", "n10": "10.0.0.1:80", "n2": "[2001:db8::2]:65535"},
        )

    def test_wrong_peers(self) -> None:
        """Each is named."""
        for text in ("", ";", "n0", "n0-host", "-h:1", "n0-h:0", "n0-h:99999", "n0-a:1;n0-b:1", "n0-a:1;n1-a:1"):
            with self.subTest(text), self.assertRaises(ConfigError):
                parse_peers(text)

    def test_endpoints(self) -> None:
        """IP addresses are connected to as they are; names are looked up, and refusals of theirs come soon."""
        reactor = Reactor()
        self.assertEqual(type(client_endpoint(reactor, "127.0.0.1:1", 1)).__name__, "TCP4ClientEndpoint")
        self.assertEqual(type(client_endpoint(reactor, "[::1]:1", 1)).__name__, "TCP6ClientEndpoint")
        named = client_endpoint(reactor, "a-b.example:1", 1)
        self.assertEqual(type(named).__name__, "HostnameEndpoint")
        self.assertLess(named._attemptDelay, 0.05)
        self.assertEqual(literal_host("[0:0::1]:5"), "::1")
        self.assertIsNone(literal_host("name:5"))
        self.assertIsNone(literal_host("nonsense"))

    def test_loopback(self) -> None:
        """All its addresses, in every way they are written; nothing else."""
        for host in ("127.0.0.1", "127.9.9.9", "::1", "0:0::1", "::ffff:127.0.0.1", "localhost"):
            self.assertTrue(is_loopback(host), host)
        for host in ("10.0.0.1", "1.127.0.0", "::", "::ffff:10.0.0.1", "fe80::1%eth0", "127.evil.example", ""):
            self.assertFalse(is_loopback(host), host)

    def test_a_wrong_address_is_no_crash(self) -> None:
        """Members may carry any text; it is complained about and tried again."""
        peers = RaftPeers(Dialer(Reactor()), IDENTITY, Heard(), chance())
        peers.set_addresses({"n1": "nonsense"})
        self.assertEqual(peers.connected, [])
        peers.stop()
        self.assertEqual(raft_peers.FIRST_RETRY_S, 0.05)

    def test_members_that_cannot_be_read(self) -> None:
        """A WELCOME's list is judged as anything else a peer says."""
        group = Heard()
        peers = RaftPeers(Dialer(Reactor()), IDENTITY, group, chance())
        peers.welcomed("n1", b"\xff" * 9, 0)
        peers.welcomed("n1", b"", 0)
        self.assertEqual(group.events, [])
        peers.welcomed("n1", Members().encode(), 0)
        self.assertEqual(group.events, [("learned", Members())])
