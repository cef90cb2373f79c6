"""What makes DLedger's JSON bodies realistic: members that have ids, entries that follow each other.

Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from random import Random
from typing import Any

from rocketha.wire.fuzz import values
from rocketha.wire.spec import dledger

_IDS = ("n0", "n1", "n2", "broker-a-1", "", "a" * 255)
_GROUPS = ("broker-a", "group1", "DefaultGroup")
_RESULTS = ("UNKNOWN", "ACCEPT", "REJECT_ALREADY_VOTED", "REJECT_TERM_NOT_READY", "accept", "REJECT_BY_TASTE")
_TYPES = ("APPEND", "APPEND", "COMMIT", "COMPARE", "TRUNCATE", "append")
_PLACES = (0, 1, 77, 1 << 32, (1 << 63) - 100_000)
_COUNTS = (0, 1, 1, 2, 3, 20)


def _made(chance: Random, index: int, term: int, position: int) -> dict[str, Any]:
    body = values.octets(chance, chance.choice((0, 1, 2, 3, 91, 1000)))
    return {
        "body": base64.b64encode(body).decode(),
        "bodyCrc": 0,
        "chainCrc": 0,
        "channel": 0,
        "index": index,
        "magic": dledger.MAGIC,
        "pos": position,
        "size": dledger.ENTRY_HEAD.sizeof() + len(body),
        "term": term,
    }


def _run(chance: Random, count: int) -> list[dict[str, Any]]:
    index, term, position = (chance.choice(_PLACES) for _ in range(3))
    made = []
    for number in range(count):
        made.append(_made(chance, index + number, term, position))
        position += int(made[-1]["size"])
    return made


def _entry(chance: Random, value: Any) -> Any:
    return value if chance.random() < 0.1 else _run(chance, 1)[0]


def _message(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    value["group"] = chance.choice(_GROUPS)
    for name in ("leaderId", "localId", "remoteId", "transferId", "transfereeId"):
        if name in value:
            value[name] = chance.choice(_IDS)
    if "body" in value:
        value["body"] = base64.b64encode(value["body"].encode()).decode()
    if "peers" in value:
        value["peers"] = {f"n{number}": f"10.0.0.{number}:9878" for number in range(chance.choice(_COUNTS))}
    if "voteResult" in value:
        value["voteResult"] = chance.choice(_RESULTS)
    if "entries" in value:
        value["entries"] = _run(chance, chance.choice((0, 1, 1, 2)))
    return value


def _push(chance: Random, value: Any) -> Any:
    value = _message(chance, value)
    value["type"] = chance.choice(_TYPES)
    value["batchEntry"] = _run(chance, chance.choice(_COUNTS)) if chance.random() < 0.5 else []
    value["entry"] = None if value["batchEntry"] or chance.random() < 0.2 else _run(chance, 1)[0]
    return value


FITTINGS: dict[str, Callable[[Random, Any], Any]] = {
    "dledger-entry": _entry,
    "dledger-message": _message,
    "dledger-metadata-answer": _message,
    "dledger-append": _message,
    "dledger-append-answer": _message,
    "dledger-get": _message,
    "dledger-get-answer": _message,
    "dledger-vote": _message,
    "dledger-vote-answer": _message,
    "dledger-push": _push,
    "dledger-push-answer": _message,
    "dledger-transfer": _message,
}
