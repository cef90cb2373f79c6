"""What the tables of a broker group work with, on a master and on a slave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from rocketha.broker.delay_levels import DelayLevels
from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.state import BrokerState
from rocketha.protocols.endpoints import Dialer
from rocketha.services.tables.broker_files import Saved
from rocketha.store.message_store import MessageStore


class Replicas(Protocol):
    """What the log knows of this master's replicas (:class:`rocketha.services.replication.service.Replication` has
    it)."""

    @property
    def stamps_tables(self) -> bool:
        """Whether the versions of tables say the master's epoch.  A nameserver takes no master whose version is older
        than that of one that stands still, and Java's masters in DLedger mode have none."""

    @property
    def needed(self) -> frozenset[int]:
        """Members of the SyncStateSet, and who joins it; without this broker."""

    def knows(self, replica: int) -> bool:
        """Whether the controller has registered this replica, as far as it said."""

    def is_present(self, replica: int) -> bool:
        """Whether a replica's log follows ours at the moment."""

    def fitness_changed(self) -> None:
        """:meth:`MasterTables.is_fit` may say something else of some of them."""


class CopiedLog(Protocol):
    """What the log knows of the master (:class:`rocketha.services.replication.service.Replication` has it).

    :ivar compares_logs: its links find out whether both logs are one before they copy.
    """

    compares_logs: bool

    def follows(self, address: str) -> bool:
        """Whether the log is being copied from the broker whose main port is there."""


@attrs.frozen
class TablesContext:
    """Of one broker.

    :ivar dialer: connects.
    :ivar now_ms: the steady clock.
    :ivar store: for what a master of a classic pair has to have.
    :ivar watch: who is master; watched from the start on, before whoever serves requests that waited for a master.
    :ivar own_id: this broker's id in its group, as it is now.
    :ivar store_busy: whether the store may not be touched now: its log is being cut.
    :ivar save: has a table's file written, and says when it was (:meth:`BrokerEffects.save`).
    :ivar topics_changed: told names of topics that came, changed or went other than by a request.
    :ivar log: whether it is copied from the master that is known: else nothing is taken from there.
    :ivar replicas: what the log knows of the replicas.
    :ivar period_s: syncBrokerMetadataPeriod: between two questions to a Java master.
    :ivar ack_timeout_ms: metadataAckTimeoutMills: how long the answer to a change of topics or groups waits for
        replicas; 0: none waits, as in Java.
    """

    dialer: Dialer
    now_ms: Callable[[], int]
    state: BrokerState
    store: MessageStore
    delays: DelayLevels
    watch: MasterWatch
    own_id: Callable[[], int]
    store_busy: Callable[[], bool]
    save: Callable[[str], Saved]
    topics_changed: Callable[[Sequence[str]], None]
    log: CopiedLog
    replicas: Replicas
    period_s: float = 5.0
    ack_timeout_ms: int = 1000

    @property
    def clock(self) -> Any:
        """Keeps time."""
        return self.dialer.reactor
