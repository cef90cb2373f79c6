"""What makes PROXY headers realistic: addresses and ports, as many bytes as the family has.

Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from random import Random
from typing import Any

from rocketha.wire.fuzz import values
from rocketha.wire.spec import proxy as spec

_PORTS = ("0", "1", "443", "65535", "65536", "-1", "007", "1e3", "")


def _address(chance: Random, version: int) -> str:
    if version == 4:
        return str(ipaddress.IPv4Address(chance.getrandbits(32)))
    mapped = 0xFFFF << 32 | chance.getrandbits(32)
    return str(ipaddress.IPv6Address(mapped if chance.random() < 0.3 else chance.getrandbits(128)))


def _port(chance: Random) -> str:
    return str(chance.randrange(1 << 16)) if chance.random() < 0.95 else chance.choice(_PORTS)


def _line(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    version = chance.choice((4, 6))
    words = [f"TCP{version}", *(_address(chance, version) for _ in range(2)), _port(chance), _port(chance)]
    if chance.random() < 0.1:
        words = ["UNKNOWN", *words[1 : chance.randrange(6)]]
    elif chance.random() < 0.1:
        words[chance.randrange(5)] = values.text(chance)
    value["text"] = " ".join(words).encode().replace(b"\r", b"")
    return value


def _header(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["command"] = chance.choice((spec.LOCAL, spec.PROXY, spec.PROXY, spec.PROXY))
    value["family"] = chance.choice((spec.UNKNOWN, spec.TCP4, spec.TCP6, spec.UNIX))
    ends = {spec.TCP4: spec.ENDS_4.sizeof(), spec.TCP6: spec.ENDS_6.sizeof(), spec.UNIX: spec.UNIX_BYTES}
    value["content"] = chance.randbytes(ends.get(value["family"], 0)) + value["content"][:1000]
    return value


FITTINGS: dict[str, Callable[[Random, Any], Any]] = {"proxy-line": _line, "proxy-header": _header}
