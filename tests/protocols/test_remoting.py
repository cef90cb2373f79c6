"""The remoting protocol on a fake transport and a fake clock: frames, turns, limits, requests of ours, backpressure."""

from __future__ import annotations

import gc
import json
import struct
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet import defer, error, task
from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.observe.refusals import NAMELESS, Ended
from rocketha.protocols import remoting
from rocketha.protocols.admission import IDLE_PLACE_S, Admission
from rocketha.protocols.eager import eager_write, eager_write_block
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting import TURN_BYTES_MAX, TURN_S, RemotingFactory, RemotingProtocol, ServerParts
from rocketha.services.config import views
from rocketha.services.config.loading import load_broker
from rocketha.wire.framing import FRAME_LIMIT, FrameBuffer
from rocketha.wire.limits import HEADER_FIELDS_MAX
from rocketha.wire.remoting import HEADER_LIMIT, Answer, Command, decode, encode, request


class Echo:
    """Answers 1 with its body, 2 later, 3 by a refusal, 4 by a bug."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.later: list[tuple[RemotingProtocol, Command]] = []

    def connected(self, connection: RemotingProtocol) -> None:
        self.events.append(("connected", connection.peer))

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        self.events.append(("disconnected", connection.peer))

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        self.events.append(("request", command.code, command.opaque))
        if command.code == 2:
            self.later.append((connection, command))
            return None
        if command.code == 3:
            raise RequestRefused(17, "no such thing")
        if command.code == 4:
            raise ZeroDivisionError("our mistake")
        return Answer(0, None, {"seen": "yes"}, command.body)

    def turn_ended(self) -> None:
        self.events.append("turn ended")


class Transport(StringTransport):
    """A StringTransport that counts writes and knows how it was ended."""

    def __init__(self, host: str = "127.0.0.1", port: int = 40000) -> None:
        super().__init__(peerAddress=IPv4Address("TCP", host, port))
        self.writes: list[bytes] = []
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        super().write(data)

    def abortConnection(self) -> None:
        self.aborted = True


def frames_of(data: bytes) -> list[Command]:
    return [decode(frame) for frame in FrameBuffer().feed(data)]


def frame(code: int, opaque: int = 1, body: bytes = b"", flag: int = 0) -> bytes:
    command = request(code, {"a": "b"}, body)
    command.opaque, command.flag = opaque, flag
    return encode(command)


def json_frame(head: dict[str, Any], body: bytes = b"") -> bytes:
    header = json.dumps(head).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


class RemotingCase(SynchronousTestCase):
    """A factory, its clock and a way to connect."""

    limits = Limits()

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.service = Echo()
        self.factory = RemotingFactory(self.service, self.clock, self.limits)
        self.factory.doStart()
        self.addCleanup(self.factory.doStop)

    def connect(self, host: str = "127.0.0.1", port: int = 40000) -> tuple[RemotingProtocol, Transport]:
        protocol = self.factory.buildProtocol(None)
        transport = Transport(host, port)
        protocol.makeConnection(transport)
        return protocol, transport

    def said(self) -> list[dict[str, Any]]:
        """The events of refusals that are logged from now on."""
        found: list[dict[str, Any]] = []
        self.factory.refusals.log = type("Log", (), {"warn": lambda _, text, **values: found.append(values)})()
        return found

    def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)


class TurnTests(RemotingCase):
    """One read is one turn."""

    def test_many_frames_one_turn_one_write(self) -> None:
        """All frames of a read reach the service before the turn ends, and their answers leave as one write."""
        protocol, transport = self.connect()
        protocol.dataReceived(frame(1, 7, b"x") + frame(1, 8) + frame(1, 9))
        self.assertEqual(
            self.service.events[1:], [("request", 1, 7), ("request", 1, 8), ("request", 1, 9), "turn ended"]
        )
        self.assertEqual(len(transport.writes), 1)
        self.assertEqual(
            [(c.opaque, c.code, c.body) for c in frames_of(transport.value())], [(7, 0, b"x"), (8, 0, b""), (9, 0, b"")]
        )

    def test_a_byte_at_a_time(self) -> None:
        """A sender of single bytes gets the same answer as one of whole frames."""
        protocol, transport = self.connect()
        for byte in frame(1, 5, b"body"):
            protocol.dataReceived(bytes([byte]))
        (answer,) = frames_of(transport.value())
        self.assertEqual((answer.opaque, answer.body, answer.flag), (5, b"body", 1))

    def test_later_answer_and_refusal_and_bug(self) -> None:
        """An answer may come later; a refusal and a bug of ours are answers, and the connection stays."""
        protocol, transport = self.connect()
        protocol.dataReceived(frame(2, 1) + frame(3, 2) + frame(4, 3))
        codes = {c.opaque: (c.code, c.remark) for c in frames_of(transport.value())}
        self.assertEqual(codes[2], (17, "no such thing"))
        self.assertEqual(codes[3], (1, "ZeroDivisionError: our mistake"))
        refusals = protocol.factory.refusals
        self.assertEqual((refusals.asked[NAMELESS], refusals.failed), (3, {"unknown": 1}))
        self.assertNotIn(1, codes)
        connection, command = self.service.later[0]
        connection.answer(command, Answer(0, None, None, b"late"))
        self.assertEqual(frames_of(transport.value())[-1].body, b"late")
        self.assertFalse(transport.disconnecting)

    def test_oneway_is_never_answered(self) -> None:
        """Flag 2: no answer, not even for a refusal (facts: remoting 4)."""
        protocol, transport = self.connect()
        protocol.dataReceived(frame(1, 1, flag=2) + frame(3, 2, flag=2) + frame(4, 3, flag=2))
        self.assertEqual(transport.value(), b"")

    def test_answers_for_another_connection_join_the_turn(self) -> None:
        """What a turn says to several connections is one write to each."""
        waiting, waiting_transport = self.connect(port=1)
        waiting.dataReceived(frame(2, 11) + frame(2, 12))
        original = self.service.request

        def wake(connection: RemotingProtocol, command: Command) -> Answer | None:
            for other, held in self.service.later:
                other.answer(held, Answer())
            return original(connection, command)

        self.service.request = wake  # type: ignore[method-assign]
        other, _ = self.connect(port=2)
        other.dataReceived(frame(1, 1))
        self.assertEqual(len(waiting_transport.writes), 1)
        self.assertEqual([c.opaque for c in frames_of(waiting_transport.value())], [11, 12])


class HostileTests(RemotingCase):
    """security.md: what breaks the protocol closes the connection, after the answers it is owed."""

    def assert_closed(self, data: bytes) -> Transport:
        protocol, transport = self.connect()
        protocol.dataReceived(data)
        self.assertTrue(transport.disconnecting)
        self.assertTrue(protocol.closed)
        return transport

    def test_frame_lengths(self) -> None:
        """Lengths 0, 3, -1, 2^31-1, 16 MiB + 1 and a TLS hello: closed without waiting for a byte of the frame."""
        for length in (0, 3, -1, 0x7FFFFFFF, 16 * 1024 * 1024 + 1):
            self.assert_closed(struct.pack(">i", length))
        self.assert_closed(b"\x16\x03\x01\x02\x00\x01")
        self.assert_closed(b"GET / HTTP/1.1\r\n\r\n")

    def test_headers(self) -> None:
        """A header longer than its frame, an unknown serializer, no JSON, deep JSON, wrong types."""
        self.assert_closed(struct.pack(">iI", 8, 100) + b"{}  ")
        self.assert_closed(struct.pack(">iI", 6, 7 << 24 | 2) + b"{}")
        for text in (b"[]", b"{", b"nope", b'{"code":"x"}', b'{"code":1e99}', b'{"opaque":4294967296}', b"[" * 40000):
            self.assert_closed(struct.pack(">iI", 4 + len(text), len(text)) + text)

    def test_good_frames_before_a_bad_one_are_answered(self) -> None:
        """The peer gets what it is owed before the connection closes, and nothing after the bad frame is read."""
        transport = self.assert_closed(frame(1, 1) + struct.pack(">iI", 6, 7 << 24 | 2) + b"{}" + frame(1, 2))
        self.assertEqual([c.opaque for c in frames_of(transport.value())], [1])

    def test_complaints_are_counted_not_all_logged(self) -> None:
        """A peer that opens and breaks connections as fast as it can fills a counter, not the log."""
        said = self.said()
        for _ in range(1000):
            self.assert_closed(b"\x00\x00\x00\x00")
        self.assertEqual((len(said), self.factory.refusals.ended), (1, {"bad_frame": 1000}))
        self.advance(60)
        self.assertEqual([(each["reason"], each["more"]) for each in said], [("bad_frame", 0), ("bad_frame", 998)])

    def test_an_answer_to_nothing_is_dropped(self) -> None:
        """A response whose opaque nobody waits for is no request and no error (facts: remoting 4)."""
        protocol, transport = self.connect()
        protocol.dataReceived(frame(1, 99, flag=1))
        self.assertEqual(transport.value(), b"")
        self.assertFalse(transport.disconnecting)
        self.assertEqual([event for event in self.service.events if event[0] == "request"], [])


class LimitTests(RemotingCase):
    """Deadlines and counts."""

    limits = Limits(
        first_frame_s=10,
        whole_frame_s=30,
        idle_s=120,
        connections=5,
        connections_per_address=2,
        unfinished_bytes=1000,
    )

    def test_first_frame(self) -> None:
        """A connection that says nothing is closed after first_frame_s, one that spoke is not."""
        _, silent = self.connect(port=1)
        speaker, transport = self.connect(port=2)
        speaker.dataReceived(frame(1))
        self.advance(10)
        self.assertFalse(silent.disconnecting)
        self.advance(1)
        self.assertTrue(silent.disconnecting)
        self.assertFalse(transport.disconnecting)

    def test_a_begun_frame_must_end(self) -> None:
        """A frame that arrives too slowly is given up although bytes keep coming."""
        protocol, transport = self.connect()
        protocol.dataReceived(frame(1))
        data = frame(1, 2, b"x" * 100)
        for index in range(31):
            self.assertFalse(transport.disconnecting)
            protocol.dataReceived(data[index : index + 1])
            self.advance(1)
        self.assertTrue(transport.disconnecting)

    def test_idle(self) -> None:
        """120 s without a word from either side end a connection (serverChannelMaxIdleTimeSeconds)."""
        protocol, transport = self.connect()
        protocol.dataReceived(frame(1))
        self.advance(100)
        protocol.dataReceived(frame(1))
        self.advance(120)
        self.assertFalse(transport.disconnecting)
        self.advance(1)
        self.assertTrue(transport.disconnecting)

    def speaker(self, host: str = "127.0.0.1", port: int = 40000) -> tuple[RemotingProtocol, Transport]:
        """A connection on which something was said."""
        protocol, transport = self.connect(host, port)
        protocol.dataReceived(frame(1))
        return protocol, transport

    def test_connections_per_address(self) -> None:
        """One address has its share, loopback has it all, the port has its maximum."""
        first, _ = self.speaker("10.0.0.1", 1)
        self.speaker("10.0.0.1", 2)
        _, third = self.connect("10.0.0.1", 3)
        self.assertTrue(third.aborted)
        first.connectionLost()
        _, again = self.speaker("10.0.0.1", 4)
        self.assertFalse(again.aborted)
        for port in range(3):
            _, local = self.speaker("127.0.0.1", 10 + port)
            self.assertFalse(local.aborted)
        _, sixth = self.connect("127.0.0.1", 20)
        self.assertTrue(sixth.aborted)

    def test_a_refused_connection_is_no_ones(self) -> None:
        """The service never hears of a connection that was refused, nor of its end."""
        for port in range(5):
            self.speaker(port=port)
        events = list(self.service.events)
        refused, _ = self.connect(port=6)
        refused.dataReceived(frame(1))
        refused.connectionLost()
        self.assertEqual(self.service.events, events)

    def test_an_evicted_connection_ends_as_any(self) -> None:
        """The service hears of its end, once; it is counted; the log is not filled."""
        first, transport = self.connect(port=1)
        for port in range(2, 6):
            self.connect(port=port)
        said = self.said()
        newcomer, its = self.speaker(port=6)
        ended = self.factory.refusals.ended
        self.assertEqual((transport.aborted, its.aborted, ended), (True, False, {"lost_place": 1}))
        first.connectionLost()
        self.assertEqual(self.service.events.count(("disconnected", "127.0.0.1:1")), 1)
        self.connect(port=7)
        self.assertEqual((ended, [each["peer"] for each in said]), ({"lost_place": 2}, ["127.0.0.1:1"]))
        self.assertEqual([c.opaque for c in frames_of(its.value())], [1])
        self.assertFalse(newcomer.closed)

    def test_many_that_say_nothing_have_less_time(self) -> None:
        """While half of the places are theirs."""
        silent = [self.connect(port=port)[1] for port in range(3)]
        self.advance(2)
        self.assertFalse(any(transport.disconnecting for transport in silent))
        self.advance(1)
        self.assertTrue(all(transport.disconnecting for transport in silent))

    def test_who_spoke_makes_no_crowd(self) -> None:
        """The others have their ten seconds."""
        for port in range(3):
            self.speaker(port=port)
        _, silent = self.connect(port=4)
        self.advance(10)
        self.assertFalse(silent.disconnecting)

    def test_who_connects_out_waits_for_nobody(self) -> None:
        """A client's connections are its own affair: no places, no deadline for the other end's first word."""
        self.factory.server = False
        transports = [self.connect(port=port)[1] for port in range(8)]
        self.advance(20)
        self.assertFalse(any(transport.disconnecting or transport.aborted for transport in transports))

    def test_a_frame_that_became_whole(self) -> None:
        """What was held of a frame is given back when the rest comes, and its deadline is over."""
        protocol, transport = self.connect()
        data = encode(Command(105, body=b"x" * 500))
        protocol.dataReceived(data[:400])
        self.assertEqual(self.factory.unfinished, 400)
        protocol.dataReceived(data[400:])
        self.assertEqual(self.factory.unfinished, 0)
        self.assertIsNone(protocol.overdue(self.factory.tick + 31))
        self.assertEqual(len(frames_of(transport.value())), 1)

    def test_unfinished_frames_of_all_connections(self) -> None:
        """The bytes held in unfinished frames are bounded over the whole port; a closed connection gives its part
        back.
        """
        data = frame(1, 1, b"x" * 5000)
        first, first_transport = self.connect(port=1)
        first.dataReceived(data[:600])
        second, second_transport = self.connect(port=2)
        second.dataReceived(data[:300])
        second.dataReceived(data[300:700])
        self.assertTrue(second_transport.disconnecting)
        self.assertFalse(first_transport.disconnecting)
        second.connectionLost()
        self.assertEqual(self.factory.unfinished, 600)
        first.connectionLost()
        self.assertEqual(self.factory.unfinished, 0)

    def test_a_peer_that_never_takes_its_last_bytes_is_cut(self) -> None:
        """close() waits for the answers to leave, but not for ever."""
        protocol, transport = self.connect()
        protocol.close()
        self.assertFalse(transport.aborted)
        self.advance(6)
        self.assertTrue(transport.aborted)

    def test_requests_to_such_a_peer(self) -> None:
        """Nobody waits for answers that would not be read: neither for the peer nor until their time is over."""
        protocol, _ = self.connect()
        results = [protocol.request(40, timeout_s=60.0) for _ in range(2)]
        protocol.close()
        self.assertEqual([result.called for result in results], [False, False])  # its caller closes others, too
        self.clock.advance(0)
        for result in results:
            self.failureResultOf(result, error.ConnectionDone)
        protocol.connectionLost()
        self.factory.doStop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_it_is_cut_also_when_all_is_closed(self) -> None:
        """A client or a service that ends leaves nothing behind: no connection, and no timer after the last one."""
        for end in ((self.factory.close_all, self.factory.doStop), (self.factory.doStop, self.factory.close_all)):
            self.ended(*end)

    def ended(self, *end: Callable[[], None]) -> None:
        one, two = self.connect(port=1), self.connect(port=2)
        for each in end:
            each()
        one[0].connectionLost()
        self.advance(4)
        self.assertEqual([transport.aborted for _, transport in (one, two)], [False, False])
        self.advance(2)
        self.assertEqual([transport.aborted for _, transport in (one, two)], [False, True])
        two[0].connectionLost()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.factory.doStart()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)


class LongHeaderTests(RemotingCase):
    """Requests whose header is over the limit: whoever sent one is told, and the connection stays."""

    def told(self, head: dict[str, Any], body: bytes = b"") -> list[tuple[int, int]]:
        protocol, transport = self.connect()
        protocol.dataReceived(json_frame(head, body) + frame(1, 99))
        self.assertFalse(protocol.closed)
        self.assertTrue(protocol.greeted)
        return [(answer.opaque, answer.code) for answer in frames_of(transport.value())]

    def test_a_message(self) -> None:
        """13, as for any properties over the limit; wherever the number stands, whatever the properties hold."""
        long = '{"opaque":8,[' * (HEADER_LIMIT // 10) + "\u0001\\"
        fields = {"a": "p", "i": long, "opaque": "6", "nested": {"opaque": 4}}
        for code in (10, 310, 320):
            head = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7, "version": 513}
            self.assertEqual(self.told(head, b"body"), [(7, 13), (99, 0)])
            self.assertEqual(self.told({key: head[key] for key in reversed(head)}), [(7, 13), (99, 0)])
        self.assertEqual([event for event in self.service.events if event[:2] == ("request", 310)], [])

    def test_other_requests(self) -> None:
        """1; and nothing to a oneway one."""
        fields = {"subscription": "t" * HEADER_LIMIT}
        self.assertEqual(self.told({"code": 11, "extFields": fields, "opaque": 7}), [(7, 1), (99, 0)])
        self.assertEqual(self.told({"code": 11, "extFields": fields, "opaque": 7, "flag": 2}), [(99, 0)])

    def test_the_binary_form(self) -> None:
        """The same of a packed header."""
        command = request(310, {"i": "x" * HEADER_LIMIT})
        command.opaque = 7
        protocol, transport = self.connect()
        protocol.dataReceived(encode(command, binary=True))
        self.assertEqual([(answer.opaque, answer.code) for answer in frames_of(transport.value())], [(7, 13)])

    def test_many_fields(self) -> None:
        """A header within the limit that would cost many times its bytes in memory."""
        fields = {str(number): "" for number in range(HEADER_FIELDS_MAX + 1)}
        self.assertEqual(self.told({"code": 310, "extFields": fields, "opaque": 7}), [(7, 13), (99, 0)])

    def test_what_can_not_be_answered(self) -> None:
        """No number, none that fits, or more in it than a glance shows: the connection ends."""
        long = "x" * HEADER_LIMIT
        for head in (
            {"code": 310, "remark": long},
            {"code": 310, "remark": long, "opaque": 1 << 31},
            {"code": 310, "extFields": {str(number): long[:100] for number in range(HEADER_LIMIT // 100)}, "opaque": 7},
        ):
            protocol, transport = self.connect()
            protocol.dataReceived(json_frame(head))
            self.assertEqual((protocol.closed, transport.value()), (True, b""))

    def test_headers_made_to_cost(self) -> None:
        """What is hard to look through is looked through once: 16 MiB of it take a fraction of a second."""
        size = FRAME_LIMIT - 100
        endless, blank = b'{"opaque":7,"a":"' + b'\\"' * (size // 2), b" " * size
        for text in (endless, b'"a"' + blank, b'"a":' + blank, b"[" * size):
            protocol, transport = self.connect()
            protocol.dataReceived(struct.pack(">ii", 4 + len(text), len(text)) + text)
            self.assertLessEqual(len(frames_of(transport.value())), 1)

    def test_an_answer_over_the_frame(self) -> None:
        """A table that has outgrown the frame is not sent: its reader would end the connection over it."""
        self.service.request = lambda connection, command: Answer(0, None, None, bytes(FRAME_LIMIT))  # type: ignore[method-assign]
        protocol, transport = self.connect()
        protocol.dataReceived(frame(21, 5))
        (answer,) = frames_of(transport.value())
        self.assertEqual((answer.opaque, answer.code, answer.body), (5, 1, b""))
        self.assertIn("ask for a part", answer.remark or "")


class LargeAnswerTests(RemotingCase):
    """One read of many requests for large answers."""

    def setUp(self) -> None:
        super().setUp()
        self.protocol, self.transport = self.connect()
        large = Answer(0, None, None, b"x" * 400_000)
        self.service.request = lambda connection, command: large  # type: ignore[method-assign]
        self.protocol.dataReceived(b"".join(frame(1, number) for number in range(10)))

    def opaques(self) -> list[int]:
        return [command.opaque for command in frames_of(self.transport.value())]

    def test_a_turn_makes_a_bounded_answer(self) -> None:
        """The first turn stops after about a MiB; reading stops with it, and goes on when all are answered."""
        self.assertEqual(self.opaques(), [0, 1, 2])
        self.assertEqual(self.transport.producerState, "paused")
        self.clock.advance(0)
        self.assertEqual(self.opaques(), list(range(10)))
        self.assertEqual([len(said) // 400_000 for said in self.transport.writes], [3, 3, 3, 1])
        self.assertEqual(self.transport.producerState, "producing")

    def test_the_rest_waits_for_a_slow_reader(self) -> None:
        """While the outbound buffer is over its mark nothing more is answered."""
        self.protocol.pauseProducing()
        self.clock.advance(1)
        self.assertEqual(self.opaques(), [0, 1, 2])
        self.protocol.resumeProducing()
        for _ in range(3):
            self.clock.advance(0)
        self.assertEqual(self.opaques(), list(range(10)))

    def test_gone_meanwhile(self) -> None:
        """What waits of a connection that is gone is forgotten."""
        self.protocol.connectionLost()
        self.clock.advance(1)
        self.assertEqual(self.opaques(), [0, 1, 2])


class RequestTests(RemotingCase):
    """Requests of ours to the peer."""

    def test_answer_by_opaque(self) -> None:
        """Answers are matched by opaque in any order."""
        protocol, transport = self.connect()
        one, two = protocol.request(40, {"x": "1"}), protocol.request(41)
        sent = frames_of(transport.value())
        self.assertEqual([(c.code, c.flag, c.fields) for c in sent], [(40, 0, {"x": "1"}), (41, 0, {})])
        protocol.dataReceived(frame(0, sent[1].opaque, b"two", flag=1) + frame(0, sent[0].opaque, b"one", flag=1))
        self.assertEqual(self.successResultOf(one).body, b"one")
        self.assertEqual(self.successResultOf(two).body, b"two")

    def test_timeout_and_late_answer(self) -> None:
        """No answer in time fails the request; the answer that comes later is dropped."""
        protocol, transport = self.connect()
        result = protocol.request(40, timeout_s=3.0)
        self.clock.advance(3)
        self.failureResultOf(result, error.TimeoutError)
        protocol.dataReceived(frame(0, frames_of(transport.value())[0].opaque, flag=1))

    def test_connection_lost_fails_all(self) -> None:
        """The end of the connection fails every request on it at once, and leaves no timer."""
        protocol, _ = self.connect()
        result = protocol.request(40)
        protocol.connectionLost()
        self.failureResultOf(result, error.ConnectionDone)
        self.failureResultOf(protocol.request(41), error.ConnectionDone)
        self.assertEqual(len([call for call in self.clock.getDelayedCalls() if call.time > 1]), 0)

    def test_cancelled(self) -> None:
        """It is forgotten, with its timer, and its answer is dropped; also within the end of the connection."""
        protocol, transport = self.connect()
        protocol.request(40, timeout_s=60.0).addErrback(lambda failure: failure.trap(defer.CancelledError)).cancel()
        self.assertEqual(protocol._pending, {})
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.time > 1], [])
        protocol.dataReceived(frame(0, frames_of(transport.value())[0].opaque, flag=1))
        one, two = protocol.request(41), protocol.request(42)
        one.addErrback(lambda _: two.cancel())
        protocol.connectionLost()
        self.failureResultOf(two, defer.CancelledError)

    def test_what_no_frame_holds(self) -> None:
        """It fails at once and is forgotten: nothing waits for it that the connection's end would find."""
        protocol, transport = self.connect()
        self.failureResultOf(protocol.request(103, None, bytes(FRAME_LIMIT)), RemoteProtocolError)
        self.failureResultOf(protocol.request(103, {"name": "\ud800"}), RemoteProtocolError)
        self.assertEqual((protocol._pending, transport.value()), ({}, b""))
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.time > 1], [])
        protocol.connectionLost()
        gc.collect()
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_an_answer_with_a_header_too_long(self) -> None:
        """Ends the connection, so that its requests fail as whoever asks expects it."""
        protocol, transport = self.connect()
        one, two = protocol.request(40), protocol.request(41)
        opaque = frames_of(transport.value())[0].opaque
        protocol.dataReceived(json_frame({"code": 0, "flag": 1, "opaque": opaque, "remark": "x" * HEADER_LIMIT}))
        self.clock.advance(0)
        self.failureResultOf(one, error.ConnectionDone)
        self.failureResultOf(two, error.ConnectionDone)
        self.assertTrue(protocol.closed)

    def test_notify_is_oneway(self) -> None:
        """notify() sends flag 2 and waits for nothing."""
        protocol, transport = self.connect()
        protocol.notify(40, {"consumerGroup": "g"})
        (sent,) = frames_of(transport.value())
        self.assertEqual((sent.code, sent.flag, sent.fields), (40, 2, {"consumerGroup": "g"}))


