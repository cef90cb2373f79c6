"""Replication under orders: a test in the place of the controllers says who leads whom, brokers are real."""

from __future__ import annotations

import copy
from typing import Any

import attrs
from twisted.internet import defer

from rocketha.broker.role import Role
from rocketha.broker.role_assignment import RoleAssignment
from rocketha.broker.role_effects import Lead
from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.replication.autoswitch_master import MasterState
from rocketha.replication.epochs import NO_EPOCH, ElectionNeeded
from rocketha.replication.link import Cause
from rocketha.replication.sync_state import SetChange
from rocketha.services.broker.role import RoleContext, RoleSource
from rocketha.services.replication.autoswitch import AutoSwitchReplication
from rocketha.simulation.host import Host
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.controller_calls import MasterInfo, SyncSet
from rocketha.wire.ha_status import decode_epochs, decode_ha_status
from tests.services.broker_case import pull_fields, records
from tests.services.events_case import events_of
from tests.services.replication_case import ReplicationCase

SETTINGS = "enableControllerMode=true\ncontrollerAddr=10.9.9.9:9878\nmasterLease=1000\nforwardSends=false\n"
UNAVAILABLE = ResponseCode.SERVICE_NOT_AVAILABLE


class Orders(RoleSource):
    """In the place of controller mode: notes what it is told, does nothing by itself."""

    hands_over = True

    def __init__(self, context: RoleContext) -> None:
        self.asked: list[SetChange] = []
        self.strangers: list[int] = []
        self.troubles: list[str] = []
        assert isinstance(context.replication, AutoSwitchReplication)
        self.replication = context.replication
        self.replication.report_to(self)

    def wants_set(self, change: SetChange) -> None:
        self.asked.append(change)

    def stranger(self, replica: int) -> None:
        self.strangers.append(replica)

    def link_trouble(self, cause: Cause, reason: str) -> None:
        self.troubles.append(cause.name)

    def leave(self) -> defer.Deferred[None]:
        return self.replication.fence("stop")


