"""Brokers that get ids and roles from controllers: S0 and S3 of the seeds, with real services on simulated hosts."""

from __future__ import annotations

import unittest
from typing import Any

from twisted.internet import defer

from rocketha.broker.controller_identity import IdentityFiles
from rocketha.broker.role import Role
from rocketha.broker.role_effects import Lead
from rocketha.namesrv.route_table import MASTER_ID
from rocketha.services.broker.controller_client import Reply
from rocketha.simulation.disk import SimulatedDisk
from rocketha.simulation.host import Host, Process
from rocketha.store import atomic_file
from rocketha.wire import controller_calls
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import pull_fields
from tests.services.controlled_case import CLUSTER, CONTROLLER_PORT, NAME, ControlledCase
from tests.services.replication_case import NAMESERVER_PORT


class FirstStartTests(ControlledCase):
    """From empty disks."""

    def test_a_group_comes_together(self) -> None:
        """Ids from 1 on, one master, a set of three, messages on all three, nobody else takes any."""
        master = self.start_group()
        self.assertEqual([self.number(host) for host in self.brokers], [1, 2, 3])
        self.assertEqual(self.members(), (1, 2, 3))
        self.assertEqual(self.acknowledged(master, 100), 100)
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)
        self.assertEqual([self.role(host) for host in self.brokers].count(Role.SLAVE), 2)


