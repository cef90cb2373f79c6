"""Requests about groups beyond what the recorded dialogue holds."""

from __future__ import annotations

import unittest

from rocketha.broker.effects import SaveConfig
from tests.broker.support import Broker, heartbeat, subscription

UPDATE, UPDATE_LIST, ALL, DELETE, GET, FORBID, CONNECTIONS = 200, 225, 201, 207, 352, 353, 203


class GroupRequestTests(unittest.TestCase):
    """Handlers of requests about groups."""

    def setUp(self) -> None:
        self.broker = Broker()

    def test_update(self) -> None:
        """Missing keys take Java's defaults, unknown ones are passed over; the file is saved."""
        self.assertEqual(self.broker.reply(UPDATE, {}, {"groupName": "G", "retryMaxTimes": 3, "newKey": [1]}).code, 0)
        self.assertIn(SaveConfig("groups"), self.broker.effects)
        value = self.broker.value(GET, {"group": "G"})
        self.assertEqual((value["retryMaxTimes"], value["consumeEnable"]), (3, True))

    def test_retry_policy_and_subscriptions_are_kept(self) -> None:
        """What this broker does not use it gives back as it came."""
        policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2}}
        subscriptions = [{"expression": "*", "topic": "T", "version": 1}]
        body = {"groupName": "G", "groupRetryPolicy": policy, "subscriptionDataSet": subscriptions}
        self.broker.ask(UPDATE, {}, body)
        value = self.broker.value(GET, {"group": "G"})
        self.assertEqual((value["groupRetryPolicy"], value["subscriptionDataSet"]), (policy, subscriptions))

    def test_refusals(self) -> None:
        """Bad names 29, bad types 1; a slave changes nothing."""
        for body, code in (
            ({"groupName": ""}, 29),
            ({"groupName": "a b"}, 29),
            ({"groupName": "g" * 121}, 29),
            ({"groupName": "G", "retryMaxTimes": "three"}, 1),
            ({"groupName": "G", "consumeEnable": "maybe"}, 1),
            ({"groupName": "G", "retryQueueNums": 100_000}, 1),
            ({"groupName": "G", "brokerId": 2**63}, 1),
            ({"groupName": "G", "attributes": {"+a": 1}}, 1),
            ({"groupName": "G", "attributes": {"+a": "1"}}, 1),
            ([], 1),
        ):
            with self.subTest(body=body):
                self.assertEqual(self.broker.reply(UPDATE, {}, body).code, code)
        self.assertNotIn("G", self.broker.state.groups)
        self.broker.state.is_slave = True
        for code in (UPDATE, UPDATE_LIST, DELETE):
            self.assertEqual(self.broker.reply(code, {"groupName": "G"}, {"groupName": "G"}).code, 1)

    def test_as_java_reads_it(self) -> None:
        """Numbers as texts, booleans as numbers, one that is null."""
        body = {
            "groupName": "G",
            "retryMaxTimes": "3",
            "consumeEnable": 0,
            "consumeFromMinEnable": "false",
            "brokerId": None,
        }
        self.assertEqual(self.broker.reply(UPDATE, {}, body).code, 0)
        group = self.broker.state.groups.table["G"]
        found = group.retry_max_times, group.consume_enable, group.consume_from_min_enable, group.broker_id
        self.assertEqual(found, (3, False, False, 0))

    def test_a_list(self) -> None:
        """All names are checked before the first group is made."""
        rows = [{"groupName": "G1"}, {"groupName": "G2"}]
        bad = {"groupConfigList": [*rows, {"groupName": "a/b"}]}
        self.assertEqual(self.broker.reply(UPDATE_LIST, {}, bad).code, 29)
        self.assertNotIn("G1", self.broker.state.groups)
        self.assertEqual(self.broker.reply(UPDATE_LIST, {}, {"groupConfigList": rows}).code, 0)
        self.assertIn("G2", self.broker.state.groups)
        self.assertEqual(self.broker.reply(UPDATE_LIST, {}, {"groupConfigList": 1}).code, 1)

    def test_delete_keeps_offsets_unless_asked(self) -> None:
        """cleanOffset."""
        self.broker.ask(UPDATE, {}, {"groupName": "G"})
        self.broker.state.offsets.commit("G", "T", 0, 5, lambda: 1)
        self.broker.ask(DELETE, {"groupName": "G"})
        self.assertNotIn("G", self.broker.state.groups)
        self.assertEqual(self.broker.state.offsets.query("G", "T", 0), 5)
        self.broker.ask(DELETE, {"groupName": "G", "cleanOffset": "true"})
        self.assertEqual(self.broker.state.offsets.query("G", "T", 0), -1)

    def test_forbidden_is_per_topic(self) -> None:
        """Giving one topic back leaves another forbidden (Java forgets all of the group's)."""
        self.broker.ask(UPDATE, {}, {"groupName": "G"})
        for topic in ("T", "U"):
            self.broker.ask(FORBID, {"group": "G", "topic": topic, "readable": "false"})
        self.broker.ask(FORBID, {"group": "G", "topic": "T", "readable": "true"})
        self.assertTrue(self.broker.value(FORBID, {"group": "G", "topic": "T"})["readable"])
        self.assertFalse(self.broker.value(FORBID, {"group": "G", "topic": "U"})["readable"])
        self.assertEqual(self.broker.state.groups.forbidden, {"G": {"U": 4}})
        self.assertEqual(self.broker.value(ALL)["forbiddenTable"], {"G": {"U": 4}})
        self.broker.ask(DELETE, {"groupName": "G"})
        self.assertEqual(self.broker.state.groups.forbidden, {})
        self.assertEqual(self.broker.reply(FORBID, {"group": "none", "topic": "T", "readable": "false"}).code, 26)

    def test_a_language_java_does_not_know(self) -> None:
        """`Connection.language` must be one of Java's names, or mqadmin fails."""
        self.broker.ask(34, {}, heartbeat("a", {"G": [subscription("T")]}), language="PYTHON")
        self.broker.state.clients.consumers["G"].members[1].language = None
        languages = [row["language"] for row in self.broker.value(CONNECTIONS, {"consumerGroup": "G"})["connectionSet"]]
        self.assertEqual(languages, ["OTHER"])

    def test_asking_on_a_slave_makes_no_group(self) -> None:
        """GET_SUBSCRIPTIONGROUP_CONFIG makes a group on a master only."""
        self.broker.state.is_slave = True
        self.assertEqual(self.broker.reply(GET, {"group": "G"}).code, 26)
