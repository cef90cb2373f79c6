"""Bodies are read as Java's server reads them: a table of types and values through fastjson and through ours."""

from __future__ import annotations

import sys

from . import json_types
from .harness import InteropCase

_SYNTAX = "orjson and our tolerant reader take JSON and integer keys; no client writes this"
_KEYS = "keys without quotes are known to the parser only, not which type they stand in: taken everywhere, shown quoted"
_NULL_MAP = "a map for null: read as empty"
DIFFERENCES = {
    **dict.fromkeys(
        ("01", "+5", ".5", "5.", "'1'", "'abc'", "['a']", "{'a':1}", "[1,]", '{"a":1,}', '"a\tb"', "{/*c*/}"), _SYNTAX
    ),
    **dict.fromkeys(("{1:1}", "{-1:1}", "{true:1}", "{null:1}", "{a:1}", '{"k":{1:"2"}}'), _KEYS),
    "1e10": "how a number was written is not kept: as a text it is 10000000000.0 where Java has 1.0E10",
    '"null"': "a set of objects takes the text null as a list does",
    **dict.fromkeys(("[{}]", '[{"number":"3"}]', '[{"number":"x"}]'), "a list of one object for a map of texts"),
    **dict.fromkeys((f'{{"{key}":null}}' for key in ("a", "1", "", " 1", "1.5", "-1")), _NULL_MAP),
}
"""Values that differ for some type, and why that is left so."""


class JsonTypeTests(InteropCase):
    """The oracle is RemotingSerializable.decode of the 5.5.0 jars."""

    def test_the_table(self) -> None:
        """Every pair has the same outcome, or its value is named above; a name that nothing needs any more fails."""
        pairs = json_types.rows()
        found: set[str] = set()
        for (kind, value), java in zip(pairs, json_types.theirs(pairs, self.folder / "java"), strict=True):
            ours = json_types.ours(kind, value)
            if ours != java:
                found.add(value)
                self.assertIn(value, DIFFERENCES, f"{kind}: Java {java}, ours {ours}")
        self.assertEqual(found, set(DIFFERENCES))
        sys.stderr.write(
            f"\n{len(pairs)} pairs of type and value, values that differ: {len(found)}, each with a reason\n"
        )
