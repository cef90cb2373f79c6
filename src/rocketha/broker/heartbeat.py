"""The body of HEART_BEAT: which groups a client produces for and consumes with.

Pure.  Everything is bounded here, so that :mod:`rocketha.broker.clients` may keep what it is given.

Java: ``HeartbeatData``, ``ConsumerData``, ``ProducerData``.  Clients of other languages write other types than Java's:
numbers as texts (Go, C++), enumerations as ordinals (C++); they are read as Java's server reads them.
"""

from __future__ import annotations

from typing import Any

import attrs

from rocketha.broker.names import CLIENT_ID_LENGTH_MAX
from rocketha.broker.subscription import SubscriptionData
from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_members
from rocketha.wire.limits import FRAME_BYTES_MAX

GROUPS_MAX = 1024
SUBSCRIPTIONS_MAX = FRAME_BYTES_MAX // 256
"""About as many as a frame holds; a client has one for each topic of each of its groups."""
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
    value = json_members.json_object(body, "a heartbeat")
    client_id = json_members.text(value, "clientID", length_max=CLIENT_ID_LENGTH_MAX)
    if not client_id:
        raise RemoteProtocolError("clientID is empty")
    consumers = tuple(map(_consumer, json_members.rows(value, "consumerDataSet", GROUPS_MAX)))
    if sum(len(consumer.subscriptions) for consumer in consumers) > SUBSCRIPTIONS_MAX:
        raise RemoteProtocolError(f"a heartbeat has more than {SUBSCRIPTIONS_MAX} subscriptions")
    producers = tuple(map(_name, json_members.rows(value, "producerDataSet", GROUPS_MAX)))
    fingerprint = json_members.integer(value, "heartbeatFingerprint", 0)
    return Heartbeat(client_id, consumers, producers, fingerprint, json_members.flag(value, "withoutSub"))


def _name(row: dict[str, Any]) -> str:
    name = json_members.text(row, "groupName", length_max=NAME_LENGTH_MAX)
    if not name:
        raise RemoteProtocolError("groupName is empty")
    return name


def _consumer(row: dict[str, Any]) -> ConsumerData:
    subscriptions = json_members.rows(row, "subscriptionDataSet", SUBSCRIPTIONS_MAX)
    return ConsumerData(
        _name(row),
        json_members.word(row, "consumeType", CONSUME_TYPES, PASSIVELY),
        json_members.word(row, "messageModel", MESSAGE_MODELS, CLUSTERING),
        json_members.word(row, "consumeFromWhere", CONSUME_FROM, CONSUME_FROM[0]),
        json_members.flag(row, "unitMode"),
        tuple(map(SubscriptionData.from_json, subscriptions)),
    )
