"""A slave takes its master's tables, and what a master acknowledged is at its slaves."""

from __future__ import annotations

import itertools
import random
from typing import Any
from unittest import mock

from twisted.internet import defer
from twisted.logger import capturedLogs

from rocketha.broker import progress_requests
from rocketha.broker.metadata_waits import STRANGER_MS
from rocketha.broker.state import BrokerRules
from rocketha.broker.topics import TopicConfig
from rocketha.errors import DiskFailure
from rocketha.services.replication.metadata_master import AWAIT_METADATA, version_text
from rocketha.store.deleted_topics import Complete, LastRecord
from rocketha.wire import json_dialect
from rocketha.wire.remoting import Answer, Command
from tests.broker.support import topic_fields
from tests.services.tables_case import FilledPairCase, LedTrioCase, Node, TablesCase, fill

UPDATE_TOPIC, DELETE_TOPIC, UPDATE_GROUP, UPDATE_OFFSET = 17, 215, 200, 15
ALL_TOPICS, ALL_OFFSETS, ALL_DELAYS, ALL_GROUPS, ALL_MODES = 21, 43, 45, 201, 402


def same_tables(one: Node, other: Node) -> bool:
    """Whether two brokers would serve the same clients alike."""
    mine, theirs = one.state, other.state
    return (
        mine.topics.table == theirs.topics.table
        and mine.groups.table == theirs.groups.table
        and mine.groups.forbidden == theirs.groups.forbidden
        and mine.offsets.committed == theirs.offsets.committed
        and one.delays.offsets == other.delays.offsets
        and mine.modes.modes == theirs.modes.modes
    )


