"""Read a ``java.util.Properties`` file: the format of RocketMQ's ``broker.conf`` and ``namesrv.conf``.

Knows the text format only; which keys exist and what their values may be is :mod:`rocketha.services.config.keys`.
Theory of operation: the text is cut into natural lines; comments and blank lines are dropped; a line that ends in an
odd number of backslashes is joined with the next one, whose leading blanks go; the logical line is split at the first
unescaped ``=``, ``:`` or blank; escapes are resolved last.  Every entry keeps the number of its first natural line, so
that an error can name it.  Java class: ``java.util.Properties.load(InputStream)``, hence ISO 8859-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rocketha.errors import ConfigError

FILE_BYTES_MAX = 1 << 20
"""A configuration of more than 1 MiB is not a configuration."""

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile("\r\n|\r|\n")
_HEX = re.compile("[0-9a-fA-F]{4}")


class Entry(NamedTuple):
    """One ``key = value`` and where it stands."""

    key: str
    value: str
    line: int


def parse(data: bytes, name: str) -> list[Entry]:
    """All entries in the order of the file; a repeated key is listed as often as it stands there.

    :param name: what to call the file in an error.
    :raises ConfigError: a file over 1 MiB, a NUL byte (not a text file), a malformed ``\\uXXXX``.
    """
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{name}: {len(data)} bytes, more than the {FILE_BYTES_MAX} a configuration file may have")
    if b"\0" in data:
        raise ConfigError(f"{name}: has a NUL byte, so it is no properties file")
    entries = []
    for line, text in _logical_lines(data.decode("latin-1")):
        key_end, value_start = _split(text)
        key = _unescape(text[:key_end], name, line)
        entries.append(Entry(key, _unescape(text[value_start:], name, line), line))
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending: list[str] = []
    first = 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        stripped = natural.lstrip(_BLANK)
        if not pending:
            if not stripped or stripped[0] in "#!":
                continue
            first = number
        slashes = len(stripped) - len(stripped.rstrip("\\"))
        if slashes % 2:
            pending.append(stripped[:-1])
            continue
        yield first, "".join(pending) + stripped
        pending = []
    if pending:
        yield first, "".join(pending)


def _split(text: str) -> tuple[int, int]:
    """Where the key ends and where the value begins."""
    position = 0
    while position < len(text) and text[position] not in "=:" + _BLANK:
        position += 2 if text[position] == "\\" else 1
    key_end = min(position, len(text))
    rest = text[key_end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return key_end, len(text) - len(rest)


def _unescape(text: str, name: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if not _HEX.fullmatch(digits):
                raise ConfigError(f"{name}, line {line}: \\u{digits} is not \\u and four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)
