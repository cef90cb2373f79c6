"""A disk that takes its time with a table: who waits for it, and who does not."""

from __future__ import annotations

import errno
from typing import Any

from rocketha.broker.role import BUSY, NOT_AVAILABLE, Role
from rocketha.broker.topics import TopicConfig
from rocketha.services.tables.waits import ANSWERS_BYTES_MAX, ANSWERS_MAX
from rocketha.services.waiting.parked_requests import PARKED_S
from rocketha.store import atomic_file
from rocketha.wire import json_dialect, record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.broker.support import topic_fields
from tests.services.broker_case import BrokerCase, Client, HeldWork, heartbeat, pull_fields, records, send_fields
from tests.services.tables_case import LedTrioCase

UPDATE_TOPIC = RequestCode.UPDATE_AND_CREATE_TOPIC
DISK_FAILED = ResponseCode.SERVICE_NOT_AVAILABLE


class SlowTableCase(BrokerCase):
    """Topic T is there; whatever is written of a table now waits for :meth:`write`."""

    def setUp(self) -> None:
        super().setUp()
        self.client = self.connect()
        self.assertEqual(self.send(self.client, b"first").code, 0)
        self.hold()

    def hold(self) -> None:
        self.file_work.held = True

    @property
    def file_work(self) -> HeldWork:
        work: Any = self.broker.core.works.files
        return work  # type: ignore[no-any-return]

    def write(self) -> None:
        """What is under way reaches the disk."""
        self.file_work.let_go()

    def say(self, *bodies: bytes, topic: str = "New", client: Client | None = None, **more: str) -> None:
        """Sends, each a read of its own."""
        by = client or self.client
        for body in bodies:
            by.say(by.command(RequestCode.SEND_MESSAGE_V2, send_fields(topic, **more), body))

    def request(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.client.say(self.client.command(code, fields, body))

    def codes(self, client: Client | None = None) -> list[int]:
        """Answers that came since the last look."""
        return [said.code for said in (client or self.client).heard() if said.is_response]

    def stored(self, topic: str = "New") -> list[bytes]:
        """Bodies of a topic's messages."""
        queue = self.broker.store.queues.get(topic, 0)
        end = 0 if queue is None else queue.next_offset
        offsets = [self.broker.store.physical_offset(topic, 0, number) for number in range(end)]
        return [record.decode(self.broker.store.message_at(offset) or b"").body for offset in offsets]

    def after_a_power_cut(self) -> None:
        """The broker is started again, on what its disk has."""
        self.disk.crash()
        self.service = self.start()
        self.client = self.connect()

    def nothing_left(self) -> None:
        parked = self.broker.dispatcher.parked
        self.assertEqual((len(parked), parked._budget.count, parked._timer), (0, 0, None))
        self.assertEqual(self.broker.dispatcher._saved_answers._budget.count, 0)


class SendTests(SlowTableCase):
    """Sends that make their topic."""

    def test_waits_for_its_topic(self) -> None:
        """Not in the log, not acknowledged, before the topic is on the disk."""
        end = self.broker.store.max_physical_offset
        self.say(b"a")
        self.assertEqual((self.codes(), self.broker.store.max_physical_offset), ([], end))
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([0], [b"a"]))
        self.nothing_left()
        self.after_a_power_cut()
        self.assertIn("New", self.broker.state.topics)

    def test_nobody_else_waits(self) -> None:
        """Other topics, pulls, commits, heartbeats, and what an administrator asks."""
        self.say(b"a")
        self.assertEqual(self.send(self.client, b"second").code, 0)
        answer = self.client.ask(RequestCode.PULL_MESSAGE, pull_fields())
        self.assertEqual([each.body for each in records(answer)], [b"first", b"second"])
        commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
        self.assertEqual(self.client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code, 0)
        self.assertEqual(self.client.ask(RequestCode.GET_BROKER_CONFIG).code, 0)
        self.assertIn(b"New", self.client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
        self.assertEqual(self.stored(), [])

    def test_upkeep_of_the_store(self) -> None:
        """Syncing thousands of queues, or filling the log's next file, takes longer than a producer waits: a table
        does not wait for that."""
        self.file_work.held = False
        upkeep: Any = self.broker.core.works.upkeep
        upkeep.held = True
        self.advance(11.0)
        self.assertNotEqual(upkeep.waiting, [])
        self.say(b"a")
        self.request(UPDATE_TOPIC, topic_fields("Made"))
        self.assertEqual((self.codes(), self.stored()), ([0, 0], [b"a"]))
        upkeep.held = False
        upkeep.let_go()
        self.stop()

    def test_order(self) -> None:
        """Sends to one topic are stored in the order in which they came, while it changes and after."""
        self.say(b"a", b"b")
        self.request(UPDATE_TOPIC, topic_fields("New", 9))
        self.say(b"c")
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([], []))  # the topic is another one than was written
        self.say(b"d")
        self.write()
        self.assertEqual(self.stored(), [b"a", b"b", b"c", b"d"])
        self.assertEqual(self.codes(), [0] * 5)
        self.say(b"e")
        self.assertEqual(self.stored()[-1:], [b"e"])
        self.nothing_left()

    def test_many_topics(self) -> None:
        """Two writes for all that are made during the first."""
        for number in range(50):
            self.say(b"x", topic=f"New{number}")
        self.assertEqual(len(self.file_work.waiting), 1)
        self.write()
        self.assertEqual(self.codes(), [0])
        self.write()
        self.assertEqual((self.codes(), self.file_work.waiting), ([0] * 49, []))

    def test_a_changed_topic(self) -> None:
        """Of one that has been there, too: a message in a queue that it will not have after a crash can not be
        reached.  Producers that were served before notice."""
        self.say(b"second", topic="T")
        self.assertEqual(self.codes(), [0])
        self.request(UPDATE_TOPIC, topic_fields("T", 12))
        self.say(b"far", topic="T", queue_id=11)  # type: ignore[arg-type]
        self.say(b"near", topic="T")
        self.assertEqual((self.codes(), self.stored("T")), ([], [b"first", b"second"]))
        self.write()
        self.assertEqual((self.codes(), self.stored("T")), ([0, 0, 0], [b"first", b"second", b"near"]))
        self.assertEqual(self.broker.store.max_offset("T", 11), 1)

    def test_delayed(self) -> None:
        """A delayed message is one of the schedule topic; where it goes has to be there all the same."""
        self.say(b"later", properties="UNIQ_KEY\x01" + "B" * 32 + "\x02DELAY\x011\x02")
        self.assertEqual((self.codes(), self.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 0)), ([], 0))
        self.write()
        self.assertEqual((self.codes(), self.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 0)), ([0], 1))

    def test_sent_back(self) -> None:
        """The group's retry topic, and its topic of dead letters."""
        offset = self.broker.store.physical_offset("T", 0, 0)
        fields = {"group": "G", "offset": str(offset), "delayLevel": "1"}
        self.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        self.assertEqual(self.codes(), [])
        self.write()
        self.assertEqual((self.codes(), self.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 0)), ([0], 1))
        self.request(RequestCode.CONSUMER_SEND_MSG_BACK, {**fields, "delayLevel": "-1"})
        self.assertEqual((self.codes(), self.broker.store.max_offset("%DLQ%G", 0)), ([], 0))
        self.write()
        self.assertEqual((self.codes(), self.broker.store.max_offset("%DLQ%G", 0)), ([0], 1))

    def test_dead_letters_sent(self) -> None:
        """A consumer that sends to its retry topic too often: the topic of dead letters is new."""
        self.request(RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        self.write()
        self.write()
        self.assertEqual(self.codes(), [0])
        self.say(b"dead", topic="%RETRY%G", j="17", l="16")
        self.assertEqual((self.codes(), self.broker.store.max_offset("%DLQ%G", 0)), ([], 0))
        self.write()
        self.assertEqual((self.codes(), self.broker.store.max_offset("%DLQ%G", 0)), ([0], 1))

    def test_the_disk_fails(self) -> None:
        """Whoever waited is refused; nothing is stored; the next send tries again."""
        self.say(b"a", b"b")
        self.say(b"other", topic="Newer")
        self.disk.fail_at(1, errno.EIO, only=["sync"])
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([DISK_FAILED] * 2, []))
        self.assertEqual(self.broker.core.parts.stats.put_failed, 2)
        self.disk.heal()
        self.say(b"c")  # before the write that the other one waits for has ended
        self.assertEqual((self.codes(), self.stored()), ([], []))
        self.write()
        self.assertEqual((self.codes(), self.stored(), self.stored("Newer")), ([0, 0], [b"c"], [b"other"]))
        self.nothing_left()

    def test_other_topics_while_the_table_fails(self) -> None:
        """Their messages are taken: no crash would take their topics back."""
        self.say(b"a")
        self.disk.fail_at(1, errno.EIO, only=["sync"])
        self.write()
        self.assertEqual(self.codes(), [DISK_FAILED])
        self.disk.heal()
        self.assertEqual(self.send(self.client, b"second").code, 0)
        self.assertEqual(self.file_work.waiting, [])
        self.say(b"b")  # which tries again
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([0], [b"b"]))

    def test_tried_again_every_second(self) -> None:
        self.say(b"a")
        self.disk.fail_at(1, errno.EIO, only=["sync"])
        self.write()
        self.assertEqual(self.codes(), [DISK_FAILED])
        self.disk.heal()
        self.advance(1.1)
        self.write()
        self.say(b"b")
        self.assertEqual((self.codes(), self.stored()), ([0], [b"b"]))

    def test_too_long(self) -> None:
        """Refused while its producer waits; it is not stored later."""
        self.say(b"a")
        self.advance(PARKED_S + 0.1)
        self.assertEqual(self.codes(), [BUSY.code])
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([], []))
        self.nothing_left()

    def test_too_long_for_a_topic_that_changes_all_the_time(self) -> None:
        """Other writes of the table do not make it wait longer."""
        self.say(b"a")
        for queues in (9, 10, 11):
            self.request(UPDATE_TOPIC, topic_fields("New", queues))
            self.advance(PARKED_S / 4)
            self.write()
        self.codes()
        self.advance(PARKED_S / 4 + 0.1)
        self.assertEqual(self.codes(), [BUSY.code])
        self.assertEqual(self.stored(), [])

    def test_too_long_in_all(self) -> None:
        """A send that has to wait once more, for its topic that was deleted meanwhile, waits no longer for that."""
        self.say(b"a")
        self.request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "New"})
        self.advance(PARKED_S - 0.5)
        self.write()
        self.assertEqual((len(self.file_work.waiting), self.stored()), (1, []))  # of the topic that was made again
        self.advance(0.3)
        self.assertEqual(self.codes(), [])
        self.advance(0.3)
        self.assertEqual(self.codes(), [BUSY.code])
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([0], []))
        self.nothing_left()

    def test_too_long_for_the_log_and_the_topic(self) -> None:
        """Who waited for a change of the log waits for the topic only as long as is left; who came later, longer."""
        log_work: Any = self.broker.core.works.log
        log_work.held = True
        self.broker.core.changes.run(lambda: None)
        self.say(b"a")
        self.advance(PARKED_S - 0.5)
        log_work.held = False
        log_work.let_go()
        self.say(b"b")
        self.advance(0.3)
        self.assertEqual(self.codes(), [])
        self.advance(0.3)
        self.assertEqual(self.codes(), [BUSY.code])
        self.advance(PARKED_S - 0.7)
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([0], [b"b"]))
        self.nothing_left()

    def test_whose_client_is_gone(self) -> None:
        """Nobody would hear of it; of a oneway send nobody does."""
        other = self.connect()
        self.say(b"gone", client=other)
        other.say(other.command(RequestCode.SEND_MESSAGE_V2, send_fields("New"), b"oneway", oneway=True))
        self.say(b"there")
        other.close()
        self.write()
        self.assertEqual(self.stored(), [b"oneway", b"there"])
        self.nothing_left()

    def test_deleted_meanwhile(self) -> None:
        """The send is served as one that comes then: it makes its topic again."""
        self.say(b"a")
        self.request(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "New"})
        self.write()
        self.assertEqual(self.stored(), [])
        self.write()
        self.write()
        self.assertEqual((sorted(self.codes()), self.stored()), ([0, 0], [b"a"]))
        self.after_a_power_cut()
        self.assertIn("New", self.broker.state.topics)

    def test_no_master_any_more(self) -> None:
        """At once it is like any send that comes then: passed on, if somebody else is the master in time."""
        self.say(b"a")
        self.broker.watch.unknown()
        self.broker.replication._end_role("a test says so")
        self.assertIs(self.broker.replication.role, Role.FENCED)
        self.nothing_left()
        self.assertEqual((self.codes(), self.broker.forwarding.kept), ([], 1))
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([], []))
        self.advance(2.1)
        self.assertEqual((self.codes(), self.stored()), ([NOT_AVAILABLE.code], []))

    def test_while_the_log_is_changed(self) -> None:
        """The table is on the disk before the store may be touched: served after that, in order."""
        log_work: Any = self.broker.core.works.log
        self.say(b"a")
        log_work.held = True
        self.broker.core.changes.run(lambda: None)
        self.assertTrue(self.broker.core.changes.busy)
        self.say(b"b")
        self.write()
        self.assertEqual((self.codes(), self.stored()), ([], []))
        log_work.held = False
        log_work.let_go()
        self.assertEqual((self.codes(), self.stored()), ([0, 0], [b"a", b"b"]))
        self.nothing_left()


