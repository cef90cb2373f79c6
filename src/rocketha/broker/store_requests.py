"""Requests about what lies in the store: entries of a queue, and files that an administrator wants gone.

Pure.  Codes 306, 316, 321, 329 (``AdminBrokerProcessor``).  Nothing that is not expired goes by any of them.
"""

from __future__ import annotations

from typing import Any

from rocketha.broker.clients import Peer
from rocketha.broker.names import RETRY_TOPIC_LENGTH_MAX
from rocketha.broker.request import OK, Responder
from rocketha.broker.state import BrokerState
from rocketha.wire import fields, json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.remoting import Answer, Command

ENTRIES_MAX = 10_000
"""Entries of a queue in one answer; mqadmin shows ten."""


class StoreRequests:
    """Handlers of requests about the store."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.table: dict[int, Responder] = {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_topics,
            RequestCode.QUERY_CONSUME_QUEUE: self.queue_entries,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_log,
        }

    def clean_queues(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """CLEAN_EXPIRED_CONSUMEQUEUE: with the next round go files of queues whose messages the log has no more."""
        self._state.store.expire_soon(log=False)
        self._state.audit("expired files of queues are looked for", connection.peer)
        return OK

    def delete_log(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """DELETE_EXPIRED_COMMITLOG: expired files of the log go though the hour is not ``deleteWhen``."""
        self._state.store.expire_soon(log=True)
        self._state.audit("expired files of the log are looked for", connection.peer)
        return OK

    def clean_topics(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """CLEAN_UNUSED_TOPIC: queues go whose topic this broker does not have.  Of a slave they go with its master's
        topics: its table may only be late.
        """
        state = self._state
        if state.is_slave:
            return OK
        topics = state.topics
        unused = [name for name in state.store.topics() if name not in topics and not topics.is_system(name)]
        for name in unused:
            state.store.delete_topic(name)
        shown = ", ".join(unused[:10])
        state.audit("queues of unused topics deleted", connection.peer, count=str(len(unused)), topics=shown)
        return OK

    def queue_entries(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """QUERY_CONSUME_QUEUE: entries of a queue as they are, and whether a group's filter takes them."""
        header, state = command.fields, self._state
        topic, queue_id = fields.text(header, "topic", RETRY_TOPIC_LENGTH_MAX), fields.integer(header, "queueId")
        first, count = fields.long(header, "index"), fields.integer(header, "count")
        low, high = state.store.min_offset(topic, queue_id), state.store.max_offset(topic, queue_id)
        if queue_id not in state.store.queue_ids(topic):
            raise refused(f"{queue_id}@{topic} is not exist!", ResponseCode.SYSTEM_ERROR)
        value: dict[str, Any] = {"maxQueueIndex": high, "minQueueIndex": low}
        group = fields.optional_text(header, "consumerGroup")
        accepts = None
        if group is not None:
            found = state.clients.subscription(group, topic)
            if found is None:
                value["filterData"] = f"{group}@{topic} is not online!"
            else:
                value |= {"filterData": "null", "subscriptionData": found.as_json()}
                accepts = found.accepts()
        if not low <= first < high:
            remark = f"Index {first} of {queue_id}@{topic} is not exist!"
            return Answer(ResponseCode.SUCCESS, remark, body=json_dialect.dumps(value))
        units = state.store.entries(topic, queue_id, first, max(0, min(count, ENTRIES_MAX, high - first)))
        value["queueData"] = [
            {
                "eval": group is not None and (accepts is None or accepts(unit.tags_code)),
                "physicOffset": unit.physical_offset,
                "physicSize": unit.size,
                "tagsCode": unit.tags_code,
            }
            for unit in units
        ]
        return Answer(body=json_dialect.dumps(value))
