"""What operators do to a group of ours while a Java producer with its defaults sends: none of its sends fails.

Its defaults: three attempts, and a route that is asked for every 30 s.  Only with ROCKETHA_INTEROP_FULL=1: the
rolling exchange of test_rolling_replacement.py and the planned stop of test_ha_switches.py are always run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import unittest

from .harness.case import FULL
from .harness.faults import Faults
from .harness.processes import wait_until
from .harness.roles import READY_S, our_environment
from .harness.switching import SwitchingCase
from .test_ha_switches import DEFAULT_CLIENT


@unittest.skipUnless(FULL, "with ROCKETHA_INTEROP_FULL=1 only")
class OperatedGroup(SwitchingCase):
    """Three brokers and three controllers of ours."""

    kind = "ours"
    kinds = ("ours", "ours", "ours")

    def identities(self) -> list[str]:
        """A broker that was replaced has another one."""
        return []

    def rocketha(self, *arguments: object) -> int:
        """Of ``rocketha broker``: the exit code."""
        group = self.group
        where = ("--namesrv", group.namesrv_addresses, "--controllers", group.controllers.await_leader().address)
        command = [sys.executable, "-m", "rocketha.admin.cli", "broker", *map(str, arguments), *where]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=our_environment(), check=False)
        self.say(f"{' '.join(map(str, arguments))}: {(done.stdout or done.stderr).strip()}")
        return done.returncode

    def drain_master(self, acting: Faults) -> None:
        """Its role goes to another one."""
        state = self.group.await_whole()
        self.assertEqual(self.rocketha("drain", "broker-a", "--id", state.master_id, "--yes"), 0)
        self.group.await_master(lambda found: found.master_epoch > state.master_epoch)

    def restart_all(self, acting: Faults) -> None:
        """One after the other, the master last."""
        for broker in [*self.group.slaves(), self.group.master()]:
            self.group.await_whole()
            broker.stop()
            broker.restart()
        self.group.await_whole()

    def replace(self, acting: Faults) -> None:
        """The master is drained, stopped and decommissioned; a broker with an empty disk takes its place."""
        self.group.await_whole()
        leaves = self.group.master()
        number = leaves.broker_id()
        self.drain_master(acting)
        self.group.await_whole()
        leaves.stop()
        shutil.rmtree(leaves.root)
        wait_until(
            "it to be forgotten",
            lambda: self.rocketha("decommission", "broker-a", "--id", number, "--yes") == 0,
            READY_S,
        )
        leaves.restart()
        self.group.await_whole()
        self.assertNotEqual(leaves.broker_id(), number)

    def test_no_send_fails(self) -> None:
        storm = self.storm([self.restart_all, self.drain_master, self.replace], client=DEFAULT_CLIENT)
        self.say(f"{storm.longest_gap_ms} ms without an acknowledgement; {storm.text()}")
        self.assertEqual((storm.errors, storm.verdict.lost), ({}, 0), storm.text())
