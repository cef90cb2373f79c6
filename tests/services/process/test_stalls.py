"""Whether the process stood still."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rocketha.services.core.turns import BrokerClock, BrokerTurns
from rocketha.services.process.platform import Platform
from rocketha.services.process.stalls import Stalls
from tests.services.events_case import events_of


class StallTests(SynchronousTestCase):
    """Two that look, one more often than the other."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.events = events_of(self)
        stalls = Stalls(self.clock)
        self.often, self.seldom = stalls.lookout(0.1, 0.2), stalls.lookout(0.5, 1.0)

    def said(self) -> list[Any]:
        return [each["stalled_ms"] for each in self.events if each["event"] == "reactor.stalled"]

    def after(self, seconds: float) -> float:
        """What the one that looks often finds then."""
        self.clock.advance(seconds)
        return round(self.often.look(), 6)

    def test_in_time(self) -> None:
        """The first look is never late; later ones have their interval, and some more."""
        self.assertEqual([self.after(each) for each in (9, 0.1, 0.29, 0.05)], [0, 0, 0, 0])
        self.assertEqual(self.said(), [])

    def test_late(self) -> None:
        """By all but one interval, from the very first look after it."""
        self.often.begin()
        self.assertEqual([self.after(each) for each in (3600, 0.05, 0.4)], [3599.9, 0, 0.3])
        self.assertEqual(self.said(), [3_599_900, 300])

    def test_begun_anew(self) -> None:
        """Nobody looked meanwhile."""
        self.often.begin()
        self.clock.advance(5)
        self.often.begin()
        self.assertEqual(self.after(0.1), 0)

    def test_said_once(self) -> None:
        """Each finds it for itself, whoever looks first says it; the next one is said again."""
        for _ in range(2):
            self.often.begin()
            self.seldom.begin()
            self.assertEqual(self.after(10), 9.9)
            self.assertEqual(self.seldom.look(), 9.5)
        self.assertEqual(self.said(), [9_900, 9_900])

    def test_one_a_process(self) -> None:
        """All services of a platform share it, also where one of them has another chance."""
        platform = Platform(disk=None, reactor=self.clock)  # type: ignore[arg-type]
        self.assertIs(attrs.evolve(platform, pid=lambda: 1).stalls, platform.stalls)

    def test_an_idle_broker(self) -> None:
        """Nobody waits for anything there: its own clock notices."""
        platform = Platform(disk=None, reactor=self.clock)  # type: ignore[arg-type]
        passed: list[float] = []
        broker = BrokerClock(platform, BrokerTurns(), (), lambda: passed.append(self.clock.seconds()))
        self.clock.advance(60)
        broker.start()
        self.clock.pump([1.0, 1.9, 0.1])
        self.assertEqual(self.said(), [])
        self.clock.advance(5)
        broker.stop()
        self.assertEqual((self.said(), passed), ([4_000], [61, 62.9, 63, 68]))
