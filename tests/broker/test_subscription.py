"""Tag expressions and hashes (Java: FilterAPI, ExpressionMessageFilter; hashes seen in recorded heartbeats)."""

from __future__ import annotations

import json
import unittest
from typing import Any

from rocketha.broker import subscription
from rocketha.broker.subscription import SubscriptionData, parse_tags
from rocketha.errors import RemoteProtocolError, RequestRefused
from tests.broker.support import DATA


class TagTests(unittest.TestCase):
    """From an expression to the codes in the consume queue."""

    def test_as_the_java_client_computes_it(self) -> None:
        """Every subscription of the recorded heartbeats, parsed from its text, has the client's own codes."""
        compared = 0
        for exchange in json.loads((DATA / "java_requests.json").read_text()):
            if exchange["code"] != 34:
                continue
            for consumer in json.loads(exchange["body"])["consumerDataSet"]:
                for row in consumer["subscriptionDataSet"]:
                    theirs, ours = SubscriptionData.from_json(row), parse_tags(row["topic"], row["subString"])
                    self.assertEqual(ours.code_set, theirs.code_set)
                    self.assertEqual(sorted(ours.tags_set), sorted(theirs.tags_set))
                    self.assertEqual(theirs.as_json(), row | {"codeSet": sorted(row["codeSet"])})
                    compared += 1
        self.assertGreater(compared, 5)

    def test_parts_are_trimmed_and_empty_parts_dropped(self) -> None:
        """`a || b` as in Java's split."""
        data = parse_tags("T", "  TagA||  TagB || || TagA")
        self.assertEqual(data.tags_set, ("TagA", "TagB"))
        self.assertEqual(data.code_set, {2598919, 2598920})

    def test_everything(self) -> None:
        """Nothing, "" and * have no filter."""
        for text in (None, "", "*"):
            self.assertIsNone(parse_tags("T", text).accepts())

    def test_only_blanks_match_nothing(self) -> None:
        """Java keeps such an expression with an empty set, which matches no message."""
        accepts = parse_tags("T", " || ").accepts()
        assert accepts is not None
        self.assertFalse(accepts(0))

    def test_negative_hashes(self) -> None:
        """`String.hashCode` is signed."""
        accepts = parse_tags("T", "polygenelubricants").accepts()
        assert accepts is not None
        self.assertTrue(accepts(-2147483648))
        self.assertFalse(accepts(2147483648))

    def test_limits(self) -> None:
        """Too long, too many."""
        self.assertRaises(RequestRefused, parse_tags, "T", "x" * (subscription.EXPRESSION_LENGTH_MAX + 1))
        many = "||".join(map(str, range(subscription.TAGS_MAX + 1)))
        self.assertRaises(RequestRefused, parse_tags, "T", many)

    def test_bad_rows(self) -> None:
        """A row of a heartbeat that is none."""
        good = {"topic": "T", "subString": "*"}
        self.assertEqual(SubscriptionData.from_json(good), SubscriptionData("T"))
        bad_rows: tuple[Any, ...] = (
            [],
            {},
            {"topic": None},
            {"topic": "T" * 256},
            good | {"subString": "x" * (subscription.EXPRESSION_LENGTH_MAX + 1)},
            good | {"tagsSet": True},
            good | {"codeSet": ["a"]},
            good | {"codeSet": [1 << 31]},
            good | {"codeSet": list(range(subscription.TAGS_MAX + 1))},
            good | {"subVersion": "one"},
            good | {"expressionType": "x" * 65},
        )
        for bad in bad_rows:
            with self.subTest(bad=str(bad)[:60]), self.assertRaises(RemoteProtocolError):
                SubscriptionData.from_json(bad)

    def test_as_java_reads_it(self) -> None:
        """What clients of other languages write instead of texts, numbers and lists, and what they leave out."""
        for row, wanted in (
            ({"topic": 3, "subString": 3}, SubscriptionData("3", "3")),
            ({"topic": "T", "subString": None, "tagsSet": None, "codeSet": None}, SubscriptionData("T")),
            ({"topic": "T", "tagsSet": "a", "codeSet": "97"}, SubscriptionData("T", "*", ("a",), frozenset([97]))),
            ({"topic": "T", "tagsSet": [1], "codeSet": ["49"]}, SubscriptionData("T", "*", ("1",), frozenset([49]))),
            ({"topic": "T", "subVersion": "7", "expressionType": ""}, SubscriptionData("T", sub_version=7)),
            ({"topic": "T", "classFilterMode": "true", "Topic": 5}, SubscriptionData("T", class_filter_mode=True)),
        ):
            with self.subTest(row=row):
                self.assertEqual(SubscriptionData.from_json(row), wanted)

    def test_an_sql_expression_is_no_tag(self) -> None:
        """It is kept for display; the broker refuses to filter by it."""
        data = SubscriptionData.from_json({"topic": "T", "subString": "a > 1", "expressionType": "SQL92"})
        self.assertFalse(data.is_tag)
        self.assertTrue(SubscriptionData("T", expression_type="").is_tag)
