"""What a broker tells Prometheus of what was asked of it, under its own names and under Java's."""

from __future__ import annotations

import random
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.address import IPv4Address
from twisted.internet.defer import maybeDeferred
from twisted.internet.testing import StringTransport

from rocketha.broker import lag
from rocketha.errors import ConfigError
from rocketha.latencies import KEYS_MAX
from rocketha.observe import overview
from rocketha.observe.metrics import SERIES_MAX
from rocketha.protocols.network import InTheClear
from rocketha.services.config.loading import load_broker, load_controller, load_namesrv
from rocketha.services.tls.exporter import Told
from rocketha.store.in_memory import NotInMemory
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.codes import RequestCode
from tests.services.broker_case import BrokerCase, Client, heartbeat, pull_fields, send_fields
from tests.services.metrics_case import EXPORTED, MetricsCase

JAVA = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a", "otel_scope_name": "broker-meter"}


def pull(client: Client, **fields: Any) -> None:
    """A pull of queue 0 of T."""
    client.ask(RequestCode.PULL_MESSAGE, pull_fields(**fields))


class ValuesCase(BrokerCase):
    """Looks values up."""

    def value(self, name: str, **labels: str) -> float | None:
        return self.service.metrics.get_sample_value(name, labels)


class LatencyTests(ValuesCase):
    """From arrival to answer."""

    config = "flushDiskType=SYNC_FLUSH"  # whose syncs take as long as the test says

    def test_a_send_waits_for_the_disk(self) -> None:
        """Its time is that from its frame to its answer, and the sync is counted, too."""
        client = self.connect()
        for work in self.works:
            work.held = True
        client.say(client.command(RequestCode.SEND_MESSAGE_V2, send_fields(), b"x"))
        for work in self.works:  # the topic is saved first
            work.let_go()
        self.clock.advance(0.3)
        for work in self.works:
            work.held = False
            work.let_go()
        self.assertEqual([answer.code for answer in client.heard()], [0])
        self.assertEqual(self.value("rocketha_send_seconds_count"), 1)
        self.assertAlmostEqual(self.value("rocketha_send_seconds_sum") or 0, 0.3)
        self.assertEqual(self.value("rocketha_send_seconds_bucket", le="0.25"), 0)
        self.assertEqual(self.value("rocketha_send_seconds_bucket", le="0.5"), 1)
        self.assertGreaterEqual(self.value("rocketha_sync_seconds_count") or 0, 1)
        self.assertAlmostEqual(self.value("rocketha_sync_seconds_sum") or 0, 0.3)

    def test_pulls(self) -> None:
        """One that finds messages at once, and one that waits for a message, are counted apart; an empty one is not."""
        client, waiter = self.connect(), self.connect()
        self.send(client, b"first")
        pull(client)
        self.assertEqual(self.value("rocketha_pull_seconds_count"), 1)
        waiter.say(waiter.command(RequestCode.PULL_MESSAGE, pull_fields(offset=1, sysFlag="6")))
        self.clock.advance(0.7)
        self.assertEqual(self.value("rocketha_pulls_held"), 1)
        self.send(client, b"second")
        self.assertEqual(self.value("rocketha_held_pull_seconds_count"), 1)
        self.assertAlmostEqual(self.value("rocketha_held_pull_seconds_sum") or 0, 0.7)
        pull(client, offset=2)
        self.assertEqual(self.value("rocketha_pull_seconds_count"), 1)


