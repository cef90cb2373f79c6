"""Who leaves a broker whose places are all taken: nobody who is there for something."""

from __future__ import annotations

from rocketha.protocols.remoting import IDLE_PLACE_S
from rocketha.wire.codes import RequestCode
from tests.services.broker_case import BrokerCase, heartbeat, pull_fields


class PlaceTests(BrokerCase):
    """A broker with four places."""

    config = "connectionsMax=4\n"

    def test_one_frame_each_keeps_nobody_out(self) -> None:
        """A client with a heartbeat stays, and one whose pull waits; only those that asked once make room."""
        member, waiting, first, second = (self.connect() for _ in range(4))
        self.send(member)
        member.ask(RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        waiting.say(waiting.command(RequestCode.PULL_MESSAGE, pull_fields(offset="1", sysFlag="6")))  # type: ignore[arg-type]
        for stranger in (first, second):
            stranger.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        factory = self.broker.factories[0]
        factory.doStart()  # which a memory reactor does not do
        self.addCleanup(factory.doStop)
        self.advance(IDLE_PLACE_S + 1)
        newcomers = []
        for _ in range(3):
            newcomers.append(self.connect())
            if not newcomers[-1].protocol.closed:
                newcomers[-1].ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        closed = [each.protocol.closed for each in (member, waiting, first, second, *newcomers)]
        self.assertEqual(closed, [False, False, True, True, False, False, True])
        self.send(member)
        self.assertEqual([answer.code for answer in waiting.heard()], [0])
