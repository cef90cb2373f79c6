"""What a leader does: replicate, commit, confirm reads, hand leadership on.

Pure.  One object lives as long as one leadership: it is made when a majority voted and dropped at the first message of
a newer term.  Nothing is sent when it happens: ``flush`` (once a turn, from ``RaftNode.ready``) sends each follower
what its window allows, so that all that came in one turn leaves in one APPEND a follower.

Commit rule: an entry is committed when it is of *this term* and a majority (both, if joint) has synced it; what is
before it is then committed too (Raft 5.4.2, regressions A14).  Therefore a leader begins with a NO_OP entry: it commits
what its predecessors left although nobody proposes anything (D8), and tells from when on reads are possible.  The
leader's own copy counts only once it is synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat

import attrs

from rocketha.errors import ensure
from rocketha.raft import membership, quorum
from rocketha.raft.core import Core
from rocketha.raft.errors import Busy, LagsTooMuch, MembersRefused, Transferring, UnknownMember
from rocketha.raft.log import in_order
from rocketha.raft.messages import Entry, EntryKind, Kind, Members, Message, ReadState
from rocketha.raft.progress import Progress, ProgressState
from rocketha.raft.read_index import READS_MAX, LeaderReads, WaitingRead
from rocketha.raft.replication import Replication

PREFERRED_PATIENCE = 10
"""Election times from when leadership was handed over, or should have been, until it is handed to a preferred node."""

_NORMAL = int(EntryKind.NORMAL)
_new_entry: Callable[[Iterable[object]], Entry] = partial(tuple.__new__, Entry)


class Leadership:
    """One node's time as leader of one term.

    :ivar term_start: index of this term's NO_OP.
    :ivar transfer_to: who is to succeed, "" if nobody.
    :ivar voted_out: this node is no longer a voter, and that is committed: it has to step down.
    """

    __slots__ = (
        "_beats",
        "_core",
        "_elapsed",
        "_preferred_wait",
        "_reads",
        "_replication",
        "_transfer_ticks",
        "term_start",
        "transfer_to",
        "voted_out",
    )

    def __init__(self, core: Core, ordered: bool) -> None:
        """A leadership begins.

        :param ordered: the leader before handed it over: it is not handed on to a preferred node for a while, lest
            nodes that prefer each other hand it to and fro.
        """
        self._core = core
        self._replication = Replication(core)
        self._reads = LeaderReads(core.config.lease_reads or core.config.sticky_lease)
        self._elapsed = 0  # ticks since the majority was looked for
        self._beats = 0  # ticks since the last heartbeat
        self._transfer_ticks = 0
        self._preferred_wait = PREFERRED_PATIENCE if ordered else 1
        self.term_start = core.log.last_index + 1
        self.transfer_to = ""
        self.voted_out = False

    @property
    def peers(self) -> dict[str, Progress]:
        """What is known of the others."""
        return self._replication.peers

    def begin(self) -> None:
        """Put the first entry of the term into the log, and ask for a lease."""
        self._reads.unsent = self._reads.leases
        self._append(EntryKind.NO_OP, self._core.config.first_entry())

    def resign(self) -> None:
        """The leadership ends: its reads are lost."""
        core = self._core
        for origin, context in self._reads.drop():
            if not origin:
                core.lost_reads.append(context)
            else:
                core.now.append(
                    Message(Kind.READ_INDEX_ANSWER, core.id, origin, core.term, reject=True, context=context)
                )

    # Time

    def tick(self) -> bool:
        """One tick passed; False when the leader has to step down: no majority answers."""
        config = self._core.config
        self._elapsed += 1
        self._beats += 1
        self._replication.tick(config.election_ticks)
        if self.transfer_to:
            self._transfer_ticks += 1
            if self._transfer_ticks >= config.election_ticks:
                self.transfer_to = ""
                if config.sticky_lease:  # there is no lease in this term any more, and nothing to do without one
                    return False
        if self._elapsed >= config.election_ticks:
            self._elapsed = 0
            if config.check_quorum and not self._hears_majority():
                return False
            self._replication.look_again()
            self._prefer()
        if self._beats >= config.heartbeat_ticks:
            self._beats = 0
            self._begin_round()
            if self.transfer_to:
                self._hand_over()
        return True

    def _hears_majority(self) -> bool:
        """Whether a majority answers, however its disks are: a new term would only have slow ones begin anew (D10)."""
        peers, own = self._replication.peers, self._core.id
        return quorum.present(self._core.members, lambda each: each == own or (each in peers and peers[each].active))

    def stood_still(self) -> None:
        """The process stood still: no lease, and the majority has to be heard anew."""
        self._elapsed = 0
        self._reads.void_lease()
        for progress in self._replication.peers.values():
            progress.active = False

    # Entries

    def propose(self, datas: Sequence[bytes]) -> range:
        """Put entries of the state machine into the log.

        :raises Transferring: leadership is being handed on.
        :raises Busy: too much is uncommitted.
        """
        core, log = self._core, self._core.log
        self.check_room(len(datas), sum(map(len, datas)))
        first = log.last_index + 1
        indexes = range(first, first + len(datas))
        if datas:
            log.append(list(map(_new_entry, zip(indexes, repeat(core.term), repeat(_NORMAL), datas, repeat(1)))))
        return indexes

    def check_room(self, count: int, size: int) -> None:
        """See that so many more entries, of so many bytes together, may be put into the log.

        :raises Transferring: leadership is being handed on.
        :raises Busy: too much is uncommitted.
        """
        log, config = self._core.log, self._core.config
        if self.transfer_to:
            raise Transferring(self.transfer_to)
        waiting, entries = log.uncommitted_bytes, log.last_index - log.commit
        if waiting and waiting + size > config.max_uncommitted_bytes:
            raise Busy(f"{waiting} bytes wait to be committed")
        if entries and entries + count > config.max_uncommitted_entries:
            raise Busy(f"{entries} entries wait to be committed")

    def stored(self, entries: Sequence[Entry]) -> None:
        """Take entries of this term that its own side has put into the storage: no Ready will have them saved."""
        core, log = self._core, self._core.log
        follow = entries[0].term == core.term and in_order(entries, log.last_index, log.last_term, core.term)
        ensure(log.saved == log.last_index and follow, "entries are stored behind all others, which are saved")
        log.append(entries)
        log.saved = log.last_index

    def _append(self, kind: EntryKind, data: bytes) -> int:
        log = self._core.log
        log.append([Entry(log.last_index + 1, self._core.term, int(kind), data)])
        return log.last_index

    def propose_members(self, change: membership.MembersChange) -> int:
        """Begin a membership change; the index of its first entry.

        :raises Transferring: leadership is being handed on.
        :raises Busy: another change, or this term's first entry, is not committed.
        :raises MembersRefused: the change makes no sense.
        :raises LagsTooMuch: who is to vote is not well, or lacks too much.
        """
        core = self._core
        if self.transfer_to:
            raise Transferring(self.transfer_to)
        if core.log.commit < max(self.term_start, core.membership.index):
            raise Busy("the last membership change, or the start of this term, is not committed")
        members = membership.changed(core.members, change)
        if core.config.learners_first:
            self._check_learned(members.voters - core.members.voters)
        return self._change_members(members)

    def _check_learned(self, voters: Iterable[str]) -> None:
        for each in voters:
            if each not in self._core.members.learners:
                raise MembersRefused(f"{each} is no learner yet: it has to get the log first")
            if not self._replication.peers[each].match:
                raise LagsTooMuch(f"{each} has not answered yet")
            self._check_close(each, self._core.log.commit)

    def _change_members(self, members: Members) -> int:
        core = self._core
        if core.config.wall_ms is not None:
            members = attrs.evolve(members, since_ms=core.config.wall_ms())
        index = self._append(EntryKind.MEMBERSHIP, members.encode())
        core.membership.appended(index, members)
        self._replication.members_changed(index)
        return index

    def persisted(self) -> None:
        """The own log is synced further: it counts."""
        self._commit()

    def _commit(self) -> None:
        core, log, replication = self._core, self._core.log, self._replication
        index = quorum.agreed(core.members, replication.match)
        if not core.config.hands_out:  # else a follower's readers would be ahead of its leader's
            index = min(index, log.persisted)
        # Counting says something about entries of this term only: older ones may still be replaced (A14).
        if index <= log.commit or log.term(index) != core.term:
            return
        before = log.commit
        log.commit_to(index)
        if before < self.term_start:
            self._reads.commit_known(log.commit)
        if core.membership.index <= log.commit and before < max(core.membership.index, self.term_start):
            self._membership_committed()

    def _membership_committed(self) -> None:
        core = self._core
        for each in list(self._replication.peers):
            self._replication.let_go(each)
        if core.members.outgoing:
            self._change_members(membership.left(core.members))
        elif core.id not in core.members.voters:
            self.voted_out = True

    @property
    def lease_holds(self) -> bool:
        """Whether nobody else can have been elected."""
        return self._core.clock < self._reads.lease_until

    # Followers' answers

    def append_answered(self, message: Message) -> None:
        """APPEND_ANSWER of this term."""
        progress = self._replication.peers.get(message.sender)
        if progress is None or message.index > self._core.log.last_index:
            return
        if not self._replication.append_answered(progress, message):
            return
        self._commit()
        if progress.departing:
            self._replication.let_go(message.sender)
        if self.transfer_to == message.sender:
            self._hand_over()

    def heart_beat_answered(self, message: Message) -> None:
        """HEART_BEAT_ANSWER of this term."""
        progress = self._replication.peers.get(message.sender)
        if progress is None or message.context > self._reads.round:
            return
        self._replication.heart_beat_answered(message.sender, progress, message)
        self._confirm_reads()

    def snapshot_answered(self, message: Message) -> None:
        """SNAPSHOT_ANSWER of this term."""
        progress = self._replication.peers.get(message.sender)
        if progress is not None:
            self._replication.snapshot_answered(message.sender, progress, message)

    def unreachable(self, peer: str) -> None:
        """Messages to a peer were lost."""
        progress = self._replication.peers.get(peer)
        if progress is not None:
            self._replication.lost(progress)

    # Reads

    def read(self, origin: str, context: int) -> None:
        """A read of this node ("" as origin) or of another one.

        :raises Busy: too many wait.
        """
        core, reads = self._core, self._reads
        if len(reads) >= READS_MAX:
            raise Busy(f"{READS_MAX} reads wait")
        if core.log.commit < self.term_start:
            reads.ask_early(origin, context)
        elif core.clock < reads.lease_until:
            self._answer_read(WaitingRead(origin, context, core.log.commit))
        else:
            reads.ask(origin, context, core.log.commit)

    def _begin_round(self) -> None:
        self._replication.heart_beats(self._reads.begin_round(self._core.clock))
        self._confirm_reads()  # a single voter needs no answer

    def _confirm_reads(self) -> None:
        core, reads, replication = self._core, self._reads, self._replication
        if reads.leases:
            ticks = core.config.election_ticks
            counted = replication.round if core.config.sticky_lease else replication.promised
            promised = quorum.agreed(core.members, lambda each: counted(each, reads.round))
            reads.promised(promised, ticks - 2 - ticks // 10)
        confirmed = quorum.agreed(core.members, lambda each: replication.round(each, reads.round))
        for read in reads.confirm(confirmed):
            self._answer_read(read)

    def _answer_read(self, read: WaitingRead) -> None:
        core = self._core
        if not read.origin:
            core.reads.append(ReadState(read.context, read.index))
            return
        core.now.append(
            Message(Kind.READ_INDEX_ANSWER, core.id, read.origin, core.term, index=read.index, context=read.context)
        )

    # Handing leadership on

    def transfer(self, to: str) -> None:
        """Hand leadership to a voter; given up after an election time.

        :raises UnknownMember: not a voter, or a witness.
        :raises LagsTooMuch: too far behind, silent or unhealthy.
        :raises Transferring: to another one, already.
        """
        core = self._core
        if to not in core.members.leaders:
            witness = to in core.members.witnesses
            raise UnknownMember(f"{to} is a witness, and can not lead" if witness else f"{to} is not a voter")
        if to in (core.id, self.transfer_to):
            return
        if self.transfer_to:
            raise Transferring(self.transfer_to)
        self._check_close(to, core.log.last_index)
        self.transfer_to = to
        self._transfer_ticks = 0
        self._reads.end_leases()  # an order to take over overrides promises, and may arrive late
        self._hand_over()

    def _check_close(self, peer: str, index: int) -> None:
        """See that a member is well, and has almost all entries up to one.

        :raises LagsTooMuch: it is not, or has not.
        """
        core, progress = self._core, self._replication.peers[peer]
        lag = index - progress.match
        if lag > core.config.transfer_lag_max:
            raise LagsTooMuch(f"{peer} lacks {lag} entries, at most {core.config.transfer_lag_max} are allowed")
        if not (progress.active or progress.was_active) or not progress.healthy:
            unwell = f"the disk of {peer} is failing, or it is a witness and was not added as one"
            raise LagsTooMuch(f"{peer} does not answer" if progress.healthy else unwell)

    def _hand_over(self) -> None:
        """Tell the successor to take over, if it has everything."""
        core = self._core
        progress = self._replication.peers.get(self.transfer_to)
        if progress is None or self.transfer_to not in core.members.voters:
            self.transfer_to = ""
        elif progress.match == core.log.last_index:
            core.now.append(Message(Kind.TAKE_LEADERSHIP, core.id, self.transfer_to, core.term))

    def successor(self) -> str:
        """Who could take over at once: the voter that has most, "" if nobody has all that is committed."""
        core = self._core
        best = ""
        for each, progress in sorted(self._replication.peers.items()):
            if each not in core.members.leaders or not progress.healthy or progress.match < core.log.commit:
                continue
            if not best or progress.match > self._replication.peers[best].match:
                best = each
        return best

    def _prefer(self) -> None:
        """Once an election time: a preferred node that is caught up takes over (D6); not at once again if it fails."""
        core = self._core
        if not core.config.preferred or core.id in core.config.preferred or self.transfer_to:
            return
        self._preferred_wait -= 1
        if self._preferred_wait > 0 or core.log.commit < self.term_start:
            return
        for each in core.config.preferred:
            progress = self._replication.peers.get(each)
            if progress is None or each not in core.members.leaders or progress.state is not ProgressState.APPEND:
                continue
            if progress.was_active and progress.healthy:
                if core.log.last_index - progress.match <= core.config.transfer_lag_max:
                    self._preferred_wait = PREFERRED_PATIENCE
                    self.transfer(each)
                    return

    # Sending

    def flush(self) -> None:
        """Send what came together in this turn."""
        if self._reads.unsent:
            self._begin_round()
        self._replication.flush()