class SwitchTests(ControlledCase):
    """The master goes, in every way it can go."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.start_group()
        self.others = [host for host in self.brokers if host is not self.first]
        self.assertEqual(self.acknowledged(self.first, 50), 50)
        self.end = self.log(self.first).end

    def lost(self) -> None:
        """Nothing that was acknowledged, and all logs are equal."""
        self.whole()
        self.until("all have all", lambda: self.level(*[host for host in self.brokers if host.alive]))
        self.same_logs(*[host for host in self.brokers if host.alive])

    def test_killed(self) -> None:
        """Its port refuses: another one in a fraction of a second, with all that was acknowledged."""
        end = self.log(self.first).end
        self.first.kill()
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 1.0)
        second = self.master()
        self.assertGreaterEqual(self.log(second).end, end)
        self.until("the dead one has left the set", lambda: len(self.members()) == 2)
        self.assertEqual(self.acknowledged(second, 50), 50)
        self.restart(self.first)
        self.lost()
        self.assertEqual([self.number(host) for host in self.brokers], [1, 2, 3])
        self.assertIs(self.master(), second)

    def test_killed_while_sends_wait_for_a_master(self) -> None:
        """They are served by whoever becomes master as soon as it may acknowledge, not at its next look at them."""
        self.run_for(1.0)
        self.first.kill()
        waiting = [self.sending(host) for host in self.others]
        self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        took = self.until("both are answered", lambda: all(map(self.answered, waiting)))
        self.assertLess(took, 0.02)
        self.assertEqual({self.successResultOf(each).code for each in waiting}, {0})

    def test_frozen(self) -> None:
        """It is replaced; when it thaws it acknowledges nothing, and follows (regressions A21, A22)."""
        self.first.freeze(whole=False)
        answers: list[int] = []
        self.sending(self.first).addCallbacks(
            lambda answer: answers.append(answer.code), lambda failure: answers.append(-1)
        )
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 4.0)
        self.first.thaw()
        self.whole()
        self.until("an answer", lambda: answers)
        self.assertIs(self.role(self.first), Role.SLAVE)
        self.assertEqual(self.acknowledged(self.master(), 50), 50)
        self.lost()

    def winner(self) -> Host:
        """Who is elected after the first, at the moment of the election: it does not know yet."""
        self.whole()
        self.run_for(3.0)
        self.first.kill()
        self.until("another is elected", lambda: self.group().master_id not in (None, 1))
        winner = next(host for host in self.others if self.number(host) == self.group().master_id)
        self.assertEqual((self.role(winner), self.group().unconfirmed.winner), (Role.SLAVE, self.number(winner)))
        return winner

    def the_third_leads(self, winner: Host) -> None:
        """Within two seconds, in the epoch after the winner's, with all that was acknowledged."""
        epoch = self.group().master_epoch
        (third,) = [host for host in self.others if host is not winner]
        took = self.until("the third leads", lambda: self.masters() == [third])
        self.assertLess(took, 2.0)
        self.assertEqual(self.group().master_epoch, epoch + 1)
        self.assertGreaterEqual(self.log(third).end, self.end)
        self.assertEqual(self.acknowledged(third, 50), 50)

    def test_a23_the_winner_is_killed_before_it_knows(self) -> None:
        """Its election is void, and the third of the set before it has everything.  Both dead ones follow it."""
        winner = self.winner()
        winner.kill()
        self.the_third_leads(winner)
        for host in (self.first, winner):
            self.restart(host)
        self.lost()

    def test_a23_the_winner_loses_its_power_before_it_knows(self) -> None:
        """Its port is silent: the third broker is asked, as every member that may be elected is."""
        winner = self.winner()
        winner.power_off()
        self.the_third_leads(winner)

    def test_a23_the_winner_freezes_before_it_knows(self) -> None:
        """It thaws with the notice of its election in its socket, and leads nothing."""
        winner = self.winner()
        winner.freeze(whole=False)
        self.the_third_leads(winner)
        third = self.master()
        winner.thaw()
        for _ in range(40):
            self.run_for(0.05)
            self.assertEqual(self.masters(), [third])
        self.lost()

    def test_a_master_that_asks_as_java_wants_to_be_asked(self) -> None:
        """Our controllers do not know by 1004 that it acts: they may not take its election back."""
        second, third = self.others
        for host in self.others:
            life = self.mode(host).life
            assert life is not None
            life.ours = False
        self.run_for(2.0)
        self.world.partition("apart", [second], [third])
        self.first.kill()
        self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        second = self.master()
        self.assertEqual(self.acknowledged(second, 20), 20)
        end = self.log(second).end
        second.kill()
        self.world.heal("apart")
        self.run_for(15.0)
        self.assertEqual(self.masters(), [])
        self.restart(second)
        self.assertGreaterEqual(self.log(self.master()).end, end)
        self.restart(self.first)
        self.lost()

    def test_killed_while_a_slave_has_lost_its_disk(self) -> None:
        """The slave came back under its old id with nothing; the controllers know what its last process said, and that
        its port answers.  Nobody but the third has what was acknowledged.
        """
        second, third = self.others
        self.run_for(3.0)
        end = self.log(self.first).end
        number, path = (
            self.number(second),
            self.service(second).broker.core.config.replication.store_path_broker_identity,
        )
        self.assertLess(number, self.number(third))
        second.power_off()
        second.disk = SimulatedDisk(second.random)
        second.disk.died = second.kill
        identity = IdentityFiles(second.disk, path, CLUSTER, NAME)
        identity.load()
        identity.keep(number)

        program = second.program
        assert program is not None

        def deaf(process: Process) -> Any:
            service = program(process)

            def deafen(_: None) -> None:
                client = service.broker.role_source._client
                client.beat = lambda call: None
                client.ask = lambda call, timeout_s: defer.Deferred()

            service.started.addCallback(deafen)  # before it asks for anything
            return service

        second.program = deaf
        self.restart(second)
        self.run_for(1.5)
        self.first.kill()
        self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertIs(self.master(), third)
        self.assertGreaterEqual(self.log(third).end, end)

    def test_stopped(self) -> None:
        """It hands its role over first: no moment in which nobody would, and the new one has everything."""
        epoch = self.group().master_epoch
        stopping = self.service(self.first).stopService()
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 0.5)
        self.assertFalse(stopping.called, "it was still there to pass requests on")
        self.await_(stopping)
        self.first.exited("stopped")
        self.assertEqual(self.group().master_epoch, epoch + 1)
        self.assertEqual(self.acknowledged(self.master(), 50), 50)
        self.restart(self.first)
        self.lost()

    def test_its_disk_fails(self) -> None:
        """It takes no messages any more, so another one does, with all that was acknowledged (regression D10)."""
        self.first.disk.fail_at(1, times=10**9, only=["write", "sync"])
        self.assertNotEqual(self.send(self.first), 0)
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 3.0)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.first.disk.heal()
        self.first.kill()
        self.restart(self.first)
        self.lost()

    def make_unfit(self, *hosts: Host) -> None:
        """By a health check of a plug-in."""

        class Check:
            name, hands_over = "power", True

        for host in hosts:
            health = self.service(host).broker.plugins.health
            health._checks.append(("acme", Check()))
            health._problems["power"] = "no power"

    def test_it_is_unfit(self) -> None:
        """Another one is master, with all that was acknowledged; this one is in the set again, and passes sends on."""
        epoch = self.group().master_epoch
        self.make_unfit(self.first)
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 1.5)
        self.whole()
        self.run_for(10.0)
        self.assertEqual(self.group().master_epoch, epoch + 1)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.lost()

    def test_all_are_unfit(self) -> None:
        """The role goes on once, and stays: one that was elected although it was unfit leads."""
        epoch = self.group().master_epoch
        self.make_unfit(*self.brokers)
        self.run_for(30.0)
        self.assertEqual(self.group().master_epoch, epoch + 1)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.lost()

    def test_everything_restarts(self) -> None:
        """All processes die at once; ids, messages and the set come back."""
        end = self.log(self.first).end
        for host in (*self.brokers, *self.controllers):
            host.kill()
        for host in (*self.controllers, *self.brokers):
            host.start()
        self.whole(60.0)
        self.assertEqual([self.number(host) for host in self.brokers], [1, 2, 3])
        self.assertGreaterEqual(self.log(self.master()).end, end)
        self.lost()

    def test_the_leading_controller_dies(self) -> None:
        """Nothing changes for the brokers: the lease outlives an election of the controllers."""
        leader = self.leader()
        assert leader is not None
        leader.kill()
        for _ in range(30):
            self.assertTrue(self.acknowledges(self.first))
            self.run_for(0.1)
        leader.start()
        self.run_for(3.0)
        self.assertTrue(self.acknowledges(self.first))
        self.assertEqual(self.acknowledged(self.first, 10), 10)

    def test_all_controllers_die(self) -> None:
        """The lease runs out and nothing is acknowledged; they come back and the same one goes on, in its epoch."""
        epoch = self.service(self.first).broker.replication.epoch
        for host in self.controllers:
            host.kill()
        self.until("it stops", lambda: not self.acknowledges(self.first), 4.0)
        self.assertNotEqual(self.send(self.first), 0)
        self.run_for(5.0)
        for host in self.controllers:
            host.start()
        self.assertIs(self.master(), self.first)
        self.assertEqual(self.service(self.first).broker.replication.epoch, epoch)
        self.assertEqual(self.acknowledged(self.first, 10), 10)
        self.lost()


