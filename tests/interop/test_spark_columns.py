"""Every column of the Spark table against Java's own ``MessageDecoder``, row for row.

On logs that a real Java broker wrote for Java's client, and that ours wrote, both with IPv6 hosts, long topics and
every codec; and that nobody ever wrote: records of any content.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tests.spark import logs

from .harness import FULL, PairCase
from .harness.clients import Event
from .harness.ports import ipv6
from .harness.roles import LOOPBACK6
from .harness.tables import TableCase

MESSAGES = 200_000 if FULL else 3_000
LONG = 1_000 if FULL else 10
CODECS = ("ZLIB", "LZ4", "ZSTD")
LONG_GROUP = "g" * 200  # clients up to 5.3 take 255 characters, today's 120
HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def configure_group(store: Path) -> None:
    """Into a broker's folder: no broker makes a group with so long a name by use."""
    (store / "config").mkdir(parents=True, exist_ok=True)
    group = {"groupName": LONG_GROUP, "retryQueueNums": 1, "retryMaxTimes": 16}
    text = json.dumps({"subscriptionGroupTable": {LONG_GROUP: group}})
    (store / "config" / "subscriptionGroup.json").write_text(text)


class AnyLogTests(TableCase):
    """What no broker wrote, but its format allows."""

    def test_any_record(self) -> None:
        seed = random.randrange(1 << 32)
        store = logs.filled(self.subfolder("store") / "s", seed, MESSAGES // 3)
        directory = self.subfolder("any")
        store.export(directory)
        with self.subTest(seed=seed):
            self.assertEqual(self.compare(directory, 1), len(store.records))


class BrokerLogs(PairCase, TableCase):
    """What Java's client sends, as a broker stored it."""

    @classmethod
    def prepare(cls) -> None:
        configure_group(cls.folder / "broker" / "store")
        super().prepare()

    def test_every_kind(self) -> None:
        """Of messages, with hosts of IPv4, and of IPv6 once the broker has moved there."""
        self.transactions()
        self.long_topic()
        old = self.mixed(0)
        if ipv6():
            self.move()
        self.mixed(1)
        for sent in old:  # born there, stored again here
            self.client.send_back(sent["topic"], sent["offset_id"], "readers", producer="ZLIB1", delay_level=1)
        directory = self.export(self.broker.root)
        rows = self.compare(directory, MESSAGES)
        self.compare_unpacked(directory)
        sys.stderr.write(f"{self.pair}: {rows} rows equal: {dict(sorted(self.kinds.items()))}\n")
        for codec in CODECS:
            self.assertGreater(self.kinds[f"codec {codec.lower()}"], 0)
        self.assertGreaterEqual(self.kinds["v2"], LONG)
        longs = {self.kinds["v2"], self.kinds["long topic"], self.topics[f"%RETRY%{LONG_GROUP}"]}
        self.assertEqual(len(longs), 1, longs)
        self.transactions_found()
        if not ipv6():
            self.skipTest("this machine has no ::1: all but hosts of IPv6 were compared")
        for hosts in ("0x0", "0x20", "0x30"):
            self.assertGreater(self.kinds[f"hosts {hosts}"], 0, hosts)

    def mixed(self, phase: int) -> list[Event]:
        """Half of all: singles, batches, bodies that the client compresses, delays, tags, keys, any properties.

        :return: some of them.
        """
        for codec in CODECS:
            self.client.producer(f"{codec}{phase}", f"packers-{codec}", compress_over=500, compress_type=codec)
        count = MESSAGES // 8
        named = {"colour": "grün", "empty ": "x", "emoji": "😀", "KEY2": "a b"}
        packing = {"max_size": 9000, "text": True, "flag": 7}
        for number, (mode, share, more) in enumerate(
            (
                ("async" if FULL else "sync", 1, {"tags": ["A", "B"], "props": named, "max_size": 300}),
                ("batch", 1, {"batch": 17, "max_size": 200}),
                *(("async", 3, {**packing, "producer": f"{codec}{phase}"}) for codec in CODECS),
                ("async", 1, {"delay_level": 2, "max_size": 50}),
            )
        ):
            prefix = f"m{phase}{number}"
            given = {"producer": f"ZLIB{phase}", "timeout_s": 300, **more}
            self.client.send(f"Columns{number}", mode, -(-count // share), prefix=prefix, **given)
        return self.client.send("T" * 120, "sync", 5, prefix=f"long{phase}", producer=f"ZLIB{phase}")

    def move(self) -> None:
        """The broker, with all it has stored, to ::1; killed, as Java's takes 10 s to end."""
        self.broker.kill()
        self.broker.move(self.broker.port, LOOPBACK6)
        self.broker.start()

    def long_topic(self) -> None:
        """Records of a topic of more than 127 bytes, which only the retry topic of a configured group is."""
        self.send_back_long()
        self.await_messages(f"%RETRY%{LONG_GROUP}", LONG)

    def send_back_long(self) -> None:
        """Messages with bodies of every length, to get them again soon."""
        self.client.producer("long", compress_over=500)
        for sent in self.client.send("Columns", count=LONG, prefix="back", producer="long", text=True, max_size=1000):
            self.client.send_back("Columns", sent["offset_id"], LONG_GROUP, producer="long", delay_level=1)

    def await_messages(self, topic: str, count: int) -> None:
        """Until the queues of a topic have so many."""

        def there() -> bool:
            queues = range(4)  # as many as the client asks for; one that is not there is empty
            return sum(self.client.question("max", topic, queue=queue)["offset"] for queue in queues) >= count

        self.client.until_true(there, f"{count} messages of {topic}")

    def transactions(self) -> None:
        """Of a broker that has them."""

    def transactions_found(self) -> None:
        """None, where there were none."""
        self.assertEqual([kind for kind in self.kinds if kind.startswith("transaction")], ["transaction 0x0"])


class JavaBrokerColumns(BrokerLogs):
    """A Java broker's."""

    pair = ("java", "java")
    broker_extra = {"transactionOpBatchInterval": 200}

    def transactions(self) -> None:
        """Left open, rolled back and committed, one kind after the other."""
        self.client.producer("t", "transactions", transactional=True)
        for outcome, topic, count in (
            ("UNKNOW", HALF_TOPIC, 3),
            ("ROLLBACK_MESSAGE", OP_TOPIC, 1),
            ("COMMIT_MESSAGE", "Ended", 3),
        ):
            self.client.send("Ended", "transaction", 3, prefix=outcome, producer="t", outcome=outcome)
            self.await_messages(topic, count)

    def transactions_found(self) -> None:
        """Java keeps prepared messages in a topic of its own without the bits, and ends them in another."""
        self.assertGreaterEqual(self.topics[HALF_TOPIC], 9)
        self.assertGreaterEqual(self.topics[OP_TOPIC], 1)
        self.assertEqual((self.topics["Ended"], self.kinds["transaction 0x8"]), (3, 3))


class OurBrokerColumns(BrokerLogs):
    """Ours."""

    pair = ("ours", "ours")


del BrokerLogs, PairCase, TableCase