class _Socket(Connection):
    """A TCP transport without a reactor; it is its own socket."""

    connected, disconnecting = 1, False  # type: ignore[assignment]

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.dataBuffer = b""
        self._tempDataBuffer: list[bytes] = []
        self.sent: list[bytes] = []
        self.socket = self

    def send(self, data: bytes) -> int:
        if self.takes < 0:
            raise ConnectionResetError
        if not self.takes:
            raise BlockingIOError
        taken = data[: self.takes]
        self.sent.append(taken)
        self.takes -= len(taken)
        return len(taken)

    def write(self, data: bytes) -> None:
        self._tempDataBuffer.append(data)


class EagerWriteTests(SynchronousTestCase):
    """The shortcut past the reactor's next turn keeps the order of bytes."""

    def test_all_part_none_lost(self) -> None:
        """What the socket does not take is queued; what waits already goes first."""
        whole, part, lost = _Socket(100), _Socket(3), _Socket(-1)
        for transport in (whole, part, lost):
            eager_write(transport, b"abcdef")
        self.assertEqual((whole.sent, whole._tempDataBuffer), ([b"abcdef"], []))
        self.assertEqual((part.sent, part._tempDataBuffer), ([b"abc"], [b"def"]))
        self.assertEqual(lost._tempDataBuffer, [b"abcdef"])
        eager_write(part, b"ghi")
        self.assertEqual(part._tempDataBuffer, [b"def", b"ghi"])
        self.assertEqual(len(part.sent), 1)

    def test_nothing_passes_by_a_wrapper(self) -> None:
        """TLS among them: it answers for the attributes of the transport beneath, whose bytes are not ours to send."""
        beneath = _Socket(100)
        wrapped = ProtocolWrapper(WrappingFactory(Factory()), Protocol())
        wrapped.makeConnection(beneath)
        written: list[bytes] = []
        self.patch(wrapped, "write", written.append)
        self.assertFalse(eager_write(wrapped, b"secret"))
        eager_write_block(wrapped, b"a head", b"a body")
        self.assertEqual((written, beneath.sent), ([b"secret", b"a heada body"], []))

    def test_tls_that_began_later(self) -> None:
        """``startTLS``: the transport stays, what it is given it encrypts."""
        transport = _Socket(100)
        transport.TLS = True
        eager_write(transport, b"secret")
        self.assertEqual((transport.sent, transport._tempDataBuffer), ([], [b"secret"]))

    def test_a_large_answer(self) -> None:
        """A large answer goes out at once as far as the socket takes it; the rest follows in order."""
        data = bytes(range(256)) * 1536
        for takes, whole in ((len(data), True), (262_144, False), (1, False), (0, False)):
            with self.subTest(takes=takes):
                transport = _Socket(takes)
                self.assertEqual(eager_write(transport, data), whole)
                self.assertEqual(b"".join(transport.sent + transport._tempDataBuffer), data)
                self.assertEqual(len(b"".join(transport.sent)), takes)


