"""Header fields as handlers want them: present, of the right type, within limits.

Pure.  Java leaves a missing or unreadable field ``null`` and usually fails later with a NullPointerException text
(code 1); we say which field it is (code 29).  Where a Java client leaves a field out and depends on what ``null``
does, the handler uses the ``optional`` readers, for which an unreadable number is none, too.  Text is decimal, as
``Integer.valueOf`` reads it; a boolean is ``true`` in any case.

``tests/interop/test_header_fields.py`` runs a table of fields and values through Java's header classes and through
these, and names what differs.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketha.errors import RequestRefused
from rocketha.wire import java_types
from rocketha.wire.codes import ResponseCode

INT_MIN, INT_MAX = java_types.INT_MIN, java_types.INT_MAX
LONG_MIN, LONG_MAX = java_types.LONG_MIN, java_types.LONG_MAX


def refused(remark: str, code: int = ResponseCode.INVALID_PARAMETER) -> RequestRefused:
    """The exception to raise for a request that can not be granted."""
    return RequestRefused(int(code), remark)


def text(fields: Mapping[str, str], name: str, length_max: int = 4096) -> str:
    """A field that must be there.

    :raises RequestRefused: 29, missing, empty or longer than ``length_max`` characters.
    """
    value = fields.get(name)
    if not value:
        raise refused(f"the header field {name} is missing")
    if len(value) > length_max:
        raise refused(f"the header field {name} is longer than {length_max} characters")
    return value


def optional_text(fields: Mapping[str, str], name: str, length_max: int = 4096) -> str | None:
    """A field that may be absent; blank counts as absent (a binary header turns "" into null)."""
    value = fields.get(name)
    if not value or value.isspace():
        return None
    if len(value) > length_max:
        raise refused(f"the header field {name} is longer than {length_max} characters")
    return value


def integer(fields: Mapping[str, str], name: str, low: int = INT_MIN, high: int = INT_MAX) -> int:
    """A number that must be there, from ``low`` to ``high``.

    :raises RequestRefused: 29.
    """
    value = fields.get(name)
    if value is None:
        raise refused(f"the header field {name} is missing")
    return _parse(value, name, low, high)


def optional_integer(fields: Mapping[str, str], name: str, low: int = INT_MIN, high: int = INT_MAX) -> int | None:
    """A number that may be absent; what Java cannot read is."""
    return _optional(fields, name, INT_MIN, INT_MAX, low, high)


def optional_long(fields: Mapping[str, str], name: str, low: int = LONG_MIN, high: int = LONG_MAX) -> int | None:
    """A 64-bit number that may be absent; what Java cannot read is."""
    return _optional(fields, name, LONG_MIN, LONG_MAX, low, high)


def long(fields: Mapping[str, str], name: str) -> int:
    """A 64-bit number that must be there."""
    return integer(fields, name, LONG_MIN, LONG_MAX)


def flag(fields: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A boolean; anything but ``true`` is false, as ``Boolean.parseBoolean`` has it."""
    value = fields.get(name)
    return default if value is None else value.lower() == "true"


def optional_flag(fields: Mapping[str, str], name: str) -> bool | None:
    """A boolean that may be absent."""
    value = fields.get(name)
    return None if value is None else value.lower() == "true"


def _optional(fields: Mapping[str, str], name: str, least: int, most: int, low: int, high: int) -> int | None:
    value = fields.get(name)
    number = java_types.parsed(value) if value else None
    return None if number is None or not least <= number <= most else _within(number, name, low, high)


def _parse(value: str, name: str, low: int, high: int) -> int:
    number = java_types.parsed(value)
    if number is None:
        raise refused(f"the header field {name} is not a number: {value[:40]!r}")
    return _within(number, name, low, high)


def _within(number: int, name: str, low: int, high: int) -> int:
    if not low <= number <= high:
        raise refused(f"the header field {name} is {number}, allowed is {low} to {high}")
    return number
