"""Who may follow a master that is dead, and when the controller asks for an election.

Must not know a socket, a clock or who is suspected: that somebody is dead is decided before
(:mod:`rocketha.controller.failure_detector`), and who is elected afterwards (:mod:`rocketha.controller.elections`).
"""

from __future__ import annotations

from collections.abc import Collection

from rocketha.controller.detector_effects import Effect, Elect
from rocketha.controller.elections import best
from rocketha.controller.events import Alive, Seen, Why
from rocketha.controller.liveness import Liveness, ReplicaKey
from rocketha.controller.watched import Group, Groups, Times, led_group


class Succession:
    """Of all groups of one controller.

    :ivar unclean: whether a replica outside the in-sync set may be elected.
    """

    def __init__(self, groups: Groups, liveness: Liveness, times: Times, unclean: bool) -> None:
        self._groups = groups
        self._liveness = liveness
        self._times = times
        self.unclean = unclean
        # (cluster, broker name) -> when its next election may be tried.
        self._elections: dict[tuple[str, str], int] = {}

    def others(self, group: Group) -> list[int]:
        """Those that may be elected, but for the master."""
        return [number for number in self._electable(group) if number != group.master_id]

    def matters(self, group: Group, number: int) -> bool:
        """Whether it may be elected, or is the master of somebody who may."""
        electable = self._electable(group)
        return number in electable and len(electable) > 1

    def living(self, group: Group, now_ms: int) -> list[int]:
        """Those that may be elected and are thought alive."""
        return [number for number in self._electable(group) if self._alive(group, number, now_ms)]

    def ahead(self, dead: ReplicaKey, numbers: Collection[int]) -> int:
        """Whom an election would choose of these, by their heartbeats."""
        group, chosen = led_group(self._groups, dead), set(numbers)
        found = chosen & set(group.in_sync if group is not None else ()) or chosen
        known = [(number, self._liveness.last(dead._replace(broker_id=number))) for number in found]
        return best(Alive(each, last.epoch, last.max_offset, last.priority) for each, last in known if last is not None)

    def elect(
        self, group: Group, kind: Why, why: str, seen: tuple[Seen, ...], alive: tuple[int, ...], now_ms: int
    ) -> list[Effect]:
        """One election, if its time has come."""
        name = (group.cluster, group.broker_name)
        if now_ms < self._elections.get(name, now_ms):
            return []
        # The service says when it ended; should it never do so, the scan tries again.
        self._elections[name] = now_ms + 5 * self._times.retry
        return [Elect(group.cluster, group.broker_name, group.master_id, group.master_epoch, alive, kind, why, seen)]

    def ended(self, cluster: str, broker_name: str, leading: bool, now_ms: int) -> None:
        """An election was applied or failed: where there is still no live master it may be tried again."""
        group = self._groups.group(cluster, broker_name)
        if group is None or (group.master_id is not None and self._alive(group, group.master_id, now_ms)):
            self._elections.pop((cluster, broker_name), None)
        elif leading:
            self._elections[cluster, broker_name] = now_ms + self._times.retry

    def deposed(self) -> None:
        """This controller leads no more."""
        self._elections.clear()

    def _electable(self, group: Group) -> list[int]:
        """Whoever an election might choose: where the last one may be void, the set before it too (regression A23)."""
        members = set(group.addresses)
        return sorted(members if self.unclean else members & {*group.in_sync, *group.former})

    def _alive(self, group: Group, number: int, now_ms: int) -> bool:
        return self._liveness.alive(ReplicaKey(group.cluster, group.broker_name, number), now_ms)
