"""Controllers lose a majority, a disk, or all they had, and are mended as in docs/disasters.rst: on simulated hosts."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any
from unittest import mock

from twisted.internet import defer

from rocketha.admin import controller_state
from rocketha.admin.client import RequestFailed
from rocketha.admin.controllers import Controllers
from rocketha.errors import ConfigError, CorruptStore, DiskFailure, RockethaError
from rocketha.export.exporter import Exporter
from rocketha.export.restoring import Restorer
from rocketha.export.source import Identity, Source
from rocketha.protocols.endpoints import Dialer
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.config.loading import load_controller
from rocketha.services.controller import offline
from rocketha.simulation.disk import SimulatedDisk
from rocketha.simulation.host import Host
from rocketha.wire.codes import PrivateCode
from tests.services.controlled_case import CLUSTER, CONTROLLER_PORT, NAME, ControlledCase
from tests.services.events_case import events_of
from tests.store.support import memory_disk

BACKUP = "/backup/state"


class DisasterCase(ControlledCase):
    """Three controllers, two brokers; operators are elsewhere."""

    brokers_count = 2
    controller_keys = "remoteAdminEnable=true"
    joins = ""

    def controller_program(self, process: Any) -> Any:
        extra = getattr(process.host, "extra", "")
        keys, self.controller_keys = self.controller_keys, f"{self.controller_keys}\n{extra}"
        try:
            return super().controller_program(process)
        finally:
            self.controller_keys = keys

    # -- what the commands do

    def config(self, host: Host) -> ControllerConfig:
        """Of a controller that does not run."""
        text = (
            f"controllerDLegerPeers={self.peers}\ncontrollerDLegerSelfId={host.name}\ncontrollerStorePath=/controller\n"
        )
        return load_controller(text.encode(), "controller.conf", {}, {"HOME": "/"}).config

    def command(self, coroutine: Coroutine[Any, Any, Any], *hosts: Host) -> Any:
        """What a command that connects gives."""
        return self.await_(defer.ensureDeferred(coroutine))

    def known(self, *hosts: Host) -> Controllers:
        """The controllers as a command is told them."""
        assert self.client_host.process is not None
        addresses = [f"{host.address}:{CONTROLLER_PORT}" for host in hosts or self.controllers]
        return Controllers(Dialer(self.client_host.process.reactor), addresses)

    def member(self, host: Host) -> str:
        return f"{host.name}-{host.address}:{CONTROLLER_PORT}"

    def change(self, *asked: Host, **fields: str) -> None:
        """``rocketha controller add`` and ``remove``."""
        self.command(self.known(*asked).ask_leader(PrivateCode.MEMBERS, fields, 30.0))

    def leads(self) -> Host:
        self.until("a leader", lambda: self.leader() is not None)
        host = self.leader()
        assert host is not None
        return host

    def lose_disk(self, host: Host) -> None:
        host.kill()
        host.disk = SimulatedDisk(host.random)
        host.disk.died = host.kill

    def voters(self) -> set[str]:
        process = self.leads().process
        assert process is not None
        return set(process.service.raft.node.members.voters)

    def heard(self) -> int:
        """Brokers that the leader hears."""
        process = self.leads().process
        assert process is not None
        return len(process.service._watch.liveness)

    def counted(self, name: str) -> int:
        """One of the numbers for metrics of the controller that leads."""
        process = self.leads().process
        assert process is not None
        return int(getattr(process.service.counts(), name))

    def elect(self, number: int) -> None:
        """``rocketha controller elect``, until it is taken up and all are in sync."""
        self.command(controller_state.elect(self.known(), CLUSTER, NAME, number, 0))
        host = next(each for each in self.brokers if self.number(each) == number)
        self.until("it leads", lambda: self.log(host).epochs[-1].epoch == self.group().master_epoch)
        self.whole()

    def settle(self) -> None:
        """Every controller has what was decided."""
        leader = self.leads()

        def level() -> bool:
            indexes = {host.process.service.state.index for host in self.controllers if host.process}
            return len(indexes) == 1

        self.until("all controllers have all", level)
        assert leader.process is not None


class ForcedTests(DisasterCase):
    """Two of three controllers are gone for good."""

    def test_the_survivor_goes_on_and_others_join(self) -> None:
        master = self.start_group()
        self.settle()
        survivor = next(host for host in self.controllers if host is not self.leads())
        others = [host for host in self.controllers if host is not survivor]
        epoch = self.group().master_epoch
        for host in others:
            self.lose_disk(host)
        with self.assertRaisesRegex(DiskFailure, "held by"):  # it runs
            offline.survey(survivor.disk, self.config(survivor))
        survivor.kill()

        found = offline.survey(survivor.disk, self.config(survivor))
        self.assertEqual([group.key for group in found.state.groups()], [(CLUSTER, NAME)])
        self.assertEqual(found.log.members.voters, {"n0", "n1", "n2"})
        self.assertGreater(found.decided_ms, 0)
        index = offline.force(survivor.disk, self.config(survivor), 1000)
        self.assertEqual(index, found.log.last_index + 1)

        said = events_of(self)
        survivor.start()
        self.assertIs(self.leads(), survivor)
        (forced,) = [each for each in said if each["event"] == "controllers.forced"]
        self.assertEqual((forced["id"], forced["index"], forced["members"]), (survivor.name, index, survivor.name))
        self.assertEqual(self.voters(), {survivor.name})
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.assertEqual(self.group().master_epoch, epoch)
        for host in others:  # as new ones
            host.extra = "raftJoinExisting=true"  # type: ignore[attr-defined]
            host.start()
            self.change(survivor, add=self.member(host))
        self.assertEqual(self.voters(), {"n0", "n1", "n2"})
        self.settle()
        survivor.kill()
        self.leads()
        self.stop(master)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)

    def test_one_that_was_left_out_comes_back(self) -> None:
        """On its old data, in which others had gone on: it leads nobody, also while the survivor is away."""
        self.start_group()
        self.settle()
        survivor = self.leads()
        new, old = (host for host in self.controllers if host is not survivor)
        survivor.kill()
        for _ in range(2):  # terms that the survivor does not know
            first = self.leads()
            first.kill()
            first.start()
            self.leads()
        self.settle_on(new, old)
        self.lose_disk(new)
        old.kill()
        offline.force(survivor.disk, self.config(survivor), 1000)
        survivor.start()
        new.extra = "raftJoinExisting=true"  # type: ignore[attr-defined]
        new.start()
        self.change(survivor, add=self.member(new))
        self.settle()
        old.start()
        self.run_for(10.0)
        self.assertIs(self.leads(), survivor)
        survivor.kill()
        self.run_for(30.0)
        self.assertIsNone(self.leader())
        survivor.start()
        self.assertIn(self.leads(), (survivor, new))

    def settle_on(self, *hosts: Host) -> None:
        """These have the same log."""
        self.until("they have all", lambda: len({host.process.service.raft.node.last_index for host in hosts}) == 1)  # type: ignore[union-attr]

    def test_there_must_be_a_log(self) -> None:
        with self.assertRaisesRegex(ConfigError, "holds no log of a controller"):
            offline.survey(SimulatedDisk(self.controllers[0].random), self.config(self.controllers[0]))

    def test_not_the_log_of_another(self) -> None:
        first, second = self.controllers[:2]
        self.leads()
        first.kill()
        config = self.config(second)
        config.controller_store_path = "/controller"
        place = offline.place_of(self.config(first))
        first.disk.make_dirs("/controller/raft-n1")
        for name in first.disk.list(place.directory):
            data = first.disk.read_all(f"{place.directory}/{name}", 1 << 30)
            file = first.disk.create(f"/controller/raft-n1/{name}", len(data))
            file.write(0, [data])
            file.close()
        with self.assertRaisesRegex(ConfigError, "belongs to node 'n0'"):
            offline.force(first.disk, config, 1000)


class ReplacedTests(DisasterCase):
    """One controller's disk is gone."""

    def test_removed_and_added_again(self) -> None:
        master = self.start_group()
        lost = self.controllers[2]
        others = self.controllers[:2]
        self.lose_disk(lost)
        self.until("another leads", lambda: self.leader() in others)
        self.change(*others, remove=lost.name)
        self.assertEqual(self.voters(), {"n0", "n1"})
        lost.extra = "raftJoinExisting=true"  # type: ignore[attr-defined]
        lost.start()
        self.change(*others, add=self.member(lost))
        self.assertEqual(self.voters(), {"n0", "n1", "n2"})
        self.settle()
        self.assertEqual(self.acknowledged(master, 20), 20)


