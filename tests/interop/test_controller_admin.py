"""mqadmin, unmodified, against our controllers: each command prints what it prints of Java's.

With ROCKETHA_INTEROP_FULL=1 the same test runs on Java's controllers, which proves the expectations.
Source: issue 8 "Shows" 4; facts of mqadmin's controller commands, recorded from 5.5.0.
"""

from __future__ import annotations

import re

from .harness import Admin
from .harness.processes import wait_until
from .harness.switching import SIDES, SwitchingCase, for_controllers


class ControllerAdmin(SwitchingCase):
    """Two replicas under three controllers; the commands in an order in which each has something to show."""

    replicas = 2
    # ours changes nothing by request unless told that it may; Java does not know the key
    controller_extra = {"configUpdateEnable": True}
    admin: Admin

    @classmethod
    def prepare(cls) -> None:
        super().prepare()
        cls.admin = cls.share(Admin(cls.group.namesrv_addresses, cls.folder / "admin"))

    def ask(self, *arguments: str) -> str:
        return self.admin.run(*arguments, namesrv=False)

    def test_1_get_controller_meta_data(self) -> None:
        """Any controller names the group, its leader and all peers."""
        controllers = self.group.controllers
        leader = controllers.await_leader()
        for node in controllers.nodes:
            said = self.ask("getControllerMetaData", "-a", node.address)
            self.assertRegex(said, r"#ControllerGroup\tgroup1\n")
            self.assertIn(f"#ControllerLeaderId\t{leader.name}\n#ControllerLeaderAddress\t{leader.address}\n", said)
            for peer in controllers.nodes:
                self.assertIn(f"#Peer:\t{peer.name}:{peer.address}\n", said)

    def test_2_get_sync_state_set(self) -> None:
        """By broker name and by cluster, asked at a controller that does not lead."""
        state = self.group.await_whole()
        controllers = self.group.controllers
        leader = controllers.await_leader()
        follower = next(node for node in controllers.nodes if node is not leader)
        wanted = (
            f"#brokerName\tbroker-a\n#MasterBrokerId\t{state.master_id}\n#MasterAddr\t{state.master_address}\n"
            f"#MasterEpoch\t{state.master_epoch}\n#SyncStateSetEpoch\t{state.set_epoch}\n#SyncStateSetNums\t2\n"
        )
        for said in (
            self.ask("getSyncStateSet", "-a", follower.address, "-b", "broker-a"),
            self.admin.run("getSyncStateSet", "-a", follower.address, "-c", "DefaultCluster"),
        ):
            self.assertIn(wanted, said)
            for number, address in state.addresses:
                self.assertIn(
                    f"InSyncReplica:\tReplicaIdentity{{brokerName='broker-a', brokerId={number}, "
                    f"brokerAddress='{address}', alive=true}}",
                    said,
                )
        self.assertNotIn("brokerId", self.ask("getSyncStateSet", "-a", follower.address, "-b", "no-such-broker"))

    def test_3_cluster_list(self) -> None:
        """The master stands there as 0, the slave under its id."""
        state = self.group.await_whole()
        wait = {**dict(state.addresses)}
        master = wait.pop(state.master_id)
        ((slave_id, slave),) = wait.items()

        def shown() -> str | None:
            said = self.admin.run("clusterList")
            rows = [re.sub(r"\s+", " ", line).split(" ")[1:4] for line in said.splitlines()]
            return said if ["broker-a", "0", master] in rows and ["broker-a", str(slave_id), slave] in rows else None

        wait_until("clusterList to show both", shown, 40, self.admin.running)

    def test_4_elect_master(self) -> None:
        """A designated slave becomes master and mqadmin says so; one that does not exist is refused."""
        state = self.group.await_whole()
        controllers = self.group.controllers
        target = next(number for number, _ in state.addresses if number != state.master_id)
        node = controllers.nodes[0]
        arguments = ("electMaster", "-a", node.address, "-bn", "broker-a", "-c", "DefaultCluster", "-b")
        said = self.ask(*arguments, "99")
        self.assertRegex(said, r"CODE: 2012")
        self.assertEqual(self.group.await_whole().master_epoch, state.master_epoch)
        said = self.ask(*arguments, str(target))
        changed = self.group.await_master(lambda s: s.master_epoch > state.master_epoch)
        self.assertEqual((changed.master_id, changed.master_epoch), (target, state.master_epoch + 1))
        if self.kind == "ours":
            # 5.5.0 cannot read Java's own answer
            self.assertIn("#ClusterName\tDefaultCluster\n#BrokerName\tbroker-a\n", said)
            self.assertIn(f"#BrokerMasterAddr\t{changed.master_address}\n#MasterEpoch\t{changed.master_epoch}\n", said)
            for number, address in changed.addresses:
                self.assertRegex(said, rf"#Broker\t{number}\t{re.escape(address)}\n")
        self.assertRegex(self.ask(*arguments, str(target)), "CODE: 2011")
        # the brokers follow
        wait_until(
            "the elected broker to say that it is master",
            lambda: any(changed.master_epoch == e for b in self.group.brokers for e, _ in b.masterships()),
            30,
        )
        self.group.await_whole()

    def test_5_controller_config(self) -> None:
        """Read from each listed address, changed where it may be, refused where it may not."""
        nodes = self.group.controllers.nodes
        every = ";".join(node.address for node in nodes)
        said = self.ask("getControllerConfig", "-a", every)
        for node in nodes:
            self.assertIn(f"============{node.address}============", said)
            self.assertRegex(said, rf"controllerDLegerSelfId +=  {node.name}\n")
        self.assertRegex(said, r"enableElectUncleanMaster +=  false\n")
        self.assertRegex(said, r"notifyBrokerRoleChanged +=  true\n")
        for value in ("false", "true"):
            update = ("updateControllerConfig", "-a", every, "-k", "notifyBrokerRoleChanged", "-v", value)
            self.assertIn("update controller config success", self.ask(*update))
            said = self.ask("getControllerConfig", "-a", every)
            self.assertEqual(len(re.findall(rf"notifyBrokerRoleChanged +=  {value}\n", said)), 3, said)
        said = self.ask("updateControllerConfig", "-a", nodes[0].address, "-k", "configStorePath", "-v", "elsewhere")
        self.assertRegex(said, "CODE: 16")

    def test_6_clean_broker_metadata(self) -> None:
        """Refused while the brokers live; afterwards a dead replica, then the whole group, can be dropped."""
        leader = self.group.controllers.await_leader()
        arguments = ("cleanBrokerMetadata", "-a", leader.address, "-bn", "broker-a", "-c", "DefaultCluster")
        state = self.group.await_whole()
        slave = self.group.slaves()[0]
        number = slave.broker_id()
        self.assertRegex(self.ask(*arguments, "-b", str(number)), "CODE: 2009")
        self.assertRegex(self.ask(*arguments), "CODE: 2009")
        self.assertEqual(self.group.await_whole(), state)
        slave.kill()

        def cleaned() -> bool:
            return "clear broker" in self.ask(*arguments, "-b", str(number))

        wait_until("a dead replica's metadata to be cleaned", cleaned, 60)
        after = self.group.state()
        assert after is not None
        self.assertEqual([n for n, _ in after.addresses], [state.master_id])
        self.group.master().kill()
        wait_until("the whole group to be cleaned", lambda: "clear broker" in self.ask(*arguments, "-l"), 60)
        wait_until("the group to be gone", lambda: self.group.state() is None, 60)


globals().update(
    for_controllers(ControllerAdmin, sample=SIDES[:1], full=(("ours", False), ("ours", True), ("java", False)))
)
del ControllerAdmin
