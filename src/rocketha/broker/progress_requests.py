"""Requests about how far groups have come: statistics for people, tables for slaves, and offsets moved by an
administrator.

Pure.  Codes 208, 303, 317, 43, 45, 402, 308, 314, 222 (``AdminBrokerProcessor``, ``Broker2Client.resetOffset``).
"""

from __future__ import annotations

from typing import Any

from rocketha.broker.clients import Peer
from rocketha.broker.effects import NotifyClient, SaveConfig
from rocketha.broker.names import TOPIC_LENGTH_MAX, check_group
from rocketha.broker.request import OK, Responder, refuse_on_slave
from rocketha.broker.state import BrokerState
from rocketha.broker.topics import TopicConfig
from rocketha.wire import fields, json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.json_dialect import ObjectKeyed
from rocketha.wire.remoting import Answer, Command

TOPIC_LIST_MAX = 4096
"""Topics in the ``topicList`` of GET_CONSUME_STATS."""

_TOPIC_LIST_LENGTH_MAX = TOPIC_LIST_MAX * (TOPIC_LENGTH_MAX + 1)

OFFSETS_AFTER = "offsetsAfter"
"""Header field of 43, between brokers of ours: a key of the offset table.  A Java master answers with the whole."""
OFFSETS_PAGE_BYTES = 2 * 1024 * 1024


BROKER_STATS_QUEUES_MAX = 10_000
"""Queues of all groups and topics in one answer to 317."""