class Case(ReplicationCase):
    """Brokers 1, 2, ... and the test as their controllers."""

    def setUp(self) -> None:
        super().setUp()
        self.brokers: dict[int, Host] = {}
        self.epoch = self.set_epoch = 0
        self.members: tuple[int, ...] = ()
        self.leader = 0
        self.granting = True
        self.confirming = True

    def replica(self, number: int, settings: str = "") -> Host:
        host = self.broker(f"b{number}", SETTINGS + settings, role_source=Orders)
        self.brokers[number] = host
        return host

    def replication(self, number: int) -> Any:
        found = self.service(self.brokers[number]).broker.replication
        found.own_id = number
        return found

    def orders(self, number: int) -> Orders:
        source = self.service(self.brokers[number]).broker.role_source
        assert isinstance(source, Orders)
        return source

    def now_ms(self, number: int) -> int:
        return int(self.service(self.brokers[number]).broker.core.platform.reactor.seconds() * 1000)

    def elect(self, number: int, members: tuple[int, ...] | None = None, epoch: int | None = None) -> None:
        """Let it lead a new epoch, and all others that are up follow it."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self.set_epoch += 1
        self.leader, self.members = number, members or (number,)
        self.await_(self.lead(number))
        self.all_follow()

    def lead(self, number: int) -> defer.Deferred[None]:
        result: defer.Deferred[None] = self.replication(number).lead(
            self.epoch, self.members, self.set_epoch, tuple(self.brokers), self.now_ms(number)
        )
        return result

    def all_follow(self) -> None:
        for other, host in self.brokers.items():
            if other != self.leader and host.alive:
                self.await_(self.follow(other))

    def follow(self, number: int) -> defer.Deferred[None]:
        master = self.brokers[self.leader]
        result: defer.Deferred[None] = self.replication(number).follow(
            self.leader, f"{master.address}:10912", self.epoch, f"{master.address}:10911"
        )
        return result

    def run_for(self, seconds: float) -> None:
        """The controllers confirm the lease and grant sets, while the world goes on."""
        left = seconds
        while left > 0:
            step = min(left, 0.05)
            super().run_for(step)
            left -= step
            host = self.brokers.get(self.leader) if hasattr(self, "brokers") else None
            if host is None or not host.alive or host.frozen or host.process is None or host.process.service is None:
                continue
            if not self.service(host).serving:
                continue
            if self.confirming:
                self.replication(self.leader).lease_confirmed(self.epoch, self.now_ms(self.leader))
            asked = self.orders(self.leader).asked
            while self.granting and asked:
                change = asked.pop(0)
                if change.epoch == self.epoch and change.set_epoch == self.set_epoch:
                    self.set_epoch += 1
                    self.members = change.members
                    self.replication(self.leader).set_known(self.members, self.set_epoch)
                else:
                    self.replication(self.leader).set_known(self.members, self.set_epoch)
                    self.replication(self.leader).unanswered(change.number)

    def full(self, *numbers: int) -> None:
        """Wait until these are the SyncStateSet."""
        self.until(f"the set is {numbers}", lambda: set(self.members) == set(numbers), 30.0)

    def all_level(self) -> None:
        up = [host for host in self.brokers.values() if host.alive]
        self.until("all are level", lambda: self.level(*up) and self.confirmed(*up), 20.0)
        self.same_logs(*up)

    def burst(self, number: int, count: int, size: int = 300) -> list[defer.Deferred[Any]]:
        """Messages under way to a broker that may die; None for those that got no answer."""
        host = self.brokers[number]
        return [self.sending(host, bytes(size)).addErrback(lambda _: None) for _ in range(count)]

    def confirmed(self, *hosts: Host) -> bool:
        return all(self.log(host).store.confirm_offset == self.log(host).end for host in hosts)


class OrderTests(Case):
    """One broker at a time, and what it serves."""

    def test_fenced_at_the_start(self) -> None:
        """A broker that was not told its role stores nothing and shows nothing (A9)."""
        one = self.replica(1)
        self.assertIs(self.replication(1).role, Role.FENCED)
        self.assertEqual(self.send(one), UNAVAILABLE)
        self.assertEqual(self.pull(one).code, ResponseCode.SYSTEM_BUSY)
        self.assertIn("role is not known", self.service(one).ready() or "")
        self.elect(1)
        self.assertEqual(self.send(one), 0)
        self.assertEqual(self.pull(one).code, 0)
        self.stop(one)
        self.restart(one)
        self.assertEqual(self.pull(one).code, ResponseCode.SYSTEM_BUSY)

    def test_without_a_lease(self) -> None:
        """After the lease nothing is taken and nothing shown, until it is confirmed again (A5)."""
        one = self.replica(1)
        self.elect(1)
        self.assertEqual(self.send(one), 0)
        self.confirming = False
        self.run_for(1.1)
        self.assertEqual(self.send(one), UNAVAILABLE)
        self.assertEqual(self.pull(one).code, ResponseCode.SYSTEM_BUSY)
        self.assertIn("have not said", self.service(one).broker.replication.ready() or "")
        self.confirming = True
        self.run_for(0.1)
        self.assertEqual(self.send(one), 0)
        self.assertEqual(len(records(self.pull(one))), 2)

    def test_a_lease_that_is_not_confirmed_yet(self) -> None:
        """lead(asked_ms=None): master, and nothing is acknowledged before the controllers say so again (A23)."""
        one = self.replica(1)
        self.confirming = False
        self.epoch, self.set_epoch, self.leader, self.members = 1, 1, 1, (1,)
        self.await_(self.replication(1).lead(1, (1,), 1, (1,), None))
        self.assertIs(self.replication(1).role, Role.MASTER)
        self.assertEqual(self.send(one), UNAVAILABLE)
        self.replication(1).lease_confirmed(1, self.now_ms(1))
        self.assertEqual(self.send(one), 0)

    def test_a_message_that_waits_when_the_lease_ends(self) -> None:
        """Its replica has it, and nobody says so before the lease holds again."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)
        two.freeze(whole=True)
        self.confirming = self.granting = False
        self.run_for(0.8)
        waiting = self.sending(one)
        self.run_for(0.5)
        two.thaw()
        self.until("the replica has it", lambda: self.log(two).end == self.log(one).end)
        self.run_for(0.3)
        self.assertFalse(self.answered(waiting))
        confirmed = self.replication(1).confirm_offset
        self.assertLess(confirmed, self.log(one).end)
        self.confirming = True
        self.assertEqual(self.await_(waiting).code, 0)

    def test_fence_under_load(self) -> None:
        """At once: who waits is told, nothing more is stored, links are gone (A9)."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        two.freeze(whole=True)
        waiting = [self.sending(one, bytes(1000)) for _ in range(50)]
        self.until("they are stored", lambda: self.log(one).end > 50_000)
        end = self.log(one).end
        fenced = self.replication(1).fence("the test says so")
        self.assertIs(self.replication(1).role, Role.FENCED)
        self.assertEqual(len(self.replication(1).links.factory.connections), 0)
        self.assertFalse(self.log(one).store.leads)
        self.await_(fenced)
        codes = [self.await_(each, 0.5).code for each in waiting]
        stored = sum(self.service(one).broker.store.queues.get("T", queue).next_offset for queue in range(1))
        self.assertEqual(codes.count(ResponseCode.FLUSH_SLAVE_TIMEOUT), stored)
        self.assertEqual(codes.count(UNAVAILABLE), 50 - stored)
        self.assertEqual(self.send(one), UNAVAILABLE)
        self.assertEqual(self.log(one).end, end)

    def test_fence_within_a_turn(self) -> None:
        """What was staged in the turn in which the order came is refused, not stored."""
        one = self.replica(1)
        self.elect(1)
        core = self.service(one).broker.core
        original, fenced = core.turns.ended, []

        def ended() -> None:
            if core.parts.sends.staged and not fenced:
                fenced.append(self.replication(1).fence("in the middle"))
            original()

        core.turns.ended = ended  # type: ignore[method-assign]
        end = self.log(one).end
        self.assertEqual(self.send(one), UNAVAILABLE)
        self.assertTrue(fenced)
        self.assertEqual(self.log(one).end, end)

    def test_the_same_epoch_again(self) -> None:
        """After a fence, and after a clean stop, the epoch is resumed; after a crash it may not be."""
        one = self.replica(1)
        self.elect(1)
        self.send(one)
        self.await_(self.replication(1).fence("a notice that was wrong"))
        self.await_(self.lead(1))
        self.assertEqual(self.send(one), 0)
        self.stop(one)
        self.restart(one)
        self.await_(self.lead(1))
        self.assertEqual(self.send(one), 0)
        self.assertEqual(len(self.log(one).epochs), 1)
        one.kill()
        self.restart(one)
        with self.assertRaises(ElectionNeeded):
            self.await_(self.lead(1))
        self.assertIs(self.replication(1).role, Role.FENCED)
        self.assertEqual(self.send(one), UNAVAILABLE)
        self.elect(1)
        self.assertEqual(self.send(one), 0)
        self.await_(self.replication(1).fence("a notice that was wrong"))
        self.await_(self.lead(1))
        self.assertEqual(self.send(one), 0)

    def test_an_old_epoch(self) -> None:
        """A log that knows a newer epoch is nobody's master of an older one."""
        self.replica(1)
        self.elect(1, epoch=5)
        self.await_(self.replication(1).fence("next"))
        self.epoch = 4
        with self.assertRaises(RemoteProtocolError):
            self.await_(self.lead(1))
        self.assertIs(self.replication(1).role, Role.FENCED)
        self.assertFalse(self.log(self.brokers[1]).store.leads)

    def test_elected_again_without_a_pause(self) -> None:
        """The same master, new epochs, under load: connections and queue offsets go on (A10, C3)."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        connection = self.replication(2).following.connection
        waiting = []
        for _ in range(10):
            waiting += [self.sending(one, bytes(300)) for _ in range(10)]
            self.run_for(0.05)
            self.epoch += 1
            self.set_epoch += 1
            self.await_(self.replication(1).reelected(self.epoch, self.members, self.set_epoch, self.now_ms(1)))
        self.assertEqual({self.await_(each).code for each in waiting}, {0})
        self.assertIs(self.replication(2).following.connection, connection)
        self.assertEqual(self.send(one), 0)
        self.all_level()
        self.assertEqual(self.log(one).epochs, self.log(two).epochs)
        self.assertEqual(self.service(one).broker.store.max_offset("T", 0), 101)

    def test_h3_an_epoch_on_a_slow_disk(self) -> None:
        """The slave has to write down the new epoch before its first byte, which takes seconds: it answers whoever asks
        meanwhile, acknowledges nothing of that epoch, and its link goes on."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)
        self.all_level()
        connection, behind = self.replication(2).following.connection, self.log(two).end
        two.disk.slow = 4000.0
        self.epoch += 1
        self.set_epoch += 1
        self.await_(self.replication(1).reelected(self.epoch, self.members, self.set_epoch, self.now_ms(1)))
        sent, began = self.sending(one), self.world.now
        while self.log(two).end == behind:
            asked = self.world.now
            self.ask(two, RequestCode.GET_BROKER_RUNTIME_INFO)
            self.assertLess(self.world.now - asked, 0.1)
            self.assertLessEqual(self.log(one).store.confirm_offset, self.log(two).end)
        self.assertGreater(self.world.now - began, 1.0, "nothing was written slowly: this shows nothing")
        self.assertEqual(self.log(two).epochs[-1], (self.epoch, behind))
        two.disk.slow = 1.0
        self.await_(sent)
        self.all_level()
        self.assertIs(self.replication(2).following.connection, connection)

    def test_elected_again_while_a_slave_aligns(self) -> None:
        """It was told the epochs before, and reports after: its acknowledgements count, and it becomes a member."""
        one = self.replica(1)
        self.elect(1)
        self.assertEqual(self.send(one), 0)
        two = self.replica(2)
        self.replication(1).registered((1, 2))
        self.await_(self.follow(2))
        links = self.replication(1).links.factory.connections

        def aligns() -> bool:
            return any(each.machine.state is MasterState.ANSWERED for each in links.values())

        for _ in range(20_000):
            if aligns():
                break
            self.world.run(0.0001)
        self.assertTrue(aligns())
        self.epoch += 1
        self.set_epoch += 1
        self.await_(self.replication(1).reelected(self.epoch, self.members, self.set_epoch, self.now_ms(1)))
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)
        self.all_level()
        self.assertTrue(self.confirmed(one, two))

    def test_elections_without_messages(self) -> None:
        """Epochs without a byte are not kept, lists are equal (C2)."""
        one, two = self.replica(1), self.replica(2)
        for round_ in range(6):
            self.elect(1 + round_ % 2, (1, 2) if round_ else None)
            self.full(1, 2)
        self.assertEqual(self.send(self.brokers[self.leader]), 0)
        self.all_level()
        self.assertEqual(self.log(one).epochs, self.log(two).epochs)
        self.assertEqual(len(self.log(one).epochs), 1)

    def test_an_order_takes_the_place_of_another(self) -> None:
        """lead, follow and fence right after each other: the last one counts, the others say so."""
        one, two = self.replica(1), self.replica(2)
        self.elect(2)
        self.send(two)
        self.full(1, 2)
        one.disk.slow = 100.0
        results: list[str] = []
        replication = self.replication(1)
        master = f"{two.address}:10912"

        def note(name: str, deferred: defer.Deferred[Any]) -> None:
            deferred.addCallbacks(
                lambda _: results.append(name), lambda failure: results.append(f"{name} {failure.type.__name__}")
            )

        note("lead", replication.lead(7, (1,), 9, (1, 2), self.now_ms(1)))
        note("fence", replication.fence("no"))
        note("lead", replication.lead(8, (1,), 10, (1, 2), self.now_ms(1)))
        note("follow", replication.follow(2, master, 9))
        self.until("all are through", lambda: len(results) == 4)
        self.assertEqual(sorted(results), ["fence", "follow", "lead CancelledError", "lead CancelledError"])
        self.assertIs(replication.role, Role.SLAVE)
        self.assertFalse(self.log(one).store.leads)

    def test_retire(self) -> None:
        """No new message, all else goes on; it fires when everybody has everything."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        two.freeze(whole=True)
        waiting = self.sending(one)
        self.until("stored", lambda: self.log(one).end > self.log(two).end)
        done = self.replication(1).retire("to be replaced")
        self.run_for(0.2)
        self.assertFalse(done.called)
        self.assertEqual(self.send(one), UNAVAILABLE)
        two.thaw()
        self.await_(done)
        self.assertEqual(self.await_(waiting).code, 0)
        self.assertEqual(self.pull(one).code, 0)

    def test_retire_for_another_one(self) -> None:
        """What was sent is still acknowledged; reads wait, and are told by one that is master no more."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)
        replication = self.replication(1)
        two.freeze(whole=True)
        waiting = self.sending(one)
        self.until("stored", lambda: self.log(one).end > self.log(two).end)
        replication.suspend(self.now_ms(1))
        pulling = self.asking(one, RequestCode.PULL_MESSAGE, pull_fields())
        two.thaw()
        self.until("copied", lambda: self.log(one).end == self.log(two).end)
        self.run_for(0.1)
        self.assertFalse(self.answered(waiting) or self.answered(pulling))
        self.await_(replication.retire("to be replaced", replaced=True))
        self.assertEqual(self.await_(waiting).code, 0)
        self.assertFalse(self.answered(pulling))
        replication.follow(2, f"{two.address}:10912", 9)
        self.assertNotEqual(self.await_(pulling).code, 0)


