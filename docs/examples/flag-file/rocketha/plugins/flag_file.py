"""A health check: the broker is unhealthy while a file exists.

A master that controllers elected gives its role away then, so ``touch /run/rocketha/maintenance`` empties a machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from rocketha.interfaces import API, FeatureParts, IBrokerFeature, IHealthCheck, Key


@implementer(IHealthCheck)
class FlagFileCheck:
    """Looks at one path."""

    name = "flag-file"
    every_s = 1.0
    timeout_s = 5.0
    hands_over = True

    def __init__(self, path: str) -> None:
        self._path = path

    def check(self) -> str | None:
        return f"{self._path} exists" if os.path.exists(self._path) else None


@implementer(IBrokerFeature)
class FlagFile:
    """The plug-in."""

    name = "flag-file"
    api = API
    version = "1.0"
    summary = "a broker is unhealthy while a file exists"
    keys: Mapping[str, Key] = {"path": Key("", "The file.")}

    def check_keys(self, keys: Mapping[str, str]) -> list[str]:
        return [] if os.path.isabs(keys["path"]) else [f"path must be absolute, it is {keys['path']!r}"]

    def build(self, context: Any) -> FeatureParts:
        return FeatureParts(health=[FlagFileCheck(context.keys["path"])])


plugin = FlagFile()
