"""Calls at equal intervals: the moments are those of Twisted's LoopingCall, also when time passes in leaps."""

from __future__ import annotations

import random
from unittest import TestCase

from twisted.internet import task

from rocketha.errors import InvariantBroken
from rocketha.services.process.ticker import Ticker


class TickerTests(TestCase):
    """On a clock that does not go by itself."""

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.at: list[float] = []
        self.slow_s: list[float] = []
        self.ticker = Ticker(self.clock, self._note, 0.1)

    def _note(self) -> None:
        self.at.append(self.clock.seconds())
        if self.slow_s:
            self.clock.rightNow += self.slow_s.pop()  # a call that takes its time

    def test_the_first_call_comes_after_one_interval(self) -> None:
        """And one comes each interval."""
        self.clock.rightNow = 1000.0
        self.ticker = Ticker(self.clock, self._note, 0.25)
        self.ticker.start()
        self.assertEqual(self.at, [])
        self.clock.pump([0.125] * 7)
        self.assertEqual(self.at, [1000.25, 1000.5, 1000.75])

    def test_missed_moments_are_left_out_and_the_beat_is_kept(self) -> None:
        """After a leap there is one call, and the next is at a multiple of the interval again."""
        self.ticker.start()
        self.clock.advance(0.73)
        self.clock.advance(0.06)
        self.clock.advance(0.02)
        self.assertEqual([round(at, 6) for at in self.at], [0.73, 0.81])
        self.slow_s = [0.35]
        self.clock.advance(0.1)  # to 0.91, and the call ends at 1.26
        self.assertEqual(round(self.clock.getDelayedCalls()[0].getTime(), 6), 1.3)

    def test_the_moments_are_those_of_a_looping_call(self) -> None:
        """To the last bit: a simulated run depends on them."""
        for seed in range(20):
            chance = random.Random(seed)
            interval_s, self.clock, self.at = chance.choice((0.1, 0.05, 0.25, 1 / 3)), task.Clock(), []
            self.clock.rightNow = chance.random() * 5000.0
            theirs: list[float] = []
            loop = task.LoopingCall(lambda at=theirs: at.append(self.clock.seconds()))
            loop.clock = self.clock
            self.ticker = Ticker(self.clock, self._note, interval_s)
            self.ticker.start()
            loop.start(interval_s, now=False)
            for _ in range(300):
                leap_s = self.clock.getDelayedCalls()[0].getTime() - self.clock.rightNow
                self.clock.advance(max(0.0, leap_s) if chance.random() < 0.8 else chance.random())
                self.assertEqual(
                    *(call.getTime() for call in self.clock.getDelayedCalls()), f"seed {seed} at {self.clock.rightNow}"
                )
            self.assertEqual(self.at, theirs)
            self.assertGreater(len(theirs), 200)

    def test_it_stops_between_calls_and_in_one(self) -> None:
        """Nothing is left on the clock, and a second stop is nothing."""
        self.ticker.start()
        self.clock.advance(0.1)
        self.ticker.stop()
        self.ticker.stop()
        self.assertEqual((self.at, self.clock.getDelayedCalls()), ([0.1], []))
        ending = Ticker(self.clock, lambda: ending.stop(), 0.1)
        ending.start()
        self.clock.advance(0.1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_that_runs_is_not_started(self) -> None:
        """It would call twice as often, and stop only in part; after a stop it is."""
        self.ticker.start()
        self.assertRaises(InvariantBroken, self.ticker.start)
        self.clock.pump([0.05] * 5)
        self.assertEqual(len(self.at), 2)
        self.ticker.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.ticker.start()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)

    def test_it_starts_again_in_a_call(self) -> None:
        """The beat begins anew, and there is one."""

        def again() -> None:
            self.at.append(self.clock.seconds())
            ticker.stop()
            ticker.start()

        ticker = Ticker(self.clock, again, 0.25)
        ticker.start()
        for number in range(1, 4):
            self.clock.advance(0.25)
            self.assertEqual(self.at, [0.25 * each for each in range(1, number + 1)])
            self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        ticker.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