class SavedTests(DisasterCase):
    """All controllers are gone, and there is a state file."""

    def saved(self) -> offline.SavedController:
        found: offline.SavedController = self.command(controller_state.save(self.known()))
        return found

    def restore(self, saved: offline.SavedController, exact: bool) -> None:
        """At each of the controllers, on an empty disk; and a start."""
        for host in self.controllers:
            self.lose_disk(host)
        for host in self.controllers:
            host.disk.make_dirs("/backup")
            offline.store(host.disk, BACKUP, saved)
            offline.restore(host.disk, self.config(host), offline.load(host.disk, BACKUP), exact)
            host.start()
        self.leads()

    def test_exact(self) -> None:
        """Nothing was decided since: master, epochs and set are what they were, and nobody notices."""
        master = self.start_group()
        before = self.group().row()._replace(decisions=())
        self.restore(self.saved(), exact=True)
        self.run_for(20.0)
        self.assertEqual(self.group().row()._replace(decisions=()), before)
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.stop(master)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)

    def test_old(self) -> None:
        """An election since the copy: nobody leads by it; the newest log is elected, above all epochs, and twice."""
        first = self.start_group()
        saved = self.saved()
        self.assertEqual(self.acknowledged(first, 20), 20)
        self.whole()
        first.kill()
        second = self.master()
        self.assertIsNot(second, first)
        self.assertEqual(self.acknowledged(second, 20), 20)
        first.start()
        self.whole()
        for _ in range(2):
            epochs = [self.group().master_epoch, self.group().set_epoch]
            self.restore(saved, exact=False)
            self.until("all are heard", lambda: self.heard() == 2)
            self.assertIsNone(self.group().master_id)
            self.assertEqual(self.command(controller_state.cluster_of(self.known(), NAME)), CLUSTER)
            logs = self.command(controller_state.replica_logs(self.known(), CLUSTER, NAME))
            chosen = controller_state.newest(logs)
            self.assertEqual(chosen.broker_id, self.number(second), "it acts as master, and none has more")
            self.elect(chosen.broker_id)
            self.assertGreater(self.group().master_epoch, epochs[0])
            self.assertGreater(self.group().set_epoch, epochs[1])
            self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)

    def test_ids_that_were_given_since_are_not_given_again(self) -> None:
        """A broker that joined after the copy keeps its id to itself, and is taken with it if that is wanted."""
        first = self.start_group()
        saved = self.saved()
        late = self.add_broker()
        self.whole()
        number = self.number(late)
        late.kill()
        self.controller_keys = f"{self.controller_keys}\nadoptUnknownBrokers=true"
        self.restore(saved, exact=False)
        self.until("both are heard", lambda: self.heard() == 2)
        self.elect(self.number(first))
        other = self.add_broker()
        self.whole()
        self.assertGreater(self.number(other), number)
        late.start()
        self.until("it is a member", lambda: number in self.members())
        self.assertEqual(self.number(late), number)
        self.assertEqual(len(self.members()), 4)
        self.assertEqual(len(set(self.group().addresses.values())), 4)

    def test_old_as_if_it_were_exact(self) -> None:
        """The controllers say that they are behind; restored once more, as what it is, they are not."""
        first = self.start_group()
        saved = self.saved()
        first.kill()
        second = self.master()
        self.assertEqual(self.acknowledged(second, 20), 20)  # an epoch without a message is in no epoch file
        first.start()
        self.whole()
        said = events_of(self)
        self.restore(saved, exact=True)
        self.run_for(10.0)
        self.assertEqual([each for each in said if each["event"] == "controllers.forced"], [])
        found = [each for each in said if each["event"] == "controllers.behind"]
        self.assertEqual({each["epoch"] for each in found}, {2})
        self.assertEqual({each["known"] for each in found}, {1})
        self.assertEqual(len(found), len({each["broker"] for each in found}), "said once each")
        self.restore(self.saved(), exact=False)
        self.until("all are heard", lambda: self.heard() == 2)
        logs = self.command(controller_state.replica_logs(self.known(), CLUSTER, NAME))
        chosen = controller_state.newest(logs).broker_id
        self.elect(chosen)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)

    def test_old_as_if_it_were_exact_elects_nobody(self) -> None:
        """Its SyncStateSet names a broker that lacks what was acknowledged since; who has it is elected by hand."""
        first = self.start_group()
        saved = self.saved()
        first.kill()
        second = self.master()
        self.assertEqual(self.acknowledged(second, 20), 20)
        said = events_of(self)
        self.restore(saved, exact=True)
        self.until("they are behind", lambda: any(each["event"] == "controllers.behind" for each in said))
        self.assertEqual(self.counted("behind"), 1)
        second.kill()
        first.start()
        self.until("it is said", lambda: any(each["event"] == "group.not_elected" for each in said))
        self.run_for(10.0)
        self.assertEqual((self.group().master_id, self.masters()), (None, []))
        refused = [each["reason"] for each in said if each["event"] == "group.not_elected"]
        self.assertEqual(len(refused), 1, "said once")
        self.assertIn(f"rocketha controller elect {NAME}", refused[0])
        self.assertIn("outdated", [each["did"] for each in said if each["event"] == "group.elected"])
        second.start()
        self.until("it is there", lambda: second.process and second.process.service and self.service(second).serving)
        logs = self.command(controller_state.replica_logs(self.known(), CLUSTER, NAME))
        chosen = controller_state.newest(logs).broker_id
        self.assertEqual(chosen, self.number(second))
        self.elect(chosen)
        self.assertGreater(self.group().master_epoch, 100)
        self.assertEqual(self.counted("behind"), 0)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)

    def test_who_has_the_newest_log_must_be_known(self) -> None:
        """A broker that does not answer may be the one; a longer log of an older epoch has less."""
        logs = [
            controller_state.ReplicaLog(1, "a:1", 4, 900),
            controller_state.ReplicaLog(2, "b:1", 5, 800),
            controller_state.ReplicaLog(3, "c:1", 5, 700),
        ]
        self.assertEqual(controller_state.newest(logs).broker_id, 2)
        logs.append(controller_state.ReplicaLog(4, "d:1", 5, 800, leads=True))
        self.assertEqual(controller_state.newest(logs).broker_id, 4)
        self.assertEqual(controller_state.may_have_more(logs, 1), [2, 3, 4])
        self.assertEqual(controller_state.may_have_more(logs, 4), [])
        logs.append(controller_state.ReplicaLog(5, "e:1", problem="it is down"))
        self.assertEqual(controller_state.may_have_more(logs, 4), [5])
        self.assertEqual(controller_state.may_have_more(logs, 5), [1, 2, 3, 4])
        with self.assertRaisesRegex(RockethaError, "broker 5 at e:1: it is down"):
            controller_state.newest(logs)

    def test_a_master_that_goes_on_has_the_newest_log(self) -> None:
        """It was asked before its replica, and both have got messages since: the replica only seems to have more."""
        logs = [
            controller_state.ReplicaLog(1, "a:1", 5, 800, leads=True),
            controller_state.ReplicaLog(2, "b:1", 5, 900),
            controller_state.ReplicaLog(3, "c:1", 4, 950, leads=True),
        ]
        self.assertEqual(controller_state.newest(logs).broker_id, 1)
        self.assertEqual(controller_state.may_have_more(logs, 1), [])
        self.assertEqual(controller_state.may_have_more(logs, 2), [1])

    def test_a_damaged_file_is_refused(self) -> None:
        self.start_group()
        saved, disk = self.saved(), self.controllers[0].disk
        disk.make_dirs("/backup")
        offline.store(disk, BACKUP, saved)
        self.assertEqual(offline.load(disk, BACKUP), saved)
        with self.assertRaisesRegex(ConfigError, "is there already"):
            offline.store(disk, BACKUP, saved)
        data = disk.read_all(BACKUP, 1 << 20)
        for at in range(0, len(data), 7):
            file = disk.open(BACKUP)
            file.write(at, [bytes([data[at] ^ 1])])
            with self.assertRaises(CorruptStore):
                offline.load(disk, BACKUP)
            file.write(at, [data[at : at + 1]])
            file.close()

    def test_a_crash_while_it_is_restored(self) -> None:
        """At each step: there is the whole log or none, so that no controller starts as one that knows nothing."""
        self.start_group()
        saved, config = self.saved(), self.config(self.controllers[0])
        directory, whole = offline.place_of(config).directory, 0
        for step in range(1, 1000):
            disk, steps = memory_disk(step), 0

            def cut(path: str, operation: str, opens: bool = False, at: int = step) -> None:
                nonlocal steps
                steps += 1
                if steps == at:
                    raise DiskFailure(path, operation, 5, "power is lost")

            with mock.patch.object(disk, "step", cut):
                try:
                    offline.restore(disk, config, saved, exact=True)
                except DiskFailure:
                    pass
            disk.crash()
            if disk.exists(directory) and disk.list(directory):
                found = offline.survey(disk, config)
                self.assertEqual(found.log.snapshot.index, saved.index, step)
                whole += 1
            else:
                offline.restore(disk, config, saved, exact=True)
            if steps < step:
                break
        self.assertGreater(step, 20)
        self.assertGreater(whole, 0)

    def test_a_directory_that_is_in_use_is_refused(self) -> None:
        self.start_group()
        saved, host = self.saved(), self.controllers[0]
        with self.assertRaisesRegex(ConfigError, "is not empty"):
            offline.restore(host.disk, self.config(host), saved, exact=True)

    def test_only_the_leader_saves(self) -> None:
        self.start_group()
        other = next(host for host in self.controllers if host is not self.leads())
        asked = self.known().ask(f"{other.address}:{CONTROLLER_PORT}", PrivateCode.SNAPSHOT)
        with self.assertRaisesRegex(RequestFailed, "not in leader state"):
            self.command(asked)


