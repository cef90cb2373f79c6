"""A group that runs an earlier wheel becomes one of this tree: controllers, then brokers, one at a time, under load.

The load is a Java producer with its defaults: three attempts, a route asked for every 30 s.  None of its sends may
fail.
``ROCKETHA_FORMER_WHEEL=PATH ROCKETHA_INTEROP_FULL=1 python -m pytest -s tests/interop/test_upgrade.py``
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

from .harness import roles
from .harness.case import FULL
from .harness.faults import Faults
from .harness.processes import Process
from .harness.switching import SwitchingCase
from .test_ha_switches import DEFAULT_CLIENT

WHEEL = os.environ.get("ROCKETHA_FORMER_WHEEL", "")


def program(process: Process) -> str:
    """The Python that it runs."""
    return pathlib.Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[0]


@unittest.skipUnless(FULL and WHEEL, "ROCKETHA_INTEROP_FULL=1 and ROCKETHA_FORMER_WHEEL, the wheel to come from")
class UpgradeTests(SwitchingCase):
    """Three controllers and three brokers."""

    kind = "ours"
    kinds = ("ours", "ours", "ours")

    @classmethod
    def prepare(cls) -> None:
        """Install the former release, and start the group with it."""
        cls.former = str(cls.folder / "former" / "bin" / "python")
        ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([sys.executable, "-m", "venv", str(cls.folder / "former")], env=ours, check=True)
        subprocess.run([cls.former, "-m", "pip", "install", "--quiet", WHEEL], env=ours, check=True)
        twistd = roles.twistd
        with (
            mock.patch.object(roles, "twistd", lambda *arguments: [cls.former, *twistd(*arguments)[1:]]),
            mock.patch.object(roles, "our_environment", lambda: ours),
        ):
            super().prepare()

    def processes(self) -> list[Process]:
        return [*self.group.controllers.nodes, *self.group.brokers]

    def test_no_send_fails(self) -> None:
        self.assertEqual({program(each) for each in self.processes()}, {self.former})

        def controller(acting: Faults) -> None:
            """One that does not lead while there is one; a leader hands over first."""
            leader = self.group.controllers.await_leader()
            olds = [each for each in self.group.controllers.nodes if program(each) == self.former]
            chosen = next((each for each in olds if each is not leader), leader)
            chosen.stop()
            chosen.restart()

        def slave(acting: Faults) -> None:
            chosen = next(each for each in self.group.slaves() if program(each) == self.former)
            chosen.stop()
            acting.back(chosen)

        storm = self.storm([controller] * 3 + [slave] * 2 + [Faults.stop_master], client=DEFAULT_CLIENT)
        self.say(f"{storm.longest_gap_ms} ms without an acknowledgement; {storm.text()}")
        self.assertEqual((storm.errors, storm.verdict.lost), ({}, 0), storm.text())
        self.assertEqual({program(each) for each in self.processes()}, {sys.executable})
