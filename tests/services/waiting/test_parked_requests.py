"""Requests that come while the log is changed: bounded, in their order, and answered while their clients wait."""

from __future__ import annotations

from rocketha.broker.role import BUSY
from rocketha.services.waiting.parked_requests import PARKED_BYTES_MAX, PARKED_S
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import BrokerCase, Client, pull_fields, records, send_fields


class ParkedRequestsTests(BrokerCase):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.connect()
        self.assertEqual(self.send(self.client, b"first").code, 0)
        self.log_work = self.broker.core.works.log
        self.log_work.held = True  # type: ignore[attr-defined]
        self.broker.core.changes.run(lambda: None)
        self.assertTrue(self.broker.core.changes.busy)

    def over(self) -> None:
        """The change is made."""
        self.log_work.held = False  # type: ignore[attr-defined]
        self.log_work.let_go()  # type: ignore[attr-defined]
        self.assertFalse(self.broker.core.changes.busy)

    def say(self, client: Client, *bodies: bytes, oneway: bool = False) -> None:
        for body in bodies:
            client.say(client.command(RequestCode.SEND_MESSAGE_V2, send_fields(), body, oneway))

    def codes(self, client: Client) -> list[int]:
        return [each.code for each in client.heard()]

    def stored(self) -> list[bytes]:
        answer: Command = self.client.ask(RequestCode.PULL_MESSAGE, pull_fields())
        return [each.body for each in records(answer)]

    def nothing_left(self) -> None:
        requests = self.broker.dispatcher.parked
        self.assertEqual((len(requests), requests._budget.count, requests._budget.bytes), (0, 0, 0))
        self.assertIsNone(requests._timer)

    def test_kept_elsewhere_before(self) -> None:
        """What waited for a master, and is served here in the end, waits no longer because it has to wait again."""
        for until_s in (0.5, 100.0):
            kept = self.client.command(RequestCode.SEND_MESSAGE_V2, send_fields(), b"kept")
            self.broker.dispatcher.parked.resume(
                self.broker.dispatcher.request, self.client.protocol, kept, self.clock.seconds() + until_s
            )
            self.advance(0.4)
            self.assertEqual(self.codes(self.client), [])
            self.advance(min(until_s, PARKED_S) - 0.3)
            self.assertEqual(self.codes(self.client), [BUSY.code])
            self.nothing_left()
        self.over()
        self.assertEqual(self.stored(), [b"first"])

    def test_answered_in_their_order(self) -> None:
        """When it is over in time; of those who are gone nothing is done."""
        gone = self.connect()
        self.say(self.client, b"a", b"b")
        self.say(gone, b"gone")
        self.say(self.client, b"c", oneway=True)
        gone.close()
        self.advance(PARKED_S - 0.2)
        self.assertEqual(self.codes(self.client), [])
        self.over()
        self.assertEqual(self.codes(self.client), [0, 0])
        self.assertEqual(self.stored(), [b"first", b"a", b"b", b"c"])
        self.nothing_left()

    def test_staged_in_the_turn_in_which_it_begins(self) -> None:
        """Nothing is parked; what the turn could not append is when the change is over."""
        self.over()
        self.log_work.held = True  # type: ignore[attr-defined]

        def begin(*given: object) -> None:
            self.broker.core.changes.run(lambda: None)

        self.broker.dispatcher.table[RequestCode.GET_BROKER_CONFIG] = begin
        send = self.client.command(RequestCode.SEND_MESSAGE_V2, send_fields(), b"staged")
        self.client.say(send, self.client.command(RequestCode.GET_BROKER_CONFIG))
        self.assertTrue(self.broker.core.changes.busy)
        self.assertEqual((self.codes(self.client), self.broker.core.parts.sends.staged), ([], 1))
        self.over()
        self.assertEqual(self.codes(self.client), [0])
        self.assertEqual(self.stored(), [b"first", b"staged"])

    def test_in_time(self) -> None:
        """Refused before the client gives up: what it sends again is stored once."""
        self.say(self.client, b"early")
        self.advance(1)
        self.say(self.client, b"late")
        self.advance(1.1)
        self.assertEqual(self.codes(self.client), [BUSY.code])
        self.advance(0.5)
        self.say(self.client, b"early")
        self.over()
        self.assertEqual(self.codes(self.client), [0, 0])
        self.assertEqual(self.stored(), [b"first", b"late", b"early"])
        self.nothing_left()

    def test_a_process_that_stood_still(self) -> None:
        """The end of the change may be heard of before the time that went by."""
        self.say(self.client, b"early")
        self.clock.rightNow += 10
        self.over()
        self.assertEqual(self.codes(self.client), [BUSY.code])
        self.assertEqual(self.stored(), [b"first"])
        self.nothing_left()

    def test_bytes(self) -> None:
        """One client gets half of them; what it has beyond that is refused at once, and others have room."""
        other, size = self.connect(), 4_000_000
        self.say(self.client, *[bytes(size)] * 20)
        room = PARKED_BYTES_MAX // 2 // size
        self.assertEqual(self.codes(self.client), [BUSY.code] * (20 - room))
        self.say(other, bytes(size))
        self.assertEqual(self.codes(other), [])
        self.assertLessEqual(self.broker.dispatcher.parked._budget.bytes, PARKED_BYTES_MAX)
        self.advance(PARKED_S + 0.1)
        self.assertEqual((self.codes(self.client), self.codes(other)), ([BUSY.code] * room, [BUSY.code]))
        self.nothing_left()
        self.over()
        self.assertEqual(self.stored(), [b"first"])

    def test_each_waits_for_as_long(self) -> None:
        """The timer goes on for those behind the first."""
        for _ in range(5):
            self.say(self.client, b"x")
            self.advance(0.3)
        heard = []
        for _ in range(30):
            self.advance(0.1)
            heard.append(len(self.codes(self.client)))
        self.assertEqual((sum(heard), max(heard)), (5, 1))
        self.nothing_left()
        self.over()
