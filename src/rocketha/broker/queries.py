"""Questions about messages and offsets that any client or tool may ask.

Pure.  Java: ``AdminBrokerProcessor`` (29, 30, 31, 32), ``QueryMessageProcessor`` (12, 33).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.broker import fields as read
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.names import RETRY_TOPIC_LENGTH_MAX
from rocketha.broker.request import Responder
from rocketha.errors import RequestRefused
from rocketha.store.in_memory import Wait
from rocketha.store.message_store import MessageStore
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

LOOK_UPS = (
    RequestCode.QUERY_MESSAGE,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
    RequestCode.VIEW_MESSAGE_BY_ID,
)
"""Those that read messages, see :meth:`Queries.look_up`."""
KEY_LENGTH_MAX = 32_767
UNIQUE_QUERY_MAX = 32


class Queries:
    """Reads of offsets, times and single messages."""

    def __init__(self, store: MessageStore, rules: MessageRules) -> None:
        self._store = store
        self._rules = rules
        look_ups = (self.query, self.offset_by_time, self.earliest_time, self.message_by_offset)
        self._look_ups: dict[int, Callable[[Command, Wait], Answer]] = dict(zip(LOOK_UPS, look_ups, strict=True))
        self.requests: dict[int, Responder] = {
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            **dict.fromkeys(LOOK_UPS, self.look_up),
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

    def look_up(
        self, connection: Any, command: Command, now_ms: int, first: bool = True, wait: Wait = Wait.ANYTHING
    ) -> Answer:
        """12, 29, 32, 33: see :data:`rocketha.services.cold_reads.Read`.

        :raises NotInMemory: it would take more than ``wait``.
        """
        return self._look_ups[command.code](command, wait)

    def offset_by_time(self, command: Command, wait: Wait) -> Answer:
        """29: the first (boundaryType ``upper``: the last) offset stored at a time."""
        topic, queue_id = self._queue(command)
        timestamp = read.long(command.fields, "timestamp")
        upper = command.fields.get("boundaryType", "").lower() == "upper"
        return Answer(fields={"offset": str(self._store.offset_by_time(topic, queue_id, timestamp, upper, wait))})

    def earliest_time(self, command: Command, wait: Wait) -> Answer:
        """32: when the queue's oldest message was stored, -1 when there is none."""
        return Answer(fields={"timestamp": str(self._store.earliest_time(*self._queue(command), wait))})

    def message_by_offset(self, command: Command, wait: Wait) -> Answer:
        """33: the record at a commitlog offset."""
        offset = read.long(command.fields, "offset")
        record = self._store.message_at(offset, wait) if offset >= 0 else None
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return Answer(body=record)

    def query(self, command: Command, wait: Wait) -> Answer:
        """12: records by key (indexType ``T``: by tag), newest first."""
        fields = command.fields
        topic = read.text(fields, "topic", RETRY_TOPIC_LENGTH_MAX)
        key = read.text(fields, "key", KEY_LENGTH_MAX)
        if fields.get("indexType") == "T":
            key = "T#" + key
        count = read.integer(fields, "maxNum")
        if fields.get("_UNIQUE_KEY_QUERY") == "true":
            count = UNIQUE_QUERY_MAX
        begin, end = read.long(fields, "beginTimestamp"), read.long(fields, "endTimestamp")
        records = self._store.query(topic, key, max(0, min(count, self._rules.query_max)), begin, end, wait)
        header = {
            "indexLastUpdatePhyoffset": str(self._store.index_last_offset),
            "indexLastUpdateTimestamp": str(self._store.index_last_time),
        }
        if not records:
            return Answer(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", header)
        return Answer(fields=header, body=b"".join(records))
