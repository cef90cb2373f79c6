"""Tables of a pair whose master and slave are of different make, and requests that come to our slave of a Java master.

Sources: SlaveSynchronize, BrokerOuterAPI and AdminBrokerProcessor of 5.5.0; facts/broker-requests.md 8.
"""

from __future__ import annotations

import json
import struct
import sys
import unittest
from typing import Any

from .harness import remoting
from .harness.case import FULL, InteropCase
from .harness.clients import mqadmin
from .harness.pairs import ClassicPair
from .harness.processes import wait_until
from .harness.roles import _Broker

PREFIX = "zMade"  # the last in order: a slave that stops early lacks one of these
TOPICS = 2105
GROUPS = 1205
UPDATE_TOPICS, UPDATE_GROUPS, DELETE_TOPIC, DELETE_GROUP, HEARTBEAT, COMMIT, SET_MODE = 18, 225, 215, 207, 34, 15, 401
ALL_TOPICS, ALL_OFFSETS, ALL_DELAYS, ALL_GROUPS, ALL_MODES = 21, 43, 45, 201, 402
SEND, SEND_BATCH, SEND_BACK, PULL, QUERY_OFFSET, LOCK = 310, 320, 36, 11, 14, 41


def ask(broker: _Broker, code: int, fields: dict[str, str] | None = None, body: Any = b"") -> remoting.Reply:
    """An answer, which must be a success."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = remoting.call(broker.address, code, fields, raw, timeout_s=20)
    assert reply.code == 0, (code, reply.code, reply.remark)
    return reply


def tables(broker: _Broker) -> dict[str, Any]:
    """All that a slave takes, whole: without paging fields everything comes at once."""
    topics = remoting.loads(ask(broker, ALL_TOPICS).body)["topicConfigTable"]
    groups = remoting.loads(ask(broker, ALL_GROUPS).body)["subscriptionGroupTable"]
    return {
        "topics": {name: config for name, config in topics.items() if name.startswith(PREFIX)},
        "groups": {name: config for name, config in groups.items() if name.startswith(PREFIX)},
        "offsets": remoting.loads(ask(broker, ALL_OFFSETS).body)["offsetTable"],
        "delays": remoting.loads(ask(broker, ALL_DELAYS).body)["offsetTable"],
        "modes": remoting.loads(ask(broker, ALL_MODES).body)["messageRequestModeMap"],
    }


def send_fields(topic: str, properties: str, queue_id: int = 0, **more: str) -> dict[str, str]:
    """The header of SEND_MESSAGE_V2 as Java's client fills it."""
    return {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
        **more,
    }


def fill(master: _Broker, topics: int) -> None:
    """Something in every table, and more topics and groups than a page has."""
    rows = [
        {
            "topicName": f"zMade{number:05d}",
            "readQueueNums": 1 + number % 5,
            "writeQueueNums": 1 + number % 5,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": {"+message.type": "FIFO"} if number % 3 == 0 else {},
        }
        for number in range(topics)
    ]
    for first in range(0, len(rows), 400):
        ask(master, UPDATE_TOPICS, {}, {"topicConfigList": rows[first : first + 400]})
    groups = [{"groupName": f"zMade{number:05d}", "retryMaxTimes": 1 + number % 7} for number in range(GROUPS)]
    for first in range(0, len(groups), 400):
        ask(master, UPDATE_GROUPS, {}, {"groupConfigList": groups[first : first + 400]})
    for number in range(20):
        where = {"consumerGroup": "zMade00001", "topic": "zMade00004", "queueId": str(number % 5)}
        for _ in range(2):
            ask(master, SEND, send_fields("zMade00004", f"UNIQ_KEY\x01{number:032X}\x02", number % 5), b"body")
        ask(master, COMMIT, {**where, "commitOffset": "2"})
    ask(master, SEND, send_fields("zMade00004", f"UNIQ_KEY\x01{99:032X}\x02DELAY\x011\x02"), b"delayed")


class Tables(InteropCase):
    """A pair; the tests run in the order of their names."""

    kinds = ("java", "ours")
    patience_s = 30.0
    pair: ClassicPair

    @classmethod
    def prepare(cls) -> None:
        cls.pair = ClassicPair(cls.kinds, cls.folder, namesrv="ours", extra={"timerWheelEnable": True})
        cls._shared.extend(cls.pair.processes)
        cls.pair.start()

    def await_same(self, what: str) -> dict[str, Any]:
        """Until the slave has its master's tables; they."""
        seen: list[Any] = []

        def same() -> bool:
            seen[:] = [tables(self.pair.master), tables(self.pair.slave)]
            return bool(seen[0] == seen[1])

        try:
            wait_until(what, same, self.patience_s, self.pair.slave.running)
        except AssertionError:
            for table, masters in seen[0].items():
                slaves = seen[1][table]
                names = sorted(name for name in {*masters, *slaves} if masters.get(name) != slaves.get(name))[:3]
                for name in names:
                    sys.stderr.write(f"{table} {name}: {masters.get(name)!r}, slave {slaves.get(name)!r}\n")
            raise
        return dict(seen[0])

    def fill(self) -> None:
        fill(self.pair.master, TOPICS)

    def test_1_everything_comes(self) -> None:
        """Of more than two pages of topics each one, with its attributes."""
        self.fill()
        found = self.await_same("the slave to have its master's tables")
        self.assertGreaterEqual(len(found["topics"]), 1900)
        self.assertEqual(len(found["groups"]), GROUPS)
        self.assertEqual(found["topics"]["zMade00003"]["attributes"], {"message.type": "FIFO"})
        self.assertEqual(found["offsets"]["zMade00004@zMade00001"], {"0": 2, "1": 2, "2": 2, "3": 2, "4": 2})

    def test_2_deletions_come(self) -> None:
        """A topic and a group that go, go at the slave."""
        ask(self.pair.master, DELETE_TOPIC, {"topic": "zMade00007"})
        ask(self.pair.master, DELETE_GROUP, {"groupName": "zMade00007", "cleanOffset": "true"})
        found = self.await_same("deletions to come")
        self.assertNotIn("zMade00007", found["topics"])
        self.assertNotIn("zMade00007", found["groups"])
        where = ("-c", "DefaultCluster", "-g", "zMade00008", "-r", "true")
        said = mqadmin(self.pair.namesrv.address, "deleteSubGroup", *where)
        self.assertIn("delete subscription group [zMade00008]", said)
        self.assertNotIn("Exception", said)  # it deletes the group's topics at slaves, too
        self.assertNotIn("zMade00008", self.await_same("a group to go")["groups"])