class StrangerTests(DisasterCase):
    """Whoever is not on the controllers' machines."""

    controller_keys = ""

    def test_gets_no_copy(self) -> None:
        self.leads()
        with self.assertRaisesRegex(RequestFailed, "remoteAdminEnable"):
            self.command(controller_state.save(self.known()))


class CopiedTests(DisasterCase):
    """Other controllers' sets become ours: the brokers find what they had."""

    def test_brokers_go_on_under_the_copy(self) -> None:
        """Nothing is elected and no message refused; ids, epochs and the set stay."""
        master = self.start_group()
        sets = self.command(controller_state.copied_sets(self.known(), {NAME: CLUSTER}))
        before = self.group()
        kept = (before.master, before.master_epoch, before.in_sync, before.set_epoch, before.next_id, before.addresses)
        self.assertEqual(sets[0].replicas.alive, {1, 2})
        saved = controller_state.copied_state(sets, "group1")
        for host in self.controllers:
            self.lose_disk(host)
            offline.restore(host.disk, self.config(host), saved, exact=True)
        for host in self.controllers:
            host.start()
        self.leads()
        for _ in range(20):
            self.assertEqual(self.acknowledged(master, 5), 5)
            self.run_for(1.0)
        after = self.group()
        self.assertEqual(
            (after.master, after.master_epoch, after.in_sync, after.set_epoch, after.next_id, after.addresses), kept
        )
        third = self.add_broker()
        self.whole()
        self.assertEqual(self.number(third), 3)
        self.stop(master)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)

    def test_a_set_that_is_not_known(self) -> None:
        self.start_group()
        found = self.command(controller_state.copied_sets(self.known(), {"other": CLUSTER, NAME: CLUSTER}))
        self.assertEqual([each.broker_name for each in found], [NAME])
        with self.assertRaisesRegex(RockethaError, "do not know broker set other"):
            self.command(controller_state.replica_logs(self.known(), CLUSTER, "other"))


