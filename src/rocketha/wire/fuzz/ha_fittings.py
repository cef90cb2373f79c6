"""What makes the values of HA links and of the epoch file realistic: offsets in range, epochs that ascend, right CRCs.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from rocketha.wire.crc import crc32_31
from rocketha.wire.ha_frames import OFFSET_MAX

_ADDRESSES = (b"127.0.0.1:10911", b"[::1]:10911", b"broker-0.example-net.org:10911", b"h:1", b"h" * 44 + b":10911")


def _offsets(value: Any, *names: str) -> None:
    # The upper two bits are cleared, so that offset and size together stay in range.
    for name in names:
        value[name] &= OFFSET_MAX >> 1


def _report(chance: Random, value: Any) -> Any:
    if chance.random() > 0.1:
        _offsets(value, "offset")
    return value


def _flags(chance: Random, value: Any) -> None:
    value["sync_from_last_file"], value["async_learner"] = chance.randrange(2), chance.randrange(2)


def _hello(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    _flags(chance, value)
    value["broker_id"] = chance.choice((1, 2, 3, 255, (1 << 32) - 1, 1 + value["broker_id"] % 0xFFFFFFFF))
    return value


def _address_hello(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        value["address"] = value["address"][:50]
        return value
    _flags(chance, value)
    value["address"] = chance.choice(_ADDRESSES)
    return value


def _entries(chance: Random, count: int) -> list[tuple[int, int]]:
    epochs = sorted(chance.sample(range(1 << 31), count)) if chance.random() < 0.5 else range(1, count + 1)
    starts = sorted(chance.choice((chance.randrange(1 << 63), chance.randrange(1 << 31), 0)) for _ in range(count))
    return list(zip(epochs, starts, strict=True))


def _answer(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    rows = _entries(chance, len(value["entries"]))
    value["entries"] = [{"epoch": epoch, "start_offset": start} for epoch, start in rows]
    value["epoch"] = rows[-1][0] if rows else -1
    _offsets(value, "max_offset")
    return value


def _data(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    _offsets(value, *({"offset", "epoch_start", "confirm_offset"} & set(value)))
    if "epoch" in value:
        value["epoch"] &= 0x7FFFFFFF
        if not value["body"] and chance.random() < 0.3:
            value["offset"] = -1
    return value


def _file(chance: Random, value: Any) -> Any:
    if chance.random() < 0.05:
        return value
    rows = _entries(chance, len(value["entries"]))
    lines = b"".join(b"%d-%d\n" % row for row in rows)
    value["entries"] = [{"epoch": b"%d" % epoch, "start_offset": b"%d" % start} for epoch, start in rows]
    value["count"] = b"%d" % len(rows)
    value["crc"] = b"%d" % chance.choice((crc32_31(lines), crc32_31(lines), 0))
    return value


FITTINGS: dict[str, Callable[[Random, Any], Any]] = {
    "ha-classic-report": _report,
    "ha-classic-data": _data,
    "ha-slave-hello": _hello,
    "ha-slave-hello-address": _address_hello,
    "ha-slave-hello-seed": _address_hello,
    "ha-report": _report,
    "ha-master-hello": _answer,
    "ha-master-hello-5.0.0": _answer,
    "ha-data": _data,
    "epoch-file": _file,
}
