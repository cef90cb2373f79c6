"""Pulls, queries and deliveries of messages that are not in memory: a thread waits for the disk, and nobody else does
(H3)."""

from __future__ import annotations

import sys

from rocketha.broker.fair_budget import held_bytes
from rocketha.errors import DiskFailure
from rocketha.services.waiting import cold_reads, fetches, wakeups
from rocketha.store import in_memory
from rocketha.store.memory_disk import MemoryFile
from rocketha.wire import record
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import START_S, Client, pull_fields, records
from tests.services.cold_case import ColdCase

PULL = RequestCode.PULL_MESSAGE


class ColdPullTests(ColdCase):
    """Pulls."""

    def pulled(self, client: Client) -> list[list[bytes]]:
        """The bodies of each answer heard."""
        return [[each.body[:3] for each in records(answer)] for answer in client.heard()]

    def pull(self, client: Client, offset: int = 0, **more: str) -> None:
        client.say(client.command(PULL, pull_fields(offset=offset, **more)))

    def test_nobody_waits(self) -> None:
        """It is answered when the thread has read its entries, and then its messages; senders before that."""
        consumer, producer = self.connect(), self.connect()
        self.pull(consumer, 10)
        self.assertEqual((self.pulled(consumer), self.broker.reading.pulls.count), ([], 1))
        self.assertEqual(self.send(producer).code, ResponseCode.SUCCESS)
        self.let_go()
        self.assertEqual(self.pulled(consumer), [])
        self.let_go()
        self.assertEqual(self.pulled(consumer), [[b"%03d" % number for number in range(20, 84, 2)]])
        self.assertEqual((self.broker.reading.pulls.count, self.thread.waiting), (0, []))
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
        self.assertEqual(self.broker.reading.pulls.count, 0)

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
        self.assertEqual((self.disk.operations, self.waits, self.broker.reading.pulls.count), (before, 0, 0))
        self.assertEqual(self.pulled(consumer), [])

    def test_a_client_that_does_not_take_its_answers(self) -> None:
        """Has none made meanwhile."""
        consumer = self.connect()
        self.pull(consumer)
        self.let_go()
        self.patch(cold_reads, "UNSENT_MAX", -1)
        self.let_go()
        self.advance(1.0)
        self.assertEqual((self.pulled(consumer), self.broker.reading.pulls.count), ([], 1))
        self.patch(cold_reads, "UNSENT_MAX", wakeups.UNSENT_MAX)
        self.advance(0.1, 0.02)
        self.assertEqual((len(self.pulled(consumer)), self.broker.reading.pulls.count), (1, 0))

    def test_too_many(self) -> None:
        """One client has half of the places: the others are told to come again."""
        self.broker.reading.pulls._budget.count_max = 8
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
        self.assertEqual(self.broker.reading.held.count, 1)
        self.assertEqual(self.send(producer, b"new").code, ResponseCode.SUCCESS)
        self.assertEqual((self.broker.reading.held.count, self.broker.reading.pulls.count), (0, 1))
        self.let_go(2)
        self.assertEqual(self.pulled(consumer), [[b"new"]])

    def test_where_its_queue_ends(self) -> None:
        """As long as not all is confirmed that is a search in its entries; an order to go elsewhere waits likewise."""
        consumer = self.connect()
        self.broker.store.confirm_offset = self.places[30]
        self.pull(consumer, 30)
        self.pull(consumer, 20)
        self.broker.state.offsets.order_reset("G", "T", 1, 7)
        self.pull(consumer, 30, queueId="1")
        self.let_go(20)
        none, some, moved = consumer.heard()
        self.assertEqual((none.code, none.fields["maxOffset"]), (ResponseCode.PULL_NOT_FOUND, "30"))
        self.assertEqual([each.body[:3] for each in records(some)], [b"%03d" % number for number in range(40, 60, 2)])
        self.assertEqual((moved.code, moved.fields["nextBeginOffset"]), (ResponseCode.PULL_OFFSET_MOVED, "7"))
        self.assertGreater(self.waits, 2)

    def test_a_pull_that_joins_as_the_turn_ends(self) -> None:
        """Of the same connection: it is fetched once, and answered once."""
        consumer = self.connect()
        self.pull(consumer)
        self.let_go()
        pulled = []

        def pull_once() -> None:
            if not pulled:
                pulled.append(True)
                self.pull(consumer, 40)

        self.broker.core.turns.at_end(pull_once)
        self.let_go()
        self.assertEqual(len(self.thread.waiting), 1)
        self.let_go(3)
        self.assertEqual([bodies[0] for bodies in self.pulled(consumer)], [b"000", b"080"])
        self.assertEqual((self.broker.reading.pulls.count, self.thread.waiting), (0, []))

    def test_a_disk_that_fails(self) -> None:
        """Its client is told, and the reactor does not ask that disk again, which may take long to fail once more."""
        consumer = self.connect()
        self.pull(consumer)
        self.pull(consumer, 10)
        self.disk.fail_at(1, only=["read"])
        self.let_go()
        (answer,) = consumer.heard()
        self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)
        self.assertIn("/consumequeue/T/0/", answer.remark or "")
        self.let_go(2)
        self.assertEqual(self.pulled(consumer), [[b"%03d" % number for number in range(20, 84, 2)]])
        self.assertEqual(self.broker.reading.pulls.count, 0)
        self.assertEqual(len(self.flushLoggedErrors()), 1)

    def test_a_thread_that_fails(self) -> None:
        """Likewise, whatever it is."""
        consumer = self.connect()
        self.pull(consumer)
        self.pull(consumer, 10)
        self.patch(fetches, "fetch", None)
        self.let_go()
        self.patch(fetches, "fetch", in_memory.fetch)
        (answer,) = consumer.heard()
        self.assertEqual((answer.code, (answer.remark or "")[:9]), (ResponseCode.SYSTEM_ERROR, "TypeError"))
        self.let_go(2)
        self.assertEqual((len(self.pulled(consumer)), self.broker.reading.pulls.count), (1, 0))
        self.flushLoggedErrors()

    def test_the_log_is_cut_meanwhile(self) -> None:
        """Whoever waits goes on when it is over, and is given what there is then."""
        consumer = self.connect()
        self.pull(consumer, 45)
        self.let_go()
        log_work = next(work for work in reversed(self.works) if work.name == "rocketha-log")
        log_work.held = True
        store = self.broker.store
        end = store.physical_offset("T", 0, 47)

        def cut() -> None:
            self.reading = True
            store.truncate(end)
            self.reading = False

        cutting = self.broker.core.changes.run(cut)
        self.assertTrue(self.broker.core.changes.busy)
        self.let_go()
        self.advance(0.1, 0.02)
        self.assertEqual((self.pulled(consumer), len(self.broker.dispatcher.parked)), ([], 0))
        log_work.held = False
        log_work.let_go()
        self.successResultOf(cutting)
        self.advance(0.1, 0.02)
        self.let_go(2)
        self.advance(0.1, 0.02)
        self.assertEqual(self.pulled(consumer), [[b"090", b"092"]])

    def test_what_they_lack_counts(self) -> None:
        """As memory that a client's requests take while they wait."""
        consumer = self.connect()
        self.pull(consumer)
        (share,) = self.broker.reading.pulls._budget._shares.values()
        self.assertGreater(share[1], cold_reads.LACK_BYTES + held_bytes(consumer.command(PULL, pull_fields(offset=0))))
        self.let_go(3)
        self.assertEqual(self.broker.reading.pulls._budget.bytes, 0)

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


