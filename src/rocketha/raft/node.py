"""One node of a Raft group: what goes in, and the Ready that comes out.

Pure.  What it is: the surface of the core.  What it must not know: clocks, disks, sockets, what entries mean.

Theory of operation.  The driver calls ``tick``, ``step``, ``propose`` ... as things happen, then ``ready`` once and
does what it says in its order (:class:`rocketha.raft.messages.Ready`), telling ``persisted`` and ``applied_to`` when
that is done, which may be several Readys later.  Nothing here blocks, nothing is answered through exceptions to a peer.
docs/raft.rst has the rules; ``elections.py`` the roles, ``leadership.py`` and ``replication.py`` the leader,
``following.py`` the follower.  Java: ``DLedgerServer``, ``DLedgerLeaderElector``, ``DLedgerEntryPusher``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from rocketha.raft.config import PeerStatus, RaftConfig, Role, Status
from rocketha.raft.core import Core
from rocketha.raft.elections import Elections
from rocketha.raft.errors import Busy, NotLeader
from rocketha.raft.following import Following
from rocketha.raft.leadership import Leadership
from rocketha.raft.log import Log
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Entry, HardState, Kind, Members, Message, Ready, SnapshotMeta
from rocketha.raft.progress import Progress
from rocketha.raft.storage import LogStorage

FORWARDED_MAX = 65_536
"""Reads forwarded to the leader and not answered; more are refused."""

_FROM_LEADERS = (Kind.APPEND, Kind.HEART_BEAT, Kind.SNAPSHOT)


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


class RaftNode:
    """A member of the group (or one that waits to become one)."""

    def __init__(self, config: RaftConfig, storage: LogStorage, random: random.Random) -> None:
        """Continue from what is stored."""
        self._core = core = Core(config, storage, random)
        self._elections = Elections(core)
        self._following = Following(core)
        self._told = (core.role, core.term, core.leader_id)  # what the last Ready said
        self._kept = (core.term, core.vote)  # what the last Ready gave to save
        self._kept_commit = core.log.commit
        self._hint_ticks = 0
        self._timed = False  # whether the driver tells the time
        # By Kind; what is None is not for a leader, or not for the others.
        self._leader_steps: dict[int, Callable[[Leadership, Message], None]] = {
            int(Kind.APPEND_ANSWER): Leadership.append_answered,
            int(Kind.HEART_BEAT_ANSWER): Leadership.heart_beat_answered,
            int(Kind.SNAPSHOT_ANSWER): Leadership.snapshot_answered,
        }

    # What can be seen

    @property
    def role(self) -> Role:
        """What the node is at the moment."""
        return self._core.role

    @property
    def term(self) -> int:
        """The newest term it has seen."""
        return self._core.term

    @property
    def vote(self) -> str:
        """Whom it voted for in this term, "" for nobody."""
        return self._core.vote

    @property
    def unsure(self) -> bool:
        """Whether this node may have forgotten what it once acknowledged: its votes say so (see ``cautious``).

        To be set where the group has entries and this node has none.
        """
        return self._core.unsure

    @unsure.setter
    def unsure(self, unsure: bool) -> None:
        self._core.unsure = self._core.late = unsure and self._core.config.cautious

    @property
    def leader_id(self) -> str:
        """Who leads, "" if unknown."""
        return self._core.leader_id

    @property
    def commit(self) -> int:
        """The last entry known to be committed."""
        return self._core.log.commit

    @property
    def released(self) -> int:
        """The last entry that may be applied: it is committed, and synced here."""
        return self._core.log.released

    @property
    def applied(self) -> int:
        """The last entry applied."""
        return self._core.log.applied

    @property
    def last_index(self) -> int:
        """The last entry of the log, synced or not."""
        return self._core.log.last_index

    @property
    def members(self) -> Members:
        """The configuration in force: the last one in the log, committed or not."""
        return self._core.members

    @property
    def forced(self) -> int:
        """See :attr:`MembershipHistory.forced`."""
        return self._core.membership.forced

    @property
    def lease_holds(self) -> bool:
        """Whether this node leads, and nobody else can have been elected; tell the time before."""
        leadership = self._elections.leadership
        return leadership is not None and leadership.lease_holds

    @property
    def id(self) -> str:
        """Of this node."""
        return self._core.id

    @property
    def log(self) -> Log:
        """To read it."""
        return self._core.log

    def status(self) -> Status:
        """A view for people and metrics."""
        return status_of(self._core, self._elections.leadership)

    # What happens

    def tick(self) -> None:
        """One tick passed (``RaftConfig`` counts in them; the driver's are 50 ms)."""
        self._hint_ticks += 1
        core = self._core
        core.promised_ticks = max(core.promised_ticks - 1, 0)
        if not self._timed:
            core.clock += 1
        leadership = self._elections.leadership
        if leadership is None:
            self._elections.tick()
        elif leadership.tick():
            self._step_down_if_voted_out()
        else:
            self._elections.become_follower(core.term, "")

    def time_is(self, clock: int) -> None:
        """So many ticks of real time have passed since the start, however late ``tick`` was called: for leases only."""
        self._timed = True
        self._core.clock = max(self._core.clock, clock)

    def step(self, message: Message) -> None:
        """A peer's message.  One that makes no sense, or is not for this node, is dropped without a word."""
        core = self._core
        if message.to != core.id or message.sender == core.id or not message.sender:
            return
        kind = message.kind
        if kind in (Kind.VOTE, Kind.PRE_VOTE) and message.term >= core.term:
            if self._elections.refuses_out_of_loyalty(message):
                return
        if message.term > core.term:
            if kind == Kind.PRE_VOTE or (kind == Kind.PRE_VOTE_ANSWER and not message.reject):
                pass  # a term that nobody has yet
            else:
                self._elections.become_follower(message.term, message.sender if kind in _FROM_LEADERS else "")
        elif message.term < core.term:
            self._step_old(message)
            return
        leadership = self._elections.leadership
        leader_step = self._leader_steps.get(kind)
        if leader_step is not None:
            if leadership is not None:
                leader_step(leadership, message)
                self._step_down_if_voted_out()
        elif kind in _FROM_LEADERS:
            self._step_from_leader(message)
        elif kind in (Kind.VOTE, Kind.PRE_VOTE):
            self._elections.asked(message)
        elif kind in (Kind.VOTE_ANSWER, Kind.PRE_VOTE_ANSWER):
            self._elections.answered(message)
        elif kind == Kind.TAKE_LEADERSHIP:
            self._elections.take_leadership(message)
        elif kind == Kind.READ_INDEX:
            self._step_read(message)
        elif kind == Kind.READ_INDEX_ANSWER:
            self._following.read_answered(message)

    def _step_old(self, message: Message) -> None:
        """A message of an older term: its sender, if it is somebody's leader or candidate, is told the newer one."""
        core, kind = self._core, message.kind
        if kind in _FROM_LEADERS:
            core.now.append(Message(Kind.APPEND_ANSWER, core.id, message.sender, core.term, message.index, reject=True))
        elif kind in (Kind.VOTE, Kind.PRE_VOTE):
            answer = Kind.VOTE_ANSWER if kind == Kind.VOTE else Kind.PRE_VOTE_ANSWER
            core.now.append(Message(answer, core.id, message.sender, core.term, reject=True))
        elif kind == Kind.PRE_VOTE_ANSWER and message.reject:
            self._elections.answered(message)
        elif kind == Kind.READ_INDEX:
            self._refuse_read(message)

    def _step_from_leader(self, message: Message) -> None:
        if self._elections.leadership is not None:
            return  # two leaders in a term cannot be; if they are, this one does not obey
        self._elections.heard_leader(message.sender)
        if message.kind == Kind.APPEND:
            self._following.append(message)
        elif message.kind == Kind.HEART_BEAT:
            self._following.heart_beat(message)
        else:
            self._following.snapshot(message)

    def _step_read(self, message: Message) -> None:
        leadership = self._elections.leadership
        try:
            if leadership is not None:
                leadership.read(message.sender, message.context)
                return
        except Busy:
            pass
        self._refuse_read(message)

    def _refuse_read(self, message: Message) -> None:
        core = self._core
        core.now.append(
            Message(Kind.READ_INDEX_ANSWER, core.id, message.sender, core.term, reject=True, context=message.context)
        )

    def _step_down_if_voted_out(self) -> None:
        """A leader that is no voter any more hands leadership on and follows (or, removed, is silent)."""
        leadership = self._elections.leadership
        if leadership is None or not leadership.voted_out:
            return
        leadership.flush()
        self._core.now += self._hand_over(leadership)
        self._elections.become_follower(self._core.term, "")

    def _hand_over(self, leadership: Leadership) -> list[Message]:
        core, successor = self._core, leadership.successor()
        return [Message(Kind.TAKE_LEADERSHIP, core.id, successor, core.term)] if successor else []

    # What this node's own side wants

    def _leading(self) -> Leadership:
        leadership = self._elections.leadership
        if leadership is None:
            raise NotLeader(self._core.leader_id)
        return leadership

    def propose(self, datas: Sequence[bytes]) -> range:
        """Append entries; their indexes.

        :raises NotLeader: on others.
        :raises Busy: too much is uncommitted.
        :raises Transferring: leadership is being handed on.
        """
        return self._leading().propose(datas)

    @property
    def has_unsaved(self) -> bool:
        """Whether a Ready that nobody has taken yet has entries to save."""
        return self._core.log.saved < self._core.log.last_index

    def check_room(self, count: int, size: int) -> None:
        """See that so many more entries, of so many bytes together, may be stored and then proposed by :meth:`stored`.

        :raises NotLeader: on others.
        :raises Busy: too much is uncommitted, or a Ready has to be carried out first.
        :raises Transferring: leadership is being handed on.
        """
        leading = self._leading()
        if self.has_unsaved:
            raise Busy("entries wait to be saved")
        leading.check_room(count, size)

    def stored(self, entries: Sequence[Entry]) -> None:
        """Propose entries of this term that are in the storage already, behind all others: a log that is its own state
        machine writes them once, where it makes them.  :meth:`check_room` was asked in the same turn, before they were
        written.

        :raises NotLeader: on others.
        :raises InvariantBroken: they do not follow the last one, or are of another term.
        """
        self._leading().stored(entries)

    def propose_members(self, change: MembersChange) -> int:
        """Begin a membership change; the index of its (first) entry.  A joint configuration is left by itself.

        :raises NotLeader: on others.
        :raises Busy: another change, or the start of this term, is not committed.
        :raises MembersRefused: the change makes no sense.
        :raises Transferring: leadership is being handed on.
        """
        return self._leading().propose_members(change)

    def read_index(self, context: int) -> None:
        """Ask from where on a read is linearizable; ``Ready.reads`` answers, or ``Ready.lost_reads``.

        :param context: a number that is not in use for another read of this node.
        :raises NotLeader: no leader is known.
        :raises Busy: too many reads wait.
        """
        core, leadership = self._core, self._elections.leadership
        if leadership is not None:
            leadership.read("", context)
            return
        if not core.leader_id:
            raise NotLeader("")
        if len(core.forwarded) >= FORWARDED_MAX:
            raise Busy(f"{FORWARDED_MAX} reads wait for the leader's answer")
        core.forwarded[context] = None
        core.now.append(Message(Kind.READ_INDEX, core.id, core.leader_id, core.term, context=context))

    def forget_read(self, context: int) -> None:
        """The answer to a read is no longer wanted (its time is over): a lost one does not stay for ever."""
        self._core.forwarded.pop(context, None)

    def transfer(self, to: str) -> None:
        """Hand leadership to a voter; given up after an election time.

        :raises NotLeader: on others.
        :raises UnknownMember: not a voter.
        :raises LagsTooMuch: too far behind, silent or unhealthy.
        :raises Transferring: to another one, already.
        """
        self._leading().transfer(to)

    def campaign(self) -> None:
        """Begin an election now, if this node may stand.

        A learner, an unhealthy node and a leader do not, nor who promised to wait while another one's lease may last.
        """
        self._elections.campaign(forced=False)

    def peer_refused(self, peer: str) -> int:
        """A peer's port refused a connection: its process is gone.

        :returns: milliseconds after which :meth:`campaign_if_leader_gone` is to be called; 0: not at all.
        """
        if self._elections.leadership is not None:
            self._elections.leadership.unreachable(peer)
        elif peer and peer == self._core.leader_id:
            return self._elections.leader_refused()
        return 0

    def campaign_if_leader_gone(self) -> None:
        """Campaign, unless a leader was heard since ``peer_refused``."""
        if self._core.leader_gone:
            self._elections.campaign(forced=False)

    def peer_reached(self, peer: str) -> None:
        """A connection to a peer was made; what was said to it before may be lost."""
        self._elections.reached(peer)

    def unreachable(self, peer: str) -> None:
        """Messages to a peer were lost (its connection broke): a leader compares anew."""
        if self._elections.leadership is not None:
            self._elections.leadership.unreachable(peer)

    def stood_still(self) -> None:
        """The process stood still for long: what it knew of the time is void."""
        if self._elections.leadership is not None:
            self._elections.leadership.stood_still()
        else:
            self._elections.reset_timer()

    def unhealthy(self, reason: str) -> tuple[Message, ...]:
        """The own disk fails or crawls: step down, do not stand for election (D10).

        :param reason: for the status page, not empty.
        :returns: messages to send at once, although nothing can be saved (the hand-over of leadership).
        """
        core, leadership = self._core, self._elections.leadership
        core.unhealthy = reason or "unhealthy"
        if leadership is not None:
            messages = tuple(self._hand_over(leadership))
            self._elections.become_follower(core.term, "")
            return messages
        if core.role in (Role.CANDIDATE, Role.PRE_CANDIDATE):
            self._elections.become_follower(core.term, "")
        return ()

    def reluctant(self, reason: str) -> None:
        """Another node should lead where one can; "": it may as well be this one."""
        self._core.reluctant = reason

    @property
    def wants_to_lead(self) -> bool:
        """Whether there is no reason that another node should."""
        return not (self._core.unhealthy or self._core.reluctant)

    def healthy(self) -> None:
        """The disk works again."""
        self._core.unhealthy = ""

    # What comes out

    def has_ready(self) -> bool:
        """Whether :meth:`ready` would return anything to do."""
        self._finish_turn()
        core, log = self._core, self._core.log
        return bool(
            core.now
            or core.after_sync
            or log.saved < log.last_index
            or log.can_release
            or core.reads
            or core.lost_reads
            or self._following.received
            or self._kept != (core.term, core.vote)
            or self._told != (core.role, core.term, core.leader_id)
            or self._hint_due()
        )

    def _finish_turn(self) -> None:
        """Say what all events of a turn together have led to."""
        if self._elections.leadership is not None:
            self._elections.leadership.flush()
        else:
            core = self._core
            self._following.answer()
            if core.role is Role.FOLLOWER or core.role is Role.LEARNER:
                core.role = core.passive_role()

    def _hint_due(self) -> bool:
        """Whether the stored commit hint is old: once an election time, if it moved."""
        log = self._core.log
        due = self._hint_ticks >= self._core.config.election_ticks
        return due and min(log.commit, log.persisted) > self._kept_commit

    def take_ready(self) -> Ready | None:
        """:meth:`ready` where :meth:`has_ready`, else None; looks only once."""
        return self._make_ready() if self.has_ready() else None

    def ready(self) -> Ready:
        """What is to be done now; each thing is handed out once."""
        self._finish_turn()
        return self._make_ready()

    def _make_ready(self) -> Ready:
        core, log = self._core, self._core.log
        kept, told = (core.term, core.vote), (core.role, core.term, core.leader_id)
        voted = kept != self._kept
        hard_state = None
        if voted or self._hint_due():
            self._kept, self._kept_commit, self._hint_ticks = kept, min(log.commit, log.persisted), 0
            hard_state = HardState(core.term, core.vote, self._kept_commit)
        now, after_sync = tuple(core.now), tuple(core.after_sync)
        if voted:  # nothing is said in a term that might be forgotten
            now, after_sync = (), now + after_sync
        entries = log.take_unsaved()
        snapshot, self._following.received = self._following.received, None
        if not core.config.hands_out:
            log.release()
        ready = Ready(
            hard_state=hard_state,
            must_sync=voted or bool(entries) or snapshot is not None,
            snapshot=snapshot,
            entries=entries,
            messages_now=now,
            messages_after_sync=after_sync,
            committed=log.take_committed(core.config.max_committed_bytes) if core.config.hands_out else (),
            reads=tuple(core.reads),
            lost_reads=tuple(core.lost_reads),
            leader_changed=told != self._told,
        )
        self._told = told
        core.now, core.after_sync, core.reads, core.lost_reads = [], [], [], []
        return ready

    def messages_meanwhile(self, saved_term: int, saved_vote: str) -> tuple[Message, ...]:
        """What may be said while the driver cannot carry out the last Ready; all else that was to be said is dropped,
        as a network might: it must not pile up for as long as a disk is full.

        :param saved_term: the newest on the disk; nothing is said in another, which might be forgotten.
        :param saved_vote: likewise.
        """
        core = self._core
        now, core.now, core.after_sync = core.now, [], []
        return tuple(now) if (core.term, core.vote) == (saved_term, saved_vote) else ()

    # What the driver has done

    def persisted(self, last_index: int, last_term: int) -> None:
        """Entries up to this one (named with its term, it may have been replaced) are synced."""
        if self._core.log.persisted_to(last_index, last_term) and self._elections.leadership is not None:
            self._elections.leadership.persisted()
            self._step_down_if_voted_out()

    def persisted_snapshot(self, meta: SnapshotMeta) -> None:
        """A snapshot from a Ready is synced, and the state machine stands on it."""
        self._core.log.restored(meta)

    def applied_to(self, index: int) -> None:
        """Committed entries up to here are applied."""
        self._core.log.applied_to(index)

    def snapshot_meta(self, index: int) -> SnapshotMeta:
        """What a snapshot of the state after entry ``index`` (applied, not compacted) is to carry.

        :raises Compacted: while a received snapshot waits to be stored.
        """
        return SnapshotMeta(index, self._core.log.term(index), self._core.membership.at(index))

    def compacted(self) -> None:
        """The storage has a newer snapshot, or its first entry moved: what is older is not asked for again."""
        self._core.membership.compacted(min(self._core.log.snapshot().index, self._core.log.applied))
