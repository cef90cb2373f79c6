"""Saving a table that is large: the reactor makes no rows, and a thread only those that changed."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from rocketha.broker.groups import GroupTable, SubscriptionGroupConfig
from rocketha.broker.metadata_modes import RequestModes
from rocketha.broker.offsets import ConsumerOffsets
from rocketha.broker.row_texts import RowTexts, file_text
from rocketha.broker.topics import TopicConfig, TopicTable
from rocketha.store.deleted_topics import Deleted, DeletedTopics, LastRecord
from rocketha.wire import json_dialect

ROWS = 500


def _groups() -> GroupTable:
    groups = GroupTable()
    for number in range(ROWS):
        groups.find(f"g{number}", True, number)
        groups.forbid(f"g{number}", "T", 2, True, number)
    return groups


def _topics() -> TopicTable:
    topics = TopicTable()
    for number in range(ROWS):
        topics.put(TopicConfig(f"t{number}", attributes={"message.type": "FIFO"}), number)
    return topics


def _offsets() -> ConsumerOffsets:
    offsets = ConsumerOffsets()
    for number in range(ROWS):
        offsets.commit(f"g{number % 7}", f"t{number}", 1, number, lambda: 1)
        offsets.note_pull(f"g{number % 7}", f"t{number}", 1, number)
    return offsets


def _modes() -> RequestModes:
    modes = RequestModes()
    modes.replace({f"t{number}": {"g": {"mode": "PULL"}} for number in range(ROWS)})
    return modes


def _deleted() -> DeletedTopics:
    deleted = DeletedTopics()
    deleted.replace({f"t{number}": Deleted(1, LastRecord(0, 0)) for number in range(ROWS)}, 0)
    return deleted


LARGE: tuple[Callable[[], Any], ...] = (_groups, _topics, _offsets, _modes, _deleted)


class LargeTableTests(unittest.TestCase):
    """Whichever table it is."""

    def test_the_reactor_makes_no_rows(self) -> None:
        """What it does for a save does not grow with the table: no row is put into words."""
        for make in LARGE:
            table = make()
            with self.subTest(make.__name__):
                with mock.patch.object(json_dialect, "dumps", wraps=json_dialect.dumps) as dumps:
                    text = table.dump_later()
                    self.assertLess(dumps.call_count, 10)
                self.assertGreater(len(text()), ROWS)

    def test_it_has_what_was_there_then(self) -> None:
        """Keys that come and go while the thread is at work change nothing."""
        groups, topics, offsets = _groups(), _topics(), _offsets()
        for table, change in (
            (groups, lambda: (groups.find("new", True, 2), groups.delete("g3", 3))),
            (topics, lambda: (topics.put(TopicConfig("new"), 2), topics.delete("t3", 3))),
            (offsets, lambda: (offsets.commit("g", "new", 0, 1, lambda: 1), offsets.remove_topic("t3"))),
        ):
            before, text = json_dialect.dumps_pretty(table.as_json()), table.dump_later()
            change()
            self.assertEqual(text(), before)
            self.assertEqual(table.dump(), json_dialect.dumps_pretty(table.as_json()))

    def test_it_is_laid_out_as_anything_else(self) -> None:
        """Also rows that are there again, and tables with nothing in them."""
        groups = _groups()
        groups.update(SubscriptionGroupConfig("q", retry_queue_nums=3), 1)
        for _ in range(2):
            self.assertEqual(groups.dump(), json_dialect.dumps_pretty(groups.as_json()))
            groups.forbid("g1", "T", 2, False, 1)
        empty = ConsumerOffsets()
        self.assertEqual(empty.dump(), json_dialect.dumps_pretty(empty.as_json()))


class RowTests(unittest.TestCase):
    """Rows from one save to the next."""

    def test_a_row_is_laid_out_when_it_changed(self) -> None:
        """Equal is the same; what has gone is forgotten."""
        laid_out: list[str] = []

        def layout(name: str, value: list[int]) -> bytes:
            laid_out.append(name)
            return f'"{name}":{value[0]}'.encode()

        rows: RowTexts[list[int]] = RowTexts(layout)
        rows.table({"a": [1], "b": [2]})
        self.assertEqual(rows.table({"a": [1], "b": [3], "c": [4]}), b'{\n\t\t"a":1,\n\t\t"b":3,\n\t\t"c":4\n\t}')
        self.assertEqual(laid_out, ["a", "b", "b", "c"])
        self.assertEqual(file_text({"x": rows.table({}), "y": b"1"}), b'{\n\t"x":{},\n\t"y":1\n}')
        rows.table({"a": [1]})
        self.assertEqual(laid_out[4:], ["a"])
