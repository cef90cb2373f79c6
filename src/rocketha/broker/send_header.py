"""The header of a send request, long names or single letters.

Pure.  Java: ``SendMessageRequestHeader``, ``SendMessageRequestHeaderV2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketha.broker import fields as read
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command

_LONG_NAMES = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
    "maxReconsumeTimes": "l", "batch": "m", "bname": "n",
}  # fmt: skip


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
    if command.code == RequestCode.SEND_MESSAGE:
        fields = {_LONG_NAMES[name]: value for name, value in fields.items() if name in _LONG_NAMES}
    try:
        header = SendHeader(
            fields.get("a", ""),
            fields["b"],
            fields.get("c", ""),
            int(fields["d"]),
            int(fields["e"]),
            int(fields["f"]),
            int(fields["g"]),
            int(fields["h"]),
            fields.get("i", ""),
            int(fields.get("j", "0")),
            int(fields["l"]) if "l" in fields else None,
            fields.get("k") == "true",
            command.code == RequestCode.SEND_BATCH_MESSAGE or fields.get("m") == "true",
        )
    except (KeyError, ValueError):
        return _careful(fields, command.code)
    if not (
        -0x80000000 <= header.queue_id <= 0x7FFFFFFF
        and -0x80000000 <= header.sys_flag <= 0x7FFFFFFF
        and -0x80000000 <= header.flag <= 0x7FFFFFFF
        and -0x8000000000000000 <= header.born_timestamp_ms <= 0x7FFFFFFFFFFFFFFF
        and -0x80000000 <= header.reconsume_times <= 0x7FFFFFFF
        and -0x80000000 <= header.default_queue_nums <= 0x7FFFFFFF
    ):
        return _careful(fields, command.code)
    return header


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
