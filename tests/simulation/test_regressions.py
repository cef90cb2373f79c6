"""Rows of the regressions list as whole clusters: real controllers and brokers that keep their rules, one thing wrong.

The rows that are about Raft alone have their tests in tests/raft, those about one machine beside it.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.raft.elections import Elections
from rocketha.simulation import setup
from rocketha.simulation.broker import SimulatedBroker
from rocketha.simulation.broker_oracle import Group
from rocketha.simulation.controller_checks import ControllerChecks
from rocketha.simulation.controller_model import GroupState
from rocketha.simulation.controller_scenario import GROUPS, ControllerScenario
from rocketha.simulation.disk import SimulatedDisk
from rocketha.simulation.faults import Injector
from rocketha.simulation.history import History
from rocketha.simulation.host import Host
from rocketha.simulation.link import Quality
from rocketha.simulation.raft_checks import RaftChecks
from rocketha.simulation.world import World
from rocketha.wire.codes import RequestCode

A, OTHER = GROUPS


class ClusterCase(SynchronousTestCase):
    """Three controllers, a group of three brokers and a broker of the same name in another cluster."""

    quality = Quality()

    def start(self, seed: int = 1, settle_s: float = 12.0) -> None:
        """Run until the set is whole."""
        made = setup.expand(seed, 600.0, sizes=(3,), clients=4, only=())
        self.world = World(seed, self.quality)
        self.cluster = ControllerScenario(made, self.world, operated=False)
        self.cluster.moving = False
        self.world.scheduler.on_failure = lambda name, failure: self.fail(f"{name}: {failure.getTraceback()}")
        self.run_for(settle_s)
        self.assertEqual((self.state().master != 0, len(self.state().in_sync)), (True, 3), self.state())

    def run_for(self, seconds: float) -> None:
        """Go on; nothing may be violated."""
        end = self.world.now + seconds
        while self.world.now < end - 1e-6:
            self.world.run(min(0.5, end - self.world.now))
            self.cluster.look()
            self.assertEqual(self.cluster.findings.violations, [])

    def until(self, there: Any, within_s: float) -> float:
        """Go on until something is so; how long it took."""
        began = self.world.now
        while not there():
            if self.world.now - began > within_s:
                self.fail(f"not within {within_s} s: {self.cluster.recovered()} {self.state()}")
            self.world.run(0.05)
            self.assertEqual(self.cluster.findings.violations, [])
        return self.world.now - began

    def whole(self) -> bool:
        """Whether every group has an acting master and all its brokers in the set."""
        return self.cluster.recovered() is None

    def state(self, key: Group = A) -> GroupState:
        """A group, as the newest entry has it."""
        return self.cluster.checks.group(key)

    def broker(self, number: int, key: Group = A) -> Host:
        """The host of a broker by its id."""
        for host, group in self.cluster.brokers:
            service = host.process.service if host.process is not None else None
            if group == key and isinstance(service, SimulatedBroker) and service.number == number:
                return host
        raise AssertionError(f"no broker {number} of {key}")

    def lead(self) -> Host:
        """The leading controller."""
        (leader,) = [node for node in self.cluster.nodes if node.process is not None and node.process.service.leading]
        return leader


class DurabilityTests(ClusterCase):
    """Rows A."""

    def test_a16_power_loss_of_all_controllers_loses_nothing(self) -> None:
        """What was answered is there after all of them lost their power at once, whenever that is."""
        for seed in range(4):
            self.start(seed)
            before = self.state()
            self.run_for(0.1 * seed)
            for node in self.cluster.nodes:
                node.power_off()
            self.run_for(1.0)
            for node in self.cluster.nodes:
                node.start()
            self.until(self.whole, 10)
            after = self.state()
            self.assertEqual((after.members, after.next_id), (before.members, before.next_id))
            self.assertGreaterEqual((after.epoch, after.set_epoch), (before.epoch, before.set_epoch))
            self.cluster.finish()
            self.assertEqual(self.cluster.findings.violations, [])


class SplitTests(ClusterCase):
    """Rows B."""

    def test_b3_master_cut_from_the_lead_controller_only(self) -> None:
        """The other controllers hear it: no election, however long it lasts."""
        self.start()
        epoch, master, lead = self.state().epoch, self.broker(self.state().master), self.lead()
        self.world.partition("b3", [master], [lead])
        self.run_for(40)
        self.assertEqual(self.state().epoch, epoch)

    def test_b4_the_death_of_a_slave_elects_nobody(self) -> None:
        """It leaves the set, that is all; when it is back it joins again."""
        self.start()
        before = self.state()
        slave = self.broker(next(number for number in before.in_sync if number != before.master))
        self.cluster.injector.hold_down([slave], 1)
        slave.power_off()
        self.until(lambda: len(self.state().in_sync) == 2, 15)
        self.run_for(15)
        self.cluster.injector.hold_down([slave], -1)
        slave.start()
        self.until(self.whole, 15)
        self.assertEqual((self.state().epoch, self.state().master), (before.epoch, before.master))

    def test_b5_one_name_in_two_clusters(self) -> None:
        """Ids, sets and epochs are independent: the death of one's master is nothing to the other."""
        self.start()
        self.assertEqual((len(self.state().members), len(self.state(OTHER).members)), (3, 1))
        epoch, other = self.state().epoch, self.state(OTHER)
        self.assertEqual((other.master, other.in_sync), (1, (1,)))
        self.broker(self.state().master).kill()
        self.until(lambda: self.state().epoch > epoch, 5)
        self.until(self.whole, 20)
        self.assertEqual(self.state(OTHER), other)


