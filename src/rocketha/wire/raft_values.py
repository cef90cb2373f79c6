"""The values that Raft's log and its messages are made of, below the codecs that write them and the core that uses them.

Pure.  What it is: entries, the hard state, members, snapshot descriptions and messages; ``rocketha.raft.messages`` is
the name under which everybody above the codecs imports them.  What it must not know: rules of Raft, frames, files.

What is made per entry or per message is a NamedTuple, because it is hot; the rest are frozen attrs classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.spec import raft_members
from rocketha.wire.spec.format import Format

MEMBERS_MAX = 64
MEMBERS_BYTES_MAX = 64 * (1 + 1 + 255 + 2 + 300)


class EntryKind(IntEnum):
    """What an entry's data is: the state machine's, nothing (a new leader's first entry), or :class:`Members`."""

    NORMAL = 1
    NO_OP = 2
    MEMBERSHIP = 3


class Entry(NamedTuple):
    """One entry of the log.

    :ivar index: place in the log, from 1 without gaps.
    :ivar term: the term of the leader that made it.
    :ivar kind: an :class:`EntryKind` (or its number: the two are equal).
    :ivar data: the state machine's bytes, or :meth:`Members.encode`.
    """

    index: int
    term: int
    kind: int
    data: bytes


class HardState(NamedTuple):
    """What a node must not forget.

    :ivar term: newest term seen.
    :ivar vote: whom it voted for in that term, "" for nobody.
    :ivar commit: how far it knew the log to be committed: a hint that need not be synced.
    """

    term: int
    vote: str
    commit: int


def _read_only(value: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(value.items()))


@attrs.frozen
class Members:
    """Who belongs to the group.  Joint (two majorities are needed) while ``outgoing`` is not empty.

    :ivar voters: ids that vote (in a joint configuration: of the new one).
    :ivar outgoing: the voters of the configuration that is being left.
    :ivar learners: receive the log, do not vote.
    :ivar learners_next: voters of ``outgoing`` only that become learners when the joint configuration is left.
    :ivar addresses: id -> "host:port" of all of them.  Treat as read-only.
    """

    voters: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    outgoing: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    learners: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    learners_next: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    addresses: Mapping[str, str] = attrs.field(factory=dict, converter=_read_only, hash=False)

    @property
    def joint(self) -> bool:
        """Whether the group is between two configurations."""
        return bool(self.outgoing)

    def ids(self) -> list[str]:
        """All ids, sorted."""
        return sorted(self.voters | self.outgoing | self.learners | self.learners_next)

    def votes(self, member: str) -> bool:
        """Whether the member has a vote in either configuration."""
        return member in self.voters or member in self.outgoing

    def encode(self) -> bytes:
        """The bytes of ``wire/spec/raft_members.py``."""
        return build_members(self)

    @staticmethod
    def decode(data: bytes) -> Members:
        """What :meth:`encode` wrote.

        :raises RemoteProtocolError: for anything else.
        """
        return parse_members(data)


@attrs.frozen
class SnapshotMeta:
    """What a snapshot stands for.

    :ivar index: the last entry it contains.
    :ivar term: that entry's term.
    :ivar members: the group as of that entry.
    """

    index: int
    term: int
    members: Members


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
    index: int = 0
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


def build_members(members: Members) -> bytes:
    """The bytes of a membership.

    :raises RemoteProtocolError: when there are too many members or a name does not fit.
    """
    ids = members.ids()
    if len(ids) > MEMBERS_MAX:
        raise RemoteProtocolError(f"{len(ids)} members, at most {MEMBERS_MAX} are allowed")
    rows = []
    for member in ids:
        parts = raft_members.VOTER * (member in members.voters) | raft_members.OUTGOING * (member in members.outgoing)
        parts |= raft_members.LEARNER * (member in members.learners)
        parts |= raft_members.LEARNER_NEXT * (member in members.learners_next)
        rows.append({"parts": parts, "id": member, "address": members.addresses.get(member, "")})
    return codec.build(raft_members.MEMBERS, {"members": rows})


def parse_members(data: bytes) -> Members:
    """A membership from its bytes.

    :raises RemoteProtocolError: for bytes that :func:`build_members` does not write.
    """
    if len(data) > MEMBERS_BYTES_MAX:
        raise RemoteProtocolError(f"members: {len(data)} bytes, at most {MEMBERS_BYTES_MAX} are allowed")
    rows: list[Any] = list(codec.parse(raft_members.MEMBERS, data).members)
    ids = [str(row.id) for row in rows]
    if len(rows) > MEMBERS_MAX or ids != sorted(set(ids)):
        raise RemoteProtocolError(f"members: {len(rows)} ids, not sorted, not unique or too many")
    for row in rows:
        if not 0 < row.parts < 16 or not row.id:
            raise RemoteProtocolError(f"members: {row.id!r} has parts {row.parts}")

    def having(part: int) -> frozenset[str]:
        return frozenset(str(row.id) for row in rows if row.parts & part)

    return Members(
        voters=having(raft_members.VOTER),
        outgoing=having(raft_members.OUTGOING),
        learners=having(raft_members.LEARNER),
        learners_next=having(raft_members.LEARNER_NEXT),
        addresses={str(row.id): str(row.address) for row in rows},
    )


FORMATS = (
    Format(
        name="raft-members",
        spec=raft_members.MEMBERS,
        parse=parse_members,
        build=build_members,
        bound=MEMBERS_BYTES_MAX,
        doc="The data of a Raft membership entry, and the members in a snapshot's description (ours).",
    ),
)
