"""A plug-in as producer and consumer: the same rules as for clients."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer

from rocketha.interfaces import FeatureParts, Message, Placed, Pulled, Refused
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import pull_fields, records
from tests.services.features.cases import Feature, PluginCase


class MessagesTests(PluginCase):
    """Within one master."""

    def plugins(self) -> list[Feature]:
        return [Feature(lambda context: FeatureParts())]

    def messages(self) -> Any:
        return self.context().messages

    def put(self, body: bytes = b"body", topic: str = "T", **more: Any) -> Placed:
        """Stored; the answer comes with the next turn of the reactor."""
        putting = self.messages().put(topic, body, **more)
        self.clock.advance(0)
        placed: Placed = self.successResultOf(putting)
        return placed

    def pull(self, offset: int = 0, **more: Any) -> Pulled:
        pulling = self.messages().pull("T", 0, offset, **more)
        self.clock.advance(0)
        pulled: Pulled = self.successResultOf(pulling)
        return pulled

    def test_what_is_put_is_a_message_like_others(self) -> None:
        """A client pulls it, with its properties; its topic was made by use."""
        placed = self.put(properties={"TAGS": "a", "colour": "red"}, queue_id=0)
        self.assertEqual((placed.queue_id, placed.offset, placed.status), (0, 0, 0))
        (found,) = records(self.connect().ask(RequestCode.PULL_MESSAGE, pull_fields()))
        self.assertEqual(found.body, b"body")
        self.assertIn(b"colour\x01red", found.properties)
        self.assertIn(b"TAGS\x01a", found.properties)

    def test_the_broker_chooses_a_queue(self) -> None:
        self.assertEqual({self.put().queue_id for _ in range(40)}, {0, 1, 2, 3})

    def test_what_clients_send_is_pulled(self) -> None:
        self.send(self.connect(), b"from a client", properties="UNIQ_KEY\x01" + "B" * 32 + "\x02TAGS\x01x\x02")
        pulled = self.pull()
        (message,) = pulled.messages
        self.assertEqual((message.topic, message.queue_id, message.offset), ("T", 0, 0))
        self.assertEqual((message.body, message.properties["TAGS"]), (b"from a client", "x"))
        self.assertEqual((pulled.next_offset, pulled.min_offset, pulled.max_offset), (1, 0, 1))
        self.assertEqual(self.pull(1).messages, [])

    def test_a_pull_waits(self) -> None:
        self.put(queue_id=0)
        waiting = self.messages().pull("T", 0, 1, wait_s=10.0)
        self.clock.advance(0)
        self.assertNoResult(waiting)
        self.put(b"second", queue_id=0)
        self.clock.advance(0)
        self.assertEqual([each.body for each in self.successResultOf(waiting).messages], [b"second"])

    def test_a_pull_waits_no_longer(self) -> None:
        self.put(queue_id=0)
        waiting = self.messages().pull("T", 0, 1, wait_s=2.0)
        self.advance(2.5)
        self.assertEqual(self.successResultOf(waiting).messages, [])

    def test_refusals(self) -> None:
        """With the broker's own code and reason."""
        for topic, body, properties, code in (
            ("bad topic!", b"x", None, ResponseCode.INVALID_PARAMETER),
            ("SCHEDULE_TOPIC_XXXX", b"x", None, ResponseCode.NO_PERMISSION),
            ("T", b"", None, ResponseCode.SYSTEM_ERROR),
            ("T", b"x", {"a\x01": "b"}, ResponseCode.MESSAGE_ILLEGAL),
            ("T", b"x", {"a": ""}, ResponseCode.MESSAGE_ILLEGAL),
        ):
            putting = self.messages().put(topic, body, properties)
            self.clock.advance(0)
            self.assertEqual(self.failureResultOf(putting, Refused).value.code, code)
        pulling = self.messages().pull("nowhere", 0, 0)
        self.clock.advance(0)
        self.assertEqual(self.failureResultOf(pulling, Refused).value.code, ResponseCode.TOPIC_NOT_EXIST)

    def test_one_answer_leads_to_the_next_request(self) -> None:
        """Of a chain each is stored: no request is staged in the middle of a commit and forgotten."""
        placed: list[int] = []

        def again(found: Placed) -> Any:
            placed.append(found.offset)
            if len(placed) < 5:
                return self.messages().put("T", b"again", queue_id=0).addCallback(again)
            return None

        self.messages().put("T", b"first", queue_id=0).addCallback(again)
        self.advance(0.1, 0.01)
        self.assertEqual(placed, [0, 1, 2, 3, 4])

    def test_follow_from_the_end(self) -> None:
        self.put(b"old", queue_id=0)
        seen: list[bytes] = []
        following = self.messages().follow("T", lambda message: seen.append(message.body))
        self.advance(0.5)
        client = self.connect()
        for number in range(3):
            self.send(client, b"%d" % number, queue_id=number)
        self.advance(0.5)
        self.assertEqual(sorted(seen), [b"0", b"1", b"2"])
        following.stop()
        self.send(client, b"late")
        self.advance(0.5)
        self.assertEqual(len(seen), 3)

    def test_follow_from_the_beginning(self) -> None:
        for number in range(70):
            self.put(b"%d" % number, queue_id=0)
        seen: list[bytes] = []
        self.messages().follow("T", lambda message: seen.append(message.body), from_begin=True)
        self.advance(0.5)
        self.assertEqual(seen, [b"%d" % number for number in range(70)])

    def test_follow_what_is_not_there_yet(self) -> None:
        """From the first message on."""
        seen: list[bytes] = []
        self.messages().follow("T", lambda message: seen.append(message.body))
        self.advance(0.5)
        self.put(b"first", queue_id=0)
        self.advance(1.5)
        self.assertEqual(seen, [b"first"])

    def test_born_at_the_time_of_day(self) -> None:
        self.put(queue_id=0)
        (message,) = self.pull().messages
        self.assertEqual(message.born_ms, message.stored_ms)

    def test_what_a_body_is_compressed_with(self) -> None:
        """As the client's flags say; clients that only know zlib say nothing."""
        client, flags = self.connect(), {"": 0, "zlib": 1, "lz4": 0x101, "zstd": 0x201, "unknown": 0x701}
        for flag in (*flags.values(), 0x301, 0x300):
            self.assertEqual(self.send(client, f=str(flag)).code, 0)
        self.assertEqual([each.compression for each in self.pull().messages], [*flags, "zlib", ""])

    def test_follow_does_not_spin(self) -> None:
        """More follow than pulls may wait: those that may not ask once a second."""
        self.put(queue_id=0)
        held = self.broker.reading.held
        self.patch(type(held), "_has_place", lambda held, number: False)
        asked: list[int] = []
        request = self.messages()._request
        self.patch(self.messages(), "_request", lambda *given: asked.append(1) or request(*given))
        self.messages().follow("T", lambda message: None)
        self.advance(5.0, 0.05)
        self.assertLess(len(asked), 4 * 8)

    def test_follow_waits_for_who_receives(self) -> None:
        gates: list[defer.Deferred[None]] = []

        def receive(message: Message) -> defer.Deferred[None]:
            gates.append(defer.Deferred())
            return gates[-1]

        for _ in range(3):
            self.put(queue_id=0)
        self.messages().follow("T", receive, from_begin=True)
        self.advance(0.5)
        self.assertEqual(len(gates), 1)
        gates[0].callback(None)
        self.assertEqual(len(gates), 2)
        gates[1].errback(ZeroDivisionError("the next one follows"))
        self.assertEqual(len(gates), 3)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_after_the_broker_nothing_waits(self) -> None:
        self.put(queue_id=0)
        messages = self.messages()
        waiting = messages.pull("T", 0, 1, wait_s=10.0)
        seen: list[bytes] = []
        messages.follow("T", lambda message: seen.append(message.body))
        self.advance(0.2)
        self.stop()
        self.failureResultOf(waiting, Refused)
        self.failureResultOf(messages.put("T", b"x"), Refused)