class LagTests(ValuesCase):
    """How far groups are behind."""

    def setUp(self) -> None:
        super().setUp()
        self.client = self.connect()
        for number in range(5):
            self.send(self.client, b"%d" % number)
            self.clock.advance(1)

    def lags(self) -> tuple[Any, Any]:
        self.clock.advance(lag.KEPT_MS / 1000)
        labels = {"group": "G", "topic": "T"}
        return (
            self.value("rocketha_consumer_lag_messages", **labels),
            self.value("rocketha_consumer_lag_age_milliseconds", **labels),
        )

    def commit(self, offset: int, group: str = "G") -> None:
        self.broker.state.offsets.commit(group, "T", 0, offset, lambda: 0)

    def test_messages_and_age(self) -> None:
        """A group that never committed has none; then the oldest message that it has not consumed counts."""
        self.assertEqual(self.lags(), (None, None))
        self.commit(2)
        messages, age_ms = self.lags()
        self.assertEqual(messages, 3)
        self.assertEqual(age_ms, (self.clock.seconds() - 5000.0 - 2) * 1000)
        self.commit(5)
        self.assertEqual(self.lags(), (0, 0))

    def test_what_is_not_in_memory(self) -> None:
        """The age is left out, and no disk is waited for."""
        self.commit(0)
        self.patch(self.broker.store, "store_time_at", self._not_in_memory)
        self.assertEqual(self.lags(), (5, None))

    @staticmethod
    def _not_in_memory(*_: Any) -> int:
        raise NotInMemory([object()])  # type: ignore[list-item]

    def test_while_the_log_is_changed(self) -> None:
        """The store is not touched: the figures are those of before."""
        self.commit(1)
        self.assertEqual(self.lags()[0], 4)
        self.broker.core.changes.busy = True
        self.commit(3)
        self.assertEqual(self.lags()[0], 4)

    def test_bounded(self) -> None:
        """Those furthest behind are shown, and how many are not."""
        for number in range(lag.SHOWN_MAX + 7):
            self.commit(min(5, number), f"G{number:04d}")
        self.lags()
        shown = [
            sample
            for family in self.service.metrics.collect()
            for sample in family.samples
            if sample.name == "rocketha_consumer_lag_messages"
        ]
        self.assertEqual(len(shown), lag.SHOWN_MAX)
        self.assertEqual({each.labels["group"] for each in shown if each.value}, {f"G{n:04d}" for n in range(5)})
        self.assertEqual(self.value("rocketha_consumer_lag_left_out"), 7)

    def test_the_page(self) -> None:
        """The largest lag stands first, names decide between equals, and what is cut off lags least."""
        self.patch(overview, "ROWS_MAX", 4)
        for group, offset in (("A", 5), ("B", 3), ("C", 0), ("D", 3), ("E", 4), ("F", 4)):
            self.commit(offset, group)
        found = overview.tables(self.service.overview())["consumers"]
        rows: Any = found["rows"]
        self.assertEqual([(each["group"], each["lag"]) for each in rows], [("C", 5), ("B", 2), ("D", 2), ("E", 1)])
        self.assertEqual(found["more"], 2)

    def test_more_than_one_look_takes(self) -> None:
        """One look goes on where the last one ended: whoever lags most is found, wherever he stands, and kept."""
        self.patch(lag, "LOOKED_AT_MAX", 10)
        self.patch(lag, "SHOWN_MAX", 3)
        for number in range(25):
            self.commit(0 if number in (3, 24) else 4, f"G{number:02d}")
        for _ in range(4):
            self.broker.statistics.lags.rows()
            self.advance(lag.KEPT_MS / 1000)
        self.assertEqual(self.broker.statistics.lags.largest()[:2], ["T@G03", "T@G24"])

    def test_a_topic_that_is_gone(self) -> None:
        """Offsets may outlive it."""
        self.broker.state.offsets.commit("G", "Gone", 0, 3, lambda: 0)
        self.lags()
        self.assertEqual(self.value("rocketha_consumer_lag_messages", group="G", topic="Gone"), 0)


class DiskTests(ValuesCase):
    """What the store takes."""

    def test_parts(self) -> None:
        client = self.connect()
        self.send(client, b"x" * 100)
        store = self.broker.store
        self.assertEqual(self.value("rocketha_store_bytes", part="commitlog"), store.max_physical_offset)
        self.assertEqual(self.value("rocketha_store_bytes", part="consumequeue"), 20)
        self.assertEqual(self.value("rocketha_store_bytes", part="index"), 0)
        self.advance(2)
        self.assertGreater(self.value("rocketha_store_bytes", part="index") or 0, 4000)
        self.assertEqual(self.value("rocketha_disk_mark_ratio", mark="refuse"), 0.95)
        self.assertEqual(self.value("rocketha_disk_free_bytes"), store.space.available)
        self.assertEqual(self.value("rocketha_disk_failed"), 0)


