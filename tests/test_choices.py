"""A name that there is not, on the command line of a test or a benchmark."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import unittest
from unittest import mock

from tests.choices import several
from tests.fuzz import access, doors


class ChoicesTests(unittest.TestCase):
    """It is an error that names those there are; nothing is run."""

    def test_several(self) -> None:
        """In the order in which they are given."""
        self.assertEqual(several(("a", "b", "c"))("c, a"), ["c", "a"])
        for text in ("a,x", "", "a,"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "no such names: .*; there are a, b"):
                several(("a", "b"))(text)

    def test_doors(self) -> None:
        """By port, or by port and way; without one all."""
        self.assertEqual(doors.named(["witness:plain", "status"]), {"witness:plain", "status:plain"})
        self.assertEqual(len(doors.named(["broker"])), len(doors.SHARES))
        self.assertEqual(len(doors.named([])), len(doors.NAMES))

    def test_the_command(self) -> None:
        """Before anything is started."""
        for word in ("nosuchdoor", "status:client", "broker:"):
            said = io.StringIO()
            with (
                contextlib.redirect_stderr(said),
                mock.patch.object(sys, "argv", ["access", "broker", word]),
                mock.patch.object(access, "Secured", side_effect=AssertionError),
                self.assertRaises(SystemExit) as ended,
            ):
                access.main()
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(f"no such doors: {word}; there are ", said.getvalue())
            self.assertIn("witness-raft:stranger", said.getvalue())


if __name__ == "__main__":
    unittest.main()
