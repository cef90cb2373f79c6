"""One node of a Raft group: what goes in, and the Ready that comes out.  (Signatures; the body follows.)"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rocketha.raft.config import RaftConfig, Role, Status
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Members, Message, Ready, SnapshotMeta
from rocketha.raft.storage import LogStorage


class RaftNode:
    """A member of the group."""

    role: Role
    term: int
    vote: str
    leader_id: str
    commit: int
    applied: int
    members: Members

    def __init__(self, config: RaftConfig, storage: LogStorage, random: random.Random) -> None:
        """Continue from what is stored."""
        raise NotImplementedError

    def tick(self) -> None:
        """One tick (50 ms) passed."""
        raise NotImplementedError

    def step(self, message: Message) -> None:
        """A peer's message; one that makes no sense is dropped."""
        raise NotImplementedError

    def propose(self, datas: Sequence[bytes]) -> range:
        """Append entries; their indexes.

        :raises NotLeader: on others.
        :raises Busy: too much is uncommitted.
        :raises Transferring: leadership is being handed on.
        """
        raise NotImplementedError

    def propose_members(self, change: MembersChange) -> int:
        """Begin a membership change; the index of its (first) entry.  A joint configuration is left by itself.

        :raises MembersRefused: the change makes no sense.
        """
        raise NotImplementedError

    def read_index(self, context: int) -> None:
        """Ask from where a read is linearizable; the answer comes in Ready.reads (or Ready.lost_reads).

        :raises NotLeader: no leader is known.
        """
        raise NotImplementedError

    def transfer(self, to: str) -> None:
        """Hand leadership to a voter.

        :raises NotLeader: on others.
        :raises UnknownMember: not a voter.
        :raises LagsTooMuch: too far behind, silent or unhealthy.
        """
        raise NotImplementedError

    def campaign(self) -> None:
        """Begin an election now, if this node may."""
        raise NotImplementedError

    def peer_refused(self, peer: str) -> int:
        """A peer's port refused a connection: its process is gone.

        :returns: milliseconds after which :meth:`campaign_if_leader_gone` is to be called; 0: not at all.
        """
        raise NotImplementedError

    def campaign_if_leader_gone(self) -> None:
        """Campaign, unless a leader was heard since ``peer_refused``."""
        raise NotImplementedError

    def unreachable(self, peer: str) -> None:
        """Messages to a peer were lost: compare anew."""
        raise NotImplementedError

    def stood_still(self) -> None:
        """The process stood still for long: what it knew of the time is void."""
        raise NotImplementedError

    def unhealthy(self, reason: str) -> tuple[Message, ...]:
        """The own disk fails or crawls: step down, do not stand for election.

        :returns: messages to send at once, although nothing can be saved (the hand-over of leadership).
        """
        raise NotImplementedError

    def healthy(self) -> None:
        """The disk works again."""
        raise NotImplementedError

    def has_ready(self) -> bool:
        """Whether :meth:`ready` would return anything to do."""
        raise NotImplementedError

    def ready(self) -> Ready:
        """What is to be done now; each thing is handed out once."""
        raise NotImplementedError

    def persisted(self, last_index: int, last_term: int) -> None:
        """Entries up to here are synced."""
        raise NotImplementedError

    def persisted_snapshot(self, meta: SnapshotMeta) -> None:
        """A snapshot from a Ready is synced, and the state machine stands on it."""
        raise NotImplementedError

    def applied_to(self, index: int) -> None:
        """Committed entries up to here are applied."""
        raise NotImplementedError

    def snapshot_meta(self, index: int) -> SnapshotMeta:
        """What a snapshot of the state after entry ``index`` (applied, not compacted) is to carry."""
        raise NotImplementedError

    def compacted(self) -> None:
        """The storage's snapshot or first index moved."""
        raise NotImplementedError

    def status(self) -> Status:
        """A view for people."""
        raise NotImplementedError
