"""How bytes go wrong: cut short, damaged by chance, and wrong on purpose.

Pure. Everything here knows a value only as its bytes and the spans :class:`rocketha.wire.fuzz.spans.SpanFinder`
found in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from rocketha.wire.fuzz import values
from rocketha.wire.fuzz.spans import Span

Damage = tuple[bytes, str]
"""The bytes, and what was done to them."""

INSERT_MAX = 64


def cut(chance: Random, data: bytes, spans: Sequence[Span]) -> Damage:
    """A strict prefix, half the time at or beside a field's border; sometimes a suffix, or a prefix and a stray
    byte.
    """
    if not data:
        return b"", "nothing to cut"
    borders = sorted({edge for span in spans for edge in (span.start, span.stop)})
    if borders and chance.random() < 0.5:
        at = min(max(chance.choice(borders) + chance.choice((-1, 0, 0, 1)), 0), len(data) - 1)
    else:
        at = chance.randrange(len(data))
    pick = chance.random()
    if pick < 0.85:
        return data[:at], f"first {at} bytes of {len(data)}"
    if pick < 0.93:
        return data[at + 1 :], f"without the first {at + 1} bytes"
    return data[:at] + data[at + 1 :], f"without byte {at}"


def _flip(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    changed = bytearray(data)
    places = [chance.randrange(len(data)) for _ in range(chance.choice((1, 1, 1, 2, 4, 8)))]
    for at in places:
        changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed), f"bit flips at {places}"


def _insert(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    at = chance.randrange(len(data) + 1)
    extra = values.octets(chance, 1 + chance.randrange(INSERT_MAX))
    return data[:at] + extra + data[at:], f"{len(extra)} bytes inserted at {at}"


def _delete(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    at = chance.randrange(len(data))
    count = 1 + chance.randrange(min(INSERT_MAX, len(data) - at))
    return data[:at] + data[at + count :], f"{count} bytes deleted at {at}"


def _overwrite(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    at = chance.randrange(len(data))
    extra = values.octets(chance, 1 + chance.randrange(min(INSERT_MAX, len(data) - at)))
    return data[:at] + extra + data[at + len(extra) :], f"{len(extra)} bytes overwritten at {at}"


def _splice(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    first, second = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    return data[:first] + other[second:], f"first {first} bytes of one value, another from {second}"


def _repeat_field(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    if not spans:
        return _insert(chance, data, spans, other)
    span = chance.choice(spans)
    times = chance.choice((1, 1, 2, 50))
    piece = data[span.start : span.stop] * times
    return data[: span.stop] + piece + data[span.stop :], f"{span.path} repeated {times} times"


def _remove_field(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    if not spans:
        return _delete(chance, data, spans, other)
    span = chance.choice(spans)
    return data[: span.start] + data[span.stop :], f"{span.path} removed"


def _swap_fields(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    if len(spans) < 2:
        return _flip(chance, data, spans, other)
    first, second = sorted(chance.sample(range(len(spans)), 2), key=lambda number: spans[number].start)
    a, b = spans[first], spans[second]
    if a.stop > b.start:
        return _remove_field(chance, data, spans, other)
    swapped = data[b.start : b.stop] + data[a.stop : b.start] + data[a.start : a.stop]
    return data[: a.start] + swapped + data[b.stop :], f"{a.path} and {b.path} swapped"


def _nudge_length(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    lengths = [span for span in spans if span.role == "length"]
    if not lengths:
        return _flip(chance, data, spans, other)
    span = chance.choice(lengths)
    width = span.stop - span.start
    now = int.from_bytes(data[span.start : span.stop], "big")
    wanted = (now + chance.choice((-8, -4, -2, -1, 1, 2, 4, 8, len(data)))) % (1 << 8 * width)
    return put(data, span, wanted), f"{span.path} {now} -> {wanted}"


_MUTATIONS: tuple[Callable[[Random, bytes, Sequence[Span], bytes], Damage], ...] = (
    _flip,
    _flip,
    _insert,
    _delete,
    _overwrite,
    _splice,
    _repeat_field,
    _remove_field,
    _swap_fields,
    _nudge_length,
    _nudge_length,
)


def mutate(chance: Random, data: bytes, spans: Sequence[Span], other: bytes) -> Damage:
    """One mutation, sometimes two or three.

    :param other: a second value of the same format, for splices.
    """
    notes = []
    for number in range(chance.choice((1, 1, 1, 2, 3))):
        if not data:
            break
        # Spans describe the first bytes only: later rounds go by position.
        data, note = chance.choice(_MUTATIONS)(chance, data, () if number else spans, other)
        notes.append(note)
    return data, "; ".join(notes) or "nothing to mutate"


def put(data: bytes, span: Span, value: int) -> bytes:
    """The bytes with an integer field set, modulo its width."""
    width = span.stop - span.start
    return data[: span.start] + (value % (1 << 8 * width)).to_bytes(width, "big") + data[span.stop :]


def lie(chance: Random, data: bytes, spans: Sequence[Span], bound: int) -> Damage:
    """One to three integer fields at hostile values: borders, just over the bound, just over what is there."""
    integers = [span for span in spans if span.role in ("int", "length", "const")]
    lengths = [span for span in integers if span.role == "length"]
    if not integers:
        return values.octets(chance, min(len(data), bound)), "other bytes"
    notes = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        span = chance.choice(lengths if lengths and chance.random() < 0.6 else integers)
        bits = 8 * (span.stop - span.start)
        wanted = chance.choice(
            (*values.borders(min(bits, 64), True), bound + 1, bound, len(data) + 1, len(data), len(data) - 1)
        )
        data = put(data, span, wanted)
        notes.append(f"{span.path} = {wanted}")
    return data, ", ".join(notes)


def prefixes(data: bytes) -> list[bytes]:
    """Every strict prefix, for values small enough to try them all."""
    return [data[:stop] for stop in range(len(data))]
