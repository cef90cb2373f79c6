"""A node's state as a value, for metrics and people.

Pure.
"""

from __future__ import annotations

from rocketha.raft.config import PeerStatus, Status
from rocketha.raft.core import Core
from rocketha.raft.leadership import Leadership
from rocketha.raft.progress import Progress


def status_of(core: Core, leadership: Leadership | None) -> Status:
    """The state of a node, with its peers' if it leads."""
    peers = {} if leadership is None else leadership.peers
    return Status(
        id=core.id,
        role=core.role,
        term=core.term,
        vote=core.vote,
        leader_id=core.leader_id,
        last_index=core.log.last_index,
        persisted=core.log.persisted,
        commit=core.log.commit,
        applied=core.log.applied,
        members=core.members,
        transferring_to="" if leadership is None else leadership.transfer_to,
        unhealthy=core.unhealthy,
        peers={each: _peer(progress) for each, progress in sorted(peers.items())},
    )


def _peer(progress: Progress) -> PeerStatus:
    return PeerStatus(
        state=progress.state.value,
        match=progress.match,
        next=progress.next,
        inflight_messages=len(progress.inflight),
        inflight_bytes=progress.inflight_bytes,
        active=progress.active or progress.was_active,
        healthy=progress.healthy,
        snapshot_index=progress.snapshot.index if progress.snapshot is not None else 0,
        snapshot_offset=progress.offset,
    )
