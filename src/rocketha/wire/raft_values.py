"""The messages of Raft, below the codec that writes them and the core that uses them.

Pure.  ``rocketha.raft.messages`` is the name under which everybody above the codecs imports them, together with the
values of ``wire/raft_entries.py`` that they carry.  What it must not know: rules of Raft, frames, sockets.
A NamedTuple, because messages are hot.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from rocketha.wire.raft_entries import MEMBERS_BYTES_MAX as MEMBERS_BYTES_MAX
from rocketha.wire.raft_entries import Entry as Entry
from rocketha.wire.raft_entries import EntryKind as EntryKind
from rocketha.wire.raft_entries import HardState as HardState
from rocketha.wire.raft_entries import Members as Members
from rocketha.wire.raft_entries import SnapshotMeta as SnapshotMeta


class Kind(IntEnum):
    """What a message is; the fields that each uses are in docs/raft.rst."""

    PRE_VOTE = 1
    PRE_VOTE_ANSWER = 2
    VOTE = 3
    VOTE_ANSWER = 4
    HEART_BEAT = 5
    HEART_BEAT_ANSWER = 6
    APPEND = 7
    APPEND_ANSWER = 8
    SNAPSHOT = 9
    SNAPSHOT_ANSWER = 10
    TAKE_LEADERSHIP = 11
    READ_INDEX = 12
    READ_INDEX_ANSWER = 13


class Message(NamedTuple):
    """One message between two nodes.

    :ivar kind: a :class:`Kind` (or its number).
    :ivar sender: id of the node that sent it.
    :ivar to: id of the node it is for.
    :ivar term: the sender's term; of PRE_VOTE and a granting PRE_VOTE_ANSWER the term that is aimed at.
    :ivar index: APPEND: the entry before ``entries``; APPEND_ANSWER: the last entry known equal, or with ``reject`` the
        ``index`` refused; votes: the candidate's last entry; READ_INDEX_ANSWER: the index to wait for.
    :ivar log_term: term of the entry at ``index`` (APPEND, votes).
    :ivar commit: how far the sender knows the log to be committed.
    :ivar reject: a no.  In HEART_BEAT_ANSWER: this node may not become leader (its disk is failing).
    :ivar hint_index: rejected APPEND: the last entry that may be equal; else the follower's last entry.
    :ivar hint_term: term of the entry at ``hint_index``.
    :ivar context: HEART_BEAT and its answer: the reading round; READ_INDEX: the asker's number; VOTE: 1 when the leader
        asked for it (TAKE_LEADERSHIP); APPEND: 1 when nothing but ``commit`` is told and no answer is needed.
    :ivar entries: APPEND: the entries after ``index``.
    :ivar snapshot: SNAPSHOT: what is being sent; SNAPSHOT_ANSWER: None, ``index`` and ``log_term`` name it.
    :ivar offset: SNAPSHOT: where ``data`` begins, in bytes; SNAPSHOT_ANSWER: the next byte wanted.
    :ivar data: SNAPSHOT: a part of the snapshot.
    :ivar done: SNAPSHOT: ``data`` is the last part; SNAPSHOT_ANSWER: the whole arrived.
    """

    kind: int
    sender: str
    to: str
    term: int
    index: int = 0  # type: ignore[assignment]  # tuple.index, which nobody calls
    log_term: int = 0
    commit: int = 0
    reject: bool = False
    hint_index: int = 0
    hint_term: int = 0
    context: int = 0
    entries: tuple[Entry, ...] = ()
    snapshot: SnapshotMeta | None = None
    offset: int = 0
    data: bytes = b""
    done: bool = False
