"""Pulls of messages that are not in memory: a thread waits for the disk, and nobody else does (H3)."""

from __future__ import annotations

from rocketha.services import broker_wakeups, cold_pulls
from rocketha.store import commitlog
from rocketha.store.memory_disk import MemoryFile
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import BrokerCase, Client, pull_fields, records

PULL = RequestCode.PULL_MESSAGE


class ColdPullTests(BrokerCase):
    """A broker that was started again, and has nothing in memory."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(commitlog, "RECENT_BYTES", 0)
        client = self.connect()
        for number in range(100):
            self.send(client, b"%03d" % number + bytes(900), queue_id=str(number % 2))
        self.stop()
        self.broker = self.start()
        self.waits = 0
        self.disk.waited_for = self.waited_for  # type: ignore[method-assign]
        self.disk.cached = False
        self.thread = next(work for work in reversed(self.works) if work.name == "rocketha-pulls")
        self.thread.held = True
        self.reading = False

    def waited_for(self, path: str) -> None:
        """Only the thread may."""
        self.assertTrue(self.reading, f"{path} is waited for in the reactor")
        self.waits += 1

    def let_go(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            waiting, self.thread.waiting = self.thread.waiting, []
            for call, result in waiting:
                self.reading = True
                call()
                self.reading = False
                result.callback(None)

    def pulled(self, client: Client) -> list[list[bytes]]:
        """The bodies of each answer heard."""
        return [[record.body[:3] for record in records(answer)] for answer in client.heard()]

    def pull(self, client: Client, offset: int = 0, **more: str) -> None:
        client.say(client.command(PULL, pull_fields(offset=offset, **more)))

    def test_nobody_waits(self) -> None:
        """It is answered when the thread has read its entries, and then its messages; senders before that."""
        consumer, producer = self.connect(), self.connect()
        self.pull(consumer, 10)
        self.assertEqual((self.pulled(consumer), self.broker.cold.count), ([], 1))
        self.assertEqual(self.send(producer).code, ResponseCode.SUCCESS)
        self.let_go()
        self.assertEqual(self.pulled(consumer), [])
        self.let_go()
        self.assertEqual(self.pulled(consumer), [[b"%03d" % number for number in range(20, 84, 2)]])
        self.assertEqual((self.broker.cold.count, self.thread.waiting), (0, []))
        self.assertGreaterEqual(self.waits, 2)
        self.pull(consumer, 10)
        self.assertEqual(len(self.pulled(consumer)), 1, "it is in memory now")

    def test_what_is_in_memory(self) -> None:
        """Is answered at once."""
        self.disk.cached = True
        consumer = self.connect()
        self.pull(consumer)
        self.let_go(2)  # no file is open yet, and to open one may take time
        self.assertEqual(len(self.pulled(consumer)), 1)
        for offset in range(0, 50, 7):
            self.pull(consumer, offset)
            self.assertEqual(self.pulled(consumer)[0][0], b"%03d" % (2 * offset))
        self.assertEqual(self.thread.waiting, [])

    def test_nobody_knows_what_is_in_memory(self) -> None:
        """Then it is read, as ever."""
        self.disk.cached = None
        consumer = self.connect()
        self.pull(consumer)
        self.let_go(2)
        self.assertEqual(len(self.pulled(consumer)), 1)
        self.pull(consumer, 40)
        self.assertEqual(len(self.pulled(consumer)), 1)

    def test_a_row(self) -> None:
        """The answers of a connection leave in order, one read at a time; the other connection has its turns."""
        one, other = self.connect(), self.connect()
        for offset in (40, 3, 20):
            self.pull(one, offset)
        self.pull(other, 30)
        self.assertEqual(len(self.thread.waiting), 2)
        heard: list[bytes] = []
        for rounds in range(1, 20):
            self.let_go()
            self.assertLessEqual(len(self.thread.waiting), 2)
            heard += [bodies[0] for bodies in self.pulled(one)]
            if self.pulled(other):
                self.assertEqual(rounds, 2)
        self.assertEqual(heard, [b"080", b"006", b"040"])
        self.assertEqual(self.broker.cold.count, 0)

    def test_what_does_not_stay_in_memory(self) -> None:
        """Is read in the end."""
        self.patch(MemoryFile, "_in_memory", lambda *_: False)
        consumer = self.connect()
        self.pull(consumer)
        self.let_go(2)
        self.assertEqual(self.pulled(consumer), [])
        self.waited_for = lambda path: None  # type: ignore[method-assign]
        self.disk.waited_for = lambda path: None  # type: ignore[method-assign]
        self.let_go()
        self.assertEqual(len(self.pulled(consumer)), 1)

    def test_a_client_that_goes(self) -> None:
        """Nothing more is read for it, and nothing of it stays."""
        consumer = self.connect()
        self.pull(consumer)
        self.pull(consumer, 20)
        consumer.close()
        before = self.disk.operations
        self.let_go(3)
        self.assertEqual((self.disk.operations, self.waits, self.broker.cold.count), (before, 0, 0))
        self.assertEqual(self.pulled(consumer), [])

    def test_a_client_that_does_not_take_its_answers(self) -> None:
        """Has none made meanwhile."""
        consumer = self.connect()
        self.pull(consumer)
        self.let_go()
        self.patch(cold_pulls, "UNSENT_MAX", -1)
        self.let_go()
        self.advance(1.0)
        self.assertEqual((self.pulled(consumer), self.broker.cold.count), ([], 1))
        self.patch(cold_pulls, "UNSENT_MAX", broker_wakeups.UNSENT_MAX)
        self.advance(0.1, 0.02)
        self.assertEqual((len(self.pulled(consumer)), self.broker.cold.count), (1, 0))

    def test_too_many(self) -> None:
        """One client has half of the places: the others are told to come again."""
        self.broker.cold._budget.count_max = 8
        consumer, other = self.connect(), self.connect()
        for number in range(6):
            self.pull(consumer, number)
        self.assertEqual([answer.code for answer in consumer.heard()], [ResponseCode.SYSTEM_BUSY] * 2)
        self.pull(other)
        self.assertEqual(other.heard(), [])

    def test_a_pull_that_waited_for_a_message(self) -> None:
        """Is answered when that was read, and does not begin to wait again."""
        consumer, producer = self.connect(), self.connect()
        self.pull(consumer, 50, sysFlag="6")
        self.let_go(3)
        self.assertEqual(self.broker.held.count, 1)
        self.assertEqual(self.send(producer, b"new").code, ResponseCode.SUCCESS)
        self.assertEqual((self.broker.held.count, self.broker.cold.count), (0, 1))
        self.let_go(2)
        self.assertEqual(self.pulled(consumer), [[b"new"]])

    def test_a_pull_that_joins_as_the_turn_ends(self) -> None:
        """Of the same connection: it is fetched once, and answered once."""
        consumer = self.connect()
        self.pull(consumer)
        self.let_go()
        ended = self.broker.turn_ended

        def pull_once() -> None:
            self.broker.turn_ended = ended  # type: ignore[method-assign]
            self.pull(consumer, 40)
            ended()

        self.broker.turn_ended = pull_once  # type: ignore[method-assign]
        self.let_go()
        self.assertEqual(len(self.thread.waiting), 1)
        self.let_go(3)
        self.assertEqual([bodies[0] for bodies in self.pulled(consumer)], [b"000", b"080"])
        self.assertEqual((self.broker.cold.count, self.thread.waiting), (0, []))

    def test_a_disk_that_fails(self) -> None:
        """It is told as where the reactor reads."""
        consumer = self.connect()
        self.pull(consumer)
        self.disk.fail_at(1, times=1000, only=["read"])
        self.waits = 0
        self.disk.waited_for = lambda path: None  # type: ignore[method-assign]
        for _ in range(4):
            waiting, self.thread.waiting = self.thread.waiting, []
            for call, result in waiting:
                call()
                result.callback(None)
        (answer,) = consumer.heard()
        self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)
        self.assertEqual(self.broker.cold.count, 0)
        self.flushLoggedErrors()

    def test_a_stop(self) -> None:
        """Nobody is answered any more, and nothing is left behind."""
        consumer = self.connect()
        self.pull(consumer)
        self.reading = True
        self.thread.held = False
        self.stop()
        self.thread.let_go()
        self.advance(1.0)
        self.assertLessEqual(len(consumer.heard()), 1)
