"""The golden traces: what each node says and does, step by step, in scripts that a person can read.

``ROCKETHA_REWRITE_TRACES=1`` rewrites them; read the difference before committing it.
"""

from __future__ import annotations

import os
import pathlib

from twisted.trial import unittest

from tests.raft.interaction import play

TRACES = sorted((pathlib.Path(__file__).parent / "traces").glob("*.txt"))


class TraceTests(unittest.SynchronousTestCase):
    """In the manner of etcd's rafttest."""

    maxDiff = None

    def test_traces(self) -> None:
        """Each trace prints what it printed before."""
        self.assertGreaterEqual(len(TRACES), 12)
        for path in TRACES:
            with self.subTest(path.name):
                golden = path.read_text(encoding="utf-8")
                played = play(golden)
                if os.environ.get("ROCKETHA_REWRITE_TRACES"):
                    path.write_text(played, encoding="utf-8")
                else:
                    self.assertEqual(played, golden)