class OurMasterTests(FilledPairCase):
    def setUp(self) -> None:
        super().setUp()
        self.lead(self.master, self.slave)

    def test_all_tables_at_once(self) -> None:
        """A slave that begins to follow does not wait for a period."""
        self.world.run(0.1)
        self.assertTrue(same_tables(self.master, self.slave))
        version = self.master.state.topics.data_version
        self.assertEqual(self.slave.state.topics.data_version, version)
        self.assertEqual(version.state_version, 1)

    def test_they_are_on_the_disk(self) -> None:
        """A slave that loses its power has its master's topics and groups, with their versions."""
        self.world.run(0.1)
        self.host("b").power_off()
        self.host("b").start()
        self.world.run(0.1)
        again = self.node("b")
        self.assertEqual(again.state.topics.table, self.master.state.topics.table)
        self.assertEqual(again.state.topics.data_version, self.master.state.topics.data_version)
        self.assertEqual(again.state.groups.table, self.master.state.groups.table)
        self.assertEqual(again.state.modes.modes, self.master.state.modes.modes)

    def test_a_change_comes_within_round_trips(self) -> None:
        """The question is under way all the time."""
        self.world.run(3.3)
        self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.1)
        self.assertIn("New", self.slave.state.topics)
        self.assertIn("New", self.slave.told)  # so that it is registered and pulls of it run again

    def test_offsets_within_a_second(self) -> None:
        """They change all the time and are asked for once a second."""
        self.world.run(2)
        self.ask(self.master, UPDATE_OFFSET, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "9"})
        self.master.delays.advance(1, 8, self.master.now_ms())
        self.world.run(1.1)
        self.assertEqual(self.slave.state.offsets.committed, {"T@G": {1: 17, 0: 9}})
        self.assertEqual(self.slave.delays.offsets, {2: 5, 1: 8})
        self.assertTrue(self.slave.state.offsets.dirty)  # so that they are saved
        self.assertTrue(self.slave.delays.dirty)

    def test_a_large_table_of_offsets_less_often(self) -> None:
        """400 kB every four seconds, not every one."""
        for number in range(9000):
            self.master.state.offsets.commit(f"Group-{number:040d}", "T", 0, number, lambda: 1)
        self.world.run(1)
        self.master.asked.clear()
        for _ in range(30):
            self.master.state.offsets.commit("G", "T", 0, random.Random(1).randrange(9), lambda: 1)
            self.world.run(1)
        self.assertLessEqual(self.master.asked.count(ALL_OFFSETS), 8)
        self.assertGreaterEqual(self.master.asked.count(ALL_OFFSETS), 5)
        self.world.run(6)
        self.assertEqual(self.slave.state.offsets.committed, self.master.state.offsets.committed)

    def test_offsets_that_no_frame_holds(self) -> None:
        """They come in parts, whole; what was deleted at the master goes."""
        for number in range(500):
            self.master.state.offsets.commit(f"Group-{number:03d}", "T", number % 4, number, lambda: 1)
        with mock.patch.object(progress_requests, "OFFSETS_PAGE_BYTES", 2000):
            self.world.run(2)
            self.assertEqual(self.slave.state.offsets.committed, self.master.state.offsets.committed)
            self.assertGreater(self.master.asked.count(ALL_OFFSETS), 10)
            for group in ("Group-000", "Group-250", "Group-499"):
                self.master.state.offsets.remove_group(group)
            self.world.run(2)
        self.assertEqual(len(self.master.state.offsets.committed), 497 + 1)
        self.assertEqual(self.slave.state.offsets.committed, self.master.state.offsets.committed)

    def test_an_idle_cluster_is_quiet(self) -> None:
        """One small question a second and nothing fetched."""
        self.world.run(1)
        self.master.asked.clear()
        self.world.run(20)
        self.assertEqual(set(self.master.asked), {AWAIT_METADATA})
        self.assertLessEqual(len(self.master.asked), 21)

    def test_a_deleted_topic(self) -> None:
        """Regression F4 (apache/rocketmq #7263): its queues and offsets go with it, so that one of the same name begins
        anew."""
        self.world.run(0.1)
        self.slave.store.put("T", 0, 1)
        self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(0.1)
        self.assertNotIn("T", self.slave.state.topics)
        self.assertEqual(self.slave.state.offsets.committed, {})
        self.assertEqual(self.slave.store.deleted, ["T"])
        self.assertIn("T", self.slave.told)

    def test_what_was_deleted_travels(self) -> None:
        """With the table, to the disk too, and again when a cut of the log has lowered it."""
        self.master.store.put("T", 0, 1)
        self.master.store.put("Other", 0, 2)
        self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(0.1)
        table = self.master.store.deleted_topics.table
        self.assertEqual(table["T"].below, self.master.store.max_physical_offset)
        self.assertEqual(self.slave.store.deleted_topics.table, table)
        self.assertFalse(self.slave.store.deleted_topics.dirty)
        self.slave.store.deleted_topics.lower(100, LastRecord(0, 0))
        self.world.run(1.5)
        self.assertEqual(self.slave.store.deleted_topics.table, table)

    def test_how_far_the_topics_are_complete(self) -> None:
        """It is said once the table is on the disk: after a crash between the two, a topic that only the lost table has
        would be taken for deleted."""
        self.slave.store.put("T", 0, self.slave.wall_ms())  # of an empty log every table is complete
        self.world.run(0.1)
        deleted, save = self.slave.store.deleted_topics, self.slave.save
        deleted.topics_complete(0, LastRecord(0, 0), self.master.state.topics.data_version.numbers)
        before, end = deleted.complete, self.slave.store.max_physical_offset
        self.slave.save = lambda which: (  # type: ignore[method-assign]
            defer.succeed(DiskFailure(which, "write", 28, "no space left")) if which == "topics" else save(which)
        )
        self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(2)
        self.assertIn("New", self.slave.state.topics)
        self.assertEqual(deleted.complete, before)
        self.slave.save = save  # type: ignore[method-assign]
        self.world.run(3)
        version = self.master.state.topics.data_version.numbers
        self.assertEqual((deleted.complete, deleted.dirty), (Complete(end, LastRecord(0, 0), version), False))

    def test_deleted_and_made_again_before_the_slave_looked(self) -> None:
        """Regression F4: its old offsets go all the same."""
        self.world.run(0.1)
        self.host("b").freeze(whole=False)
        self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(0.1)
        self.ask(self.master, UPDATE_TOPIC, topic_fields("T"))
        self.world.run(0.1)
        self.host("b").thaw()
        self.world.run(1.5)
        self.assertIn("T", self.slave.state.topics)
        self.assertEqual(self.slave.state.offsets.committed, {})

    def test_a_deleted_topic_while_the_log_is_cut(self) -> None:
        """Nobody else may touch the store then: it goes when that is over."""
        self.world.run(0.1)
        self.slave.store_busy = True
        answers = self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(0.5)
        self.assertEqual(self.slave.store.deleted, [])
        self.slave.store_busy = False
        self.world.run(0.2)
        self.assertEqual(self.slave.store.deleted, ["T"])
        self.assertEqual([answer.code for answer in answers], [0])

    def test_what_does_not_change_is_not_touched(self) -> None:
        """Regression F1: each entry stays the object that it is; sends know their topic by it."""
        self.world.run(0.1)
        before = dict(self.slave.state.topics.table)
        self.slave.told.clear()
        self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.1)
        for name, config in before.items():
            self.assertIs(self.slave.state.topics.table[name], config)
        self.assertEqual(self.slave.told, ["New"])

    def test_own_topics_and_groups_stay(self) -> None:
        """Every broker has its own, and a Java master has others than we."""
        del self.master.state.topics.table["RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"]
        del self.master.state.groups.table["TOOLS_CONSUMER"]
        self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.2)
        self.assertIn("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", self.slave.state.topics)
        self.assertIn("TOOLS_CONSUMER", self.slave.state.groups)

    def test_a_master_that_lost_its_files(self) -> None:
        """Its table is behind: what it has comes, what it lacks stays, until its version has passed ours."""
        self.lead(self.master, self.slave, epoch=0)
        self.world.run(0.1)
        kept = dict(self.slave.state.topics.table)
        self.host("a").kill()
        self.host("a").disk.remove_tree("/store/config")
        self.host("a").start()
        self.world.run(0.1)
        again = self.node("a")
        again.watch.own(0, frozenset())
        again.state.topics.put(TopicConfig("Since"), again.now_ms())
        self.world.run(3)
        self.assertEqual(set(self.slave.state.topics.table), {*kept, "Since"})
        self.assertIn("G", self.slave.state.groups)
        self.assertEqual(self.slave.state.offsets.committed, {"T@G": {1: 17}})
        self.assertEqual(self.slave.state.groups.forbidden, {"G": {"T": 4}})
        self.follow(self.slave, again, 5)
        again.watch.own(5, frozenset())
        self.world.run(1)
        self.assertNotIn("T", self.slave.state.topics)

    def test_half_an_answer_changes_nothing(self) -> None:
        """Nor does one that is broken, empty or of another kind; the other tables are taken, and it comes right."""
        whole = json_dialect.dumps(self.master.state.topics.as_json())
        empty = json_dialect.dumps({"dataVersion": {"counter": 99, "stateVersion": 9}, "topicConfigTable": {}})
        answers = [
            Answer(fields={"totalTopicNum": "9999"}, body=whole),
            Answer(fields={"totalTopicNum": "0"}, body=empty),
            Answer(body=whole[:-20]),
            Answer(body=b"null"),
            Answer(1, "No topic in this broker"),
        ]
        before = dict(self.slave.state.topics.table)
        for answer in answers:
            self.follow(self.slave, self.master, 0)
            self.slave.watch.unknown()
            self.master.answer_with[ALL_TOPICS] = lambda command, answer=answer: answer  # type: ignore[misc]
            self.master.state.offsets.commit("G", "T", 0, answers.index(answer), lambda: 1)
            self.follow(self.slave, self.master)
            self.world.run(0.5)
            self.assertEqual(self.slave.state.topics.table, before)
            self.assertEqual(self.slave.state.topics.data_version.counter, 0)
            self.assertEqual(self.slave.state.offsets.committed, self.master.state.offsets.committed)
        del self.master.answer_with[ALL_TOPICS]
        self.world.run(2.5)
        self.assertTrue(same_tables(self.master, self.slave))

    def test_a_table_that_cannot_be_saved(self) -> None:
        """Is not said to be here before it is on the disk."""
        self.world.run(0.1)
        self.slave.disk_fails = True
        answers = self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.5)
        self.assertEqual(answers, [])
        self.slave.disk_fails = False
        self.world.run(1.2)
        self.assertEqual([answer.code for answer in answers], [0])
        self.assertIn("New", self.slave.saved("topics"))

    def test_a_demoted_broker_gives_no_tables(self) -> None:
        """Its question is answered with a refusal, and asked again until who was named master is one."""
        self.world.run(0.1)
        self.master.watch.unknown()
        self.master.state.topics.put(TopicConfig("Of nobody"), self.master.now_ms())
        self.world.run(3)
        self.assertNotIn("Of nobody", self.slave.state.topics)
        self.master.watch.own(2, frozenset({1, 2}))
        self.world.run(0.5)
        self.assertIn("Of nobody", self.slave.state.topics)

    def test_a_master_that_comes_back(self) -> None:
        """Nobody has to be told."""
        self.world.run(0.1)
        self.host("a").kill()
        self.world.run(5)
        self.host("a").start()
        self.world.run(0.1)
        again = self.node("a")
        again.state.topics.put(TopicConfig("Since"), again.now_ms())
        again.watch.own(1, frozenset({1, 2}))
        self.world.run(2)
        self.assertIn("Since", self.slave.state.topics)

    def test_another_master(self) -> None:
        """What is under way with the former one is dropped."""
        self.world.run(0.1)
        other = self.add("c", 3)
        other.state.topics.put(TopicConfig("Of c"), other.now_ms())
        self.lead(other, self.slave, epoch=2)
        self.master.asked.clear()
        self.world.run(3)
        self.assertIn("Of c", self.slave.state.topics)
        self.assertNotIn("T", self.slave.state.topics)
        self.assertEqual(self.master.asked, [])

    def test_how_old_the_tables_are(self) -> None:
        """For people: known while the master answers, growing while it does not."""
        self.assertIsNone(self.slave.metadata.age_s)
        self.assertIsNone(self.master.metadata.age_s)
        self.world.run(5)
        assert self.slave.metadata.age_s is not None
        self.assertLess(self.slave.metadata.age_s, 1.2)
        self.host("a").kill()
        self.world.run(5)
        self.assertGreater(self.slave.metadata.age_s, 4.9)

    def test_stop(self) -> None:
        """Leaves no timer and no connection."""
        self.world.run(0.1)
        self.slave.metadata.stop()
        self.master.asked.clear()
        self.world.run(10)
        self.assertEqual(self.master.asked, [])


