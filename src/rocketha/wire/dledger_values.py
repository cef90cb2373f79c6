"""What DLedger's members and clients say to each other: requests, answers, and the entries in them.

Pure.  The dialect of dledger 0.3.2, which RocketMQ 5.5.0 ships; the 0.4.0 line pushes in another one.  A number that is
a place in a log is an index (of entries, from 0) or a position (in bytes).  An empty text is Java's null.

What it must not know: JSON (``wire/dledger_json.py``), the rules of votes and pushes, sockets.

Java: the classes of ``io.openmessaging.storage.dledger.protocol``, and ``DLedgerEntry``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.wire import dledger
from rocketha.wire.dledger import HEAD_BYTES, EntryHead
from rocketha.wire.raft_entries import INDEX_MAX

NUMBER_MAX = INDEX_MAX - 2
"""Of terms and of numbers of entries that are taken: the core counts from 1."""


class DLedgerRequestCode(IntEnum):
    """What a frame asks for.  A controller has the same port for its own 1001 to 1013."""

    METADATA = 50000
    APPEND = 50001
    GET = 50002
    VOTE = 51001
    HEART_BEAT = 51002
    PULL = 51003  # has a number only: no member of this dialect serves it, and it has no values here
    PUSH = 51004
    LEADERSHIP_TRANSFER = 51005


class DLedgerResponseCode(IntEnum):
    """What came of a request: ``code`` in an answer's body.  The frame around it says 200, whatever came."""

    UNKNOWN = -1
    SUCCESS = 200
    TIMEOUT = 300
    METADATA_ERROR = 301
    NETWORK_ERROR = 302
    UNSUPPORTED = 303
    UNKNOWN_GROUP = 400
    UNKNOWN_MEMBER = 401
    UNEXPECTED_MEMBER = 402
    EXPIRED_TERM = 403
    NOT_LEADER = 404
    NOT_FOLLOWER = 405
    INCONSISTENT_STATE = 406
    INCONSISTENT_TERM = 407
    INCONSISTENT_INDEX = 408
    INCONSISTENT_LEADER = 409
    INDEX_OUT_OF_RANGE = 410
    UNEXPECTED_ARGUMENT = 411
    REPEATED_REQUEST = 412
    REPEATED_PUSH = 413
    DISK_ERROR = 414
    DISK_FULL = 415
    TERM_NOT_READY = 416
    FALL_BEHIND_TOO_MUCH = 417
    TAKE_LEADERSHIP_FAILED = 418
    INDEX_LESS_THAN_LOCAL_BEGIN = 419
    REQUEST_WITH_EMPTY_BODYS = 420
    INTERNAL_ERROR = 500
    TERM_CHANGED = 501
    WAIT_QUORUM_ACK_TIMEOUT = 502
    LEADER_PENDING_FULL = 503
    ILLEGAL_MEMBER_STATE = 504
    LEADER_NOT_READY = 505
    LEADER_TRANSFERRING = 506
    LOAD_SNAPSHOT_ERROR = 507

    @classmethod
    def _missing_(cls, value: object) -> DLedgerResponseCode:
        return cls.UNKNOWN  # as Java's valueOf has it: a newer member may know more


class VoteResult(Enum):
    """What became of a vote, in the order of Java's ordinals."""

    UNKNOWN = "UNKNOWN"
    ACCEPT = "ACCEPT"
    REJECT_UNKNOWN_LEADER = "REJECT_UNKNOWN_LEADER"
    REJECT_UNEXPECTED_LEADER = "REJECT_UNEXPECTED_LEADER"
    REJECT_EXPIRED_VOTE_TERM = "REJECT_EXPIRED_VOTE_TERM"
    REJECT_ALREADY_VOTED = "REJECT_ALREADY_VOTED"
    REJECT_ALREADY_HAS_LEADER = "REJECT_ALREADY_HAS_LEADER"
    REJECT_TERM_NOT_READY = "REJECT_TERM_NOT_READY"
    REJECT_TERM_SMALL_THAN_LEDGER = "REJECT_TERM_SMALL_THAN_LEDGER"
    REJECT_EXPIRED_LEDGER_TERM = "REJECT_EXPIRED_LEDGER_TERM"
    REJECT_SMALL_LEDGER_END_INDEX = "REJECT_SMALL_LEDGER_END_INDEX"
    REJECT_TAKING_LEADERSHIP = "REJECT_TAKING_LEADERSHIP"


