"""Send requests whose header is known but for four values: queue, time, properties and number.

Pure.  Theory of operation: a Java producer writes the same header again and again; only the queue id, the time of
birth, the unique key among the properties and the correlation id differ, and they are as long as before.  So the
layout of the last headers of a connection is remembered, and the next one is taken apart by one ``struct`` and
compared with it instead of being parsed: a sixth of the time.  Whatever does not fit is decoded as usual, and is
remembered if Java could have written it: :data:`_JAVA` is its exact text, in which no other value can hide.

What a connection remembers is bounded in bytes, because the peer decides how long its headers are and how many
connections it opens; one whose headers are never alike stops being remembered.

Java: ``SendMessageRequestHeaderV2``, ``RemotingCommand.markProtocolType``.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import orjson

from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import HEADER_LIMIT, Command, decode

HEADER_MAX = 2048
"""Longer headers are parsed: they save little beside their length.  Far below the longest properties that a message may
have, so nobody who serves a known send has to look for that."""
SHAPES_BYTES_MAX, LAYOUTS_BYTES_MAX = 96 << 10, 64 << 10
"""What a connection remembers of headers, and of properties: memory, about; then it begins again."""
SHAPE_COST, LAYOUT_COST = 2560, 512
"""Bytes of memory that one takes beside its texts."""
TRIES_MAX = 4
"""Layouts of one length."""
LEARNING_COSTS = 4
"""A layout takes about as long to learn as it saves in so many requests; only what was saved is spent."""
CREDIT_FIRST, CREDIT_MAX = 256, 4096

_SENDS = frozenset({int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)})
_TEXT = rb"[ !#-\[\]-~]*"  # ASCII without quote, backslash and control characters
_JAVA = re.compile(
    rb'\{"code":\d{1,5},"extFields":\{"a":"T","b":"T","c":"T","d":"\d{1,9}","e":"(\d{1,9})","f":"\d{1,9}",'
    rb'"g":"(\d{1,18})","h":"\d{1,9}","i":"(T(?:\\u000[12]T)*)","j":"\d{1,9}","k":"T",(?:"l":"\d{1,9}",)?"m":"T",'
    rb'(?:"n":"T")?\},"flag":\d{1,9},"language":"[A-Z_]{1,9}","opaque":([1-9]\d{0,8}),'
    rb'"serializeTypeCurrentRPC":"JSON","version":\d{1,9}\}'.replace(b"T", _TEXT)
)
_PROPERTIES = re.compile(rb"T(?:\\u000[12]T)*".replace(b"T", _TEXT))
_UNIQUE, _END = rb"UNIQ_KEY\u0001", rb"\u0002"


class SendShape:
    """What the headers of some sends of one connection have in common.

    :ivar accepted: kept by whoever serves them: what it found out about the first.
    :ivar layouts: likewise, by what stands before and behind the unique key in the properties: see :meth:`keep`.
    :ivar cost: bytes of memory that it takes without its layouts, about.
    """

    __slots__ = (
        "_fields", "_fixed", "_memory", "_stop", "_unpack", "accepted", "code", "cost", "flag", "language", "layouts",
        "version",
    )  # fmt: skip

    def __init__(self, memory: HeaderMemory, frame: bytes, stop: int, found: re.Match[bytes], command: Command) -> None:
        self._memory = memory
        self.code, self.flag = command.code, command.flag
        self.language, self.version = command.language, command.version
        self.accepted: Any = None
        self.layouts: dict[tuple[bytes, bytes], Any] = {}
        self._fields = {**command.fields, "e": "", "g": "", "i": ""}
        self._stop = stop
        pieces, at = "", 0
        for begin, end in map(found.span, range(1, 5)):
            pieces += f"{begin - at}s{end - begin}s"
            at = end
        layout = struct.Struct(f"{pieces}{stop - at}s")
        self._unpack = layout.unpack_from
        self._fixed = layout.unpack_from(frame)[::2]
        self.cost = SHAPE_COST + 2 * sum(map(len, self._fixed))  # as bytes here, as text in the fields

    def match(self, frame: bytes) -> KnownSend | None:
        """The request, if its header is of this shape; ``frame`` holds a header of this shape's length."""
        a, queue_id, b, born, c, properties, d, opaque, e = self._unpack(frame)
        if (a, b, c, d, e) != self._fixed or not (queue_id + born + opaque).isdigit() or opaque[0] == 48:
            return None
        before, _, rest = properties.partition(_UNIQUE)
        key, _, behind = rest.partition(_END)
        around = before, behind
        if not (around in self.layouts and key.isalnum()) and not _PROPERTIES.fullmatch(properties):
            return None
        return KnownSend(self, queue_id, born, properties, opaque, around, key, frame[self._stop :])

    def keep(self, around: tuple[bytes, bytes], layout: Any) -> None:
        """Remember a layout; where the connection has too many, all others are forgotten."""
        self._memory.make_room(LAYOUT_COST + 4 * (len(around[0]) + len(around[1])))
        self.layouts[around] = layout

    def fields(self, queue_id: bytes, born: bytes, properties: bytes) -> dict[str, str]:
        """The custom header with these values."""
        text: str = orjson.loads(b'"%b"' % properties)
        return {**self._fields, "e": queue_id.decode(), "g": born.decode(), "i": text}