class GhostTests(DisasterCase):
    """A broker loses its disk and comes back with another id."""

    def test_its_former_id_is_cleaned(self) -> None:
        master = self.start_group()
        lost = next(host for host in self.brokers if host is not master)
        number = self.number(lost)
        with self.assertRaisesRegex(RequestFailed, "is still alive"):
            self.command(controller_state.clean(self.known(), CLUSTER, NAME, [number]))
        epoch = self.group().master_epoch
        self.lose_disk(lost)
        self.until("it is missed", lambda: self.members() == (self.number(master),))
        self.restart(lost)
        self.whole()
        self.assertEqual((number, self.number(lost)), (2, 3))
        self.assertEqual(sorted(self.group().members), [1, 2, 3])
        self.command(controller_state.clean(self.known(), "", NAME, [number]))
        self.run_for(10.0)
        self.assertEqual(sorted(self.group().members), [1, 3])
        self.assertEqual((self.group().master_epoch, self.group().in_sync), (epoch, (1, 3)))
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)


class RestoredStoreTests(DisasterCase):
    """All brokers of a set are gone, and there is an export of one."""

    controllers_count = 1
    brokers_count = 1

    def test_a_restored_store_is_a_new_master_and_fills_another(self) -> None:
        first = self.start_group()
        self.assertEqual(self.acknowledged(first, 300), 300)
        self.until("its queues are made", lambda: self.level(first))
        end, queues = self.log(first).end, self.log(first).store.queue_table()
        self.stop(first)
        exports = memory_disk(5)
        for _ in Exporter(Source(first.disk, "/store", ("/store/commitlog",)), exports, "/export", lambda: 1).run(
            Identity(CLUSTER, NAME, 1)
        ):
            pass
        self.lose_disk(first)
        self.until("it is missed", lambda: self.heard() == 0)
        self.command(controller_state.clean(self.known(), CLUSTER, NAME, [1]))
        for _ in Restorer(exports, "/export", first.disk, "/store").run():
            pass
        first.start()
        self.until("it is heard", lambda: self.heard() == 1 and self.number(first) == 2)
        self.run_for(5.0)
        self.assertEqual(self.masters(), [], "the controllers know that another one had what was acknowledged")
        self.command(controller_state.elect(self.known(), CLUSTER, NAME, 2, 0))
        master = self.master()
        self.assertEqual((self.log(master).end, self.log(master).store.queue_table()), (end, queues))
        self.add_broker()
        self.whole()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)
