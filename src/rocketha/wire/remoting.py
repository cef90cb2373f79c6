"""Remoting commands: a frame's bytes to a :class:`Command` and back.

Pure.  Theory of operation: one frame is one command.  The top byte of the header word says whether the header is JSON
or RocketMQ's packed form, frame by frame.  Responses are written in JSON, as a Java server does unless told
otherwise; numbers in ``extFields`` travel as strings.  This module is on the hot path: one command costs about 2
microseconds to read.

What a bad frame gets: :class:`RemoteProtocolError`, so the connection is closed without an answer (Java's decoder
does the same for a header longer than the frame, an unknown serialize type and an unreadable header).  A header that is
only too long is :class:`HeaderTooLong`: it is not parsed, but whoever sent it can be told.

Java: ``RemotingCommand``, ``RocketMQSerializable``, ``LanguageCode``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs
import orjson

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec, java_types, json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.limits import HEADER_BYTES_MAX, HEADER_FIELDS_MAX
from rocketha.wire.spec import remoting as spec
from rocketha.wire.spec.format import Format

HEADER_LIMIT = HEADER_BYTES_MAX
"""Largest header in bytes that is read.  Java's only limit is the frame's."""

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

VERSION = 513
"""``MQVersion`` ordinal of V5_5_0: what our servers and clients send."""

LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
_LANGUAGE_CODES = {name: code for code, name in enumerate(LANGUAGES)}
_LANGUAGE_UNKNOWN = 255

_HEADER_WORD = struct.Struct(">I")
_PREFIX = struct.Struct(">iI")
_INT32 = struct.Struct(">i")
_FIELD_NAME = struct.Struct(">H")
_FIELD_VALUE = struct.Struct(">i")
_BINARY = codec.flat(spec.BINARY_FIXED)
_unpack_bare = _BINARY.layout.unpack_from
_NOTHING = bytes(8)  # the lengths of remark and fields
_BARE_WORD = _HEADER_WORD.pack(spec.ROCKETMQ << 24 | _BINARY.size + len(_NOTHING))
_BARE_STOP, _BARE_END = 4 + _BINARY.size, 4 + _BINARY.size + len(_NOTHING)
_FOUR_INTS = struct.Struct(">iiii")

_MESSAGES = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
# A text that does not end is one token, too: else each quote in it would be tried as a beginning.
_TOKEN = re.compile(
    rb'("(?:[^"\\]++|\\.)*+"?+)(?:[ \t\r\n]*+:[ \t\r\n]*+(-?[0-9]{1,10}+)(?![.eE]))?|[{}\[\]]', re.DOTALL
)
_TOKENS_MAX = 512
"""Texts and brackets of a header that is too long: what makes it so is one text among a few dozen."""


@attrs.define(slots=True)
class Command:
    """One request or response.

    :ivar code: request or response code.
    :ivar language: name of the sender's language, None when unknown.
    :ivar version: ``MQVersion`` ordinal of the sender.
    :ivar opaque: correlation id, 32 bits, chosen by the requester.
    :ivar flag: bit 0 response, bit 1 oneway.
    :ivar fields: the custom header, all values strings.
    :ivar arrived_s: when it came, by the clock of the port that it came by; below 0 of one that came by none.
    """

    code: int
    language: str | None = "PYTHON"
    version: int = VERSION
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    fields: dict[str, str] = attrs.Factory(dict)
    body: bytes = b""
    arrived_s: float = attrs.field(default=-1.0, eq=False, repr=False)

    @property
    def is_response(self) -> bool:
        """Whether this answers a request of ours."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no answer, not even an error."""
        return bool(self.flag & FLAG_ONEWAY)

    def head(self) -> Command:
        """What is needed to answer it later, without the memory that its fields and its body take."""
        return Command(self.code, self.language, self.version, self.opaque, self.flag)