class JavaNamesTests(MetricsCase):
    """Java's names, with the labels of the broker and those of ``metricsLabel``."""

    config = f"{EXPORTED}metricsLabel=zone:z1\nmetricsInDelta=true\n"

    def java(self, name: str, **labels: str) -> float | None:
        registry = self.service.exported
        assert registry is not None
        own = {**JAVA, "zone": "z1", "aggregation": "delta"}
        return registry.get_sample_value(f"rocketmq_{name}", {**own, **labels})

    def test_messages(self) -> None:
        """By topic and kind in, by group out; sizes in Java's buckets."""
        client = self.connect()
        self.send(client, b"x" * 2000)
        ordered = send_fields(properties="UNIQ_KEY\x01" + "A" * 32 + "\x02__SHARDINGKEY\x01k\x02")
        self.assertEqual(client.ask(RequestCode.SEND_MESSAGE_V2, ordered, b"y").code, 0)
        normal = {"topic": "T", "message_type": "normal", "is_system": "false"}
        self.assertEqual(self.java("messages_in_total", **normal), 1)
        self.assertEqual(self.java("messages_in_total", **{**normal, "message_type": "fifo"}), 1)
        self.assertGreater(self.java("throughput_in_total", **normal) or 0, 2000)
        self.assertEqual(self.java("message_size_bucket", le="1024.0", **normal), 0)
        self.assertEqual(self.java("message_size_bucket", le="4096.0", **normal), 1)
        pull(client)
        out = {"topic": "T", "consumer_group": "G", "is_system": "false"}
        self.assertEqual(self.java("messages_out_total", **out), 2)

    def test_delayed(self) -> None:
        """Counted when they are stored for later and when they are delivered, as Java does."""
        client = self.connect()
        later = send_fields(properties="UNIQ_KEY\x01" + "A" * 32 + "\x02DELAY\x011\x02")
        self.assertEqual(client.ask(RequestCode.SEND_MESSAGE_V2, later, b"y").code, 0)
        waits = {"topic": "SCHEDULE_TOPIC_XXXX", "message_type": "delay", "is_system": "true"}
        self.assertEqual(self.java("messages_in_total", **waits), 1)
        self.advance(3, 0.1)
        self.assertEqual(self.java("messages_in_total", topic="T", message_type="delay", is_system="false"), 1)
        given = {"topic": "SCHEDULE_TOPIC_XXXX", "consumer_group": "SCHEDULE_CONSUMER", "is_system": "true"}
        self.assertEqual(self.java("messages_out_total", **given), 1)

    def test_clients_and_requests(self) -> None:
        """Who is connected, and how long requests took."""
        client = self.connect()
        self.assertEqual(client.ask(RequestCode.HEART_BEAT, {}, heartbeat("c", "G", "T")).code, 0)
        who = {"language": "java", "version": "v5_5_0", "protocol_type": "remoting"}
        consumer = {"consumer_group": "G", "consume_mode": "push", "is_system": "false"}
        self.assertEqual(self.java("consumer_connections", **who, **consumer), 1)
        asked = {"is_long_polling": "false", "protocol_type": "remoting", "result": "success"}
        codes = {"request_code": "heart_beat", "response_code": "success"}
        self.assertEqual(self.java("rpc_latency_milliseconds_count", **asked, **codes), 1)
        self.send(client, b"x")
        codes = {"request_code": "send_message_v2", "response_code": "success"}
        self.assertEqual(self.java("rpc_latency_milliseconds_count", **asked, **codes), 1)
        lag_labels = {"consumer_group": "G", "topic": "T", "is_retry": "false", "is_system": "false"}
        self.assertEqual(self.java("consumer_lag_messages", **lag_labels), 0)

    def test_codes_without_a_name(self) -> None:
        """All of them are one series: of two with equal labels Prometheus takes neither for true."""
        client = self.connect()
        for code in range(7_000_000, 7_000_000 + KEYS_MAX + 1):
            client.ask(code, {})
        asked = {"is_long_polling": "false", "protocol_type": "remoting", "result": "success"}
        codes = {"request_code": "unknown", "response_code": "request_code_not_supported"}
        self.assertEqual(self.java("rpc_latency_milliseconds_count", **asked, **codes), KEYS_MAX + 1)
        self.assertEqual(client.ask(RequestCode.HEART_BEAT, {}, heartbeat("c", "G", "T")).code, 0)
        codes = {"request_code": "heart_beat", "response_code": "success"}
        self.assertEqual(self.java("rpc_latency_milliseconds_count", **asked, **codes), 1)
        assert self.service.exported is not None
        text = self.service.exported.exposition()
        series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(series), len(set(series)))

    def test_bounded(self) -> None:
        """Peers that make up topics make no more series than there may be."""
        traffic = self.broker.core.parts.stats.traffic
        assert traffic is not None and self.service.exported is not None
        client = self.connect()
        self.send(client, b"x")
        (message,) = [key for key in traffic.stored if key[0] == "T"]
        for number in range(SERIES_MAX * 2):
            traffic.stored.setdefault((f"T{number}", message[1]), traffic.stored[message])
        counted = self.service.exported.exposition().count("\nrocketmq_messages_in_total{")
        self.assertEqual(counted, SERIES_MAX)

    def test_switched_off(self) -> None:
        """By the keys that Java has for it; without PROM nothing is counted for it."""
        for key in ("Stats", "Request", "Connection", "LagAndDlq", "Remoting", "MessageStore"):
            self.config = f"{EXPORTED}enable{key}Metrics=false\n"
            self.disk = MemoryDisk(random.Random(2))
            service = self.start()
            assert service.exported is not None
            without = set(self.service.exported.shapes) - set(service.exported.shapes)  # type: ignore[union-attr]
            self.assertTrue(without, key)
        self.config = ""
        self.disk = MemoryDisk(random.Random(3))
        service = self.start()
        self.assertIsNone(service.exported)
        self.assertIsNone(service.broker.core.parts.stats.traffic)
        self.assertIsNone(service.broker.core.parts.waiting.latencies.requests)