class IdentityTests(ControlledCase):
    """A process that dies in each step of getting its id."""

    controllers_count = 1

    def test_death_at_every_operation_of_the_disk(self) -> None:
        """Killed or without power: each broker has one id in the end, no two the same, and none is wasted by a kill."""
        first = self.add_broker()
        self.master()
        taken = {self.number(first)}
        for operation in range(1, 16):
            host = self.add_broker()
            self.until("it is about to ask", lambda: self.mode(host).life is not None)  # noqa: B023
            host.disk.die_at = operation
            self.until("it dies", lambda: not host.alive or self.number(host), 5.0)  # noqa: B023
            died = not host.alive
            if not died:
                self.assertGreater(operation, 8, "an id takes more operations of the disk than that")
                host.disk.die_at = 0
                host.kill()
            if operation % 2:
                host.power_off()
            host.start()
            self.until("it has an id", lambda: self.role(host) is Role.SLAVE, 10.0)  # noqa: B023
            number = self.number(host)
            self.assertNotIn(number, taken)
            taken.add(number)
            self.assertEqual(host.disk.read_all("/store/brokerIdentity", 100), f"{CLUSTER}#{NAME}#{number}".encode())
            self.assertFalse(host.disk.exists("/store/brokerIdentity-temp"))
            host.kill()
        members = set(self.group().members)
        self.assertLessEqual(taken, members)
        self.assertLessEqual(len(members - taken), 8, "only a power cut may waste an id")

    def test_another_brokers_disk(self) -> None:
        """Does not start, and says why."""
        host = self.add_broker()
        self.master()
        self.stop(host)
        atomic_file.save(host.disk, "/store/brokerIdentity", b"DefaultCluster#somebody#1", backup=False)
        host.start()
        self.until("it ends", lambda: not host.alive)


