"""Running mutations: each in a process of its own, since a monkeypatch is for ever."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

Hunt = Callable[[str, int], tuple[int, str] | None]
"""Applies a mutation to this process: the first seed that catches it, with what it found."""


def in_a_process(module: str, name: str, first: int = 1) -> tuple[bool, str]:
    """Whether a mutation of a module is caught, and what was said."""
    command = [sys.executable, "-m", module, "--here", name, "--first", str(first)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.returncode == 0, (ran.stdout + ran.stderr[-2000:]).strip()


def say(text: str) -> None:
    """One line, now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(module: str, mutations: Mapping[str, Any], hunt: Hunt, description: str) -> int:
    """All of a module's mutations, or one; how the process ends.

    :param mutations: name to something with ``what``, in words.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(mutations)} (default all)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default %(default)s)")
    parser.add_argument("--here", action="store_true", help="in this process, one name")
    args = parser.parse_args()
    if args.here:
        caught = hunt(args.names[0], args.first)
        say("not caught" if caught is None else f"caught by seed {caught[0]}: {caught[1]}")
        return 1 if caught is None else 0
    escaped = 0
    for name in args.names or mutations:
        began = time.monotonic()
        fine, said = in_a_process(module, name, args.first)
        escaped += not fine
        say(f"{name} ({mutations[name].what}): {said} [{time.monotonic() - began:.0f} s]")
    say(f"{len(args.names or mutations)} mutations, {escaped} escaped")
    return 1 if escaped else 0
