"""The body of a client's batch send: packed messages without topic or queue.

Pure.  Java: ``MessageDecoder.encodeMessage`` / ``decodeMessages``.  Magic and CRC are written as 0 by Java and not
checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import attrs

from rocketha.compiled import compiled
from rocketha.errors import RemoteProtocolError
from rocketha.wire import properties
from rocketha.wire.limits import BATCH_MESSAGES_MAX
from rocketha.wire.spec import remoting as spec
from rocketha.wire.spec.format import Format

MESSAGES_MAX = BATCH_MESSAGES_MAX
"""Messages in one batch."""

_ALIKE_MAX = 1024
"""Messages alike that are read at once: the layout's size follows their number."""

_HEAD = struct.Struct(">iiiii")
_LOOK = struct.Struct(">i8xii")
"""Total, flag and length of the body of a head."""
_PROPERTIES_LENGTH = struct.Struct(">h")
_FRAMING = _HEAD.size + _PROPERTIES_LENGTH.size


class BatchMessage(NamedTuple):
    """One message of a batch: the producer's flag, the body, the properties block."""

    flag: int
    body: bytes
    properties: bytes


class Members(Protocol):
    """The messages of a batch, column by column; the compiled ones are made when they are asked for."""

    @property
    def count(self) -> int: ...
    @property
    def flags(self) -> Sequence[int]: ...
    @property
    def bodies(self) -> Sequence[bytes]: ...
    @property
    def properties(self) -> Sequence[bytes]: ...


@attrs.frozen
class Columns:
    """:class:`Members` as they are."""

    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]

    @property
    def count(self) -> int:
        return len(self.flags)


def split(data: bytes) -> list[BatchMessage]:
    """The messages of a batch body, row by row; see :func:`members`."""
    found = members(data)
    return list(map(BatchMessage, found.flags, found.bodies, found.properties))


def members(data: bytes) -> Members:
    """The messages of a batch body.

    :raises RemoteProtocolError: when lengths do not add up, or there are more than :data:`MESSAGES_MAX`.
    """
    found = split_batch(data, MESSAGES_MAX)
    return _any(data) if found is None else found


@compiled
def split_batch(data: bytes, most: int) -> Members | None:
    """At most so many messages that all have the first one's sizes, as a producer of
    one kind of message sends them: read by one ``struct``.  None when they are not alike (or the first is broken);
    the compiled twin reads all that are sound.
    """
    end = len(data)
    if end < _FRAMING:
        return None
    total, _, _, _, body_bytes = _HEAD.unpack_from(data, 0)
    properties_bytes = total - _FRAMING - body_bytes
    if not 0 <= body_bytes < end or not 0 <= properties_bytes <= properties.LENGTH_MAX or end % total:
        return None
    count = end // total
    if count > min(_ALIKE_MAX, most):
        return None
    layout = _layout(count, body_bytes, properties_bytes)
    values = layout.unpack(data)
    alike = (
        values[0::8].count(total) == count
        and values[4::8].count(body_bytes) == count
        and values[6::8].count(properties_bytes) == count
    )
    return Columns(values[3::8], values[5::8], values[7::8]) if alike else None


@lru_cache(maxsize=64)
def _layout(count: int, body_bytes: int, properties_bytes: int) -> struct.Struct:
    return struct.Struct(">" + f"iiiii{body_bytes}sh{properties_bytes}s" * count)


def _any(data: bytes) -> Columns:
    flags: list[int] = []
    bodies: list[bytes] = []
    blocks: list[bytes] = []
    at, end = 0, len(data)
    unpack_head, unpack_length = _LOOK.unpack_from, _PROPERTIES_LENGTH.unpack_from
    crowded = end > MESSAGES_MAX * _FRAMING
    add_flag, add_body, add_block = flags.append, bodies.append, blocks.append
    while at < end:
        if end - at < _FRAMING:
            raise RemoteProtocolError(f"batch message {len(flags)}: {end - at} bytes left, {_FRAMING} wanted")
        total, flag, body_length = unpack_head(data, at)
        body_at, stop = at + 20, at + total
        body_stop = body_at + body_length
        if not body_at <= body_stop <= end - 2:
            raise RemoteProtocolError(f"batch message {len(flags)}: body of {body_length} bytes")
        (length,) = unpack_length(data, body_stop)
        if length < 0 or body_stop + 2 + length != stop or stop > end:
            raise RemoteProtocolError(f"batch message {len(flags)}: total {total}, properties of {length} bytes")
        add_flag(flag)
        add_body(data[body_at:body_stop])
        add_block(data[body_stop + 2 : stop])
        if crowded and len(flags) > MESSAGES_MAX:
            raise RemoteProtocolError(f"a batch of more than {MESSAGES_MAX} messages")
        at = stop
    return Columns(flags, bodies, blocks)


def join(messages: Iterable[BatchMessage]) -> bytes:
    """The batch body of some messages."""
    parts: list[bytes] = []
    for flag, body, block in messages:
        parts.append(_HEAD.pack(_FRAMING + len(body) + len(block), 0, 0, flag, len(body)))
        parts += (body, _PROPERTIES_LENGTH.pack(len(block)), block)
    return b"".join(parts)


FORMATS = (
    Format(
        "batch-body",
        spec.BATCH_BODY,
        split,
        join,
        4 * 1024 * 1024,
        "The body of SEND_BATCH_MESSAGE (MessageDecoder.encodeMessage).",
    ),
    Format(
        "properties",
        spec.PROPERTIES,
        properties.parse,
        properties.build,
        properties.LENGTH_MAX,
        "The properties block of a message (MessageDecoder.messageProperties2String).",
    ),
)
