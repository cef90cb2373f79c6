"""Compiled twins of the few functions that handle messages one by one: ``_compiled.pyx`` has them.

A function under :func:`compiled` is the reference and says what it gives and raises. Its twin is tried first and
answers None for what it leaves to the reference: input out of the ordinary, and every error.  Where no compiler was
found when rocketha was installed there are no twins, and all works as before, with more CPU a message.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

PURE = "ROCKETHA_PURE_PYTHON"
"""The environment variable that leaves the twins unused where it is set to anything."""


def _load() -> Any:
    if os.environ.get(PURE):
        return None
    try:
        return importlib.import_module("rocketha._compiled")
    except ImportError:
        return None


_twins = _load()

AVAILABLE = _twins is not None
"""Whether twins are used."""

REFERENCES: dict[str, Callable[..., Any]] = {}
"""The functions that may have a twin, by name, without it."""


def compiled(reference: Callable[P, R]) -> Callable[P, R]:
    """Let the twin of the same name try first."""
    name = reference.__name__
    REFERENCES[name] = reference
    if _twins is None:
        return reference
    twin = getattr(_twins, name)

    @functools.wraps(reference)
    def either(*args: P.args, **kwargs: P.kwargs) -> R:
        found = twin(*args, **kwargs)
        return reference(*args, **kwargs) if found is None else cast(R, found)

    return either
