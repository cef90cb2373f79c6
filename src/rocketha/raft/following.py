"""What a follower (or learner) does with its leader's messages.

Pure.  A follower's answer to an APPEND names the last entry that is both the leader's and *synced here*: it is made
when ``persisted`` says so, not when the entries arrive, so that no order of calls in a driver can promise too much
(A16).
Answers to several APPENDs merge into one.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.errors import RockethaError, ensure
from rocketha.raft.core import Core
from rocketha.raft.log import in_order
from rocketha.raft.messages import COMMIT_ONLY, Entry, EntryKind, Kind, Members, Message, ReadState, SnapshotMeta
from rocketha.raft.snapshot_receipt import SnapshotReceipt


class Following:
    """The follower's side of replication.

    :ivar received: a snapshot that arrived whole and is not handed to the driver yet.
    """

    __slots__ = ("_acked", "_core", "_leader", "_owed", "_receipt", "received")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._owed = False  # the leader waits for an answer
        self._leader = ("", 0)  # whom _acked was told, and in which term
        self._acked = 0  # what the last answer named
        self._receipt = SnapshotReceipt()
        self.received: tuple[SnapshotMeta, bytes] | None = None

    def append(self, message: Message) -> None:
        """An APPEND of this term's leader."""
        core, log = self._core, self._core.log
        entries: Sequence[Entry] = message.entries
        index, log_term = message.index, message.log_term
        if not entries and message.context == COMMIT_ONLY:
            log.commit_to(min(message.commit, core.matched))
            return
        if entries and not in_order(entries, index, log_term, message.term):
            return
        memberships = _memberships(entries)
        if memberships is None:
            return
        last = entries[-1].last if entries else index
        if index < log.commit and last <= log.commit:
            self._owe(message.sender, log.commit)  # all of it is committed here, and may be compacted
            return
        if index < log.commit:
            index = log.commit
            log_term = next(entry.term for entry in entries if entry.last >= index)
            ensure(log.matches(index, log_term), f"entry {index} is committed here with another term than the leader's")
            entries = log.behind(entries, index)
        elif not log.matches(index, log_term):
            self._reject(message)
            return
        cut = log.merge(entries) if entries else 0
        if cut:
            core.membership.cut(cut)
        for entry_index, members in memberships:
            if entry_index > core.membership.index:
                core.membership.appended(entry_index, members)
        self._owe(message.sender, last)
        log.commit_to(min(message.commit, last))
        if core.unsure and log.commit >= message.commit > 0:
            core.unsure = False

    def _owe(self, leader: str, matched: int) -> None:
        core = self._core
        core.matched = max(core.matched, matched)
        if self._leader != (leader, core.term):
            self._leader = (leader, core.term)
            self._acked = 0
        self._owed = True

    def _reject(self, message: Message) -> None:
        """Say no, and from where on it may be worth trying: the last entry of a term that the leader may have."""
        core, log = self._core, self._core.log
        hint = log.last_with_term_at_most(min(message.index, log.last_index), message.log_term)
        hint = max(hint, log.commit)
        core.now.append(
            Message(
                Kind.APPEND_ANSWER,
                core.id,
                message.sender,
                core.term,
                index=message.index,
                reject=True,
                hint_index=hint,
                hint_term=log.term(hint) if hint >= log.first_index - 1 else 0,
            )
        )

    def answer(self) -> None:
        """Answer what was appended, as far as it is synced."""
        if not self._owed:
            return
        core, log = self._core, self._core.log
        if self._leader != (core.leader_id, core.term):
            self._owed = False
            return
        index = min(core.matched, log.persisted)
        if index < core.matched and index <= self._acked:
            return
        hint = log.last_index if log.last_index > core.matched else index
        core.now.append(Message(Kind.APPEND_ANSWER, core.id, core.leader_id, core.term, index, hint_index=hint))
        self._acked = index
        self._owed = index < core.matched

    def heart_beat(self, message: Message) -> None:
        """The leader lives.  The answer says so back, whether this node could lead, and what it promises."""
        core = self._core
        if core.config.lease_reads:
            core.promised_ticks = core.config.election_ticks
        core.log.commit_to(min(message.commit, core.matched))
        core.now.append(
            Message(
                Kind.HEART_BEAT_ANSWER,
                core.id,
                message.sender,
                core.term,
                index=core.matched,
                log_term=core.promised_ticks,
                reject=not core.is_well,
                hint_index=core.log.last_index,
                context=message.context,
            )
        )

    def snapshot(self, message: Message) -> None:
        """A part of a snapshot; with the last one, log and membership are replaced."""
        core, log, meta = self._core, self._core.log, message.snapshot
        if meta is None or message.offset < 0:
            return
        if meta.index <= log.commit:
            self._owe(message.sender, log.commit)
            return
        if log.matches(meta.index, meta.term):
            log.commit_to(meta.index)
            self._owe(message.sender, meta.index)
            return
        if message.offset + len(message.data) > core.config.max_snapshot_bytes:
            self._receipt.clear()  # not answered: the leader tries again with its heartbeats, not at line speed
            return
        wanted, data = self._receipt.take(message, meta, core.config.max_snapshot_bytes)
        offset = message.offset + len(message.data) if wanted else self._receipt.received
        core.now.append(
            Message(
                Kind.SNAPSHOT_ANSWER,
                core.id,
                message.sender,
                core.term,
                index=meta.index,
                log_term=meta.term,
                reject=not wanted,
                offset=offset,
                done=data is not None,
            )
        )
        if data is None:
            return
        log.restore(meta)
        core.membership.restored(meta.index, meta.members)
        self.received = (meta, data)
        self._owe(message.sender, meta.index)

    def read_answered(self, message: Message) -> None:
        """The leader's answer to a forwarded read."""
        core = self._core
        if message.context in core.forwarded:
            del core.forwarded[message.context]
            if message.reject:
                core.lost_reads.append(message.context)
            else:
                core.reads.append(ReadState(message.context, message.index))


def _memberships(entries: Sequence[Entry]) -> list[tuple[int, Members]] | None:
    """The configurations among entries; None if one cannot be read."""
    try:
        return [(entry[0], Members.decode(entry[3])) for entry in entries if entry[2] == EntryKind.MEMBERSHIP]
    except RockethaError:
        return None