class PartitionTests(ControlledCase):
    """The network between brokers and controllers fails."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.start_group()
        self.others = [host for host in self.brokers if host is not self.first]

    def cut(self, source: Host, target: Host) -> None:
        """Nothing passes that way."""
        self.world.network.link(source.address, target.address).blocks.add("test")

    def heal(self) -> None:
        self.world.network.heal("test")

    def test_cut_from_the_leading_controller(self) -> None:
        """Others hear it: no switch (regression B3); it goes on while its lease lasts, and after the heal."""
        leader = self.leader()
        assert leader is not None
        self.cut(self.first, leader)
        self.cut(leader, self.first)
        self.run_for(6.0)
        self.heal()
        self.assertIs(self.master(), self.first)
        self.assertEqual(self.service(self.first).broker.replication.epoch, 1)

    def test_cut_from_everybody(self) -> None:
        """Another one leads; the old one acknowledges nothing, and follows after the heal (regression A5)."""
        for host in (*self.controllers, *self.others):
            self.cut(self.first, host)
            self.cut(host, self.first)
        self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertNotEqual(self.send(self.first), 0)
        self.until("the lease is over", lambda: not self.acknowledges(self.first), 4.0)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.heal()
        self.whole()
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)

    def test_controllers_do_not_hear_it(self) -> None:
        """One way only.  It is replaced, perhaps before its lease is over; whatever either of them acknowledges is
        kept, since that takes the whole set (regression A5).
        """
        for host in self.controllers:
            self.cut(self.first, host)
        acknowledged: list[bytes] = []

        def send(host: Host, body: bytes) -> None:
            def answered(answer: Command) -> None:
                if answer.code == ResponseCode.SUCCESS:
                    acknowledged.append(body)

            self.sending(host, body).addCallbacks(answered, lambda failure: None)

        for number in range(300):
            for host in self.masters():
                send(host, b"<%s %d>" % (host.name.encode(), number))
            self.run_for(0.02)
        self.assertIn(self.master(), self.others)
        self.heal()
        self.whole()
        self.until("all have all", lambda: self.level(*self.brokers))
        log = self.log(self.master())
        stored = self.bytes_of(log, log.begin)
        self.assertGreater(len(acknowledged), 100)
        self.assertEqual([body for body in acknowledged if body not in stored], [])

    def test_connections_are_reset(self) -> None:
        """Between the master and the controllers: no switch (regression A24)."""
        for _ in range(10):
            for host in self.controllers:
                for stream in self.world.network.between(self.first.address, host.address):
                    stream.reset()
            self.run_for(0.7)
            self.assertTrue(self.acknowledges(self.first))
        self.assertEqual(self.service(self.first).broker.replication.epoch, 1)


class OperatorTests(ControlledCase):
    """What operators do to a group."""

    def elect(self, host: Host) -> int:
        """``mqadmin electMaster``: the answer's code."""
        leader = self.leader()
        assert leader is not None and self.client_host.process is not None
        call = controller_calls.elect_master(CLUSTER, NAME, self.number(host), 0, designate=True)
        client = self.client_host.process.service
        answer = self.await_(client.request(f"{leader.address}:9878", call.code, call.fields, call.body))
        return int(answer.code)

    def test_elect_master_under_load(self) -> None:
        """Another master at once, nothing lost, nothing refused for good."""
        first = self.start_group()
        target = next(host for host in self.brokers if host is not first)
        answers: list[int] = []
        for number in range(200):
            sending = self.sending(first if number < 100 else target, b"%d" % number)
            sending.addCallbacks(lambda answer: answers.append(answer.code), lambda failure: answers.append(-1))
            if number == 100:
                self.assertEqual(self.elect(target), 0)
                took = self.until("the designated master", lambda: self.masters() == [target])
                self.assertLess(took, 1.0)
            self.run_for(0.001)
        self.until("all answers", lambda: len(answers) == 200)
        self.assertGreaterEqual(answers.count(0), 195)
        self.whole()
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)

    def test_a_learner(self) -> None:
        """Copies everything, never joins, is never master."""
        first = self.start_group()
        learner = self.add_broker("asyncLearner=true")
        self.until("it follows", lambda: self.role(learner) is Role.SLAVE)
        self.assertEqual(self.acknowledged(first, 50), 50)
        self.until("it has all", lambda: self.level(first, learner))
        self.run_for(8.0)
        self.assertEqual(self.members(), (1, 2, 3))
        for host in self.brokers[:3]:
            host.kill()
        self.run_for(8.0)
        self.assertIs(self.role(learner), Role.SLAVE)

    def test_a_single_broker(self) -> None:
        """Is a group; stopped and started again it leads in a new epoch, or the same, and has everything."""
        host = self.add_broker()
        self.assertIs(self.master(), host)
        self.assertEqual(self.acknowledged(host, 20), 20)
        for stop in (self.stop, Host.kill, Host.power_off):
            end = self.log(host).end
            stop(host)
            self.run_for(0.5)
            self.restart(host)
            self.assertIs(self.master(), host)
            if stop is not Host.power_off:
                self.assertEqual(self.log(host).end, end)
            self.sending(host).addErrback(lambda _: None)  # finds that its connection is dead
            self.run_for(1.0)
            self.assertEqual(self.acknowledged(host, 20), 20)

    def test_the_first_to_come_back(self) -> None:
        """Of a group that was killed whole is not master, unless it was in sync: the last set decides (S0.11)."""
        first = self.start_group()
        behind = next(host for host in self.brokers if host is not first)
        behind.kill()
        self.until("it has left the set", lambda: len(self.members()) == 2)
        self.assertEqual(self.acknowledged(first, 20), 20)
        for host in self.brokers:
            host.kill()
        self.run_for(1.0)
        self.restart(behind)
        self.run_for(6.0)
        self.assertFalse(self.acknowledges(behind))
        self.restart(first)
        self.assertIs(self.master(), first)
        self.until("the one that was behind has all", lambda: self.level(first, behind))


