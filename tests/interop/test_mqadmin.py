"""mqadmin, unmodified, against our servers: what it prints has the content it must have and the shape it has with
Java's.

One scenario is run once on Java's nameserver and broker and once on each other pair; the texts are then compared with
what is bound to differ (addresses, clocks, rates, ids of mqadmin's own messages) masked. Source: issue 3 "Shows" 2;
facts/broker-requests.md 11.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from .harness import BROKERS, NAMESRVS, Admin, JavaClient, PairCase, for_pairs, mqadmin, scratch, wait_until
from .harness.processes import Process

GROUP = "admin-group"
TOPIC = "AdminTopic"


class Scenario:
    """The commands in an order in which each has something to show, on a fresh cluster; `out` keeps what they
    printed."""

    def __init__(self, admin: Admin, client: JavaClient, broker_address: str) -> None:
        self.admin = admin
        self.client = client
        self.broker = broker_address
        self.out: dict[str, str] = {}
        self.sent: list[dict[str, object]] = []

    def say(self, name: str, *arguments: str) -> str:
        self.out[name] = self.admin.run(*arguments)
        return self.out[name]

    def until(self, name: str, expected: str, *arguments: str) -> None:
        """For what becomes true a moment later by itself, such as an index entry."""
        wait_until(
            f"{name} to print {expected!r}", lambda: expected in self.say(name, *arguments), 30, self.admin.running
        )

    def run(self) -> dict[str, str]:
        try:
            for part in (self.topics, self.messages, self.groups, self.queries, self.servers, self.deletion):
                part()
        except AssertionError as why:
            why.add_note("\n".join(f"=== {name}\n{text}" for name, text in list(self.out.items())[-4:]))
            raise
        return self.out

    def topics(self) -> None:
        self.say("updateTopic", "updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "4", "-w", "4")
        self.until("topicRoute", TOPIC and '"readQueueNums":4', "topicRoute", "-t", TOPIC)
        self.say("updateTopic again", "updateTopic", "-b", self.broker, "-t", TOPIC, "-r", "3", "-w", "3", "-p", "6")
        self.until("topicRoute again", '"readQueueNums":3', "topicRoute", "-t", TOPIC)
        self.say("updateTopic bad", "updateTopic", "-b", self.broker, "-t", "bad name!", "-r", "3", "-w", "3")
        self.say("updateTopic system", "updateTopic", "-b", self.broker, "-t", "TBW102", "-r", "3", "-w", "3")
        self.say("topicList", "topicList")
        self.say("topicRoute unknown", "topicRoute", "-t", "NoSuchTopic")

    def messages(self) -> None:
        for queue in range(3):
            self.sent += self.client.send(
                TOPIC,
                "sync",
                4,
                prefix=f"q{queue}",
                queue=queue,
                broker="broker-a",
                tags=["TagA", "TagB"],
                text=True,
                seed=queue + 1,
                min_size=20,
                max_size=20,
                fixed_ids=True,
                props={"user": "u"},
            )
        self.say(
            "sendMessage",
            "sendMessage",
            "-t",
            TOPIC,
            "-p",
            "hello from mqadmin",
            "-k",
            "adminKey",
            "-c",
            "TagC",
            "-b",
            "broker-a",
            "-i",
            "2",
        )
        self.say("topicStatus", "topicStatus", "-t", TOPIC)
        self.say("consumeMessage", "consumeMessage", "-t", TOPIC, "-b", "broker-a", "-i", "0", "-o", "1", "-c", "2")
        self.say("printMsg", "printMsg", "-t", TOPIC, "-d", "true", "-s", "TagA")

    def groups(self) -> None:
        self.say(
            "updateSubGroup", "updateSubGroup", "-c", "DefaultCluster", "-g", GROUP, "-q", "2", "-r", "5", "-d", "true"
        )
        self.client.consume("admin-consumer", {TOPIC: "*"}, group=GROUP, persist_ms=200)
        self.client.await_received("admin-consumer", 13)
        self.client.await_queues("admin-consumer", TOPIC, 3)
        self.say("consumerConnection", "consumerConnection", "-g", GROUP)
        self.say("producerConnection", "producerConnection", "-g", "interop-producers", "-t", TOPIC)
        self.client.stop_consumer("admin-consumer")
        self.client.send(
            TOPIC,
            "sync",
            2,
            prefix="late",
            queue=0,
            broker="broker-a",
            text=True,
            seed=4,
            min_size=20,
            max_size=20,
            fixed_ids=True,
        )
        self.say("consumerProgress", "consumerProgress", "-g", GROUP)
        self.say("consumerProgress all", "consumerProgress")
        self.say("consumerProgress unknown", "consumerProgress", "-g", "no-such-group")
        self.say("topicList -c", "topicList", "-c")

    def queries(self) -> None:
        wanted = self.sent[5]
        self.until("queryMsgByKey", str(wanted["id"]), "queryMsgByKey", "-t", TOPIC, "-k", str(wanted["key"]))
        self.say("queryMsgByUniqueKey", "queryMsgByUniqueKey", "-t", TOPIC, "-i", str(wanted["id"]))
        self.say("queryMsgById", "queryMsgById", "-t", TOPIC, "-i", str(wanted["offset_id"]))
        self.say("queryMsgByOffset", "queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", "1", "-o", "1")
        self.say("queryMsgByKey unknown", "queryMsgByKey", "-t", TOPIC, "-k", "no-such-key")

    def servers(self) -> None:
        self.say("clusterList", "clusterList")
        self.out["own process"] = mqadmin(self.admin.namesrv, "topicRoute", "-t", TOPIC)
        self.say("brokerStatus", "brokerStatus", "-b", self.broker)
        self.say("getBrokerConfig", "getBrokerConfig", "-b", self.broker)
        self.say("getNamesrvConfig", "getNamesrvConfig")
        self.say("queryCq", "queryCq", "-t", TOPIC, "-q", "0", "-i", "1", "-c", "2", "-b", self.broker)
        self.say("queryCq unknown", "queryCq", "-t", "NoSuchTopic", "-q", "0", "-i", "0", "-b", self.broker)
        for name in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
            self.say(name, name, "-b", self.broker)

    def deletion(self) -> None:
        self.say("deleteTopic", "deleteTopic", "-c", "DefaultCluster", "-t", TOPIC)
        self.say("topicRoute deleted", "topicRoute", "-t", TOPIC)
        self.say("topicList deleted", "topicList")
        self.say("deleteSubGroup", "deleteSubGroup", "-c", "DefaultCluster", "-g", GROUP)


def run_on(pair: tuple[str, str], folder: Path, processes: list[Process]) -> dict[str, str]:
    namesrv = NAMESRVS[pair[0]]("namesrv", folder / "namesrv")
    processes.append(namesrv)
    namesrv.start()
    broker = BROKERS[pair[1]](folder / "broker", namesrv)
    processes.append(broker)
    broker.start()
    client = JavaClient(namesrv.address, folder=folder / "client")
    admin = Admin(namesrv.address, folder / "admin")
    processes += [client, admin]
    client.start()
    admin.start()
    client.producer()
    return {
        k: v.replace(broker.address, "BROKER").replace(namesrv.address, "NAMESRV")
        for k, v in Scenario(admin, client, broker.address).run().items()
    }


@functools.cache
def javas_own() -> dict[str, str]:
    """What the scenario prints on Java's own servers."""
    processes: list[Process] = []
    try:
        return run_on(("java", "java"), scratch("mqadmin-java"), processes)
    finally:
        for process in reversed(processes):
            process.kill()


