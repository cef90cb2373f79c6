"""What a controller shows on its status page: the controllers, the brokers that it hears, the groups, the decisions."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence

from rocketha.controller import audit
from rocketha.controller.events import Alive
from rocketha.controller.failure_detector import FailureDetector
from rocketha.controller.group import BrokerGroup, GroupKey
from rocketha.controller.liveness import Liveness, ReplicaKey
from rocketha.controller.state import ControllerState
from rocketha.observe.overview import Group, Overview, Process, Rows
from rocketha.observe.refusals import Refusals, refused_by
from rocketha.observe.timeline import MOMENTS_MAX, Moment
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.controller import trail
from rocketha.services.raft.options import RaftView
from rocketha.wire.controller_log import decode_decision

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
        # A group's last decision, its entry, and what is told of its decisions: decoded when there is a new one, and
        # somebody looks, and told of those only that may be among the newest.
        self._last: dict[GroupKey, tuple[bytes, int]] = {}
        self._moments: dict[GroupKey, tuple[bytes, tuple[Moment, ...]]] = {}

    def of(self, liveness: Liveness, detector: FailureDetector, now_ms: int, raft: RaftView | None) -> Overview:
        """As of now; ``now_ms`` is the failure detector's time."""
        groups = {each.key: each for each in self._state.groups()}
        states = detector.states()
        controllers = {(row.kind, row.address): row for row in self._controllers(raft)}
        brokers: dict[tuple[str, ...], tuple[BrokerGroup, int]] = {}
        for each in groups.values():
            for number, address in each.addresses.items():
                about = "broker", address
                brokers[about if about not in brokers else (*about, *each.key, str(number))] = each, number

        def broker(about: tuple[str, ...]) -> Process:
            group, number = brokers[about]
            key = ReplicaKey(group.cluster, group.broker_name, number)
            alive, age_ms, suspicion = liveness.alive(key, now_ms), liveness.age_ms(key, now_ms), states.get(key)
            state = suspicion.value if suspicion is not None else "alive" if alive else "not heard"
            detail = "master" if number == group.master else ""
            if age_ms is not None:
                detail += f"{', ' if detail else ''}heard {max(0, age_ms) / 1000:.1f} s ago"
            return Process(str(key), "broker", about[1], state, alive and suspicion is None, detail)

        def row(key: GroupKey) -> Group:
            group = groups[key]
            heard = [audit.alive(each) for each in self._alive(group, now_ms)]
            return trail.group_row({**audit.describe(group), "alive": heard})

        return Overview(
            f"controller {self._config.controller_dleger_self_id}",
            Rows({**dict.fromkeys(controllers, controllers.__getitem__), **dict.fromkeys(brokers, broker)}),
            Rows.of(groups, row),
            refused=refused_by(self._refusals),
            moments=self._newest(groups.values()),
            notes=_NOTES,
        )

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

    def _newest(self, groups: Iterable[BrokerGroup]) -> list[Moment]:
        """Those of the groups about which was decided last: each has one at least."""
        decided = [each for each in groups if each.decisions]
        chosen = heapq.nlargest(MOMENTS_MAX, decided, key=self._last_entry)
        found = [moment for each in chosen for moment in self._trail(each)]
        self._last = {each.key: self._last[each.key] for each in decided}
        self._moments = {each.key: self._moments[each.key] for each in chosen}
        return found

    def _last_entry(self, group: BrokerGroup) -> int:
        last, known = group.decisions[-1], self._last.get(group.key)
        if known is None or known[0] is not last:
            known = self._last[group.key] = last, decode_decision(last).log_index
        return known[1]

    def _trail(self, group: BrokerGroup) -> Sequence[Moment]:
        last, known = group.decisions[-1], self._moments.get(group.key)
        if known is None or known[0] is not last:
            known = self._moments[group.key] = last, tuple(trail.moments(audit.whole(group, ())))
        return known[1]
