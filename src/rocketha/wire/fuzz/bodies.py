"""Bodies of requests, realistic and hostile.

Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import orjson

from rocketha.wire.fuzz import json_text, values
from rocketha.wire.fuzz.damage import Damage
from rocketha.wire.fuzz.request_table import POOLS, REQUESTS, filled


def make_body(chance: Random, kind: str) -> bytes:
    """The body of a kind; nothing for no kind."""
    return _BODIES[kind](chance) if kind else b""


def _message(chance: Random) -> bytes:
    return values.octets(chance, chance.choice((0, 1, 16, 16, 128, 128, 300)))


def _batch(chance: Random) -> bytes:
    parts = []
    for _ in range(chance.choice((1, 2, 4, 32))):
        body, block = values.octets(chance, chance.choice((1, 16, 100))), filled(chance, "properties").encode()
        lengths = (22 + len(body) + len(block), 0, 0, 0, len(body))
        parts.append(
            b"".join(number.to_bytes(4, "big") for number in lengths) + body + len(block).to_bytes(2, "big") + block
        )
    return b"".join(parts)


def _subscription(chance: Random) -> dict[str, Any]:
    return {
        "classFilterMode": False,
        "codeSet": [2598919],
        "expressionType": "TAG",
        "subString": filled(chance, "expression"),
        "subVersion": 1795256860020,
        "tagsSet": ["TagA"],
        "topic": filled(chance, "topic"),
    }


def _heartbeat(chance: Random) -> bytes:
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": chance.choice(("CONSUME_PASSIVELY", "CONSUME_ACTIVELY", "CONSUME_POP")),
        "groupName": filled(chance, "group"),
        "messageModel": chance.choice(("CLUSTERING", "BROADCASTING")),
        "subscriptionDataSet": [_subscription(chance) for _ in range(chance.choice((0, 1, 2)))],
        "unitMode": False,
    }
    return orjson.dumps(
        {
            "clientID": filled(chance, "client"),
            "consumerDataSet": [consumer] if chance.random() < 0.7 else [],
            "heartbeatFingerprint": chance.choice((0, 0, 5)),
            "producerDataSet": [{"groupName": filled(chance, "group")}],
            "withoutSub": chance.random() < 0.2,
        }
    )


def _queues(chance: Random) -> list[dict[str, Any]]:
    return [
        {
            "brokerName": filled(chance, "broker"),
            "queueId": chance.choice((0, 0, 1, 2, 3, 7, 0, 1, -1)),
            "topic": filled(chance, "topic"),
        }
        for _ in range(chance.choice((0, 1, 3)))
    ]


def _lock(chance: Random) -> bytes:
    return orjson.dumps(
        {
            "clientId": filled(chance, "client"),
            "consumerGroup": filled(chance, "group"),
            "mqSet": _queues(chance),
            "onlyThisBroker": True,
        }
    )


def _check(chance: Random) -> bytes:
    return orjson.dumps(
        {
            "clientId": filled(chance, "client"),
            "group": filled(chance, "group"),
            "subscriptionData": _subscription(chance),
        }
    )


def _data_version(chance: Random) -> dict[str, Any]:
    return {"counter": chance.choice((0, 1, 19)), "stateVersion": chance.choice((0, 0, 1)), "timestamp": 1795256860020}


def _topic_config(name: str) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }


def _register_object(chance: Random) -> dict[str, Any]:
    names = POOLS["topic"][: chance.choice((0, 1, 2, 5))]
    wrapper = {
        "dataVersion": _data_version(chance),
        "mappingDataVersion": _data_version(chance),
        "topicConfigTable": {name: _topic_config(name) for name in names},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}


def _counted(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _register_packed(chance: Random) -> bytes:
    """The deprecated compressed form, before compression."""
    names = POOLS["topic"][: chance.choice((0, 1, 3))]
    topics = b"".join(_counted(f"{name} 4 4 6 SINGLE_TAG {{}}".encode()) for name in names)
    return (
        _counted(orjson.dumps(_data_version(chance)))
        + len(names).to_bytes(4, "big")
        + topics
        + _counted(b"[]")
        + b"\x00\x00\x00\x00"
    )


def _register(chance: Random) -> bytes:
    if chance.random() < 0.3:
        return zlib.compress(_register_packed(chance), 1)
    return orjson.dumps(_register_object(chance))


def _group_config(chance: Random) -> bytes:
    return orjson.dumps(
        {"groupName": filled(chance, "group"), "retryMaxTimes": 16, "retryQueueNums": 1, "consumeEnable": True}
    )


def _route(chance: Random) -> bytes:
    queue = {
        "brokerName": filled(chance, "broker"),
        "perm": 6,
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "topicSysFlag": 0,
    }
    return orjson.dumps({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [queue]})


def _config(chance: Random) -> bytes:
    """No key that exists: a server that obeyed one would change under the run."""
    return chance.choice(
        (
            b"fuzzKey=1\n",
            b"",
            b"=",
            b"fuzzKey",
            b"fuzz\x00Key=\x00",
            b"\xff\xfe=1\n",
            b"fuzzKey=" + b"a" * 5000,
            b"\n" * 3000,
            b"#x\n!y\n",
        )
    )


def _any_json(chance: Random) -> bytes:
    return orjson.dumps(
        chance.choice(
            (
                {},
                [],
                {"topic": "fuzz-topic-a"},
                {"topicConfigList": [_topic_config("fuzz-topic-a")]},
                {"consumerGroup": "g"},
            )
        )
    )


_BODIES: dict[str, Callable[[Random], bytes]] = {
    "message": _message,
    "batch": _batch,
    "heartbeat": _heartbeat,
    "lock": _lock,
    "check": _check,
    "register": _register,
    "data_version": lambda chance: orjson.dumps(_data_version(chance)),
    "group_config": _group_config,
    "route": _route,
    "config": _config,
    "json": _any_json,
}

_NOT_JSON = ("message", "batch", "config", "")

_BOMBS: dict[int, bytes] = {}


def zlib_bomb(size: int) -> bytes:
    """``size`` zero bytes, deflated about 1000:1."""
    if size not in _BOMBS:
        _BOMBS[size] = zlib.compress(bytes(size), 9)
    return _BOMBS[size]


def hostile_body(chance: Random, head: dict[str, Any], body: bytes) -> Damage:
    """A request's body made hostile; sets header fields where the body's reader looks at them.

    :param head: the request's header object; changed in place.
    """
    fields: dict[str, Any] = head["extFields"]
    if head["code"] == 103 and chance.random() < 0.7:
        fields.update(compressed="true", bodyCrc32="0")
        pick = chance.random()
        if pick < 0.1:
            return zlib_bomb(chance.choice((1 << 20, 32 << 20))), "zlib bomb"
        packed = bytearray(_register_packed(chance))
        at = chance.choice((0, 0, chance.randrange(len(packed))))
        packed[at : at + 4] = chance.choice(values.borders(32, True)).to_bytes(4, "big", signed=True)
        data = zlib.compress(bytes(packed), 1)
        return (
            (data, f"length at {at} of the packed body")
            if pick < 0.8
            else (data[: chance.randrange(len(data))], "zlib stream cut")
        )
    if REQUESTS[head["code"]][1] not in _NOT_JSON and body[:1] == b"{":
        return _hostile_json_body(chance, body)
    pick = chance.random()
    if body and pick < 0.7:
        at = chance.randrange(len(body))
        lie = chance.choice(values.borders(32, True)).to_bytes(4, "big", signed=True)
        return body[: at - at % 4] + lie + body[at - at % 4 + 4 :], f"body's word {at // 4} = {lie.hex()}"
    return values.octets(chance, chance.choice((0, 1, 3, 300, 5000))), "another body"


def _hostile_json_body(chance: Random, body: bytes) -> Damage:
    value = orjson.loads(body)
    if not value or chance.random() < 0.4:
        return json_text.hostile(chance, value, chance.choice((2048, 20000)))
    # Deeper: one hostile value somewhere inside.
    holders: list[Any] = [value]
    for holder in holders:
        inner = holder.values() if isinstance(holder, dict) else holder
        holders.extend(item for item in inner if isinstance(item, dict | list))
    holder = chance.choice([item for item in holders if item] or [value])
    key: Any = chance.choice(sorted(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
    marker = chance.choice(
        (values.name(chance), values.integer(chance, 64, True), None, -1, 1.5, [], {}, [None], {"": None}, True)
    )
    if isinstance(holder, dict) and chance.random() < 0.3:
        holder[values.name(chance)] = holder.pop(key)
    else:
        holder[key] = marker
    return orjson.dumps(value), f"body's {str(key)[:24]!r}"
