"""A message filter: consumers subscribe with ``MessageSelector.bySql("region = 'eu' AND tier <> 'free'")``.

A small part of RocketMQ's SQL92: comparisons of a property with a text, joined by AND.  A property that a message does
not have is unequal to every text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from zope.interface import implementer

from rocketha.interfaces import API, FeatureParts, IBrokerFeature, IMessageFilter, Key

_COMPARISON = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(=|<>)\s*'((?:[^']|'')*)'\s*")
_AND = re.compile(r"AND\b", re.IGNORECASE)


@implementer(IMessageFilter)
class PropertyFilter:
    """Compiles expressions."""

    expression_type = "SQL92"

    def compile(self, expression: str) -> Callable[[Mapping[str, str]], bool]:
        wanted, at = [], 0
        while True:
            found = _COMPARISON.match(expression, at)
            if found is None:
                raise ValueError(f"at character {at}: NAME = 'TEXT' or NAME <> 'TEXT' is wanted")
            wanted.append((found[1], found[2] == "=", found[3].replace("''", "'")))
            at = found.end()
            if at == len(expression):
                break
            joined = _AND.match(expression, at)
            if joined is None:
                raise ValueError(f"at character {at}: AND is wanted")
            at = joined.end()
        return lambda properties: all((properties.get(name) == text) == equal for name, equal, text in wanted)


@implementer(IBrokerFeature)
class PropertyFilters:
    """The plug-in."""

    name = "property-filter"
    api = API
    version = "1.0"
    summary = "consumers choose messages by their properties"
    keys: Mapping[str, Key] = {}

    def check_keys(self, keys: Mapping[str, str]) -> list[str]:
        return []

    def build(self, context: Any) -> FeatureParts:
        return FeatureParts(filters=[PropertyFilter()])


plugin = PropertyFilters()
