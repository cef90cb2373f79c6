"""``rocketha cluster status`` and ``doctor`` of Java's processes: what those can tell is told, and no more.

One Java broker and one of ours, under a Java controller and a Java nameserver.
Source: 5.5.0's answers to 105 to 907 and 1005 to 1007.
"""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from typing import Any

from .harness import FULL
from .harness.roles import our_environment
from .harness.switching import SwitchingCase

PATIENCE_S = 90


@unittest.skipUnless(FULL, "with ROCKETHA_INTEROP_FULL=1 only: it takes a Java group, and nothing is switched")
class DoctorOfJava(SwitchingCase):
    """See the module."""

    kind = "java"
    kinds = ("java", "ours")
    controllers = 1

    def rocketha(self, *words: str) -> tuple[int, Any]:
        """Exit code, and what was printed as JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "rocketha.admin.cli", *words, "-n", self.group.namesrv_addresses, "--json"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=our_environment(),
            check=False,
        )
        self.assertTrue(done.stdout, done.stderr)
        return done.returncode, json.loads(done.stdout)

    def test_1_status(self) -> None:
        """Roles, epochs, logs, the set, and release and clock, to a second, of Java's broker."""
        state = self.group.await_whole()
        status, found = self.rocketha("cluster", "status")
        self.assertEqual(status, 0, found)
        (names,), (controller,) = found["nameservers"], found["controllers"]
        for process in (names["process"], controller["process"]):
            self.assertEqual((process["ours"], process["version"]), (False, ""))  # which these do not say
        self.assertTrue(controller["leads"])
        (group,) = found["sets"]
        self.assertEqual((group["master"], group["epoch"]), (state.master_id, state.master_epoch))
        self.assertEqual(group["in_sync"], list(state.in_sync))
        self.assertEqual(len(found["brokers"]), 2)
        roles = {each["id"]: each["role"] for each in found["brokers"]}
        self.assertEqual(roles, {number: "MASTER" if number == state.master_id else "SLAVE" for number in (1, 2)})
        (javas,) = (each for each in found["brokers"] if each["process"]["ours"] is False)
        self.assertEqual(javas["process"]["version"], "5.5.0")
        self.assertLess(abs(javas["process"]["clock_ahead_ms"]), javas["process"]["clock_doubt_ms"] + 100)
        known = (state.master_epoch,) if javas["role"] == "MASTER" else (state.master_epoch, None)
        self.assertIn(javas["epoch"], known)  # a slave without messages has no epochs either
        self.assertIsNotNone(javas["log_end"])

    def test_2_nothing_is_wrong(self) -> None:
        """What Java does not tell is no finding."""
        self.group.await_whole()
        status, found = self.rocketha("doctor")
        self.assertEqual([each["kind"] for each in found["findings"]], [])
        self.assertEqual(status, 0)

    def test_3_a_dead_broker(self) -> None:
        """It is named, from Java's answers."""
        state = self.group.await_whole()
        (slave,) = self.group.slaves()
        slave.kill()
        status, found = self.rocketha("doctor")
        self.assertEqual(status, 1)
        kinds = {each["kind"] for each in found["findings"]}
        self.assertTrue(kinds & {"broker.unreachable", "sync_set.stale"}, found)
        self.assertNotIn("set.no_master", kinds)
        self.assertEqual(state.master_id, self.group.state().master_id)  # type: ignore[union-attr]