def masked(text: str) -> str:
    """The text without what two runs of one program differ in."""
    text = re.sub(r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([.,:]\d+)?", "TIME", text)
    text = re.sub(r"\b\d+\.\d+\.\d+\.\d+:\d{4,5}\b", "HOST", text)
    text = re.sub(r"(\d+\.\d+\.\d+\.\d+@[\w-]+-)\d+", r"\1PID", text)
    text = re.sub(r"\b[0-9A-F]{32}([0-9A-F]{24})?\b", "ID", text)
    text = re.sub(r"\b1[67]\d{11}\b", "MILLIS", text)
    text = re.sub(r"\d+\.\d+", "0.0", text)
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())


class Mqadmin(PairCase):
    """The scenario on one pair, and one question a command."""

    out: dict[str, str]

    @classmethod
    def prepare(cls) -> None:
        processes: list[Process] = []
        try:
            cls.java = javas_own()
            cls.out = cls.java if cls.pair == ("java", "java") else run_on(cls.pair, cls.folder, processes)
        finally:
            for process in reversed(processes):
                process.kill()

    def check_as_java(self, *names: str) -> None:
        for name in names:
            with self.subTest(name):
                self.assertEqual(masked(self.out[name]), masked(self.java[name]))

    def rows(self, name: str) -> list[list[str]]:
        return [line.split() for line in self.out[name].splitlines() if line.strip() and not line.startswith("#")]

    def test_update_topic(self) -> None:
        """A topic is made by cluster, changed by broker address; bad and reserved names are refused with code 29."""
        self.assertIn(
            "create topic to BROKER success.\nTopicConfig [topicName=AdminTopic, readQueueNums=4",
            self.out["updateTopic"],
        )
        for name in ("updateTopic bad", "updateTopic system"):
            self.assertIn("CODE: 29", self.out[name])
        self.check_as_java("updateTopic", "updateTopic again")

    def test_topic_route(self) -> None:
        """The nameserver knows the topic at once, with the broker's own address; an unknown one is code 17."""
        self.assertIn('0:"BROKER"', self.out["topicRoute"])
        self.assertIn("CODE: 17", self.out["topicRoute unknown"])
        self.check_as_java("topicRoute", "topicRoute again", "own process")

    def test_topic_list(self) -> None:
        """All topics; those that only features we do not have own may be missing, none may be invented."""
        ours, java = (
            {row[0] for row in map(str.split, text.splitlines()) if row}
            for text in (self.out["topicList"], self.java["topicList"])
        )
        self.assertIn(TOPIC, ours)
        self.assertEqual(ours - java, set())
        others = {
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "RMQ_SYS_TRANS_OP_HALF_TOPIC",
            "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
            "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        }
        others |= {"rmq_sys_REVIVE_LOG_DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_wheel_timer"}
        self.assertLessEqual(java - ours, others)
        self.assertIn(["DefaultCluster", TOPIC, GROUP], self.rows("topicList -c"))

    def test_topic_status(self) -> None:
        """Offsets of every queue, and when it was written."""
        self.assertEqual(
            [row[:4] for row in self.rows("topicStatus")[:3]],
            [["broker-a", "0", "0", "4"], ["broker-a", "1", "0", "4"], ["broker-a", "2", "0", "5"]],
        )
        self.check_as_java("topicStatus")

    def test_send_message(self) -> None:
        """mqadmin sends to the queue it was told."""
        self.assertEqual(self.rows("sendMessage")[0][:3], ["broker-a", "2", "SEND_OK"])

    def test_consume_and_print_messages(self) -> None:
        """Messages from an offset, and by tag, with all that a message has, including what the broker added."""
        self.assertEqual(self.out["consumeMessage"].count("MSGID: "), 2)
        self.assertIn("BODY: bcdefghijklmnopqrstu", self.out["consumeMessage"])
        self.assertEqual(self.out["printMsg"].count("TAGS=TagA"), 6)
        self.assertNotIn("TAGS=TagB", self.out["printMsg"])
        self.check_as_java("consumeMessage", "printMsg")

    def test_groups(self) -> None:
        """A group's settings, members, and how far it is behind."""
        self.assertIn("retryQueueNums=2, retryMaxTimes=5", self.out["updateSubGroup"])
        self.assertIn("Consume Diff Total: 2", self.out["consumerProgress"])
        offline = [[row[0], row[1], row[2], row[4]] for row in self.rows("consumerProgress all")]  # row[3] is a rate
        self.assertIn([GROUP, "0", "OFFLINE", "2"], offline)
        self.assertIn("CODE: 17", self.out["consumerProgress unknown"])
        self.check_as_java("updateSubGroup", "consumerConnection", "producerConnection", "consumerProgress")

    def test_query_messages(self) -> None:
        """By key, by the client's id, by offset id, by queue offset; an unknown key is said to be unknown."""
        for name in ("queryMsgByUniqueKey", "queryMsgById", "queryMsgByOffset"):
            self.assertRegex(self.out[name], r"Keys: +\[q1-1\]")
            self.assertIn("MessageTrack [consumerGroup=admin-group, trackType=NOT_ONLINE", self.out[name])
        self.assertIn("CODE: 208", self.out["queryMsgByKey unknown"])
        self.check_as_java("queryMsgByKey", "queryMsgByUniqueKey", "queryMsgById", "queryMsgByOffset")

    def test_cluster_list(self) -> None:
        """One row for the broker, as many columns as Java's, no null in them."""
        rows = [re.sub(r"\d+(\.\d+)?", "0", masked(self.out["clusterList"]).splitlines()[1]).split() for _ in (0,)]
        javas = re.sub(r"\d+(\.\d+)?", "0", masked(self.java["clusterList"]).splitlines()[1]).split()
        self.assertEqual([re.sub("^V.*", "V", c) for c in rows[0]], [re.sub("^V.*", "V", c) for c in javas])
        self.assertIn("BROKER", rows[0])

    def test_broker_status(self) -> None:
        """Every figure that Java's broker reports, under its name, and those that can be known are right.

        The logs are as long as each other, to the byte, as the same messages were sent with ids of the same length.
        """
        ours, java = (
            {
                key.strip(): value.strip()
                for key, _, value in (line.partition(":") for line in text.splitlines())
                if value
            }
            for text in (self.out["brokerStatus"], self.java["brokerStatus"])
        )
        self.assertEqual(
            sorted(k for k in java if k not in ours and not k.startswith("commitLogDiskRatio_")),
            [],
        )
        self.assertEqual(ours["commitLogMinOffset"], "0")
        self.assertEqual(ours["commitLogMaxOffset"], java["commitLogMaxOffset"])
        self.assertEqual(ours["msgPutTotalTodayNow"], "15")
        self.assertEqual(ours["brokerActive"], "true")
        self.assertRegex(ours["runtime"], r"^\[ 0 days, 0 hours, \d+ minutes, \d+ seconds \]$")

    def test_configuration(self) -> None:
        """The settings that the processes were given."""
        ours = {row[0]: row[2] for row in self.rows("getBrokerConfig") if len(row) == 3}
        self.assertEqual(
            (ours["brokerName"], ours["brokerRole"], ours["mappedFileSizeCommitLog"]),
            ("broker-a", "ASYNC_MASTER", "16777216"),
        )
        self.assertIn("listenPort", self.out["getNamesrvConfig"])

    def test_what_is_in_the_store(self) -> None:
        """Entries of a queue as they are, and what an administrator wants gone."""
        self.assertEqual(self.out["queryCq"].count("physicOffset"), 2, self.out["queryCq"])
        self.assertIn("success", self.out["deleteExpiredCommitLog"])
        self.check_as_java("queryCq", "cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog")

    def test_delete(self) -> None:
        """A deleted topic is gone from broker and nameserver, a deleted group from the broker."""
        self.assertIn("delete topic [AdminTopic] from NameServer success", self.out["deleteTopic"])
        self.assertIn("CODE: 17", self.out["topicRoute deleted"])
        self.assertNotIn(TOPIC, self.out["topicList deleted"].split())
        self.check_as_java("deleteTopic", "deleteSubGroup")


globals().update(for_pairs(Mqadmin))
del Mqadmin