class KnownSend(Command):
    """A send of a known shape; a :class:`Command` to everybody, with its fields made when they are asked for.

    :ivar queue_id: and ``born_ms``: of the header, within Java's ranges.
    :ivar around: what stands before and behind the unique key in the properties, as in the header.
    :ivar key: the unique key: letters and digits where ``around`` is in ``shape.layouts``, else perhaps none.
    """

    __slots__ = ("_made", "_texts", "around", "born_ms", "key", "queue_id", "shape")

    def __init__(
        self, shape: SendShape, queue_id: bytes, born: bytes, properties: bytes, opaque: bytes,
        around: tuple[bytes, bytes], key: bytes, body: bytes,
    ) -> None:  # fmt: skip
        self.code, self.flag, self.language, self.version = shape.code, shape.flag, shape.language, shape.version
        self.remark = None
        self.opaque = int(opaque)
        self.body = body
        self.shape = shape
        self.queue_id = int(queue_id)
        self.born_ms = int(born)
        self.around = around
        self.key = key
        self._texts = queue_id, born, properties
        self._made: dict[str, str] | None = None

    @property
    def fields(self) -> dict[str, str]:
        """See the base."""
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
        self._shapes: dict[bytes, list[SendShape]] = {}  # by header word
        self._shapes_bytes = self._layouts_bytes = 0
        self._credit = CREDIT_FIRST

    def decode(self, frame: bytes, header_limit: int = HEADER_LIMIT) -> Command:
        """As :func:`rocketha.wire.remoting.decode`."""
        word = frame[:4]
        shapes = self._shapes.get(word)
        if shapes is not None:
            try:
                for shape in shapes:
                    found = shape.match(frame)
                    if found is not None:
                        self._credit += 1
                        return found
            except struct.error:
                pass  # shorter than its header
        command = decode(frame, header_limit)
        if command.code in _SENDS:
            self._learn(frame, word, command)
        return command

    def make_room(self, size: int) -> None:
        """One more layout takes so many bytes."""
        if self._layouts_bytes + size > LAYOUTS_BYTES_MAX:
            for shapes in self._shapes.values():
                for shape in shapes:
                    shape.layouts.clear()
            self._layouts_bytes = 0
        self._layouts_bytes += size

    def _learn(self, frame: bytes, word: bytes, command: Command) -> None:
        stop = 4 + int.from_bytes(word[1:], "big")
        if stop > HEADER_MAX or self._credit < LEARNING_COSTS:
            return
        self._credit = min(self._credit, CREDIT_MAX) - LEARNING_COSTS
        found = _JAVA.fullmatch(frame, 4, stop)
        if found is None:
            return
        new = SendShape(self, frame, stop, found, command)
        if self._shapes_bytes + new.cost > SHAPES_BYTES_MAX:
            self._shapes.clear()
            self._shapes_bytes = self._layouts_bytes = 0
        shapes = self._shapes.setdefault(word, [])
        self._shapes_bytes += new.cost - sum(shape.cost for shape in shapes[TRIES_MAX - 1 :])
        del shapes[TRIES_MAX - 1 :]
        shapes.insert(0, new)
