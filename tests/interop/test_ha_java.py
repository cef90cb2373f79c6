"""What RocketMQ 5.5.0 loses by itself here: three Java brokers under a Java controller, their master frozen and thawed.

With ROCKETHA_INTEROP_FULL=1 only. It shows that the switching tests see a loss, and what ours is measured against;
docs/divergence.md names it. Source: regressions A21, A22; issue 9 "Shows" 2.
"""

from __future__ import annotations

from .harness.case import FULL
from .harness.faults import Faults
from .harness.links import peers
from .harness.switching import SwitchingCase

TRIES = 8
STAYS_S = 15


class JavaAlone(SwitchingCase):
    """All Java, the controller inside the nameserver."""

    kind = "java"
    kinds = ("java", "java", "java")
    embedded = True
    controllers = 1

    def test_a21_a_thawed_master_acknowledges_alone(self) -> None:
        """Its slaves left while it was frozen: it takes the set for itself and acknowledges what its sockets hold."""
        frozen = acknowledged = 0
        for freeze in range(1, TRIES + 1):
            storm = self.storm([Faults.freeze_master], patience_s=STAYS_S)
            acknowledged += storm.verdict.acknowledged
            frozen += len(storm.verdict.frozen)
            self.assertNoneLost(storm)
            self.say(f"freeze {freeze}: {storm.text()}")
            if frozen:
                break
        self.assertGreater(frozen, 0, f"none of {acknowledged} acknowledged messages lost in {TRIES} freezes")

    def test_a22_a_slave_follows_the_demoted_master(self) -> None:
        """Long after another was elected and the old master knows it, a replica is still connected to that."""
        followers: set[int] = set()
        for freeze in range(1, TRIES + 1):
            old, acting = self.group.master(), Faults(self.group)
            run = self.load.begin()
            acting.freeze_master()
            acting.stay(STAYS_S)
            state = self.group.await_master()
            followers = peers(old.port + 1)
            self.load.end(run)
            self.say(f"freeze {freeze}: {len(followers)} replicas of the demoted master {STAYS_S} s later; {state}")
            self.assertNotEqual(state.master_address, old.address)
            if followers:
                break
            self.settle()
        self.assertTrue(followers, f"nobody followed a demoted master in {TRIES} freezes")


if not FULL:
    del JavaAlone
