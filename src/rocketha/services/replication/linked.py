"""A log that is copied over HA links: one port for slaves, one link to a master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocketha.broker.role import Role
from rocketha.replication.link import Cause
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.links import SlaveLinks
from rocketha.services.replication.metadata_context import Replicas
from rocketha.services.replication.service import Port, Replication, ReplicaView, SourceView
from rocketha.services.replication.slave import Dialect, Following


class LinkedReplication(Replication):
    """What classic and AutoSwitch mode have in common.

    :ivar links: to the slaves.
    :ivar following: the link to the master.
    """

    def __init__(self, context: ReplicationContext, links: SlaveLinks, dialect: Dialect, replicas: Replicas) -> None:
        self.links = links
        super().__init__(context, replicas)
        self.following = Following(context, dialect, self._grown, self._link_trouble)
        context.flusher.watch(self._synced, self.following.sync_failed)

    def _mastership_ends(self, why: str) -> None:
        self.links.stop(why)

    def _following_ends(self, why: str) -> None:
        self.following.stop(why)

    def ha_address_known(self, ha_address: str) -> None:
        """Where the HA port of a slave's master is; no change: nothing."""
        if self.role is Role.SLAVE and ha_address:
            self.following.start(ha_address, self.epoch)

    def _synced(self) -> None:
        """More of the log is on this broker's disk."""
        if self.role is not Role.MASTER:
            self.following.synced()

    def _link_trouble(self, cause: Cause, reason: str) -> None:
        """The link to the master can not go on."""

    def second(self) -> None:
        if self.role is Role.SLAVE:
            self.following.dispatch()

    def ports(self) -> Sequence[Port]:
        return (Port("ha", self.keys.ha_listen_port, self.links.factory),)

    def replica_views(self) -> Mapping[int, ReplicaView]:
        links = self.links
        return {
            number: ReplicaView(
                link.peer,
                links.acknowledged(link),
                links.is_in_sync(link),
                link.bytes_sent,
                link.machine.position,
                links.broker_id(link),
            )
            for number, link in links.factory.connections.items()
        }

    def source_view(self) -> SourceView:
        following = self.following
        connection = following.connection
        return SourceView(
            following.address,
            connection is not None and not following.problem,
            0 if connection is None else connection.bytes_received,
            following.read_s,
            following.written_s,
        )

    def follows(self, address: str) -> bool:
        return self.role is Role.SLAVE and address == self.master_address and self.following.transfers

    def ready(self) -> str | None:
        if self.role is Role.SLAVE:
            return self.log.lack or self.following.problem or None
        return super().ready()
