"""A walk through a construct specification that invents a value.

Pure. Theory of operation: every kind of construct has one method, found by class. A kind nobody wrote a method for
is a
:class:`TypeError` with its name when the walker is made, so a new format either is covered or fails its test.

Fields that the build computes (``Rebuild``, ``Const``, ``Computed``) are left out. A length that cannot be
evaluated because it is one of those is free. Fields that others depend on as lengths, counts or switch keys are
found by evaluating those expressions against a probe that notes what it is asked for; lengths then stay small and
keys known.
"""

from __future__ import annotations

from random import Random
from typing import Any

import construct

from rocketha.wire.fuzz import values
from rocketha.wire.fuzz.shape import (
    CannotFit,
    Methods,
    bare,
    children,
    enter,
    evaluate,
    highest,
    is_integer,
    method,
    names_in,
    width,
)

LOCAL_SIZE_MAX = 4096
"""Most bytes or items of a field whose length another plain field says."""


class SpecWalker:
    """Values of one specification.

    :raises TypeError: for a construct of a kind that has no method here.
    """

    def __init__(self, spec: construct.Construct) -> None:
        self.spec = spec
        self._lengths: set[str] = set()
        self._keys: dict[str, list[Any]] = {}
        self._learn(spec, "spec")

    # ---- what the specification is made of

    def _learn(self, spec: construct.Construct, path: str) -> None:
        """Note lengths and keys, and refuse what cannot be walked."""
        if method(_VALUES, spec) is None:
            raise TypeError(f"{path}: the fuzzer cannot walk a construct of kind {type(spec).__name__}")
        self._lengths |= names_in(getattr(spec, "length", None)) | names_in(getattr(spec, "count", None))
        if isinstance(spec, construct.Switch):
            for name in names_in(spec.keyfunc):
                self._keys.setdefault(name, []).extend(spec.cases)
        for name, sub in children(spec):
            self._learn(sub, f"{path}.{name}" if name else path)

    # ---- values

    def value(self, chance: Random, size: int) -> Any:
        """A value that the spec builds, or :class:`CannotFit`.

        :param size: most bytes of one free field, and most items of one free list.
        """
        return self._value(self.spec, chance, size, construct.Container(_=None))

    def _value(self, spec: construct.Construct, chance: Random, size: int, context: Any) -> Any:
        walk = method(_VALUES, spec)
        assert walk is not None  # _learn saw every construct
        return walk(self, spec, chance, size, context)

    def _members(self, spec: construct.Construct, chance: Random, size: int, context: Any) -> dict[str, Any]:
        inner = enter(context)
        made: dict[str, Any] = {}
        for sub in spec.subcons:
            plain = bare(sub)
            if isinstance(plain, construct.Rebuild | construct.Terminated.__class__):
                continue
            if sub.name in self._keys and chance.random() < 0.9:
                value = chance.choice(self._keys[sub.name])
            elif sub.name in self._lengths and is_integer(plain):
                value = values.length(chance, min(size, LOCAL_SIZE_MAX, highest(plain)))
            else:
                value = self._value(sub, chance, size, inner)
            if sub.name:
                inner[sub.name] = value
                if not isinstance(plain, construct.Const | construct.Computed):
                    made[sub.name] = value
        return made

    def _value_struct(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        return self._members(spec, chance, size, context)

    def _value_focused(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        return self._members(spec, chance, size, context)[spec.parsebuildfrom]

    def _value_renamed(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        return self._value(spec.subcon, chance, size, context)

    def _value_integer(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        bits, signed = width(spec)
        return values.integer(chance, bits, signed)

    def _value_format(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        if spec.fmtstr[1] in "efd":
            return chance.choice((0.0, -0.0, 1.5, -1.0, float("inf"), chance.random()))
        return self._value_integer(spec, chance, size, context)

    def _value_bytes(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        count = self._known_length(spec.length, context)
        return values.octets(chance, values.length(chance, size) if count is None else count)

    def _value_greedy_bytes(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        return values.octets(chance, values.length(chance, size))

    def _value_terminated_text(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        made = self._value(spec.subcon, chance, size, context)
        return made.replace(spec.term, b"") if isinstance(made, bytes) else made

    def _value_greedy_range(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        most = chance.choice((0, 1, 1, 2, 3, 5, 8, 40))
        return [self._value(spec.subcon, chance, size // 4 + 1, context) for _ in range(min(most, size))]

    def _value_array(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        count = self._known_length(spec.count, context)
        if count is None:
            return self._value_greedy_range(spec, chance, size, context)
        return [self._value(spec.subcon, chance, size // 4 + 1, context) for _ in range(count)]

    def _value_switch(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        key = evaluate(spec.keyfunc, context)
        return self._value(spec.cases.get(key, spec.default), chance, size, context)

    def _value_condition(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        chosen = spec.thensubcon if evaluate(spec.condfunc, context) else spec.elsesubcon
        return self._value(chosen, chance, size, context)

    def _value_enum(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        known = sorted(int(value) for value in spec.decmapping)
        return (
            chance.choice(known) if known and chance.random() < 0.8 else self._value(spec.subcon, chance, size, context)
        )

    def _value_text(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        return values.text(chance)[:size]

    def _value_json(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        made: dict[str, Any] = {}
        for name, kind in spec.members.items():
            if chance.random() < 0.12:
                continue
            if kind in ("int", "long"):
                made[name] = values.integer(chance, 32 if kind == "int" else 64, True)
            elif kind == "text":
                made[name] = values.text(chance)
            elif kind == "flag":
                made[name] = chance.random() < 0.5
            elif kind == "ids":
                made[name] = [values.integer(chance, 64, True) for _ in range(chance.choice((0, 1, 3)))]
            elif kind in ("rows", "object", "table"):
                made[name] = [] if kind == "rows" else {}  # what is in them only a fitting knows
            else:
                made[name] = {values.text(chance): values.text(chance) for _ in range(chance.choice((0, 1, 3, 14)))}
        return made

    def _value_computed(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        try:
            return evaluate(spec.func, context)
        except (KeyError, AttributeError, TypeError):
            return None

    def _value_const(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        return spec.value

    def _value_none(self, spec: Any, chance: Random, size: int, context: Any) -> Any:
        return None

    @staticmethod
    def _known_length(expression: Any, context: Any) -> int | None:
        """The number an expression gives, None when it asks for what the build will compute."""
        try:
            count = int(evaluate(expression, context))
        except (KeyError, AttributeError, TypeError):
            return None
        if not 0 <= count <= 1 << 20:
            raise CannotFit(f"a length of {count}")
        return count


_VALUES: Methods = {
    construct.Struct: SpecWalker._value_struct,
    construct.FocusedSeq: SpecWalker._value_focused,
    construct.Renamed: SpecWalker._value_renamed,
    construct.Rebuild: SpecWalker._value_none,
    construct.Default: SpecWalker._value_renamed,
    construct.FormatField: SpecWalker._value_format,
    construct.BytesInteger: SpecWalker._value_integer,
    construct.Bytes: SpecWalker._value_bytes,
    construct.GreedyBytes.__class__: SpecWalker._value_greedy_bytes,
    construct.Prefixed: SpecWalker._value_renamed,
    construct.FixedSized: SpecWalker._value_renamed,
    construct.Padded: SpecWalker._value_renamed,
    construct.NullTerminated: SpecWalker._value_terminated_text,
    construct.GreedyRange: SpecWalker._value_greedy_range,
    construct.Array: SpecWalker._value_array,
    construct.Switch: SpecWalker._value_switch,
    construct.IfThenElse: SpecWalker._value_condition,
    construct.Enum: SpecWalker._value_enum,
    construct.StringEncoded: SpecWalker._value_text,
    construct.Adapter: SpecWalker._value_json,
    construct.Computed: SpecWalker._value_computed,
    construct.Const: SpecWalker._value_const,
    construct.Check: SpecWalker._value_none,
    construct.Terminated.__class__: SpecWalker._value_none,
    construct.Pass.__class__: SpecWalker._value_none,
}
