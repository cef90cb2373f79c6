"""Two real brokers of a group: the slave's tables, and requests that come to the one that is not master."""

from __future__ import annotations

from rocketha.broker.topics import TopicConfig
from rocketha.simulation.host import Host
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.broker.support import topic_fields
from tests.services.broker_case import heartbeat, pull_fields, records
from tests.services.replication_case import NAMESERVER_PORT, ReplicationCase

MASTER, SLAVE = "brokerRole=SYNC_MASTER\ninSyncReplicas=2", "brokerRole=SLAVE\nbrokerId=1"


class GroupCase(ReplicationCase):
    """A pair of classic mode that finds itself by a nameserver."""

    settings = ""

    def setUp(self) -> None:
        super().setUp()
        self.names = f"namesrvAddr={self.nameserver().address}:{NAMESERVER_PORT}\nregisterNameServerPeriod=10000"
        self.master = self.broker("master", f"{MASTER}\n{self.names}\n{self.settings}")
        self.slave = self.broker("slave", f"{SLAVE}\n{self.names}\n{self.settings}")
        self.until("it follows", lambda: self.service(self.slave).broker.watch.address is not None, 40)
        self.until("a link", lambda: not self.service(self.slave).broker.replication.following.problem, 40)
        self.run_for(0.2)

    def topics(self, host: Host) -> dict[str, TopicConfig]:
        return self.service(host).broker.state.topics.table


