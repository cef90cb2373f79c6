"""The body of REGISTER_BROKER, well formed and hostile (security.md: counts, lengths, inflating)."""

from __future__ import annotations

import struct
import unittest
import zlib
from collections.abc import Mapping, Sequence

import orjson
from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.namesrv.data_version import DataVersion, from_json
from rocketha.namesrv.register_body import INFLATED_BYTES_FLOOR, QUEUES_MAX, RegisterBody, Topic, parse
from tests.namesrv.helpers import json_body

VERSION = DataVersion(7, 1795256860020, 19)


def counted(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def plain(
    topics: Sequence[str] = ("T1 4 8 6 SINGLE_TAG {}",),
    filters: bytes = b'["f:1"]',
    mappings: Sequence[Mapping[str, object]] = ({"topic": "S", "bname": "b", "totalQueues": 2},),
    version: DataVersion = VERSION,
) -> bytes:
    """The inside of the compressed form, as ``RegisterBrokerBody.encode(true)`` writes it."""
    parts = [counted(version.encode()), struct.pack(">i", len(topics)), *(counted(t.encode()) for t in topics)]
    parts += [counted(filters), struct.pack(">i", len(mappings)), *(counted(orjson.dumps(m)) for m in mappings)]
    return b"".join(parts)


class BodyTestCase(unittest.TestCase):
    """Asserts a refusal."""

    def refused(self, body: bytes, reason: str, compressed: bool = False) -> None:
        with self.assertRaises(RequestRefused) as caught:
            parse(body, compressed, 513)
        self.assertEqual(caught.exception.code, 1)
        self.assertIn(reason, caught.exception.remark)


class JsonBodyTests(BodyTestCase):
    """``compressed=false``: what every shipped broker sends."""

    def test_whole(self) -> None:
        """Topics with their queues, perm and flag; the data version."""
        found = parse(json_body({"T1": 6, "%RETRY%g": 4}, state_version=3, counter=9), False, 513)
        self.assertEqual(found.version, DataVersion(3, 5, 9))
        self.assertEqual(found.topics, (Topic("T1"), Topic("%RETRY%g", perm=4)))
        self.assertEqual(found.filter_servers, ())

    def test_defaults(self) -> None:
        """Fields that Java leaves out have the values of Java's classes; no body at all is an empty table."""
        wrapper = {"topicConfigTable": {"T": {}}}
        body = orjson.dumps({"topicConfigSerializeWrapper": wrapper})
        self.assertEqual(parse(body, False, 513), RegisterBody(DataVersion(), (Topic("T", 16, 16, 6, 0),)))
        self.assertEqual(parse(b"{}", False, 513), RegisterBody())
        self.assertEqual(parse(b"", False, 513), RegisterBody())

    def test_old_broker(self) -> None:
        """Below version 37 the body is the wrapper alone and says nothing of filter servers."""
        wrapper = orjson.loads(json_body())["topicConfigSerializeWrapper"]
        found = parse(orjson.dumps(wrapper), False, 36)
        self.assertEqual([topic.name for topic in found.topics], ["T1", "T2"])
        self.assertIsNone(found.filter_servers)
        self.assertEqual(len(parse(json_body(), False, 37).topics), 2)

    def test_filter_servers_and_mappings(self) -> None:
        """Both are kept as they come."""
        mapping = {"topic": "S", "bname": "b", "totalQueues": 2, "epoch": 1, "currIdMap": {"0": 0}}
        wrapper = {"topicQueueMappingInfoMap": {"S": mapping}}
        found = parse(orjson.dumps({"filterServerList": ["f:1"], "topicConfigSerializeWrapper": wrapper}), False, 513)
        self.assertEqual((found.filter_servers, found.mappings), (("f:1",), {"S": mapping}))

    def test_not_json(self) -> None:
        """Text, a list, a cut body, nesting without end."""
        self.refused(b"hello", "Failed to decode RegisterBrokerBody")
        self.refused(b"[]", "the body is no JSON object")
        self.refused(json_body()[:-1], "Failed to decode")
        self.refused(b"[" * 100_000, "Failed to decode")
        self.refused(b'{"topicConfigSerializeWrapper":3}', "topicConfigSerializeWrapper: '3' where an object is wanted")

    def test_a_filter_server_without_a_name(self) -> None:
        """Java keeps it; it is left out, and the registration counts."""
        body = orjson.dumps({"filterServerList": ["a:1", "", "b\n", "x" * 256]})
        self.assertEqual(parse(body, False, 513).filter_servers, ("a:1",))
        self.assertEqual(parse(zlib.compress(plain(filters=b'["a",""]')), True, 513).filter_servers, ("a",))

    def test_values_out_of_range(self) -> None:
        """A client makes a queue object per queue that a route names: a broker may not ask for 2**31 of them."""
        for field, value in (
            ("readQueueNums", QUEUES_MAX + 1),
            ("writeQueueNums", -1),
            ("perm", 16),
            ("topicSysFlag", 2**31),
            ("perm", []),
            ("readQueueNums", "x"),
            ("topicName", ""),
            ("topicName", "x" * 256),
            ("topicName", "a\nb"),
        ):
            with self.subTest(field=field, value=value):
                wrapper = {"topicConfigTable": {"T": {field: value}}}
                self.refused(orjson.dumps({"topicConfigSerializeWrapper": wrapper}), "Failed to decode")

    def test_data_version(self) -> None:
        """Absent is zero; numbers are read as Java reads them."""
        self.assertEqual(from_json(None), DataVersion())
        self.assertEqual(from_json({"counter": 2}), DataVersion(0, 0, 2))
        found = from_json({"timestamp": "5", "stateVersion": True, "counter": 1.5})
        self.assertEqual(found, DataVersion(state_version=1, timestamp_ms=5, counter=1))
        for bad in ([], 5, {"counter": 2**63}, {"timestamp": "five"}):
            with self.subTest(bad=bad), self.assertRaises(RemoteProtocolError):
                from_json(bad)


class CompressedBodyTests(BodyTestCase):
    """``compressed=true``: deprecated, but what an operator may still switch on."""

    def test_whole(self) -> None:
        """As Java 5 writes it; the topic's flag is lost in this form."""
        found = parse(zlib.compress(plain(["T1 4 8 6 SINGLE_TAG {}", 'T2 1 1 7 SINGLE_TAG {"+k":"a b"}'])), True, 513)
        mapping = {"topic": "S", "bname": "b", "totalQueues": 2}
        self.assertEqual(
            found, RegisterBody(VERSION, (Topic("T1", 4, 8, 6), Topic("T2", 1, 1, 7)), {"S": mapping}, ("f:1",))
        )

    def test_without_attributes_or_mappings(self) -> None:
        """Brokers below 413 write no mappings, and older topic texts have no sixth part."""
        data = plain(["T 4 4 6 SINGLE_TAG"], mappings=())[:-4]
        self.assertEqual(parse(zlib.compress(data), True, 412).topics, (Topic("T"),))
        self.refused(zlib.compress(data), "ends before the number of static topic mappings", compressed=True)

    def test_bomb(self) -> None:
        """1000:1 is refused long before it is inflated."""
        self.refused(zlib.compress(bytes(1 << 24)), "inflate to more than", compressed=True)

    def test_small_body_may_inflate_to_the_floor(self) -> None:
        """A few equal topics compress well beyond 100:1 and are no attack."""
        topics = [f"{'T' * 200}{number} 4 4 6 SINGLE_TAG {{}}" for number in range(250)]
        data = plain(topics)
        packed = zlib.compress(data)
        self.assertGreater(len(data), 30 * len(packed))
        self.assertLess(len(data), INFLATED_BYTES_FLOOR)
        self.assertEqual(len(parse(packed, True, 513).topics), 250)

    def test_hostile_counts_and_lengths(self) -> None:
        """Java allocates what these say; here they are compared with what is there."""
        version = counted(VERSION.encode())
        for data, reason in (
            (struct.pack(">i", -1), "the length of the data version is -1"),
            (struct.pack(">i", 2**31 - 1) + b"{}", "the length of the data version is 2147483647"),
            (version + struct.pack(">i", 2**31 - 1), "the number of topics is 2147483647"),
            (version + struct.pack(">i", -5), "the number of topics is -5"),
            (version + struct.pack(">ii", 1, 9) + b"T", "the length of topic is 9"),
            (plain(["T 4 4 6"]), "a topic is not"),
            (plain(["T x 4 6 SINGLE_TAG"]), "a topic is not"),
            (plain(["T 4 -4 6 SINGLE_TAG"]), "a topic is not"),
            (plain([" 4 4 6 SINGLE_TAG"]), "a topic's name"),
            (plain([f"T 4 {QUEUES_MAX + 1} 6 SINGLE_TAG"]), "4 and 65537 queues"),
            (plain(filters=b"null", mappings=[{"bname": "b"}]), "topic is missing"),
            (plain(filters=orjson.dumps(["f"] * 65)), "filterServerList"),
            (plain().replace(b"SINGLE_TAG", b"SINGLE\xff\xfe\xfd\xfc"), "not UTF-8"),
        ):
            with self.subTest(reason=reason):
                self.refused(zlib.compress(data), reason, compressed=True)

    def test_not_deflated(self) -> None:
        """The header says compressed and the body is not, or it is cut."""
        self.refused(json_body(), "incorrect header check", compressed=True)
        self.refused(zlib.compress(plain())[:-6], "ends too early", compressed=True)

    @given(st.integers(0, 400), st.integers(0, 255), st.integers(0, 400))
    def test_damaged(self, place: int, value: int, cut: int) -> None:
        """Any byte changed, any tail cut: parsed or refused, never another exception."""
        data = bytearray(plain())
        data[place % len(data)] = value
        try:
            found = parse(zlib.compress(bytes(data[: len(data) - cut % len(data)])), True, 513)
        except RequestRefused:
            return
        self.assertLessEqual(len(found.topics), 1)

    @given(
        st.lists(
            st.tuples(
                st.text("abcDEF%|-_09", min_size=1, max_size=40),
                st.integers(0, 1024),
                st.integers(0, 1024),
                st.integers(0, 15),
            ),
            max_size=8,
        ),
        st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3),
    )
    def test_round_trip(self, topics: list[tuple[str, int, int, int]], version: tuple[int, int, int]) -> None:
        """What Java's encoder would write for any topics comes back."""
        texts = [f"{name} {read} {write} {perm} SINGLE_TAG {{}}" for name, read, write, perm in topics]
        found = parse(zlib.compress(plain(texts, version=DataVersion(*version))), True, 513)
        self.assertEqual(found.topics, tuple(Topic(*topic) for topic in topics))
        self.assertEqual(found.version, DataVersion(*version))
