"""What a broker has to do with the other brokers of its group besides the log: their tables, and requests for one of
them that came to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rocketha.broker.delay_levels import DelayLevels
from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.state import BrokerState
from rocketha.observe.metrics import Registry
from rocketha.services.broker.forwarding import Forwarding
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.features.feature import BrokerFeature
from rocketha.services.replication.metadata_master import Replicas
from rocketha.services.replication.metadata_slave import CopiedLog
from rocketha.services.replication.metadata_sync import MetadataSync
from rocketha.services.tables.broker_files import Saved
from rocketha.store.message_store import MessageStore
from rocketha.wire.remoting import Answer, Command


class BrokerGroup(BrokerFeature):
    """One broker's place in its group.

    The parameters are those of :class:`MetadataSync` and :class:`Forwarding`.

    :ivar metadata: before :attr:`forwarding` in the watch: a new master's tables are right before it serves.
    :ivar requests: what the others ask this broker.
    """

    def __init__(
        self,
        keys: ReplicationConfig,
        clock: Any,
        now_ms: Callable[[], int],
        state: BrokerState,
        store: MessageStore,
        delays: DelayLevels,
        watch: MasterWatch,
        own_id: Callable[[], int],
        store_busy: Callable[[], bool],
        save: Callable[[str], Saved],
        topics_changed: Callable[[Sequence[str]], None],
        log: CopiedLog,
        replicas: Replicas,
        serve: Callable[[Any, Command, float], Answer | None],
        as_turn: Callable[[Callable[[], None]], None],
        serves: Callable[[], bool],
    ) -> None:
        period_s = keys.sync_broker_metadata_period / 1000
        self.metadata = MetadataSync(
            clock, now_ms, state, store, delays, store_busy, watch, own_id, save, topics_changed, log, replicas,
            period_s, keys.metadata_ack_timeout_mills,
        )  # fmt: skip
        self.forwarding = Forwarding(clock, watch, state.identity.address, serve, as_turn, keys.forward_sends, serves)
        self.requests = self.metadata.requests

    def install(self, metrics: Registry) -> None:
        """Register the metrics of this."""
        metadata, forwarding, count = self.metadata, self.forwarding, "counter"
        metrics.ask(
            "rocketha_tables_age_seconds",
            "Age of a slave's topics, groups and offsets; -1 for a master, and before they were ever taken.",
            lambda: -1.0 if metadata.age_s is None else metadata.age_s,
        )
        metrics.ask(
            "rocketha_tables_faults_total",
            "Exceptions that nobody reckoned with while a master's tables were taken.",
            lambda: metadata.faults,
            count,
        )
        for what, text, value in (
            ("forwarded", "Requests passed on to the master.", lambda: forwarding.forwarded),
            ("served", "Requests kept until this broker was master.", lambda: forwarding.served),
            ("refused", "Requests kept or passed on in vain.", lambda: forwarding.refused),
            ("doubtful", "Sends passed on and not answered.", lambda: forwarding.doubtful),
        ):
            metrics.ask(f"rocketha_stray_requests_{what}_total", text, value, count)
        metrics.ask("rocketha_stray_requests_kept", "Requests that wait for a master.", lambda: forwarding.kept)

    def disconnected(self, connection: Any) -> None:
        """A peer is gone."""
        self.metadata.disconnected(connection)
        self.forwarding.disconnected(connection)

    def stop(self) -> None:
        """Ask nobody; requests are still passed on."""
        self.metadata.stop()

    def end(self) -> None:
        """Keep nothing, and pass nothing on."""
        self.forwarding.stop()
