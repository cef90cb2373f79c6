"""Questions about messages and offsets that any client or tool may ask.

Pure.  Java: ``AdminBrokerProcessor`` (29, 30, 31, 32), ``QueryMessageProcessor`` (12, 33).
"""

from __future__ import annotations

from typing import Any

from rocketha.broker.message_rules import MessageRules
from rocketha.broker.names import RETRY_TOPIC_LENGTH_MAX
from rocketha.broker.request import Responder
from rocketha.errors import RequestRefused
from rocketha.store.patient_reads import PatientReads
from rocketha.wire import fields as read
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX, PROPERTIES_BYTES_MAX
from rocketha.wire.remoting import Answer, Command

KEY_LENGTH_MAX = PROPERTIES_BYTES_MAX


class Queries:
    """Reads of offsets, times and single messages."""

    def __init__(self, store: PatientReads, rules: MessageRules) -> None:
        self._store = store
        self._rules = rules
        self.requests: dict[int, Responder] = {
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.QUERY_MESSAGE: self.query,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset_by_time,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
            RequestCode.VIEW_MESSAGE_BY_ID: self.message_by_offset,
        }

    @staticmethod
    def _queue(command: Command) -> tuple[str, int]:
        topic = read.text(command.fields, "topic", RETRY_TOPIC_LENGTH_MAX)
        return topic, read.integer(command.fields, "queueId")

    def max_offset(self, connection: Any, command: Command, now_ms: int) -> Answer:
        """30: the offset the next message gets; 0 for a queue that is not there."""
        return Answer(fields={"offset": str(self._store.max_offset(*self._queue(command)))})

    def min_offset(self, connection: Any, command: Command, now_ms: int) -> Answer:
        """31: the oldest message's offset; 0 for a queue that is not there."""
        return Answer(fields={"offset": str(self._store.min_offset(*self._queue(command)))})

    def offset_by_time(self, connection: Any, command: Command, now_ms: int) -> Answer:
        """29: the first (boundaryType ``upper``: the last) offset stored at a time."""
        topic, queue_id = self._queue(command)
        timestamp = read.long(command.fields, "timestamp")
        upper = command.fields.get("boundaryType", "").lower() == "upper"
        return Answer(fields={"offset": str(self._store.offset_by_time(topic, queue_id, timestamp, upper))})

    def earliest_time(self, connection: Any, command: Command, now_ms: int) -> Answer:
        """32: when the queue's oldest message was stored, -1 when there is none."""
        return Answer(fields={"timestamp": str(self._store.earliest_time(*self._queue(command)))})

    def message_by_offset(self, connection: Any, command: Command, now_ms: int) -> Answer:
        """33: the record at a commitlog offset."""
        offset = read.long(command.fields, "offset")
        record = self._store.message_at(offset) if offset >= 0 else None
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return Answer(body=record)

    def query(self, connection: Any, command: Command, now_ms: int) -> Answer:
        """12: records by key (indexType ``T``: by tag), newest first."""
        fields = command.fields
        topic = read.text(fields, "topic", RETRY_TOPIC_LENGTH_MAX)
        key = read.text(fields, "key", KEY_LENGTH_MAX)
        if fields.get("indexType") == "T":
            key = "T#" + key
        count = read.integer(fields, "maxNum")
        if read.flag(fields, "_UNIQUE_KEY_QUERY"):
            count = self._rules.unique_query_max
        begin, end = read.long(fields, "beginTimestamp"), read.long(fields, "endTimestamp")
        records = _fitting(self._store.query(topic, key, max(0, min(count, self._rules.query_max)), begin, end))
        header = {
            "indexLastUpdatePhyoffset": str(self._store.index_last_offset),
            "indexLastUpdateTimestamp": str(self._store.index_last_time),
        }
        if not records:
            return Answer(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", header)
        return Answer(fields=header, body=b"".join(records))


def _fitting(records: list[bytes]) -> list[bytes]:
    """The first ones, as many as a frame holds: a client asks for the older ones by time."""
    room = FRAME_BYTES_MAX - HEADER_BYTES_MAX
    for number, record in enumerate(records):
        room -= len(record)
        if room < 0 and number:
            return records[:number]
    return records