class UnsentTests(RemotingCase):
    """A large answer is no reason to close, a client that never reads is."""

    limits = Limits(queued_bytes=100_000, queued_bytes_all=250_000)

    def ask_for(self, size: int, waiting: int, port: int = 1) -> tuple[RemotingProtocol, Transport]:
        protocol, transport = self.connect(port=port)
        transport.dataBuffer, transport.offset = b"", 0  # type: ignore[attr-defined]
        transport._tempDataBuffer, transport._tempDataLen = [b""], waiting  # type: ignore[attr-defined]
        transport.connected = True  # type: ignore[misc]
        protocol.dataReceived(frame(1, 1, b"x" * size))
        return protocol, transport

    def test_what_waits_decides(self) -> None:
        """Only bytes that wait in the transport count, not those of the answer at hand."""
        self.assertFalse(self.ask_for(500_000, 100_000)[1].aborted)
        self.assertTrue(self.ask_for(500_000, 100_001)[1].aborted)

    def test_all_together(self) -> None:
        """Many slow readers share a bound; who drained or went away gives its part back."""
        first, _ = self.ask_for(10, 90_000, 1)
        second, _ = self.ask_for(10, 90_000, 2)
        self.assertEqual(self.factory.unsent, 180_000)
        self.assertTrue(self.ask_for(10, 90_000, 3)[1].aborted)
        self.assertFalse(self.ask_for(10, 60_000, 4)[1].aborted)
        first.resumeProducing()
        second.connectionLost()
        self.assertEqual(self.factory.unsent, 150_000)

    def test_the_broker_leaves_room_for_its_largest_answers(self) -> None:
        """Several messages of 4 MiB wait for a slow reader without harm (4 MiB was the bound, and did not do)."""
        loaded = load_broker(b"", environment={}, host_name="h")
        room = views.limits(loaded.config.remoting).queued_bytes
        self.assertGreaterEqual(room, 8 * (loaded.config.store.max_message_size + (64 << 10)))


