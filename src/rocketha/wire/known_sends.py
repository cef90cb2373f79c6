"""Send requests whose header is known but for four values: queue, time, properties and number.

Pure.  Theory of operation: a producer writes the same header again and again; only the queue id, the time of birth, the
properties and the correlation id differ, and the signature of one who logs in.  So the last headers of a connection are
remembered, each as what stands before its properties and what stands behind them; the next one is taken apart by two
``struct`` s and compared with that instead of being parsed: a sixth of the time.  Of the properties, the names are
remembered, as a regular expression that finds their values.  Whatever does not fit is decoded as usual, and is
remembered if no other value can hide in it (:func:`_places`).

What a connection remembers is bounded in bytes, because the peer decides how long its headers are and how many
connections it opens; one whose headers are never alike stops being remembered.

Java: ``SendMessageRequestHeaderV2``, ``RemotingCommand.markProtocolType``.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from operator import itemgetter
from typing import Any

import attrs
import orjson

from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import HEADER_LIMIT, Command, decode

HEADER_MAX = 2048
"""Longer headers are parsed: they save little beside their length.  Far below the longest properties that a message may
have, so nobody who serves a known send has to look for that."""
SHAPES_BYTES_MAX, LAYOUTS_BYTES_MAX = 96 << 10, 64 << 10
"""What a connection remembers of headers, and of properties: memory, about; then it begins again."""
SHAPE_COST, LAYOUT_COST = 3072, 1024
"""Bytes of memory that one takes beside its texts."""
SHAPES_MAX = 24
"""Headers of a connection: they are tried in turn."""
LAYOUTS_MAX = 8
"""Sets of properties of one header, likewise."""
NAMES_MAX = 32
"""Properties of a message whose names are remembered."""
LEARNING_COSTS, LAYOUT_COSTS = 4, 64
"""A header takes about as long to learn as it saves in so many requests, and so do properties; only what was saved is
spent."""
CREDIT_FIRST, CREDIT_MAX = 256, 4096

DIFFERING = "e", "g", "i"
"""The fields that differ, besides the signature."""
_SENDS = frozenset({int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)})
_TEXT = rb"[ !#-\[\]-~]"  # ASCII without quote, backslash and control characters
_PROPERTIES = re.compile(rb"T*(?:\\u000[12]T*)*".replace(b"T", _TEXT))
_PLACES = {
    "e": re.compile(rb'"e":"(\d{1,9})"'),
    "g": re.compile(rb'"g":"(\d{1,18})"'),
    "opaque": re.compile(rb'"opaque":([1-9]\d{0,8})(?=[,}])'),
    "i": re.compile(rb'"i":"(%b)"' % _PROPERTIES.pattern),
}
_SIGNATURE = "Signature"
_SIGNED = re.compile(rb'"Signature":"([A-Za-z0-9+/]{27}=)"')
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="


def _places(frame: bytes, stop: int) -> dict[str, tuple[int, int]] | None:
    """Where the four values of a JSON header stand, and a signature if there is one; None unless each is there once, as
    its sender's own.

    A header with other digits there, or with other properties of :data:`_PROPERTIES`, is then read likewise but for
    these values: there is no backslash outside the properties, so quotes are what they seem to be.
    """
    places = {}
    for name, pattern in _PLACES.items():
        found = pattern.search(frame, 4, stop)
        if found is None or frame.count(b'"%b"' % name.encode(), 4, stop) != 1:
            return None
        places[name] = found.span(1)
    signature = _SIGNED.search(frame, 4, stop)
    if signature is not None and frame.count(b'"Signature"', 4, stop) == 1:
        places[_SIGNATURE] = signature.span(1)
    begin, end = places["i"]
    return places if frame.count(b"\\", 4, begin) == frame.count(b"\\", end, stop) == 0 else None


class SendShape:
    """What the headers of some sends of one connection have in common.

    :ivar prefix: what they begin with.
    :ivar accepted: kept by whoever serves them: what it found out about the first.
    :ivar judged: and by whoever judges them.
    :ivar cost: bytes of memory that it takes without its layouts, about.
    """

    __slots__ = (
        "_begin",
        "_behind_bytes",
        "_behind_fixed",
        "_fields",
        "_head_fixed",
        "_layouts",
        "_memory",
        "_numbers",
        "_signature",
        "_unpack_behind",
        "_unpack_head",
        "accepted",
        "code",
        "cost",
        "flag",
        "judged",
        "language",
        "prefix",
        "remark",
        "version",
    )

    def __init__(
        self, memory: HeaderMemory, frame: bytes, stop: int, places: dict[str, tuple[int, int]], command: Command
    ) -> None:
        self._memory = memory
        self.code, self.flag = command.code, command.flag
        self.language, self.version, self.remark = command.language, command.version, command.remark
        self.accepted: Any = None
        self.judged: Any = None
        self._layouts: list[_Layout] = []
        self._fields = {**command.fields, "e": "", "g": "", "i": ""}
        begin, end = places["i"]
        numbers = sorted((place, name) for name, place in places.items() if name != "i")
        head = _pieces(4, begin, [place for place, _ in numbers if place[0] < begin])
        behind = _pieces(end, stop, [place for place, _ in numbers if place[0] > begin])
        self._begin, self._behind_bytes = begin, behind.size
        self._unpack_head, self._unpack_behind = head.unpack_from, behind.unpack_from
        self._head_fixed, self._behind_fixed = head.unpack_from(frame, 4)[::2], behind.unpack_from(frame, end)[::2]
        names = [name for _, name in numbers]
        self._numbers = itemgetter(*(names.index(name) for name in ("e", "g", "opaque")))
        self._signature = names.index(_SIGNATURE) if _SIGNATURE in names else None
        self.prefix: bytes = self._head_fixed[0]
        self.cost = SHAPE_COST + 4 * (begin + stop - end)  # as bytes here, as text in the fields, as what is signed

    def match(self, frame: bytes, stop: int) -> KnownSend | None:
        """The request, if its header, which ends at ``stop``, is of this shape."""
        begin, end = self._begin, stop - self._behind_bytes
        if begin > end:
            return None
        head, behind = self._unpack_head(frame, 4), self._unpack_behind(frame, end)
        if head[::2] != self._head_fixed or behind[::2] != self._behind_fixed:
            return None
        differing = head[1::2] + behind[1::2]
        queue_id, born, opaque = self._numbers(differing)
        if not (queue_id + born + opaque).isdigit() or opaque[0] == 48:
            return None
        signature = None
        if self._signature is not None:
            signature = differing[self._signature]
            if signature.translate(None, _BASE64):
                return None
        for layout in self._layouts:
            values = layout.pattern.fullmatch(frame, begin, end)
            if values is not None:
                return KnownSend(
                    self, queue_id, born, frame[begin:end], opaque, frame[stop:], layout.kept, values, signature
                )
        if not _PROPERTIES.fullmatch(frame, begin, end):
            return None
        return KnownSend(self, queue_id, born, frame[begin:end], opaque, frame[stop:], signature=signature)

    def keep(self, names: tuple[str, ...], kept: Any) -> None:
        """Remember something about sends whose properties are these, in this order; where the connection has too many,
        all others are forgotten, and where it has had too many, this is not remembered."""
        size = LAYOUT_COST + 2 * sum(map(len, names))
        if len(names) <= NAMES_MAX and self._memory.make_room(size):
            self._layouts.insert(0, _Layout(_pattern(names), kept))
            del self._layouts[LAYOUTS_MAX:]

    def forget_layouts(self) -> None:
        """As if no properties had been met."""
        self._layouts.clear()

    def fields(self, queue_id: bytes, born: bytes, properties: bytes, signature: bytes | None) -> dict[str, str]:
        """The custom header with these values."""
        text: str = orjson.loads(b'"%b"' % properties)
        made = {**self._fields, "e": queue_id.decode(), "g": born.decode(), "i": text}
        if signature is not None:
            made[_SIGNATURE] = signature.decode("ascii")
        return made


@attrs.frozen
class _Layout:
    """Properties of these names, and what whoever serves them found out."""

    pattern: re.Pattern[bytes]
    kept: Any


def _pieces(begin: int, end: int, numbers: list[tuple[int, int]]) -> struct.Struct:
    """What takes a part of a header apart: fixed, number, fixed and so on."""
    layout = ""
    for low, high in numbers:
        layout += f"{low - begin}s{high - low}s"
        begin = high
    return struct.Struct(f"{layout}{end - begin}s")


@lru_cache(maxsize=512)
def _pattern(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """Properties of these names as in a JSON header, each with a value; the last separator may be missing."""
    pairs = [re.escape(name.encode()) + rb"\\u0001(%b+)" % _TEXT for name in names]
    return re.compile(rb"\\u0002".join(pairs) + rb"(?:\\u0002)?")


class KnownSend(Command):
    """A send of a known shape; a :class:`Command` to everybody, with its fields made when they are asked for.

    :ivar queue_id: and ``born_ms``: of the header, within Java's ranges.
    :ivar properties: as the header has them, in JSON.
    :ivar kept: what :meth:`SendShape.keep` was given with the names of its properties; None without.
    :ivar values: then, what matched: group n has the value of the n-th name.
    """

    __slots__ = ("_made", "_texts", "born_ms", "kept", "properties", "queue_id", "shape", "values")

    def __init__(
        self,
        shape: SendShape,
        queue_id: bytes,
        born: bytes,
        properties: bytes,
        opaque: bytes,
        body: bytes,
        kept: Any = None,
        values: re.Match[bytes] | None = None,
        signature: bytes | None = None,
    ) -> None:
        self.code, self.flag, self.language, self.version = shape.code, shape.flag, shape.language, shape.version
        self.remark = shape.remark
        self.arrived_s = -1.0
        self.opaque = int(opaque)
        self.body = body
        self.shape = shape
        self.queue_id = int(queue_id)
        self.born_ms = int(born)
        self.kept = kept
        self.values = values
        self.properties = properties
        self._texts = queue_id, born, properties, signature
        self._made: dict[str, str] | None = None

    @property
    def signature(self) -> bytes | None:
        """If the header has one among what differs."""
        return self._texts[3]

    @property
    def differing(self) -> tuple[bytes, bytes, bytes]:
        """The values of :data:`DIFFERING`."""
        queue_id, born, properties, _ = self._texts
        text: str = orjson.loads(b'"%b"' % properties)
        return queue_id, born, text.encode()

    @property
    def fields(self) -> dict[str, str]:
        made = self._made
        if made is None:
            made = self._made = self.shape.fields(*self._texts)
        return made

    @fields.setter
    def fields(self, value: dict[str, str]) -> None:
        self._made = value


class HeaderMemory:
    """Decodes the frames of one connection."""

    __slots__ = ("_credit", "_layouts_bytes", "_shapes", "_shapes_bytes")

    def __init__(self) -> None:
        self._shapes: list[SendShape] = []
        self._shapes_bytes = self._layouts_bytes = 0
        self._credit = CREDIT_FIRST

    def decode(self, frame: bytes, header_limit: int = HEADER_LIMIT) -> Command:
        """As :func:`rocketha.wire.remoting.decode`."""
        stop = 4 + int.from_bytes(frame[:4], "big")  # of JSON, whose type is 0; beyond all limits of any other
        if stop <= HEADER_MAX:
            try:
                for shape in self._shapes:
                    if frame.startswith(shape.prefix, 4):
                        found = shape.match(frame, stop)
                        if found is not None:
                            self._credit += 1
                            return found
            except struct.error:
                pass  # shorter than its header
        command = decode(frame, header_limit)
        if command.code in _SENDS and stop <= HEADER_MAX:
            self._learn(frame, stop, command)
        return command

    def make_room(self, size: int) -> bool:
        """Whether one more layout may take so many bytes."""
        if self._credit < LAYOUT_COSTS:
            return False
        self._credit = min(self._credit, CREDIT_MAX) - LAYOUT_COSTS
        if self._layouts_bytes + size > LAYOUTS_BYTES_MAX:
            for shape in self._shapes:
                shape.forget_layouts()
            self._layouts_bytes = 0
        self._layouts_bytes += size
        return True

    def _learn(self, frame: bytes, stop: int, command: Command) -> None:
        if self._credit < LEARNING_COSTS:
            return
        self._credit = min(self._credit, CREDIT_MAX) - LEARNING_COSTS
        places = _places(frame, stop)
        if places is None:
            return
        new = SendShape(self, frame, stop, places, command)
        if len(self._shapes) >= SHAPES_MAX or self._shapes_bytes + new.cost > SHAPES_BYTES_MAX:
            self._shapes.clear()
            self._shapes_bytes = self._layouts_bytes = 0
        self._shapes.insert(0, new)
        self._shapes_bytes += new.cost