class AnswerTests(SlowTableCase):
    """Requests that change tables."""

    def test_answered_when_it_is_saved(self) -> None:
        self.request(UPDATE_TOPIC, topic_fields("Made"))
        self.assertEqual(self.codes(), [])
        self.write()
        self.assertEqual(self.codes(), [0])
        self.nothing_left()
        self.after_a_power_cut()
        self.assertIn("Made", self.broker.state.topics)

    def test_the_same_once_more(self) -> None:
        """It changes nothing, and promises as much."""
        for _ in range(2):
            self.request(UPDATE_TOPIC, topic_fields("Made"))
        self.assertEqual(self.codes(), [])
        self.disk.fail_at(1, errno.EIO, only=["sync"])
        self.write()
        self.assertEqual(self.codes(), [ResponseCode.SYSTEM_ERROR] * 2)
        self.disk.heal()
        self.request(UPDATE_TOPIC, topic_fields("Made"))
        self.assertEqual(self.codes(), [])
        self.write()
        self.assertEqual(self.codes(), [0])

    def test_in_order_and_together(self) -> None:
        """The first has a write of its own, all others the next."""
        opaques = []
        for number in range(20):
            command = self.client.command(UPDATE_TOPIC, topic_fields(f"Made{number}"))
            opaques.append(command.opaque)
            self.client.say(command)
        self.write()
        self.assertEqual([said.opaque for said in self.client.heard()], opaques[:1])
        self.write()
        self.assertEqual([said.opaque for said in self.client.heard()], opaques[1:])
        self.assertEqual(self.file_work.waiting, [])

    def test_every_maker_is_told_of_a_failure(self) -> None:
        """Those of the write that failed; the next one has their changes too."""
        for number in range(3):
            self.request(UPDATE_TOPIC, topic_fields(f"Made{number}"))
        self.disk.fail_at(1, errno.ENOSPC, only=["write"])
        self.write()
        (said,) = self.client.heard()
        self.assertEqual(said.code, ResponseCode.SYSTEM_ERROR)
        self.assertIn("could not be saved", said.remark or "")
        self.disk.heal()
        self.write()
        self.assertEqual(self.codes(), [0, 0])
        self.after_a_power_cut()
        self.assertLessEqual({"Made0", "Made1", "Made2"}, set(self.broker.state.topics.table))

    def test_groups(self) -> None:
        """Made and deleted by an administrator, or by a consumer that is there; its retry topic is a second table."""
        group = json_dialect.dumps({"groupName": "Made"})
        for code, fields, body in (
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group),
            (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "Made"}, b""),
            (RequestCode.HEART_BEAT, None, heartbeat("c", "G", "T")),
        ):
            self.request(code, fields, body)
            self.assertEqual(self.codes(), [], code)
            self.write()
            self.assertEqual(self.codes(), [0], code)
        self.request(RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        self.assertEqual(self.codes(), [0])

    def test_a_pull_that_makes_its_group(self) -> None:
        """Waits for nothing: after a crash the next one makes the group again."""
        self.request(RequestCode.PULL_MESSAGE, pull_fields(consumerGroup="Fresh"))
        self.assertEqual(self.codes(), [0])
        self.assertIn("Fresh", self.broker.state.groups.table)
        self.assertEqual(len(self.file_work.waiting), 1)
        self.write()
        self.nothing_left()
        self.after_a_power_cut()
        self.assertIn("Fresh", self.broker.state.groups.table)

    def test_no_change(self) -> None:
        """Refused requests and those of another kind are answered at once."""
        self.request(UPDATE_TOPIC, topic_fields("Made"))
        self.request(UPDATE_TOPIC, topic_fields("TBW102"))
        self.request(RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})
        self.assertEqual(self.codes(), [ResponseCode.INVALID_PARAMETER, 0])
        self.broker.dispatcher.table[UPDATE_TOPIC] = lambda *given: NOT_AVAILABLE  # as under controllers, not master
        self.request(UPDATE_TOPIC, topic_fields("Made"))
        self.assertEqual(self.codes(), [NOT_AVAILABLE.code])

    def test_oneway(self) -> None:
        self.client.say(self.client.command(UPDATE_TOPIC, topic_fields("Made"), oneway=True))
        self.write()
        self.assertEqual(self.codes(), [])
        self.nothing_left()

    def test_bounded(self) -> None:
        """Beyond that there is an error at once, that says so; one client gets half, and others have room."""
        other, half = self.connect(), ANSWERS_MAX // 2
        for _ in range(half + 1):
            self.request(UPDATE_TOPIC, topic_fields("Made"))
        (said,) = self.client.heard()
        self.assertEqual(said.code, ResponseCode.SYSTEM_ERROR)
        other.say(other.command(UPDATE_TOPIC, topic_fields("Made")))
        self.assertEqual(self.codes(other), [])
        self.write()
        self.assertEqual((self.codes(), self.codes(other)), ([0] * half, [0]))
        self.nothing_left()

    def test_bounded_in_bytes(self) -> None:
        """A request is kept until it is answered."""
        other, size = self.connect(), 4_000_000
        room = ANSWERS_BYTES_MAX // 2 // size
        for _ in range(room + 2):
            self.request(UPDATE_TOPIC, topic_fields("Made"), bytes(size))
        self.assertEqual(self.codes(), [ResponseCode.SYSTEM_ERROR] * 2)
        other.say(other.command(UPDATE_TOPIC, topic_fields("Made"), bytes(size)))
        self.assertEqual(self.codes(other), [])
        self.write()
        self.assertEqual((self.codes(), self.codes(other)), ([0] * room, [0]))
        self.nothing_left()