class ProgressRequests:
    """Handlers of requests about consumer progress."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.table: dict[int, Responder] = {
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_consume_stats,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.consume_time_span,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self.all_delay_offsets,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.all_request_modes,
            RequestCode.CLONE_GROUP_OFFSET: self.clone_offsets,
            RequestCode.QUERY_CORRECTION_OFFSET: self.least_offsets,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset_offset,
        }

    def consume_stats(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_CONSUME_STATS: for every queue where it ends, what the group committed and what it was given."""
        header = command.fields
        group = fields.text(header, "consumerGroup")
        listed = fields.optional_text(header, "topicList", _TOPIC_LIST_LENGTH_MAX)
        if listed is not None:  # named topics are shown whether or not the group subscribes to them
            topics = sorted({topic for topic in listed.split(";") if topic})
            if len(topics) > TOPIC_LIST_MAX:
                raise refused(f"topicList names {len(topics)} topics, allowed are {TOPIC_LIST_MAX}")
        else:
            topic = fields.optional_text(header, "topic")
            topics = self._subscribed(group, [topic] if topic else self._state.offsets.topics_of(group))
        entries: list[tuple[dict[str, Any], dict[str, int]]] = []
        tps = 0.0
        with self._state.store.together():
            for topic in topics:
                config = self._state.topics.get(topic)
                if config is not None:
                    entries += self._queue_progress(group, config, config.read_queue_nums)
                    tps += self._state.stats.group_get_tps(group, topic)
        return Answer(body=json_dialect.dumps({"consumeTps": tps, "offsetTable": ObjectKeyed(tuple(entries))}))

    def _subscribed(self, group: str, topics: list[str]) -> list[str]:
        """Of these topics those a connected group still subscribes to; of a group that is away all."""
        clients = self._state.clients
        if clients.subscription_count(group) == 0:
            return topics
        return [topic for topic in topics if clients.subscription(group, topic) is not None]

    def _queue(self, topic: str, queue_id: int) -> dict[str, Any]:
        return {"brokerName": self._state.identity.broker_name, "queueId": queue_id, "topic": topic}

    def _queue_progress(
        self, group: str, config: TopicConfig, queue_nums: int
    ) -> list[tuple[dict[str, Any], dict[str, int]]]:
        store, offsets, topic = self._state.store, self._state.offsets, config.topic_name
        entries = []
        for queue_id in range(queue_nums):
            committed = max(0, offsets.query(group, topic, queue_id))
            last_ms = store.store_time_at(topic, queue_id, committed - 1) if committed > 0 else 0
            progress = {
                "brokerOffset": max(0, store.max_offset(topic, queue_id)),
                "consumerOffset": committed,
                "lastTimestamp": max(0, last_ms),
                "pullOffset": max(committed, offsets.query_pulled(group, topic, queue_id)),
            }
            entries.append((self._queue(topic, queue_id), progress))
        return entries

    def broker_consume_stats(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_BROKER_CONSUME_STATS: the same for every group of this broker, with how much is left in all.

        Java leaves pullOffset at 0 here, so its totalInflightDiff is negative; ours is what GET_CONSUME_STATS shows.
        """
        state, rows = self._state, []
        shown = self._shown(fields.flag(command.fields, "isOrder"))
        behind = inflight = 0
        with state.store.together():
            for group, configs in shown.items():
                stats = []
                for config in configs:
                    entries = self._queue_progress(group, config, config.write_queue_nums)
                    behind += sum(progress["brokerOffset"] - progress["consumerOffset"] for _, progress in entries)
                    inflight += sum(progress["pullOffset"] - progress["consumerOffset"] for _, progress in entries)
                    tps = state.stats.group_get_tps(group, config.topic_name)
                    stats.append({"consumeTps": tps, "offsetTable": ObjectKeyed(tuple(entries))})
                rows.append({group: stats})
        value = {
            "brokerAddr": state.identity.address,
            "consumeStatsList": rows,
            "totalDiff": _as_long(behind),
            "totalInflightDiff": _as_long(inflight),
        }
        return Answer(body=json_dialect.dumps(value))

    def _shown(self, only_ordered: bool) -> dict[str, list[TopicConfig]]:
        """The topics in which each group is."""
        state, queues, shown = self._state, 0, {}
        topics = state.offsets.topics_by_group()
        for group in state.groups.table:
            found = filter(None, map(state.topics.get, self._subscribed(group, sorted(topics.get(group, ())))))
            shown[group] = [config for config in found if config.order or not only_ordered]
            queues += sum(config.write_queue_nums for config in shown[group])
            if queues > BROKER_STATS_QUEUES_MAX:  # everybody else waits meanwhile
                raise refused(
                    f"more than {BROKER_STATS_QUEUES_MAX} queues of all groups: ask for one (consumerProgress)",
                    ResponseCode.SYSTEM_ERROR,
                )
        return shown

    def consume_time_span(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """QUERY_CONSUME_TIME_SPAN: from when to when a topic's messages are, and at which time a group is in them."""
        topic, group = fields.text(command.fields, "topic"), fields.text(command.fields, "group")
        store, config = self._state.store, self._state.topics.get(topic)
        if config is None:
            raise refused(f"topic[{topic[:255]}] not exist", ResponseCode.TOPIC_NOT_EXIST)
        wall_ms = self._state.wall_ms()
        with store.together():
            spans = [self._time_span(topic, group, queue_id, wall_ms) for queue_id in range(config.write_queue_nums)]
        return Answer(body=json_dialect.dumps({"consumeTimeSpanSet": spans}))

    def _time_span(self, topic: str, group: str, queue_id: int, wall_ms: int) -> dict[str, Any]:
        store = self._state.store
        high, first_ms = store.max_offset(topic, queue_id), store.earliest_time(topic, queue_id)
        offset = self._state.offsets.query(group, topic, queue_id)
        delay_ms = 0
        if offset < high:
            next_ms = store.store_time_at(topic, queue_id, max(offset, store.min_offset(topic, queue_id)))
            delay_ms = max(0, wall_ms - next_ms) if next_ms > 0 else 0
        return {
            "consumeTimeStamp": store.store_time_at(topic, queue_id, offset - 1) if offset > 0 else first_ms,
            "delayTime": delay_ms,
            "maxTimeStamp": store.store_time_at(topic, queue_id, high - 1) if high > 0 else -1,
            "messageQueue": self._queue(topic, queue_id),
            "minTimeStamp": first_ms,
        }

    def all_offsets(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_ALL_CONSUMER_OFFSET: the whole table for a slave; in parts for one of ours, which names the key that it
        has come to.  A frame does not hold the offsets of all groups of some 80,000 topics.
        """
        after = command.fields.get(OFFSETS_AFTER)
        if after is not None:
            value, last = self._state.offsets.page(after, OFFSETS_PAGE_BYTES)
            return Answer(fields={} if last is None else {OFFSETS_AFTER: last}, body=json_dialect.dumps(value))
        return Answer(body=json_dialect.dumps(self._state.offsets.as_json()))

    def all_delay_offsets(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_ALL_DELAY_OFFSET: how far each delay level was delivered, for a slave."""
        return Answer(body=self._state.delay_offsets())

    def all_request_modes(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_ALL_MESSAGE_REQUEST_MODE: who consumes by POP, for a slave; here nobody does, but see
        :mod:`rocketha.broker.metadata_modes`.
        """
        return Answer(body=json_dialect.dumps(self._state.modes.as_json()))

    def clone_offsets(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """CLONE_GROUP_OFFSET: give a group the offsets of another, in one topic or (Java forgets to) in all of them."""
        refuse_on_slave(self._state)
        header, state = command.fields, self._state
        source = fields.text(header, "srcGroup")
        target = check_group(fields.text(header, "destGroup"))
        topic = fields.optional_text(header, "topic")
        topics = [topic] if topic else state.offsets.topics_of(source)
        if not fields.flag(header, "offline"):
            topics = self._subscribed(source, topics)
        cloned = [name for name in topics if name in state.topics and state.offsets.clone(source, target, name)]
        if cloned:
            state.effects.append(SaveConfig("offsets"))
        state.audit("offsets cloned", connection.peer, source=source, target=target, topics=str(len(cloned)))
        return OK

    def least_offsets(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """QUERY_CORRECTION_OFFSET: of every queue of a topic the least offset that a group has committed.

        A queue in which ``compareGroup`` is behind that has the greatest number, as in Java; unlike there, groups in
        ``filterGroups`` are left out and not deleted.
        """
        header, offsets = command.fields, self._state.offsets
        topic = fields.text(header, "topic")
        left_out = (fields.optional_text(header, "filterGroups", _TOPIC_LIST_LENGTH_MAX) or "").split(",")
        least: dict[int, int] = {}
        for group in offsets.groups_of(topic):
            if group not in left_out:
                for queue_id, offset in offsets.queues_of(group, topic).items():
                    if offset >= self._state.store.min_offset(topic, queue_id):
                        least[queue_id] = min(offset, least.get(queue_id, fields.LONG_MAX))
        for queue_id, offset in offsets.queues_of(fields.text(header, "compareGroup"), topic).items():
            if least.get(queue_id, -1) > offset:
                least[queue_id] = fields.LONG_MAX
        return Answer(body=json_dialect.dumps({"correctionOffsets": least}))

    def reset_offset(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """INVOKE_BROKER_TO_RESET_OFFSET: send a group to a time or to an offset, in one queue or in all of a topic."""
        header = command.fields
        topic, group = fields.text(header, "topic"), fields.text(header, "group")
        timestamp_ms = fields.long(header, "timestamp")
        here = self._state.rules.server_side_reset_offset
        answer = (self._reset_here if here else self._reset_at_clients)(command, topic, group, timestamp_ms)
        asked = {name: header[name][:20] for name in ("queueId", "offset", "timestamp") if name in header}
        self._state.audit("offset reset", connection.peer, topic=topic[:255], group=group[:255], **asked)
        return answer

    def _reset_here(self, command: Command, topic: str, group: str, timestamp_ms: int) -> Answer:
        """The broker keeps the order and tells each consumer at its next pull."""
        state = self._state
        if state.is_slave:
            raise refused("Can not reset offset in slave broker", ResponseCode.SYSTEM_ERROR)
        config = state.topics.get(topic)
        if config is None:
            raise refused(f"Topic {topic[:255]} does not exist", ResponseCode.TOPIC_NOT_EXIST)
        if group not in state.groups:
            raise refused(f"Group {group[:255]} does not exist", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        queue_id = fields.optional_integer(command.fields, "queueId", -1, max(0, config.read_queue_nums - 1))
        wanted = fields.optional_long(command.fields, "offset", -1)
        if queue_id is not None and queue_id >= 0:
            targets = {queue_id: self._one_target(topic, queue_id, wanted, timestamp_ms)}
        else:
            with state.store.together():
                targets = {each: self._by_time(topic, each, timestamp_ms) for each in range(config.read_queue_nums)}
        if not targets:
            raise refused("No queues to reset.", ResponseCode.SYSTEM_ERROR)
        for each, offset in targets.items():
            state.offsets.order_reset(group, topic, each, offset)
        state.effects.append(SaveConfig("offsets"))
        return self._reset_answer(topic, targets)

    def _one_target(self, topic: str, queue_id: int, wanted: int | None, timestamp_ms: int) -> int:
        if wanted is None or wanted == -1:
            return self._by_time(topic, queue_id, timestamp_ms)
        low, high = self._state.store.min_offset(topic, queue_id), self._state.store.max_offset(topic, queue_id)
        if not low <= wanted <= high + 1:
            remark = f"Target offset {wanted} not in consume queue range [{low}-{high}]"
            raise refused(remark, ResponseCode.SYSTEM_ERROR)
        return wanted

    def _by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The offset of a time; a negative time is the end of the queue."""
        store = self._state.store
        if timestamp_ms < 0:
            return max(0, store.max_offset(topic, queue_id))
        return max(0, store.offset_by_time(topic, queue_id, timestamp_ms))

    def _offset_table(self, topic: str, targets: dict[int, int]) -> ObjectKeyed:
        return ObjectKeyed(tuple((self._queue(topic, queue_id), offset) for queue_id, offset in targets.items()))

    def _reset_answer(self, topic: str, targets: dict[int, int]) -> Answer:
        return Answer(body=json_dialect.dumps({"offsetTable": self._offset_table(topic, targets)}))

    def _reset_at_clients(self, command: Command, topic: str, group: str, timestamp_ms: int) -> Answer:
        """The connected consumers are told to move (useServerSideResetOffset off, and Java before 5.0)."""
        state, config = self._state, self._state.topics.get(topic)
        if config is None:
            remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic[:255]}"
            raise refused(remark, ResponseCode.TOPIC_NOT_EXIST)
        force = fields.flag(command.fields, "isForce")
        targets = {}
        with state.store.together():
            for queue_id in range(config.write_queue_nums):
                present = state.offsets.query(group, topic, queue_id)
                if present == -1:
                    raise refused(f"THe consumer group <{group[:255]}> not exist", ResponseCode.SYSTEM_ERROR)
                offset = self._by_time(topic, queue_id, timestamp_ms)
                targets[queue_id] = offset if force or offset < present else present
        members = state.clients.consumers.get(group)
        if members is None:
            remark = f"Consumer not online, so can not reset offset, Group: {group[:255]} Topic: {topic[:255]}"
            raise refused(f"{remark} Timestamp: {timestamp_ms}", ResponseCode.CONSUMER_NOT_ONLINE)
        header = {"topic": topic, "group": group, "timestamp": str(timestamp_ms)}
        body = json_dialect.dumps({"offsetTable": self._client_table(command, topic, targets)})
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        state.effects += [NotifyClient(connection_id, code, header, body) for connection_id in members.members]
        return self._reset_answer(topic, targets)

    def _client_table(self, command: Command, topic: str, targets: dict[int, int]) -> Any:
        if command.language != "CPP":
            return self._offset_table(topic, targets)
        return [{**self._queue(topic, queue_id), "offset": offset} for queue_id, offset in targets.items()]


def _as_long(value: int) -> int:
    """A sum as Java's long holds it: clients may commit any offset, and sums of those leave 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
