"""Raft's frames: messages of the algorithm, and what connections say about themselves, to bytes and back.

Pure.  Theory of operation: a frame is a length, a CRC-32 and one message; :func:`seal` makes it, :func:`opened` checks
it.  Every message begins with the same 58 bytes; APPEND is followed by entries, SNAPSHOT by a piece of a snapshot.
Who sent it and to whom is not in a message: the connection's HELLO said that once; nor is an entry's index, which
follows from the message's.  (Records on the disk are another format: their CRCs hang together within a segment.)
Followers get the same entries, so the bytes of the last APPEND's are kept and written once.

What it must not know: connections, and what a message means.

Bad bytes raise :class:`RemoteProtocolError`, whatever they are; a HELLO of another version raises
:class:`UnknownVersion`, so that it can be answered.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.crc import crc32
from rocketha.wire.raft_entries import EntryKind
from rocketha.wire.raft_values import MEMBERS_BYTES_MAX, Entry, Kind, Members, Message, SnapshotMeta
from rocketha.wire.spec import raft as spec
from rocketha.wire.spec.format import Format

FRAME_LIMIT = 8 * 1024 * 1024
"""Largest frame in bytes after the length word."""

HELLO_LIMIT = 4096
"""Largest frame of who dials, before it is known to be a member."""

NUMBER_LIMIT = 1 << 63
NONCE_BYTES = 16
GROUP_BYTES_MAX, ID_BYTES_MAX, ADDRESS_BYTES_MAX, TEXT_BYTES_MAX = 120, 64, 300, 1000

_SEAL = struct.Struct(">iI")
_CRC = struct.Struct(">I")
_HEAD = codec.flat(spec.HEAD)
_HEAD_LAYOUT = _HEAD.layout
_HEAD_SIZE = _HEAD.size
_HELLO = codec.flat(spec.HELLO_FIXED)
_PING = codec.flat(spec.PING_MESSAGE)
_PROOF = codec.flat(spec.PROOF_MESSAGE)
_ENTRY = codec.flat(spec.ENTRY_HEAD).layout
_ENTRY_SIZE = _ENTRY.size
_COUNT_BYTES = 4
_SNAPSHOT = codec.flat(spec.SNAPSHOT_FIXED)
_KINDS: tuple[Kind | None, ...] = (None, *Kind)


class Hello(NamedTuple):
    """Who speaks, to whom; see ``spec.raft.HELLO_MESSAGE``."""

    group: str
    sender: str
    receiver: str
    address: str
    incarnation: int
    welcome: bool = False
    members: bytes = b""
    last_index: int = 0
    nonce: bytes = bytes(NONCE_BYTES)
    newest: int = spec.VERSION  # version that the sender speaks


class Proof(NamedTuple):
    """A CHALLENGE, or the PROOF that answers it."""

    proof: bytes
    nonce: bytes = bytes(NONCE_BYTES)
    challenge: bool = False


class RefusalCode(enum.IntEnum):
    """Why a connection is refused."""

    VERSION = 1
    GROUP = 2
    RECEIVER = 3
    UNKNOWN_MEMBER = 4
    OWN_ID = 5
    SHARED_ID = 6
    ADDRESS = 7
    BAD_FRAME = 8
    SECRET = 9
    IDENTITY = 10


class Refusal(NamedTuple):
    """The ERROR that ends a connection."""

    code: int
    text: str


class Ping(NamedTuple):
    """A PING, or the PONG that answers it."""

    number: int
    answer: bool = False


class UnknownVersion(RemoteProtocolError):
    """A HELLO of a version that we do not speak."""


# --- frames


def seal(message: bytes) -> bytes:
    """The frame of a message."""
    return _SEAL.pack(len(message) + 4, crc32(message)) + message


def opened(frame: bytes) -> bytes:
    """The message of a frame, without its length word (as :class:`FrameBuffer` gives it)."""
    if len(frame) < 5:
        raise RemoteProtocolError(f"a raft frame of {len(frame)} bytes holds no message")
    message = frame[4:]
    if _CRC.unpack_from(frame)[0] != crc32(message):
        raise RemoteProtocolError("the CRC of a raft frame does not match its bytes")
    return message


def _parse_frame(data: bytes) -> bytes:
    if len(data) < 9 or len(data) > FRAME_LIMIT + 4:
        raise RemoteProtocolError(f"a raft frame of {len(data)} bytes")
    if _SEAL.unpack_from(data)[0] != len(data) - 4:
        raise RemoteProtocolError("the length word of a raft frame does not match its bytes")
    return opened(data[4:])


# --- messages of the algorithm


class MessageWriter:
    """Writes messages; remembers the entries of the last APPEND, because the next follower gets the same ones."""

    __slots__ = ("_bytes", "_entries")

    def __init__(self) -> None:
        self._entries: Sequence[Entry] = ()
        self._bytes = b""

    def frame(self, message: Message) -> bytes:
        """The frame of a message."""
        kind = message.kind
        try:
            head = _HEAD_LAYOUT.pack(
                kind,
                message.reject | message.done << 1,
                message.term,
                message.index,
                message.log_term,
                message.commit,
                message.hint_index,
                message.hint_term,
                message.context,
            )
        except struct.error as problem:
            raise RemoteProtocolError(f"cannot write {message}: {problem}") from None
        if message.entries:
            body = self._entries_bytes(message.entries)
        elif kind == Kind.SNAPSHOT:
            body = self._snapshot(message)
        else:
            return _SEAL.pack(len(head) + 4, crc32(head)) + head
        return b"".join((_SEAL.pack(len(head) + len(body) + 4, crc32(body, crc32(head))), head, body))

    def _entries_bytes(self, entries: Sequence[Entry]) -> bytes:
        known = self._entries
        if len(known) != len(entries) or known[0] is not entries[0] or known[-1] is not entries[-1]:
            pieces: list[bytes] = []
            pack = _ENTRY.pack
            for entry in entries:
                _, term, kind, data, count = entry
                if count == 1:
                    pieces.append(pack(kind, term, len(data)))
                else:
                    pieces.append(pack(spec.RUN, term, len(data)) + count.to_bytes(_COUNT_BYTES, "big"))
                pieces.append(data)
            self._bytes = b"".join(pieces)
            self._entries = entries
        return self._bytes

    @staticmethod
    def _snapshot(message: Message) -> bytes:
        meta = message.snapshot
        if meta is None:
            raise RemoteProtocolError("a SNAPSHOT message without a snapshot")
        members = meta.members.encode()
        return _SNAPSHOT.pack(meta.index, meta.term, message.offset, len(members)) + members + message.data


def encode(message: Message) -> bytes:
    """The bytes of one message, without its frame."""
    return MessageWriter().frame(message)[8:]


def decode(data: bytes, sender: str = "", to: str = "", runs: bool = False) -> Message:
    """A message of the algorithm.

    :param runs: the log may have runs; one that has none could not take them.
    """
    size = len(data)
    if size < _HEAD_SIZE:
        raise RemoteProtocolError(f"{size} bytes are no raft message")
    number, flags, term, index, log_term, commit, hint_index, hint_term, context = _HEAD_LAYOUT.unpack_from(data)
    kind = _KINDS[number] if number < len(_KINDS) else None
    if kind is None:
        raise RemoteProtocolError(f"there is no kind {number} of raft message")
    if flags > 3:
        raise RemoteProtocolError(f"unknown flags {flags:#x} in a raft message")
    if (term | index | log_term | commit | hint_index | hint_term | context) >= NUMBER_LIMIT:
        raise RemoteProtocolError("a number of a raft message is out of range")
    if kind is Kind.APPEND:
        entries = _entries(data, index, runs) if size > _HEAD_SIZE else ()
        return Message(
            kind,
            sender,
            to,
            term,
            index,
            log_term,
            commit,
            bool(flags & 1),
            hint_index,
            hint_term,
            context,
            entries,
            None,
            0,
            b"",
            flags > 1,
        )
    message = Message(
        kind,
        sender,
        to,
        term,
        index,
        log_term,
        commit,
        bool(flags & 1),
        hint_index,
        hint_term,
        context,
        (),
        None,
        0,
        b"",
        flags > 1,
    )
    if kind is Kind.SNAPSHOT:
        return _with_snapshot(message, data)
    if size > _HEAD_SIZE:
        raise RemoteProtocolError(f"{size - _HEAD_SIZE} bytes after a raft message of kind {kind.name}")
    return message


def _entries(data: bytes, previous: int, runs: bool) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    at, size, index = _HEAD_SIZE, len(data), previous
    unpack_from = _ENTRY.unpack_from
    while at < size:
        if size - at < _ENTRY_SIZE:
            raise RemoteProtocolError(f"{size - at} bytes where an entry is due")
        kind, term, length = unpack_from(data, at)
        at += _ENTRY_SIZE
        count = 1
        if kind == spec.RUN and runs:
            kind, count = EntryKind.NORMAL, int.from_bytes(data[at : at + _COUNT_BYTES], "big")
            at += _COUNT_BYTES
            if not 1 < count <= length:
                raise RemoteProtocolError(f"{count} entries in {length} bytes")
        if length > size - at:
            raise RemoteProtocolError(f"an entry of {length} bytes where {size - at} are left")
        if not 1 <= kind <= 3 or term >= NUMBER_LIMIT:
            raise RemoteProtocolError(f"an entry of kind {kind} and term {term}")
        entries.append(Entry(index + 1, term, kind, data[at : at + length], count))
        index += count
        at += length
    if index >= NUMBER_LIMIT:
        raise RemoteProtocolError("a number of a raft message is out of range")
    return tuple(entries)


def _with_snapshot(message: Message, data: bytes) -> Message:
    index, term, offset, length = _SNAPSHOT.unpack(data, _HEAD_SIZE)
    start = _HEAD_SIZE + _SNAPSHOT.size
    if length > MEMBERS_BYTES_MAX or start + length > len(data):
        raise RemoteProtocolError(f"{length} bytes of members in a raft message of {len(data)}")
    if (index | term | offset) >= NUMBER_LIMIT:
        raise RemoteProtocolError("a number of a snapshot is out of range")
    meta = SnapshotMeta(index, term, Members.decode(data[start : start + length]))
    return message._replace(snapshot=meta, offset=offset, data=data[start + length :])


# --- what connections say about themselves


def encode_hello(hello: Hello) -> bytes:
    """The bytes of a HELLO or WELCOME."""
    return codec.build(
        spec.HELLO_MESSAGE,
        {
            "kind": spec.WELCOME if hello.welcome else spec.HELLO,
            "newer": hello.newest - spec.OLDEST,
            "version": spec.OLDEST,
            "incarnation": hello.incarnation,
            "last_index": hello.last_index,
            "nonce": hello.nonce,
            "group": hello.group.encode(),
            "sender": hello.sender.encode(),
            "receiver": hello.receiver.encode(),
            "address": hello.address.encode(),
            "members": hello.members,
        },
    )


def decode_hello(data: bytes) -> Hello:
    """A HELLO or WELCOME.

    :raises UnknownVersion: we speak none of the sender's versions; its other fields cannot be read.
    """
    kind, newer, oldest = _HELLO.unpack(data)
    if kind not in (spec.HELLO, spec.WELCOME):
        raise RemoteProtocolError(f"a frame of kind {kind} where a HELLO is due")
    if oldest > spec.VERSION or oldest + newer < spec.OLDEST:
        theirs, ours = _range(oldest, oldest + newer), _range(spec.OLDEST, spec.VERSION)
        raise UnknownVersion(f"version {theirs} of the raft protocol, {ours} is spoken here")
    value = codec.parse(spec.HELLO_MESSAGE, data)
    if len(value.members) > MEMBERS_BYTES_MAX:
        raise RemoteProtocolError(f"{len(value.members)} bytes of members in a greeting")
    return Hello(
        _text(value.group, "group", GROUP_BYTES_MAX),
        _text(value.sender, "sender", ID_BYTES_MAX),
        _text(value.receiver, "receiver", ID_BYTES_MAX),
        _text(value.address, "address", ADDRESS_BYTES_MAX, 0),
        value.incarnation,
        kind == spec.WELCOME,
        bytes(value.members),
        value.last_index,
        value.nonce,
        oldest + newer,
    )


def _range(oldest: int, newest: int) -> str:
    return str(oldest) if oldest == newest else f"{oldest} to {newest}"


def encode_refusal(refusal: Refusal) -> bytes:
    """The bytes of an ERROR; a long text is cut."""
    text = refusal.text.encode()[:TEXT_BYTES_MAX].decode(errors="ignore").encode()
    return codec.build(spec.ERROR_MESSAGE, {"kind": spec.ERROR, "code": refusal.code, "text": text})


def decode_refusal(data: bytes) -> Refusal:
    """An ERROR."""
    value = codec.parse(spec.ERROR_MESSAGE, data)
    if value.kind != spec.ERROR:
        raise RemoteProtocolError(f"a frame of kind {value.kind} where an ERROR is due")
    return Refusal(value.code, _text(value.text, "text", TEXT_BYTES_MAX, 0))


def encode_proof(proof: Proof) -> bytes:
    """The bytes of a CHALLENGE or PROOF."""
    return _PROOF.pack(spec.CHALLENGE if proof.challenge else spec.PROOF, proof.nonce, proof.proof)


def decode_proof(data: bytes) -> Proof:
    """A CHALLENGE or PROOF."""
    kind, nonce, proof = _PROOF.unpack(data)
    if kind not in (spec.CHALLENGE, spec.PROOF) or len(data) != _PROOF.size:
        raise RemoteProtocolError(f"{len(data)} bytes of kind {kind} are no proof")
    return Proof(proof, nonce, kind == spec.CHALLENGE)


def encode_ping(ping: Ping) -> bytes:
    """The bytes of a PING or PONG."""
    return _PING.pack(spec.PONG if ping.answer else spec.PING, ping.number)


def decode_ping(data: bytes) -> Ping:
    """A PING or PONG."""
    kind, number = _PING.unpack(data)
    if kind not in (spec.PING, spec.PONG) or len(data) != _PING.size:
        raise RemoteProtocolError(f"{len(data)} bytes of kind {kind} are no PING")
    return Ping(number, kind == spec.PONG)


def _text(data: bytes, what: str, bytes_max: int, bytes_min: int = 1) -> str:
    if not bytes_min <= len(data) <= bytes_max:
        raise RemoteProtocolError(f"{what} of {len(data)} bytes: {bytes_min} to {bytes_max} are allowed")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"{what} is not UTF-8") from None


def _parse_newcomer(data: bytes) -> None:
    codec.parse(spec.NEWCOMER, data)


def _parse_kind(*kinds: Kind) -> Callable[[bytes], Message]:
    def parse(data: bytes) -> Message:
        message = decode(data, runs=True)
        if message.kind not in kinds:
            raise RemoteProtocolError(f"a message of kind {message.kind} of another layout")
        return message

    return parse


FORMATS = (
    Format(
        name="raft-frame",
        spec=spec.FRAME,
        parse=_parse_frame,
        build=seal,
        bound=FRAME_LIMIT + 4,
        doc="What one member of a Raft group sends another, around each message (ours).",
        prefix=4,
    ),
    Format(
        name="raft-hello",
        spec=spec.HELLO_MESSAGE,
        parse=decode_hello,
        build=encode_hello,
        bound=HELLO_LIMIT + MEMBERS_BYTES_MAX,
        doc="The first message each way on a Raft connection (ours).",
    ),
    Format(
        name="raft-proof",
        spec=spec.PROOF_MESSAGE,
        parse=decode_proof,
        build=encode_proof,
        bound=_PROOF.size,
        doc="That an end of a Raft connection knows the group's secret (ours).",
    ),
    Format(
        name="raft-error",
        spec=spec.ERROR_MESSAGE,
        parse=decode_refusal,
        build=encode_refusal,
        bound=4 + 65535,
        doc="Why a Raft connection is refused (ours).",
    ),
    Format(
        name="raft-ping",
        spec=spec.PING_MESSAGE,
        parse=decode_ping,
        build=encode_ping,
        bound=_PING.size,
        doc="Whether the other end of a Raft connection still lives (ours).",
    ),
    Format(
        name="raft-message",
        spec=spec.PLAIN,
        parse=_parse_kind(*(kind for kind in Kind if kind not in (Kind.APPEND, Kind.SNAPSHOT))),
        build=encode,
        bound=_HEAD_SIZE,
        doc="Messages of Raft that carry neither entries nor a snapshot (ours).",
    ),
    Format(
        name="raft-append",
        spec=spec.APPEND_MESSAGE,
        parse=_parse_kind(Kind.APPEND),
        build=encode,
        bound=FRAME_LIMIT,
        doc="Entries from the leader of a Raft group, as records of its log (ours).",
    ),
    Format(
        name="raft-snapshot",
        spec=spec.SNAPSHOT_MESSAGE,
        parse=_parse_kind(Kind.SNAPSHOT),
        build=encode,
        bound=FRAME_LIMIT,
        doc="A piece of a snapshot from the leader of a Raft group (ours).",
    ),
    Format(
        name="raft-newcomer",
        spec=spec.NEWCOMER,
        parse=_parse_newcomer,
        build=lambda _: spec.NEWCOMER_BYTES,
        bound=len(spec.NEWCOMER_BYTES),
        doc="The file newcomer beside a Raft log that was lost and begun anew (ours).",
    ),
)