class StopTests(SlowTableCase):
    """While a table is being written."""

    def test_makers_hear_before_their_connection_ends(self) -> None:
        self.request(UPDATE_TOPIC, topic_fields("Made"))
        self.request(UPDATE_TOPIC, topic_fields("Later"))
        stopped = self.service.stopService()
        self.assertNoResult(stopped)
        self.assertFalse(self.client.protocol.closed)
        self.write()
        self.assertNoResult(stopped)
        self.file_work.held = False
        self.write()
        self.successResultOf(stopped)
        self.assertEqual(self.codes(), [0, 0])
        self.after_a_power_cut()
        self.assertLessEqual({"Made", "Later"}, set(self.broker.state.topics.table))

    def test_sends_are_not_stored_any_more(self) -> None:
        self.say(b"a")
        stopped = self.service.stopService()
        self.nothing_left()
        self.file_work.held = False
        self.write()
        self.successResultOf(stopped)
        self.assertEqual(self.codes(), [NOT_AVAILABLE.code])
        self.after_a_power_cut()
        self.assertIn("New", self.broker.state.topics)
        self.assertEqual(self.stored(), [])

    def test_a_disk_that_fails(self) -> None:
        """What could not be saved is tried once more when the store closes."""
        self.request(UPDATE_TOPIC, topic_fields("Made"))
        stopped = self.service.stopService()
        self.disk.fail_at(1, errno.EIO, only=["sync"])
        self.file_work.held = False
        self.write()
        self.disk.heal()
        self.assertEqual(self.codes(), [ResponseCode.SYSTEM_ERROR])
        self.successResultOf(stopped)
        self.after_a_power_cut()
        self.assertIn("Made", self.broker.state.topics)


