"""What is collected of real brokers, controllers and nameservers on simulated hosts."""

from __future__ import annotations

import json
import os
import tempfile

from twisted.internet.defer import Deferred, maybeDeferred

import rocketha
from rocketha.access.signer import Credentials, Signer
from rocketha.admin import controller_state, doctor_page, status_page
from rocketha.admin.controllers import Controllers
from rocketha.admin.doctor import examine
from rocketha.admin.finding_kinds import Finding
from rocketha.admin.findings import Limits, judge
from rocketha.admin.looking import Looker
from rocketha.admin.picture import Picture
from rocketha.observe.logging import current_level, set_level
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.config.loading import load_controller
from rocketha.services.controller.service import ControllerService
from rocketha.simulation.host import Host, Process
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from tests.admin.doctor_case import DoctorCase
from tests.services.broker_case import heartbeat
from tests.services.controlled_case import CONTROLLER_PORT
from tests.services.dledger_case import DLedgerCase
from tests.services.replication_case import NAMESERVER_PORT, PORT


class HealthyTests(DoctorCase):
    """A whole cluster."""

    def test_a_healthy_cluster(self) -> None:
        """Everything is known of every process, and nothing is found."""
        master = self.whole_cluster()
        self.send_many(master, 20)
        self.run_for(1.0)
        picture = self.look()
        self.assertEqual(self.findings(picture), ())
        page = "\n".join(status_page.lines(picture))
        for host in (*self.brokers, *self.controllers, *self.names):
            self.assertIn(f"{host.address}:", page)
        self.assertEqual({each.role for each in picture.brokers}, {"MASTER", "SLAVE"})
        self.assertEqual({each.epoch for each in picture.brokers}, {1})
        self.assertEqual({each.process.version for each in picture.brokers}, {rocketha.__version__})
        self.assertTrue(all(abs(each.clock_ahead_ms or 0) <= each.clock_doubt_ms for each in picture.processes))
        for each in picture.controllers:
            self.assertEqual(each.applied, each.committed)
        (found,) = picture.sets
        self.assertEqual((found.master, found.in_sync, found.alive), (1, (1, 2, 3), (1, 2, 3)))
        self.assertIn("0 findings", next(iter(doctor_page.lines(picture, ()))))
        json.dumps(status_page.as_json(picture))
        json.dumps(doctor_page.as_json(picture, ()))

    def test_a_process_that_has_two_names(self) -> None:
        """Given by host names all are found once, by the addresses that the others know; who is not reached is nobody
        else."""
        self.whole_cluster()
        brokers = [f"{each.name}:{PORT}" for each in self.brokers]
        controllers = [f"{each.name}:{CONTROLLER_PORT}" for each in self.controllers]
        names = [f"{self.names[0].name}:{NAMESERVER_PORT}", self.namesrv(self.names[0])]
        picture = self.look(brokers, controllers, names)
        self.assertEqual(sorted(each.address for each in picture.brokers), sorted(map(self.at, self.brokers)))
        known = sorted(map(self.controller, self.controllers))
        self.assertEqual(sorted(each.process.address for each in picture.controllers), known)
        self.assertEqual(len(picture.nameservers), 1)
        self.assertEqual(self.findings(picture), ())
        self.brokers[2].kill()
        self.run_for(1.0)
        alone = self.look([brokers[0], self.at(self.brokers[0]), brokers[2], "nobody:1"], [], [])
        self.assertEqual([each.reached for each in alone.processes].count(False), 3, alone)