class HeaderTooLong(RemoteProtocolError):
    """A header over the limit, of which enough is known to answer it.

    :ivar command: code, flag and number; no fields and no body.
    :ivar answer_code: what it is answered: 13 for a message, whose properties are what makes it long.
    """

    def __init__(self, reason: str, code: int, opaque: int, flag: int) -> None:
        super().__init__(reason)
        self.command = Command(code, opaque=opaque, flag=flag)
        self.answer_code = ResponseCode.MESSAGE_ILLEGAL if code in _MESSAGES else ResponseCode.SYSTEM_ERROR


class Answer(NamedTuple):
    """What goes back for a request; ``fields`` None leaves ``extFields`` out (clients of SEND need it present)."""

    code: int = 0
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: bytes = b""


def decode(frame: bytes | memoryview, header_limit: int = HEADER_LIMIT) -> Command:
    """The command of a frame (what follows the length word).

    :raises HeaderTooLong: it can be answered.
    :raises RemoteProtocolError: the connection must be closed.
    """
    if frame[:4] == _BARE_WORD and frame[_BARE_STOP:_BARE_END] == _NOTHING:  # packed, no remark, no fields: 0.6 of it
        code, language, version, opaque, flag = _unpack_bare(frame, 4)
        name = LANGUAGES[language] if language < len(LANGUAGES) else None
        return Command(code, name, version, opaque, flag, None, {}, bytes(frame[_BARE_END:]))
    size = len(frame)
    if size < 4:
        raise RemoteProtocolError(f"a frame of {size} bytes has no header word")
    word = _HEADER_WORD.unpack_from(frame)[0]
    length = word & 0xFFFFFF
    if length > size - 4:
        raise RemoteProtocolError(f"header of {length} bytes in a frame of {size}")
    if length > header_limit:
        raise _too_long(word >> 24, bytes(frame[4 : 4 + length]), header_limit)
    kind = word >> 24
    stop = 4 + length
    if kind == spec.JSON:
        command = _from_json(frame[4:stop])
    elif kind == spec.ROCKETMQ:
        command = _from_binary(bytes(frame[4:stop]))
    else:
        raise RemoteProtocolError(f"unknown serialize type {kind}")
    command.body = bytes(frame[stop:])
    return command


def _too_long(kind: int, header: bytes, limit: int) -> RemoteProtocolError:
    """What to raise for a header over the limit: most cost nothing but their answer."""
    reason = f"header of {len(header)} bytes, at most {limit}"
    if kind == spec.ROCKETMQ:
        code, _, _, opaque, flag = _unpack_bare(header)
        return HeaderTooLong(reason, code, opaque, flag)
    numbers = _top_numbers(header) if kind == spec.JSON else {}
    code, opaque, flag = (numbers.get(name, 0) for name in (b'"code"', b'"opaque"', b'"flag"'))
    try:
        _FOUR_INTS.pack(code, opaque, flag, 0)
    except struct.error:
        return RemoteProtocolError(reason)
    return HeaderTooLong(reason, code, opaque, flag) if b'"opaque"' in numbers else RemoteProtocolError(reason)


