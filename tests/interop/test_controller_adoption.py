"""Our controllers lose their disks, twice, while brokers run: Java's and ours are taken with the ids that they bring.

With ROCKETHA_INTEROP_FULL=1 only.
"""

from __future__ import annotations

import shutil
import unittest

from .harness.case import FULL
from .harness.controllers import GroupState
from .harness.processes import wait_until
from .harness.switching import OURS, SwitchingCase

ELECT_MASTER = 1002


@unittest.skipUnless(FULL and OURS, "with ROCKETHA_INTEROP_FULL=1 only")
class Adoption(SwitchingCase):
    """Two of Java's and one of ours, under a controller."""

    kind = "ours"
    kinds = ("java", "java", "ours")
    controllers = 1
    controller_extra = {"adoptUnknownBrokers": True}

    def test_twice(self) -> None:
        """Nobody is master until an operator says who; ids stay, epochs rise, and all are in sync again."""
        before = self.group.await_whole()
        ids = [broker.broker_id() for broker in self.group.brokers]
        for _ in range(2):
            before = self.emptied(before)
            self.assertEqual([broker.broker_id() for broker in self.group.brokers], ids)

    def emptied(self, before: GroupState) -> GroupState:
        """Once; the state afterwards."""
        for node in self.group.controllers.nodes:
            node.kill()
            shutil.rmtree(node.folder / "data")
        self.group.controllers.start()

        def known() -> GroupState | None:
            state = self.group.state()
            return state if state is not None and len(state.alive) == 3 else None

        state = wait_until("all to be adopted", known, 60)
        assert isinstance(state, GroupState)
        self.assertLessEqual(state.master_id, 0)
        fields = {
            "clusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": str(before.master_id),
            "designateElect": "true",
        }
        self.assertEqual(self.group.controllers.call(ELECT_MASTER, fields).code, 0)
        after = self.group.await_whole()
        self.assertEqual(after.master_id, before.master_id)
        self.assertGreater(after.master_epoch, before.master_epoch)
        self.assertGreater(after.set_epoch, before.set_epoch)
        self.say(f"epochs {before.master_epoch}, {before.set_epoch} -> {after.master_epoch}, {after.set_epoch}")
        return after