class FaultTests(DoctorCase):
    """Each fault is staged in a whole cluster and named by its cause."""

    nameservers_count = 2
    limits = Limits(lag_bytes=20_000, lag_messages=50)

    def test_an_address_that_nobody_reaches(self) -> None:
        """The broker runs, the controllers hear it, and what it registered leads nowhere."""
        self.whole_cluster()
        host = self.brokers[2]
        self.stop(host)
        self.restart(host, f"{host.settings}\nbrokerIP1=10.99.0.1")  # type: ignore[attr-defined]
        self.run_for(5.0)
        (found,) = self.only("broker.wrong_address", self.findings())
        self.assertIn("10.99.0.1:10911", found.subject)
        self.assertTrue(any("heartbeats reach controller" in each for each in found.evidence), found.evidence)

    def test_a_broker_that_is_being_stopped(self) -> None:
        """Its port is closed and controllers have just heard it, as where its address is wrong; soon they have not."""
        master = self.whole_cluster()
        stopped = maybeDeferred(self.service(master).stopService)
        self.look()
        self.await_(stopped)
        self.only("broker.wrong_address", self.findings())
        reactor = self.client_process.reactor
        examined: Deferred[tuple[Picture, tuple[Finding, ...]]] = Deferred.fromCoroutine(
            examine(lambda: self.looker().picture(*self.addresses()), reactor, self.limits)
        )
        _picture, found = self.await_(examined)
        self.assertNotIn("broker.wrong_address", [each.kind.name for each in found])
        (gone,) = self.only("broker.unreachable", found)
        self.assertIn(self.at(master), gone.subject)

    def test_an_id_whose_address_another_broker_has(self) -> None:
        """As after a lost disk: who asks for the newest log is told how to remove the id that is gone."""
        self.whole_cluster()
        host = self.brokers[2]
        self.stop(host)
        host.disk.remove_tree("/store")
        self.restart(host)
        self.until("it has an id of its own", lambda: self.number(host) == 4)
        self.whole()
        controllers = Controllers(Dialer(self.client_process.reactor), [self.controller(self.controllers[0])])
        self.addCleanup(controllers.close)
        asked = Deferred.fromCoroutine(controller_state.replica_logs(controllers, "DefaultCluster", "g"))
        (third,) = [each for each in self.await_(asked) if each.broker_id == 3]
        self.assertEqual(third.problem, "broker 4 has its address; if 3 is gone: rocketha controller clean g 3")

    def test_another_nameserver(self) -> None:
        """A broker of the set registers elsewhere."""
        other = self.add_nameserver("stranger")
        self.whole_cluster()
        host = self.brokers[2]
        self.stop(host)
        self.restart(host, f"{host.settings}\nnamesrvAddr={self.namesrv(other)}")  # type: ignore[attr-defined]
        self.whole()
        (found,) = self.only("broker.wrong_nameserver", self.findings())
        self.assertIn(self.at(host), found.subject)
        self.assertIn(f"its namesrvAddr is {self.namesrv(other)}", found.evidence)

    def test_a_dead_controller(self) -> None:
        """The others go on."""
        self.whole_cluster()
        dead = next(each for each in self.controllers if each is not self.leader())
        dead.kill()
        self.run_for(1.0)
        (found,) = self.findings()
        self.assertEqual(found.kind.name, "controller.unreachable")
        self.assertIn(self.controller(dead), found.subject)
        self.assertTrue(any(each.startswith("2 of 3 controllers answer, n") for each in found.evidence), found.evidence)

    def test_no_controller_leads(self) -> None:
        """What is shown of the sets is marked as stale, and nothing is concluded from it."""
        self.whole_cluster()
        for host in self.controllers[1:]:
            host.kill()
        self.run_for(10.0)
        picture = self.look()
        self.only("controller.no_leader", self.findings(picture))
        self.assertTrue(all(each.stale for each in picture.sets) and picture.sets, picture.sets)
        self.assertIn("STALE", "\n".join(status_page.lines(picture)))
        self.assertEqual([each for each in self.findings(picture) if each.kind.name == "sync_set.stale"], [])

    def test_a_full_disk(self) -> None:
        """Of the master."""
        master = self.whole_cluster()
        master.disk.ratio = 0.97
        self.run_for(30.0)
        (found,) = self.only("disk.full", self.findings())
        self.assertIn(self.at(master), found.subject)
        self.assertIn("97.0% of the disk of its log is used", found.evidence)

    def test_a_slow_disk(self) -> None:
        """Syncs take a second."""
        master = self.whole_cluster()
        master.disk.slow = 2000.0
        self.sending(master)
        self.run_for(5.0)
        (found,) = self.only("disk.slow", self.findings())
        self.assertIn(self.at(master), found.subject)

    def test_a_clock_that_is_off(self) -> None:
        """By a minute, of one broker."""
        self.whole_cluster()
        host = self.brokers[1]
        host.clock.jump(60.0)
        (found,) = self.findings()
        self.assertEqual((found.kind.name, found.cause), ("clock.off", "its clock is 60.0 s ahead of the one here"))
        self.assertIn(self.at(host), found.subject)

    def test_the_clock_here_is_off(self) -> None:
        """All others agree with each other."""
        self.whole_cluster()
        self.client_host.clock.jump(60.0)
        (found,) = self.findings()
        self.assertEqual((found.kind.name, found.subject), ("clock.off", "this machine"))

    def test_two_brokers_with_one_id(self) -> None:
        """A broker's identity was copied, and the copy runs beside it."""
        self.whole_cluster()
        host = self.brokers[1]
        twin = self.broker("twin", host.settings, start=False)  # type: ignore[attr-defined]
        path = "/store/brokerIdentity"
        data = host.disk.read_all(path, 4096)
        twin.disk.make_dirs("/store")
        file = twin.disk.create(path, 0)
        file.write(0, [data])
        file.close()
        twin.start()
        self.started(twin)
        self.run_for(10.0)
        found = self.only("broker.shared_id", self.findings(self.look([self.at(twin)])))
        self.assertTrue(any(self.at(twin) in text for each in found for text in each.evidence), found)

    def test_two_classic_brokers_with_one_id(self) -> None:
        """The nameserver that has the first refuses the second, and says so."""
        settings = f"{self.keys}\nbrokerRole=ASYNC_MASTER"
        first = self.broker("first", settings)
        self.until("it is registered", lambda: self.registered(first))
        second = self.broker("second", settings)
        self.run_for(5.0)
        found = self.only("broker.shared_id", self.findings(self.look(controllers=[])))
        self.assertTrue(any(self.at(first) in text for each in found for text in each.evidence), found)
        self.assertTrue(any(self.at(second) in text for each in found for text in each.evidence), found)

    def test_a_dead_member_of_the_set(self) -> None:
        """It is in sync for as long as nobody has noticed; frozen, it does not answer."""
        self.whole_cluster()
        host = self.brokers[2]
        host.freeze(True)
        every = self.findings()
        (found,) = self.only("sync_set.stale", every)
        self.only("broker.unreachable", every)
        self.assertIn(f"broker 3 {self.at(host)} is in sync and dead", found.cause)

    def test_a_client_that_asks_for_nothing(self) -> None:
        """Its heartbeats come, and it has queues with messages."""
        master = self.whole_cluster()
        self.send_many(master, 20, topic="T")
        self.ask(master, RequestCode.HEART_BEAT, body=heartbeat("deaf@1", "G", "T"))
        for queue in range(4):
            self.ask(
                master,
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": "G", "topic": "T", "queueId": str(queue), "commitOffset": "1"},
            )
        self.run_for(70.0)
        (found,) = self.only("client.deaf", self.findings())
        self.assertEqual(found.subject.partition(" at ")[0], "client deaf@1")
        self.assertIn("never asked", found.evidence[0])

    def test_a_group_that_holds_queues_and_consumes_nothing(self) -> None:
        """It asks for messages, and commits nothing between two looks."""
        master = self.whole_cluster()
        self.send_many(master, 20, topic="T")
        self.ask(master, RequestCode.HEART_BEAT, body=heartbeat("slow@1", "G", "T"))
        for queue in range(4):
            self.ask(
                master,
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": "G", "topic": "T", "queueId": str(queue), "commitOffset": "1"},
            )
            self.pull(master, 1, queue)
        found = self.only("group.stuck", self.findings(self.look(pause_s=6.0)))
        self.assertIn("group G at g", found[0].subject)
        self.assertIn("nothing was committed for 6 s", found[0].evidence)

    def test_a_group_that_lags(self) -> None:
        """Nobody consumes for it."""
        master = self.whole_cluster()
        self.send_many(master, 80, topic="T")
        self.ask(master, RequestCode.HEART_BEAT, body=heartbeat("gone@1", "G", "T"))
        self.ask(master, RequestCode.UNREGISTER_CLIENT, {"clientID": "gone@1", "consumerGroup": "G"})
        self.ask(
            master,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"},
        )
        found = self.only("group.lag", self.findings())
        self.assertIn("no consumer is connected", found[0].evidence)

    def test_an_old_epoch(self) -> None:
        """The master lost the controllers, another one was elected, and it has not heard."""
        master = self.whole_cluster()
        for controller in self.controllers:
            for one, other in ((master, controller), (controller, master)):
                self.world.network.link(one.address, other.address).blocks.add("cut off")
        for other in self.brokers:
            if other is not master:
                for pair in ((master, other), (other, master)):
                    self.world.network.link(pair[0].address, pair[1].address).blocks.add("cut off")
        self.until("another one is elected", lambda: self.masters() and self.masters()[0] is not master, 60.0)
        self.run_for(5.0)
        (found,) = self.only("epoch.old", self.findings())
        self.assertIn(self.at(master), found.subject)
        self.assertTrue(any("the controllers have master" in each for each in found.evidence))

    def test_a_nameserver_that_is_down(self) -> None:
        """One of two."""
        self.whole_cluster()
        self.names[1].kill()
        self.run_for(1.0)
        (found,) = self.only("nameserver.unreachable", self.findings())
        self.assertIn(self.namesrv(self.names[1]), found.subject)
        self.assertIn(f"these answer: {self.namesrv(self.names[0])}", found.evidence)

    def test_a_broker_that_one_nameserver_does_not_have(self) -> None:
        """It names one of two."""
        self.whole_cluster()
        host = self.brokers[2]
        self.stop(host)
        self.restart(host, f"{host.settings}\nnamesrvAddr={self.namesrv(self.names[0])}")  # type: ignore[attr-defined]
        self.whole()
        (found,) = self.only("broker.not_registered", self.findings())
        self.assertIn(f"nameserver {self.namesrv(self.names[1])} does not have it", found.evidence)

    def test_a_replica_that_lags(self) -> None:
        """It left the set, and lacks more than it should."""
        master = self.whole_cluster()
        behind = next(each for each in self.brokers if each is not master)
        for one, other in ((master, behind), (behind, master)):
            self.world.network.link(one.address, other.address).blocks.add("cut off")
        self.until("it left", lambda: len(self.members()) == 2, 60.0)
        self.send_many(master, 100)
        found = self.only("replica.lag", self.findings())
        self.assertIn(self.at(behind), found[0].subject)


