"""What makes the values of a Raft node's files realistic: magics, versions and checksums that are right.

Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import construct

from rocketha.wire import codec
from rocketha.wire.fuzz import values
from rocketha.wire.spec import raft_log as spec

_IDS = ("n0", "n1", "n2", "node-a", "\u8282\u70b9", "x" * 64)


def _summed(form: construct.Construct, value: Any, start: int) -> Any:
    """Give the value the CRC of what stands from ``start`` on."""
    value["crc"] = 0
    if "header_bytes" in value:
        value["header_bytes"] = len(codec.build(form, value))
    value["crc"] = zlib.crc32(codec.build(form, value)[start:])
    return value


def _file(form: construct.Construct, magic: bytes) -> Callable[[Random, Any], Any]:
    def fit(chance: Random, value: Any) -> Any:
        if chance.random() < 0.1:
            return value
        value["magic"] = magic
        for name in ("group", "node", "vote"):
            if name in value:
                value[name] = chance.choice(_IDS) if name != "vote" else chance.choice((*_IDS, ""))
        if "version" in value:
            value["version"] = spec.VERSION
        if "base" in value:
            value["base"] %= 2
            value["first_index"] = max(1, value["first_index"])
        return _summed(form, value, 12)

    return fit


def _record(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["mark"] = spec.RECORD_MARK
    value["kind"] = 1 + value["kind"] % 3
    return _summed(spec.RECORD, value, 4)


def _block(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["data"] = value["data"][: spec.SNAPSHOT_BLOCK_BYTES] or b"x"
    return _summed(spec.SNAPSHOT_BLOCK, value, 4)


def _members(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    names = sorted({values.text(chance) or "n" for _ in value["nodes"]} | {"n0"})
    nodes: list[dict[str, Any]] = []
    for name in names:
        address = chance.choice(("127.0.0.1:9878", "[::1]:9878", "controller-0.example-net.org:9878", ""))
        nodes.append(
            {"id": name[:60], "address": address, "roles": 1 + chance.randrange(15) + 16 * (chance.random() < 0.1)}
        )
    unique = {node["id"]: node for node in nodes}
    since_ms = chance.choice((None, chance.getrandbits(40)))
    return {
        "version": spec.VERSION if since_ms is None else spec.MEMBERS_TIMED,
        "since_ms": since_ms,
        "nodes": [unique[name] for name in sorted(unique)],
    }


def _three() -> bytes:
    return codec.build(spec.MEMBERS, _members(Random(0), {"nodes": [1, 2, 3]}))


def _rows(chance: Random, first: int, count: int) -> list[dict[str, Any]]:
    members, term = _three(), 1 + chance.getrandbits(8)
    return [{"index": first + at, "term": term + at // 2, "members": members} for at in range(count)]


def _witness(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    first, term = chance.getrandbits(30), chance.getrandbits(8)
    spans = [{"index": first + 3 * at, "term": term + at} for at in range(1 + len(value["spans"]))]
    rows = _rows(chance, first + 1, len(value["memberships"]))
    last = max([spans[-1]["index"], *(row["index"] for row in rows)]) + chance.randrange(3)
    whole = {"magic": spec.WITNESS_MAGIC, "crc": 0, "length": 0, "version": spec.VERSION, "number": value["number"]}
    whole |= {"last_index": last, "members": _three(), "spans": spans, "memberships": rows}
    whole["length"] = len(codec.build(spec.WITNESS, whole)) - 16
    return _summed(spec.WITNESS, whole, 12)


def _memberships(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    rows = _rows(chance, 1 + chance.getrandbits(30), len(value["rows"]))
    whole = {"magic": spec.MEMBERSHIPS_MAGIC, "version": spec.VERSION, "rows": rows}
    return _summed(spec.MEMBERSHIPS, whole, 12)


FITTINGS: dict[str, Callable[[Random, Any], Any]] = {
    "raft-members": _members,
    "raft-memberships": _memberships,
    "raft-witness": _witness,
    "raft-record": _record,
    "raft-segment-header": _file(spec.SEGMENT_HEADER, spec.SEGMENT_MAGIC),
    "raft-hard-state": _file(spec.HARD_STATE, spec.STATE_MAGIC),
    "raft-progress": _file(spec.PROGRESS, spec.PROGRESS_MAGIC),
    "raft-snapshot-header": _file(spec.SNAPSHOT_HEADER, spec.SNAPSHOT_MAGIC),
    "raft-snapshot-block": _block,
}
