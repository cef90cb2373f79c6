"""Tests that are tested: one rule of a copy of the source is taken out, and the tests run against the copy."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import attrs

import rocketha

SOURCE = pathlib.Path(rocketha.__file__).parent
ROOT = pathlib.Path(__file__).parent.parent
SOAK = bool(os.environ.get("ROCKETHA_SOAK"))
PASSED, FAILED = 0, 1
"""How pytest ends where tests ran; anything else: they did not."""
RUN = """
import sys, pytest, rocketha
sys.exit(pytest.main(sys.argv[2:]) if rocketha.__file__.startswith(sys.argv[1]) else "not the copy")
"""
"""Runs pytest on the copy."""


@attrs.frozen
class Mutant:
    """One rule taken out.

    :ivar name: what is broken.
    :ivar module: in src/rocketha.
    :ivar old: the text that keeps the rule; stands there exactly once.
    :ivar new: what stands there instead.
    """

    name: str
    module: str
    old: str
    new: str

    def problem(self) -> str:
        """Why this is no mutant; empty: it is."""
        text = (SOURCE / self.module).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            return f"{self.name}: the text stands {text.count(self.old)} times in {self.module}"
        try:
            compile(text.replace(self.old, self.new), self.module, "exec")
        except SyntaxError as error:
            return f"{self.name}: {error}"
        return ""


def outcome(tests: Sequence[str], mutant: Mutant | None, timeout_s: float = 600) -> tuple[bool, str]:
    """Whether tests pass with a mutant, or with the source as it is, and their last lines.

    :raises AssertionError: they did not run: that says nothing of a mutant.
    """
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / "rocketha"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            path = copy / mutant.module
            path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", RUN, directory, "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": directory,
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    text = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
    # a module that cannot be imported is an error too, and its line names no test
    lost = any(line.startswith("ERROR ") and "::" not in line for line in text.splitlines())
    ran = done.returncode in (PASSED, FAILED) and not lost
    assert ran, f"{mutant and mutant.name}: pytest ends with {done.returncode}: {text}"
    return done.returncode == PASSED, text
