"""JSON that hurts: deep, huge, duplicated, of the wrong types, almost JSON.

Pure.  Works on the JSON of an object that was valid (a remoting header, a request body) and its bound in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import orjson

from rocketha.wire.fuzz import values
from rocketha.wire.fuzz.damage import Damage

HOSTILE_TOKENS = (
    b"0",
    b"-0",
    b"-1",
    b"1.5",
    b"-1.5",
    b"1e2",
    b"1e400",
    b"-1e400",
    b"1E-400",
    b"2147483647",
    b"2147483648",
    b"-2147483649",
    b"9223372036854775808",
    b"18446744073709551616",
    b"1" * 400,
    b"0" * 50,
    b"00",
    b"+1",
    b".5",
    b"5.",
    b"0x10",
    b"1_0",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"undefined",
    b"null",
    b"true",
    b"false",
    b"TRUE",
    b'""',
    b'"10"',
    b'"a"',
    b'" "',
    b"[]",
    b"[1]",
    b"[[]]",
    b"{}",
    b'{"a":1}',
    b'{"a":{"b":{}}}',
    b'{{"a":1}:2}',
    b"{1:2}",
    b"{a:1}",
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\\u0000"',
    b'"\\x41"',
    b"'a'",
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"\x00"',
    b'"\n"',
    b'"\\u0001\\u0002"',
    b'"\xf0\x9f\x9a\x80"',
    b"/**/1",
    b"[1,2,3,]",
    b"new Date(1)",
    b"Set[1]",
    b'{"@type":"java.lang.Class","val":"x"}',
    b"x'41'",
    b"1L",
    b"",
)
"""What may stand where a value is wanted: other types, non-JSON that fastjson takes, encodings that are not UTF-8."""

WHOLE_TEXTS = (
    b"",
    b" ",
    b"null",
    b"true",
    b"0",
    b"[]",
    b"{}",
    b'""',
    b"{",
    b"}",
    b"[",
    b'"',
    b"{}{}",
    b"{} x",
    b"{,}",
    b'{"code"}',
    b'{"code":}',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b"\x00",
    b"{\x00}",
    b"/*x*/{}",
    b"//x\n{}",
    b"{'code':10}",
    b"{code:10}",
    b'{"code":10,}',
    b"-",
    b"nul",
    b"@",
)
"""Whole texts that are no object, or nearly one."""


def _objects(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(orjson.dumps(key) + b":" + token for key, token in members.items()) + b"}"


def _one_token(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    key = chance.choice(sorted(members)) if members else "code"
    token = chance.choice(HOSTILE_TOKENS)
    return _objects({**members, key: token}), f"{key} is {token[:24]!r}"


def _inner_token(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    inner = _objects({word: chance.choice(HOSTILE_TOKENS) for word in ("topic", "a", "queueId")})
    return _objects({**members, "extFields": inner}), "extFields of wrong types"


def _hostile_text(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    texts = [key for key, token in sorted(members.items()) if token.startswith(b'"')]
    key = chance.choice(texts) if texts else "remark"
    text = values.name(chance)
    return _objects({**members, key: orjson.dumps(text)}), f"{key} is {text[:24]!r}"


def _deep(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    opening, closing, middle = chance.choice(
        ((b"[", b"]", b""), (b'{"a":', b"}", b"1"), (b'[{"a":', b"}]", b"1"), (b"{{", b":1}:1}", b'"a":1'))
    )
    most = min(100_000, (bound - sum(map(len, members.values())) - 400) // (len(opening) + len(closing)))
    depth = max(1, min(chance.choice((30, 31, 32, 33, 100, 1000, 1023, 1024, 1025, 100_000)), most))
    close = closing if chance.random() < 0.8 else b""
    key = chance.choice(("x", "extFields", "code", "remark"))
    return _objects({**members, key: opening * depth + middle + close * depth}), f"{key} {depth} deep"


def _duplicates(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    key = orjson.dumps(chance.choice(sorted(members)) if members else "code")
    count = chance.choice((1, 2, 1000))
    extra = b",".join(key + b":" + chance.choice((b"1", b'"a"', b"null", b"{}")) for _ in range(count))
    return _objects(members)[:-1] + (b"," if members else b"") + extra + b"}", f"{count} more of {key.decode()}"


def _many_keys(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    room = max(bound - sum(map(len, members.values())) - 400, 100)
    count = min(chance.choice((100, 1000, 1_000_000)), room // 12)
    extra = b",".join(b'"%d":""' % number for number in range(count))
    if chance.random() < 0.5:
        return _objects({**members, "extFields": b"{" + extra + b"}"}), f"{count} fields"
    return _objects(members)[:-1] + (b"," if members else b"") + extra + b"}", f"{count} members"


def _long_text(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    room = bound - sum(map(len, members.values())) - 400
    count = max(1, min(chance.choice((255, 256, 32767, 32768, 65535, 65536, bound)), room))
    key = chance.choice(("remark", "language", "x"))
    return _objects({**members, key: b'"' + b"a" * count + b'"'}), f"{key} of {count} characters"


def _other_text(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    text = chance.choice(WHOLE_TEXTS)
    return text, f"text {text[:16]!r}"


def _junk_after(chance: Random, members: dict[str, bytes], bound: int) -> Damage:
    junk = chance.choice((b" ", b"\n", b"\x00", b"{}", b",", b"x", b"}", b" " * 1000))
    text = _objects(members)
    return (
        (text + junk, f"{junk[:8]!r} after it") if chance.random() < 0.5 else (junk + text, f"{junk[:8]!r} before it")
    )


_TRICKS: tuple[Callable[[Random, dict[str, bytes], int], Damage], ...] = (
    _one_token,
    _one_token,
    _one_token,
    _inner_token,
    _inner_token,
    _hostile_text,
    _deep,
    _duplicates,
    _many_keys,
    _long_text,
    _other_text,
    _junk_after,
)
_RARE = (_deep, _many_keys, _long_text)


def hostile(chance: Random, value: dict[str, Any], bound: int) -> Damage:
    """A hostile text made from an object.

    :param bound: about how many bytes the text may have; the largest tricks use all of it.
    """
    members = {key: orjson.dumps(item) for key, item in value.items()}
    trick = chance.choice(_TRICKS)
    if trick in _RARE and chance.random() < 0.7:
        # The large ones cost a reader, and a link, a thousand times an ordinary case: few are enough.
        trick = _one_token
    return trick(chance, members, bound)
