"""What each request needs: the whole table, and names that stand in bodies."""

from __future__ import annotations

import json
import unittest
from collections.abc import Mapping
from typing import Any

from rocketha.access.policies import Action, Decision, Entry, Need, PolicyType, decide
from rocketha.access.routes import Asker
from rocketha.broker.routes import ROUTES, BrokerRoute
from rocketha.errors import RemoteProtocolError
from rocketha.wire.codes import PrivateCode, RequestCode
from rocketha.wire.remoting import Command

FIELDS = {"topic": "t", "b": "t", "consumerGroup": "g", "group": "g", "groupName": "g", "producerGroup": "p"}
FIELDS |= {"originTopic": "t", "srcGroup": "g", "destGroup": "g2", "compareGroup": "g"}
BODIES: Mapping[int, Any] = {
    RequestCode.HEART_BEAT: {
        "clientID": "c",
        "consumerDataSet": [
            {"groupName": "g", "subscriptionDataSet": [{"topic": "t"}, {"topic": "%RETRY%g"}]},
        ],
        "producerDataSet": [{"groupName": "p"}],
    },
    RequestCode.LOCK_BATCH_MQ: {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "t", "queueId": 0}] * 2},
    RequestCode.UNLOCK_BATCH_MQ: {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "t", "queueId": 1}]},
    RequestCode.CHECK_CLIENT_CONFIG: {"clientId": "c", "group": "g"},
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [{"topicName": "t"}, {"topicName": "t2"}]},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: {"groupName": "g"},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [{"groupName": "g"}]},
}
CONSUMER = "Topic:t Sub, Group:g Sub"
NEEDS: Mapping[int, str] = {
    RequestCode.SEND_MESSAGE: "Topic:t Pub",
    RequestCode.SEND_MESSAGE_V2: "Topic:t Pub",
    RequestCode.SEND_BATCH_MESSAGE: "Topic:t Pub",
    RequestCode.CONSUMER_SEND_MSG_BACK: "Group:g Sub, Topic:t Sub",
    RequestCode.PULL_MESSAGE: CONSUMER,
    RequestCode.LITE_PULL_MESSAGE: CONSUMER,
    RequestCode.QUERY_MESSAGE: "Topic:t Get|Sub",
    RequestCode.VIEW_MESSAGE_BY_ID: "Topic:* Get",
    RequestCode.GET_MAX_OFFSET: "Topic:t Get|Sub",
    RequestCode.GET_MIN_OFFSET: "Topic:t Get|Sub",
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: "Topic:t Get|Sub",
    RequestCode.GET_EARLIEST_MSG_STORETIME: "Topic:t Get|Sub",
    RequestCode.QUERY_CONSUME_QUEUE: "Topic:t Get",
    RequestCode.HEART_BEAT: "Group:g Sub, Topic:t Sub, Group:g Sub",
    RequestCode.UNREGISTER_CLIENT: "Group:g Sub",
    RequestCode.CHECK_CLIENT_CONFIG: "Group:g Sub",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "Group:g Get|Sub",
    RequestCode.QUERY_CONSUMER_OFFSET: "Topic:t Get|Sub, Group:g Get|Sub",
    RequestCode.UPDATE_CONSUMER_OFFSET: "Topic:t Sub|Update, Group:g Sub|Update",
    RequestCode.LOCK_BATCH_MQ: "Group:g Sub, Topic:t Sub",
    RequestCode.UNLOCK_BATCH_MQ: "Group:g Sub, Topic:t Sub",
    RequestCode.GET_CONSUMER_CONNECTION_LIST: "Group:g Get",
    RequestCode.GET_CONSUMER_RUNNING_INFO: "Group:g Get",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: CONSUMER,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "Topic:t Get, Group:g Get",
    RequestCode.GET_CONSUME_STATS: "Group:g Get, Topic:t Get",
    RequestCode.QUERY_CONSUME_TIME_SPAN: "Topic:t Get, Group:g Get",
    RequestCode.CLONE_GROUP_OFFSET: "Topic:t Update, Group:g Update, Group:g2 Update",
    RequestCode.QUERY_CORRECTION_OFFSET: "Topic:t Get, Group:g Get",
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: "Topic:t Update, Group:g Update",
    RequestCode.UPDATE_AND_CREATE_TOPIC: "Topic:t Create",
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: "Topic:t Create, Topic:t2 Create",
    RequestCode.DELETE_TOPIC_IN_BROKER: "Topic:t Delete",
    RequestCode.GET_TOPIC_CONFIG: "Topic:t Get",
    RequestCode.GET_TOPIC_STATS_INFO: "Topic:t Get",
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: "Topic:t Get",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "Group:g Update",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: "Group:g Update",
    RequestCode.DELETE_SUBSCRIPTIONGROUP: "Group:g Delete",
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: "Topic:t Update, Group:g Update",
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: "Group:g Get",
    RequestCode.QUERY_TOPICS_BY_CONSUMER: "Group:g Get",
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: "Topic:t Get, Group:g Get",
    **dict.fromkeys(
        (
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            RequestCode.GET_ALL_PRODUCER_INFO,
            RequestCode.GET_BROKER_CONSUME_STATS,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            RequestCode.GET_BROKER_RUNTIME_INFO,
            RequestCode.VIEW_BROKER_STATS_DATA,
            RequestCode.GET_BROKER_CONFIG,
            RequestCode.GET_BROKER_EPOCH_CACHE,
            RequestCode.GET_BROKER_HA_STATUS,
            RequestCode.AUTH_GET_USER,
            RequestCode.AUTH_LIST_USER,
            RequestCode.AUTH_GET_ACL,
            RequestCode.AUTH_LIST_ACL,
            PrivateCode.OVERVIEW,
        ),
        "Cluster:* Get",
    ),
}
"""All others: the right to change the cluster."""


