"""fastjson's dialect: what Java wrote on the wire, what strict JSON allows, and what must be refused.

Sources: bodies recorded from Apache RocketMQ 5.5.0 (fastjson2 2.0.59); facts/remoting.md section 9; security.md.
"""

from __future__ import annotations

import json
import unittest
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_dialect
from rocketha.wire.json_dialect import DEPTH_MAX, ObjectKeyed, dumps, dumps_pretty, loads
from rocketha.wire.remoting import decode
from tests.wire.support import java_frames

CLUSTER = (
    '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:32011",2:"127.0.0.1:32021"},"brokerName":"broker-a",'
    '"cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
)
"""GET_BROKER_CLUSTER_INFO, recorded: integer keys without quotes."""

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def recorded(what: str, request: int) -> bytes:
    """A recorded body."""
    return next(
        decode(frame[4:]).body for row, frame in java_frames() if (row["what"], row["request"]) == (what, request)
    )


class JavaBodyTests(unittest.TestCase):
    """Bodies as Java writes them."""

    def test_integer_keys(self) -> None:
        """Unquoted integer keys become text keys, as quoted ones are."""
        self.assertEqual(recorded("answer", 106).decode(), CLUSTER)
        addresses = loads(CLUSTER)["brokerAddrTable"]["broker-a"]["brokerAddrs"]
        self.assertEqual(addresses, {"0": "127.0.0.1:32011", "2": "127.0.0.1:32021"})
        self.assertEqual(loads(dumps(loads(CLUSTER))), loads(CLUSTER))

    def test_object_keys(self) -> None:
        """Maps keyed by MessageQueue (topic and consume statistics) keep their keys, and are written Java's way
        again.
        """
        for request in (202, 208):
            body = recorded("answer", request)
            value = loads(body)
            table = value["offsetTable"]
            self.assertIsInstance(table, ObjectKeyed)
            key, item = table.entries[0]
            self.assertEqual(sorted(key), ["brokerName", "queueId", "topic"])
            self.assertTrue({"maxOffset", "brokerOffset"} & set(item))
            self.assertEqual(dumps(value), body)

    def test_all_recorded_bodies(self) -> None:
        """Every body that looks like JSON is read, and what we write of it reads as the same."""
        count = 0
        for row, frame in java_frames():
            body = decode(frame[4:]).body
            if body[:1] in (b"{", b"["):
                with self.subTest(row["from"], request=row["request"]):
                    self.assertEqual(loads(dumps(loads(body))), loads(body))
                    count += 1
        self.assertGreater(count, 15)


