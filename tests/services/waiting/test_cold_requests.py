"""Requests beside pulls and queries that read what is not in memory: a thread waits for the disk, and nobody else does
(H3)."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet import defer

from rocketha.broker import progress_requests
from rocketha.broker.routes import PULLS, Fetch, fetched_by
from rocketha.errors import DiskFailure
from rocketha.services.waiting import fetches
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.record import make_message_id
from rocketha.wire.remoting import Command
from tests.services.broker_case import START_S, Client, heartbeat, pull_fields, records
from tests.services.cold_case import ColdCase

AT_MS = int(START_S * 1000)
QUEUES = 4


class ColdRequestCase(ColdCase):
    """Sixty long messages in four queues, ten milliseconds between any two, one delayed before them and one behind;
    group G has consumed nine of each queue."""

    def setUp(self) -> None:
        super().setUp()
        self.threads = [self.thread, next(work for work in reversed(self.works) if work.name == "rocketha-queries")]
        self.threads[1].held = True
        self.consumer = self.connect()
        self.consumer.ask(RequestCode.HEART_BEAT, body=heartbeat("c@1", "G", "T"))

    def fill(self, client: Client) -> None:
        delayed = {"queue_id": "0", "properties": f"UNIQ_KEY\x01{0:032X}\x02DELAY\x0118\x02"}
        self.send(client, b"delayed", **delayed)
        for number in range(60):
            self.send(client, b"%03d" % number + bytes(9000), queue_id=str(number % QUEUES))
            self.clock.advance(0.01)
        self.send(client, b"delayed", **delayed)
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c@1", "G", "T"))
        for queue_id in range(QUEUES):
            fields = {"consumerGroup": "G", "topic": "T", "queueId": str(queue_id), "commitOffset": "9"}
            client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        store = self.broker.store
        self.places = [store.physical_offset("T", number % QUEUES, number // QUEUES) for number in range(60)]

    def let_go(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            waiting = [each for thread in self.threads for each in thread.waiting]
            for thread in self.threads:
                thread.waiting = []
            for call, result in waiting:
                self.reading = True
                found = defer.execute(call)
                self.reading = False
                found.chainDeferred(result)

    @property
    def at_disk(self) -> int:
        """Requests that wait."""
        return self.broker.reading.pulls.count + self.broker.reading.look_ups.count

    def answered(self, client: Client, code: int, fields: Mapping[str, str], tries: int = 20) -> Command:
        """The answer to a request that waits for the disk, as others do not."""
        waits = self.waits
        client.say(client.command(code, fields))
        self.assertEqual((client.heard(), self.at_disk), ([], 1), code)
        self.assertEqual(self.connect().ask(RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": "0"}).code, 0)
        for _ in range(tries):
            self.let_go()
            if not self.at_disk:
                break
        (answer,) = client.heard()
        self.assertGreater(self.waits, waits)
        self.assertEqual((self.at_disk, self.threads[0].waiting, self.threads[1].waiting), (0, [], []))
        return answer

    def refused(self, client: Client, code: int, fields: Mapping[str, str]) -> Command:
        """The answer when the disk fails, which the reactor does not ask a second time."""
        client.say(client.command(code, fields))
        self.assertEqual(self.at_disk, 1)
        self.disk.fail_at(1, times=1 << 30, only=["read"])
        self.let_go()
        self.disk.heal()
        (answer,) = client.heard()
        self.assertEqual((answer.code, self.at_disk), (ResponseCode.SYSTEM_ERROR, 0), code)
        self.assertRegex(answer.remark or "", r"^DiskFailure: .*/(consumequeue/T/|commitlog/)")
        self.assertEqual(len(self.flushLoggedErrors(DiskFailure)), 1)
        return answer


class OneQueueTests(ColdRequestCase):
    """A look at one message, or at one queue."""

    def test_h3_the_time_of_the_oldest_message(self) -> None:
        """28, which `mqadmin clusterList` asks of every broker; and where the queues of delayed messages end."""
        self.broker.store.confirm_offset = self.places[27]
        answer = self.answered(self.connect(), RequestCode.GET_BROKER_RUNTIME_INFO, {})
        table = json_dialect.loads(answer.body)["table"]
        self.assertEqual((table["earliestMessageTimeStamp"], table["scheduleMessageOffset_18"]), (str(AT_MS), "0,1"))

    def test_h3_a_queue_in_which_a_group_has_no_offset(self) -> None:
        """14: whether the queue is young is to be seen in its first entry."""
        fields = {"consumerGroup": "New", "topic": "T", "queueId": "1"}
        answer = self.answered(self.connect(), RequestCode.QUERY_CONSUMER_OFFSET, fields)
        self.assertEqual((answer.code, answer.fields), (ResponseCode.SUCCESS, {"offset": "0"}))
        known = self.connect().ask(RequestCode.QUERY_CONSUMER_OFFSET, {**fields, "consumerGroup": "G"})
        self.assertEqual(known.fields, {"offset": "9"})

    def test_h3_the_end_of_a_queue(self) -> None:
        """30: while the newest messages are not confirmed."""
        fields = {"topic": "T", "queueId": "3"}
        client = self.connect()
        self.assertEqual(client.ask(RequestCode.GET_MAX_OFFSET, fields).fields, {"offset": "15"})
        self.broker.store.confirm_offset = self.places[27]
        self.assertEqual(self.answered(client, RequestCode.GET_MAX_OFFSET, fields).fields, {"offset": "6"})

    def test_h3_a_message_is_handed_back(self) -> None:
        """36: one copy is stored, and the consumer hears when it is."""
        state = self.broker.state
        end = self.broker.store.max_physical_offset
        fields = {"group": "G", "offset": str(self.places[5]), "delayLevel": "0", "originTopic": "T"}
        consumer = self.connect()
        consumer.say(consumer.command(RequestCode.CONSUMER_SEND_MSG_BACK, fields))
        self.assertEqual((consumer.heard(), self.at_disk, self.broker.store.max_physical_offset), ([], 1, end))
        self.let_go()
        (answer,) = consumer.heard()
        self.assertEqual((answer.code, self.at_disk), (ResponseCode.SUCCESS, 0))
        self.assertEqual(self.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 2), 1)
        self.assertEqual(state.stats.group("G", "T").sent_back, 1)
        self.reading = True
        stored = self.broker.store.message_at(end)
        self.reading = False
        assert stored is not None
        self.assertIn(b"005" + bytes(9000), stored)

    def test_a_group_that_is_new_hands_back(self) -> None:
        """It is made, and so is its retry topic, before the message is read: once, and the copy is in that topic."""
        fields = {"group": "Fresh", "offset": str(self.places[5]), "delayLevel": "-1", "originTopic": "T"}
        consumer, state = self.connect(), self.broker.state
        before = state.topics.data_version.counter, state.groups.data_version.counter
        consumer.say(consumer.command(RequestCode.CONSUMER_SEND_MSG_BACK, fields))
        self.assertIn("%RETRY%Fresh", state.topics)
        self.let_go()
        (answer,) = consumer.heard()
        self.assertEqual(answer.code, ResponseCode.SUCCESS)
        self.assertEqual(self.broker.store.max_offset("%DLQ%Fresh", 0), 1)
        made = state.topics.data_version.counter - before[0], state.groups.data_version.counter - before[1]
        self.assertEqual(made, (2, 1))

    def test_nobody_asked_for_an_answer(self) -> None:
        """36, oneway: the copy is stored, and nothing is said."""
        consumer, end = self.connect(), self.broker.store.max_physical_offset
        fields = {"group": "G", "offset": "-1", "delayLevel": "0", "originTopic": "T"}
        for offset, stored in ((self.places[6], True), (self.places[6] + 1, False)):
            fields["offset"] = str(offset)
            consumer.say(consumer.command(RequestCode.CONSUMER_SEND_MSG_BACK, fields, oneway=True))
            self.let_go(3)
            self.assertEqual((consumer.heard(), self.at_disk), ([], 0))
            self.assertEqual(self.broker.store.max_physical_offset > end, stored)
            end = self.broker.store.max_physical_offset
            self.forget()

    def test_who_told_it_is_gone(self) -> None:
        """36, oneway, that was kept for a while and is served when its client is gone: carried out, nothing is left."""
        consumer, end = self.connect(), self.broker.store.max_physical_offset
        fields = {"group": "G", "offset": str(self.places[6]), "delayLevel": "0", "originTopic": "T"}
        command = consumer.command(RequestCode.CONSUMER_SEND_MSG_BACK, fields, oneway=True)
        consumer.close()
        self.reading = True  # as nobody waits for it who could be told to come again
        self.broker.core.turns.run(
            lambda: self.assertIsNone(self.broker.dispatcher.request(consumer.protocol, command))
        )
        self.assertGreater(self.broker.store.max_physical_offset, end)
        self.assertEqual((self.broker.reading.pulls.count, self.at_disk), (0, 0))

    def test_h3_a_message_is_given_directly(self) -> None:
        """309: the consumer is handed it when it was read."""
        message_id = make_message_id(bytes.fromhex("7f00000100002a9f"), self.places[7])
        fields = {"consumerGroup": "G", "clientId": "c@1", "msgId": message_id, "topic": "T"}
        asker = self.connect()
        asker.say(asker.command(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields))
        self.assertEqual((self.consumer.heard(), self.at_disk), ([], 1))
        self.let_go()
        (given,) = self.consumer.heard()
        self.assertEqual((given.code, [each.body[:3] for each in records(given)]), (309, [b"007"]))
        self.assertEqual((self.at_disk, asker.heard()), (0, []))

    def test_h3_a_group_is_sent_to_a_time(self) -> None:
        """222: all queues are searched side by side, and no order is given before the last one was."""
        fields = {"topic": "T", "group": "G", "timestamp": str(AT_MS + 305), "isForce": "true"}
        said: list[str] = []
        self.patch(self.broker.core.effects._log, "info", lambda text, **more: said.append(more.get("event", "")))
        asker, offsets = self.connect(), self.broker.state.offsets
        asker.say(asker.command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields))
        tries = 0
        while self.at_disk:
            self.assertEqual((offsets.resets, said), ({}, []))
            self.let_go()
            tries += 1
        self.assertTrue(4 <= tries <= 9, tries)
        (answer,) = asker.heard()
        self.assertEqual((answer.code, said), (ResponseCode.SUCCESS, ["offset reset"]))
        self.assertEqual([offsets.query("G", "T", queue_id) for queue_id in range(4)], [8, 8, 8, 7])
        self.assertTrue(offsets.has_reset("G", "T", 3))
        self.assertEqual(answer.body, asker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields).body)

    def test_consumers_are_sent_to_a_time(self) -> None:
        """222, if they are told themselves: once, and all queues at once."""
        self.broker.state.rules.server_side_reset_offset = False
        fields = {"topic": "T", "group": "G", "timestamp": str(AT_MS + 305), "isForce": "true"}
        answer = self.answered(self.connect(), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, tries=9)
        (told,) = self.consumer.heard()
        self.assertEqual((told.code, told.body), (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, answer.body))

    def test_a_disk_that_fails(self) -> None:
        """Whoever asked is told, and nothing was done."""
        message_id = make_message_id(bytes.fromhex("7f00000100002a9f"), self.places[7])
        end, offsets = self.broker.store.max_physical_offset, self.broker.state.offsets
        back = {"group": "G", "offset": str(self.places[5]), "delayLevel": "0", "originTopic": "T"}
        reset = {"topic": "T", "group": "G", "timestamp": str(AT_MS), "isForce": "true"}
        directly = {"consumerGroup": "G", "clientId": "c@1", "msgId": message_id, "topic": "T"}
        client = self.connect()
        for code, fields in (
            (RequestCode.CONSUMER_SEND_MSG_BACK, back),
            (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset),
            (RequestCode.CONSUME_MESSAGE_DIRECTLY, directly),
            (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
            (RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "New", "topic": "T", "queueId": "1"}),
        ):
            self.refused(client, code, fields)
        self.broker.store.confirm_offset = self.places[27]
        self.refused(client, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "3"})
        self.assertEqual((self.broker.store.max_physical_offset, offsets.resets), (end, {}))
        self.assertEqual(self.consumer.heard(), [])


class ManyQueuesTests(ColdRequestCase):
    """Statistics of topics and groups: all queues are fetched side by side, however many they are."""

    requests = (
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "G"}),
        (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "G"}),
    )

    def test_h3_nobody_waits(self) -> None:
        """The entries of all queues are one fetch, and their messages another; what is said is the same as ever."""
        for code, fields in self.requests:
            self.forget()
            answer = self.answered(self.connect(), code, fields, tries=3)
            self.disk.cached = True
            at_once = self.connect().ask(code, fields)
            self.disk.cached = False
            self.assertEqual((answer.code, answer.body), (ResponseCode.SUCCESS, at_once.body), code)
            tenth = 5 if code == RequestCode.GET_TOPIC_STATS_INFO else 3  # of the last messages, and of those consumed
            self.assertEqual(answer.body.count(b":%d" % (AT_MS // 100 + tenth)), QUEUES, code)

    def test_not_all_is_confirmed(self) -> None:
        """The ends of all queues are sought side by side, too."""
        self.broker.store.confirm_offset = self.places[27]
        for code, fields in self.requests:
            self.forget()
            answer = self.answered(self.connect(), code, fields, tries=6)
            self.disk.cached = True
            at_once = self.connect().ask(code, fields)
            self.disk.cached = False
            self.assertEqual((answer.code, answer.body), (ResponseCode.SUCCESS, at_once.body), code)

    def test_a_disk_that_fails(self) -> None:
        """Whoever asked is told."""
        for code, fields in self.requests:
            self.refused(self.connect(), code, fields)

    def test_one_page_that_cannot_be_read(self) -> None:
        """Of many, which were read after it: it is not asked for again."""
        self.patch(fetches, "TURN_PARTS", 1)
        one = self.connect()
        one.say(one.command(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "G"}))
        self.disk.fail_at(1, times=4, only=["read"])  # entries of one queue: the first and the last, two at the offset
        self.let_go(4 * QUEUES)
        (answer,) = one.heard()
        self.assertEqual((answer.code, self.at_disk), (ResponseCode.SYSTEM_ERROR, 0))
        self.assertIn("/consumequeue/T/0/", answer.remark or "")
        self.assertEqual(len(self.flushLoggedErrors(DiskFailure)), 1)

    def test_too_many_queues(self) -> None:
        """Nothing is read of them."""
        self.patch(progress_requests, "BROKER_STATS_QUEUES_MAX", 3)
        answer = self.connect().ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
        self.assertEqual((answer.code, self.at_disk, self.waits), (ResponseCode.SYSTEM_ERROR, 0, 0))
        self.assertIn("more than 3 queues", answer.remark or "")

    def test_a_long_one_and_a_short_one(self) -> None:
        """The thread reads of each in its turn."""
        self.patch(fetches, "TURN_PARTS", 1)
        one, other = self.connect(), self.connect()
        one.say(one.command(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "G"}))
        other.say(other.command(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(self.places[3])}))
        self.let_go()
        self.assertEqual((len(other.heard()), self.at_disk), (1, 1))
        rounds = 0
        while self.at_disk:
            before = self.waits
            self.let_go()
            self.assertLessEqual(self.waits - before, 1)
            rounds += 1
        self.assertGreater(rounds, QUEUES)
        self.assertEqual([answer.code for answer in one.heard()], [ResponseCode.SUCCESS])

    def test_a_client_that_goes(self) -> None:
        """Nothing more is read for it, though much is left."""
        self.patch(fetches, "TURN_PARTS", 1)
        one = self.connect()
        one.say(one.command(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "G"}))
        self.let_go()
        one.close()
        before = self.waits
        self.let_go(3)
        self.assertEqual((self.waits, self.at_disk, self.threads[1].waiting), (before, 0, []))


class AnyRequestTests(ColdRequestCase):
    """All that a broker answers."""

    def test_h3_whoever_reads_is_declared(self) -> None:
        """No request has the reactor wait."""
        fields = {
            "topic": "T",
            "group": "G",
            "consumerGroup": "G",
            "queueId": "0",
            "offset": str(self.places[9]),
            "timestamp": str(AT_MS + 100),
            "isForce": "true",
            "clientId": "c@1",
            "key": "0",
            "maxNum": "9",
            "msgId": make_message_id(bytes.fromhex("7f00000100002a9f"), self.places[7]),
            "beginTimestamp": "0",
            "endTimestamp": str(1 << 50),
            "delayLevel": "0",
            "groupName": "G",
            "srcGroup": "G",
            "destGroup": "H",
            "producerGroup": "P",
            "statsName": "TOPIC_PUT_NUMS",
            "statsKey": "T",
            "commitOffset": "9",
        }
        self.broker.store.confirm_offset = self.places[27]
        waited: list[tuple[int, str]] = []
        self.patch(self.disk, "waited_for", lambda path: None if self.reading else waited.append((code, path)))
        last = (RequestCode.DELETE_SUBSCRIPTIONGROUP, RequestCode.DELETE_TOPIC_IN_BROKER)
        codes = sorted(self.broker.dispatcher.table, key=lambda code: (code in last, code))
        cold = 0
        for code in codes:
            for more in ({}, {"consumerGroup": "New", "group": "New"}, pull_fields(offset=3)):
                self.forget()
                client = self.connect()
                client.say(client.command(code, {**fields, **more}))
                cold += self.at_disk
                for _ in range(20):
                    self.let_go()
                client.close()
        self.flushLoggedErrors()
        self.assertEqual(waited, [])
        self.assertGreater(cold, 2 * len(fetched_by(Fetch.CONSUMERS) | fetched_by(Fetch.LOOK_UPS) | PULLS) - 8)