class IdlePlaceTests(RemotingCase):
    """All places are taken by connections that have spoken."""

    limits = Limits(connections=200)

    def setUp(self) -> None:
        super().setUp()
        self.holding: set[int] = set()
        admission = Admission(self.limits, lambda ids: self.holding)
        self.factory = RemotingFactory(self.service, self.clock, self.limits, parts=ServerParts(admission=admission))
        self.factory.doStart()
        self.addCleanup(self.factory.doStop)
        self.taken = [self.speak(port) for port in range(200)]

    def speak(self, port: int) -> tuple[RemotingProtocol, Transport]:
        protocol, transport = self.connect(port=port)
        protocol.dataReceived(frame(1))
        return protocol, transport

    def ended(self) -> list[int]:
        return [number for number, (_, transport) in enumerate(self.taken) if transport.aborted]

    def come(self, ports: Iterable[int]) -> None:
        """Others, each of whom gets in and is answered."""
        for port in ports:
            _, transport = self.speak(port)
            self.assertFalse(transport.aborted, port)
            self.assertEqual(len(frames_of(transport.value())), 1)

    def test_one_frame_each_keeps_nobody_out(self) -> None:
        """Half of them stay, since they came first; of the others the idle leave, then those that spoke only once."""
        self.come([1000])
        self.assertEqual(self.ended(), [100], "all spoke just now")
        self.advance(1)
        for protocol, _ in self.taken[101:121]:
            protocol.dataReceived(frame(1))
        self.holding = {protocol.id for protocol, _ in self.taken[121:141]}
        self.advance(IDLE_PLACE_S - 1)
        self.come(range(2000, 2060))
        self.assertEqual(self.ended(), [100, *range(141, 200)])
        self.come(range(3000, 3002))
        self.assertEqual(self.ended(), [100, 121, 122, *range(141, 200)])
        self.assertEqual(self.factory.refusals.ended, {"lost_place": 63})

    def test_what_is_under_way(self) -> None:
        """Who waits for our answer, or is waited for, is not idle: a request of ours, and a part of a frame."""
        self.taken[100][0].request(1, timeout_s=100).addErrback(lambda _: None)
        self.taken[101][0].dataReceived(frame(1)[:5])
        self.advance(IDLE_PLACE_S)
        self.come(range(1000, 1098))
        self.assertEqual(self.ended(), list(range(102, 200)))

    def test_who_spoke_meanwhile(self) -> None:
        """Idle when it was looked up, once a second, and not when its turn comes."""
        self.advance(IDLE_PLACE_S)
        _, once = self.speak(1000)
        for protocol, _ in self.taken[101:]:
            protocol.dataReceived(frame(1))
        self.come([1001])
        self.assertEqual((self.ended(), once.aborted), ([100], True))

    def test_who_is_not_read_now(self) -> None:
        """It asks and does not take its answers: looking for one that must leave reads no more of its requests."""
        heard: list[Transport] = []
        self.patch(remoting, "eager_read", heard.append)
        deaf, transport = self.taken[100]
        deaf.pauseProducing()
        self.come([1000])
        self.assertEqual((self.ended(), heard), ([100], []))
        self.come([1001])
        self.assertEqual((self.ended(), heard), ([100, 101], [self.taken[101][1]]))
        self.assertTrue(transport.aborted)


