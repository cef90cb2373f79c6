"""Members of JSON objects and header fields, of the right type and in range, or refused by their name.

Pure.  For what we read of answers and of other brokers' bodies: all their breaches are the peer's
(:class:`RemoteProtocolError`).  Requests of clients are read by ``broker/fields.py``, which answers instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_dialect

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


MEMBERS_MAX = 800_000
"""Of all objects and arrays in a body together, about: 150,000 groups of four queues have 750,000."""


def json_object(data: bytes, what: str) -> dict[str, Any]:
    """The object that a body is."""
    check_members(data, what)
    return as_object(json_dialect.loads(data), what)


def check_members(data: bytes, what: str) -> None:
    """Refuse a body of too many members before it is parsed, which takes seconds where counting takes milliseconds."""
    if max(data.count(b":"), data.count(b",")) > MEMBERS_MAX:
        raise RemoteProtocolError(f"{what} has more than {MEMBERS_MAX} members")


def as_object(value: Any, what: str) -> dict[str, Any]:
    """A parsed value that has to be an object."""
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{what} is no JSON object")
    return value


def number(found: Mapping[str, Any], name: str, low: int = 0, high: int = LONG_MAX, default: int | None = None) -> int:
    """A whole number from ``low`` to ``high``; where it is absent or null the default, if there is one."""
    value = found.get(name)
    if value is None and default is not None:
        return default
    if type(value) is not int or not low <= value <= high:
        raise RemoteProtocolError(f"{name} is {str(value)[:40]!r}, wanted is a number from {low} to {high}")
    return value


def text(found: Mapping[str, Any], name: str, default: str | None = None, length_max: int = 4096) -> str:
    """A text of bounded length; where it is absent or null the default, if there is one."""
    value = found.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or len(value) > length_max:
        raise RemoteProtocolError(f"{name} is {str(value)[:40]!r}, wanted is a text of up to {length_max} characters")
    return value


def flag(found: Mapping[str, Any], name: str) -> bool:
    """A boolean; absent or null is False, as in Java."""
    value = found.get(name)
    if value is not None and not isinstance(value, bool):
        raise RemoteProtocolError(f"{name} is {str(value)[:40]!r}, wanted is true or false")
    return bool(value)


def rows(found: Mapping[str, Any], name: str, count_max: int) -> list[dict[str, Any]]:
    """A list of objects; absent or null is empty."""
    value = found.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > count_max:
        raise RemoteProtocolError(f"{name} is no list of at most {count_max} objects")
    return [as_object(row, name) for row in value]


def table(found: Mapping[str, Any], name: str, count_max: int) -> dict[str, Any]:
    """An object of bounded size; absent or null is empty."""
    value = found.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > count_max:
        raise RemoteProtocolError(f"{name} is no object of at most {count_max} members")
    return value


def header_number(
    fields: Mapping[str, str], name: str, low: int = 0, high: int = LONG_MAX, default: int | None = None
) -> int:
    """A header field that is a number; where it is absent the default, if there is one."""
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if value is None or not _NUMBER.fullmatch(value) or not low <= int(value) <= high:
        raise RemoteProtocolError(f"the header field {name} is {(value or '')[:40]!r}, wanted is {low} to {high}")
    return int(value)
