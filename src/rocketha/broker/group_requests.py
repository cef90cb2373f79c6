"""Requests about consumer and producer groups: create, change, delete, show, and who is connected.

Pure.  Codes 200, 225, 201, 207, 352, 353, 203, 204, 328, 343, 345 (``AdminBrokerProcessor``).
"""

from __future__ import annotations

from typing import Any

from rocketha.broker import names, permissions
from rocketha.broker.clients import Peer
from rocketha.broker.effects import SaveConfig
from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.request import OK, Responder, read_body, refuse_on_slave
from rocketha.broker.state import BrokerState, maker_of
from rocketha.wire import fields, json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.remoting import Answer, Command

LIST_MAX = 4096
"""Groups in one UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST."""


class GroupRequests:
    """Handlers of requests about groups."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.table: dict[int, Responder] = {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update_group,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.update_groups,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_groups,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete_group,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.group_config,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.group_forbidden,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription_of_group,
        }

    def update_group(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: make a group or change one."""
        refuse_on_slave(self._state)
        wanted = read_body(_group_config, command.body)
        config = self._state.groups.update(wanted, self._state.wall_ms())
        self._state.effects.append(SaveConfig("groups"))
        self._state.audit("group updated", connection.peer, group=config.group_name)
        return OK

    def update_groups(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: the same for many; all names are checked first."""
        refuse_on_slave(self._state)
        rows = read_body(_group_list, command.body)
        for row in rows:
            names.check_group(row.group_name)
        for row in rows:
            self._state.groups.update(row, self._state.wall_ms())
        self._state.effects.append(SaveConfig("groups"))
        self._state.audit("groups updated", connection.peer, count=str(len(rows)))
        return OK

    def all_groups(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: the whole table for a slave, page by page if it asks so."""
        header, groups = command.fields, self._state.groups
        chosen = None
        if any(header.get(key) is not None for key in ("dataVersion", "groupSeq", "maxGroupNum")):
            first = fields.optional_integer(header, "groupSeq", 0) or 0
            count = fields.optional_integer(header, "maxGroupNum", 0)
            size = self._state.rules.split_metadata_size
            chosen = groups.page(header.get("dataVersion"), first, size if count is None else min(count, size))
        body = json_dialect.dumps(groups.as_json(chosen))
        return Answer(fields={"totalGroupNum": str(len(groups.table))}, body=body)

    def delete_group(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """DELETE_SUBSCRIPTIONGROUP: forget a group, and with ``cleanOffset`` how far it came.  No group is no error."""
        refuse_on_slave(self._state)
        state, group = self._state, fields.text(command.fields, "groupName")
        state.groups.delete(group, state.wall_ms())
        state.effects.append(SaveConfig("groups"))
        if fields.flag(command.fields, "cleanOffset"):
            state.offsets.remove_group(group)
            state.effects.append(SaveConfig("offsets"))
        state.stats.forget_group(group)
        state.audit("group deleted", connection.peer, group=group[: names.RETRY_TOPIC_LENGTH_MAX])
        return OK

    def group_config(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_SUBSCRIPTIONGROUP_CONFIG: one group; as in Java asking for it may make it."""
        group = fields.text(command.fields, "group")
        state = self._state
        maker = maker_of(connection.socket_host, now_ms)
        config = state.groups.get(group) if state.is_slave else state.find_group(group, maker)
        if config is None:
            raise refused("No group in this broker", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return Answer(body=json_dialect.dumps(config.as_json()))

    def group_forbidden(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UPDATE_AND_GET_GROUP_FORBIDDEN: whether a group may read a topic, and change that."""
        header, groups = command.fields, self._state.groups
        group, topic = fields.text(header, "group"), fields.text(header, "topic")
        readable = fields.optional_flag(header, "readable")
        if readable is not None:
            refuse_on_slave(self._state)
            names.check_topic(topic)
            if group not in groups:
                raise refused("No group in this broker", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
            groups.forbid(group, topic, permissions.READ, not readable, self._state.wall_ms())
            self._state.effects.append(SaveConfig("groups"))
            self._state.audit("group forbidden", connection.peer, group=group, topic=topic, readable=str(readable))
        allowed = not groups.forbidden_bits(group, topic) & permissions.READ
        return Answer(body=json_dialect.dumps({"group": group, "readable": allowed, "topic": topic}))

    def consumer_connections(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_CONSUMER_CONNECTION_LIST: the members of a consumer group and what they subscribe to."""
        name = fields.text(command.fields, "consumerGroup")
        group = self._state.clients.consumers.get(name)
        if group is None:
            raise refused(f"the consumer group[{name[:255]}] not online", ResponseCode.CONSUMER_NOT_ONLINE)
        value = {
            "connectionSet": [member.as_json() for member in group.members.values()],
            "consumeFromWhere": group.consume_from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": {topic: data.as_json() for topic, data in group.subscriptions.items()},
        }
        return Answer(body=json_dialect.dumps(value))

    def producer_connections(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_PRODUCER_CONNECTION_LIST: the members of a producer group."""
        group = fields.text(command.fields, "producerGroup")
        members = self._state.clients.producers.get(group)
        if members is None:
            raise refused(f"the producer group[{group[:255]}] not exist", ResponseCode.SYSTEM_ERROR)
        connections = [member.as_json() for member in members.values()]
        return Answer(body=json_dialect.dumps({"connectionSet": connections}))

    def all_producers(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_ALL_PRODUCER_INFO: every producer group with its members."""
        table: dict[str, list[dict[str, Any]]] = {}
        for group, members in self._state.clients.producers.items():
            table[group] = [
                {
                    "clientId": member.client_id,
                    "language": member.language or "OTHER",
                    "lastUpdateTimestamp": member.last_seen_ms,
                    "remoteIP": "/" + member.address,  # Java shows InetSocketAddress.toString()
                    "version": member.version,
                }
                for member in members.values()
            ]
        return Answer(body=json_dialect.dumps({"data": table}))

    def topics_of_group(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """QUERY_TOPICS_BY_CONSUMER: topics in which a group has offsets."""
        topics = self._state.offsets.topics_of(fields.text(command.fields, "group"))
        value = {"brokerAddr": self._state.identity.address, "topicList": topics}
        return Answer(body=json_dialect.dumps(value))

    def subscription_of_group(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """QUERY_SUBSCRIPTION_BY_CONSUMER: what a connected group wants of a topic."""
        group, topic = fields.text(command.fields, "group"), fields.text(command.fields, "topic")
        found = self._state.clients.subscription(group, topic)
        value: dict[str, Any] = {"group": group}
        if found is not None:
            value["subscriptionData"] = found.as_json()
        value["topic"] = topic
        return Answer(body=json_dialect.dumps(value))


def _group_config(body: bytes) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig.from_json(json_dialect.loads(body))


def _group_list(body: bytes) -> list[SubscriptionGroupConfig]:
    rows = json_members.rows(json_members.json_object(body, "a list of groups"), "groupConfigList", LIST_MAX)
    return [SubscriptionGroupConfig.from_json(row) for row in rows]
