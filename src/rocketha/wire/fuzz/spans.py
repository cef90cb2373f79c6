"""Where each field of some bytes stands.

Pure. Theory of operation: construct keeps no offsets, so :class:`SpanFinder` mirrors its parse, one method a kind
of construct, on bytes that are known to be valid.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs
import construct

from rocketha.wire.fuzz.shape import CannotFit, Methods, children, enter, evaluate, method, names_in

Role = Literal["int", "length", "bytes", "item", "const"]


@attrs.frozen
class Span:
    """Where a field stands.

    :ivar path: field names from the outside in, joined with dots; items of a list are numbered.
    :ivar start: first byte.
    :ivar stop: one past the last byte.
    :ivar role: ``length`` is an integer that says how much of something else there is, ``item`` one element of a list.
    """

    path: str
    start: int
    stop: int
    role: Role


@attrs.frozen
class _Reading:
    """The bytes under a walk and what was found in them."""

    data: bytes
    found: list[Span]

    def check(self, start: int, stop: int, end: int, path: str) -> None:
        """Refuse what does not lie within its surroundings."""
        if not start <= stop <= end:
            raise CannotFit(f"{path}: bytes {start}..{stop} of {end}")

    def take(self, at: int, size: int, end: int, path: str, role: Role) -> bytes:
        """The bytes of a leaf, noted."""
        self.check(at, at + size, end, path)
        self.found.append(Span(path, at, at + size, role))
        return self.data[at : at + size]


class SpanFinder:
    """The spans of one specification's values.

    :raises TypeError: for a construct of a kind that has no method here.
    """

    def __init__(self, spec: construct.Construct) -> None:
        self.spec = spec
        self._lengths: set[str] = set()
        self._learn(spec, "spec")

    def _learn(self, spec: construct.Construct, path: str) -> None:
        if method(_SPANS, spec) is None:
            raise TypeError(f"{path}: the fuzzer cannot walk a construct of kind {type(spec).__name__}")
        self._lengths |= names_in(getattr(spec, "length", None)) | names_in(getattr(spec, "count", None))
        for name, sub in children(spec):
            self._learn(sub, f"{path}.{name}" if name else path)

    def spans(self, data: bytes) -> list[Span]:
        """Where each field of some bytes stands, outer fields after their inner ones.

        :param data: bytes the spec parses; of other bytes, the spans up to where they make no sense.
        """
        found: list[Span] = []
        try:
            self._span(self.spec, _Reading(data, found), 0, len(data), construct.Container(_=None), "")
        except CannotFit:
            pass
        return found

    def _span(
        self, spec: construct.Construct, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        walk = method(_SPANS, spec)
        assert walk is not None  # _learn saw every construct
        return walk(self, spec, reading, at, end, context, path)  # type: ignore[no-any-return]

    def _span_struct(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        inner = enter(context)
        for sub in spec.subcons:
            here = f"{path}.{sub.name}" if path and sub.name else sub.name or path
            value, at = self._span(sub, reading, at, end, inner, here)
            if sub.name:
                inner[sub.name] = value
        return inner, at

    def _span_focused(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        inner, at = self._span_struct(spec, reading, at, end, context, path)
        return inner[spec.parsebuildfrom], at

    def _span_within(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        """Renamed, Rebuild and other wrappers that add no bytes."""
        before = len(reading.found)
        value, stop = self._span(spec.subcon, reading, at, end, context, path)
        if isinstance(spec, construct.Rebuild | construct.Renamed) and len(reading.found) == before + 1:
            only = reading.found[-1]
            if isinstance(spec, construct.Rebuild) or spec.name in self._lengths:
                reading.found[-1] = attrs.evolve(only, role="length") if only.role == "int" else only
        return value, stop

    def _span_fixed(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        size = int(spec.length)
        raw = reading.take(at, size, end, path, "int")
        return spec.parse(raw), at + size

    def _span_bytes(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        size = int(evaluate(spec.length, context))
        return reading.take(at, size, end, path, "bytes"), at + size

    def _span_greedy_bytes(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        return reading.take(at, end - at, end, path, "bytes"), end

    def _span_prefixed(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        size, start = self._span(spec.lengthfield, reading, at, end, context, f"{path}.length")
        reading.found[-1] = attrs.evolve(reading.found[-1], role="length")
        stop = start + size - (start - at if spec.includelength else 0)
        reading.check(start, stop, end, path)
        return self._span(spec.subcon, reading, start, stop, context, path)[0], stop

    def _span_sized(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        stop = at + int(evaluate(spec.length, context))
        reading.check(at, stop, end, path)
        return self._span(spec.subcon, reading, at, stop, context, path)[0], stop

    def _span_terminated_text(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        stop = reading.data.find(spec.term, at, end)
        if stop < 0:
            raise CannotFit(f"{path}: no terminator")
        value, _ = self._span(spec.subcon, reading, at, stop, context, path)
        reading.take(stop, len(spec.term), end, f"{path}.end", "const")
        return value, stop + len(spec.term)

    def _span_greedy_range(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        made: list[Any] = []
        while at < end:
            kept = len(reading.found)
            try:
                value, stop = self._span(spec.subcon, reading, at, end, context, f"{path}.{len(made)}")
            except CannotFit:
                del reading.found[kept:]
                break
            if stop == at:
                break
            reading.found.append(Span(f"{path}.{len(made)}", at, stop, "item"))
            made.append(value)
            at = stop
        return made, at

    def _span_array(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        made: list[Any] = []
        for number in range(int(evaluate(spec.count, context))):
            value, stop = self._span(spec.subcon, reading, at, end, context, f"{path}.{number}")
            if stop > at:
                reading.found.append(Span(f"{path}.{number}", at, stop, "item"))
            made.append(value)
            at = stop
        return made, at

    def _span_switch(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        key = evaluate(spec.keyfunc, context)
        return self._span(spec.cases.get(key, spec.default), reading, at, end, context, path)

    def _span_condition(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        chosen = spec.thensubcon if evaluate(spec.condfunc, context) else spec.elsesubcon
        return self._span(chosen, reading, at, end, context, path)

    def _span_decoded(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        value, stop = self._span(spec.subcon, reading, at, end, context, path)
        return spec._decode(value, context, path), stop

    def _span_const(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        value, stop = self._span(spec.subcon, reading, at, end, context, path)
        reading.found[-1] = attrs.evolve(reading.found[-1], role="const")
        return value, stop

    def _span_computed(
        self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str
    ) -> tuple[Any, int]:
        return evaluate(spec.func, context), at

    def _span_none(self, spec: Any, reading: _Reading, at: int, end: int, context: Any, path: str) -> tuple[Any, int]:
        return None, at


_SPANS: Methods = {
    construct.Struct: SpanFinder._span_struct,
    construct.FocusedSeq: SpanFinder._span_focused,
    construct.Renamed: SpanFinder._span_within,
    construct.Rebuild: SpanFinder._span_within,
    construct.Default: SpanFinder._span_within,
    construct.FormatField: SpanFinder._span_fixed,
    construct.BytesInteger: SpanFinder._span_fixed,
    construct.Bytes: SpanFinder._span_bytes,
    construct.GreedyBytes.__class__: SpanFinder._span_greedy_bytes,
    construct.Prefixed: SpanFinder._span_prefixed,
    construct.FixedSized: SpanFinder._span_sized,
    construct.Padded: SpanFinder._span_sized,
    construct.NullTerminated: SpanFinder._span_terminated_text,
    construct.GreedyRange: SpanFinder._span_greedy_range,
    construct.Array: SpanFinder._span_array,
    construct.Switch: SpanFinder._span_switch,
    construct.IfThenElse: SpanFinder._span_condition,
    construct.Enum: SpanFinder._span_decoded,
    construct.StringEncoded: SpanFinder._span_decoded,
    construct.Adapter: SpanFinder._span_within,
    construct.Computed: SpanFinder._span_computed,
    construct.Const: SpanFinder._span_const,
    construct.Check: SpanFinder._span_none,
    construct.Terminated.__class__: SpanFinder._span_none,
    construct.Pass.__class__: SpanFinder._span_none,
}
