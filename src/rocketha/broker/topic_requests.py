"""Requests about topics: create, change, delete, show, and how full their queues are.

Pure.  Codes 17, 18, 21, 215, 202, 300, 305, 351 (``AdminBrokerProcessor``).  Static topics (513) are not supported.
"""

from __future__ import annotations

from typing import Any

import attrs

from rocketha.broker import attributes, names, permissions
from rocketha.broker.clients import Peer
from rocketha.broker.data_version import DataVersion
from rocketha.broker.effects import RegisterTopics, SaveConfig
from rocketha.broker.metadata_pages import DELETED_FIELD
from rocketha.broker.request import OK, Responder, read_body, refuse_on_slave
from rocketha.broker.state import BrokerState
from rocketha.broker.topics import QUEUE_NUMS_MAX, TopicConfig
from rocketha.wire import fields, json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.json_dialect import ObjectKeyed
from rocketha.wire.remoting import Answer, Command

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
LIST_MAX = 4096
"""Topics in one UPDATE_AND_CREATE_TOPIC_LIST."""


class TopicRequests:
    """Handlers of requests about topics."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.table: dict[int, Responder] = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.update_topic,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.update_topics,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete_topic,
            RequestCode.GET_TOPIC_CONFIG: self.topic_config,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all_topics,
            RequestCode.GET_TOPIC_STATS_INFO: self.topic_stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.consumed_by,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
        }

    def update_topic(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UPDATE_AND_CREATE_TOPIC: make a topic or change one."""
        header = command.fields
        wanted = TopicConfig(
            topic_name=fields.text(header, "topic"),
            read_queue_nums=fields.integer(header, "readQueueNums", 0, QUEUE_NUMS_MAX),
            write_queue_nums=fields.integer(header, "writeQueueNums", 0, QUEUE_NUMS_MAX),
            perm=fields.integer(header, "perm", 0, permissions.PERM_MAX),
            topic_filter_type=header.get("topicFilterType") or FILTER_TYPES[0],
            topic_sys_flag=fields.optional_integer(header, "topicSysFlag") or 0,
            order=fields.flag(header, "order"),
        )
        changes = attributes.parse_changes(fields.optional_text(header, "attributes"))
        self._check_update(wanted, changes)
        if self._update(wanted, changes):
            self._state.effects += [SaveConfig("topics"), RegisterTopics((wanted.topic_name,))]
            self._state.audit("topic updated", connection.peer, topic=wanted.topic_name)
        return OK

    def update_topics(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UPDATE_AND_CREATE_TOPIC_LIST: the same for many; all names are checked before the first is changed."""
        rows = read_body(_topic_list, command.body)
        for wanted in rows:
            self._check_update(wanted, wanted.attributes)
        updated = [wanted.topic_name for wanted in rows if self._update(wanted, wanted.attributes)]
        if updated:
            self._state.effects += [SaveConfig("topics"), RegisterTopics(tuple(updated))]
            self._state.audit("topics updated", connection.peer, count=str(len(updated)))
        return OK

    def _check_update(self, wanted: TopicConfig, changes: Any) -> None:
        refuse_on_slave(self._state)
        topic = names.check_topic(wanted.topic_name)
        self._refuse_system_topic(topic)
        if wanted.topic_filter_type not in FILTER_TYPES:
            allowed = " or ".join(FILTER_TYPES)
            raise refused(f"topicFilterType is {wanted.topic_filter_type[:64]!r}, allowed is {allowed}")
        if changes.get("+message.type") == "MIXED":
            raise refused("MIXED message type is not supported.")

    def _update(self, wanted: TopicConfig, changes: Any) -> bool:
        """Whether the table changed: the same again changes nothing, and so no version."""
        present = self._state.topics.get(wanted.topic_name)
        if present is not None and not changes and attrs.evolve(wanted, attributes=present.attributes) == present:
            return False
        self._state.topics.update(wanted, changes, self._state.wall_ms())
        return True

    def _refuse_system_topic(self, topic: str) -> None:
        if self._state.rules.validate_system_topic and self._state.topics.is_system(topic):
            raise refused(f"The topic[{topic}] is conflict with system topic.")

    def delete_topic(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """DELETE_TOPIC_IN_BROKER: forget the topic, its queues and all offsets in it.  A topic that is not there is
        no error.

        The POP retry topics of its groups, which a Java broker on the same store may have made, go with it.

        A slave agrees and does nothing: mqadmin tells every member of a group, and ends with the first that refuses.
        What it has goes when its master's does.
        """
        topic = names.check_topic(fields.text(command.fields, "topic"))
        self._refuse_system_topic(topic)
        state = self._state
        if state.is_slave:
            state.audit("deletion of a topic left to the master", connection.peer, topic=topic)
            return OK
        doomed = [topic]
        for group in state.offsets.groups_of(topic):
            pop_topics = (f"{names.RETRY_PREFIX}{group}{separator}{topic}" for separator in ("+", "_"))
            doomed += [name for name in pop_topics if name in state.topics]
        for name in doomed:
            if not state.topics.delete(name, state.wall_ms()):
                state.topics.touch(state.wall_ms())  # a repeated deletion may be the first that is saved
            state.offsets.remove_topic(name)
            state.stats.forget_topic(name)
            state.store.delete_topic(name)
        state.effects += [SaveConfig("deleted"), SaveConfig("topics"), SaveConfig("offsets"), RegisterTopics(None)]
        state.audit("topic deleted", connection.peer, topic=topic)
        return OK

    def topic_config(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_TOPIC_CONFIG: one topic."""
        topic = fields.text(command.fields, "topic")
        config = self._state.topics.get(topic)
        if config is None:
            raise refused(f"No topic in this broker. topic: {topic[:255]}", ResponseCode.TOPIC_NOT_EXIST)
        return Answer(body=json_dialect.dumps(config.as_json()))

    def all_topics(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_ALL_TOPIC_CONFIG: the whole table for a slave, page by page if it asks so."""
        header, topics = command.fields, self._state.topics
        chosen = None
        if any(header.get(key) is not None for key in ("dataVersion", "topicSeq", "maxTopicNum")):
            first = fields.optional_integer(header, "topicSeq", 0) or 0
            count = fields.optional_integer(header, "maxTopicNum", 0)
            size = self._state.rules.split_metadata_size
            chosen = topics.page(header.get("dataVersion"), first, size if count is None else min(count, size))
        value = topics.as_json(chosen)
        value["mappingDataVersion"] = DataVersion().as_json()
        value["topicQueueMappingDetailMap"] = {}
        value["topicQueueMappingInfoMap"] = {}
        if header.get(DELETED_FIELD) == "true":
            store = self._state.store
            value["deletedTopics"], value["logBegin"] = store.deleted_topics.as_json(), store.min_physical_offset
        return Answer(fields={"totalTopicNum": str(len(topics.table))}, body=json_dialect.dumps(value))

    def topic_stats(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_TOPIC_STATS_INFO: first and next offset and time of the last message of every queue."""
        topic, store = fields.text(command.fields, "topic"), self._state.store
        config = self._state.topics.get(topic)
        if config is None:
            raise refused(f"topic[{topic[:255]}] not exist", ResponseCode.TOPIC_NOT_EXIST)
        entries = []
        with store.together():
            for queue_id in range(config.queue_nums):
                low, high = max(0, store.min_offset(topic, queue_id)), max(0, store.max_offset(topic, queue_id))
                last_ms = store.store_time_at(topic, queue_id, high - 1) if high > 0 else 0
                queue = {"brokerName": self._state.identity.broker_name, "queueId": queue_id, "topic": topic}
                entries.append((queue, {"lastUpdateTimestamp": last_ms, "maxOffset": high, "minOffset": low}))
        tps = self._state.stats.topic_put_tps(topic)
        return Answer(body=json_dialect.dumps({"offsetTable": ObjectKeyed(tuple(entries)), "topicPutTps": tps}))

    def consumed_by(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """QUERY_TOPIC_CONSUME_BY_WHO: groups that are connected and subscribe to the topic, or have offsets in it."""
        topic = fields.text(command.fields, "topic")
        groups = {*self._state.clients.groups_of_topic(topic), *self._state.offsets.groups_of(topic)}
        return Answer(body=json_dialect.dumps({"groupList": sorted(groups)}))

    def system_topics(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_SYSTEM_TOPIC_LIST_FROM_BROKER: names that clients may not use for themselves."""
        return Answer(body=json_dialect.dumps({"topicList": sorted(self._state.topics.system)}))


def _topic_list(body: bytes) -> list[TopicConfig]:
    rows = json_members.rows(json_members.json_object(body, "a list of topics"), "topicConfigList", LIST_MAX)
    return [TopicConfig.from_json(row) for row in rows]
