"""Java's view of text: ``String.hashCode``, UTF-16 length, the 31-bit CRC.

Pure.  ``String.hashCode`` decides tag filters and index slots, so it must be Java's to the bit, and it is computed
several times for every message: the polynomial is evaluated in C (``sum(map(mul, ...))``) with precomputed powers of
31.
"""

from __future__ import annotations

import zlib
from operator import mul

_POWERS_LIMIT = 1024
_POWERS: list[int] = [pow(31, exponent, 1 << 32) for exponent in range(_POWERS_LIMIT)]
_DESCENDING: dict[int, tuple[int, ...]] = {}


def string_hash(text: str) -> int:
    """Java's ``String.hashCode``: sum of ``unit[i] * 31 ** (n - 1 - i)`` over UTF-16 units, as a signed 32-bit int."""
    units = text.encode("latin-1") if text.isascii() else _utf16_units(text)
    return hash_units(units)


def hash_units(units: bytes | memoryview) -> int:
    """The same for units that are already numbers: the bytes of ASCII text."""
    count = len(units)
    powers = _DESCENDING.get(count)
    if powers is None:
        if count > _POWERS_LIMIT:
            return _long_hash(units)
        powers = _DESCENDING[count] = tuple(reversed(_POWERS[:count]))
    value: int = sum(map(mul, units, powers)) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def _utf16_units(text: str) -> memoryview:
    """UTF-16 units in native order; a lone surrogate is a unit of its own, as in Java."""
    import sys

    order = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
    return memoryview(text.encode(order, "surrogatepass")).cast("H")


def _long_hash(units: bytes | memoryview) -> int:
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def utf16_length(text: str) -> int:
    """Java's ``String.length()``."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def crc32_31(data: bytes | memoryview) -> int:
    """``UtilAll.crc32``: CRC-32 with the sign bit cleared."""
    return zlib.crc32(data) & 0x7FFFFFFF