def forged(epoch: int) -> tuple[dict[str, str], bytes]:
    """A notice of another master, of this epoch: header fields and body."""
    fields = {
        "masterBrokerId": "2",
        "masterAddress": "10.9.9.9:1",
        "masterEpoch": str(epoch),
        "syncStateSetEpoch": "9",
    }
    return fields, b'{"syncStateSet":[2],"syncStateSetEpoch":9}'


class RegistrationTests(ControlledCase):
    """What the nameservers are told of a switch; of two masters they believe the one with the newer epoch."""

    def setUp(self) -> None:
        super().setUp()
        names = self.nameserver()
        self.keys = f"namesrvAddr={names.address}:{NAMESERVER_PORT}"
        assert names.process is not None
        self.table = names.process.service.server.table
        self.told: list[tuple[str, int]] = []
        register = self.table.register

        def registered(request: Any, now_ms: int) -> Any:
            if request.broker_id == MASTER_ID:
                self.told.append((request.address, request.body.version.state_version))
            return register(request, now_ms)

        self.table.register = registered
        self.first = self.start_group()

    def hears(self, master: Host, epoch: int) -> None:
        """The nameserver is told of this master under its epoch, at once, and of nobody under another one."""
        self.until(
            "it leads",
            lambda: self.service(master).broker.watch.leads and self.service(master).broker.watch.epoch == epoch,
        )
        self.run_for(0.1)
        self.assertEqual(set(self.told), {(f"{master.address}:10911", epoch)})

    def test_the_first_master(self) -> None:
        """Alone under the controllers; that others join its SyncStateSet is nothing to a nameserver."""
        self.hears(self.first, 1)
        self.assertEqual(len(self.told), 1)

    def test_a_new_master(self) -> None:
        """Not with the version of the tables that it took from the master before."""
        self.run_for(1)
        self.told.clear()
        self.first.kill()
        self.hears(self.master(), 2)

    def test_a_master_that_is_elected_again(self) -> None:
        """It was master all the time."""
        self.run_for(1)
        self.told.clear()
        replication = self.service(self.first).broker.replication
        order = Lead(1000, 2, replication.members, replication.set_epoch + 1, again=True)
        self.mode(self.first)._order(order)
        self.hears(self.first, 2)

    def test_a_master_that_was_fenced(self) -> None:
        """No controller answered for a while; it leads in its epoch again, and says so."""
        self.run_for(1)
        for host in self.controllers:
            host.freeze(whole=False)
        self.asking(self.first, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, *forged(50)).addErrback(lambda _: None)
        self.until("it is fenced", lambda: self.role(self.first) is Role.FENCED)
        self.told.clear()
        for host in self.controllers:
            host.thaw()
        self.hears(self.first, 1)


