"""Requests as no client of Java's writes them, sent to Java's server and to ours: the same verdict?

Bodies and header fields of good requests are changed in one to three places: other types, nulls, lists for values,
names in another case, what is left out.  A verdict is *served* (code 0), *refused* (any other), or *closed*.  A seed
fixes the requests.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .harness import Role

SERVED, REFUSED, CLOSED = "served", "refused", "closed"
WINDOW = 256
"""Requests under way on a connection: the answers of so many are waited for together."""
WAIT_S = 30

HEART_BEAT, LOCK, UNLOCK, UPDATE_OFFSET, REGISTER = 34, 41, 42, 15, 103

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    5,
    2**31,
    2**63,
    1.0,
    1.5,
    -0.5,
    "",
    " ",
    "0",
    "1",
    "-1",
    "5",
    "1.5",
    "abc",
    "true",
    "TRUE",
    "null",
    "2147483648",
    [],
    [1],
    ["1"],
    [None],
    ["abc"],
    [[]],
    [{}],
    {},
    {"a": 1},
    {"1": "x"},
    [1, 2],
)


class Case(NamedTuple):
    """One request; ``changes`` says what of a good one was changed, as ``path: value``."""

    code: int
    fields: dict[str, Any]
    body: Any
    changes: tuple[str, ...]


def _subscription(topic: str) -> dict[str, Any]:
    return {
        "classFilterMode": False,
        "codeSet": [2598919],
        "expressionType": "TAG",
        "subString": "TagA",
        "subVersion": 1795595085529,
        "tagsSet": ["TagA"],
        "topic": topic,
    }


def _heartbeat() -> dict[str, Any]:
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": "G",
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [_subscription("T"), _subscription("%RETRY%G")],
        "unitMode": False,
    }
    return {
        "clientID": "10.0.0.1@7",
        "consumerDataSet": [consumer],
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": "PG"}],
        "withoutSub": False,
    }


def _locks(broker: str, group: str) -> dict[str, Any]:
    queues = [{"brokerName": broker, "queueId": number, "topic": "T"} for number in range(2)]
    return {"clientId": "10.0.0.1@7", "consumerGroup": group, "mqSet": queues, "onlyThisBroker": False}


def _registration(*topics: str) -> dict[str, Any]:
    topic = {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    version = {"counter": 3, "stateVersion": 0, "timestamp": 1795595085529}
    wrapper: dict[str, Any] = {"dataVersion": version, "topicQueueMappingInfoMap": {}}
    wrapper["topicConfigTable"] = {name: {**copy.deepcopy(topic), "topicName": name} for name in topics}
    return {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}


_OFFSET = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "0"}
_BROKER = {
    "brokerAddr": "127.0.0.1:4711",
    "brokerId": "0",
    "brokerName": "verdict",
    "clusterName": "C",
    "bodyCrc32": "0",
    "haServerAddr": "127.0.0.1:4712",
    "compressed": "false",
    "enableActingMaster": "false",
}


_REGISTERED = Case(REGISTER, _BROKER, _registration("V", "W"), ())
_names = itertools.count()


def _own_names() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Gives requests that name the broker a name and an address that no connection had before."""
    number = next(_names)
    own = {_BROKER["brokerName"]: f"verdict{number}", _BROKER["brokerAddr"]: f"127.0.{number >> 8}.{number & 255}:4711"}
    return lambda fields: {
        key: own.get(value, value) if isinstance(value, str) else value for key, value in fields.items()
    }


def unchanged(broker: str) -> list[Case]:
    """What is changed, as it was: served by everybody."""
    locks = [Case(code, {}, _locks(broker, "G"), ()) for code in (LOCK, UNLOCK)]
    return [Case(HEART_BEAT, {}, _heartbeat(), ()), *locks, Case(UPDATE_OFFSET, dict(_OFFSET), None, ())]


def broker_cases(count: int, chance: random.Random, broker: str) -> Iterator[Case]:
    """Heartbeats, locks, unlocks and offset reports."""
    for _ in range(count):
        code = chance.choice((HEART_BEAT, HEART_BEAT, LOCK, UNLOCK, UPDATE_OFFSET))
        if code == UPDATE_OFFSET:
            yield _changed(code, dict(_OFFSET), None, chance)
        else:
            # A group each: a lock without an owner stays in Java's table, which then fails for everybody.
            locks = _locks(broker, f"G{chance.getrandbits(64):x}")
            yield _changed(code, {}, _heartbeat() if code == HEART_BEAT else locks, chance)