class TablesTests(GroupCase):
    def test_everything_of_a_master_is_at_its_slave(self) -> None:
        """S1.11 to S1.14, on its disk too."""
        self.ask(self.master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Made", 5))
        self.ask(self.master, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "Made"))
        self.send(self.master, topic="Sent")
        self.send(self.master, properties="DELAY\x011\x02")
        self.ask(
            self.master,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": "G", "topic": "Sent", "queueId": "0", "commitOffset": "1"},
        )
        self.run_for(3)
        master, slave = self.service(self.master).broker, self.service(self.slave).broker
        self.assertEqual(self.topics(self.slave), self.topics(self.master))
        self.assertIn("Sent", self.topics(self.slave))
        self.assertEqual(slave.state.groups.table, master.state.groups.table)
        self.assertEqual(slave.state.offsets.committed, {"Sent@G": {0: 1}})
        self.assertEqual(slave.core.parts.delays.offsets, {1: 1})
        self.stop(self.slave)
        self.restart(self.slave)
        again = self.service(self.slave).broker
        self.assertIn("Made", again.state.topics)
        self.assertEqual(again.state.offsets.committed, {"Sent@G": {0: 1}})
        self.assertEqual(again.core.parts.delays.offsets, {1: 1})

    def test_how_old_they_are(self) -> None:
        """For people, who see that a slave does not hear from its master."""
        self.run_for(2)
        pages = [self.service(host).metrics.exposition() for host in (self.master, self.slave)]
        self.assertIn("rocketha_tables_age_seconds -1.0\n", pages[0])
        age_s = next(line for line in pages[1].splitlines() if line.startswith("rocketha_tables_age_seconds "))
        self.assertTrue(0 <= float(age_s.split()[1]) < 1.2, age_s)

    def test_a_heartbeat_at_a_slave_makes_nothing(self) -> None:
        """Nor a pull where it serves them: consumers say hello to every broker, but the tables are the master's."""
        self.stop(self.slave)
        self.restart(self.slave, f"{SLAVE}\n{self.names}\nslaveReadEnable=true")
        self.run_for(0.2)
        version = self.service(self.slave).broker.state.groups.data_version.as_json()
        self.ask(self.slave, RequestCode.HEART_BEAT, body=heartbeat("c", "Unheard", "T"))
        self.ask(self.slave, RequestCode.PULL_MESSAGE, pull_fields(consumerGroup="Unheard"))
        self.assertNotIn("Unheard", self.service(self.slave).broker.state.groups)
        self.assertEqual(self.service(self.slave).broker.state.groups.data_version.as_json(), version)

    def test_f4_deleted_and_made_again(self) -> None:
        """Regression F4: its queues begin anew at the slave too, and no group has an offset in it."""
        for _ in range(3):
            self.send(self.master, topic="T")
        self.ask(self.master, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "3"}
        self.ask(self.master, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        self.run_for(2)
        self.assertEqual(self.service(self.slave).broker.state.offsets.query("G", "T", 0), 3)
        self.ask(self.master, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        self.run_for(0.5)
        self.assertEqual(self.service(self.slave).broker.store.max_offset("T", 0), 0)
        self.send(self.master, topic="T")
        self.until("level", lambda: self.level(self.master, self.slave))
        self.run_for(1.5)
        self.assertEqual(self.service(self.slave).broker.store.max_offset("T", 0), 1)
        self.assertEqual(self.service(self.slave).broker.state.offsets.query("G", "T", 0), -1)

    def test_deleted_topics_do_not_come_back(self) -> None:
        """Not on a slave that is killed, nor on one that copies all of the log anew; nor when it becomes the master."""
        unique = f"UNIQ_KEY\x01{'A' * 32}\x02"
        for _ in range(3):
            self.send(self.master, topic="Gone", properties=unique)
        self.send(self.master, topic="Kept")
        self.until("level", lambda: self.level(self.master, self.slave))
        self.run_for(2)
        self.ask(self.master, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Gone"})
        self.run_for(1)
        table = self.service(self.master).broker.store.deleted_topics.table
        for wiped in (False, True):
            self.slave.kill()
            if wiped:
                self.slave.disk.remove_tree("/store")
            self.restart(self.slave)
            self.until("level", lambda: self.level(self.master, self.slave))
            self.until("told", lambda: self.service(self.slave).broker.store.deleted_topics.table == table)
            self.run_for(1)
            store = self.service(self.slave).broker.store
            self.assertEqual(sorted(store.queue_table()), ["Kept"])
            self.assertEqual(store.query("Gone", "A" * 32, 9, 0, 1 << 62), [])
        self.master.power_off()
        self.slave.kill()
        self.restart(self.slave, f"{MASTER.replace('=2', '=1')}\n{self.names}")
        self.assertEqual(sorted(self.service(self.slave).broker.store.queue_table()), ["Kept"])
        self.send(self.slave, b"new", topic="Gone")
        pulled = self.ask(self.slave, RequestCode.PULL_MESSAGE, pull_fields(topic="Gone"))
        self.assertEqual([found.body for found in records(pulled)], [b"new"])

    def test_a_slave_made_master(self) -> None:
        """By hand, as classic mode has it: it goes on with the tables, the offsets and the delayed messages."""
        self.ask(self.master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Made", 5))
        self.ask(self.master, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "Made"))
        self.send(self.master, b"now", topic="Made")
        for number in range(4):
            unique = f"UNIQ_KEY\x01{number:032X}\x02"
            self.send(self.master, b"%d" % number, topic="Made", properties=f"{unique}DELAY\x011\x02")
            self.run_for(0.2)
        self.until("two are delivered", lambda: self.service(self.master).broker.core.parts.delays.offsets.get(1) == 2)
        self.until("level", lambda: self.level(self.master, self.slave))
        self.master.power_off()
        self.stop(self.slave)
        self.restart(self.slave, f"{MASTER.replace('=2', '=1')}\n{self.names}")
        self.run_for(3)
        pulled = self.ask(self.slave, RequestCode.PULL_MESSAGE, pull_fields(topic="Made"))
        self.assertEqual([found.body for found in records(pulled)], [b"now", b"0", b"1", b"2", b"3"])
        self.assertIn("G", self.service(self.slave).broker.state.groups)

    def test_f2_a_topic_that_only_the_log_knows(self) -> None:
        """The slave has the first message and not yet the topic when its master dies: the topic is made again."""
        service = self.service(self.slave)
        service.broker.metadata.stop()  # it never hears of it
        self.send(self.master, b"first", topic="New", queue_id="3")
        self.until("level", lambda: self.level(self.master, self.slave))
        self.assertNotIn("New", self.topics(self.slave))
        self.master.power_off()
        self.slave.kill()
        self.restart(self.slave, f"{MASTER.replace('=2', '=1')}\n{self.names}")
        self.assertEqual(self.topics(self.slave)["New"], TopicConfig("New", 8, 8))
        pulled = self.ask(self.slave, RequestCode.PULL_MESSAGE, pull_fields(topic="New", queue_id=3))
        self.assertEqual([found.body for found in records(pulled)], [b"first"])

    def test_a_topic_that_was_made_after_the_clock_was_set_back(self) -> None:
        """By the clock the slave's table is newer than the topic's messages.  The topic is made again all the same."""
        self.ask(self.master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Made", 5))
        self.until("the table", lambda: "Made" in self.topics(self.slave))
        self.service(self.slave).broker.metadata.stop()
        self.master.clock.jump(-600)
        self.send(self.master, b"first", topic="New", queue_id="3")
        self.until("level", lambda: self.level(self.master, self.slave))
        self.assertNotIn("New", self.topics(self.slave))
        self.master.power_off()
        self.slave.kill()
        self.restart(self.slave, f"{MASTER.replace('=2', '=1')}\n{self.names}")
        self.assertEqual(self.topics(self.slave)["New"], TopicConfig("New", 8, 8))

    def test_a_java_slaves_questions(self) -> None:
        """As seen live: each is answered with what it reads."""
        self.ask(self.master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Made", 5))
        answer = self.ask(self.master, 21, {"topicSeq": "0", "dataVersion": "", "maxTopicNum": "2000"})
        value = json_dialect.loads(answer.body)
        self.assertEqual(int(answer.fields["totalTopicNum"]), len(value["topicConfigTable"]))
        for code, key in ((43, "offsetTable"), (45, "offsetTable"), (402, "messageRequestModeMap")):
            self.assertIn(key, json_dialect.loads(self.ask(self.master, code).body))
        answer = self.ask(self.master, 201, {"groupSeq": "0", "dataVersion": "", "maxGroupNum": "2000"})
        groups = json_dialect.loads(answer.body)["subscriptionGroupTable"]
        self.assertEqual(int(answer.fields["totalGroupNum"]), len(groups))


class PassingOnTests(GroupCase):
    def test_a_send_to_the_slave(self) -> None:
        """Is stored by the master, and acknowledged as the master acknowledges."""
        answer = self.await_(self.sending(self.slave, b"astray"))
        self.assertEqual(answer.code, 0)
        storer = bytes(map(int, self.master.address.split("."))).hex().upper()
        self.assertTrue(answer.fields["msgId"].startswith(storer))
        pulled = self.ask(self.master, RequestCode.PULL_MESSAGE, pull_fields())
        self.assertEqual([found.body for found in records(pulled)], [b"astray"])
        self.assertIn("rocketha_stray_requests_forwarded_total 1.0\n", self.service(self.slave).metrics.exposition())

    def test_a_consumer_of_the_slave(self) -> None:
        """Gets the master's messages and commits to the master, by way of the slave."""
        for host in (self.master, self.slave):
            self.ask(host, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        self.send(self.master, b"one")
        pulled = self.ask(self.slave, RequestCode.PULL_MESSAGE, pull_fields(sysFlag="0"))
        self.assertEqual([found.body for found in records(pulled)], [b"one"])
        commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
        self.assertEqual(self.ask(self.slave, RequestCode.UPDATE_CONSUMER_OFFSET, commit).code, 0)
        self.assertEqual(self.service(self.master).broker.state.offsets.query("G", "T", 0), 1)
        question = {"consumerGroup": "G", "topic": "T", "queueId": "0"}
        self.assertEqual(self.ask(self.slave, RequestCode.QUERY_CONSUMER_OFFSET, question).fields["offset"], "1")

    def test_a_pull_waits_at_the_master(self) -> None:
        """A message that comes meanwhile ends the wait."""
        for host in (self.master, self.slave):
            self.ask(host, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        self.send(self.master, b"one")
        waiting = self.asking(self.slave, RequestCode.PULL_MESSAGE, pull_fields(offset=1, sysFlag="2"))
        self.run_for(3)
        self.assertFalse(self.answered(waiting))
        self.send(self.slave, b"two")
        self.assertEqual([found.body for found in records(self.await_(waiting, 1))], [b"two"])

    def test_nobody_is_there(self) -> None:
        """The master is dead: a slave answers as Java's, a little later."""
        self.send(self.master)
        self.master.kill()
        self.run_for(0.5)
        began = self.world.now
        self.assertEqual(self.send(self.slave), ResponseCode.SYSTEM_BUSY)
        self.assertLess(self.world.now - began, 2.9)

    def test_stop(self) -> None:
        """Nothing is left that runs."""
        self.send(self.slave)
        self.stop(self.slave)
        self.stop(self.master)


class SwitchedOffTests(GroupCase):
    settings = "forwardSends=false"

    def test_as_java(self) -> None:
        """A slave refuses at once, and serves what Java's serves."""
        self.send(self.master)
        self.assertEqual(self.send(self.slave), ResponseCode.SYSTEM_BUSY)
        self.ask(self.master, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        self.run_for(1)
        commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
        self.assertEqual(self.ask(self.slave, RequestCode.UPDATE_CONSUMER_OFFSET, commit).code, 0)
        self.assertEqual(self.service(self.slave).broker.state.offsets.query("G", "T", 0), 1)