def _top_numbers(text: bytes) -> dict[bytes, int]:
    """The numbers among the members of a JSON object, without making anything of the rest.  Of texts in it, only
    where they end matters.
    """
    numbers: dict[bytes, int] = {}
    depth = 0
    for count, token in enumerate(_TOKEN.finditer(text)):
        first = text[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
        elif depth == 1 and token[2] is not None:
            numbers[token[1]] = int(token[2])
        if count > _TOKENS_MAX:
            return {}
    return numbers


def _from_json(text: bytes | memoryview) -> Command:
    try:
        head = orjson.loads(text)
    except orjson.JSONDecodeError:
        head = json_dialect.loads(text)
    if type(head) is not dict:
        raise RemoteProtocolError("the header is not a JSON object")
    get = head.get
    fields = get("extFields")
    if fields is None:
        fields = {}
    elif type(fields) is not dict:
        raise RemoteProtocolError("extFields is not an object")
    else:
        try:
            "".join(fields.values())  # are all of them strings?  the quickest way to ask
        except TypeError:
            fields = _as_strings(fields)
    remark = get("remark")
    if remark is not None and type(remark) is not str:
        raise RemoteProtocolError("remark is not a string")
    language = get("language", "JAVA")
    code, version, opaque, flag = get("code", 0), get("version", 0), get("opaque", 0), get("flag", 0)
    try:
        _FOUR_INTS.pack(code, version, opaque, flag)  # all 32-bit integers?
    except struct.error:
        # Types only: the text of a value 1,000 lists deep exceeds Python's recursion limit.
        kinds = ", ".join(type(value).__name__ for value in (code, version, opaque, flag))
        raise RemoteProtocolError(f"code, version, opaque, flag are not 32-bit integers ({kinds})") from None
    if type(language) is not str or language not in _LANGUAGE_CODES:
        language = None
    if len(fields) > HEADER_FIELDS_MAX:
        raise _too_many(fields, code, opaque, flag)
    return Command(int(code), language, int(version), int(opaque), int(flag), remark, fields)


def _too_many(fields: Mapping[str, str], code: int, opaque: int, flag: int) -> HeaderTooLong:
    return HeaderTooLong(f"{len(fields)} custom fields in a header, at most {HEADER_FIELDS_MAX}", code, opaque, flag)


def _as_strings(fields: dict[str, Any]) -> dict[str, str]:
    """fastjson's coercion: numbers and booleans become their text, as do lists and objects, null means absent."""
    result: dict[str, str] = {}
    for name, value in fields.items():
        if type(value) is str:
            result[name] = value
        elif json_dialect.too_deep(value):
            raise RemoteProtocolError(f"extFields.{name[:40]} is nested deeper than {json_dialect.DEPTH_MAX}")
        elif (text := java_types.text(value)) is not None:
            result[name] = text
    return result


def _from_binary(data: bytes) -> Command:
    code, language, version, opaque, flag = _BINARY.unpack(data)
    at = _BINARY.size
    remark_bytes, at = _counted(data, at, "remark")
    packed, at = _counted(data, at, "fields")
    if at != len(data):
        raise RemoteProtocolError(f"{len(data) - at} bytes after the binary header")
    fields = _binary_fields(packed)
    if len(fields) > HEADER_FIELDS_MAX:
        raise _too_many(fields, code, opaque, flag)
    return Command(
        code,
        LANGUAGES[language] if language < len(LANGUAGES) else None,
        version,
        opaque,
        flag,
        _text(remark_bytes, "remark") if remark_bytes else None,
        fields,
    )


def _counted(data: bytes, at: int, name: str) -> tuple[bytes, int]:
    if len(data) - at < 4:
        raise RemoteProtocolError(f"binary header ends before the length of {name}")
    length = _INT32.unpack_from(data, at)[0]
    at += 4
    if length < 0 or length > len(data) - at:
        raise RemoteProtocolError(f"{name} of {length} bytes, {len(data) - at} there")
    return data[at : at + length], at + length


def _binary_fields(packed: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    at, end = 0, len(packed)
    while at < end:
        if end - at < 2:
            raise RemoteProtocolError("binary fields end in a name's length")
        length = _FIELD_NAME.unpack_from(packed, at)[0]
        at += 2
        if end - at < length + 4:
            raise RemoteProtocolError("binary fields end in a name")
        name = packed[at : at + length]
        at += length
        size = _FIELD_VALUE.unpack_from(packed, at)[0]
        at += 4
        if size < 0 or size > end - at:
            raise RemoteProtocolError(f"binary field of {size} bytes, {end - at} there")
        # A zero length is null in Java: the key is there, a lookup finds nothing, not even an earlier value.
        if length and size:
            fields[_text(name, "field name")] = _text(packed[at : at + size], "field value")
        elif length:
            fields.pop(_text(name, "field name"), None)
        at += size
    return fields


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"{name} is not UTF-8") from None


def encode(command: Command, binary: bool = False) -> bytes:
    """The whole frame of a command, length word included.

    :param binary: write the packed header (codes above 32767 do not fit it).
    :raises RemoteProtocolError: when the command cannot be written or is over the frame limit.
    """
    header = _binary_header(command) if binary else _json_header(command)
    total = 4 + len(header) + len(command.body)
    if total > FRAME_LIMIT or len(header) > 0xFFFFFF:
        raise RemoteProtocolError(f"a frame of {total} bytes, at most {FRAME_LIMIT}")
    kind = spec.ROCKETMQ if binary else spec.JSON
    return _PREFIX.pack(total, kind << 24 | len(header)) + header + command.body


def _json_header(command: Command) -> bytes:
    head: dict[str, Any] = {
        "code": command.code,
        "extFields": command.fields,
        "flag": command.flag,
        "language": command.language,  # null where it is unknown, which reads as unknown again
        "opaque": command.opaque,
        "remark": command.remark,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark is None:
        del head["remark"]
    try:
        return orjson.dumps(head)
    except (orjson.JSONEncodeError, TypeError) as problem:
        raise RemoteProtocolError(f"header cannot be written: {problem}") from None


def _binary_header(command: Command) -> bytes:
    language = _LANGUAGE_CODES.get(command.language or "", _LANGUAGE_UNKNOWN)
    fixed = _BINARY.pack(command.code, language, command.version, command.opaque, command.flag)
    try:
        fields = b"".join(
            _FIELD_NAME.pack(len(name)) + name + _FIELD_VALUE.pack(len(value)) + value
            for name, value in ((key.encode(), item.encode()) for key, item in command.fields.items())
        )
        remark = (command.remark or "").encode()
    except (struct.error, UnicodeEncodeError) as problem:
        raise RemoteProtocolError(f"header cannot be written: {problem}") from None
    return fixed + _INT32.pack(len(remark)) + remark + _INT32.pack(len(fields)) + fields


def encode_answer(opaque: int, answer: Answer) -> bytes:
    """The whole frame of a response, JSON header, keys in Java's order; hand-laid because every request ends here.

    An answer that no peer could read, as a table that has outgrown the frame, becomes one that says so.
    """
    code, remark, fields, body = answer
    extra = b'"extFields":%b,' % orjson.dumps(fields) if fields is not None else b""
    text = b'"remark":%b,' % orjson.dumps(remark) if remark is not None else b""
    header = (
        b'{"code":%d,%b"flag":1,"language":"PYTHON","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (code, extra, opaque, text, VERSION)
    )
    total = 4 + len(header) + len(body)
    if total > FRAME_LIMIT:
        too_long = f"the answer would be a frame of {total} bytes, at most {FRAME_LIMIT}: ask for a part of it"
        return encode_answer(opaque, Answer(ResponseCode.SYSTEM_ERROR, too_long))
    return _PREFIX.pack(total, len(header)) + header + body


def request(code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", oneway: bool = False) -> Command:
    """A request of ours; the connection that sends it sets ``opaque``."""
    return Command(code, flag=FLAG_ONEWAY if oneway else 0, fields=dict(fields or {}), body=body)


def _parse_frame(data: bytes) -> Command:
    """A value of the ``remoting`` format: exactly one frame with its length word."""
    if len(data) < 4:
        raise RemoteProtocolError("no length word")
    length = _INT32.unpack_from(data)[0]
    if length != len(data) - 4 or length > FRAME_LIMIT:
        raise RemoteProtocolError(f"frame length {length}, {len(data) - 4} bytes there")
    return decode(data[4:])


FORMATS = (
    Format(
        "remoting",
        spec.FRAME,
        _parse_frame,
        encode,
        FRAME_LIMIT + 4,
        "A remoting frame with its length word (RemotingCommand).",
        prefix=4,
    ),
    Format(
        "remoting-json-header",
        spec.JSON_HEADER,
        _from_json,
        _json_header,
        HEADER_LIMIT,
        "The JSON header of a remoting frame (RemotingSerializable).",
    ),
    Format(
        "remoting-binary-header",
        spec.BINARY_HEADER,
        _from_binary,
        _binary_header,
        HEADER_LIMIT,
        "The packed header of a remoting frame (RocketMQSerializable).",
    ),
)
