"""The ``rocketha`` command in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from .roles import our_environment

PATIENCE_S = 90


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        [sys.executable, "-m", "rocketha.admin.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=our_environment(),
        check=False,
    )


def rocketha(*arguments: str) -> str:
    """Its output; AssertionError where it fails."""
    done = run(*arguments)
    if done.returncode:
        raise AssertionError(f"rocketha {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
