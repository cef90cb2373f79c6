"""An hour of load on three Java brokers under our controllers, nothing wrong but a busy machine: no switch, no loss.

``make soak`` runs the hour (ROCKETHA_SOAK_S seconds); ``make test`` runs none of it: every test of
test_controller.py counts its switches too. Source: issue 8 "Shows" 3.
"""

from __future__ import annotations

import os

import pytest

from .harness.faults import Faults
from .harness.switching import SIDES, SwitchingCase, for_controllers

SECONDS = float(os.environ.get("ROCKETHA_SOAK_S", "3600"))


@pytest.mark.soak
class Hour(SwitchingCase):
    """Default settings on both sides."""

    def test_no_switch_that_nobody_caused(self) -> None:
        """The controllers suspect as often as they like; they elect nobody."""

        def wait(acting: Faults) -> None:
            acting.stay(SECONDS)

        storm = self.storm([wait], rate=50)
        self.say(f"{SECONDS:g} s: {storm.text()}; longest time without an acknowledgement {storm.longest_gap_ms} ms")
        self.assertEqual(storm.switches, [])
        self.assertEqual(storm.verdict.lost, 0)


if os.environ.get("ROCKETHA_SOAK"):
    globals().update(for_controllers(Hour, sample=SIDES[:1], full=SIDES[:1]))
del Hour
