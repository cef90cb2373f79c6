"""Topics, groups, offsets and delay progress of a broker group: a slave takes them from its master, a master lets its
slaves have them and makes sure that what it acknowledged outlives it.

This module only turns from one to the other with the role: :mod:`~rocketha.services.replication.metadata_slave` and
:mod:`~rocketha.services.replication.metadata_master` do the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketha.broker.request import Responder
from rocketha.observe.metrics import Registry
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.replication.metadata_context import TablesContext
from rocketha.services.replication.metadata_master import AWAIT_METADATA, MasterTables
from rocketha.services.replication.metadata_newest import NewestTables
from rocketha.services.replication.metadata_slave import Following, SlaveTables


class MetadataSync(BrokerFeature):
    """The tables of one broker and its group.

    :ivar requests: what replicas ask this broker.
    :ivar take_newest: see :meth:`NewestTables.take`.
    """

    def __init__(self, context: TablesContext) -> None:
        self._client = RemotingClient(context.dialer)
        self._master = MasterTables(context)
        end = context.store.max_physical_offset
        self._tables = SlaveTables(context, self._client, self._master.heard_of, end)
        self.take_newest = NewestTables(self._tables).take
        self._clock = context.clock
        self._watch = context.watch
        self._following: Following | None = None
        self._stopped = False
        self.requests: Mapping[int, Responder] = {AWAIT_METADATA: self._master.await_metadata}
        self.is_fit = self._master.is_fit
        self.term, self.acknowledged = self._master.term, self._master.acknowledged
        context.watch.watch(self._mastership_changed)

    def install(self, metrics: Registry) -> None:
        metrics.ask(
            "rocketha_tables_age_seconds",
            "Age of a slave's topics, groups and offsets; -1 for a master, and before they were ever taken.",
            lambda: -1.0 if self.age_s is None else self.age_s,
        )
        metrics.ask(
            "rocketha_tables_faults_total",
            "Exceptions that nobody reckoned with while a master's tables were taken.",
            lambda: self.faults,
            "counter",
        )

    def disconnected(self, connection: Any) -> None:
        self._master.disconnected(connection)

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
