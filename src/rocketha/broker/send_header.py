"""The header of a send request, long names or single letters.

Pure.  Java: ``SendMessageRequestHeader``, ``SendMessageRequestHeaderV2``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from rocketha.wire import fields as read
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command

_LONG_NAMES = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "bname": "n",
}
_REQUIRED = itemgetter("b", "d", "e", "f", "g", "h")
_RANGES = struct.Struct(">iiiiiqi")
_SEND = int(RequestCode.SEND_MESSAGE)
_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)


class SendHeader(NamedTuple):
    """What a producer says about its message; integers are within Java's ranges."""

    producer_group: str
    topic: str
    default_topic: str
    default_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp_ms: int
    flag: int
    properties: str
    reconsume_times: int
    max_reconsume_times: int | None
    unit_mode: bool
    batch: bool


def parse(command: Command) -> SendHeader:
    """The header of 10 SEND_MESSAGE (long names), 310 SEND_MESSAGE_V2 and 320 SEND_BATCH_MESSAGE (letters).

    :raises RequestRefused: 29, a field is missing or out of range.
    """
    fields: Mapping[str, str] = command.fields
    if command.code == _SEND:
        fields = {_LONG_NAMES[name]: value for name, value in fields.items() if name in _LONG_NAMES}
    get = fields.get
    try:
        topic, queue_nums, queue_id, sys_flag, born, flag = _REQUIRED(fields)
        times = int(fields["l"]) if "l" in fields else None
        numbers = int(queue_nums), int(queue_id), int(sys_flag), int(flag), int(get("j", "0")), int(born)
        _RANGES.pack(*numbers, times or 0)  # within Java's types?
    except (KeyError, ValueError, struct.error):
        return _careful(fields, command.code)
    return SendHeader(
        get("a", ""),
        topic,
        get("c", ""),
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[5],
        numbers[3],
        get("i", ""),
        numbers[4],
        times,
        get("k", "").lower() == "true",
        command.code == _BATCH or get("m", "").lower() == "true",
    )


def _careful(fields: Mapping[str, str], code: int) -> SendHeader:
    """The same, field by field, with the error that names the field."""
    return SendHeader(
        read.optional_text(fields, "a") or "",
        read.text(fields, "b"),
        read.optional_text(fields, "c") or "",
        read.integer(fields, "d"),
        read.integer(fields, "e"),
        read.integer(fields, "f"),
        read.long(fields, "g"),
        read.integer(fields, "h"),
        fields.get("i", ""),
        read.optional_integer(fields, "j") or 0,
        read.optional_integer(fields, "l"),
        read.flag(fields, "k"),
        code == RequestCode.SEND_BATCH_MESSAGE or read.flag(fields, "m"),
    )
