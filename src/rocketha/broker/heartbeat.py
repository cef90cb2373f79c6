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
    left out (``without_sub``) as long as it stays the same.  ``ignored`` are rows without a name, which are for nobody.
    """

    client_id: str
    consumers: tuple[ConsumerData, ...] = ()
    producer_groups: tuple[str, ...] = ()
    fingerprint: int = 0
    without_sub: bool = False
    ignored: tuple[str, ...] = ()


def parse_heartbeat(body: bytes) -> Heartbeat:
    """The heartbeat of a request's body.

    :raises RemoteProtocolError: it is none, or there is more in it than the limits of this module.
    """
    value = json_members.json_object(body, "a heartbeat")
    client_id = json_members.text(value, "clientID", length_max=CLIENT_ID_LENGTH_MAX)
    if not client_id:
        raise RemoteProtocolError("clientID is empty")
    ignored: list[str] = []
    found = [_consumer(row, ignored) for row in json_members.rows(value, "consumerDataSet", GROUPS_MAX)]
    consumers = tuple(consumer for consumer in found if consumer.group)
    if len(consumers) < len(found):
        ignored.append("a consumer of no group")
    if sum(len(consumer.subscriptions) for consumer in consumers) > SUBSCRIPTIONS_MAX:
        raise RemoteProtocolError(f"a heartbeat has more than {SUBSCRIPTIONS_MAX} subscriptions")
    producers = [_name(row) for row in json_members.rows(value, "producerDataSet", GROUPS_MAX)]
    if "" in producers:
        ignored.append("a producer of no group")
    fingerprint = json_members.integer(value, "heartbeatFingerprint", 0)
    without_sub = json_members.flag(value, "withoutSub")
    return Heartbeat(client_id, consumers, tuple(filter(None, producers)), fingerprint, without_sub, tuple(ignored))


def _name(row: dict[str, Any]) -> str:
    return json_members.text(row, "groupName", length_max=NAME_LENGTH_MAX)


def _consumer(row: dict[str, Any], ignored: list[str]) -> ConsumerData:
    group = _name(row)
    found = map(SubscriptionData.from_json, json_members.rows(row, "subscriptionDataSet", SUBSCRIPTIONS_MAX))
    subscriptions = list(found)
    if not all(each.topic for each in subscriptions):
        ignored.append(f"a subscription of group {group} to no topic")
    return ConsumerData(
        group,
        json_members.word(row, "consumeType", CONSUME_TYPES, PASSIVELY),
        json_members.word(row, "messageModel", MESSAGE_MODELS, CLUSTERING),
        json_members.word(row, "consumeFromWhere", CONSUME_FROM, CONSUME_FROM[0]),
        json_members.flag(row, "unitMode"),
        tuple(each for each in subscriptions if each.topic),
    )
