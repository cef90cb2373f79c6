"""The JSON bodies of DLedger's members and clients: bytes to values and back.

Pure.  Theory of operation: each type of message has a table of its members in fastjson's order; :func:`encode` and
:func:`decode` walk it.  What is written is what Java's class writes, members that it computes included.  What is read
is read as fastjson does it: unknown members do not matter, an absent one has Java's default, and so has null; numbers
may be texts.  Strict is what goes to memory or to the disk: a body may not be longer than what can be said, base64 is
checked, and an entry that contradicts itself never leaves here, so it can be laid on the disk as it is.  Of a name that
an enumeration does not have fastjson makes null.  A vote whose outcome is null is UNKNOWN; a push of no type is
refused, for Java's server fails on it.

All breaches, on either side, are :class:`RemoteProtocolError`.

What it must not know: the rules of votes and pushes, frames, sockets.

Java: ``DLedgerRpcNettyService`` with fastjson 1.2.83; ``RequestOrResponse`` and the classes made of it.
"""

from __future__ import annotations

import binascii
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.wire import dledger, json_dialect, json_members
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import Entry, Message, PushType, VoteResult
from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.json_members import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from rocketha.wire.limits import JSON_BYTES_A_CHARACTER
from rocketha.wire.spec import dledger_json as spec
from rocketha.wire.spec.format import Format

NAME_CHARACTERS_MAX = 255
"""Of a group or a member."""

PEERS_MAX = 64
ADDRESS_CHARACTERS_MAX = 300

TALK_BYTES_MAX = 64 * 1024
"""A body without entries: six names in their longest form are 18 KiB, and a newer member may say more."""

METADATA_BYTES_MAX = TALK_BYTES_MAX + JSON_BYTES_A_CHARACTER * PEERS_MAX * (
    NAME_CHARACTERS_MAX + ADDRESS_CHARACTERS_MAX
)
ENTRIES_MAX = json_members.MEMBERS_MAX // 10
"""Of one body, each an object of nine members: 3.8 MB of heads alone, where Java's leader makes batches of 4 KiB."""

ENTRY_MEMBERS_MAX = 100
"""Of one entry, unknown ones included."""

TOLERANT_BYTES_MAX = 64 * 1024
"""The largest body that is read when it is no plain JSON, which no member writes: the slow reader is for people."""

_M = TypeVar("_M", bound=Message)
_Found = Mapping[str, Any]
_NULLS = (None, "", "null")
_RESULTS, _TYPES = tuple(VoteResult.__members__), tuple(PushType.__members__)


class _Member(NamedTuple):
    """One member of an object: its name, the attribute, how it is read and what is written (None leaves it out)."""

    name: str
    attribute: str
    write: Callable[[Any], Any]
    read: Callable[[_Found, str, Any], Any] | None  # None: Java computes it and does not read it
    default: Any = None


class _Shape(NamedTuple):
    """What a type of message is."""

    what: str
    bytes_max: int
    members: tuple[_Member, ...]


def encode(message: Message) -> bytes:
    """The body of a message.

    :raises RemoteProtocolError: it says what can not be said.
    """
    shape = _SHAPES[type(message)]
    row: dict[str, Any] = {}
    for name, attribute, write, _, _ in shape.members:
        try:
            value = write(getattr(message, attribute))
        except RemoteProtocolError as problem:
            raise RemoteProtocolError(f"{shape.what}, {name}: {problem}") from None
        if value is not None:
            row[name] = value
    body = _dumps(row, shape.what)
    _check_size(body, shape)
    return body


def decode(kind: type[_M], data: bytes) -> _M:
    """The message of that type that a body is.

    :raises RemoteProtocolError: it is none.
    """
    shape = _SHAPES[kind]
    _check_size(data, shape)
    found = json_members.json_object(data, shape.what, TOLERANT_BYTES_MAX)
    try:
        return kind(
            **{
                attribute: read(found, name, default)
                for name, attribute, _, read, default in shape.members
                if read is not None
            }
        )
    except RemoteProtocolError as problem:
        raise RemoteProtocolError(f"{shape.what}: {problem}") from None


