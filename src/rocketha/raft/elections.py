"""Every change of role, the timer that starts elections, and votes.

Pure.  ::

               timer, a majority would vote            a majority votes
    FOLLOWER ---------------------> PRE_CANDIDATE -> CANDIDATE -----------------> LEADER
       ^  ^    (PRE_CANDIDATE asks)      |               |  timer: next term         |
       |  +------- a leader is heard, a majority refuses-+                           |
       +---------- a newer term, no majority heard, own disk failed, voted out ------+

    LEARNER: a FOLLOWER without a vote in the configuration; never stands for election.  Nor does a witness.

**Leader stickiness**: whoever heard its leader within ``election_ticks`` refuses pre-votes and ignores votes, so that a
node that was cut off, or voted out, disturbs nobody (D7).  It ends at once when the leader's port refuses a connection:
the process is gone.  Then the followers campaign one after the other, in the order of their ids, some 30 ms apart.

**Split votes**: two that stand in one term refuse each other, and where a third one is silent neither has lost yet.  So
a candidate that is refused stands again in that order, too, and not an election time later.  Pre-votes see to it that
one who cannot win disturbs nobody by that; a group without them waits.
"""

from __future__ import annotations

from rocketha.raft.config import Role
from rocketha.raft.core import Core
from rocketha.raft.leadership import Leadership
from rocketha.raft.messages import FORCED, UNSURE, Kind, Message
from rocketha.raft.quorum import VoteResult, election

REFUSED_DELAY_MS = 10
REFUSED_RANK_MS = 30
REFUSED_JITTER_MS = 10
"""After a refused connection: 10-20 ms for the first id, 40-50 ms for the second, and so on."""

HURRY_TICKS = 2
"""An election that failed after a refused connection, or because two stood in one term, is tried again after so many
ticks, or one more, a rank.

Twice as many for each term that was tried: where votes take longer than that (slow links, slow disks) a candidate would
else leave each of its terms before it can win it.
"""