class PushType(Enum):
    """What a follower is to do with a push, in the order of Java's ordinals."""

    APPEND = "APPEND"
    COMMIT = "COMMIT"
    COMPARE = "COMPARE"
    TRUNCATE = "TRUNCATE"


# --- entries


class Entry(NamedTuple):
    """One entry of the log: its head as on the disk (see ``spec.dledger.ENTRY_HEAD``), and its body.

    Invariant, held by all that read or write one: ``size == 48 + len(body)``.
    """

    magic: int
    size: int
    entry_index: int
    term: int
    position: int
    channel: int
    chain_crc: int
    body_crc: int
    body: bytes

    def head(self) -> EntryHead:
        """What stands before the body on the disk."""
        return EntryHead._make((*self[:8], len(self.body)))


def entries_of(data: bytes) -> tuple[Entry, ...]:
    """Entries that lie one behind the other in a log, from the first byte to the last, or to what ends a file.

    :raises RemoteProtocolError: something is no entry, not whole, or does not follow the one before.
    """
    entries: list[Entry] = []
    at, last = 0, None
    while at < len(data) and dledger.filler_at(data, at) is None:
        head = dledger.parse_head(data, at)
        if last is not None and not (head.follows(last) and head.position == last.position + last.size):
            raise RemoteProtocolError(f"{head} does not follow {last}")
        end = at + head.size
        if end > len(data):
            raise RemoteProtocolError(f"entry {head.entry_index} has {head.size} bytes, {end - len(data)} are missing")
        entries.append(Entry._make((*head[:8], data[at + HEAD_BYTES : end])))
        at, last = end, head
    return tuple(entries)


def raw_entries(entries: Iterable[Entry]) -> bytes:
    """The bytes of entries on the disk, one behind the other.

    :raises RemoteProtocolError: one contradicts itself, or a number of it does not fit.
    """
    return b"".join([part for entry in entries for part in (dledger.pack_head(entry.head()), entry.body)])


# --- messages


@attrs.frozen(kw_only=True)
class Message:
    """What every request and answer says.

    :ivar group: the group's name (of brokers, their broker name).
    :ivar remote_id: the member that it is for.
    :ivar local_id: who sent it.
    :ivar leader_id: the leader in the sender's eyes; of a vote the candidate.
    :ivar term: the sender's.
    :ivar code: a :class:`DLedgerResponseCode`, or a number that is none; 200 in requests, too.
    """

    group: str = ""
    remote_id: str = ""
    local_id: str = ""
    leader_id: str = ""
    term: int = -1
    code: int = DLedgerResponseCode.SUCCESS


@attrs.frozen(kw_only=True)
class MetadataRequest(Message):
    """Who leads, and who is there?  Any member answers."""


@attrs.frozen(kw_only=True)
class MetadataAnswer(Message):
    """``leader_id``, and ``peers``: id to ``host:port``."""

    peers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class AppendRequest(Message):
    """A client wants one entry with this body."""

    body: bytes = b""


@attrs.frozen(kw_only=True)
class AppendAnswer(Message):
    """Where the entry is."""

    entry_index: int = -1
    position: int = -1


@attrs.frozen(kw_only=True)
class GetRequest(Message):
    """A client wants the entry at an index; None says that the client named none, which Java's server can not bear."""

    begin_index: int | None = None


@attrs.frozen(kw_only=True)
class GetAnswer(Message):
    """The entry, or none."""

    entries: tuple[Entry, ...] = ()


@attrs.frozen(kw_only=True)
class VoteRequest(Message):
    """A candidate asks, with the last entry of its log."""

    ledger_end_index: int = -1
    ledger_end_term: int = -1


