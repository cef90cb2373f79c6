"""What is passed on to a master, what waits, and that no request goes from broker to broker to broker."""

from __future__ import annotations

import itertools
import unittest

from rocketha.broker import forward_rules
from rocketha.broker.forward_rules import EPOCH_MARK, MARK, NEWER_MARK, Course, course, patience, told
from rocketha.broker.long_polling import HELD_PER_CONNECTION_MAX
from rocketha.broker.routes import PULLS, ROUTES
from rocketha.wire.remoting import Answer, Command

FORWARDED = frozenset(code for code, route in ROUTES.items() if route.forwarded)


class CourseTests(unittest.TestCase):
    def test_a_clients_request(self) -> None:
        """Goes to the master, or waits for one."""
        self.assertIs(course(Command(310), "b:1"), Course.FORWARD)
        self.assertIs(course(Command(310), None), Course.HOLD)

    def test_a_request_that_was_passed_on(self) -> None:
        """Waits where we may be the next master, and is never passed on again."""
        passed = Command(310, fields={MARK: "a:1"})
        self.assertIs(course(passed, None), Course.HOLD)
        self.assertIs(course(passed, "a:1"), Course.HOLD)
        self.assertIs(course(passed, "c:1"), Course.REFUSE)
        for code, master in itertools.product(FORWARDED, (None, "a:1", "c:1")):
            self.assertIsNot(course(Command(code, fields={MARK: "a:1"}), master), Course.FORWARD)

    def test_the_forwarder_is_master_since(self) -> None:
        """It passed the request on to us when we were; now it must serve it itself."""
        passed = Command(310, fields={MARK: "a:1", EPOCH_MARK: "4"})
        self.assertIs(course(passed, "a:1", 3), Course.HOLD)
        self.assertIs(course(passed, "a:1", 5), Course.REFUSE)
        self.assertIs(course(Command(310, fields={MARK: "a:1", EPOCH_MARK: "x" * 99}), "a:1", 1), Course.REFUSE)

    def test_a_third_one_that_is_replaced(self) -> None:
        """All that we know is older than what the forwarder knows: that we are the next master."""
        passed = Command(310, fields={MARK: "a:1", EPOCH_MARK: "4"})
        self.assertIs(course(passed, "c:1", 3), Course.HOLD)
        for epoch in (4, 5):
            self.assertIs(course(passed, "c:1", epoch), Course.REFUSE)

    def test_the_forwarder_is_told_of_a_newer_master(self) -> None:
        """In the refusal; a client is not."""
        refusal = Answer(2, "busy", {"a": "b"})
        passed = Command(310, fields={MARK: "a:1", EPOCH_MARK: "4"})
        self.assertEqual(told(passed, refusal, 5).fields, {"a": "b", NEWER_MARK: "5"})
        self.assertEqual(told(passed, Answer(2), 5), Answer(2, None, {NEWER_MARK: "5"}))
        for command, epoch in ((passed, 4), (Command(310, fields={EPOCH_MARK: "4"}), 5), (Command(310), 5)):
            self.assertIs(told(command, refusal, epoch), refusal)


class PatienceTests(unittest.TestCase):
    def test_below_the_clients(self) -> None:
        """A Java producer waits for 3 s, one that is refused earlier can still try again."""
        for code in FORWARDED - PULLS:
            self.assertLess(patience(Command(code)).answer_ms, 3000)
            self.assertLess(patience(Command(code)).hold_ms, patience(Command(code)).answer_ms)

    def test_a_pull_may_be_held_by_the_master_too(self) -> None:
        """A push consumer lets it wait for 15 s and waits itself for 30."""
        found = patience(Command(11, fields={"suspendTimeoutMillis": "15000"}))
        self.assertLess(found.answer_ms, 29_000)
        self.assertGreaterEqual(found.answer_ms - found.hold_ms, 15_000 + 3000)

    def test_all_pulls_may_be_held_by_the_master(self) -> None:
        """It has a limit for each connection, and ours is one; beyond it pulls would go round without end."""
        self.assertLessEqual(forward_rules.PULLS_MAX, HELD_PER_CONNECTION_MAX)

    def test_senseless_times(self) -> None:
        """Are bounded."""
        for text in ("", "-1", "x", "9" * 18, "9" * 30):
            found = patience(Command(11, fields={"suspendTimeoutMillis": text}))
            self.assertLessEqual(found.answer_ms, 75_000)
            self.assertGreaterEqual(found.hold_ms, forward_rules.HOLD_MS)