class FaultTests(FilledPairCase):
    """Exceptions that nobody reckoned with, on the slave."""

    def setUp(self) -> None:
        super().setUp()
        self.raised: list[float] = []

    def wrong(self, *_: Any) -> None:
        self.raised.append(self.world.now)
        raise ZeroDivisionError("seldom seen")

    def raises_faults(self) -> None:
        """While it lasts they come at longer and longer intervals, are counted, and logged once."""
        with capturedLogs() as events:
            self.world.run(60)
        self.assertEqual(self.slave.metadata.faults, len(self.raised))
        pauses = [after - before for before, after in itertools.pairwise(self.raised)]
        for pause, expected in zip(pauses[:4], (1, 2, 4, 5), strict=True):
            self.assertAlmostEqual(pause, expected, delta=0.3)
        self.assertLess(max(pauses), 5.3)
        self.assertLess(len(self.raised), 17)
        traces = [event for event in events if "seldom seen" in str(event.get("why"))]
        self.assertEqual(len(traces), 1)
        self.assertIn("in wrong", traces[0]["why"])

    def test_in_one_table(self) -> None:
        """The others are taken, and this one as soon as it can be; then the next failure is early again."""
        right = self.slave.delays.replace
        self.slave.delays.replace = self.wrong  # type: ignore[method-assign]
        self.lead(self.master, self.slave)
        self.raises_faults()
        self.assertEqual(self.slave.state.topics.table, self.master.state.topics.table)
        self.assertEqual(self.slave.state.groups.table, self.master.state.groups.table)
        self.assertIsNone(self.slave.metadata.age_s)
        self.slave.delays.replace = right  # type: ignore[method-assign]
        self.world.run(6)
        self.assertTrue(same_tables(self.master, self.slave))
        self.slave.delays.replace = self.wrong  # type: ignore[method-assign]
        self.raised.clear()
        self.master.delays.advance(2, 9, self.master.now_ms())
        self.world.run(2.5)
        self.assertEqual(len(self.raised), 2)

    def test_between_tables(self) -> None:
        """Goes on with all."""
        self.slave.metadata._tables.heard_of = self.wrong
        self.lead(self.master, self.slave)
        self.raises_faults()
        self.slave.metadata._tables.heard_of = lambda _: None
        self.world.run(6)
        self.assertTrue(same_tables(self.master, self.slave))

    def test_with_a_java_master(self) -> None:
        """As with ours; its other tables come in each round."""
        self.master.answer_with[AWAIT_METADATA] = lambda command: Answer(3, " request type 31000 not supported")
        right = self.slave.state.topics.replace
        self.slave.state.topics.replace = self.wrong  # type: ignore[method-assign]
        self.follow(self.slave, self.master)
        self.world.run(12)
        self.assertEqual(len(self.raised), 3)
        self.assertEqual(self.slave.state.groups.table, self.master.state.groups.table)
        self.slave.state.topics.replace = right  # type: ignore[method-assign]
        self.world.run(6)
        self.assertEqual(self.slave.state.topics.table, self.master.state.topics.table)

    def test_while_a_topic_goes(self) -> None:
        """Its queues go when they can."""
        self.lead(self.master, self.slave)
        self.world.run(1)
        self.slave.store.put("T", 0, 1)
        right = self.slave.state.stats.forget_topic
        self.slave.state.stats.forget_topic = self.wrong  # type: ignore[method-assign]
        self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(0.5)
        self.assertEqual((len(self.raised), self.slave.store.deleted), (1, []))
        self.slave.state.stats.forget_topic = right  # type: ignore[method-assign]
        self.world.run(2)
        self.assertEqual(self.slave.store.deleted, ["T"])
        self.assertIn("T", self.slave.told)
        self.assertTrue(same_tables(self.master, self.slave))

    def test_nothing_is_left_of_one_that_ended(self) -> None:
        """Neither a timer nor another attempt; not of one that is ended from within a fault either."""
        self.lead(self.master, self.slave)
        self.world.run(3)
        self.slave.watch.unknown()
        self.world.run(3)
        before = len(self.slave.reactor.getDelayedCalls())  # of the connection
        self.slave.metadata._tables.heard_of = self.wrong
        self.follow(self.slave, self.master)
        self.world.run(3)
        self.slave.watch.unknown()
        count = len(self.raised)
        self.assertGreater(count, 1)

        def ends(_: Any) -> None:
            self.slave.watch.unknown()
            self.wrong()

        self.world.run(20)
        self.assertEqual(len(self.raised), count)
        self.slave.metadata._tables.heard_of = ends
        self.follow(self.slave, self.master)
        self.world.run(20)
        self.assertEqual(len(self.raised), count + 1)
        self.assertEqual(len(self.slave.reactor.getDelayedCalls()), before)


