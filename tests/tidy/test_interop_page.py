"""docs/interop.md has every row of the certificate, and hides nothing that failed; tests/interop runs one of them."""

from __future__ import annotations

import unittest
from unittest import mock

from tests.interop import certificate
from tests.interop.certificate import (
    ABSENT,
    FAILED,
    PASSED,
    ROWS,
    Bed,
    Outcome,
    Row,
    check_once,
    check_order,
    check_read,
    page,
)
from tests.interop.harness import jars
from tests.interop.harness.ledger import Ack


def outcome_of(scenario: object, part: str = "") -> Outcome:
    return Row("RocketMQ 9.9", "broker", "9.9", part, scenario).run()  # type: ignore[arg-type]


class PageTests(unittest.TestCase):
    def test_every_row_is_there(self) -> None:
        text = certificate.PAGE.read_text()
        for row in ROWS:
            self.assertIn(f"| {row.subject} |", text)
        for subject, role in {(row.subject, row.role) for row in certificate.SERVER_ROWS}:
            self.assertEqual(text.count(f"| {subject} | {role} |"), 1, (subject, role))
        self.assertEqual(len({row.name for row in ROWS}), len(ROWS))

    def test_what_failed_is_shown(self) -> None:
        """With its reason, and counted; what never ran is not taken for passed."""
        failed, absent = ROWS[0], ROWS[1]
        text = page(
            {
                failed.name: Outcome(FAILED, "AssertionError: 3 lost | of 9", "2026-01-02", 1.0),
                absent.name: Outcome(ABSENT, "there is none", "2026-01-03", 1.0),
            }
        )
        lines = text.splitlines()
        self.assertIn(
            f"| {failed.subject} | {failed.role} | **failed** | AssertionError: 3 lost \\| of 9 | 2026-01-02 |", lines
        )
        self.assertIn(f"| {absent.subject} | {absent.role} | not available here | there is none | 2026-01-03 |", lines)
        rest = len(ROWS) - 2
        counts = f"Of {len(ROWS)} rows 0 passed, 1 failed, 1 are not available here, {rest} were not run"
        self.assertIn(counts, " ".join(text.split()))
        self.assertEqual(sum("| not run |" in line for line in lines), rest)
        self.assertFalse(any("| passed |" in line for line in lines))

    def test_outcomes(self) -> None:
        """Of a scenario that counts, of one that fails, of one that cannot be had, and of a part that is not there."""

        def fails(bed: Bed) -> str:
            raise AssertionError("2 lost\nand more")

        def skips(bed: Bed) -> str:
            raise unittest.SkipTest("no Go here")

        found = outcome_of(lambda bed: "7 sent")
        self.assertEqual((found.state, found.text), (PASSED, "7 sent"))
        with mock.patch("sys.stderr"):
            self.assertEqual(outcome_of(fails)[:2], (FAILED, "AssertionError: 2 lost"))
        self.assertEqual(outcome_of(skips)[:2], (ABSENT, "no Go here"))
        with mock.patch.object(jars, "demand", side_effect=unittest.SkipTest("there is no part 9.9")):
            self.assertEqual(outcome_of(fails, "part")[:2], (ABSENT, "there is no part 9.9"))


class CheckTests(unittest.TestCase):
    """What a row asserts is noticed when it does not hold."""

    sent = [{"key": f"k-{number}", "sha": str(number)} for number in range(6)]

    def test_received(self) -> None:
        """One that is missing, changed, or there twice, which a client may do that hands messages back itself."""
        steady, hasty = mock.Mock(hasty=False), mock.Mock(hasty=True)
        other = [{"key": "first-0", "sha": "x"}]
        check_once(steady, self.sent, self.sent[::-1] + other)
        check_once(hasty, self.sent, self.sent + self.sent[:1])
        for client, got in (
            (hasty, self.sent[1:]),
            (hasty, [{**self.sent[0], "sha": "x"}, *self.sent[1:]]),
            (steady, self.sent + self.sent[:1]),
        ):
            self.assertRaises(AssertionError, check_once, client, self.sent, got)

    def test_order(self) -> None:
        """Of every third; what comes again later is no disorder."""
        check_order(self.sent, [self.sent[at] for at in (1, 0, 2, 4, 5, 3, 0)])
        self.assertRaises(AssertionError, check_order, self.sent, [self.sent[at] for at in (3, 0, 1, 2, 4, 5)])

    def test_lost(self) -> None:
        """Nowhere, or not where the client was told."""
        acks = [Ack(0, "k", 1, 7, "127.0.0.1:1", 0)]
        check_read(mock.Mock(**{"read.return_value": {"k": [(1, 7)]}}), acks)
        for present in ({}, {"k": [(1, 8)]}):
            self.assertRaises(AssertionError, check_read, mock.Mock(**{"read.return_value": present}), acks)
