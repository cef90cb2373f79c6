"""A broker's metrics under the names, labels and units that Java's broker gives Prometheus.

So dashboards and alerts made for RocketMQ 5 go on as they are.  What Java has beyond these belongs to what this broker
does not have; docs/divergence.md lists it.  Java: ``BrokerMetricsManager``, ``ConsumerLagCalculator``,
``RemotingMetricsManager``, ``DefaultStoreMetricsManager``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from rocketha.broker import names
from rocketha.broker.heartbeat import ACTIVELY, PASSIVELY, POP
from rocketha.broker.lag import Lag, Lags
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.offsets import SEPARATOR, split_key
from rocketha.broker.stats import OTHERS, BrokerStats, GroupCounters
from rocketha.broker.traffic import MessageKind, Stored, Traffic
from rocketha.latencies import RequestKey, RequestTimes
from rocketha.observe.metrics import Registry, Value
from rocketha.observe.refusals import answer_name, request_name
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.store.in_memory import NotInMemory, Wait
from rocketha.wire.versions import version_name

SCHEDULE_GROUP = "SCHEDULE_CONSUMER"
REMOTING = "remoting"
_MODES = {ACTIVELY: "pull", PASSIVELY: "push", POP: "pop"}
_LAG_LABELS = ("consumer_group", "topic", "is_retry", "is_system")

Rows = Iterable[tuple[tuple[str, ...], Value]]


def exported_registry(config: BrokerConfig) -> Registry | None:
    """An empty registry whose metrics have the labels of this broker; None where the keys want none."""
    if not config.metrics.exported:
        return None
    own = {"cluster": config.broker_cluster_name, "node_id": config.broker_name, "node_type": "broker"}
    return Registry(config.metrics.labels({**own, "otel_scope_name": "broker-meter"}))


def _flag(value: bool) -> str:
    return "true" if value else "false"


class JavaMetrics(BrokerFeature):
    """Those of one broker, in a registry of their own.

    :param exported: the registry.
    :param lags: of its consumer groups.
    :param dispatch_behind: bytes of the log that are in no queue yet.
    """

    def __init__(self, core: BrokerCore, exported: Registry, lags: Lags, dispatch_behind: Callable[[], int]) -> None:
        self._core = core
        self._exported = exported
        self._stats: BrokerStats = core.parts.stats
        self._lags = lags
        self._dispatch_behind = dispatch_behind

    def install(self, metrics: Registry) -> None:
        """Register what the keys ask for."""
        self._exported.add_bare_target()
        keys = self._core.config.metrics
        for wanted, install in (
            (keys.enable_stats_metrics, self._install_numbers),
            (keys.enable_request_metrics, self._install_traffic),
            (keys.enable_connection_metrics, self._install_clients),
            (keys.enable_lag_and_dlq_metrics, self._install_lags),
            (keys.enable_remoting_metrics, self._install_requests),
            (keys.enable_message_store_metrics, self._install_store),
        ):
            if wanted:
                install(self._exported)

    # --- BrokerMetricsManager

    def _install_numbers(self, metrics: Registry) -> None:
        rules: MessageRules = self._core.parts.rules
        state = self._core.state
        for name, text, value in (
            ("broker_permission", "Broker permission", lambda: rules.permission),
            ("topic_number", "Active topic number", lambda: len(state.topics.table)),
            ("consumer_group_number", "Active subscription group number", lambda: len(state.groups.table)),
        ):
            metrics.ask(f"rocketmq_{name}", text, value)

    def _install_traffic(self, metrics: Registry) -> None:
        traffic = self._stats.traffic or Traffic()
        labels = ("topic", "message_type", "is_system")

        def stored(value: Callable[[Stored], Value]) -> Callable[[], Rows]:
            return lambda: [(self._kind(*key), value(each)) for key, each in list(traffic.stored.items())]

        metrics.ask_series(
            "rocketmq_messages_in_total",
            "Total number of incoming messages",
            labels,
            stored(lambda each: each.messages),
            "counter",
        )
        metrics.ask_series(
            "rocketmq_throughput_in_total",
            "Total traffic of incoming messages",
            labels,
            stored(lambda each: each.octets),
            "counter",
        )
        metrics.ask_series(
            "rocketmq_message_size", "Incoming messages size", labels, stored(lambda each: each.sizes), "histogram"
        )
        labels = ("consumer_group", "topic", "is_system")
        metrics.ask_series(
            "rocketmq_messages_out_total",
            "Total number of outgoing messages",
            labels,
            lambda: self._given(lambda each: each.get_messages, traffic.delivered),
            "counter",
        )
        metrics.ask_series(
            "rocketmq_throughput_out_total",
            "Total traffic of outgoing messages",
            labels,
            lambda: self._given(lambda each: each.get_bytes, traffic.delivered_bytes),
            "counter",
        )

    def _is_system(self, topic: str, group: str = "") -> str:
        own = topic in names.SYSTEM_TOPICS or topic.startswith(names.SYSTEM_TOPIC_PREFIX)
        return _flag(own or names.is_system_group(group))

    def _kind(self, topic: str, kind: MessageKind) -> tuple[str, ...]:
        return topic, kind.value, self._is_system(topic)

    def _groups(self, value: Callable[[GroupCounters], int]) -> Iterator[tuple[tuple[str, ...], int]]:
        for key, counters in list(self._stats.groups.items()):
            topic, group = (OTHERS, OTHERS) if key == OTHERS else split_key(key)
            count = value(counters)
            if count:
                yield (group, topic, self._is_system(topic, group)), count

    def _given(self, value: Callable[[GroupCounters], int], delivered: int) -> Rows:
        for labels, count in self._groups(value):
            if not labels[1].startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)):
                yield labels, count
        if delivered:
            yield (SCHEDULE_GROUP, names.SCHEDULE_TOPIC, "true"), delivered

    def _install_clients(self, metrics: Registry) -> None:
        metrics.ask_series(
            "rocketmq_producer_connections",
            "Producer connections",
            ("language", "version", "protocol_type"),
            self._producers,
        )
        metrics.ask_series(
            "rocketmq_consumer_connections",
            "Consumer connections",
            ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
            self._consumers,
        )

    def _producers(self) -> Rows:
        found: Counter[tuple[str, ...]] = Counter()
        for members in self._core.state.clients.producers.values():
            found.update((*_who(each.language, each.version), REMOTING) for each in members.values())
        return sorted(found.items())

    def _consumers(self) -> Rows:
        found: Counter[tuple[str, ...]] = Counter()
        for name, group in self._core.state.clients.consumers.items():
            mode, system = _MODES.get(group.consume_type, "push"), _flag(names.is_system_group(name))
            found.update(
                (name, *_who(each.language, each.version), mode, REMOTING, system) for each in group.members.values()
            )
        return sorted(found.items())

    def _install_lags(self, metrics: Registry) -> None:
        wall_ms = self._core.platform.wall_ms

        def age(stored_ms: int | None) -> int | None:
            if not stored_ms:
                return stored_ms
            return max(0, wall_ms() - stored_ms)

        values: tuple[tuple[str, str, Callable[[Lag], int | None]], ...] = (
            ("lag_messages", "Consumer lag messages", lambda lag: lag.messages),
            ("lag_latency_milliseconds", "Consumer lag time", lambda lag: age(lag.oldest_ms)),
            ("inflight_messages", "Consumer inflight messages", lambda lag: lag.in_flight),
            ("queueing_latency_milliseconds", "Consumer queueing time", lambda lag: age(lag.oldest_ready_ms)),
            ("ready_messages", "Consumer ready messages", lambda lag: lag.ready),
        )
        for name, text, value in values:
            metrics.ask_series(f"rocketmq_consumer_{name}", text, _LAG_LABELS, self._lag_rows(value))
        metrics.ask_series(
            "rocketmq_send_to_dlq_messages_total",
            "Consumer send to DLQ messages",
            ("consumer_group", "topic", "is_system"),
            lambda: self._groups(lambda each: each.dead_letters),
            "counter",
        )

    def _lag_rows(self, value: Callable[[Lag], int | None]) -> Callable[[], Rows]:
        def rows() -> Rows:
            for lag in (*self._lags.rows(), *self._not_begun()):
                found = value(lag)
                if found is not None and not lag.topic.startswith(names.RETRY_PREFIX):
                    yield (lag.group, lag.topic, "false", self._is_system(lag.topic, lag.group)), found

        return rows

    def _not_begun(self) -> Iterator[Lag]:
        """Of groups that are online and have consumed nothing yet: as in Java nothing is behind."""
        committed, topics = self._core.state.offsets.committed, self._core.state.topics.table
        for name, group in self._core.state.clients.consumers.items():
            for topic in group.subscriptions:
                if topic in topics and f"{topic}{SEPARATOR}{name}" not in committed:
                    yield Lag(name, topic, 0, 0, 0, 0)

    # --- RemotingMetricsManager

    def _install_requests(self, metrics: Registry) -> None:
        times = self._core.parts.waiting.latencies.requests or RequestTimes()
        metrics.ask_series(
            "rocketmq_rpc_latency_milliseconds",
            "Rpc latency",
            ("request_code", "response_code", "is_long_polling", "result", "protocol_type"),
            lambda: [(_request(key), histogram) for key, histogram in list(times.table.items())],
            "histogram",
        )

    # --- DefaultStoreMetricsManager

    def _install_store(self, metrics: Registry) -> None:
        store, wall_ms = self._core.store, self._core.platform.wall_ms
        local = ("local", "disk")

        def reserve() -> Rows:
            try:
                earliest_ms = -1 if self._core.busy() else store.earliest_message_time(Wait.NOTHING)
            except NotInMemory:
                earliest_ms = -1
            return [(local, wall_ms() - earliest_ms)] if earliest_ms > 0 else []

        def one(value: Callable[[], int]) -> Callable[[], Rows]:
            return lambda: [(local, value())]

        for name, text, rows in (
            ("size_bytes", "Broker storage size", one(lambda: store.space.total - store.space.free)),
            (
                "flush_behind_bytes",
                "Broker flush behind bytes",
                one(lambda: store.max_physical_offset - store.flushed_offset),
            ),
            ("dispatch_behind_bytes", "Broker dispatch behind bytes", one(self._dispatch_behind)),
            ("message_reserve_time_milliseconds", "Broker message reserve time", reserve),
        ):
            metrics.ask_series(f"rocketmq_storage_{name}", text, ("storage_type", "storage_medium"), rows)


def _who(language: str | None, version: int) -> tuple[str, str]:
    return (language or "OTHER").lower(), version_name(version).lower()


def _request(key: RequestKey) -> tuple[str, ...]:
    result = "oneway" if key.oneway else "success"
    return request_name(key.request).lower(), answer_name(key.answer).lower(), _flag(key.held), result, REMOTING