class StuckTests(ClusterCase):
    """Rows D."""

    def test_d1_an_election_that_cannot_be_appended_is_tried_again(self) -> None:
        """The lead controller's disk fails while the master dies: a master soon after, by whoever can write."""
        self.start()
        epoch, lead = self.state().epoch, self.lead()
        lead.disk.fail_at(1, times=1 << 30, only=("write", "create"))
        master = self.broker(self.state().master)
        self.cluster.injector.hold_down([master], 1)
        master.kill()
        self.until(lambda: self.state().epoch > epoch and self.state().master != 0, 10)
        lead.disk.heal()
        self.cluster.injector.hold_down([master], -1)
        master.start()
        self.until(self.whole, 30)

    def test_d3_a_controller_failover_kills_nobody(self) -> None:
        """The next leader hears every broker already."""
        self.start()
        epochs = [self.state(key).epoch for key in GROUPS]
        for _ in range(3):
            self.lead().kill()
            self.until(lambda: any(node.alive and node.process.service.leading for node in self.cluster.nodes), 3)
            self.run_for(8)
        self.assertEqual([self.state(key).epoch for key in GROUPS], epochs)

    def test_a_controller_that_comes_back_is_asked_for_its_vote_at_once(self) -> None:
        """Leader and master die together while a second controller starts: the third needs its vote, and does not let
        it wait for the next election timer.  Whenever its log is open, and in whichever of a timer's seconds."""
        for down_s in (0.5, 1.5, 2.0, 2.3, 2.6, 2.9, 3.2):
            with self.subTest(down_s):
                self.comes_back(down_s)

    def comes_back(self, down_s: float) -> None:
        """The second controller comes so long after the death of the leader and the master."""
        self.start()
        epoch, lead = self.state().epoch, self.lead()
        starting = next(node for node in self.cluster.nodes if node is not lead)
        master = self.broker(self.state().master)
        self.cluster.injector.hold_down([starting, lead, master], 1)
        starting.kill()
        self.run_for(5)
        self.assertIs(self.lead(), lead)
        lead.kill()
        master.kill()
        self.run_for(down_s)
        self.assertEqual(self.state().epoch, epoch)
        starting.start()
        self.until(lambda: self.state().epoch > epoch and self.state().master, 1.0)

    def test_a_master_that_takes_a_moment_to_die_with_the_leader(self) -> None:
        """The next leader has just begun; it asks while the process is ending: its port takes connections, the third
        controller hears it still.  A second after its end another leads, not a round and a pause later."""
        for dying_s in (0.2, 0.3, 0.4):
            with self.subTest(dying_s):
                self.takes_a_moment(dying_s)

    def takes_a_moment(self, dying_s: float) -> None:
        """The time from its last word to its end."""
        self.start()
        epoch, lead = self.state().epoch, self.lead()
        fresh, witness = (node for node in self.cluster.nodes if node is not lead)
        campaign = Elections.campaign
        assert witness.process is not None
        passive = witness.process.service.raft.node._elections

        def campaign_of_others(elections: Elections, forced: bool) -> None:
            if elections is not passive:
                campaign(elections, forced)

        self.patch(Elections, "campaign", campaign_of_others)
        master = self.broker(self.state().master)
        self.cluster.injector.hold_down([fresh, lead, master], 1)
        fresh.kill()
        self.run_for(4)
        heartbeat = SimulatedBroker._heartbeat  # no broker looks for the new one yet, as Java's do each 3 s only
        self.patch(SimulatedBroker, "_heartbeat", lambda broker: None)
        fresh.start()
        self.run_for(0.5)
        self.assertIs(self.lead(), lead)
        lead.kill()
        master.freeze(False)
        self.world.scheduler.after(dying_s, None, master.kill)
        self.until(lambda: self.state().epoch > epoch and self.state().master, 1.0)
        self.assertIs(self.lead(), fresh)
        self.patch(SimulatedBroker, "_heartbeat", heartbeat)

    def wipe_controllers(self) -> None:
        """All of them lose their disks, and start anew; what is checked begins anew with them."""
        for node in self.cluster.nodes:
            node.power_off()
            node.disk = SimulatedDisk(node.random)
            node.disk.died = node.kill
        cluster = self.cluster
        cluster.adopting = True
        raft_checks = cluster.raft_checks = RaftChecks(cluster.findings)
        raft_checks.hosts = cluster.nodes
        cluster.checks = ControllerChecks(
            cluster.findings, raft_checks, cluster.oracle, History(), cluster.restart_cleaned
        )
        for node in cluster.nodes:
            node.start()

    def test_d5_brokers_that_the_controllers_forgot_register_again(self) -> None:
        """The controllers' metadata are gone: each broker is known again by the id in its own file, and once an
        operator has said who leads, the group is as it was."""
        self.start()
        before = {host.name: host.process.service.number for host, _ in self.cluster.brokers}
        old = self.state()
        asker = self.world.add_host("asker", lambda process: None)
        self.wipe_controllers()
        for host, _ in self.cluster.brokers:  # a simulated one may not notice earlier that it is unknown
            host.kill()
            host.start()
        self.until(lambda: (len(self.state().members), len(self.state(OTHER).members)) == (3, 1), 10)
        self.run_for(5)
        self.assertEqual((self.state().master, self.state().epoch), (0, 0))  # nobody knows who has everything
        client, answers = RemotingClient(Dialer(asker.process.reactor)), []
        for key, number in ((A, old.master), (OTHER, 1)):
            fields = {"clusterName": key.cluster, "brokerName": key.name, "brokerId": str(number)}
            fields["designateElect"] = "true"
            address = self.cluster.addresses[self.lead().name]
            asked = client.request(address, RequestCode.CONTROLLER_ELECT_MASTER, fields)
            asked.addBoth(answers.append)
        self.until(lambda: len(answers) == 2, 5)
        self.assertEqual([answer.code for answer in answers], [0, 0])
        self.until(lambda: self.state().master and self.whole(), 15)
        client.close()
        self.assertEqual({host.name: host.process.service.number for host, _ in self.cluster.brokers}, before)
        self.assertEqual((self.state().master, sorted(self.state().in_sync)), (old.master, [1, 2, 3]))
        self.assertGreater(self.state().epoch, old.epoch)

    def test_a_master_that_missed_an_answer_learns_of_its_set_though_a_slave_fetches_before_every_tick(self) -> None:
        """Its own change of the set was granted, the answer lost: at the epoch it knows every report is refused.  What
        fetches begin must not keep it from asking (seed controller 100229)."""
        self.start()
        before, host = self.state(), self.broker(self.state().master)
        master = host.process.service
        silent, slave = [self.broker(number) for number in before.in_sync if number != before.master]
        for other in (self.lead(), slave):
            for source, target in ((host, other), (other, host)):
                self.world.network.link(source.address, target.address).slow["far away"] = 0.1
        self.cluster.injector.hold_down([silent, slave], 1)
        appended = master._appended
        slave.kill()
        self.until(lambda: master._appended > appended, 2)  # at most 0.05 s after a tick of the master's
        self.run_for(0.8)
        slave.start()  # ticks 0.15 to 0.2 s before the master; its fetch comes when half of that is over
        self.until(self.whole, 20)
        silent.power_off()
        self.until(lambda: master.master.doubtful, 10)  # it has just asked
        self.world.block("lost answers", self.lead(), host)
        self.run_for(4)
        self.assertGreater(self.state().set_epoch, master.master.set_epoch)
        self.world.heal("lost answers")
        self.until(lambda: master.master.set_epoch == self.state().set_epoch, 10)
        self.until(lambda: len(self.state().in_sync) == len(master.master.in_sync) == 2, 10)
        self.assertEqual((self.state().epoch, self.state().master), (before.epoch, before.master))

    def test_d7_an_isolated_controller_returns_without_raising_terms(self) -> None:
        """Cut off for half a minute, by one way or both."""
        for kind in ("both", "deaf", "mute"):
            with self.subTest(kind):
                self.start()
                lead = self.lead()
                alone = next(node for node in self.cluster.nodes if node is not lead)
                term = lead.process.service.raft.node.term
                for node in self.cluster.nodes:
                    if node is not alone:
                        if kind != "mute":
                            self.world.block("d7", node, alone)
                        if kind != "deaf":
                            self.world.block("d7", alone, node)
                self.run_for(30)
                self.world.heal("d7")
                self.run_for(15)
                self.assertIs(self.lead(), lead)
                self.assertEqual([node.process.service.raft.node.term for node in self.cluster.nodes], [term] * 3)

    def test_d9_every_request_to_a_black_hole_ends(self) -> None:
        """A leader that is cut from the others answers or refuses each request by a deadline."""
        self.start()
        lead = self.lead()
        asker = self.world.add_host("asker", lambda process: None)
        self.run_for(0.1)
        self.world.partition("d9", [lead], [node for node in self.cluster.nodes if node is not lead])
        client, ended = RemotingClient(Dialer(asker.process.reactor)), []
        address = self.cluster.addresses[lead.name]
        fields = {"clusterName": "c1", "brokerName": "b", "appliedBrokerId": "1", "registerCheckCode": "h:1;2"}
        for code, more in (
            (RequestCode.CONTROLLER_APPLY_BROKER_ID, fields),
            (RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"clusterName": "c1", "brokerName": "b"}),
            (RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": "a"}),
            (RequestCode.CONTROLLER_GET_METADATA_INFO, {}),
        ):
            client.request(address, code, more, timeout_s=60).addBoth(lambda answer: ended.append(answer))
        self.until(lambda: len(ended) == 4, 6)
        self.assertEqual([type(answer).__name__ for answer in ended], ["Command"] * 4)
        client.close()


