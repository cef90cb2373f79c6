"""Runtime information, configuration, counters."""

from __future__ import annotations

import unittest
from collections.abc import Mapping

import attrs

from rocketha.broker.data_version import DataVersion
from rocketha.broker.effects import Audit, RegisterTopics
from rocketha.broker.runtime_requests import readable_bytes
from rocketha.broker.state import FixedConfig
from rocketha.errors import ConfigError
from tests.broker.support import NOW_MS, Broker

RUNTIME, UPDATE, CONFIG, STATS = 28, 25, 26, 315


@attrs.define
class LiveConfig:
    """Two keys, one of which may change."""

    values: dict[str, str] = attrs.field(factory=lambda: {"brokerPermission": "6", "storePathRootDir": "/store"})
    version: DataVersion = attrs.field(factory=DataVersion)

    def texts(self) -> Mapping[str, str]:
        return self.values

    def change(self, changes: Mapping[str, str], now_ms: int) -> None:
        if set(changes) - {"brokerPermission"}:
            raise ConfigError("not a live key")
        self.values.update(changes)
        self.version.next(now_ms)


class ConfigTests(unittest.TestCase):
    """GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG (CVE-2023-33246, CVE-2024-23321)."""

    def setUp(self) -> None:
        self.broker = Broker()

    def test_sorted_and_without_secrets(self) -> None:
        """Java showed credentials to whoever asked."""
        texts = {"b": "2", "a": "1", "tls.server.keyPassword": "hunter2", "accessKey": "x", "someSecretKey": "y"}
        self.broker.state.config = FixedConfig(texts, DataVersion(2, 0, 5))
        answer = self.broker.reply(CONFIG)
        rows = answer.body.decode().splitlines()
        self.assertEqual(rows[:3], ["a=1", "accessKey=******", "b=2"])
        self.assertNotIn(b"hunter2", answer.body)
        self.assertEqual(dict(answer.fields or {}), {"version": '{"counter":2,"stateVersion":0,"timestamp":5}'})

    def test_off_by_default_and_logged(self) -> None:
        """Whoever tries is in the log, without the values."""
        answer = self.broker.reply(UPDATE, {}, b"rocketmqHome=/tmp/x;touch y\n")
        self.assertEqual(answer.code, 16)
        (audit,) = self.broker.effects
        assert isinstance(audit, Audit)
        self.assertEqual((audit.peer, audit.details["keys"]), ("192.0.2.1:5000", "rocketmqHome"))
        self.assertNotIn("touch", str(audit))

    def test_live_keys(self) -> None:
        """A change is shown at once; one forbidden key refuses all of them."""
        self.broker.state.config = LiveConfig()
        self.assertEqual(self.broker.reply(UPDATE, {}, b"# by hand\n\nbrokerPermission = 4\n").code, 0)
        self.assertIn(RegisterTopics(None), self.broker.effects)
        self.assertIn(b"brokerPermission=4\n", self.broker.reply(CONFIG).body)
        answer = self.broker.reply(UPDATE, {}, b"brokerPermission=2\nstorePathRootDir=/etc\n")
        self.assertEqual((answer.code, answer.remark), (16, "not a live key"))
        self.assertIn(b"brokerPermission=4\n", self.broker.reply(CONFIG).body)

    def test_hostile_bodies(self) -> None:
        """No key=value, no UTF-8, control characters, escapes, too much."""
        self.broker.state.config = LiveConfig()
        many = b"".join(b"k%d=1\n" % number for number in range(1025))
        broken = (b"brokerPermission", b"=4", b"a=\xff", b"a=b\x00c", b"a=\\u000a", b"a=b\rc=d")
        for body in (*broken, b"a" * 65_537, many):
            with self.subTest(body=body[:20]):
                self.assertEqual(self.broker.reply(UPDATE, {}, body).code, 29)
        self.assertEqual(self.broker.state.config.texts()["brokerPermission"], "6")


class RuntimeTests(unittest.TestCase):
    """GET_BROKER_RUNTIME_INFO, VIEW_BROKER_STATS_DATA."""

    def test_everything_is_text(self) -> None:
        """`KVTable` in Java is a map of strings."""
        table = Broker().value(RUNTIME)["table"]
        self.assertEqual({type(value) for value in table.values()}, {str})

    def test_what_mqadmin_parses(self) -> None:
        """clusterList splits the rates and takes numbers from the rest (facts 11)."""
        table = Broker().value(RUNTIME)["table"]
        float(table["putTps"].split(" ")[0] or 0)
        for key in ("sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "ackThreadPoolQueueSize", "timerReadBehind"):
            int(table[key])
        for key in ("pageCacheLockTimeMills", "earliestMessageTimeStamp", "timerOffsetBehind", "timerCongestNum"):
            int(table[key])
        self.assertEqual((table["brokerActive"], table["brokerVersionDesc"]), ("true", "V5_5_0"))

    def test_what_the_exporter_parses(self) -> None:
        """rocketmq-exporter shows none of these where one is missing or is no number."""
        table = Broker().value(RUNTIME)["table"]
        for key in ("brokerVersion", "putMessageEntireTimeMax", "getMessageEntireTimeMax", "dispatchMaxBuffer"):
            int(table[key])
        for key in ("putLatency99", "putLatency999", "putMessageAverageSize"):
            float(table[key])
        self.assertEqual((table["brokerVersion"], table["putMessageDistributeTime"]), ("513", "null"))

    def test_the_service_s_facts_win(self) -> None:
        """Disk ratios and delay progress come from outside."""
        broker = Broker()
        broker.state.runtime_facts = lambda now_ms: {"commitLogDiskRatio": "0.5", "dispatchBehindBytes": str(now_ms)}
        table = broker.value(RUNTIME)["table"]
        self.assertEqual((table["commitLogDiskRatio"], table["dispatchBehindBytes"]), ("0.5", str(NOW_MS)))

    def test_log_state(self) -> None:
        """Offsets and what is not on disk yet."""
        broker = Broker()
        for _ in range(10):
            broker.store.put("T", 0, NOW_MS)
        broker.store.flushed_offset = 976
        table = broker.value(RUNTIME)["table"]
        self.assertEqual((table["commitLogMaxOffset"], table["remainHowManyDataToFlush"]), ("2000", "1.0 KiB"))
        self.assertEqual(table["earliestMessageTimeStamp"], str(NOW_MS))

    def test_readable_bytes(self) -> None:
        """As Java's `humanReadableByteCount` in binary units."""
        for count, text in ((0, "0 B"), (295, "295 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**20, "1.0 MiB")):
            self.assertEqual(readable_bytes(count), text)
        self.assertEqual(readable_bytes(252 * 2**30), "252.0 GiB")

    def test_counters(self) -> None:
        """A counter of a topic, and one that never counted."""
        broker = Broker()
        broker.state.stats.topic("T").put_messages += 3
        value = broker.value(STATS, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"})
        self.assertEqual(value["statsDay"]["sum"], 3)
        self.assertEqual(broker.reply(STATS, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "U"}).code, 1)

    def test_timer_requests_of_a_java_slave(self) -> None:
        """Answered as by a Java broker without a timer wheel; the slave skips them."""
        self.assertEqual([Broker().reply(code).code for code in (60, 61)], [1, 1])