class ForgedNoticeTests(ControlledCase):
    """Whoever reaches the port of a master says that there is another one."""

    def forge(self, master: Host, epoch: int) -> defer.Deferred[Command]:
        return self.asking(master, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, *forged(epoch))

    def flood(self, a_second: int) -> None:
        """A second of it: each send is acknowledged and each read answered as ever, at a question each 10 ms."""
        master = self.start_group()
        client, ask = self.mode(master)._client, self.mode(master)._client.ask
        asked: list[int] = []

        def counted(call: controller_calls.Call, timeout_s: float) -> defer.Deferred[Reply]:
            asked.append(call.code)
            return ask(call, timeout_s)

        client.ask = counted  # type: ignore[method-assign]
        took: list[float] = []
        codes: list[int] = []

        def answered(answer: Command, began: float) -> None:
            took.append(self.world.now - began)
            codes.append(answer.code)

        for number in range(100):
            for each in range(a_second // 100):
                self.forge(master, 50 + number * 100 + each)
            self.sending(master).addCallback(answered, self.world.now)
            reading = self.asking(master, RequestCode.PULL_MESSAGE, pull_fields(offset=0))
            reading.addCallback(answered, self.world.now)
            self.run_for(0.01)
            self.assertEqual(self.role(master), Role.MASTER)
        self.until("all are answered", lambda: len(codes) == 200)
        self.assertEqual(set(codes) - {ResponseCode.PULL_NOT_FOUND}, {ResponseCode.SUCCESS})
        self.assertLess(max(took), 0.1)
        self.assertLess(sorted(took)[-3], 0.005, "only those that came with the first notice wait")
        self.assertTrue(50 <= asked.count(RequestCode.CONTROLLER_GET_REPLICA_INFO) <= 110, len(asked))

    def test_a_hundred_in_a_second(self) -> None:
        """Now and then, as a script would."""
        self.flood(100)

    def test_two_thousand_in_a_second(self) -> None:
        """There is always one that the controllers were not asked about."""
        self.flood(2000)

    def test_while_the_controllers_do_not_answer(self) -> None:
        """Nothing is acknowledged, read or changed, and nothing refused; all of it when they do, but the notice."""
        master = self.start_group()
        self.assertEqual(self.send(master), ResponseCode.SUCCESS)
        for host in self.controllers:
            host.freeze(whole=False)
        notice = self.forge(master, 50)
        self.run_for(0.05)
        topic = {
            "topic": "New",
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
        }
        waiting = [
            self.sending(master),
            self.asking(master, RequestCode.PULL_MESSAGE, pull_fields(offset=0)),
            self.asking(master, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}),
            self.asking(master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic),
        ]
        codes: list[int] = []
        for each in (*waiting, notice):
            each.addCallback(lambda answer: codes.append(answer.code))
        self.run_for(0.3)
        self.assertEqual((codes, self.role(master)), ([], Role.MASTER))
        for host in self.controllers:
            host.thaw()
        self.until("all are answered", lambda: len(codes) == 5)
        self.assertEqual(sorted(codes), [*[ResponseCode.SUCCESS] * 4, ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH])

    def test_a_held_pull_whose_time_is_up_meanwhile(self) -> None:
        """It is answered when the master knows."""
        master = self.start_group()
        self.assertEqual(self.send(master), ResponseCode.SUCCESS)
        fields = pull_fields(offset=1, sysFlag="6", suspendTimeoutMillis="1000")
        codes: list[int] = []
        pull = self.asking(master, RequestCode.PULL_MESSAGE, fields)
        pull.addCallback(lambda answer: codes.append(answer.code))
        self.run_for(0.9)
        for host in self.controllers:
            host.freeze(whole=False)
        self.forge(master, 50)
        self.run_for(0.3)
        self.assertEqual(codes, [])
        for host in self.controllers:
            host.thaw()
        self.until("it is answered", lambda: codes)
        self.assertEqual(codes, [ResponseCode.PULL_NOT_FOUND])