class IdentityTests(ClusterCase):
    """Rows E."""

    def test_cleaned_out_while_it_ran(self) -> None:
        """A slave is cut off from the controllers, so an operator may clean it out, but not from its master: it follows
        on under an id that no set may hold, until it registers: then it is a member again, and joins."""
        self.start()
        before = self.state()
        number = next(number for number in before.in_sync if number != before.master)
        host = self.broker(number)
        process = host.process
        asker = self.world.add_host("asker", lambda process: None)
        self.world.partition("cut", [host], self.cluster.nodes)
        self.run_for(25)
        client, answers = RemotingClient(Dialer(asker.process.reactor)), []
        fields = {"clusterName": A.cluster, "brokerName": A.name, "brokerControllerIdsToClean": str(number)}
        fields["isCleanLivingBroker"] = "false"
        address = self.cluster.addresses[self.lead().name]
        client.request(address, RequestCode.CLEAN_BROKER_DATA, fields).addBoth(answers.append)
        self.until(lambda: answers, 5)
        self.assertEqual([answer.code for answer in answers], [0])
        self.assertFalse(self.state().has(number))
        self.assertIs(host.process, process)
        self.world.heal("cut")
        self.until(self.whole, 20)
        client.close()
        self.assertEqual((host.process.service.number, self.state().next_id), (number, before.next_id))
        self.assertEqual((self.state().epoch, self.state().master), (before.epoch, before.master))

    def test_a_group_cleaned_as_a_whole_begins_anew(self) -> None:
        """The last broker of a group is off and cleaned out: the oracle gives up what it acknowledged; started again it
        leads, under its id and the next epoch (seed controller 101043)."""
        self.start()
        before, host = self.state(OTHER), self.broker(1, OTHER)
        self.assertGreater(self.cluster.oracle.acknowledged(OTHER), 0)
        self.cluster.injector.hold_down([host], 1)
        host.power_off()
        asker = self.world.add_host("asker", lambda process: None)
        self.run_for(15)
        client, answers = RemotingClient(Dialer(asker.process.reactor)), []
        fields = {"clusterName": OTHER.cluster, "brokerName": OTHER.name, "brokerControllerIdsToClean": "1"}
        fields["isCleanLivingBroker"] = "false"
        address = self.cluster.addresses[self.lead().name]
        token = self.cluster.history.invoke(OTHER, self.world.now, "asker", ("clean", 1))
        client.request(address, RequestCode.CLEAN_BROKER_DATA, fields).addBoth(answers.append)
        self.until(lambda: answers, 5)
        client.close()
        self.assertEqual([answer.code for answer in answers], [0])
        self.cluster.history.settle(token, self.world.now, (0, (), ()))
        self.assertEqual((self.state(OTHER).members, self.cluster.oracle.acknowledged(OTHER)), ((), 0))
        self.cluster.injector.hold_down([host], -1)
        host.start()
        self.until(self.whole, 20)
        after = self.state(OTHER)
        self.assertEqual((after.master, after.in_sync, after.next_id), (1, (1,), before.next_id))
        self.assertGreater(after.epoch, before.epoch)
        emptied, anybody = after._replace(master=0, in_sync=()), after._replace(epoch=after.epoch + 1)
        self.assertIsNotNone(self.cluster.checks._elected(OTHER, emptied, anybody, False))  # once only
        self.run_for(5)
        self.assertGreater(self.cluster.oracle.acknowledged(OTHER), 0)
        self.cluster.finish()
        self.assertEqual(self.cluster.findings.violations, [])

    def test_e1_a_new_address_is_the_same_broker(self) -> None:
        """It comes back with another port: same id, same set, and the others are told where it is."""
        self.start()
        before = self.state()
        self.cluster.moving = True
        number = next(number for number in before.in_sync if number != before.master)
        host = self.broker(number)
        address = host.process.service.address
        host.kill()
        host.start()
        self.until(self.whole, 15)
        after = self.state()
        self.assertEqual((after.members, after.next_id, after.epoch), (before.members, before.next_id, before.epoch))
        self.assertEqual(host.process.service.number, number)
        self.assertNotEqual(host.process.service.address, address)
        leader = self.lead().process.service.state.group(*A)
        self.assertEqual(leader.address(number), host.process.service.address)

    def test_e2_crashes_at_every_write_of_the_identity(self) -> None:
        """A broker that dies at the k-th operation of its disk, for every k: one id for it, and no other's."""
        for crash in range(1, 26):
            made = setup.expand(crash, 600.0, sizes=(1,), clients=3, only=())
            world = World(crash)
            cluster = ControllerScenario(made, world, operated=False)
            host, _ = cluster.brokers[0]
            host.disk.die_at = crash
            world.run(12)
            ids = {}
            for each, group in cluster.brokers:
                ids[group, each.process.service.number] = each.name
            self.assertEqual(len(ids), 3, f"crash at operation {crash}: {ids}")
            self.assertNotIn((A, None), ids)
            self.assertEqual(cluster.findings.violations, [], f"crash at operation {crash}")
            self.assertIsInstance(cluster.injector, Injector)
