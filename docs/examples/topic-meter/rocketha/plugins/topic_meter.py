"""A store observer: counts the confirmed messages of each topic since the broker started.

Request 20002 gives the counts as JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from zope.interface import implementer

from rocketha.interfaces import API, FeatureParts, IBrokerFeature, IStoreObserver, Key, Message, Reply, Request, Route

TOPIC_METER = 20_002


@implementer(IStoreObserver)
class Meter:
    """One broker's."""

    name = "topic-meter"

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def confirmed(self, messages: Sequence[Message]) -> None:
        self.counts.update(message.topic for message in messages)

    def answer(self, request: Request) -> Reply:
        return Reply(body=json.dumps(self.counts, sort_keys=True).encode())


@implementer(IBrokerFeature)
class TopicMeter:
    """The plug-in."""

    name = "topic-meter"
    api = API
    version = "1.0"
    summary = "counts the confirmed messages of each topic"
    keys: Mapping[str, Key] = {}

    def check_keys(self, keys: Mapping[str, str]) -> list[str]:
        return []

    def build(self, context: Any) -> FeatureParts:
        meter = Meter()
        context.gauge("topics", "Topics with confirmed messages.", lambda: len(meter.counts))
        return FeatureParts(observers=[meter], routes=[Route(TOPIC_METER, "TOPIC_METER", meter.answer)])


plugin = TopicMeter()