def decode_request(code: int, data: bytes) -> Message:
    """The request in a frame of that code.

    :raises RemoteProtocolError: it is none, or there is no such code.
    """
    exchange = values.EXCHANGES.get(code)
    if exchange is None:
        raise RemoteProtocolError(f"request {code} is none of DLedger's")
    return decode(exchange.request, data)


def encode_entry(entry: Entry) -> bytes:
    """An entry by itself."""
    return _dumps(_written_entry(entry), "an entry")


def decode_entry(data: bytes) -> Entry:
    """An entry by itself."""
    return _entry(json_members.json_object(data, "an entry", TOLERANT_BYTES_MAX))


def _check_size(body: bytes, shape: _Shape) -> None:
    if len(body) > shape.bytes_max:
        raise RemoteProtocolError(f"{shape.what} of {len(body)} bytes, allowed are {shape.bytes_max}")


def _dumps(row: dict[str, Any], what: str) -> bytes:
    try:
        return json_dialect.dumps(row)
    except TypeError as problem:
        raise RemoteProtocolError(f"{what}: {problem}") from None


# --- one value each: read, then written


def _long(found: _Found, name: str, default: Any) -> Any:
    value = found.get(name)
    return default if value in _NULLS else json_members.long(found, name)


def _int(found: _Found, name: str, default: Any) -> Any:
    value = found.get(name)
    return default if value in _NULLS else json_members.integer(found, name)


def _written_long(value: Any) -> Any:
    return value if value is None or LONG_MIN <= value <= LONG_MAX else _refuse_number(value)


def _written_int(value: Any) -> Any:
    return value if INT_MIN <= value <= INT_MAX else _refuse_number(value)


def _refuse_number(value: int) -> NoReturn:
    raise RemoteProtocolError(f"{value} is out of range")


def _text(found: _Found, name: str, default: Any) -> Any:
    return json_members.text(found, name, "", NAME_CHARACTERS_MAX)


def _written_text(value: Any) -> Any:
    if len(value) > NAME_CHARACTERS_MAX:
        raise RemoteProtocolError(f"{len(value)} characters, allowed are {NAME_CHARACTERS_MAX}")
    return value or None


def _base64(found: _Found, name: str, default: Any = b"") -> bytes:
    value = found.get(name)
    if value is None:
        return b""
    if type(value) is not str:
        raise RemoteProtocolError(f"{name} is {str(value)[:40]!r}, wanted is base64")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError as problem:
        raise RemoteProtocolError(f"{name} is no base64: {problem}") from None


