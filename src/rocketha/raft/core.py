"""What the parts of a node share: its term, vote and role, its log, and what it has to say.

Pure.  ``node.py`` is the surface; ``elections.py`` holds every change of role, ``following.py`` what a follower does
with a leader's messages, ``leadership.py`` what a leader does.  All of them read and write this.
"""

from __future__ import annotations

import random

from rocketha.raft.config import RaftConfig, Role
from rocketha.raft.log import Log
from rocketha.raft.membership import MembershipHistory
from rocketha.raft.messages import Members, Message, ReadState
from rocketha.raft.storage import LogStorage


class Core:
    """State of one node.

    :ivar term: the newest term seen; never falls.
    :ivar vote: whom this node voted for in ``term``; changes at most once in a term.
    :ivar leader_id: who leads in ``term``, "" if unknown; changes at most once from "" in a term.
    :ivar leader_gone: the leader's port refused a connection since it was last heard.
    :ivar unhealthy: why this node may not lead ("" if it may).
    :ivar reluctant: why another node should lead where one can ("" if it may as well be this one): it still stands for
        election.
    :ivar unsure: began with an empty disk, and was not filled yet: it cannot know what it promised before.
    :ivar late: and others of the group have entries: this is not its first start.
    :ivar promised_ticks: for so long this node gives no vote, nor its own to itself (but where a leader orders to, or
        nobody else can lead), whatever becomes known: it promised so, and a leader's lease counts on it.
    :ivar matched: follower: entries up to here are the leader's of ``term``.
    :ivar now: messages that promise nothing new.
    :ivar after_sync: messages that promise what is being saved.
    :ivar clock: what leases are counted with: ticks of real time, or just ticks, if nobody tells the time.
    :ivar reads: reads that were answered.
    :ivar lost_reads: reads that will not be.
    :ivar forwarded: reads asked of the leader, not answered.
    """

    __slots__ = (
        "after_sync",
        "clock",
        "config",
        "forwarded",
        "id",
        "late",
        "leader_gone",
        "leader_id",
        "log",
        "lost_reads",
        "matched",
        "membership",
        "now",
        "promised_ticks",
        "random",
        "reads",
        "reluctant",
        "role",
        "term",
        "unhealthy",
        "unsure",
        "vote",
    )

    def __init__(self, config: RaftConfig, storage: LogStorage, chance: random.Random) -> None:
        hard_state, members = storage.initial()
        self.config = config
        self.id = config.id
        self.random = chance
        self.term = max(hard_state.term, config.first_term)
        self.vote = hard_state.vote
        self.leader_id = ""
        self.leader_gone = False
        self.unhealthy = self.reluctant = ""
        self.clock = 0
        # A node that restarts does not know what it promised, nor whom it stuck to.
        had_leaders = config.sticky_lease and hard_state.term > 0
        self.promised_ticks = config.election_ticks if config.lease_reads or had_leaders else 0
        self.matched = 0
        self.log = Log(storage, hard_state.commit, config.cached_entries, config.cached_bytes)
        if not config.hands_out:
            self.log.release()
            self.log.applied = self.log.released
        self.membership = MembershipHistory(members, storage.snapshot().index)
        for entry in storage.memberships():
            self.membership.appended(entry.index, Members.decode(entry.data))
        self.unsure = (
            config.cautious and self.log.last_index == 0 and self.id in members.voters and len(members.voters) > 1
        )
        self.late = False
        self.role = self.passive_role()
        self.now: list[Message] = []
        self.after_sync: list[Message] = []
        self.reads: list[ReadState] = []
        self.lost_reads: list[int] = []
        self.forwarded: dict[int, None] = {}

    def is_unsure(self, index: int) -> bool:
        """Whether this node's vote for a candidate whose log ends there counts for less: empty disks elect an empty one
        when a group begins, and no other time."""
        return self.unsure and (index > 0 or self.late)

    @property
    def members(self) -> Members:
        """The configuration in force: the last one in the log."""
        return self.membership.current

    def passive_role(self) -> Role:
        """FOLLOWER, or LEARNER for a node that may not stand for election."""
        return Role.FOLLOWER if self.may_stand else Role.LEARNER

    def peers(self) -> list[str]:
        """The ids of the others, sorted."""
        return [each for each in self.members.ids() if each != self.id]

    def voting_peers(self) -> list[str]:
        """The ids of the others that vote, sorted."""
        members = self.members
        return sorted((members.voters | members.outgoing) - {self.id})

    @property
    def may_stand(self) -> bool:
        """Whether the configurations let this node stand for election.

        A voter may until it knows that an entry which removes it is committed: it may be the only one that has the
        entry (thesis 4.2.2).  Its own vote does not count then.
        """
        return self.membership.names_voter(self.id, self.log.commit)

    @property
    def electable(self) -> bool:
        """Whether this node may stand for election now."""
        may = self.may_stand and self.config.leads and self.id not in self.members.witnesses
        return may and not self.unhealthy and self.log.installing is None

    @property
    def is_well(self) -> bool:
        """Whether it may be made a leader, or else is known for a witness."""
        known = self.config.leads or self.id in self.members.witnesses
        return known and not self.unhealthy and not self.reluctant

    def lose_forwarded_reads(self) -> None:
        """The leader changed: what was asked of it will not be answered."""
        if self.forwarded:
            self.lost_reads += self.forwarded
            self.forwarded = {}