class SecretTests(DoctorCase):
    """One controller has another secret."""

    def controller_program(self, process: Process) -> ControllerService:
        text = (
            f"controllerDLegerPeers={self.peers}\ncontrollerDLegerSelfId={process.host.name}\n"
            "controllerStorePath=/controller\n"
        )
        config = load_controller(text.encode(), "controller.conf", {}, {"HOME": "/"}).config
        config.raft_secret = b"another secret 16" if process.host.name == "n2" else b"the secret of all"
        service = ControllerService(config, process.platform(on_fatal=process.host.exited))
        service.privilegedStartService()
        service.startService()
        return service

    def test_another_secret(self) -> None:
        """The others refuse it and say so."""
        self.until("a leader", self.leader)
        self.run_for(5.0)
        stranger = self.host("n2").address
        found = self.only("secret.wrong", self.findings(self.look()))
        self.assertTrue(any(stranger in text for each in found for text in each.evidence), found)

    def host(self, name: str) -> Host:
        return self.world.hosts[name]


class LedgerTests(DLedgerCase):
    """Groups in DLedger mode."""

    def test_a_member_that_is_dead(self) -> None:
        """Members are known by the configuration of those that run."""
        master = self.start_group()
        self.whole()
        dead = self.followers()[0]
        dead.kill()
        self.run_for(2.0)
        process = self.client_host.process
        assert process is not None
        reactor = process.reactor
        looker = Looker(process.service, reactor, lambda: int(reactor.wall() * 1000), 0.0)
        for _twice in range(2):
            waiting: Deferred[Picture] = Deferred.fromCoroutine(looker.picture([], [], [f"{master.address}:{PORT}"]))
            picture: Picture = self.await_(waiting)
        self.assertEqual([each for broker in picture.brokers for each in broker.process.refusals], [])
        (found,) = (each for each in judge(picture) if each.kind.name.startswith("ledger"))
        self.assertEqual(found.kind.name, "ledger.member_unreachable")
        self.assertIn(dead.address, found.subject)
        said = {each.id: (each.leader, each.problem == "") for each in picture.ledgers}
        self.assertEqual(len(said), 3)
        self.assertEqual(said[master.name], (master.name, True))
        self.assertIn(master.name, "\n".join(status_page.lines(picture)))


