"""What a Raft service shows of itself."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketha.protocols.raft_peers import PeerView, RaftPeers
from rocketha.protocols.raft_port import RaftPort
from rocketha.raft.config import Status
from rocketha.raft.node import RaftNode
from rocketha.services.raft_driver import RaftDriver
from rocketha.services.raft_waiting import Barriers, Proposals


@attrs.frozen
class RaftView:
    """A running member, for metrics and people.

    :ivar node: the core's view.
    :ivar is_leader: whether it leads and has applied everything before its term.
    :ivar peers: our connections to the others.
    :ivar hears: ids of the members that are connected to us.
    :ivar syncs: of the log, since the start.
    :ivar entries_applied: since the start.
    :ivar first_index: the oldest entry in the log.
    """

    node: Status
    is_leader: bool
    peers: Mapping[str, PeerView]
    hears: tuple[str, ...]
    proposals_waiting: int
    reads_waiting: int
    syncs: int
    entries_applied: int
    first_index: int
    snapshot_index: int
    snapshots_made: int
    snapshots_received: int
    connections_refused: int

    @classmethod
    def of(
        cls,
        node: RaftNode,
        driver: RaftDriver,
        peers: RaftPeers,
        port: RaftPort,
        proposals: Proposals,
        barriers: Barriers,
        is_leader: bool,
    ) -> RaftView:
        """Look at all of them."""
        return cls(
            node=node.status(),
            is_leader=is_leader,
            peers=peers.views(),
            hears=tuple(port.connected),
            proposals_waiting=proposals.queued + proposals.waiting,
            reads_waiting=barriers.waiting,
            syncs=driver.journal.syncs,
            entries_applied=driver.applier.count,
            first_index=driver.raft_log.first_index(),
            snapshot_index=driver.raft_log.snapshot().index,
            snapshots_made=driver.snapshots.made,
            snapshots_received=driver.snapshots.received,
            connections_refused=port.refused_count,
        )
