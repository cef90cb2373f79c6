"""Who a member of a Raft group is, what can be set about it, and what it shows of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rocketha.access.askers import Askers
from rocketha.protocols.raft import Vouches, anybody
from rocketha.protocols.raft_peers import PeerView
from rocketha.raft.config import Status
from rocketha.services.config.peers import check_members, member_number
from rocketha.store.raft_log import SEGMENT_BYTES


@attrs.frozen
class RaftOptions:
    """Times in ticks unless their names say otherwise.

    :ivar tick_s: seconds of a tick.
    :ivar pause_s: a tick later than this means that the process stood still.
    :ivar snapshot_entries: entries applied between two snapshots, about.
    :ivar snapshot_bytes: their bytes, about.
    :ivar segment_bytes: of one file of the log.
    :ivar keep_entries: entries kept before a snapshot, for followers that were away shortly.
    :ivar queued_proposals_max: proposals that wait to be given to the core; more are refused.
    :ivar queued_bytes_max: their bytes.
    :ivar proposal_bytes_max: bytes of one.
    :ivar apply_s: seconds of applying in one turn.
    :ivar apply_entries: entries given to the state machine at once.
    :ivar propose_ticks: how long a proposal may wait for its outcome.
    :ivar settle_ticks: how long proposals of a leader that lost its leadership wait for the next one to settle them.
    :ivar read_ticks: how long a read may wait.
    :ivar heartbeats_ticks: after which an unanswered round of reads is begun again.
    :ivar transfer_ticks: how long a transfer of leadership may take.
    :ivar members_ticks: how long a membership change may take.
    :ivar linger_ticks: how long a removed member is still spoken to, so that its removal can be committed.
    :ivar hand_over_ticks: how long a stop waits for another leader.
    :ivar slow_sync_ticks: a sync that takes longer means a failing disk.
    :ivar healthy_again_ticks: how long a disk must have worked after a failure before this node may lead.
    :ivar check_addresses: whether members must speak from the IP addresses they have in the list.
    """

    tick_s: float = 0.05
    pause_s: float = 0.5
    snapshot_entries: int = 10_000
    snapshot_bytes: int = 64 << 20
    keep_entries: int = 5_000
    segment_bytes: int = SEGMENT_BYTES
    queued_proposals_max: int = 20_000
    queued_bytes_max: int = 16 << 20
    proposal_bytes_max: int = 4 << 20
    apply_s: float = 0.01
    apply_entries: int = 256
    propose_ticks: int = 100
    settle_ticks: int = 20
    read_ticks: int = 60
    heartbeats_ticks: int = 4
    transfer_ticks: int = 40
    members_ticks: int = 400
    linger_ticks: int = 200
    hand_over_ticks: int = 20
    slow_sync_ticks: int = 40
    healthy_again_ticks: int = 200
    check_addresses: bool = True


def vouching(askers: Askers) -> Vouches:
    """For a group of brokers: each member is the replica whose id follows from its own."""

    def vouches(transport: Any, host: str, member: str) -> bool:
        return check_members((member,)) is None and askers.is_replica(transport, host, member_number(member) + 1)

    return vouches if askers.known else anybody


@attrs.frozen
class RaftMember:
    """Which member of which group.

    :ivar peers: id -> ``host:port`` of all members, this one included, as configured: the group at its first start,
        and who may speak to us.
    :ivar directory: of the log.
    :ivar joins: it is added to a group that runs: it does not count itself a voter before it is told.
    :ivar secret: of the group: members without it are refused.
    :ivar vouches: see :class:`rocketha.protocols.raft.Identity`.
    """

    id: str
    group: str
    peers: Mapping[str, str]
    directory: str
    joins: bool = False
    secret: bytes = b""
    vouches: Vouches = anybody


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
