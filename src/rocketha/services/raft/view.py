"""Looks at a running Raft service for metrics and people."""

from __future__ import annotations

from rocketha.protocols.raft_peers import RaftPeers
from rocketha.protocols.raft_port import RaftPort
from rocketha.raft.node import RaftNode
from rocketha.services.raft.driver import RaftDriver
from rocketha.services.raft.options import RaftView
from rocketha.services.raft.waiting import Barriers, Proposals


def view_of(
    node: RaftNode,
    driver: RaftDriver,
    peers: RaftPeers,
    port: RaftPort,
    proposals: Proposals,
    barriers: Barriers,
    is_leader: bool,
) -> RaftView:
    """Look at all of them."""
    return RaftView(
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
