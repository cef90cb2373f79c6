"""What makes the JSON bodies of replication realistic: ids that are ids, tables with something in them.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from rocketha.wire.fuzz import values

_NAMES = ("TopicA", "%RETRY%group-a", "group-a", "TBW102", "a" * 127)
_LONG = (1 << 63) - 1
_FEW = (0, 1, 1, 2, 3, 20)


def _offset(chance: Random) -> int:
    return chance.choice((0, 1, 77, 1 << 30, 1 << 40, _LONG))


def _version(chance: Random) -> dict[str, int]:
    return {"counter": chance.randrange(1 << 20), "stateVersion": chance.randrange(9), "timestamp": _offset(chance)}


def _set(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    if "syncStateSet" in value:
        value["syncStateSet"] = [chance.choice((1, 2, 3, _LONG)) for _ in range(chance.choice((0, 1, 2, 3, 9)))]
    if "syncStateSetEpoch" in value:
        value["syncStateSetEpoch"] &= 0x7FFFFFFF
    return value


def _status(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    if "inSyncSlaveNums" in value:
        value["inSyncSlaveNums"] &= 0x7FFFFFFF
    value["haClientRuntimeInfo"] = {
        "lastReadTimestamp": _offset(chance),
        "lastWriteTimestamp": _offset(chance),
        "masterAddr": "127.0.0.1:10912",
        "masterFlushOffset": _offset(chance),
        "maxOffset": _offset(chance),
        "transferredByteInSecond": _offset(chance),
    }
    value["haConnectionInfo"] = [
        {
            "addr": "127.0.0.1:51134",
            "diff": values.integer(chance, 64, True),
            "inSync": chance.random() < 0.5,
            "slaveAckOffset": _offset(chance),
            "transferFromWhere": chance.choice((-1, _offset(chance))),
            "transferredByteInSecond": _offset(chance),
        }
        for _ in range(chance.choice(_FEW))
    ]
    return value


def _epochs(chance: Random, value: Any) -> Any:
    if chance.random() < 0.1:
        return value
    count = chance.choice(_FEW)
    starts = sorted(chance.randrange(1 << 40) for _ in range(count))
    ends = [*starts[1:], _LONG]
    value["epochList"] = [
        {"endOffset": end, "epoch": epoch, "startOffset": start}
        for epoch, (start, end) in enumerate(zip(starts, ends, strict=False), 1)
    ]
    for name in ("brokerId", "maxOffset"):
        if name in value:
            value[name] &= _LONG
    return value


def _names(chance: Random) -> list[str]:
    return chance.sample(_NAMES, chance.choice((0, 1, 3, 5)))


def _table(chance: Random, value: Any) -> Any:
    if "dataVersion" in value:
        value["dataVersion"] = _version(chance)
    if "topicConfigTable" in value:
        value["topicConfigTable"] = {
            name: {"attributes": {}, "perm": 6, "readQueueNums": 4, "topicName": name} for name in _names(chance)
        }
    if "subscriptionGroupTable" in value:
        value["subscriptionGroupTable"] = {
            name: {"groupName": name, "retryQueueNums": 1, "consumeEnable": True} for name in _names(chance)
        }
    if "forbiddenTable" in value:
        value["forbiddenTable"] = {name: {"TopicA": 4} for name in _names(chance)}
    if "messageRequestModeMap" in value:
        mode = {"consumerGroup": "group-a", "mode": "POP", "popShareQueueNum": 0, "topic": "TopicA"}
        value["messageRequestModeMap"] = {name: {"group-a": mode} for name in _names(chance)}
    return value


def _queues(chance: Random) -> dict[str, int]:
    return {str(queue): _offset(chance) for queue in range(chance.choice(_FEW))}


def _offsets(chance: Random, value: Any) -> Any:
    value = _table(chance, value)
    for name in ("offsetTable", "pullOffsetTable"):
        if name in value:
            value[name] = {f"{topic}@group-a": _queues(chance) for topic in _names(chance)}
    return value


def _delays(chance: Random, value: Any) -> Any:
    value = _table(chance, value)
    value["offsetTable"] = _queues(chance)
    return value


FITTINGS: dict[str, Callable[[Random, Any], Any]] = {
    "sync-state-set": _set,
    "ha-status": _status,
    "epoch-cache": _epochs,
    "topic-table": _table,
    "group-table": _table,
    "offset-table": _offsets,
    "delay-offsets": _delays,
    "request-modes": _table,
}
