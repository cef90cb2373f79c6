"""Which entries a crash would take back, while a table is written and changes on."""

from __future__ import annotations

import unittest

from rocketha.broker.data_version import DataVersion
from rocketha.broker.topics import TopicConfig, TopicTable
from rocketha.broker.unsaved import Unsaved


class UnsavedTests(unittest.TestCase):
    def setUp(self) -> None:
        self.unsaved = Unsaved()

    def names(self) -> set[str]:
        return {name for name in "abc" if name in self.unsaved}

    def test_until_the_text_that_has_it_is_on_the_disk(self) -> None:
        """What changes while a text is written is not in it, even if it changed before."""
        self.unsaved.add("a")
        self.unsaved.add("b")
        self.assertEqual(self.names(), {"a", "b"})
        self.unsaved.write_began()
        self.unsaved.add("b")
        self.unsaved.add("c")
        self.assertEqual(self.names(), {"a", "b", "c"})
        self.assertEqual(self.unsaved.write_ended(failed=False), {"a", "b"})
        self.assertEqual(self.names(), {"b", "c"})
        self.unsaved.write_began()
        self.assertEqual(self.names(), {"b", "c"})
        self.assertEqual(self.unsaved.write_ended(failed=False), {"b", "c"})
        self.assertEqual(self.names(), set())

    def test_a_write_that_failed(self) -> None:
        """All of it is as unsaved as before."""
        self.unsaved.add("a")
        self.unsaved.write_began()
        self.unsaved.add("b")
        self.assertEqual(self.unsaved.write_ended(failed=True), {"a"})
        self.assertEqual(self.names(), {"a", "b"})
        self.unsaved.write_began()
        self.unsaved.write_ended(failed=False)
        self.assertEqual(self.names(), set())


class TopicsTests(unittest.TestCase):
    """A table says which of its topics these are."""

    def setUp(self) -> None:
        self.table = TopicTable()
        self.table.install([TopicConfig("System")])

    def saved(self) -> None:
        self.table.unsaved.write_began()
        self.table.unsaved.write_ended(failed=False)

    def unsaved(self) -> set[str]:
        return {name for name in self.table.table if name in self.table.unsaved}

    def test_made_and_changed(self) -> None:
        self.assertEqual(self.unsaved(), set())
        self.table.put(TopicConfig("A"), 5)
        self.table.create_for_group("%RETRY%G", 1, 5)
        self.assertEqual(self.unsaved(), {"A", "%RETRY%G"})
        self.saved()
        self.table.update(TopicConfig("A", 32, 32), {}, 6)
        self.table.create_for_group("%RETRY%G", 1, 6)
        self.assertEqual(self.unsaved(), {"A"})

    def test_a_term_changes_none(self) -> None:
        """Its version is newer, and no message needs that."""
        self.table.begin_term(3, 5)
        self.assertEqual(self.unsaved(), set())

    def test_taken_from_a_master(self) -> None:
        """A slave that becomes master before they are on its disk."""
        self.table.put(TopicConfig("A"), 5)
        self.table.put(TopicConfig("B"), 5)
        self.saved()
        masters = {**self.table.table, "B": TopicConfig("B", 32, 32), "C": TopicConfig("C")}
        self.table.replace(masters, DataVersion(9, 1, 1))
        self.assertEqual(self.unsaved(), {"B", "C"})

    def test_deleted(self) -> None:
        """A disk that fails for long does not collect names of topics that came and went; made again, it is new."""
        for round_ in range(3):
            for name in ("mine", "masters"):
                self.table.put(TopicConfig(name), 5)
            self.table.unsaved.write_began()
            self.table.put(TopicConfig("late"), 5)
            for name in ("mine", "late"):
                self.table.delete(name, 6)
            self.table.replace({"System": TopicConfig("System")}, DataVersion(9, round_, 1))
            self.assertEqual(self.table.unsaved.write_ended(failed=True), frozenset())
            self.assertEqual([name for name in ("mine", "late", "masters") if name in self.table.unsaved], [])
        self.table.put(TopicConfig("mine"), 7)
        self.assertIn("mine", self.table.unsaved)

    def test_loaded(self) -> None:
        """What the file has is saved."""
        self.table.put(TopicConfig("A"), 5)
        other = TopicTable()
        other.load(self.table.dump())
        self.assertIn("A", other)
        self.assertNotIn("A", other.unsaved)
