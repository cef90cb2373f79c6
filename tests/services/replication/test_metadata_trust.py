"""Nothing is taken from a master whose log is not the one that this broker has: its tables would delete queues of
messages that are nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.broker.role import Role
from rocketha.broker.topics import TopicConfig
from rocketha.services.replication import classic
from rocketha.services.replication.metadata_master import AWAIT_METADATA
from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Answer, Command
from tests.broker.support import topic_fields
from tests.services.controlled_case import ControlledCase
from tests.services.replication.test_metadata_sync import ALL_OFFSETS, ALL_TOPICS, DELETE_TOPIC
from tests.services.replication_case import NAMESERVER_PORT, ReplicationCase
from tests.services.tables_case import FilledPairCase


def tables_of(broker: Any) -> tuple[Any, ...]:
    """What a wrong master's tables would take away."""
    state = broker.broker.state
    return (
        dict(state.topics.table),
        dict(state.groups.table),
        state.offsets.committed,
        broker.broker.store.queue_table(),
    )


class JoiningTests(ControlledCase):
    controllers_count = 1

    def test_a_broker_with_messages_joins_a_group_with_an_empty_master(self) -> None:
        """Nothing says where both logs are equal: the link is refused, and the tables stay as they are."""
        alone = self.broker("alone", "brokerRole=ASYNC_MASTER")
        self.assertEqual(set(self.send_many(alone, 40)), {0})
        service = self.service(alone)
        service.broker.state.topics.put(TopicConfig("Empty", 4, 4), 5)
        service.broker.state.find_group("G")
        service.broker.state.offsets.commit("G", "T", 0, 7, lambda: 5)
        self.run_for(3)
        before = tables_of(service)
        self.assertIn("T", before[3])
        self.stop(alone)
        empty = self.add_broker()
        self.master()
        addresses = ";".join(f"{host.address}:9878" for host in self.controllers)
        self.restart(alone, f"enableControllerMode=true\ncontrollerAddr={addresses}\n")
        self.brokers.append(alone)
        self.until("it follows", lambda: self.role(alone) is Role.SLAVE)
        for number in range(20):  # no counter protects
            self.ask(empty, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(f"N{number}"))
        self.run_for(8)
        self.assertEqual(tables_of(self.service(alone)), before)
        self.assertIsNone(self.service(alone).broker.metadata.age_s)
        self.assertEqual(self.members(), (self.number(empty),))

    def test_a_question_in_the_name_of_others(self) -> None:
        """Is refused, whoever asks: no set grows by it, and nothing is acknowledged."""
        one, two = self.add_broker(), self.add_broker()
        self.until("both are in the set", lambda: len(self.members()) == 2, 10)
        master = self.master()
        slave = two if master is one else one
        question = {"epoch": "1", "holdMillis": "0"}
        for number, code in ((self.number(master), 16), (self.number(slave), 0), (77, 16)):
            self.assertEqual(self.ask(master, AWAIT_METADATA, {"brokerId": str(number), **question}).code, code)
        question["brokerId"] = str(self.number(slave))
        self.stop(slave)
        self.until("it is away", lambda: self.ask(master, AWAIT_METADATA, question).code == 14)
        self.run_for(2)
        self.assertEqual(self.members(), (self.number(master),))

    def test_a_new_replica_gets_log_and_tables_and_joins(self) -> None:
        """Nothing waits for one another: the link first, then the tables, then the set."""
        one = self.add_broker()
        self.master()
        self.send_many(one, 40)
        two = self.add_broker()
        self.until("both are in the set", lambda: len(self.members()) == 2, 10)
        self.assertIn("T", self.service(two).broker.state.topics)


