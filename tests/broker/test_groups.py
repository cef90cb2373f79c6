"""The group table and attributes (Java: SubscriptionGroupManager, AttributeUtil)."""

from __future__ import annotations

import unittest
from unittest import mock

from rocketha.broker import groups
from rocketha.broker.attributes import ATTRIBUTES_MAX, TOPIC_ATTRIBUTES, alter, parse_changes
from rocketha.broker.groups import GroupTable, SubscriptionGroupConfig
from rocketha.errors import CorruptStore, RequestRefused
from tests.broker.support import NOW_MS


class GroupTableTests(unittest.TestCase):
    """Groups come to be by use or by an administrator."""

    def test_made_by_use(self) -> None:
        """Once, with the defaults; the version moves once."""
        table = GroupTable()
        config = table.find("G", True, NOW_MS)
        self.assertEqual(config, SubscriptionGroupConfig("G"))
        self.assertIs(table.find("G", True, NOW_MS), config)
        self.assertEqual(table.data_version.counter, 1)

    def test_not_made(self) -> None:
        """autoCreateSubscriptionGroup=false: only the broker's own; bad names never."""
        table = GroupTable()
        self.assertIsNone(table.find("G", False, NOW_MS))
        self.assertIsNotNone(table.find("CID_RMQ_SYS_x", False, NOW_MS))
        self.assertIsNone(table.find("a/b", True, NOW_MS))
        self.assertIsNone(table.find("CID_RMQ_SYS_../x", False, NOW_MS))

    def test_bounded(self) -> None:
        """A flood of names makes no more groups; present ones still change."""
        table = GroupTable()
        with mock.patch.object(groups, "GROUPS_MAX", len(table.table) + 1):
            table.update(SubscriptionGroupConfig("G"), NOW_MS)
            self.assertIsNone(table.find("H", True, NOW_MS))
            self.assertRaises(RequestRefused, table.update, SubscriptionGroupConfig("H"), NOW_MS)
            table.update(SubscriptionGroupConfig("G", retry_max_times=1), NOW_MS)

    def test_pages(self) -> None:
        """As topics: a reader with another version starts again."""
        table = GroupTable()
        table.find("G", True, NOW_MS)
        version = f'{{"counter":1,"stateVersion":0,"timestamp":{NOW_MS}}}'
        self.assertEqual(list(table.page(version, 8, 5)), sorted(table.table)[8:])
        self.assertEqual(list(table.page("", 8, 2)), sorted(table.table)[:2])

    def test_forbidden_bits_of_a_file(self) -> None:
        """Zero bits are dropped, what is no number is refused."""
        table = GroupTable()
        table.load(b'{"forbiddenTable":{"G":{"T":4,"U":0},"H":{"T":0}}}')
        self.assertEqual(table.forbidden, {"G": {"T": 4}})
        self.assertEqual(table.forbidden_bits("G", "T"), 4)
        self.assertRaises(CorruptStore, table.load, b'{"forbiddenTable":{"G":{"T":"x"}}}')
        self.assertRaises(CorruptStore, table.load, b'{"forbiddenTable":{"G":3}}')

    def test_bits_are_set_and_cleared_one_by_one(self) -> None:
        """Reading and writing are forbidden apart."""
        table = GroupTable()
        table.forbid("G", "T", 4, True, NOW_MS)
        table.forbid("G", "T", 2, True, NOW_MS)
        self.assertEqual(table.forbidden_bits("G", "T"), 6)
        table.forbid("G", "T", 4, False, NOW_MS)
        self.assertEqual(table.forbidden_bits("G", "T"), 2)
        table.forbid("G", "T", 2, False, NOW_MS)
        self.assertEqual(table.forbidden, {})


class AttributeTests(unittest.TestCase):
    """Changes to attributes."""

    def test_text_form(self) -> None:
        """`+k=v,-k`; values may hold an equals sign."""
        self.assertEqual(parse_changes("+a=1, -b,+c=x=y"), {"+a": "1", "-b": "", "+c": "x=y"})
        self.assertEqual(parse_changes(None), {})
        for text in ("a=1", "-a=1", "a", "+a", "+a=1,+a=2", ","):
            with self.subTest(text=text):
                self.assertRaises(RequestRefused, parse_changes, text)

    def test_set_replace_remove(self) -> None:
        """On top of what is there."""
        known = {**TOPIC_ATTRIBUTES}
        first = alter(True, known, {}, {"+message.type": "FIFO", "+reserve.time": "-1"})
        self.assertEqual(first, {"message.type": "FIFO", "reserve.time": "-1"})
        second = alter(False, known, first, {"+message.type": "NORMAL", "-reserve.time": ""})
        self.assertEqual(second, {"message.type": "NORMAL"})
        self.assertEqual(first["message.type"], "FIFO")

    def test_refusals(self) -> None:
        """Each with Java's reason."""
        known, current = {**TOPIC_ATTRIBUTES}, {"message.type": "FIFO", "queue.type": "SimpleCQ"}
        for create, changes, reason in (
            (True, {"-message.type": ""}, "only add"),
            (False, {"*message.type": "FIFO"}, "wrong format"),
            (False, {"+": "x"}, "format wrong"),
            (False, {"+a-b": "x"}, "format wrong"),
            (False, {"+message.type": "FIFO", "-message.type": ""}, "duplication"),
            (False, {"-cleanup.policy": ""}, "nonexistent"),
            (False, {"+none": "x"}, "unsupported"),
            (False, {"+queue.type": "BatchCQ"}, "unchangeable"),
            (False, {"+message.type": "LOUD"}, "not in set"),
            (False, {"+reserve.time": "9" * 30}, "not in set"),
            (True, {f"+k{number}": "" for number in range(ATTRIBUTES_MAX + 1)}, "allowed are"),
        ):
            with self.subTest(changes=str(changes)[:60]), self.assertRaises(RequestRefused) as caught:
                alter(create, known, current, changes)
            self.assertIn(reason, caught.exception.remark)
