"""80,000 topics between Java and ours: registered in parts, changed, and found (rocketmq issues 5296, 10425)."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import ClassVar

from .harness import remoting
from .harness.case import FULL, InteropCase
from .harness.processes import wait_until
from .harness.roles import BROKERS, NAMESRVS, _Broker, _Namesrv

TOPICS = 80_000
UPDATE_TOPIC, ROUTE, TOPIC_LIST = 17, 105, 206


def name(number: int) -> str:
    return f"tenant_{number % 97:03d}_orders_created_topic_{number:06d}"


def write_topics(root: Path) -> None:
    """config/topics.json as either broker reads it."""
    table = {
        name(number): {"topicName": name(number), "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        for number in range(TOPICS)
    }
    (root / "config").mkdir(parents=True)
    value = {"dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1}, "topicConfigTable": table}
    (root / "config/topics.json").write_text(json.dumps(value))


@unittest.skipUnless(FULL, "a minute and 80,000 topics (make interop-full)")
class OurBrokerAtJavasNameserver(InteropCase):
    """The broker registers in parts by itself."""

    kinds = ("java", "ours")
    extra: ClassVar[dict[str, object]] = {}
    namesrv: _Namesrv
    broker: _Broker

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(NAMESRVS[cls.kinds[0]]("namesrv", cls.folder / "namesrv"))
        cls.broker = BROKERS[cls.kinds[1]](cls.folder / "broker", cls.namesrv, cls.extra)
        write_topics(cls.broker.root)
        cls.share(cls.broker)

    def queues(self, topic: str) -> int:
        """Read queues of a topic's route; 0 without one."""
        reply = remoting.call(self.namesrv.address, ROUTE, {"topic": topic})
        return int(remoting.loads(reply.body)["queueDatas"][0]["readQueueNums"]) if reply.code == 0 else 0

    def update(self, topic: str, queues: int) -> None:
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        self.assertEqual(remoting.call(self.broker.address, UPDATE_TOPIC, fields).code, 0)

    def test_all_of_them(self) -> None:
        """Each has a route, and keeps it; one that is made, or changed in whatever part, is told at once."""

        def all_there() -> bool:
            found = remoting.loads(remoting.call(self.namesrv.address, TOPIC_LIST).body)["topicList"]
            return len(set(found) & {name(number) for number in range(TOPICS)}) == TOPICS

        wait_until("all topics to be registered", all_there, 60, self.broker.running)
        for topic, queues in ((name(3), 8), (name(TOPICS // 2), 8), (name(TOPICS - 1), 8), ("made", 2)):
            self.update(topic, queues)
            wait_until(f"{topic} to be told", lambda t=topic, q=queues: self.queues(t) == q, 40, self.broker.running)
        self.assertEqual(self.queues(name(4)), 4)
        self.assertNotIn("nhandled", self.broker.log_path.read_text(errors="replace"))


class OurBrokerAtOurs(OurBrokerAtJavasNameserver):
    """The same at our nameserver."""

    kinds = ("ours", "ours")


class JavasBrokerAtOurs(OurBrokerAtJavasNameserver):
    """Java's parts all have one data version in 5.5.0."""

    kinds = ("ours", "java")
    extra: ClassVar[dict[str, object]] = {"enableSplitRegistration": True, "registerNameServerPeriod": 10000}
