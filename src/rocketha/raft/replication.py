"""A leader's log on its way to the others: what each is sent, and what its answers mean.

Pure.  What it must not know: commit rules, reads, elections (``leadership.py``).  The states of one follower are in
``progress.py``.
"""

from __future__ import annotations

from rocketha.raft import quorum
from rocketha.raft.core import Core
from rocketha.raft.messages import COMMIT_ONLY, Kind, Message, SnapshotMeta
from rocketha.raft.progress import Progress, ProgressState
from rocketha.raft.storage import Compacted

COMPARE_BYTES = 4096
"""Bytes of entries in an APPEND that looks for the last equal entry."""

DEPARTURE_ELECTION_TIMES = 5
"""For how long a removed member is still sent the entry that removes it."""

QUOTA_TICKS = 20
"""What was not sent may be sent later, for a second's worth."""

QUOTA_ENTRIES = 1000
"""Who lacks no more is served without a limit."""

WITNESS_LAG = 10_000
"""Committed entries that a witness may lack; beyond, it is told of the last one, without any data."""

STALLED_BEATS = 5
"""A part of a snapshot is sent again after so many answered heartbeats without progress."""


class Replication:
    """The followers and learners of one leadership.

    :ivar peers: by id; also members just removed, until they know it.
    """

    __slots__ = ("_core", "_round", "peers")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._round = 0  # the last heartbeat round sent
        self.peers = {each: Progress(core.log.last_index + 1) for each in core.peers()}

    def match(self, member: str) -> int:
        """How far a member's log is equal and synced; the own one as far as it is synced."""
        if member == self._core.id:
            return self._core.log.persisted
        progress = self.peers.get(member)
        return progress.match if progress is not None else 0

    def round(self, member: str, own: int) -> int:
        """The last reading round a member answered; ``own`` for this node."""
        if member == self._core.id:
            return own
        progress = self.peers.get(member)
        return progress.round if progress is not None else 0

    def promised(self, member: str, own: int) -> int:
        """The last round that a member answered with a promise to elect nobody else; ``own`` for this node."""
        if member == self._core.id:
            return own
        progress = self.peers.get(member)
        return progress.promised_round if progress is not None else 0

    def _is_witness(self, member: str) -> bool:
        return member in self._core.members.witnesses

    def _end(self, to: str) -> int:
        """The last entry that a peer may be sent.

        A witness is told of nothing before it is synced here: it votes for nobody who lacks what it was told of, so
        after a power cut everywhere nobody could lead.
        """
        log = self._core.log
        return log.persisted if self._is_witness(to) else log.last_index

    # Members

    def members_changed(self, index: int) -> None:
        """The configuration in force is another one, by entry ``index``."""
        core = self._core
        current = core.peers()
        for each in current:
            progress = self.peers.get(each)
            if progress is None:
                self.peers[each] = Progress(core.log.last_index + 1)
            else:
                progress.departing = 0
        for each in sorted(set(self.peers) - set(current)):
            if not self.peers[each].departing:
                self.peers[each].departing = index
                self.peers[each].departing_ticks = 0

    def let_go(self, member: str) -> None:
        """Drop a removed member that has the entry which removes it; tell it that this is committed first."""
        progress, log = self.peers.get(member), self._core.log
        if progress is not None and progress.departing and progress.match >= progress.departing <= log.commit:
            self._tell_commit(member, progress)
            del self.peers[member]

    def tick(self, election_ticks: int) -> None:
        """One tick passed: there is more to send, and members removed long ago are dropped."""
        quota = self._core.config.push_quota
        if quota:
            for progress in self.peers.values():
                progress.quota = min(progress.quota + quota, quota * QUOTA_TICKS)
        for each in [each for each, progress in self.peers.items() if progress.departing]:
            self.peers[each].departing_ticks += 1
            if self.peers[each].departing_ticks > DEPARTURE_ELECTION_TIMES * election_ticks:
                del self.peers[each]
            else:
                self.let_go(each)

    def look_again(self) -> None:
        """Begin to note anew who is heard."""
        for progress in self.peers.values():
            progress.was_active, progress.active = progress.active, False

    # Sending

    def heart_beats(self, round_number: int) -> None:
        """Tell everybody that this node leads."""
        core = self._core
        self._round = round_number
        for each, progress in self.peers.items():
            commit = min(progress.match, core.log.commit)
            progress.told = max(progress.told, commit)
            core.now.append(Message(Kind.HEART_BEAT, core.id, each, core.term, commit=commit, context=round_number))

    def flush(self) -> None:
        """Send each peer what its window allows, and the commit index if it does not know it."""
        commit = self._core.log.commit
        for each, progress in self.peers.items():
            if progress.next <= self._end(each) or progress.nudge:
                self._send_entries(each, progress)
            if progress.told < commit and progress.told < progress.match:
                self._tell_commit(each, progress)

    def _send_entries(self, to: str, progress: Progress) -> None:
        """APPENDs until the window is full.  One that may show a loss leaves even then, without entries."""
        config, end = self._core.config, self._end(to)
        limited = self._is_limited(to, progress)
        while progress.state is not ProgressState.SNAPSHOT:
            piped = progress.state is ProgressState.APPEND
            room = piped and (
                len(progress.inflight) < config.max_inflight_messages
                and progress.inflight_bytes < config.max_inflight_bytes
                and not (limited and progress.quota <= 0)
            )
            if progress.asked or not (progress.nudge or (progress.next <= end and (room or not piped))):
                return
            progress.nudge = False
            size = config.max_entries_bytes_per_message if room else 0 if piped else COMPARE_BYTES
            before = progress.next
            if not self._send_append(to, progress, size):
                self._begin_snapshot(to, progress)
                return
            if limited and progress.next > before:
                progress.quota -= progress.inflight[-1][1]

    def _is_limited(self, to: str, progress: Progress) -> bool:
        """Whether it is so far behind that others should not have to wait while it is filled.

        Never one without which nothing more is committed: then all wait for it.
        """
        config, log = self._core.config, self._core.log
        if not config.push_quota or log.last_index - progress.next <= QUOTA_ENTRIES or progress.match >= log.commit:
            return False
        others = quorum.agreed(self._core.members, lambda each: 0 if each == to else self._match_of_active(each))
        return others >= log.commit and config.far_behind(progress.next)

    def _match_of_active(self, member: str) -> int:
        progress = self.peers.get(member)
        return self.match(member) if progress is None or progress.active or progress.was_active else 0

    def _send_append(self, to: str, progress: Progress, max_bytes: int) -> bool:
        """One APPEND; False if what it needs is compacted."""
        core, log, end = self._core, self._core.log, self._end(to)
        before = progress.next - 1
        if self._is_witness(to) and log.commit - before > WITNESS_LAG:
            return False
        try:
            log_term = log.term(before)
            some = max_bytes > 0 and before < end
            entries = tuple(log.entries(before + 1, end + 1, max_bytes)) if some else ()
        except Compacted:
            return False
        last = entries[-1].last if entries else before
        progress.told = max(progress.told, min(log.commit, last))
        core.now.append(Message(Kind.APPEND, core.id, to, core.term, before, log_term, log.commit, entries=entries))
        if entries or progress.state is not ProgressState.APPEND:
            progress.sent_entries(last, log.size(entries))
        return True

    def _tell_commit(self, to: str, progress: Progress) -> None:
        """Tell how far is committed, of what the follower is known to have: that needs no answer."""
        core = self._core
        commit = min(core.log.commit, progress.match)
        if commit <= progress.told:
            return
        progress.told = commit
        core.now.append(
            Message(Kind.APPEND, core.id, to, core.term, index=progress.match, commit=commit, context=COMMIT_ONLY)
        )

    # Answers

    def append_answered(self, progress: Progress, message: Message) -> bool:
        """APPEND_ANSWER; whether the follower has more than was known."""
        progress.active = True
        if message.reject:
            self._refused(progress, message)
            return False
        if message.index < progress.match:
            return False
        news = progress.acknowledged(message.index, self._round)
        if progress.state is ProgressState.COMPARE:
            if message.hint_index > message.index and message.index < self._core.log.last_index:
                progress.truncate()
            else:
                progress.append()
        elif progress.state is ProgressState.TRUNCATE:
            if news:
                progress.append()
        elif progress.snapshot is not None:
            goes_on = progress.match + 1 >= self._core.log.first_index and not self._is_witness(message.sender)
            if progress.match >= progress.snapshot.index or goes_on:
                progress.append()
                progress.nudge = True
        return news

    def _refused(self, progress: Progress, message: Message) -> None:
        """The follower lacks the entry before those it was sent, or has another one there."""
        if progress.state is ProgressState.SNAPSHOT or message.index <= progress.match:
            return
        if progress.state is ProgressState.APPEND:
            progress.compare(progress.match + 1)
            return
        if message.index != progress.next - 1:
            return  # the answer to an earlier question
        log = self._core.log
        hint = log.last_with_term_at_most(min(message.hint_index, message.index - 1), message.hint_term)
        progress.compare(hint + 1)

    def heart_beat_answered(self, to: str, progress: Progress, message: Message) -> None:
        """HEART_BEAT_ANSWER: it lives; what was sent to it may still be lost, or even what it had."""
        log = self._core.log
        progress.active = True
        progress.healthy = not message.reject
        progress.round = max(progress.round, message.context)
        if message.log_term >= self._core.config.election_ticks:  # a lease may be as long as that
            progress.promised_round = max(progress.promised_round, message.context)
        if progress.state is ProgressState.SNAPSHOT:
            progress.stalled += 1
            if progress.stalled >= STALLED_BEATS:
                self._send_part(to, progress)
            return
        progress.asked = False
        if message.context > progress.match_round:  # a round that began when ``match`` was known: no old answer
            if message.hint_index < progress.match:
                progress.forget(log.last_index)
            elif message.index < progress.match:
                progress.compare(progress.match + 1)  # it restarted
        if progress.match < log.last_index or progress.state is not ProgressState.APPEND:
            progress.nudge = True

    def lost(self, progress: Progress) -> None:
        """Messages to the peer were lost: compare anew, go on with a snapshot at the next sign of life."""
        if progress.state is ProgressState.SNAPSHOT:
            progress.stalled = STALLED_BEATS
        else:
            progress.compare(progress.match + 1)

    # Snapshots

    def _begin_snapshot(self, to: str, progress: Progress) -> None:
        progress.send_snapshot(self._snapshot_for(to))
        self._send_part(to, progress)

    def _snapshot_for(self, to: str) -> SnapshotMeta:
        """The newest; a witness takes any committed entry for one, for it wants no data."""
        core, log = self._core, self._core.log
        if not self._is_witness(to):
            return log.snapshot()
        return SnapshotMeta(log.commit, log.term(log.commit), core.membership.at(log.commit))

    def _send_part(self, to: str, progress: Progress) -> None:
        """The part of the snapshot that begins where the follower is; a newer snapshot if that one is gone."""
        core, size = self._core, self._core.config.snapshot_chunk_bytes
        meta = progress.snapshot
        progress.stalled = 0
        if meta is None:
            return
        try:
            data = self._read_part(to, progress.offset, size, meta.index)
        except Compacted:
            meta = self._snapshot_for(to)
            progress.send_snapshot(meta)
            data = self._read_part(to, 0, size, meta.index)
        progress.sent = max(progress.sent, progress.offset + len(data))
        core.now.append(
            Message(
                Kind.SNAPSHOT,
                core.id,
                to,
                core.term,
                snapshot=meta,
                offset=progress.offset,
                data=data,
                done=len(data) < size,
            )
        )

    def _read_part(self, to: str, offset: int, size: int, index: int) -> bytes:
        if self._is_witness(to):
            return b""
        return self._core.log.read_snapshot(offset, size, index)

    def snapshot_answered(self, to: str, progress: Progress, message: Message) -> None:
        """SNAPSHOT_ANSWER: send the next part, or the one that it lacks."""
        meta = progress.snapshot
        progress.active = True
        if meta is None or (message.index, message.log_term) != (meta.index, meta.term):
            return
        if message.offset > progress.sent or (message.offset <= progress.offset and not message.reject):
            return
        progress.offset = message.offset
        progress.stalled = 0
        if not message.done:
            self._send_part(to, progress)