class EmptiedControllersTests(ControlledCase):
    """All controllers lose their disks; the brokers keep theirs (``adoptUnknownBrokers``)."""

    controller_keys = "adoptUnknownBrokers=true\nremoteAdminEnable=true"

    def test_twice(self) -> None:
        """An operator elects, each time; everybody comes in sync, and nothing that was acknowledged is lost."""
        master = self.start_group()
        for _ in range(2):
            self.whole()
            self.assertEqual(self.acknowledged(master, 20), 20)
            self.until("all have all", lambda: self.level(*self.brokers))
            for host in self.controllers:
                host.kill()
            for host in self.controllers:
                host.disk = SimulatedDisk(host.random)
                host.disk.died = host.kill
                host.start()
            self.until("a leader", lambda: self.leader() is not None)
            self.until("all are adopted", lambda: self.group() is not None and len(self.group().members) == 3)
            self.run_for(2.0)
            leader = self.leader()
            assert leader is not None
            fields = {
                "clusterName": CLUSTER,
                "brokerName": NAME,
                "brokerId": str(self.number(master)),
                "designateElect": "true",
            }
            answer = self.await_(self.asking(leader, RequestCode.CONTROLLER_ELECT_MASTER, fields, port=CONTROLLER_PORT))
            self.assertEqual(answer.code, 0, answer.remark)
            master = self.master()
        self.whole()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)


class IdFloodTests(ControlledCase):
    """A stranger applies for id after id."""

    brokers_count = 1

    def test_a_set_is_not_filled(self) -> None:
        """He gets 16 at once; then he is told to come later, and a broker still joins."""
        self.start_group()
        leader = self.leader()
        assert leader is not None
        answers = []
        for number in range(2, 42):
            fields = {
                "clusterName": CLUSTER,
                "brokerName": NAME,
                "appliedBrokerId": str(number),
                "registerCheckCode": f"10.6.6.6:1;{number}",
            }
            asked = self.asking(leader, RequestCode.CONTROLLER_APPLY_BROKER_ID, fields, port=CONTROLLER_PORT)
            answers.append(self.await_(asked))
        self.assertEqual([answer.code for answer in answers], [0] * 16 + [1] * 24)
        self.assertIn("too many ids", answers[-1].remark or "")
        joined = self.add_broker()
        self.until("it has an id", lambda: self.number(joined) == 18)


if __name__ == "__main__":
    unittest.main()
