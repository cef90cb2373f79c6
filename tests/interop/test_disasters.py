"""The how-tos of docs/disasters.rst, command by command, on started processes: two brokers and three controllers.

With ROCKETHA_INTEROP_FULL=1 only.
"""

from __future__ import annotations

import json
import shutil
import unittest

from .harness.case import FULL, InteropCase
from .harness.commands import rocketha, run
from .harness.controllers import GROUP, TOPIC, GroupState, Replica, ReplicaGroup
from .harness.processes import wait_until
from .harness.roles import READY_S, OurBroker, OurController, _Controller
from .harness.switching import OURS

CLUSTER = "DefaultCluster"


@unittest.skipUnless(FULL and OURS, "with ROCKETHA_INTEROP_FULL=1 only")
class Disasters(InteropCase):
    """The tests run in the order of their names, on one group; each leaves it whole."""

    group: ReplicaGroup
    sent = 0

    @classmethod
    def prepare(cls) -> None:
        cls.group = ReplicaGroup("ours", cls.folder, count=2, kinds=("ours", "ours"), namesrv="ours")
        cls._shared.extend(cls.group.processes)
        cls.group.start()

    @property
    def nodes(self) -> list[_Controller]:
        return self.group.controllers.nodes

    def controller(self, *words: str) -> str:
        """``rocketha controller`` against all of them."""
        return rocketha("controller", *words, "-a", self.group.controllers.addresses)

    def send(self, count: int = 10) -> None:
        """More messages; acknowledged, or the command fails."""
        bodies = [f"m{number}" for number in range(Disasters.sent, Disasters.sent + count)]
        rocketha("send", TOPIC, *bodies, "-n", self.group.namesrv_addresses)
        Disasters.sent += count

    def received(self, namesrv: str) -> set[str]:
        """All that is there."""
        count = str(Disasters.sent)
        text = rocketha("receive", TOPIC, "-n", namesrv, "--from", "first", "--count", count, "--format", "body")
        return set(text.split())

    def empty(self, node: _Controller) -> None:
        """Its disk is gone."""
        node.kill()
        shutil.rmtree(node.folder / "data")

    def start(self, node: _Controller) -> None:
        node.spawn()
        node.await_ready()

    def mastered(self) -> GroupState:
        return self.group.await_whole(2 * READY_S)

    def test_1_majority_lost(self) -> None:
        """force-new-cluster, and two new ones."""
        before = self.mastered()
        self.send()
        survivor, *others = self.nodes
        conf = str(survivor.config_file())
        refused = run("controller", "force-new-cluster", "-c", conf, "--dry-run")
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("held by another process", refused.stderr)
        for node in others:
            self.empty(node)
        survivor.kill()
        text = rocketha("controller", "force-new-cluster", "-c", conf, "--dry-run")
        self.assertIn(f"{CLUSTER}/{GROUP}: master {before.master_id} in epoch {before.master_epoch}", text)
        self.assertIn("nothing was changed", text)
        refused = run("controller", "force-new-cluster", "-c", conf)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--yes", refused.stderr)
        done = json.loads(rocketha("controller", "force-new-cluster", "-c", conf, "--yes", "--json"))
        self.assertEqual((done["changed"], sorted(done["leftOut"])), (True, ["n1", "n2"]))
        self.start(survivor)
        self.group.controllers.await_leader()
        self.assertIn(f"made the only one by force-new-cluster, entry {done['index']}", survivor.log())
        for node in others:
            node.extra["raftJoinExisting"] = True
            self.start(node)
            self.controller("add", f"{node.name}-{node.address}")
            del node.extra["raftJoinExisting"]
        self.assertEqual(self.controller("members").count("votes"), 3)
        self.assertEqual(self.mastered(), before)
        self.send()

    def test_2_one_disk_lost(self) -> None:
        """It starts again as it is; one on another machine takes its place."""
        before = self.mastered()
        lost = self.nodes[1]
        self.empty(lost)
        self.start(lost)
        self.empty(self.nodes[2])
        self.controller("remove", self.nodes[2].name, "--yes")
        spare = OurController("n3", self.folder / "n3", {"raftJoinExisting": True})
        spare.peers = [*self.nodes[:2], spare]
        self._shared.append(spare)
        self.nodes[2] = spare
        self.start(spare)
        self.controller("add", f"n3-{spare.address}")
        self.assertEqual(self.controller("members").count("votes"), 3)
        self.assertEqual(self.mastered().master_epoch, before.master_epoch)
        self.send()

    def test_3_all_lost(self) -> None:
        """From a state file, to which an election is missing."""
        self.mastered()
        state_file = str(self.folder / "state")
        self.controller("snapshot", "save", state_file)
        refused = run("controller", "snapshot", "save", state_file, "-a", self.group.controllers.addresses)
        self.assertIn("is there already", refused.stderr)
        slave = self.group.slaves()[0]
        self.controller("elect", GROUP, str(slave.broker_id()), "--yes")
        before = self.mastered()
        self.assertEqual(before.master_address, slave.address)
        self.send()
        for node in self.nodes:
            node.extra.pop("raftJoinExisting", None)
            node.peers = self.nodes
            self.empty(node)
        for node in self.nodes:
            rocketha("controller", "snapshot", "restore", state_file, "-c", str(node.config_file()))
            node.spawn()
        self.group.controllers.await_leader()
        self.heard()
        text = self.controller("elect", GROUP)
        self.assertIn(f"broker {before.master_id} at {before.master_address} is master", text)
        after = self.mastered()
        self.assertGreater(after.master_epoch, before.master_epoch)
        self.assertGreater(after.set_epoch, before.set_epoch)
        self.send()

    def heard(self) -> None:
        """All brokers speak to the controllers."""

        def all_alive() -> bool:
            state = self.group.state()
            return state is not None and len(state.alive) == 2

        wait_until("all brokers to be heard", all_alive, READY_S)

    def test_4_all_lost_without_a_copy(self) -> None:
        """adoptUnknownBrokers, twice."""
        for _ in range(2):
            before = self.mastered()
            for node in self.nodes:
                self.empty(node)
                node.extra["adoptUnknownBrokers"] = True
            self.group.controllers.start()
            self.heard()
            self.controller("elect", GROUP)
            after = self.mastered()
            self.assertGreater(after.master_epoch, before.master_epoch)
            self.assertGreater(after.set_epoch, before.set_epoch)
            self.send()

    def test_5_a_brokers_disk_lost(self) -> None:
        """It comes back with another id; the former one is cleaned."""
        before = self.mastered()
        slave = self.group.slaves()[0]
        number = slave.broker_id()
        slave.kill()
        self.group.await_master(lambda state: state.in_sync == (state.master_id,))
        shutil.rmtree(slave.root)
        slave.restart()
        self.group.await_master(lambda state: len(state.in_sync) == 2)
        self.assertNotEqual(slave.broker_id(), number)
        self.controller("clean", GROUP, str(number), "--yes")
        after = self.mastered()
        self.assertEqual((after.master_id, after.master_epoch), (before.master_id, before.master_epoch))
        self.assertNotIn(number, after.in_sync + after.others)
        self.send()

    def test_6_from_an_export(self) -> None:
        """Another broker, without controllers, serves every message."""
        self.mastered()
        master: Replica = self.group.master()
        export, store = str(self.folder / "export"), self.folder / "restored"
        rocketha("export", str(master.root), export, "--quiet")
        text = rocketha("restore", export, str(store / "store"))
        self.assertIn(f"{Disasters.sent} messages", text)
        refused = run("restore", export, str(store / "store"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("is not empty", refused.stderr)
        for broker in self.group.brokers:
            broker.stop()
        assert self.group.namesrv is not None
        restored = OurBroker(store, self.group.namesrv, name="restored")
        self._shared.append(restored)
        restored.start()
        wanted = {f"m{number}" for number in range(Disasters.sent)}
        self.assertEqual(self.received(self.group.namesrv_addresses), wanted)
