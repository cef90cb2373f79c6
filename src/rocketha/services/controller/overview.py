"""What a controller shows on its status page: the controllers, the brokers that it hears, the groups, the decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from rocketha.controller import audit
from rocketha.controller.events import Alive
from rocketha.controller.failure_detector import FailureDetector
from rocketha.controller.group import BrokerGroup, GroupKey
from rocketha.controller.liveness import Liveness, ReplicaKey
from rocketha.controller.state import ControllerState
from rocketha.observe.overview import Overview, Process
from rocketha.observe.refusals import Refusals, refused_by
from rocketha.observe.timeline import Moment
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.controller import trail
from rocketha.services.raft.options import RaftView

_NOTES = (
    "Topics are on the nameserver's page; consumer groups and their lag on that of the group's master.",
    "End and lag of a replica are those of its last heartbeat (brokerHeartbeatInterval, 1 s).",
)


class ControllerOverview:
    """Of one controller.

    :param alive: the members of a group that are heard, by the clock of the failure detector.
    """

    def __init__(
        self,
        config: ControllerConfig,
        state: ControllerState,
        alive: Callable[[BrokerGroup, int], Iterable[Alive]],
        refusals: Refusals,
    ) -> None:
        self._config = config
        self._state = state
        self._alive = alive
        self._refusals = refusals
        # The decisions of a group are decoded when there is a new one, not each time somebody looks.
        self._moments: dict[GroupKey, tuple[bytes, tuple[Moment, ...]]] = {}

    def of(self, liveness: Liveness, detector: FailureDetector, now_ms: int, raft: RaftView | None) -> Overview:
        """As of now; ``now_ms`` is the failure detector's time."""
        groups = list(self._state.groups())
        rows = [trail.group_row(audit.describe(each) | self._heard(each, now_ms)) for each in groups]
        brokers = [row for each in groups for row in self._brokers(each, liveness, detector, now_ms)]
        return Overview(
            f"controller {self._config.controller_dleger_self_id}",
            [*self._controllers(raft), *brokers],
            rows,
            refused=refused_by(self._refusals),
            moments=[each for group in groups for each in self._trail(group)],
            notes=_NOTES,
        )

    def _heard(self, group: BrokerGroup, now_ms: int) -> dict[str, object]:
        return {"alive": [audit.alive(each) for each in self._alive(group, now_ms)]}

    def _controllers(self, raft: RaftView | None) -> Iterator[Process]:
        config, own = self._config, self._config.controller_dleger_self_id
        if raft is None:
            for name, address in config.peers.items():
                yield Process(name, "controller", address, "starting" if name == own else "", None)
            return
        node = raft.node
        for name, address in node.members.addresses.items():
            leads = name == node.leader_id
            state = "leads" if leads else "follows" if name in node.members.voters else "learns"
            # A follower hears from its leader alone; only a leader hears from all.
            well = bool(node.leader_id) if name == own else name in raft.hears if raft.is_leader or leads else None
            peer = node.peers.get(name)
            detail = f"has the log up to entry {peer.match} of {node.last_index}" if peer is not None else ""
            if name == own:
                detail = f"this one: term {node.term}, entry {node.commit} committed"
            yield Process(name, "controller", address, state if node.leader_id else "no leader", well, detail)

    def _brokers(
        self, group: BrokerGroup, liveness: Liveness, detector: FailureDetector, now_ms: int
    ) -> Iterator[Process]:
        states = detector.states()
        for number, address in group.addresses.items():
            key = ReplicaKey(group.cluster, group.broker_name, number)
            alive, age_ms, suspicion = liveness.alive(key, now_ms), liveness.age_ms(key, now_ms), states.get(key)
            state = suspicion.value if suspicion is not None else "alive" if alive else "not heard"
            detail = "master" if number == group.master else ""
            if age_ms is not None:
                detail += f"{', ' if detail else ''}heard {max(0, age_ms) / 1000:.1f} s ago"
            yield Process(str(key), "broker", address, state, alive and suspicion is None, detail)

    def _trail(self, group: BrokerGroup) -> Sequence[Moment]:
        decisions: deque[bytes] = group.decisions
        if not decisions:
            return ()
        known = self._moments.get(group.key)
        if known is None or known[0] is not decisions[-1]:
            found = tuple(trail.moments(audit.whole(group, ())))
            known = self._moments[group.key] = decisions[-1], found
        return known[1]