class ClassicTests(ReplicationCase):
    """A pair with a nameserver; the slave has messages."""

    def setUp(self) -> None:
        super().setUp()
        self.names = f"namesrvAddr={self.nameserver().address}:{NAMESERVER_PORT}\nregisterNameServerPeriod=10000"
        self.master = self.broker("master", f"brokerRole=ASYNC_MASTER\n{self.names}")
        self.slave = self.broker("slave", f"brokerRole=SLAVE\nbrokerId=1\n{self.names}")
        self.assertEqual(set(self.send_many(self.master, 40)), {0})
        self.until("the log is there", lambda: self.level(self.master, self.slave), 40)
        self.until("the tables are there", lambda: "T" in self.service(self.slave).broker.state.topics, 20)
        self.run_for(1)

    def empty_master(self) -> Host:
        """The master comes back on an empty disk, at another place."""
        self.master.kill()
        found = self.broker("again", f"brokerRole=ASYNC_MASTER\n{self.names}")
        address = f"{found.address}:10911"
        self.until("it is known", lambda: self.service(self.slave).broker.watch.address == address, 40)
        return found

    def compare_nothing(self) -> None:
        """Tables do not rely on the link's finding out that a master's log is another one."""
        self.patch(classic, "overlap_begin", lambda log: log.end)

    def untouched(self, before: tuple[Any, ...]) -> None:
        service = self.service(self.slave)
        self.assertEqual(tables_of(service)[:3], before[:3])
        ours, then = service.broker.store.queue_table()["T"], before[3]["T"]
        self.assertEqual(then, dict.fromkeys(range(4), (0, 10)))
        for number, (first, end) in then.items():
            self.assertEqual(ours[number][0], first)
            self.assertGreaterEqual(ours[number][1], end)

    def test_a_master_on_an_empty_disk(self) -> None:
        """Its topics' counter passes ours with a few new ones; the link was refused all the time."""
        before = tables_of(self.service(self.slave))
        again = self.empty_master()
        self.assertEqual({self.send(again, topic=f"N{number}") for number in range(6)}, {0})
        self.assertGreater(
            self.service(again).broker.state.topics.data_version.counter,
            self.service(self.slave).broker.state.topics.data_version.counter,
        )
        self.run_for(20)
        self.untouched(before)

    def test_a_master_on_an_empty_disk_whose_log_grew_past_ours(self) -> None:
        """The link tells, and if it did not, the message at the end of our queues does."""
        self.compare_nothing()
        before = tables_of(self.service(self.slave))
        again = self.empty_master()
        self.assertEqual(set(self.send_many(again, 90, topic="Other")), {0})
        self.assertEqual({self.send(again, topic=f"N{number}") for number in range(6)}, {0})
        following = self.service(self.slave).broker.replication.following
        self.until("the link was accepted", lambda: following.transfers, 20)
        self.run_for(20)
        self.untouched(before)

    def test_the_same_records_at_the_same_places(self) -> None:
        """Records of equal size: its messages continue our log where they should, and are still not of our log."""
        self.compare_nothing()
        before = tables_of(self.service(self.slave))
        again = self.empty_master()
        self.assertEqual(set(self.send_many(again, 90, topic="U")), {0})
        self.assertEqual(set(self.send_many(again, 6, topic="V")), {0})
        self.run_for(20)
        self.assertGreater(self.log(self.slave).end, 90 * 600)
        self.untouched(before)

    def test_the_right_master_after_restarts(self) -> None:
        """Both were away; what was deleted meanwhile goes at the slave too."""
        self.stop(self.slave)
        self.stop(self.master)
        self.restart(self.master)
        self.ask(self.master, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        self.assertEqual(set(self.send_many(self.master, 4, topic="U")), {0})
        self.restart(self.slave)
        self.until("U is there", lambda: "U" in self.service(self.slave).broker.state.topics, 40)
        self.assertNotIn("T", self.service(self.slave).broker.state.topics)
        self.assertNotIn("T", self.service(self.slave).broker.store.queue_table())

    def test_a_master_whose_log_begins_behind_our_queues(self) -> None:
        """It had these messages, and they expired there; one whose log begins before them never had them."""
        self.stop(self.slave)
        self.ask(self.master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("New"))
        master, end = self.service(self.master), self.log(self.master).end
        served, begin = master.broker.dispatcher.request, 0

        def expired(connection: Any, command: Command) -> Answer | None:
            if command.code == RequestCode.VIEW_MESSAGE_BY_ID:
                return Answer(1, "can not find message by the offset")
            if command.code == RequestCode.GET_BROKER_RUNTIME_INFO:
                return Answer(body=b'{"table":{"commitLogMinOffset":"%d"}}' % begin)
            return served(connection, command)

        master.broker.dispatcher.request = expired  # type: ignore[method-assign]
        self.restart(self.slave)
        following = self.service(self.slave).broker.replication.following
        self.until("the link is accepted", lambda: following.transfers, 40)
        self.run_for(12)
        self.assertNotIn("New", self.service(self.slave).broker.state.topics)
        begin = end
        self.until("it is taken", lambda: "New" in self.service(self.slave).broker.state.topics, 12)


class LinkTests(FilledPairCase):
    """When the log follows and when not."""

    def test_nothing_is_asked_without_a_link(self) -> None:
        """And all of it as soon as there is one."""
        self.slave.linked = False
        self.lead(self.master, self.slave)
        self.world.run(5)
        self.assertEqual(self.master.asked, [])
        self.slave.linked = True
        self.world.run(0.2)
        self.assertIn("T", self.slave.state.topics)

    def meanwhile(self, code: int, happens: Callable[[], None]) -> None:
        """Something happens while the master's answer to a request is under way."""
        given = self.master.table[code]

        def answer(command: Command) -> Answer | None:
            happens()
            return given(None, command, self.master.now_ms())

        self.master.answer_with[code] = answer

    def unlink(self) -> None:
        self.slave.linked = False

    def test_the_link_ends_while_a_table_is_under_way(self) -> None:
        """What comes then may be of a master that came back with nothing."""
        self.lead(self.master, self.slave)
        self.world.run(0.1)
        self.meanwhile(ALL_TOPICS, self.unlink)
        self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(3)
        self.assertIn("T", self.slave.state.topics)
        self.assertEqual(self.slave.store.deleted, [])
        del self.master.answer_with[ALL_TOPICS]
        self.slave.linked = True
        self.world.run(1)
        self.assertEqual(self.slave.store.deleted, ["T"])

    def test_the_same_with_other_tables(self) -> None:
        """Offsets and groups are of value, too."""
        self.lead(self.master, self.slave)
        self.world.run(0.1)
        self.meanwhile(ALL_OFFSETS, self.unlink)
        self.master.state.offsets.commit("G", "T", 1, 3, self.master.now_ms)
        self.world.run(3)
        self.assertEqual(self.slave.state.offsets.committed, {"T@G": {1: 17}})
        self.assertIn(ALL_OFFSETS, self.master.asked)

    def test_the_link_ends_while_the_log_is_cut(self) -> None:
        """The cut may be the end of following that master."""
        self.lead(self.master, self.slave)
        self.world.run(0.1)

        def cut() -> None:
            self.slave.store_busy = True

        self.meanwhile(ALL_TOPICS, cut)
        self.ask(self.master, DELETE_TOPIC, {"topic": "T"})
        self.world.run(0.5)
        self.assertEqual(self.slave.store.deleted, [])
        self.slave.linked = self.slave.store_busy = False
        self.world.run(2)
        self.assertEqual(self.slave.store.deleted, [])
