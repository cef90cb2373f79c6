"""Records of the message log: encode, decode, scan, and the message id that points at one.

Pure.  Theory of operation: the head of a record has one of four layouts (each host IPv4 or IPv6), for which
:func:`rocketha.wire.codec.flat` derives a ``struct.Struct`` from ``wire/spec/commitlog.py``; what follows is body,
    topic and properties, each with its length in front.  A reader trusts nothing: every length is checked against the
    frame before it is used, the lengths must add up to the total, and the body must match its CRC.  Java:
    ``MessageExtEncoder``, ``MessageDecoder``, ``CommitLog.checkMessageAndReturnSize``.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rocketha.compiled import compiled
from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.crc import crc32, crc32_31
from rocketha.wire.spec import commitlog as spec
from rocketha.wire.spec.commitlog import BORN_HOST_V6, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_HOST_V6
from rocketha.wire.spec.format import Format

Buffer = bytes | bytearray | memoryview

RECORD_BYTES_MAX = 64 * 1024 * 1024
"""Largest record that is believed: a total above this is corruption, not a message (Java writes at most 4 MiB + 64
KiB).
"""

TOPIC_BYTES_V1_MAX = 127
COMPRESSED, COMPRESSION_BITS = 0x1, 0x700
_COMPRESSIONS = {0: "zlib", 0x100: "lz4", 0x200: "zstd", 0x300: "zlib"}
"""sys_flag; clients that know no other than zlib leave the bits 0.  Java: ``CompressionType``."""
TRANSACTION_BITS = 0xC
"""sys_flag bits: 0 none, 4 prepared, 8 commit, 0xC rollback."""
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC

_HEADS = {
    BORN_HOST_V6 | STORE_HOST_V6: codec.flat(spec.HEAD_V6_V6),
    BORN_HOST_V6: codec.flat(spec.HEAD_V6_V4),
    STORE_HOST_V6: codec.flat(spec.HEAD_V4_V6),
    0: codec.flat(spec.HEAD_V4_V4),
}
HEAD_LAYOUTS: dict[int, struct.Struct] = {bits: head.layout for bits, head in _HEADS.items()}
"""sys_flag & HOST_BITS -> layout of the head."""
HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
SYS_FLAG_AT = 36
PHYSICAL_OFFSET_AT = 28
SHARED_LAYOUTS: dict[int, struct.Struct] = {
    layout.size: struct.Struct(f">lllllqq{layout.size - SYS_FLAG_AT - 4}sl") for layout in HEAD_LAYOUTS.values()
}
"""size of a head -> layout of one that is shared from the sys_flag to before the length of the body: one field."""

_SHORT = struct.Struct(">h")


def _pick(flat: codec.Flat, wanted: tuple[str, ...]) -> struct.Struct:
    """A layout that reads some fields of a fixed one and skips the others."""
    format_text = ">"
    for name, code in zip(flat.names, re.findall(r"\d*[a-z]", flat.layout.format), strict=True):
        format_text += code if name in wanted else f"{struct.calcsize('>' + code)}x"
    return struct.Struct(format_text)


_LOOK = _pick(_HEADS[0], ("total", "magic", "body_crc", "sys_flag", "body_length"))
DISPATCH_LAYOUT = _pick(
    _HEADS[0],
    (
        "total",
        "magic",
        "body_crc",
        "queue_id",
        "queue_offset",
        "physical_offset",
        "sys_flag",
        "store_timestamp_ms",
        "body_length",
    ),
)
"""What queues and index need of the head of a record whose hosts are both IPv4, in this order."""
_BLANK = codec.flat(spec.BLANK)
_MESSAGE_IDS = {16: codec.flat(spec.MESSAGE_ID_V4), 28: codec.flat(spec.MESSAGE_ID_V6)}
_HEAD_MIN = HEAD_LAYOUTS[0].size
RECORD_BYTES_MIN = _HEAD_MIN + 3
"""An IPv4 record with an empty body, topic and properties."""


class Record(NamedTuple):
    """One message as stored; the fields of ``spec.RECORD`` without the lengths that follow from the values."""

    total: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_timestamp_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    topic: str
    properties: bytes


class Blank(NamedTuple):
    """The end of a full file: ``total`` bytes from here to its end are unused."""

    total: int


def topic_block(topic: str) -> tuple[int, bytes]:
    """``(magic, length and topic)``: names of more than 127 bytes need a v2 record (``MessageVersion``).

    :raises RemoteProtocolError: a name longer than a signed short can say.
    """
    data = topic.encode("utf-8", "surrogatepass")
    if len(data) <= TOPIC_BYTES_V1_MAX:
        return MAGIC_V1, bytes((len(data),)) + data
    if len(data) > 32767:
        raise RemoteProtocolError(f"topic of {len(data)} bytes, at most 32767")
    return MAGIC_V2, _SHORT.pack(len(data)) + data


def compression(sys_flag: int) -> str:
    """What a body is compressed with: ``zlib``, ``lz4``, ``zstd`` or ``unknown``; empty: it is not."""
    return _COMPRESSIONS.get(sys_flag & COMPRESSION_BITS, "unknown") if sys_flag & COMPRESSED else ""


def record_size(sys_flag: int, body_bytes: int, topic_block_bytes: int, properties_bytes: int) -> int:
    """Bytes of a record; ``topic_block_bytes`` counts the topic's length field."""
    return HEAD_LAYOUTS[sys_flag & HOST_BITS].size + body_bytes + topic_block_bytes + 2 + properties_bytes


