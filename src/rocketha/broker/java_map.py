"""The order in which Java's HashMap gives back its keys.

Pure.  The broker in Java keeps a message's properties in a ``HashMap`` made for 128 entries and writes them in its
order, so files are equal byte for byte only when we write them so too: by bucket, and within a bucket in the order of
arrival.

Java: ``HashMap`` (spread hash, table of a power of two, resize at three quarters),
``MessageDecoder.string2messageProperties``.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketha.wire.java_text import string_hash

CAPACITY = 128


def iteration_order(names: Iterable[str], capacity: int = CAPACITY) -> list[str]:
    """The distinct names as a HashMap of that initial capacity iterates over them."""
    distinct = list(dict.fromkeys(names))
    while len(distinct) > capacity * 3 // 4:
        capacity *= 2
    mask = capacity - 1
    return sorted(distinct, key=lambda name: _spread(string_hash(name)) & mask)


def _spread(hash_code: int) -> int:
    unsigned = hash_code & 0xFFFFFFFF
    return unsigned ^ (unsigned >> 16)