def namesrv_cases(count: int, chance: random.Random) -> Iterator[Case]:
    """Registrations of a broker."""
    for _ in range(count):
        yield _changed(REGISTER, dict(_BROKER), _registration("V"), chance)


def _changed(code: int, fields: dict[str, Any], body: Any, chance: random.Random) -> Case:
    whole = copy.deepcopy(body if body is not None else fields)
    changes = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(whole, ""))
        if not places:
            break
        holder, key, path = chance.choice(places)
        if isinstance(holder, dict) and chance.random() < 0.2:
            if chance.random() < 0.5:
                del holder[key]
                changes.append(f"{path}: absent")
            else:
                other = key.swapcase() if isinstance(key, str) else key
                holder[other] = holder.pop(key)
                changes.append(f"{path}: in another case")
        else:
            value = chance.choice(VALUES)
            holder[key] = copy.deepcopy(value)
            changes.append(f"{path}: {json.dumps(value)}")
    return Case(code, fields, whole, tuple(changes)) if body is not None else Case(code, whole, None, tuple(changes))


def _places(value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """(holder, key, path) of every member; a path's list index is ``[]``."""
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in rows:
        here = f"{path}[]" if isinstance(value, list) else f"{path}.{key}".lstrip(".")
        yield value, key, here
        yield from _places(item, here)


class Difference(NamedTuple):
    """A request that Java's server and ours do not judge alike."""

    case: Case
    java: str
    ours: str


def differences(java: Role, ours: Role, cases: Sequence[Case]) -> list[Difference]:
    """Where verdicts differ also when each is asked for by itself: many at once, Java refuses some for being busy."""
    rows = zip(cases, verdicts(java, cases), verdicts(ours, cases), strict=True)
    again = [case for case, theirs, own in rows if theirs != own]
    found = (Difference(case, *_window(java, [case]), *_window(ours, [case])) for case in again)
    return [each for each in found if each.java != each.ours]


def verdicts(server: Role, cases: Sequence[Case]) -> list[str]:
    """What a server says to each.

    A registration is one of a broker that the connection has registered before with two topics: both nameservers refuse
    the first one with a single topic, and remember one for different times when its connection ends.
    """
    found: list[str] = []
    for at in range(0, len(cases), WINDOW):
        found += _window(server, cases[at : at + WINDOW])
    return found


def _window(server: Role, cases: Sequence[Case]) -> list[str]:
    """Of requests sent together; where the connection ends, of each by itself."""
    own = _own_names()

    def frames(some: Sequence[Case]) -> bytes:
        return b"".join(_frame(number, case._replace(fields=own(case.fields))) for number, case in enumerate(some))

    try:
        with _connected(server) as connection:
            if cases[0].code == REGISTER:  # and answered: Java's threads take requests of a connection in any order
                connection.sendall(frames([_REGISTERED]))
                _answers(connection, 1)
            connection.sendall(frames(cases))
            codes = _answers(connection, len(cases))
    except OSError:
        codes = {}
    if len(codes) < len(cases):
        if len(cases) == 1:
            return [CLOSED]
        half = len(cases) // 2
        return _window(server, cases[:half]) + _window(server, cases[half:])
    return [SERVED if codes[number] == 0 else REFUSED for number in range(len(cases))]


def _connected(server: Role) -> socket.socket:
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=WAIT_S)


def _frame(opaque: int, case: Case) -> bytes:
    header = {"code": case.code, "language": "GO", "version": 513, "opaque": opaque, "flag": 0}
    text = json.dumps({**header, "extFields": case.fields}).encode()
    body = b"" if case.body is None else json.dumps(case.body).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def _answers(connection: socket.socket, count: int) -> dict[int, int]:
    """Codes by number; requests of the server's own are passed over."""
    codes: dict[int, int] = {}
    data = bytearray()
    while len(codes) < count:
        more = connection.recv(1 << 16)
        if not more:
            break
        data += more
        while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4])):
            length = int.from_bytes(data[5:8])
            header = json.loads(bytes(data[8 : 8 + length]))
            del data[: 4 + size]
            if header["flag"] & 1:
                codes[header["opaque"]] = header["code"]
    return codes
