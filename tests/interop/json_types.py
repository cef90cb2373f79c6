"""The table of declared types and JSON values that goes through the real fastjson and through ours.

Rows are generated: each type with each value, and each JSON text with each type. What ours makes of a row is written
down here a second time only as far as Java's bean has it: which member is of which type, and what a primitive makes
of null.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rocketha.errors import RemoteProtocolError
from rocketha.wire import java_types as java
from rocketha.wire import json_dialect

from .harness import jars

REFUSED = "refused"
COLOURS = ("RED", "GREEN", "BLUE")
Reader = Callable[[Any], Any]

_NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "127",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "1.0",
    "1.5",
    "-1.5",
    "1e2",
    "1E2",
    "1e10",
    "1e400",
    "-0",
    "123456789.125",
    "0.001",
)
_WORDS = (
    "",
    "1",
    "-1",
    "+1",
    " 1 ",
    "1 ",
    "1.0",
    "1.5",
    "1e2",
    "1.",
    ".5",
    "-",
    "1-",
    "abc",
    "true",
    "TRUE",
    "false",
    "Y",
    "N",
    "y",
    "T",
    "1L",
    "0",
    "00",
    "null",
    "NULL",
    "2147483648",
    "9223372036854775808",
    "0x10",
    "1,000",
    "1,00",
    "01",
    "RED",
    "red",
    "NONE",
    "3",
    "{}",
    "[]",
    "[1]",
    "a,b",
    "a",
    "é",
    "1\n",
    "\u0661",
    "0" * 30 + "1",
)
_INNER = ("null", "true", "1", "1.5", '"1"', '"a"', '"true"', "[]", "[1]", "{}", '{"number":"3"}', '{"number":"x"}')
_KEYS = ("a", "1", "", " 1", "1.5", "-1")


def values() -> Iterator[str]:
    """JSON texts: numbers, texts, and lists and maps of the commonest of them."""
    yield from (*_NUMBERS, *(json.dumps(word, ensure_ascii=False) for word in _WORDS), *_INNER[:2], "false", "[]", "{}")
    yield from (f"[{item}]" for item in _INNER)
    yield from (f"[{first},{second}]" for first, second in itertools.product(_INNER[:6], repeat=2))
    yield from (f"{{{json.dumps(key)}:{item}}}" for key, item in itertools.product(_KEYS, _INNER))
    yield from ("{1:1}", "{-1:1}", "{true:1}", "{null:1}", "{a:1}", '{"k":{"1":2}}', '{"k":{1:"2"}}', '{"number":3}')
    yield from ("01", "+5", ".5", "5.", "NaN", "nul", "'1'", "'abc'", "['a']", "{'a':1}", "[1,]", '{"a":1,}', "[,1]")
    yield from ('["2147483647"]', '["2147483648"]', "[2147483648]", "[1e10]", "[2147483648.5]", '["\u0661"]', '["x"]')
    yield from ('{"k":{"1":"5"}}', '{"k":{"1":null}}', '{"k":{"1":2,"x":3}}', '{"k":{"01":true}}', '{"k":""}')
    yield from ("[9223372036854775808]", '["1,000"]', '{"2147483648":1}', '{"\u0661":1}', '{"null":1}', '{"1,000":1}')
    yield from ('"a\tb"', '"\\q"', '"\\u12"', "/*c*/1", "{/*c*/}", '1,"x":2')


def _or(read: Reader, null: Any) -> Reader:
    def primitive(value: Any) -> Any:
        found = read(value)
        return null if found is None else found

    return primitive


def _inner(value: Any) -> Any:
    found = java.bean(value)
    if found is None:
        return None
    number = _or(java.integer, 0)(found["number"]) if "number" in found else 5
    return {"number": number, "word": java.text(found["word"]) if "word" in found else "w"}


def _inners(value: Any) -> Any:
    found = java.bean_list(value)
    return None if found is None else [_inner(each) for each in found]


TYPES: dict[str, Reader] = {
    "integer": _or(java.integer, 0),
    "big": _or(java.long, 0),
    "flag": _or(java.flag, False),
    "boxed": java.integer,
    "boxedLong": java.long,
    "boxedFlag": java.flag,
    "text": java.text,
    "colour": lambda value: java.word(value, COLOURS),
    "texts": java.text_list,
    "textSet": java.text_set,
    "numbers": java.integer_set,
    "longs": java.long_set,
    "counts": lambda value: java.mapping(value, str, java.long),
    "table": lambda value: java.mapping(value, java.integer_key, java.long),
    "words": lambda value: java.mapping(value, str, java.text),
    "inner": _inner,
    "inners": _inners,
    "rows": _inners,
    "nested": lambda value: java.mapping(value, str, java.offset_table),
}
_SETS = ("textSet", "numbers", "longs", "inners")


def rows() -> list[tuple[str, str]]:
    """Type and value."""
    return list(itertools.product(TYPES, values()))


def ours(kind: str, value: str) -> str:
    """What our reader makes of a row, as JSON; REFUSED where it raises."""
    try:
        found = json_dialect.loads(f'{{"{kind}":{value}}}'.encode())
        return _canonical(kind, json.loads(json.dumps(TYPES[kind](found[kind]))))
    except RemoteProtocolError:
        return REFUSED


def theirs(pairs: list[tuple[str, str]], folder: Path) -> list[str]:
    """What fastjson makes of the same rows."""
    lines = "".join(f'JsonTypes$Types\t{{"{kind}":{value}}}\n' for kind, value in pairs)
    command = jars.java_command("JsonTypes", heap_mb=256, home=folder, quick=True, sources=jars.SOURCES)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(pairs), (len(answers), len(pairs), done.stderr[-2000:])
    return [
        REFUSED if answer.startswith("!") else _canonical(kind, json.loads(answer)[kind])
        for (kind, _), answer in zip(pairs, answers, strict=True)
    ]


def told(kind: str, value: str, java: str, ours: str) -> str:
    """A difference in a line: type, value, and what each side makes of it."""
    return f"{kind} {value} {' '.join(side if side in (REFUSED, 'null') else 'value' for side in (java, ours))}"


def _canonical(kind: str, value: Any) -> str:
    if kind in _SETS and value is not None:
        value = sorted({json.dumps(each, sort_keys=True) for each in value})
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
