"""Without the compiled part the messages take the way through Python: the tests of that way run without it."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from rocketha.compiled import PURE
from tests.tidy.source import ROOT

MODULES = (
    "tests.broker.test_message_keys",
    "tests.services.broker.test_send",
    "tests.store.test_index_pages",
    "tests.store.test_put_batch",
    "tests.wire.test_batch",
)


class PurePythonTests(unittest.TestCase):
    """In a process of its own: which way is taken is decided when the modules are imported."""

    def test_the_same_tests(self) -> None:
        run = subprocess.run(
            [sys.executable, "-m", "unittest", *MODULES],
            cwd=ROOT,
            env=os.environ | {PURE: "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("\nOK", run.stdout)