class LongTurnTests(RemotingCase):
    """Reads full of requests that take long."""

    def setUp(self) -> None:
        super().setUp()
        self.took: list[tuple[int, int]] = []
        take = self.service.request

        def request(connection: RemotingProtocol, command: Command) -> Answer | None:
            self.took.append((connection.peer_port, command.opaque))
            self.clock.rightNow += 0.4 * TURN_S if command.code == 1 else 0
            return take(connection, command)

        self.service.request = request  # type: ignore[method-assign]

    def test_others_are_read_in_between(self) -> None:
        """What a turn left is answered later, in order, a few requests of each connection at a time."""
        rounds: list[Callable[[], None]] = []  # of the reactor
        self.patch(self.clock, "callLater", lambda _, call: rounds.append(call))
        first, its = self.connect(port=1)
        second, _ = self.connect(port=2)
        first.dataReceived(b"".join(frame(1, number) for number in range(7)))
        self.assertEqual(len(self.took), 3)
        self.assertEqual(len(frames_of(its.value())), 3, "they have their answers at the end of the turn")
        second.dataReceived(b"".join(frame(1, number) for number in range(4)))
        first.dataReceived(frame(1, 7))
        rounds.pop(0)()
        self.assertEqual([port for port, _ in self.took], [1, 1, 1, 2, 2, 2, 1, 1, 1], "then others are read again")
        while rounds:
            rounds.pop(0)()
        self.assertEqual([number for port, number in self.took if port == 1], list(range(8)))
        self.assertEqual([number for port, number in self.took if port == 2], list(range(4)))
        self.assertEqual([port for port, _ in self.took], [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 1, 1])
        self.assertEqual([each.opaque for each in frames_of(its.value())], list(range(8)))

    def test_a_batch_that_is_quick(self) -> None:
        """Is one turn, however many requests it has."""
        turns: list[None] = []
        self.service.turn_ended = lambda: turns.append(None)  # type: ignore[method-assign]
        self.connect(port=1)[0].dataReceived(b"".join(frame(2, number) for number in range(1000)))
        self.assertEqual((len(self.took), len(turns)), (1000, 1))

    def test_one_request_that_takes_long(self) -> None:
        """Is answered in its turn, and the connection goes on being read."""
        protocol, transport = self.connect(port=1)
        for number in range(3):
            self.clock.rightNow += 1
            protocol.dataReceived(frame(1, number))
        self.assertEqual(len(frames_of(transport.value())), 3)


