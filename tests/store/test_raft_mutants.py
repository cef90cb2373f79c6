"""The tests of the Raft log, tested: with any one rule taken out, one of them fails.

``make soak`` (ROCKETHA_SOAK=1) tries all of ``raft_mutants.py``; a plain run tries two, and that each fits the source.
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
from tests.store.raft_mutants import MUTANTS, Mutant

SOURCE = pathlib.Path(rocketha.__file__).parent
ROOT = pathlib.Path(__file__).parent.parent.parent
SOAK = bool(os.environ.get("ROCKETHA_SOAK"))
FAULTS = "tests/store/test_raft_log_faults.py"
# The quick ones first: most mutants go no further.
TESTS = [
    *(f"{FAULTS}::{name}Tests" for name in ("Vote", "Cut", "TornTail", "FailedSync")),
    "tests/store/test_raft_log.py",
    "tests/wire/test_raft_records.py",
    *(f"{FAULTS}::{name}Tests" for name in ("Rot", "RandomRun")),
]


def outcome(mutant: Mutant | None) -> tuple[bool, str]:
    """Whether the suite passes with a mutant, or with the source as it is, and its last lines."""
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "rocketha"
        for package in ("store", "wire", "raft"):
            shutil.copytree(SOURCE / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
        for module in ("__init__.py", "errors.py"):
            shutil.copy(SOURCE / module, copy / module)
        if mutant is not None:
            path = copy / mutant.module
            path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *TESTS],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
    return done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-15:])


class MutantTests(unittest.SynchronousTestCase):
    """Each rule has a test that misses it."""

    def test_mutants_fit_the_source(self) -> None:
        """Each text to replace stands in its module exactly once."""
        for mutant in MUTANTS:
            text = (SOURCE / mutant.module).read_text(encoding="utf-8")
            self.assertEqual(text.count(mutant.old), 1, mutant.name)
        self.assertGreaterEqual(len(MUTANTS), 11)

    @pytest.mark.soak
    def test_every_mutant_is_caught(self) -> None:
        """The first proves that it is the copy that runs; without a mutant all pass."""
        if SOAK:
            passes, text = outcome(None)
            self.assertTrue(passes, text)
        survivors = [mutant.name for mutant in (MUTANTS if SOAK else MUTANTS[:2]) if outcome(mutant)[0]]
        self.assertEqual(survivors, [])
