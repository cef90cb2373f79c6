"""Realistic remoting requests, and hostile ones that still look enough like them to reach what serves them.

Pure.  Theory of operation: a request is filled from names of a small fixed set (:mod:`request_table`), so that a
million of them do not grow a server for a good reason; hostile values replace a few of its fields, its body, its
header's text or its frame's lengths.
"""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

from rocketha.wire.fuzz import json_text, values
from rocketha.wire.fuzz.bodies import hostile_body, make_body
from rocketha.wire.fuzz.request_table import CODES, HOSTILE_PROPERTIES, MOSTLY, NAMES, REQUESTS, filled

REGISTER = 103
REGISTER_SHARE = 0.04
"""Of hostile requests: its packed body, lengths inside a zlib stream, is the richest target there is."""


def make(chance: Random, opaque: int, code: int | None = None) -> tuple[dict[str, Any], bytes]:
    """A realistic request: the JSON header as an object, and the body."""
    if code is None:
        code = chance.choice(MOSTLY if chance.random() < 0.5 else CODES)
    fields, body = REQUESTS[code]
    head: dict[str, Any] = {
        "code": code,
        "extFields": {name: filled(chance, kind) for name, kind in fields.items()},
        "flag": 2 if chance.random() < 0.1 else 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": chance.choice((513, 513, 401, 121, 0)),
    }
    return head, make_body(chance, body)


def make_hostile(chance: Random, opaque: int) -> tuple[bytes, bytes, str]:
    """A hostile request with a sound frame: header text, body, and what is wrong."""
    if chance.random() < REGISTER_SHARE:
        head, body = make(chance, opaque, REGISTER)
        body, note = hostile_body(chance, head, body)
        return orjson.dumps(head), body, f"request {head['code']}: {note}"
    head, body = make(chance, opaque)
    pick = chance.random()
    if pick < 0.6:
        return *_hostile_fields(chance, head, body), f"request {head['code']}"
    if pick < 0.8:
        body, note = hostile_body(chance, head, body)
        return orjson.dumps(head), body, f"request {head['code']}: {note}"
    if pick < 0.85:
        head.update(
            language=chance.choice(("JAVA", "KLINGON", "", 3, None)),
            version=chance.choice((-1, 0, 1, 36, 37, 121, 512, 514, 32768, 2**31 - 1, -(2**31))),
            flag=chance.choice((0, 0, 2, 1, 3, 4, -1, 2**31 - 1, -(2**31))),
            code=chance.choice((head["code"], head["code"], 0, -1, 65535, 2**31 - 1, -(2**31))),
        )
        return orjson.dumps(head), body, "code, flag, language or version out of range"
    text, note = json_text.hostile(chance, head, chance.choice((4096, 65536, 70000)))
    return text, body, f"request {head['code']}: header's {note}"


def _hostile_fields(chance: Random, head: dict[str, Any], body: bytes) -> tuple[bytes, bytes]:
    fields: dict[str, Any] = head["extFields"]
    kinds = REQUESTS[head["code"]][0]
    for _ in range(chance.choice((1, 1, 2, 3, 14))):
        name = chance.choice(sorted(kinds)) if kinds else "topic"
        kind = kinds.get(name, "topic")
        pick = chance.random()
        if pick < 0.1:
            fields.pop(name, None)
        elif pick < 0.15:
            fields[name] = chance.choice((None, 1, -1, 1.5, True, [], {}, ["a"], {"a": 1}, 2**63 - 1))
        elif kind == "properties":
            fields[name] = chance.choice(HOSTILE_PROPERTIES)
        elif kind in NAMES:
            fields[name] = values.name(chance)
        else:
            fields[name] = values.number_text(chance)
    if chance.random() < 0.1:
        fields[values.name(chance)] = values.name(chance)
    return orjson.dumps(head), body
