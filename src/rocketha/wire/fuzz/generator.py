"""Cases by number: the same seed, index and kinds make the same bytes, anywhere and at any time.

Pure. Each case has a ``Random`` of its own, seeded with its name; Python seeds from a string by SHA-512, not by
``hash()``, so PYTHONHASHSEED does not matter, and no case depends on the cases before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import orjson

from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.wire import codec
from rocketha.wire.fuzz import damage, json_text, requests
from rocketha.wire.fuzz.case import CUT, HOSTILE, KINDS, MUTATED, VALID, Case
from rocketha.wire.fuzz.fittings import FITTINGS, packed_header
from rocketha.wire.fuzz.shape import CannotFit, bare
from rocketha.wire.fuzz.spans import Span, SpanFinder
from rocketha.wire.fuzz.walk import SpecWalker
from rocketha.wire.spec.format import Format
from rocketha.wire.spec.remoting import JsonText

REMOTING = "remoting"

_REMOTING_WEIGHTS = {VALID: 3, CUT: 1, MUTATED: 2, HOSTILE: 4}
"""On a port a cut frame costs a connection and says little; a hostile request reaches what serves it."""

ATTEMPTS = 12
"""Tries at a value its own spec builds, each smaller than the one before."""

FREE_BYTES_MAX = 70_000


class Unbuildable(RockethaError):
    """No attempt made a value that its own spec builds: the spec contradicts itself or the walker misreads it."""


class Generator:
    """The cases of one format in one run.

    :raises TypeError: when the format's spec holds a kind of construct the walker does not know.
    """

    def __init__(self, target: Format, seed: int, kinds: Sequence[str] = KINDS) -> None:
        self.format = target
        self.seed = seed
        self.kinds = tuple(kinds)
        self._weights = [_REMOTING_WEIGHTS[kind] if target.name == REMOTING else 1 for kind in kinds]
        self._walker = SpecWalker(target.spec)
        self._finder = SpanFinder(target.spec)
        self._fitting = FITTINGS.get(target.name)
        self._is_json = isinstance(bare(target.spec), JsonText)

    def case(self, index: int) -> Case:
        """Case ``index``."""
        chance = Random(f"{self.seed}:{self.format.name}:{index}")
        kind = chance.choices(self.kinds, self._weights)[0]
        data, note = self._make(chance, kind, index)
        return Case(self.format.name, self.seed, index, kind, note, data)

    def _make(self, chance: Random, kind: str, index: int) -> damage.Damage:
        if kind == HOSTILE:
            return self._hostile(chance, index)
        if self.format.name == REMOTING and kind == VALID:
            return self._request(chance, index)
        data = (
            self._request(chance, index)[0]
            if self.format.name == REMOTING and chance.random() < 0.9
            else self.valid(chance)
        )
        if kind == VALID:
            return data, "as the spec builds it"
        spans = self.spans(data)
        if kind == CUT:
            return damage.cut(chance, data, spans)
        assert kind == MUTATED
        return damage.mutate(chance, data, spans, self.valid(chance))

    def spans(self, data: bytes) -> list[Span]:
        """Where the fields of some valid bytes stand."""
        return self._finder.spans(data)

    def valid(self, chance: Random) -> bytes:
        """Bytes that the spec builds, and so parses.

        :raises Unbuildable: when it built none.
        """
        size = min(FREE_BYTES_MAX, self.format.bound)
        problem: RockethaError | None = None
        for _ in range(ATTEMPTS):
            try:
                value: Any = self._walker.value(chance, size)
                if self._fitting is not None:
                    value = self._fitting(chance, value)
                data = codec.build(self.format.spec, value)
            except (CannotFit, RemoteProtocolError) as error:
                problem = error
                size = size // 3
                continue
            if len(data) <= self.format.bound:
                return data
            size = size // 3
        raise Unbuildable(f"{self.format.name}: no value that its own spec builds in {ATTEMPTS} attempts: {problem}")

    def _request(self, chance: Random, index: int) -> damage.Damage:
        """A realistic remoting frame with the case's own correlation id."""
        head, body = requests.make(chance, index & 0x7FFFFFFF)
        packed = head["code"] < 32768 and chance.random() < 0.3
        header = packed_header(head) if packed else orjson.dumps(head)
        return frame(packed, header, body), f"request {head['code']}, {'packed' if packed else 'JSON'} header"

    def _hostile(self, chance: Random, index: int) -> damage.Damage:
        if self.format.name == REMOTING:
            return self._hostile_request(chance, index)
        if self._is_json:
            value = self._walker.value(chance, 64)
            if self._fitting is not None:
                value = self._fitting(chance, value)
            return json_text.hostile(chance, value, self.format.bound)
        data = self.valid(chance)
        return damage.lie(chance, data, self.spans(data), self.format.bound)

    def _hostile_request(self, chance: Random, index: int) -> damage.Damage:
        pick = chance.random()
        if pick < 0.72:
            header, body, note = requests.make_hostile(chance, index & 0x7FFFFFFF)
            return frame(0, header, body), note
        data, note = self._request(chance, index)
        if pick < 0.9:
            lied, what = damage.lie(chance, data, self.spans(data), self.format.bound)
            return lied, f"{note}: {what}"
        if pick < 0.95:
            kind = chance.choice((2, 3, 0x16, 0x47, 0x7F, 0x80, 0xFF))
            return data[:4] + bytes((kind,)) + data[5:], f"{note}: serialize type {kind}"
        opening = chance.choice(_STRANGERS)
        return opening + (data if chance.random() < 0.5 else b""), f"opens with {opening[:12]!r}"


_STRANGERS = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c",
    b"SSH-2.0-x\r\n",
    b"\x00\x00\x00\x00",
    b"\x00\x00\x00\x03abc",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x01\x00\x00\x00",
    b"\x01\x00\x00\x01",
    b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x04\x00\x00\x00\x00",
    b"\x00\x00\x00\x04\x01\x00\x00\x00",
    b"\x00\x00\x00\x04\x00\xff\xff\xff",
    b"\x00\x00\x00\x08\x00\x00\x00\x05{}{}",
    b"*1\r\n$4\r\nPING\r\n",
    b"\x00",
)
"""First bytes of other protocols, and length words at the limits."""


def frame(kind: int, header: bytes, body: bytes) -> bytes:
    """A remoting frame of any header; what its header word cannot hold is cut off it, as an attacker would."""
    total = 4 + len(header) + len(body)
    word = (int(kind) << 24) | (len(header) & 0xFFFFFF)
    return total.to_bytes(4, "big") + word.to_bytes(4, "big") + header + body
