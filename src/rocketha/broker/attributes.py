"""Attributes of topics and groups: how ``+key=value,-key`` changes them, and which keys exist.

Pure.  An update carries changes, not values: ``+k`` sets, ``-k`` removes.  The table keeps plain keys.
Java: ``AttributeParser``, ``AttributeUtil``, ``TopicAttributes``, ``SubscriptionGroupAttributes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from rocketha.wire.codes import ResponseCode
from rocketha.wire.fields import LONG_MAX, refused

ATTRIBUTES_MAX = 64
TEXT_LENGTH_MAX = 1024


@attrs.frozen
class Attribute:
    """One known key: whether it may change after creation, and what its value may be."""

    name: str
    changeable: bool
    allowed: str
    accepts: Callable[[str], bool]


def _one_of(name: str, changeable: bool, values: tuple[str, ...]) -> Attribute:
    return Attribute(name, changeable, " or ".join(values), lambda value: value in values)


def _reserve_time(value: str) -> bool:
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 19 and -1 <= int(value) <= LONG_MAX


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        _one_of("queue.type", False, ("BatchCQ", "SimpleCQ")),
        _one_of("cleanup.policy", False, ("DELETE", "COMPACTION")),
        _one_of("message.type", True, ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")),
        Attribute("reserve.time", True, "-1 or a number of ms", _reserve_time),
    )
}
GROUP_ATTRIBUTES: Mapping[str, Attribute] = {}


def parse_changes(text: str | None) -> dict[str, str]:
    """``+k=v,-k`` as a map with the signs kept on the keys.

    :raises RequestRefused: 1, Java's code and remark for a part without sign or value, or that comes twice.
    """
    changes: dict[str, str] = {}
    if not text:
        return changes
    for part in text.split(","):
        key, equals, value = part.partition("=")
        key = key.strip()
        if equals:
            if not key.startswith("+"):
                raise _wrong(f"add/alter attribute format is wrong: {key}")
        elif not key.startswith("-"):
            raise _wrong(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise _wrong(f"key duplication: {key}")
        changes[key] = value.strip()
    return changes


def alter(
    create: bool, known: Mapping[str, Attribute], current: Mapping[str, str], changes: Mapping[str, str]
) -> dict[str, str]:
    """The attributes after ``changes``.

    :raises RequestRefused: 1, Java's code and remark for a change that is not allowed.
    """
    if len(changes) > ATTRIBUTES_MAX:
        raise refused(f"{len(changes)} attributes, allowed are {ATTRIBUTES_MAX}")
    result = dict(current)
    seen: set[str] = set()
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if not key or "+" in key or "-" in key:
            raise _wrong("kv string format wrong.")
        if key in seen:
            raise _wrong(f"alter duplication key. key: {key}")
        seen.add(key)
        if create and sign != "+":
            raise _wrong(f"only add attribute is supported while creating topic. key: {key}")
        if sign not in ("+", "-"):
            raise _wrong(f"wrong format key: {key}")
        if sign == "-" and key not in current:
            raise _wrong(f"attempt to delete a nonexistent key: {key}")
        attribute = known.get(key)
        if attribute is None:
            raise _wrong(f"unsupported key: {key}")
        if not create and not attribute.changeable:
            raise _wrong(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del result[key]
            continue
        if len(value) > TEXT_LENGTH_MAX or not attribute.accepts(value):
            raise _wrong(f"value of {key} is not in set: {attribute.allowed}")
        result[key] = value
    return result


def _wrong(remark: str) -> Exception:
    return refused(remark[:512], ResponseCode.SYSTEM_ERROR)