class Deaf(Transport):
    """Of a peer that reads nothing, or nothing until it is told to; the bytes themselves are not kept."""

    def __init__(self, port: int) -> None:
        super().__init__(port=port)
        self.dataBuffer, self.offset = b"", 0
        self._tempDataBuffer, self._tempDataLen = [b""], 0

    def write(self, data: bytes) -> None:
        before, self._tempDataLen = self._tempDataLen, self._tempDataLen + len(data)
        if before <= 65536 < self._tempDataLen:
            self.producer.pauseProducing()

    def read_all(self) -> int:
        """What the peer gets when it reads now."""
        taken, self._tempDataLen = self._tempDataLen, 0
        if taken > 65536:
            self.producer.resumeProducing()
        return taken


class ManyDeafTests(RemotingCase):
    """Two hundred connections ask for what they never read."""

    ANSWER = Answer(0, None, None, b"x" * 262_144)

    def setUp(self) -> None:
        super().setUp()
        self.service.request = lambda connection, command: self.ANSWER  # type: ignore[method-assign]

    def ask(self, port: int, requests: int) -> tuple[RemotingProtocol, Deaf]:
        protocol, transport = self.factory.buildProtocol(None), Deaf(port)
        protocol.makeConnection(transport)
        protocol.dataReceived(b"".join(frame(1, number) for number in range(requests)))
        return protocol, transport

    def test_they_cost_little(self) -> None:
        """About one answer each; nobody is ended, and who reads is served to the last byte."""
        deaf = [self.ask(port, 16) for port in range(200)]
        self.advance(3)
        waiting = sum(transport._tempDataLen for _, transport in deaf)
        self.assertLess(waiting, 80 << 20)
        self.assertEqual(waiting, self.factory.unsent)
        self.assertFalse(any(transport.aborted for _, transport in deaf))
        _, transport = self.ask(1000, 16)
        read = 0
        for _ in range(17):
            read += transport.read_all()
            self.clock.advance(0)
        self.assertGreater(read, 16 * 262_144)

    def test_who_asks_little_does_not_wait(self) -> None:
        """What turns left of 200 connections is answered a little in each turn of the reactor, each in its turn."""
        turn: list[Callable[[], None]] = []
        self.patch(self.clock, "callLater", lambda delay, call: turn.append(call))
        readers = [self.ask(port, 8) for port in range(200)]
        read, turns = 0, 0
        while turn:
            turns += 1
            due, turn[:] = list(turn), []
            self.assertEqual(len(due), 1)
            before = self.factory.bytes_out
            due[0]()
            self.assertLess(self.factory.bytes_out - before, 2 * TURN_BYTES_MAX)
            read += sum(transport.read_all() for _, transport in readers)
        self.assertGreater(turns, 200)
        self.assertGreater(read, 200 * 8 * 262_144)
        self.assertFalse(any(protocol._backlog for protocol, _ in readers))

    def test_what_is_made_later(self) -> None:
        """Answers of held pulls and cold reads wait, too, while much is unsent, but not those of who reads."""
        protocol, transport = self.ask(1, 1)
        self.assertTrue(protocol.has_room(1 << 20))
        deaf = [self.ask(port, 16) for port in range(2, 100)]
        self.assertFalse(protocol.has_room(1 << 20))
        transport.read_all()
        self.assertTrue(protocol.has_room(1 << 20))
        for each, _ in deaf:
            each.connectionLost()
        self.assertEqual(self.factory.unsent, 0)
        protocol.dataReceived(frame(1))
        self.assertTrue(protocol.has_room(1 << 20))

    def test_a_little_that_waited(self) -> None:
        """Is counted no longer than it waits: the transport tells of the end only where it was over its mark."""
        protocol, _ = self.ask(1, 0)
        self.service.request = lambda connection, command: Answer(0)  # type: ignore[method-assign]
        protocol.dataReceived(frame(1))
        self.assertGreater(self.factory.unsent, 0)
        self.patch(remoting, "eager_write", lambda transport, data: True)
        protocol.dataReceived(frame(1))
        self.assertEqual(self.factory.unsent, 0)


