"""The KV configuration table (KVConfigManager)."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.namesrv.kv_config import KEYS_MAX, NAMESPACES_MAX, KvConfig

NAME = st.text(min_size=1, max_size=20)


class KvConfigTests(unittest.TestCase):
    """Values, limits and the file's form."""

    def test_put_get_delete(self) -> None:
        """The old table stays as it was, so that a failed save can go back to it."""
        empty = KvConfig()
        one = empty.put("NS", "k", "v")
        self.assertEqual((empty.get("NS", "k"), one.get("NS", "k"), one.get("NS", "x")), (None, "v", None))
        self.assertEqual(one.put("NS", "k", "w").get("NS", "k"), "w")
        self.assertEqual(one.delete("NS", "k").tables, {"NS": {}})
        self.assertIs(one.delete("NS", "x"), one)
        self.assertIs(one.delete("NO", "k"), one)

    def test_namespace(self) -> None:
        """A KVTable, or nothing."""
        kv = KvConfig({"NS": {"b": "2", "a": "1"}})
        self.assertEqual(kv.namespace("NS"), b'{"table":{"a":"1","b":"2"}}')
        self.assertIsNone(kv.namespace("NO"))

    def test_java_file(self) -> None:
        """What Java 5.5.0 writes."""
        data = b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}'
        kv = KvConfig.decode(data)
        self.assertEqual(kv.get("ORDER_TOPIC_CONFIG", "T"), "broker-a:4")
        self.assertEqual(kv.encode(), data)

    def test_damaged_file(self) -> None:
        """Anything else is refused, never half taken."""
        for data in (
            b"",
            b"{",
            b"[]",
            b"{}",
            b'{"configTable":[]}',
            b'{"configTable":{"a":[1]}}',
            b'{"configTable":{"a":1}}',
        ):
            with self.subTest(data=data), self.assertRaises(RemoteProtocolError):
                KvConfig.decode(data)

    def test_limits(self) -> None:
        """Names, values, and how many of each."""
        for namespace, key, value in (("", "k", "v"), ("n", "", "v"), ("n" * 256, "k", "v"), ("n", "k", "v" * 65_537)):
            with self.assertRaises(RequestRefused):
                KvConfig().put(namespace, key, value)
        full = KvConfig({str(number): {} for number in range(NAMESPACES_MAX)})
        with self.assertRaises(RequestRefused):
            full.put("new", "k", "v")
        self.assertEqual(full.put("0", "k", "v").get("0", "k"), "v")
        full = KvConfig({"n": {str(number): "" for number in range(KEYS_MAX)}})
        with self.assertRaises(RequestRefused):
            full.put("n", "new", "v")
        self.assertEqual(full.put("n", "0", "v").get("n", "0"), "v")

    @given(st.dictionaries(NAME, st.dictionaries(NAME, st.text(max_size=20), max_size=4), max_size=4))
    def test_round_trip(self, tables: dict[str, dict[str, str]]) -> None:
        """Any texts come back from the file."""
        self.assertEqual(KvConfig.decode(KvConfig(tables).encode()).tables, tables)