@attrs.frozen(kw_only=True)
class VoteAnswer(Message):
    """Yes, or why not."""

    vote_result: VoteResult = VoteResult.UNKNOWN


@attrs.frozen(kw_only=True)
class HeartBeatRequest(Message):
    """The leader lives."""


@attrs.frozen(kw_only=True)
class HeartBeatAnswer(Message):
    """``code`` says whether the follower goes along."""


@attrs.frozen(kw_only=True)
class PushRequest(Message):
    """The leader's entries, or a question about one.

    :ivar commit_index: how far the leader knows the log to be committed.
    :ivar entry: the one entry; none in a COMMIT, and where there is a batch.
    :ivar batch: APPEND: entries that follow each other.  It counts where both are there, as in Java.
    """

    kind: PushType = PushType.APPEND
    commit_index: int = -1
    entry: Entry | None = None
    batch: tuple[Entry, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All there are."""
        return self.batch or (() if self.entry is None else (self.entry,))

    @property
    def count(self) -> int:
        """How many."""
        return len(self.entries)

    @property
    def first_index(self) -> int:
        """Index of the first entry, -1 without any."""
        entries = self.entries
        return entries[0].entry_index if entries else -1

    @property
    def last_index(self) -> int:
        """Index of the last entry, -1 without any."""
        entries = self.entries
        return entries[-1].entry_index if entries else -1

    @property
    def batch_bytes(self) -> int:
        """Of the entries of a batch on the disk; 0 where there is none."""
        return sum(entry.size for entry in self.batch)


@attrs.frozen(kw_only=True)
class PushAnswer(Message):
    """What the follower made of it.

    :ivar entry_index: the push's ``first_index``; None where a COMMIT is answered.
    :ivar begin_index: where the follower's log begins.
    :ivar end_index: where it ends.
    :ivar count: the push's.
    """

    entry_index: int | None = None
    begin_index: int = 0
    end_index: int = 0
    count: int = 0


@attrs.frozen(kw_only=True)
class TransferRequest(Message):
    """The leader is to be another: an operator to the leader, then the leader to the one that is to lead.

    :ivar transfer_id: who leads now.
    :ivar transferee_id: who is to lead.
    :ivar take_leadership_ledger_index: how far the log of that one must reach first.
    """

    transfer_id: str = ""
    transferee_id: str = ""
    take_leadership_ledger_index: int = 0


@attrs.frozen(kw_only=True)
class TransferAnswer(Message):
    """``code`` says whether it leads."""


class Exchange(NamedTuple):
    """A request and its answer."""

    request: type[Message]
    answer: type[Message]


EXCHANGES: Mapping[int, Exchange] = {
    DLedgerRequestCode.METADATA: Exchange(MetadataRequest, MetadataAnswer),
    DLedgerRequestCode.APPEND: Exchange(AppendRequest, AppendAnswer),
    DLedgerRequestCode.GET: Exchange(GetRequest, GetAnswer),
    DLedgerRequestCode.VOTE: Exchange(VoteRequest, VoteAnswer),
    DLedgerRequestCode.HEART_BEAT: Exchange(HeartBeatRequest, HeartBeatAnswer),
    DLedgerRequestCode.PUSH: Exchange(PushRequest, PushAnswer),
    DLedgerRequestCode.LEADERSHIP_TRANSFER: Exchange(TransferRequest, TransferAnswer),
}
"""By the code of the request's frame."""

CODES: Mapping[type[Message], DLedgerRequestCode] = {
    exchange.request: DLedgerRequestCode(code) for code, exchange in EXCHANGES.items()
}
"""The code of a request's frame, by its type."""


def peers_text(peers: Mapping[str, str]) -> str:
    """``n0-host:port;n1-host:port``, what ``dLegerPeers`` says.

    :param peers: id to ``host:port``, as ``protocols.endpoints.parse_peers`` reads them; no id has a dash.
    """
    return ";".join(f"{name}-{address}" for name, address in peers.items())