class ReaderTests(unittest.TestCase):
    """loads."""

    @given(json_values)
    def test_strict_json(self, value: Any) -> None:
        """All of JSON, from bytes, views and text; in both readers the same."""
        text = json.dumps(value, ensure_ascii=False)
        if _depth(value) > DEPTH_MAX:
            return
        self.assertEqual(loads(text), value)
        self.assertEqual(loads(text.encode()), value)
        self.assertEqual(loads(memoryview(text.encode())), value)
        self.assertEqual(json_dialect._Tolerant(text).document(), value)

    def test_tolerant(self) -> None:
        """Bare keys, object keys, white space; numbers in all their forms."""
        for text, wanted in (
            ("{1:2,-3:4}", {"1": 2, "-3": 4}),
            ("{a:1,$b_2:2}", {"a": 1, "$b_2": 2}),
            (' { 0 : "x" , "q" : [ ] } \n', {"0": "x", "q": []}),
            ("{0:{}}", {"0": {}}),
            ("{0:[1,[2],{3:4}]}", {"0": [1, [2], {"3": 4}]}),
            ("{0:true,1:false,2:null}", {"0": True, "1": False, "2": None}),
            ("{0:-1.5e3,1:0,2:1E2,3:-0}", {"0": -1500.0, "1": 0, "2": 100.0, "3": 0}),
            ('{0:"\\u4e2d\\n\\ud83d\\ude80"}', {"0": "\u4e2d\n\U0001f680"}),
            ("{0:1,0:2}", {"0": 2}),
            ('{{"a":1}:2}', ObjectKeyed((({"a": 1}, 2),))),
            ('{{"a":1}:2,"b":3}', ObjectKeyed((({"a": 1}, 2), ("b", 3)))),
            ("{{{1:2}:3}:4}", ObjectKeyed(((ObjectKeyed((({"1": 2}, 3),)), 4),))),
        ):
            with self.subTest(text):
                self.assertEqual(loads(text), wanted)
                self.assertEqual(loads(text.encode()), wanted)

    def test_refused(self) -> None:
        """No JSON of either kind: each refusal says where, none is another error."""
        for text in (
            "",
            " ",
            "{",
            "}",
            "[",
            "[1,",
            "[1 2]",
            "{0}",
            "{0:}",
            "{0:1",
            "{0:1,",
            "{0:1,}",
            "{,}",
            "{0:1}x",
            "{0:1}{",
            "nul",
            "{0:nul}",
            "{0:'a'}",
            '{0:"a}',
            '{0:"\x01"}',
            '{0:"\\x"}',
            '{0:"\\ud800"}',
            "{0:NaN}",
            "{0:Infinity}",
            "{0:01}",
            "{0:.5}",
            "{0:+1}",
            "{0:0x10}",
            "{0:--1}",
            "{-:1}",
            "{1.5:1}",
            "{[1]:2}",
            "{true :1",
            "{" + "a" * 129 + ":1}",
            "{0:" + "1" * 42 + "}",
            "/*x*/{0:1}",
        ):
            with self.subTest(text), self.assertRaisesRegex(RemoteProtocolError, "^JSON"):
                loads(text)
        for data in (b"\xff", b'{"a":"\xed\xa0\x80"}', b"{0:\xc3}"):
            with self.subTest(data), self.assertRaisesRegex(RemoteProtocolError, "^JSON"):
                loads(data)

    def test_depth(self) -> None:
        """32 levels are read, 33 are not, whichever reader; 100,000 neither crash nor take long (security.md)."""
        for opening, closing, middle in (("[", "]", "1"), ('{"a":', "}", "1"), ("{0:", "}", "1")):
            for depth, fine in ((1, True), (DEPTH_MAX, True), (DEPTH_MAX + 1, False), (1000, False), (100_000, False)):
                text = opening * depth + middle + closing * depth
                with self.subTest(opening, depth=depth):
                    if fine:
                        loads(text)
                    else:
                        with self.assertRaises(RemoteProtocolError):
                            loads(text)
        for depth in (DEPTH_MAX + 1, 100_000):
            with self.assertRaises(RemoteProtocolError):
                loads("{" * depth + "1:1" + "}:1" * (depth - 1) + "}")

    def test_size(self) -> None:
        """The tolerant reader, which is slow, refuses large texts; the fast one reads them."""
        large = '"' + "a" * json_dialect.TOLERANT_BYTES_MAX + '"'
        self.assertEqual(len(loads(large)), json_dialect.TOLERANT_BYTES_MAX)
        with self.assertRaisesRegex(RemoteProtocolError, "^JSON: "):
            loads("{0:" + large + "}")

    def test_long_strings(self) -> None:
        """A string of a megabyte in the dialect, and one that never ends, in linear time."""
        self.assertEqual(len(loads('{0:"' + "a" * 1_000_000 + '"}')["0"]), 1_000_000)
        with self.assertRaisesRegex(RemoteProtocolError, "unfinished string"):
            loads('{0:"' + "\\n" * 500_000)


class WriterTests(unittest.TestCase):
    """dumps and dumps_pretty."""

    @given(json_values)
    def test_both_read_back(self, value: Any) -> None:
        """Compact and pretty say the same."""
        if _depth(value) > DEPTH_MAX:
            return
        self.assertEqual(loads(dumps(value)), value)
        self.assertEqual(loads(dumps_pretty(value)), value)

    def test_compact(self) -> None:
        """No white space, the order given, integer keys quoted (every Java version reads that)."""
        self.assertEqual(dumps({"b": [1, None, True], 0: "x"}), b'{"b":[1,null,true],"0":"x"}')
        self.assertEqual(dumps({"t": ObjectKeyed(())}), b'{"t":{}}')
        nested = ObjectKeyed((({"queueId": 0}, {"inner": ObjectKeyed((({"a": 1}, 2),))}),))
        self.assertEqual(dumps(nested), b'{{"queueId":0}:{"inner":{{"a":1}:2}}}')

    def test_pretty(self) -> None:
        """Tabs as in config/*.json of a Java broker; empty objects and lists stay on one line."""
        value = {"dataVersion": {"counter": 1}, "table": {"a": [1, {"b": 2}], "e": {}, "f": []}, 3: (4,)}
        self.assertEqual(
            dumps_pretty(value).decode(),
            '{\n\t"dataVersion":{\n\t\t"counter":1\n\t},\n\t"table":{\n\t\t"a":[\n\t\t\t1,\n\t\t\t{\n\t\t\t\t"b":2\n\t\t\t}\n\t\t],'
            '\n\t\t"e":{},\n\t\t"f":[]\n\t},\n\t"3":[\n\t\t4\n\t]\n}',
        )

    def test_what_has_no_json(self) -> None:
        """A value of another type is our own mistake, and named."""
        with self.assertRaises(TypeError):
            dumps({"a": object()})


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
