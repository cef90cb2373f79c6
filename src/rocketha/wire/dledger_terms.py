"""What our members add to DLedger's log, and the two small files beside it.

Pure.  The files are Java properties, as DLedger writes them: ``currterm`` and ``checkpoint``.  Java: ``MemberState``,
``DLedgerMmapFileStore.persistCheckPoint``.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.raft_entries import Members
from rocketha.wire.record import TRANSACTION_ROLLBACK, Record, encode, sealed
from rocketha.wire.spec import dledger as spec
from rocketha.wire.spec.format import Format

TERM_TOPIC = "rmq_sys_ROCKETHA_TERM"
"""Of the record in the first entry of a term."""
MEMBERS_TOPIC = "rmq_sys_ROCKETHA_MEMBERS"
"""Of the record in an entry that changes the members."""

ADDRESS_BYTES_MAX = 300
TERM_START_BYTES_MAX = 1 + 8 + 2 + ADDRESS_BYTES_MAX + 8
LONG_MAX = (1 << 63) - 1
_NO_HOST = bytes(8)


class TermStart(NamedTuple):
    """See ``spec.dledger.TERM_START``.

    :ivar origin: None in a log that was DLedger's from its begin.
    """

    time_ms: int
    address: str
    origin: int | None = None


class Committed(NamedTuple):
    """DLedger's ``checkpoint``: numbers of entries, from 0; -1 for none.

    :ivar end: the last one of the log.
    """

    committed: int = -1
    end: int = -1


class Vote(NamedTuple):
    """DLedger's ``currterm``.

    :ivar leader: whom this member voted for in the term, "" for nobody.
    """

    term: int
    leader: str = ""


def build_term_start(start: TermStart) -> bytes:
    """Its bytes.

    :raises RemoteProtocolError: the address is too long.
    """
    if len(start.address.encode()) > ADDRESS_BYTES_MAX:
        raise RemoteProtocolError(f"an address of more than {ADDRESS_BYTES_MAX} bytes")
    return codec.build(spec.TERM_START, {"version": 1 if start.origin is None else spec.WITH_ORIGIN, **start._asdict()})


def parse_term_start(data: bytes) -> TermStart:
    """What a leader of ours said of itself.

    :raises RemoteProtocolError: it is none.
    """
    if len(data) > TERM_START_BYTES_MAX:
        raise RemoteProtocolError(f"term start: {len(data)} bytes, at most {TERM_START_BYTES_MAX}")
    parsed = codec.parse(spec.TERM_START, data, RemoteProtocolError)
    if parsed.version not in (1, spec.WITH_ORIGIN):
        raise RemoteProtocolError(f"term start: version {parsed.version}")
    return TermStart(parsed.time_ms, parsed.address, parsed.origin)


def build_log_begin(position: int) -> bytes:
    """Where the log begins for whoever lacks what was before."""
    return codec.build(spec.LOG_BEGIN, {"position": position})


def parse_log_begin(data: bytes) -> int:
    """The position.

    :raises RemoteProtocolError: it is none.
    """
    position = int(codec.parse(spec.LOG_BEGIN, data, RemoteProtocolError).position)
    if position < 0:
        raise RemoteProtocolError(f"a log that begins at {position}")
    return position


def term_record(data: bytes, offset: int) -> bytes:
    """The record that the first entry of a term holds: a half message that was rolled back, which no broker dispatches.

    :param data: a :class:`TermStart` in bytes: every member makes the same record of it.
    :param offset: of the record in the log.
    """
    return _own_record(TERM_TOPIC, parse_term_start(data).time_ms, data, offset)


def members_record(data: bytes, offset: int) -> bytes:
    """The record of an entry that changes the members, which no broker dispatches either.

    :param data: :meth:`rocketha.wire.raft_entries.Members.encode`'s: every member makes the same record of it.
    :param offset: of the record in the log.
    """
    return _own_record(MEMBERS_TOPIC, Members.decode(data).since_ms or 0, data, offset)


def _own_record(topic: str, time_ms: int, body: bytes, offset: int) -> bytes:
    return encode(
        sealed(
            Record(
                total=0,
                magic=0,
                body_crc=0,
                queue_id=0,
                flag=0,
                queue_offset=0,
                physical_offset=offset,
                sys_flag=TRANSACTION_ROLLBACK,
                born_timestamp_ms=time_ms,
                born_host=_NO_HOST,
                store_timestamp_ms=time_ms,
                store_host=_NO_HOST,
                reconsume_times=0,
                prepared_offset=0,
                body=body,
                topic=topic,
                properties=b"",
            )
        )
    )


def build_vote(vote: Vote) -> bytes:
    """The file ``currterm``."""
    return f"voteLeader={vote.leader}\ncurrTerm={vote.term}\n".encode()


def parse_vote(data: bytes) -> Vote:
    """The same.

    :raises RemoteProtocolError: it is damaged.
    """
    found = _properties(data, "currterm")
    leader = found.get("voteLeader", "")
    return Vote(_number(found, "currTerm", 0, "currterm"), "" if leader == "null" else leader)


def build_committed(found: Committed) -> bytes:
    """The file ``checkpoint``."""
    return f"committedIndex={found.committed}\nendIndex={found.end}\n".encode()


def parse_committed(data: bytes) -> Committed:
    """The same.

    :raises RemoteProtocolError: it is damaged.
    """
    found = _properties(data, "checkpoint")
    return Committed(*(_number(found, name, -1, "checkpoint") for name in ("committedIndex", "endIndex")))


def _properties(data: bytes, name: str) -> dict[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"{name}: {error}") from None
    pairs = (line.strip().partition("=") for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#!")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _number(found: dict[str, str], key: str, least: int, name: str) -> int:
    text = found.get(key, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or not least <= int(text) <= LONG_MAX:
        raise RemoteProtocolError(f"{name}: {key} is {text[:40]!r}")
    return int(text)


FORMATS = (
    Format(
        name="dledger-term-start",
        spec=spec.TERM_START,
        parse=parse_term_start,
        build=build_term_start,
        bound=TERM_START_BYTES_MAX,
        doc="Body of the record in a term's first entry (ours).",
    ),
    Format(
        name="dledger-log-begin",
        spec=spec.LOG_BEGIN,
        parse=parse_log_begin,
        build=build_log_begin,
        bound=9,
        doc="Where the log of a message group begins for a member that lacks what is gone (ours).",
    ),
)