class Elections:
    """The part of a node that changes its role.

    :ivar leadership: what a leader does; None on others.
    :ivar elapsed: ticks since a leader was heard, a vote given or a campaign begun.
    :ivar timeout: the elapsed ticks at which to campaign.
    """

    __slots__ = (
        "_core",
        "_hurry",
        "_ordered",
        "_rank",
        "_stood",
        "_unsure",
        "_votes",
        "elapsed",
        "leadership",
        "timeout",
    )

    def __init__(self, core: Core) -> None:
        self._core = core
        self._votes: dict[str, bool] = {}
        self._unsure: set[str] = set()  # who granted its vote although its disk was empty
        self._hurry = 0
        self._ordered = False  # the leader wants this node to succeed it
        self._rank = 0  # among those who campaign after a refused connection
        self._stood = 0  # terms tried since then
        self.leadership: Leadership | None = None
        self.elapsed = 0
        self.timeout = 0
        self.reset_timer()

    def tick(self) -> None:
        """One tick passed on a node that does not lead."""
        core = self._core
        self.elapsed += 1
        self._hurry = max(self._hurry - 1, 0)
        if self.elapsed >= self.timeout:
            if core.electable:
                self.campaign(forced=False)
            else:
                self.become_follower(core.term, "")  # who may not stand sticks to a leader no longer than others
                self.reset_timer()

    def reset_timer(self) -> None:
        """Begin to wait anew, for a time drawn at random."""
        chance, ticks = self._core.random, self._core.config.election_ticks
        self.elapsed = 0
        if self._hurry:
            self.timeout = self._turn_ticks()
        else:
            self.timeout = chance.randrange(ticks, 2 * ticks)

    def _turn_ticks(self) -> int:
        """Until it is this node's turn, among those who all know that there is no leader."""
        return (HURRY_TICKS * (1 + self._rank) << self._stood) + self._core.random.randrange(2)

    def _line_up(self) -> None:
        """From now on it is one's turn after the other's, in the order of ids."""
        core = self._core
        self._hurry = core.config.election_ticks
        self._stood = 0
        others = [each for each in core.voting_peers() if each not in (core.leader_id, *core.members.witnesses)]
        self._rank = sum(1 for each in others if each < core.id)

    @property
    def sticky(self) -> bool:
        """Whether this node sticks to the leader that it has."""
        core = self._core
        if not core.config.check_quorum:
            return False
        if core.promised_ticks:
            return True
        return core.leader_id != "" and not core.leader_gone and self.elapsed < core.config.election_ticks

    # Changes of role

    def become_follower(self, term: int, leader_id: str) -> None:
        """Follow ``leader_id`` ("" if unknown) in ``term``, which is not below the own."""
        core = self._core
        was_passive = core.role in (Role.FOLLOWER, Role.LEARNER)
        if self.leadership is not None:
            self.leadership.resign()
            self.leadership = None
        if term > core.term:
            self._enter_term(term, "")
        if leader_id != core.leader_id:
            core.lose_forwarded_reads()
        core.leader_id = leader_id
        core.leader_gone = False
        core.role = core.passive_role()
        if leader_id:
            self._hurry = 0
        if leader_id or not was_passive:
            self.reset_timer()

    def campaign(self, forced: bool) -> None:
        """Stand for election.

        :param forced: the leader asked for it: no pre-vote, and nobody sticks to that leader.
        """
        core = self._core
        if core.role is Role.LEADER or not core.electable:
            return
        if core.promised_ticks and not forced and not core.membership.alone(core.id, core.log.commit):
            return  # its own vote is promised too, and may be all that is missing
        core.lose_forwarded_reads()
        core.leader_id = ""
        core.leader_gone = False
        if core.config.pre_vote and not forced:
            core.role = Role.PRE_CANDIDATE
            self._ask()
        else:
            self._become_candidate(FORCED if forced else 0)

    def _become_candidate(self, context: int) -> None:
        core = self._core
        core.role = Role.CANDIDATE
        self._enter_term(core.term + 1, core.id)
        self._ordered = context == FORCED
        self._ask(context)
        self._stood += 1

    def _enter_term(self, term: int, vote: str) -> None:
        """A new term, with its one vote (or none yet); what matched the leader of the old one says nothing."""
        core = self._core
        core.term = term
        core.vote = vote
        core.matched = 0

    def _ask(self, context: int = 0) -> None:
        """Vote for ourselves, and ask the others if that is not enough."""
        core = self._core
        role = core.role
        self.reset_timer()
        self._votes, self._unsure = {}, set()
        self._count(core.id, True, core.is_unsure(core.log.last_index))
        if core.role is not role:
            return
        for peer in core.voting_peers():
            self._request(peer, context)

    def _request(self, peer: str, context: int) -> None:
        """Ask one for its vote, or whether it would give it."""
        core = self._core
        kind, term = (Kind.VOTE, core.term) if core.role is Role.CANDIDATE else (Kind.PRE_VOTE, core.term + 1)
        core.after_sync.append(
            Message(kind, core.id, peer, term, core.log.last_index, core.log.last_term, context=context)
        )

    def _count(self, voter: str, granted: bool, unsure: bool) -> None:
        core = self._core
        self._votes.setdefault(voter, granted)
        if unsure:
            self._unsure.add(voter)
        result = election(core.members, self._votes, self._unsure)
        if result is VoteResult.LOST:
            self.become_follower(core.term, "")
        elif result is VoteResult.WON and core.role is Role.PRE_CANDIDATE:
            self._become_candidate(0)
        elif result is VoteResult.WON:
            self._become_leader()

    def _become_leader(self) -> None:
        core = self._core
        core.role = Role.LEADER
        core.leader_id = core.id
        core.unsure = False
        self._hurry = 0
        self.elapsed = 0
        self.leadership = Leadership(core, self._ordered)
        self.leadership.begin()

    # Messages

    def refuses_out_of_loyalty(self, message: Message) -> bool:
        """Whether a vote or pre-vote of a newer term is not even considered; a pre-vote is answered with a no.

        A promise holds in the own term too: that may have come to be known, from anybody, after the promise.
        """
        core = self._core
        if message.context == FORCED or not (self.sticky if message.term > core.term else core.promised_ticks):
            return False
        if message.kind == Kind.PRE_VOTE:
            self._answer(message, Kind.PRE_VOTE_ANSWER, core.term, granted=False)
        return True

    def asked(self, message: Message) -> None:
        """VOTE of this node's term, or PRE_VOTE of this or a newer one."""
        core, log = self._core, self._core.log
        pre_vote = message.kind == Kind.PRE_VOTE
        free = core.vote == message.sender or (core.vote == "" and core.leader_id == "")
        if pre_vote:
            free = free or message.term > core.term
        # Electable is who has the last entry of the log itself, never of a counter beside it (A17).
        granted = free and (message.log_term, message.index) >= (log.last_term, log.last_index)
        # An empty disk among others that are not: it may have held what the candidate lacks.
        unsure = UNSURE if granted and core.is_unsure(message.index) else 0
        if pre_vote:
            self._answer(message, Kind.PRE_VOTE_ANSWER, message.term if granted else core.term, granted, unsure)
            return
        if granted:
            core.vote = message.sender
            core.unsure = unsure != 0
            self.elapsed = 0
        self._answer(message, Kind.VOTE_ANSWER, core.term, granted, unsure)

    def _answer(self, message: Message, kind: Kind, term: int, granted: bool, context: int = 0) -> None:
        core = self._core
        core.after_sync.append(Message(kind, core.id, message.sender, term, reject=not granted, context=context))

    def answered(self, message: Message) -> None:
        """VOTE_ANSWER of this term, or PRE_VOTE_ANSWER for the next one (or a no)."""
        core = self._core
        if message.kind == Kind.VOTE_ANSWER:
            if core.role is Role.CANDIDATE:
                if message.reject and core.config.pre_vote:
                    self._refused()
                self._count(message.sender, not message.reject, message.context == UNSURE)
        elif core.role is Role.PRE_CANDIDATE and (message.reject or message.term == core.term + 1):
            self._count(message.sender, not message.reject, message.context == UNSURE)

    def _refused(self) -> None:
        """Another one may stand in this term."""
        if not self._hurry:
            self._line_up()
        self.timeout = min(self.timeout, self.elapsed + self._turn_ticks())

    def take_leadership(self, message: Message) -> None:
        """The leader asks this node to succeed it at once."""
        if message.sender == self._core.leader_id and self._core.role is Role.FOLLOWER:
            self.campaign(forced=True)

    def heard_leader(self, leader_id: str) -> None:
        """A message of this term's leader came."""
        core = self._core
        if core.leader_id != leader_id or core.role not in (Role.FOLLOWER, Role.LEARNER):
            self.become_follower(core.term, leader_id)
        self.elapsed = 0
        core.leader_gone = False

    # The driver's knowledge of connections

    def reached(self, peer: str) -> None:
        """A connection to a peer was made: what it was asked before is lost, and its vote may be all that is missing.

        An order of the leader's is not passed on so late: it may have been given up, and reads rely on leases again.
        """
        core = self._core
        if core.role in (Role.PRE_CANDIDATE, Role.CANDIDATE) and peer in core.voting_peers():
            self._request(peer, 0)

    def leader_refused(self) -> int:
        """The leader's port refused a connection; the milliseconds after which to campaign, 0: not at all."""
        core = self._core
        if core.leader_gone or core.config.lease_reads:
            return 0
        core.leader_gone = True  # also on who may not stand: its vote may be the one that is needed
        if not core.electable:
            return 0
        self._line_up()
        self.timeout = min(self.timeout, self.elapsed + HURRY_TICKS + self._rank)  # should the driver's call not come
        return REFUSED_DELAY_MS + REFUSED_RANK_MS * self._rank + core.random.randrange(REFUSED_JITTER_MS)