class PagedTests(TablesCase):
    def test_a_table_of_many_pages(self) -> None:
        """Each comes after the other, and changes between them do no harm."""
        master, slave = self.add("a", 1, BrokerRules(split_metadata_size=7)), self.add("b", 2)
        for number in range(50):
            master.state.topics.put(TopicConfig(f"T{number}"), master.now_ms())
        master.asked.clear()
        self.lead(master, slave)
        for number in range(50, 60):
            self.world.run(0.003)
            master.state.topics.put(TopicConfig(f"T{number}"), master.now_ms())
        self.world.run(3)
        self.assertTrue(same_tables(master, slave))
        self.assertGreater(master.asked.count(ALL_TOPICS), 10)


class JavaMasterTests(TablesCase):
    """A master that does not know our question; its requests and bodies were seen live (facts: broker-requests 8)."""

    def setUp(self) -> None:
        super().setUp()
        self.master, self.slave = self.add("a", 0), self.add("b", 2)
        fill(self.master)
        self.master.answer_with[AWAIT_METADATA] = lambda command: Answer(3, " request type 31000 not supported")
        self.master.answer_with[ALL_OFFSETS] = lambda command: Answer(
            body=b'{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1},"groupTopicMap":{},"offsetTable":'
            b'{"T@G":{0:9,1:17},"%RETRY%G@G":{0:2}}}'
        )
        self.follow(self.slave, self.master)

    def test_javas_order_every_period(self) -> None:
        """S1.17, and the request modes after it."""
        self.world.run(12)
        once = [ALL_TOPICS, ALL_OFFSETS, ALL_DELAYS, ALL_GROUPS, ALL_MODES]
        self.assertEqual(self.master.asked, [AWAIT_METADATA, *once, *once, *once])
        self.assertEqual(self.slave.state.topics.table, self.master.state.topics.table)
        self.assertEqual(self.slave.state.groups.table, self.master.state.groups.table)
        self.assertEqual(self.slave.state.offsets.committed, {"T@G": {0: 9, 1: 17}, "%RETRY%G@G": {0: 2}})
        self.assertEqual(self.slave.delays.offsets, {2: 5})

    def test_its_table_may_lack_topics_of_the_log(self) -> None:
        """It became the master before it had taken the topic from the former one, and makes none of the log again."""
        right = self.master.table[ALL_TOPICS]

        def as_java(command: Command) -> Answer:
            body = json_dialect.loads(right(None, command, 0).body)
            del body["deletedTopics"], body["logBegin"]
            return Answer(body=json_dialect.dumps(body))

        self.master.answer_with[ALL_TOPICS] = as_java
        self.slave.store.put("New", 0, self.slave.wall_ms() + 600_000)
        self.slave.store.deleted_topics.topics_complete(0, LastRecord(0, 0), (0, 0, 0))
        self.world.run(12)
        self.assertEqual(self.slave.state.topics.table, self.master.state.topics.table)
        self.assertIsNone(self.slave.store.deleted_topics.complete)
        self.assertFalse(self.slave.store.deleted_topics.dirty)
        self.slave.state.is_slave = False
        self.slave.watch.own(4, frozenset({2}))
        self.assertIn("New", self.slave.state.topics)

    def test_one_failure_keeps_nothing_else(self) -> None:
        """S1.21: it is logged, and the task goes on."""
        self.master.answer_with[ALL_TOPICS] = lambda command: None  # no answer at all
        self.world.run(6)
        self.assertEqual(self.slave.state.groups.table, self.master.state.groups.table)
        self.assertNotIn("T", self.slave.state.topics)
        del self.master.answer_with[ALL_TOPICS]
        self.world.run(11)
        self.assertIn("T", self.slave.state.topics)


