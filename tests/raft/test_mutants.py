"""The tests of the core, tested: with any one safety rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``mutants.py``; a plain run tries one, and that each fits the source.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest
from twisted.trial import unittest

import rocketha
from tests.raft.mutants import MUTANTS, Mutant

SOURCE = pathlib.Path(rocketha.__file__).parent
ROOT = pathlib.Path(__file__).parent.parent.parent
THIS = "tests/raft/test_mutants.py"
SOAK = bool(os.environ.get("ROCKETHA_SOAK"))


def outcome(mutant: Mutant | None) -> tuple[bool, str]:
    """Whether a mutant passes its tests (or the source as it is all but this one), and the last lines."""
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "rocketha"
        for package in ("raft", "wire"):
            shutil.copytree(SOURCE / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        for module in ("__init__.py", "errors.py"):
            shutil.copy(SOURCE / module, copy / module)
        if mutant is not None:
            path = copy / "raft" / mutant.module
            path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
        tests = [f"tests/raft/test_{mutant.test}.py"] if mutant is not None else ["tests/raft", "--ignore", THIS]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests, "tests/raft/test_copy.py"],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": directory,
                "ROCKETHA_RAFT_MUTANT": directory,
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    return done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-15:])


class MutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once."""
        for mutant in MUTANTS:
            with self.subTest(mutant.name):
                text = (SOURCE / "raft" / mutant.module).read_text(encoding="utf-8")
                self.assertEqual(text.count(mutant.old), 1)
        self.assertGreaterEqual(len(MUTANTS), 15)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """Without a mutant all pass (and test_copy.py proves that it is the copy that runs)."""
        chosen = MUTANTS if SOAK else MUTANTS[1:2]
        if SOAK:
            passes, text = outcome(None)
            self.assertTrue(passes, text)
        survivors = [mutant.name for mutant in chosen if outcome(mutant)[0]]
        self.assertEqual(survivors, [])
