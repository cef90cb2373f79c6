"""``rocketha plan``: the sizing rule of a group in DLedger mode."""

from __future__ import annotations

import contextlib
import io
import unittest

from rocketha.admin import cli
from rocketha.admin.plan import GIGABIT, quota


class PlanTests(unittest.TestCase):
    """Numbers, and what is none."""

    def say(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main(["plan", *arguments])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return code, out.getvalue(), err.getvalue()

    def test_the_rule(self) -> None:
        """The example of RocketMQ's own document; more consumers and members leave less."""
        self.assertEqual(quota(3, GIGABIT, 2, 2), 50_000_000)
        self.assertEqual(quota(5, GIGABIT, 2, 2), 35_714_285)
        code, out, _ = self.say("--members=3", "--bandwidth=1", "--cards=2", "--consumed=2")
        self.assertEqual((code, out.splitlines()[-1]), (0, "peerPushQuota=50000000"))
        self.assertIn("50.0 MB", out)
        self.assertEqual(self.say("--bandwidth=0.5", "--consumed=1.5")[1].splitlines()[-1], "peerPushQuota=13888888")

    def test_what_is_no_number(self) -> None:
        """One line says what is allowed."""
        for arguments, words in (
            (("--bandwidth=x",), "'x' is not a number of 0 or more"),
            (("--bandwidth=inf",), "'inf' is not a number of 0 or more"),
            (("--bandwidth=1", "--members=0"), "'0' is not a number from 1 to 99"),
            (("--bandwidth=1", "--consumed=-1"), "'-1' is not a number of 0 or more"),
            (("--bandwidth=0",), "no bandwidth"),
            ((), "--bandwidth"),
        ):
            code, out, err = self.say(*arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertIn(words, err)
