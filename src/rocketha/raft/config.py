"""What can be set about a node of the core, and what it shows of itself.

Pure.  The driver maps the controller's configuration keys to these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import attrs

from rocketha.raft.messages import Members


class Role(Enum):
    """What a node is at the moment.  LEARNER: as FOLLOWER, without a vote in any configuration it knows."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"
    LEARNER = "learner"


TRANSFER_LAG_MAX = 1000


@attrs.frozen
class RaftConfig:
    """Limits and times of one node.

    :ivar id: this node's id.
    :ivar election_ticks: a follower campaigns after 1 to 2 times this without a leader; a leader without a majority's
        answers steps down after this.
    :ivar heartbeat_ticks: a leader's heartbeat interval.
    :ivar max_entries_bytes_per_message: bytes of entries in one APPEND (one entry may be larger).
    :ivar max_inflight_messages: APPENDs to one follower without an answer.
    :ivar max_inflight_bytes: their bytes of entries.
    :ivar max_uncommitted_bytes: ``propose`` is refused while more than this waits to be committed.
    :ivar max_uncommitted_entries: the same, counted.
    :ivar max_committed_bytes: bytes of entries in one Ready's ``committed`` (one entry may be larger).
    :ivar snapshot_chunk_bytes: bytes of a snapshot in one message.
    :ivar max_snapshot_bytes: a larger one is not accepted.
    :ivar pre_vote: ask whether an election could be won before raising the term.
    :ivar check_quorum: a leader that does not hear a majority steps down; followers stick to a leader that they hear.
    :ivar lease_reads: answer reads without a round while the lease lasts, which followers that have this too promise.
        Relies on clocks that run at like speed.
    :ivar sticky_lease: a leader that a majority answers knows that no other one is elected for a while, since followers
        stick to a leader that they hear: nothing is promised, so one whose port refuses connections, and whose process
        is gone, is replaced at once. Relies on clocks that run at like speed.
    :ivar cautious: a configured voter with an empty disk (it may have been replaced) says so with its votes, until a
        leader has filled it; they are not enough where what it lost may matter.  Off, to get a group going again that
        has lost its majority.
    :ivar first_term: in which a node is that was in none: it is elected in a later one.
    :ivar leads: False: it never stands for election, whatever the group takes it for: it keeps no data.
    :ivar preferred: ids that should lead, if they are caught up.
    :ivar transfer_lag_max: entries that a new leader may lack when a transfer begins, or a learner that is to vote.
    :ivar hands_out: a Ready has the committed entries, to be applied; else the log is its own state machine, goes on
        from what it knew committed when it was closed, and looks at ``RaftNode.released``.
    :ivar first_entry: data of the first entry of a term that this node leads; the state machine does not get it.
    :ivar wall_ms: milliseconds since 1970 for membership entries; None: they say no time.
    :ivar learners_first: only a learner that has caught up can become a voter.
    :ivar push_quota: bytes of entries a tick for each follower that is far behind; 0: no limit.
    :ivar far_behind: whether one that lacks entries from an index on is; asked where it lacks over 1,000.
    :ivar cached_entries: entries kept in memory after they are stored and applied.
    :ivar cached_bytes: their bytes.
    """

    id: str
    election_ticks: int = 20
    heartbeat_ticks: int = 2
    max_entries_bytes_per_message: int = 256 << 10
    max_inflight_messages: int = 64
    max_inflight_bytes: int = 4 << 20
    max_uncommitted_bytes: int = 16 << 20
    max_uncommitted_entries: int = 100_000
    max_committed_bytes: int = 4 << 20
    snapshot_chunk_bytes: int = 256 << 10
    max_snapshot_bytes: int = 1 << 30
    pre_vote: bool = True
    check_quorum: bool = True
    lease_reads: bool = False
    sticky_lease: bool = False
    cautious: bool = True
    first_term: int = 0
    leads: bool = True
    preferred: tuple[str, ...] = ()
    transfer_lag_max: int = TRANSFER_LAG_MAX
    hands_out: bool = True
    first_entry: Callable[[], bytes] = bytes
    wall_ms: Callable[[], int] | None = None
    learners_first: bool = False
    push_quota: int = 0
    far_behind: Callable[[int], bool] = lambda index: True
    cached_entries: int = 4096
    cached_bytes: int = 2 << 20

    def __attrs_post_init__(self) -> None:
        """Times that cannot work are refused at once.

        :raises ValueError: when they are.
        """
        if not self.id:
            raise ValueError("a node needs an id")
        if not 0 < self.heartbeat_ticks < self.election_ticks:
            raise ValueError("heartbeat_ticks must be at least 1 and less than election_ticks")
        if (self.lease_reads or self.sticky_lease) and not self.check_quorum:
            raise ValueError("lease_reads and sticky_lease need check_quorum")


@attrs.frozen
class PeerStatus:
    """What a leader knows of one other node.

    :ivar state: COMPARE, TRUNCATE, APPEND or SNAPSHOT.
    :ivar match: its last entry known to be equal and synced there.
    :ivar next: the next entry to send.
    :ivar inflight_messages: APPENDs without an answer.
    :ivar inflight_bytes: their bytes of entries.
    :ivar active: whether it was heard of in this or the last election time.
    :ivar healthy: whether it may become leader.
    :ivar snapshot_index: the snapshot being sent, or 0.
    :ivar snapshot_offset: bytes of it that arrived.
    """

    state: str
    match: int
    next: int
    inflight_messages: int
    inflight_bytes: int
    active: bool
    healthy: bool
    snapshot_index: int
    snapshot_offset: int


@attrs.frozen
class Status:
    """A node's state for metrics and the status page.

    :ivar persisted: last entry synced here.
    :ivar transferring_to: "" unless leadership is being handed on.
    :ivar unhealthy: why this node may not lead, "" if it may.
    :ivar peers: what the leader knows of the others, by id; empty on others.
    """

    id: str
    role: Role
    term: int
    vote: str
    leader_id: str
    last_index: int
    persisted: int
    commit: int
    applied: int
    members: Members
    transferring_to: str
    unhealthy: str
    peers: Mapping[str, PeerStatus]