def encode(record: Record) -> bytes:
    """The bytes of a record; ``total``, ``magic`` and ``body_crc`` are taken as given (see :func:`sealed`).

    :raises RemoteProtocolError: a value that does not fit its field.
    """
    layout = HEAD_LAYOUTS[record.sys_flag & HOST_BITS]
    magic, topic = topic_block(record.topic)
    if record.magic == MAGIC_V2 and magic == MAGIC_V1:
        topic = _SHORT.pack(len(topic) - 1) + topic[1:]
    elif record.magic not in (MAGIC_V1, MAGIC_V2) or record.magic != magic:
        raise RemoteProtocolError(f"magic {record.magic:#x} with a topic of {len(topic)} bytes")
    born_bytes, store_bytes = _host_sizes(record.sys_flag)
    if len(record.born_host) != born_bytes or len(record.store_host) != store_bytes:
        raise RemoteProtocolError(f"hosts of {len(record.born_host)} and {len(record.store_host)} bytes")
    try:
        head = layout.pack(*record[:14], len(record.body))
        return b"".join((head, record.body, topic, _SHORT.pack(len(record.properties)), record.properties))
    except struct.error as error:
        raise RemoteProtocolError(f"record does not fit its fields: {error}") from None


def sealed(record: Record) -> Record:
    """The same record with the total, the magic and the CRC that its contents call for."""
    magic, topic = topic_block(record.topic)
    total = record_size(record.sys_flag, len(record.body), len(topic), len(record.properties))
    return record._replace(total=total, magic=magic, body_crc=crc32_31(record.body))


def encode_blank(total: int) -> bytes:
    """The eight bytes that end a file of which ``total`` bytes are left."""
    return _BLANK.pack(total, MAGIC_BLANK)


def decode(buffer: Buffer, offset: int = 0, check_crc: bool = True) -> Record:
    """The record at ``offset``.

    :param check_crc: compare the body with its CRC; not for an empty body, as in Java.
    :raises RemoteProtocolError: anything that is not a whole, consistent record.
    """
    found = decode_any(buffer, offset, check_crc)
    if isinstance(found, Blank):
        raise RemoteProtocolError(f"record at {offset}: a blank record")
    return found


