"""Java's view of text: ``String.hashCode``, UTF-16 length, the 31-bit CRC.

Pure.  ``String.hashCode`` decides tag filters and index slots, so it must be Java's to the bit, and it is computed
several times for every message: the polynomial is evaluated in C (``sum(map(mul, ...))``) with precomputed powers of
31, and that of many texts at once in a sixth of the time, by arithmetic on one large integer.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
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


_LENGTH_MAX = 64
"""Characters of a text that is hashed together with others."""
_TOGETHER_MIN, _TOGETHER_MAX = 4, 256
"""Texts for which that pays; more are no faster."""


def string_hashes(texts: Sequence[str]) -> list[int]:
    """The hash of each text, as an unsigned 32-bit number."""
    return hashes_behind([0] * len(texts), texts)


def hashes_behind(prefixes: Sequence[int], texts: Sequence[str]) -> list[int]:
    """The hash of each text behind one whose hash is known, as an unsigned 32-bit number."""
    count = len(texts)
    if count > _TOGETHER_MAX:
        starts = range(0, count, _TOGETHER_MAX)
        chunks = [hashes_behind(prefixes[at : at + _TOGETHER_MAX], texts[at : at + _TOGETHER_MAX]) for at in starts]
        return [value for chunk in chunks for value in chunk]
    lengths = list(map(len, texts))
    length = max(lengths, default=0)
    if count >= _TOGETHER_MIN and length <= _LENGTH_MAX:
        width = 1 << (max(length, 8) - 1).bit_length()
        alike = lengths.count(length) == count and prefixes.count(prefixes[0]) == count
        if alike:
            filler = "\0" * (width - length)
            joined = filler + filler.join(texts)
        else:
            joined = "".join([text.rjust(width, "\0") for text in texts])
        if joined.isascii():
            data = joined.encode()
            if alike:
                return _hash_together(data, width, count, prefixes[0] * _POWERS[length] & 0xFFFFFFFF)
            hashes = _hash_together(data, width, count, 0)
            rows = zip(prefixes, lengths, hashes, strict=True)
            return [(prefix * _POWERS[length] + value) & 0xFFFFFFFF for prefix, length, value in rows]
    return [
        (prefix * pow(31, utf16_length(text), 1 << 32) + string_hash(text)) & 0xFFFFFFFF
        for prefix, text in zip(prefixes, texts, strict=True)
    ]


def _hash_together(data: bytes, width: int, count: int, added: int) -> list[int]:
    """The hashes of ASCII texts of ``width`` bytes each, and to each of them something added.

    Theory of operation: the texts stand side by side, filled up with zeros in front, which change no hash.  Then all
    neighbours are joined at once, ``left * 31 + right``, and so are neighbours of these, by ``31 ** 2``, until one
    number is left of each text.  No carry reaches the next one: a number of n characters is below ``256 * 32 ** n``.
    """
    size = width << (count - 1).bit_length()  # few sizes, so that the masks are at hand
    value, step = int.from_bytes(data, "big"), 1
    while step < width:
        right = _every_other(step, size)
        value = (value >> 8 * step & right) * 31**step + (value & right)
        step *= 2
    value += _ones(width, count) * added
    words = array("I", value.to_bytes(len(data), "little"))
    if sys.byteorder == "big":
        words.byteswap()
    step = width // words.itemsize
    return words[len(words) - step :: -step].tolist()


@lru_cache(maxsize=256)
def _every_other(step: int, size: int) -> int:
    """``size`` bytes: ``step`` of zeros, ``step`` of ones, and again."""
    return int.from_bytes((b"\0" * step + b"\xff" * step) * (size // (2 * step)), "big")


@lru_cache(maxsize=64)
def _ones(width: int, count: int) -> int:
    """The number 1 in each of so many places of ``width`` bytes."""
    return int.from_bytes((b"\0" * (width - 1) + b"\1") * count, "big")


def _utf16_units(text: str) -> memoryview:
    """UTF-16 units in native order; a lone surrogate is a unit of its own, as in Java."""
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
