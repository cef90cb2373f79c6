"""The body of HEART_BEAT: which groups a client produces for and consumes with.

Pure.  Everything is bounded here, so that :mod:`rocketha.broker.clients` may keep what it is given.

Java: ``HeartbeatData``, ``ConsumerData``, ``ProducerData``.  Enumerations come as names, from C++ clients as ordinals.
"""

from __future__ import annotations

from typing import Any

import attrs

from rocketha.broker.names import CLIENT_ID_LENGTH_MAX
from rocketha.broker.subscription import SubscriptionData
from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_dialect

BODY_BYTES_MAX = 4 * 1024 * 1024
GROUPS_MAX = 1024
SUBSCRIPTIONS_MAX = 4096
NAME_LENGTH_MAX = 255

ACTIVELY, PASSIVELY, POP = "CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"
BROADCASTING, CLUSTERING = "BROADCASTING", "CLUSTERING"

CONSUME_TYPES = (ACTIVELY, PASSIVELY, POP)
MESSAGE_MODELS = (BROADCASTING, CLUSTERING)
CONSUME_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


@attrs.frozen
class ConsumerData:
    """One consumer group of a client."""

    group: str
    consume_type: str = PASSIVELY
    message_model: str = CLUSTERING
    consume_from_where: str = CONSUME_FROM[0]
    unit_mode: bool = False
    subscriptions: tuple[SubscriptionData, ...] = ()


@attrs.frozen
class Heartbeat:
    """A client and its groups.

    ``fingerprint`` other than 0 is the second version of heartbeats: a hash of all subscriptions, which may then be
    left out (``without_sub``) as long as it stays the same.
    """

    client_id: str
    consumers: tuple[ConsumerData, ...] = ()
    producer_groups: tuple[str, ...] = ()
    fingerprint: int = 0
    without_sub: bool = False


def parse_heartbeat(body: bytes) -> Heartbeat:
    """The heartbeat of a request's body.

    :raises RemoteProtocolError: it is none, or there is more in it than the limits of this module.
    """
    if len(body) > BODY_BYTES_MAX:
        raise RemoteProtocolError(f"a heartbeat of {len(body)} bytes, allowed are {BODY_BYTES_MAX}")
    value = json_dialect.loads(body)
    if not isinstance(value, dict):
        raise RemoteProtocolError("a heartbeat is no object")
    client_id = value.get("clientID")
    if not isinstance(client_id, str) or not client_id or len(client_id) > CLIENT_ID_LENGTH_MAX:
        raise RemoteProtocolError(f"clientID is no text of 1 to {CLIENT_ID_LENGTH_MAX} characters")
    fingerprint = value.get("heartbeatFingerprint") or 0
    if type(fingerprint) is not int:
        raise RemoteProtocolError("heartbeatFingerprint is no number")
    consumers = tuple(map(_consumer, _rows(value, "consumerDataSet", GROUPS_MAX)))
    if sum(len(consumer.subscriptions) for consumer in consumers) > SUBSCRIPTIONS_MAX:
        raise RemoteProtocolError(f"a heartbeat has more than {SUBSCRIPTIONS_MAX} subscriptions")
    producers = tuple(_name(row) for row in _rows(value, "producerDataSet", GROUPS_MAX))
    return Heartbeat(client_id, consumers, producers, fingerprint, bool(value.get("withoutSub")))


def _rows(value: dict[str, Any], key: str, count_max: int) -> list[dict[str, Any]]:
    rows = value.get(key) or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RemoteProtocolError(f"{key} is no list of objects")
    if len(rows) > count_max:
        raise RemoteProtocolError(f"{key} has {len(rows)} entries, allowed are {count_max}")
    return rows


def _name(row: dict[str, Any]) -> str:
    name = row.get("groupName")
    if not isinstance(name, str) or not name or len(name) > NAME_LENGTH_MAX:
        raise RemoteProtocolError(f"groupName is no text of 1 to {NAME_LENGTH_MAX} characters")
    return name


def _word(row: dict[str, Any], key: str, words: tuple[str, ...], default: str) -> str:
    found = row.get(key)
    if found is None:
        return default
    if type(found) is int and 0 <= found < len(words):
        return words[found]
    if found not in words:
        raise RemoteProtocolError(f"{key} is {str(found)[:64]!r}, allowed is {' or '.join(words)}")
    return str(found)


def _consumer(row: dict[str, Any]) -> ConsumerData:
    return ConsumerData(
        _name(row),
        _word(row, "consumeType", CONSUME_TYPES, PASSIVELY),
        _word(row, "messageModel", MESSAGE_MODELS, CLUSTERING),
        _word(row, "consumeFromWhere", CONSUME_FROM, CONSUME_FROM[0]),
        bool(row.get("unitMode")),
        tuple(map(SubscriptionData.from_json, _rows(row, "subscriptionDataSet", SUBSCRIPTIONS_MAX))),
    )
