"""IP addresses as ACL 1 of RocketMQ names them: ``*``, ``10.1.2.3``, ``10.1.2.*``, ``10.1.2-9.*``, ``10.1.2.{3,5}``,
comma lists of these, and the same for IPv6.

Pure.  A pattern is a range for each part of an address, 4 of IPv4 or 8 of IPv6; in the latter ``::`` stands for zeros,
and where there is none and a part is missing, ``*`` at the end stands for all that are.  Each part counts; in Java
those behind the first ``*`` or range do not.

Java: ``RemoteAddressStrategyFactory``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

import attrs

from rocketha.addresses import address_of
from rocketha.errors import ConfigError

PATTERNS_MAX = 1000
"""Of one text."""

Pattern = tuple[tuple[int, int], ...]
"""For each part the lowest and the highest number."""

_LIST = re.compile(r"(?:[^{}]|\{[^{}]*\})*")
_WORD = re.compile(r"(?:[^,{}]|\{[^{}]*\})+")
_DIGITS = {10: "(?:0|[1-9][0-9]{0,2})", 16: "[0-9a-fA-F]{1,4}"}
_ALL_V4, _ALL_V6 = ((0, 255),) * 4, ((0, 0xFFFF),) * 8
_EVERYWHERE = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")


def _parts(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> tuple[int, ...]:
    packed = address.packed
    width = 1 if len(packed) == 4 else 2
    return tuple(int.from_bytes(packed[at : at + width]) for at in range(0, len(packed), width))


@attrs.frozen
class Addresses:
    """Those that one or more patterns name; without any, none."""

    patterns: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, text: str) -> Addresses:
        """From a list of patterns; blank: none.

        :raises ConfigError: something in it is none.
        """
        if text.strip() in _EVERYWHERE:
            return cls((_ALL_V4, _ALL_V6))
        found: list[Pattern] = []
        for word in map(str.strip, _WORD.findall(text)):
            if word:
                found += _patterns(word)
        if _LIST.fullmatch(text) is None or len(found) > PATTERNS_MAX:
            raise ConfigError(f"{text[:80]!r} is no list of up to {PATTERNS_MAX} IP addresses")
        return cls(tuple(found))

    @property
    def all(self) -> bool:
        """Whether there is none that they do not name."""
        return _ALL_V4 in self.patterns or _ALL_V6 in self.patterns

    def has(self, host: str) -> bool:
        """Whether an IP address is one of them."""
        try:
            parts = _parts(address_of(host))
        except ValueError:
            return False
        return any(
            len(pattern) == len(parts) and all(low <= part <= high for part, (low, high) in zip(parts, pattern))
            for pattern in self.patterns
        )

    def __add__(self, other: Addresses) -> Addresses:
        return Addresses(self.patterns + other.patterns)


def _patterns(word: str) -> Iterator[Pattern]:
    """Those of one word, which may end in several last parts."""
    head, brace, lasts = word.partition("{")
    if not brace:
        yield _pattern(word)
        return
    if not lasts.endswith("}") or head[-1:] not in (".", ":"):
        raise ConfigError(f"{word[:80]!r}: only the last part of an address may be {{a,b}}")
    for last in lasts[:-1].split(","):
        yield _pattern(head + last.strip())


def _pattern(word: str) -> Pattern:
    try:
        return tuple((each, each) for each in _parts(address_of(word)))
    except ValueError:
        pass
    if ":" not in word:
        parts, wanted, base, limit = word.split("."), 4, 10, 255
    else:
        parts, wanted, base, limit = _groups(word), 8, 16, 0xFFFF
    if len(parts) != wanted:
        raise ConfigError(f"{word[:80]!r} is no IP address, nor a pattern of {wanted} parts")
    return tuple(_range(part, base, limit, word) for part in parts)


def _groups(word: str) -> list[str]:
    """The parts of a pattern of IPv6, all of them where it leaves some out."""
    head, two, tail = word.partition("::")
    if two:
        before, after = (side.split(":") if side else [] for side in (head, tail))
        return [*before, *["0"] * (8 - len(before) - len(after)), *after]
    groups = word.split(":")
    return groups + ["*"] * (8 - len(groups)) if groups[-1] == "*" else groups


def _range(part: str, base: int, limit: int, word: str) -> tuple[int, int]:
    if part == "*":
        return 0, limit
    found = re.fullmatch(f"({_DIGITS[base]})(?:-({_DIGITS[base]}))?", part)
    if found is not None:
        low, high = int(found[1], base), int(found[2] or found[1], base)
        if low <= high <= limit:
            return low, high
    raise ConfigError(f"{word[:80]!r}: {part[:40]!r} is no part of an address: a number, LOW-HIGH or *")
