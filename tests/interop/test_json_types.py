"""Bodies are read as Java's server reads them: a table of types and values through fastjson and through ours."""

from __future__ import annotations

import re
import sys
from collections import Counter

from . import json_types
from .harness import InteropCase

_LOOSE = r"01|\+5|\.5|5\.|'1'|'abc'|\['a'\]|\{'a':1\}|\[1,\]|\{\"a\":1,\}|\"a\tb\"|\{/\*c\*/\}"
_BARE = r"\{(?:-?1|true|null|a):1\}|\{\"k\":\{1:\"2\"\}\}"
_KEYS = "keys without quotes are known to the parser only, not which type they stand in"
REASONS = (
    (rf"\w+ (?:{_LOOSE}) (?:value|null) refused", "no JSON: orjson and our tolerant reader take JSON and integer keys"),
    (rf"(?:text|textSet|words) (?:{_BARE}) value value", f"{_KEYS}: shown quoted"),
    (rf"(?:texts|counts|words|inner|inners|rows) (?:{_BARE}) refused (?:value|null)", f"{_KEYS}: taken everywhere"),
    (r"(?:text|texts|textSet) \[?1e10\]? value value", "how a number was written is not kept: Java's 1.0E10"),
    (
        r"(?:integer|big|boxed|boxedLong|numbers) \[2147483648\.5\] value value",
        "how a number was written is not kept: Java takes the low bits of one without exponent",
    ),
    (
        r'words \[\{(?:"number":"[3x]")?\}\] value refused',
        "a list of one object for a map of texts, and for no other map",
    ),
    (r'inners "null" refused null', "a set of objects takes the text null as a list of them does"),
    (r'nested \{"[ak1. -]*5?":(?:null|""|\{"1":null\})\} refused value', "a concurrent map with null in it: left out"),
)
"""Of a difference, as :func:`json_types.told` has it, and why that is left so."""


class JsonTypeTests(InteropCase):
    """The oracle is RemotingSerializable.decode of the 5.5.0 jars."""

    def test_the_table(self) -> None:
        """Every pair has the same outcome, or a reason is held for it; a reason that nothing needs any more fails."""
        pairs = json_types.rows()
        reasons: Counter[str] = Counter()
        used = set()
        for (kind, value), java in zip(pairs, json_types.theirs(pairs, self.folder / "java"), strict=True):
            ours = json_types.ours(kind, value)
            if ours != java:
                told = json_types.told(kind, value, java, ours)
                known = next((each for each in REASONS if re.fullmatch(each[0], told)), None)
                assert known is not None, f"{told}: Java {java}, ours {ours}"
                used.add(known)
                reasons[known[1]] += 1
        self.assertEqual(set(REASONS) - used, set())
        said = [f"\n{len(pairs)} pairs of type and value, {reasons.total()} differ, each with a reason"]
        sys.stderr.write("\n".join([*said, *(f"  {count} x {reason}" for reason, count in reasons.items())]) + "\n")