class KeysTests(BrokerCase):
    """``metricsExporterType`` and its neighbours."""

    def load(self, text: str) -> Any:
        return load_broker(text.encode(), environment={"HOME": "/home"})

    def test_where_it_listens(self) -> None:
        """At the host given, else at brokerIP1 if that is an address, else where the broker listens."""
        for text, host in (
            ("metricsPromExporterHost=localhost", "127.0.0.1"),
            ("metricsPromExporterHost=::1", "::1"),
            ("brokerIP1=127.0.0.2", "127.0.0.2"),
            ("brokerIP1=mq.example.org", "127.0.0.1"),
        ):
            self.assertEqual(self.load(f"{EXPORTED}{text}").config.metrics.metrics_prom_exporter_host, host, text)
        config = load_controller(EXPORTED.encode(), environment={"HOME": "/home"}).config
        self.assertEqual(config.metrics.metrics_prom_exporter_host, "127.0.0.1")

    def test_where_others_reach_it(self) -> None:
        """It needs what every other port needs; a port that is not opened needs nothing."""
        for host in ("10.0.0.5", "0.0.0.0", "::"):
            text = f"metricsPromExporterHost={host}\n"
            error = self.assertRaises(ConfigError, self.load, EXPORTED + text)
            self.assertIn(f"metricsPromExporterHost={host}", str(error))
            self.load(text)
            self.load(f"{EXPORTED}{text}insecureNetwork=true")

    def test_what_is_not_there(self) -> None:
        """Exporters of other kinds are named in a warning that says what works."""
        for kind in ("OTLP_GRPC", "LOG"):
            loaded = self.load(f"metricsExporterType={kind}\nmetricsGrpcExporterTarget=x:4317")
            self.assertEqual(len([each for each in loaded.warnings if "metricsOtlpEndpoint" in each]), 2, kind)
            self.assertFalse(loaded.config.metrics.exported)

    def test_wrong_values(self) -> None:
        for text in (
            "metricsExporterType=prom",
            "metricsLabel=a",
            "metricsLabel=a:b:c",
            "metricsLabel=a-b:c",
            "metricsOtlpEndpoint=10.0.0.1:4317",
            "metricsOtlpEndpoint=ftp://x/",
            "metricsOtlpEndpoint=https://user:password@10.0.0.1:4318/v1/metrics",
            "metricsPromExporterPort=0",
        ):
            self.assertRaises(ConfigError, self.load, text)

    def test_in_a_nameserver(self) -> None:
        """They are the controller's keys where one lives in it."""
        text = f"enableControllerInNamesrv=true\n{EXPORTED}".encode()
        self.assertEqual([each for each in load_namesrv(text).warnings if "metrics" in each], [])
        self.assertTrue(load_controller(text, embedded=True).config.metrics.exported)

    def test_registries_are_apart(self) -> None:
        """Two brokers in one process add nothing up."""
        first = self.service.metrics
        self.disk = MemoryDisk(random.Random(4))
        self.service = self.start()
        self.send(self.connect(), b"x")
        self.assertEqual(first.get_sample_value("rocketha_messages_in_total"), 0)
        self.assertEqual(self.service.metrics.get_sample_value("rocketha_messages_in_total"), 1)


class PortTests(MetricsCase):
    """The port of ``metricsExporterType=PROM``."""

    config = f"{EXPORTED}metricsPromExporterPort=7777\n"

    def test_opened(self) -> None:
        """Where the keys say, with Java's names, in the format that is asked for; it ends with the service."""
        exported, network = self.service.exported, InTheClear()
        assert exported is not None
        told = Told(
            keys=self.service.config.metrics,
            metrics=self.service.metrics,
            exported=exported,
            target={},
            checks=(self.service.healthy, self.service.ready),
            refusals=self.service.refusals,
            wall=self.clock.seconds,
        )
        parent = MultiService()
        told.begin(network, parent, self.clock)
        parent.privilegedStartService()
        parent.startService()
        port, factory, _, interface = self.clock.tcpServers[-1]
        self.assertEqual((port, interface), (7777, "127.0.0.1"))
        protocol = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 5))
        transport = StringTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 5))
        protocol.makeConnection(transport)
        protocol.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = transport.value().partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 "))
        self.assertEqual(body.decode(), exported.exposition())
        self.assertIn("\ntarget_info 1.0\n", body.decode())
        self.successResultOf(maybeDeferred(parent.stopService))

    def test_only_then(self) -> None:
        """Without the key there is no port, and nobody to send to."""
        told = Told(
            keys=load_broker(b"", environment={"HOME": "/home"}).config.metrics,
            metrics=self.service.metrics,
            exported=None,
            target={},
            checks=(self.service.healthy, self.service.ready),
            refusals=self.service.refusals,
            wall=self.clock.seconds,
        )
        parent = MultiService()
        told.begin(InTheClear(), parent, self.clock)
        self.assertEqual(list(parent), [])
