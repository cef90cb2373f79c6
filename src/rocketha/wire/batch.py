"""The body of a client's batch send: packed messages without topic or queue.

Pure.  Java: ``MessageDecoder.encodeMessage`` / ``decodeMessages``.  Magic and CRC are written as 0 by Java and not
checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.wire import properties
from rocketha.wire.spec import remoting as spec
from rocketha.wire.spec.format import Format

MESSAGES_MAX = 65536
"""Messages in one batch; a 4 MiB body of Java's smallest messages (22 bytes) would hold more, no client sends so
many.
"""

_HEAD = struct.Struct(">iiiii")
_PROPERTIES_LENGTH = struct.Struct(">h")
_FRAMING = _HEAD.size + _PROPERTIES_LENGTH.size


class BatchMessage(NamedTuple):
    """One message of a batch: the producer's flag, the body, the properties block."""

    flag: int
    body: bytes
    properties: bytes


def split(data: bytes) -> list[BatchMessage]:
    """The messages of a batch body.

    :raises RemoteProtocolError: when lengths do not add up, or there are more than :data:`MESSAGES_MAX`.
    """
    messages: list[BatchMessage] = []
    at, end = 0, len(data)
    unpack_head, unpack_length = _HEAD.unpack_from, _PROPERTIES_LENGTH.unpack_from
    while at < end:
        if end - at < _FRAMING:
            raise RemoteProtocolError(f"batch message {len(messages)}: {end - at} bytes left, {_FRAMING} wanted")
        total, _magic, _crc, flag, body_length = unpack_head(data, at)
        body_at = at + 20
        if body_length < 0 or body_length > end - body_at - 2:
            raise RemoteProtocolError(f"batch message {len(messages)}: body of {body_length} bytes")
        body_stop = body_at + body_length
        length = unpack_length(data, body_stop)[0]
        stop = body_stop + 2 + length
        if length < 0 or stop > end or stop - at != total:
            raise RemoteProtocolError(f"batch message {len(messages)}: total {total}, properties of {length} bytes")
        messages.append(BatchMessage(flag, data[body_at:body_stop], data[body_stop + 2 : stop]))
        if len(messages) > MESSAGES_MAX:
            raise RemoteProtocolError(f"a batch of more than {MESSAGES_MAX} messages")
        at = stop
    return messages


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
