"""A message as it came out of a pull answer: decoded, and its body as the producer gave it.

Java: ``MessageExt``, ``MessageDecoder.decode``.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import attrs

from rocketha.admin.client import Queue
from rocketha.errors import RemoteProtocolError
from rocketha.wire import properties, record

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Of an inflated body."""


@attrs.frozen
class Received:
    """One message as it came.

    :ivar body: uncompressed.
    """

    queue: Queue
    queue_offset: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    reconsume_times: int
    offset_message_id: str
    body: bytes
    properties: Mapping[str, str]

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes again from a retry topic."""
        return self.properties.get(properties.RETRY_TOPIC, self.queue.topic)


def uncompressed(body: bytes, sys_flag: int) -> bytes:
    """The body as it was given to the producer.

    :raises RemoteProtocolError: compressed in a way this client does not know, or not what it says.
    """
    kind = record.compression(sys_flag)
    if not kind:
        return body
    if kind != "zlib":
        named = hex(sys_flag & record.COMPRESSION_BITS) if kind == "unknown" else kind.upper()
        raise RemoteProtocolError(f"a body compressed with {named}")
    inflater = zlib.decompressobj()
    try:
        result = inflater.decompress(body, BODY_BYTES_MAX)
    except zlib.error as problem:
        raise RemoteProtocolError(f"a compressed body: {problem}") from None
    if inflater.unconsumed_tail:
        raise RemoteProtocolError(f"a body of more than {BODY_BYTES_MAX} bytes when inflated")
    if not inflater.eof:
        raise RemoteProtocolError("a compressed body that ends too early")
    return result


def received(queue: Queue, found: record.Record) -> Received:
    """A stored record as a message."""
    try:
        body = uncompressed(found.body, found.sys_flag)
    except RemoteProtocolError as problem:
        body = f"({problem}; {len(found.body)} bytes)".encode()
    return Received(
        queue,
        found.queue_offset,
        found.born_timestamp_ms,
        found.store_timestamp_ms,
        found.reconsume_times,
        record.make_message_id(found.store_host, found.physical_offset),
        body,
        properties.parse(found.properties),
    )
