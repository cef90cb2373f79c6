"""What a broker's log works with while it is copied to other brokers, and from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.observe.refusals import Refusals
from rocketha.replication.link import LinkTiming
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.core.log_changes import LogChanges
from rocketha.services.process.platform import Platform
from rocketha.services.waiting.flusher import Flusher
from rocketha.services.waiting.log_reads import LogReads
from rocketha.services.waiting.wakeups import Wakeups
from rocketha.store.replica_log import ReplicaLog


@attrs.frozen
class ReplicaContext:
    """Of a log that follows another.

    :ivar refusals: told of connections to and from other replicas that are given up.
    """

    log: ReplicaLog
    keys: ReplicationConfig
    platform: Platform
    changes: LogChanges
    flusher: Flusher
    refusals: Refusals

    @property
    def timing(self) -> LinkTiming:
        """Of links."""
        return LinkTiming(self.keys.ha_send_heartbeat_interval, self.keys.ha_housekeeping_interval)


class ReplicationOwner(Protocol):
    """Whoever the replication serves: the broker."""

    def fit(self, replica: int) -> bool:
        """Whether a replica could be elected as far as anything but the log goes; who is not does not join the set."""

    @property
    def versions(self) -> Mapping[str, Any]:
        """Of topics and groups, for another member's status of this one."""

    def resumed(self) -> None:
        """A master may act as one again, or for the first time: what waited for that goes on."""


@attrs.frozen
class ReplicationContext(ReplicaContext):
    """Of a log that may also be followed.

    :ivar waiting: the answers that wait until enough replicas have their messages.
    :ivar wakeups: the reads that wait for messages.
    :ivar as_turn: does work as one turn.
    :ivar reads: reads the log for replicas that are far behind.
    :ivar address: of this broker's main port.
    :ivar intact: nothing that was ever in the log can be missing at its end: the last stop was clean.
    """

    waiting: Acknowledgements
    wakeups: Wakeups
    as_turn: Callable[[Callable[[], None]], None]
    reads: LogReads
    owner: ReplicationOwner
    address: str
    intact: bool
