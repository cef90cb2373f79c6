"""What Java's server makes of a JSON value for a field of a declared type.

Pure.  Theory of operation: RocketMQ's beans are read by fastjson, which does not ask for the type that Java's own
clients write.  Clients of other languages depend on that: Go writes ``"codeSet":["2643"]`` and C++
``"subVersion":"1795595085529"``.  Each function here is one declared type and gives what fastjson2 2.0.59 gives, or
raises :class:`~rocketha.errors.RemoteProtocolError` where fastjson throws.  ``None`` is Java's ``null``; a primitive
makes zero or false of it (:mod:`rocketha.wire.json_members`).

``tests/interop/test_json_types.py`` runs a table of types and values through both and names what differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import orjson

from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_dialect

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1

_T = TypeVar("_T")
_DIGITS = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_PARSED = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?[0-9]{0,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{0,4})?", re.ASCII)
_GROUPED = re.compile(r"[+-]?[0-9]{1,19}(?:,[0-9]{3}){1,6}", re.ASCII)
_NO_NUMBERS = {"": None, "null": None, "true": 1, "false": 0}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def refuse(value: Any, wanted: str) -> NoReturn:
    """The error for a value that fastjson throws at, too."""
    raise RemoteProtocolError(f"{str(value)[:40]!r} where {wanted} is wanted")


def parsed(value: str) -> int | None:
    """``Integer.parseInt`` and ``Long.parseLong`` but for their range: digits of any script, and a sign; or None."""
    if not _PARSED.fullmatch(value):
        return None
    # Java looks at each half of a character beyond 16 bits by itself, and takes neither for a digit.
    return int(value) if value.isascii() or max(value) <= "\uffff" else None


def integer(value: Any) -> int | None:
    """``int`` and ``Integer``."""
    if isinstance(value, dict):
        return 0  # fastjson skips the object and keeps its zero; a long it refuses
    return _whole(value, INT_MIN, INT_MAX, "an int")


def long(value: Any) -> int | None:
    """``long``, ``Long`` and ``AtomicLong``."""
    if type(value) is int and LONG_MIN <= value <= LONG_MAX:
        return value
    return _whole(value, LONG_MIN, LONG_MAX, "a long")


def _whole(value: Any, low: int, high: int, wanted: str) -> int | None:
    kind = type(value)
    if kind is int:
        return int(value) if low <= value <= high else refuse(value, wanted)
    if kind is str:
        return _whole_of_text(value, low, high, wanted)
    if value is None or kind is bool:
        return None if value is None else int(value)
    if kind is float:
        return _truncated(value, low, high)
    if kind is list and len(value) == 1:
        return _only(value[0], wanted)
    refuse(value, wanted)


def _only(value: Any, wanted: str) -> int:
    """The one item of a list: an ``int``, also for a long."""
    if type(value) is float:
        return _truncated(value, INT_MIN, INT_MAX)
    if type(value) is int:  # Number.intValue: the low bits
        return int((value - INT_MIN) % (1 << 32) + INT_MIN)
    return _plain_digits(value, INT_MIN, INT_MAX, wanted) if type(value) is str else refuse(value, wanted)


def _whole_of_text(value: str, low: int, high: int, wanted: str) -> int | None:
    if value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    if _DIGITS.fullmatch(value):
        return _plain_digits(value, low, high, wanted)
    if _GROUPED.fullmatch(value):
        return _plain_digits(value.replace(",", ""), low, high, wanted)
    if not _DECIMAL.fullmatch(value):
        refuse(value, wanted)
    fraction, _, exponent = value.lower().partition("e")
    if not any(map(str.isdigit, fraction)):
        return 0
    return _truncated(float(f"{fraction}e{exponent}" if exponent.strip("+-") else fraction), low, high)


def _plain_digits(value: str, low: int, high: int, wanted: str) -> int:
    number = parsed(value)
    return number if number is not None and low <= number <= high else refuse(value, wanted)


def _truncated(value: float, low: int, high: int) -> int:
    """Java's cast of a double."""
    if value != value:
        return 0
    return low if value <= low else high if value >= high else int(value)