def needs(route: BrokerRoute, fields: Mapping[str, str] = FIELDS, body: Any = None) -> list[Need]:
    data = BODIES.get(route.code) if body is None else body
    return list(route.needs(Command(route.code, fields=dict(fields), body=json.dumps(data).encode() if data else b"")))


def shown(needed: list[Need]) -> str:
    return ", ".join(f"{need} {'|'.join(sorted(each.value for each in need.actions))}" for need in needed)


class TableTests(unittest.TestCase):
    """Every row."""

    def test_all(self) -> None:
        for code, route in ROUTES.items():
            self.assertEqual(shown(needs(route)), NEEDS.get(code, "Cluster:* Update"), route.name)

    def test_none_asks_for_nothing(self) -> None:
        """Also where the names are left out; but a producer's heartbeat, and a client that leaves no group."""
        for route in ROUTES.values():
            try:
                found = needs(route, {}, {"clientID": "c", "clientId": "c", "consumerDataSet": []})
            except RemoteProtocolError:
                continue
            if route.code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
                self.assertEqual(found, [])
            else:
                self.assertNotEqual(found, [], route.name)

    def test_one_user_per_right(self) -> None:
        """What is granted is what the rules say: each request is let in by exactly the actions that it names."""
        for route in ROUTES.values():
            wanted = needs(route)
            for action in Action:
                entry = Entry.of("*", [action.value], [], "Allow")
                policies = {PolicyType.CUSTOM: (entry,)}
                granted = all(decide(policies, need, "10.0.0.1") is Decision.ALLOW for need in wanted)
                right = action is Action.ALL or all(action in need.actions for need in wanted)
                self.assertEqual(granted, right, f"{route.name} {action}")

    def test_clients_need_no_right_of_operators(self) -> None:
        """Pub and Sub are enough for all that producers and consumers do, but to look at any message in the log."""
        for route in ROUTES.values():
            if route.asker is Asker.CLIENT and route.code != RequestCode.VIEW_MESSAGE_BY_ID:
                for need in needs(route):
                    self.assertTrue(need.actions & {Action.PUB, Action.SUB}, f"{route.name} {need}")


class NameTests(unittest.TestCase):
    """What stands where."""

    def said(self, code: int, fields: Mapping[str, str], body: Any = None) -> str:
        return shown(needs(ROUTES[code], fields, body))

    def test_retry_topics_are_the_groups(self) -> None:
        for code, field in ((RequestCode.SEND_MESSAGE, "topic"), (RequestCode.SEND_MESSAGE_V2, "b")):
            self.assertEqual(self.said(code, {field: "%RETRY%g"}), "Group:g Sub")
        fields = {"topic": "%RETRY%g", "consumerGroup": "g"}
        self.assertEqual(self.said(RequestCode.PULL_MESSAGE, fields), "Group:g Sub, Group:g Sub")
        other = self.said(RequestCode.PULL_MESSAGE, {"topic": "%RETRY%other", "consumerGroup": "g"})
        self.assertEqual(other, "Group:other Sub, Group:g Sub")

    def test_other_requests_for_retry_topics(self) -> None:
        """Who consumes may not delete or change what waits there (the right is the group's own)."""
        for code, needed in (
            (RequestCode.DELETE_TOPIC_IN_BROKER, "Group:g Delete"),
            (RequestCode.UPDATE_AND_CREATE_TOPIC, "Group:g Create"),
            (RequestCode.GET_TOPIC_CONFIG, "Group:g Get"),
        ):
            self.assertEqual(self.said(code, {"topic": "%RETRY%g"}), needed)

    def test_a_field_without_a_name(self) -> None:
        """A JSON header may have one: it is nobody's."""
        for route in ROUTES.values():
            try:
                found = needs(route, {"": "%RETRY%g"})
            except RemoteProtocolError:
                continue
            self.assertEqual(shown(found), shown(needs(route, {})), route.name)

    def test_topics_in_a_list(self) -> None:
        """They are shown whether or not the group subscribes to them."""
        said = self.said(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topicList": "a;;b", "topic": "c"})
        self.assertEqual(said, "Group:g Get, Topic:a Get, Topic:b Get, Topic:c Get")

    def test_which_field_counts(self) -> None:
        """The one that the request is read by: another one beside it makes no difference."""
        self.assertEqual(self.said(RequestCode.SEND_MESSAGE_V2, {"topic": "mine", "b": "yours"}), "Topic:yours Pub")
        self.assertEqual(self.said(RequestCode.SEND_MESSAGE, {"topic": "yours", "b": "mine"}), "Topic:yours Pub")

    def test_left_out(self) -> None:
        self.assertEqual(self.said(RequestCode.SEND_MESSAGE_V2, {"topic": "mine"}), "Topic:* Pub")
        self.assertEqual(
            self.said(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, {"topicConfigList": []}), "Topic:* Create"
        )
        self.assertEqual(self.said(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}), "Group:g Get")
