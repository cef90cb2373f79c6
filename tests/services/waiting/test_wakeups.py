"""Who is woken when messages can be read."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from rocketha.broker.long_polling import HeldPull, HeldPulls
from rocketha.services.waiting import wakeups as broker_wakeups
from rocketha.services.waiting.wakeups import Wakeups
from rocketha.store.messages import BatchKeys, PutBatch, PutMessage
from rocketha.wire.batch import Columns


class Delayed:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def arrived(self, level: int, now_ms: int) -> None:
        self.told.append((level, now_ms))

    def look_again(self, now_ms: int) -> None:
        self.told.append(("again", now_ms))

    def next_due_ms(self) -> int | None:
        return None

    def deliver(self, now_ms: int) -> None:
        """Nothing is due."""


class Client:
    """A connection."""

    id = 1
    unsent = 0

    def has_room(self, unsent_max: int) -> bool:
        return self.unsent <= unsent_max


def message(queue_id: int = 0, code: int = 0, level: int = 0) -> PutMessage:
    return PutMessage("T", queue_id, 0, 0, 0, bytes(8), 0, 0, b"", b"", code, (), level)


class WakeupsTests(SynchronousTestCase):
    """Pulls of queues 0 and 1 of one topic; queue 1 wants tags code 7."""

    def setUp(self) -> None:
        self.held, self.delayed, self.woken = HeldPulls(), Delayed(), [0]
        self.wakeups = Wakeups(self.held, self.delayed, lambda pull, now_ms: self.woken.append(pull.queue_id))  # type: ignore[arg-type]
        self.woken.clear()
        self.hold()

    def hold(self) -> None:
        self.held.hold(HeldPull(Client(), mock.sentinel.command, "T", 0, 5, None, 99))
        self.held.hold(HeldPull(Client(), mock.sentinel.command, "T", 1, 5, lambda code: code == 7, 99))

    def test_at_once(self) -> None:
        """A broker that shows all that it stores: the pull that wants the message."""
        self.wakeups.readable([message(1, 3)], 10)
        self.assertEqual(self.woken, [])
        self.wakeups.readable([message(1, 7), message(2)], 10)
        self.assertEqual(self.woken, [1])

    def test_topics_that_changed(self) -> None:
        """Pulls of any of them run again, and no others."""
        for number in range(4):
            self.held.hold(HeldPull(Client(), mock.sentinel.command, f"T{number}", 10 + number, 5, None, 99))
        self.wakeups.topics_changed(("T1", "T3", "unknown"), 10)
        self.assertEqual(sorted(self.woken), [11, 13])
        self.wakeups.topics_changed(("T", "T1"), 10)
        self.assertEqual(sorted(self.woken), [0, 1, 11, 13])

    def test_when_confirmed(self) -> None:
        """By the end of the turn that stored it; a part of the turn is not enough."""
        self.wakeups.stored([message(0)], 100)
        members = Columns((0, 0), (b"", b""), (b"", b""))
        batch = PutBatch("T", 1, 0, 0, bytes(8), 0, members, (3, 7), lambda: BatchKeys((), ()))
        self.wakeups.stored([batch, message(17, 0, 18)], 200)
        self.wakeups.confirmed(99, 10)
        self.assertEqual(self.woken, [])
        self.wakeups.confirmed(199, 10)
        self.assertEqual((self.woken, self.delayed.told), ([0], []))
        self.wakeups.confirmed(200, 11)
        self.assertEqual((self.woken, self.delayed.told), ([0, 1], [(18, 11)]))

    def test_too_much_to_remember(self) -> None:
        """Then every pull runs again as the confirm offset rises, until all of it is confirmed."""
        with mock.patch.object(broker_wakeups, "WAITING_MAX", 3):
            for number in range(4):
                self.wakeups.stored([message(5)], 100 * number + 100)
        self.wakeups.confirmed(100, 10)
        self.assertEqual((self.woken, self.delayed.told), ([0, 1], [("again", 10)]))
        self.hold()
        self.wakeups.confirmed(400, 10)
        self.assertEqual(self.woken, [0, 1, 0, 1])
        self.hold()
        self.wakeups.stored([message(0)], 500)
        self.wakeups.confirmed(500, 10)
        self.assertEqual(self.woken, [0, 1, 0, 1, 0])

    def test_of_a_new_master(self) -> None:
        """What lies between confirm offset and end when the role began: nobody knows what it is."""
        self.wakeups.anything_until(300)
        self.wakeups.stored([message(0)], 400)
        self.wakeups.confirmed(300, 10)
        self.assertEqual(sorted(self.woken), [0, 1])
        self.hold()
        self.wakeups.confirmed(400, 10)
        self.assertEqual(sorted(self.woken), [0, 0, 1])

    def test_of_a_slave(self) -> None:
        """Those whose queue reaches beyond what they asked for."""
        self.wakeups.dispatched(lambda topic, queue_id: 6 if queue_id else 5, 10)
        self.assertEqual(self.woken, [1])

    def test_the_role_is_lost(self) -> None:
        """Everybody gets an answer, and what waited for a confirmation is forgotten."""
        self.wakeups.stored([message(0)], 100)
        self.wakeups.role_lost(10)
        self.assertEqual(self.woken, [0, 1])
        self.hold()
        self.wakeups.confirmed(100, 10)
        self.assertEqual(self.woken, [0, 1])


class SlowReaderTests(SynchronousTestCase):
    """A connection that takes its answers slowly holds many pulls of one queue."""

    def test_answers_are_made_as_they_are_taken(self) -> None:
        """Each of 5 MiB: as many as may wait, and more when there is room; the pulls of others are not held up."""
        held, slow, other, woken = HeldPulls(), Client(), Client(), []
        other.id = 2

        def again(pull: HeldPull, now_ms: int) -> None:
            pull.connection.unsent += 5 << 20
            woken.append((now_ms, pull.connection.id))

        wakeups = Wakeups(held, Delayed(), again)  # type: ignore[arg-type]
        for client in (*[slow] * 9, other):
            held.hold(HeldPull(client, mock.sentinel.command, "T", 0, 5, None, 90_000))
        wakeups.readable([message(0)], 10)
        self.assertEqual(woken, [(10, 1)] * 4 + [(10, 2)])
        self.assertEqual((held.count, wakeups.next_due_ms()), (5, 10 + broker_wakeups.UNSENT_AGAIN_MS))
        wakeups.due(30)
        self.assertEqual((len(woken), wakeups.next_due_ms()), (5, 50))
        slow.unsent -= 10 << 20
        wakeups.due(50)
        self.assertEqual(woken[5:], [(50, 1), (50, 1)])
        slow.unsent = 0
        wakeups.due(70)
        self.assertEqual((woken[7:], held.count), ([(70, 1)] * 3, 0))

    def test_many_that_wait_cost_no_more_than_one(self) -> None:
        """However often it is looked whether there is room, and whatever arrives meanwhile."""
        held, slow, woken = HeldPulls(), Client(), []
        looks: list[int] = []

        class Watched(Client):
            @property
            def unsent(self) -> int:  # type: ignore[override]
                looks.append(1)
                return slow.unsent

        client = Watched()
        wakeups = Wakeups(held, Delayed(), lambda pull, now_ms: woken.append(pull))  # type: ignore[arg-type]
        for _ in range(1000):
            held.hold(HeldPull(client, mock.sentinel.command, "T", 0, 5, None, 90_000))
        slow.unsent = 1 << 30
        wakeups.readable([message(0)], 10)
        looks.clear()
        for now_ms in range(30, 1030, 20):
            wakeups.readable([message(0)], now_ms)
            wakeups.due(now_ms)
        self.assertEqual((len(looks), woken, held.count), (50, [], 1000))
        held.disconnected(client.id)
        self.assertEqual((held.count, wakeups.next_due_ms()), (0, None))

    def test_who_goes_while_it_is_answered(self) -> None:
        """As one does that does not read: the rest of its pulls is forgotten."""
        held, slow, woken = HeldPulls(), Client(), []
        slow.unsent = 1 << 30

        def again(pull: HeldPull, now_ms: int) -> None:
            woken.append(now_ms)
            held.disconnected(1)

        wakeups = Wakeups(held, Delayed(), again)  # type: ignore[arg-type]
        for _ in range(3):
            held.hold(HeldPull(slow, mock.sentinel.command, "T", 0, 5, None, 90_000))
        wakeups.readable([message(0)], 10)
        slow.unsent = 0
        wakeups.due(30)
        self.assertEqual((woken, held.count, wakeups.next_due_ms()), ([30], 0, None))

    def test_who_may_hold_no_more_is_answered(self) -> None:
        """A pull is never forgotten."""
        held, slow, woken = HeldPulls(), Client(), []
        slow.unsent = 1 << 30
        wakeups = Wakeups(held, Delayed(), lambda pull, now_ms: woken.append(now_ms))  # type: ignore[arg-type]
        held.hold(HeldPull(slow, mock.sentinel.command, "T", 0, 5, None, 90_000))
        with mock.patch.object(held, "put_off", return_value=False):
            wakeups.readable([message(0)], 10)
        self.assertEqual((woken, held.count), ([10], 0))
