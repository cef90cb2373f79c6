"""Three real Java brokers of one group under our controllers: what is acknowledged stays, whatever is killed.

All brokers acknowledge with allAckInSyncStateSet=true. ``make test`` runs a sample of the faults on our controllers,
alone and inside our nameserver; ``make interop-full`` runs all of them, thirty switches, on Java's controllers too,
which proves the tests. Source: issue 8 "Shows" 1 and 2; regressions A21 to A24, B3, B8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .harness.case import FULL
from .harness.faults import Faults, why_no_resets
from .harness.processes import wait_until
from .harness.switching import SwitchingCase, for_controllers

Fault = Callable[[Faults], Any]
ROUND: list[Fault] = [Faults.kill_master, Faults.kill_slave, Faults.kill_leader, Faults.kill_leader_and_master]


class Switching(SwitchingCase):
    """The tests run in the order of their names, on one group."""

    def test_1_registers_from_empty_disks(self) -> None:
        """Ids 1 to 3, each kept in its broker's identity file; one master; the SyncStateSet grew to all three."""
        state = self.group.await_whole()
        self.assertEqual(state.in_sync, (1, 2, 3))
        self.assertEqual(sorted(broker.broker_id() for broker in self.group.brokers), [1, 2, 3])
        for broker in self.group.brokers:
            self.assertEqual(broker.identity(), f"DefaultCluster#broker-a#{broker.broker_id()}")
            self.assertEqual(dict(state.addresses)[broker.broker_id()], broker.address)
            self.assertFalse((broker.root / "brokerIdentity-temp").exists())
        wait_until("the watch to see it", self.watch.masters, 60)
        self.assertEqual([epoch for _, epoch, _ in self.watch.masters()], [1], "one election is enough")

    def test_2_kills_under_load(self) -> None:
        """kill -9 of the master, of a slave, of the lead controller, of the last two at once: nothing lost."""
        rounds: list[Fault] = ROUND
        if FULL:
            rounds = [*ROUND, Faults.kill_master] * 6
        elif self.embedded:
            rounds = [Faults.kill_leader_and_master]
        switches = sum(fault in (Faults.kill_master, Faults.kill_leader_and_master) for fault in rounds)
        self.group.controllers.await_leader()
        self.load.consume("live")
        storm = self.storm(rounds)
        self.say(storm.text())
        self.load.await_delivered("live", int(storm.verdict.acknowledged * 0.9))
        self.load.stop_consumer("live")
        self.assertNoneLost(storm)
        self.assertEqual(storm.verdict.lost, 0)
        self.assertEqual(len(storm.switches), switches, f"{storm.switches}")

    def test_3_frozen_master(self) -> None:
        """SIGSTOP of the master: another takes over. Lost is only what the thawed one acknowledged by itself (A21)."""
        if self.embedded and not FULL:
            self.skipTest("inside a nameserver with ROCKETHA_INTEROP_FULL=1 only: the same controllers stand it alone")
        storm = self.storm([Faults.freeze_master] * (12 if FULL else 1), patience_s=30)
        self.say(storm.text())
        self.assertNoneLost(storm)
        self.assertGreaterEqual(len(storm.switches), 12 if FULL else 1)

    def test_4_two_die_together(self) -> None:
        """The master and a slave 50 ms apart: whoever leads then, nothing is lost (A23)."""
        if not FULL:
            self.skipTest("with ROCKETHA_INTEROP_FULL=1 only: four rounds in which the dead may have to come back")
        acting: list[Faults] = []

        def both(faults: Faults) -> None:
            acting[:] = [faults]
            faults.kill_master_and_slave()

        storm = self.storm([both] * 4)
        self.say(f"{acting[0].without_master} of 4 rounds had no master until the dead came back; {storm.text()}")
        self.assertNoneLost(storm)

    def test_5_resets(self) -> None:
        """Every connection between the healthy master and the controllers reset: no switch, nothing lost (A24)."""
        if self.embedded and not FULL:
            self.skipTest("inside a nameserver with ROCKETHA_INTEROP_FULL=1 only: the same controllers stand it alone")
        if why_no_resets():
            self.skipTest(why_no_resets())
        count = 20 if FULL else 3
        broken: list[int] = []

        def reset(acting: Faults) -> None:
            broken.append(acting.reset_master())
            acting.stay(6)  # longer than the 5 s after which a broker asks for its group

        storm = self.storm([reset] * count)
        self.say(f"{sum(broken)} connections reset in {count} rounds: {storm.text()}")
        self.assertGreaterEqual(min(broken), 1, f"nothing to reset: {broken}")
        if self.kind == "ours":
            self.assertEqual(storm.switches, [])
            self.assertNoneLost(storm)
            self.assertEqual(storm.verdict.lost, 0)

    def test_6_other_address(self) -> None:
        """A slave, then the master, comes back on another port: the same ids, and what was sent is there."""
        if self.embedded and not FULL:
            self.skipTest("inside a nameserver with ROCKETHA_INTEROP_FULL=1 only: the same controllers stand it alone")
        moves: list[Fault] = [lambda acting: acting.move(self.group.slaves()[0])]
        if FULL:
            moves.append(lambda acting: acting.move(self.group.master()))
        storm = self.storm(moves)
        self.say(storm.text())
        self.assertNoneLost(storm)

    def test_7_restart_of_everything(self) -> None:
        """kill -9 of all controllers and brokers, and all of them again: ids, epochs and messages are what they
        were."""
        before = self.group.await_whole()
        storm = self.storm([Faults.restart_all])
        self.say(storm.text())
        self.assertNoneLost(storm)
        after = self.group.await_whole()
        self.assertEqual(dict(after.addresses), dict(before.addresses))
        self.assertGreaterEqual(after.master_epoch, before.master_epoch)


globals().update(for_controllers(Switching))
del Switching