def decode_any(buffer: Buffer, offset: int = 0, check_crc: bool = True) -> Record | Blank:
    """The record, or the end-of-file record, at ``offset``; errors as :func:`decode`."""
    room = len(buffer) - offset
    if offset < 0 or room < 8:
        raise RemoteProtocolError(f"record at {offset}: {max(room, 0)} bytes left")
    total, magic = _BLANK.layout.unpack_from(buffer, offset)
    if magic == MAGIC_BLANK:
        if total < 8:
            raise RemoteProtocolError(f"record at {offset}: blank of {total} bytes")
        return Blank(total)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise RemoteProtocolError(f"record at {offset}: magic {magic & 0xFFFFFFFF:#010x}")
    if total < RECORD_BYTES_MIN or total > room:
        raise RemoteProtocolError(f"record at {offset}: total {total}, {room} bytes left")
    return _decode_frame(buffer, offset, total, magic, check_crc)


def _decode_frame(buffer: Buffer, offset: int, total: int, magic: int, check_crc: bool) -> Record:
    sys_flag = int.from_bytes(buffer[offset + SYS_FLAG_AT : offset + SYS_FLAG_AT + 4], "big")
    layout = HEAD_LAYOUTS[sys_flag & HOST_BITS]
    end = offset + total
    body_at = offset + layout.size
    topic_field = 1 if magic == MAGIC_V1 else 2
    spare = end - body_at - topic_field - 2  # bytes for body, topic and properties
    if spare < 0:
        raise RemoteProtocolError(f"record at {offset}: total {total} is shorter than its head")
    head = layout.unpack_from(buffer, offset)
    body_length = head[14]
    if not 0 <= body_length <= spare:
        raise RemoteProtocolError(f"record at {offset}: body of {body_length} bytes in {total}")
    topic_at = body_at + body_length + topic_field
    topic_length = buffer[topic_at - 1] if topic_field == 1 else _SHORT.unpack_from(buffer, topic_at - 2)[0]
    if topic_field == 1 and topic_length > TOPIC_BYTES_V1_MAX:
        topic_length -= 256
    if not 0 <= topic_length <= spare - body_length:
        raise RemoteProtocolError(f"record at {offset}: topic of {topic_length} bytes in {total}")
    properties_at = topic_at + topic_length + 2
    properties_length = _SHORT.unpack_from(buffer, properties_at - 2)[0]
    if properties_length != end - properties_at:
        raise RemoteProtocolError(f"record at {offset}: properties of {properties_length} bytes in {total}")
    body = bytes(buffer[body_at : body_at + body_length])
    if check_crc and body_length and crc32(body) & 0x7FFFFFFF != head[2]:
        raise RemoteProtocolError(f"record at {offset}: body does not match its CRC")
    try:
        topic = bytes(buffer[topic_at : topic_at + topic_length]).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"record at {offset}: topic is not UTF-8") from None
    return Record._make((*head[:14], body, topic, bytes(buffer[properties_at:end])))


def is_intact(buffer: Buffer, offset: int, size: int) -> bool:
    """Whether the ``size`` bytes at ``offset`` are one record whose body matches its CRC: the check before serving it.

    The short form of :func:`decode`: lengths up to the body, then the CRC.
    """
    if not RECORD_BYTES_MIN <= size <= len(buffer) - offset or offset < 0:
        return False
    total, magic, crc, sys_flag, body_length = _LOOK.unpack_from(buffer, offset)
    if total != size or (magic != MAGIC_V1 and magic != MAGIC_V2):
        return False
    body_at = offset + _HEAD_MIN
    if sys_flag & HOST_BITS:
        body_at = offset + HEAD_LAYOUTS[sys_flag & HOST_BITS].size
        if body_at + 3 > offset + size:
            return False
        body_length = int.from_bytes(buffer[body_at - 4 : body_at], "big", signed=True)
    if not 0 <= body_length <= offset + size - body_at - 3:
        return False
    return not body_length or crc32(buffer[body_at : body_at + body_length]) & 0x7FFFFFFF == crc


@compiled
def take_intact(data: bytes, base: int, wanted: Sequence[tuple[int, int, int]]) -> tuple[list[bytes], int]:
    """The records, given as queue entries (log offset, size, tags code), of bytes that begin at log offset ``base``;
    damaged ones are left out.

    The hot path of a pull: records that lie one behind the other are copied as one piece.

    :return: the pieces, and how many records they hold.
    """
    pieces: list[bytes] = []
    begin = stop = count = 0  # data[begin:stop] is the piece that grows
    for offset, size, _ in wanted:
        at = offset - base
        if is_intact(data, at, size):
            count += 1
            if at != stop:
                if stop > begin:
                    pieces.append(data[begin:stop])
                begin = at
            stop = at + size
    if stop > begin:
        pieces.append(data[begin:stop])
    return pieces, count


