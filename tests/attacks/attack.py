"""What an attack is: a name, a function, and whether what it attacked held."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import time
from collections.abc import Callable

THEMES = ("notices", "registrations", "controllers", "floods", "connections", "slow", "exports", "files", "inflation")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether the attacked held, and the figures that say so."""

    held: bool
    figures: str


Run = Callable[[pathlib.Path], Verdict]
ATTACKS: dict[str, Run] = {}


def attack(name: str) -> Callable[[Run], Run]:
    """Enter a function of an empty directory among the attacks."""

    def enter(run: Run) -> Run:
        ATTACKS[name] = run
        return run

    return enter


def known() -> dict[str, Run]:
    """All attacks, theme by theme."""
    for theme in THEMES:
        importlib.import_module(f"tests.attacks.{theme}")
    return ATTACKS


def wait(seconds: float) -> None:
    """Let time pass, as somebody outside does who is told of nothing."""
    time.sleep(seconds)  # no event of a server reaches whoever attacks it