class CrashTests(SlowTableCase):
    """Power fails at each operation of a write."""

    def test_what_was_acknowledged_is_there(self) -> None:
        """A topic that somebody was told of, and one that has a message."""
        whole = 0
        for number in range(1, 60):
            self.hold()
            made, auto = f"Made{number}", f"Auto{number}"
            self.request(UPDATE_TOPIC, topic_fields(f"First{number}"))
            self.request(UPDATE_TOPIC, topic_fields(made))
            self.say(b"x", topic=auto)
            self.write()  # has the first one
            self.disk.fail_at(number, times=10_000)
            self.write()
            told = {said.opaque: said.code for said in self.client.heard()}
            messages = self.broker.store.max_offset(auto, 0)
            self.disk.heal()
            self.after_a_power_cut()
            topics = self.broker.state.topics
            with self.subTest(number=number):
                self.assertIn(f"First{number}", topics)
                first, second, third = sorted(told)
                self.assertEqual(told[first], 0)
                if 0 in (told[second], told[third]) or messages:
                    self.assertIn(made, topics)
                    self.assertIn(auto, topics)
                whole += told[third] == 0
                if self.broker.store.max_offset(auto, 0):
                    self.assertIn(auto, topics)
            if whole > 2:
                break
        self.assertGreater(number, 8)
        self.assertGreater(whole, 2)