class AcknowledgedTests(LedTrioCase):
    """What is acknowledged is at every member of the SyncStateSet (regression F2)."""

    def make(self, topic: str = "New") -> list[Command]:
        return self.ask(self.master, UPDATE_TOPIC, topic_fields(topic))

    def thaw_brings(self, answers: list[Command]) -> None:
        """The member that stood still was waited for, and when it goes on there is success."""
        self.assertEqual(answers, [])
        self.host("c").thaw()
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])

    def test_f2_an_acknowledged_topic_outlives_its_master(self) -> None:
        """The master dies in the moment of the answer: each replica has the topic on its disk."""
        for number in range(20):
            answers = self.make(f"T{number}")
            while not answers:
                self.world.run(0.0005)
            self.assertEqual(answers[0].code, 0)
            for node in (self.one, self.two):
                self.assertIn(f"T{number}", node.saved("topics"))
        self.host("a").power_off()
        for name in ("b", "c"):
            self.host(name).power_off()
            self.host(name).start()
        self.world.run(0.1)
        for name in ("b", "c"):
            self.assertIn("T19", self.node(name).state.topics)

    def test_the_same_for_groups_and_deletions(self) -> None:
        """Whatever an administrator is told stays."""
        answers = self.ask(self.master, UPDATE_GROUP, {}, json_dialect.dumps({"groupName": "G9"}))
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])
        self.assertIn("G9", self.one.saved("groups"))
        self.make("T")
        self.world.run(0.1)
        answers = self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])
        self.assertNotIn("T", self.two.saved("topics"))

    def test_it_takes_round_trips_only(self) -> None:
        """An administrator does not notice the wait."""
        began = self.world.now
        answers = self.make()
        while not answers:
            self.world.run(0.001)
        self.assertLess(self.world.now - began, 0.05)

    def test_the_wait_is_bounded(self) -> None:
        """A member that is silent keeps nobody for longer than a second; that is no success, and may be repeated."""
        self.host("c").freeze(whole=False)
        answers = self.make()
        self.world.run(0.9)
        self.assertEqual(answers, [])
        self.world.run(0.2)
        self.assertEqual([answer.code for answer in answers], [1])
        self.assertIn("replicas 3 did not take it within 1000 ms", answers[0].remark or "")
        self.host("c").thaw()
        self.world.run(0.1)
        answers = self.make()
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])

    def test_the_same_again_waits_too(self) -> None:
        """What is there already may be there only."""
        self.host("c").freeze(whole=False)
        self.make()
        self.world.run(0.1)
        answers = self.make()
        self.world.run(0.5)
        self.thaw_brings(answers)
        self.assertIn("New", self.two.saved("topics"))

    def test_a_member_that_is_cut_off_from_the_beginning(self) -> None:
        """It never asked this master, which knows from the former one that it is no Java broker; nobody is told that
        the change will stay (seen in simulation: elected next, it had not the topic)."""
        self.world.run(1.5)
        self.world.partition("cut", [self.host("b")], [self.host("c")])
        self.lead(self.one, self.two, epoch=2)
        self.one.away.add(3)
        self.world.run(10)
        for _ in range(2):
            answers = self.ask(self.one, UPDATE_TOPIC, topic_fields("New"))
            self.world.run(1.2)
            self.assertEqual([answer.code for answer in answers], [1])
            self.one.away.clear()  # its link is back before its question
        self.world.heal("cut")
        self.world.run(2.5)
        answers = self.ask(self.one, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])
        self.assertIn("New", self.two.saved("topics"))

    def test_a_connection_that_went_silent_is_left(self) -> None:
        """After a partition the tables come within a few seconds, not when the old connection tries again."""
        self.world.partition("cut", [self.host("a")], [self.host("c")])
        self.world.run(40)
        self.world.heal("cut")
        self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(2.5)
        self.assertIn("New", self.two.state.topics)

    def test_the_connection_to_a_former_master_is_not_taken_up_again(self) -> None:
        """It broke while that one was cut off, and sleeps on when it leads again."""
        self.world.run(1.5)
        self.world.partition("cut", [self.host("a")], [self.host("c")])
        self.world.run(0.5)
        self.lead(self.one, self.two, epoch=2)
        self.world.run(20)
        self.world.heal("cut")
        self.lead(self.master, self.two, epoch=3)
        self.world.run(0.2)
        self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.5)
        self.assertIn("New", self.two.state.topics)

    def test_who_is_no_member_is_not_waited_for(self) -> None:
        """It cannot be elected."""
        self.host("c").freeze(whole=False)
        self.make()
        self.world.run(0.1)
        answers = self.make("Newer")
        self.master.watch.members_are(frozenset({1, 2}))
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])

    def test_java_replicas_are_not_waited_for(self) -> None:
        """Once they had their time to ask, they are known by their silence."""
        self.master.watch.members_are(frozenset({1, 2, 3, 4}))
        self.world.run(STRANGER_MS / 1000)
        answers = self.make()
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])

    def test_a_new_master_waits_for_its_replicas_too(self) -> None:
        """Even if they did not ask yet."""
        self.master.watch.unknown()
        self.host("c").freeze(whole=False)
        self.lead(self.one, self.two, epoch=2)
        answers = self.ask(self.one, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.5)
        self.assertEqual(answers, [])
        self.host("c").thaw()
        self.world.run(0.3)
        self.assertEqual([answer.code for answer in answers], [0])
        self.assertIn("New", self.two.saved("topics"))

    def test_the_term_ends(self) -> None:
        """Nobody knows whether the change stays: that is no success."""
        self.host("c").freeze(whole=False)
        answers = self.make()
        self.world.run(0.1)
        self.master.reactor.callLater(0, self.master.watch.unknown)
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [1])

    def test_the_same_master_again(self) -> None:
        """Its tables stay, so its answers wait on."""
        self.host("c").freeze(whole=False)
        answers = self.make()
        self.world.run(0.1)
        self.master.watch.own(2, frozenset({1, 2, 3}))
        self.world.run(0.1)
        self.thaw_brings(answers)

    def test_who_asked_is_gone(self) -> None:
        """Its answer is dropped without noise."""
        self.host("c").freeze(whole=False)
        self.make()
        self.world.run(0.1)
        self.host("admin").kill()
        self.world.run(2)
        self.host("c").thaw()
        self.world.run(1)
        self.assertIn("New", self.two.state.topics)