ELSEWHERE = frozenset(
    (
        Ended.EXPIRED,
        Ended.NOT_ALLOWED,
        Ended.NOT_SERVED,
        Ended.OLD_EPOCH,
        Ended.LOGS_DIFFER,
        Ended.VERSION,
        Ended.OTHER_GROUP,
        Ended.OTHER_MEMBER,
        Ended.UNKNOWN_MEMBER,
        Ended.OWN_ID,
        Ended.SHARED_ID,
        Ended.WRONG_ADDRESS,
        Ended.WRONG_SECRET,
        Ended.WRONG_IDENTITY,
        Ended.PROXY_HEADER,
        Ended.NO_TLS,
        Ended.TLS_NEEDED,
        Ended.TLS_FAILED,
    )
)
"""See test_ha_limits, test_raft_protocol, test_proxy_port and tls/test_network."""


class EndedTests(RemotingCase):
    """Whyever a connection is ended, metric and log say so, once, with its address."""

    limits = Limits(
        connections=4,
        connections_per_address=1,
        first_frame_s=10,
        whole_frame_s=30,
        idle_s=120,
        unfinished_bytes=1000,
        queued_bytes=100_000,
    )

    def speak(self, host: str) -> tuple[RemotingProtocol, Transport]:
        protocol, transport = self.connect(host)
        protocol.dataReceived(frame(1))
        return protocol, transport

    def bad_frame(self) -> None:
        self.connect("10.0.0.1")[0].dataReceived(b"\xff" * 8)

    def no_request(self) -> None:
        self.connect("10.0.0.1")
        self.advance(11)

    def slow_frame(self) -> None:
        protocol, _ = self.speak("10.0.0.1")
        for byte in frame(1)[:40]:
            self.advance(1)
            protocol.dataReceived(bytes([byte]))

    def idle(self) -> None:
        self.speak("10.0.0.1")
        self.advance(122)

    def unfinished_frames(self) -> None:
        protocol, _ = self.speak("10.0.0.1")
        data = frame(1, 1, b"x" * 5000)
        protocol.dataReceived(data[:600])
        protocol.dataReceived(data[600:1200])

    def unread_answers(self) -> None:
        protocol, transport = self.connect("10.0.0.1")
        transport.dataBuffer, transport.offset = b"", 0  # type: ignore[attr-defined]
        transport._tempDataBuffer, transport._tempDataLen = [b""], 100_001  # type: ignore[attr-defined]
        transport.connected = True  # type: ignore[misc]
        protocol.dataReceived(frame(1, 1, b"x" * 500))

    def no_place(self) -> None:
        self.speak("10.0.0.1")
        self.connect("10.0.0.1")

    def lost_place(self) -> None:
        self.connect("10.0.0.1")
        self.connect("10.0.0.1")

    def test_each_cause(self) -> None:
        """All but those of services, and of links between servers, which have ports of their own."""
        for cause in Ended:
            if cause in ELSEWHERE:
                continue
            with self.subTest(cause=cause.value):
                self.setUp()
                said = self.said()
                getattr(self, cause.value)()
                self.advance(1)
                self.assertEqual(self.factory.refusals.ended, {cause.value: 1})
                (line,) = said
                self.assertEqual((line["event"], line["reason"]), ("connection.ended", cause.value))
                self.assertEqual((line["peer"], line["role"]), ("10.0.0.1:40000", "server"))

    def test_who_is_ended_with_the_service_was_not_refused(self) -> None:
        """Nor one that the other end closed."""
        self.speak("10.0.0.1")
        self.speak("10.0.0.2")[0].connectionLost()
        self.factory.close_all()
        self.assertEqual(self.factory.refusals.ended, {})
