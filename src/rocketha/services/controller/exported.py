"""A controller's metrics under the names, labels and units that Java's controller gives Prometheus.

What Java tells of DLedger is not there: the log is not DLedger's.  Java: ``ControllerMetricsManager``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from rocketha.controller.group import GroupKey
from rocketha.controller.liveness import ReplicaKey
from rocketha.controller.routes import ROUTES
from rocketha.latencies import NO_TIME, RequestKey, RequestTimes
from rocketha.observe.metrics import Registry
from rocketha.raft.config import Role
from rocketha.services.config.controller import ControllerConfig
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command

BOUNDS_US = (
    *(figure * power for power in (1, 10, 100, 1000, 10_000, 100_000, 1_000_000) for figure in (1, 3, 5)),
    10_000_000,
)
ROLES = {Role.LEADER: 3, Role.FOLLOWER: 2, Role.LEARNER: 2, Role.CANDIDATE: 1, Role.PRE_CANDIDATE: 1}
NO_ROLE = 0

_OWN = frozenset(map(int, RequestCode))
_TYPES = {
    code: f"CONTROLLER_{RequestCode(code).name.removeprefix('CONTROLLER_')}"
    for code in map(int, ROUTES)
    if code in _OWN
}
"""Java's ``RequestType``; requests of rocketha's own have none."""

_NOT_ELECTED = {
    int(ResponseCode.CONTROLLER_MASTER_STILL_EXIST): "keep_current_master",
    int(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE): "no_master_elected",
    int(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED): "no_master_elected",
}
ELECTED = "new_master_elected"
ELECTIONS_MAX = 1000
"""Groups and results that are counted apart: requests name groups."""


class Exported:
    """Those of one controller.

    :param seconds: a clock that never goes back.
    :ivar registry: the metrics.
    """

    def __init__(self, config: ControllerConfig, seconds: Callable[[], float]) -> None:
        own = {"address": config.self_address, "group": config.controller_dleger_group}
        node = {"peer_id": config.controller_dleger_self_id, "otel_scope_name": "controller"}
        self.registry = Registry(config.metrics.labels({**own, **node}))
        self._times = RequestTimes(BOUNDS_US, 1_000_000)
        self._elections: Counter[tuple[str, str, str]] = Counter()
        self._seconds = seconds

    def answered(self, command: Command, code: int) -> None:
        """A request was answered."""
        if command.arrived_s != NO_TIME:
            key = RequestKey(command.code if command.code in _TYPES else 0, 0)
            self._times.observe(key, self._seconds() - command.arrived_s)
        if command.code == RequestCode.CONTROLLER_ELECT_MASTER and code in _NOT_ELECTED:
            fields = command.fields
            self._count(fields.get("clusterName", ""), fields.get("brokerName", ""), _NOT_ELECTED[code])

    def elected(self, group: GroupKey) -> None:
        """A master was elected."""
        self._count(group.cluster, group.broker_name, ELECTED)

    def _count(self, cluster: str, name: str, result: str) -> None:
        key = cluster, name, result
        if key in self._elections or len(self._elections) < ELECTIONS_MAX:
            self._elections[key] += 1

    def install(self, role: Callable[[], int], alive: Callable[[], Iterable[ReplicaKey]]) -> None:
        """Register the metrics.

        :param role: of :data:`ROLES`.
        :param alive: the brokers that are.
        """

        def active() -> list[tuple[tuple[str, str], int]]:
            return sorted(Counter((key.cluster, key.broker_name) for key in alive()).items())

        def requests() -> list[tuple[tuple[str, str], int]]:
            return [
                ((_TYPES.get(key.request, ""), "success"), histogram.count)
                for key, histogram in self._times.table.items()
            ]

        metrics = self.registry
        metrics.add_bare_target()
        metrics.ask("role", "role of current node", role)
        metrics.ask_series("active_broker_num", "now active brokers num", ("cluster", "broker_set"), active)
        metrics.ask_series(
            "request_total", "total request num", ("request_type", "request_handle_status"), requests, "counter"
        )
        metrics.ask_series(
            "request_latency_microseconds",
            "request latency",
            ("request_type",),
            lambda: [((_TYPES.get(key.request, ""),), each) for key, each in self._times.table.items()],
            "histogram",
        )
        metrics.ask_series(
            "election_total",
            "total elect num",
            ("cluster", "broker_set", "election_result"),
            lambda: sorted(self._elections.items()),
            "counter",
        )
