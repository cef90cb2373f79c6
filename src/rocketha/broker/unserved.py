"""The requests that Java's broker serves and this one does not, each with the reason that its sender is given.  Pure.

docs/divergence.md has the same rows, which a test compares with these and with what Java's jars serve.
"""

from __future__ import annotations

from collections.abc import Mapping

_REASONS: Mapping[str, tuple[int, ...]] = {
    "this broker has no transactions": (37, 323),
    "this broker has no request-reply": (324, 325),
    "this broker has no timer wheel": (370, 5001),
    "this broker has no POP consumption": (400, 401, *range(200050, 200057), 200151),
    "this broker has no lite topics": tuple(range(200070, 200080)),
    "this broker has no static topics": (513,),
    "this broker does not use RocksDB": (354, 355),
    "cold reads have a thread of their own here, and need no limits": (2001, 2002, 2003),
    "the commit log is not read through memory maps here": (2004,),
}

UNSERVED: Mapping[int, str] = {code: why for why, codes in _REASONS.items() for code in codes}
"""Why, by code."""
