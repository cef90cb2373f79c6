"""What a broker tells of its replication: to RocketMQ's tools, to other brokers, to Prometheus, in its log.

Java: ``AdminBrokerProcessor``, ``HARuntimeInfo``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.broker.request import Responder
from rocketha.broker.role import Role
from rocketha.broker.state import BrokerState
from rocketha.observe.logging import make_logger
from rocketha.observe.metrics import Registry
from rocketha.replication.acks import NO_ACK
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.replication.service import Replication
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.ha_status import EpochStatus, HaStatus, LinkStatus, SlaveStatus, encode_epochs, encode_ha_status
from rocketha.wire.remoting import Answer, Command

_ROLES = {Role.FENCED: 0, Role.SLAVE: 1, Role.MASTER: 2}


class ReplicationStatus(BrokerFeature):
    """Of one broker.

    :param wall_s: seconds since 1970.
    """

    def __init__(
        self,
        replication: Replication,
        state: BrokerState,
        waiting: Acknowledgements,
        reactor: Any,
        wall_s: Callable[[], float],
    ) -> None:
        self._replication = replication
        self._state = state
        self._waiting = waiting
        self._late_told = 0
        self._log = make_logger()
        self._reactor = reactor
        self._wall_s = wall_s
        self._sent: dict[int, tuple[int, int]] = {}  # of each link: bytes a second ago, and in that second
        self._received = (0, 0)
        self._role_since_s = reactor.seconds()
        self.requests: Mapping[int, Responder] = {
            RequestCode.EXCHANGE_BROKER_HA_INFO: self._exchange,
            RequestCode.GET_BROKER_HA_STATUS: self._ha_status,
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
        }

    def second(self) -> None:
        """How much was sent in it, and how many sends came too late for their replicas."""
        self._tell_late()
        self._sent = {
            number: (view.bytes_sent, view.bytes_sent - self._sent.get(number, (0, 0))[0])
            for number, view in self._replication.replica_views().items()
        }
        received = self._replication.source_view().bytes_received
        self._received = received, max(0, received - self._received[0])

    def role_changed(self, role: Role) -> None:
        self._role_since_s = self._reactor.seconds()

    def unready(self) -> str | None:
        return self._replication.ready()

    def stop(self) -> None:
        """There is no next second."""
        self._tell_late()

    def _tell_late(self) -> None:
        """One line for all of a second: under load thousands are late at once."""
        late = self._waiting.late
        if late != self._late_told:
            count, self._late_told = late - self._late_told, late
            text = "{count} sends were answered with FLUSH_SLAVE_TIMEOUT: stored here, not at enough replicas"
            if self._waiting.asks_all:
                text = "{count} sends were refused: stored here, not at a majority"
            self._log.error(text, count=count)

    # -- requests

    def _exchange(self, connection: Any, command: Command, now_ms: int) -> Answer:
        """906, as a question only: where a master's slaves connect."""
        if self._replication.role is not Role.MASTER:
            return Answer()
        identity = self._state.identity
        fields = {
            "masterAddress": identity.address,
            "masterFlushOffset": str(self._replication.log.store.flushed_offset),
            "masterHaAddress": identity.ha_address,
        }
        return Answer(fields=fields)

    def _ha_status(self, connection: Any, command: Command, now_ms: int) -> Answer:
        return Answer(body=encode_ha_status(self.status()))

    def status(self) -> HaStatus:
        """A 907, as of now.  A fenced broker says what a slave without a master would."""
        replication = self._replication
        if replication.role is not Role.MASTER:
            return HaStatus(False, 0, 0, slave=self._slave())
        end = replication.log_end
        rows = [
            LinkStatus(
                view.peer,
                view.acknowledged,
                end - view.acknowledged,
                view.in_sync,
                self._sent.get(number, (0, 0))[1],
                view.position,
            )
            for number, view in replication.replica_views().items()
        ]
        return HaStatus(True, end, sum(row.in_sync for row in rows), tuple(rows))

    def _slave(self) -> SlaveStatus:
        source = self._replication.source_view()
        ahead_s = self._wall_s() - self._reactor.seconds()

        def wall_ms(seconds: float) -> int:
            return int((seconds + ahead_s) * 1000) if seconds else 0

        return SlaveStatus(
            source.address,
            self._received[1],
            self._replication.log_end,
            wall_ms(source.read_s),
            wall_ms(source.written_s),
        )

    def _epochs(self, connection: Any, command: Command, now_ms: int) -> Answer:
        replication, identity = self._replication, self._state.identity
        epochs = replication.epochs
        if epochs is None:
            return Answer(ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")
        status = EpochStatus(
            identity.cluster_name,
            identity.broker_name,
            identity.broker_id,
            tuple(epochs),
            replication.log_end,
        )
        return Answer(body=encode_epochs(status))

    # -- metrics

    def install(self, metrics: Registry) -> None:
        """Register the metrics."""
        replication = self._replication
        for name, text, value in (
            ("rocketha_replication_role", "0 fenced, 1 slave, 2 master.", lambda: _ROLES[replication.role]),
            ("rocketha_replication_epoch", "Epoch that this broker was told; -1: none.", lambda: replication.epoch),
            (
                "rocketha_replication_confirm_offset_bytes",
                "Consumers see the log up to there.",
                lambda: replication.confirm_offset,
            ),
            ("rocketha_replication_links", "Slaves connected to this master.", self._links),
            ("rocketha_replication_in_sync", "Replicas that count, this master included.", self._in_sync),
            ("rocketha_replication_lag_bytes", "What the slave that is furthest behind lacks.", self._lag),
            ("rocketha_replication_connected", "Whether this slave has its master.", self._connected),
            (
                "rocketha_replication_dispatch_lag_bytes",
                "Log that this slave has not made queues of.",
                lambda: replication.log_end - replication.log.dispatched_offset,
            ),
        ):
            metrics.ask(name, text, value, "gauge")
        late = "Sends answered with FLUSH_SLAVE_TIMEOUT; in DLedger mode, refused because a majority was late."
        metrics.ask("rocketha_sends_late_total", late, lambda: self._waiting.late, "counter")

    def _links(self) -> int:
        return len(self._replication.replica_views())

    def _in_sync(self) -> int:
        replication = self._replication
        if replication.role is not Role.MASTER:
            return 0
        return len(replication.members) or 1 + sum(view.in_sync for view in replication.replica_views().values())

    def _lag(self) -> int:
        replication = self._replication
        acks = [view.acknowledged for view in replication.replica_views().values()]
        return max((replication.log_end - max(acked, 0) for acked in acks if acked != NO_ACK), default=0)

    def _connected(self) -> int:
        return int(self._replication.source_view().connected)

    def runtime_facts(self) -> dict[str, str]:
        """Keys of GET_BROKER_RUNTIME_INFO."""
        replication = self._replication
        refusal = replication.send_refusal if replication.role is Role.MASTER else None
        return {
            "dispatchBehindBytes": str(replication.log_end - replication.log.dispatched_offset),
            "rocketha.role": replication.role.name,
            "rocketha.roleSeconds": str(int(self._reactor.seconds() - self._role_since_s)),
            "rocketha.epoch": str(replication.epoch),
            "rocketha.replicaId": str(replication.own_id),
            "rocketha.inSync": ",".join(map(str, replication.members)),
            "rocketha.sendRefusal": "" if refusal is None else refusal.remark or "",
        }