def flag(value: Any) -> bool | None:
    """``boolean`` and ``Boolean``."""
    kind = type(value)
    if kind is bool or value is None:
        return None if value is None else bool(value)
    if kind is int:
        return bool(abs(value) == 1)
    if kind is float:
        return False
    if kind is str:
        found = {"Y": True, "N": False}.get(value, _FLAGS.get(value.lower()))
        if found is None and value.lower() not in ("", "null"):
            refuse(value, "a boolean")
        return found
    if kind is list and len(value) == 1:
        return flag(value[0])
    refuse(value, "a boolean")


def text(value: Any) -> str | None:
    """``String``."""
    kind = type(value)
    if kind is str or value is None:
        return None if value is None else str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return _shown(value)
    if kind is list and len(value) == 1 and (value[0] is None or type(value[0]) is str):
        return text(value[0])
    return str(value) if kind is int else json_dialect.dumps(_without_nulls(value)).decode()


def _shown(value: float) -> str:
    digits, exponent, power = repr(value).partition("e")
    if not exponent:
        return "Infinity" if digits == "inf" else "-Infinity" if digits == "-inf" else digits
    return f"{digits if '.' in digits else digits + '.0'}E{int(power)}"


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return orjson.Fragment(_shown(value).encode()) if isinstance(value, float) else value


def word(value: Any, names: Sequence[str]) -> str | None:
    """An ``enum`` of these names, in the order of their ordinals; a name that it does not have is null."""
    kind = type(value)
    if value is None:
        return None
    if kind is str:
        if _DIGITS.fullmatch(value):
            ordinal = _plain_digits(value, INT_MIN, INT_MAX, "an ordinal")
            return names[ordinal] if 0 <= ordinal < len(names) else None
        return next((name for name in names if name.lower() == value.lower()), None)
    ordinal = _truncated(value, INT_MIN, INT_MAX) if kind in (int, float) else -1
    return names[ordinal] if 0 <= ordinal < len(names) and value > -1 else refuse(value, "one of " + ", ".join(names))


def text_list(value: Any) -> list[str | None] | None:
    """``List<String>``: one text is a list of one, and what else is no list is null."""
    if isinstance(value, str):
        return [] if value in ("", "null") else [value]
    return [text(item) for item in value] if isinstance(value, list) else None


def text_set(value: Any) -> list[str | None] | None:
    """``Set<String>``, in the order given."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, list):
        return [text(item) for item in value]
    if value is None or isinstance(value, dict):
        return None if value is None else [text(value)]
    refuse(value, "a list of texts")


def integer_set(value: Any) -> list[int | None] | None:
    """``Set<Integer>``."""
    if isinstance(value, list):
        return [integer(item) for item in value]
    if isinstance(value, str):
        if value in ("", "null"):
            return None if not value else [None]
        return [_plain_digits(value, INT_MIN, INT_MAX, "a list of ints")]
    return None if value is None else [integer(value)]


def long_set(value: Any) -> list[int | None] | None:
    """``Set<Long>``: a text is split at its commas."""
    if isinstance(value, list):
        return [long(item) for item in value]
    if isinstance(value, str):
        parts = value.rstrip(",").split(",")
        return [_plain_digits(part, LONG_MIN, LONG_MAX, "a list of longs") for part in parts]
    return None if value is None else refuse(value, "a list of longs")


def bean(value: Any) -> dict[str, Any] | None:
    """An object, to be read member by member."""
    if isinstance(value, dict):
        return value
    return None if value in (None, "", "null") else refuse(value, "an object")


def bean_list(value: Any) -> list[dict[str, Any] | None] | None:
    """``Set`` or ``List`` of objects: one object is a list of one."""
    if isinstance(value, list):
        return [bean(item) for item in value]
    if isinstance(value, dict):
        return [value]
    bean(value)
    return None


def mapping(value: Any, key: Callable[[str], Any], item: Callable[[Any], _T]) -> dict[Any, _T] | None:
    """``Map`` of these keys and values."""
    found = bean(value)
    return None if found is None else {key(name): item(each) for name, each in found.items()}


def integer_key(value: str) -> int:
    """A key of a ``Map<Integer, ...>``."""
    if len(value) < 10 and value.isdecimal() and value.isascii():
        return int(value)
    number = _whole_of_text(value, INT_MIN, INT_MAX, "an int as key")
    return refuse(value, "an int as key") if number is None else number


def offset_table(value: Any) -> dict[int, int] | None:
    """``ConcurrentMap<Integer, Long>``, which has no null in it: such an entry is left out."""
    found = mapping(value, integer_key, long)
    return None if found is None else {key: number for key, number in found.items() if number is not None}