class TermTests(LedTrioCase):
    """A master of three whose disk takes seconds for a table."""

    def setUp(self) -> None:
        super().setUp()
        self.host("a").disk.slow = 3000.0

    def make(self) -> list[Command]:
        """Its maker has asked, and the table is being written."""
        answers = self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.2)
        self.assertEqual(answers, [])
        return answers

    def said(self, answers: list[Command]) -> tuple[int, str]:
        """What the maker is told in the end."""
        self.world.run(30.0)
        (answer,) = answers
        return answer.code, answer.remark or ""

    def test_the_wait_for_replicas_begins_when_it_is_saved(self) -> None:
        """They are given as long as with a quick disk."""
        answers = self.make()
        self.world.run(self.ack_timeout_ms / 1000)
        self.assertEqual(answers, [])
        self.assertIn("New", self.one.saved("topics"))  # they need not wait for it
        self.assertEqual(self.said(answers), (0, ""))
        self.assertIn("New", self.master.saved("topics"))

    def test_a_replica_with_a_slow_disk(self) -> None:
        """It says that it has what is on its disk."""
        self.host("a").disk.slow, self.host("b").disk.slow = 1.0, 200.0
        answers = self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        while not answers:
            self.world.run(0.001)
        self.assertEqual(answers[0].code, 0)
        self.assertIn("New", self.one.saved("topics"))

    def test_a_replica_that_is_away(self) -> None:
        """It is waited for, from then on."""
        self.host("c").freeze(whole=False)
        answers = self.make()
        while b"New" not in (atomic_file.load(self.host("a").disk, "/store/config/topics.json") or b""):
            self.world.run(0.1)
        self.world.run(self.ack_timeout_ms / 1000 - 0.3)
        self.assertEqual(answers, [])
        code, remark = self.said(answers)
        self.assertEqual(code, ResponseCode.SYSTEM_ERROR)
        self.assertIn("replicas 3 did not take it", remark)

    def test_the_role_is_lost_meanwhile(self) -> None:
        """Whether the next master has it, nobody knows."""
        answers = self.make()
        self.master.watch.unknown()
        self.assertIn("it may or may not stay", self.said(answers)[1])

    def test_lost_and_won_again(self) -> None:
        """Another was master between, who may have undone it."""
        answers = self.make()
        self.master.watch.unknown()
        self.master.watch.own(2, frozenset({1, 2, 3}))
        self.assertIn("it may or may not stay", self.said(answers)[1])

    def test_elected_again(self) -> None:
        """Nobody else was."""
        answers = self.make()
        self.lead(self.master, self.one, self.two, epoch=2)
        self.assertEqual(self.said(answers), (0, ""))

    def test_one_that_becomes_master_while_it_saves_what_it_took(self) -> None:
        """The former master's table is written, then its own; topics count as saved with the last of them."""
        self.host("a").disk.slow = 1.0
        self.host("b").disk.slow = 3000.0
        self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.2)
        self.assertIn("New", self.one.state.topics.unsaved)
        self.one.state.topics.put(TopicConfig("Own"), self.one.now_ms())
        self.lead(self.one, self.two, epoch=2)
        self.assertIn("New", self.one.state.topics)
        self.world.run(30.0)
        saved = self.one.saved("topics")
        self.assertIn("New", saved)
        self.assertIn("Own", saved)
        self.assertEqual(saved.data_version, self.one.state.topics.data_version)
