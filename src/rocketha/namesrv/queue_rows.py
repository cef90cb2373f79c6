"""The body of REGISTER_TOPIC_IN_NAMESRV: a topic's queues at each broker.  Pure.

Java: ``TopicRouteData``, of which only ``queueDatas`` counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rocketha.namesrv import register_body
from rocketha.namesrv.route_table import QueueData
from rocketha.wire import json_dialect, json_members


def queue_rows(value: Any) -> dict[str, QueueData]:
    """The queues of a parsed body, by brokerName.

    :raises RemoteProtocolError: it is no such body.
    """
    found = json_members.as_object(value, "a topic's route")
    return dict(map(_queue_row, json_members.rows(found, "queueDatas", register_body.TOPICS_MAX)))


def broker_names(body: bytes) -> Iterable[str]:
    """The brokers that a body speaks of.

    :raises RemoteProtocolError: it is no such body.
    """
    return queue_rows(json_dialect.loads(body)) if body else ()


def _queue_row(row: dict[str, Any]) -> tuple[str, QueueData]:
    return register_body.check_name(json_members.text(row, "brokerName"), "brokerName"), QueueData(
        json_members.integer(row, "readQueueNums", 0, 0, register_body.QUEUES_MAX),
        json_members.integer(row, "writeQueueNums", 0, 0, register_body.QUEUES_MAX),
        json_members.integer(row, "perm", 0, 0, register_body.PERM_MAX),
        json_members.integer(row, "topicSysFlag", 0),
    )
