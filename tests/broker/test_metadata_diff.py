"""A slave's table becomes its master's, as a difference (regression F1: apache/rocketmq #9984, #10030)."""

from __future__ import annotations

import json
import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.broker.data_version import DataVersion
from rocketha.broker.metadata_diff import difference, is_behind
from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_dialect

names = st.sampled_from([f"T{number}" for number in range(12)])
tables = st.dictionaries(names, st.tuples(st.integers(0, 3), st.text("ab", max_size=2)))


class DifferenceTests(unittest.TestCase):
    @given(tables, tables, st.sets(names))
    def test_the_table_becomes_the_masters(self, own: dict, master: dict, keep: set) -> None:  # type: ignore[type-arg]
        """All that the master has, and of the rest only what every broker has of its own."""
        diff = difference(own, master, keep, True)
        self.assertEqual(diff.table, {**{name: own[name] for name in own if name in keep}, **master})

    @given(tables, tables, st.sets(names))
    def test_what_is_said_to_have_changed_is_what_changed(  # type: ignore[type-arg]
        self, own: dict, master: dict, keep: set
    ) -> None:
        """Pulls are woken and queues deleted by these names; an entry that stays is the same object."""
        diff = difference(own, master, keep, True)
        self.assertEqual(set(diff.removed), set(own) - set(master) - keep)
        self.assertEqual(set(diff.changed), {name for name in master if own.get(name) != master[name]})
        for name in set(diff.table) - set(diff.changed):
            self.assertIs(diff.table[name], own[name])
        self.assertEqual(diff.empty, diff.table == own)

    @given(tables, tables)
    def test_nothing_goes_where_nothing_may(self, own: dict, master: dict) -> None:  # type: ignore[type-arg]
        """A master that lost its files gives what it has and takes nothing."""
        diff = difference(own, master, (), False)
        self.assertEqual(diff.removed, ())
        self.assertEqual(diff.table, {**own, **master})

    @given(tables, tables)
    def test_twice_is_once(self, own: dict, master: dict) -> None:  # type: ignore[type-arg]
        """The second round has nothing to do."""
        once = difference(own, master, (), True)
        self.assertTrue(difference(once.table, master, (), True).empty)


class BehindTests(unittest.TestCase):
    def test_by_state_version_then_counter(self) -> None:
        """A demoted master's own changes are older than the next master's table, whatever their number."""
        self.assertTrue(is_behind(DataVersion(9, 0, 1), DataVersion(10, 0, 1)))
        self.assertFalse(is_behind(DataVersion(11, 0, 1), DataVersion(10, 0, 2)))
        self.assertFalse(is_behind(DataVersion(3, 6), DataVersion(900, 5)))
        self.assertTrue(is_behind(DataVersion(900, 5), DataVersion(3, 6)))

    def test_the_same_number_at_another_time(self) -> None:
        """Is another table: both began to count anew."""
        self.assertTrue(is_behind(DataVersion(10, 0, 1), DataVersion(10, 0, 2)))
        self.assertFalse(is_behind(DataVersion(10, 0, 2), DataVersion(10, 0, 2)))

    def test_a_new_slave_is_ahead_of_nobody(self) -> None:
        """Its table is as old as itself and never changed: what its master lacks may go."""
        self.assertFalse(is_behind(DataVersion(0, 0, 5), DataVersion(0, 0, 99)))


offset_tables = st.dictionaries(
    st.text("ABT_%-@", min_size=1, max_size=9), st.dictionaries(st.integers(0, 70000), st.integers(-1, 2**63 - 1))
)


class OffsetTextTests(unittest.TestCase):
    @given(offset_tables)
    def test_javas_integer_keys(self, table: dict[str, dict[int, int]]) -> None:
        """fastjson writes them without quotes (seen live)."""
        rows = [
            json.dumps(key) + ":{" + ",".join(f"{queue}:{offset}" for queue, offset in queues.items()) + "}"
            for key, queues in table.items()
        ]
        text = '{"dataVersion":{"counter":1},"offsetTable":{' + ",".join(rows) + "}}"
        wanted = {key: {str(queue): offset for queue, offset in queues.items()} for key, queues in table.items()}
        self.assertEqual(json_dialect.loads_large(text.encode())["offsetTable"], wanted)

    def test_a_text_that_looks_like_a_key(self) -> None:
        """Is left as it is."""
        self.assertEqual(json_dialect.loads_large(b'{"a,1:b":{0:1}}'), {"a,1:b": {"0": 1}})
        self.assertEqual(json_dialect.loads_large(b'{"a":"{7:","b":{0:1}}'), {"a": "{7:", "b": {"0": 1}})

    @given(st.dictionaries(st.text('{},:1"', max_size=6), st.text('{},:1"', max_size=6), max_size=3))
    def test_json_stays_what_it_is(self, value: object) -> None:
        """Whatever stands in its texts."""
        self.assertEqual(json_dialect.loads_large(json.dumps(value).encode()), value)

    def test_no_json(self) -> None:
        """Half an answer is none."""
        self.assertRaises(RemoteProtocolError, json_dialect.loads_large, b'{"offsetTable":{"T@G":{0:9')
