"""What makes the values of Raft's frames realistic: kinds that exist, numbers in range, names that are names.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from rocketha.wire.fuzz import values
from rocketha.wire.raft_values import Kind, Members
from rocketha.wire.spec import raft

_NUMBERS = ("term", "index", "log_term", "commit", "hint_index", "hint_term", "context")
_IDS = ("n0", "n1", "n2", "node-a", "\u8282\u70b9", "x" * 64)
_ADDRESSES = ("127.0.0.1:9878", "[::1]:9878", "controller-0.example-net.org:9878", "")
_PLAIN = tuple(kind for kind in Kind if kind not in (Kind.APPEND, Kind.SNAPSHOT))


def _ranged(value: Any, *names: str) -> None:
    for name in names:
        value[name] &= (1 << 63) - 1


def _head(chance: Random, value: Any, kinds: tuple[Kind, ...]) -> bool:
    """Whether the value was made realistic."""
    if chance.random() < 0.1:
        return False
    value["kind"] = int(chance.choice(kinds))
    value["flags"] %= 4
    _ranged(value, *_NUMBERS)
    return True


def _message(chance: Random, value: Any) -> Any:
    _head(chance, value, _PLAIN)
    return value


def _append(chance: Random, value: Any) -> Any:
    if _head(chance, value, (Kind.APPEND,)):
        for entry in value["entries"]:
            entry["kind"] = 1 + entry["kind"] % 4
            _ranged(entry, "term")
            entry["count"] = chance.randint(2, max(2, len(entry["data"]))) if entry["kind"] == raft.RUN else None
    return value


def _snapshot(chance: Random, value: Any) -> Any:
    if _head(chance, value, (Kind.SNAPSHOT,)):
        _ranged(value, "snapshot_index", "snapshot_term", "offset")
        ids = chance.sample(_IDS, chance.choice((0, 1, 3, 5)))
        members = Members(voters=frozenset(ids), addresses={each: chance.choice(_ADDRESSES) for each in ids})
        value["members"] = members.encode()
    return value


def _hello(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["kind"] = chance.choice((raft.HELLO, raft.WELCOME))
    value["version"] = raft.VERSION
    value["group"] = chance.choice(values.WORDS).encode()
    value["sender"], value["receiver"] = (chance.choice(_IDS).encode() for _ in range(2))
    value["address"] = chance.choice(_ADDRESSES).encode()
    value["members"] = value["members"][:20_000]
    return value


def _error(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["kind"] = raft.ERROR
    value["text"] = values.text(chance).encode()[:1000].decode(errors="ignore").encode()
    return value


def _ping(chance: Random, value: Any) -> Any:
    value["kind"] = chance.choice((raft.PING, raft.PONG))
    return value


def _proof(chance: Random, value: Any) -> Any:
    value["kind"] = chance.choice((raft.CHALLENGE, raft.PROOF))
    return value


FITTINGS: dict[str, Callable[[Random, Any], Any]] = {
    "raft-message": _message,
    "raft-append": _append,
    "raft-snapshot": _snapshot,
    "raft-hello": _hello,
    "raft-error": _error,
    "raft-ping": _ping,
    "raft-proof": _proof,
}