class OurSlaveOfJava(Tables):
    def fill(self) -> None:
        """And a group that consumes by POP, which only Java serves."""
        super().fill()
        mode = {"topic": "zMade00004", "consumerGroup": "zMade00001", "mode": "POP", "popShareQueueNum": 0}
        ask(self.pair.master, SET_MODE, {}, mode)

    def send(self, body: bytes, code: int = SEND, properties: str = "", **more: str) -> remoting.Reply:
        """To the slave."""
        return ask(self.pair.slave, code, send_fields("zMade00004", properties, 1, **more), body)

    def pulled(self, broker: _Broker, offset: int = 0) -> remoting.Reply:
        """What a consumer gets that asks there."""
        header = {
            "consumerGroup": "zMade00001",
            "topic": "zMade00004",
            "queueId": "1",
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "1000",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        return remoting.call(broker.address, PULL, header, timeout_s=20)

    def test_3_sends_to_the_slave_reach_a_java_master(self) -> None:
        """A header with our mark is nothing to a Java broker, and its answer is ours."""
        before = int(self.pulled(self.pair.master).fields["maxOffset"])
        answer = self.send(b"astray")
        self.assertEqual(answer.fields["queueOffset"], str(before))
        self.assertIn("MSG_REGION", answer.fields)
        body = b"batch"  # one message: size, magic, CRC, flag, body, properties
        packed = struct.pack(">iiiii", 22 + len(body), 0, 0, 0, len(body)) + body + struct.pack(">h", 0)
        self.send(packed, SEND_BATCH, m="true")
        found = self.pulled(self.pair.slave, before)
        self.assertEqual(found.code, 0, found.remark)
        self.assertIn(b"astray", found.body)
        self.assertIn(b"batch", found.body)

    def test_4_consumers_of_the_slave(self) -> None:
        """Commit to the master, ask it, and lock there."""
        where = {"consumerGroup": "zMade00001", "topic": "zMade00004", "queueId": "1"}
        ask(self.pair.slave, COMMIT, {**where, "commitOffset": "3"})
        self.assertEqual(ask(self.pair.master, QUERY_OFFSET, where).fields["offset"], "3")
        self.assertEqual(ask(self.pair.slave, QUERY_OFFSET, where).fields["offset"], "3")
        queue = {"brokerName": "g", "queueId": 1, "topic": "zMade00004"}
        lock = {"clientId": "one", "consumerGroup": "zMade00001", "mqSet": [queue], "onlyThisBroker": False}
        self.assertEqual(len(remoting.loads(ask(self.pair.slave, LOCK, {}, lock).body)["lockOKMQSet"]), 1)
        other = {**lock, "clientId": "two"}
        self.assertEqual(remoting.loads(ask(self.pair.master, LOCK, {}, other).body)["lockOKMQSet"], [])

    def test_5_our_slave_goes_on_as_master(self) -> None:
        """The Java master is gone for good: every table is there."""
        before = self.await_same("the last of it")
        self.pair.master.kill()
        self.pair.slave.stop()
        self.pair.slave.extra.update({"brokerRole": "ASYNC_MASTER", "brokerId": 0})
        self.pair.slave.start()
        self.assertEqual(tables(self.pair.slave), before)
        self.assertEqual(before["modes"]["zMade00004"]["zMade00001"]["mode"], "POP")
        self.assertEqual(self.send(b"goes on").fields["queueId"], "1")


@unittest.skipUnless(FULL, "a Java slave of classic mode asks for tables after a minute (make interop-full)")
class JavaSlaveOfOurs(Tables):
    """Java's slave asks for pages of 2000 and stops when it has all but one."""

    kinds = ("ours", "java")
    patience_s = 150.0

    def fill(self) -> None:
        """So many that a page of a thousand would leave exactly one over."""
        own = len(remoting.loads(ask(self.pair.master, ALL_TOPICS).body)["topicConfigTable"])
        fill(self.pair.master, 2001 - own)
        self.assertEqual(ask(self.pair.master, ALL_TOPICS).fields["totalTopicNum"], "2001")


@unittest.skipUnless(FULL, "Java alone: the test itself (make interop-full)")
class JavaSlaveOfJava(Tables):
    kinds = ("java", "java")
    patience_s = 150.0


del Tables
