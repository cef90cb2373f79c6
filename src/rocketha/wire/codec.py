"""From a construct specification to the functions that read and write it.

What it is: the only place where ``construct`` and ``struct`` errors are caught.  A specification in ``wire/spec`` is
the one declaration of a layout.  Cold paths (files at start, tools, tests) use :func:`parse` and :func:`build`, plain
construct with our errors.  Hot paths use :func:`flat`, which walks a fixed-width specification and derives one
``struct.Struct`` from it: about 30 times faster and, unlike ``construct.compile()``, as strict (compiled constructs
accept negative and short lengths).

What it must not know: any particular format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import construct

from rocketha.errors import RemoteProtocolError, RockethaError

Buffer = bytes | bytearray | memoryview


@attrs.frozen
class Flat:
    """The fast path of a fixed-width specification.

    :ivar layout: the derived ``struct.Struct``, big-endian as everything in RocketMQ is.
    :ivar names: field names in wire order, one a value.
    """

    layout: struct.Struct
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of one value."""
        return self.layout.size

    def unpack(self, data: Buffer, offset: int = 0) -> tuple[Any, ...]:
        """The values at ``offset``; :class:`RemoteProtocolError` when the buffer ends before them."""
        if offset < 0 or len(data) - offset < self.layout.size:
            raise RemoteProtocolError(f"{self.layout.size} bytes wanted at {offset}, {len(data) - offset} there")
        return self.layout.unpack_from(data, offset)

    def unpack_all(self, data: Buffer) -> Iterator[tuple[Any, ...]]:
        """Every value of a buffer that holds a whole number of them (``GreedyRange`` would drop a stray tail)."""
        if len(data) % self.layout.size:
            raise RemoteProtocolError(f"{len(data)} bytes are no multiple of {self.layout.size}")
        return self.layout.iter_unpack(data)

    def pack(self, *values: Any) -> bytes:
        """The bytes of one value, fields in :attr:`names` order."""
        try:
            return self.layout.pack(*values)
        except struct.error as error:
            raise RemoteProtocolError(f"cannot write {', '.join(self.names)}: {error}") from None


def flat(spec: construct.Construct) -> Flat:
    """Derive the ``struct.Struct`` of a Struct whose fields all are fixed-width numbers of one byte order or raw bytes.

    :raises TypeError: for a field of variable width or a mixed byte order, when the module is imported.
    """
    codes, names, order = "", [], ""
    for sub in spec.subcons:
        field = sub
        while isinstance(field, construct.Renamed):
            field = field.subcon
        if isinstance(field, construct.FormatField):
            this_order, code = field.fmtstr[0], field.fmtstr[1]
            if order not in ("", this_order):
                raise TypeError(f"{sub.name}: mixed byte order")
            order = this_order
        elif isinstance(field, construct.Bytes) and isinstance(field.length, int):
            code = f"{field.length}s"
        else:
            raise TypeError(f"{sub.name}: not a fixed-width field")
        codes += code
        names.append(sub.name)
    return Flat(struct.Struct((order or ">") + codes), tuple(names))


def parse(spec: construct.Construct, data: Buffer, error: Callable[[str], RockethaError] = RemoteProtocolError) -> Any:
    """Plain construct parse of a complete value.

    :param data: the whole value; what follows it is refused only where the specification ends in ``Terminated``.
    :param error: makes the error to raise from its text (``RemoteProtocolError``, or a closure over a path for a file).
    """
    try:
        return spec.parse(bytes(data))
    except (construct.ConstructError, struct.error, KeyError, ValueError, OverflowError, MemoryError) as problem:
        raise error(f"{_name(spec)}: {_first_line(problem)}") from None


def build(spec: construct.Construct, value: Mapping[str, Any] | Any) -> bytes:
    """Plain construct build; every refusal is a :class:`RemoteProtocolError` that names the format."""
    try:
        return bytes(spec.build(value))
    except (construct.ConstructError, struct.error, KeyError, TypeError, ValueError, OverflowError) as problem:
        raise RemoteProtocolError(f"{_name(spec)}: {_first_line(problem)}") from None


def _name(spec: construct.Construct) -> str:
    return getattr(spec, "name", None) or type(spec).__name__


def _first_line(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return text[0] if text else type(problem).__name__
