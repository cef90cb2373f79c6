"""Who leaves a broker whose places are all taken, and who comes in although they are."""

from __future__ import annotations

from typing import Any

from rocketha.broker.forward_rules import MARK
from rocketha.protocols.admission import IDLE_PLACE_S
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from tests.services.broker_case import BrokerCase, Client, heartbeat, pull_fields, send_fields

OFFSET = {"topic": "T", "queueId": "0"}


class PlacesCase(BrokerCase):
    """A broker with four places, and four in reserve."""

    config = "connectionsMax=4\n"

    def setUp(self) -> None:
        super().setUp()
        for factory in self.broker.core.factories:  # which a memory reactor does not do
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
            stranger.ask(RequestCode.GET_MIN_OFFSET, OFFSET)
        self.advance(IDLE_PLACE_S + 1)
        newcomers, codes = [], []
        for fast in (False, True, False):
            newcomers.append(self.connect(fast=fast))
            codes.append(newcomers[-1].ask(RequestCode.GET_MIN_OFFSET, OFFSET).code)
        self.assertEqual(codes, [0, 0, 0])
        closed = [each.protocol.closed for each in (member, waiting, first, second, *newcomers)]
        self.assertEqual(closed, [False, False, True, True, True, False, False])
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
            self.crowd(5)
        self.crowd(20)
        self.assertFalse(any(each.protocol.closed for each in (*self.clients[:2], *came)))
        self.assertEqual(came[-1].ask(RequestCode.GET_MIN_OFFSET, OFFSET).code, 0, "it may ask anything then")

    def crowd(self, count: int) -> None:
        """So many more clients, that ask once."""
        for _ in range(count):
            self.connect().ask(RequestCode.GET_MIN_OFFSET, OFFSET)

    def test_more_clients(self) -> None:
        """They are served, and those of the others leave that did not come first."""
        late = self.connect()
        self.assertEqual(late.ask(RequestCode.SEND_MESSAGE_V2, send_fields(), b"x").code, 0)
        self.assertEqual(late.ask(RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T")).code, 0)
        self.crowd(20)
        self.assertEqual([each.protocol.closed for each in self.clients], [False, False, True, True])
        self.assertTrue(late.protocol.closed)
        self.assertEqual(self.service.refusals.ended, {"lost_place": 21})

    def test_a_flood_of_clients(self) -> None:
        """However many come and ask: an operator is served, whenever he comes, and stays."""
        operators = []
        for _ in range(4):
            self.crowd(50)
            operators.append(self.connect())
            self.assertEqual(operators[-1].ask(PrivateCode.CLIENTS).code, 0)
        self.crowd(50)
        self.assertFalse(any(each.protocol.closed for each in (*self.clients[:2], *operators)))