class ColdQueryTests(ColdCase):
    """Queries by key, and by the place in the log."""

    thread_name = "rocketha-queries"

    def fill(self, client: Client) -> None:
        """Long messages, so that each has pages of its own."""
        for number in range(60):
            properties = f"UNIQ_KEY\x01{number:032X}\x02KEYS\x01{number // 20}\x02"
            self.send(client, b"%03d" % number + bytes(9000), properties=properties)

    def query(self, client: Client, key: str, count: int = 32) -> None:
        fields = {"topic": "T", "key": key, "maxNum": str(count), "beginTimestamp": "0", "endTimestamp": str(1 << 50)}
        client.say(client.command(RequestCode.QUERY_MESSAGE, fields))

    def found(self, client: Client) -> list[list[bytes]]:
        return [[each.body[:3] for each in records(answer)] for answer in client.heard()]

    def test_h3_nobody_waits(self) -> None:
        """It is answered when the thread has followed the index, and then read all its messages; others before."""
        asker, other = self.connect(), self.connect()
        self.query(asker, "1")
        self.assertEqual((self.found(asker), self.broker.reading.look_ups.count), ([], 1))
        self.assertEqual(self.send(other).code, ResponseCode.SUCCESS)
        other.say(other.command(PULL, pull_fields(offset=999)))
        self.assertEqual(len(other.heard()), 1)
        self.let_go()
        self.assertEqual(self.found(asker), [])
        self.let_go()
        self.assertEqual(self.found(asker), [[b"%03d" % number for number in range(39, 19, -1)]])
        self.assertEqual((self.broker.reading.look_ups.count, self.thread.waiting), (0, []))
        self.assertGreater(self.waits, 20)
        self.query(asker, "1", 3)
        self.assertEqual(self.found(asker), [[b"039", b"038", b"037"]], "it is in memory now")

    def test_nothing_found(self) -> None:
        """Nor is there anything to fetch, where the slots are in memory."""
        asker = self.connect()
        self.query(asker, "absent")
        (answer,) = asker.heard()
        self.assertEqual((answer.code, self.waits), (ResponseCode.QUERY_NOT_FOUND, 0))

    def test_a_message_by_its_place(self) -> None:
        """One fetch brings all of it, though it says itself how long it is."""
        asker = self.connect()
        place = self.broker.store.log.begin
        asker.say(asker.command(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(place)}))
        self.assertEqual(asker.heard(), [])
        self.let_go()
        (answer,) = asker.heard()
        self.assertEqual([each.body[:3] for each in records(answer)], [b"000"])

    def test_what_does_not_stay_in_memory(self) -> None:
        """Is read in the end."""
        self.patch(MemoryFile, "_in_memory", lambda *_: False)
        asker = self.connect()
        self.query(asker, "1")
        self.let_go(2)
        self.assertEqual(self.found(asker), [])
        self.disk.waited_for = lambda path: None  # type: ignore[method-assign]
        self.let_go()
        self.assertEqual([len(bodies) for bodies in self.found(asker)], [20])

    def test_a_place_in_time(self) -> None:
        """And when the oldest message was stored: the search goes on from step to step."""
        asker = self.connect()
        asker.say(asker.command(RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "T", "queueId": "0"}))
        self.assertEqual((asker.heard(), self.broker.reading.look_ups.count), ([], 1))
        self.let_go(2)
        (earliest,) = asker.heard()
        at_ms = int(START_S * 1000)
        self.assertEqual(earliest.fields, {"timestamp": str(at_ms)})
        for timestamp, offset in ((at_ms + 1, 60), (at_ms, 0)):
            fields = {"topic": "T", "queueId": "0", "timestamp": str(timestamp)}
            asker.say(asker.command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields))
            self.assertEqual((asker.heard(), self.broker.reading.look_ups.count), ([], 1))
            self.let_go(20)
            (found,) = asker.heard()
            self.assertEqual(found.fields, {"offset": str(offset)})
        self.assertGreater(self.waits, 4)

    def test_a_client_that_goes(self) -> None:
        """Nothing more is read for it."""
        asker = self.connect()
        self.query(asker, "1")
        asker.close()
        before = self.disk.operations
        self.let_go(3)
        self.assertEqual((self.disk.operations, self.broker.reading.look_ups.count), (before, 0))


