"""What a reader owes to any bytes, and the judgment of one case.

Pure: the time and memory a case took are measured by the caller (:mod:`rocketha.admin.fuzz` brings clocks).

1. ``Format.parse`` returns a value or raises one of ours that blames the bytes; anything else is a crash.
2. What it returns and ``Format.build`` writes, it reads back as the same value.
3. Of bytes its spec built, it says what plain construct says, as far as the two name the same things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from rocketha.errors import CorruptStore, InvariantBroken, RemoteProtocolError, RequestRefused, RockethaError
from rocketha.wire import codec
from rocketha.wire.fuzz.case import VALID, Case
from rocketha.wire.spec.format import Format

BLAMES_THE_BYTES = (RemoteProtocolError, CorruptStore, RequestRefused)
"""The errors a reader may raise."""

TEXT_SHOWN = 300


@attrs.frozen
class Judgment:
    """What became of a case.

    :ivar accepted: the reader returned a value.
    :ivar problem: the breach of the contract, None when it was kept.
    :ivar detail: the refusal's text, or the value's beginning.
    :ivar compared: how many things the reader and plain construct both named (0: nothing could be compared).
    """

    accepted: bool
    problem: str | None
    detail: str
    compared: int = 0


def judge(target: Format, case: Case) -> Judgment:
    """Run one case through its reader and back."""
    try:
        value = target.parse(case.data)
    except BLAMES_THE_BYTES as refusal:
        return Judgment(False, None, str(refusal)[:TEXT_SHOWN])
    except Exception as crash:
        return Judgment(False, f"parse raised {_describe(crash)}", "")
    detail = repr(value)[:TEXT_SHOWN]
    compared = 0
    if case.kind == VALID:
        try:
            oracle = codec.parse(target.spec, case.data)
        except RockethaError as refusal:
            return Judgment(True, f"the spec refuses what it built: {refusal}", detail)
        differences: list[str] = []
        compared = agreement(oracle, value, "", differences)
        if differences:
            return Judgment(True, f"not what plain construct reads: {'; '.join(differences[:3])}", detail, compared)
    return Judgment(True, _round_trip(target, value), detail, compared)


def _round_trip(target: Format, value: Any) -> str | None:
    if target.build is None:
        return None
    try:
        written = target.build(value)
    except BLAMES_THE_BYTES as refusal:
        return f"build refuses what parse returned: {str(refusal)[:TEXT_SHOWN]}"
    except Exception as crash:
        return f"build of what parse returned raised {_describe(crash)}"
    try:
        again = target.parse(written)
    except Exception as error:
        return f"parse refuses what build wrote of its own value: {_describe(error)}"
    if again != value:
        return f"read, written and read again it differs: {repr(value)[:120]} became {repr(again)[:120]}"
    return None


def _describe(error: BaseException) -> str:
    blame = " (a rule of ours is broken)" if isinstance(error, InvariantBroken) else ""
    return f"{type(error).__name__}{blame}: {str(error)[:TEXT_SHOWN]}"


def agreement(oracle: Any, value: Any, path: str, differences: list[str]) -> int:
    """Compare what plain construct and a reader made of the same bytes, as far as both name the same things.

    :param differences: receives one line for each disagreement.
    :return: how many leaves were compared.
    """
    members = _members(value)
    if isinstance(oracle, Mapping):
        named = {name: item for name, item in oracle.items() if isinstance(name, str) and not name.startswith("_")}
        only = next(iter(named.values())) if len(named) == 1 else None
        if members is not None and not isinstance(only, list):
            shared = [name for name in named if name in members]
            return sum(agreement(named[name], members[name], f"{path}.{name}", differences) for name in shared)
        # A reader may return the only list, or the only number, of a Struct as itself.
        return agreement(only, value, path, differences) if len(named) == 1 else 0
    if isinstance(oracle, list) and isinstance(value, Mapping):
        return _pairs(oracle, value, path, differences)
    if isinstance(oracle, list) and isinstance(value, list):
        if len(oracle) != len(value):
            differences.append(f"{path or 'value'}: {len(oracle)} items for construct, {len(value)} for the reader")
        return sum(
            agreement(mine, theirs, f"{path}.{at}", differences) for at, (mine, theirs) in enumerate(zip(oracle, value))
        )
    return _leaf(oracle, value, path, differences)


def _pairs(oracle: list[Any], value: Mapping[Any, Any], path: str, differences: list[str]) -> int:
    """A list of (name, value) rows that a reader made a mapping of: the last of a name counts, a reader may skip
    rows.
    """
    last: dict[Any, Any] = {}
    for row in oracle:
        columns = [item for name, item in row.items() if not str(name).startswith("_")]
        if len(columns) != 2:
            return 0
        # Readers that skip rows without a value keep an earlier one of that name.
        last[columns[0]] = columns[1] or last.get(columns[0], columns[1])
    compared = 0
    for name, item in value.items():
        key = name.encode("utf-8", "surrogatepass") if isinstance(name, str) else name
        if key in last:
            compared += _leaf(last[key], item, f"{path}[{name!r}]", differences)
        else:
            differences.append(f"{path}[{name!r}] is in no row of construct's")
    return compared


def _members(value: Any) -> dict[str, Any] | None:
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        made: dict[str, Any] = value._asdict()
        return made
    return dict(value) if isinstance(value, Mapping) else None


def _leaf(oracle: Any, value: Any, path: str, differences: list[str]) -> int:
    if isinstance(oracle, bytes) and isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    # Of different types they are different views (an enum's name for its number): no statement.
    if type(oracle) is not type(value) and not (isinstance(oracle, int) and isinstance(value, int)):
        return 0
    if oracle != value:
        differences.append(f"{path or 'value'}: {str(oracle)[:60]!r} for construct, {str(value)[:60]!r} for the reader")
    return 1
