"""Timers keep their pace when the wall clock jumps."""

from __future__ import annotations

import time
from unittest import mock

from twisted.internet import selectreactor
from twisted.trial import unittest

from rocketha.services.process.server import SteadyClock, steady_seconds


class SteadyClockTests(unittest.SynchronousTestCase):
    """A reactor of its own, never run: only its timers are asked."""

    def setUp(self) -> None:
        self.reactor = selectreactor.SelectReactor()
        self.addCleanup(self._close)
        self.fired: list[str] = []

    def _close(self) -> None:
        self.reactor.removeAll()
        for call in self.reactor.getDelayedCalls():
            call.cancel()

    def test_timers_fire_though_the_wall_clock_was_set_back(self) -> None:
        """A clock an hour behind must not hold a timer for an hour."""
        SteadyClock(self.reactor).privilegedStartService()
        self.reactor.callLater(0.0, self.fired.append, "due")
        behind = time.time() - 3600
        with mock.patch("time.time", lambda: behind):
            self.reactor.runUntilCurrent()
        self.assertEqual(self.fired, ["due"])

    def test_without_it_twisted_waits(self) -> None:
        """What this is for: should Twisted change, the service can go."""
        self.reactor.callLater(0.0, self.fired.append, "due")
        behind = time.time() - 3600
        with mock.patch.object(self.reactor, "seconds", lambda: behind):
            self.reactor.runUntilCurrent()
        self.assertEqual(self.fired, [])

    def test_the_time_that_a_machine_slept_counts(self) -> None:
        """A lease ends while the machine is suspended, too."""
        SteadyClock(self.reactor).privilegedStartService()
        if not hasattr(time, "CLOCK_BOOTTIME"):
            return
        awake = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.reactor.callLater(60.0, self.fired.append, "due")
        with mock.patch("time.clock_gettime", lambda clock: awake + (3600 if clock == time.CLOCK_BOOTTIME else 0)):
            self.reactor.runUntilCurrent()
        self.assertEqual(self.fired, ["due"])

    def test_timers_set_before_keep_what_they_had_left(self) -> None:
        """The two clocks count from different days."""
        soon = self.reactor.callLater(0.0, self.fired.append, "soon")
        later = self.reactor.callLater(1000.0, self.fired.append, "later")
        SteadyClock(self.reactor).privilegedStartService()
        self.reactor.runUntilCurrent()
        self.assertEqual(self.fired, ["soon"])
        self.assertFalse(soon.active())
        self.assertLess(abs(later.getTime() - steady_seconds() - 1000.0), 5.0)