class UserTests(DoctorCase):
    """A broker with users."""

    USER, PASSWORD = "operator", "a password of some length"

    def users_broker(self) -> Host:
        """One alone, whose only user is a Super user."""
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        secret = os.path.join(work.name, "secret")
        with open(secret, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(b"0123456789abcdef0123456789abcdef")
        user = json.dumps({"username": self.USER, "password": self.PASSWORD})
        host = self.broker(
            "users",
            f"{self.keys}\nbrokerRole=ASYNC_MASTER\nauthenticationEnabled=true\nauthorizationEnabled=true\n"
            f"authSecretFile={secret}\ninitAuthenticationUser={user}\n",
        )
        self.until("it is registered", lambda: self.registered(host))
        return host

    def sign_as(self, password: str) -> Host:
        """A host whose requests are signed with this password."""

        def program(process: Process) -> RemotingClient:
            nonce = process.host.random.randbytes
            signer = Signer(
                Credentials(self.USER, password), lambda: int(process.reactor.wall() * 1000), lambda: nonce(16)
            )
            return RemotingClient(Dialer(process.reactor, signer=signer))

        host = self.world.add_host(f"signs-{len(password)}", program)
        self.run_for(0.01)
        return host

    def test_a_refused_signature(self) -> None:
        """Who signs with a wrong password is named with the reason; who does not sign at all is not told."""
        host = self.users_broker()
        found = self.findings(self.look(controllers=[]))
        self.assertIn(self.at(host), self.only("doctor.not_allowed", found)[0].subject)
        self.client_host = self.sign_as("another password")
        self.send(host)
        self.client_host = self.sign_as(self.PASSWORD)
        every = self.findings(self.look(controllers=[]))
        (refused,) = self.only("permission.refused", every)
        self.assertTrue(any("check signature failed." in text for text in refused.evidence), refused)
        self.assertFalse([each for each in every if each.kind.name == "doctor.not_allowed"], every)

    def test_the_log_level(self) -> None:
        """Who may change the cluster may change it, from wherever he is; nobody else may."""
        self.addCleanup(set_level, current_level())
        set_level("info")
        host = self.users_broker()
        for password, level in (("", "info"), ("another password", "info"), (self.PASSWORD, "warn")):
            if password:
                self.client_host = self.sign_as(password)
            answer = self.ask(host, PrivateCode.LOG_LEVEL, {"level": "warn"})
            self.assertEqual(answer.code, 0 if level == "warn" else ResponseCode.NO_PERMISSION, answer.remark)
            self.assertEqual(current_level(), level)
