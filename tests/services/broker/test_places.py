"""Who leaves a broker whose places are all taken, and who comes in although they are."""

from __future__ import annotations

from typing import Any

from rocketha.broker.forward_rules import MARK
from rocketha.controller.codes import PrivateCode
from rocketha.protocols.admission import IDLE_PLACE_S
from rocketha.protocols.remoting import TRIAL_S
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import BrokerCase, Client, heartbeat, pull_fields, send_fields

OFFSET = {"topic": "T", "queueId": "0"}


class PlacesCase(BrokerCase):
    """A broker with four places, and four in reserve."""

    config = "connectionsMax=4\n"

    def setUp(self) -> None:
        super().setUp()
        for factory in self.broker.factories:  # which a memory reactor does not do
            factory.doStart()
            self.addCleanup(factory.doStop)

    def hold_a_pull(self, client: Client) -> None:
        """Wait for a message that does not come."""
        client.say(client.command(RequestCode.PULL_MESSAGE, self.pull))

    pull: Any = pull_fields(offset="1", sysFlag="6")  # type: ignore[arg-type]


class IdleTests(PlacesCase):
    """Who is there for nothing makes room."""

    def test_one_frame_each_keeps_nobody_out(self) -> None:
        """A client with a heartbeat stays, and one whose pull waits; only those that asked once make room."""
        member, waiting, first, second = (self.connect() for _ in range(4))
        self.send(member)
        member.ask(RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        self.hold_a_pull(waiting)
        for stranger in (first, second):
            stranger.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        self.advance(IDLE_PLACE_S + 1)
        newcomers, codes = [], []
        for fast in (False, True, False):
            newcomers.append(self.connect(fast=fast))
            codes.append(newcomers[-1].ask(RequestCode.GET_MIN_OFFSET, OFFSET).code)
        self.assertEqual(codes, [0, 0, ResponseCode.SYSTEM_BUSY])
        self.advance(TRIAL_S + 2)
        closed = [each.protocol.closed for each in (member, waiting, first, second, *newcomers)]
        self.assertEqual(closed, [False, False, True, True, False, False, True])
        self.send(member)
        self.assertEqual([answer.code for answer in waiting.heard()], [0])


class ReserveTests(PlacesCase):
    """All places are taken by clients that wait for messages, on both ports."""

    def setUp(self) -> None:
        super().setUp()
        self.clients = [self.connect() for _ in range(4)]
        self.send(self.clients[0])
        for client in self.clients:
            self.hold_a_pull(client)
        self.advance(IDLE_PLACE_S + 1)

    def test_who_comes_in(self) -> None:
        """A replica, a broker that passes a send on, a controller and an operator, by their first requests."""
        requests: tuple[tuple[int, dict[str, str], bytes], ...] = (
            (RequestCode.GET_ALL_TOPIC_CONFIG, {}, b""),
            (RequestCode.SEND_MESSAGE_V2, send_fields(**{MARK: "b"}), b"x"),
            (RequestCode.GET_BROKER_HA_STATUS, {}, b""),
            (PrivateCode.CLIENTS, {}, b""),
        )
        came = []
        for number, (code, fields, body) in enumerate(requests):
            came.append(self.connect(fast=number % 2 == 1))
            self.assertNotEqual(came[-1].ask(code, fields, body).code, ResponseCode.SYSTEM_BUSY, code)
        self.advance(TRIAL_S + 2)
        self.assertFalse(any(each.protocol.closed for each in (*self.clients, *came)))
        self.assertEqual(came[-1].ask(RequestCode.GET_MIN_OFFSET, OFFSET).code, 0, "it may ask anything then")
        self.assertEqual(self.broker.refusals.ended, {})

    def test_who_does_not(self) -> None:
        """More clients: nothing of theirs is stored or held, they have their answer, and go."""
        end = self.broker.store.max_physical_offset
        late = self.connect()
        self.assertEqual(late.ask(RequestCode.SEND_MESSAGE_V2, send_fields(), b"x").code, ResponseCode.SYSTEM_BUSY)
        self.assertEqual(late.ask(RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T")).code, ResponseCode.SYSTEM_BUSY)
        self.assertEqual(late.ask(RequestCode.PULL_MESSAGE, self.pull).code, ResponseCode.SYSTEM_BUSY)
        self.assertEqual((self.broker.store.max_physical_offset, self.broker.state.clients.client_id(5)), (end, None))
        self.advance(TRIAL_S + 2)
        self.assertTrue(late.protocol.closed)
        self.assertEqual(self.broker.refusals.ended, {"no_place": 1})
        self.assertEqual(self.broker.refusals.requests[("HEART_BEAT", "SYSTEM_BUSY")], 1)

    def test_a_heartbeat_first(self) -> None:
        """A tool that is a producer, too: its heartbeat is refused, and what it came for is served."""
        tool = self.connect()
        said = tool.command(RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        tool.say(
            said, tool.command(RequestCode.GET_BROKER_RUNTIME_INFO), tool.command(RequestCode.GET_MIN_OFFSET, OFFSET)
        )
        self.assertEqual([answer.code for answer in tool.heard()], [ResponseCode.SYSTEM_BUSY, 0, 0])
        self.advance(TRIAL_S + 2)
        self.assertFalse(tool.protocol.closed)

    def test_a_flood_of_clients(self) -> None:
        """However many come and ask: an operator who asks at once comes in, whenever he comes."""
        for number in range(200):
            client = self.connect()
            client.ask(RequestCode.GET_MIN_OFFSET, OFFSET)
            if number % 50 == 49:
                operator = self.connect()
                self.assertEqual(operator.ask(PrivateCode.CLIENTS).code, 0)
                operator.protocol.connectionLost()
        self.assertFalse(any(each.protocol.closed for each in self.clients))