_BLANK_BYTES_MIN = 8


def scan(buffer: Buffer, offset: int = 0, check_crc: bool = True) -> Iterator[tuple[int, Record]]:
    """Every record from ``offset`` on with its place in the buffer, up to a blank record, the end, or the first bad
    one.

    For tools and tests on a buffer that holds whole records; recovery steps by :func:`decode_any` itself.
    """
    while offset < len(buffer):
        try:
            found = decode_any(buffer, offset, check_crc)
        except RemoteProtocolError:
            return
        if isinstance(found, Blank):
            return
        yield offset, found
        offset += found.total


def walk(buffer: Buffer, check_crc: bool = False) -> Iterator[tuple[int, int, Record | Blank | None]]:
    """Place, size and content of each whole record of a buffer; None for one that is damaged behind its length.

    For whoever must neither lose the records behind a damaged one nor take it for good.
    """
    at, size = 0, len(buffer)
    while size - at >= _BLANK_BYTES_MIN:
        total = int.from_bytes(buffer[at : at + 4], "big")
        if not _BLANK_BYTES_MIN <= total <= size - at:
            return
        try:
            found = decode_any(buffer, at, check_crc)
        except RemoteProtocolError:
            yield at, total, None
        else:
            yield at, total, found
        at += total


def make_message_id(store_host: bytes, physical_offset: int) -> str:
    """The offsetMsgId: host and log offset in upper-case hex, 32 or 56 characters
    (``MessageDecoder.createMessageId``).
    """
    flat = _MESSAGE_IDS.get(len(store_host) + 8)
    if flat is None:
        raise RemoteProtocolError(f"store host of {len(store_host)} bytes")
    return flat.pack(store_host, physical_offset).hex().upper()


def parse_message_id(text: str) -> tuple[bytes, int]:
    """``(store_host, physical_offset)`` of an offsetMsgId.

    :raises RemoteProtocolError: not 32 or 56 hex characters, or a negative offset.
    """
    try:
        data = binascii.unhexlify(text)
    except (binascii.Error, ValueError):
        raise RemoteProtocolError("message id is not hexadecimal") from None
    flat = _MESSAGE_IDS.get(len(data))
    if flat is None:
        raise RemoteProtocolError(f"message id of {len(text)} characters, 32 or 56 wanted")
    host, physical_offset = flat.unpack(data)
    if physical_offset < 0:
        raise RemoteProtocolError(f"message id with log offset {physical_offset}")
    return host, physical_offset


def _host_sizes(sys_flag: int) -> tuple[int, int]:
    return 20 if sys_flag & BORN_HOST_V6 else 8, 20 if sys_flag & STORE_HOST_V6 else 8


def _parse_whole(data: bytes) -> Record:
    found = decode(data)
    if found.total != len(data):
        raise RemoteProtocolError(f"{len(data) - found.total} bytes after the record")
    return found


def _parse_blank(data: bytes) -> Blank:
    found = decode_any(data)
    if not isinstance(found, Blank):
        raise RemoteProtocolError("not a blank record")
    return found


def _build_blank(blank: Any) -> bytes:
    return encode_blank(blank.total)


FORMATS = (
    Format(
        name="commitlog-record",
        spec=spec.RECORD,
        parse=_parse_whole,
        build=encode,
        bound=RECORD_BYTES_MAX,
        doc="One message in commitlog/ and in every pull answer (MessageExtEncoder, MessageDecoder).",
    ),
    Format(
        name="commitlog-blank",
        spec=spec.BLANK,
        parse=_parse_blank,
        build=_build_blank,
        bound=8,
        doc="The record that ends a full commitlog file (CommitLog.BLANK_MAGIC_CODE).",
    ),
)
