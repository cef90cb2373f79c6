"""Members of JSON objects and header fields: read as Java's server reads them, then held to our limits.

Pure.  The one reader of every JSON body: clients' requests, registrations, answers of controllers and masters, and
files.  :mod:`rocketha.wire.java_types` says what a value is as the type that Java declares; here it gets its default
and its bounds.  As in Java, a member that is absent has the default, a primitive that is null is zero or false, names
count by their exact spelling, and what is not known is ignored.

All breaches are :class:`RemoteProtocolError` with the member's name.  A server answers with what that error says
(``broker/request.read_body``), whoever reads an answer gives it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rocketha.errors import RemoteProtocolError
from rocketha.wire import java_types, json_dialect
from rocketha.wire.java_types import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "LONG_MAX",
    "LONG_MIN",
    "MEMBERS_MAX",
    "as_object",
    "check_members",
    "flag",
    "header_number",
    "integer",
    "integers",
    "json_object",
    "long",
    "longs",
    "rows",
    "table",
    "text",
    "text_list",
    "text_table",
    "texts",
    "word",
]

_T = TypeVar("_T")

MEMBERS_MAX = 800_000
"""Of all objects and arrays in a body together, about: 150,000 groups of four queues have 750,000."""


def json_object(data: bytes, what: str, tolerant_bytes_max: int = json_dialect.TOLERANT_BYTES_MAX) -> dict[str, Any]:
    """The object that a body is."""
    check_members(data, what)
    return as_object(json_dialect.loads(data, tolerant_bytes_max), what)


def check_members(data: bytes, what: str) -> None:
    """Refuse a body of too many members before it is parsed, which takes seconds where counting takes milliseconds."""
    if max(data.count(b":"), data.count(b",")) > MEMBERS_MAX:
        raise RemoteProtocolError(f"{what} has more than {MEMBERS_MAX} members")


def as_object(value: Any, what: str) -> dict[str, Any]:
    """A parsed value that has to be an object."""
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{what} is no JSON object")
    return value


def integer(
    found: Mapping[str, Any], name: str, default: int | None = None, low: int = INT_MIN, high: int = INT_MAX
) -> int:
    """A Java ``int`` from ``low`` to ``high``; without a default it must be there."""
    return _bounded(found, name, java_types.integer, default, low, high)


def long(
    found: Mapping[str, Any], name: str, default: int | None = None, low: int = LONG_MIN, high: int = LONG_MAX
) -> int:
    """The same for a Java ``long``."""
    return _bounded(found, name, java_types.long, default, low, high)


def _bounded(
    found: Mapping[str, Any], name: str, read: Callable[[Any], int | None], default: int | None, low: int, high: int
) -> int:
    value = found.get(name)
    if type(value) is not int or not low <= value <= high:
        if value is None and default is None:
            raise RemoteProtocolError(f"{name} is missing")
        value = default if name not in found else _read(found, name, read) or 0
        assert value is not None  # a default, or a number
    if not low <= value <= high:
        raise RemoteProtocolError(f"{name} is {value}, allowed is {low} to {high}")
    return value


def text(found: Mapping[str, Any], name: str, default: str | None = None, length_max: int = 4096) -> str:
    """A text of bounded length; where it is absent or null the default, if there is one."""
    value = _read(found, name, java_types.text)
    if value is None:
        if default is None:
            raise RemoteProtocolError(f"{name} is missing")
        return default
    if len(value) > length_max:
        raise RemoteProtocolError(f"{name} has {len(value)} characters, allowed are {length_max}")
    return value


def flag(found: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """A boolean."""
    return bool(_read(found, name, java_types.flag)) if name in found else default


def word(found: Mapping[str, Any], name: str, names: Sequence[str], default: str) -> str:
    """A name of an enumeration, or its ordinal; the default where Java reads null, also of a name that is none."""
    return _read(found, name, lambda value: java_types.word(value, names)) or default


def texts(found: Mapping[str, Any], name: str, count_max: int) -> list[str]:
    """The texts of a ``Set<String>``."""
    return _several(found, name, java_types.text_set, count_max)


def text_list(found: Mapping[str, Any], name: str, count_max: int) -> list[str]:
    """The texts of a ``List<String>``."""
    return _several(found, name, java_types.text_list, count_max)


def integers(found: Mapping[str, Any], name: str, count_max: int) -> list[int]:
    """The numbers of a ``Set<Integer>``."""
    return _several(found, name, java_types.integer_set, count_max)


def longs(found: Mapping[str, Any], name: str, count_max: int) -> list[int]:
    """The numbers of a ``Set<Long>``."""
    return _several(found, name, java_types.long_set, count_max)


def rows(found: Mapping[str, Any], name: str, count_max: int) -> list[dict[str, Any]]:
    """The objects of a ``Set`` or ``List`` of beans; absent or null is empty."""
    return _several(found, name, java_types.bean_list, count_max)


def _several(
    found: Mapping[str, Any], name: str, read: Callable[[Any], Iterable[_T | None] | None], count_max: int
) -> list[_T]:
    value = found.get(name)
    if isinstance(value, list) and len(value) > count_max:
        raise RemoteProtocolError(f"{name} has {len(value)} entries, allowed are {count_max}")
    return [each for each in _read(found, name, read) or () if each is not None]


def table(found: Mapping[str, Any], name: str, count_max: int) -> dict[str, Any]:
    """A map or an object, of bounded size; absent or null is empty."""
    members = _read(found, name, java_types.bean) or {}
    if len(members) > count_max:
        raise RemoteProtocolError(f"{name} has {len(members)} members, allowed are {count_max}")
    return members


def text_table(found: Mapping[str, Any], name: str, count_max: int) -> dict[str, str]:
    """A ``Map<String, String>``."""
    members = table(found, name, count_max)
    return {key: text(members, key) for key, value in members.items() if value is not None}


def _read(found: Mapping[str, Any], name: str, read: Callable[[Any], _T]) -> _T:
    try:
        return read(found.get(name))
    except RemoteProtocolError as problem:
        raise RemoteProtocolError(f"{name[:80]}: {problem}") from None


def header_number(
    fields: Mapping[str, str], name: str, low: int = 0, high: int = LONG_MAX, default: int | None = None
) -> int:
    """A header field that is a number; where it is absent the default, if there is one."""
    value = fields.get(name)
    if value is None and default is not None:
        return default
    number = java_types.parsed(value or "")
    if number is None or not low <= number <= high:
        raise RemoteProtocolError(f"the header field {name} is {(value or '')[:40]!r}, wanted is {low} to {high}")
    return number
