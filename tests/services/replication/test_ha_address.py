"""Asking a master where its HA port is."""

from __future__ import annotations

from typing import Any

from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.endpoints import Dialer
from rocketha.services.replication.ha_address import HaAddress
from rocketha.wire.codes import ResponseCode
from rocketha.wire.framing import FRAME_LIMIT, FrameBuffer
from rocketha.wire.remoting import HEADER_LIMIT, Answer, Command, decode, encode, encode_answer

MASTER = "127.0.0.1:10911"
FIELDS = {"masterHaAddress": "127.0.0.1:10912"}


class HaAddressTests(SynchronousTestCase):
    """On a fake transport."""

    def setUp(self) -> None:
        self.clock, self.transport = MemoryReactorClock(), StringTransport()
        self.found: list[tuple[str, int, bool]] = []
        self.asker = HaAddress(Dialer(self.clock), lambda *found: self.found.append(found))
        self.addCleanup(self.asker.close)
        self.warned: list[Any] = []
        globalLogPublisher.addObserver(self.warned.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.warned.append)
        self.asker.find(MASTER, 3)
        self.connection = self.clock.tcpClients.pop()[2].buildProtocol(None)
        self.connection.makeConnection(self.transport)

    def answer(self, answer: Answer) -> None:
        """To the one question."""
        (frame,) = FrameBuffer(FRAME_LIMIT).feed(self.transport.value())
        self.transport.clear()
        self.connection.dataReceived(encode_answer(decode(frame, HEADER_LIMIT).opaque, answer))

    def reasons(self) -> list[str]:
        return [each["why"] for each in self.warned if "why" in each]

    def test_found(self) -> None:
        self.answer(Answer(fields=FIELDS))
        self.assertEqual(self.found, [("127.0.0.1:10912", 3, True)])

    def test_javas_may_show_an_older_epoch(self) -> None:
        (frame,) = FrameBuffer(FRAME_LIMIT).feed(self.transport.value())
        opaque = decode(frame, HEADER_LIMIT).opaque
        self.connection.dataReceived(encode(Command(0, "JAVA", opaque=opaque, flag=1, fields=FIELDS)))
        self.assertEqual(self.found, [("127.0.0.1:10912", 3, False)])

    def test_who_may_not_ask_is_told_why(self) -> None:
        """Once for each reason, and asked again."""
        for why in ("username cannot be null.", "username cannot be null.", "check signature failed."):
            self.answer(Answer(ResponseCode.NO_PERMISSION, why))
            self.clock.advance(1)
        self.assertEqual(self.reasons(), ["username cannot be null.", "check signature failed."])
        self.answer(Answer(fields=FIELDS))
        self.assertEqual(self.found, [("127.0.0.1:10912", 3, True)])

    def test_no_master_yet(self) -> None:
        """That is no reason to say anything."""
        self.answer(Answer(ResponseCode.SYSTEM_ERROR, "not yet"))
        self.clock.advance(1)
        self.answer(Answer(fields=FIELDS))
        self.assertEqual((self.reasons(), len(self.found)), ([], 1))
