"""The remoting frame, its two header forms, and the bodies built from packed messages: construct declarations only.

Java: ``RemotingCommand``, ``RocketMQSerializable``, ``NettyEncoder`` / ``NettyDecoder``,
``MessageDecoder.encodeMessage``. All integers big-endian and signed, as Java reads them, so that a negative length is
seen and refused.
"""

from __future__ import annotations

from typing import Any

import construct
from construct import (
    Bytes,
    FixedSized,
    FocusedSeq,
    GreedyBytes,
    GreedyRange,
    Int8ub,
    Int16sb,
    Int24ub,
    Int32sb,
    NullTerminated,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    len_,
    this,
)

from rocketha.wire import json_dialect

JSON = 0
"""serialize_type: header is JSON text."""

ROCKETMQ = 1
"""serialize_type: header is the packed form below."""

FRAME = "remoting" / Struct(
    "total" / Rebuild(Int32sb, 4 + len_(this.header) + len_(this.body)),  # bytes after this word
    "serialize_type" / Int8ub,  # JSON or ROCKETMQ
    "header_length" / Rebuild(Int24ub, len_(this.header)),  # bytes
    "header" / Bytes(this.header_length),
    "body" / Bytes(this.total - 4 - this.header_length),  # may be empty
    Terminated,
)

BINARY_FIXED = "rocketmq-header-fixed" / Struct(
    "code" / Int16sb,  # request or response code; POP's codes above 32767 do not fit
    "language" / Int8ub,  # LanguageCode
    "version" / Int16sb,  # MQVersion ordinal of the sender
    "opaque" / Int32sb,  # correlation id
    "flag" / Int32sb,  # bit 0 response, bit 1 oneway
)

FIELD = "field" / Struct(
    "name" / Prefixed(construct.Int16ub, GreedyBytes),  # UTF-8
    "value" / Prefixed(construct.Int32ub, GreedyBytes),  # UTF-8; empty decodes to null
)

BINARY_HEADER = "remoting-binary-header" / Struct(
    "code" / Int16sb,
    "language" / Int8ub,
    "version" / Int16sb,
    "opaque" / Int32sb,
    "flag" / Int32sb,
    "remark_length" / Rebuild(Int32sb, len_(this.remark)),  # bytes; 0 is null
    "remark" / Bytes(this.remark_length),  # UTF-8
    "fields_length"  # bytes of all fields; 0 is null
    / Rebuild(Int32sb, lambda context: sum(6 + len(row["name"]) + len(row["value"]) for row in context["fields"])),
    # FocusedSeq with Terminated: a bare GreedyRange would drop a stray partial field without a word.
    "fields" / FixedSized(this.fields_length, FocusedSeq("rows", "rows" / GreedyRange(FIELD), Terminated)),
    Terminated,
)


class JsonText(construct.Adapter):  # type: ignore[misc]
    """A JSON object as text.

    :ivar members: member name -> ``"int"``, ``"long"``, ``"flag"``, ``"text"``, ``"strings"`` (an object of string
        values), ``"ids"`` (a list of numbers), ``"rows"`` (a list of objects), ``"object"`` or ``"table"`` (an object
        of objects): what the sender writes, for generators and documentation; readers accept other members.
    """

    def __init__(self, members: dict[str, str]) -> None:
        super().__init__(GreedyBytes)
        self.members = members

    def _decode(self, obj: bytes, context: Any, path: str) -> Any:
        return json_dialect.loads(obj)

    def _encode(self, obj: Any, context: Any, path: str) -> bytes:
        return json_dialect.dumps(obj)


JSON_HEADER = "remoting-json-header" / JsonText(
    {
        "code": "int",  # request or response code
        "extFields": "strings",  # custom header fields, all values strings
        "flag": "int",  # bit 0 response, bit 1 oneway
        "language": "text",  # LanguageCode name
        "opaque": "int",  # correlation id, 32 bits
        "remark": "text",
        "serializeTypeCurrentRPC": "text",  # written by Java, ignored by readers
        "version": "int",  # MQVersion ordinal
    }
)

BATCH_MESSAGE = "batch-message" / Struct(
    "total" / Rebuild(Int32sb, 22 + len_(this.body) + len_(this.properties)),  # bytes, this word included
    "magic" / Int32sb,  # 0 from Java's client, not checked
    "body_crc" / Int32sb,  # 0 from Java's client, not checked
    "flag" / Int32sb,  # the producer's own
    "body_length" / Rebuild(Int32sb, len_(this.body)),  # bytes
    "body" / Bytes(this.body_length),
    "properties_length" / Rebuild(Int16sb, len_(this.properties)),  # bytes
    "properties" / Bytes(this.properties_length),  # name 0x01 value 0x02 repeated, UTF-8
)

BATCH_BODY = "batch-body" / Struct("messages" / GreedyRange(BATCH_MESSAGE), Terminated)

PROPERTY = "property" / Struct(
    "name" / NullTerminated(GreedyBytes, term=b"\x01"),  # UTF-8
    "value" / NullTerminated(GreedyBytes, term=b"\x02"),  # UTF-8
)

PROPERTIES = "properties" / Struct("pairs" / GreedyRange(PROPERTY), Terminated)
