"""What the failure detector may see of the controller's state, and its timing.

``state.ControllerState`` fits these protocols; a test gives its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import attrs

from rocketha.controller.liveness import ReplicaKey


class Group(Protocol):
    """One broker set."""

    @property
    def cluster(self) -> str: ...
    @property
    def broker_name(self) -> str: ...
    @property
    def master_id(self) -> int | None: ...
    @property
    def master_epoch(self) -> int: ...
    @property
    def in_sync(self) -> Collection[int]: ...
    @property
    def former(self) -> Collection[int]: ...
    @property
    def addresses(self) -> Mapping[int, str]: ...
    def address(self, broker_id: int) -> str | None: ...


class Groups(Protocol):
    """All of them."""

    def groups(self) -> Iterable[Group]: ...
    def group(self, cluster: str, broker_name: str) -> Group | None: ...


def master_key(group: Group) -> ReplicaKey | None:
    """The replica that is the set's master."""
    return None if group.master_id is None else ReplicaKey(group.cluster, group.broker_name, group.master_id)


def led_group(groups: Groups, key: ReplicaKey) -> Group | None:
    """The set whose master this replica is."""
    group = groups.group(key.cluster, key.broker_name)
    return group if group is not None and group.master_id == key.broker_id else None


def address_of(groups: Groups, key: ReplicaKey) -> str | None:
    """``host:port`` where this replica registered."""
    group = groups.group(key.cluster, key.broker_name)
    return None if group is None else group.address(key.broker_id)


@attrs.frozen
class Times:
    """All in milliseconds.

    :ivar silence: a punctual broker not heard for so long is suspected (heartbeats come once a second); one whose
        heartbeats were late of late is given more (``liveness.PATIENCE``).
    :ivar round: how long a round waits for answers.
    :ivar pause: between the rounds of a suspicion that was not confirmed.
    :ivar choose: how long a dead master's election waits for the members of the set that did not answer yet.
    :ivar retry: between elections of a set that stays without a master.
    """

    silence: int = 1200
    round: int = 600
    pause: int = 500
    choose: int = 100
    retry: int = 1000

    @property
    def least(self) -> int:
        """Nobody is dead earlier after a heartbeat of his for the silence of his port and of all others."""
        return self.silence + self.round

    @property
    def first(self) -> int:
        """How long a live broker's first heartbeat to a controller may take that has just begun.

        4.8 s: a Java broker looks each 3 s for controllers that it had given up, and then comes its next heartbeat.
        """
        return 4 * self.silence

    @property
    def hears(self) -> int:
        """A controller hears a broker when its last heartbeat is no older, or no older than they usually are.

        Clearly less than what raised the suspicion, or the last heartbeat that all of them got would speak for the
        dead; and more than a live broker's heartbeat can be old both times that a round asks.
        """
        return self.silence * 3 // 4
