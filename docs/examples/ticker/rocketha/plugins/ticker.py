"""A broker feature with a timer, a request code, a topic and a file of its own.

A master puts a message into the topic TICKS every so often.  Request 20001 tells how many this broker has put.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from rocketha.interfaces import (
    API,
    FeatureParts,
    File,
    IBrokerFeature,
    Key,
    Placed,
    Reply,
    Request,
    Route,
    ServedBy,
    Timer,
    Topic,
)

TOPIC = "TICKS"
TICKER_COUNT = 20_001


class Ticks:
    """One broker's."""

    def __init__(self, context: Any) -> None:
        self.count = 0
        self._context = context

    def tick(self) -> Any:
        """The next tick waits for this one's acknowledgement."""
        return self._context.messages.put(TOPIC, b"tick", {"TAGS": "ticks"}).addCallback(self._stored)

    def _stored(self, placed: Placed) -> Any:
        self.count += 1
        return self._context.save()

    def answer(self, request: Request) -> Reply:
        return Reply(fields={"count": str(self.count)})

    def dump(self) -> bytes:
        return json.dumps({"count": self.count}).encode()

    def load(self, data: bytes) -> None:
        self.count = int(json.loads(data)["count"])


@implementer(IBrokerFeature)
class Ticker:
    """The plug-in."""

    name = "ticker"
    api = API
    version = "1.0"
    summary = "puts a message into TICKS every so often"
    keys: Mapping[str, Key] = {"every_s": Key("60", "Seconds between two ticks.")}

    def check_keys(self, keys: Mapping[str, str]) -> list[str]:
        try:
            return [] if float(keys["every_s"]) > 0 else ["every_s must be more than 0"]
        except ValueError:
            return [f"every_s is no number: {keys['every_s']!r}"]

    def build(self, context: Any) -> FeatureParts:
        ticks = Ticks(context)
        return FeatureParts(
            routes=[Route(TICKER_COUNT, "TICKER_COUNT", ticks.answer)],
            timers=[Timer("tick", float(context.keys["every_s"]), ticks.tick, by=ServedBy.MASTER)],
            topics=[Topic(TOPIC)],
            file=File(ticks.dump, ticks.load),
        )


plugin = Ticker()
