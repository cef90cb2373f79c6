"""What makes the values of the controller's log and snapshot realistic: texts that are texts, CRCs that are right.

Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import Any

from rocketha.wire.fuzz import values
from rocketha.wire.spec import controller_log

_ADDRESSES = (b"127.0.0.1:10911", b"[::1]:10911", b"broker-0.example-net.org:10911")


def _text(data: bytes) -> bytes:
    return data.decode(errors="ignore").encode()


def _entry(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["version"] = controller_log.VERSION
    value["kind"] = chance.choice((1, 2, 3, 4, 5, 6))
    for name in ("cluster", "broker_name", "asker", "reason"):
        value[name] = _text(value[name]) if chance.random() < 0.5 else chance.choice(values.WORDS).encode()
    value["subject"] = chance.choice(_ADDRESSES) + b";1795256479764"
    value["flags"] &= controller_log.ENTRY_FLAGS
    for each in value["alive"]:
        each["flags"] &= controller_log.ALIVE_FLAGS
    for each in value["seen"]:
        each["text"] = _text(each["text"])
    return value


def _group(chance: Random, group: Any) -> None:
    for name in ("cluster", "broker_name"):
        group[name] = _text(group[name])
    group["flags"] &= controller_log.GROUP_FLAGS
    group["elected_flags"] &= controller_log.ELECTED_FLAGS
    for member in (*group["members"], *group["cleaned"]):
        member["address"] = chance.choice(_ADDRESSES)
        member["check_code"] = _text(member["check_code"])
        member["flags"] &= controller_log.MEMBER_FLAGS


def _snapshot(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["magic"], value["version"] = controller_log.SNAPSHOT_MAGIC, controller_log.SNAPSHOT_VERSION
    for group in value["groups"]:
        _group(chance, group)
    value["crc32"] = 0
    value["crc32"] = zlib.crc32(controller_log.SNAPSHOT.build(value)[:-4])
    return value


FITTINGS: dict[str, Callable[[Random, Any], Any]] = {
    "controller-log-entry": _entry,
    "controller-snapshot": _snapshot,
}
