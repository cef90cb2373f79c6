"""Names of topics and groups (Java: TopicValidator; limits and remarks seen on a running 5.5.0)."""

from __future__ import annotations

import re
import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.broker import names
from rocketha.errors import RequestRefused


class TopicNameTests(unittest.TestCase):
    """What may be a topic."""

    def test_lengths(self) -> None:
        """127 characters, 255 for retry and DLQ topics, 120 for groups."""
        self.assertIsNone(names.topic_problem("t" * 127))
        self.assertIn("longer than topic max length: 127", names.topic_problem("t" * 128) or "")
        for prefix in (names.RETRY_PREFIX, names.DLQ_PREFIX):
            self.assertIsNone(names.topic_problem(prefix + "t" * (255 - len(prefix))))
            self.assertIn("max length: 255", names.topic_problem(prefix + "t" * (256 - len(prefix))) or "")
        self.assertIsNone(names.group_problem("g" * 120))
        self.assertIn("max length: 120", names.group_problem("g" * 121) or "")

    def test_a_group_s_retry_topic_is_always_good(self) -> None:
        """The longest group still has a retry and a DLQ topic."""
        group = "g" * 120
        self.assertIsNone(names.topic_problem(names.retry_topic(group)))
        self.assertIsNone(names.topic_problem(names.dlq_topic(group)))

    @given(st.text(min_size=1, max_size=127))
    def test_only_java_s_characters(self, name: str) -> None:
        """The pattern in the remark is the rule, for every text there is."""
        good = re.fullmatch("[%|a-zA-Z0-9_-]+", name) is not None
        self.assertEqual(names.topic_problem(name) is None, good)

    def test_traversal_and_its_friends(self) -> None:
        """security.md: `..`, `/`, NUL, `#`; a newline at the end, which `$` in a pattern would let through."""
        for name in ("../../x", "a/b", "..", "a\x00b", "a#b", "a b", "topic\n", "\uff54opic", "", " ", "\u2028"):
            with self.subTest(name=name):
                self.assertRaises(RequestRefused, names.check_topic, name)
                self.assertRaises(RequestRefused, names.check_group, name)

    def test_a_refusal_does_not_repeat_a_megabyte(self) -> None:
        """A remark travels in a header, and ends on a screen."""
        self.assertLess(len(names.topic_problem("x" * 1_000_000) or ""), 1000)
        self.assertLess(len(names.group_problem("/" * 1_000_000) or ""), 1000)