class ColdDelayTests(ColdCase):
    """Delayed messages that are due after a start."""

    def fill(self, client: Client) -> None:
        """Levels 1 (1 s) and 2 (5 s)."""
        for number in range(20):
            level = 1 + number % 2
            self.send(client, b"%03d" % number, properties=f"UNIQ_KEY\x01{number:032X}\x02DELAY\x01{level}\x02")

    def delivered(self) -> list[bytes]:
        self.reading = True
        self.broker.store.settle()
        found = self.broker.store.get("T", 0, 0, 100, 1 << 20)
        self.reading = False
        return [message.body for stored in found.buffers for _, message in record.scan(stored)]

    def test_h3_nobody_waits(self) -> None:
        """Neither level has the reactor wait; what is new is delivered in its order, when it is its time."""
        client = self.connect()
        self.advance(2.0, 0.1)
        self.assertEqual((self.delivered(), len(self.thread.waiting)), ([], 2))
        self.assertIsNone(self.broker.delayed.delivery.next_due_ms())
        new = self.send(client, b"new", properties=f"UNIQ_KEY\x01{99:032X}\x02DELAY\x011\x02")
        self.assertEqual(new.code, ResponseCode.SUCCESS)
        self.advance(2.0, 0.1)
        self.assertEqual(self.delivered(), [])
        for _ in range(20):
            self.let_go()
            self.advance(0.02, 0.01)
        odd = [b"%03d" % number for number in range(0, 20, 2)]
        self.assertEqual(self.delivered(), [*odd, b"new"])
        self.advance(3.0, 0.1)
        self.let_go(8)
        self.advance(0.1, 0.01)
        self.assertEqual(self.delivered(), [*odd, b"new", *[b"%03d" % number for number in range(1, 20, 2)]])
        self.assertEqual((self.broker.core.parts.delays.offsets, self.thread.waiting), ({1: 11, 2: 10}, []))
        self.assertGreater(self.waits, 4)

    def test_a_stop_meanwhile(self) -> None:
        """Whoever is no master delivers nothing when it is read; who is one again begins anew."""
        self.advance(2.0, 0.1)
        self.broker.delayed.delivery.stop()
        self.let_go(5)
        self.advance(2.0, 0.1)
        self.assertIsNone(self.broker.delayed.delivery.next_due_ms())
        self.assertEqual((self.delivered(), self.thread.waiting), ([], []))
        self.broker.delayed.delivery.start(self.broker.core.platform.now_ms())
        self.thread.held = False
        self.reading = True
        self.advance(2.0, 0.1)
        self.assertEqual(len(self.delivered()), 20)

    def test_what_does_not_stay_in_memory(self) -> None:
        """Is read in the end."""
        self.patch(MemoryFile, "_in_memory", lambda *_: False)
        self.advance(2.0, 0.1)
        for _ in range(in_memory.IN_VAIN_MAX):
            self.let_go()
            self.advance(0.1, 0.01)
        self.assertEqual(self.delivered(), [])
        self.disk.waited_for = lambda path: None  # type: ignore[method-assign]
        for _ in range(100):
            self.let_go()
            self.advance(0.02, 0.01)
        self.assertEqual(len(self.delivered()), 10)

    def test_a_disk_that_fails(self) -> None:
        """A level whose messages cannot be read is tried again each second; the others go on."""
        told: list[object] = []
        self.patch(self.broker.delayed.delivery, "failed", lambda: told.append(sys.exc_info()[0]))
        self.advance(2.0, 0.1)
        self.disk.fail_at(1, only=["read"])
        self.let_go()
        self.advance(0.1, 0.01)
        for _ in range(20):
            self.let_go()
            self.advance(0.01, 0.005)
        self.assertEqual(self.delivered(), [])
        self.advance(3.0, 0.1)
        for _ in range(20):
            self.let_go()
            self.advance(0.01, 0.005)
        self.assertEqual(len(self.delivered()), 20)
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 10, 2: 10})
        self.assertEqual(told, [DiskFailure])

    def test_the_end_of_the_broker(self) -> None:
        """What is fetched by then is not delivered any more: the store is being closed in another thread."""
        self.advance(2.0, 0.1)
        log_work = next(work for work in reversed(self.works) if work.name == "rocketha-log")
        log_work.held = True
        before = self.broker.store.max_physical_offset
        stopping = self.service.stopService()
        self.assertNoResult(stopping)
        self.let_go(20)
        self.advance(2.0, 0.1)
        self.assertEqual(
            (self.broker.store.max_physical_offset, self.broker.delayed.delivery.next_due_ms()), (before, None)
        )
        self.reading = True
        log_work.let_go()
        self.successResultOf(stopping)
