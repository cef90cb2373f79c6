"""Every refusal of every role is to be seen: requests with garbage, and what metrics and log say of the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rocketha.observe import refusals
from rocketha.observe.metrics import Registry
from rocketha.observe.refusals import answer_name, request_name
from rocketha.wire.codes import PrivateCode, RequestCode

CODES = (*map(int, RequestCode), *map(int, PrivateCode), 12_345_678)
"""All that have a name, and one that has none."""

GARBAGE: tuple[tuple[dict[str, str], bytes], ...] = (
    ({}, b""),
    ({"topic": "../x", "consumerGroup": "\x01", "queueId": "many", "offset": "-9", "b": "", "group": "?"}, b"{[}"),
    ({"topic": "T", "consumerGroup": "G", "queueId": "99", "after": "x", "e": "99", "b": "T"}, b'{"clientID":7}'),
)
"""Header fields and body of requests of any code."""


def kept_log(said: list[dict[str, Any]]) -> Any:
    """A log that only keeps the values of its warnings."""
    return type("Log", (), {"warn": lambda _, text, **values: said.append(values)})()


def seen_at(server: refusals.Refusals) -> dict[str, int]:
    """The series of refused requests as Prometheus gets them."""
    registry = Registry()
    refusals.install(registry, server)
    lines = (line.rpartition(" ") for line in registry.exposition().splitlines())
    return {name: int(float(value)) for name, _, value in lines if name.startswith("rocketha_requests_refused_total{")}


def series(role: str, code: int, answer: int) -> str:
    """The series that a refusal counts in."""
    return _series(role, request_name(code), answer_name(answer))


def told(said: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The refused requests that the lines of a log stand for, by their series."""
    found: Counter[str] = Counter()
    for each in said:
        if each["event"] == "request.refused":
            request = "unknown" if each["what"].startswith("unknown") else each["what"]
            found[_series(each["role"], request, each["reason"])] += 1 + each["more"]
    return dict(found)


def _series(role: str, request: str, reason: str) -> str:
    return f'rocketha_requests_refused_total{{reason="{reason}",request="{request}",role="{role}"}}'
