"""Topics, groups, offsets and delay progress of a broker group: a slave takes them from its master, a master lets its
slaves have them and makes sure that what it acknowledged outlives it.

This module only turns from one to the other with the role: :mod:`~rocketha.services.replication.metadata_slave` and
:mod:`~rocketha.services.replication.metadata_master` do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rocketha.broker.delay_levels import DelayLevels
from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.request import Responder
from rocketha.broker.state import BrokerState
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.replication.metadata_master import AWAIT_METADATA, MasterTables, Replicas
from rocketha.services.replication.metadata_slave import CopiedLog, Following, SlaveTables
from rocketha.services.tables.broker_files import Saved
from rocketha.store.message_store import MessageStore


class MetadataSync:
    """The tables of one broker and its group.

    :param clock: keeps time and connects.
    :param now_ms: the steady clock.
    :param watch: who is master; watched from the start on, before whoever serves requests that waited for a master.
    :param store_busy: whether the store may not be touched now: its log is being cut.
    :param own_id: this broker's id in its group, as it is now.
    :param save: has a table's file written, and says when it was (:meth:`BrokerEffects.save`).
    :param topics_changed: told names of topics that came, changed or went other than by a request.
    :param log: whether it is copied from the master that is known: else nothing is taken from there.
    :param replicas: what the log knows of the replicas.
    :param period_s: syncBrokerMetadataPeriod: between two questions to a Java master.
    :param ack_timeout_ms: metadataAckTimeoutMills: how long the answer to a change of topics or groups waits for
        replicas.

    :ivar requests: what replicas ask this broker, for the table of handlers.
    """

    def __init__(
        self,
        clock: Any,
        now_ms: Callable[[], int],
        state: BrokerState,
        store: MessageStore,
        delays: DelayLevels,
        store_busy: Callable[[], bool],
        watch: MasterWatch,
        own_id: Callable[[], int],
        save: Callable[[str], Saved],
        topics_changed: Callable[[Sequence[str]], None],
        log: CopiedLog,
        replicas: Replicas,
        period_s: float = 5.0,
        ack_timeout_ms: int = 1000,
    ) -> None:
        self._client = RemotingClient(clock)
        self._master = MasterTables(
            clock, now_ms, state, store, delays, watch, own_id, save, topics_changed, ack_timeout_ms, replicas
        )
        self._tables = SlaveTables(
            clock, self._client, state, store, log, delays, store_busy, save, topics_changed, self._master.heard_of,
            own_id, period_s, store.max_physical_offset,
        )  # fmt: skip
        self._clock = clock
        self._watch = watch
        self._following: Following | None = None
        self._stopped = False
        self.requests: dict[int, Responder] = {AWAIT_METADATA: self._master.await_metadata}
        self.disconnected = self._master.disconnected
        self.is_fit = self._master.is_fit
        self.term, self.acknowledged = self._master.term, self._master.acknowledged
        watch.watch(self._mastership_changed)

    @property
    def age_s(self) -> float | None:
        """How old the tables of a slave are at most, in seconds; None where they never were its master's, or for a
        master."""
        following = self._following
        if following is None or following.fresh_s is None:
            return None
        return float(self._clock.seconds()) - following.fresh_s

    @property
    def faults(self) -> int:
        """Exceptions that nobody reckoned with while tables were taken."""
        return self._tables.faults

    def _mastership_changed(self) -> None:
        if self._stopped:
            return
        following, self._following = self._following, None
        if following is not None:
            following.end()
        self._master.mastership_changed()
        if self._watch.address is not None:
            self._following = Following(self._tables, self._watch.address, self._watch.epoch)
            self._following.begin()

    def stop(self) -> None:
        """Ask nobody any more, and leave nobody waiting."""
        self._stopped = True
        if self._following is not None:
            self._following.end()
        self._master.stop()
        self._client.close()
