"""JSON as fastjson writes and reads it.

Pure.  Theory of operation: ``orjson`` does all ordinary work.  fastjson writes two things that are not JSON: integer
map keys without quotes (``{0:"a"}``) and objects as map keys (``{{"topic":"T"}:1}``).  What ``orjson`` refuses goes
through a small tolerant reader with limits on size and depth; a map keyed by objects becomes :class:`ObjectKeyed`.
We write integer keys quoted (every Java version reads that) and object keys fastjson's way (nothing else is read).

Seen on running Java 5.5.0: integer keys in brokerAddrs and offset tables, MessageQueue keys in topic and consume
statistics.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import attrs
import orjson

from rocketha.errors import RemoteProtocolError
from rocketha.wire.limits import TABLE_FILE_BYTES_MAX

DEPTH_MAX = 32
"""Nesting beyond which a value is refused (RocketMQ's own bodies stay under 8)."""

TOLERANT_BYTES_MAX = 4 * 1024 * 1024
"""Largest text the tolerant reader takes: it is Python, about 10 MB a second."""


@attrs.frozen
class ObjectKeyed:
    """A map whose keys are objects, in wire order."""

    entries: tuple[tuple[Any, Any], ...]


FILE_BYTES_MAX = TABLE_FILE_BYTES_MAX
"""The same for our own files at the start, where Java's integer keys are the rule and waiting does no harm."""


def loads(data: bytes | bytearray | memoryview | str, tolerant_bytes_max: int = TOLERANT_BYTES_MAX) -> Any:
    """The value of a text in fastjson's dialect.

    :param tolerant_bytes_max: the largest text that is read when it is no plain JSON.

    :raises RemoteProtocolError: when it is not JSON even for the tolerant reader, too deep or too large.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        if isinstance(data, str):
            text = data
        else:
            try:
                text = bytes(data).decode("utf-8")
            except UnicodeDecodeError:
                raise RemoteProtocolError("JSON is not UTF-8") from None
        if len(text) > tolerant_bytes_max:
            raise RemoteProtocolError(f"JSON: {problem}") from None
        return _Tolerant(text).document()
    if too_deep(value, DEPTH_MAX):
        raise RemoteProtocolError(f"JSON nested deeper than {DEPTH_MAX}")
    return value


_BARE_INTEGER_KEY = re.compile(rb"([{,])(-?[0-9]{1,19}):")


def loads_large(data: bytes) -> Any:
    """The same of a body that may be as long as a frame and have Java's integer keys: ``{"T@G":{0:9,1:8}}``.

    Quoting such keys lets the quick reader take it; a table of a million queues would hold up everything else for
    seconds.  Where the pattern stands inside a text the result is no JSON, and the body is read as it came.

    :raises RemoteProtocolError: it is not JSON in Java's dialect.
    """
    for text in (data, _BARE_INTEGER_KEY.sub(rb'\1"\2":', data)):
        try:
            return loads(text, 0)
        except RemoteProtocolError:
            continue
    return loads(data)


def too_deep(value: Any, left: int = DEPTH_MAX) -> bool:
    """Whether a parsed value is nested deeper than this."""
    if isinstance(value, dict):
        return left == 0 or any(too_deep(item, left - 1) for item in value.values() if isinstance(item, dict | list))
    if isinstance(value, list):
        return left == 0 or any(too_deep(item, left - 1) for item in value if isinstance(item, dict | list))
    return False


def dumps(value: Any) -> bytes:
    """Compact JSON in the order given; integer keys quoted, :class:`ObjectKeyed` with object keys."""
    return orjson.dumps(value, default=_default, option=orjson.OPT_NON_STR_KEYS)


def _default(value: Any) -> Any:
    if isinstance(value, ObjectKeyed):
        return orjson.Fragment(b"{" + b",".join(dumps(key) + b":" + dumps(item) for key, item in value.entries) + b"}")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def dumps_pretty(value: Any, depth: int = 0) -> bytes:
    """Tab-indented JSON as ``RemotingSerializable.toJson(true)`` lays it out (config/*.json).

    :param depth: how deep in a file this value stands.
    """
    inner, outer = b"\n" + b"\t" * (depth + 1), b"\n" + b"\t" * depth
    if isinstance(value, dict) and value:
        rows = [dumps(str(key)) + b":" + dumps_pretty(item, depth + 1) for key, item in value.items()]
        return b"{" + inner + (b"," + inner).join(rows) + outer + b"}"
    if isinstance(value, list | tuple) and value:
        return b"[" + inner + (b"," + inner).join([dumps_pretty(item, depth + 1) for item in value]) + outer + b"]"
    return dumps(value)


_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,40})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_BARE_KEY = re.compile(r"-?[0-9]{1,20}|[A-Za-z_$][A-Za-z0-9_$]{0,127}")
_WORDS = {"true": True, "false": False, "null": None}


class _Tolerant:
    """Recursive descent over one text; every refusal names the position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> Any:
        """The single value of the text."""
        value = self._value(DEPTH_MAX)
        self._skip()
        if self._at != len(self._text):
            self._refuse("text after the value")
        return value

    def _refuse(self, why: str) -> NoReturn:
        raise RemoteProtocolError(f"JSON at character {self._at}: {why}")

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _peek(self) -> str:
        self._skip()
        return self._text[self._at : self._at + 1]

    def _take(self, wanted: str) -> None:
        if self._peek() != wanted:
            self._refuse(f"{wanted!r} wanted")
        self._at += 1

    def _value(self, left: int) -> Any:
        first = self._peek()
        if first == "{":
            return self._object(left)
        if first == "[":
            return self._array(left)
        if first == '"':
            return self._string()
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        found = _NUMBER.match(self._text, self._at)
        if not found:
            self._refuse("a value wanted")
        self._at = found.end()
        return float(found.group()) if found.group(1) or found.group(2) else int(found.group())

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if not found:
            self._refuse("an unfinished string")
        try:
            value = orjson.loads(found.group())
        except orjson.JSONDecodeError as problem:
            self._refuse(str(problem))
        self._at = found.end()
        return str(value)

    def _key(self, left: int) -> Any:
        first = self._peek()
        if first == '"':
            return self._string()
        if first == "{":
            return self._object(left - 1)
        found = _BARE_KEY.match(self._text, self._at)
        if not found:
            self._refuse("a key wanted")
        self._at = found.end()
        return found.group()

    def _object(self, left: int) -> Any:
        if left <= 0:
            self._refuse(f"nested deeper than {DEPTH_MAX}")
        self._take("{")
        entries: list[tuple[Any, Any]] = []
        if self._peek() == "}":
            self._at += 1
            return {}
        while True:
            key = self._key(left)
            self._take(":")
            entries.append((key, self._value(left - 1)))
            if self._peek() == ",":
                self._at += 1
                continue
            self._take("}")
            break
        if any(not isinstance(key, str) for key, _ in entries):
            return ObjectKeyed(tuple(entries))
        return dict(entries)

    def _array(self, left: int) -> list[Any]:
        if left <= 0:
            self._refuse(f"nested deeper than {DEPTH_MAX}")
        self._take("[")
        values: list[Any] = []
        if self._peek() == "]":
            self._at += 1
            return values
        while True:
            values.append(self._value(left - 1))
            if self._peek() == ",":
                self._at += 1
                continue
            self._take("]")
            return values