class SetTests(Case):
    """Members, acknowledgements, what consumers see."""

    def test_all_of_the_set(self) -> None:
        """A message is acknowledged when every member has it, and seen by consumers then, not before (A7)."""
        one, two, three = self.replica(1), self.replica(2), self.replica(3)
        self.elect(1)
        self.full(1, 2, 3)
        self.assertEqual(self.send(one), 0)
        self.granting = False
        three.freeze(whole=True)
        pulling = self.asking(
            one, RequestCode.PULL_MESSAGE, pull_fields(offset=1, sysFlag="6", suspendTimeoutMillis="15000")
        )
        waiting = self.sending(one)
        self.run_for(1.0)
        self.assertFalse(self.answered(waiting))
        self.assertFalse(self.answered(pulling))
        self.assertEqual(self.pull(one, offset=1).code, ResponseCode.PULL_NOT_FOUND)
        three.thaw()
        self.assertEqual(self.await_(waiting).code, 0)
        self.assertEqual(self.await_(pulling, 0.1).code, 0)
        for host in (one, two, three):
            self.assertEqual(self.log(host).end, self.log(one).end)

    def test_a_member_that_dies(self) -> None:
        """Senders wait until the controller made the set smaller, however long that takes (A21)."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.granting = False
        two.kill()
        waiting = self.sending(one)
        self.run_for(2.0)
        self.assertFalse(self.answered(waiting))
        self.granting = True
        self.assertEqual(self.await_(waiting, 1.0).code, 0)
        self.assertEqual(self.members, (1,))
        self.restart(two)
        self.await_(self.follow(2))
        self.full(1, 2)
        self.all_level()

    def test_too_few_members(self) -> None:
        """minInSyncReplicas: Java's answer, and nothing is stored."""
        one = self.replica(1, "minInSyncReplicas=2")
        self.replica(2, "minInSyncReplicas=2")
        self.brokers[2].kill()
        self.elect(1)
        answer = self.await_(self.sending(one))
        self.assertEqual((answer.code, answer.remark), (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough"))
        self.assertEqual(self.log(one).end, 0)
        self.restart(self.brokers[2])
        self.await_(self.follow(2))
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)

    def test_a_stranger(self) -> None:
        """A replica that the controller did not name is told of, and joins when it is named."""
        one = self.replica(1)
        self.elect(1)
        self.replica(2)
        self.await_(self.follow(2))
        self.run_for(0.5)
        self.assertEqual(self.orders(1).strangers, [2])
        self.assertEqual(self.members, (1,))
        self.assertEqual(self.send(one), 0)
        self.replication(1).registered((1, 2))
        self.full(1, 2)

    def test_a_learner(self) -> None:
        """asyncLearner copies and never counts."""
        one = self.replica(1)
        two = self.replica(2, "asyncLearner=true")
        self.elect(1)
        self.send(one)
        self.until("level", lambda: self.level(one, two))
        self.run_for(1.0)
        self.assertEqual(self.members, (1,))


class SwitchTests(Case):
    """Masters come and go; nothing acknowledged is lost, logs become equal."""

    def test_kill_the_master(self) -> None:
        """The other takes over; the killed one comes back, is cut and follows."""
        self.replica(1)
        self.replica(2)
        self.elect(1)
        self.full(1, 2)
        acknowledged = 0
        for _ in range(6):
            master, other = self.leader, 3 - self.leader
            waiting = self.burst(master, 30, 400)
            self.run_for(0.01)
            self.brokers[master].kill()
            self.run_for(0.05)
            acknowledged += sum(self.answered(each) and _code(each) == 0 for each in waiting)
            self.elect(other, (1, 2))
            self.restart(self.brokers[master])
            self.all_follow()
            self.full(1, 2)
            self.all_level()
            self.assertGreaterEqual(self.service(self.brokers[other]).broker.store.max_offset("T", 0), acknowledged)
        self.assertEqual(self.log(self.brokers[1]).epochs, self.log(self.brokers[2]).epochs)

    def test_an_unconfirmed_tail_is_cut(self) -> None:
        """A master that was cut off has bytes that nobody has: they go, in log and queues, before it follows (A1)."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.send_many(one, 20)
        self.all_level()
        said, end = events_of(self), self.log(two).end
        self.world.partition("cut", [one], [two])
        self.granting = False
        waiting = [self.sending(one, b"lost" * 300) for _ in range(40)]
        self.run_for(0.3)
        cut_bytes = self.log(one).end - end
        self.assertGreater(cut_bytes, 0)
        self.assertFalse(any(map(self.answered, waiting)))
        self.granting = True
        self.elect(2, (1, 2))
        self.world.heal("cut")
        self.assertEqual(self.send(two, b"kept"), 0)
        self.full(1, 2)
        self.all_level()
        self.assertEqual({self.await_(each).code for each in waiting}, {ResponseCode.FLUSH_SLAVE_TIMEOUT})
        bodies = [each.body for each in records(self.pull(two, offset=0))]
        self.assertNotIn(b"lost" * 300, bodies)
        self.assertIn(b"kept", bodies)
        cuts = [(each["end"], each["cut_bytes"]) for each in said if each["event"] == "log.truncated"]
        self.assertEqual(cuts, [(end, cut_bytes)])

    def test_elected_again_after_another_one_led(self) -> None:
        """The first master is cut off.  The second is elected and dies before it confirms that; the third, which was
        about to join, has cut its log for it.  The first leads again and never heard of that: the end of the third's
        connection is lost on the way, and what it acknowledged there is not so any more.
        """
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)
        self.all_level()
        self.granting = False
        three = self.replica(3)
        self.replication(1).registered((1, 2, 3))
        self.await_(self.follow(3))
        self.until("the third joins", lambda: self.service(one).broker.replication.replicas.needed == {2, 3})
        assignment = RoleAssignment(NO_EPOCH)
        assignment.number = 1
        first = self.ordered(assignment)
        self.world.partition("second", [one], [two])
        waiting = self.sending(one)
        self.run_for(0.1)
        self.assertEqual((self.log(three).end, self.answered(waiting)), (self.log(one).end, False))
        self.world.partition("others", [one], [two, three])
        self.epoch, self.set_epoch, self.leader, self.members = 2, self.set_epoch + 1, 2, (2,)
        self.await_(self.lead(2))
        self.await_(self.follow(3))
        self.until("the third's log is cut", lambda: self.log(three).end < self.log(one).end)
        two.kill()
        self.epoch, self.set_epoch, self.leader, self.members = 3, self.set_epoch + 1, 1, (1,)
        self.granting = True
        again = self.ordered(assignment)
        if again.again:
            self.await_(self.replication(1).reelected(3, (1,), self.set_epoch, self.now_ms(1)))
        else:
            self.await_(self.lead(1))
        self.run_for(0.3)
        self.assertEqual((first.again, self.members), (False, (1,)), "who lacks a message is in sync")
        self.world.heal("others")
        self.await_(self.follow(3))
        self.full(1, 3)
        self.assertEqual(self.send(one), 0)
        self.all_level()

    def ordered(self, assignment: RoleAssignment) -> Lead:
        """What the first broker's controller mode orders when it hears who leads now."""
        assignment.take(MasterInfo(1, "h:1", self.epoch, SyncSet(self.members, self.set_epoch)))
        (order,) = assignment.steer()
        assignment.order = None
        assert isinstance(order, Lead)
        return order

    def test_a_master_frozen_within_a_record(self) -> None:
        """All that count have a part of its last message, which is confirmed as far; the next master cuts that off.
        When the first thaws it has the whole of that message, of which nobody was told: it follows, and is no stranger
        for ever for want of what was "confirmed".
        """
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.send_many(one, 4)
        self.all_level()
        begin = self.log(one).end
        link = self.world.network.link(one.address, two.address)
        whole, link.quality = link.quality, attrs.evolve(link.quality, bytes_per_s=50_000.0, split=1.0)
        waiting = self.sending(one, bytes(50_000))
        self.until("a part is confirmed", lambda: self.log(one).store.confirm_offset > begin, 3.0)
        one.freeze(whole=False)
        self.leader = 0
        self.run_for(0.2)
        self.assertTrue(begin < self.log(one).store.confirm_offset <= self.log(two).end < self.log(one).end)
        link.quality = whole
        self.elect(2)
        self.assertEqual(self.log(two).end, begin)
        one.thaw()
        self.run_for(0.5)
        self.all_follow()
        self.full(1, 2)
        self.all_level()
        self.assertNotEqual(self.await_(waiting).code, 0)
        self.assertEqual(self.send(two), 0)

    def test_requests_while_the_log_is_cut(self) -> None:
        """They wait a moment for their answer and see the log before or behind the cut, never within."""
        one, two = self.replica(1, "slaveReadEnable=true"), self.replica(2)  # asked itself, it passes nothing on
        self.elect(1)
        self.full(1, 2)
        self.send_many(one, 20)
        self.all_level()
        self.world.partition("cut", [one], [two])
        self.granting = False
        for _ in range(40):
            self.sending(one, b"lost" * 300)
        self.run_for(0.3)
        self.granting = True
        self.elect(2, (1, 2))
        self.world.heal("cut")
        one.disk.slow = 300.0
        self.until("the cut begins", lambda: self.service(one).broker.core.changes.busy, 5.0)
        asking = [
            self.asking(one, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}),
            self.asking(one, RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": "0"}),  # what no disk is asked for
            self.asking(one, RequestCode.GET_BROKER_HA_STATUS),
        ]
        self.assertFalse(decode_ha_status(self.await_(asking[2], 0.1).body).master)
        self.assertTrue(self.service(one).broker.core.changes.busy)
        self.assertEqual([self.answered(each) for each in asking[:2]], [False, False])
        self.assertEqual([self.await_(each).fields["offset"] for each in asking[:2]], ["5", "0"])
        one.disk.slow = 1.0
        self.all_level()

    def test_a_demoted_broker_serves_no_slave(self) -> None:
        """Nor does a slave stay with a master whose newest epoch is older than the one it was told (A22)."""
        one, two, three = self.replica(1), self.replica(2), self.replica(3)
        self.elect(1)
        self.full(1, 2, 3)
        self.epoch += 1
        self.set_epoch += 1
        old = f"{one.address}:10912"
        self.leader, self.members = 2, (1, 2, 3)
        self.await_(self.lead(2))
        self.await_(self.replication(3).follow(2, old, self.epoch))
        self.run_for(2.0)
        self.assertIn("OLD_EPOCH", self.orders(3).troubles)
        self.assertNotEqual(self.replication(3).following.problem, "")
        self.await_(self.replication(1).fence("demoted"))
        attempts = []
        following = self.replication(3).following
        original = following.open_link
        following.open_link = lambda connection, now_ms: attempts.append(connection) or original(connection, now_ms)
        self.run_for(2.0)
        self.assertTrue(attempts)
        self.assertFalse(any(each.bytes_received for each in attempts))
        self.replication(3).ha_address_known(f"{two.address}:10912")
        self.await_(self.follow(1))
        self.full(1, 2, 3)
        self.assertEqual(self.send(two), 0)
        self.assertEqual(self.log(three).end, self.log(two).end)

    def test_a_master_that_need_not_show_its_epoch(self) -> None:
        """One of Java's that said itself where its HA port is; not after another order, nor at another port."""
        one = self.replica(1)
        self.replica(2)
        self.elect(1)
        self.full(1, 2)
        port, slave = f"{one.address}:10912", self.replication(2)
        self.await_(slave.fence("another role is to come"))
        self.await_(slave.follow(1, "", self.epoch + 1))
        slave.ha_address_known(port, shows_epoch=False)
        self.until("it is followed", lambda: slave.following.transfers, 1.5)
        slave.ha_address_known(port)  # by a nameserver
        self.run_for(0.5)
        self.assertTrue(slave.following.transfers)
        self.await_(slave.fence("another role is to come"))
        self.await_(slave.follow(1, port, self.epoch + 1))
        self.run_for(2.0)
        self.assertIn("newest epoch", slave.following.problem)

    def test_an_old_master_is_tried_less_and_less(self) -> None:
        """Each refusal has its address looked up again, and the same one found: that is no reason to try at once."""
        one = self.replica(1)
        self.replica(2)
        self.elect(1)
        self.full(1, 2)
        old = f"{one.address}:10912"
        self.await_(self.replication(2).fence("another role is to come"))
        self.await_(self.replication(2).follow(1, old, self.epoch + 1))
        following, attempts = self.replication(2).following, []
        original = following.open_link
        following.open_link = lambda connection, now_ms: attempts.append(connection) or original(connection, now_ms)
        for _ in range(100):
            self.replication(2).ha_address_known(old)
            self.run_for(0.05)
        self.assertIn("newest epoch", following.problem)
        self.assertLess(len(attempts), 15)
        # Once it shows the epoch it is followed, within the longest pause.
        self.epoch += 1
        self.set_epoch += 1
        self.await_(self.replication(1).reelected(self.epoch, self.members, self.set_epoch, self.now_ms(1)))
        self.until("it is followed", lambda: following.transfers, 1.5)

    def test_a_power_cut_of_everything(self) -> None:
        """Under SYNC_FLUSH: what was acknowledged is there afterwards, whoever leads (A6)."""
        for number in (1, 2):
            self.replica(number, "flushDiskType=SYNC_FLUSH")
        self.elect(1)
        self.full(1, 2)
        total = 0
        for round_ in range(4):
            waiting = self.burst(self.leader, 40)
            self.run_for(0.004 * (round_ + 1))
            total += sum(self.answered(each) and _code(each) == 0 for each in waiting)
            for host in self.brokers.values():
                host.power_off()
            self.run_for(1.0)
            for host in self.brokers.values():
                self.restart(host)
            best = max(
                self.brokers,
                key=lambda number: (self.replication(number).last_epoch, self.log(self.brokers[number]).end),
            )
            self.elect(best, self.members)
            self.full(1, 2)
            self.all_level()
            self.assertGreaterEqual(self.service(self.brokers[best]).broker.store.max_offset("T", 0), total)

    def test_a_backup_is_put_back_and_elected(self) -> None:
        """A replica that was started again since still knows what was confirmed: it does not cut that for a master
        whose disk is of last week, and goes on with one that has it."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)
        self.all_level()
        self.stop(one)
        backup = copy.deepcopy(one.disk._names), copy.deepcopy(one.disk._durable_names)
        self.restart(one)
        self.elect(1, self.members)
        self.full(1, 2)
        self.assertEqual({self.send(one) for _ in range(5)}, {0})
        self.all_level()
        self.run_for(3.0)
        end = self.log(two).end
        now = one.disk._names, one.disk._durable_names
        for host in (one, two):
            host.kill()
        one.disk._names, one.disk._durable_names = backup
        for host in (two, one):
            self.restart(host)
        self.elect(1)
        self.run_for(3.0)
        self.assertIn("was confirmed: it is not cut", self.replication(2).following.problem)
        self.assertEqual(self.log(two).end, end)
        one.kill()
        one.disk._names, one.disk._durable_names = now
        self.restart(one)
        self.elect(2)
        self.full(1, 2)
        self.all_level()
        self.assertEqual(self.service(one).broker.store.max_offset("T", 0), 6)

    def damaged_member(self) -> tuple[Host, Host, Any]:
        """Master, a member that acknowledged ten messages whose records went bad before queues were made of them, and
        what has its dispatcher find that.
        """
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.assertEqual(self.send(one), 0)
        self.all_level()
        log = self.log(two)
        end, dispatch = log.end, log.dispatch
        log.dispatch = lambda bytes_max=0: False  # far behind
        self.assertEqual({self.send(one) for _ in range(10)}, {0})
        self.run_for(0.2)
        self.assertEqual(log.store.confirm_offset, self.log(one).end)
        log.store.log.segments.file(0).write(end + 88, [b"XX"])

        def found() -> None:
            log.dispatch = dispatch
            self.service(two).broker.replication.following.dispatch()

        return one, two, found

    def refused(self, number: int) -> None:
        """It cannot be elected."""
        self.epoch += 1
        self.set_epoch += 1
        self.leader, self.members = number, (number,)
        self.failureResultOf(self.settled(self.lead(number)), CorruptStore)

    def settled(self, order: defer.Deferred[None]) -> defer.Deferred[None]:
        self.run_for(1.0)
        return order

    def damaged_without_a_master(self) -> tuple[Host, Host, int]:
        """The master, killed; the member, whose damage was found after that, and which was not cut; its end."""
        one, two, found = self.damaged_member()
        end = self.log(two).end
        one.kill()
        self.leader = 0
        self.run_for(0.5)
        found()
        self.run_for(0.5)
        self.assertEqual(self.log(two).end, end)
        return one, two, end

    def test_damage_of_confirmed_records_without_a_master(self) -> None:
        """It is the best copy left, and not cut; it is no master either.  With a master it is copied anew."""
        one, two, end = self.damaged_without_a_master()
        self.refused(2)
        self.assertEqual(self.log(two).end, end)
        one.start()
        self.world.run(1.0)
        self.elect(1)
        self.full(1, 2)
        self.all_level()
        self.elect(2, (1, 2))
        self.assertEqual(self.service(two).broker.store.max_offset("T", 0), 11)

    def restarted(self, one: Host, two: Host, end: int) -> None:
        """The second broker has found damage, was confirmed up to ``end``, and dies; then the master is back."""
        two.kill()
        two.start()
        self.world.run(1.0)
        self.assertLess(self.log(two).end, end, "recovery ends the log before a bad record")
        self.refused(2)
        self.assertIn(f"confirmed up to {end}", self.log(two).lack)
        if one.frozen:
            one.thaw()
        else:
            one.start()
        self.world.run(1.0)
        self.elect(1)
        self.full(1, 2)
        self.all_level()
        self.assertIsNone(self.replication(2).ready())
        self.elect(2, (1, 2))
        self.assertEqual(self.service(two).broker.store.max_offset("T", 0), 11)
        self.assertFalse(two.disk.exists("/store/epochFileCheckpoint.owed"))

    def cut_for_damage(self) -> tuple[Host, Host, int]:
        """The master, standing still; the member, which cut its log for damage; where that ended before."""
        one, two, found = self.damaged_member()
        end = self.log(two).end
        one.freeze(whole=True)
        self.leader = 0
        found()
        self.run_for(0.5)
        self.assertLess(self.log(two).end, end)
        return one, two, end

    def test_a_restart_forgets_no_damage(self) -> None:
        """Nobody elects what recovery leaves of a log whose damage was found."""
        one, two, end = self.damaged_without_a_master()
        self.restarted(one, two, end)

    def test_damage_that_recovery_is_the_first_to_meet(self) -> None:
        """Nobody had read those records: recovery ends the log before them, and says what it had confirmed."""
        one, two, _ = self.damaged_member()
        end = self.log(two).end
        self.run_for(3.0)  # the checkpoint says how far it was confirmed
        self.assertFalse(two.disk.exists("/store/epochFileCheckpoint.owed"))
        one.kill()
        self.restarted(one, two, end)

    def test_a_restart_forgets_no_cut(self) -> None:
        """Nor what is left behind a cut for damage."""
        one, two, end = self.cut_for_damage()
        self.assertIn(f"confirmed up to {end}", self.replication(2).ready() or "")
        self.restarted(one, two, end)

    def test_damage_is_cut_and_the_master_stands_still(self) -> None:
        """Who has cut confirmed records leads nobody until they are here again."""
        one, two, _ = self.cut_for_damage()
        self.refused(2)
        one.thaw()
        self.run_for(0.5)
        self.elect(1)
        self.full(1, 2)
        self.all_level()
        self.assertTrue(two.disk.exists("/store/epochFileCheckpoint.owed"))
        following = self.replication(2).following
        following._drop("a new link")
        following._later()
        self.run_for(1.5)
        self.assertFalse(two.disk.exists("/store/epochFileCheckpoint.owed"), "forgotten with the next link")
        self.full(1, 2)
        self.elect(2, (1, 2))
        self.assertEqual(self.service(two).broker.store.max_offset("T", 0), 11)

    def test_a_slow_disk_at_the_master(self) -> None:
        """Under SYNC_FLUSH its own disk counts too: consumers do not see what a power cut there takes (A7)."""
        for number in (1, 2):
            self.replica(number, "flushDiskType=SYNC_FLUSH")
        one, two = self.brokers.values()
        self.elect(1)
        self.full(1, 2)
        self.send(one)
        self.all_level()
        one.disk.slow = 600.0
        waiting = [self.sending(one), self.sending(one, properties="WAIT\x01false\x02")]
        self.run_for(0.2)
        self.assertEqual(self.log(two).store.flushed_offset, self.log(one).end)
        self.assertLess(self.log(one).store.flushed_offset, self.log(one).end)
        self.assertEqual((self.answered(waiting[0]), self.answered(waiting[1])), (False, True))
        self.assertEqual(self.pull(one, offset=1).code, ResponseCode.PULL_NOT_FOUND)
        pulling = self.asking(
            one, RequestCode.PULL_MESSAGE, pull_fields(offset=1, sysFlag="6", suspendTimeoutMillis="15000")
        )
        self.assertEqual(self.await_(waiting[0]).code, 0)
        self.await_(pulling, 3.0)
        self.until("both are seen", lambda: len(records(self.pull(one))) == 3, 3.0)
        self.assertEqual(self.log(one).store.flushed_offset, self.log(one).end)

    def test_a_wiped_replica_is_filled(self) -> None:
        """An empty disk gets everything, from the first file on (G5)."""
        one, two = self.replica(1), self.replica(2)
        self.elect(1)
        self.full(1, 2)
        self.send_many(one, 400)
        two.kill()
        self.full(1)
        two.disk.__init__(two.random)  # type: ignore[misc]
        self.restart(two)
        self.all_follow()
        self.full(1, 2)
        self.all_level()
        self.assertEqual(self.log(two).begin, 0)


class ExpiryTests(Case):
    """A replica that was away while files expired."""

    def returned(self) -> tuple[Host, Host, int]:
        """The master; the replica that is back, and knows no master yet; how far that was confirmed."""
        expiry = f"fileReservedTime=1\ndeleteWhen={';'.join(f'{hour:02}' for hour in range(24))}"
        one, two = self.replica(1, expiry), self.replica(2, expiry)
        self.elect(1)
        self.full(1, 2)
        self.send_many(one, 20)
        self.all_level()
        self.run_for(1.0)
        confirmed = self.log(two).store.confirm_offset
        two.kill()
        self.full(1)
        self.send_many(one, 600)
        for _ in range(80):
            ReplicationCase.run_for(self, 100.0)
            self.replication(1).lease_confirmed(self.epoch, self.now_ms(1))
        self.assertGreater(self.log(one).begin, 0)
        self.restart(two)
        self.assertLess(self.log(two).end, self.log(one).begin)
        return one, two, confirmed

    def test_it_starts_over(self) -> None:
        """Its log was found equal to the master's, ends before that begins, and is copied anew."""
        one, two, _ = self.returned()
        self.all_follow()
        self.full(1, 2)
        self.all_level()
        self.assertEqual(self.log(two).begin, self.log(one).begin)

    def test_its_master_dies_when_it_has_thrown_its_log_away(self) -> None:
        """What it had confirmed is missing until it has something again: it leads nobody with an empty log."""
        one, two, confirmed = self.returned()
        self.assertGreater(confirmed, 0)
        start_over = ReplicaLog.start_over

        def start_over_alone(log: ReplicaLog) -> None:
            start_over(log)
            one.kill()

        self.patch(ReplicaLog, "start_over", start_over_alone)
        self.await_(self.follow(2))
        self.until("its log is gone", lambda: self.log(two).end == 0, 3.0)
        self.assertIn(f"confirmed up to {confirmed}", self.replication(2).ready() or "")
        two.kill()
        self.restart(two)
        self.epoch, self.set_epoch = self.epoch + 1, self.set_epoch + 1
        self.leader, self.members = 2, (2,)
        leading = self.lead(2)
        self.run_for(1.0)
        self.failureResultOf(leading, CorruptStore)
        self.restart(one)
        self.elect(1)
        self.full(1, 2)
        self.all_level()
        self.assertIsNone(self.replication(2).ready())
        self.elect(2, (1, 2))


class StatusTests(Case):
    """What tools are told."""

    def test_status_and_epochs(self) -> None:
        """907, 1007 and 906 of master, slave and fenced broker."""
        one, two = self.replica(1), self.replica(2)
        fenced = decode_ha_status(self.ask(one, RequestCode.GET_BROKER_HA_STATUS).body)
        self.assertFalse(fenced.master)
        self.assertEqual(self.ask(one, RequestCode.EXCHANGE_BROKER_HA_INFO).fields, {})
        self.elect(1)
        self.full(1, 2)
        self.send_many(one, 10)
        status = decode_ha_status(self.ask(one, RequestCode.GET_BROKER_HA_STATUS).body)
        end = self.log(one).end
        self.assertEqual((status.master, status.max_offset, status.in_sync, len(status.links)), (True, end, 1, 1))
        self.assertEqual((status.links[0].ack_offset, status.links[0].behind), (end, 0))
        slave = decode_ha_status(self.ask(two, RequestCode.GET_BROKER_HA_STATUS).body)
        self.assertEqual((slave.master, slave.slave.max_offset), (False, end))
        self.assertEqual(slave.slave.master_address, f"{one.address}:10912")
        self.assertGreater(slave.slave.last_read_ms, 1_600_000_000_000)
        epochs = decode_epochs(self.ask(two, RequestCode.GET_BROKER_EPOCH_CACHE).body)
        self.assertEqual(
            (epochs.broker_id, epochs.max_offset, [tuple(each) for each in epochs.entries]), (2, end, [(1, 0)])
        )
        told = self.ask(one, RequestCode.EXCHANGE_BROKER_HA_INFO).fields
        self.assertEqual(told["masterHaAddress"], f"{one.address}:10912")
        self.assertEqual(told["masterAddress"], f"{one.address}:10911")
        self.assertEqual(self.ask(two, RequestCode.EXCHANGE_BROKER_HA_INFO).fields, {})


def _code(answered: defer.Deferred[Any]) -> int:
    """Of an answer; -1: the connection broke before."""
    return -1 if answered.result is None else int(answered.result.code)