class AsJavaTests(TablesCase):
    ack_timeout_ms = 0

    def test_no_answer_waits(self) -> None:
        """metadataAckTimeoutMills=0."""
        master, slave = self.add("a", 1), self.add("b", 2)
        self.lead(master, slave)
        self.host("b").freeze(whole=False)
        answers = self.ask(master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.1)
        self.assertEqual([answer.code for answer in answers], [0])


class NewMasterTests(TablesCase):
    """What is set right when a broker becomes master."""

    def setUp(self) -> None:
        super().setUp()
        self.node_a = self.add("a", 1)
        self.now_ms = self.node_a.now_ms()

    def test_topics_of_the_log(self) -> None:
        """A topic whose first message was acknowledged is there, saved, told, and under the new term's version."""
        node = self.node_a
        node.state.topics.put(TopicConfig("Known", 3, 3), self.now_ms)
        for topic, queue_id in (("Known", 2), ("Sent", 1)):
            node.store.put(topic, queue_id, self.now_ms + 5)
        node.watch.own(4, frozenset({1}))
        self.assertEqual(node.state.topics.get("Sent"), TopicConfig("Sent", 8, 8))
        self.assertEqual(node.state.topics.get("Known"), TopicConfig("Known", 3, 3))
        self.world.run(0.1)
        self.assertIn("Sent", node.saved("topics"))
        self.assertEqual(node.told, ["Sent"])
        self.assertEqual(node.state.topics.data_version.state_version, 4)
        self.assertEqual(node.state.groups.data_version.state_version, 4)

    def test_topics_of_the_log_of_a_former_master(self) -> None:
        """What it had when it was master is complete up to there, whatever the clocks say."""
        node = self.node_a
        node.watch.own(4, frozenset({1}))
        node.state.topics.put(TopicConfig("Known", 3, 3), self.now_ms)
        node.store.put("Deleted", 0, self.now_ms + 500_000)
        node.watch.unknown()
        node.store.put("Sent", 1, self.now_ms - 500_000)
        node.watch.own(6, frozenset({1}))
        self.assertIn("Sent", node.state.topics)
        self.assertNotIn("Deleted", node.state.topics)

    def test_offsets_behind_the_log(self) -> None:
        """Regression A18."""
        node = self.node_a
        node.state.topics.put(TopicConfig("T"), self.now_ms)
        node.store.put("T", 0, self.now_ms)
        node.state.offsets.commit("G", "T", 0, 44, lambda: self.now_ms)
        node.watch.own(4, frozenset({1}))
        self.assertEqual(node.state.offsets.query("G", "T", 0), 1)

    def test_without_a_controller_no_version_moves(self) -> None:
        """A start is no change."""
        node = self.node_a
        before = node.state.topics.data_version.as_json()
        node.watch.own()
        self.assertEqual(node.state.topics.data_version.as_json(), before)


