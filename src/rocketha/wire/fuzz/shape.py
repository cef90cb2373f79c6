"""What constructs are made of: the pieces that both walks, for values and for spans, stand on.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import construct

from rocketha.errors import RockethaError

Methods = dict[type, Callable[..., Any]]
"""Class of construct -> the walk's method for it."""


class CannotFit(RockethaError):
    """This attempt made a value its own spec refuses (a length field too narrow, say): try a smaller one."""


class _Probe(dict[str, Any]):
    """A context that answers 1 to everything and notes the names asked for."""

    def __init__(self, asked: set[str]) -> None:
        super().__init__()
        self._asked = asked

    def __getitem__(self, name: str) -> Any:
        if name in ("_", "_root", "_params"):
            return self
        self._asked.add(name)
        return 1

    __getattr__ = __getitem__

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def names_in(expression: Any) -> set[str]:
    """The context names an expression asks for; of one that fails half way, those until then."""
    asked: set[str] = set()
    if callable(expression):
        try:
            expression(_Probe(asked))
        except Exception:  # the expression is the spec's own; what it did ask for until then is noted
            return asked
    return asked


def evaluate(expression: Any, context: Any) -> Any:
    """An expression's value; constants are themselves."""
    return expression(context) if callable(expression) else expression


def enter(context: Any) -> Any:
    """The context inside a Struct."""
    inner = construct.Container(_=context)
    inner["_root"] = context.get("_root", inner) if context is not None else inner
    return inner


def bare(spec: construct.Construct) -> construct.Construct:
    """The construct under its names."""
    while isinstance(spec, construct.Renamed):
        spec = spec.subcon
    return spec


def is_integer(spec: construct.Construct) -> bool:
    """Whether a field holds a whole number."""
    return isinstance(spec, construct.BytesInteger) or (
        isinstance(spec, construct.FormatField) and spec.fmtstr[1] not in "efd"
    )


def width(spec: Any) -> tuple[int, bool]:
    """Bits and signedness of an integer field."""
    if isinstance(spec, construct.BytesInteger):
        return int(spec.length) * 8, bool(spec.signed)
    return int(spec.length) * 8, spec.fmtstr[1].islower()


def highest(spec: Any) -> int:
    """The largest number an integer field holds."""
    bits, signed = width(spec)
    return int((1 << bits - signed) - 1)


def children(spec: construct.Construct) -> Iterator[tuple[str, construct.Construct]]:
    """The constructs directly inside, with their names."""
    if isinstance(spec, construct.Struct | construct.FocusedSeq):
        yield from ((sub.name or "", sub) for sub in spec.subcons)
    elif isinstance(spec, construct.Switch):
        yield from ((str(key), sub) for key, sub in spec.cases.items())
        yield "default", spec.default
    elif isinstance(spec, construct.IfThenElse):
        yield from (("then", spec.thensubcon), ("else", spec.elsesubcon))
    elif isinstance(spec, construct.Prefixed):
        yield from (("length", spec.lengthfield), ("", spec.subcon))
    elif isinstance(spec, construct.Subconstruct):
        yield "", spec.subcon


def method(table: Mapping[type, Callable[..., Any]], spec: construct.Construct) -> Callable[..., Any] | None:
    """By exact class, then by what JSON adapters look like; never by base class, which would hide an unknown kind."""
    found = table.get(type(spec))
    if found is None and isinstance(spec, construct.Adapter) and isinstance(getattr(spec, "members", None), dict):
        return table[construct.Adapter]
    return found
