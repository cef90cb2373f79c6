"""Cases for ports that speak something else than remoting, and for TLS itself: what a connection begins with.

Pure.  A case follows from its seed and number alone.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rocketha.wire import raft_frames
from rocketha.wire.fuzz import damage, values
from rocketha.wire.fuzz.case import CUT, HOSTILE, KINDS, MUTATED, VALID, Case
from rocketha.wire.fuzz.generator import Generator
from rocketha.wire.registry import FORMATS
from rocketha.wire.spec.raft import MAGIC

Source = Callable[[int, int], Case]
"""(seed, number) -> the case."""

RAFT = ("raft-hello", "raft-proof", "raft-ping", "raft-message", "raft-append", "raft-snapshot", "raft-error")
HA = (
    "ha-slave-hello",
    "ha-slave-hello-address",
    "ha-slave-hello-seed",
    "ha-report",
    "ha-classic-report",
    "ha-master-hello",
    "ha-data",
)
SHORT_MAX = 100_000
"""Bytes of a part of a case: a stream is no test of how much a machine can send itself."""


class Streams:
    """Some values of formats one after the other, damaged or whole.

    :param wrap: makes of values what a connection carries.
    """

    def __init__(self, name: str, formats: tuple[str, ...], wrap: Callable[[Random, list[bytes]], bytes]) -> None:
        self._name = name
        self._formats = formats
        self._wrap = wrap
        self._generators: dict[tuple[str, int], Generator] = {}

    def __call__(self, seed: int, index: int) -> Case:
        chance = Random(f"{seed}:{self._name}:{index}")
        parts, notes = [], []
        for number in range(chance.choice((1, 1, 2, 3))):
            name = self._formats[0] if not number and chance.random() < 0.5 else chance.choice(self._formats)
            generator = self._generators.setdefault((name, seed), Generator(FORMATS[name], seed))
            case = generator.case(index * 4 + number)
            parts.append(case.data[:SHORT_MAX])
            notes.append(f"{name} {case.kind}")
        data, kind = self._wrap(chance, parts), chance.choice(KINDS)
        if kind == MUTATED:
            data, note = damage.mutate(chance, data, [], data[::-1])
            notes.append(note)
        elif kind == CUT:
            data, note = damage.cut(chance, data, [])
            notes.append(note)
        return Case(self._name, seed, index, kind, ", ".join(notes), data)


def raft(chance: Random, parts: list[bytes]) -> bytes:
    """As a member's connection begins."""
    return MAGIC + b"".join(raft_frames.seal(part) if chance.random() < 0.9 else part for part in parts)


def ha(chance: Random, parts: list[bytes]) -> bytes:
    """As a slave's."""
    return b"".join(parts)


_PATHS = ("/metrics", "/healthz", "/readyz", "/", "/../etc/passwd", "/%2e%2e/", "/metrics?x=1", "*", "http://x/metrics")


def http(seed: int, index: int) -> Case:
    """A request of a browser, a scraper, or neither."""
    chance = Random(f"{seed}:http:{index}")
    method = chance.choice(
        ("GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "CONNECT", "get", values.name(chance))
    )
    path = chance.choice(_PATHS) if chance.random() < 0.8 else "/" + values.name(chance)
    lines = [f"{method} {path} HTTP/{chance.choice(('1.1', '1.0', '0.9', '2.0', '1'))}"]
    for _ in range(chance.choice((0, 1, 2, 200))):
        name = chance.choice(
            ("Host", "Content-Length", "Transfer-Encoding", "Connection", "Accept", values.name(chance))
        )
        value = chance.choice(("x", "0", "-1", "99999999999999999999", "chunked", "close", values.name(chance)))
        lines.append(f"{name}: {value}")
    data = ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")
    kind = chance.choice((VALID, MUTATED, HOSTILE))
    note = f"{method[:20]} {path[:40]}"
    if kind == MUTATED:
        data, what = damage.mutate(chance, data, [], data[::-1])
        note += f", {what}"
    elif kind == HOSTILE:
        data += values.octets(chance, chance.randrange(300)) if chance.random() < 0.5 else data
    return Case("http", seed, index, kind, note, data)


HELLOS = (
    bytes.fromhex(
        "16030100f2010000ee03035c9dee7bf16aa89c3ebbbb719c124ccb4869fc729561ce1e0d08f55286a45d43206b691098a20f"
        "0a0c9fa2bec12b893b927bd403d363b9f927c763fe01a4d6efcc0010130213031301c02cc030c02bc02f00ff01000095000b"
        "000403000102000a00160014001d0017001e0019001801000101010201030104002300000016000000170000000d002a0028"
        "040305030603080708080809080a080b080408050806040105010601030303010302040205020602002b0005040304030300"
        "2d00020101003300260024001d0020406cb9cf1e6e4f5c2e582b059685b68aac31a867686c63b30d01e0cdb9b6e872"
    ),
    bytes.fromhex(
        "1603010089010000850303702475750d604365d549057f82d390d6e164ce423d4aa293b8d85657c94df37600000ac02cc030"
        "c02bc02f00ff01000052000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d002a"
        "0028040305030603080708080809080a080b080408050806040105010601030303010302040205020602"
    ),
)
"""How a client of TLS 1.3, and one of 1.2, began once."""


def handshake(seed: int, index: int) -> Case:
    """TLS records before and within a handshake, damaged."""
    chance = Random(f"{seed}:tls:{index}")
    data, kind, notes = chance.choice(HELLOS), MUTATED, []
    pick = chance.random()
    if pick < 0.6:
        data, note = damage.mutate(chance, data, [], chance.choice(HELLOS))
        notes.append(note)
    elif pick < 0.75:
        data, note = damage.cut(chance, data, [])
        kind = CUT
        notes.append(note)
    for _ in range(chance.choice((0, 1, 1, 3))):
        record, note = _record(chance)
        data += record
        notes.append(note)
    if data[:1] != b"\x16" and chance.random() < 0.8:  # it is another protocol then
        data = b"\x16" + data[1:]
    return Case("tls", seed, index, kind, ", ".join(notes), data)


def _record(chance: Random) -> tuple[bytes, str]:
    """One of any kind, version and length, true or not."""
    kind = chance.choice((20, 21, 22, 23, 24, 0, 255))
    body = values.octets(chance, chance.choice((0, 1, 2, 4, 40, 300)))
    if kind == 22 and chance.random() < 0.7:
        message = chance.choice((0, 1, 2, 4, 5, 8, 11, 13, 15, 16, 20, 24, 254))
        size = chance.choice((len(body), 0, 1, 0xFFFFFF, len(body) + 1))
        body = bytes((message,)) + size.to_bytes(3, "big") + body
    length = chance.choice((len(body), len(body), len(body), 0, 16384, 16385, 0xFFFF)) & 0xFFFF
    version = chance.choice((b"\x03\x03", b"\x03\x01", b"\x03\x04", b"\x02\x00", b"\x00\x00", b"\xff\xff"))
    return bytes((kind,)) + version + length.to_bytes(2, "big") + body, f"record {kind} of {length}"