class QuestionTests(TablesCase):
    """AWAIT_METADATA as anybody may send it."""

    def setUp(self) -> None:
        super().setUp()
        self.master = self.add("a", 1)
        self.lead(self.master)

    def question(self, **fields: str) -> list[Command]:
        return self.ask(self.master, AWAIT_METADATA, {"brokerId": "2", "epoch": "1", "holdMillis": "0", **fields})

    def test_fields_are_checked(self) -> None:
        """A bad one is refused by name."""
        for fields in ({"brokerId": "x"}, {"epoch": "-1"}, {"holdMillis": "10001"}):
            answers = self.question(**fields)
            self.world.run(0.1)
            self.assertEqual(answers[0].code, 29, answers[0].remark)

    def test_a_replica_of_a_newer_master(self) -> None:
        """Takes nothing from this one, which is about to hear that it is none."""
        answers = self.question(epoch="2")
        self.world.run(0.1)
        self.assertEqual(answers[0].code, 14)

    def has_all(self, broker: int) -> Command:
        """Somebody says that this broker has the present tables."""
        state = self.master.state
        versions = {"topicVersion": state.topics.data_version, "groupVersion": state.groups.data_version}
        fields = {name: version_text(version) for name, version in versions.items()}
        answers = self.question(brokerId=str(broker), **fields)
        self.world.run(0.1)
        return answers[0]

    def test_in_the_name_of_no_replica(self) -> None:
        """Whom the controller does not name, and this master itself, has no say: it joins no set."""
        self.master.strangers = {3}
        for broker in (1, 3):
            answer = self.has_all(broker)
            self.assertEqual(answer.code, 16)
            self.assertIn(f"broker {broker} is no replica", answer.remark or "")
            self.assertNotIn("topicVersion", answer.fields)
        self.assertFalse(self.master.metadata.is_fit(3))
        self.master.strangers = set()
        self.assertEqual(self.has_all(3).fields["brokers"], "3")
        self.assertTrue(self.master.metadata.is_fit(3))

    def test_in_the_name_of_a_replica_that_is_away(self) -> None:
        """A change is not acknowledged for a member whose log does not follow: it may have lost its disk."""
        self.lead(self.master, members=frozenset({1, 2}))
        self.master.away = {2}
        made = self.ask(self.master, UPDATE_TOPIC, topic_fields("New"))
        self.world.run(0.1)
        answer = self.has_all(2)
        self.assertEqual(answer.code, 14)
        self.assertIn("log of replica 2 does not follow", answer.remark or "")
        self.assertEqual(made, [])
        self.master.away = set()
        self.assertEqual(self.has_all(2).code, 0)
        self.assertEqual([each.code for each in made], [0])

    def test_without_a_controller(self) -> None:
        """Nobody is counted, so anybody may ask."""
        self.master.watch.own()
        self.master.strangers = self.master.away = {2}
        answers = self.question(epoch="0")
        self.world.run(0.1)
        self.assertEqual((answers[0].code, answers[0].fields.get("brokers")), (0, ""))

    def test_many_questions(self) -> None:
        """Those over the bound are answered at once."""
        known = self.question()
        self.world.run(0.1)
        versions = {key: known[0].fields[key] for key in ("topicVersion", "groupVersion")}
        answers = [self.question(holdMillis="5000", **versions) for _ in range(70)]
        self.world.run(0.1)
        self.assertEqual(sum(map(len, answers)), 70 - 64)
        self.world.run(5)
        self.assertEqual(sum(map(len, answers)), 70)