def _written_base64(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def _peers(found: _Found, name: str, default: Any) -> dict[str, str]:
    peers = json_members.text_table(found, name, PEERS_MAX)
    _check_peers(peers)
    return peers


def _written_peers(peers: Mapping[str, str]) -> Any:
    if len(peers) > PEERS_MAX:
        raise RemoteProtocolError(f"{len(peers)} members, allowed are {PEERS_MAX}")
    _check_peers(peers)
    return dict(peers) or None


def _check_peers(peers: Mapping[str, str]) -> None:
    for peer, address in peers.items():
        if len(peer) > NAME_CHARACTERS_MAX or len(address) > ADDRESS_CHARACTERS_MAX:
            raise RemoteProtocolError(f"a peer of {len(peer)} characters with an address of {len(address)}")


def _result(found: _Found, name: str, default: Any) -> VoteResult:
    return VoteResult(json_members.word(found, name, _RESULTS, VoteResult.UNKNOWN.value))


def _type(found: _Found, name: str, default: Any) -> PushType:
    if name not in found:
        return PushType.APPEND
    word = json_members.word(found, name, _TYPES, "")
    if not word:
        raise RemoteProtocolError(f"{name} is {str(found[name])[:40]!r}, wanted is one of {', '.join(_TYPES)}")
    return PushType(word)


def _written_word(value: VoteResult | PushType) -> str:
    return value.name


# --- entries


def _entry(row: _Found) -> Entry:
    """An entry that can be laid on the disk."""
    entry = Entry(
        _int(row, "magic", 0),
        _int(row, "size", 0),
        _long(row, "index", 0),
        _long(row, "term", 0),
        _long(row, "pos", 0),
        _int(row, "channel", 0),
        _int(row, "chainCrc", 0),
        _int(row, "bodyCrc", 0),
        _base64(row, "body"),
    )
    problem = dledger.breach(entry.head())
    if problem is not None:
        raise RemoteProtocolError(f"entry {entry.entry_index}: {problem}")
    return entry


def _written_entry(entry: Entry) -> dict[str, Any]:
    dledger.pack_head(entry.head())  # says what is wrong with it
    return {
        "body": _written_base64(entry.body),
        "bodyCrc": entry.body_crc,
        "chainCrc": entry.chain_crc,
        "channel": entry.channel,
        "index": entry.entry_index,
        "magic": entry.magic,
        "pos": entry.position,
        "size": entry.size,
        "term": entry.term,
    }


def _one_entry(found: _Found, name: str, default: Any) -> Entry | None:
    return None if found.get(name) in _NULLS else _entry(json_members.table(found, name, ENTRY_MEMBERS_MAX))


def _written_one(entry: Entry | None) -> Any:
    return None if entry is None else _written_entry(entry)


def _entries(found: _Found, name: str, default: Any) -> tuple[Entry, ...]:
    return tuple([_entry(row) for row in json_members.rows(found, name, ENTRIES_MAX)])


def _written_entries(entries: Sequence[Entry]) -> Any:
    if len(entries) > ENTRIES_MAX:
        raise RemoteProtocolError(f"{len(entries)} entries, allowed are {ENTRIES_MAX}")
    return [_written_entry(entry) for entry in entries]


def _batch(found: _Found, name: str, default: Any) -> tuple[Entry, ...]:
    entries = _entries(found, name, default)
    _check_order(entries)
    return entries


def _written_batch(entries: Sequence[Entry]) -> Any:
    _check_order(entries)
    return _written_entries(entries)


def _check_order(entries: Sequence[Entry]) -> None:
    for before, entry in itertools.pairwise(entries):
        if entry.entry_index != before.entry_index + 1 or entry.term < before.term:
            raise RemoteProtocolError(
                f"entry {entry.entry_index} of term {entry.term} does not follow "
                f"entry {before.entry_index} of term {before.term}"
            )


# --- messages


def _shape(kind: type[Message], what: str, bytes_max: int, *members: _Member) -> tuple[type[Message], _Shape]:
    defaults = {field.name: field.default for field in attrs.fields(kind)}
    common = (
        _Member("code", "code", _written_int, _int),
        _Member("group", "group", _written_text, _text),
        _Member("leaderId", "leader_id", _written_text, _text),
        _Member("localId", "local_id", _written_text, _text),
        _Member("remoteId", "remote_id", _written_text, _text),
        _Member("term", "term", _written_long, _long),
    )
    found = sorted((*common, *members), key=lambda member: member.name)
    return kind, _Shape(what, bytes_max, tuple([each._replace(default=defaults.get(each.attribute)) for each in found]))


_SHAPES: Mapping[type[Message], _Shape] = dict(
    (
        _shape(values.MetadataRequest, "a METADATA request", TALK_BYTES_MAX),
        _shape(
            values.MetadataAnswer,
            "a METADATA answer",
            METADATA_BYTES_MAX,
            _Member("peers", "peers", _written_peers, _peers),
        ),
        _shape(
            values.AppendRequest,
            "an APPEND request",
            FRAME_LIMIT,
            _Member("body", "body", _written_base64, _base64),
        ),
        _shape(
            values.AppendAnswer,
            "an APPEND answer",
            TALK_BYTES_MAX,
            _Member("index", "entry_index", _written_long, _long),
            _Member("pos", "position", _written_long, _long),
        ),
        _shape(
            values.GetRequest,
            "a GET request",
            TALK_BYTES_MAX,
            _Member("beginIndex", "begin_index", _written_long, _long),
        ),
        _shape(
            values.GetAnswer,
            "a GET answer",
            FRAME_LIMIT,
            _Member("entries", "entries", _written_entries, _entries),
        ),
        _shape(
            values.VoteRequest,
            "a VOTE request",
            TALK_BYTES_MAX,
            _Member("ledgerEndIndex", "ledger_end_index", _written_long, _long),
            _Member("ledgerEndTerm", "ledger_end_term", _written_long, _long),
        ),
        _shape(
            values.VoteAnswer,
            "a VOTE answer",
            TALK_BYTES_MAX,
            _Member("voteResult", "vote_result", _written_word, _result),
        ),
        _shape(values.HeartBeatRequest, "a HEART_BEAT request", TALK_BYTES_MAX),
        _shape(values.HeartBeatAnswer, "a HEART_BEAT answer", TALK_BYTES_MAX),
        _shape(
            values.PushRequest,
            "a PUSH request",
            FRAME_LIMIT,
            _Member("batch", "batch", bool, None),
            _Member("batchEntry", "batch", _written_batch, _batch),
            _Member("commitIndex", "commit_index", _written_long, _long),
            _Member("count", "count", _written_int, None),
            _Member("entry", "entry", _written_one, _one_entry),
            _Member("firstEntryIndex", "first_index", _written_long, None),
            _Member("lastEntryIndex", "last_index", _written_long, None),
            _Member("totalSize", "batch_bytes", _written_int, None),
            _Member("type", "kind", _written_word, _type),
        ),
        _shape(
            values.PushAnswer,
            "a PUSH answer",
            TALK_BYTES_MAX,
            _Member("beginIndex", "begin_index", _written_long, _long),
            _Member("count", "count", _written_int, _int),
            _Member("endIndex", "end_index", _written_long, _long),
            _Member("index", "entry_index", _written_long, _long),
        ),
        _shape(
            values.TransferRequest,
            "a LEADERSHIP_TRANSFER request",
            TALK_BYTES_MAX,
            _Member("takeLeadershipLedgerIndex", "take_leadership_ledger_index", _written_long, _long),
            _Member("transferId", "transfer_id", _written_text, _text),
            _Member("transfereeId", "transferee_id", _written_text, _text),
        ),
        _shape(values.TransferAnswer, "a LEADERSHIP_TRANSFER answer", TALK_BYTES_MAX),
    )
)


def _format(declared: Any, kind: type[Message], doc: str) -> Format:
    return Format(
        name=declared.name,
        spec=declared,
        parse=functools.partial(decode, kind),
        build=encode,
        bound=_SHAPES[kind].bytes_max,
        doc=doc,
    )


FORMATS = (
    Format(
        name="dledger-entry",
        spec=spec.ENTRY,
        parse=decode_entry,
        build=encode_entry,
        bound=FRAME_LIMIT,
        doc="An entry in dledger-push and dledger-get-answer (DLedgerEntry).",
    ),
    _format(
        spec.MESSAGE,
        values.HeartBeatRequest,
        "HEART_BEAT and its answer, METADATA, and the answer to LEADERSHIP_TRANSFER (RequestOrResponse).",
    ),
    _format(spec.METADATA_ANSWER, values.MetadataAnswer, "The answer to METADATA (MetadataResponse)."),
    _format(spec.APPEND_REQUEST, values.AppendRequest, "APPEND, from a client (AppendEntryRequest)."),
    _format(spec.APPEND_ANSWER, values.AppendAnswer, "The answer to APPEND (AppendEntryResponse)."),
    _format(spec.GET_REQUEST, values.GetRequest, "GET, from a client (GetEntriesRequest)."),
    _format(spec.GET_ANSWER, values.GetAnswer, "The answer to GET (GetEntriesResponse)."),
    _format(spec.VOTE_REQUEST, values.VoteRequest, "VOTE, from a candidate (VoteRequest)."),
    _format(spec.VOTE_ANSWER, values.VoteAnswer, "The answer to VOTE (VoteResponse)."),
    _format(spec.PUSH_REQUEST, values.PushRequest, "PUSH, from the leader (PushEntryRequest of dledger 0.3.2)."),
    _format(spec.PUSH_ANSWER, values.PushAnswer, "The answer to PUSH (PushEntryResponse of dledger 0.3.2)."),
    _format(spec.TRANSFER_REQUEST, values.TransferRequest, "LEADERSHIP_TRANSFER (LeadershipTransferRequest)."),
)
